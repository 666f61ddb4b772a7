/* Runs a command of `tidemark` in this process, and asks its JSON, which SQLite reads. */
#include "answers.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#define ANSWER_WORDS 24

/* viewer/commands/main.c, whose main is renamed by the compiler's -Dmain=tidemark_main. */
int tidemark_main(int argc, char **argv);

static _Noreturn void
answer_bail(const char *what)
{
    printf("Bail out! %s\n", what);
    exit(99);
}

static void
answer_run(struct answer *out)
{
    char text[sizeof(out->line)], *rest = NULL;
    char *words[ANSWER_WORDS + 1] = { (char *)"tidemark" };
    int count = 1;

    memcpy(text, out->line, sizeof(text));
    for (char *word = strtok_r(text, " ", &rest); word != NULL && count < ANSWER_WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    optind = 0;
    out->status = tidemark_main(count, words);
    fflush(stdout);
}

/* What was written to a file, with a NUL behind it. */
static char *
answer_read(int file)
{
    off_t size = lseek(file, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);

    if (size < 0 || text == NULL || pread(file, text, (size_t)size, 0) != size)
        answer_bail("an answer cannot be read");
    text[size] = '\0';
    return text;
}

void
answer_ask(struct answer *out, const char *format, ...)
{
    FILE *file = tmpfile();
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int kept = dup(STDOUT_FILENO), kept_error = dup(STDERR_FILENO);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(out->line, sizeof(out->line), format, arguments);
    va_end(arguments);
    fflush(stdout);
    if (file == NULL || nowhere < 0 || kept < 0 || kept_error < 0 || dup2(fileno(file), STDOUT_FILENO) < 0 ||
        dup2(nowhere, STDERR_FILENO) < 0)
        answer_bail("an answer has no file");
    answer_run(out);
    dup2(kept, STDOUT_FILENO);
    dup2(kept_error, STDERR_FILENO);
    out->json = answer_read(fileno(file));
    close(kept);
    close(kept_error);
    close(nowhere);
    fclose(file);
}

void
answer_free(struct answer *answer)
{
    free(answer->json);
    answer->json = NULL;
}

/* The row of a query about the answer (?1) and a path (?2), or a text (?2); the caller resets it. */
static sqlite3_stmt *
answer_row(const struct answer *answer, const char *sql, const char *path)
{
    static sqlite3 *db;
    static struct {
        char sql[256];
        sqlite3_stmt *row;
    } kept[16];
    size_t i = 0;

    if (db == NULL && sqlite3_open(":memory:", &db) != SQLITE_OK)
        answer_bail("no database for answers");
    while (i < 15 && kept[i].row != NULL && strcmp(kept[i].sql, sql) != 0)
        i++;
    if (kept[i].row == NULL || strcmp(kept[i].sql, sql) != 0) {
        sqlite3_finalize(kept[i].row);
        snprintf(kept[i].sql, sizeof(kept[i].sql), "%s", sql);
        if (sqlite3_prepare_v2(db, sql, -1, &kept[i].row, NULL) != SQLITE_OK)
            answer_bail(sqlite3_errmsg(db));
    }
    sqlite3_reset(kept[i].row);
    sqlite3_bind_text(kept[i].row, 1, answer->json, -1, SQLITE_STATIC);
    sqlite3_bind_text(kept[i].row, 2, path, -1, SQLITE_TRANSIENT);
    return sqlite3_step(kept[i].row) == SQLITE_ROW ? kept[i].row : NULL;
}

static sqlite3_stmt *
answer_member(const struct answer *answer, const char *sql, const char *format, va_list arguments)
{
    char path[256] = "$.";

    vsnprintf(path + 2, sizeof(path) - 2, format, arguments);
    return answer_row(answer, sql, path);
}

/* The row of a member that is there and not null; NULL otherwise. */
static sqlite3_stmt *
answer_value(const struct answer *answer, const char *format, va_list arguments)
{
    sqlite3_stmt *row = answer_member(answer, "SELECT json_extract(?1, ?2)", format, arguments);

    return row != NULL && sqlite3_column_type(row, 0) != SQLITE_NULL ? row : NULL;
}

int64_t
answer_number(const struct answer *answer, const char *format, ...)
{
    sqlite3_stmt *row;
    va_list arguments;

    va_start(arguments, format);
    row = answer_value(answer, format, arguments);
    va_end(arguments);
    return row != NULL ? sqlite3_column_int64(row, 0) : ANSWER_NULL;
}

double
answer_share(const struct answer *answer, const char *format, ...)
{
    sqlite3_stmt *row;
    va_list arguments;

    va_start(arguments, format);
    row = answer_value(answer, format, arguments);
    va_end(arguments);
    return row != NULL ? sqlite3_column_double(row, 0) : -1;
}

const char *
answer_text(const struct answer *answer, const char *format, ...)
{
    sqlite3_stmt *row;
    va_list arguments;

    va_start(arguments, format);
    row = answer_value(answer, format, arguments);
    va_end(arguments);
    return row != NULL ? (const char *)sqlite3_column_text(row, 0) : "";
}

int64_t
answer_length(const struct answer *answer, const char *format, ...)
{
    sqlite3_stmt *row;
    va_list arguments;

    va_start(arguments, format);
    row = answer_member(answer, "SELECT coalesce(json_array_length(?1, ?2), 0)", format, arguments);
    va_end(arguments);
    return row != NULL ? sqlite3_column_int64(row, 0) : 0;
}

int64_t
answer_find(const struct answer *answer, const char *array, const char *member, const char *text)
{
    for (int64_t i = 0; i < answer_length(answer, "%s", array); i++) {
        if (strcmp(answer_text(answer, "%s[%lld].%s", array, (long long)i, member), text) == 0)
            return i;
    }
    return -1;
}

int64_t
answer_most(const struct answer *answer, const char *array, const char *member, const char *memory)
{
    char sql[256], path[64];
    sqlite3_stmt *row;

    snprintf(sql, sizeof(sql),
             "SELECT max(json_extract(value, '$.%s')) FROM json_each(?1, ?2) WHERE '%s' IN ('',"
             " json_extract(value, '$.memory'))",
             member, memory);
    snprintf(path, sizeof(path), "$.%s", array);
    row = answer_row(answer, sql, path);
    return row == NULL || sqlite3_column_type(row, 0) == SQLITE_NULL ? ANSWER_NULL : sqlite3_column_int64(row, 0);
}
