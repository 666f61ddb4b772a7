/* `tidemark query`: one question to a trace, in SQL; the trace cannot be changed by it. */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "viewer/commands/commands.h"
#include "viewer/base/output.h"
#include "viewer/cli/options.h"
#include "viewer/output/query-output.h"
#include "viewer/read/trace-open.h"

/* PRAGMAs that tell and change nothing, also with an argument. */
static const char *const query_pragmas[] = {
    "application_id", "collation_list", "compile_options", "encoding",        "foreign_key_list", "function_list",
    "index_info",     "index_list",     "index_xinfo",     "journal_mode",    "module_list",      "page_count",
    "page_size",      "pragma_list",    "quick_check",     "integrity_check", "schema_version",   "table_info",
    "table_list",     "table_xinfo",    "user_version",
};

/* Those of the list above whose argument names something; with the others it is a new value. */
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

/* What SQL may do. The file is open read-only besides; this keeps other files out of reach too. */
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
         * What a function that returns a table, such as json_each, does inside to declare its columns. A statement
         * that does it to the trace is no read-only one, and refused for that.
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
    int line = 1;
    int column = 1;
    int offset = -1;

    if (code == SQLITE_AUTH) {
        fputs("tidemark query: the trace is open for reading only: this statement does more\n", stderr);
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
    fputs("tidemark query: SQL", stderr);
    if (offset >= 0 && line > 1)
        fprintf(stderr, ", line %d", line);
    if (offset >= 0)
        fprintf(stderr, ", column %d", column);
    fprintf(stderr, ": %s\n", sqlite3_errmsg(trace->db));
    return COMMAND_WRONG;
}

/* The statement, prepared; anything after it is an error. */
static int
query_prepare(const struct trace *trace, const char *sql, sqlite3_stmt **out)
{
    const char *rest = NULL;
    sqlite3_stmt *more = NULL;

    *out = NULL;
    if (sqlite3_prepare_v2(trace->db, sql, -1, out, &rest) != SQLITE_OK)
        return query_failed(trace, sql);
    if (*out == NULL) {
        fputs("tidemark query: the SQL holds no statement\n", stderr);
        return COMMAND_WRONG;
    }
    /* What is left may be blanks and comments, which make no statement. */
    if (sqlite3_prepare_v2(trace->db, rest, -1, &more, NULL) == SQLITE_OK && more == NULL)
        return COMMAND_FINE;
    sqlite3_finalize(more);
    sqlite3_finalize(*out);
    *out = NULL;
    fprintf(stderr, "tidemark query: one statement at a time; the second begins at column %d\n",
            (int)(rest - sql) + 1 + (int)strspn(rest, " \t\r\n"));
    return COMMAND_WRONG;
}

static int
query_rows(const struct trace *trace, sqlite3_stmt *statement, enum query_format format, const char *sql)
{
    struct query_output output;
    int code = SQLITE_DONE;
    int status = query_output_begin(&output, format, statement);

    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = query_output_row(&output, statement);
    if (status == COMMAND_FINE && code != SQLITE_DONE)
        status = query_failed(trace, sql);
    return query_output_end(&output, status);
}

static int
query_ask(const char *path, const char *sql, enum query_format format)
{
    struct trace trace;
    sqlite3_stmt *statement = NULL;
    int status = trace_open(path, &trace);

    if (status != COMMAND_FINE)
        return status;
    sqlite3_set_authorizer(trace.db, query_authorize, NULL);
    status = query_prepare(&trace, sql, &statement);
    if (status == COMMAND_FINE && !sqlite3_stmt_readonly(statement)) {
        fputs("tidemark query: the trace is open for reading only: this statement does more\n", stderr);
        status = COMMAND_WRONG;
    }
    if (status == COMMAND_FINE)
        status = query_rows(&trace, statement, format, sql);
    sqlite3_finalize(statement);
    if (status == COMMAND_FINE)
        status = trace_verdict(&trace);
    trace_close(&trace);
    return output_finish(status);
}

struct query_options {
    int format; /* enum query_format */
};

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
query_run(const struct command *self, int argc, char **argv)
{
    struct query_options options = { .format = QUERY_TABLE };
    struct view_options common;
    int status = options_parse(self, argc, argv, &options, &common);

    if (status != OPTIONS_GO)
        return status;
    if (argc - optind != 2)
        return command_misused(self, "%s",
                               argc == optind       ? "which trace?"
                               : argc - optind == 1 ? "what is the question, in SQL?"
                                                    : "one trace and one statement; quote the SQL");
    return query_ask(argv[optind], argv[optind + 1], (enum query_format)options.format);
}

const struct command command_query = {
    .name = "query",
    .arguments = "[--table | --csv | --json] TRACE SQL",
    .purpose = "Ask a trace one question in SQL; nothing is changed",
    .help = "",
    .options = query_defs,
    .run = query_run,
};
