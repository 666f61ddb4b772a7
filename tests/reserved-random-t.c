/*
 * Tests what is said of reserved memory against brute force: random traces of several stacks, devices and bins, of
 * suballocators with a log below, with chunks of their own, or with samples alone. The JSON of summary, fragmentation,
 * timeline and layers has the figures of the model for each stack, kind of memory and layer, and `check` judges budgets
 * around each figure as the model does.
 *
 * ROUNDS sets the number of traces, SEED the first seed. `make agree` runs many thousand.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"
#include "tests/answers.h"
#include "tests/random-trace.h"
#include "tests/tap.h"

#define ROUNDS 150
#define TRACE  "reserved-random-t.db"
#define STACKS 3
#define LIVES  120
#define LAYERS 8
#define GROUPS 3
#define NEVER  INT64_MAX
#define ALL    (-1)

/* A layer of a shape. Layers are numbered from 1 on; 0 is none. */
struct part {
    const char *kind;
    int below, bin; /* the layer below, and that of the bin */
    int own;        /* the layer whose rows are what this one holds; ALL: all that are the chunks of the first kind */
};

enum samples { NO_SAMPLES, WITH_HIGHS, WITHOUT_HIGHS };

/* One kind of memory of a shape. */
struct kind {
    enum { GPU, PINNED, BOTH } memory;
    int rows[2]; /* the layers whose rows are its chunks */
    int sampled; /* the base whose samples count */
    int device;  /* the base below, whose samples are beside the chunks */
};

