/*
 * Tests the tables `usage` and `event` of `tidemark query` against the views, which SQLite makes: random questions
 * about random traces have the same answers, with their types, from both.
 */
#include "config.h"

#include "tests/tap.h"

#include <stdarg.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/random-trace.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/event-tables.h"
#include "viewer/read/trace.h"

#define TRACES    40
#define QUESTIONS 60

static uint64_t state;

static unsigned
draw(unsigned below)
{
    return (unsigned)random_draw(&state, below);
}

/* A text that grows: of a question, or of an answer. */
struct text {
    char *bytes; /* owns */
    size_t length;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *format, ...)
{
    va_list arguments;
    char *more;
    int length;

    va_start(arguments, format);
    length = vasprintf(&more, format, arguments);
    va_end(arguments);
    text->bytes = realloc(text->bytes, text->length + (size_t)length + 1);
    memcpy(text->bytes + text->length, more, (size_t)length + 1);
    text->length += (size_t)length;
    free(more);
}

/* What is asked: $u and $e stand for the two tables. */
struct question {
    struct text sql;
    bool ordered; /* the order of the rows is defined */
};

/* A number that may or may not be in the column. */
static unsigned
draw_number(const char *column)
{
    if (strcmp(column, "layer_id") == 0)
        return draw(4);
    if (strcmp(column, "ns") == 0)
        return draw(140);
    if (strcmp(column, "size") == 0 || strcmp(column, "live_bytes") == 0)
        return draw(20000);
    return draw(100);
}

/* A condition on a column of table `a`. */
static void
add_condition(struct text *sql, bool sums)
{
    static const char *const usage_columns[] = { "layer_id", "ns", "ns", "allocation_id", "live_bytes", "live_count" };
    static const char *const event_columns[] = { "layer_id", "ns",     "ns",        "allocation_id",
                                                 "size",     "status", "thread_id", "stream_id" };
    static const char *const relations[] = { "=", "=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT" };
    const char *column = sums ? usage_columns[draw(6)] : event_columns[draw(8)];
    unsigned number = draw_number(column);

    switch (draw(12)) {
    case 0:
        add(sql, "a.kind %s '%s'", draw(2) ? "=" : "IS", draw(3) ? "free" : draw(2) ? "alloc" : "other");
        break;
    case 1:
        add(sql, "a.kind = 'FREE' COLLATE NOCASE");
        break;
    case 2:
        add(sql, "a.%s IN (%u, %u, NULL)", column, number, draw_number(column));
        break;
    case 3:
        add(sql, "a.%s BETWEEN %u AND %u", column, number, number + draw(50));
        break;
    case 4: /* types that a column does not have */
        add(sql, "a.%s %s %s%u%s", column, relations[draw(7)], draw(2) ? "'" : "0 + '", number, "'");
        break;
    case 5:
        add(sql, "a.%s %s %u.%u", column, relations[draw(7)], number, 5 * draw(2));
        break;
    case 6:
        add(sql, "a.%s %s (SELECT max(alloc_ns) / %u%s FROM allocation)", column, relations[draw(7)], 1 + draw(4),
            draw(2) ? ".5" : "");
        break;
    default:
        add(sql, "a.%s %s %u", column, relations[draw(9)], number);
    }
}

static void
add_conditions(struct text *sql, bool sums, const char *word)
{
    for (unsigned i = draw(4); i > 0; i--) {
        add(sql, " %s ", word);
        add_condition(sql, sums);
        word = "AND";
    }
}

/* Rows of one table, in some order. */
static void
ask_rows(struct question *out)
{
    bool sums = draw(2) == 0;

    add(&out->sql, "SELECT * FROM $%c a", sums ? 'u' : 'e');
    add_conditions(&out->sql, sums, "WHERE");
    out->ordered = draw(3) > 0;
    if (!out->ordered && draw(2) == 0)
        add(&out->sql, " ORDER BY %s", draw(2) ? "ns" : draw(2) ? "layer_id, ns" : "kind, ns DESC");
    else if (out->ordered && draw(3) == 0)
        add(&out->sql, " ORDER BY %sns DESC, kind DESC, allocation_id DESC", draw(2) ? "layer_id DESC, " : "");
    else if (out->ordered)
        add(&out->sql, " ORDER BY %sns, kind, allocation_id", draw(2) ? "layer_id, " : "");
    if (out->ordered && draw(2) == 0)
        add(&out->sql, " LIMIT %u OFFSET %u", draw(30), draw(4));
}

