/* Makes the texts of the stacks that are tried. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/stack.h>
#include <tidemark/message.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/recommend/bins.h"
#include "viewer/recommend/candidates.h"
#include "viewer/recommend/model.h"

#define MIB (UINT64_C(1) << 20)

/* The growths of the coarse choice. */
static const uint64_t candidate_growths[] = { 8 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB };

/* A growth between two is not tried where they are nearer to each other than this. */
#define CANDIDATE_NEAR 1.2

/* Room for the text of a stack with BINS_MOST bins. */
#define CANDIDATE_TEXT 4096

static int
candidates_no_memory(void)
{
    message("tidemark recommend: no memory for the stacks");
    return COMMAND_WRONG;
}

struct candidate *
candidates_find(const struct candidates *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].text, text) == 0)
            return &list->items[i];
    }
    return NULL;
}

int
candidates_add_text(struct candidates *list, const char *text, bool is_now, char why[256])
{
    struct candidate candidate = { .is_now = is_now };
    struct model model;

    model_make(text, list->device_capacity, &model);
    candidate.model = model.text;
    candidate.base = model.base;
    candidate.text = strdup(text);
    if (candidate.model == NULL || candidate.text == NULL ||
        !tidei_grow(&list->items, &list->capacity, list->count, 1)) {
        free(candidate.model);
        free(candidate.text);
        return candidates_no_memory();
    }
    why[0] = '\0';
    if (model.why != NULL)
        snprintf(why, 256, "%s", model.why);
    else if (tide_stack_check(candidate.model, NULL, 0, NULL) != TIDE_OK)
        snprintf(why, 256, "%s", tide_error_text());
    if (why[0] != '\0') {
        free(candidate.model);
        free(candidate.text);
        return COMMAND_FINDING;
    }
    list->items[list->count++] = candidate;
    return COMMAND_FINE;
}

/* Add a stack that was made here, over a base. False after a message. */
static __attribute__((format(printf, 4, 5))) bool
candidates_add(struct candidates *list, enum cost_base base, uint64_t growth, const char *format, ...)
{
    char above[CANDIDATE_TEXT], text[CANDIDATE_TEXT + 32], why[256];
    struct candidate *known;
    va_list arguments;
    int status;

    va_start(arguments, format);
    vsnprintf(above, sizeof(above), format, arguments);
    va_end(arguments);
    snprintf(text, sizeof(text), "%s%s%s", above, above[0] != '\0' ? " | " : "", cost_base_names[base]);
    known = candidates_find(list, text);
    if (known != NULL) {
        known->growth = growth;
        return true;
    }
    status = candidates_add_text(list, text, false, why);
    if (status == COMMAND_FINDING)
        message("tidemark recommend: %s: %s", text, why);
    if (status == COMMAND_FINE)
        list->items[list->count - 1].growth = growth;
    return status == COMMAND_FINE;
}

/* A size as in stack text: "96MiB". */
static const char *
candidates_size(char text[32], uint64_t bytes)
{
    static const struct {
        const char *unit;
        uint64_t bytes;
    } units[] = { { "GiB", 1024 * MIB }, { "MiB", MIB }, { "KiB", 1024 } };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (bytes != 0 && bytes % units[i].bytes == 0) {
            snprintf(text, 32, "%" PRIu64 "%s", bytes / units[i].bytes, units[i].unit);
            return text;
        }
    }
    snprintf(text, 32, "%" PRIu64, bytes);
    return text;
}

static bool
candidates_add_growth(struct candidates *list, enum cost_base base, uint64_t growth)
{
    char size[32];

    return candidates_add(list, base, growth, "pool(growth=%s)", candidates_size(size, growth));
}

/* Bins of fitted sizes for requests of up to `most` bytes, over a pool for the others. */
static bool
candidates_add_bins(struct candidates *list, enum cost_base base, const struct traffic *traffic, size_t traffic_count,
                    uint64_t most, size_t count)
{
    uint64_t sizes[BINS_MOST];
    size_t found = bins_fit(traffic, traffic_count, most, count, sizes), used = 0;
    char bins[CANDIDATE_TEXT - 64];

    for (size_t i = 0; i < found; i++)
        used += (size_t)snprintf(bins + used, sizeof(bins) - used, "%s%" PRIu64 "={fixed(%" PRIu64 ")}",
                                 i > 0 ? ", " : "", sizes[i], sizes[i]);
    return found == 0 || candidates_add(list, base, 0, "binning(%s) | pool(growth=64MiB)", bins);
}

