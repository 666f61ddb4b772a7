/*
 * What an offline plan of all blocks would need, beside what a pool holds for the same traffic: the lower bound, which
 * is the most that is live; the greedy placements; the best that a search finds; and the most that the bases of pools
 * reserved, over models of physical memory. Then the same of a loop, whose step a plan would serve with one offset for
 * each of its requests, and of one such step alone, as a CUDA graph has it. Where nothing repeats, the loop is made of
 * the largest step. Without files: recorded traffic of tests/data, and exact tilings of a rectangle, whose best
 * placement is known.
 *
 * A CSV may also be a list of buffers, as minimalloc reads them: "id,lower,upper,size", each of which lives from lower
 * to before upper. Its sizes are of any unit.
 *
 * Usage: bench/plan [--seconds=S] [--rounds=N] [--seed=N] [--step=FROM:TO] [TRACE|CSV ...]
 *
 * `make bench-plan` runs it, with PLAN_ARGS. --seconds and --rounds bound each search (10 s, 1,000,000 rounds). --step
 * takes the allocations of more than 0 bytes from FROM to before TO, counted from 0, of each input as the step of a
 * loop, and measures that alone.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "plan-flow.h"
#include "plan-place.h"
#include "replayed.h"
#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/recommend/traffic.h"

#define MIB    1048576.0
#define PAGE   UINT64_C(2097152)
#define ROUNDS 30
#define TURNS  5
#define SCALES 24

static const struct {
    const char *name;
    const char *text;
} stacks[] = {
    { "pool | sim(model=vmm)", "pool | statistics | sim(model=vmm)" },
    { "pool | sim(model=driver)", "pool | statistics | sim(model=driver)" },
    { "pool | sim(granularity=2MiB)", "pool | statistics | sim(granularity=2MiB)" },
};

struct settings {
    struct place_search search;
    size_t step_begin;
    size_t step_end; /* 0: a loop is searched for */
};

/* What a stack holds. */
struct held {
    uint64_t most;
    uint64_t most_late; /* from the event `late` on */
    uint64_t asked;     /* chunks of the base */
    uint64_t asked_late;
};

static void
hold(const char *text, const struct replay_input *input, size_t late, struct held *out)
{
    void **pointers = calloc(input->allocation_count + 1, sizeof(*pointers));
    struct tide_resource *stack, *statistics;
    uint64_t early = 0;

    *out = (struct held){ 0 };
    if (pointers == NULL || tide_stack_parse(text, &stack) != TIDE_OK ||
        tide_stack_find(stack, "statistics", &statistics) != TIDE_OK)
        bench_fail(tide_error_text());
    for (size_t i = 0; i < input->event_count; i++) {
        uint64_t now = 0;

        if (i == late)
            early = replayed_asked(statistics);
        replayed_call(stack, input, &input->events[i], pointers);
        tide_query(statistics->upstream, TIDE_QUERY_BYTES_RESERVED, &now);
        if (i >= late && now > out->most_late)
            out->most_late = now;
    }
    tide_query(statistics->upstream, TIDE_QUERY_BYTES_RESERVED_HIGH, &out->most);
    out->asked = replayed_asked(statistics);
    out->asked_late = out->asked - early;
    tide_resource_release(stack);
    free(pointers);
}

static uint64_t
in_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* A line: bytes, and their ratio to the bound. */
static void
print_bytes(const char *name, uint64_t bytes, uint64_t bound)
{
    printf("  %-44s %10.2f MiB  %.4f", name, (double)bytes / MIB, (double)bytes / (double)bound);
}

/*
 * Place blocks, and print what that needs with `more` bytes beside them. `each`: every greedy placement, too. Returns
 * the top.
 */