/* A few rows of `event` in no order: each is one of the view, once. */
static void
ask_few_rows(struct question *out)
{
    unsigned limit = draw(30), offset = draw(6);
    const char *columns = draw(2) ? "*" : "ns, kind, allocation_id";

    add(&out->sql,
        "SELECT count(*), count(DISTINCT allocation_id || kind), (SELECT count(*) FROM (SELECT ns, kind, allocation_id"
        " FROM (SELECT %s FROM $e LIMIT %u OFFSET %u) EXCEPT SELECT ns, kind, allocation_id FROM main.event))"
        " FROM (SELECT %s FROM $e LIMIT %u OFFSET %u)",
        columns, limit, offset, columns, limit, offset);
}

/* The first few rows of `event` in an order that is not that of time. */
static void
ask_first_rows(struct question *out)
{
    static const char *const columns[] = { "duration_ns", "size", "thread_id", "kind", "layer_id", "status" };

    add(&out->sql, "SELECT %s FROM $e a", draw(2) ? "*" : "ns, size, kind");
    add_conditions(&out->sql, false, "WHERE");
    add(&out->sql, " ORDER BY %s%s, ns%s, kind, allocation_id LIMIT %u", columns[draw(6)], draw(2) ? " DESC" : "",
        draw(3) == 0 ? " DESC" : "", draw(12));
    if (draw(2) == 0)
        add(&out->sql, " OFFSET %u", draw(6));
    out->ordered = true;
}

/* Sums and groups. */
static void
ask_groups(struct question *out)
{
    static const char *const groups[] = { "layer_id",           "layer_id, ns", "ns",  "kind",
                                          "ns, kind, layer_id", "ns / 10",      "NULL" };
    const char *group = groups[draw(7)];
    bool sums = draw(2) == 0;

    add(&out->sql, "SELECT %s %s, count(*), min(ns), max(ns), sum(%s), count(DISTINCT allocation_id) FROM $%c a",
        draw(4) == 0 ? "DISTINCT" : "", group, sums ? "live_bytes" : "size", sums ? 'u' : 'e');
    add_conditions(&out->sql, sums, "WHERE");
    add(&out->sql, " GROUP BY %s", group);
    if (draw(3) == 0)
        add(&out->sql, " HAVING count(*) > %u", draw(4));
    if (draw(3) == 0)
        add(&out->sql, " ORDER BY count(*), %s DESC", group);
}

/* The questions of doc/trace.md, and others that read the tables several times, or again and again. */
static void
ask_known(struct question *out)
{
    static const char *const known[] = {
        "SELECT layer_id, max(live_bytes) AS peak_bytes, ns AS peak_ns, live_count FROM $u GROUP BY layer_id",
        "WITH peak AS (SELECT ns, allocation_id, max(live_bytes) FROM $u WHERE layer_id = 1)"
        " SELECT allocation.allocation_id, size, tag_id, alloc_ns FROM allocation JOIN peak WHERE layer_id = 1"
        " AND status = 0 AND allocation.allocation_id <= peak.allocation_id"
        " AND (free_ns IS NULL OR free_ns >= peak.ns) ORDER BY size DESC, allocation.allocation_id LIMIT 20",
        "SELECT ns / 10 AS ms, max(live_bytes) FROM $u WHERE layer_id = 1 GROUP BY ms",
        "SELECT count(*) FROM $e",
        "SELECT * FROM $u a JOIN $u b ON a.ns = b.ns AND a.layer_id < b.layer_id",
        "SELECT * FROM $e a JOIN $e b ON a.address = b.address AND a.kind = 'free' AND b.kind = 'alloc'"
        " AND b.ns >= a.ns AND b.allocation_id <> a.allocation_id",
        "SELECT * FROM allocation JOIN $e USING (allocation_id, layer_id)",
        "SELECT * FROM failure JOIN $e USING (allocation_id)",
        "SELECT * FROM $e a LEFT JOIN $u b USING (allocation_id, kind)",
        "SELECT * FROM $u a LEFT JOIN $u b ON b.allocation_id = a.allocation_id AND b.kind > a.kind",
        "SELECT allocation_id, (SELECT live_bytes FROM $u a WHERE layer_id = 1 AND ns <= free_ns"
        " ORDER BY ns DESC, kind DESC, a.allocation_id DESC LIMIT 1) FROM allocation",
        "SELECT allocation_id, (SELECT a.allocation_id FROM $e a WHERE ns < free_ns AND ns > alloc_ns - 10"
        " ORDER BY ns DESC, kind DESC, a.allocation_id DESC LIMIT 1) FROM allocation",
        "SELECT allocation_id, (SELECT sum(live_bytes) FROM $u a WHERE ns BETWEEN alloc_ns AND free_ns) FROM "
        "allocation",
        "SELECT allocation_id, (SELECT min(ns) FROM $e a WHERE kind = 'free' AND ns >= alloc_ns) FROM allocation",
        "SELECT * FROM allocation f WHERE EXISTS (SELECT 1 FROM $u a WHERE a.ns = f.free_ns AND a.layer_id = 3)",
        "SELECT * FROM allocation WHERE allocation_id IN (SELECT allocation_id FROM $u WHERE live_count > 20)",
        "SELECT *, sum(live_bytes) OVER (PARTITION BY layer_id ORDER BY ns, kind, allocation_id) FROM $u",
        "SELECT ns, kind, allocation_id FROM $u UNION SELECT ns, kind, allocation_id FROM $e",
        "SELECT ns, kind, allocation_id FROM $e EXCEPT SELECT ns, kind, allocation_id FROM $u",
        "SELECT (SELECT max(live_bytes) FROM $u WHERE layer_id = 1), (SELECT max(live_bytes) FROM $u WHERE layer_id = "
        "3)",
        "SELECT DISTINCT thread_id, stream_id FROM $e",
        "SELECT count(*) FROM $u a, $u b WHERE a.live_bytes < b.live_count",
    };

    add(&out->sql, "%s", known[draw(sizeof(known) / sizeof(known[0]))]);
}

