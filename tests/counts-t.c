/* Tests the counts of many layers that end, and whose numbers later layers have. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/trace/events/counts.h"
#include "tests/point.h"
#include "tests/tap.h"
#include "tests/trace.h"

#define LAYERS ((uint32_t)10000)

static struct tide_resource *base;

/* A layer that has counted one allocation. */
static struct tide_resource *
counting_layer(void)
{
    const struct tide_fault_options options = { TIDE_OPTIONS(options), .nth = 1000 };
    struct tide_resource *layer;

    if (tide_fault_create(base, &options, &layer) != TIDE_OK) {
        diag("%s", tide_error_text());
        abort();
    }
    give(layer, take(layer, 1), 1);
    return layer;
}

/* Have what has changed as written, and add up what has the name. */
static uint64_t
write_counts(struct tidei_counts *counts, const char *name, size_t *rows)
{
    const struct tidei_layer_count *taken = tidei_counts_take(counts, rows);
    uint64_t sum = 0;

    for (size_t i = 0; i < *rows; i++) {
        if (strcmp(taken[i].name, name) == 0)
            sum += taken[i].value;
    }
    tidei_counts_written(counts);
    return sum;
}

int
main(void)
{
    struct tide_resource **layers = calloc(LAYERS, sizeof(struct tide_resource *));
    struct tidei_counts *counts = tidei_counts_new();
    size_t rows = 0, none = 0;
    unsigned looks;
    uint64_t sum;

    plan(4);
    if (layers == NULL || counts == NULL)
        return 1;
    base = stack_of("sim");
    tidei_counts_keep(counts);
    (void)point_count("counts.looks");
    for (uint32_t i = 0; i < LAYERS; i++) {
        layers[i] = counting_layer();
        tidei_counts_watch(counts, layers[i], i + 1);
    }
    sum = write_counts(counts, "counted", &rows);
    (void)write_counts(counts, "counted", &none);
    ok(sum == LAYERS && rows == (size_t)2 * LAYERS && none == 0, "10,000 layers that live at once have counts each");
    for (uint32_t i = 0; i < LAYERS; i++) {
        if (i % 3 == 0)
            continue;
        tidei_counts_unwatch(counts, layers[i]);
        tide_resource_release(layers[i]);
        if (i % 2 == 0)
            (void)write_counts(counts, "counted", &none);
        layers[i] = counting_layer();
        tidei_counts_watch(counts, layers[i], i + 1);
        if (i == 1000)
            tidei_counts_unwatch(counts, layers[0]);
    }
    looks = point_count("counts.looks");
    diag("%u looks for %u counts", looks, 4 * LAYERS);
    ok(looks <= 4 * LAYERS, "a layer finds the counts that it goes on with at once, however many layers live");
    for (uint32_t i = 0; i < LAYERS; i++)
        give(layers[i], take(layers[i], 1), 1);
    sum = write_counts(counts, "counted", &rows);
    ok(rows == LAYERS - 1 && sum == 2 * (LAYERS - 1) + LAYERS / 3 * 2, "each goes on from its own count");
    for (uint32_t i = 1; i < LAYERS; i++)
        tidei_counts_unwatch(counts, layers[i]);
    (void)write_counts(counts, "counted", &rows);
    ok(rows == 0 && !tidei_counts_wait(counts), "counts that were written as they are need no transaction at the end");
    for (uint32_t i = 0; i < LAYERS; i++)
        tide_resource_release(layers[i]);
    tide_resource_release(base);
    tidei_counts_free(counts);
    free(layers);
    return done();
}
