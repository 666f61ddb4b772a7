/*
 * Makes a trace by hand, for tests: make-trace FILE [SQL], where SQL fills the tables. The defaults are a complete
 * trace with a log layer 1 over a sim 2, one thread 1 and one stream 1.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"

static const char make_common[] =
    "INSERT INTO meta VALUES ('format_version', 1), ('start_unix_ns', 1700000000000000000), ('complete', 1),"
    "    ('pid', 4194305), ('hostname', 'elsewhere'), ('command', 'make-trace'), ('stack', 'log | sim');"
    "INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, NULL, 'sim', '');"
    "INSERT INTO thread VALUES (1, 100, 'main'); INSERT INTO stream VALUES (1, 0, 0);";

/*
 * A shorter way to fill `allocation`: life(id, layer, size, begin_ns, end_ns), which stays live if the end is NULL, and
 * refused(id, layer, size, ns). Both are dropped before the trace is closed.
 */
static const char make_helpers[] =
    "CREATE TEMP TABLE life(id, layer, size, begin_ns, end_ns);"
    "CREATE TEMP TRIGGER life_insert AFTER INSERT ON life BEGIN"
    "    INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, alloc_ns, alloc_duration_ns,"
    "        alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id)"
    "    VALUES (new.id, new.layer, 4096 + 65536 * new.id, new.size, 256, 0, new.begin_ns, 10, 1, 1, new.end_ns,"
    "        iif(new.end_ns IS NULL, NULL, 10), iif(new.end_ns IS NULL, NULL, 1), iif(new.end_ns IS NULL, NULL, 1)); "
    "END;"
    "CREATE TEMP TABLE refused(id, layer, size, ns);"
    "CREATE TEMP TRIGGER refused_insert AFTER INSERT ON refused BEGIN"
    "    INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, alloc_ns, alloc_duration_ns,"
    "        alloc_thread_id, alloc_stream_id) VALUES (new.id, new.layer, 0, new.size, 256, 4, new.ns, 10, 1, 1); END;";

int
main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    char pragma[64];
    char *message = NULL;

    if (argc < 2 || argc > 3) {
        fputs("usage: make-trace FILE [SQL]\n", stderr);
        return 2;
    }
    remove(argv[1]);
    snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", TIDEI_TRACE_APPLICATION_ID);
    if (sqlite3_open(argv[1], &db) != SQLITE_OK || sqlite3_exec(db, pragma, NULL, NULL, &message) != SQLITE_OK ||
        sqlite3_exec(db, tidei_trace_schema, NULL, NULL, &message) != SQLITE_OK ||
        sqlite3_exec(db, make_common, NULL, NULL, &message) != SQLITE_OK ||
        sqlite3_exec(db, make_helpers, NULL, NULL, &message) != SQLITE_OK ||
        (argc == 3 && sqlite3_exec(db, argv[2], NULL, NULL, &message) != SQLITE_OK)) {
        fprintf(stderr, "make-trace: %s\n", message != NULL ? message : sqlite3_errmsg(db));
        return 1;
    }
    sqlite3_close(db);
    return 0;
}