static uint64_t
print_plan(const struct place_blocks *blocks, uint64_t more, uint64_t bound, bool each,
           const struct place_search *search)
{
    uint64_t *offsets = calloc(blocks->count + 1, sizeof(*offsets));
    struct place_plan plan;
    char name[64];

    if (offsets == NULL)
        bench_fail("no memory for a plan");
    place_best(blocks, search, offsets, &plan);
    for (unsigned i = 0; each && i < 2 * PLACE_ORDERS; i++) {
        const struct place_result *greedy = &plan.greedy[i / 2][i % 2];

        snprintf(name, sizeof(name), "plan %s, %s", place_order_names[i / 2],
                 i % 2 == 1 ? "smallest gap" : "lowest gap");
        print_bytes(name, greedy->top + more, bound);
        printf("  %.2f s\n", greedy->seconds);
    }
    print_bytes("best plan", plan.best.top + more, bound);
    printf("  gap %.2f%%, %.2f s, %" PRIu64 " rounds\n", 100 * ((double)(plan.best.top + more) / (double)bound - 1),
           plan.best.seconds, plan.best.rounds);
    free(offsets);
    return plan.best.top;
}

static void
print_held(const struct replay_input *input, size_t late, uint64_t bound)
{
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        struct held held;

        hold(stacks[i].text, input, late, &held);
        print_bytes(stacks[i].name, held.most, bound);
        if (late > 0 && late < input->event_count)
            printf("  last step %.4f", (double)held.most_late / (double)bound);
        printf("  %" PRIu64 " chunks", held.asked);
        if (late > 0 && late < input->event_count)
            printf(", %" PRIu64 " in the last step", held.asked_late);
        printf("\n");
    }
}

/* Each stream with addresses of its own: a plan needs no knowledge of what streams wait for. */
static void
print_streams(const struct flow *flow, size_t stream_count, uint64_t bound, const struct place_search *search)
{
    struct place_life *lives = calloc(flow->count + 1, sizeof(*lives));
    uint64_t *offsets = calloc(flow->count + 1, sizeof(*offsets)), bounds = 0, tops = 0;

    if (lives == NULL || offsets == NULL)
        bench_fail("no memory for a plan");
    for (size_t stream = 0; stream < stream_count; stream++) {
        struct place_blocks blocks = { .lives = lives, .slots = (uint32_t)flow->count };
        struct place_search part = *search;
        struct place_plan plan;

        for (size_t i = 0; i < flow->count; i++)
            if (flow->lives[i].stream == stream)
                lives[blocks.count++] = flow->lives[i];
        part.seconds /= (double)stream_count;
        place_best(&blocks, &part, offsets, &plan);
        bounds += place_bound(&blocks);
        tops += plan.best.top;
    }
    print_bytes("bound, addresses of each stream apart", bounds, bound);
    printf("\n");
    print_bytes("best plan, addresses of each stream apart", tops, bound);
    printf("\n");
    free(lives);
    free(offsets);
}

static double
processor_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Processor time of a call in the last step of the loop, through a stack; the least of some turns. */
static double
stack_ns(const char *text, const struct replay_input *input, size_t late)
{
    void **pointers = calloc(input->allocation_count + 1, sizeof(*pointers));
    double least = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        struct tide_resource *stack;
        double begin = 0, ns;

        if (pointers == NULL || tide_stack_parse(text, &stack) != TIDE_OK)
            bench_fail(tide_error_text());
        for (size_t i = 0; i < input->event_count; i++) {
            if (i == late)
                begin = processor_ns();
            replayed_call(stack, input, &input->events[i], pointers);
        }
        ns = (processor_ns() - begin) / (double)(input->event_count - late);
        least = turn == 0 || ns < least ? ns : least;
        tide_resource_release(stack);
    }
    free(pointers);
    return least;
}

/* The table of a plan: the n-th request of a step, where it is of the size that was planned, gets the n-th offset. */
struct table {
    const uint64_t *sizes;
    const uint64_t *offsets;
    size_t count;
    _Atomic uint64_t next;
};

/* So that no look-up is left out. */
static volatile uint64_t table_found;

