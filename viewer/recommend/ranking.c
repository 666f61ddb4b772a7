/* Finds the Pareto front of the stacks that were tried, and the one for an aim. */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "viewer/base/message.h"
#include "viewer/recommend/ranking.h"

static bool
ranking_serves(const struct trial *trial, const struct ranking_rule *rule)
{
    return trial->error[0] == '\0' && trial->failures == 0 && trial->reserved_bytes <= rule->most_bytes;
}

/* Whether the stack may be recommended: it serves all, and today's is over a base that was asked for. */
static bool
ranking_may(const struct candidates *list, const struct trial *trials, size_t number, const struct ranking_rule *rule)
{
    const struct candidate *candidate = &list->items[number];

    return ranking_serves(&trials[number], rule) && (!candidate->is_now || list->bases[candidate->base]);
}

static int
ranking_compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* How much longer than the least time the median one is. */
static double
ranking_spread(const struct trial *trial)
{
    return trial->own_ns > 0 ? trial->times[trial->time_count / 2] / trial->own_ns : 1;
}

/* The median of that for the stacks that were replayed more than once. False: no memory. */
static bool
ranking_usual_spread(const struct candidates *list, const struct trial *trials, double *out)
{
    double *spreads = calloc(list->count + 1, sizeof(*spreads));
    size_t count = 0;

    if (spreads == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (trials[i].error[0] == '\0' && trials[i].time_count > 1)
            spreads[count++] = ranking_spread(&trials[i]);
    }
    qsort(spreads, count, sizeof(*spreads), ranking_compare_doubles);
    *out = count > 0 ? spreads[count / 2] : RANKING_UNKNOWN;
    free(spreads);
    return true;
}

/* The greatest time that the stack took, or `most` where that is more. */
static double
ranking_greatest(const struct trial *trial, double most)
{
    double greatest = trial->time_count > 0 ? trial->times[trial->time_count - 1] : 0;

    return greatest > most ? greatest : most;
}

static void
ranking_take_times(const struct candidates *list, const struct trial *trials, double usual, struct ranking_time *times)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct trial *trial = &trials[i];
        double spread = trial->time_count > 1 ? ranking_spread(trial) : 1;

        spread = spread > usual ? spread : usual;
        times[i].own_ns = trial->own_ns;
        times[i].own_most_ns = trial->own_ns * spread;
        times[i].own_top_ns = ranking_greatest(trial, times[i].own_most_ns);
        times[i].ns = trial->driver_ns + times[i].own_ns;
        times[i].most_ns = trial->driver_ns + times[i].own_most_ns;
    }
}

bool
ranking_is_same_time(const struct ranking_time *one, const struct ranking_time *other)
{
    return one->ns <= other->most_ns && other->ns <= one->most_ns;
}

/* The objective, where the stack takes so long. */
static double
ranking_score(const struct trial *trial, double ns, const struct ranking_rule *rule)
{
    double memory = (double)trial->reserved_bytes;

    return rule->aim == RANKING_MEMORY ? memory : rule->aim == RANKING_TIME ? ns : memory * (rule->program_ns + ns);
}

bool
ranking_contends(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
                 const struct ranking *ranking, size_t number)
{
    double score = ranking_score(&trials[number], ranking->times[number].ns, rule);

    if (!ranking_may(list, trials, number, rule))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (ranking_may(list, trials, i, rule) && ranking_score(&trials[i], ranking->times[i].most_ns, rule) < score)
            return false;
    }
    return true;
}

int
ranking_compare(const void *a, const void *b, void *context)
{
    const struct trial *trials = context;
    size_t one = *(const size_t *)a, other = *(const size_t *)b;
    const struct trial *left = &trials[one], *right = &trials[other];

    if (left->reserved_bytes != right->reserved_bytes)
        return left->reserved_bytes < right->reserved_bytes ? -1 : 1;
    if (left->driver_ns != right->driver_ns)
        return left->driver_ns < right->driver_ns ? -1 : 1;
    return (one > other) - (one < other);
}

/*
 * Of `count` stacks with the same memory in `order` the first whose time may be the least of them, and is surely less
 * than `below`; SIZE_MAX: none.
 */
