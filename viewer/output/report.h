/*
 * What a command answers: fields, tables and notes, kept and then printed in one of several formats from the same
 * rows. Every row is kept, so a command bounds how many there are.
 *
 *     static const struct report_column columns[] = {
 *         { "tag", "TAG", REPORT_TEXT }, { "bytes", "BYTES", REPORT_SIZE },
 *     };
 *     report_table(report, "tags", "By tag", columns, 2);
 *     report_row(report, (struct report_cell[]){ cell_text("step/forward"), cell_unsigned(4096) });
 *     return report_print(report, status);
 */
#ifndef VIEWER_OUTPUT_REPORT_H
#define VIEWER_OUTPUT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum report_format {
    REPORT_TABLE, /* for people: sizes in IEC units */
    REPORT_JSON,  /* one object: fields, and an array of objects for each table */
    REPORT_JSONL, /* an object to a line, of the fields and of each row, with "table" first */
    REPORT_CSV,   /* the tables, a line with names and one for each row; an empty line between two */
    REPORT_MARKDOWN,
};

/* Of --format, in the order above. */
#define REPORT_FORMATS "table|json|jsonl|csv|md"

enum report_color {
    REPORT_COLOR_AUTO, /* on a terminal, where NO_COLOR is not set */
    REPORT_COLOR_ALWAYS,
    REPORT_COLOR_NEVER,
};

struct report_options {
    int format; /* enum report_format */
    int color;  /* enum report_color */
    bool no_pager;
    const char *only; /* borrows; the one table to print. NULL: everything */
    uint64_t limit;   /* rows of a table, for the command to keep to; UINT64_MAX: all */
};

/* How a value is shown to people. Programs get bytes, nanoseconds and shares of 1 as numbers. */
enum report_kind {
    REPORT_TEXT,
    REPORT_NAME,    /* a text that may be long: it stands last then, and in lines, for people */
    REPORT_STACK,   /* the same of a call stack, which people see without folders */
    REPORT_FIGURE,  /* a text that is a number */
    REPORT_COUNT,   /* a number as it is */
    REPORT_SIZE,    /* bytes, unsigned */
    REPORT_CHANGE,  /* bytes, signed, with the sign */
    REPORT_TIME,    /* ns */
    REPORT_SHARE,   /* real; 0.25 is 25% */
    REPORT_REAL,    /* real */
    REPORT_ADDRESS, /* hexadecimal for people */
    REPORT_FLAG,    /* yes or no */
};

struct report_column {
    const char *name;  /* of the field; NULL: only people see it */
    const char *title; /* for people; NULL: only programs see it */
    enum report_kind kind;
};

/* A value; all zeros is one that is not there: an empty cell, no field in JSON. */
struct report_cell {
    bool there;
    union {
        uint64_t integer; /* and int64_t, cast */
        double real;
        const char *text; /* borrowed by the call that takes the cell, and copied */
    };
};

static inline struct report_cell
cell_none(void)
{
    return (struct report_cell){ .there = false };
}

static inline struct report_cell
cell_unsigned(uint64_t value)
{
    return (struct report_cell){ .there = true, .integer = value };
}

static inline struct report_cell
cell_signed(int64_t value)
{
    return (struct report_cell){ .there = true, .integer = (uint64_t)value };
}

static inline struct report_cell
cell_real(double value)
{
    return (struct report_cell){ .there = true, .real = value };
}

static inline struct report_cell
cell_text(const char *value)
{
    return (struct report_cell){ .there = value != NULL, .text = value };
}

static inline struct report_cell
cell_flag(bool value)
{
    return (struct report_cell){ .there = true, .integer = value };
}

/* `part` of `whole`; not there where `whole` is 0. */
static inline struct report_cell
cell_share(double part, double whole)
{
    return (struct report_cell){ .there = whole != 0, .real = whole != 0 ? part / whole : 0 };
}

/* Whether a cell of the kind has a text of its own. */
static inline bool
report_is_text(enum report_kind kind)
{
    return kind <= REPORT_FIGURE;
}

struct report_item;

struct report {
    struct report_options options;
    const char *name;          /* borrows; of the command */
    struct report_item *items; /* owns; in the order in which they were added */
    size_t count;
    size_t capacity;
    bool failed; /* no memory: said by report_print */
};

void report_begin(struct report *report, const struct report_options *options, const char *name);
void report_end(struct report *report);

/* A value of its own. `name` and `title` are those of struct report_column, and borrowed until report_end. */
void report_field(struct report *report, const char *name, const char *title, enum report_kind kind,
                  struct report_cell cell);

/* Begin a table; rows follow. `name` is its field in JSON, `title` (NULL: none) a heading. All are borrowed. */
void report_table(struct report *report, const char *name, const char *title, const struct report_column *columns,
                  size_t column_count);

/*
 * What people do without where a terminal is too narrow for the table that was begun last: names of columns with blanks
 * between them (borrowed), the first to go first.
 */
void report_spare(struct report *report, const char *names);

/* A row of the table that was begun last: a cell for each of its columns. */
void report_row(struct report *report, const struct report_cell *cells);

/* A sentence: a line for people, one of the texts of "notes" for programs. */
void report_note(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Lines that only people get, such as a drawing. */
void report_lines(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A value for people. Returns what is to be shown: `buffer`, or the cell's own text. */
const char *report_words(enum report_kind kind, const struct report_cell *cell, char *buffer, size_t size);

/* Print everything, through a pager where a terminal would scroll. `status`, or COMMAND_WRONG after a message. */
int report_print(const struct report *report, int status);

/* Whether what is printed may have colours. */
bool report_has_color(const struct report *report);

#endif
