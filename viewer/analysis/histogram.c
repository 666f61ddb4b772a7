/* The distributions of sizes and lifetimes. */
#include "config.h"

#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/histogram.h"

unsigned
histogram_time_bin(uint64_t ns)
{
    /* 10^n; a bit length gives the number of digits, or one less: 1,233 / 4,096 is the logarithm of 2. */
#define TEN(exponent) (uint64_t)1e##exponent
    static const uint64_t tens[HISTOGRAM_TIMES - 1] = { TEN(0),  TEN(1),  TEN(2),  TEN(3),  TEN(4),  TEN(5),  TEN(6),
                                                        TEN(7),  TEN(8),  TEN(9),  TEN(10), TEN(11), TEN(12), TEN(13),
                                                        TEN(14), TEN(15), TEN(16), TEN(17), TEN(18) };
#undef TEN
    unsigned digits;

    if (ns >= tens[HISTOGRAM_TIMES - 2])
        return HISTOGRAM_TIMES - 1;
    digits = (unsigned)(64 - __builtin_clzll(ns | 1)) * 1233 >> 12;
    return digits + (ns >= tens[digits]);
}

uint64_t
histogram_time_begin(unsigned bin)
{
    uint64_t ns = 1;

    if (bin == 0)
        return 0;
    while (--bin > 0)
        ns *= 10;
    return ns;
}

static int
histogram_begin(void *context)
{
    struct histogram *histogram = context;

    tallies_clear(&histogram->exact);
    memset(histogram->times, 0, sizeof(histogram->times));
    memset(histogram->events, 0, sizeof(histogram->events));
    return COMMAND_FINE;
}

static int
histogram_alloc(void *context, const struct scan_life *life)
{
    struct histogram *histogram = context;

    int status;

    if (life->status != 0)
        return COMMAND_FINE;
    status = tallies_alloc(&histogram->exact, life);
    /* Sums need no order: with many sizes a tally that is found once more, at the free, is a miss of the caches. */
    return status == COMMAND_FINE && life->freed ? tallies_release(&histogram->exact, life) : status;
}

static void
histogram_add(struct histogram_bin *bin, const struct scan_life *life)
{
    uint64_t ns = (uint64_t)life->free_ns - (uint64_t)life->alloc_ns;

    bin->count++;
    bin->bytes += life->size;
    bin->byte_ns += (unsigned __int128)life->size * ns;
}

static int
histogram_release(void *context, const struct scan_life *life)
{
    struct histogram *histogram = context;
    uint64_t ns = (uint64_t)life->free_ns - (uint64_t)life->alloc_ns;

    histogram_add(&histogram->times[histogram_time_bin(ns)], life);
    /* scan_events includes this free and the allocation; only the events between the two count. */
    histogram_add(&histogram->events[groups_class(scan_events(histogram->scan) - life->event - 2)], life);
    return COMMAND_FINE;
}

static int
histogram_end(void *context, int64_t last_ns)
{
    struct histogram *histogram = context;
    struct tally *all = &histogram->exact.all;
    unsigned __int128 freed_byte_ns = 0;

    tallies_finish(&histogram->exact, last_ns);
    memset(histogram->classes, 0, sizeof(histogram->classes));
    for (size_t i = 0; i < histogram->exact.groups.count; i++)
        tally_add(&histogram->classes[groups_class(histogram->exact.groups.keys[i])], &histogram->exact.list[i]);
    for (size_t i = 0; i < HISTOGRAM_TIMES; i++)
        freed_byte_ns += histogram->times[i].byte_ns;
    histogram->live = (struct histogram_bin){ all->live_count, all->live_bytes, all->byte_ns - freed_byte_ns };
    return COMMAND_FINE;
}

static const struct scan_unit histogram_unit = {
    .attach = true,
    .begin = histogram_begin,
    .alloc = histogram_alloc,
    .free = histogram_release,
    .end = histogram_end,
};

int
histogram_make(struct view *view, struct histogram *out)
{
    struct scan_pass pass = { &histogram_unit, out };
    int status;

    memset(out, 0, sizeof(*out));
    tallies_begin(&out->exact, view, GROUPS_SIZE);
    status = view_scan(view, &pass, 1);
    if (status != COMMAND_FINE)
        histogram_free(out);
    return status;
}

void
histogram_free(struct histogram *histogram)
{
    tallies_free(&histogram->exact);
}
