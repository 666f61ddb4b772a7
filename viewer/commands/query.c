/* `tidemark query`: runs an SQL query on a trace, which it cannot change. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/output/json.h"
#include "viewer/output/table.h"
#include "viewer/read/event-tables.h"
#include "viewer/read/trace.h"

enum query_format {
    QUERY_TABLE, /* holds all rows, since widths depend on them */
    QUERY_CSV,
    QUERY_JSON,
};

/* The rows of a question on their way to standard output. */
struct query_answer {
    enum query_format format;
    bool terminal; /* standard output is one: control characters in CSV are escaped, and rows are shown as they come */
    sqlite3_stmt *statement; /* borrows */
    struct emit out;
    struct json json;
    struct emit cell; /* in memory; of a table */
    struct table table;
    char **names; /* owns; of the columns */
    int columns;
    size_t rows;
};

/* PRAGMAs that only read, also with an argument. */
static const char *const query_pragmas[] = {
    "application_id", "collation_list", "compile_options", "encoding",        "foreign_key_list", "function_list",
    "index_info",     "index_list",     "index_xinfo",     "journal_mode",    "module_list",      "page_count",
    "page_size",      "pragma_list",    "quick_check",     "integrity_check", "schema_version",   "table_info",
    "table_list",     "table_xinfo",    "user_version",
};

/* The argument of some of them names a table or an index; with the others it would be a new value, and is refused. */
static bool
query_pragma_allowed(const char *name, const char *argument)
{
    for (size_t i = 0; i < sizeof(query_pragmas) / sizeof(query_pragmas[0]); i++) {
        if (sqlite3_stricmp(query_pragmas[i], name) == 0)
            return argument == NULL || strstr(name, "_info") != NULL || strstr(name, "_xinfo") != NULL ||
                   strstr(name, "_list") != NULL || strstr(name, "_check") != NULL;
    }
    return false;
}