/* The question with the names of the tables: of main, the views; else what stands before them. */
static char *
sql_of(const struct question *question, const char *schema)
{
    struct text sql = { NULL, 0 };

    for (const char *at = question->sql.bytes; *at != '\0'; at++) {
        if (at[0] == '$' && (at[1] == 'u' || at[1] == 'e'))
            add(&sql, "%s%s", schema, *++at == 'u' ? "usage" : "event");
        else
            add(&sql, "%c", *at);
    }
    return sql.bytes;
}

static void
add_value(struct text *out, sqlite3_stmt *row, int column)
{
    const char *value = (const char *)sqlite3_column_text(row, column);

    add(out, "%d:%s|", sqlite3_column_type(row, column), value != NULL ? value : "");
}

static int
compare_lines(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The rows as text, a line each; sorted where no order is defined. */
static char *
answer_of(sqlite3 *db, const char *sql, bool ordered)
{
    struct text out = { NULL, 0 };
    char **lines = NULL;
    size_t count = 0;
    sqlite3_stmt *rows = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &rows, NULL);

    while (code == SQLITE_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        struct text line = { NULL, 0 };

        for (int i = 0; i < sqlite3_column_count(rows); i++)
            add_value(&line, rows, i);
        lines = realloc(lines, (count + 1) * sizeof(*lines));
        lines[count++] = line.bytes;
        code = SQLITE_OK;
    }
    sqlite3_finalize(rows);
    if (!ordered && count > 0)
        qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < count; i++) {
        add(&out, "%s\n", lines[i]);
        free(lines[i]);
    }
    free(lines);
    add(&out, "%s\n", code == SQLITE_DONE ? "end" : sqlite3_errmsg(db));
    return out.bytes;
}

/* Whether the tables answer a question as the views do. */
static bool
same_answer(const struct trace *trace, const struct question *question, uint64_t seed)
{
    char *sql = sql_of(question, "");
    char *view_sql = sql_of(question, "main.");
    char *wanted = answer_of(trace->db, view_sql, question->ordered);
    char *seen = answer_of(trace->db, sql, question->ordered);
    bool same = strcmp(wanted, seen) == 0;

    if (!same)
        diag("SEED=%" PRIu64 ": %s\nthe view:\n%.600s\nthe table:\n%.600s", seed, sql, wanted, seen);
    free(sql);
    free(view_sql);
    free(wanted);
    free(seen);
    return same;
}

