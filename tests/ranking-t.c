/* Which stacks `tidemark recommend` takes as best, and as worse, with planted times. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "viewer/recommend/ranking.h"

#define MOST 8

static struct candidate items[MOST];
static struct trial trials[MOST];
static struct candidates list = { .items = items, .bases = { true, true, true } };
static struct ranking_rule rule;
static struct ranking ranking;

/* The first stack that is planted is that of now. */
static void
begin(enum ranking_aim aim, double program_ns)
{
    memset(items, 0, sizeof(items));
    memset(trials, 0, sizeof(trials));
    list.count = 0;
    items[0].is_now = true;
    rule = (struct ranking_rule){ aim, UINT64_MAX, program_ns };
}

/* Plant a stack: its own time in two replays alone, the least first. */
static void
plant(uint64_t bytes, double driver_ns, double own_ns, double own_again_ns)
{
    trials[list.count++] = (struct trial){ .reserved_bytes = bytes,
                                           .driver_ns = driver_ns,
                                           .own_ns = own_ns,
                                           .ns = driver_ns + own_ns,
                                           .times = { own_ns, own_again_ns },
                                           .time_count = 2,
                                           .is_alone = true };
}

/* Two more replays of a stack that is planted, which took longer than those. */
static void
plant_more(struct trial *trial, double own_ns, double own_most_ns)
{
    trial->times[2] = own_ns;
    trial->times[3] = own_most_ns;
    trial->time_count = 4;
}

static void
rank(void)
{
    ranking_free(&ranking);
    if (!ranking_make(&list, trials, &rule, &ranking))
        exit(99);
}

static void
test_worse(void)
{
    begin(RANKING_TIME, 0);
    plant(200, 1000, 100, 105);
    plant(100, 500, 100, 105);
    rank();
    ok(ranking.recommended == 1 && ranking.now_is_worse, "more memory and twice the modelled time is worse");

    begin(RANKING_TIME, 0);
    plant(100, 1000, 100, 105);
    plant(100, 500, 100, 105);
    rank();
    ok(ranking.recommended == 1 && !ranking.now_is_worse, "twice the time in the same memory is not worse in both");

    begin(RANKING_TIME, 0);
    plant(200, 200, 100, 190);
    plant(100, 200, 60, 130);
    rank();
    ok(ranking.recommended == 1 && !ranking.now_is_worse, "a least time that is less by more than a tenth of the whole "
                                                          "is nothing where replays of one stack differ by more");

    begin(RANKING_TIME, 0);
    plant(200, 0, 100, 101);
    plant(100, 0, 80, 81);
    rank();
    ok(ranking.now_is_worse, "the same least times are a finding where replays of one stack differ by less");

    begin(RANKING_TIME, 0);
    plant(200, 414, 130, 300);
    plant(100, 37, 200, 330);
    rank();
    ok(ranking.recommended == 1 && ranking.now_is_worse,
       "where the own times are within each other's spread, what calls of the driver cost makes it a finding");

    begin(RANKING_TIME, 0);
    plant(200, 40, 2000, 2300);
    plant(100, 20, 1900, 2300);
    rank();
    ok(!ranking.now_is_worse,
       "half of what calls of the driver cost is nothing beside an own time of fifty times that");

    begin(RANKING_MEMORY, 0);
    plant(200, 1000, 100, 101);
    plant(100, 500, 1000, 1001);
    rank();
    ok(ranking.recommended == 1 && !ranking.now_is_worse, "a stack with surely more time of its own makes no finding");

    begin(RANKING_MEMORY, 0);
    plant(200, 0, 100, 101);
    plant_more(&trials[0], 101, 101);
    plant(100, 0, 80, 81);
    plant_more(&trials[1], 81, 81);
    rank();
    ok(ranking.now_is_worse, "four replays of both that took less than nine tenths of the time are a finding");
    plant_more(&trials[1], 81, 91);
    rank();
    ok(!ranking.now_is_worse, "and where one of them took longer than that they are none");

    begin(RANKING_MEMORY, 0);
    plant(200, 100, 100, 101);
    plant_more(&trials[0], 101, 101);
    plant(100, 70, 120, 121);
    plant_more(&trials[1], 121, 121);
    rank();
    ok(!ranking.now_is_worse,
       "where all replays of the recorded stack took less, its calls of the driver alone are none");
    plant_more(&trials[0], 101, 122);
    rank();
    ok(ranking.now_is_worse, "and where one of them took as long as one of the other, the calls of the driver decide");
}

