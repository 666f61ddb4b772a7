/* Reads the GPUs that a trace lists in meta.devices. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/devices.h"
#include "viewer/read/json-pull.h"

/* What one object of the list says. The last of several fields of one name counts. */
struct devices_item {
    struct trace_device device;
    bool has_ordinal;
};

/* One field, whose value begins with `token`. False: it is no JSON, or there is no memory. */
static bool
devices_field(struct json_pull *pull, const char *key, enum json_token token, struct devices_item *item)
{
    struct trace_device *device = &item->device;

    if (strcmp(key, "device") == 0) {
        item->has_ordinal = token == JSON_INTEGER;
        device->ordinal = pull->integer;
    } else if (strcmp(key, "total_bytes") == 0) {
        device->total_bytes = token == JSON_INTEGER && pull->integer > 0 ? (uint64_t)pull->integer : 0;
    } else if (strcmp(key, "name") == 0) {
        free(device->name);
        device->name = token == JSON_TEXT ? strdup(pull->text) : NULL;
    }
    return json_pull_skip(pull, token);
}

/* The fields of an object that has begun. */
static bool
devices_object(struct json_pull *pull, struct devices_item *item)
{
    enum json_token token;
    bool fine = true;

    while (fine && (token = json_pull_next(pull)) == JSON_KEY) {
        char *key = strdup(pull->text);

        fine = key != NULL && devices_field(pull, key, json_pull_next(pull), item);
        free(key);
    }
    return fine && token == JSON_OBJECT_END;
}

/* An element of the list, which begins with `token`. */
static bool
devices_element(struct json_pull *pull, enum json_token token, struct trace_devices *out)
{
    struct devices_item item = { .has_ordinal = false };

    if (token != JSON_OBJECT)
        return json_pull_skip(pull, token);
    if (devices_object(pull, &item) && tidei_grow(&out->list, &out->capacity, out->count, 1)) {
        if (item.has_ordinal && item.device.name != NULL)
            out->list[out->count++] = item.device;
        else
            free(item.device.name);
        return true;
    }
    free(item.device.name);
    return false;
}

/* All of the list; *any: it has an element. False: it is no list, or no JSON. */
static bool
devices_list(struct json_pull *pull, struct trace_devices *out, bool *any)
{
    enum json_token token;

    if (json_pull_next(pull) != JSON_ARRAY)
        return false;
    while ((token = json_pull_next(pull)) != JSON_ARRAY_END) {
        if (!devices_element(pull, token, out))
            return false;
        *any = true;
    }
    return json_pull_next(pull) == JSON_END;
}

bool
trace_devices_read(const struct trace *trace, struct trace_devices *out)
{
    char *text = trace_meta(trace, "devices");
    struct json_pull pull;
    bool any = false;

    *out = (struct trace_devices){ 0 };
    if (text == NULL)
        return false;
    json_pull_open_text(&pull, text);
    if (!devices_list(&pull, out, &any))
        any = false;
    json_pull_close(&pull);
    if (!any)
        trace_devices_free(out);
    return any;
}

void
trace_devices_free(struct trace_devices *devices)
{
    for (size_t i = 0; i < devices->count; i++)
        free(devices->list[i].name);
    free(devices->list);
    *devices = (struct trace_devices){ 0 };
}

bool
trace_devices_is_used(const struct trace *trace, int64_t ordinal)
{
    char sql[96];
    int64_t found;

    snprintf(sql, sizeof(sql), "SELECT EXISTS (SELECT 1 FROM layer WHERE device = %" PRId64 ")", ordinal);
    return trace_integer(trace, sql, &found) == COMMAND_FINE && found != 0;
}
