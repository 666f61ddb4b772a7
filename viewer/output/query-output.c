/* The rows of a question as a table, as CSV or as JSON. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libsmartcols.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/output/query-output.h"

static int
output_no_memory(void)
{
    fputs("tidemark query: no memory for the answer\n", stderr);
    return COMMAND_WRONG;
}

/* A real number in the fewest digits that read back as the same one; infinity overflows on purpose, as in SQLite. */
static void
output_real(FILE *out, double value)
{
    char text[40];

    if (isinf(value)) {
        fputs(value > 0 ? "1e999" : "-1e999", out);
        return;
    }
    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    fputs(text, out);
    if (strpbrk(text, ".e") == NULL)
        fputs(".0", out);
}

static void
output_blob(FILE *out, const unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++)
        fprintf(out, "%02x", bytes[i]);
}

static void
output_csv_text(FILE *out, const char *text, size_t length, bool terminal)
{
    if (length > 0 && strcspn(text, ",\"\r\n") == length && text[0] != ' ' && text[length - 1] != ' ') {
        terminal ? output_text(out, text, length) : (void)fwrite(text, 1, length, out);
        return;
    }
    putc('"', out);
    for (size_t done = 0; done < length; done++) {
        size_t plain = 0;

        while (done + plain < length && text[done + plain] != '"')
            plain++;
        terminal ? output_text(out, text + done, plain) : (void)fwrite(text + done, 1, plain, out);
        done += plain;
        if (done < length)
            fputs("\"\"", out);
    }
    putc('"', out);
}

static void
output_value_text(FILE *out, enum query_format format, bool terminal, const char *text, size_t length)
{
    if (format == QUERY_JSON)
        output_json_text(out, text, length);
    else if (format == QUERY_CSV)
        output_csv_text(out, text, length, terminal);
    else /* the table escapes what it prints */
        fwrite(text, 1, length, out);
}

/* One value: NULL is null in JSON and nothing elsewhere; a blob is its bytes in hexadecimal. */
static void
output_value(FILE *out, const struct query_output *output, sqlite3_stmt *statement, int column)
{
    const char *quote = output->format == QUERY_JSON ? "\"" : "";
    const char *text;

    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        fprintf(out, "%lld", sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        output_real(out, sqlite3_column_double(statement, column));
        break;
    case SQLITE_TEXT:
        text = (const char *)sqlite3_column_text(statement, column);
        output_value_text(out, output->format, output->terminal, text != NULL ? text : "",
                          text != NULL ? (size_t)sqlite3_column_bytes(statement, column) : 0);
        break;
    case SQLITE_BLOB:
        fputs(quote, out);
        output_blob(out, sqlite3_column_blob(statement, column), sqlite3_column_bytes(statement, column));
        fputs(quote, out);
        break;
    default:
        fputs(output->format == QUERY_JSON ? "null" : "", out);
    }
}

/* Names of columns that stand in JSON objects: a second "n" becomes "n:2", by its place. */
static int
output_names(struct query_output *output, sqlite3_stmt *statement)
{
    output->names = calloc((size_t)output->columns + 1, sizeof(*output->names));
    for (int i = 0; output->names != NULL && i < output->columns; i++) {
        const char *name = sqlite3_column_name(statement, i);
        bool taken = false;

        for (int j = 0; j < i && name != NULL; j++)
            taken = taken || strcmp(output->names[j], name) == 0;
        if (name == NULL || asprintf(&output->names[i], taken ? "%s:%d" : "%s", name, i + 1) < 0) {
            output->names[i] = NULL;
            return output_no_memory();
        }
    }
    return output->names != NULL ? COMMAND_FINE : output_no_memory();
}

static void
output_csv_header(struct query_output *output, sqlite3_stmt *statement)
{
    for (int i = 0; i < output->columns; i++) {
        const char *name = sqlite3_column_name(statement, i);

        if (i > 0)
            putchar(',');
        output_csv_text(stdout, name != NULL ? name : "", name != NULL ? strlen(name) : 0, output->terminal);
    }
    putchar('\n');
}

/* Columns are made when the first row is there: its types say which of them hold numbers. */
static int
output_table_columns(struct query_output *output, sqlite3_stmt *statement)
{
    for (int i = 0; i < output->columns; i++) {
        int type = output->rows > 0 ? sqlite3_column_type(statement, i) : SQLITE_TEXT;
        int flags = type == SQLITE_INTEGER || type == SQLITE_FLOAT ? SCOLS_FL_RIGHT : 0;
        const char *name = sqlite3_column_name(statement, i);

        if (name == NULL || scols_table_new_column(output->table, name, 0, flags) == NULL)
            return output_no_memory();
    }
    return COMMAND_FINE;
}

static int
output_table_add(struct query_output *output, sqlite3_stmt *statement)
{
    struct libscols_line *line = scols_table_new_line(output->table, NULL);

    for (int i = 0; line != NULL && i < output->columns; i++) {
        char *text = NULL;
        size_t length;
        FILE *cell = open_memstream(&text, &length);

        if (cell == NULL)
            return output_no_memory();
        output_value(cell, output, statement, i);
        if (fclose(cell) != 0 || scols_line_refer_data(line, (size_t)i, text) != 0) {
            free(text);
            return output_no_memory();
        }
    }
    return line != NULL ? COMMAND_FINE : output_no_memory();
}

int
query_output_begin(struct query_output *output, enum query_format format, sqlite3_stmt *statement)
{
    memset(output, 0, sizeof(*output));
    output->format = format;
    output->terminal = isatty(STDOUT_FILENO);
    output->columns = sqlite3_column_count(statement);
    switch (format) {
    case QUERY_TABLE:
        output->table = scols_new_table();
        return output->table != NULL ? COMMAND_FINE : output_no_memory();
    case QUERY_JSON:
        return output_names(output, statement);
    case QUERY_CSV:
        output_csv_header(output, statement);
        break;
    }
    return COMMAND_FINE;
}

int
query_output_row(struct query_output *output, sqlite3_stmt *statement)
{
    int status = COMMAND_FINE;

    if (++output->rows == 1 && output->format == QUERY_TABLE)
        status = output_table_columns(output, statement);
    if (output->format == QUERY_TABLE)
        return status == COMMAND_FINE ? output_table_add(output, statement) : status;
    if (output->format == QUERY_JSON)
        fputs(output->rows == 1 ? "[\n{" : ",\n{", stdout);
    for (int i = 0; i < output->columns; i++) {
        if (i > 0)
            putchar(',');
        if (output->format == QUERY_JSON) {
            output_json_text(stdout, output->names[i], strlen(output->names[i]));
            putchar(':');
        }
        output_value(stdout, output, statement, i);
    }
    fputs(output->format == QUERY_JSON ? "}" : "\n", stdout);
    /* A pipe that is closed ends the question. */
    return ferror(stdout) ? output_finish(COMMAND_WRONG) : COMMAND_FINE;
}

int
query_output_end(struct query_output *output, int status)
{
    if (output->format == QUERY_JSON && status == COMMAND_FINE)
        fputs(output->rows == 0 ? "[]\n" : "\n]\n", stdout);
    if (output->format == QUERY_TABLE && output->rows > 0 && status == COMMAND_FINE) {
        output_table_print(output->table);
        output->table = NULL;
    }
    scols_unref_table(output->table);
    for (int i = 0; output->names != NULL && i < output->columns; i++)
        free(output->names[i]);
    free(output->names);
    return status;
}
