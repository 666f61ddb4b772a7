/*
 * Kills programs with SIGKILL at random moments, or lets them end, and compares what the commands say of their traces
 * with what the programs noted in shared memory after each call: what was live, the most that was live, and the most
 * that was reserved. Chunks are exact. High-water marks are the least that the peak can have been, unless the program
 * ended by itself or the calling thread took each sample. The traces are read after `recover`, as they are with their
 * ring files, out of a place to which they were recovered, without the ring file, and while the program still runs.
 *
 * ROUNDS sets the number of kills, SEED the seed.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "answers.h"
#include "find.h"
#include "random-trace.h"
#include "tap.h"
#include "trace.h"

#define ROUNDS 80
#define BLOCKS 64
#define STACKS 2

/* The most that one call reserves. */
#define CALL_MOST (INT64_C(64) << 20)

/* A form of stack, with the layer that holds what is reserved. */
static const struct form {
    const char *text; /* below the first log */
    const char *holder;
    bool has_chunks;
} forms[] = {
    { "pool | log | sim", "pool", true },
    { "pool(initial=4MiB) | sim", "pool", true },
    { "pool(cache=0, maximum=1GiB) | log | sim", "pool", true },
    { "retry | limit(1GiB) | arena | sim", "arena", true },
    { "monotonic(1MiB) | log | sim", "monotonic", true },
    { "binning(4096={log | fixed(4096)}) | pool | log | sim", "pool", true },
    { "fixed(512KiB) | sim", "fixed", true },
    { "fallback({fault(every=3)}) | pool | sim", "pool", true },
    { "guard | pool | log | host", "pool", true },
    { "sim", "sim", false },
    { "limit(1GiB) | statistics | sim(granularity=64KiB)", "sim", false },
    { "binning(4096={pool}) | sim(granularity=4KiB)", "sim", false },
};

/* Options of the log, which all stacks of a trace have in common. */
static const char *const log_options[] = { "", ", ring=4KiB, backlog=1MiB", ", samples=every", ", clock=monotonic" };

#define FORMS (sizeof(forms) / sizeof(forms[0]))

/* What a program knows after a call. */
struct state {
    int64_t live, peak, reserved, reserved_high;
};

struct stack {
    const struct form *form;
    _Atomic uint64_t begun, done; /* calls */
    struct state states[2];       /* by `done` */
    int64_t change;               /* of the call that has begun */
};

struct journal {
    _Atomic int ready, stop;
    size_t count;
    uint64_t seed;
    const char *options;
    struct stack stacks[STACKS];
};

enum way { RECOVERED, AS_IT_IS, ELSEWHERE, CUT_OFF, RUNNING, ENDED, WAYS };

static const char *const way_names[] = {
    "recovered", "as it is", "recovered elsewhere", "cut off", "running", "ended"
};

static struct journal *journal;
static uint64_t state, seed, checks;
static unsigned seen_ways[WAYS], seen_in_call, seen_least, round_number;

/* ---- the program that is killed --------------------------------------------------------------------------------- */

struct block {
    void *pointer;
    size_t size;
};

static int64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value = 0;

    return tide_query(resource, what, &value) == TIDE_OK ? (int64_t)value : 0;
}

static void
note(struct stack *stack, struct tide_resource *holder, int64_t live)
{
    uint64_t done = atomic_load(&stack->done) + 1;
    const struct state *before = &stack->states[(done - 1) % 2];
    struct state *now = &stack->states[done % 2];
    int64_t reserved = figure(holder, TIDE_QUERY_BYTES_RESERVED);
    int64_t high = figure(holder, TIDE_QUERY_BYTES_RESERVED_HIGH);

    *now = (struct state){ .live = live,
                           .peak = live > before->peak ? live : before->peak,
                           .reserved = reserved,
                           .reserved_high = high > reserved ? high : reserved };
    atomic_store(&stack->done, done);
}