/* What no recorder writes, and a trace may hold. */
static const char *const damages[] = {
    "UPDATE allocation SET alloc_ns = 50 WHERE allocation_id % 7 = 3",
    "UPDATE allocation SET alloc_ns = alloc_ns - 20 WHERE allocation_id % 7 = 3",
    "UPDATE allocation SET free_ns = alloc_ns - 3 WHERE allocation_id % 5 = 2",
    "UPDATE allocation SET size = 'text' WHERE allocation_id % 11 = 4",
    "UPDATE allocation SET alloc_ns = alloc_ns + 0.5 WHERE allocation_id % 9 = 1",
    "UPDATE allocation SET layer_id = 'one' WHERE allocation_id % 9 = 1",
    "UPDATE allocation SET layer_id = allocation_id",
    "UPDATE allocation SET address = x'00', free_thread_id = NULL WHERE allocation_id % 3 = 1",
    "UPDATE allocation SET free_duration_ns = NULL, free_stream_id = NULL WHERE allocation_id % 3 = 1",
    "UPDATE allocation SET size = -size WHERE allocation_id % 4 = 1",
    "UPDATE allocation SET free_ns = 9223372036854775807 WHERE free_ns > 30",
    "UPDATE allocation SET free_ns = alloc_ns WHERE status <> 0",
    "UPDATE allocation SET status = 'x' WHERE allocation_id % 20 = 1",
    "DELETE FROM allocation",
};

#define DAMAGES (sizeof(damages) / sizeof(damages[0]))

static void
damage(const char *path, const char *sql)
{
    sqlite3 *db;

    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        printf("Bail out! %s: %s\n", sql, sqlite3_errmsg(db));
        exit(99);
    }
    sqlite3_close(db);
}

/* Ask questions of one trace. */
static bool
ask_trace(const char *path, uint64_t seed, bool *groups, bool *known)
{
    struct trace trace;
    bool rows = true;

    if (trace_open(path, true, &trace) != COMMAND_FINE)
        return false;
    event_tables_add(&trace);
    for (int i = 0; i < QUESTIONS; i++) {
        struct question question = { { NULL, 0 }, false };

        switch (i % 3) {
        case 0:
            if (draw(3) == 0)
                ask_first_rows(&question);
            else if (draw(4) == 0)
                ask_few_rows(&question);
            else
                ask_rows(&question);
            rows = same_answer(&trace, &question, seed) && rows;
            break;
        case 1:
            ask_groups(&question);
            *groups = same_answer(&trace, &question, seed) && *groups;
            break;
        default:
            ask_known(&question);
            *known = same_answer(&trace, &question, seed) && *known;
        }
        free(question.sql.bytes);
    }
    trace_close(&trace);
    return rows;
}

/* What a question fails with: which rows it reads before that is SQLite's choice. */
static bool
fails_with(const char *path, const char *sql, const char *words)
{
    struct trace trace;
    bool fails = false;

    if (trace_open(path, true, &trace) == COMMAND_FINE) {
        char *answer;

        event_tables_add(&trace);
        answer = answer_of(trace.db, sql, false);
        fails = strstr(answer, words) != NULL;
        free(answer);
        trace_close(&trace);
    }
    return fails;
}

/* Whether a question to the tables has the answer of another to the views. */
static bool
answers_as(const char *path, const char *sql, const char *view_sql)
{
    struct trace trace;
    char *seen, *wanted;
    bool same;

    if (trace_open(path, true, &trace) != COMMAND_FINE)
        return false;
    event_tables_add(&trace);
    seen = answer_of(trace.db, sql, true);
    wanted = answer_of(trace.db, view_sql, true);
    same = strcmp(seen, wanted) == 0;
    if (!same)
        diag("the view:\n%.600s\nthe table:\n%.600s", wanted, seen);
    free(seen);
    free(wanted);
    trace_close(&trace);
    return same;
}

/* How many tables stand before views. */
static int64_t
tables_before(const char *path)
{
    struct trace trace;
    int64_t count = -1;

    if (trace_open(path, true, &trace) != COMMAND_FINE)
        return -1;
    event_tables_add(&trace);
    trace_integer(&trace, "SELECT count(*) FROM temp.sqlite_master", &count);
    trace_close(&trace);
    return count;
}

