/* Reads the pool samples of the bases below the layers of a view. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/samples.h"

#define SAMPLES_BASES 256

/* The last figures of each base; their sum is a sample. */
struct samples_base {
    int64_t layer_id;
    bool counts; /* it is below what is looked at; else its figures stay 0 */
    uint64_t used_bytes;
    uint64_t reserved_bytes;
};

bool
samples_counts(const struct view *view, int64_t layer_id)
{
    for (size_t i = 0; i < view->layers.count; i++) {
        int64_t above = view->layers.layers[i].layer_id;

        if (filter_has_layer(&view->filter, above) && trace_layers_reaches(&view->layers, above, layer_id))
            return true;
    }
    return false;
}

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

/* The base of a row; NULL: there are too many bases. */
static struct samples_base *
samples_base(const struct view *view, struct samples_base *bases, size_t *count, int64_t layer_id)
{
    for (size_t i = 0; i < *count; i++) {
        if (bases[i].layer_id == layer_id)
            return &bases[i];
    }
    if (*count == SAMPLES_BASES)
        return NULL;
    bases[*count] = (struct samples_base){ .layer_id = layer_id, .counts = samples_counts(view, layer_id) };
    return &bases[(*count)++];
}

static bool
samples_take(const struct view *view, sqlite3_stmt *row, struct samples_base *bases, size_t *count, struct samples *out)
{
    struct samples_base *base = samples_base(view, bases, count, sqlite3_column_int64(row, 1));
    struct sample sample = { .ns = sqlite3_column_int64(row, 0) };
    int64_t used = sqlite3_column_int64(row, 2);
    int64_t reserved = sqlite3_column_int64(row, 3);

    /* The file is not trusted: the sum over all bases must not overflow. */
    if (base == NULL || !base->counts || used < 0 || reserved < 0 || used > INT64_MAX / SAMPLES_BASES ||
        reserved > INT64_MAX / SAMPLES_BASES)
        return true;
    base->used_bytes = (uint64_t)used;
    base->reserved_bytes = (uint64_t)reserved;
    for (size_t i = 0; i < *count; i++) {
        sample.used_bytes += bases[i].used_bytes;
        sample.reserved_bytes += bases[i].reserved_bytes;
    }
    if (sample.ns < view->filter.from_ns || sample.ns > view->filter.to_ns)
        return true;
    return samples_add(out, &sample);
}

int
samples_read(const struct view *view, struct samples *out)
{
    static const char sql[] = "SELECT ns, layer_id, used_bytes, reserved_bytes FROM pool_sample ORDER BY ns, rowid";
    struct samples_base bases[SAMPLES_BASES];
    size_t base_count = 0;
    sqlite3_stmt *statement = NULL;
    int status = COMMAND_FINE;
    int code = SQLITE_DONE;

    memset(out, 0, sizeof(*out));
    if (sqlite3_prepare_v2(view->trace.db, sql, -1, &statement, NULL) != SQLITE_OK)
        return trace_failed(&view->trace);
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!samples_take(view, statement, bases, &base_count, out))
            status = trace_broken(&view->trace, "no memory for its pool samples");
    }
    if (status == COMMAND_FINE && code != SQLITE_DONE)
        status = trace_failed(&view->trace);
    sqlite3_finalize(statement);
    if (status != COMMAND_FINE)
        samples_free(out);
    return status;
}

void
samples_free(struct samples *samples)
{
    free(samples->list);
    samples->list = NULL;
    samples->count = samples->capacity = 0;
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
