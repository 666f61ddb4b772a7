/* Takes out of the trace of a replay what the replay would have taken out itself, had it not been killed. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/replayed.h"

bool
trace_has_replay_tags(const struct trace *trace)
{
    static const char find[] = "SELECT EXISTS (SELECT 1 FROM tag WHERE name GLOB '" REPLAY_CALLSTACK_TAG "[0-9]*')";
    int64_t found = 0;
    int64_t pid = 0;

    if (trace->in_progress || !trace->complete)
        return false;
    if (trace_look_up(trace, &found, find) != SQLITE_ROW || found != 1)
        return false;
    /* The replay may be about to make call stacks of them. */
    return trace_look_up(trace, &pid, "SELECT value FROM meta WHERE key = 'pid'") != SQLITE_ROW || pid <= 0 ||
           (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

void
trace_drop_replay_tags(const char *path)
{
    /* A private tag is the innermost of its thread, so its parent is one of the program's own, or none. */
    static const char sql[] =
        "BEGIN IMMEDIATE;"
        "CREATE TEMP TABLE private AS SELECT tag_id, parent_tag_id FROM tag WHERE name GLOB '" REPLAY_CALLSTACK_TAG
        "[0-9]*';"
        "CREATE UNIQUE INDEX private_tag ON private(tag_id);"
        "UPDATE allocation SET tag_id = (SELECT parent_tag_id FROM private WHERE private.tag_id = allocation.tag_id)"
        " WHERE tag_id IN (SELECT tag_id FROM private);"
        "DELETE FROM tag WHERE tag_id IN (SELECT tag_id FROM private);"
        "COMMIT";
    sqlite3 *db;

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
        sqlite3_busy_timeout(db, 5000);
        sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    sqlite3_close(db);
}