/* How SQLite means to answer a question. */
static bool
is_planned(const char *path, const char *sql, const char *words)
{
    struct trace trace;
    sqlite3_stmt *statement = NULL;
    bool found = false;

    if (trace_open(path, true, &trace) != COMMAND_FINE)
        return false;
    event_tables_add(&trace);
    sqlite3_prepare_v2(trace.db, sql, -1, &statement, NULL);
    while (sqlite3_step(statement) == SQLITE_ROW)
        found = found || strstr((const char *)sqlite3_column_text(statement, 3), words) != NULL;
    sqlite3_finalize(statement);
    trace_close(&trace);
    return found;
}

int
main(void)
{
    static struct random_trace trace;
    char path[] = "/tmp/event-tables-t-XXXXXX";
    uint64_t seed = random_trace_seed();
    bool rows = true, groups = true, known = true;
    bool damaged = true;
    int file = mkstemp(path);

    plan(11);
    state = seed * 2 + 88172645463325253u;
    close(file);
    for (unsigned i = 0; i < TRACES; i++) {
        random_trace_make(&trace, seed + i, 20 + draw(80));
        random_trace_write(&trace, path);
        rows = ask_trace(path, seed, &groups, &known) && rows;
    }
    ok(rows, "random questions for rows have the same answers from the tables as from the views");
    ok(groups, "so do random questions for groups and sums");
    ok(known, "so do joins, subqueries, unions and the questions of doc/trace.md");
    for (unsigned i = 0; i < TRACES; i++) {
        random_trace_make(&trace, seed + i, 20 + draw(80));
        random_trace_write(&trace, path);
        damage(path, damages[i % DAMAGES]);
        damaged = ask_trace(path, seed, &damaged, &damaged) && damaged;
    }
    ok(damaged, "so do questions about traces with values that no recorder writes");
    random_trace_make(&trace, seed, 20);
    random_trace_write(&trace, path);
    damage(path, "UPDATE allocation SET size = 6000000000000000000, status = 0");
    ok(all_of(fails_with(path, "SELECT sum(live_bytes) FROM main.usage", "integer overflow"),
              fails_with(path, "SELECT sum(live_bytes) FROM usage", "integer overflow"),
              fails_with(path, "SELECT (SELECT max(live_bytes) FROM usage WHERE ns <= alloc_ns) FROM allocation",
                         "integer overflow")),
       "sums that overflow are an error from the view, the table and its copy");
    random_trace_write(&trace, path);
    if (sqlite3_libversion_number() >= 3038000)
        ok(all_of(is_planned(path, "EXPLAIN QUERY PLAN SELECT * FROM event ORDER BY ns LIMIT 5", ":La|a+"),
                  is_planned(path,
                             "EXPLAIN QUERY PLAN SELECT size FROM event WHERE kind = 'free' AND size >= 9"
                             " ORDER BY duration_ns DESC, ns LIMIT 5 OFFSET 2",
                             "|h-a+")),
           "the first few rows in any order are asked of the view, of which SQLite holds no more");
    else
        skip(1, "this SQLite tells a table nothing of LIMIT");
    if (sqlite3_libversion_number() >= 3038000)
        ok(all_of(is_planned(path, "EXPLAIN QUERY PLAN SELECT * FROM event LIMIT 5 OFFSET 1", ":LaOa"),
                  answers_as(path, "SELECT * FROM event LIMIT 17 OFFSET 3",
                             "SELECT * FROM main.event ORDER BY ns, kind, allocation_id LIMIT 17 OFFSET 3")),
           "a few rows in no order are the earliest ones, which need no check of all others");
    else
        skip(1, "this SQLite tells a table nothing of LIMIT");
    ok(answers_as(path,
                  "SELECT * FROM event WHERE ns > (SELECT max(ns) / 4.0 FROM event)"
                  " ORDER BY ns DESC, kind DESC, allocation_id DESC LIMIT 9",
                  "SELECT * FROM main.event WHERE ns > (SELECT max(ns) / 4.0 FROM main.event)"
                  " ORDER BY ns DESC, kind DESC, allocation_id DESC LIMIT 9"),
       "the latest rows after a moment that is no whole number come from the latest to the earliest");
    is_i64(tables_before(path), 2, "both views of a trace have a table before them");
    damage(path, "DROP VIEW usage; CREATE VIEW usage AS SELECT 7 AS layer_id");
    is_i64(tables_before(path), 1, "a view of another text than the recorder's answers itself");
    damage(path, "DROP VIEW event");
    is_i64(tables_before(path), 0, "a view that is missing is not made up");
    unlink(path);
    return done();
}
