/* Reads the integers of a table's rows from the pages of its file. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/read/table-rows.h"

/* The head of the file. */
#define FILE_HEAD_BYTES    100
#define FILE_PAGE_BYTES    16 /* where the size of a page stands */
#define FILE_WRITE_VERSION 18
#define FILE_READ_VERSION  19
#define FILE_RESERVED      20
#define FILE_JOURNAL       1          /* as version: all that was committed is in the file; 2: a write-ahead log */
#define FILE_LOCK_BYTE     0x40000000 /* the page that has it is never in use */

/* The head of a page. */
#define PAGE_INTERIOR 0x05
#define PAGE_LEAF     0x0d
#define PAGE_CELLS    3 /* where their number stands */
#define PAGE_RIGHT    8 /* where the last child stands */

/*
 * So much is readable behind a page: a value is read as eight bytes, with what is behind it, and the two numbers that a
 * cell begins with before it is known where it ends.
 */
#define PAGE_SPARE 32

/* The longest row that never goes on in another page is so much shorter than a page. */
#define PAGE_ROW_LESS 35

static inline uint32_t
bytes_16(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static inline uint32_t
bytes_32(const unsigned char *bytes)
{
    return bytes_16(bytes) << 16 | bytes_16(bytes + 2);
}

static inline uint64_t
bytes_64(const unsigned char *bytes)
{
    return (uint64_t)bytes_32(bytes) << 32 | bytes_32(bytes + 4);
}

/* An integer of one to nine bytes, of seven bits each, but for the ninth. Returns where it ends. */
static const unsigned char *
bytes_varint(const unsigned char *bytes, uint64_t *out)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++) {
        value = value << 7 | (bytes[i] & 0x7f);
        if (bytes[i] < 0x80) {
            *out = value;
            return bytes + i + 1;
        }
    }
    *out = value << 8 | bytes[8];
    return bytes + 9;
}

/* Where the cell begins, which has at least four bytes; NULL: it is damaged. */
static inline const unsigned char *
page_cell(const struct table_rows *rows, const struct table_page *page, unsigned cell)
{
    uint32_t begin = (page->is_leaf ? 8 : 12) + 2 * page->cells;
    uint32_t at = bytes_16(page->bytes + (page->is_leaf ? 8 : 12) + 2 * cell);

    return at >= begin && at <= rows->usable_bytes - 4 ? page->bytes + at : NULL;
}

/* Read the page `number` and go there. False: it is damaged. */
static bool
rows_enter(struct table_rows *rows, uint32_t number)
{
    size_t room = rows->page_bytes + PAGE_SPARE;
    struct table_page *page = &rows->path[rows->depth];
    unsigned char *bytes = rows->bytes + rows->depth * room;

    if (rows->depth == TABLE_ROWS_DEPTH || rows->pages_left == 0 || number < 2 || number > rows->page_count ||
        number == FILE_LOCK_BYTE / rows->page_bytes + 1)
        return false;
    rows->pages_left--;
    if (rows->file->pMethods->xRead(rows->file, bytes, (int)rows->page_bytes,
                                    (sqlite3_int64)(number - 1) * rows->page_bytes) != SQLITE_OK)
        return false;
    *page =
        (struct table_page){ .bytes = bytes, .cells = bytes_16(bytes + PAGE_CELLS), .is_leaf = *bytes == PAGE_LEAF };
    rows->depth++;
    /* An empty table is an empty leaf; no other page is empty. */
    return (page->is_leaf || *bytes == PAGE_INTERIOR) && page->cells <= (rows->page_bytes - 8) / 6 &&
           (page->cells > 0 || (page->is_leaf && rows->depth == 1));
}

