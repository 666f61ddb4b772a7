/* Reads the pool samples of the bases below the layers of a view. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/samples.h"

#define SAMPLES_BASES 256

/* The last figures of each base; their sum is a sample. */
struct samples_base {
    int64_t layer_id;
    bool counts; /* a base below a selected layer; the figures of other layers are a part of a base's, and stay 0 */
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t high_bytes; /* the most that it had reserved, also between samples; 0: not known */
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

/* Where one base counts, and the time is looked at from the start, its own high is the peak. */
static void
samples_apply_high(struct samples_reader *reader)
{
    const struct samples_base *only = NULL;
    size_t count = 0;

    for (size_t i = 0; i < reader->base_count; i++) {
        count += reader->bases[i].counts;
        if (reader->bases[i].counts)
            only = &reader->bases[i];
    }
    reader->out->reserved_high_bytes = reader->out->reserved_peak_bytes;
    if (count == 1 && reader->out->reserved_high_bytes < only->high_bytes)
        reader->out->reserved_high_bytes = only->high_bytes;
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
        (struct samples_base){ .layer_id = layer_id,
                               .counts = trace_layers_is_base(&reader->view->layers, layer_id) &&
                                         view_covers(reader->view, layer_id) };
    return &bases[reader->base_count++];
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

    /* The file is not trusted: the sum over all bases must not overflow. */
    if (base != NULL && base->counts && sample.ns <= filter->to_ns && high > 0 && high <= INT64_MAX / SAMPLES_BASES)
        base->high_bytes = (uint64_t)high;
    if (base == NULL || !base->counts || used < 0 || reserved < 0 || used > INT64_MAX / SAMPLES_BASES ||
        reserved > INT64_MAX / SAMPLES_BASES)
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

const char *
samples_high(const struct trace *trace, const struct filter *filter)
{
    bool is_known = filter->from_ns == INT64_MIN && trace_has(trace, "pool_sample", "reserved_high_bytes");

    return is_known ? "ifnull(reserved_high_bytes, 0)" : "0";
}

int
samples_read(const struct view *view, struct samples *out)
{
    struct samples_reader reader = { .view = view, .out = out };
    int status;

    *out = (struct samples){ 0 };
    status = trace_each(&view->trace, samples_row, &reader,
                        "SELECT ns, layer_id, used_bytes, reserved_bytes, %s FROM pool_sample ORDER BY ns, rowid",
                        samples_high(&view->trace, &view->filter));
    if (status != COMMAND_FINE)
        samples_free(out);
    else
        samples_apply_high(&reader);
    return status;
}

void
samples_free(struct samples *samples)
{
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
