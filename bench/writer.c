/*
 * Measures what the writer sustains: allocations a second from the calls to the complete file, compared with a bulk
 * insert of similar rows in the same run, without rings, merge and pairing; the trace's bytes for each allocation; and
 * resident memory.
 *
 * Usage: bench/writer [JSON-FILE]. Writes its traces into the current directory (1 GiB at most) and removes them.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "src/trace/database/schema.h"

#define WRITER_TRACE     "bench-writer.db"
#define WRITER_ROWS      4000000
#define WRITER_ROWS_EACH 500000 /* of a transaction of the bulk insert */

/* The bulk insert's rows: 16 integer columns as a trace of immediate frees has them. */
struct bulk_cursor {
    sqlite3_vtab_cursor base; /* first */
    sqlite3_int64 row;
};

static sqlite3_int64 bulk_first, bulk_end;

static int
bulk_connect(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    (void)context;
    (void)argc;
    (void)argv;
    (void)error;
    *out = sqlite3_malloc(sizeof(**out));
    if (*out == NULL)
        return SQLITE_NOMEM;
    memset(*out, 0, sizeof(**out));
    return sqlite3_declare_vtab(db, "CREATE TABLE bulk(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)");
}

static int
bulk_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int
bulk_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int
bulk_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    struct bulk_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

    (void)table;
    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof(*cursor));
    *out = &cursor->base;
    return SQLITE_OK;
}

static int
bulk_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int
bulk_filter(sqlite3_vtab_cursor *cursor, int index, const char *name, int argc, sqlite3_value **argv)
{
    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    ((struct bulk_cursor *)cursor)->row = bulk_first;
    return SQLITE_OK;
}

static int
bulk_next(sqlite3_vtab_cursor *cursor)
{
    ((struct bulk_cursor *)cursor)->row++;
    return SQLITE_OK;
}

static int
bulk_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct bulk_cursor *)cursor)->row >= bulk_end;
}

static int
bulk_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    static const sqlite3_int64 constants[16] = { 0, 1, 0, 4096, 256, 0, 0, 0, 0, 20, 1, 1, 0, 20, 1, 1 };
    sqlite3_int64 row = ((struct bulk_cursor *)cursor)->row;

    switch (column) {
    case 0:
        sqlite3_result_int64(context, row);
        break;
    case 2:
        sqlite3_result_int64(context, 0x0840000000000000 + row % 100000 * 4096);
        break;
    case 6:
    case 7:
        break; /* NULL */
    case 8:
        sqlite3_result_int64(context, 3000000 + row * 500);
        break;
    case 12:
        sqlite3_result_int64(context, 3000020 + row * 500);
        break;
    default:
        sqlite3_result_int64(context, constants[column]);
        break;
    }
    return SQLITE_OK;
}

static int
bulk_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = ((struct bulk_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module bulk_module = {
    .xConnect = bulk_connect,
    .xBestIndex = bulk_best_index,
    .xDisconnect = bulk_disconnect,
    .xOpen = bulk_open,
    .xClose = bulk_close,
    .xFilter = bulk_filter,
    .xNext = bulk_next,
    .xEof = bulk_eof,
    .xColumn = bulk_column,
    .xRowid = bulk_rowid,
};

static void
bulk_exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "bench: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
}

/* Rows a second, until the file is closed. The settings are the recorder's. */
static double
measure_bulk(void)
{
    uint64_t begin = bench_now_ns();
    sqlite3 *db;

    unlink(WRITER_TRACE);
    if (sqlite3_open(WRITER_TRACE, &db) != SQLITE_OK ||
        sqlite3_create_module(db, "bulk", &bulk_module, NULL) != SQLITE_OK)
        bench_fail("sqlite");
    bulk_exec(db, "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                  "PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 4096");
    bulk_exec(db, tidei_trace_schema);
    for (bulk_first = 1; bulk_first < WRITER_ROWS; bulk_first = bulk_end) {
        bulk_end = bulk_first + WRITER_ROWS_EACH;
        bulk_exec(db, "INSERT INTO allocation SELECT * FROM bulk");
    }
    bulk_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
    sqlite3_close(db);
    unlink(WRITER_TRACE);
    return WRITER_ROWS / ((double)(bench_now_ns() - begin) / 1e9);
}

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double
file_bytes(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (double)info.st_size : 0;
}

/*
 * Run one thread that allocates and frees at random among `live` blocks. Returns allocations a second, until the file
 * is closed.
 */
static double
measure_writer(unsigned live, double *bytes_each)
{
    struct {
        void *pointer;
        size_t bytes;
    } *blocks = calloc(live, sizeof(*blocks));
    struct tide_resource *stack;
    uint64_t random = 88172645463325252u;
    uint64_t begin = bench_now_ns();
    double seconds;

    if (blocks == NULL || tide_stack_parse("log(" WRITER_TRACE ", overwrite=true) | sim", &stack) != TIDE_OK)
        bench_fail("stack");
    for (unsigned i = 0; i < WRITER_ROWS; i++) {
        unsigned k = live == 1 ? 0 : (unsigned)(next_random(&random) % live);

        if (blocks[k].pointer != NULL && tide_deallocate(stack, blocks[k].pointer, blocks[k].bytes, 256, 0) != TIDE_OK)
            bench_fail("deallocate");
        blocks[k].bytes = 4096;
        if (tide_allocate(stack, blocks[k].bytes, 256, 0, &blocks[k].pointer) != TIDE_OK)
            bench_fail("allocate");
    }
    for (unsigned k = 0; k < live; k++) {
        if (blocks[k].pointer != NULL)
            tide_deallocate(stack, blocks[k].pointer, blocks[k].bytes, 256, 0);
    }
    tide_resource_release(stack);
    seconds = (double)(bench_now_ns() - begin) / 1e9;
    *bytes_each = file_bytes(WRITER_TRACE) / WRITER_ROWS;
    unlink(WRITER_TRACE);
    free(blocks);
    return WRITER_ROWS / seconds;
}

int
main(int argc, char **argv)
{
    static const unsigned lives[] = { 1, 100, 10000, 100000 };
    double bulk, first, again;

    bench_begin("writer");
    first = measure_bulk();
    bench_report("bulk insert of complete rows, nothing else", 1, first, "rows/s", 0, NULL);
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        char name[96];
        double bytes;
        double rate = measure_writer(lives[i], &bytes);

        again = measure_bulk();
        bulk = (first + again) / 2; /* the mean of before and after, since the machine may be noisy */
        first = again;
        snprintf(name, sizeof(name), "log | sim, random frees over %u live", lives[i]);
        bench_report(name, 1, rate, "allocations/s", bulk, "bulk insert");
        snprintf(name, sizeof(name), "  of trace, %u live", lives[i]);
        bench_report(name, 1, bytes, "bytes each", 0, NULL);
        snprintf(name, sizeof(name), "  anonymous memory after %u live", lives[i]);
        bench_report(name, 1, (double)bench_anonymous() / 1048576, "MiB", 0, NULL);
    }
    bench_report("peak resident memory, mapped ring files included", 1, (double)bench_peak_resident() / 1048576, "MiB",
                 0, NULL);
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
