/*
 * Reads JSON piece by piece, plain or gzip: a file of any size in little memory.
 */
#ifndef VIEWER_READ_JSON_PULL_H
#define VIEWER_READ_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlib.h>

/* How deep arrays and objects may lie in each other. */
#define JSON_PULL_DEPTH 256

enum json_token {
    JSON_OBJECT,     /* { */
    JSON_OBJECT_END, /* } */
    JSON_ARRAY,      /* [ */
    JSON_ARRAY_END,  /* ] */
    JSON_KEY,        /* pull->text */
    JSON_TEXT,       /* pull->text */
    JSON_INTEGER,    /* pull->integer; 64 bits, of which an unsigned one above INT64_MAX has all */
    JSON_OTHER,      /* a number that is no integer, true, false, null */
    JSON_END,
    JSON_FAILED, /* pull->message says why, with path and line */
};

struct json_pull {
    const char *path;      /* borrows */
    gzFile file;           /* owns; NULL: all of it is in the buffer */
    unsigned char *buffer; /* owns */
    size_t begin;
    size_t end;
    bool at_end;
    uint64_t line;
    bool in_object[JSON_PULL_DEPTH];
    unsigned depth;
    bool has_value; /* a value came before, in this array or object */
    bool has_comma; /* and a comma after it */
    bool has_key;   /* a key came before, and its value is next */
    char *text;     /* owns; without what JSON escapes in it; ends in NUL */
    size_t text_length;
    size_t text_capacity;
    int64_t integer;
    char message[512];
};

/* COMMAND_FINE, or COMMAND_WRONG after a message; json_pull_close in both cases. */
int json_pull_open(struct json_pull *pull, const char *path);

/* Read `text`, which is given up to json_pull_close. Such a text has no path. */
void json_pull_open_text(struct json_pull *pull, char *text);

enum json_token json_pull_next(struct json_pull *pull);

/* What is left of the value that began with `token`. False: pull->message says why. */
bool json_pull_skip(struct json_pull *pull, enum json_token token);

/* Bytes of the file that are behind, for a progress line. */
uint64_t json_pull_offset(const struct json_pull *pull);

void json_pull_close(struct json_pull *pull);

#endif
