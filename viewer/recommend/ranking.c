/* Finds the Pareto front of the stacks that were tried, and the one for an aim. */
#include "config.h"

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

/* Whether `a` is better than `b` in one of both, and worse in none. */
static bool
ranking_beats(const struct trial *a, const struct trial *b)
{
    return a->reserved_bytes <= b->reserved_bytes && a->ns <= b->ns &&
           (a->reserved_bytes < b->reserved_bytes || a->ns < b->ns);
}

/* Whether `a` is better for the aim; where both are the same for it, the other figure decides. */
static bool
ranking_precedes(const struct trial *a, const struct trial *b, const struct ranking_rule *rule)
{
    double left = ranking_score(a, rule), right = ranking_score(b, rule);

    if (left != right)
        return left < right;
    return a->reserved_bytes != b->reserved_bytes ? a->reserved_bytes < b->reserved_bytes : a->ns < b->ns;
}

double
ranking_score(const struct trial *trial, const struct ranking_rule *rule)
{
    double memory = (double)trial->reserved_bytes;

    return rule->aim == RANKING_MEMORY ? memory
           : rule->aim == RANKING_TIME ? trial->ns
                                       : memory * (rule->program_ns + trial->ns);
}

bool
ranking_make(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
             struct ranking *out)
{
    *out = (struct ranking){ calloc(list->count + 1, sizeof(bool)), SIZE_MAX, SIZE_MAX, false };
    if (out->is_best == NULL) {
        message("tidemark recommend: no memory for the ranking");
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].is_now && out->now == SIZE_MAX)
            out->now = i;
        if (!ranking_may(list, trials, i, rule))
            continue;
        out->is_best[i] = true;
        for (size_t j = 0; j < list->count && out->is_best[i]; j++)
            out->is_best[i] = !ranking_may(list, trials, j, rule) || !ranking_beats(&trials[j], &trials[i]);
        if (out->recommended == SIZE_MAX || ranking_precedes(&trials[i], &trials[out->recommended], rule))
            out->recommended = i;
    }
    if (out->now != SIZE_MAX && out->recommended != SIZE_MAX && out->now != out->recommended) {
        const struct trial *now = &trials[out->now], *best = &trials[out->recommended];

        bool beaten = best->reserved_bytes < now->reserved_bytes && best->ns < RANKING_SAME_TIME * now->ns;

        out->now_is_worse = now->error[0] == '\0' && (beaten || !ranking_serves(now, rule));
    }
    return true;
}

void
ranking_free(struct ranking *ranking)
{
    free(ranking->is_best);
    ranking->is_best = NULL;
}
