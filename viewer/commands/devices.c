/* `tidemark devices`: the properties of the CUDA devices of this machine. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/commands/commands.h"
#include "viewer/base/output.h"
#include "viewer/cli/options.h"
#include "viewer/output/json.h"
#include "viewer/output/table.h"

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

static void
devices_json_peers(struct json *json, uint64_t peers)
{
    json_key(json, "peers");
    json_begin(json, '[');
    for (unsigned i = 0; i < DEVICES_PEERS; i++) {
        if ((peers >> i & 1) != 0)
            json_unsigned(json, i);
    }
    json_end(json, ']');
}

/* A value; null where it is not known. */
#define DEVICES_PUT(json, kind, name, known, value)                                                                    \
    (json_key((json), name), (known) ? json_##kind((json), (value)) : json_word((json), "null"))

/* What the device has not answered is null. */
static void
devices_json_device(struct json *json, int ordinal, const struct device *device)
{
    bool known = device->error[0] == '\0';

    json_begin(json, '{');
    json_put_signed(json, "device", ordinal);
    DEVICES_PUT(json, text, "error", !known, device->error);
    DEVICES_PUT(json, text, "name", known, device->name);
    DEVICES_PUT(json, unsigned, "total_bytes", known, device->total_bytes);
    DEVICES_PUT(json, unsigned, "free_bytes", device->free_known, device->free_bytes);
    DEVICES_PUT(json, flag, "pools", known, device->pools);
    if (known)
        devices_json_peers(json, device->peers);
    else
        DEVICES_PUT(json, flag, "peers", false, false);
    DEVICES_PUT(json, flag, "ipc", known, device->ipc);
    DEVICES_PUT(json, flag, "fabric", known, device->fabric);
    DEVICES_PUT(json, flag, "managed_pools", known, device->managed_pools);
    DEVICES_PUT(json, flag, "host_pools", known, device->host_pools);
    json_end(json, '}');
}

/* `reason` is NULL, or why there are none. */
static int
devices_json(struct emit *out, int count, int version, const char *reason)
{
    struct json json = { .out = out };
    int status = reason == NULL ? COMMAND_FINE : COMMAND_FINDING;
    struct device device;
    char driver[32];

    snprintf(driver, sizeof(driver), "%d.%d", version / 1000, version % 1000 / 10);
    json_begin(&json, '{');
    json_put_unsigned(&json, "format_version", 1);
    DEVICES_PUT(&json, text, "driver_version", reason == NULL, driver);
    DEVICES_PUT(&json, text, "reason", reason != NULL, reason);
    json_key(&json, "devices");
    json_begin(&json, '[');
    for (int i = 0; i < count; i++) {
        devices_ask(i, &device);
        if (device.error[0] != '\0')
            status = COMMAND_FINDING;
        devices_json_device(&json, i, &device);
    }
    emit_string(out, "]}\n");
    return status;
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

static void
devices_row(struct table *table, int ordinal, const struct device *device)
{
    struct output_figure number, total, free_memory;
    bool known = device->error[0] == '\0';
    char peers[256] = "?";

    if (known)
        devices_peers_text(device->peers, peers, sizeof(peers));
    table_row(table);
    table_cell(table, 0, output_count(&number, (uint64_t)ordinal));
    table_cell(table, 1, known ? device->name : "?");
    table_cell(table, 2, known ? output_size(&total, device->total_bytes) : "?");
    table_cell(table, 3, device->free_known ? output_size(&free_memory, device->free_bytes) : "?");
    table_cell(table, 4, devices_yes(device, device->pools));
    table_cell(table, 5, peers);
    table_cell(table, 6, devices_yes(device, device->ipc));
    table_cell(table, 7, devices_yes(device, device->fabric));
    table_cell(table, 8, devices_yes(device, device->managed_pools));
    table_cell(table, 9, devices_yes(device, device->host_pools));
}

static int
devices_table(struct emit *out, int count, int version)
{
    int status = COMMAND_FINE;
    struct device device;
    struct table table;

    table_begin(&table, false);
    table_columns(&table, ">DEVICE NAME >MEMORY >FREE POOLS PEERS IPC FABRIC MANAGED-POOLS HOST-POOLS");
    for (int i = 0; i < count; i++) {
        devices_ask(i, &device);
        if (device.error[0] != '\0')
            status = COMMAND_FINDING;
        devices_row(&table, i, &device);
    }
    emit_format(out, "NVIDIA driver of CUDA %d.%d\n", version / 1000, version % 1000 / 10);
    if (table_end(&table, out, false))
        return status;
    fputs("tidemark devices: no memory for the table\n", stderr);
    return COMMAND_WRONG;
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
    struct emit out;
    int status = options_parse(self, argc, argv, &options, &common);
    int version;
    int count;

    if (status != OPTIONS_GO)
        return status;
    if (argc != optind)
        return command_misused(self, "it takes no arguments");
    status = emit_open(&out, NULL, false);
    if (status != COMMAND_FINE)
        return status;
    if (tide_device_count(&count, &version) == TIDE_OK) {
        status = options.json ? devices_json(&out, count, version, NULL) : devices_table(&out, count, version);
    } else {
        fprintf(stderr, "tidemark devices: %s\n", tide_error_text());
        status = options.json ? devices_json(&out, 0, 0, tide_error_text()) : COMMAND_FINDING;
    }
    return emit_close(&out, status);
}

const struct command command_devices = {
    .name = "devices",
    .arguments = "[--json]",
    .purpose = "Say what the CUDA devices of this machine have and can do",
    .help = "\nExit status 1: there is no device, or no driver, or a device does not answer.\n",
    .options = devices_defs,
    .run = devices_run,
};
