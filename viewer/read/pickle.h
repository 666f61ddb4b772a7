/*
 * Reads a Python pickle of plain containers: dict, list, tuple, str, bytes, int, float, bool and None.
 *
 * Nothing is executed: a pickle that names a function or a class is refused. Values that the pickle shares are held
 * once, so the memory that it takes is a small multiple of the file's size.
 */
#ifndef VIEWER_READ_PICKLE_H
#define VIEWER_READ_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_type {
    PICKLE_NONE, /* also a bool, and an integer of more than 64 bits */
    PICKLE_INTEGER,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_LIST, /* or a tuple */
    PICKLE_DICT, /* its items are keys and values in turn */
};

struct pickle_text {
    struct pickle_text *next; /* of the same pickle */
    size_t length;
    char bytes[]; /* ends in NUL */
};

struct pickle_value {
    enum pickle_type type;
    union {
        int64_t integer; /* a number above INT64_MAX has the bits of the uint64_t */
        const struct pickle_text *text;
        struct pickle_container *container;
    };
};

struct pickle_container {
    struct pickle_container *next; /* of the same pickle */
    struct pickle_value *items;    /* owns */
    size_t count, capacity;
};

struct pickle {
    struct pickle_value root;
    uint64_t bytes; /* that were read */
    /* All below is owned. */
    struct pickle_text *texts;
    struct pickle_container *containers;
};

/* Whether the file, plain or gzip, begins as a pickle of protocol 2 or later does. */
bool pickle_recognise(const char *path);

/* Read the file. COMMAND_FINE, or COMMAND_WRONG after a message; pickle_free in both cases. */
int pickle_read(struct pickle *pickle, const char *path);

void pickle_free(struct pickle *pickle);

#endif
