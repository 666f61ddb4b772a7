/* Writes a report for programs: JSON, JSON lines, CSV; and as Markdown. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/output.h"
#include "viewer/output/report-item.h"

const char *
report_words(const struct report_column *column, const struct report_cell *cell, char *buffer, size_t size)
{
    struct output_figure figure;
    int64_t change = (int64_t)cell->integer;

    switch (column->kind) {
    case REPORT_TEXT:
    case REPORT_NAME:
    case REPORT_STACK:
    case REPORT_FIGURE:
        return cell->text;
    case REPORT_COUNT:
        snprintf(buffer, size, "%" PRId64, change);
        break;
    case REPORT_SIZE:
        snprintf(buffer, size, "%s", output_size(&figure, cell->integer));
        break;
    case REPORT_CHANGE:
        snprintf(buffer, size, "%c%s", change < 0 ? '-' : '+',
                 output_size(&figure, change < 0 ? -cell->integer : cell->integer));
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

/* A number as programs read it. */
static void
write_number(FILE *out, const struct report_column *column, const struct report_cell *cell)
{
    switch (column->kind) {
    case REPORT_SHARE:
    case REPORT_REAL:
        if (isfinite(cell->real))
            fprintf(out, "%.17g", cell->real);
        else
            fputs("null", out);
        break;
    case REPORT_SIZE:
    case REPORT_ADDRESS:
        fprintf(out, "%" PRIu64, cell->integer);
        break;
    default:
        fprintf(out, "%" PRId64, (int64_t)cell->integer);
        break;
    }
}

static void
write_json_value(FILE *out, const struct report_column *column, const struct report_cell *cell)
{
    if (report_is_text(column->kind))
        output_json_text(out, cell->text, strlen(cell->text));
    else if (column->kind == REPORT_FLAG)
        fputs(cell->integer != 0 ? "true" : "false", out);
    else
        write_number(out, column, cell);
}

/* "name":value where it is there and has a name; *comma says whether one comes first. */
static void
write_json_member(FILE *out, const struct report_column *column, const struct report_cell *cell, bool *comma)
{
    if (column->name == NULL || !cell->there)
        return;
    fprintf(out, "%s\"%s\":", *comma ? "," : "", column->name);
    write_json_value(out, column, cell);
    *comma = true;
}

static void
write_json_row(FILE *out, const struct report_item *item, size_t row, const char *table)
{
    bool comma = table != NULL;

    putc('{', out);
    if (table != NULL)
        fprintf(out, "\"table\":\"%s\"", table);
    for (size_t i = 0; i < item->column_count; i++)
        write_json_member(out, &item->columns[i], &item->cells[row * item->column_count + i], &comma);
    putc('}', out);
}

static void
write_json_notes(const struct report *report, FILE *out)
{
    bool any = false;

    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind != REPORT_ITEM_NOTE)
            continue;
        fputs(any ? "," : ",\"notes\":[", out);
        output_json_text(out, report->items[i].text, strlen(report->items[i].text));
        any = true;
    }
    if (any)
        putc(']', out);
}

static void
write_json(const struct report *report, FILE *out)
{
    bool comma = true;

    fputs("{\"format_version\":1", out);
    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (!report_shows(report, item))
            continue;
        if (item->kind == REPORT_ITEM_FIELD)
            write_json_member(out, item->columns, item->cells, &comma);
        if (item->kind != REPORT_ITEM_TABLE)
            continue;
        fprintf(out, ",\"%s\":[", item->name);
        for (size_t row = 0; row < item->row_count; row++) {
            if (row > 0)
                putc(',', out);
            write_json_row(out, item, row, NULL);
        }
        putc(']', out);
    }
    if (report->options.only == NULL)
        write_json_notes(report, out);
    fputs("}\n", out);
}

static void
write_jsonl(const struct report *report, FILE *out)
{
    bool comma = true;

    if (report->options.only == NULL) {
        fprintf(out, "{\"table\":\"%s\",\"format_version\":1", report->name);
        for (size_t i = 0; i < report->count; i++) {
            if (report->items[i].kind == REPORT_ITEM_FIELD)
                write_json_member(out, report->items[i].columns, report->items[i].cells, &comma);
        }
        write_json_notes(report, out);
        fputs("}\n", out);
    }
    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        for (size_t row = 0; item->kind == REPORT_ITEM_TABLE && report_shows(report, item) && row < item->row_count;
             row++) {
            write_json_row(out, item, row, item->name);
            putc('\n', out);
        }
    }
}

