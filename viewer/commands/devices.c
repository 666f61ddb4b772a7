/* `tidemark devices`: the properties of the CUDA devices of this machine. */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/commands/commands.h"
#include "viewer/output/json.h"
#include "viewer/output/table.h"
#include "viewer/recommend/measure.h"

/* The bits of TIDE_QUERY_PEERS. */
#define DEVICES_PEERS 64

struct devices_options {
    uint64_t device;    /* UINT64_MAX: not given */
    const char *output; /* of the costs; NULL: standard output */
    bool measure;
};

enum devices_kind {
    DEVICES_SIZE,
    DEVICES_FLAG,
    DEVICES_ORDINALS, /* a bit for each device */
};

static const struct {
    const char *name; /* in JSON */
    enum devices_kind kind;
    enum tide_query query;
} devices_figures[] = {
    { "total_bytes", DEVICES_SIZE, TIDE_QUERY_DEVICE_TOTAL },
    { "free_bytes", DEVICES_SIZE, TIDE_QUERY_DEVICE_FREE },
    { "pools", DEVICES_FLAG, TIDE_QUERY_POOLS },
    { "peers", DEVICES_ORDINALS, TIDE_QUERY_PEERS },
    { "ipc", DEVICES_FLAG, TIDE_QUERY_IPC },
    { "fabric", DEVICES_FLAG, TIDE_QUERY_FABRIC },
    { "managed_pools", DEVICES_FLAG, TIDE_QUERY_MANAGED_POOLS },
    { "host_pools", DEVICES_FLAG, TIDE_QUERY_HOST_POOLS },
    { "virtual_memory", DEVICES_FLAG, TIDE_QUERY_VIRTUAL_MEMORY },
};

#define DEVICES_FIGURES (sizeof(devices_figures) / sizeof(devices_figures[0]))

/* The titles of the table: those of the device and its name, and of the figures. */
#define DEVICES_TITLES ">DEVICE NAME >MEMORY >FREE POOLS PEERS IPC FABRIC MANAGED-POOLS HOST-POOLS VIRTUAL-MEMORY"

struct device {
    int ordinal;
    char error[256]; /* why it does not answer; "" where it does */
    char name[256];
    bool known[DEVICES_FIGURES];
    uint64_t figures[DEVICES_FIGURES];
};

/*
 * Ask the driver for all figures. False: the device does not answer; then it has an error and no figures. Only the free
 * bytes may be unknown: on some devices no context can be made.
 */
static bool
devices_ask(int ordinal, struct device *out)
{
    bool answers;

    memset(out, 0, sizeof(*out));
    out->ordinal = ordinal;
    answers = tide_device_name(ordinal, out->name, sizeof(out->name)) == TIDE_OK;
    for (size_t i = 0; answers && i < DEVICES_FIGURES; i++) {
        out->known[i] = tide_device_query(ordinal, devices_figures[i].query, &out->figures[i]) == TIDE_OK;
        if (!out->known[i] && devices_figures[i].query == TIDE_QUERY_DEVICE_FREE)
            message("tidemark devices: device %d: free memory is not known: %s", ordinal, tide_error_text());
        else
            answers = out->known[i];
    }
    if (answers)
        return true;
    memset(out->known, 0, sizeof(out->known));
    snprintf(out->error, sizeof(out->error), "%s", tide_error_text());
    message("tidemark devices: device %d: %s", ordinal, out->error);
    return false;
}

/* Room for the text of a figure: 64 ordinals. */
#define DEVICES_TEXT 256

/* A figure for JSON or for people: bytes, a flag, or ordinals as in "[1,2]" and "1 2". */
static const char *
devices_text(enum devices_kind kind, uint64_t figure, bool json, char text[DEVICES_TEXT])
{
    struct output_figure size;
    const char *before = json ? "[" : "";
    size_t used = 0;

    if (kind == DEVICES_FLAG)
        return json ? (figure != 0 ? "true" : "false") : (figure != 0 ? "yes" : "no");
    if (kind == DEVICES_SIZE) {
        if (json)
            snprintf(text, DEVICES_TEXT, "%" PRIu64, figure);
        else
            snprintf(text, DEVICES_TEXT, "%s", output_size(&size, figure));
        return text;
    }
    if (figure == 0)
        return json ? "[]" : "-";
    for (int i = 0; i < DEVICES_PEERS; i++) {
        if ((figure >> i & 1) != 0) {
            used += (size_t)snprintf(text + used, DEVICES_TEXT - used, "%s%d", before, i);
            before = json ? "," : " ";
        }
    }
    snprintf(text + used, DEVICES_TEXT - used, "%s", json ? "]" : "");
    return text;
}

static void
devices_json_text(struct json *json, const char *name, const char *text)
{
    json_key_text(json, name);
    if (text != NULL)
        json_text(json, text);
    else
        json_word(json, "null");
}

