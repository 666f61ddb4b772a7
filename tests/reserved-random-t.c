/*
 * Tests what is said of reserved memory against brute force: random traces of several stacks, devices and bins, of
 * pools with a log below, with chunks of their own, or with samples alone. Summary, fragmentation and timeline have the
 * same figures for each stack and kind of memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"
#include "tests/random-trace.h"
#include "tests/tap.h"
#include "viewer/analysis/fragment.h"
#include "viewer/analysis/summary.h"
#include "viewer/analysis/timeline.h"
#include "viewer/base/exit-status.h"

#define ROUNDS 400
#define TRACE  "reserved-random-t.db"
#define STACKS 3
#define LIVES  120
#define NEVER  INT64_MAX

enum shape {
    LOWER_LOG,  /* log | pool | log | driver */
    OWN_CHUNKS, /* log | pool | driver */
    BINS,       /* log | binning({log | pool}) | pool | log | driver: both pools have chunks */
    DIRECT,     /* log | binning({pool}) | log | driver: what passes no pool is held as it is */
    HIGHS,      /* log | limit | driver, with high-water marks */
    SAMPLES,    /* log | pool | driver, with samples alone */
    PARTED,     /* log | fallback({driver}) | pinned, with high-water marks */
    NOTHING,    /* log | driver */
    SHAPES,
};

struct life {
    int layer;
    int64_t size, begin, end;
};

struct stack {
    enum shape shape;
    int first; /* the number of its first layer */
    int device;
    int chunks[2];                /* layers with chunks; 0: none */
    int bases[2];                 /* layers with samples; 0: none */
    int64_t curves[2][LIVES + 2]; /* what a base has reserved, from moment to moment */
};

static struct stack stacks[STACKS];
static size_t stack_count;
static struct life lives[LIVES];
static size_t life_count;
static sqlite3 *db;
static uint64_t state;
static uint64_t seed;
static unsigned checks;

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

static int
add_layer(int *last, int upstream, const char *kind, int device)
{
    run("INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (%d, nullif(%d, 0), %Q, '',"
        " iif(%d < 0, NULL, %d))",
        ++*last, upstream, kind, device, device);
    return *last;
}

/* Add the layers of a stack, from `last` + 1 on. */
static void
add_stack(struct stack *stack, int *last)
{
    int at = stack->first = *last + 1;
    int device = stack->device;

    add_layer(last, at + 1, "log", device);
    switch (stack->shape) {
    case LOWER_LOG:
        add_layer(last, at + 2, "pool", device);
        stack->chunks[0] = add_layer(last, at + 3, "log", device);
        add_layer(last, 0, "driver", device);
        break;
    case OWN_CHUNKS:
    case SAMPLES:
        add_layer(last, at + 2, "pool", device);
        stack->chunks[0] = stack->shape == OWN_CHUNKS ? at + 1 : 0;
        add_layer(last, 0, "driver", device);
        stack->bases[0] = stack->shape == SAMPLES ? at + 2 : 0;
        break;
    case BINS:
        add_layer(last, at + 2, "binning", device);
        add_layer(last, at + 3, "pool", device);
        stack->chunks[0] = add_layer(last, at + 6, "log", device);
        add_layer(last, at + 5, "log", device);
        stack->chunks[1] = add_layer(last, at + 6, "arena", device);
        run("INSERT INTO layer_bin VALUES (%d, 4096, %d)", at + 1, at + 4);
        add_layer(last, 0, "driver", device);
        break;
    case DIRECT:
        add_layer(last, at + 2, "binning", device);
        stack->chunks[0] = add_layer(last, at + 4, "log", device);
        add_layer(last, at + 2, "pool", device);
        run("INSERT INTO layer_bin VALUES (%d, 4096, %d)", at + 1, at + 3);
        add_layer(last, 0, "driver", device);
        break;
    case HIGHS:
        add_layer(last, at + 2, "limit", device);
        stack->bases[0] = add_layer(last, 0, "driver", device);
        break;
    case PARTED:
        add_layer(last, at + 2, "fallback", -1);
        stack->bases[0] = add_layer(last, 0, "driver", device);
        stack->bases[1] = add_layer(last, 0, "pinned", -1);
        run("INSERT INTO layer_bin VALUES (%d, 9223372036854775807, %d)", at + 1, at + 3);
        break;
    default:
        add_layer(last, 0, "driver", device);
        break;
    }
}

static bool
is_live(const struct life *life, int64_t ns)
{
    return life->begin <= ns && life->end > ns;
}

/* What two layers (0: none) have live together at a time. */
static int64_t
live_at(int64_t ns, int one, int other)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < life_count; i++) {
        if ((lives[i].layer == one || (other != 0 && lives[i].layer == other)) && is_live(&lives[i], ns))
            bytes += lives[i].size;
    }
    return bytes;
}

