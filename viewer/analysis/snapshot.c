/* The figures of a trace for comparing it with another. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/samples.h"
#include "viewer/analysis/snapshot.h"

/* The first pass: the figures. */

static int
figures_begin(void *context)
{
    struct snapshot *snapshot = context;

    snapshot->allocations = snapshot->total_bytes = snapshot->failures = 0;
    snapshot->live_bytes = snapshot->live_count = snapshot->peak_bytes = 0;
    snapshot->peak_id = 0;
    return COMMAND_FINE;
}

static int
figures_alloc(void *context, const struct scan_life *life)
{
    struct snapshot *snapshot = context;

    if (life->status != 0) {
        snapshot->failures++;
        return COMMAND_FINE;
    }
    if (snapshot->live_bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&snapshot->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    snapshot->allocations++;
    snapshot->total_bytes += life->size;
    snapshot->live_bytes += life->size;
    snapshot->live_count += scan_live_count(life);
    if (snapshot->live_bytes > snapshot->peak_bytes) {
        snapshot->peak_bytes = snapshot->live_bytes;
        snapshot->peak_ns = life->alloc_ns;
        snapshot->peak_id = life->allocation_id;
    }
    return COMMAND_FINE;
}

static int
figures_free(void *context, const struct scan_life *life)
{
    struct snapshot *snapshot = context;

    snapshot->live_bytes -= life->size;
    snapshot->live_count -= scan_live_count(life);
    return COMMAND_FINE;
}

static int
figures_end(void *context, int64_t last_ns)
{
    ((struct snapshot *)context)->end_ns = last_ns;
    return COMMAND_FINE;
}

/* The second pass: what was live at the peak. */

static void
live_attach(void *context, const struct scan *scan)
{
    ((struct snapshot *)context)->scan = scan;
}

static int
live_begin(void *context)
{
    struct snapshot *snapshot = context;

    for (size_t i = 0; i < snapshot->by_count; i++) {
        if (snapshot->by[i].capacity > 0)
            memset(snapshot->by[i].list, 0, snapshot->by[i].capacity * sizeof(*snapshot->by[i].list));
    }
    return COMMAND_FINE;
}

static bool
live_add_to(struct snapshot_groups *by, const struct scan_life *life)
{
    uint32_t number = groups_of(&by->groups, life);

    if (number >= by->capacity && !groups_reach(&by->list, &by->capacity, number))
        return false;
    by->list[number].bytes += life->size;
    by->list[number].count++;
    return true;
}

static void
live_add(void *context, const struct scan_life *life)
{
    struct snapshot *snapshot = context;

    for (size_t i = 0; i < snapshot->by_count && !snapshot->failed; i++)
        snapshot->failed = !live_add_to(&snapshot->by[i], life);
}

static int
live_alloc(void *context, const struct scan_life *life)
{
    struct snapshot *snapshot = context;

    if (life->allocation_id != snapshot->peak_id)
        return COMMAND_FINE;
    scan_each_live(snapshot->scan, live_add, snapshot);
    live_add(snapshot, life);
    return snapshot->failed ? trace_broken(&snapshot->view->trace, "no memory for its groups") : COMMAND_FINE;
}

static const struct scan_unit figures_unit = {
    .begin = figures_begin,
    .alloc = figures_alloc,
    .free = figures_free,
    .end = figures_end,
};

static void
snapshot_look(struct snapshot *snapshot)
{
    snapshot->unit = (struct scan_unit){
        .needs = SCAN_LIVE,
        .attach = live_attach,
        .begin = live_begin,
        .alloc = live_alloc,
    };
    for (size_t i = 0; i < snapshot->by_count; i++)
        snapshot->unit.needs |= groups_needs(snapshot->by[i].groups.by);
}

int
snapshot_begin(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out)
{
    struct samples samples;
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    out->by_count = by_count;
    for (size_t i = 0; i < by_count; i++)
        groups_begin(&out->by[i].groups, by[i], &view->names);
    status = samples_read(view, &samples);
    if (status == COMMAND_FINE) {
        out->has_reserved = samples.count > 0;
        out->reserved_peak_bytes = samples.reserved_peak_bytes;
        samples_free(&samples);
    }
    return status;
}

int
snapshot_next(void *context, struct scan_pass *pass)
{
    struct snapshot *snapshot = context;
    unsigned turn = snapshot->turn++;

    if (turn == 0)
        pass->unit = &figures_unit;
    if (turn == 1 && snapshot->by_count > 0 && snapshot->peak_id != 0) {
        snapshot_look(snapshot);
        pass->unit = &snapshot->unit;
    }
    return COMMAND_FINE;
}

int
snapshot_make(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out)
{
    int status = snapshot_begin(view, by, by_count, out);

    if (status == COMMAND_FINE)
        status = view_run_analysis(view, snapshot_next, out);
    if (status != COMMAND_FINE)
        snapshot_free(out);
    return status;
}

void
snapshot_free(struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->by_count; i++) {
        groups_end(&snapshot->by[i].groups);
        free(snapshot->by[i].list);
        snapshot->by[i] = (struct snapshot_groups){ 0 };
    }
    snapshot->by_count = 0;
}

size_t
snapshot_groups_default(const struct names *a, const struct names *b, enum groups_by *by)
{
    size_t count = 0;

    if (a->callstacks.count > 0 || b->callstacks.count > 0)
        by[count++] = GROUPS_CALLSTACK;
    if (a->tags.count > 0 || b->tags.count > 0)
        by[count++] = GROUPS_TAG;
    by[count++] = GROUPS_SIZE;
    return count;
}

bool
snapshot_exceeds(uint64_t a, uint64_t b, double tolerance)
{
    return b > a && (double)(b - a) > tolerance * (double)a;
}
