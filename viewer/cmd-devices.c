/* `tidemark devices`: says what the CUDA devices of this machine have and can do. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>
#include <libsmartcols.h>
#include <tidemark/tidemark.h>

#include "viewer/command.h"
#include "viewer/output.h"

/* The bits of TIDE_QUERY_PEERS. */
#define DEVICES_PEERS 64

struct device {
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

/* False, and said, where the driver does not answer. What is free is not known of a device that lets nobody in. */
static bool
devices_ask(int ordinal, struct device *out)
{
    if (tide_device_name(ordinal, out->name, sizeof(out->name)) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_DEVICE_TOTAL, &out->total_bytes) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_PEERS, &out->peers) != TIDE_OK ||
        !devices_can(ordinal, TIDE_QUERY_POOLS, &out->pools) || !devices_can(ordinal, TIDE_QUERY_IPC, &out->ipc) ||
        !devices_can(ordinal, TIDE_QUERY_FABRIC, &out->fabric) ||
        !devices_can(ordinal, TIDE_QUERY_MANAGED_POOLS, &out->managed_pools) ||
        !devices_can(ordinal, TIDE_QUERY_HOST_POOLS, &out->host_pools)) {
        fprintf(stderr, "tidemark devices: device %d: %s\n", ordinal, tide_error_text());
        return false;
    }
    out->free_known = tide_device_query(ordinal, TIDE_QUERY_DEVICE_FREE, &out->free_bytes) == TIDE_OK;
    if (!out->free_known)
        fprintf(stderr, "tidemark devices: device %d: free memory is not known: %s\n", ordinal, tide_error_text());
    return true;
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

static json_t *
devices_json_device(int ordinal, const struct device *device)
{
    json_t *object = json_object();

    json_object_set_new(object, "device", json_integer(ordinal));
    json_object_set_new(object, "name", output_json_string(device->name));
    json_object_set_new(object, "total_bytes", json_integer((json_int_t)device->total_bytes));
    json_object_set_new(object, "free_bytes",
                        device->free_known ? json_integer((json_int_t)device->free_bytes) : json_null());
    json_object_set_new(object, "pools", json_boolean(device->pools));
    json_object_set_new(object, "peers", devices_json_peers(device->peers));
    json_object_set_new(object, "ipc", json_boolean(device->ipc));
    json_object_set_new(object, "fabric", json_boolean(device->fabric));
    json_object_set_new(object, "managed_pools", json_boolean(device->managed_pools));
    json_object_set_new(object, "host_pools", json_boolean(device->host_pools));
    return object;
}

/* `reason` is NULL, or why there are none. */
static int
devices_json(int count, int version, const char *reason)
{
    json_t *document = json_object();
    json_t *list = json_array();
    struct device device;

    json_object_set_new(document, "format_version", json_integer(1));
    json_object_set_new(document, "driver_version",
                        reason == NULL ? json_sprintf("%d.%d", version / 1000, version % 1000 / 10) : json_null());
    json_object_set_new(document, "reason", reason != NULL ? output_json_string(reason) : json_null());
    for (int i = 0; i < count; i++) {
        if (!devices_ask(i, &device)) {
            json_decref(list);
            json_decref(document);
            return COMMAND_WRONG;
        }
        json_array_append_new(list, devices_json_device(i, &device));
    }
    json_object_set_new(document, "devices", list);
    return output_json(document, reason == NULL ? COMMAND_FINE : COMMAND_FINDING);
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

static int
devices_row(struct libscols_table *table, int ordinal, const struct device *device)
{
    struct output_figure number, total, free_memory;
    char peers[256];
    const char *cells[10];

    devices_peers_text(device->peers, peers, sizeof(peers));
    cells[0] = output_count(&number, (uint64_t)ordinal);
    cells[1] = device->name;
    cells[2] = output_size(&total, device->total_bytes);
    cells[3] = device->free_known ? output_size(&free_memory, device->free_bytes) : "?";
    cells[4] = device->pools ? "yes" : "no";
    cells[5] = peers;
    cells[6] = device->ipc ? "yes" : "no";
    cells[7] = device->fabric ? "yes" : "no";
    cells[8] = device->managed_pools ? "yes" : "no";
    cells[9] = device->host_pools ? "yes" : "no";
    return output_table_row(table, cells);
}

static int
devices_table(int count, int version)
{
    struct libscols_table *table =
        output_table_create(">DEVICE NAME >MEMORY >FREE POOLS PEERS IPC FABRIC MANAGED-POOLS HOST-POOLS");
    struct device device;

    for (int i = 0; table != NULL && i < count; i++) {
        if (!devices_ask(i, &device)) {
            scols_unref_table(table);
            return COMMAND_WRONG;
        }
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
    return output_finish(COMMAND_FINE);
}

static int
devices_run(const struct command *self, int argc, char **argv)
{
    static const struct option options[] = {
        { "help", no_argument, NULL, 'h' },
        { "json", no_argument, NULL, 'j' },
        { NULL, 0, NULL, 0 },
    };
    bool json = false;
    int version;
    int option;
    int count;

    while ((option = getopt_long(argc, argv, "hj", options, NULL)) != -1) {
        switch (option) {
        case 'h':
            return command_help(self);
        case 'j':
            json = true;
            break;
        default:
            return COMMAND_WRONG;
        }
    }
    if (argc != optind)
        return command_misused(self, "it takes no arguments");
    if (tide_device_count(&count, &version) != TIDE_OK) {
        fprintf(stderr, "tidemark devices: %s\n", tide_error_text());
        return json ? devices_json(0, 0, tide_error_text()) : COMMAND_FINDING;
    }
    return json ? devices_json(count, version, NULL) : devices_table(count, version);
}

const struct command command_devices = {
    .name = "devices",
    .arguments = "[--json]",
    .purpose = "Say what the CUDA devices of this machine have and can do",
    .help = "  -j, --json  print one JSON object\n"
            "  -h, --help  print this\n"
            "\nExit status 1: there is no device, or no driver.\n",
    .run = devices_run,
};
