/*
 * Measures what calls of the driver cost, as an application sees it: through the bases, with nothing above them.
 *
 * The driver takes back quickly what was freed just now, and slowly what lies among other memory. So each base first
 * takes blocks of many sizes, which nobody had before, and then frees and allocates some of them while the others stay.
 * All of it stays until the last base is measured, so that the memory of each is fresh, as far as there is enough.
 *
 * What goes back is cleared, and growth waits for that (clearing.h). How long is measured first, with blocks that are
 * freed and allocated at once. All else is measured while nothing is being cleared: after each return the measurement
 * waits itself, where the device makes growth wait.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/clock.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/processor.h"
#include "viewer/recommend/measure-bases.h"
#include "viewer/recommend/measure-calls.h"
#include "viewer/recommend/measure.h"
#include "viewer/replay/streams.h"

/* Once all sizes have this share of a base's memory, only the MEASURE_MANY smallest follow: many blocks, few bytes. */
#define MEASURE_LARGE_SHARE 0.75

/* With this share of the longest wait a block is taken not to have waited as long as any. */
#define MEASURE_NO_LIMIT 0.85

/* How many orders of streams are timed, between how many streams, and how much memory each of these has. */
#define MEASURE_ORDERS      1024
#define MEASURE_STREAMS     8
#define MEASURE_ORDER_BYTES (UINT64_C(64) << 10)

/* How often each size is allocated at once after a free, and after a while. The median counts. */
#define MEASURE_WAIT_PASSES 7

/*
 * What the program's own code takes longer behind a call, since the caches then have what the driver has used: behind
 * one that goes into the kernel, and behind another. About as much as in 90 replays of five traces on an H200.
 */
#define MEASURE_BEHIND_KERNEL 600
#define MEASURE_BEHIND        150

/* With less a base is not measured. */
#define MEASURE_LEAST_BYTES (16 * MIB)

/* The share of the free memory that each of the three bases takes. */
#define MEASURE_SHARE 4

/* Each stream is followed by each other one. */
static bool
measure_order_once(struct measure *measure, const struct replay_streams *made, double *mean)
{
    static double times[MEASURE_ORDERS];

    for (size_t i = 0; i < MEASURE_ORDERS; i++) {
        size_t earlier = i % MEASURE_STREAMS, apart = 1 + i / MEASURE_STREAMS % (MEASURE_STREAMS - 1);
        double begin = (double)clock_now_ns();

        if (tide_order(measure->base, made->streams[earlier], made->streams[(earlier + apart) % MEASURE_STREAMS]) !=
            TIDE_OK)
            return false;
        times[i] = (double)clock_now_ns() - begin;
    }
    *mean = measure_mean(times, MEASURE_ORDERS);
    return true;
}

/*
 * Between streams such as a replay makes: one with the legacy default stream would wait for all others. Each has
 * memory: where that is of a pool of the driver, an order takes a third longer.
 */
static bool
measure_order(struct measure *measure, const struct replay_streams *made, struct cost *out)
{
    void *pointers[MEASURE_STREAMS] = { NULL }; /* MEASURE_ORDER_BYTES each */
    bool good = true;

    for (size_t i = 0; i < made->count && good; i++)
        good = tide_allocate(measure->base, MEASURE_ORDER_BYTES, 256, made->streams[i], &pointers[i]) == TIDE_OK;
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        double now = 0;

        processor_choose();
        good = measure_order_once(measure, made, &now);
        out->ns = measure_least(out->ns, now, pass);
    }
    for (size_t i = 0; i < made->count; i++) {
        if (pointers[i] != NULL)
            good = tide_deallocate(measure->base, pointers[i], MEASURE_ORDER_BYTES, 256, made->streams[i]) == TIDE_OK &&
                   good;
    }
    return good;
}

/* What an allocation took, by size and pass. */
struct measure_wait {
    double at_once[MEASURE_SIZES][MEASURE_WAIT_PASSES]; /* after a free of as much */
    double settled[MEASURE_SIZES][MEASURE_WAIT_PASSES]; /* once that is cleared */
};

/* Free a block and allocate it again. */
static bool
measure_again(struct measure *measure, struct measure_block *block, bool is_settled, double *ns)
{
    struct measured frees = { .count = { 0 } }, allocates = { .count = { 0 } };
    bool good = measure_empty_block(measure, block, &frees);

    if (is_settled)
        measure_settle(measure, 0);
    good = good && measure_fill_block(measure, block, &allocates);
    *ns = allocates.ns[block->size][0];
    measure_settle(measure, 0);
    return good;
}

