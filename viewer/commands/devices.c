/* `tidemark devices`: says what the CUDA devices of this machine have and can do. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <libsmartcols.h>
#include <tidemark/tidemark.h>

#include "viewer/commands/commands.h"
#include "viewer/base/output.h"
#include "viewer/cli/options.h"

/* The bits of TIDE_QUERY_PEERS. */
#define DEVICES_PEERS 64

struct device {
    char error[256]; /* why it does not answer; "" where it does */
    char name[256];
    uint64_t total_bytes;
    uint64_t free_bytes;
    bool free_known;
    uint64_t peers;
    bool pools, ipc, fabric, managed_pools, host_pools;
};

static bool
devices_can(int ordinal, enum tide_query what, bool *out)
{
    uint64_t figure;
    bool known = tide_device_query(ordinal, what, &figure) == TIDE_OK;

    *out = figure != 0;
    return known;
}

/* What the driver does not answer stands in out->error. What is free is not known of a device that lets nobody in. */
static void
devices_ask(int ordinal, struct device *out)
{
    memset(out, 0, sizeof(*out));
    if (tide_device_name(ordinal, out->name, sizeof(out->name)) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_DEVICE_TOTAL, &out->total_bytes) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_PEERS, &out->peers) != TIDE_OK ||
        !devices_can(ordinal, TIDE_QUERY_POOLS, &out->pools) || !devices_can(ordinal, TIDE_QUERY_IPC, &out->ipc) ||
        !devices_can(ordinal, TIDE_QUERY_FABRIC, &out->fabric) ||
        !devices_can(ordinal, TIDE_QUERY_MANAGED_POOLS, &out->managed_pools) ||
        !devices_can(ordinal, TIDE_QUERY_HOST_POOLS, &out->host_pools)) {
        snprintf(out->error, sizeof(out->error), "%s", tide_error_text());
        fprintf(stderr, "tidemark devices: device %d: %s\n", ordinal, out->error);
        return;
    }
    out->free_known = tide_device_query(ordinal, TIDE_QUERY_DEVICE_FREE, &out->free_bytes) == TIDE_OK;
    if (!out->free_known)
        fprintf(stderr, "tidemark devices: device %d: free memory is not known: %s\n", ordinal, tide_error_text());
}

static json_t *
devices_json_peers(uint64_t peers)
{
    json_t *list = json_array();

    for (int i = 0; i < DEVICES_PEERS; i++) {
        if ((peers >> i & 1) != 0)
            json_array_append_new(list, json_integer(i));
    }
    return list;
}

/* `known` where the device has answered, else null. */
static void
devices_json_set(json_t *object, const char *key, bool known, json_t *value)
{
    if (!known)
        json_decref(value);
    json_object_set_new(object, key, known ? value : json_null());
}

static json_t *
devices_json_device(int ordinal, const struct device *device)
{
    json_t *object = json_object();
    bool known = device->error[0] == '\0';

    json_object_set_new(object, "device", json_integer(ordinal));
    devices_json_set(object, "error", !known, output_json_string(device->error));
    devices_json_set(object, "name", known, output_json_string(device->name));
    devices_json_set(object, "total_bytes", known, json_integer((json_int_t)device->total_bytes));
    devices_json_set(object, "free_bytes", device->free_known, json_integer((json_int_t)device->free_bytes));
    devices_json_set(object, "pools", known, json_boolean(device->pools));
    devices_json_set(object, "peers", known, devices_json_peers(device->peers));
    devices_json_set(object, "ipc", known, json_boolean(device->ipc));
    devices_json_set(object, "fabric", known, json_boolean(device->fabric));
    devices_json_set(object, "managed_pools", known, json_boolean(device->managed_pools));
    devices_json_set(object, "host_pools", known, json_boolean(device->host_pools));
    return object;
}

