/*
 * Tests `tidemark failures` against brute force: small random programs over models of stacks, on several devices whose
 * addresses overlap. A model keeps a map of the bytes of each chunk, and knows which layer refused and why; for the
 * bound that would have sufficed, it asks itself again with that bound.
 */
#include "tests/answers.h"
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"
#include "viewer/analysis/failures.h"
#include "viewer/base/exit-status.h"

#define STEPS  150
#define TRACE  "failures-t.db"
#define UNIT   256
#define CHUNKS 24
#define BLOCKS 256
#define STACKS 3
#define SMALL  (8 * UNIT) /* the largest request of a bin */
#define NEVER  UINT64_MAX

/* The stacks: what lies between the first log and the base, and which layers record. */
enum form {
    FORM_LIMIT,      /* log | limit | log | sim */
    FORM_BARE,       /* log | limit | sim */
    FORM_POOL,       /* log | pool | log | sim */
    FORM_SAYS,       /* log | pool | sim, and the pool says its chunks */
    FORM_BIN,        /* log | binning(2KiB={pool}) | log | sim */
    FORM_BIN_LOG,    /* log | binning(2KiB={pool | log}) | sim */
    FORM_POOL_LIMIT, /* log | pool | log | limit | sim */
    FORM_OLD,        /* log | pool | sim, and nothing says the chunks */
    FORM_RETRY,      /* log | retry | log | limit | sim */
    FORM_FAULT,      /* log | fault | pool | log | sim */
    FORM_FALLBACK,   /* log | fallback({log | limit | sim}) | log | sim */
    FORMS,
};

struct chunk {
    uint64_t address, size;
    int64_t row; /* of the layer that records chunks; 0: none */
    bool used[64];
};

struct block {
    uint64_t address, size;
    int chunk; /* -1: it came from below the pool */
    int way;   /* of a fallback: the first one or the second */
    int64_t row, lower;
};

struct stack {
    enum form form;
    int device;
    int64_t first; /* the layer_id of its log */
    uint64_t limit, maximum, capacity, growth;
    struct chunk chunks[CHUNKS];
    int chunk_count;
    struct block blocks[BLOCKS];
    int block_count;
    uint64_t next; /* address */
};

/* What became of a request, as the model has it. */
enum refuser { BY_NONE, BY_LIMIT, BY_POOL, BY_SIM, BY_FAULT, REFUSERS };

struct expected {
    int64_t row;
    enum refuser refuser;
    int64_t refuser_id;
    enum failure_cause cause;
    uint64_t live, count, reserved, free_bytes, largest, room, sufficient;
    bool chunks, room_known, sufficient_known;
};

static uint64_t rounds = 150; /* or ROUNDS of the environment */
static sqlite3 *db;
static struct stack stacks[STACKS];
static struct expected expected[STEPS * STACKS];
static size_t expected_count;
static uint64_t made_good;
static int64_t row_count, now_ns;
static int stack_count;
static uint64_t seed;
static bool has_refusals;
static int seen_causes[FAILURE_CAUSES];
static uint64_t checks, failures_seen, good_seen;

static void
run(const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        printf("Bail out! %s: %s\n", sqlite3_errmsg(db), sql);
        exit(99);
    }
}

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    char sql[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    run(sql);
}

static bool
has_pool(const struct stack *stack)
{
    return stack->form != FORM_LIMIT && stack->form != FORM_BARE && stack->form != FORM_RETRY &&
           stack->form != FORM_FALLBACK;
}

static bool
pools(const struct stack *stack, uint64_t size)
{
    return has_pool(stack) && ((stack->form != FORM_BIN && stack->form != FORM_BIN_LOG) || size <= SMALL);
}

