/* A folder for a test's traces, and queries on them. */
#include "trace.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tap.h"

static char folder[64];
static pid_t folder_owner;

static void
scratch_remove(void)
{
    struct dirent *entry;
    DIR *dir;
    char path[512];

    if (getpid() != folder_owner || tap.failed != 0 || tap.run != tap.planned || (dir = opendir(folder)) == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && unlink(path) != 0)
            rmdir(path);
    }
    closedir(dir);
    rmdir(folder);
}

const char *
scratch(const char *format, ...)
{
    static _Thread_local char names[8][256];
    static _Thread_local unsigned next;
    char *name = names[next++ % 8];
    va_list arguments;
    int length;

    if (folder[0] == '\0') {
        strcpy(folder, "trace-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
        folder_owner = getpid();
        atexit(scratch_remove);
    }
    length = snprintf(name, sizeof(names[0]), "%s/", folder);
    va_start(arguments, format);
    vsnprintf(name + length, sizeof(names[0]) - (size_t)length, format, arguments);
    va_end(arguments);
    return name;
}

unsigned
scratch_count(const char *prefix)
{
    struct dirent *entry;
    unsigned count = 0;
    DIR *dir = opendir(folder);

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (dir != NULL)
        closedir(dir);
    return count;
}

static _Noreturn void
bail_out(const char *what)
{
    printf("Bail out! %s: %s\n", what, tide_error_text());
    fflush(stdout);
    _exit(9);
}

struct tide_resource *
stack_of(const char *format, ...)
{
    struct tide_resource *stack;
    va_list arguments;
    char text[1024];

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        bail_out(text);
    return stack;
}

void *
take(struct tide_resource *stack, size_t bytes)
{
    void *pointer;

    if (tide_allocate(stack, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &pointer) != TIDE_OK)
        bail_out("allocate");
    return pointer;
}

void
give(struct tide_resource *stack, void *pointer, size_t bytes)
{
    if (tide_deallocate(stack, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK)
        bail_out("deallocate");
}

/* The first row of a query, which the caller finalizes; NULL if there is none. */
static sqlite3_stmt *
sql_row(const char *path, const char *format, va_list arguments, sqlite3 **db)
{
    sqlite3_stmt *statement = NULL;
    char sql[2048];

    vsnprintf(sql, sizeof(sql), format, arguments);
    if (sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(*db, 5000) != SQLITE_OK ||
        sqlite3_prepare_v2(*db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) {
        if (sqlite3_errcode(*db) != SQLITE_DONE)
            diag("%s: %s: %s", path, sql, sqlite3_errmsg(*db));
        sqlite3_finalize(statement);
        statement = NULL;
    }
    return statement;
}

int64_t
sql_number(const char *path, const char *format, ...)
{
    int64_t number = INT64_MIN;
    sqlite3_stmt *row;
    va_list arguments;
    sqlite3 *db;

    va_start(arguments, format);
    row = sql_row(path, format, arguments, &db);
    va_end(arguments);
    if (row != NULL && sqlite3_column_type(row, 0) != SQLITE_NULL)
        number = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return number;
}

const char *
sql_text(const char *path, const char *format, ...)
{
    static _Thread_local char text[4096];
    sqlite3_stmt *row;
    va_list arguments;
    sqlite3 *db;

    va_start(arguments, format);
    row = sql_row(path, format, arguments, &db);
    va_end(arguments);
    text[0] = '\0';
    if (row != NULL && sqlite3_column_text(row, 0) != NULL)
        snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(row, 0));
    sqlite3_finalize(row);
    sqlite3_close(db);
    return text;
}

static bool
sound(const char *path, int64_t seen, int64_t wanted, const char *what)
{
    if (seen != wanted)
        diag("%s: %s: %" PRId64 ", wanted %" PRId64, path, what, seen, wanted);
    return seen == wanted;
}

bool
trace_is_sound(const char *path)
{
    bool good = true;

    good &= strcmp(sql_text(path, "PRAGMA integrity_check"), "ok") == 0;
    good &= sound(path,
                  sql_number(path, "SELECT count(*) FROM (SELECT alloc_ns < lag(alloc_ns) OVER (ORDER BY allocation_id)"
                                   " AS back FROM allocation) WHERE back"),
                  0, "rows whose alloc_ns falls");
    good &= sound(path, sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns < alloc_ns"), 0,
                  "rows freed before they were allocated");
    good &=
        sound(path,
              sql_number(path, "SELECT count(*) FROM (SELECT alloc_ns < lag(coalesce(free_ns, 1 << 62)) OVER"
                               " (PARTITION BY layer_id, address ORDER BY alloc_ns, coalesce(free_ns, 1 << 62)) AS over"
                               " FROM allocation WHERE status = 0 AND address <> 0) WHERE over"),
              0, "lives that overlap another of their address");
    return good;
}

bool
trace_is_whole(const char *path)
{
    bool good = trace_is_sound(path);

    good &= sound(path, sql_number(path, "SELECT value FROM meta WHERE key = 'complete'"), 1, "complete");
    good &= sound(path, sql_number(path, "SELECT count(*) FROM loss"), 0, "rows of loss");
    good &= sound(path, sql_number(path, "SELECT count(*) FROM unmatched_free"), 0, "unmatched frees");
    good &= sound(path, sql_number(path, "SELECT count(*) FROM mark WHERE kind IN ('size_mismatch', 'refused_free')"),
                  0, "odd frees");
    return good;
}

int
in_child(int (*function)(void *), void *argument)
{
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        status = function(argument);
        fflush(stdout);
        _exit(status);
    }
    waitpid(pid, &status, 0);
    return status;
}

static pthread_mutex_t hear_lock = PTHREAD_MUTEX_INITIALIZER;

static void
hear_message(void *context, enum tide_severity severity, const char *text)
{
    struct heard *heard = context;

    pthread_mutex_lock(&hear_lock);
    if (severity == TIDE_ERROR) {
        heard->errors++;
        snprintf(heard->text, sizeof(heard->text), "%s", text);
    } else {
        heard->others++;
    }
    diag("heard: %s", text);
    pthread_mutex_unlock(&hear_lock);
}

void
hear(struct heard *heard)
{
    if (heard != NULL)
        memset(heard, 0, sizeof(*heard));
    tide_message_sink_set(heard != NULL ? hear_message : NULL, heard);
}

unsigned
hear_count(const struct heard *heard)
{
    unsigned errors;

    pthread_mutex_lock(&hear_lock);
    errors = heard->errors;
    pthread_mutex_unlock(&hear_lock);
    return errors;
}

uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t
random_seed(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();

    diag("%s=%" PRIu64, variable, seed);
    return seed | 1;
}
