/* Inserts rows into the tables of a trace. */
#include "config.h"

#include <string.h>

#include <tidemark/status.h>

#include "src/trace/database/insert.h"

int
tidei_insert_prepare(sqlite3 *db, const char *verb, enum tidei_table_number number, const char *source,
                     sqlite3_stmt **out)
{
    const struct tidei_table *table = &tidei_tables[number];
    sqlite3_str *sql = sqlite3_str_new(db);
    int code = SQLITE_NOMEM;
    char *text;

    *out = NULL;
    sqlite3_str_appendf(sql, "%s INTO %s(%s) %s", verb, table->name, table->names,
                        source != NULL ? source : "VALUES (?");
    for (unsigned i = 1; source == NULL && i < table->column_count; i++)
        sqlite3_str_appendall(sql, ", ?");
    sqlite3_str_appendall(sql, source == NULL ? ")" : "");
    text = sqlite3_str_finish(sql);
    if (text != NULL)
        code = sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    sqlite3_free(text);
    return code;
}

int
tidei_inserts_prepare(struct tidei_inserts *inserts, sqlite3 *db, bool known_stay)
{
    int code = SQLITE_OK;

    for (unsigned i = 0; code == SQLITE_OK && i < TIDEI_TABLES; i++) {
        const char *verb = "INSERT";

        if (i == TIDEI_TABLE_status)
            continue;
        if ((known_stay && i == TIDEI_TABLE_meta) || i == TIDEI_TABLE_layer_count)
            verb = "INSERT OR REPLACE";
        else if (known_stay && tidei_tables[i].columns[0].type == TIDEI_COLUMN_ID)
            verb = "INSERT OR IGNORE";
        code = tidei_insert_prepare(db, verb, (enum tidei_table_number)i, NULL, &inserts->rows[i]);
    }
    return code;
}

void
tidei_inserts_finalize(struct tidei_inserts *inserts)
{
    for (unsigned i = 0; i < TIDEI_TABLES; i++)
        sqlite3_finalize(inserts->rows[i]);
    memset(inserts, 0, sizeof(*inserts));
}

int
tidei_insert_row(struct tidei_inserts *inserts, enum tidei_table_number table, const struct tidei_value *values)
{
    sqlite3_stmt *insert = inserts->rows[table];
    int columns = (int)tidei_tables[table].column_count;

    if (insert == NULL)
        return SQLITE_MISUSE;
    for (int i = 0; i < columns; i++) {
        const struct tidei_value *value = &values[i];

        if (value->kind == TIDEI_VALUE_INTEGER)
            sqlite3_bind_int64(insert, i + 1, value->integer);
        else if (value->kind == TIDEI_VALUE_TEXT)
            sqlite3_bind_text(insert, i + 1, value->text, (int)value->integer, SQLITE_STATIC);
        else
            sqlite3_bind_null(insert, i + 1);
    }
    sqlite3_step(insert);
    return sqlite3_reset(insert);
}

int
tidei_insert_statuses(sqlite3 *db)
{
    struct tidei_inserts inserts = { 0 };
    int code = tidei_insert_prepare(db, "INSERT", TIDEI_TABLE_status, NULL, &inserts.rows[TIDEI_TABLE_status]);

    for (int i = 0; code == SQLITE_OK && strcmp(tide_status_name(i), "TIDE_UNKNOWN") != 0; i++)
        code = tidei_insert(&inserts, status, TIDEI_NUMBER(i), TIDEI_TEXT(tide_status_name(i)),
                            TIDEI_TEXT(tide_status_text(i)));
    tidei_inserts_finalize(&inserts);
    return code;
}
