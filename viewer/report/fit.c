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
#define FIT_ANSWER        1024

/* Where nothing is cut: as long as names, answers and the list of memories are anywhere. */
#define FIT_NAME_MOST   1000
#define FIT_ANSWER_MOST ((size_t)4 << 20)
#define FIT_MEMORIES    64

static size_t
fit_less(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t
fit_more(size_t a, size_t b)
{
    return a > b ? a : b;
}

void
fit_begin(struct fit *fit, const struct gather *gather, size_t memories)
{
    *fit = (struct fit){
        .instants = gather->anchors.count,
        .instant_lives = gather->anchors.lives_most,
        .names.most = FIT_NAME_MOST,
        .stacks.most = SIZE_MAX,
        .answer_most = FIT_ANSWER_MOST,
        .memory_most = fit_less(memories, FIT_MEMORIES),
    };
}

void
fit_restart(struct fit *fit)
{
    memset(fit->bytes, 0, sizeof(fit->bytes));
    memset(fit->frame_sums, 0, sizeof(fit->frame_sums));
    fit->names = (struct fit_lengths){ .most = fit->names.most };
    fit->stacks = (struct fit_lengths){ .most = fit->stacks.most };
    fit->seen = fit->stack_bytes = fit->frame_bytes = fit->answer_count = fit->notes_left_out = 0;
    fit->writings++;
}

void
fit_note(struct fit *fit, enum fit_part part, size_t bytes)
{
    fit->bytes[part] += bytes - fit->seen;
    fit->seen = bytes;
}

void
fit_note_length(struct fit_lengths *lengths, size_t length)
{
    size_t written = fit_less(length, lengths->most);

    lengths->cut += length > lengths->most;
    lengths->longest = fit_more(lengths->longest, length);
    lengths->sum += written;
    for (size_t i = 0; i < FIT_STEPS; i++)
        lengths->sums[i] += fit_less(written, (size_t)FIT_SHORTEST << i);
}

void
fit_note_frame(struct fit *fit, size_t bytes, size_t depth)
{
    bytes = fit_less(bytes, fit->names.most);
    fit->frame_bytes += bytes;
    for (size_t i = 0; i < FIT_STEPS; i++)
        fit->frame_sums[i] += depth < (size_t)FIT_SHORTEST << i ? bytes : 0;
}

bool
fit_note_answer(struct fit *fit, size_t bytes)
{
    if (bytes > fit->answer_most)
        return false;
    if (fit->answer_count < FIT_ANSWER_COUNT)
        fit->answers[fit->answer_count++] = bytes;
    return true;
}

/*
 * What is cut is planned in a copy of the struct, whose `bytes` become what is expected of the parts. Each of these
 * functions halves a part once. False: it cannot be halved any further.
 */

/* The next bound on lengths. 0: none. */
static size_t
fit_shorter(const struct fit_lengths *lengths)
{
    size_t longest = fit_less(lengths->most, lengths->longest), most = 0;

    for (size_t i = 0; i < FIT_STEPS && (size_t)FIT_SHORTEST << i < longest; i++)
        most = (size_t)FIT_SHORTEST << i;
    return most;
}

/* Of a sum with each of the bounds: that with `most`. */
static size_t
fit_sum(const size_t sums[FIT_STEPS], size_t sum, size_t most)
{
    for (size_t i = 0; i < FIT_STEPS; i++) {
        if ((size_t)FIT_SHORTEST << i >= most)
            return sums[i];
    }
    return sum;
}

/* The bytes of names and lists of frames, not compressed, if the bounds were these. */
static double
fit_names_bytes(const struct fit *plan, size_t name_most, size_t stack_most)
{
    double names = (double)fit_sum(plan->names.sums, plan->names.sum, name_most);
    double frames = (double)fit_sum(plan->stacks.sums, plan->stacks.sum, stack_most);
    double left_out = (double)(plan->frame_bytes - fit_sum(plan->frame_sums, plan->frame_bytes, stack_most));
    double bytes = 1;

    if (plan->names.sum > 0)
        bytes += names * (1 - left_out / (double)fit_more(plan->names.sum, plan->frame_bytes));
    if (plan->stacks.sum > 0)
        bytes += (double)plan->stack_bytes * frames / (double)plan->stacks.sum;
    return bytes;
}

static bool
fit_cut_lives(struct fit *plan)
{
    if (plan->life_count < FIT_LIVES_LEAST)
        return false;
    plan->life_count /= 2;
    plan->bytes[FIT_LIVES] /= 2;
    return true;
}

static bool
fit_cut_rows(size_t *count, size_t *bytes)
{
    if (*count < FIT_ROWS)
        return false;
    *count /= 2;
    *bytes /= 2;
    return true;
}

/* Shorter names or call stacks, whichever saves more; then fewer, which only fewer rows need. */
static bool
fit_cut_names(struct fit *plan)
{
    size_t name_most = fit_shorter(&plan->names), stack_most = fit_shorter(&plan->stacks);
    double before = fit_names_bytes(plan, plan->names.most, plan->stacks.most);
    double by_names = name_most > 0 ? fit_names_bytes(plan, name_most, plan->stacks.most) : before;
    double by_stacks = stack_most > 0 ? fit_names_bytes(plan, plan->names.most, stack_most) : before;

    if (name_most == 0 && stack_most == 0) {
        if (!fit_cut_lives(plan) && !fit_cut_rows(&plan->failure_count, &plan->bytes[FIT_FAILURES]))
            return false;
        plan->bytes[FIT_NAMES] /= 2;
        return true;
    }
    if (name_most > 0 && (stack_most == 0 || by_names <= by_stacks)) {
        plan->names.most = name_most;
        plan->bytes[FIT_NAMES] = (size_t)((double)plan->bytes[FIT_NAMES] * by_names / before);
    } else {
        plan->stacks.most = stack_most;
        plan->bytes[FIT_NAMES] = (size_t)((double)plan->bytes[FIT_NAMES] * by_stacks / before);
    }
    return true;
}

/* Leave out the longest answer. */
static bool
fit_cut_answers(struct fit *plan)
{
    size_t longest = 0, sum = 0, left = 0;

    for (size_t i = 0; i < plan->answer_count; i++) {
        longest = fit_more(longest, plan->answers[i]);
        sum += plan->answers[i];
    }
    if (longest <= FIT_ANSWER)
        return false;
    plan->answer_most = longest - 1;
    for (size_t i = 0; i < plan->answer_count; i++) {
        plan->answers[i] = plan->answers[i] < longest ? plan->answers[i] : 0;
        left += plan->answers[i];
    }
    plan->bytes[FIT_ANSWERS] = (size_t)((double)plan->bytes[FIT_ANSWERS] * (double)left / (double)sum);
    return true;
}

/* Make buckets of twice the width. `count` is of those before anything was planned, which was folded `done` times. */
static bool
fit_cut_buckets(size_t count, size_t least, size_t done, size_t *folds, size_t *bytes)
{
    if (count >> (*folds - done) < least)
        return false;
    ++*folds;
    *bytes /= 2;
    return true;
}

static bool
fit_cut_memories(struct fit *plan)
{
    if (plan->memory_most < 2)
        return false;
    plan->memory_most /= 2;
    plan->bytes[FIT_RESERVED] /= 2;
    return true;
}

static bool
fit_cut_part(struct fit *plan, const struct fit *fit, const struct gather *gather, enum fit_part part)
{
    const struct map_board *maps = gather->map.boards;
    size_t *bytes = &plan->bytes[part];

    switch (part) {
    case FIT_TIMELINES:
        return fit_cut_buckets(fit_more(gather->time.axis.count, gather->by_event.axis.count), FIT_BUCKETS,
                               fit->timelines, &plan->timelines, bytes);
    case FIT_GROUPS:
        return fit_cut_buckets(fit_more(gather->boards[0].axis.count, gather->boards[1].axis.count), FIT_GROUP_BUCKETS,
                               fit->groups, &plan->groups, bytes);
    case FIT_MAP:
        return fit_cut_buckets(fit_more(maps[0].axis.count, maps[1].axis.count), FIT_MAP_BUCKETS, fit->map, &plan->map,
                               bytes);
    case FIT_RESERVED:
        return fit_cut_memories(plan);
    case FIT_LIVES:
        return fit_cut_lives(plan);
    case FIT_FAILURES:
        return fit_cut_rows(&plan->failure_count, bytes);
    case FIT_MARKS:
        return fit_cut_rows(&plan->mark_count, bytes);
    case FIT_NAMES:
        return fit_cut_names(plan);
    case FIT_ANSWERS:
        return fit_cut_answers(plan);
    default:
        return false;
    }
}

static size_t
fit_total(const struct fit *plan)
{
    size_t total = 0;

    for (size_t part = 0; part < FIT_PARTS; part++)
        total += plan->bytes[part];
    return total;
}

/* Returns the bytes that are expected to be saved. */
static size_t
fit_plan(struct fit *plan, const struct fit *fit, const struct gather *gather, size_t excess)
{
    bool done[FIT_PARTS] = { [FIT_REST] = true };
    size_t before = fit_total(plan);

    while (before - fit_total(plan) < excess) {
        enum fit_part largest = FIT_REST;

        for (enum fit_part part = 0; part < FIT_REST; part++) {
            if (!done[part] && (largest == FIT_REST || plan->bytes[part] > plan->bytes[largest]))
                largest = part;
        }
        if (largest == FIT_REST)
            break;
        done[largest] = !fit_cut_part(plan, fit, gather, largest);
    }
    return before - fit_total(plan);
}

/* Cut what was gathered as it is planned. What is cut as the page is written is in the plan itself. */
static void
fit_apply(const struct fit *plan, const struct fit *fit, struct gather *gather)
{
    for (size_t i = fit->timelines; i < plan->timelines; i++) {
        buckets_fold(&gather->time);
        buckets_fold(&gather->by_event);
    }
    for (size_t i = fit->groups; i < plan->groups; i++) {
        series_board_fold(&gather->boards[0]);
        series_board_fold(&gather->boards[1]);
    }
    for (size_t i = fit->map; i < plan->map; i++) {
        map_board_fold(&gather->map.boards[0]);
        map_board_fold(&gather->map.boards[1]);
    }
    if (plan->life_count < gather->anchors.life_count)
        anchors_shrink(&gather->anchors, plan->life_count);
    gather->failure_count = plan->failure_count;
    for (size_t i = plan->mark_count; i < gather->mark_count; i++) {
        free(gather->marks[i].kind);
        free(gather->marks[i].text);
    }
    gather->mark_count = plan->mark_count;
}

bool
fit_cut(struct fit *fit, struct gather *gather, size_t excess)
{
    struct fit plan = *fit;
    size_t aim = excess;

    if (fit->writings >= FIT_WRITINGS)
        return false;
    /* The more often the estimates were not enough, the more is cut. */
    for (size_t i = 1; i < fit->writings && aim < SIZE_MAX / 2; i++)
        aim *= 2;
    plan.life_count = gather->anchors.life_count;
    plan.failure_count = gather->failure_count;
    plan.mark_count = gather->mark_count;
    if (fit_plan(&plan, fit, gather, aim) < excess)
        return false;
    fit_apply(&plan, fit, gather);
    plan.is_cut = true;
    *fit = plan;
    return true;
}
