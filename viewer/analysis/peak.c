/* Finds the peak of the live bytes, what was live at it, and what it would have been without each group. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/peak.h"

/* Remove the levels that are below the threshold now, except the first after each that is not. */
static void
levels_thin(struct levels *self, uint64_t threshold)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->count; i++) {
        if (self->list[i].bytes >= threshold || (kept > 0 && self->list[kept - 1].bytes >= threshold))
            self->list[kept++] = self->list[i];
    }
    self->count = kept;
}

/* Make room for one more level. False: no memory, or too many. */
static bool
levels_reserve(struct levels *self, uint64_t threshold)
{
    if (self->count < self->capacity)
        return true;
    levels_thin(self, threshold);
    if (self->count < self->capacity / 2)
        return true;
    return self->count < (self->most > 0 ? self->most : LEVELS_MAX) &&
           tidei_grow(&self->list, &self->capacity, self->capacity, 1);
}

void
levels_keep(struct levels *self, int64_t ns, uint64_t bytes, uint64_t threshold)
{
    if (self->overflowed)
        return;
    if (!levels_reserve(self, threshold)) {
        self->overflowed = true;
        self->count = 0;
        return;
    }
    self->list[self->count++] = (struct level){ ns, bytes };
}

void
levels_free(struct levels *self)
{
    free(self->list);
    *self = (struct levels){ .most = self->most };
}

static int
peak_no_memory(const struct peak *peak)
{
    return trace_broken(&peak->view->trace, "no memory for its groups");
}

/* The first pass: the highest peak, other distinct peaks, and the peak without each group. */

static int
find_begin(void *context)
{
    struct peak *peak = context;

    counterfactual_free(&peak->rest);
    summits_free(&peak->summits);
    levels_free(&peak->levels);
    peak->bytes = peak->count = peak->peak_count = 0;
    peak->near_bytes = 1;
    peak->allocation_id = 0;
    return COMMAND_FINE;
}

/* The fewest live bytes that count as near the peak. */
static uint64_t
peak_near(const struct peak *peak)
{
    uint64_t margin = peak->within < 1 ? (uint64_t)((double)peak->bytes * peak->within) : peak->bytes;

    return peak->bytes > margin ? peak->bytes - margin : 1;
}

/* An allocation begins or ends. False: no memory. */
static inline bool
find_change(struct peak *peak, const struct scan_life *life, bool is_free)
{
    uint32_t group;

    if (peak->has_no_groups) {
        peak->rest.live_bytes += is_free ? -life->size : life->size;
        return true;
    }
    group = groups_of(&peak->groups, life);
    return group != GROUPS_FULL && counterfactual_change(&peak->rest, group, life->size, is_free);
}