static void
call(struct stack *stack, struct tide_resource *top, struct tide_resource *holder, struct block *block,
     uint64_t *random)
{
    static int64_t live[STACKS];
    int64_t *own = &live[stack - journal->stacks];

    if (block->pointer != NULL) {
        stack->change = -(int64_t)block->size;
        atomic_fetch_add(&stack->begun, 1);
        give(top, block->pointer, block->size);
        *block = (struct block){ 0 };
    } else {
        block->size = 1 + random_draw(random, random_draw(random, 4) == 0 ? 400000 : 5000);
        stack->change = (int64_t)block->size;
        atomic_fetch_add(&stack->begun, 1);
        block->pointer = take(top, block->size);
    }
    *own += stack->change;
    note(stack, holder, *own);
}

static _Noreturn void
child(const char *path)
{
    struct tide_resource *tops[STACKS], *holders[STACKS];
    struct block blocks[STACKS][BLOCKS] = { 0 };
    uint64_t random = journal->seed;

    for (size_t i = 0; i < journal->count; i++) {
        char text[512];

        snprintf(text, sizeof(text), "log(%s%s) | %s", path, journal->options, journal->stacks[i].form->text);
        tops[i] = stack_of("%s", text);
        holders[i] = find_layer(tops[i], journal->stacks[i].form->holder);
        journal->stacks[i].states[0].reserved = figure(holders[i], TIDE_QUERY_BYTES_RESERVED);
        journal->stacks[i].states[0].reserved_high = figure(holders[i], TIDE_QUERY_BYTES_RESERVED_HIGH);
    }
    atomic_store(&journal->ready, 1);
    while (!atomic_load(&journal->stop)) {
        size_t i = random_draw(&random, journal->count);

        call(&journal->stacks[i], tops[i], holders[i], &blocks[i][random_draw(&random, BLOCKS)], &random);
        if (random_draw(&random, 1000) == 0)
            tide_log_flush(tops[i]); /* with the samples so far */
        if (random_draw(&random, 100) == 0)
            usleep((useconds_t)random_draw(&random, 2000));
    }
    for (size_t i = 0; i < journal->count; i++)
        tide_resource_release(tops[i]);
    _exit(0);
}

/* ---- the comparison --------------------------------------------------------------------------------------------- */

static bool
holds(bool good, const struct answer *answer, const char *what, int64_t seen, int64_t least, int64_t most)
{
    checks++;
    if (!good)
        diag("SEED=%" PRIu64 ", kill %u: tidemark %s: %s is %" PRId64 ", noted %" PRId64 " to %" PRId64, seed,
             round_number, answer->line, what, seen, least, most);
    return good;
}

static bool
within(const struct answer *answer, const char *what, int64_t seen, int64_t least, int64_t most)
{
    return holds(seen >= least && seen <= most, answer, what, seen, least, most);
}

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether what the trace says was reserved is the peak, and not only what samples saw of it. */
static bool
is_exact(const struct stack *stack)
{
    return stack->form->has_chunks || journal->stop || strstr(journal->options, "samples=every") != NULL;
}

