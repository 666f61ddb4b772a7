/* Tests that rows read from the pages of a file are those that SQLite reads, and that all else is left to SQLite. */
#include "tests/draw.h"
#include "tests/tap.h"

#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "viewer/read/table-rows.h"

#define FILE_NAME "table-rows-t.db"
#define COLUMNS   4
#define ROWS_MOST 4000

static const char *const columns[COLUMNS] = { "id", "c", "a", "d" };
static const char table_sql[] =
    "CREATE TABLE t(a INTEGER, id INTEGER PRIMARY KEY, b TEXT, c INTEGER NOT NULL, d INTEGER)";

/* An integer of any length. */
static int64_t
draw_integer(void)
{
    uint64_t bits = draw(1ull << 32) << 32 | draw(1ull << 32);

    return (int64_t)bits >> draw(64);
}

static bool
run(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    bool done = sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK;

    if (!done)
        diag("%s: %s", sql, message);
    sqlite3_free(message);
    return done;
}

static sqlite3 *
open_file(int flags)
{
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(FILE_NAME, &db, flags, NULL) != SQLITE_OK)
        exit(99);
    sqlite3_exec(db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL);
    return db;
}

/* Make the file anew by `sql`, with rows of random integers where `rows` is not 0. */
static void
make_file(const char *sql, unsigned page_bytes, size_t rows)
{
    sqlite3_stmt *statement = NULL;
    char pragma[64];
    sqlite3 *db;

    unlink(FILE_NAME);
    db = open_file(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    snprintf(pragma, sizeof(pragma), "PRAGMA page_size = %u; PRAGMA synchronous = OFF", page_bytes);
    run(db, pragma);
    run(db, sql);
    run(db, "BEGIN");
    if (rows > 0)
        sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO t(id, a, b, c, d) VALUES (?, ?, ?, ?, ?)", -1, &statement, NULL);
    for (size_t i = 0; i < rows; i++) {
        sqlite3_bind_int64(statement, 1, draw(2) == 0 ? draw_integer() : (int64_t)i);
        for (int column = 2; column <= 5; column++)
            sqlite3_bind_int64(statement, column, draw_integer());
        if (draw(4) == 0)
            sqlite3_bind_null(statement, 2);
        if (draw(4) != 0)
            sqlite3_bind_text(statement, 3, "some text of up to 38 bytes, or so many", (int)draw(39), SQLITE_STATIC);
        if (draw(4) == 0)
            sqlite3_bind_null(statement, 5);
        sqlite3_step(statement);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    run(db, "COMMIT");
    if (rows > 0 && draw(2) == 0)
        run(db, "DELETE FROM t WHERE id % 3 = 0");
    sqlite3_close(db);
}

/* Read one row of a statement. False: its values are not all integers or NULL. */
static bool
read_row(sqlite3_stmt *statement, int64_t *values, uint32_t *nulls)
{
    bool whole = true;

    *nulls = 0;
    for (int i = 0; i < COLUMNS; i++) {
        int type = sqlite3_column_type(statement, i);

        values[i] = sqlite3_column_int64(statement, i);
        *nulls |= (uint32_t)(type == SQLITE_NULL) << i;
        whole = whole && (type == SQLITE_INTEGER || type == SQLITE_NULL);
    }
    return whole;
}

/* What became of reading the table in both ways. */
enum outcome { SAME, LEFT, WRONG };

/* Compare with SQLite. `read`: the rows that were read before the end. */
static enum outcome
compare(size_t *read)
{
    sqlite3 *db = open_file(SQLITE_OPEN_READONLY);
    sqlite3_stmt *statement = NULL;
    struct table_rows rows;
    enum table_row found = TABLE_UNUSUAL;
    enum outcome outcome = SAME;
    int code = SQLITE_ROW;

    *read = 0;
    sqlite3_prepare_v2(db, "SELECT id, c, a, d FROM t ORDER BY id", -1, &statement, NULL);
    if (table_rows_open(&rows, db, "t", "id", columns, COLUMNS))
        found = TABLE_ROW;
    while (outcome == SAME && found == TABLE_ROW) {
        int64_t values[COLUMNS], wanted[COLUMNS];
        uint32_t nulls, wanted_nulls;

        found = table_rows_next(&rows, values, &nulls);
        if (found == TABLE_UNUSUAL)
            break;
        /* SQLite looks at all of a page before its first row. */
        if (code == SQLITE_ROW)
            code = sqlite3_step(statement);
        if (found == TABLE_END)
            outcome = code == SQLITE_DONE ? SAME : WRONG;
        else if (code == SQLITE_DONE ||
                 (code == SQLITE_ROW && (!read_row(statement, wanted, &wanted_nulls) || nulls != wanted_nulls ||
                                         memcmp(values, wanted, sizeof(values)) != 0)))
            outcome = WRONG;
        *read += found == TABLE_ROW;
    }
    table_rows_close(&rows);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return found == TABLE_UNUSUAL ? LEFT : outcome;
}

static void
test_same(void)
{
    static const unsigned pages[] = { 512, 1024, 4096, 16384, 65536 };
    bool same = true, few = true;
    size_t read;

    for (size_t i = 0; i < 40; i++) {
        make_file(table_sql, pages[i % 5], 1 + draw(ROWS_MOST));
        same = compare(&read) == SAME && same;
    }
    ok(same, "rows of random integers are those that SQLite reads, in pages of any size");
    make_file(table_sql, 4096, 0);
    few = compare(&read) == SAME && read == 0;
    make_file(table_sql, 4096, 1);
    ok(few && compare(&read) == SAME && read <= 1, "a table may be empty, or of one page");
}

/* Tables, or what is in them, that SQLite reads itself. */
static void
test_left(void)
{
    static const struct {
        const char *what, *sql;
    } left[] = {
        { "a text", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER, d INTEGER);"
                    "INSERT INTO t VALUES (1, 2, 3, 'x')" },
        { "a real", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER, d INTEGER);"
                    "INSERT INTO t VALUES (1, 2, 3, 4.5)" },
        { "a column of reals", "CREATE TABLE t(id INTEGER PRIMARY KEY, a REAL, c INTEGER, d INTEGER);"
                               "INSERT INTO t VALUES (1, 2, 3, 4)" },
        { "an added column", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER);"
                             "INSERT INTO t VALUES (1, 2, 3); ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 5" },
        { "no such column", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER)" },
        { "a computed column", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER AS (c + 1), c INTEGER, d INTEGER);"
                               "INSERT INTO t(id, c, d) VALUES (1, 3, 4)" },
        { "a table without row ids", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER, d INTEGER)"
                                     " WITHOUT ROWID; INSERT INTO t VALUES (1, 2, 3, 4)" },
        { "an id that is not the row's", "CREATE TABLE t(id INTEGER PRIMARY KEY DESC, a INTEGER, c INTEGER, d INTEGER);"
                                         "INSERT INTO t VALUES (7, 2, 3, 4)" },
        { "an id that is no key", "CREATE TABLE t(id INTEGER, a INTEGER, c INTEGER, d INTEGER);"
                                  "INSERT INTO t VALUES (7, 2, 3, 4)" },
        { "a key of two columns", "CREATE TABLE t(id INTEGER, a INTEGER, c INTEGER, d INTEGER, PRIMARY KEY(id, a));"
                                  "INSERT INTO t VALUES (7, 2, 3, 4)" },
        { "a row of several pages", "CREATE TABLE t(a TEXT, id INTEGER PRIMARY KEY, b, c INTEGER, d INTEGER);"
                                    "INSERT INTO t VALUES (hex(zeroblob(9000)), 1, 2, 3, 4)" },
        { "a view", "CREATE VIEW t AS SELECT 1 AS id, 2 AS a, 3 AS c, 4 AS d" },
        { "a write-ahead log", "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER,"
                               " d INTEGER); INSERT INTO t VALUES (1, 2, 3, 4)" },
    };

    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        size_t read;

        make_file(left[i].sql, 4096, 0);
        ok(compare(&read) == LEFT && read == 0, "%s is left to SQLite", left[i].what);
    }
}

