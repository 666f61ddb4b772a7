/* What a virtual table of events keeps: the check of the trace, a copy, prepared statements. */
#include "config.h"

#include <string.h>

#include "viewer/read/event-table.h"

static const char *const usage_names[] = { "layer_id", "ns", "kind", "allocation_id", "live_bytes", "live_count" };
static const char *const event_names[] = { "ns",   "kind",   "allocation_id", "layer_id",  "address",
                                           "size", "status", "duration_ns",   "thread_id", "stream_id" };

const struct events_kind event_table_kinds[EVENT_TABLES] = {
    { "event", "tidemark_event",
      "ns INTEGER, kind, allocation_id INTEGER, layer_id INTEGER, address INTEGER, size INTEGER, status INTEGER, "
      "duration_ns INTEGER, thread_id INTEGER, stream_id INTEGER",
      event_names, EVENT_COLUMNS, EVENT_LAYER_ID, EVENT_NS, EVENT_KIND, EVENT_ALLOCATION_ID, false },
    { "usage", "tidemark_usage", "layer_id INTEGER, ns INTEGER, kind, allocation_id INTEGER, live_bytes, live_count",
      usage_names, USAGE_COLUMNS, USAGE_LAYER_ID, USAGE_NS, USAGE_KIND, USAGE_ALLOCATION_ID, true },
};

int
event_table_failed(struct events_table *table, int code)
{
    if (code != SQLITE_OK && code != SQLITE_NOMEM) {
        sqlite3_free(table->base.zErrMsg);
        table->base.zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(table->db));
    }
    return code;
}

int
event_table_check(struct events_table *table, bool details)
{
    int code;

    if (table->checked && (!details || table->check.details))
        return SQLITE_OK;
    code = event_check(table->db, details, INT64_MAX, &table->check);
    table->checked = code == SQLITE_OK;
    return event_table_failed(table, code);
}

int
event_table_step(struct events_table *table, sqlite3_stmt *rows)
{
    int code = sqlite3_step(rows);

    return code == SQLITE_ROW || code == SQLITE_DONE ? code : event_table_failed(table, code);
}

sqlite3_stmt *
event_table_take(struct events_table *table, const char *key)
{
    for (size_t i = 0; i < KEPT_MOST; i++) {
        sqlite3_stmt *rows = table->kept[i].rows;

        if (rows == NULL || strcmp(table->kept[i].key, key) != 0)
            continue;
        table->kept[i].rows = NULL;
        return rows;
    }
    return NULL;
}

void
event_table_give(struct events_table *table, const struct kept *done)
{
    size_t i = 0;

    while (i < KEPT_MOST && table->kept[i].rows != NULL)
        i++;
    if (i == KEPT_MOST || done->key[0] == '\0') {
        sqlite3_finalize(done->rows);
        return;
    }
    sqlite3_reset(done->rows);
    table->kept[i] = *done;
}