/* What one stack had: the call that was under way is in the trace, or not. */
static bool
check_stack(const struct answer *answer, size_t number, bool is_whole)
{
    const struct stack *stack = &journal->stacks[number];
    const struct state *noted = &stack->states[stack->done % 2];
    bool in_call = stack->begun != stack->done;
    int64_t change = in_call ? stack->change : 0, more = in_call ? CALL_MOST : 0;
    int64_t peak = larger(noted->peak, noted->live + change);
    int64_t reserved = answer_number(answer, "memory[%zu].reserved_peak_bytes", number);
    int64_t live = answer_number(answer, "memory[%zu].live_bytes", number);
    int64_t exact = answer_number(answer, "memory[%zu].reserved_peak_is_exact", number);
    bool is_sure = !in_call && noted->reserved_high > 0; /* of a layer that never was used, a mark says nothing */
    bool good;

    if (!is_whole && answer_length(answer, "memory") <= (int64_t)number)
        return true; /* not even its layers are in the trace */
    if (!is_whole)   /* rows are missing: nothing is known for sure */
        return within(answer, "the peak", answer_number(answer, "memory[%zu].peak_bytes", number), 0, peak) &&
               (reserved == ANSWER_NULL ||
                (within(answer, "the most reserved", reserved, 0, noted->reserved_high + more) &&
                 within(answer, "whether that is exact", exact, 0, 0)));
    good = within(answer, "what was live", live, smaller(noted->live, noted->live + change),
                  larger(noted->live, noted->live + change)) &&
           within(answer, "the peak", answer_number(answer, "memory[%zu].peak_bytes", number), noted->peak, peak);
    if (reserved == ANSWER_NULL) /* neither a chunk nor a sample: it was killed before the first one */
        return good && holds(noted->reserved_high == 0 || !is_exact(stack), answer, "what is reserved is unknown", 0,
                             noted->reserved_high, 0);
    seen_least += exact == 0;
    if (is_exact(stack))
        return within(answer, "the most reserved", reserved, noted->reserved_high, noted->reserved_high + more) &&
               within(answer, "whether that is exact", exact, is_sure ? 1 : 0, 1) && good;
    return within(answer, "the most reserved, by samples,", reserved, noted->peak, noted->reserved_high + more) &&
           within(answer, "whether that is exact", exact, 0, 0) && good;
}

/* Whether two commands have the same figures of all memory. */
static bool
check_same(const struct answer *one, const struct answer *other)
{
    static const char *const fields[] = { "peak_bytes",         "live_bytes",          "reserved_bytes",
                                          "reserved_sample_ns", "reserved_peak_bytes", "reserved_peak_is_exact",
                                          "device_peak_bytes",  "device_peak_is_exact" };
    bool good = true;

    for (size_t i = 0; i < journal->count; i++) {
        for (size_t j = 0; j < sizeof(fields) / sizeof(fields[0]); j++) {
            int64_t first = answer_number(one, "memory[%zu].%s", i, fields[j]);

            good = within(other, fields[j], answer_number(other, "memory[%zu].%s", i, fields[j]), first, first) && good;
        }
    }
    return good;
}

/* The index of the layer that holds what is reserved of a stack; -1: it is not in the trace. */
static int64_t
find_holder(const struct answer *layers, size_t number)
{
    int64_t count = answer_length(layers, "layers");

    for (int64_t i = 0, tops = 0; i < count; i++) {
        tops += answer_number(layers, "layers[%" PRId64 "].depth", i) == 0;
        if (tops == (int64_t)number + 1 &&
            strcmp(answer_text(layers, "layers[%" PRId64 "].kind", i), journal->stacks[number].form->holder) == 0)
            return i;
    }
    return -1;
}

/* The layer that holds what is reserved has the figure of its stack, unless more was live than its samples say. */
static bool
check_layers(const struct answer *summary, const char *path)
{
    struct answer layers;
    bool good = true;

    answer_ask(&layers, "layers --json %s", path);
    for (size_t i = 0; i < journal->count; i++) {
        int64_t of_stack = answer_number(summary, "memory[%zu].reserved_peak_bytes", i);
        int64_t is_peak = answer_number(summary, "memory[%zu].reserved_peak_is_exact", i);
        int64_t at = find_holder(&layers, i);
        int64_t own = answer_number(&layers, "layers[%" PRId64 "].reserved_peak_bytes", at);

        if (of_stack == ANSWER_NULL || at < 0 || (own == ANSWER_NULL && is_peak == 0))
            continue;
        good = within(&layers, "the most reserved", own, is_peak == 1 ? of_stack : 0, of_stack) &&
               within(&layers, "whether that is exact",
                      answer_number(&layers, "layers[%" PRId64 "].reserved_peak_is_exact", at), is_peak, 1) &&
               good;
    }
    answer_free(&layers);
    return good;
}

