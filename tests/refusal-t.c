/* Tests the table refusal: the words of each failed allocation, and the layer that refused it, whoever passed it on. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tap.h"
#include "trace.h"

#define MIB ((size_t)1 << 20)

/* A base that fails as it is told to. */
struct own {
    struct tide_resource base;
    enum tide_status status;
    const char *words; /* NULL: it says nothing */
};

static enum tide_status
own_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct own *own = (struct own *)self;

    (void)bytes, (void)alignment, (void)stream;
    *out = own->status == TIDE_OK ? self : NULL;
    return own->words != NULL ? tide_error_set(own->status, "%s", own->words) : own->status;
}

static enum tide_status
own_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)self, (void)pointer, (void)bytes, (void)alignment, (void)stream;
    return TIDE_OK;
}

static void
own_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
}

static const struct tide_resource_ops own_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "own",
    .allocate = own_allocate,
    .deallocate = own_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = own_destroy,
};

static void
refused(struct tide_resource *stack, size_t bytes)
{
    void *pointer;

    if (tide_allocate(stack, bytes, 256, 0, &pointer) == TIDE_OK)
        diag("%zu B were not refused", bytes);
}

struct given {
    const char *stack;  /* below the log */
    const char *config; /* of the layer that refuses */
    const char *text;   /* begins the words */
};

/* Each refuses the fourth MiB, or 100 MiB at once. */
static const struct given givens[] = {
    { "limit(1GiB) | limit(3MiB) | sim", "limit(3MiB)", "limit: 1 MiB request exceeds 3 MiB limit (3 MiB in use)" },
    { "limit(3MiB) | limit(3500KiB) | sim", "limit(3MiB)", "limit: 1 MiB request exceeds 3 MiB limit" },
    { "limit(count=3) | sim", "limit(count=3)", "limit: one more allocation exceeds the limit of 3" },
    { "fault(nth=4) | sim", "fault(nth=4)", "fault: planted failure of request 4" },
    { "pool(maximum=2MiB, growth=1MiB) | sim", "pool(maximum=2MiB, growth=1MiB)", "pool: another" },
    { "arena(size=2MiB) | sim", "arena(size=2MiB)", "arena: " },
    { "fixed(512KiB) | sim", "fixed(512KiB)", "fixed: 1048576 B request exceeds 524288 B block" },
    { "sim(capacity=3MiB)", "sim(capacity=3MiB)", "sim: 1 MiB request exceeds 3 MiB capacity (3 MiB in use)" },
    { "host(capacity=3MiB)", "host(capacity=3MiB)", "host: 1 MiB request exceeds 3 MiB capacity (3 MiB in use)" },
    { "pool(growth=1MiB) | sim(capacity=3MiB)", "sim(capacity=3MiB)", "sim: " },
    { "fixed(1MiB) | sim(capacity=3MiB)", "sim(capacity=3MiB)", "sim: " },
    { "monotonic(1MiB) | sim(capacity=3MiB)", "sim(capacity=3MiB)", "sim: " },
    { "retry | statistics | limit(3MiB) | sim", "limit(3MiB)", "retry: limit: 1 MiB request exceeds 3 MiB limit" },
    { "fallback({limit(1MiB) | host}) | limit(2MiB) | sim", "limit(2MiB)", "fallback: limit: 1 MiB request exceeds 1" },
    { "binning(2MiB={limit(3MiB)}) | sim", "limit(3MiB)", "limit: " },
    { "guard | track | limit(3MiB) | host", "limit(3MiB)", "limit: " },
    { "retry | fallback({limit(1KiB)}) | retry | sim(capacity=3MiB)", "sim(capacity=3MiB)", "retry: fallback: limit" },
};

#define GIVENS (sizeof(givens) / sizeof(givens[0]))