/* Allow only reading. The file is open read-only besides; this also keeps SQL from other files. */
static int
query_authorize(void *context, int action, const char *first, const char *second, const char *schema, const char *inner)
{
    (void)context;
    (void)inner;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return second != NULL && sqlite3_stricmp(second, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        return query_pragma_allowed(first, second) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_CREATE_TABLE:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
        /*
         * A function that returns a table, such as json_each, declares its columns with these. A statement that
         * changes the trace is not read-only, and is refused for that.
         */
        return schema == NULL || strcmp(schema, "temp") != 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* Say what is wrong with the SQL, and where. */
static int
query_failed(const struct trace *trace, const char *sql)
{
    int code = sqlite3_errcode(trace->db) & 0xff;
    char where[64] = "";
    int line = 1;
    int column = 1;
    int offset = -1;

    if (code == SQLITE_AUTH) {
        message("tidemark query: the trace is open for reading only: this statement does more");
        return COMMAND_WRONG;
    }
    if (code != SQLITE_ERROR)
        return trace_failed(trace);
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(trace->db);
#endif
    for (int i = 0; i < offset; i++) {
        column = sql[i] == '\n' ? 1 : column + 1;
        line += sql[i] == '\n';
    }
    if (offset >= 0 && line > 1)
        snprintf(where, sizeof(where), ", line %d, column %d", line, column);
    else if (offset >= 0)
        snprintf(where, sizeof(where), ", column %d", column);
    message("tidemark query: SQL%s: %s", where, sqlite3_errmsg(trace->db));
    return COMMAND_WRONG;
}

/* Prepare the statement. Any further statement is an error. */
static int
query_prepare(const struct trace *trace, const char *sql, sqlite3_stmt **out)
{
    const char *rest = NULL;
    sqlite3_stmt *more = NULL;

    *out = NULL;
    if (sqlite3_prepare_v2(trace->db, sql, -1, out, &rest) != SQLITE_OK)
        return query_failed(trace, sql);
    if (*out == NULL) {
        message("tidemark query: the SQL holds no statement");
        return COMMAND_WRONG;
    }
    /* The rest may be blanks and comments, which make no statement. */
    if (sqlite3_prepare_v2(trace->db, rest, -1, &more, NULL) == SQLITE_OK && more == NULL)
        return COMMAND_FINE;
    sqlite3_finalize(more);
    sqlite3_finalize(*out);
    *out = NULL;
    message("tidemark query: one statement at a time; the second begins at column %d",
            (int)(rest - sql) + 1 + (int)strspn(rest, " \t\r\n"));
    return COMMAND_WRONG;
}

static int
query_no_memory(void)
{
    message("tidemark query: no memory for the answer");
    return COMMAND_WRONG;
}

/* A real number in the fewest digits that read back as the same one; infinity overflows on purpose, as in SQLite. */
static void
query_put_real(struct emit *out, double value)
{
    char text[40];

    if (isinf(value)) {
        emit_string(out, value > 0 ? "1e999" : "-1e999");
        return;
    }
    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    emit_string(out, text);
    if (strpbrk(text, ".e") == NULL)
        emit_string(out, ".0");
}

static void
query_put_csv(struct query_answer *answer, const char *text, size_t length)
{
    bool quote = length == 0 || strcspn(text, ",\"\r\n") != length || text[0] == ' ' || text[length - 1] == ' ';

    emit_csv(&answer->out, text, length, quote, !answer->terminal);
}

static void
query_put_text(struct query_answer *answer, struct emit *out, const char *text, size_t length)
{
    if (answer->format == QUERY_JSON)
        emit_json(out, text, length);
    else if (answer->format == QUERY_CSV)
        query_put_csv(answer, text, length);
    else
        emit_text(out, text, length);
}

static void
query_put_blob(struct emit *out, const char *quote, const unsigned char *bytes, int count)
{
    emit_string(out, quote);
    for (int i = 0; i < count; i++)
        emit_format(out, "%02x", bytes[i]);
    emit_string(out, quote);
}

/* Write a value. NULL is null in JSON and nothing elsewhere; a blob is its bytes in hexadecimal. */
static void
query_put_value(struct query_answer *answer, struct emit *out, int column)
{
    sqlite3_stmt *row = answer->statement;
    bool is_json = answer->format == QUERY_JSON;
    const char *text;

    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        emit_signed(out, sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT:
        query_put_real(out, sqlite3_column_double(row, column));
        break;
    case SQLITE_TEXT:
        text = (const char *)sqlite3_column_text(row, column);
        query_put_text(answer, out, text != NULL ? text : "",
                       text != NULL ? (size_t)sqlite3_column_bytes(row, column) : 0);
        break;
    case SQLITE_BLOB:
        query_put_blob(out, is_json ? "\"" : "", sqlite3_column_blob(row, column), sqlite3_column_bytes(row, column));
        break;
    default:
        emit_string(out, is_json ? "null" : "");
    }
}

/* Copy the names of the columns. Members of a JSON object must differ: a second "n", as column 2, becomes "n:2". */
static int
query_make_names(struct query_answer *answer)
{
    answer->names = calloc((size_t)answer->columns + 1, sizeof(*answer->names));
    for (int i = 0; answer->names != NULL && i < answer->columns; i++) {
        const char *name = sqlite3_column_name(answer->statement, i);
        bool taken = false;

        for (int j = 0; answer->format == QUERY_JSON && j < i && name != NULL; j++)
            taken = taken || strcmp(answer->names[j], name) == 0;
        if (name == NULL || asprintf(&answer->names[i], taken ? "%s:%d" : "%s", name, i + 1) < 0) {
            answer->names[i] = NULL;
            return query_no_memory();
        }
    }
    return answer->names != NULL ? COMMAND_FINE : query_no_memory();
}

static void
query_put_names(struct query_answer *answer)
{
    for (int i = 0; i < answer->columns; i++) {
        emit_bytes(&answer->out, ",", i > 0);
        query_put_csv(answer, answer->names[i], strlen(answer->names[i]));
    }
    emit_string(&answer->out, "\n");
}

static int
query_begin(struct query_answer *answer)
{
    int status = query_make_names(answer);

    if (status == COMMAND_FINE && answer->format == QUERY_CSV)
        query_put_names(answer);
    if (answer->format != QUERY_TABLE)
        return status;
    table_begin(&answer->table, false);
    return status == COMMAND_FINE ? emit_open_memory(&answer->cell) : status;
}

/* Columns are made with the first row, whose types say which columns hold numbers. */
static void
query_add_columns(struct query_answer *answer)
{
    for (int i = 0; i < answer->columns; i++) {
        int type = sqlite3_column_type(answer->statement, i);

        table_column(&answer->table, answer->names[i],
                     type == SQLITE_INTEGER || type == SQLITE_FLOAT ? TABLE_RIGHT : TABLE_LEFT);
    }
}

static void
query_add_row(struct query_answer *answer)
{
    if (answer->rows == 1)
        query_add_columns(answer);
    table_row(&answer->table);
    for (int i = 0; i < answer->columns; i++) {
        answer->cell.used = 0;
        query_put_value(answer, &answer->cell, i);
        emit_bytes(&answer->cell, "", 1);
        table_cell(&answer->table, (size_t)i, answer->cell.buffer);
    }
}

static void
query_put_object(struct query_answer *answer)
{
    if (answer->rows == 1)
        json_begin(&answer->json, '[');
    json_line(&answer->json);
    json_begin(&answer->json, '{');
    for (int i = 0; i < answer->columns; i++) {
        json_key_text(&answer->json, answer->names[i]);
        json_separate(&answer->json);
        query_put_value(answer, &answer->out, i);
    }
    json_end(&answer->json, '}');
}

static int
query_row(struct query_answer *answer)
{
    answer->rows++;
    if (answer->format == QUERY_TABLE) {
        query_add_row(answer);
        return answer->table.failed || answer->cell.failed ? query_no_memory() : COMMAND_FINE;
    }
    if (answer->format == QUERY_JSON)
        query_put_object(answer);
    for (int i = 0; answer->format == QUERY_CSV && i < answer->columns; i++) {
        emit_bytes(&answer->out, ",", i > 0);
        query_put_value(answer, &answer->out, i);
    }
    if (answer->format == QUERY_CSV)
        emit_string(&answer->out, "\n");
    if (answer->terminal)
        emit_flush(&answer->out, false);
    /* The reader may have closed the pipe. */
    return answer->out.failed ? COMMAND_WRONG : COMMAND_FINE;
}

/* If `status` is COMMAND_FINE, print the rest. Always free everything. Returns the exit status. */
static int
query_end(struct query_answer *answer, int status)
{
    bool shown = status == COMMAND_FINE && answer->rows > 0;

    if (answer->format == QUERY_JSON && status == COMMAND_FINE)
        emit_string(&answer->out, shown ? "\n]\n" : "[]\n");
    if (answer->format == QUERY_TABLE && !table_end_whole(&answer->table, shown ? &answer->out : NULL) &&
        status == COMMAND_FINE)
        status = query_no_memory();
    for (int i = 0; answer->names != NULL && i < answer->columns; i++)
        free(answer->names[i]);
    free(answer->names);
    free(answer->cell.buffer);
    /* Rows before an error are printed. */
    emit_flush(&answer->out, false);
    return emit_close(&answer->out, status);
}

static int
query_rows(const struct trace *trace, sqlite3_stmt *statement, enum query_format format, const char *sql)
{
    struct query_answer answer = {
        .format = format,
        .terminal = isatty(STDOUT_FILENO),
        .statement = statement,
        .json = { .out = &answer.out },
        .columns = sqlite3_column_count(statement),
    };
    int code = SQLITE_DONE;
    int status = emit_open(&answer.out, NULL, false);

    if (status != COMMAND_FINE)
        return status;
    status = query_begin(&answer);
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = query_row(&answer);
    if (status == COMMAND_FINE && code != SQLITE_DONE)
        status = query_failed(trace, sql);
    return query_end(&answer, status);
}

struct query_options {
    int format; /* enum query_format */
};

static int
query_ask(const struct invocation *call)
{
    enum query_format format = (enum query_format)((const struct query_options *)call->own)->format;
    const char *sql = call->arguments[1];
    struct trace trace;
    sqlite3_stmt *statement = NULL;
    int status = trace_open(call->arguments[0], call->common.filter.no_symbols, &trace);

    if (status != COMMAND_FINE)
        return status;
    event_tables_add(&trace);
    sqlite3_set_authorizer(trace.db, query_authorize, NULL);
    status = query_prepare(&trace, sql, &statement);
    if (status == COMMAND_FINE && !sqlite3_stmt_readonly(statement)) {
        message("tidemark query: the trace is open for reading only: this statement does more");
        status = COMMAND_WRONG;
    }
    if (status == COMMAND_FINE)
        status = query_rows(&trace, statement, format, sql);
    sqlite3_finalize(statement);
    if (status == COMMAND_FINE)
        status = trace_verdict(&trace);
    trace_close(&trace);
    return status;
}

#define AT(field) offsetof(struct query_options, field)

static const struct option_def query_defs[] = {
    { "table", 't', OPTION_SET, NULL, "print a table, as is done where nothing is said", AT(format), NULL,
      QUERY_TABLE },
    { "csv", 'c', OPTION_SET, NULL, "print comma-separated values, the names of the columns first", AT(format), NULL,
      QUERY_CSV },
    { "json", 'j', OPTION_SET, NULL, "print an array with an object for each row", AT(format), NULL, QUERY_JSON },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
query_run(struct invocation *call)
{
    if (call->count != 2)
        return command_misused(call->command, "%s",
                               call->count == 0   ? "which trace?"
                               : call->count == 1 ? "what is the question, in SQL?"
                                                  : "one trace and one statement; quote the SQL");
    return query_ask(call);
}

const struct command command_query = {
    .name = "query",
    .arguments = "[--table | --csv | --json] [--no-symbols] TRACE SQL",
    .purpose = "Ask a trace one question in SQL; nothing is changed",
    .help = "",
    .wanted = &(const struct command_arguments){ .count = -1 },
    .options = query_defs,
    COMMAND_OWN(struct query_options, .format = QUERY_TABLE),
    .common = OPTIONS_SYMBOLS,
    .run = query_run,
};