/* Budgets at the most that was reserved, and below. `status`: what every command ends with, but for findings. */
static bool
check_gates(const struct answer *summary, const char *path, bool is_whole)
{
    int64_t most = 0, unsure = 0, unknown = 0, live = 0;
    struct answer answer;
    bool good = true;

    for (size_t i = 0; i < journal->count; i++) {
        int64_t peak = answer_number(summary, "memory[%zu].reserved_peak_bytes", i);
        int64_t live_peak = answer_number(summary, "memory[%zu].peak_bytes", i);
        int64_t device = answer_number(summary, "memory[%zu].device_peak_bytes", i);
        int64_t exact = answer_number(summary, "memory[%zu].reserved_peak_is_exact", i);

        if (device > peak)
            exact = answer_number(summary, "memory[%zu].device_peak_is_exact", i);
        most = larger(most, larger(larger(peak, live_peak), device));
        live += larger(answer_number(summary, "memory[%zu].live_bytes", i), 0); /* null: nothing is known of it */
        unsure |= exact == 0 && live_peak > 0;
        unknown |= exact == ANSWER_NULL && live_peak > 0;
    }
    answer_ask(&answer, "check --json --max-reserved=%" PRId64 " %s", larger(most, 1), path);
    good = within(&answer, "the exit status", answer.status, unsure || unknown || !is_whole ? 3 : 0,
                  unsure || unknown || !is_whole ? 3 : 0) &&
           within(&answer, "the unknown budgets", answer_number(&answer, "unknown_count"), unsure || unknown,
                  unsure || unknown);
    answer_free(&answer);
    if (most > 1) {
        answer_ask(&answer, "check --json --max-reserved=%" PRId64 " %s", most - 1, path);
        good = within(&answer, "the exit status", answer.status, is_whole ? 1 : 3, is_whole ? 1 : 3) &&
               within(&answer, "the broken budgets", answer_number(&answer, "failed_count"), 1, 1) && good;
        answer_free(&answer);
    }
    answer_ask(&answer, "check --json --no-leaks %s", path);
    good =
        within(&answer, "the exit status", answer.status, journal->stop ? live > 0 : 3, journal->stop ? live > 0 : 3) &&
        good;
    answer_free(&answer);
    return good;
}

/* People read "at least" where the JSON says that a figure is not exact. */
static bool
check_words(const struct answer *summary, const char *path)
{
    static const char *const commands[] = { "summary", "fragmentation", "timeline", "layers" };
    bool is_least = journal->count == 1 && answer_number(summary, "memory[0].reserved_peak_is_exact") == 0;
    bool good = true;

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]) && is_least; i++) {
        struct answer answer;
        bool has_figure;

        answer_ask(&answer, "%s --json %s", commands[i], path);
        has_figure = strstr(answer.json, "\"reserved_peak_is_exact\":false") != NULL;
        answer_free(&answer);
        answer_ask(&answer, "%s %s", commands[i], path);
        good =
            holds(!has_figure || strstr(answer.json, "at least") != NULL, &answer, "the words \"at least\"", 0, 1, 1) &&
            good;
        answer_free(&answer);
    }
    return good;
}

static bool
check_trace(const char *path, const char *ended, bool is_whole)
{
    static const char *const others[] = { "fragmentation", "timeline" };
    struct answer summary, other;
    bool good;

    answer_ask(&summary, "summary --json %s", path);
    good = within(&summary, "the exit status", summary.status, is_whole ? 0 : 3, is_whole ? 0 : 3) &&
           holds(strcmp(answer_text(&summary, "ended"), ended) == 0, &summary, "how it ended", 0, 1, 1) &&
           within(&summary, "the kinds of memory", answer_length(&summary, "memory"),
                  is_whole ? (int64_t)journal->count : 0, (int64_t)journal->count);
    for (size_t i = 0; i < journal->count; i++)
        good = check_stack(&summary, i, is_whole) && good;
    for (size_t i = 0; i < 2 && strcmp(ended, "running") != 0; i++) {
        answer_ask(&other, "%s --json %s", others[i], path);
        good = check_same(&summary, &other) && good;
        answer_free(&other);
    }
    if (strcmp(ended, "running") != 0)
        good = check_layers(&summary, path) && check_gates(&summary, path, is_whole) && check_words(&summary, path) &&
               good;
    answer_free(&summary);
    return good;
}