/* `reason` is NULL, or why there are none. */
static int
devices_json(int count, int version, const char *reason)
{
    json_t *document = json_object();
    json_t *list = json_array();
    int status = reason == NULL ? COMMAND_FINE : COMMAND_FINDING;
    struct device device;

    json_object_set_new(document, "format_version", json_integer(1));
    json_object_set_new(document, "driver_version",
                        reason == NULL ? json_sprintf("%d.%d", version / 1000, version % 1000 / 10) : json_null());
    json_object_set_new(document, "reason", reason != NULL ? output_json_string(reason) : json_null());
    for (int i = 0; i < count; i++) {
        devices_ask(i, &device);
        if (device.error[0] != '\0')
            status = COMMAND_FINDING;
        json_array_append_new(list, devices_json_device(i, &device));
    }
    json_object_set_new(document, "devices", list);
    return output_json(document, status);
}

/* "1 2 3"; cut where there are more than the cell has room for. */
static void
devices_peers_text(uint64_t peers, char *text, size_t capacity)
{
    size_t used = 0;

    snprintf(text, capacity, "-");
    for (int i = 0; i < DEVICES_PEERS && used + 4 < capacity; i++) {
        if ((peers >> i & 1) != 0)
            used += (size_t)snprintf(text + used, capacity - used, "%s%d", used > 0 ? " " : "", i);
    }
}

static const char *
devices_yes(const struct device *device, bool can)
{
    return device->error[0] != '\0' ? "?" : can ? "yes" : "no";
}

static int
devices_row(struct libscols_table *table, int ordinal, const struct device *device)
{
    struct output_figure number, total, free_memory;
    bool known = device->error[0] == '\0';
    char peers[256] = "?";
    const char *cells[10];

    if (known)
        devices_peers_text(device->peers, peers, sizeof(peers));
    cells[0] = output_count(&number, (uint64_t)ordinal);
    cells[1] = known ? device->name : "?";
    cells[2] = known ? output_size(&total, device->total_bytes) : "?";
    cells[3] = device->free_known ? output_size(&free_memory, device->free_bytes) : "?";
    cells[4] = devices_yes(device, device->pools);
    cells[5] = peers;
    cells[6] = devices_yes(device, device->ipc);
    cells[7] = devices_yes(device, device->fabric);
    cells[8] = devices_yes(device, device->managed_pools);
    cells[9] = devices_yes(device, device->host_pools);
    return output_table_row(table, cells);
}

static int
devices_table(int count, int version)
{
    struct libscols_table *table =
        output_table_create(">DEVICE NAME >MEMORY >FREE POOLS PEERS IPC FABRIC MANAGED-POOLS HOST-POOLS");
    int status = COMMAND_FINE;
    struct device device;

    for (int i = 0; table != NULL && i < count; i++) {
        devices_ask(i, &device);
        if (device.error[0] != '\0')
            status = COMMAND_FINDING;
        if (devices_row(table, i, &device) != 0) {
            scols_unref_table(table);
            table = NULL;
        }
    }
    if (table == NULL) {
        fputs("tidemark devices: no memory for the table\n", stderr);
        return COMMAND_WRONG;
    }
    printf("NVIDIA driver of CUDA %d.%d\n", version / 1000, version % 1000 / 10);
    output_table_print(table);
    return output_finish(status);
}

struct devices_options {
    bool json;
};

static const struct option_def devices_defs[] = {
    { "json", 'j', OPTION_FLAG, NULL, "print one JSON object", offsetof(struct devices_options, json), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
devices_run(const struct command *self, int argc, char **argv)
{
    struct devices_options options = { 0 };
    struct view_options common;
    int status = options_parse(self, argc, argv, &options, &common);
    int version;
    int count;

    if (status != OPTIONS_GO)
        return status;
    if (argc != optind)
        return command_misused(self, "it takes no arguments");
    if (tide_device_count(&count, &version) != TIDE_OK) {
        fprintf(stderr, "tidemark devices: %s\n", tide_error_text());
        return options.json ? devices_json(0, 0, tide_error_text()) : COMMAND_FINDING;
    }
    return options.json ? devices_json(count, version, NULL) : devices_table(count, version);
}

const struct command command_devices = {
    .name = "devices",
    .arguments = "[--json]",
    .purpose = "Say what the CUDA devices of this machine have and can do",
    .help = "\nExit status 1: there is no device, or no driver, or a device does not answer.\n",
    .options = devices_defs,
    .run = devices_run,
};