static const struct shape {
    struct part parts[LAYERS];
    struct kind kinds[GROUPS];
    enum samples samples;
    int others[2]; /* layers with rows that do not count: what passes them, or lies in chunks of others */
} shapes[] = {
    /* log | pool | log | driver */
    { { { "log", 2, 0, 0 }, { "pool", 3, 0, 3 }, { "log", 4, 0, 0 }, { "driver", 0, 0, 0 } },
      { { .rows = { 3 } } },
      NO_SAMPLES,
      { 0 } },
    /* log | pool | log | driver, and the driver says what it holds */
    { { { "log", 2, 0, 0 }, { "pool", 3, 0, 3 }, { "log", 4, 0, 0 }, { "driver", 0, 0, 0 } },
      { { .rows = { 3 }, .device = 4 } },
      WITH_HIGHS,
      { 0 } },
    { { { "log", 2, 0, 0 }, { "pool", 3, 0, 3 }, { "log", 4, 0, 0 }, { "driver", 0, 0, 0 } },
      { { .rows = { 3 }, .device = 4 } },
      WITHOUT_HIGHS,
      { 0 } },
    /* log | pool | driver: the pool says its chunks, as do an arena and a monotonic */
    { { { "log", 2, 0, 0 }, { "pool", 3, 0, 2 }, { "driver", 0, 0, 0 } }, { { .rows = { 2 } } }, NO_SAMPLES, { 0 } },
    { { { "log", 2, 0, 0 }, { "arena", 3, 0, 2 }, { "driver", 0, 0, 0 } },
      { { .rows = { 2 }, .device = 3 } },
      WITH_HIGHS,
      { 0 } },
    { { { "log", 2, 0, 0 }, { "monotonic", 3, 0, 3 }, { "log", 4, 0, 0 }, { "driver", 0, 0, 0 } },
      { { .rows = { 3 } } },
      NO_SAMPLES,
      { 0 } },
    /* log | guard | retry | monotonic | driver */
    { { { "log", 2, 0, 0 },
        { "guard", 3, 0, 0 },
        { "retry", 4, 0, 0 },
        { "monotonic", 5, 0, 4 },
        { "driver", 0, 0, 0 } },
      { { .rows = { 4 } } },
      NO_SAMPLES,
      { 0 } },
    /* log | binning({log | arena}) | pool | log | driver */
    { { { "log", 2, 0, 0 },
        { "binning", 3, 5, 0 },
        { "pool", 4, 0, 4 },
        { "log", 7, 0, 0 },
        { "log", 6, 0, 0 },
        { "arena", 7, 0, 6 },
        { "driver", 0, 0, 0 } },
      { { .rows = { 4, 6 } } },
      NO_SAMPLES,
      { 5 } },
    /* log | binning({pool}) | log | driver: what passes no pool is held as it is */
    { { { "log", 2, 0, 0 }, { "binning", 3, 4, 0 }, { "log", 5, 0, 0 }, { "pool", 3, 0, 0 }, { "driver", 0, 0, 0 } },
      { { .rows = { 3 } } },
      NO_SAMPLES,
      { 0 } },
    /* log | binning({fixed}) | pool | driver: the blocks of the bin lie in chunks of the pool */
    { { { "log", 2, 0, 0 }, { "binning", 4, 3, 0 }, { "fixed", 4, 0, 3 }, { "pool", 5, 0, 4 }, { "driver", 0, 0, 0 } },
      { { .rows = { 4 } } },
      NO_SAMPLES,
      { 3 } },
    /* log | binning({log | fixed}) | driver: of the driver there are samples, and all lies in it */
    { { { "log", 2, 0, 0 }, { "binning", 5, 3, 0 }, { "log", 4, 0, 0 }, { "fixed", 5, 0, 4 }, { "driver", 0, 0, 0 } },
      { { .sampled = 5 } },
      WITH_HIGHS,
      { 3, 4 } },
    /* log | fixed | pool | driver: what the fixed holds is what the log has reserved; the pool says its own */
    { { { "log", 2, 0, 0 }, { "fixed", 3, 0, 2 }, { "pool", 4, 0, 3 }, { "driver", 0, 0, 0 } },
      { { .rows = { 2 } } },
      NO_SAMPLES,
      { 3 } },
    /* log | retry | log | limit | pool | log | driver: the log in between sees what the first one sees */
    { { { "log", 2, 0, 0 },
        { "retry", 3, 0, 0 },
        { "log", 4, 0, 0 },
        { "limit", 5, 0, 0 },
        { "pool", 6, 0, 6 },
        { "log", 7, 0, 0 },
        { "driver", 0, 0, 0 } },
      { { .rows = { 6 } } },
      NO_SAMPLES,
      { 3 } },
    /* log | limit | driver */
    { { { "log", 2, 0, 0 }, { "limit", 3, 0, 0 }, { "driver", 0, 0, 0 } }, { { .sampled = 3 } }, WITH_HIGHS, { 0 } },
    { { { "log", 2, 0, 0 }, { "guard", 3, 0, 0 }, { "driver", 0, 0, 0 } }, { { .sampled = 3 } }, WITHOUT_HIGHS, { 0 } },
    /* log | pool | driver of which nothing but samples of the base is known */
    { { { "log", 2, 0, 0 }, { "pool", 3, 0, 0 }, { "driver", 0, 0, 0 } }, { { .sampled = 3 } }, WITHOUT_HIGHS, { 0 } },
    /* log | fallback({driver}) | pinned */
    { { { "log", 2, 0, 0 }, { "fallback", 3, 4, 0 }, { "driver", 0, 0, 0 }, { "pinned", 0, 0, 0 } },
      { { .memory = BOTH }, { .sampled = 3 }, { .memory = PINNED, .sampled = 4 } },
      WITH_HIGHS,
      { 0 } },
    /* log | fallback({pool | log | driver}) | pinned */
    { { { "log", 2, 0, 0 },
        { "fallback", 3, 6, 0 },
        { "pool", 4, 0, 4 },
        { "log", 5, 0, 0 },
        { "driver", 0, 0, 0 },
        { "pinned", 0, 0, 0 } },
      { { .memory = BOTH }, { .rows = { 4 }, .device = 5 }, { .memory = PINNED, .sampled = 6 } },
      WITHOUT_HIGHS,
      { 0 } },
    /* log | pool | binning({log}) | driver: the pool says what passes no log */
    { { { "log", 2, 0, 0 }, { "pool", 3, 0, ALL }, { "binning", 5, 4, 0 }, { "log", 5, 0, 0 }, { "driver", 0, 0, 0 } },
      { { .rows = { 2, 4 } } },
      NO_SAMPLES,
      { 0 } },
    /* log | driver */
    { { { "log", 2, 0, 0 }, { "driver", 0, 0, 0 } }, { { .sampled = 0 } }, NO_SAMPLES, { 0 } },
};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct life {
    int layer;
    int64_t size, begin, end;
};

/* What a base said. */
struct curve {
    int64_t highest, used, high, last;
};

struct stack {
    const struct shape *shape;
    int first; /* the number of its first layer, less 1 */
    int device;
    bool is_quiet; /* one of its suballocators has no rows */
    bool has_rows; /* its first one has a row: what lies in its chunks may follow */
    struct curve curves[LAYERS];
};

