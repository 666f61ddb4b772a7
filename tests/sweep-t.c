/* What a further replay of a stack makes of what was known of it. */
#include "config.h"

#include <stdlib.h>

#include "tests/tap.h"
#include "viewer/base/exit-status.h"
#include "viewer/recommend/sweep.h"

static struct candidate item = { .base = COST_CUDA };
static const struct candidates list = { .items = &item, .count = 1, .bases = { true, true, true } };

/* Replay a stack once more, of which nothing but its model matters. */
static void
again(char *model, struct trial *trial)
{
    static const struct traffic traffic;

    item.text = item.model = model;
    if (sweep_again(&list, 0, &traffic, 1, &costs_default, trial) != COMMAND_FINE)
        exit(99);
}

int
main(void)
{
    static char fine[] = "statistics | sim(model=cuda)", wrong[] = "nothing of this name";
    struct trial trial = { .reserved_bytes = 7, .times = { 5 }, .own_ns = 5, .time_count = 1, .is_alone = true };

    plan(4);
    again(wrong, &trial);
    ok(trial.error[0] == '\0' && trial.reserved_bytes == 7 && trial.time_count == 1 && trial.own_ns == 5,
       "a further replay that fails leaves the trial as it is");
    ok(trial.again_failed, "and says that there need be no more");
    trial = (struct trial){ .error = "it was not tried", .is_alone = true };
    again(wrong, &trial);
    ok(trial.error[0] != '\0' && !trial.again_failed, "of a trial that failed nothing is kept");
    /* The replay of nothing may take 0. */
    trial = (struct trial){ .times = { 0, 1e18 }, .own_ns = 0, .time_count = 2, .is_alone = true };
    again(fine, &trial);
    ok(trial.error[0] == '\0' && trial.time_count == 3 && trial.own_ns == 0 && trial.times[2] == 1e18,
       "a further replay that serves all adds its time to those before it");
    return done();
}