static void
test_given(const struct given *given, unsigned number)
{
    char path[256];
    struct tide_resource *stack;
    const char *config;
    void *blocks[4];
    int64_t failures;
    size_t count = 0;

    snprintf(path, sizeof(path), "%s", scratch("%u.db", number));
    stack = stack_of("log(%s) | %s", path, given->stack);
    while (count < 4 && tide_allocate(stack, MIB, 256, 0, &blocks[count]) == TIDE_OK)
        count++;
    while (count > 0)
        tide_deallocate(stack, blocks[--count], MIB, 256, 0);
    tide_resource_release(stack);
    config = sql_text(path, "SELECT kind || '(' || config || ')' FROM refusal JOIN layer USING (layer_id) LIMIT 1");
    ok(strcmp(config, given->config) == 0, "over '%s' the refusal names the layer", given->stack);
    if (strcmp(config, given->config) != 0)
        diag("%s", config);
    config = sql_text(path, "SELECT text FROM refusal LIMIT 1");
    ok(strncmp(config, given->text, strlen(given->text)) == 0, "over '%s' the refusal has the words of the layer",
       given->stack);
    if (strncmp(config, given->text, strlen(given->text)) != 0)
        diag("%s", config);
    failures = sql_number(path, "SELECT count(*) FROM allocation WHERE status <> 0");
    ok(all_of(
           failures >= 1, sql_number(path, "SELECT count(*) FROM refusal") == failures,
           sql_number(path, "SELECT count(*) FROM refusal JOIN allocation USING (allocation_id) WHERE status <> 0") ==
               failures),
       "over '%s' each failure has one refusal, and nothing else has", given->stack);
}

#define LOG_TESTS 4

/* Logs at several places of one stack, and of a second stack that shares a part with the first. */
static void
test_logs(void)
{
    char path[256];
    struct tide_resource *below = stack_of("limit(2MiB) | sim"), *first, *second;
    struct tide_log_options options = { TIDE_OPTIONS(options) };
    struct tide_limit_options limit = { TIDE_OPTIONS(limit), .limit_bytes = MIB };

    snprintf(path, sizeof(path), "%s", scratch("logs.db"));
    options.path = path;
    if (tide_log_create(below, &options, &first) != TIDE_OK || tide_limit_create(first, &limit, &second) != TIDE_OK)
        abort();
    tide_resource_release(below);
    below = second;
    if (tide_log_create(below, &options, &second) != TIDE_OK)
        abort();
    tide_resource_release(below);
    refused(first, 3 * MIB);
    refused(second, 3 * MIB);
    take(second, MIB / 2);
    take(first, MIB + MIB / 4);
    refused(second, MIB / 2);
    tide_resource_release(first);
    tide_resource_release(second);
    is_i64(sql_number(path, "SELECT count(*) FROM refusal"), 4, "each log that a failure passes has its refusal");
    is_i64(sql_number(path, "SELECT count(*) FROM refusal JOIN layer USING (layer_id) WHERE config = '2MiB'"), 3,
           "a log that shares a stack of before names the layer below that refused");
    is_i64(sql_number(path, "SELECT count(*) FROM refusal JOIN layer USING (layer_id) WHERE config = '1MiB'"), 1,
           "the layer between two logs is named by the upper one");
    is_i64(sql_number(path, "SELECT count(DISTINCT layer_id) FROM layer WHERE kind = 'limit'"), 2,
           "a layer that two stacks share has one number");
}

#define OWN_TESTS 7

/* Layers of the application: with words, without, and with very many. */
static void
test_own(void)
{
    struct own own = { .status = TIDE_ECAPACITY, .words = "own: no" };
    struct tide_log_options options = { TIDE_OPTIONS(options) };
    char path[256], words[400];
    struct tide_resource *log;
    void *pointer;

    snprintf(path, sizeof(path), "%s", scratch("own.db"));
    options.path = path;
    if (tide_resource_init(&own.base, &own_ops, NULL) != TIDE_OK ||
        tide_log_create(&own.base, &options, &log) != TIDE_OK)
        abort();
    refused(log, 1);
    own.words = NULL;
    refused(log, 2);
    tide_error_set(TIDE_EINVAL, "of another call");
    refused(log, 3);
    /* 255 bytes, and then a character of two. */
    memset(words, 'x', sizeof(words));
    memcpy(words + 255, "\303\244", 3);
    own.words = words;
    refused(log, 4);
    is_string(tide_error_text(), words, "the thread still has all of the words");
    memset(words, 'x', sizeof(words));
    words[256] = '\0';
    refused(log, 5);
    own.status = TIDE_OK;
    own.words = NULL;
    if (tide_allocate(log, 6, 256, 0, &pointer) != TIDE_OK)
        abort();
    tide_resource_release(log);
    tide_resource_release(&own.base);
    is_string(sql_text(path, "SELECT text FROM refusal JOIN allocation USING (allocation_id) WHERE size = 1"),
              "own: no", "the words of an application's layer are kept");
    is_i64(sql_number(path, "SELECT layer_id IS NULL FROM refusal LIMIT 1"), 1,
           "a layer of the application that refuses is not known");
    is_i64(sql_number(path, "SELECT count(*) FROM refusal JOIN allocation USING (allocation_id) WHERE size IN (2, 3)"),
           0, "a failure without words does not get those of an earlier failure");
    is_i64(sql_number(path, "SELECT length(text) FROM refusal JOIN allocation USING (allocation_id) WHERE size = 4"),
           255, "words that are too long are cut, and never within a character");
    is_i64(sql_number(path, "SELECT length(text) FROM refusal JOIN allocation USING (allocation_id) WHERE size = 5"),
           256, "256 bytes of words are kept whole");
    is_i64(sql_number(path, "SELECT count(*) FROM refusal"), 3, "an allocation that succeeds has no refusal");
}

