/* Keeps the answer of a command until it is printed. */
#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/tables/grow.h"
#include "viewer/base/output.h"
#include "viewer/output/report-item.h"

void
report_begin(struct report *report, const struct report_options *options, const char *name)
{
    *report = (struct report){ .options = *options, .name = name };
}

void
report_end(struct report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        struct report_item *item = &report->items[i];

        for (size_t c = 0; c < item->row_count * item->column_count; c++) {
            if (item->cells[c].there && report_is_text(item->columns[c % item->column_count].kind))
                free((char *)item->cells[c].text);
        }
        free(item->cells);
        free(item->text);
    }
    free(report->items);
    *report = (struct report){ 0 };
}

static struct report_item *
report_add(struct report *report, enum report_item_kind kind)
{
    if (!tidei_grow(&report->items, &report->capacity, report->count, 1)) {
        report->failed = true;
        return NULL;
    }
    report->items[report->count] = (struct report_item){ .kind = kind };
    return &report->items[report->count++];
}

/* Add a row to an item that has columns. */
static void
report_add_row(struct report *report, struct report_item *item, const struct report_cell *cells)
{
    struct report_cell *row;

    if (!tidei_grow(&item->cells, &item->cell_capacity, item->row_count * item->column_count, item->column_count)) {
        report->failed = true;
        return;
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
report_field(struct report *report, const char *name, const char *title, enum report_kind kind, struct report_cell cell)
{
    struct report_item *item = report_add(report, REPORT_ITEM_FIELD);

    if (item == NULL)
        return;
    item->columns[0] = (struct report_column){ name, title, kind };
    item->column_count = 1;
    report_add_row(report, item, &cell);
}

void
report_label(struct report *report, const char *title, const char *format, ...)
{
    char text[512];
    va_list arguments;

    /* It is for people, and there may be one for each of 13,107 memories. */
    if (report->options.format == REPORT_JSON)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    report_field(report, NULL, title, REPORT_TEXT, cell_text(text));
}

void
report_table(struct report *report, const char *name, const char *title, const struct report_column *columns,
             size_t column_count)
{
    struct report_item *item = report_add(report, REPORT_ITEM_TABLE);

    if (item == NULL)
        return;
    assert(column_count <= REPORT_COLUMNS_MAX);
    item->name = name;
    item->title = title;
    if (column_count > 0)
        memcpy(item->columns, columns, column_count * sizeof(*columns));
    item->column_count = column_count;
}

void
report_no_table(struct report *report, const char *name)
{
    report_table(report, name, NULL, NULL, 0);
    if (!report->failed)
        report->items[report->count - 1].absent = true;
}

void
report_rest(struct report *report, uint64_t count, struct report_cell bytes)
{
    if (report->failed)
        return;
    report->items[report->count - 1].rest_count = count;
    report->items[report->count - 1].rest_bytes = bytes;
}

void
report_set_column(struct report *report, size_t place, struct report_column column)
{
    if (!report->failed)
        report->items[report->count - 1].columns[place] = column;
}

void
report_spare(struct report *report, const char *names)
{
    if (!report->failed)
        report->items[report->count - 1].spare = names;
}

void
report_keep(struct report *report, const char *name)
{
    if (!report->failed)
        report->items[report->count - 1].keep = name;
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

/* A value of a column, and its cell. */
struct report_size {
    int64_t bytes;
    struct report_cell *cell;
};

static int
report_compare_sizes(const void *left, const void *right)
{
    int64_t a = ((const struct report_size *)left)->bytes;
    int64_t b = ((const struct report_size *)right)->bytes;

    return (a > b) - (a < b);
}

/* Mark two cells if they differ and read the same. */
static void
report_mark_pair(enum report_kind kind, const struct report_size *a, const struct report_size *b)
{
    struct report_cell plain[2] = { *a->cell, *b->cell };
    char words[2][64];

    plain[0].exact = plain[1].exact = false;
    if (a->bytes != b->bytes && strcmp(report_words(kind, &plain[0], words[0], sizeof(words[0])),
                                       report_words(kind, &plain[1], words[1], sizeof(words[1]))) == 0)
        a->cell->exact = b->cell->exact = true;
}

void
report_mark_exact(struct report_item *item, size_t column)
{
    enum report_kind kind = item->columns[column].kind;
    struct report_size *sizes = calloc(item->row_count + 1, sizeof(*sizes));
    size_t count = 0;

    for (size_t row = 0; sizes != NULL && row < item->row_count; row++) {
        struct report_cell *cell = &item->cells[row * item->column_count + column];

        if (cell->there)
            sizes[count++] = (struct report_size){ (int64_t)cell->integer, cell };
    }
    if (sizes != NULL)
        qsort(sizes, count, sizeof(*sizes), report_compare_sizes);
    /* Between two different sizes that read the same stands at most one other, a whole number of units: "12.00 GiB",
       "12 GiB", "12.00 GiB". */
    for (size_t i = 1, last = 0, before = 0; i < count; i++) {
        if (sizes[i].bytes == sizes[last].bytes)
            continue;
        report_mark_pair(kind, &sizes[last], &sizes[i]);
        report_mark_pair(kind, &sizes[before], &sizes[i]);
        before = last;
        last = i;
    }
    for (size_t i = 1; i < count; i++) {
        if (sizes[i].bytes == sizes[i - 1].bytes)
            sizes[i].cell->exact = sizes[i - 1].cell->exact;
    }
    free(sizes);
}

const char *
report_words(enum report_kind kind, const struct report_cell *cell, char *buffer, size_t size)
{
    struct output_figure figure;
    int64_t change = (int64_t)cell->integer;

    switch (kind) {
    case REPORT_TEXT:
    case REPORT_NAME:
    case REPORT_STACK:
    case REPORT_FIGURE:
        return cell->text;
    case REPORT_COUNT:
        snprintf(buffer, size, "%" PRId64, change);
        break;
    case REPORT_SIZE:
        snprintf(buffer, size, "%s", (cell->exact ? output_bytes : output_size)(&figure, cell->integer));
        break;
    case REPORT_CHANGE:
        snprintf(buffer, size, "%c%s", change < 0 ? '-' : '+',
                 (cell->exact ? output_bytes : output_size)(&figure, change < 0 ? -cell->integer : cell->integer));
        break;
    case REPORT_TIME:
        snprintf(buffer, size, "%s", output_time(&figure, change));
        break;
    case REPORT_SHARE:
        snprintf(buffer, size, "%.1f%%", 100 * cell->real);
        break;
    case REPORT_REAL:
        snprintf(buffer, size, "%.3g", cell->real);
        break;
    case REPORT_ADDRESS:
        snprintf(buffer, size, "0x%" PRIx64, cell->integer);
        break;
    case REPORT_FLAG:
        return cell->integer != 0 ? "yes" : "no";
    }
    return buffer;
}

void
report_hide_texts(struct report *report, bool (*keeps)(const char *name, const char *text))
{
    for (size_t i = 0; i < report->count; i++) {
        struct report_item *item = &report->items[i];

        /* JSON has no lines. */
        if (item->kind == REPORT_ITEM_NOTE)
            item->kind = REPORT_ITEM_LINES;
        for (size_t c = 0; c < item->row_count * item->column_count; c++) {
            const struct report_column *column = &item->columns[c % item->column_count];

            if (!item->cells[c].there || !report_is_text(column->kind) || keeps(column->name, item->cells[c].text))
                continue;
            free((char *)item->cells[c].text);
            item->cells[c] = cell_none();
        }
    }
}
