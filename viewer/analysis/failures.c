/* Explains failed allocations. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/failures.h"

const char *
failures_word(enum failure_cause cause)
{
    static const char *const words[FAILURE_CAUSES] = {
        "limit", "capacity", "fragmentation", "unused hole", "request", "other",
    };

    return words[cause];
}

/* Whether the status alone says why; else the space as it was has to. */
static bool
failures_judge_status(int64_t status, enum failure_cause *cause)
{
    switch (status) {
    case TIDE_ELIMIT:
        *cause = FAILURE_LIMIT;
        return true;
    case TIDE_EINVAL:
    case TIDE_EOVERFLOW:
    case TIDE_EUNSUPPORTED:
        *cause = FAILURE_REQUEST;
        return true;
    case TIDE_ECAPACITY:
    case TIDE_EDRIVER:
        return false;
    default:
        *cause = FAILURE_OTHER;
        return true;
    }
}

/* The cause of a failure, from its status and from the space at that moment. */
static enum failure_cause
failures_judge(const struct failures *failures, const struct failure *failure)
{
    uint64_t wanted = space_rounded(&failure->life);
    enum failure_cause cause;

    if (failures_judge_status(failure->life.status, &cause))
        return cause;
    if (!failure->has_space || failure->free_bytes < wanted)
        return FAILURE_CAPACITY;
    if (failures->layers.lower.active && failure->largest_hole >= wanted)
        return FAILURE_UNUSED;
    return FAILURE_FRAGMENTATION;
}

/* Of the chunks that are large enough if emptied, the one with the fewest bytes in use. */
static const struct space_chunk *
failures_pinned(const struct space *space, uint64_t wanted)
{
    const struct space_chunk *best = NULL;

    for (size_t i = 0; i < space->chunk_count; i++) {
        const struct space_chunk *chunk = &space->chunks[i];

        if (chunk->block_count > 0 && chunk->size >= wanted && (best == NULL || chunk->used_bytes < best->used_bytes))
            best = chunk;
    }
    return best;
}

static void
failures_look(struct failures *failures, struct failure *failure)
{
    const struct sample *sample = samples_at(&failures->samples, failure->life.alloc_ns);
    const struct space_chunk *pinned = NULL;
    char text[512];

    if (failures->layers.lower.active) {
        /* A refused program often retries at once. Without events in between, the space is unchanged. */
        if (failures->looked_events != scan_events(failures->scan) + 1)
            space_look(&failures->space, &failures->layers, failures->scan, NULL);
        failures->looked_events = scan_events(failures->scan) + 1;
        failures->failed = failures->failed || failures->space.failed;
        failure->has_space = true;
        failure->reserved_bytes = failures->space.reserved_bytes;
        failure->free_bytes = failures->space.free_bytes;
        failure->largest_hole = failures->space.largest_hole;
        pinned = failures_pinned(&failures->space, space_rounded(&failure->life));
    } else if (sample != NULL && sample->reserved_bytes >= sample->used_bytes) {
        failure->has_space = true;
        failure->reserved_bytes = sample->reserved_bytes;
        failure->free_bytes = sample->reserved_bytes - sample->used_bytes;
    }
    failure->cause = failures_judge(failures, failure);
    if (pinned == NULL || (failure->cause != FAILURE_FRAGMENTATION && failure->cause != FAILURE_CAPACITY))
        return;
    space_pins(failures->view, &failures->space, pinned, text, sizeof(text));
    failure->pinned_by = strdup(text);
    failures->failed = failures->failed || failure->pinned_by == NULL;
}

static void
failures_clear(struct failures *failures)
{
    for (size_t i = 0; i < failures->count; i++)
        free(failures->list[i].pinned_by);
    failures->count = 0;
    failures->total = failures->bytes = failures->unexplained = failures->live_bytes = failures->live_count = 0;
    failures->looked_events = 0;
    memset(failures->by_cause, 0, sizeof(failures->by_cause));
}

static void
failures_attach(void *context, const struct scan *scan)
{
    ((struct failures *)context)->scan = scan;
}

static int
failures_begin_scan(void *context)
{
    failures_clear(context);
    return COMMAND_FINE;
}

static int
failures_add(struct failures *failures, const struct scan_life *life)
{
    enum failure_cause cause;
    struct failure *failure;

    if (failures->count == FAILURES_MAX) {
        if (failures_judge_status(life->status, &cause))
            failures->by_cause[cause]++;
        else
            failures->unexplained++;
        return COMMAND_FINE;
    }
    failure = &failures->list[failures->count++];
    *failure =
        (struct failure){ .life = *life, .live_bytes = failures->live_bytes, .live_count = failures->live_count };
    failures_look(failures, failure);
    failures->by_cause[failure->cause]++;
    return failures->failed ? trace_broken(&failures->view->trace, "no memory for its failures") : COMMAND_FINE;
}

static int
failures_alloc(void *context, const struct scan_life *life)
{
    struct failures *failures = context;

    if (!filter_set_has(&failures->layers.upper, life->layer_id))
        return COMMAND_FINE;
    if (life->status == 0) {
        failures->live_bytes += life->size;
        failures->live_count += scan_live_count(life);
        return COMMAND_FINE;
    }
    failures->total++;
    /* Sizes of requests that failed may be anything. */
    failures->bytes = failures->bytes > UINT64_MAX - life->size ? UINT64_MAX : failures->bytes + life->size;
    return failures_add(failures, life);
}

static int
failures_free_event(void *context, const struct scan_life *life)
{
    struct failures *failures = context;

    if (filter_set_has(&failures->layers.upper, life->layer_id)) {
        failures->live_bytes -= life->size;
        failures->live_count -= scan_live_count(life);
    }
    return COMMAND_FINE;
}

static const struct scan_unit failures_unit = {
    .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_LIVE,
    .attach = failures_attach,
    .begin = failures_begin_scan,
    .alloc = failures_alloc,
    .free = failures_free_event,
};

int
failures_begin(struct view *view, struct failures *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    out->list = calloc(FAILURES_MAX, sizeof(*out->list));
    status = out->list != NULL ? samples_read(view, &out->samples) : trace_broken(&view->trace, "no memory");
    if (status == COMMAND_FINE)
        status = space_layers_make(view, SPACE_PAGE, &out->layers);
    return status;
}

int
failures_next(void *context, struct scan_pass *pass)
{
    struct failures *failures = context;

    if (!failures->asked)
        pass->unit = &failures_unit;
    failures->asked = true;
    return COMMAND_FINE;
}

int
failures_make(struct view *view, struct failures *out)
{
    int status = failures_begin(view, out);

    if (status == COMMAND_FINE)
        status = view_run_analysis(view, failures_next, out);
    if (status != COMMAND_FINE)
        failures_free(out);
    return status;
}

void
failures_free(struct failures *failures)
{
    failures_clear(failures);
    free(failures->list);
    failures->list = NULL;
    samples_free(&failures->samples);
    space_layers_free(&failures->layers);
    space_free(&failures->space);
}