#define GOOD_TESTS 2

/* A retry makes a failure good: only the log below it has seen one. */
static void
test_made_good(void)
{
    char path[256];
    struct tide_resource *stack;

    snprintf(path, sizeof(path), "%s", scratch("good.db"));
    stack = stack_of("log(%s) | retry | log | fault(nth=1, status=capacity) | sim", path);
    take(stack, 64);
    tide_resource_release(stack);
    is_i64(sql_number(path,
                      "SELECT count(*) FROM refusal JOIN allocation AS a USING (allocation_id) WHERE a.layer_id = 1"),
           0, "above a retry that makes a failure good there is no refusal");
    is_string(sql_text(path, "SELECT kind FROM refusal JOIN layer USING (layer_id)"), "fault",
              "below a retry that makes a failure good its refusal is in the trace");
}

#define KILL_TESTS 3
#define FAILURES   500

static int
killed(void *path)
{
    struct tide_resource *stack = stack_of("log(%s, ring=4KiB) | retry | limit(1MiB) | sim", (const char *)path);

    for (size_t i = 0; i < FAILURES; i++)
        refused(stack, MIB + 1 + i);
    raise(SIGKILL);
    return 0;
}

static void
test_kill(void)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    char path[256];
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(KILL_TESTS, "ThreadSanitizer does not follow children");
        return;
    }
    snprintf(path, sizeof(path), "%s", scratch("kill.db"));
    status = in_child(killed, path);
    ok(all_of(WIFSIGNALED(status), tide_trace_recover(path, &recovery) == TIDE_OK,
              recovery.state == TIDE_TRACE_RECOVERED),
       "the trace of a program that was killed after failures is recovered");
    is_i64(sql_number(path, "SELECT count(*) FROM refusal JOIN allocation USING (allocation_id) JOIN layer ON"
                            " refusal.layer_id = layer.layer_id WHERE kind = 'limit' AND text LIKE 'retry: limit: %%'"),
           FAILURES, "each failure before the kill has its words, and the layer that refused");
    ok(trace_is_sound(path), "the trace with the refusals is sound");
}

#define OLD_TESTS 2

/* The killed program had an earlier version of the library: its trace lacks this table, and what else is new. */
static void
test_old(void)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    char path[256];
    sqlite3 *db = NULL;

    if (!CHILDREN_MAY_RECORD) {
        skip(OLD_TESTS, "ThreadSanitizer does not follow children");
        return;
    }
    snprintf(path, sizeof(path), "%s", scratch("old.db"));
    in_child(killed, path);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "DROP TABLE refusal; DROP TABLE misuse; ALTER TABLE layer DROP COLUMN device", NULL, NULL,
                     NULL) != SQLITE_OK)
        diag("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    if (!ok(all_of(tide_trace_recover(path, &recovery) == TIDE_OK, recovery.state == TIDE_TRACE_RECOVERED,
                   trace_is_sound(path)),
            "the trace of a program that was killed with an earlier version of the library is recovered"))
        diag("%s", tide_error_text());
    ok(all_of(sql_number(path, "SELECT count(*) FROM refusal") > 0,
              sql_number(path, "SELECT count(device) FROM layer") == 0),
       "a trace of an earlier version gets the tables and columns that it lacked");
}

int
main(void)
{
    plan((int)GIVENS * 3 + LOG_TESTS + OWN_TESTS + GOOD_TESTS + KILL_TESTS + OLD_TESTS);
    for (unsigned i = 0; i < GIVENS; i++)
        test_given(&givens[i], i);
    test_logs();
    test_own();
    test_made_good();
    test_kill();
    test_old();
    return done();
}