/* What is to be said of a kind of memory, or of a layer. */
struct wanted {
    char memory[64];
    int stack;
    bool has_upper, is_known, is_exact, is_rows, is_sum, has_device, device_is_exact;
    int64_t live_peak, live, reserved_peak, reserved, device_peak;
    double utilisation; /* -1: unknown */
};

static struct stack stacks[STACKS];
static size_t stack_count;
static struct life lives[LIVES];
static size_t life_count;
static struct wanted wanted[STACKS * GROUPS];
static size_t wanted_count;
static sqlite3 *db;
static uint64_t state;
static uint64_t seed;
static uint64_t checks;
static unsigned verdicts[4];

static void
run(const char *format, ...)
{
    va_list arguments;
    char *sql;

    va_start(arguments, format);
    sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    if (sql == NULL || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        printf("Bail out! %s: %s\n", sqlite3_errmsg(db), sql);
        exit(99);
    }
    sqlite3_free(sql);
}

/* ---- the trace -------------------------------------------------------------------------------------------------- */

static void
add_stack(const struct stack *stack)
{
    for (int i = 0; i < LAYERS && stack->shape->parts[i].kind != NULL; i++) {
        const struct part *part = &stack->shape->parts[i];
        int device = strcmp(part->kind, "pinned") == 0 || strcmp(part->kind, "fallback") == 0 ? -1 : stack->device;

        run("INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (%d, nullif(%d, %d), %Q, '',"
            " iif(%d < 0, NULL, %d))",
            stack->first + i + 1, stack->first + part->below, stack->first, part->kind, device, device);
        if (part->bin != 0)
            run("INSERT INTO layer_bin VALUES (%d, 4096, %d)", stack->first + i + 1, stack->first + part->bin);
    }
}

/* A layer that has rows: the log that the program used, more often than others. */
static int
random_layer(struct stack *stack)
{
    const struct shape *shape = stack->shape;
    int candidates[12], count = 0, chosen;

    candidates[count++] = 1;
    for (int i = 0; i < GROUPS; i++) {
        for (int j = 0; j < 2; j++) {
            if (shape->kinds[i].rows[j] != 0 && !(stack->is_quiet && j == 1))
                candidates[count++] = shape->kinds[i].rows[j];
        }
    }
    for (int i = 0; i < 2; i++) {
        if (shape->others[i] != 0 && (stack->has_rows || shape->kinds[0].rows[0] == 0))
            candidates[count++] = shape->others[i];
    }
    chosen = candidates[random_draw(&state, (uint64_t)count)];
    stack->has_rows = stack->has_rows || chosen == shape->kinds[0].rows[0];
    return stack->first + chosen;
}

/* Lives begin at even times and end at odd ones. */
static void
add_lives(void)
{
    int64_t ns = 0;

    life_count = 10 + random_draw(&state, LIVES - 10);
    for (size_t i = 0; i < life_count; i++) {
        struct stack *stack = &stacks[random_draw(&state, stack_count)];
        struct life *life = &lives[i];
        bool stays = random_draw(&state, 6) == 0;

        ns += 2 * (int64_t)(1 + random_draw(&state, 3));
        life->layer = random_layer(stack);
        life->size = 1 + (int64_t)random_draw(&state, life->layer == stack->first + 1 ? 3000 : 9000);
        life->begin = ns;
        life->end = stays ? NEVER : ns + 1 + 2 * (int64_t)random_draw(&state, 40);
        run("INSERT INTO allocation(layer_id, address, size, alignment, status, alloc_ns, alloc_duration_ns,"
            " alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id)"
            " VALUES (%d, %lld, %lld, 256, 0, %lld, 1, 1, 1, nullif(%lld, %lld), 1, 1, 1)",
            life->layer, (long long)(i + 1) << 20, (long long)life->size, (long long)ns, (long long)life->end,
            (long long)NEVER);
    }
    run("UPDATE allocation SET free_duration_ns = NULL, free_thread_id = NULL, free_stream_id = NULL"
        " WHERE free_ns IS NULL");
}

static bool
is_live(const struct life *life, int64_t ns)
{
    return life->begin <= ns && life->end > ns;
}

/* What layers (0: none) have live together at a time; rounded up to the alignment or not. */
static int64_t
live_at(int64_t ns, int one, int other, bool rounded)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < life_count; i++) {
        if ((lives[i].layer == one || lives[i].layer == other) && is_live(&lives[i], ns))
            bytes += rounded ? (lives[i].size + 255) / 256 * 256 : lives[i].size;
    }
    return bytes;
}