/* Above each base, in the order of what is most worth trying; %s: the peak of what is live. */
static const char *const candidate_shapes[] = {
    "",
    "pool",
    "pool(cache=0)",
    "pool(release_threshold=%s)",
    "arena",
    "binning(1MiB={pool(growth=2MiB, alignment=512)}) | pool(growth=20MiB, alignment=512)",
    "pool(release_threshold=0)",
};

#define CANDIDATE_SHAPES  (sizeof(candidate_shapes) / sizeof(candidate_shapes[0]))
#define CANDIDATE_GROWTHS (sizeof(candidate_growths) / sizeof(candidate_growths[0]))

/* The shapes, then the growths, then bins. */
#define CANDIDATE_STEPS (CANDIDATE_SHAPES + CANDIDATE_GROWTHS + 2)

static bool
candidates_add_shape(struct candidates *list, enum cost_base base, const char *shape, uint64_t peak)
{
    const char *place = strstr(shape, "%s");
    char size[32];

    if (place == NULL)
        return candidates_add(list, base, strcmp(shape, "pool") == 0 ? 2 * MIB : 0, "%s", shape);
    return candidates_add(list, base, 0, "%.*s%s%s", (int)(place - shape), shape,
                          candidates_size(size, (peak + MIB - 1) / MIB * MIB), place + 2);
}

static bool
candidates_step(struct candidates *list, enum cost_base base, size_t step, const struct traffic *traffic,
                size_t traffic_count, uint64_t peak)
{
    if (step < CANDIDATE_SHAPES)
        return candidates_add_shape(list, base, candidate_shapes[step], peak);
    step -= CANDIDATE_SHAPES;
    if (step < CANDIDATE_GROWTHS)
        return candidates_add_growth(list, base, candidate_growths[step]);
    if (step == CANDIDATE_GROWTHS)
        return candidates_add_bins(list, base, traffic, traffic_count, 64 << 10, 8);
    return candidates_add_bins(list, base, traffic, traffic_count, MIB, 16);
}

bool
candidates_begin(struct candidates *list, size_t most, const struct traffic *traffic, size_t traffic_count)
{
    uint64_t peak = 0;

    for (size_t i = 0; i < traffic_count; i++)
        peak = traffic[i].peak_bytes > peak ? traffic[i].peak_bytes : peak;
    for (size_t step = 0; step < CANDIDATE_STEPS; step++) {
        for (int base = 0; base < COST_BASES && list->count < most; base++) {
            if (list->bases[base] && !candidates_step(list, (enum cost_base)base, step, traffic, traffic_count, peak))
                return false;
        }
    }
    return true;
}

/* The next growth below (`above` false) or above this one that was tried over the base; 0: none. */
static uint64_t
candidates_neighbour(const struct candidates *list, enum cost_base base, uint64_t growth, bool above)
{
    uint64_t found = 0;

    for (size_t i = 0; i < list->count; i++) {
        uint64_t other = list->items[i].growth;

        if (list->items[i].base != base || other == 0 || (above ? other <= growth : other >= growth))
            continue;
        if (found == 0 || (above ? other < found : other > found))
            found = other;
    }
    return found;
}

/* The geometric mean of two numbers of MiB. */
static uint64_t
candidates_between(uint64_t a, uint64_t b)
{
    uint64_t mean = a < b ? a : b;

    while ((mean + 1) * (mean + 1) <= a * b)
        mean++;
    return mean;
}

int
candidates_refine(struct candidates *list, const bool *is_best, size_t most)
{
    size_t before = list->count;

    for (size_t i = 0; i < before; i++) {
        uint64_t growth = list->items[i].growth;
        enum cost_base base = list->items[i].base;

        for (int above = 0; is_best[i] && growth != 0 && above < 2; above++) {
            uint64_t other = candidates_neighbour(list, base, growth, above == 1), between;

            if (other == 0 || list->count - before >= most)
                continue;
            between = candidates_between(other / MIB, growth / MIB) * MIB;
            if ((double)between > CANDIDATE_NEAR * (double)(other < growth ? other : growth) &&
                !candidates_add_growth(list, base, between))
                return -1;
        }
    }
    return (int)(list->count - before);
}

void
candidates_free(struct candidates *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].text);
        free(list->items[i].model);
    }
    free(list->items);
    list->items = NULL;
    list->count = list->capacity = 0;
}