/* Noise in the own times of all stacks, of up to a tenth: the answer stays the same. */
static void
test_noise(void)
{
    static const double noise[] = { 1, 1.1, 1.05, 1.02, 1.09, 1.01, 1.07 };
    size_t count = sizeof(noise) / sizeof(noise[0]);
    int worse = 0, same = 0, fronts = 0;
    bool front[MOST] = { false };

    for (size_t turn = 0; turn < count; turn++) {
        static const double driver[] = { 505, 500, 498, 500 };
        static const uint64_t bytes[] = { 200, 110, 120, 130 };

        begin(RANKING_TIME, 0);
        for (size_t i = 0; i < 4; i++)
            plant(bytes[i], driver[i], 200 * noise[(turn + i) % count], 230);
        rank();
        worse += ranking.now_is_worse;
        same += ranking.recommended == 1;
        fronts += turn == 0 || memcmp(front, ranking.is_best, sizeof(front[0]) * list.count) == 0;
        memcpy(front, ranking.is_best, sizeof(front[0]) * list.count);
    }
    ok(worse == 0, "noise within the spread makes no finding of a stack that is as fast");
    ok(same == (int)count,
       "of stacks with times within each other's spread the one with the least memory is recommended");
    ok(fronts == (int)count, "and the front is the same in each turn");
}

static void
test_front(void)
{
    begin(RANKING_BOTH, 1e9);
    plant(100, 1000, 100, 110);
    plant(110, 995, 100, 110);
    plant(120, 500, 100, 110);
    plant(120, 400, 200, 220);
    plant(130, 100, 100, 110);
    rank();
    ok(ranking.is_best[0] && !ranking.is_best[1], "more memory for a time within the spread is not on the front");
    ok(ranking.is_best[4], "more memory for a time that is surely less is");
    ok(ranking.is_best[3] && !ranking.is_best[2],
       "of stacks with as much memory and as much time the one whose calls of the driver cost less is");
    ok(ranking.recommended == 0, "the run time of the program has memory decide for both");

    begin(RANKING_TIME, 0);
    plant(200, 100, 100, 101);
    plant(100, 300, 100, 101);
    rank();
    ok(ranking.recommended == 0, "a time that is surely less is recommended for time, whatever the memory");

    begin(RANKING_MEMORY, 0);
    plant(100, 300, 100, 101);
    plant(100, 200, 100, 101);
    rank();
    ok(ranking.recommended == 1, "of the least memory the stack that is surely faster is recommended");
    ok(ranking.is_best[1] && !ranking.is_best[0], "and it alone is on the front");

    begin(RANKING_TIME, 0);
    plant(200, 100, 100, 101);
    plant(100, 100, 140, 0);
    trials[1].time_count = 1;
    rank();
    ok(ranking.recommended == 0, "a stack that was replayed once has the spread of the others");
    ok(ranking.times[1].most_ns > ranking.times[1].ns, "and its time is no more exact than theirs");
}

static void
test_order(void)
{
    size_t order[] = { 0, 1, 2, 3 };

    begin(RANKING_BOTH, 0);
    plant(120, 10, 300, 310);
    plant(100, 20, 100, 310);
    plant(100, 10, 200, 310);
    plant(120, 10, 100, 310);
    qsort_r(order, 4, sizeof(*order), ranking_compare, trials);
    ok(order[0] == 2 && order[1] == 1 && order[2] == 0 && order[3] == 3,
       "what is printed is in the order of memory, then of modelled costs, then as it was tried");
    ranking.times[0] = (struct ranking_time){ .ns = 10, .most_ns = 20 };
    ranking.times[1] = (struct ranking_time){ .ns = 20, .most_ns = 30 };
    ok(ranking_is_same_time(&ranking.times[0], &ranking.times[1]), "times that meet are the same");
    ranking.times[1].ns = 21;
    ok(!ranking_is_same_time(&ranking.times[0], &ranking.times[1]) &&
           !ranking_is_same_time(&ranking.times[1], &ranking.times[0]),
       "times that do not meet are not");
}

int
main(void)
{
    plan(26);
    test_worse();
    test_noise();
    test_front();
    test_order();
    ranking_free(&ranking);
    return done();
}