/* The most of it, at any moment. */
static int64_t
most_live(int one, int other)
{
    int64_t most = 0;

    for (size_t i = 0; i < life_count; i++) {
        int64_t bytes = live_at(lives[i].begin, one, other);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Lives begin at even times and end at odd ones. */
static void
add_lives(void)
{
    int64_t ns = 0;

    life_count = 10 + random_draw(&state, LIVES - 10);
    for (size_t i = 0; i < life_count; i++) {
        const struct stack *stack = &stacks[random_draw(&state, stack_count)];
        uint64_t which = random_draw(&state, 3);
        struct life *life = &lives[i];

        ns += 2 * (int64_t)(1 + random_draw(&state, 3));
        life->layer = which < 2 && stack->chunks[which] != 0 ? stack->chunks[which] : stack->first;
        life->size = 1 + (int64_t)random_draw(&state, life->layer == stack->first ? 3000 : 9000);
        life->begin = ns;
        life->end = random_draw(&state, 6) == 0 ? NEVER : ns + 1 + 2 * (int64_t)random_draw(&state, 40);
        run("INSERT INTO allocation(layer_id, address, size, alignment, status, alloc_ns, alloc_duration_ns,"
            " alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id)"
            " VALUES (%d, %lld, %lld, 256, 0, %lld, 1, 1, 1, %s%lld%s, 1, 1, 1)",
            life->layer, (long long)(i + 1) << 20, (long long)life->size, (long long)ns,
            life->end == NEVER ? "iif(" : "", life->end == NEVER ? 1LL : (long long)life->end,
            life->end == NEVER ? ", NULL, NULL)" : "");
    }
}

/* Let each base have something reserved after each event, and take samples of it now and then, and at the end. */
static void
add_samples(void)
{
    for (size_t i = 0; i < stack_count; i++) {
        struct stack *stack = &stacks[i];

        for (int base = 0; base < 2 && stack->bases[base] != 0; base++) {
            int64_t high = 0;

            for (size_t at = 0; at < life_count; at++) {
                int64_t share = stack->shape == PARTED ? 0 : live_at(lives[at].begin, stack->first, 0);
                int64_t bytes = share + (int64_t)random_draw(&state, 4000);

                stack->curves[base][at] = bytes;
                high = bytes > high ? bytes : high;
                if (at + 1 < life_count && random_draw(&state, 3) != 0) {
                    stack->curves[base][at] = -bytes; /* not seen */
                    continue;
                }
                run("INSERT INTO pool_sample VALUES (%lld, %d, %lld, %lld, iif(%d, NULL, %lld))",
                    (long long)lives[at].begin, stack->bases[base], (long long)(bytes / 2), (long long)bytes,
                    stack->shape == SAMPLES, (long long)high);
            }
        }
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
        stacks[i] =
            (struct stack){ .shape = (enum shape)random_draw(&state, SHAPES), .device = (int)random_draw(&state, 2) };
        add_stack(&stacks[i], &last);
    }
    add_lives();
    add_samples();
    run("COMMIT");
    sqlite3_close(db);
}

/* What is to be said of a group. */
struct wanted {
    char name[96];
    bool has_upper;
    int64_t live, reserved;
    bool known, exact;
};

static bool
same(const char *command, const struct wanted *wanted, const char *what, uint64_t seen, int64_t by_force)
{
    checks++;
    if (seen != (uint64_t)by_force)
        diag("seed %" PRIu64 ": %s, %s: %s is %" PRIu64 ", by brute force %" PRId64, seed, command, wanted->name, what,
             seen, by_force);
    return seen == (uint64_t)by_force;
}

static bool
check_group(const char *command, const struct reserved *reserved, const struct wanted *wanted)
{
    for (size_t i = 0; i < reserved->group_count; i++) {
        const struct reserved_group *group = &reserved->groups[i];

        if (strcmp(group->name, wanted->name) != 0)
            continue;
        return same(command, wanted, "whether logs have it", group->has_upper, wanted->has_upper) &&
               same(command, wanted, "the peak", group->live_peak_bytes, wanted->live) &&
               same(command, wanted, "whether reserved is known", group->reserved.source != RESERVED_UNKNOWN,
                    wanted->known) &&
               same(command, wanted, "the peak reserved", group->reserved.peak_bytes, wanted->reserved) &&
               same(command, wanted, "whether it is exact", group->reserved.is_exact, wanted->exact);
    }
    diag("seed %" PRIu64 ": %s has no group %s", seed, command, wanted->name);
    return false;
}

/* The most of a curve: of all, or of what samples saw. */
static int64_t
most_of(const int64_t *curve, bool seen)
{
    int64_t most = 0;

    for (size_t i = 0; i < life_count; i++) {
        int64_t bytes = curve[i] < 0 ? (seen ? 0 : -curve[i]) : curve[i];

        most = bytes > most ? bytes : most;
    }
    return most;
}

static void
name_group(const struct stack *stack, const char *memory, struct wanted *wanted)
{
    if (stack_count > 1)
        snprintf(wanted->name, sizeof(wanted->name), "%d log, %s", stack->first, memory);
    else
        snprintf(wanted->name, sizeof(wanted->name), "%s", memory);
}

/* The groups of a stack; returns their number. */
static size_t
want_groups(const struct stack *stack, struct wanted *wanted)
{
    char memory[64];
    int64_t held = stack->chunks[0] != 0 ? most_live(stack->chunks[0], stack->chunks[1]) : 0;

    memset(wanted, 0, 3 * sizeof(*wanted));
    snprintf(memory, sizeof(memory), "GPU %d", stack->device);
    wanted->has_upper = true;
    wanted->live = most_live(stack->first, 0);
    if (stack->shape == PARTED) {
        wanted->reserved = wanted->live;
        wanted[1].known = wanted[1].exact = wanted[2].known = wanted[2].exact = true;
        wanted[1].reserved = most_of(stack->curves[0], false);
        wanted[2].reserved = most_of(stack->curves[1], false);
        name_group(stack, memory, &wanted[1]);
        name_group(stack, "pinned", &wanted[2]);
        snprintf(memory, sizeof(memory), "pinned + GPU %d", stack->device);
        name_group(stack, memory, wanted);
        return 3;
    }
    name_group(stack, memory, wanted);
    wanted->known = stack->shape != NOTHING;
    if (stack->shape == HIGHS || stack->shape == SAMPLES)
        held = most_of(stack->curves[0], stack->shape == SAMPLES);
    wanted->exact = wanted->known && stack->shape != SAMPLES && held >= wanted->live;
    wanted->reserved = held > wanted->live ? held : wanted->live;
    return 1;
}

static bool
check_reserved(const char *command, const struct reserved *reserved)
{
    bool good = true;
    size_t count = 0;

    for (size_t i = 0; i < stack_count; i++) {
        struct wanted wanted[3];
        size_t groups = want_groups(&stacks[i], wanted);
        bool is_unsure = stacks[i].shape == BINS || stacks[i].shape == OWN_CHUNKS;

        count += groups;
        /* The pool of a bin that was never used leaves its part unknown. */
        if (is_unsure && (most_live(stacks[i].chunks[0], 0) == 0 ||
                          (stacks[i].shape == BINS && most_live(stacks[i].chunks[1], 0) == 0)))
            continue;
        for (size_t j = 0; j < groups; j++)
            good = check_group(command, reserved, &wanted[j]) && good;
    }
    if (reserved->group_count != count)
        diag("seed %" PRIu64 ": %s has %zu groups instead of %zu", seed, command, reserved->group_count, count);
    return good && reserved->group_count == count;
}

/* The most of the columns is the peak, where chunks say it. */
static bool
check_columns(const struct timeline *timeline)
{
    bool good = true;

    for (size_t i = 0; i < timeline->part_count; i++) {
        const struct timeline_part *part = &timeline->parts[i];
        const struct wanted wanted = { .name = "columns" };
        uint64_t most = 0;

        for (size_t j = 0; j < timeline->count; j++)
            most = part->columns[j].reserved_bytes > most ? part->columns[j].reserved_bytes : most;
        if (part->group->reserved.source == RESERVED_LAYERS)
            good = same("timeline", &wanted, "the most of all columns", most, (int64_t)part->group->rows_peak_bytes) &&
                   good;
    }
    return good;
}

static bool
check_trace(void)
{
    const struct filter_options none = { 0 };
    const struct fragment_options options = { .at = { .kind = MOMENT_PEAK }, .page_bytes = SPACE_PAGE, .moments = 3 };
    struct summary summary;
    struct fragment fragment;
    struct timeline timeline;
    struct view views[3];
    bool good;

    for (size_t i = 0; i < 3; i++) {
        if (view_open(&views[i], &none, TRACE) != COMMAND_FINE)
            return false;
    }
    if (summary_make(&views[0], &summary) != COMMAND_FINE ||
        fragment_make(&views[1], &options, &fragment) != COMMAND_FINE ||
        timeline_make(&views[2], 1 + random_draw(&state, 60), &timeline) != COMMAND_FINE)
        return false;
    good = check_reserved("summary", &summary.reserved);
    good = check_reserved("fragmentation", &fragment.reserved) && good;
    good = check_reserved("timeline", &timeline.reserved) && check_columns(&timeline) && good;
    summary_free(&summary);
    fragment_free(&fragment);
    timeline_free(&timeline);
    for (size_t i = 0; i < 3; i++)
        view_close(&views[i]);
    return good;
}

int
main(void)
{
    uint64_t first = random_trace_seed();
    unsigned wrong = 0;

    plan(1);
    for (uint64_t i = 0; i < ROUNDS && wrong < 5; i++) {
        seed = first + i;
        state = seed * 2 + 88172645463325253u;
        make_trace();
        wrong += !check_trace();
    }
    diag("%d traces, %u checks", ROUNDS, checks);
    is_u64(wrong, 0, "what was reserved is by brute force what summary, fragmentation and timeline say");
    unlink(TRACE);
    return done();
}