/* Go from an inner page to its next child, or back. False: something is damaged. */
static bool
rows_move(struct table_rows *rows)
{
    struct table_page *page = &rows->path[rows->depth - 1];
    const unsigned char *cell;
    uint64_t key;

    if (page->is_leaf || page->cell > page->cells) {
        rows->depth--;
        return true;
    }
    if (page->cell++ == page->cells)
        return rows_enter(rows, bytes_32(page->bytes + PAGE_RIGHT));
    cell = page_cell(rows, page, page->cell - 1);
    return cell != NULL && bytes_varint(cell + 4, &key) <= page->bytes + rows->usable_bytes &&
           rows_enter(rows, bytes_32(cell));
}

/*
 * Read the fields of a record: first come their types, then their values. False: SQLite is to look at it. `end` is
 * where it ends.
 */
static inline bool
record_read(const struct table_rows *rows, const unsigned char *types, const unsigned char *end, int64_t *values,
            uint32_t *nulls)
{
    static const unsigned char lengths[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };
    const unsigned char *value = types + *types, *values_begin = value;

    *nulls = 0;
    /* The length of the types comes first, in one byte here as each type: all others are of long texts. */
    if (*types == 0 || *types >= 0x80 || value > end)
        return false;
    types++;
    for (unsigned i = 0; i < rows->field_count; i++) {
        unsigned type = types < values_begin ? *types++ : 0xff;
        int place = rows->fields[i];
        bool is_text = type >= 12 && type < 0x80;
        unsigned length;

        if (type >= sizeof(lengths) && !is_text)
            return false;
        length = is_text ? (type - 12) / 2 : lengths[type];
        if (place >= 0) {
            if (is_text || type == 7)
                return false;
            /* Eight and nine stand for 0 and 1. */
            values[place] = length > 0 ? (int64_t)bytes_64(value) >> (64 - 8 * length) : type == 9;
            *nulls |= (uint32_t)(type == 0) << place;
        }
        value += length;
        if (value > end)
            return false;
    }
    return types < values_begin || value == end;
}

/* Read a row of the leaf. */
static inline bool
rows_read(const struct table_rows *rows, struct table_page *page, int64_t *values, uint32_t *nulls)
{
    const unsigned char *record = page_cell(rows, page, page->cell++), *limit = page->bytes + rows->usable_bytes;
    uint64_t bytes, id;

    if (record == NULL)
        return false;
    record = bytes_varint(bytes_varint(record, &bytes), &id);
    if (bytes == 0 || bytes > rows->usable_bytes - PAGE_ROW_LESS || record > limit ||
        bytes > (size_t)(limit - record) || !record_read(rows, record, record + bytes, values, nulls))
        return false;
    values[rows->key] = (int64_t)id;
    *nulls &= ~(UINT32_C(1) << rows->key);
    return true;
}

enum table_row
table_rows_next(struct table_rows *rows, int64_t *values, uint32_t *nulls)
{
    while (rows->depth > 0) {
        struct table_page *page = &rows->path[rows->depth - 1];

        if (page->is_leaf && page->cell < page->cells)
            return rows_read(rows, page, values, nulls) ? TABLE_ROW : TABLE_UNUSUAL;
        if (!rows_move(rows))
            return TABLE_UNUSUAL;
    }
    return TABLE_END;
}

/* An integer that a query gives; -1: none. */
static int64_t
rows_ask(sqlite3 *db, const char *sql, const char *table)
{
    sqlite3_stmt *statement = NULL;
    int64_t answer = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        (table == NULL || sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC) == SQLITE_OK) &&
        sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_INTEGER)
        answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

/* Take a column of the table, the number `field` of a record. False: SQLite is to read it. */
static bool
rows_take_column(struct table_rows *rows, int field, const char *name, const char *const *columns, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (sqlite3_stricmp(name, columns[i]) != 0)
            continue;
        if (field >= TABLE_ROWS_COLUMNS)
            return false;
        rows->fields[field] = (int)i;
        rows->field_count = (unsigned)field + 1;
    }
    return true;
}

/*
 * Find the fields of the columns. A computed column has no field, and other types than INTEGER may be changed as they
 * are read. The column `key` has the row's id if it is the primary key, for which there is no index then.
 */