static bool
measure_wait_times(struct measure *measure, struct measure_wait *times)
{
    bool good = true;

    for (int pass = 0; pass < MEASURE_WAIT_PASSES && good; pass++) {
        processor_choose();
        for (unsigned size = 0; size < measure->sizes && good; size++) {
            struct measure_block *block = &measure->blocks[size];

            good = measure_again(measure, block, true, &times->settled[size][pass]) &&
                   measure_again(measure, block, false, &times->at_once[size][pass]);
        }
    }
    return good;
}

/*
 * How fast memory is cleared that went back, and how long growth waits at the most: from the slope of the times of the
 * two largest blocks that do not wait for so long. No costs: the device does not wait, as far as that can be seen.
 * Medians: a single allocation may wait for something else, and one may happen not to wait.
 */
static bool
measure_wait(struct measure *measure, struct cost *out)
{
    double now[MEASURE_SIZES] = { 0 }, settled[MEASURE_SIZES] = { 0 }, most = 0, slope;
    unsigned size = measure->sizes;
    struct measure_wait times;

    if (!measure_wait_times(measure, &times))
        return false;
    for (unsigned i = 0; i < measure->sizes; i++) {
        now[i] = measure_median(times.at_once[i], MEASURE_WAIT_PASSES);
        settled[i] = measure_median(times.settled[i], MEASURE_WAIT_PASSES);
        most = measure_max(most, now[i]);
    }
    while (size > 0 && (now[size - 1] > MEASURE_NO_LIMIT * most || now[size - 1] < 2 * settled[size - 1]))
        size--;
    *out = (struct cost){ 0, 0, 0 };
    if (size >= 2 && now[size - 2] >= 1.5 * settled[size - 2]) {
        slope =
            (now[size - 1] - now[size - 2]) * (double)MIB / (double)(measure_bytes(size - 1) - measure_bytes(size - 2));
        *out = (struct cost){ most, measure_max(slope, 0), 0 };
    }
    return true;
}

static bool
measure_cuda(struct measure *measure, struct measured *fresh, struct cost out[COST_CALLS])
{
    struct cost first = measure_fit(fresh), again, back;

    if (!measure_wait(measure, &out[COST_WAIT]))
        return false;
    measure->clear_ns = out[COST_WAIT].ns_per_mib;
    if (!measure_churn(measure) || !measure_small(measure, out))
        return false;
    again = measure_fit(&measure->allocates);
    back = measure_fit(&measure->frees);
    out[COST_GROW] = measure_less(again, out[COST_ALLOCATE].ns, 0);
    out[COST_RETURN] = measure_less(back, out[COST_FREE].ns, 0);
    out[COST_FRESH] = measure_less((struct cost){ 0, first.ns_per_mib, first.spread }, 0, again.ns_per_mib);
    return true;
}

/* As many blocks of each size as the memory allows. */
static void
measure_plan(struct measure *measure)
{
    uint64_t most_bytes = measure_large_bytes(measure);

    while (measure->sizes < MEASURE_SIZES && 2 * measure_bytes(measure->sizes) <= most_bytes)
        measure->sizes++;
    for (unsigned i = 0; measure->sizes > 0 && measure->count < MEASURE_BLOCKS; i++) {
        bool is_large = (double)measure->bytes < MEASURE_LARGE_SHARE * (double)most_bytes;
        unsigned sizes = is_large || measure->sizes < MEASURE_MANY ? measure->sizes : MEASURE_MANY;
        unsigned size = i % sizes;

        if (measure_bytes(size) > most_bytes - measure->bytes)
            break;
        measure->blocks[measure->count++].size = size;
        measure->bytes += measure_bytes(size);
    }
}

/* The first memory of a pool of the driver in a process may take milliseconds: an H200 took up to 9 ms. */
static bool
measure_warm(struct measure *measure)
{
    void *block;
    double ns;

    return measure_allocate(measure, measure_bytes(0), &block, &ns) &&
           measure_free(measure, block, measure_bytes(0), &ns) &&
           tide_order(measure->base, TIDE_STREAM_ALL, 0) == TIDE_OK;
}

static bool
measure_base(enum cost_base kind, struct measure *measure, struct cost out[COST_CALLS])
{
    static const uint64_t recorded[MEASURE_STREAMS] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct replay_streams made = { 0 };
    struct measured fresh;
    double fresh_ns;
    bool good;

    if (measure->most_bytes < MEASURE_LEAST_BYTES) {
        snprintf(measure->why, sizeof(measure->why), "too little memory is free");
        return false;
    }
    measure_plan(measure);
    if (tide_stack_parse(measure->text, &measure->base) != TIDE_OK)
        return false;
    processor_choose();
    /* All is done with a context, as a replay does it. */
    good = replay_streams_make(measure->base, recorded, MEASURE_STREAMS, &made) == COMMAND_FINE;
    if (!good)
        snprintf(measure->why, sizeof(measure->why), "%s", made.failure);
    good = good && (kind != COST_DRIVER || measure_warm(measure));
    measure_settle(measure, (double)measure->most_bytes / MIB);
    good = good && measure_fill(measure, &fresh, &fresh_ns);
    if (good)
        good = kind == COST_CUDA  ? measure_cuda(measure, &fresh, out)
               : kind == COST_VMM ? measure_vmm(measure, &fresh, out)
                                  : measure_driver(measure, fresh_ns, out);
    good = good && measure_order(measure, &made, &out[COST_ORDER]);
    /* What the base knows of the streams ends before they do. */
    good = tide_order(measure->base, TIDE_STREAM_ALL, 0) == TIDE_OK && good;
    replay_streams_finish(&made);
    return good;
}

