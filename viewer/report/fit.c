/* Keeps the page of any trace within a number of bytes. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/report/fit.h"

/* What is not halved any further. */
#define FIT_BUCKETS       1024
#define FIT_GROUP_BUCKETS 128
#define FIT_MAP_BUCKETS   64
#define FIT_LIVES_LEAST   1024 /* one for each of the fewest instants must be left: anchors_shrink */
#define FIT_ROWS          128
#define FIT_NAME          16
#define FIT_ANSWER        1024

/* Where nothing is cut: as long as names, answers and the list of memories are anywhere. */
#define FIT_NAME_MOST   1000
#define FIT_ANSWER_MOST ((size_t)4 << 20)
#define FIT_MEMORIES    64

void
fit_begin(struct fit *fit)
{
    *fit = (struct fit){ .name_most = FIT_NAME_MOST, .answer_most = FIT_ANSWER_MOST, .memory_most = FIT_MEMORIES };
}

void
fit_restart(struct fit *fit)
{
    memset(fit->bytes, 0, sizeof(fit->bytes));
    fit->seen = fit->names_cut = fit->name_longest = fit->answer_longest = 0;
}

void
fit_note(struct fit *fit, enum fit_part part, size_t bytes)
{
    fit->bytes[part] += bytes - fit->seen;
    fit->seen = bytes;
}

static bool
fit_cut_timelines(struct fit *fit, struct gather *gather)
{
    if (gather->time.axis.count < FIT_BUCKETS && gather->by_event.axis.count < FIT_BUCKETS)
        return false;
    buckets_fold(&gather->time);
    buckets_fold(&gather->by_event);
    fit->timelines++;
    return true;
}

static bool
fit_cut_groups(struct fit *fit, struct gather *gather)
{
    if (gather->boards[0].axis.count < FIT_GROUP_BUCKETS && gather->boards[1].axis.count < FIT_GROUP_BUCKETS)
        return false;
    for (size_t i = 0; i < 2; i++)
        series_board_fold(&gather->boards[i]);
    fit->groups++;
    return true;
}

static bool
fit_cut_map(struct fit *fit, struct gather *gather)
{
    if (gather->map.boards[0].axis.count < FIT_MAP_BUCKETS && gather->map.boards[1].axis.count < FIT_MAP_BUCKETS)
        return false;
    for (size_t i = 0; i < 2; i++)
        map_board_fold(&gather->map.boards[i]);
    fit->map++;
    return true;
}

static bool
fit_cut_lives(struct gather *gather)
{
    if (gather->anchors.life_count < FIT_LIVES_LEAST)
        return false;
    anchors_shrink(&gather->anchors, gather->anchors.life_count / 2);
    return true;
}

static bool
fit_cut_failures(struct gather *gather)
{
    if (gather->failure_count < FIT_ROWS)
        return false;
    gather->failure_count /= 2;
    return true;
}

static bool
fit_cut_marks(struct gather *gather)
{
    if (gather->mark_count < FIT_ROWS)
        return false;
    for (size_t i = gather->mark_count / 2; i < gather->mark_count; i++) {
        free(gather->marks[i].kind);
        free(gather->marks[i].text);
    }
    gather->mark_count /= 2;
    return true;
}

/* Shorter names; then fewer, which only fewer rows need. */
static bool
fit_cut_names(struct fit *fit, struct gather *gather)
{
    if (fit->name_longest > FIT_NAME) {
        fit->name_most = (fit->name_longest < fit->name_most ? fit->name_longest : fit->name_most) / 2;
        return true;
    }
    return fit_cut_lives(gather) || fit_cut_failures(gather);
}

static bool
fit_cut_part(struct fit *fit, struct gather *gather, enum fit_part part)
{
    switch (part) {
    case FIT_TIMELINES:
        return fit_cut_timelines(fit, gather);
    case FIT_GROUPS:
        return fit_cut_groups(fit, gather);
    case FIT_MAP:
        return fit_cut_map(fit, gather);
    case FIT_RESERVED:
        fit->memory_most /= fit->memory_most > 1 ? 2 : 1;
        return fit->memory_most > 1;
    case FIT_LIVES:
        return fit_cut_lives(gather);
    case FIT_FAILURES:
        return fit_cut_failures(gather);
    case FIT_MARKS:
        return fit_cut_marks(gather);
    case FIT_NAMES:
        return fit_cut_names(fit, gather);
    case FIT_ANSWERS:
        fit->answer_most = fit->answer_longest > FIT_ANSWER ? fit->answer_longest - 1 : fit->answer_most;
        return fit->answer_longest > FIT_ANSWER;
    default:
        return false;
    }
}

bool
fit_cut(struct fit *fit, struct gather *gather)
{
    bool tried[FIT_PARTS] = { false };

    for (size_t i = 0; i < FIT_REST; i++) {
        enum fit_part largest = FIT_REST;

        for (enum fit_part part = 0; part < FIT_REST; part++) {
            if (!tried[part] && (largest == FIT_REST || fit->bytes[part] > fit->bytes[largest]))
                largest = part;
        }
        tried[largest] = true;
        if (fit_cut_part(fit, gather, largest))
            return true;
    }
    return false;
}
