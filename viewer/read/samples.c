/* Reads the pool samples of a trace. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/samples.h"

#define SAMPLES_BASES 256

/* The last figures of each base; their sum is a sample. */
struct samples_base {
    int64_t layer_id;
    bool counts; /* it is below a selected layer; else its figures stay 0 */
    uint64_t used_bytes;
    uint64_t reserved_bytes;
};

/* What samples_read collects. */
struct samples_reader {
    const struct view *view;
    struct samples *out;
    struct samples_base bases[SAMPLES_BASES];
    size_t base_count;
};

static bool
samples_add(struct samples *samples, const struct sample *sample)
{
    if (!tidei_grow(&samples->list, &samples->capacity, samples->count, 1))
        return false;
    samples->list[samples->count++] = *sample;
    if (sample->used_bytes > samples->used_peak_bytes)
        samples->used_peak_bytes = sample->used_bytes;
    if (sample->reserved_bytes > samples->reserved_peak_bytes)
        samples->reserved_peak_bytes = sample->reserved_bytes;
    return true;
}

/* Whether a layer is a base below a selected layer. What a pool above it holds, the base has counted. */
static bool
samples_is_base(const struct view *view, int64_t layer_id)
{
    return trace_layers_is_base(&view->layers, layer_id) && view_covers(view, layer_id);
}

/* The base of a row; NULL: there are too many bases. */
static struct samples_base *
samples_base(struct samples_reader *reader, int64_t layer_id)
{
    struct samples_base *bases = reader->bases;

    for (size_t i = 0; i < reader->base_count; i++) {
        if (bases[i].layer_id == layer_id)
            return &bases[i];
    }
    if (reader->base_count == SAMPLES_BASES)
        return NULL;
    bases[reader->base_count] =
        (struct samples_base){ .layer_id = layer_id, .counts = samples_is_base(reader->view, layer_id) };
    return &bases[reader->base_count++];
}

/* Keep a row as it is. One of an unknown layer is left out. */
static bool
samples_keep(struct samples_reader *reader, const struct sample_row *row)
{
    struct samples *samples = reader->out;

    if (!tidei_grow(&samples->rows, &samples->row_capacity, samples->row_count, 1))
        return false;
    samples->rows[samples->row_count++] = *row;
    return true;
}

static int
samples_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct samples_reader *reader = context;
    const struct filter *filter = &reader->view->filter;
    struct samples_base *base = samples_base(reader, sqlite3_column_int64(row, 1));
    struct sample sample = { .ns = sqlite3_column_int64(row, 0) };
    int64_t used = sqlite3_column_int64(row, 2);
    int64_t reserved = sqlite3_column_int64(row, 3);
    int64_t high = sqlite3_column_int64(row, 4);
    bool has_high =
        sqlite3_column_type(row, 4) == SQLITE_INTEGER && high >= reserved && high <= INT64_MAX / SAMPLES_BASES;
    const struct trace_layer *layer = trace_layers_find(&reader->view->layers, sqlite3_column_int64(row, 1));

    /* The file is not trusted: the sum over all bases must not overflow. */
    if (used < 0 || reserved < 0 || used > INT64_MAX / SAMPLES_BASES || reserved > INT64_MAX / SAMPLES_BASES)
        return COMMAND_FINE;
    if (layer != NULL && !samples_keep(reader, &(struct sample_row){
                                                   .ns = sample.ns,
                                                   .layer = (size_t)(layer - reader->view->layers.layers),
                                                   .used_bytes = (uint64_t)used,
                                                   .reserved_bytes = (uint64_t)reserved,
                                                   .high_bytes = (uint64_t)high,
                                                   .has_high = has_high,
                                               }))
        return trace_broken(trace, "no memory for its pool samples");
    if (base == NULL || !base->counts)
        return COMMAND_FINE;
    base->used_bytes = (uint64_t)used;
    base->reserved_bytes = (uint64_t)reserved;
    for (size_t i = 0; i < reader->base_count; i++) {
        sample.used_bytes += reader->bases[i].used_bytes;
        sample.reserved_bytes += reader->bases[i].reserved_bytes;
    }
    if (sample.ns < filter->from_ns || sample.ns > filter->to_ns || samples_add(reader->out, &sample))
        return COMMAND_FINE;
    return trace_broken(trace, "no memory for its pool samples");
}

int
samples_read(const struct view *view, struct samples *out)
{
    struct samples_reader reader = { .view = view, .out = out };
    int status;

    *out = (struct samples){ 0 };
    status = trace_each(&view->trace, samples_row, &reader,
                        "SELECT ns, layer_id, used_bytes, reserved_bytes, %s FROM pool_sample ORDER BY ns, rowid",
                        trace_has(&view->trace, "pool_sample", "reserved_high_bytes") ? "reserved_high_bytes" : "NULL");
    if (status != COMMAND_FINE)
        samples_free(out);
    return status;
}

void
samples_free(struct samples *samples)
{
    free(samples->rows);
    free(samples->list);
    *samples = (struct samples){ 0 };
}

const struct sample *
samples_at(const struct samples *samples, int64_t ns)
{
    size_t low = 0;
    size_t high = samples->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (samples->list[middle].ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &samples->list[low - 1] : NULL;
}
