/*
 * Makes a database from bytes, so that a fuzzer that changes bytes changes rows: SQLite would notice nearly every
 * change of a database file before a reader sees a row. One byte selects the table. For each of its columns one byte
 * says what it holds: nothing, a number, a text, a blob, or, mostly, what an honest file has: the number of the row.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/fuzz/fuzz.h"

#define ROWS_TABLES_MAX 32

struct rows_input {
    const uint8_t *data;
    size_t left;
};

static uint8_t
rows_byte(struct rows_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->data++;
}

static int64_t
rows_number(struct rows_input *input, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | rows_byte(input);
    return (int64_t)value;
}

static void
rows_bind_bytes(sqlite3_stmt *insert, int column, struct rows_input *input, bool blob)
{
    size_t length = rows_byte(input);

    if (length > input->left)
        length = input->left;
    if (blob)
        sqlite3_bind_blob(insert, column, input->data, (int)length, SQLITE_TRANSIENT);
    else
        sqlite3_bind_text(insert, column, (const char *)input->data, (int)length, SQLITE_TRANSIENT);
    input->data += length;
    input->left -= length;
}

static void
rows_bind(sqlite3_stmt *insert, int column, struct rows_input *input, int64_t row)
{
    static const int64_t edges[] = { INT64_MIN, INT64_MAX, -1, UINT32_MAX, INT32_MAX, (int64_t)1 << 62, 0, 1 };
    uint8_t what = rows_byte(input);

    switch (what & 15) {
    case 0:
        sqlite3_bind_null(insert, column);
        break;
    case 1:
        sqlite3_bind_int64(insert, column, edges[what >> 4 & 7]);
        break;
    case 2:
        sqlite3_bind_int64(insert, column, rows_number(input, 1));
        break;
    case 3:
        sqlite3_bind_int64(insert, column, rows_number(input, 2) * 1000);
        break;
    case 4:
        sqlite3_bind_int64(insert, column, rows_number(input, 8));
        break;
    case 5:
        rows_bind_bytes(insert, column, input, false);
        break;
    case 6:
        rows_bind_bytes(insert, column, input, true);
        break;
    case 7:
        sqlite3_bind_double(insert, column, (double)rows_number(input, 4) / 16);
        break;
    case 8:
        sqlite3_bind_int64(insert, column, row + (what >> 4));
        break;
    case 9:
        sqlite3_bind_int64(insert, column, what >> 4);
        break;
    default:
        sqlite3_bind_int64(insert, column, row);
    }
}

static void
rows_check(sqlite3 *db, int code)
{
    if (code == SQLITE_OK)
        return;
    fprintf(stderr, "rows: %s\n", sqlite3_errmsg(db));
    abort();
}

void
fuzz_write_rows(const char *path, const char *schema, const char *const *tables, size_t table_count,
                const uint8_t *data, size_t size)
{
    struct rows_input input = { data, size };
    sqlite3_stmt *inserts[ROWS_TABLES_MAX] = { NULL };
    int columns[ROWS_TABLES_MAX];
    sqlite3 *db = NULL;

    unlink(path);
    rows_check(db, sqlite3_open(path, &db));
    rows_check(db,
               sqlite3_exec(db, "PRAGMA page_size = 512; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN",
                            NULL, NULL, NULL));
    rows_check(db, sqlite3_exec(db, schema, NULL, NULL, NULL));
    for (size_t i = 0; i < table_count; i++) {
        char sql[256];
        int length = snprintf(sql, sizeof(sql), "SELECT * FROM %s", tables[i]);

        rows_check(db, sqlite3_prepare_v2(db, sql, -1, &inserts[i], NULL));
        columns[i] = sqlite3_column_count(inserts[i]);
        sqlite3_finalize(inserts[i]);
        length = snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO %s VALUES (?", tables[i]);
        for (int column = 1; column < columns[i]; column++)
            length += snprintf(sql + length, sizeof(sql) - (size_t)length, ", ?");
        snprintf(sql + length, sizeof(sql) - (size_t)length, ")");
        rows_check(db, sqlite3_prepare_v2(db, sql, -1, &inserts[i], NULL));
    }
    for (int64_t row = 1; input.left > 0; row++) {
        size_t table = rows_byte(&input) % table_count;

        for (int column = 1; column <= columns[table]; column++)
            rows_bind(inserts[table], column, &input, row);
        sqlite3_step(inserts[table]); /* a row that the schema refuses is left out */
        sqlite3_reset(inserts[table]);
    }
    for (size_t i = 0; i < table_count; i++)
        sqlite3_finalize(inserts[i]);
    rows_check(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
    sqlite3_close(db);
}
