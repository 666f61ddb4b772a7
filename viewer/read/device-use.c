/* Reads what the devices of a trace had in use. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/device-use.h"
#include "viewer/read/layer-graph.h"

/* No machine has more; a damaged trace may. */
#define DEVICE_USE_DEVICES 256

/* What all bases hold on a device. */
struct device_sum {
    int64_t device;
    uint64_t bytes;
};

/* What device_use_read collects. */
struct device_use_reader {
    const struct view *view;
    const struct samples *samples;
    struct device_uses *out;
    size_t next;             /* the next of the samples */
    uint64_t *held;          /* what each base holds, by the index of the layer; 0 for other layers */
    struct device_sum *sums; /* owns; of each device with a sampled base */
    size_t sum_count, sum_capacity;
    struct id_map sum_places; /* device to the place in `sums` */
};

/* The figures of a device; NULL: there are too many devices, or no memory. */
static struct device_use *
device_use_of(struct device_uses *uses, int64_t device)
{
    for (size_t i = 0; i < uses->count; i++) {
        if (uses->list[i].device == device)
            return &uses->list[i];
    }
    if (uses->count == DEVICE_USE_DEVICES || !tidei_grow(&uses->list, &uses->capacity, uses->count, 1))
        return NULL;
    uses->list[uses->count] = (struct device_use){ .device = device };
    return &uses->list[uses->count++];
}

/* A base holds what the sample says from now on. */
static void
device_use_hold(struct device_use_reader *reader, const struct sample_row *row)
{
    int64_t device = reader->view->layers.layers[row->layer].device;
    const uint32_t *place = id_map_find(&reader->sum_places, (uint64_t)device);

    if (place == NULL) {
        if (!tidei_grow(&reader->sums, &reader->sum_capacity, reader->sum_count, 1) ||
            !id_map_add(&reader->sum_places, (uint64_t)device, (uint32_t)reader->sum_count))
            return;
        reader->sums[reader->sum_count++] = (struct device_sum){ .device = device };
        place = id_map_find(&reader->sum_places, (uint64_t)device);
    }
    reader->sums[*place].bytes += row->reserved_bytes - reader->held[row->layer];
    reader->held[row->layer] = row->reserved_bytes;
}

/* What all bases hold on a device, by their last samples up to `ns`. */
static uint64_t
device_use_held(struct device_use_reader *reader, int64_t device, int64_t ns)
{
    const struct trace_layers *layers = &reader->view->layers;
    const struct samples *samples = reader->samples;
    const uint32_t *place;

    for (; reader->next < samples->row_count && samples->rows[reader->next].ns <= ns; reader->next++) {
        const struct sample_row *row = &samples->rows[reader->next];

        if (trace_layer_is_base(&layers->layers[row->layer]))
            device_use_hold(reader, row);
    }
    place = id_map_find(&reader->sum_places, (uint64_t)device);
    return place != NULL ? reader->sums[*place].bytes : 0;
}

static void
device_use_count(struct device_use_reader *reader, struct device_use *use, const struct device_use_row *row)
{
    const struct filter *filter = &reader->view->filter;
    uint64_t held = device_use_held(reader, row->device, row->ns);
    uint64_t beside = row->used_bytes > held ? row->used_bytes - held : 0;

    if (row->ns > filter->to_ns)
        return;
    use->used_bytes = row->used_bytes;
    /* What stood when the time range began counts as its first moment. */
    if (row->ns < filter->from_ns || row->used_bytes > use->peak_bytes) {
        use->peak_bytes = row->used_bytes;
        use->peak_ns = row->ns < filter->from_ns ? filter->from_ns : row->ns;
        use->peak_held_bytes = held;
    }
    if (row->ns < filter->from_ns || beside > use->beside_bytes)
        use->beside_bytes = beside;
}

static int
device_use_row(void *context, const struct trace *trace, sqlite3_stmt *statement)
{
    struct device_use_reader *reader = context;
    struct device_uses *uses = reader->out;
    int64_t free_bytes = sqlite3_column_int64(statement, 2);
    int64_t total_bytes = sqlite3_column_int64(statement, 3);
    struct device_use_row row = { .ns = sqlite3_column_int64(statement, 0),
                                  .device = sqlite3_column_int64(statement, 1) };
    struct device_use *use;

    /* The file is not trusted. */
    if (free_bytes < 0 || total_bytes < free_bytes)
        return COMMAND_FINE;
    row.used_bytes = (uint64_t)(total_bytes - free_bytes);
    use = device_use_of(uses, row.device);
    if (use == NULL && uses->count == DEVICE_USE_DEVICES)
        return COMMAND_FINE;
    if (use == NULL || !tidei_grow(&uses->rows, &uses->row_capacity, uses->row_count, 1))
        return trace_broken(trace, "no memory for its samples of devices");
    uses->rows[uses->row_count++] = row;
    use->total_bytes = (uint64_t)total_bytes;
    device_use_count(reader, use, &row);
    return COMMAND_FINE;
}

int
device_use_read(const struct view *view, const struct samples *samples, struct device_uses *out)
{
    struct device_use_reader reader = { .view = view, .samples = samples, .out = out };
    int status;

    *out = (struct device_uses){ 0 };
    if (!trace_has(&view->trace, "device_sample", "ns device free_bytes total_bytes"))
        return COMMAND_FINE;
    reader.held = calloc(view->layers.count + 1, sizeof(*reader.held));
    if (reader.held == NULL)
        return trace_broken(&view->trace, "no memory for its samples of devices");
    status = trace_each(&view->trace, device_use_row, &reader,
                        "SELECT ns, device, free_bytes, total_bytes FROM device_sample ORDER BY ns, rowid");
    free(reader.held);
    free(reader.sums);
    id_map_free(&reader.sum_places);
    if (status != COMMAND_FINE)
        device_use_free(out);
    return status;
}

void
device_use_free(struct device_uses *uses)
{
    free(uses->rows);
    free(uses->list);
    *uses = (struct device_uses){ 0 };
}

const struct device_use_row *
device_use_at(const struct device_uses *uses, int64_t device, int64_t ns)
{
    const struct device_use_row *found = NULL;

    for (size_t i = 0; i < uses->row_count && uses->rows[i].ns <= ns; i++) {
        if (uses->rows[i].device == device)
            found = &uses->rows[i];
    }
    return found;
}

uint64_t
device_use_beside_peak(const struct device_use *use)
{
    return use->peak_bytes > use->peak_held_bytes ? use->peak_bytes - use->peak_held_bytes : 0;
}
