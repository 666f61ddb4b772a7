/*
 * The answer of a command: fields, tables and notes. A report keeps them in memory and then prints them in one of
 * several formats. It keeps every row, so each command must bound its number of rows.
 *
 *     static const struct report_column columns[] = {
 *         { "tag", "TAG", REPORT_TEXT }, { "bytes", "BYTES", REPORT_SIZE },
 *     };
 *     REPORT_TABLE(report, "tags", "By tag", columns);
 *     REPORT_ROW(report, cell_text("step/forward"), cell_unsigned(4096));
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
    REPORT_JSONL, /* one object a line: the fields, then each row with "table" as its first member */
    REPORT_CSV,   /* the tables, each with a header line and a line for each row; an empty line between tables */
    REPORT_MARKDOWN,
};

/* The choices of --format, in the order of enum report_format. */
#define REPORT_FORMATS "table|json|jsonl|csv|md"

enum report_color {
    REPORT_COLOR_AUTO, /* on a terminal, unless NO_COLOR is set */
    REPORT_COLOR_ALWAYS,
    REPORT_COLOR_NEVER,
};

struct report_options {
    int format; /* enum report_format */
    int color;  /* enum report_color */
    bool no_pager;
    const char *only; /* borrows; the name of the only table to print; NULL: print everything */
    uint64_t limit;   /* the most rows that the command may add to a table; UINT64_MAX: no limit */
};

/* How a table shows a value. JSON and CSV have plain numbers: bytes, nanoseconds, shares of 1. */
enum report_kind {
    REPORT_TEXT,
    REPORT_NAME,    /* a text that may be long: a table then shows it wrapped in the last column */
    REPORT_STACK,   /* the same for a call stack: without folders in a table, an array of its frames in JSON */
    REPORT_FIGURE,  /* a text that is a number */
    REPORT_COUNT,   /* a plain number */
    REPORT_SIZE,    /* bytes, unsigned */
    REPORT_CHANGE,  /* bytes, signed; always shown with the sign */
    REPORT_TIME,    /* ns */
    REPORT_SHARE,   /* real; 0.25 is 25% */
    REPORT_REAL,    /* real */
    REPORT_ADDRESS, /* hexadecimal for people */
    REPORT_FLAG,    /* yes or no; 0 is no */
};

struct report_column {
    const char *name;  /* of the field in JSON and CSV; NULL: not there */
    const char *title; /* of the column in tables and Markdown; NULL: not there */
    enum report_kind kind;
};

/* A value. All zeros is a missing value: an empty cell, null in JSON. */
struct report_cell {
    bool there;
    bool exact; /* a size is shown in bytes, since another row of its column would read the same; set by report_print */
    union {
        uint64_t integer; /* signed kinds cast it to int64_t */
        double real;
        const char *text; /* copied by the call that takes the cell */
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

/* An id of a trace; 0 is a missing value. */
static inline struct report_cell
cell_id(int64_t value)
{
    return (struct report_cell){ .there = value != 0, .integer = (uint64_t)value };
}

/* `part` of `whole`; a missing value if `whole` is 0. */
static inline struct report_cell
cell_share(double part, double whole)
{
    return (struct report_cell){ .there = whole != 0, .real = whole != 0 ? part / whole : 0 };
}

/* Whether cells of this kind hold a text. */
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
    bool failed; /* no memory; report_print says so */
};

void report_begin(struct report *report, const struct report_options *options, const char *name);
void report_end(struct report *report);

/* Add a single value. `name` and `title` are as in struct report_column, and borrowed until report_end. */
void report_field(struct report *report, const char *name, const char *title, enum report_kind kind,
                  struct report_cell cell);

/* Add a text that only tables and Markdown have. `title` is borrowed until report_end. */
void report_label(struct report *report, const char *title, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Begin a table. `name` is its member in JSON, `title` (NULL: none) its heading. The columns are copied; the texts are
 * borrowed.
 */
void report_table(struct report *report, const char *name, const char *title, const struct report_column *columns,
                  size_t column_count);
#define REPORT_TABLE(report, name, title, columns)                                                                     \
    report_table((report), (name), (title), (columns), sizeof(columns) / sizeof((columns)[0]))

/* Say that the last table lacks `count` rows that a limit left out, with `bytes` (or none) in them. */
void report_rest(struct report *report, uint64_t count, struct report_cell bytes);

/* Add a table that was not asked for, or has nothing to say: JSON alone has it, without rows. */
void report_no_table(struct report *report, const char *name);

/* Replace a column of the last table. One without name and title is shown nowhere. */
void report_set_column(struct report *report, size_t place, struct report_column column);

/*
 * Name the columns that a terminal too narrow for the last table leaves out: names separated by blanks (borrowed), in
 * the order in which they are left out, the least important first; "#3" is the column of that place, from 0, for those
 * without a name. What is not named says what a row is, and is the main figure of the command.
 */
void report_spare(struct report *report, const char *names);

/* Never leave this column out (borrowed), although it is spare: the figure that was asked for. */
void report_keep(struct report *report, const char *name);

/* Add a row to the last table: a cell for each of its columns. */
void report_row(struct report *report, const struct report_cell *cells);
#define REPORT_ROW(report, ...) report_row((report), (const struct report_cell[]){ __VA_ARGS__ })

/* Add a sentence: a line in tables and Markdown, an element of "notes" in JSON. */
void report_note(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Add lines that only tables and Markdown have, such as a drawing. */
void report_lines(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Print the report, through a pager if it is longer than the screen. Where two sizes of a column differ and would read
 * the same, people get both in bytes. `status`, or COMMAND_WRONG after a message.
 */
int report_print(const struct report *report, int status);

struct emit;

/* Write the report as one JSON object and a line end, as report_print does with REPORT_JSON. */
void report_write_json(const struct report *report, struct emit *out);

/*
 * Take out all texts but those of the fields and columns that `keeps` lets stay, and the notes. Words of a fixed list
 * may stay, names that a program chose may not.
 */
void report_hide_texts(struct report *report, bool (*keeps)(const char *name, const char *text));

/* Format a value for a table. Returns `buffer`, or the cell's own text. */
const char *report_words(enum report_kind kind, const struct report_cell *cell, char *buffer, size_t size);

/* Whether the output may have colours. */
bool report_has_color(const struct report *report);

#endif
