/*
 * Blocks of data: columns of numbers, or JSON. In a page a block is compressed and stands in an element of its own;
 * else it stands in the manifest as it is. doc/report.md describes both.
 */
#ifndef VIEWER_REPORT_BLOCK_H
#define VIEWER_REPORT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/output/json.h"

enum column_code { COLUMN_U8, COLUMN_VARINT, COLUMN_DELTA };

/* A column. `value` is asked for each row in order; signed numbers are cast. */
struct column {
    const char *name;
    enum column_code code;
    uint64_t (*value)(const void *context, size_t column, size_t row);
};

/* The compressed data of a block. */
struct block {
    char *bytes; /* owns */
    size_t count;
};

/* The manifest as it is written, and the blocks that it refers to. */
struct blocks {
    struct emit text;   /* owns: the manifest */
    struct json json;   /* writes into it */
    bool are_inline;    /* the blocks stand in the manifest */
    struct block *list; /* owns; of the elements b0, b1, ... */
    size_t count, capacity;
    size_t looked, escapes; /* bytes of the text that blocks_bytes has gone through, and those escaped among them */
    bool failed;            /* no memory */
};

/* COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to free. */
int blocks_begin(struct blocks *blocks, bool are_inline);
void blocks_free(struct blocks *blocks);

/*
 * Write a block of columns as the value of the key before. The object is left open for further members: end it with
 * json_end.
 */
void blocks_columns(struct blocks *blocks, const struct column *columns, size_t column_count, size_t rows,
                    const void *context);

/* The bytes that a block of these columns has once it is compressed; 0: no memory. */
size_t blocks_measure(const struct column *columns, size_t column_count, size_t rows, const void *context);

/* Write a text that anyone may have chosen: its first 1,000 bytes, and "…" where it has more. */
void blocks_put_name(struct json *json, const char *text, size_t length);

/* The same with its first `most` bytes, 1,000 at most. */
void blocks_put_name_most(struct json *json, const char *text, size_t length, size_t most);

/* Forget what was written since `before` was a copy of *blocks. */
void blocks_rewind(struct blocks *blocks, const struct blocks *before);

/* What the manifest and the blocks take in a page by now. */
size_t blocks_bytes(struct blocks *blocks);

/* Write a text of JSON, `count` bytes, as the value of the key before. */
void blocks_text(struct blocks *blocks, const char *text, size_t count);

/* Write the elements of a page: the manifest and the blocks. */
void blocks_write(struct blocks *blocks, struct emit *out);

#endif
