/* Lays a table out on a screen. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/output/report-layout.h"

/* A name longer than this is shown in the last column, so that it shifts no other column. */
#define LAYOUT_NAME 40

/* The characters that such a name should have of a terminal's line, and that it has at least. */
#define LAYOUT_NAME_WANTED 52
#define LAYOUT_NAME_LEAST  24

/* Whether a column is shown: it has a title (one without is for JSON and CSV alone) and is not empty. */
static bool
layout_has_column(const struct report_item *item, size_t c)
{
    bool filled = false;

    for (size_t row = 0; row < item->row_count && !filled; row++)
        filled = item->cells[row * item->column_count + c].there;
    return filled && item->columns[c].title != NULL;
}

bool
report_layout_has_any(const struct report_item *item)
{
    bool any = false;

    for (size_t c = 0; c < item->column_count && !any; c++)
        any = layout_has_column(item, c);
    return any;
}

/* The approximate width of a text in characters. */
static size_t
layout_text_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static size_t
layout_column_width(const struct report_item *item, size_t c)
{
    size_t width = layout_text_width(item->columns[c].title);
    char buffer[64];

    for (size_t row = 0; row < item->row_count; row++) {
        const struct report_cell *cell = &item->cells[row * item->column_count + c];
        size_t own =
            cell->there ? layout_text_width(report_words(item->columns[c].kind, cell, buffer, sizeof(buffer))) : 0;

        width = own > width ? own : width;
    }
    return width;
}

/* The column called `name`, of `length` letters; column_count: there is none. */
static size_t
layout_find(const struct report_item *item, const char *name, size_t length)
{
    size_t c = 0;

    while (c < item->column_count && (item->columns[c].name == NULL || strlen(item->columns[c].name) != length ||
                                      strncmp(item->columns[c].name, name, length) != 0))
        c++;
    return c;
}

/* Leave out spare columns until the table, of `total` characters, fits. Returns the width of what is left. */
static size_t
layout_spare(const struct report_item *item, size_t *widths, size_t total, size_t screen, bool *left_out)
{
    for (const char *name = item->spare; name != NULL && *name != '\0' && total > screen;) {
        size_t length = strcspn(name, " ");
        size_t c = layout_find(item, name, length);

        if (c < item->column_count && widths[c] > 0) {
            total -= widths[c] + 1;
            widths[c] = 0;
            left_out[c] = true;
        }
        name += length + (name[length] == ' ');
    }
    return total;
}

/*
 * Set the widths of the columns that are shown, 0 for the others, and *last to the column of a long name (column_count:
 * none). Returns the width of the table.
 */
static size_t
layout_widths(const struct report_item *item, size_t *widths, size_t *last)
{
    size_t total = 0;

    *last = item->column_count;
    for (size_t c = 0; c < item->column_count; c++) {
        if (!layout_has_column(item, c))
            continue;
        widths[c] = layout_column_width(item, c);
        /* A column with an empty title and empty cells still takes a character. */
        widths[c] = widths[c] > 0 ? widths[c] : 1;
        if (report_is_name(item->columns[c].kind) && widths[c] > LAYOUT_NAME &&
            (*last == item->column_count || widths[c] > widths[*last]))
            *last = c;
        total += widths[c] + 1;
    }
    return total > 0 ? total - 1 : 0;
}

bool
report_layout_make(const struct report_item *item, size_t screen, struct report_layout *out)
{
    size_t *widths = calloc(item->column_count + 1, sizeof(*widths));
    size_t last, total, name;

    *out = (struct report_layout){
        .columns = calloc(item->column_count + 1, sizeof(*out->columns)),
        .left_out = calloc(item->column_count + 1, sizeof(*out->left_out)),
    };
    if (widths == NULL || out->columns == NULL || out->left_out == NULL) {
        free(widths);
        report_layout_free(out);
        return false;
    }
    total = layout_widths(item, widths, &last);
    name = widths[last] < LAYOUT_NAME_WANTED ? widths[last] : LAYOUT_NAME_WANTED;
    total -= widths[last] - name;
    if (screen > 0)
        total = layout_spare(item, widths, total, screen, out->left_out);
    for (size_t c = 0; c < item->column_count; c++) {
        if (widths[c] > 0 && c != last)
            out->columns[out->count++] = c;
    }
    if (last < item->column_count) {
        out->columns[out->count++] = last;
        if (screen > 0)
            out->name_width = screen + name > total + LAYOUT_NAME_LEAST ? screen + name - total : LAYOUT_NAME_LEAST;
    }
    free(widths);
    return true;
}

void
report_layout_free(struct report_layout *layout)
{
    free(layout->columns);
    free(layout->left_out);
    *layout = (struct report_layout){ 0 };
}