/* The layer ids, from the log's: by form. 0: there is no such layer. */
static int64_t
id_of(const struct stack *stack, enum refuser who)
{
    static const int offsets[FORMS][REFUSERS] = {
        [FORM_LIMIT] = { [BY_LIMIT] = 1, [BY_SIM] = 3 },
        [FORM_BARE] = { [BY_LIMIT] = 1, [BY_SIM] = 2 },
        [FORM_POOL] = { [BY_POOL] = 1, [BY_SIM] = 3 },
        [FORM_SAYS] = { [BY_POOL] = 1, [BY_SIM] = 2 },
        [FORM_BIN] = { [BY_POOL] = 2, [BY_SIM] = 4 },
        [FORM_BIN_LOG] = { [BY_POOL] = 2, [BY_SIM] = 4 },
        [FORM_POOL_LIMIT] = { [BY_POOL] = 1, [BY_LIMIT] = 3, [BY_SIM] = 4 },
        [FORM_OLD] = { [BY_POOL] = 1, [BY_SIM] = 2 },
        [FORM_RETRY] = { [BY_LIMIT] = 3, [BY_SIM] = 4 },
        [FORM_FAULT] = { [BY_FAULT] = 1, [BY_POOL] = 2, [BY_SIM] = 4 },
        [FORM_FALLBACK] = { [BY_LIMIT] = 3, [BY_SIM] = 6 },
    };

    return stack->first + offsets[stack->form][who];
}

static void
write_layers(const struct stack *stack)
{
    static const char *const kinds[FORMS][8] = {
        [FORM_LIMIT] = { "log", "limit", "log", "sim" },
        [FORM_BARE] = { "log", "limit", "sim" },
        [FORM_POOL] = { "log", "pool", "log", "sim" },
        [FORM_SAYS] = { "log", "pool", "sim" },
        [FORM_BIN] = { "log", "binning", "pool", "log", "sim" },
        [FORM_BIN_LOG] = { "log", "binning", "pool", "log", "sim" },
        [FORM_POOL_LIMIT] = { "log", "pool", "log", "limit", "sim" },
        [FORM_OLD] = { "log", "pool", "sim" },
        [FORM_RETRY] = { "log", "retry", "log", "limit", "sim" },
        [FORM_FAULT] = { "log", "fault", "pool", "log", "sim" },
        [FORM_FALLBACK] = { "log", "fallback", "log", "limit", "sim", "log", "sim" },
    };

    for (int i = 0; kinds[stack->form][i] != NULL; i++) {
        const char *kind = kinds[stack->form][i];
        char config[64] = "", upstream[32] = "NULL";
        bool is_base = strcmp(kind, "sim") == 0;
        bool is_first_way = stack->form == FORM_FALLBACK && i == 4;
        int below = strcmp(kind, "fallback") == 0  ? 4
                    : strcmp(kind, "binning") != 0 ? 1
                    : stack->form == FORM_BIN      ? 2
                                                   : 3;

        if (strcmp(kind, "limit") == 0)
            snprintf(config, sizeof(config), "%" PRIu64, stack->limit);
        if (strcmp(kind, "pool") == 0 && stack->maximum != NEVER)
            snprintf(config, sizeof(config), "maximum=%" PRIu64 ", cache=0", stack->maximum);
        if (is_base && !is_first_way && stack->capacity != NEVER)
            snprintf(config, sizeof(config), "capacity=%" PRIu64, stack->capacity);
        if (!is_base)
            snprintf(upstream, sizeof(upstream), "%" PRId64, stack->first + i + below);
        if (below != 1)
            say("INSERT INTO layer_bin VALUES (%" PRId64 ", %" PRId64 ", %" PRId64 ")", stack->first + i,
                strcmp(kind, "fallback") == 0 ? INT64_MAX : SMALL, stack->first + i + 1);
        say("INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (%" PRId64
            ", %s, '%s', '%s', %d)",
            stack->first + i, upstream, kind, config, stack->device);
    }
}

/* A row of a call that began at `begin`. */
static int64_t
write_row(int64_t layer, uint64_t address, uint64_t size, int status, int64_t begin)
{
    now_ns += 5;
    say("INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, alloc_ns, alloc_duration_ns,"
        " alloc_thread_id, alloc_stream_id) VALUES (%" PRId64 ", %" PRId64 ", %" PRIu64 ", %" PRIu64
        ", 256, %d, %" PRId64 ", %" PRId64 ", 1, 1)",
        ++row_count, layer, address, size, status, now_ns, now_ns - begin);
    return row_count;
}

static void
end_row(int64_t row)
{
    if (row != 0)
        say("UPDATE allocation SET free_ns = %" PRId64 ", free_duration_ns = 1, free_thread_id = 1, free_stream_id = 1"
            " WHERE allocation_id = %" PRId64,
            now_ns, row);
}

static uint64_t
rounded(uint64_t size)
{
    return (size + UNIT - 1) / UNIT * UNIT;
}

static uint64_t
reserved_of(const struct stack *stack)
{
    uint64_t sum = 0;

    for (int i = 0; i < stack->chunk_count; i++)
        sum += stack->chunks[i].size;
    return sum;
}