static void
test_writer(void)
{
    sqlite3 *db;
    struct table_rows rows;

    make_file(table_sql, 4096, 100);
    db = open_file(SQLITE_OPEN_READWRITE);
    ok(!table_rows_open(&rows, db, "t", "id", columns, COLUMNS), "a connection that may write reads by SQLite alone");
    table_rows_close(&rows);
    sqlite3_close(db);
    db = open_file(SQLITE_OPEN_READONLY);
    if (table_rows_open(&rows, db, "t", "id", columns, COLUMNS)) {
        sqlite3 *other = open_file(SQLITE_OPEN_READWRITE);

        ok(sqlite3_exec(other, "DELETE FROM t", NULL, NULL, NULL) == SQLITE_BUSY, "nobody writes a file that is read");
        sqlite3_close(other);
    } else {
        ok(false, "a file of random rows is read from its pages");
    }
    table_rows_close(&rows);
    sqlite3_close(db);
}

/* Whatever stands in the file, no row is read that SQLite does not read, and no end is where SQLite finds none. */
static void
test_damage(void)
{
    size_t same = 0, left = 0, read;
    bool right = true;

    for (int round = 0; round < 60 && right; round++) {
        static unsigned char bytes[1 << 20], damaged[1 << 20];
        unsigned page_bytes = draw(2) == 0 ? 512 : 1024;
        size_t length;
        FILE *file;

        make_file(table_sql, page_bytes, 1 + draw(400));
        file = fopen(FILE_NAME, "rb");
        length = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        for (int i = 0; i < 40 && right && length > page_bytes; i++) {
            size_t changes = 1 + draw(4);
            enum outcome outcome;

            memcpy(damaged, bytes, length);
            /* Mostly in the heads of pages, and behind the schema's. */
            while (changes-- > 0) {
                size_t page = (1 + draw(length / page_bytes - 1)) * page_bytes;

                damaged[page + draw(draw(2) == 0 ? 24 : page_bytes)] = (unsigned char)draw(256);
            }
            file = fopen(FILE_NAME, "wb");
            fwrite(damaged, 1, draw(10) == 0 ? length - draw(length - page_bytes) : length, file);
            fclose(file);
            outcome = compare(&read);
            right = outcome != WRONG;
            same += outcome == SAME;
            left += outcome == LEFT;
        }
    }
    ok(right, "a damaged file is read as SQLite reads it, or left to it");
    ok(all_of(same > 10, left > 10), "damage of both kinds was tried");
}

int
main(void)
{
    plan(19);
    draw_begin();
    test_same();
    test_left();
    test_writer();
    test_damage();
    unlink(FILE_NAME);
    unlink(FILE_NAME "-wal");
    unlink(FILE_NAME "-shm");
    return done();
}
