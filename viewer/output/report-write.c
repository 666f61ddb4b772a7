/* Writes a report as JSON, JSON lines, CSV or Markdown. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/base/shown.h"
#include "viewer/output/json.h"
#include "viewer/output/report-item.h"

/* Write a plain number, for JSON and CSV. */
static void
write_number(struct emit *out, enum report_kind kind, const struct report_cell *cell)
{
    switch (kind) {
    case REPORT_SHARE:
    case REPORT_REAL:
        emit_real(out, cell->real);
        break;
    case REPORT_SIZE:
    case REPORT_ADDRESS:
        emit_unsigned(out, cell->integer);
        break;
    default:
        emit_signed(out, (int64_t)cell->integer);
        break;
    }
}

static void
write_json_cell(struct json *json, enum report_kind kind, const struct report_cell *cell)
{
    if (!cell->there) {
        json_word(json, "null");
    } else if (kind == REPORT_STACK) {
        json_stack(json, cell->text);
    } else if (report_is_text(kind)) {
        json_text(json, cell->text);
    } else if (kind == REPORT_FLAG) {
        json_flag(json, cell->integer != 0);
    } else {
        json_separate(json);
        write_number(json->out, kind, cell);
    }
}

/* Write a row or a field as members of an object. A missing value is null; columns without a name are left out. */
static void
write_json_cells(struct json *json, const struct report_item *item, size_t row)
{
    for (size_t i = 0; i < item->column_count; i++) {
        if (item->columns[i].name == NULL)
            continue;
        json_key_text(json, item->columns[i].name);
        write_json_cell(json, item->columns[i].kind, &item->cells[row * item->column_count + i]);
    }
}

static void
write_json_notes(const struct report *report, struct json *json)
{
    json_key(json, "notes");
    json_begin(json, '[');
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind == REPORT_ITEM_NOTE)
            json_text(json, report->items[i].text);
    }
    json_end(json, ']');
}

static void
write_json_rest_of(struct json *json, const struct report_item *item)
{
    json_put_unsigned(json, "count", item->rest_count);
    json_key(json, "bytes");
    write_json_cell(json, REPORT_SIZE, &item->rest_bytes);
}

/* Say by how much a limit cut each table that it cut. */
static void
write_json_rest(const struct report *report, struct json *json)
{
    bool any = false;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (item->rest_count == 0 || !report_shows(report, item))
            continue;
        if (!any) {
            json_key(json, "rest");
            json_begin(json, '{');
        }
        any = true;
        json_key_text(json, item->name);
        json_begin(json, '{');
        write_json_rest_of(json, item);
        json_end(json, '}');
    }
    if (any)
        json_end(json, '}');
}

void
report_write_json(const struct report *report, struct emit *out)
{
    struct json json = { .out = out };

    json_begin(&json, '{');
    json_put_unsigned(&json, "format_version", 1);
    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (!report_shows(report, item))
            continue;
        if (item->kind == REPORT_ITEM_FIELD)
            write_json_cells(&json, item, 0);
        if (item->kind != REPORT_ITEM_TABLE)
            continue;
        json_key_text(&json, item->name);
        json_begin(&json, '[');
        for (size_t row = 0; row < item->row_count; row++) {
            json_begin(&json, '{');
            write_json_cells(&json, item, row);
            json_end(&json, '}');
        }
        json_end(&json, ']');
    }
    write_json_rest(report, &json);
    if (report->options.only == NULL)
        write_json_notes(report, &json);
    json_end(&json, '}');
    emit_bytes(out, "\n", 1);
}

/* Begin a line of JSON lines, with the table's name first. */
static struct json
write_jsonl_begin(struct emit *out, const char *table)
{
    struct json json = { .out = out };

    json_begin(&json, '{');
    json_put_text(&json, "table", table);
    return json;
}