/* ---- the kills -------------------------------------------------------------------------------------------------- */

static bool
check_killed(const char *path, enum way way)
{
    struct answer answer;
    char into[256];

    switch (way) {
    case RECOVERED:
        answer_ask(&answer, "recover %s", path);
        answer_free(&answer);
        return answer.status == 0 && check_trace(path, "killed", true);
    case ELSEWHERE:
        snprintf(into, sizeof(into), "%s.into", path);
        answer_ask(&answer, "recover --into=%s %s", into, path);
        answer_free(&answer);
        return answer.status == 0 && check_trace(into, "killed", true) && check_trace(path, "killed", true) &&
               unlink(into) == 0;
    case CUT_OFF:
        snprintf(into, sizeof(into), "%s-rings", path);
        if (unlink(into) != 0) {
            diag("there is no ring file %s", into);
            return false;
        }
        return check_trace(path, "killed", false);
    case ENDED:
        return check_trace(path, "closed", true);
    default:
        return check_trace(path, "killed", true);
    }
}

static bool
check_kill(uint64_t number)
{
    const char *path = scratch("%" PRIu64 ".db", number);
    enum way way = (enum way)random_draw(&state, WAYS);
    bool good = true;
    pid_t pid;

    memset(journal, 0, sizeof(*journal));
    journal->count = 1 + (random_draw(&state, 3) == 0);
    journal->seed = 1 + random_draw(&state, UINT64_C(1) << 40);
    journal->options = log_options[random_draw(&state, sizeof(log_options) / sizeof(log_options[0]))];
    for (size_t i = 0; i < journal->count; i++)
        journal->stacks[i].form = &forms[random_draw(&state, FORMS)];
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child(path);
    while (!atomic_load(&journal->ready) && waitpid(pid, NULL, WNOHANG) == 0)
        usleep(100);
    usleep((useconds_t)random_draw(&state, random_draw(&state, 3) == 0 ? 60000 : 4000));
    if (way == RUNNING) {
        kill(pid, SIGSTOP);
        waitpid(pid, NULL, WUNTRACED);
        good = check_trace(path, "running", false);
    }
    if (way == ENDED)
        atomic_store(&journal->stop, 1);
    else
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (size_t i = 0; i < journal->count; i++)
        seen_in_call += journal->stacks[i].begun != journal->stacks[i].done;
    good = check_killed(path, way) && good;
    seen_ways[way]++;
    if (!good)
        diag("%s, log(%s%s) | %s%s%s", way_names[way], path, journal->options, journal->stacks[0].form->text,
             journal->count > 1 ? " and " : "", journal->count > 1 ? journal->stacks[1].form->text : "");
    else
        unlink(path);
    return good;
}

int
main(void)
{
    uint64_t rounds = getenv("ROUNDS") != NULL ? strtoull(getenv("ROUNDS"), NULL, 10) : ROUNDS;
    unsigned wrong = 0;

    if (!CHILDREN_MAY_RECORD)
        skip_all("children that record are not for ThreadSanitizer");
    plan(2);
    seed = random_trace_seed();
    state = seed * 2 + 88172645463325253u;
    journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint64_t i = 0; i < rounds && wrong < 5; i++, round_number++)
        wrong += !check_kill(i);
    diag("%u kills, %u in a call, %" PRIu64 " checks, %u figures are the least", round_number, seen_in_call, checks,
         seen_least);
    for (int way = 0; way < WAYS; way++)
        diag("%s: %u", way_names[way], seen_ways[way]);
    is_u64(wrong, 0,
           "all commands say of killed programs what these had noted, and \"at least\" where samples may miss it");
    ok(rounds < 50 || seen_least > 0, "of some, what was reserved is the least that it can have been");
    return done();
}
