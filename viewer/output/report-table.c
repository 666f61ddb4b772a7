/* Writes a report for people: labels, tables with libsmartcols, sentences. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <libsmartcols.h>

#include "viewer/base/output.h"
#include "viewer/output/report-layout.h"
#include "viewer/output/callstack-text.h"

/* On a terminal a name takes so many lines at most; elsewhere it is one line, whole. */
#define TABLE_NAME_LINES 4

/* Where fewer characters are left of a line, sentences are not broken. */
#define TABLE_PROSE_LEAST 20

static struct libscols_column *
table_add_column(struct libscols_table *table, const struct report_column *column, bool wrapped)
{
    struct libscols_column *made;
    int flags = report_is_left(column->kind) ? 0 : SCOLS_FL_RIGHT;

    made = scols_table_new_column(table, column->title, 0, flags | (wrapped ? SCOLS_FL_WRAP : 0));
    if (made != NULL && wrapped &&
        (scols_column_set_wrapfunc(made, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL) != 0 ||
         scols_column_set_safechars(made, "\n") != 0))
        return NULL;
    return made;
}

static struct libscols_table *
table_create(const struct report_item *item, const struct report_layout *layout, bool color)
{
    struct libscols_table *table = scols_new_table();

    if (table == NULL)
        return NULL;
    scols_table_enable_colors(table, color);
    for (size_t i = 0; i < layout->count; i++) {
        bool wrapped = layout->name_width > 0 && i + 1 == layout->count;
        struct libscols_column *made = table_add_column(table, &item->columns[layout->columns[i]], wrapped);

        if (made == NULL) {
            scols_unref_table(table);
            return NULL;
        }
        if (color)
            scols_cell_set_color(scols_column_get_header(made), "bold");
    }
    return table;
}

/* A name as people see it, which takes `width` characters of a line (0: any number). To be freed; NULL: no memory. */
static char *
table_name(const struct report_column *column, const char *name, size_t width)
{
    char *brief = column->kind == REPORT_STACK ? stack_text_short(name, SIZE_MAX) : strdup(name);
    char *lines;

    if (brief == NULL || width == 0)
        return brief;
    lines = stack_text_wrap(brief, width, TABLE_NAME_LINES);
    free(brief);
    return lines;
}

static int
table_add(struct libscols_table *table, const struct report_item *item, const struct report_layout *layout, size_t row)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);
    char buffer[64];

    for (size_t i = 0; line != NULL && i < layout->count; i++) {
        size_t c = layout->columns[i];
        const struct report_cell *cell = &item->cells[row * item->column_count + c];
        const char *words;
        char *name;

        if (!cell->there)
            continue;
        words = report_words(&item->columns[c], cell, buffer, sizeof(buffer));
        if (!report_is_name(item->columns[c].kind)) {
            if (scols_line_set_data(line, i, words) != 0)
                return -1;
            continue;
        }
        name = table_name(&item->columns[c], words, i + 1 == layout->count ? layout->name_width : 0);
        if (name == NULL || scols_line_refer_data(line, i, name) != 0) {
            free(name);
            return -1;
        }
    }
    return line != NULL ? 0 : -1;
}

/* Lines without the blanks at their ends, which would only break a narrow terminal's lines. */
static void
table_put_lines(const char *text, FILE *out)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        size_t rest = length;

        while (rest > 0 && text[rest - 1] == ' ')
            rest--;
        fwrite(text, 1, rest, out);
        text += length;
        if (*text == '\n')
            putc(*text++, out);
    }
}

/* What the terminal has no room for. */
static void
table_put_left_out(const struct report_item *item, const struct report_layout *layout, FILE *out)
{
    bool any = false;

    for (size_t c = 0; c < item->column_count; c++) {
        if (!layout->left_out[c] || item->columns[c].title[0] == '\0')
            continue;
        fprintf(out, any ? ", %s" : "A wider terminal also shows: %s", item->columns[c].title);
        any = true;
    }
    if (any)
        putc('\n', out);
}

