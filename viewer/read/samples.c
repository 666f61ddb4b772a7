/* Reads the pool samples of a trace. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/samples.h"

/* The file is not trusted: the sum over the layers of a stack must not overflow. */
#define SAMPLES_MOST (INT64_MAX / 256)

/* What samples_read collects. */
struct samples_reader {
    const struct trace_layers *layers;
    struct samples *out;
};

/* A row of an unknown layer is left out. */
static int
samples_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct samples_reader *reader = context;
    struct samples *samples = reader->out;
    const struct trace_layer *layer = trace_layers_find(reader->layers, sqlite3_column_int64(row, 1));
    int64_t used = sqlite3_column_int64(row, 2);
    int64_t reserved = sqlite3_column_int64(row, 3);
    int64_t high = sqlite3_column_int64(row, 4);

    if (layer == NULL || used < 0 || reserved < 0 || used > SAMPLES_MOST || reserved > SAMPLES_MOST)
        return COMMAND_FINE;
    if (!tidei_grow(&samples->rows, &samples->row_capacity, samples->row_count, 1))
        return trace_broken(trace, "no memory for its pool samples");
    samples->rows[samples->row_count++] = (struct sample_row){
        .ns = sqlite3_column_int64(row, 0),
        .layer = (size_t)(layer - reader->layers->layers),
        .used_bytes = (uint64_t)used,
        .reserved_bytes = (uint64_t)reserved,
        .high_bytes = (uint64_t)high,
        .has_high = sqlite3_column_type(row, 4) == SQLITE_INTEGER && high >= reserved && high <= SAMPLES_MOST,
    };
    return COMMAND_FINE;
}

int
samples_read(const struct trace *trace, const struct trace_layers *layers, struct samples *out)
{
    struct samples_reader reader = { .layers = layers, .out = out };
    int status;

    *out = (struct samples){ 0 };
    status = trace_each(trace, samples_row, &reader,
                        "SELECT ns, layer_id, used_bytes, reserved_bytes, %s FROM pool_sample ORDER BY ns, rowid",
                        trace_has(trace, "pool_sample", "reserved_high_bytes") ? "reserved_high_bytes" : "NULL");
    if (status != COMMAND_FINE)
        samples_free(out);
    return status;
}

void
samples_free(struct samples *samples)
{
    free(samples->rows);
    *samples = (struct samples){ 0 };
}