static int
find_alloc(void *context, const struct scan_life *life)
{
    struct peak *peak = context;

    if (life->status != 0)
        return COMMAND_FINE;
    if (peak->rest.live_bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&peak->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    if (!find_change(peak, life, false))
        return peak_no_memory(peak);
    if (life->size > 0 && !summits_rise(&peak->summits, peak->rest.live_bytes, life->alloc_ns))
        return peak_no_memory(peak);
    peak->count += scan_live_count(life);
    if (peak->rest.live_bytes > peak->bytes) {
        peak->bytes = peak->rest.live_bytes;
        peak->peak_count = peak->count;
        peak->ns = life->alloc_ns;
        peak->allocation_id = life->allocation_id;
        peak->near_bytes = peak_near(peak);
        peak->rest.mark++;
    }
    levels_add(&peak->levels, life->alloc_ns, peak->rest.live_bytes, peak->near_bytes);
    return COMMAND_FINE;
}

static int
find_free(void *context, const struct scan_life *life)
{
    struct peak *peak = context;

    peak->count -= scan_live_count(life);
    if (!find_change(peak, life, true))
        return peak_no_memory(peak);
    if (life->size > 0)
        summits_fall(&peak->summits, peak->rest.live_bytes);
    levels_add(&peak->levels, life->free_ns, peak->rest.live_bytes, peak->near_bytes);
    return COMMAND_FINE;
}

static int
find_end(void *context, int64_t last_ns)
{
    struct peak *peak = context;

    peak->end_ns = last_ns;
    return summits_end(&peak->summits) ? COMMAND_FINE : peak_no_memory(peak);
}

/*
 * The second pass finds what is live at another moment than the peak, the largest allocations at the moment, and the
 * plateaus if there were too many levels near the peak. Without any of these, it is left out.
 */

static int
look_begin(void *context)
{
    struct peak *peak = context;

    peak->live_bytes = 0;
    peak->looked = peak->near = false;
    peak->plateau_count = 0;
    peak->near_ns = 0;
    return COMMAND_FINE;
}

static void
look_add(void *context, const struct scan_life *life)
{
    struct peak *peak = context;
    struct amount *group = &peak->at_groups[groups_of(&peak->groups, life)];

    if (scan_live_count(life) == 0)
        return;
    group->bytes += life->size;
    group->count++;
    peak->at_bytes += life->size;
    peak->at_count++;
    top_lives_add(&peak->at_lives, life);
}

/* Examine the live allocations and `besides`, which the scan does not include (NULL: nothing). */
static void
look_now(struct peak *peak, const struct scan_life *besides)
{
    peak->looked = true;
    peak->at_bytes = peak->at_count = 0;
    top_lives_clear(&peak->at_lives);
    memset(peak->at_groups, 0, peak->groups.count * sizeof(*peak->at_groups));
    scan_each_live(peak->scan, look_add, peak);
    if (besides != NULL)
        look_add(peak, besides);
}

static void
look_end_plateau(struct peak *peak, int64_t ns)
{
    size_t at = peak->plateau_count < PEAK_PLATEAUS_MAX ? peak->plateau_count : PEAK_PLATEAUS_MAX;
    int64_t lasted = ns - peak->plateau.begin_ns;

    if (!peak->near)
        return;
    peak->near = false;
    peak->plateau.end_ns = ns;
    peak->near_ns += lasted;
    if (peak->plateau_count++ >= PEAK_PLATEAUS_MAX) {
        const struct peak_plateau *shortest = &peak->plateaus[--at];

        if (lasted <= shortest->end_ns - shortest->begin_ns)
            return;
    }
    for (; at > 0 && lasted > peak->plateaus[at - 1].end_ns - peak->plateaus[at - 1].begin_ns; at--)
        peak->plateaus[at] = peak->plateaus[at - 1];
    peak->plateaus[at] = peak->plateau;
}

static void
look_level(struct peak *peak, int64_t ns)
{
    bool near = peak->live_bytes >= peak->near_bytes;

    if (near && !peak->near)
        peak->plateau = (struct peak_plateau){ .begin_ns = ns };
    if (near && peak->live_bytes > peak->plateau.most_bytes)
        peak->plateau.most_bytes = peak->live_bytes;
    if (!near)
        look_end_plateau(peak, ns);
    peak->near = near;
}

static int
look_alloc(void *context, const struct scan_life *life)
{
    struct peak *peak = context;

    if (!peak->looked && !peak->at_peak && life->alloc_ns > peak->at_ns)
        look_now(peak, NULL);
    if (life->status != 0)
        return COMMAND_FINE;
    peak->live_bytes += life->size;
    look_level(peak, life->alloc_ns);
    if (peak->at_peak && life->allocation_id == peak->allocation_id)
        look_now(peak, life);
    return COMMAND_FINE;
}

static int
look_free(void *context, const struct scan_life *life)
{
    struct peak *peak = context;

    /* At equal times allocations come first, and an allocation is live up to the time of its free. */
    if (!peak->looked && !peak->at_peak && life->free_ns >= peak->at_ns)
        look_now(peak, life);
    peak->live_bytes -= life->size;
    look_level(peak, life->free_ns);
    return COMMAND_FINE;
}

static int
look_end(void *context, int64_t last_ns)
{
    struct peak *peak = context;

    /* A peak that was not found by now does not exist: all sizes were 0. */
    if (!peak->looked && !peak->at_peak)
        look_now(peak, NULL);
    look_end_plateau(peak, last_ns);
    top_lives_sort(&peak->at_lives);
    return peak->at_lives.failed ? peak_no_memory(peak) : COMMAND_FINE;
}

/* Without a second pass: take the plateaus and the groups at the peak from the first. */
static void
peak_conclude(struct peak *peak)
{
    for (size_t i = 0; i < peak->groups.count; i++) {
        marked_keep(&peak->rest.groups[i].amount, peak->rest.mark);
        peak->at_groups[i] = peak->rest.groups[i].amount.marked;
    }
    peak->at_bytes = peak->bytes;
    peak->at_count = peak->peak_count;
    for (size_t i = 0; i < peak->levels.count; i++) {
        peak->live_bytes = peak->levels.list[i].bytes;
        look_level(peak, peak->levels.list[i].ns);
    }
    look_end_plateau(peak, peak->end_ns);
}

static void
peak_find(struct peak *peak)
{
    peak->unit = (struct scan_unit){
        .needs = groups_needs(peak->groups.by),
        .begin = find_begin,
        .alloc = find_alloc,
        .free = find_free,
        .end = find_end,
    };
}

static void
peak_look(struct peak *peak)
{
    peak->unit = (struct scan_unit){
        .needs = groups_needs(peak->groups.by) | SCAN_LIVE,
        .attach = true,
        .begin = look_begin,
        .alloc = look_alloc,
        .free = look_free,
        .end = look_end,
    };
    if (peak->at_lives.limit > 0)
        peak->unit.needs |= SCAN_ORIGIN | SCAN_CALLER | SCAN_PLACE;
}

int
peak_begin(struct view *view, enum groups_by by, const struct moment *at, const struct peak_shares *shares,
           uint64_t lives, struct peak *out)
{
    memset(out, 0, sizeof(*out));
    out->view = view;
    out->within = shares->within;
    out->summits.share = shares->prominence;
    out->at_peak = at->kind == MOMENT_PEAK;
    groups_begin(&out->groups, by, &view->names);
    top_lives_begin(&out->at_lives, lives);
    if (out->at_peak)
        return COMMAND_FINE;
    if (filter_check_begin(&view->trace, at, "at") != COMMAND_FINE)
        return COMMAND_WRONG;
    return filter_moment(&view->trace, at, &out->at_ns);
}

int
peak_next(void *context, struct scan_pass *pass)
{
    struct peak *peak = context;
    unsigned turn = peak->turn++;

    if (turn == 2)
        return COMMAND_FINE;
    pass->unit = &peak->unit;
    if (turn == 0) {
        peak_find(peak);
        return COMMAND_FINE;
    }
    peak->at_groups = calloc(peak->groups.count + 1, sizeof(*peak->at_groups));
    if (peak->at_groups == NULL)
        return peak_no_memory(peak);
    if (peak->at_peak)
        peak->at_ns = peak->ns;
    if (peak->at_peak && peak->bytes > 0 && peak->at_lives.limit == 0 && !peak->levels.overflowed) {
        peak_conclude(peak);
        pass->unit = NULL;
    } else {
        peak_look(peak);
    }
    return COMMAND_FINE;
}

int
peak_make(struct view *view, enum groups_by by, const struct moment *at, const struct peak_shares *shares,
          uint64_t lives, struct peak *out)
{
    return view_run_analysis(view, peak_begin(view, by, at, shares, lives, out), peak_next, peak_free, out);
}

void
peak_free(void *context)
{
    struct peak *peak = context;

    groups_end(&peak->groups);
    counterfactual_free(&peak->rest);
    summits_free(&peak->summits);
    levels_free(&peak->levels);
    top_lives_free(&peak->at_lives);
    free(peak->at_groups);
    peak->at_groups = NULL;
}