static void
devices_json_device(struct json *json, const struct device *device)
{
    bool answers = device->error[0] == '\0';
    char text[DEVICES_TEXT];

    json_begin(json, '{');
    json_put_signed(json, "device", device->ordinal);
    devices_json_text(json, "error", answers ? NULL : device->error);
    devices_json_text(json, "name", answers ? device->name : NULL);
    for (size_t i = 0; i < DEVICES_FIGURES; i++) {
        const char *figure = devices_text(devices_figures[i].kind, device->figures[i], true, text);

        json_key_text(json, devices_figures[i].name);
        json_word(json, device->known[i] ? figure : "null");
    }
    json_end(json, '}');
}

/* `reason` is NULL, or why there are no devices. */
static int
devices_json(struct emit *out, int count, const char *version, const char *reason)
{
    struct json json = { .out = out };
    int status = reason == NULL ? COMMAND_FINE : COMMAND_FINDING;
    struct device device;

    json_begin(&json, '{');
    json_put_unsigned(&json, "format_version", 1);
    devices_json_text(&json, "driver_version", version);
    devices_json_text(&json, "reason", reason);
    json_key(&json, "devices");
    json_begin(&json, '[');
    for (int i = 0; i < count; i++) {
        if (!devices_ask(i, &device))
            status = COMMAND_FINDING;
        devices_json_device(&json, &device);
    }
    emit_string(out, "]}\n");
    return status;
}

static void
devices_row(struct table *table, const struct device *device)
{
    char text[DEVICES_TEXT];

    table_row(table);
    snprintf(text, sizeof(text), "%d", device->ordinal);
    table_cell(table, 0, text);
    table_cell(table, 1, device->error[0] == '\0' ? device->name : "?");
    for (size_t i = 0; i < DEVICES_FIGURES; i++) {
        const char *figure = devices_text(devices_figures[i].kind, device->figures[i], false, text);

        table_cell(table, 2 + i, device->known[i] ? figure : "?");
    }
}

static int
devices_table(struct emit *out, int count, const char *version)
{
    int status = COMMAND_FINE;
    struct device device;
    struct table table;

    table_begin(&table, false);
    table_columns(&table, DEVICES_TITLES);
    for (int i = 0; i < count; i++) {
        if (!devices_ask(i, &device))
            status = COMMAND_FINDING;
        devices_row(&table, &device);
    }
    emit_format(out, "NVIDIA driver of CUDA %s\n", version);
    if (table_end_whole(&table, out))
        return status;
    message("tidemark devices: no memory for the table");
    return COMMAND_WRONG;
}

/* Measure one device, and write the file of costs. */
static int
devices_measure(const struct devices_options *options)
{
    uint64_t device = options->device != UINT64_MAX ? options->device : 0;
    struct costs costs;
    struct emit out;
    int status = device <= INT_MAX ? COMMAND_FINE : COMMAND_FINDING;

    if (status != COMMAND_FINE)
        message("tidemark devices: there is no device %" PRIu64, device);
    else
        status = measure_device((int)device, &costs);
    if (status == COMMAND_FINE)
        status = emit_open(&out, options->output, false);
    if (status != COMMAND_FINE)
        return status;
    costs_write(&out, &costs);
    return emit_close(&out, COMMAND_FINE);
}

static int
devices_run(struct invocation *call)
{
    const struct devices_options *options = (const struct devices_options *)call->own;
    bool json = call->common.report.format == REPORT_JSON;
    int count, version;
    char driver[32];
    struct emit out;
    int status;

    if (options->measure)
        return json ? command_misused(call->command, "--measure writes a file of costs, which is no JSON")
                    : devices_measure(options);
    if (options->output != NULL || options->device != UINT64_MAX)
        return command_misused(call->command, "--%s is for --measure", options->output != NULL ? "output" : "device");
    status = emit_open(&out, NULL, false);
    if (status != COMMAND_FINE)
        return status;
    if (tide_device_count(&count, &version) == TIDE_OK) {
        snprintf(driver, sizeof(driver), "%d.%d", version / 1000, version % 1000 / 10);
        status = json ? devices_json(&out, count, driver, NULL) : devices_table(&out, count, driver);
    } else {
        message("tidemark devices: %s", tide_error_text());
        status = json ? devices_json(&out, 0, NULL, tide_error_text()) : COMMAND_FINDING;
    }
    return emit_close(&out, status);
}

#define AT(field) offsetof(struct devices_options, field)

static const struct option_def devices_defs[] = {
    { "measure", 0, OPTION_FLAG, NULL, "measure what calls of the driver cost, for `recommend`", AT(measure), NULL, 0 },
    { "device", 'd', OPTION_COUNT, "N", "the device that --measure measures; 0", AT(device), NULL, 0 },
    { "output", 'o', OPTION_TEXT, "FILE", "write the costs to FILE; else to standard output", AT(output), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

const struct command command_devices = {
    .name = "devices",
    .arguments = "[--json] [--measure]",
    .purpose = "Say what the CUDA devices of this machine have and can do",
    .help = "\nExit status 1: there is no device, or no driver, or a device does not answer, or nothing could be "
            "measured.\n",
    .wanted = &(const struct command_arguments){ 0, NULL, "it takes no arguments" },
    .options = devices_defs,
    COMMAND_OWN(struct devices_options, .device = UINT64_MAX),
    .common = OPTIONS_JSON,
    .run = devices_run,
};