static void
write_jsonl(const struct report *report, struct emit *out)
{
    struct json json;

    if (report->options.only == NULL) {
        json = write_jsonl_begin(out, report->name);
        json_put_unsigned(&json, "format_version", 1);
        for (size_t i = 0; i < report->count; i++) {
            if (report->items[i].kind == REPORT_ITEM_FIELD)
                write_json_cells(&json, &report->items[i], 0);
        }
        write_json_notes(report, &json);
        emit_string(out, "}\n");
    }
    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        for (size_t row = 0; item->kind == REPORT_ITEM_TABLE && report_shows(report, item) && row < item->row_count;
             row++) {
            json = write_jsonl_begin(out, item->name);
            write_json_cells(&json, item, row);
            emit_string(out, "}\n");
        }
        if (item->rest_count > 0 && report_shows(report, item)) {
            json = write_jsonl_begin(out, "rest");
            json_put_text(&json, "of", item->name);
            write_json_rest_of(&json, item);
            emit_string(out, "}\n");
        }
    }
}

static void
write_csv_cell(struct emit *out, const struct report_column *column, const struct report_cell *cell)
{
    if (!cell->there)
        return;
    if (report_is_text(column->kind))
        emit_csv(out, cell->text, strlen(cell->text), *cell->text == '\0' || strpbrk(cell->text, ",\"\r\n") != NULL,
                 false);
    else
        write_number(out, column->kind, cell);
}

/* Write the columns that have a name; `row` is a row of the item, or NULL for the header. */
static void
write_csv_row(struct emit *out, const struct report_item *item, const struct report_cell *row)
{
    bool comma = false;

    for (size_t c = 0; c < item->column_count; c++) {
        if (item->columns[c].name == NULL)
            continue;
        emit_bytes(out, ",", comma);
        comma = true;
        if (row != NULL)
            write_csv_cell(out, &item->columns[c], &row[c]);
        else
            emit_string(out, item->columns[c].name);
    }
    emit_bytes(out, "\n", 1);
}

static void
write_csv(const struct report *report, struct emit *out)
{
    bool first = true;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (item->kind != REPORT_ITEM_TABLE || item->absent || !report_shows(report, item))
            continue;
        emit_bytes(out, "\n", !first);
        first = false;
        write_csv_row(out, item, NULL);
        for (size_t row = 0; row < item->row_count; row++)
            write_csv_row(out, item, &item->cells[row * item->column_count]);
    }
}

/* Write text into a Markdown cell. Characters that would end the cell or begin markup are escaped. */
static void
write_markdown_text(struct emit *out, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "|\\`*_<>[]&");

        emit_text(out, text, plain);
        text += plain;
        if (*text != '\0')
            emit_format(out, "\\%c", *text++);
    }
}

/* Write lines, whose text is clean, between fences that are longer than any row of backticks in them. */
static void
write_markdown_lines(struct emit *out, const char *text)
{
    size_t row = 0, longest = 2;
    char fence[64];

    for (const char *at = text; *at != '\0'; at++) {
        row = *at == '`' ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    longest = longest < sizeof(fence) - 2 ? longest : sizeof(fence) - 2;
    memset(fence, '`', longest + 1);
    fence[longest + 1] = '\0';
    emit_format(out, "\n%stext\n%s%s\n", fence, text, fence);
}

static void
write_markdown_table(struct emit *out, const struct report_item *item)
{
    char buffer[64];

    if (item->title != NULL)
        emit_format(out, "\n**%s**\n", item->title);
    emit_string(out, "\n|");
    for (size_t c = 0; c < item->column_count; c++) {
        if (item->columns[c].title != NULL)
            emit_format(out, " %s |", item->columns[c].title);
    }
    emit_string(out, "\n|");
    for (size_t c = 0; c < item->column_count; c++) {
        if (item->columns[c].title != NULL)
            emit_string(out, report_is_left(item->columns[c].kind) ? " --- |" : " ---: |");
    }
    emit_string(out, "\n");
    for (size_t row = 0; row < item->row_count; row++) {
        emit_string(out, "|");
        for (size_t c = 0; c < item->column_count; c++) {
            const struct report_cell *cell = &item->cells[row * item->column_count + c];

            if (item->columns[c].title == NULL)
                continue;
            emit_string(out, " ");
            if (cell->there)
                write_markdown_text(out, report_words(item->columns[c].kind, cell, buffer, sizeof(buffer)));
            emit_string(out, " |");
        }
        emit_string(out, "\n");
    }
}

static void
write_markdown(const struct report *report, struct emit *out)
{
    char buffer[64];

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (!report_shows(report, item))
            continue;
        if (item->kind == REPORT_ITEM_TABLE && !item->absent) {
            write_markdown_table(out, item);
        } else if (item->kind == REPORT_ITEM_FIELD && item->columns[0].title != NULL && item->cells->there) {
            emit_format(out, "- %s: ", item->columns[0].title);
            write_markdown_text(out, report_words(item->columns[0].kind, item->cells, buffer, sizeof(buffer)));
            emit_string(out, "\n");
        } else if (item->kind == REPORT_ITEM_NOTE) {
            emit_string(out, "\n");
            write_markdown_text(out, item->text);
            emit_string(out, "\n");
        } else if (item->kind == REPORT_ITEM_LINES) {
            write_markdown_lines(out, item->text);
        }
    }
}