static size_t
ranking_of_same(const size_t *order, size_t count, const struct ranking_time *times, double below)
{
    double most = INFINITY;

    for (size_t i = 0; i < count; i++)
        most = times[order[i]].most_ns < most ? times[order[i]].most_ns : most;
    for (size_t i = 0; i < count; i++) {
        if (times[order[i]].ns <= most && times[order[i]].most_ns < below)
            return order[i];
    }
    return SIZE_MAX;
}

/* Set what is on the front: in ascending order of memory, what is surely faster than all before it on the front. */
static void
ranking_front(const struct trial *trials, const size_t *order, size_t count, struct ranking *out)
{
    double below = INFINITY;

    for (size_t i = 0, same; i < count; i += same) {
        size_t best;

        for (same = 1; i + same < count && trials[order[i + same]].reserved_bytes == trials[order[i]].reserved_bytes;)
            same++;
        best = ranking_of_same(&order[i], same, out->times, below);
        if (best == SIZE_MAX)
            continue;
        out->is_best[best] = true;
        below = out->times[best].ns < below ? out->times[best].ns : below;
    }
}

/*
 * Whether the recorded stack has more memory than the best one, and the best one took less than nine tenths of its time
 * in each replay of both. Where some replays of the stacks themselves took as long, what the calls of the driver cost
 * says by how much.
 */
static bool
ranking_is_beaten(const struct trial *now, const struct ranking_time *time, const struct trial *best,
                  const struct ranking_time *best_time)
{
    bool same = time->own_ns <= best_time->own_top_ns && best_time->own_ns <= time->own_top_ns;
    double own_ns = time->own_ns > best_time->own_ns ? time->own_ns : best_time->own_ns;

    if (best->reserved_bytes >= now->reserved_bytes)
        return false;
    if (same && best->driver_ns + own_ns < RANKING_SAME_TIME * (now->driver_ns + own_ns))
        return true;
    return best->driver_ns + best_time->own_top_ns < RANKING_SAME_TIME * time->ns;
}

/* The front, and of it the stack with the least memory of those whose objective may be the least. */
static bool
ranking_choose(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
               struct ranking *out)
{
    size_t *order = calloc(list->count + 1, sizeof(*order)), count = 0;

    if (order == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (ranking_may(list, trials, i, rule))
            order[count++] = i;
    }
    qsort_r(order, count, sizeof(*order), ranking_compare, (void *)trials);
    ranking_front(trials, order, count, out);
    for (size_t i = 0; i < count && out->recommended == SIZE_MAX; i++) {
        if (out->is_best[order[i]] && ranking_contends(list, trials, rule, out, order[i]))
            out->recommended = order[i];
    }
    free(order);
    return true;
}

bool
ranking_make(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
             struct ranking *out)
{
    double usual;

    *out = (struct ranking){ calloc(list->count + 1, sizeof(bool)), calloc(list->count + 1, sizeof(*out->times)),
                             SIZE_MAX, SIZE_MAX, false };
    for (size_t i = 0; i < list->count && out->now == SIZE_MAX; i++) {
        if (list->items[i].is_now)
            out->now = i;
    }
    if (out->is_best == NULL || out->times == NULL || !ranking_usual_spread(list, trials, &usual)) {
        message("tidemark recommend: no memory for the ranking");
        return false;
    }
    ranking_take_times(list, trials, usual, out->times);
    if (!ranking_choose(list, trials, rule, out)) {
        message("tidemark recommend: no memory for the ranking");
        return false;
    }
    if (out->now != SIZE_MAX && out->recommended != SIZE_MAX && out->now != out->recommended) {
        const struct trial *now = &trials[out->now];

        out->now_is_worse =
            now->error[0] == '\0' &&
            (!ranking_serves(now, rule) ||
             ranking_is_beaten(now, &out->times[out->now], &trials[out->recommended], &out->times[out->recommended]));
    }
    return true;
}

void
ranking_free(struct ranking *ranking)
{
    free(ranking->is_best);
    free(ranking->times);
    ranking->is_best = NULL;
    ranking->times = NULL;
}
