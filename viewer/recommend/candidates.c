/* Makes the texts of the stacks that are tried. */
#include "config.h"

#include <inttypes.h>
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

    if (tide_stack_check(text, NULL, 0, NULL) != TIDE_OK) {
        snprintf(why, 256, "%s", tide_error_text());
        return COMMAND_FINDING;
    }
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

/* Add the layers `above` over a base; `family`: and of what growth. False after a message. */
static bool
candidates_add(struct candidates *list, enum cost_base base, const char *above, enum candidate_family family,
               uint64_t growth)
{
    char text[CANDIDATE_TEXT + 32], why[256];
    struct candidate *candidate;
    int status;

    snprintf(text, sizeof(text), "%s%s%s", above, above[0] != '\0' ? " | " : "", cost_base_names[base]);
    candidate = candidates_find(list, text);
    if (candidate == NULL) {
        status = candidates_add_text(list, text, false, why);
        if (status == COMMAND_FINDING)
            message("tidemark recommend: %s: %s", text, why);
        if (status != COMMAND_FINE)
            return false;
        candidate = &list->items[list->count - 1];
    }
    candidate->family = family;
    candidate->growth = growth;
    return true;
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

/* Pools that ask the base for so much at a time. */
static const struct {
    const char *before;
    const char *behind;
} candidate_families[CANDIDATE_FAMILIES] = {
    [CANDIDATE_POOL] = { "pool(growth=", ")" },
    [CANDIDATE_UNCACHED] = { "pool(cache=0, growth=", ")" },
    [CANDIDATE_SMALL_APART] = { "binning(64KiB={pool}) | pool(cache=0, growth=", ")" },
};

static bool
candidates_add_growth(struct candidates *list, enum cost_base base, enum candidate_family family, uint64_t growth)
{
    char above[256], size[32];

    snprintf(above, sizeof(above), "%s%s%s", candidate_families[family].before, candidates_size(size, growth),
             candidate_families[family].behind);
    return candidates_add(list, base, above, family, growth);
}

/* Bins of fitted sizes for requests of up to `most` bytes, over a pool for the others. */
static bool
candidates_add_bins(struct candidates *list, enum cost_base base, const struct traffic *traffic, size_t traffic_count,
                    uint64_t most, size_t count)
{
    uint64_t sizes[BINS_MOST];
    size_t found = bins_fit(traffic, traffic_count, most, count, sizes), used = 0;
    char above[CANDIDATE_TEXT];

    for (size_t i = 0; i < found; i++)
        used += (size_t)snprintf(above + used, sizeof(above) - used, "%s%" PRIu64 "={fixed(%" PRIu64 ")}",
                                 i > 0 ? ", " : "binning(", sizes[i], sizes[i]);
    snprintf(above + used, sizeof(above) - used, ") | pool(growth=64MiB)");
    return found == 0 || candidates_add(list, base, above, CANDIDATE_POOL, 0);
}

/* Above each base, in the order of what is most worth trying. */
static const struct candidate_step {
    const char *above; /* NULL: of a family, or bins */
    uint64_t bytes;    /* the growth, or that of `above`; of bins the largest request, and how many they are */
    size_t bins;
    enum candidate_family family;
} candidate_steps[] = {
    { "pool", 2 * MIB, 0, CANDIDATE_POOL },
    { "pool(cache=0)", 2 * MIB, 0, CANDIDATE_UNCACHED },
    { NULL, 64 * MIB, 0, CANDIDATE_POOL },
    { "binning(64KiB={pool}) | pool(cache=0)", 2 * MIB, 0, CANDIDATE_SMALL_APART },
    { "pool(release_threshold=%s)", 0, 0, 0 },
    { NULL, 512 * MIB, 0, CANDIDATE_SMALL_APART },
    { "", 0, 0, 0 },
    { NULL, 512 * MIB, 0, CANDIDATE_POOL },
    { NULL, 8 * MIB, 0, CANDIDATE_POOL },
    { "binning(1MiB={pool(growth=64KiB, cache=0, release_threshold=0)}) | pool(cache=0, release_threshold=%s)", 0, 0,
      0 },
    { NULL, 512 * MIB, 0, CANDIDATE_UNCACHED },
    { "binning(1MiB={pool}) | pool(growth=20MiB)", 0, 0, 0 },
    { "pool(cache=0, release_threshold=0)", 0, 0, 0 },
    { NULL, 32 * MIB, 0, CANDIDATE_POOL },
    { NULL, 32 * MIB, 0, CANDIDATE_UNCACHED },
    { NULL, 128 * MIB, 0, CANDIDATE_POOL },
    { NULL, 256 * MIB, 0, CANDIDATE_POOL },
    { "arena", 0, 0, 0 },
    { NULL, 64 << 10, 8, 0 },
    { NULL, MIB, 16, 0 },
    { "binning(512KiB={pool})", 0, 0, 0 },
    { "pool(release_threshold=0)", 0, 0, 0 },
};

#define CANDIDATE_STEPS (sizeof(candidate_steps) / sizeof(candidate_steps[0]))

/* The layers above the base; %s in the place of a size is the peak of what is live. */
static bool
candidates_add_above(struct candidates *list, enum cost_base base, const struct candidate_step *step, uint64_t peak)
{
    const char *place = strstr(step->above, "%s");
    char above[256], size[32];

    if (place == NULL)
        return candidates_add(list, base, step->above, step->family, step->bytes);
    snprintf(above, sizeof(above), "%.*s%s%s", (int)(place - step->above), step->above,
             candidates_size(size, (peak + MIB - 1) / MIB * MIB), place + 2);
    return candidates_add(list, base, above, step->family, step->bytes);
}

static bool
candidates_step(struct candidates *list, enum cost_base base, const struct candidate_step *step,
                const struct traffic *traffic, size_t traffic_count, uint64_t peak)
{
    if (step->above != NULL)
        return candidates_add_above(list, base, step, peak);
    if (step->bins > 0)
        return candidates_add_bins(list, base, traffic, traffic_count, step->bytes, step->bins);
    return candidates_add_growth(list, base, step->family, step->bytes);
}

bool
candidates_begin(struct candidates *list, size_t most, const struct traffic *traffic, size_t traffic_count)
{
    uint64_t peak = 0;

    for (size_t i = 0; i < traffic_count; i++)
        peak = traffic[i].peak_bytes > peak ? traffic[i].peak_bytes : peak;
    for (size_t step = 0; step < CANDIDATE_STEPS; step++) {
        for (int base = 0; base < COST_BASES && list->count < most; base++) {
            if (list->bases[base] &&
                !candidates_step(list, (enum cost_base)base, &candidate_steps[step], traffic, traffic_count, peak))
                return false;
        }
    }
    return true;
}

/* The next growth below (`above` false) or above that of `of` that was tried in its family over its base; 0: none. */
static uint64_t
candidates_neighbour(const struct candidates *list, const struct candidate *of, bool above)
{
    uint64_t found = 0, growth = of->growth;

    for (size_t i = 0; i < list->count; i++) {
        uint64_t other = list->items[i].growth;

        if (list->items[i].base != of->base || list->items[i].family != of->family || other == 0 ||
            (above ? other <= growth : other >= growth))
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
        enum candidate_family family = list->items[i].family;

        for (int above = 0; is_best[i] && growth != 0 && above < 2; above++) {
            uint64_t other = candidates_neighbour(list, &list->items[i], above == 1), between;

            if (other == 0 || list->count - before >= most)
                continue;
            between = candidates_between(other / MIB, growth / MIB) * MIB;
            if ((double)between > CANDIDATE_NEAR * (double)(other < growth ? other : growth) &&
                !candidates_add_growth(list, base, family, between))
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
