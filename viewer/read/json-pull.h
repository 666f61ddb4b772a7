/*
 * A pull parser for JSON, plain or gzip: reads a file of any size token by token, in little memory. The values of a
 * pickle come as the same tokens.
 */
#ifndef VIEWER_READ_JSON_PULL_H
#define VIEWER_READ_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlib.h>

#include "viewer/read/pickle.h"

/* The most arrays and objects that may be nested. */
#define JSON_PULL_DEPTH 256

enum json_token {
    JSON_OBJECT,     /* { */
    JSON_OBJECT_END, /* } */
    JSON_ARRAY,      /* [ */
    JSON_ARRAY_END,  /* ] */
    JSON_KEY,        /* pull->text */
    JSON_TEXT,       /* pull->text */
    JSON_INTEGER,    /* pull->integer; a number above INT64_MAX has the bits of the uint64_t */
    JSON_OTHER,      /* a number that is not an integer, true, false, null */
    JSON_END,
    JSON_FAILED, /* pull->message says why, with path and line */
};

struct json_pull {
    const char *path;      /* borrows */
    gzFile file;           /* owns */
    unsigned char *buffer; /* owns */
    size_t begin;
    size_t end;
    bool at_end;
    uint64_t line;
    bool in_object[JSON_PULL_DEPTH];
    unsigned depth;
    bool has_value; /* this array or object has had a value */
    bool has_comma; /* and a comma followed it */
    bool has_key;   /* the last token was a key; its value is next */
    char *text;     /* owns; with escapes resolved; ends in NUL */
    size_t text_length;
    size_t text_capacity;
    int64_t integer;
    char message[512];
    /* Of a pickle: the containers around the next value, and the place of that value in each. */
    const struct pickle *pickle; /* borrowed; NULL: JSON */
    const struct pickle_container *containers[JSON_PULL_DEPTH];
    size_t places[JSON_PULL_DEPTH];
    uint64_t tokens; /* so far */
};

/* COMMAND_FINE, or COMMAND_WRONG after a message. Call json_pull_close in both cases. */
int json_pull_open(struct json_pull *pull, const char *path);

/* Read the values of `pickle`, which is borrowed until json_pull_close. `path` is for messages. */
void json_pull_open_pickle(struct json_pull *pull, const char *path, const struct pickle *pickle);

enum json_token json_pull_next(struct json_pull *pull);

/* Skip the rest of the value that began with `token`. False: pull->message says why. */
bool json_pull_skip(struct json_pull *pull, enum json_token token);

void json_pull_close(struct json_pull *pull);

#endif
