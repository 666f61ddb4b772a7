/* Keeps what a command answers until it is printed. */
#include "config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/base/pager.h"
#include "viewer/output/report-item.h"

void
report_begin(struct report *report, const struct report_options *options, const char *name)
{
    *report = (struct report){ .options = *options, .name = name };
}

static void
report_free_cells(struct report_item *item)
{
    size_t count = item->row_count * item->column_count;

    for (size_t i = 0; i < count; i++) {
        if (item->cells[i].there && report_is_text(item->columns[i % item->column_count].kind))
            free((char *)item->cells[i].text);
    }
    free(item->cells);
}

void
report_end(struct report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        report_free_cells(&report->items[i]);
        free(report->items[i].text);
    }
    free(report->items);
    *report = (struct report){ 0 };
}

static struct report_item *
report_add(struct report *report, enum report_item_kind kind)
{
    if (report->count == report->capacity) {
        size_t capacity = report->capacity == 0 ? 32 : 2 * report->capacity;
        struct report_item *grown = realloc(report->items, capacity * sizeof(*grown));

        if (grown == NULL) {
            report->failed = true;
            return NULL;
        }
        report->items = grown;
        report->capacity = capacity;
    }
    report->items[report->count] = (struct report_item){ .kind = kind };
    return &report->items[report->count++];
}

/* Add a row to an item that has columns. */
static void
report_add_row(struct report *report, struct report_item *item, const struct report_cell *cells)
{
    struct report_cell *row;

    if (item->row_count == item->row_capacity) {
        size_t capacity = item->row_capacity == 0 ? 1 : 2 * item->row_capacity;
        struct report_cell *grown = realloc(item->cells, capacity * item->column_count * sizeof(*grown));

        if (grown == NULL) {
            report->failed = true;
            return;
        }
        item->cells = grown;
        item->row_capacity = capacity;
    }
    row = &item->cells[item->row_count++ * item->column_count];
    for (size_t i = 0; i < item->column_count; i++) {
        row[i] = cells[i];
        if (!cells[i].there || !report_is_text(item->columns[i].kind))
            continue;
        row[i].text = strdup(cells[i].text);
        if (row[i].text == NULL) {
            row[i].there = false;
            report->failed = true;
        }
    }
}

void
report_field(struct report *report, const struct report_column *column, struct report_cell cell)
{
    struct report_item *item = report_add(report, REPORT_ITEM_FIELD);

    if (item == NULL)
        return;
    item->columns = column;
    item->column_count = 1;
    report_add_row(report, item, &cell);
}

void
report_table(struct report *report, const char *name, const char *title, const struct report_column *columns,
             size_t column_count)
{
    struct report_item *item = report_add(report, REPORT_ITEM_TABLE);

    if (item == NULL)
        return;
    item->name = name;
    item->title = title;
    item->columns = columns;
    item->column_count = column_count;
}

void
report_spare(struct report *report, const char *names)
{
    if (!report->failed)
        report->items[report->count - 1].spare = names;
}

void
report_row(struct report *report, const struct report_cell *cells)
{
    if (!report->failed)
        report_add_row(report, &report->items[report->count - 1], cells);
}

static void
report_add_text(struct report *report, enum report_item_kind kind, const char *format, va_list arguments)
{
    struct report_item *item = report_add(report, kind);

    if (item != NULL && vasprintf(&item->text, format, arguments) < 0) {
        item->text = NULL;
        report->failed = true;
    }
}

void
report_note(struct report *report, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    report_add_text(report, REPORT_ITEM_NOTE, format, arguments);
    va_end(arguments);
}

void
report_lines(struct report *report, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    report_add_text(report, REPORT_ITEM_LINES, format, arguments);
    va_end(arguments);
}

bool
report_has_color(const struct report *report)
{
    const char *none = getenv("NO_COLOR");

    if (report->options.format != REPORT_TABLE || report->options.color == REPORT_COLOR_NEVER)
        return false;
    return report->options.color == REPORT_COLOR_ALWAYS || (isatty(STDOUT_FILENO) && (none == NULL || *none == '\0'));
}

bool
report_shows(const struct report *report, const struct report_item *item)
{
    if (report->options.only == NULL)
        return true;
    return item->kind == REPORT_ITEM_TABLE && strcmp(report->options.only, item->name) == 0;
}

/* Whether --only names a table that is there; else say which there are. */
static bool
report_check_only(const struct report *report)
{
    bool found = report->options.only == NULL;

    for (size_t i = 0; i < report->count; i++)
        found = found || report_shows(report, &report->items[i]);
    if (found)
        return true;
    fprintf(stderr, "tidemark %s: --only: there is no table \"", report->name);
    output_text(stderr, report->options.only, strlen(report->options.only));
    fputs("\" here:", stderr);
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind == REPORT_ITEM_TABLE)
            fprintf(stderr, " %s", report->items[i].name);
    }
    putc('\n', stderr);
    return false;
}

int
report_print(struct report *report, int status)
{
    char *text = NULL;
    size_t length;
    FILE *out;

    if (!report_check_only(report))
        return COMMAND_WRONG;
    out = open_memstream(&text, &length);
    if (out != NULL && !report->failed && report_write(report, out) != 0)
        report->failed = true;
    if (out == NULL || fclose(out) != 0 || report->failed) {
        fprintf(stderr, "tidemark %s: no memory for the answer\n", report->name);
        free(text);
        return COMMAND_WRONG;
    }
    if (report->options.format == REPORT_TABLE && !report->options.no_pager)
        status = pager_print(text, length, status);
    else
        fwrite(text, 1, length, stdout);
    free(text);
    return output_finish(status);
}
