/*
 * A server's day through pools, in virtual time: what is reserved hour by hour beside what is live, with and without
 * decay, and how often the base is asked for chunks. Two loads of about a million requests: the KV cache of
 * tests/server-day.h, and the recorded traffic of multistream_sort again and again with sizes that drift.
 *
 * Usage: bench/day
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "tests/server-day.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"

#define DAY_REQUESTS 1000000
#define DAY_HOURS    24
#define DAY_ROUNDS   28 /* of recorded traffic */
#define MIB          1048576.0

static const char *const stacks[] = {
    "pool | statistics | sim(model=vmm)",
    "pool(decay=600000) | statistics | sim(model=vmm)",
    "pool | statistics | sim(model=driver)",
    "pool(decay=600000) | statistics | sim(model=driver)",
};

#define STACKS (sizeof(stacks) / sizeof(stacks[0]))

struct hour {
    double live_sum, reserved_sum; /* after each call */
    uint64_t calls, live_peak, asked;
};

struct day {
    struct tide_resource *stack, *base, *statistics;
    uint64_t begin_ms;
    struct hour hours[DAY_HOURS];
};

static uint64_t
day_asked(const struct day *day)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };

    tide_statistics_read(day->statistics, &figures);
    return (uint64_t)figures.count.total;
}

static void
day_watch(void *context, uint64_t live_bytes)
{
    struct day *day = context;
    uint64_t i = (server_day_now_ms - day->begin_ms) / SERVER_DAY_HOUR_MS, reserved = 0;
    struct hour *hour = &day->hours[i < DAY_HOURS ? i : DAY_HOURS - 1];

    tide_query(day->base, TIDE_QUERY_BYTES_RESERVED, &reserved);
    hour->live_sum += (double)live_bytes;
    hour->reserved_sum += (double)reserved;
    hour->calls++;
    if (hour->live_peak < live_bytes)
        hour->live_peak = live_bytes;
    hour->asked = day_asked(day);
}

static void
day_begin(struct day *day, const char *text)
{
    memset(day, 0, sizeof(*day));
    if (tide_stack_parse(text, &day->stack) != TIDE_OK ||
        tide_stack_find(day->stack, "statistics", &day->statistics) != TIDE_OK)
        bench_fail(tide_error_text());
    day->base = day->statistics->upstream;
    day->begin_ms = server_day_now_ms;
}

static void
run_cache(struct day *day)
{
    struct server_day run = { .requests = DAY_REQUESTS, .seed = 20261130, .stack = day->stack };

    run.watch = day_watch;
    run.context = day;
    server_day_run(&run);
    if (run.failures != 0)
        bench_fail("the stack refused requests");
}

/* The sizes go from a quarter to the whole and back in the day. */
static uint64_t
drifted(uint64_t bytes, uint64_t round)
{
    uint64_t eighths = round < DAY_ROUNDS / 2 ? 2 + round * 6 / (DAY_ROUNDS / 2 - 1)
                                              : 2 + (DAY_ROUNDS - 1 - round) * 6 / (DAY_ROUNDS / 2 - 1);

    return bytes * eighths / 8 + 1;
}

static void
run_recorded(struct day *day, const struct replay_input *input)
{
    void **pointers = calloc(input->allocation_count, sizeof(*pointers));
    uint64_t live = 0, count = 0;

    if (pointers == NULL)
        bench_fail("no memory");
    for (uint64_t round = 0; round < DAY_ROUNDS; round++) {
        for (size_t i = 0; i < input->event_count; i++, count++) {
            const struct replay_event *event = &input->events[i];
            uint64_t bytes = drifted(input->sizes[event->allocation], round), stream = input->streams[event->stream];
            void **pointer = &pointers[event->allocation];
            enum tide_status status = TIDE_OK;

            if (event->kind == REPLAY_ALLOCATE)
                status = tide_allocate(day->stack, bytes, 256, stream, pointer);
            else if (event->kind == REPLAY_FREE)
                status = tide_deallocate(day->stack, *pointer, bytes, 256, stream);
            if (status != TIDE_OK)
                bench_fail(tide_error_text());
            live = event->kind == REPLAY_ALLOCATE ? live + bytes : event->kind == REPLAY_FREE ? live - bytes : live;
            server_day_now_ms = day->begin_ms + count * SERVER_DAY_MS / (DAY_ROUNDS * input->event_count);
            day_watch(day, live);
        }
    }
    free(pointers);
}

static void
print_day(struct day days[STACKS])
{
    printf("%4s %9s %9s", "hour", "live", "peak");
    for (size_t k = 0; k < STACKS; k++)
        printf("  %18s", strstr(stacks[k], "vmm") != NULL ? (k % 2 != 0 ? "pages, decay" : "pages")
                                                          : (k % 2 != 0 ? "units, decay" : "units"));
    printf("\n");
    for (size_t i = 0; i < DAY_HOURS; i++) {
        const struct hour *first = &days[0].hours[i];

        printf("%4zu %9.0f %9.0f", i, first->live_sum / (double)first->calls / MIB, (double)first->live_peak / MIB);
        for (size_t k = 0; k < STACKS; k++) {
            const struct hour *hour = &days[k].hours[i];
            uint64_t before = i > 0 ? days[k].hours[i - 1].asked : 0;

            printf("  %9.0f (%6" PRIu64 ")", hour->reserved_sum / (double)hour->calls / MIB, hour->asked - before);
        }
        printf("\n");
    }
    printf("\n");
}

static void
measure(const char *title, const struct replay_input *input)
{
    static struct day days[STACKS];

    for (size_t k = 0; k < STACKS; k++) {
        day_begin(&days[k], stacks[k]);
        if (input != NULL)
            run_recorded(&days[k], input);
        else
            run_cache(&days[k]);
        tide_resource_release(days[k].stack);
    }
    printf("%s: MiB in the mean of each hour, live at most, and reserved (chunks asked for)\n", title);
    print_day(days);
}

int
main(void)
{
    const struct replay_reading reading = { 0 };
    struct replay_input input;

    if (replay_read_csv(BENCH_DATA "/multistream_sort.csv.gz", &reading, &input) != COMMAND_FINE)
        bench_fail("multistream_sort");
    measure("KV cache", NULL);
    measure("multistream_sort, 28 times", &input);
    replay_input_clear(&input);
    return 0;
}