static void
write_csv_text(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL && *text != '\0') {
        output_text(out, text, strlen(text));
        return;
    }
    putc('"', out);
    for (; *text != '\0'; text += *text != '\0') {
        size_t plain = strcspn(text, "\"");

        output_text(out, text, plain);
        text += plain;
        if (*text != '\0')
            fputs("\"\"", out);
        else
            break;
    }
    putc('"', out);
}

static void
write_csv(const struct report *report, FILE *out)
{
    bool first = true;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];
        const char *separator = "";

        if (item->kind != REPORT_ITEM_TABLE || !report_shows(report, item))
            continue;
        if (!first)
            putc('\n', out);
        first = false;
        for (size_t c = 0; c < item->column_count; c++) {
            if (item->columns[c].name != NULL) {
                fprintf(out, "%s%s", separator, item->columns[c].name);
                separator = ",";
            }
        }
        putc('\n', out);
        for (size_t row = 0; row < item->row_count; row++) {
            separator = "";
            for (size_t c = 0; c < item->column_count; c++) {
                const struct report_cell *cell = &item->cells[row * item->column_count + c];

                if (item->columns[c].name == NULL)
                    continue;
                fputs(separator, out);
                separator = ",";
                if (cell->there && report_is_text(item->columns[c].kind))
                    write_csv_text(out, cell->text);
                else if (cell->there)
                    write_number(out, &item->columns[c], cell);
            }
            putc('\n', out);
        }
    }
}

/* Text in a cell of Markdown: what would end the cell, or begin something else, is escaped. */
static void
write_markdown_text(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "|\\`*_<>[]");

        output_text(out, text, plain);
        text += plain;
        if (*text != '\0')
            fprintf(out, "\\%c", *text++);
    }
}

static void
write_markdown_table(FILE *out, const struct report_item *item)
{
    char buffer[64];

    if (item->title != NULL)
        fprintf(out, "\n**%s**\n", item->title);
    fputs("\n|", out);
    for (size_t c = 0; c < item->column_count; c++) {
        if (item->columns[c].title != NULL)
            fprintf(out, " %s |", item->columns[c].title);
    }
    fputs("\n|", out);
    for (size_t c = 0; c < item->column_count; c++) {
        if (item->columns[c].title != NULL)
            fputs(report_is_left(item->columns[c].kind) ? " --- |" : " ---: |", out);
    }
    putc('\n', out);
    for (size_t row = 0; row < item->row_count; row++) {
        putc('|', out);
        for (size_t c = 0; c < item->column_count; c++) {
            const struct report_cell *cell = &item->cells[row * item->column_count + c];

            if (item->columns[c].title == NULL)
                continue;
            putc(' ', out);
            if (cell->there)
                write_markdown_text(out, report_words(&item->columns[c], cell, buffer, sizeof(buffer)));
            fputs(" |", out);
        }
        putc('\n', out);
    }
}

static void
write_markdown(const struct report *report, FILE *out)
{
    char buffer[64];

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (!report_shows(report, item))
            continue;
        if (item->kind == REPORT_ITEM_TABLE) {
            write_markdown_table(out, item);
        } else if (item->kind == REPORT_ITEM_FIELD && item->columns->title != NULL && item->cells->there) {
            fprintf(out, "- %s: ", item->columns->title);
            write_markdown_text(out, report_words(item->columns, item->cells, buffer, sizeof(buffer)));
            putc('\n', out);
        } else if (item->kind == REPORT_ITEM_NOTE) {
            fputs("\n", out);
            write_markdown_text(out, item->text);
            putc('\n', out);
        } else if (item->kind == REPORT_ITEM_LINES) {
            fprintf(out, "\n```text\n%s```\n", item->text);
        }
    }
}

int
report_write(const struct report *report, FILE *out)
{
    switch (report->options.format) {
    case REPORT_JSON:
        write_json(report, out);
        return 0;
    case REPORT_JSONL:
        write_jsonl(report, out);
        return 0;
    case REPORT_CSV:
        write_csv(report, out);
        return 0;
    case REPORT_MARKDOWN:
        write_markdown(report, out);
        return 0;
    default:
        return report_write_table(report, out);
    }
}
