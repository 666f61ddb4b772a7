/* The GPUs that a trace says its program had. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/devices.h"
#include "viewer/base/output.h"

/* What meta.devices says of one. */
struct device {
    int64_t ordinal;
    const char *name;     /* borrows */
    uint64_t total_bytes; /* 0: not known */
};

/* The list; NULL where there is none, or what stands there is no list. */
static json_t *
devices_list(struct view *view)
{
    char *text = trace_meta(&view->trace, "devices");
    json_t *list = text != NULL ? json_loads(text, 0, NULL) : NULL;

    free(text);
    if (json_is_array(list) && json_array_size(list) > 0)
        return list;
    json_decref(list);
    return NULL;
}

static bool
devices_read(const json_t *item, struct device *out)
{
    const json_t *total_bytes = json_object_get(item, "total_bytes");

    out->ordinal = json_integer_value(json_object_get(item, "device"));
    out->name = json_string_value(json_object_get(item, "name"));
    out->total_bytes = json_integer_value(total_bytes) > 0 ? (uint64_t)json_integer_value(total_bytes) : 0;
    return json_is_integer(json_object_get(item, "device")) && out->name != NULL;
}

static bool
devices_is_used(struct view *view, int64_t ordinal)
{
    char sql[96];
    int64_t found;

    snprintf(sql, sizeof(sql), "SELECT EXISTS (SELECT 1 FROM layer WHERE device = %" PRId64 ")", ordinal);
    return trace_integer(&view->trace, sql, &found) == COMMAND_FINE && found != 0;
}

void
devices_report_lines(struct view *view)
{
    static const struct report_column gpu = { NULL, "GPU", REPORT_TEXT };
    json_t *list = trace_has(&view->trace, "layer", "device") ? devices_list(view) : NULL;
    struct output_figure total;
    struct device device;
    char text[512];

    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!devices_read(json_array_get(list, i), &device) || !devices_is_used(view, device.ordinal))
            continue;
        if (device.total_bytes != 0)
            snprintf(text, sizeof(text), "%" PRId64 ": %s, %s", device.ordinal, device.name,
                     output_size(&total, device.total_bytes));
        else
            snprintf(text, sizeof(text), "%" PRId64 ": %s", device.ordinal, device.name);
        report_field(&view->report, &gpu, cell_text(text));
    }
    json_decref(list);
}

void
devices_report_table(struct view *view)
{
    static const struct report_column columns[] = {
        { "device", NULL, REPORT_COUNT },
        { "name", NULL, REPORT_TEXT },
        { "total_bytes", NULL, REPORT_SIZE },
    };
    json_t *list = devices_list(view);
    struct device device;

    if (list == NULL)
        return;
    report_table(&view->report, "devices", NULL, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (devices_read(json_array_get(list, i), &device))
            report_row(&view->report, (struct report_cell[]){
                                          cell_signed(device.ordinal),
                                          cell_text(device.name),
                                          device.total_bytes != 0 ? cell_unsigned(device.total_bytes) : cell_none(),
                                      });
    }
    json_decref(list);
}