/* What the base of a way has handed out. */
static uint64_t
way_used(const struct stack *stack, int way)
{
    uint64_t sum = reserved_of(stack);

    for (int i = 0; i < stack->block_count; i++) {
        if (stack->blocks[i].chunk < 0 && stack->blocks[i].way == way)
            sum += rounded(stack->blocks[i].size);
    }
    return sum;
}

/* The same of the only base, or of the one that a fallback comes to last. */
static uint64_t
base_used(const struct stack *stack)
{
    return way_used(stack, stack->form == FORM_FALLBACK);
}

/* Who refuses `size` bytes that are asked of what lies below the pool. */
static enum refuser
ask_below(const struct stack *stack, uint64_t size)
{
    bool limited = stack->form == FORM_LIMIT || stack->form == FORM_BARE || stack->form == FORM_POOL_LIMIT ||
                   stack->form == FORM_RETRY;

    if (limited && base_used(stack) + rounded(size) > stack->limit)
        return BY_LIMIT;
    return base_used(stack) + rounded(size) > stack->capacity ? BY_SIM : BY_NONE;
}

/* The layer that records what goes to the base below the pool; 0: none. */
static int64_t
lower_of(const struct stack *stack, bool chunk)
{
    switch (stack->form) {
    case FORM_LIMIT:
    case FORM_POOL:
    case FORM_POOL_LIMIT:
    case FORM_RETRY:
        return stack->first + 2;
    case FORM_SAYS:
        return chunk ? stack->first + 1 : 0;
    case FORM_BIN:
    case FORM_FAULT:
        return stack->first + 3;
    case FORM_FALLBACK:
        return stack->first + 5;
    case FORM_BIN_LOG:
        return chunk ? stack->first + 3 : 0;
    default:
        return 0;
    }
}

static int
status_of(enum refuser refuser)
{
    return refuser == BY_NONE ? 0 : refuser == BY_LIMIT ? 4 : 3;
}

static void
write_refusal(const struct stack *stack, int64_t row, enum refuser refuser)
{
    static const char *const kinds[] = { "", "limit", "pool", "sim", "fault" };

    /* Without words, a planted failure cannot be told from a real one. */
    if (refuser == BY_NONE || (!has_refusals && stack->form != FORM_FAULT))
        return;
    if (row % 3 != 0)
        say("INSERT INTO refusal VALUES (%" PRId64 ", %" PRId64 ", '%s: refused')", row, id_of(stack, refuser),
            kinds[refuser]);
    else
        say("INSERT INTO refusal VALUES (%" PRId64 ", NULL, '%s: refused')", row, kinds[refuser]);
}

/* Ask what lies below for `size` bytes. Writes a row where a log lies there. */
static enum refuser
take_below(struct stack *stack, uint64_t size, bool chunk, uint64_t *address, int64_t *row)
{
    enum refuser refuser = ask_below(stack, size);
    int64_t lower = lower_of(stack, chunk);
    int64_t begin = ++now_ns;

    *address = refuser == BY_NONE ? stack->next : 0;
    if (refuser == BY_NONE)
        stack->next += rounded(size) + UNIT * (stack->next / UNIT % 3);
    if (stack->form == FORM_LIMIT && refuser == BY_LIMIT)
        lower = 0; /* the limit is above the log */
    *row = lower != 0 ? write_row(lower, *address, size, status_of(refuser), begin) : 0;
    if (lower != 0)
        write_refusal(stack, *row, refuser);
    return refuser;
}

/* A fallback: first what lies below the limit, then the other base, which may make it good. */
static enum refuser
take_fallback(struct stack *stack, uint64_t size, struct block *block)
{
    bool limited = way_used(stack, 0) + rounded(size) > stack->limit;
    int64_t begin = ++now_ns;
    enum refuser refuser;

    if (!limited) {
        block->address = stack->next;
        stack->next += rounded(size);
    }
    block->lower = write_row(stack->first + 2, block->address, size, status_of(limited ? BY_LIMIT : BY_NONE), begin);
    if (!limited)
        return BY_NONE;
    write_refusal(stack, block->lower, BY_LIMIT);
    block->way = 1;
    refuser = take_below(stack, size, false, &block->address, &block->lower);
    made_good += refuser == BY_NONE;
    return refuser;
}