/* The most of it, at any moment. */
static int64_t
most_live(int one, int other, bool rounded)
{
    int64_t most = 0;

    for (size_t i = 0; i < life_count; i++) {
        int64_t bytes = live_at(lives[i].begin, one, other, rounded);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Let a base have something reserved after each event, and take samples of it now and then, and at the end. */
static void
add_curve(struct stack *stack, int base)
{
    struct curve *curve = &stack->curves[base - 1];
    bool has_highs = stack->shape->samples == WITH_HIGHS;
    bool is_part = stack->shape->kinds[1].sampled != 0 || stack->shape->kinds[1].device != 0;

    *curve = (struct curve){ 0 };
    for (size_t at = 0; at < life_count; at++) {
        int64_t share = is_part ? 0 : live_at(lives[at].begin, stack->first + 1, 0, false);
        int64_t bytes = share + (int64_t)random_draw(&state, random_draw(&state, 20) == 0 ? 20000 : 4000);

        curve->high = bytes > curve->high ? bytes : curve->high;
        if (at + 1 < life_count && random_draw(&state, 3) != 0)
            continue;
        curve->highest = bytes > curve->highest ? bytes : curve->highest;
        curve->used = bytes / 2 > curve->used ? bytes / 2 : curve->used;
        curve->last = bytes;
        run("INSERT INTO pool_sample VALUES (%lld, %d, %lld, %lld, iif(%d, %lld, NULL))", (long long)lives[at].begin,
            stack->first + base, (long long)(bytes / 2), (long long)bytes, has_highs, (long long)curve->high);
    }
    if (!has_highs)
        curve->high = curve->highest;
}

static void
add_samples(struct stack *stack)
{
    for (int i = 0; i < GROUPS; i++) {
        if (stack->shape->kinds[i].sampled != 0)
            add_curve(stack, stack->shape->kinds[i].sampled);
        if (stack->shape->kinds[i].device != 0)
            add_curve(stack, stack->shape->kinds[i].device);
    }
}

static void
make_trace(void)
{
    char pragma[64];
    int last = 0;

    unlink(TRACE);
    if (sqlite3_open(TRACE, &db) != SQLITE_OK)
        exit(99);
    snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", TIDEI_TRACE_APPLICATION_ID);
    run("%s; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF", pragma);
    if (sqlite3_exec(db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK)
        exit(99);
    run("BEGIN; INSERT INTO meta VALUES ('format_version', 1), ('start_unix_ns', 0), ('complete', 1), ('pid', 4194305),"
        " ('hostname', ''), ('command', 'random'), ('ended', 'closed'); INSERT INTO thread VALUES (1, 100, 'main');"
        " INSERT INTO stream VALUES (1, 0, 0)");
    stack_count = 1 + random_draw(&state, STACKS);
    for (size_t i = 0; i < stack_count; i++) {
        stacks[i] = (struct stack){ .shape = &shapes[random_draw(&state, SHAPES)],
                                    .first = last,
                                    .device = (int)random_draw(&state, 2),
                                    .is_quiet = random_draw(&state, 4) == 0 };
        add_stack(&stacks[i]);
        while (last - stacks[i].first < LAYERS && stacks[i].shape->parts[last - stacks[i].first].kind != NULL)
            last++;
    }
    add_lives();
    for (size_t i = 0; i < stack_count; i++)
        add_samples(&stacks[i]);
    run("COMMIT");
    sqlite3_close(db);
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

/* Whether a layer records its chunks itself: where it never did, nothing tells it from one that cannot. */
static bool
is_silent(const struct stack *stack, int layer)
{
    return layer != 0 && strcmp(stack->shape->parts[layer - 1].kind, "log") != 0 &&
           most_live(stack->first + layer, 0, false) == 0;
}

static void
want_sources(const struct stack *stack, const struct kind *kind, struct wanted *out)
{
    int one = kind->rows[0] != 0 ? stack->first + kind->rows[0] : 0;
    int other = kind->rows[1] != 0 ? stack->first + kind->rows[1] : one;
    bool quiet[2] = { is_silent(stack, kind->rows[0]), is_silent(stack, kind->rows[1]) };
    int sampled = kind->sampled != 0 ? kind->sampled : quiet[0] ? kind->device : 0;
    const struct curve *curve = sampled != 0 ? &stack->curves[sampled - 1] : NULL;
    bool has_highs = stack->shape->samples == WITH_HIGHS;

    out->is_rows = one != 0 && curve == NULL && !(quiet[0] && (kind->rows[1] == 0 || quiet[1]));
    out->is_known = out->is_rows || curve != NULL;
    out->is_exact = out->is_rows ? !quiet[0] && !quiet[1] : curve != NULL && has_highs;
    out->reserved_peak = out->is_rows ? most_live(one, other, false) : curve != NULL ? curve->high : 0;
    out->reserved = out->is_rows ? live_at(NEVER - 1, one, other, false) : curve != NULL ? curve->last : 0;
    if (kind->device != 0 && sampled != kind->device) {
        out->has_device = true;
        out->device_is_exact = has_highs;
        out->device_peak = stack->curves[kind->device - 1].high;
    }
    if (out->live_peak > out->reserved_peak) {
        out->reserved_peak = out->live_peak;
        out->is_exact = false;
    }
    out->utilisation = -1;
    if (out->is_known && out->reserved_peak > 0) {
        int64_t used = out->live_peak;

        if (out->is_rows)
            used = out->has_upper ? most_live(stack->first + 1, 0, true) : 0;
        else if (curve != NULL && curve->used > used)
            used = curve->used;
        out->utilisation = used < out->reserved_peak ? (double)used / (double)out->reserved_peak : 1;
    }
}

static void
want_stack(const struct stack *stack, int number)
{
    size_t first = wanted_count;

    for (int i = 0; i < GROUPS; i++) {
        const struct kind *kind = &stack->shape->kinds[i];
        struct wanted *out = &wanted[wanted_count];
        char gpu[16];

        if (i > 0 && kind->rows[0] == 0 && kind->sampled == 0)
            break;
        *out = (struct wanted){ .stack = number, .has_upper = i == 0 };
        snprintf(gpu, sizeof(gpu), "GPU %d", stack->device);
        snprintf(out->memory, sizeof(out->memory), "%s%s", kind->memory != GPU ? "pinned" : gpu,
                 kind->memory == BOTH ? " + " : "");
        if (kind->memory == BOTH)
            strcat(out->memory, gpu);
        if (i == 0) {
            out->live_peak = most_live(stack->first + 1, 0, false);
            out->live = live_at(NEVER - 1, stack->first + 1, 0, false);
        }
        want_sources(stack, kind, out);
        wanted_count++;
    }
    wanted[first].is_sum = !wanted[first].is_known && strstr(wanted[first].memory, " + ") != NULL;
}

/* ---- the comparison --------------------------------------------------------------------------------------------- */

static bool
same(const struct answer *answer, const char *of, const char *what, int64_t seen, int64_t by_force)
{
    checks++;
    if (seen != by_force)
        diag("seed %" PRIu64 ": tidemark %s, %s: %s is %" PRId64 ", by brute force %" PRId64, seed, answer->line, of,
             what, seen, by_force);
    return seen == by_force;
}

static int64_t
null_unless(bool known, int64_t figure)
{
    return known ? figure : ANSWER_NULL;
}

static bool
same_share(const struct answer *answer, const char *of, double seen, double by_force)
{
    bool is_same = seen - by_force < 1e-6 && by_force - seen < 1e-6;

    checks++;
    if (!is_same)
        diag("seed %" PRIu64 ": tidemark %s, %s: %g, by brute force %g", seed, answer->line, of, seen, by_force);
    return is_same;
}

static bool
check_group(const struct answer *answer, const struct wanted *group)
{
    bool good = true;
    int64_t i = 0, count = answer_length(answer, "memory");

    while (i < count && (answer_number(answer, "memory[%" PRId64 "].stack", i) != group->stack ||
                         strcmp(answer_text(answer, "memory[%" PRId64 "].memory", i), group->memory) != 0))
        i++;
    if (i == count) {
        diag("seed %" PRIu64 ": tidemark %s has no %s of stack %d", seed, answer->line, group->memory, group->stack);
        return false;
    }
    const struct {
        const char *name;
        int64_t figure;
    } fields[] = {
        { "peak_bytes", null_unless(group->has_upper, group->live_peak) },
        { "live_bytes", null_unless(group->has_upper, group->live) },
        { "reserved_bytes", null_unless(group->is_known, group->reserved) },
        { "reserved_peak_bytes", null_unless(group->is_known, group->reserved_peak) },
        { "reserved_peak_is_exact", null_unless(group->is_known, group->is_exact) },
        { "device_peak_bytes", null_unless(group->has_device, group->device_peak) },
        { "device_peak_is_exact", null_unless(group->has_device, group->device_is_exact) },
    };
    for (size_t j = 0; j < sizeof(fields) / sizeof(fields[0]); j++)
        good = same(answer, group->memory, fields[j].name,
                    answer_number(answer, "memory[%" PRId64 "].%s", i, fields[j].name), fields[j].figure) &&
               good;
    return same_share(answer, "utilisation", answer_share(answer, "memory[%" PRId64 "].utilisation", i),
                      group->has_upper ? group->utilisation : -1) &&
           good;
}

/* All groups, and the fields of the whole, where one group is the whole. */
static bool
check_memory(const struct answer *answer)
{
    bool good = answer->status == 0 &&
                same(answer, "memory", "their number", answer_length(answer, "memory"), (int64_t)wanted_count);

    for (size_t i = 0; i < wanted_count; i++)
        good = check_group(answer, &wanted[i]) && good;
    if (wanted_count == 1)
        good = same(answer, "the whole", "reserved_peak_bytes", answer_number(answer, "reserved_peak_bytes"),
                    null_unless(wanted->is_known, wanted->reserved_peak)) &&
               same(answer, "the whole", "reserved_peak_is_exact", answer_number(answer, "reserved_peak_is_exact"),
                    null_unless(wanted->is_known, wanted->is_exact)) &&
               same(answer, "the whole", "peak_bytes", answer_number(answer, "peak_bytes"), wanted->live_peak) && good;
    return good;
}

/* The most of the columns is the peak, where chunks say it. */
static bool
check_columns(const struct answer *answer)
{
    bool good = true;
    size_t at = 0;

    for (size_t i = 0; i < stack_count; i++) {
        const struct stack *stack = &stacks[i];
        const int *rows = stack->shape->kinds[0].rows;
        char name[96] = "";

        while (wanted[at].stack != (int)i + 1)
            at++;
        if (stack_count > 1)
            snprintf(name, sizeof(name), "%d log, %s", stack->first + 1, wanted[at].memory);
        else if (wanted_count > 1)
            snprintf(name, sizeof(name), "%s", wanted[at].memory);
        if (wanted[at].is_rows && wanted[at].is_exact)
            good = same(answer, wanted[at].memory, "the most of the columns",
                        answer_most(answer, "columns", "reserved_bytes", name),
                        most_live(stack->first + rows[0], rows[1] != 0 ? stack->first + rows[1] : 0, false)) &&
                   good;
        good = same(answer, wanted[at].memory, "the most live of the columns",
                    answer_most(answer, "columns", "most_bytes", name), wanted[at].live_peak) &&
               good;
    }
    return good;
}

/* What each layer holds. */
static bool
check_layers(const struct answer *answer)
{
    bool good = answer->status == 0;
    int rows[STACKS * LAYERS + 1] = { 0 }; /* by the number of the layer */

    for (int i = 0; i < (int)answer_length(answer, "layers"); i++)
        rows[answer_number(answer, "layers[%d].layer_id", i)] = i;
    for (size_t i = 0; i < stack_count; i++) {
        const struct stack *stack = &stacks[i];

        for (int j = 0; j < LAYERS && stack->shape->parts[j].kind != NULL; j++) {
            const struct part *part = &stack->shape->parts[j];
            int id = stack->first + j + 1, row = rows[id];
            const int *rows_of = part->own == ALL ? stack->shape->kinds[0].rows : &part->own;
            int own = rows_of[0] != 0 && !is_silent(stack, rows_of[0]) ? stack->first + rows_of[0] : 0;
            int other = part->own == ALL ? stack->first + rows_of[1] : 0;
            bool sampled = stack->curves[j].high > 0;
            bool has_rows = strcmp(part->kind, "log") == 0 || most_live(id, 0, false) > 0;
            int64_t peak = own != 0 ? most_live(own, other, false) : stack->curves[j].high;

            good = same(answer, part->kind, "reserved_peak_bytes",
                        answer_number(answer, "layers[%d].reserved_peak_bytes", row),
                        null_unless(own != 0 || sampled, peak)) &&
                   same(answer, part->kind, "reserved_peak_is_exact",
                        answer_number(answer, "layers[%d].reserved_peak_is_exact", row),
                        null_unless(own != 0 || sampled, own != 0 || stack->shape->samples == WITH_HIGHS)) &&
                   same(answer, part->kind, "peak_bytes", answer_number(answer, "layers[%d].peak_bytes", row),
                        null_unless(has_rows, most_live(id, 0, false))) &&
                   same(answer, part->kind, "live_bytes", answer_number(answer, "layers[%d].live_bytes", row),
                        null_unless(has_rows, live_at(NEVER - 1, id, 0, false))) &&
                   good;
        }
    }
    return good;
}

/* ---- the gates -------------------------------------------------------------------------------------------------- */

/* Whether the figure that is judged, chunks or what the base holds where that is more, is the peak. */
static bool
is_sure(const struct wanted *group, bool by_share)
{
    return !by_share && group->has_device && group->device_peak > group->reserved_peak ? group->device_is_exact
                                                                                       : group->is_exact;
}

/* 1: a figure exceeds the bound, and be it the least that it can be; 3: one may; 0: none does. */
static int
want_verdict(int64_t bytes, double share)
{
    bool by_share = share >= 0;
    int verdict = 0;

    for (size_t i = 0; i < wanted_count; i++) {
        const struct wanted *group = &wanted[i];
        int64_t most =
            group->has_device && group->device_peak > group->reserved_peak ? group->device_peak : group->reserved_peak;

        if (by_share ? !group->has_upper : group->is_sum)
            continue;
        if (by_share ? group->utilisation >= 0 && 1 - group->utilisation > share : most > bytes)
            return 1;
        if (!is_sure(group, by_share) && (group->has_upper ? group->live_peak > 0 : most > 0))
            verdict = 3;
    }
    return verdict;
}

static bool
check_verdict(int64_t bytes, double share)
{
    int verdict = want_verdict(bytes, share);
    struct answer answer;
    bool good;

    if (share < 0)
        answer_ask(&answer, "check --json --max-reserved=%" PRId64 " %s", bytes, TRACE);
    else
        answer_ask(&answer, "check --json --max-fragmentation=%.6f%% %s", 100 * share, TRACE);
    verdicts[verdict]++;
    good = same(&answer, "the verdict", "the exit status", answer.status, verdict) &&
           same(&answer, "the budget", "passed", answer_number(&answer, "budgets[0].passed"), verdict == 0) &&
           same(&answer, "the budget", "unknown", answer_number(&answer, "budgets[0].unknown"), verdict == 3) &&
           same(&answer, "all", "failed_count", answer_number(&answer, "failed_count"), verdict == 1) &&
           same(&answer, "all", "unknown_count", answer_number(&answer, "unknown_count"), verdict == 3);
    answer_free(&answer);
    return good;
}

/* Bounds around the figures of a group. */
static bool
check_gates(void)
{
    const struct wanted *group = &wanted[random_draw(&state, wanted_count)];
    int64_t bytes = group->has_device && random_draw(&state, 2) == 0 ? group->device_peak : group->reserved_peak;
    double share = group->utilisation >= 0 ? 1 - group->utilisation : 0.5;
    bool good = true;

    for (int64_t more = -1; more <= 1; more++) {
        if (bytes + more > 0)
            good = check_verdict(bytes + more, -1) && good;
        if (share + 0.001 * (double)more >= 0 && share + 0.001 * (double)more <= 1 && more != 0)
            good = check_verdict(0, share + 0.001 * (double)more) && good;
    }
    return check_verdict(1 + (int64_t)random_draw(&state, 60000), -1) && good;
}

/* ---- a part of the time ----------------------------------------------------------------------------------------- */

/* The most that layers had live from a time to another. */
static int64_t
most_within(int64_t from, int64_t to, int one, int other)
{
    int64_t most = live_at(from, one, other, false);

    for (size_t i = 0; i < life_count; i++) {
        int64_t bytes = lives[i].begin > from && lives[i].begin <= to ? live_at(lives[i].begin, one, other, false) : 0;

        most = bytes > most ? bytes : most;
    }
    return most;
}

/*
 * Whether the model knows what is reserved in a part of the time: chunks say it, and each layer that says its chunks
 * itself has one then.
 */
static bool
is_known_within(const struct stack *stack, int64_t from, int64_t to)
{
    const int *rows = stack->shape->kinds[0].rows;
    bool known = rows[0] != 0;

    for (int i = 0; i < 2 && rows[i] != 0; i++) {
        bool is_own = strcmp(stack->shape->parts[rows[i] - 1].kind, "log") != 0;

        known = known &&
                !(is_own && (stack->shape->others[0] != 0 || most_within(from, to, stack->first + rows[i], 0) == 0));
    }
    return known;
}

static bool
check_within(const struct answer *answer, int64_t from, int64_t to)
{
    bool good = answer->status == 0;
    size_t at = 0;

    for (size_t i = 0; i < stack_count; i++) {
        const struct stack *stack = &stacks[i];
        int upper = stack->first + 1;
        int one = stack->first + stack->shape->kinds[0].rows[0];
        int other = stack->shape->kinds[0].rows[1] != 0 ? stack->first + stack->shape->kinds[0].rows[1] : one;
        int64_t live = most_within(from, to, upper, 0), chunks = most_within(from, to, one, other);
        int64_t j = 0, count = answer_length(answer, "memory");

        while (wanted[at].stack != (int)i + 1)
            at++;
        while (j < count && (answer_number(answer, "memory[%" PRId64 "].stack", j) != (int64_t)i + 1 ||
                             strcmp(answer_text(answer, "memory[%" PRId64 "].memory", j), wanted[at].memory) != 0))
            j++;
        good = same(answer, wanted[at].memory, "peak_bytes", answer_number(answer, "memory[%" PRId64 "].peak_bytes", j),
                    live) &&
               same(answer, wanted[at].memory, "live_bytes", answer_number(answer, "memory[%" PRId64 "].live_bytes", j),
                    live_at(to, upper, 0, false)) &&
               good;
        if (!is_known_within(stack, from, to))
            continue;
        good =
            same(answer, wanted[at].memory, "reserved_peak_bytes",
                 answer_number(answer, "memory[%" PRId64 "].reserved_peak_bytes", j), live > chunks ? live : chunks) &&
            same(answer, wanted[at].memory, "reserved_peak_is_exact",
                 answer_number(answer, "memory[%" PRId64 "].reserved_peak_is_exact", j), live <= chunks) &&
            same(answer, wanted[at].memory, "reserved_bytes",
                 answer_number(answer, "memory[%" PRId64 "].reserved_bytes", j), live_at(to, one, other, false)) &&
            good;
    }
    return good;
}

/* From an even time, at which lives may begin, to an odd one, at which they may end. */
static bool
check_part(void)
{
    static const char *const commands[] = { "summary", "fragmentation", "timeline" };
    int64_t first = lives[0].begin, last = lives[life_count - 1].begin;
    int64_t from = first + 2 * (int64_t)random_draw(&state, (uint64_t)(last - first) / 2 + 1);
    int64_t to = from + 1 + 2 * (int64_t)random_draw(&state, (uint64_t)(last - from) / 2 + 1);
    bool good = true;

    for (size_t i = 0; i < 3; i++) {
        struct answer answer;

        answer_ask(&answer, "%s --json --from=%" PRId64 " --to=%" PRId64 " %s", commands[i], from, to, TRACE);
        good = check_within(&answer, from, to) && good;
        answer_free(&answer);
    }
    return good;
}

static bool
check_trace(void)
{
    struct answer answer;
    bool good;

    wanted_count = 0;
    for (size_t i = 0; i < stack_count; i++)
        want_stack(&stacks[i], (int)i + 1);
    answer_ask(&answer, "summary --json %s", TRACE);
    good = check_memory(&answer);
    answer_free(&answer);
    answer_ask(&answer, "fragmentation --json --moments=3 %s", TRACE);
    good = check_memory(&answer) && good;
    answer_free(&answer);
    answer_ask(&answer, "timeline --json --width=%d %s", 1 + (int)random_draw(&state, 60), TRACE);
    good = check_memory(&answer) && check_columns(&answer) && good;
    answer_free(&answer);
    answer_ask(&answer, "layers --json %s", TRACE);
    good = check_layers(&answer) && good;
    answer_free(&answer);
    good = check_part() && good;
    return check_gates() && good;
}

int
main(void)
{
    uint64_t first = random_trace_seed();
    uint64_t rounds = getenv("ROUNDS") != NULL ? strtoull(getenv("ROUNDS"), NULL, 10) : ROUNDS;
    unsigned wrong = 0;

    plan(2);
    for (uint64_t i = 0; i < rounds && wrong < 5; i++) {
        seed = first + i;
        state = seed * 2 + 88172645463325253u;
        make_trace();
        wrong += !check_trace();
    }
    diag("%" PRIu64 " traces, %" PRIu64 " checks; budgets: %u kept, %u exceeded, %u unknown", rounds, checks,
         verdicts[0], verdicts[1], verdicts[3]);
    is_u64(wrong, 0,
           "summary, fragmentation, timeline, layers and check say of what was reserved what brute force says");
    ok(rounds < 50 || all_of(verdicts[0] > 0, verdicts[1] > 0, verdicts[3] > 0),
       "the budgets around these figures were kept, were exceeded, and could not be judged");
    if (wrong == 0)
        unlink(TRACE);
    return done();
}