static bool
rows_find_fields(struct table_rows *rows, sqlite3 *db, const char *table, const char *key, const char *const *columns,
                 unsigned count)
{
    sqlite3_stmt *statement = NULL;
    unsigned before = 0;
    bool fine =
        sqlite3_prepare_v2(db, "SELECT name, upper(type) = 'INTEGER', pk, hidden FROM pragma_table_xinfo(?, 'main')",
                           -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC) == SQLITE_OK;

    memset(rows->fields, -1, sizeof(rows->fields));
    for (int field = 0; fine && sqlite3_step(statement) == SQLITE_ROW; field++) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        bool is_key = name != NULL && sqlite3_stricmp(name, key) == 0;

        fine = name != NULL && sqlite3_column_int(statement, 3) == 0 &&
               sqlite3_column_int(statement, 2) == (is_key ? 1 : 0) &&
               rows_take_column(rows, field, name, columns, count);
        if (fine && field < TABLE_ROWS_COLUMNS && rows->fields[field] >= 0) {
            fine = sqlite3_column_int(statement, 1) == 1;
            if (is_key)
                rows->key = (unsigned)rows->fields[field];
            before++;
        }
    }
    sqlite3_finalize(statement);
    return fine && before == count &&
           rows_ask(db, "SELECT count(*) FROM pragma_index_list(?, 'main') WHERE origin = 'pk'", table) == 0;
}

/* Read the head of the file. False: it has a write-ahead log, or is none that has pages. */
static bool
rows_read_head(struct table_rows *rows, sqlite3 *db)
{
    unsigned char head[FILE_HEAD_BYTES];
    int64_t pages = rows_ask(db, "PRAGMA main.page_count", NULL);

    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &rows->file) != SQLITE_OK || rows->file == NULL ||
        rows->file->pMethods == NULL || rows->file->pMethods->xRead(rows->file, head, sizeof(head), 0) != SQLITE_OK ||
        head[FILE_WRITE_VERSION] != FILE_JOURNAL || head[FILE_READ_VERSION] != FILE_JOURNAL)
        return false;
    rows->page_bytes = bytes_16(head + FILE_PAGE_BYTES);
    if (rows->page_bytes == 1)
        rows->page_bytes = 65536;
    rows->usable_bytes = rows->page_bytes - head[FILE_RESERVED];
    rows->page_count = rows->pages_left = pages > 0 && pages < UINT32_MAX ? (uint32_t)pages : 0;
    return rows->page_bytes >= 512 && (rows->page_bytes & (rows->page_bytes - 1)) == 0 && rows->usable_bytes >= 480;
}

bool
table_rows_open(struct table_rows *rows, sqlite3 *db, const char *table, const char *key, const char *const *columns,
                unsigned column_count)
{
    static const char find[] = "SELECT rootpage FROM main.sqlite_master WHERE type = 'table' AND name = ?";
    int64_t root;

    *rows = (struct table_rows){ .lock = NULL };
    /* What this connection itself has written is not in the file yet. */
    if (sqlite3_db_readonly(db, "main") != 1 || sqlite3_prepare_v2(db, find, -1, &rows->lock, NULL) != SQLITE_OK ||
        sqlite3_bind_text(rows->lock, 1, table, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_step(rows->lock) != SQLITE_ROW || !rows_read_head(rows, db) ||
        !rows_find_fields(rows, db, table, key, columns, column_count))
        return false;
    rows->bytes = calloc(TABLE_ROWS_DEPTH, rows->page_bytes + PAGE_SPARE);
    root = sqlite3_column_int64(rows->lock, 0);
    return rows->bytes != NULL && root <= UINT32_MAX && rows_enter(rows, root > 0 ? (uint32_t)root : 0);
}

void
table_rows_close(struct table_rows *rows)
{
    sqlite3_finalize(rows->lock);
    free(rows->bytes);
    *rows = (struct table_rows){ .lock = NULL };
}