/* The first place in a chunk; -1: none. */
static int
find_place(const struct chunk *chunk, uint64_t units)
{
    uint64_t run_length = 0;

    for (uint64_t i = 0; i < chunk->size / UNIT; i++) {
        run_length = chunk->used[i] ? 0 : run_length + 1;
        if (run_length == units)
            return (int)(i + 1 - units);
    }
    return -1;
}

static void
take_place(struct stack *stack, int chunk, int place, uint64_t size, struct block *block)
{
    for (uint64_t i = 0; i < rounded(size) / UNIT; i++)
        stack->chunks[chunk].used[(uint64_t)place + i] = true;
    *block = (struct block){ .address = stack->chunks[chunk].address + (uint64_t)place * UNIT,
                             .size = size,
                             .chunk = chunk };
}

/* The pool: first fit, then a chunk as large as it grows by, then one of just the size. */
static enum refuser
take_pool(struct stack *stack, uint64_t size, struct block *block)
{
    uint64_t tries[2] = { stack->growth > rounded(size) ? stack->growth : rounded(size), rounded(size) };
    enum refuser refuser = BY_POOL;

    for (int i = 0; i < stack->chunk_count; i++) {
        int place = find_place(&stack->chunks[i], rounded(size) / UNIT);

        if (place >= 0) {
            take_place(stack, i, place, size, block);
            return BY_NONE;
        }
    }
    if (stack->chunk_count == CHUNKS)
        abort();
    for (int i = tries[0] == tries[1]; i < 2; i++) {
        struct chunk *chunk = &stack->chunks[stack->chunk_count];

        if (reserved_of(stack) + tries[i] > stack->maximum) {
            refuser = BY_POOL;
            continue;
        }
        *chunk = (struct chunk){ .size = tries[i] };
        refuser = take_below(stack, tries[i], true, &chunk->address, &chunk->row);
        if (refuser == BY_NONE) {
            take_place(stack, stack->chunk_count++, 0, size, block);
            return BY_NONE;
        }
        made_good += chunk->row != 0 && i == 0; /* until the second try has failed, too */
    }
    return refuser;
}

/* ---- what the model expects of a failure ------------------------------------------------------------------------ */

static void
measure(const struct stack *stack, struct expected *out)
{
    for (int i = 0; i < stack->chunk_count; i++) {
        uint64_t hole = 0;

        for (uint64_t at = 0; at < stack->chunks[i].size / UNIT; at++) {
            hole = stack->chunks[i].used[at] ? 0 : hole + UNIT;
            out->free_bytes += stack->chunks[i].used[at] ? 0 : UNIT;
            out->largest = hole > out->largest ? hole : out->largest;
        }
    }
    out->reserved = reserved_of(stack);
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether the request would have passed with another bound of the layer that refused: tried on a copy. */
static bool
passes_with(const struct stack *stack, enum refuser refuser, uint64_t bound, uint64_t size)
{
    struct stack *copy = malloc(sizeof(*copy));
    bool passes;

    *copy = *stack;
    *(refuser == BY_LIMIT ? &copy->limit : refuser == BY_POOL ? &copy->maximum : &copy->capacity) = bound;
    if (pools(stack, size))
        passes = reserved_of(copy) + rounded(size) <= copy->maximum && ask_below(copy, rounded(size)) == BY_NONE;
    else
        passes = ask_below(copy, size) == BY_NONE;
    free(copy);
    return passes;
}

/* The least bound with which it passes, found by trying every multiple of a byte between; 0: none (two bounds). */
static uint64_t
search_sufficient(const struct stack *stack, enum refuser refuser, uint64_t size)
{
    uint64_t low = 0, high = UINT64_C(1) << 40;

    if (!passes_with(stack, refuser, high, size))
        return 0;
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;

        *(passes_with(stack, refuser, middle, size) ? &high : &low) = middle;
    }
    return high;
}