/* Processor time of a call that looks its offset up in a table; frees have nothing to do. */
static double
table_ns(const struct flow_step *step)
{
    uint64_t *sizes = calloc(step->count + 1, sizeof(*sizes)), *offsets = calloc(step->count + 1, sizeof(*offsets));
    struct table table = { sizes, offsets, step->count, 0 };
    double least = 0;

    if (sizes == NULL || offsets == NULL)
        bench_fail("no memory for a table");
    for (size_t i = 0; i < step->count; i++)
        sizes[i] = step->lives[i].bytes;
    for (int turn = 0; turn < TURNS; turn++) {
        double begin = processor_ns(), ns;

        for (unsigned round = 0; round < ROUNDS; round++)
            for (size_t i = 0; i < step->count; i++) {
                uint64_t n = atomic_fetch_add_explicit(&table.next, 1, memory_order_relaxed) % table.count;

                if (table.sizes[n] == step->lives[i].bytes)
                    table_found += table.offsets[n];
            }
        ns = (processor_ns() - begin) / (2.0 * ROUNDS * (double)step->count);
        least = turn == 0 || ns < least ? ns : least;
    }
    free(sizes);
    free(offsets);
    return least;
}

/* From above a half to one and a half times the bytes. */
static uint64_t
scale(uint64_t bytes, unsigned k)
{
    bytes = bytes * (SCALES / 2 + k) / SCALES;
    return bytes < PLACE_ALIGNMENT ? PLACE_ALIGNMENT
                                   : (bytes + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT;
}

/* Small differences of sizes have a pool make other choices: so what it holds at many scales of them. */
static void
print_scales(const struct flow_step *step)
{
    struct flow_step scaled = *step;
    double sum = 0, most = 0;

    scaled.lives = calloc(step->count + 1, sizeof(*scaled.lives));
    scaled.stays = calloc(step->stays_count + 1, sizeof(*scaled.stays));
    if (scaled.lives == NULL || scaled.stays == NULL)
        bench_fail("no memory for a step");
    for (unsigned k = 1; k <= SCALES; k++) {
        struct place_blocks blocks = { scaled.lives, scaled.count, scaled.slots };
        struct replay_input input;
        struct held held;
        double ratio;
        size_t late;

        scaled.stays_bytes = 0;
        for (size_t i = 0; i < step->count; i++) {
            scaled.lives[i] = step->lives[i];
            scaled.lives[i].bytes = scale(step->lives[i].bytes, k);
        }
        for (size_t i = 0; i < step->stays_count; i++)
            scaled.stays_bytes += scaled.stays[i] = scale(step->stays[i], k);
        flow_repeat(&scaled, ROUNDS, &input, &late);
        hold(stacks[0].text, &input, late, &held);
        ratio = (double)held.most / (double)(scaled.stays_bytes + place_bound(&blocks));
        sum += ratio;
        most = ratio > most ? ratio : most;
        replay_input_clear(&input);
    }
    printf("  %s at %d scales of the sizes: mean %.4f, most %.4f\n", stacks[0].name, SCALES, sum / SCALES, most);
    flow_step_free(&scaled);
}

static void
print_times(const struct flow_step *step, const struct replay_input *input, size_t late)
{
    printf(
        "  ns a call in the last step: pool | sim(model=vmm) %.1f, sim(model=vmm) alone %.1f, table of a plan %.1f\n",
        stack_ns("pool | sim(model=vmm)", input, late), stack_ns("sim(model=vmm)", input, late), table_ns(step));
}

/* A step as a loop: what stays is served from below the plan, so that each part has pages of its own. */
static void
measure_loop(const struct flow_step *step, const struct place_search *search)
{
    struct place_blocks blocks = { step->lives, step->count, step->slots };
    uint64_t bound = step->stays_bytes + place_bound(&blocks), top;
    struct replay_input input;
    size_t late = 0;

    printf(" a loop of %zu blocks a step, beside %zu that stay (%.2f MiB)\n", step->count, step->stays_count,
           (double)step->stays_bytes / MIB);
    print_bytes("bound: live at most", bound, bound);
    printf("\n");
    top = print_plan(&blocks, step->stays_bytes, bound, false, search);
    print_bytes("best plan in pages, and what stays in others", in_pages(top) + in_pages(step->stays_bytes), bound);
    printf("\n");
    flow_repeat(step, ROUNDS, &input, &late);
    print_held(&input, late, bound);
    print_scales(step);
    print_times(step, &input, late);
    replay_input_clear(&input);
}

/* One step alone, from an empty pool: blocks that go on into the next one live to its end. */
static void
measure_alone(const struct flow_step *step, const struct place_search *search)
{
    struct flow_step alone = { .count = step->count, .slots = step->slots };
    struct place_blocks blocks;
    struct replay_input input;
    uint64_t bound, top;
    size_t late = 0;

    alone.lives = calloc(step->count + 1, sizeof(*alone.lives));
    if (alone.lives == NULL)
        bench_fail("no memory for a step");
    for (size_t i = 0; i < step->count; i++) {
        alone.lives[i] = step->lives[i];
        if (alone.lives[i].end <= alone.lives[i].begin)
            alone.lives[i].end = step->slots;
    }
    blocks = (struct place_blocks){ alone.lives, alone.count, alone.slots };
    bound = place_bound(&blocks);
    printf(" one step alone, as in a CUDA graph's pool\n");
    print_bytes("bound: live at most", bound, bound);
    printf("\n");
    top = print_plan(&blocks, 0, bound, false, search);
    print_bytes("best plan in pages", in_pages(top), bound);
    printf("\n");
    flow_repeat(&alone, 1, &input, &late);
    print_held(&input, 0, bound);
    replay_input_clear(&input);
    flow_step_free(&alone);
}

/* All blocks, each with an offset of its own. */
static void
measure_whole(const struct flow *flow, const struct replay_input *input, const struct place_search *search)
{
    struct place_blocks blocks = { flow->lives, flow->count, (uint32_t)flow->count };
    uint64_t bound = place_bound(&blocks);

    print_bytes("bound: live at most", bound, bound);
    printf("\n");
    print_plan(&blocks, 0, bound, true, search);
    if (input->stream_count > 1)
        print_streams(flow, input->stream_count, bound, search);
    print_held(input, 0, bound);
}

static void
measure_step(const struct flow *flow, size_t begin, size_t end, const struct place_search *search)
{
    struct flow_step step;

    flow_step_make(flow, begin, end, &step);
    measure_loop(&step, search);
    measure_alone(&step, search);
    flow_step_free(&step);
}

static void
measure_flow(const char *name, const struct replay_input *input, const struct settings *settings)
{
    size_t begin = settings->step_begin, end = settings->step_end;
    struct flow flow;

    flow_make(input, &flow);
    if (flow.count == 0 || end > flow.count)
        bench_fail(flow.count == 0 ? "there is nothing to place" : "--step is beyond the end of the traffic");
    printf("%s: %zu blocks of more than 0 bytes, %zu streams; ratios are of the bound\n", name, flow.count,
           input->stream_count);
    if (end == 0) {
        struct flow_loop loop = flow_find_loop(&flow);

        measure_whole(&flow, input, &settings->search);
        if (loop.period > 0) {
            printf(" %zu blocks from %zu on repeat, %zu a step\n", loop.count, loop.begin, loop.period);
            begin = flow_step_begin(&flow, &loop);
            end = begin + loop.period;
        } else if (flow_largest_step(&flow, &begin, &end)) {
            printf(" nothing repeats; as a loop of equal steps, the largest step: %zu to %zu\n", begin, end);
        } else {
            printf(" nothing repeats, and there are no steps\n");
        }
    }
    if (end > 0)
        measure_step(&flow, begin, end, &settings->search);
    flow_free(&flow);
}

/* Buffers as they are listed. */
struct buffers {
    struct place_life *lives; /* owns */
    size_t count, capacity;
    uint64_t *times; /* owns; of the begins and ends */
    size_t time_capacity;
};

static int
buffers_compare(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

/* Read the rows behind the header; times and sizes are as they are written. */
static void
buffers_read(FILE *file, const char *path, struct buffers *out)
{
    char line[256];

    for (size_t number = 2; fgets(line, sizeof(line), file) != NULL; number++) {
        struct place_life *life;
        uint32_t begin, end;
        uint64_t size;
        int used = 0;

        if (sscanf(line, "%*[^,],%" SCNu32 ",%" SCNu32 ",%" SCNu64 "%n", &begin, &end, &size, &used) != 3 ||
            strspn(line + used, " \r\n") != strlen(line + used) || begin >= end || size == 0 || size >> 48 != 0) {
            fprintf(stderr, "bench/plan: %s:%zu: a buffer is expected: id,lower,upper,size\n", path, number);
            exit(2);
        }
        if (!tidei_grow(&out->lives, &out->capacity, out->count, 1) ||
            !tidei_grow(&out->times, &out->time_capacity, 2 * out->count, 2))
            bench_fail("no memory for the buffers");
        life = &out->lives[out->count];
        *life = (struct place_life){ begin, end, 0, size };
        out->times[2 * out->count] = begin;
        out->times[2 * out->count++ + 1] = end;
    }
}

/* The slot of a time is its place among those at which a buffer begins or ends. */
static uint32_t
buffers_slots(struct buffers *buffers)
{
    size_t count = 0;

    qsort(buffers->times, 2 * buffers->count, sizeof(*buffers->times), buffers_compare);
    for (size_t i = 0; i < 2 * buffers->count; i++) {
        if (count == 0 || buffers->times[count - 1] != buffers->times[i])
            buffers->times[count++] = buffers->times[i];
    }
    for (size_t i = 0; i < buffers->count; i++) {
        uint64_t begin = buffers->lives[i].begin, end = buffers->lives[i].end;
        const uint64_t *times = buffers->times;

        buffers->lives[i].begin =
            (uint32_t)((uint64_t *)bsearch(&begin, times, count, sizeof(*times), buffers_compare) - times);
        buffers->lives[i].end =
            (uint32_t)((uint64_t *)bsearch(&end, times, count, sizeof(*times), buffers_compare) - times);
    }
    return (uint32_t)count;
}

/* Sizes become multiples of PLACE_ALIGNMENT: where they are none, that is taken for their unit. */
static void
buffers_scale(struct buffers *buffers)
{
    bool are = true;

    for (size_t i = 0; i < buffers->count; i++)
        are = are && buffers->lives[i].bytes % PLACE_ALIGNMENT == 0;
    for (size_t i = 0; i < buffers->count && !are; i++)
        buffers->lives[i].bytes *= PLACE_ALIGNMENT;
}

/* Measure a list of buffers. False: the file is none. */
static bool
measure_buffers(const char *path, const struct settings *settings)
{
    FILE *file = fopen(path, "r");
    char header[64] = "";
    struct buffers buffers = { 0 };
    struct place_blocks blocks;

    if (file == NULL || fgets(header, sizeof(header), file) == NULL ||
        (strcspn(header, "\r\n") == 0 || strstr(header, ",size") == NULL ||
         (strstr(header, ",lower,upper,") == NULL && strstr(header, ",start,end,") == NULL))) {
        if (file != NULL)
            fclose(file);
        return false;
    }
    buffers_read(file, path, &buffers);
    fclose(file);
    if (buffers.count == 0)
        bench_fail("there is nothing to place");
    blocks = (struct place_blocks){ buffers.lives, buffers.count, buffers_slots(&buffers) };
    buffers_scale(&buffers);
    printf("%s: %zu buffers\n", strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path, buffers.count);
    print_bytes("bound: live at most", place_bound(&blocks), place_bound(&blocks));
    printf("\n");
    print_plan(&blocks, 0, place_bound(&blocks), true, &settings->search);
    free(buffers.lives);
    free(buffers.times);
    return true;
}

static void
measure_file(const char *path, const struct settings *settings)
{
    struct traffic traffic;

    if (measure_buffers(path, settings))
        return;
    if (traffic_read(path, 0, &traffic) != COMMAND_FINE)
        bench_fail(path);
    measure_flow(strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path, &traffic.input, settings);
    traffic_free(&traffic);
}

static uint64_t
tiling_random(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

/* The largest of four parts, drawn at random: sizes differ, and few become slivers. */
static struct place_life *
tiling_draw(struct place_life *parts, size_t count, uint64_t *state)
{
    struct place_life *largest = NULL;
    uint64_t most = 0;

    for (int i = 0; i < 4; i++) {
        struct place_life *part = &parts[tiling_random(state, count)];
        uint64_t area = (part->end - part->begin) * part->bytes;

        if (area > most) {
            largest = part;
            most = area;
        }
    }
    return largest;
}

/* A rectangle of time and addresses that is cut in two until there are `count` parts: they fill it without a gap. */
static void
measure_tiling(size_t count, const struct settings *settings)
{
    const uint32_t side = 1024; /* in slots, and in KiB */
    struct place_life *parts = calloc(count, sizeof(*parts));
    struct place_blocks blocks = { parts, count, side };
    uint64_t state = settings->search.seed * 2654435761u + count;

    if (parts == NULL)
        bench_fail("no memory for a tiling");
    parts[0] = (struct place_life){ 0, side, 0, side * UINT64_C(1024) };
    for (size_t made = 1; made < count;) {
        struct place_life *part = tiling_draw(parts, made, &state);
        uint64_t kib = part->bytes / 1024, slots = part->end - part->begin;
        bool in_time = tiling_random(&state, kib + slots) < slots;

        if (in_time ? slots < 2 : kib < 2)
            continue;
        parts[made] = *part;
        if (in_time) {
            part->end = parts[made].begin = part->begin + 1 + (uint32_t)tiling_random(&state, slots - 1);
        } else {
            part->bytes = (1 + tiling_random(&state, kib - 1)) * 1024;
            parts[made].bytes -= part->bytes;
        }
        made++;
    }
    printf("%zu parts of a rectangle\n", count);
    print_plan(&blocks, 0, place_bound(&blocks), false, &settings->search);
    free(parts);
}

/* As many parts as the published instances of minimalloc have buffers, from the first to the last of eleven. */
#define TILING_LEAST 154
#define TILING_MOST  455
#define TILINGS      11

static void
measure_all(const struct settings *settings)
{
    static const char *const recorded[] = { "gpt_train", "maskrcnn_infer", "multistream_sort", "torch_generate" };

    for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
        char path[1024];

        snprintf(path, sizeof(path), "%s/%s.csv.gz", BENCH_DATA, recorded[i]);
        measure_file(path, settings);
    }
    for (size_t i = 0; i < TILINGS; i++)
        measure_tiling(TILING_LEAST + (TILING_MOST - TILING_LEAST) * i / (TILINGS - 1), settings);
}

static _Noreturn void
wrong(const char *option, const char *value, const char *must)
{
    fprintf(stderr, "bench/plan: --%s=%s: it must be %s\n", option, value, must);
    exit(2);
}

static uint64_t
number_of(const char *option, const char *value)
{
    char *end;
    uint64_t number;

    errno = 0;
    number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0)
        wrong(option, value, "a number");
    return number;
}

static void
take_option(const char *option, const char *value, struct settings *settings)
{
    char *end;

    if (strcmp(option, "seconds") == 0) {
        settings->search.seconds = strtod(value, &end);
        if (end == value || *end != '\0' || !(settings->search.seconds >= 0) || settings->search.seconds > 86400)
            wrong(option, value, "seconds, from 0 to 86400");
    } else if (strcmp(option, "rounds") == 0) {
        settings->search.rounds = number_of(option, value);
    } else if (strcmp(option, "seed") == 0) {
        settings->search.seed = number_of(option, value);
    } else {
        unsigned long from, to;
        int used = 0;

        if (sscanf(value, "%9lu:%9lu%n", &from, &to, &used) != 2 || value[used] != '\0' || from >= to)
            wrong(option, value, "FROM:TO, the first below the second");
        settings->step_begin = from;
        settings->step_end = to;
    }
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        { "seconds", required_argument, NULL, 0 },
        { "rounds", required_argument, NULL, 0 },
        { "seed", required_argument, NULL, 0 },
        { "step", required_argument, NULL, 0 },
        { 0 },
    };
    struct settings settings = { .search = { .seconds = 10, .rounds = 1000000, .seed = 1 } };
    int which = 0, found;

    while ((found = getopt_long(argc, argv, "", options, &which)) != -1) {
        if (found != 0)
            return 2;
        take_option(options[which].name, optarg, &settings);
    }
    if (settings.step_end > 0 && optind == argc) {
        fprintf(stderr, "bench/plan: --step is for an input, and there is none\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", settings.search.seed);
    for (int i = optind; i < argc; i++)
        measure_file(argv[i], &settings);
    if (optind == argc)
        measure_all(&settings);
    return 0;
}