/* libsmartcols escapes what is no printable character. */
static int
table_print(const struct report_item *item, const struct report_layout *layout, FILE *out, bool color)
{
    struct libscols_table *table = table_create(item, layout, color);
    char *text = NULL;
    size_t length;
    FILE *lines = open_memstream(&text, &length);
    int result = table != NULL && lines != NULL ? 0 : -1;

    for (size_t row = 0; result == 0 && row < item->row_count; row++)
        result = table_add(table, item, layout, row);
    if (result == 0) {
        scols_table_set_stream(table, lines);
        result = scols_print_table(table) == 0 ? 0 : -1;
    }
    if (lines != NULL && fclose(lines) != 0)
        result = -1;
    if (result == 0)
        table_put_lines(text, out);
    free(text);
    scols_unref_table(table);
    return result;
}

static int
table_write(const struct report_item *item, FILE *out, bool color, size_t screen)
{
    struct report_layout layout;
    int result;

    if (!report_layout_make(item, screen, &layout))
        return -1;
    result = table_print(item, &layout, out, color);
    if (result == 0)
        table_put_left_out(item, &layout, out);
    report_layout_free(&layout);
    return result;
}

/* The characters of a line of the terminal; 0: it is none. */
static size_t
table_screen(void)
{
    struct winsize screen;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &screen) == 0 ? screen.ws_col : 0;
}

static size_t
field_width(const struct report *report)
{
    size_t width = 0;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (item->kind == REPORT_ITEM_FIELD && item->columns->title != NULL && strlen(item->columns->title) > width)
            width = strlen(item->columns->title);
    }
    return width + 2;
}

static bool
item_is_seen(const struct report *report, const struct report_item *item)
{
    if (!report_shows(report, item))
        return false;
    if (item->kind == REPORT_ITEM_FIELD)
        return item->columns->title != NULL && item->cells->there;
    if (item->kind != REPORT_ITEM_TABLE)
        return true;
    return report_layout_has_any(item);
}

/* Words in lines of a terminal of `screen` characters, behind `indent` of them. False: no memory. */
static bool
table_put_prose(FILE *out, const char *words, size_t indent, size_t screen)
{
    bool narrow = screen < indent + TABLE_PROSE_LEAST;
    char *lines = narrow ? strdup(words) : stack_text_wrap(words, screen - indent, SIZE_MAX);
    char *line = lines;

    if (lines == NULL)
        return false;
    for (;;) {
        size_t length = narrow ? strlen(line) : strcspn(line, "\n");

        output_text(out, line, length);
        putc('\n', out);
        if (line[length] == '\0')
            break;
        fprintf(out, "%*s", (int)indent, "");
        line += length + 1;
    }
    free(lines);
    return true;
}

int
report_write_table(const struct report *report, FILE *out)
{
    bool color = report_has_color(report);
    size_t width = field_width(report);
    size_t screen = table_screen();
    int before = -1; /* the kind of the item before; an empty line stands between two kinds and between two tables */
    char buffer[64];

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];
        const char *words;

        if (!item_is_seen(report, item))
            continue;
        if (before >= 0 && (before != (int)item->kind || item->kind == REPORT_ITEM_TABLE))
            putc('\n', out);
        before = (int)item->kind;
        switch (item->kind) {
        case REPORT_ITEM_FIELD:
            words = report_words(item->columns, item->cells, buffer, sizeof(buffer));
            fprintf(out, "%-*s", (int)width, item->columns->title);
            if (!table_put_prose(out, words, width, screen))
                return -1;
            break;
        case REPORT_ITEM_TABLE:
            if (item->title != NULL)
                fprintf(out, color ? "\033[1m%s\033[0m\n" : "%s\n", item->title);
            if (table_write(item, out, color, screen) != 0)
                return -1;
            break;
        case REPORT_ITEM_NOTE:
            if (!table_put_prose(out, item->text, 0, screen))
                return -1;
            break;
        case REPORT_ITEM_LINES:
            fputs(item->text, out);
            break;
        }
    }
    return 0;
}