static void
expect(const struct stack *stack, int64_t row, uint64_t size, enum refuser refuser)
{
    struct expected *out = &expected[expected_count++];
    bool limited = stack->form == FORM_POOL_LIMIT;
    uint64_t left;

    *out = (struct expected){ .row = row, .refuser = refuser, .refuser_id = id_of(stack, refuser) };
    for (int i = 0; i < stack->block_count; i++) {
        out->live += stack->blocks[i].size;
        out->count++;
    }
    if (refuser == BY_FAULT || !pools(stack, size)) {
        out->cause = refuser == BY_FAULT ? FAILURE_PLANTED : refuser == BY_LIMIT ? FAILURE_LIMIT : FAILURE_DEVICE;
    } else {
        measure(stack, out);
        out->chunks = stack->form != FORM_OLD;
        left = least(stack->maximum == NEVER ? NEVER : stack->maximum - out->reserved,
                     stack->capacity == NEVER ? NEVER : stack->capacity - base_used(stack));
        if (limited)
            left = least(left, stack->limit - base_used(stack));
        out->room = out->free_bytes + left;
        out->room_known = out->chunks;
        out->cause = out->room >= rounded(size) ? FAILURE_FRAGMENTATION
                     : refuser == BY_LIMIT      ? FAILURE_LIMIT
                     : refuser == BY_POOL       ? FAILURE_CAPACITY
                                                : FAILURE_DEVICE;
    }
    out->sufficient_known = refuser != BY_FAULT && stack->form != FORM_OLD;
    if (out->sufficient_known)
        out->sufficient = search_sufficient(stack, refuser, size);
}

/* ---- the random program ----------------------------------------------------------------------------------------- */

static void
allocate(struct stack *stack, uint64_t *state)
{
    uint64_t size = 1 + random_draw(state, random_draw(state, 3) == 0 ? 24 * UNIT : SMALL);
    struct block block = { .size = size, .chunk = -1 };
    enum refuser refuser;
    int64_t begin = ++now_ns;
    uint64_t good_before = made_good;

    if (stack->form == FORM_FAULT && random_draw(state, 10) == 0)
        refuser = BY_FAULT;
    else if (stack->form == FORM_FALLBACK)
        refuser = take_fallback(stack, size, &block);
    else if (pools(stack, size))
        refuser = take_pool(stack, size, &block);
    else
        refuser = take_below(stack, size, false, &block.address, &block.lower);
    if (stack->form == FORM_RETRY && refuser == BY_LIMIT && base_used(stack) + rounded(size) <= stack->capacity &&
        random_draw(state, 2) == 0) {
        /* In the meantime another thread frees enough, and the second attempt succeeds. */
        uint64_t limit = stack->limit;

        stack->limit = NEVER / 2;
        refuser = take_below(stack, size, false, &block.address, &block.lower);
        stack->limit = limit;
        made_good += refuser == BY_NONE;
    }
    block.row = write_row(stack->first, block.address, size, status_of(refuser), begin);
    write_refusal(stack, block.row, refuser);
    if (refuser != BY_NONE) {
        made_good = good_before;
        expect(stack, block.row, size, refuser);
    } else {
        stack->blocks[stack->block_count++] = block;
    }
}

static void
release(struct stack *stack, uint64_t *state)
{
    int place = (int)random_draw(state, (uint64_t)stack->block_count);
    struct block *block = &stack->blocks[place];

    now_ns += 3;
    end_row(block->row);
    end_row(block->lower);
    if (block->chunk >= 0) {
        struct chunk *chunk = &stack->chunks[block->chunk];

        for (uint64_t i = 0; i < rounded(block->size) / UNIT; i++)
            chunk->used[(block->address - chunk->address) / UNIT + i] = false;
    }
    *block = stack->blocks[--stack->block_count];
    now_ns += 3;
}

static void
make_stack(struct stack *stack, int number, uint64_t *state)
{
    *stack = (struct stack){ .form = (enum form)random_draw(state, FORMS),
                             .device = number,
                             .first = 1 + 10 * number,
                             .limit = NEVER,
                             .maximum = NEVER,
                             .capacity = NEVER,
                             .growth = UNIT * (8 + random_draw(state, 24)),
                             .next = UINT64_C(1) << 20 };
    if (stack->form == FORM_LIMIT || stack->form == FORM_BARE || stack->form == FORM_RETRY ||
        stack->form == FORM_POOL_LIMIT || stack->form == FORM_FALLBACK)
        stack->limit = UNIT * (40 + random_draw(state, 150));
    if (has_pool(stack) && (stack->form == FORM_OLD || random_draw(state, 2) == 0))
        stack->maximum = UNIT * (40 + random_draw(state, 150));
    if (stack->form != FORM_OLD && random_draw(state, 2) == 0)
        stack->capacity = UNIT * (40 + random_draw(state, 150)) + random_draw(state, UNIT);
    if (stack->limit == NEVER && stack->maximum == NEVER && stack->capacity == NEVER)
        stack->capacity = UNIT * 100;
}