/*
 * Add what the program's own code takes longer behind each call. `vmm` serves what it has itself: requests and frees of
 * replays take what they take here.
 */
static void
measure_add_behind(enum cost_base base, struct cost costs[COST_CALLS])
{
    static const enum cost_call kernel[] = { COST_GROW, COST_RETURN, COST_MAP, COST_UNMAP };
    static const enum cost_call others[] = { COST_ORDER, COST_ALLOCATE, COST_FREE };
    size_t count = base == COST_VMM ? 1 : sizeof(others) / sizeof(others[0]);

    for (size_t i = 0; i < sizeof(kernel) / sizeof(kernel[0]); i++)
        costs[kernel[i]].ns += MEASURE_BEHIND_KERNEL;
    for (size_t i = 0; i < count; i++)
        costs[others[i]].ns += MEASURE_BEHIND;
}

struct measure_texts {
    char first[64], second[64];
};

/* Write the texts of two such bases. Of the driver's pools the first one keeps what is free. */
static void
measure_write_texts(enum cost_base base, int ordinal, struct measure_texts *out)
{
    snprintf(out->first, sizeof(out->first), "%s(device=%d%s)", cost_base_names[base], ordinal,
             base == COST_DRIVER ? ", release_threshold=1EiB" : "");
    snprintf(out->second, sizeof(out->second), "%s(device=%d)", cost_base_names[base], ordinal);
}

/* Measure the bases one after the other; the memory of all goes back at the end. Returns how many were measured. */
static int
measure_all(int ordinal, uint64_t most_bytes, struct measure *measures, struct costs *out)
{
    struct measure_texts texts[COST_BASES];
    double clear_ns = -1, reading_ns = clock_reading_ns();
    int count = 0;

    for (int base = 0; base < COST_BASES; base++) {
        struct cost measured[COST_CALLS] = { { 0, 0, 0 } };

        measure_write_texts((enum cost_base)base, ordinal, &texts[base]);
        measures[base] = (struct measure){ .text = texts[base].first,
                                           .second_text = texts[base].second,
                                           .most_bytes = most_bytes,
                                           .clear_ns = clear_ns,
                                           .reading_ns = reading_ns };
        if (measure_base((enum cost_base)base, &measures[base], measured)) {
            /* The device clears the memory of all bases, and `cuda` is the one with which that is seen. */
            if (base != COST_CUDA && clear_ns >= 0)
                measured[COST_WAIT] = out->of[COST_CUDA][COST_WAIT];
            else if (base != COST_CUDA)
                measured[COST_WAIT] = costs_default.of[base][COST_WAIT];
            count++;
            measure_add_behind((enum cost_base)base, measured);
            memcpy(out->of[base], measured, sizeof(measured));
            clear_ns = base == COST_CUDA ? measures[base].clear_ns : clear_ns;
        } else
            message("tidemark devices: device %d: %s is not measured, and keeps the costs of an %s: %s", ordinal,
                    cost_base_names[base], costs_default.device,
                    measures[base].why[0] != '\0' ? measures[base].why : tide_error_text());
    }
    for (int base = 0; base < COST_BASES; base++) {
        if (measures[base].base == NULL)
            continue;
        (void)measure_empty(&measures[base]);
        tide_resource_release(measures[base].base);
    }
    return count;
}

int
measure_device(int ordinal, struct costs *out)
{
    struct measure *measures;
    uint64_t left;
    int count;

    *out = costs_default;
    if (tide_device_name(ordinal, out->device, sizeof(out->device)) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_DEVICE_FREE, &left) != TIDE_OK) {
        message("tidemark devices: device %d: %s", ordinal, tide_error_text());
        return COMMAND_FINDING;
    }
    measures = calloc(COST_BASES, sizeof(*measures));
    if (measures == NULL) {
        message("tidemark devices: no memory for what is measured");
        return COMMAND_WRONG;
    }
    count = measure_all(ordinal, left / MEASURE_SHARE, measures, out);
    free(measures);
    if (count > 0)
        return COMMAND_FINE;
    message("tidemark devices: device %d: nothing is measured, and no costs are written", ordinal);
    return COMMAND_FINDING;
}