/* By enum report_format. */
static void (*const write_formats[])(const struct report *report, struct emit *out) = {
    report_write_table, report_write_json, write_jsonl, write_csv, write_markdown,
};

/* Whether --only names a table of the report; if not, list the tables that there are. */
static bool
write_check_only(const struct report *report)
{
    bool found = report->options.only == NULL;
    struct emit names;

    for (size_t i = 0; i < report->count; i++)
        found = found || (report_shows(report, &report->items[i]) && !report->items[i].absent);
    if (found)
        return true;
    if (emit_open_memory(&names) != COMMAND_FINE)
        return false;
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind == REPORT_ITEM_TABLE && !report->items[i].absent)
            emit_format(&names, " %s", report->items[i].name);
    }
    message("tidemark %s: --only: there is no table \"%s\" here:%.*s", report->name, report->options.only,
            (int)names.used, names.buffer);
    free(names.buffer);
    return false;
}

/* Escape what is not shown as it is before columns and lines are laid out, so that they fit. */
static bool
write_clean(char **text)
{
    char *clean = *text != NULL ? shown_copy(*text) : NULL;
    bool done = *text == NULL || clean != NULL;

    if (clean != NULL) {
        free(*text);
        *text = clean;
    }
    return done;
}

/* The same for all names and sentences; lines are clean when they are added, since a drawing may have colours. */
static bool
write_clean_all(const struct report *report)
{
    bool done = true;

    for (size_t i = 0; i < report->count; i++) {
        struct report_item *item = &report->items[i];

        for (size_t cell = 0; cell < item->row_count * item->column_count; cell++) {
            if (item->cells[cell].there && report_is_text(item->columns[cell % item->column_count].kind))
                done = write_clean((char **)&item->cells[cell].text) && done;
        }
        if (item->kind == REPORT_ITEM_NOTE)
            done = write_clean(&item->text) && done;
    }
    return done;
}

static void
write_mark_exact(const struct report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        struct report_item *item = &report->items[i];

        for (size_t c = 0; item->kind == REPORT_ITEM_TABLE && c < item->column_count; c++) {
            if (item->columns[c].kind == REPORT_SIZE || item->columns[c].kind == REPORT_CHANGE)
                report_mark_exact(item, c);
        }
    }
}

int
report_print(const struct report *report, int status)
{
    bool people = report->options.format == REPORT_TABLE || report->options.format == REPORT_MARKDOWN;
    struct emit out;
    bool written;

    if (!write_check_only(report) || emit_open_memory(&out) != COMMAND_FINE)
        return COMMAND_WRONG;
    written = !report->failed && (!people || write_clean_all(report));
    if (people)
        write_mark_exact(report);
    if (written)
        write_formats[report->options.format](report, &out);
    written = written && !out.failed;
    if (!written)
        message("tidemark %s: no memory for the answer", report->name);
    else if (report->options.format == REPORT_TABLE && !report->options.no_pager)
        output_page(out.buffer, out.used);
    else
        fwrite(out.buffer, 1, out.used, stdout);
    free(out.buffer);
    return written ? output_finish(status) : COMMAND_WRONG;
}