static void
make_trace(uint64_t trace_seed)
{
    uint64_t state = trace_seed * 2 + 88172645463325253u;
    char pragma[64];

    unlink(TRACE);
    if (sqlite3_open(TRACE, &db) != SQLITE_OK)
        exit(99);
    snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", TIDEI_TRACE_APPLICATION_ID);
    run(pragma);
    run("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; BEGIN");
    run(tidei_trace_schema);
    run("INSERT INTO meta VALUES ('format_version', 1), ('start_unix_ns', 1700000000000000000), ('complete', 1),"
        "    ('pid', 4194305), ('hostname', 'elsewhere'), ('command', 'random'), ('ended', 'closed');"
        "INSERT INTO thread VALUES (1, 100, 'main'); INSERT INTO stream VALUES (1, 0, 0);"
        "CREATE TABLE IF NOT EXISTS refusal(allocation_id INTEGER, layer_id INTEGER, text TEXT)");
    expected_count = 0;
    made_good = 0;
    row_count = now_ns = 0;
    has_refusals = random_draw(&state, 2) == 0;
    stack_count = 1 + (int)random_draw(&state, STACKS);
    for (int i = 0; i < stack_count; i++) {
        make_stack(&stacks[i], i, &state);
        write_layers(&stacks[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        struct stack *stack = &stacks[random_draw(&state, (uint64_t)stack_count)];

        if (stack->block_count > 0 && random_draw(&state, 5) < 2)
            release(stack, &state);
        else if (stack->chunk_count < CHUNKS && stack->block_count < BLOCKS)
            allocate(stack, &state);
    }
    run("COMMIT");
    sqlite3_close(db);
}

/* ---- the comparison --------------------------------------------------------------------------------------------- */

static bool
same(const char *what, const struct expected *failure, uint64_t seen, uint64_t wanted)
{
    checks++;
    if (seen != wanted)
        diag("seed %" PRIu64 ", allocation %" PRId64 ": %s is %" PRIu64 ", by brute force %" PRIu64, seed, failure->row,
             what, seen, wanted);
    return seen == wanted;
}

static bool
check_one(const struct failures *failures, const struct failure *failure, const struct expected *wanted)
{
    const struct trace_layer *layers = failures->view->layers.layers;
    const struct diagnosis *at = &failure->at;
    bool good = same("the allocation", wanted, (uint64_t)failure->life.allocation_id, (uint64_t)wanted->row) &&
                same("the layer that refused", wanted,
                     failure->refuser == ROUTES_NONE ? 0 : (uint64_t)layers[failure->refuser].layer_id,
                     (uint64_t)wanted->refuser_id) &&
                same("the cause", wanted, failure->cause, wanted->cause) &&
                same("live bytes", wanted, at->live_bytes, wanted->live) &&
                same("live", wanted, at->live_count, wanted->count);

    seen_causes[wanted->cause]++;
    if (wanted->chunks)
        good = good && same("where it is from", wanted, at->source, DIAGNOSIS_CHUNKS) &&
               same("reserved", wanted, at->reserved_bytes, wanted->reserved) &&
               same("free", wanted, at->free_bytes, wanted->free_bytes) &&
               same("the largest hole", wanted, at->largest_hole, wanted->largest);
    if (wanted->room_known)
        good = good && same("room", wanted, at->room_bytes, wanted->room);
    if (wanted->sufficient_known)
        good = good &&
               same("what suffices", wanted, at->also == ROUTES_NONE ? at->sufficient_bytes : 0, wanted->sufficient);
    return good;
}

/* The whole, and the first failures, in the JSON; and what other commands say of their number. */
static bool
check_json(void)
{
    struct answer failures, other;
    uint64_t causes[FAILURE_CAUSES] = { 0 };
    const struct expected none = { 0 }, *first = expected_count > 0 ? &expected[0] : &none;
    bool good;

    answer_ask(&failures, "failures --json %s", TRACE);
    good = same("failures_count", first, (uint64_t)answer_number(&failures, "failures_count"), expected_count) &&
           same("made_good_count", first, (uint64_t)answer_number(&failures, "made_good_count"), made_good);
    for (size_t i = 0; i < expected_count; i++)
        causes[expected[i].cause]++;
    for (int cause = 0; cause < FAILURE_CAUSES && good; cause++) {
        int64_t at = answer_find(&failures, "causes", "cause", failures_word((enum failure_cause)cause));

        good = same("the number of a cause", first,
                    at < 0 ? 0 : (uint64_t)answer_number(&failures, "causes[%" PRId64 "].count", at), causes[cause]);
    }
    if (expected_count > 0)
        good =
            good &&
            same("the first one's id", first, (uint64_t)answer_number(&failures, "allocation_id"),
                 (uint64_t)first->row) &&
            same("its cause", first, strcmp(answer_text(&failures, "cause"), failures_word(first->cause)) == 0, 1) &&
            same("who refused it", first, (uint64_t)answer_number(&failures, "refused_by_layer_id"),
                 (uint64_t)first->refuser_id) &&
            same("live then", first, (uint64_t)answer_number(&failures, "live_bytes"), first->live) &&
            (!first->chunks ||
             same("reserved then", first, (uint64_t)answer_number(&failures, "reserved_bytes"), first->reserved)) &&
            (!first->sufficient_known || first->sufficient == 0 ||
             same("what suffices", first, (uint64_t)answer_number(&failures, "sufficient_bytes"), first->sufficient));
    answer_free(&failures);
    answer_ask(&other, "summary --json %s", TRACE);
    if (stack_count == 1)
        good = good && same("failures of summary", first, (uint64_t)answer_number(&other, "failures"), expected_count);
    answer_free(&other);
    answer_ask(&other, "check --json --max-failures=%zu %s", expected_count, TRACE);
    good = good && same("the exit status of check", first, (uint64_t)other.status, 0) &&
           same("failures of check", first, (uint64_t)answer_number(&other, "budgets[0].seen"), expected_count);
    answer_free(&other);
    if (expected_count > 0) {
        answer_ask(&other, "check --json --max-failures=%zu %s", expected_count - 1, TRACE);
        good = good && same("the exit status of check", first, (uint64_t)other.status, 1);
        answer_free(&other);
    }
    return good;
}

static bool
check_trace(void)
{
    struct filter_options options = { 0 };
    struct failures *failures = malloc(sizeof(*failures));
    struct view view;
    bool good;

    make_trace(seed);
    if (view_open(&view, &options, TRACE) != COMMAND_FINE || failures_make(&view, failures) != COMMAND_FINE)
        return false;
    good = failures->count == expected_count && failures->total == expected_count;
    if (!good)
        diag("seed %" PRIu64 ": %zu failures, by brute force %zu", seed, failures->count, expected_count);
    for (size_t i = 0; good && i < failures->count; i++)
        good = check_one(failures, &failures->list[i], &expected[i]);
    if (good && failures->made_good != made_good) {
        diag("seed %" PRIu64 ": %" PRIu64 " made good, by brute force %" PRIu64, seed, failures->made_good, made_good);
        good = false;
    }
    failures_seen += failures->count;
    good_seen += made_good;
    failures_free(failures);
    view_close(&view);
    free(failures);
    return check_json() && good;
}

int
main(void)
{
    uint64_t first = random_trace_seed();
    int bad = 0;

    plan(3);
    if (getenv("ROUNDS") != NULL)
        rounds = strtoull(getenv("ROUNDS"), NULL, 10);
    for (uint64_t i = 0; i < rounds && bad < 3; i++) {
        seed = first + i;
        bad += !check_trace();
    }
    ok(bad == 0,
       "at each failure the layer that refused, the cause, the free bytes and what suffices are those of a model");
    diag("%" PRIu64 " traces, %" PRIu64 " failures, %" PRIu64 " made good, %" PRIu64 " comparisons", rounds,
         failures_seen, good_seen, checks);
    for (int cause = 0; cause < FAILURE_CAUSES; cause++)
        diag("%s: %d", failures_word((enum failure_cause)cause), seen_causes[cause]);
    ok(all_of(seen_causes[FAILURE_LIMIT] > 0, seen_causes[FAILURE_CAPACITY] > 0, seen_causes[FAILURE_DEVICE] > 0,
              seen_causes[FAILURE_FRAGMENTATION] > 0, seen_causes[FAILURE_PLANTED] > 0),
       "the random programs failed at limits, full pools, full devices, holes, and as planted");
    ok(good_seen > 0, "some of the failures were made good");
    if (bad == 0)
        unlink(TRACE);
    return done();
}
