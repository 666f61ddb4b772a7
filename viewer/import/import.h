/*
 * The common part of all imports: takes the events of another program's recording in order, pairs frees with their
 * allocations, and writes a trace. The rows go into a temporary file, so that a trace is never partial.
 */
#ifndef VIEWER_IMPORT_IMPORT_H
#define VIEWER_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "src/tables/lives.h"
#include "src/trace/database/insert.h"
#include "viewer/base/id-map.h"
#include "viewer/base/temporary.h"

/* A log layer of the new trace. */
struct import_layer {
    int64_t layer_id;
    int64_t device;        /* -1: none */
    uint64_t alignment;    /* of its allocations */
    struct id_map streams; /* owns; ids by handle */
};

/* One event. Its time is set by import_time, since times of an input may be missing, equal or go back. */
struct import_event {
    unsigned layer; /* from 0, as import_layer gave it */
    uint64_t address;
    uint64_t size; /* of a free: IMPORT_SIZE_UNKNOWN where the input does not say */
    uint64_t thread;
    uint64_t stream;
    int64_t tag_id; /* 0: none */
    int64_t duration_ns;
};

#define IMPORT_SIZE_UNKNOWN UINT64_MAX

struct import_life;

struct import {
    sqlite3 *db;                /* owns */
    char *path;                 /* owns; of the trace */
    struct temporary temporary; /* the file until it is renamed to `path` */
    bool overwrite;
    struct tidei_inserts inserts; /* owns */
    struct import_layer *layers;  /* owns */
    unsigned layer_count;
    size_t layer_capacity;
    int64_t layer_ids;         /* rows of `layer` so far; the last is the base of the stack added last */
    struct tidei_lives live;   /* owns; slots of `lives` + 1, by address and number of the layer */
    struct import_life *lives; /* owns; of what is live; by slot */
    size_t slot_count;
    size_t slot_capacity;
    uint32_t first_free;   /* slot + 1; 0: none */
    struct id_map threads; /* owns; ids by the input's */
    int64_t thread_ids;
    int64_t stream_ids;
    int64_t tag_ids;
    int64_t allocation_ids;
    int64_t allocation_id; /* of the last event; 0: none */
    int64_t last_ns;       /* of the last event */
    int64_t latest_ns;     /* the latest time that the input named */
    uint64_t bytes;        /* of all allocations, each rounded up: see import_adds_up */
    uint64_t events;       /* in all */
    uint64_t guessed;      /* times that were missing, unreadable or went back */
    uint64_t unmatched;    /* frees of addresses that were not live */
    uint64_t replaced;     /* allocations at a live address: the free before is missing */
    uint64_t mismatched;   /* frees that named another size */
    uint64_t unreadable;   /* invalid records */
    bool has_huge;         /* a size that no device has was named */
    uint64_t cut_off;      /* 1: the input ends in the middle */
};

/* The formats, in the order of --help. The first is used if no format recognises the input. */
#define IMPORT_FORMATS(each) each(rmm) each(nsys) each(pytorch)

struct import_format {
    const char *name;
    const char *purpose;                 /* one line, for --help */
    bool (*recognise)(const char *path); /* by the first bytes of a file; NULL: never */
    /*
     * Add all events of the input to the trace. *start_unix_ns is 0 before; when the trace begins, where that is known.
     * COMMAND_FINE, or another exit status after a message.
     */
    int (*run)(struct import *import, const char *path, uint64_t *start_unix_ns);
};

#define IMPORT_DECLARE(name) extern const struct import_format import_##name;
IMPORT_FORMATS(IMPORT_DECLARE)
#undef IMPORT_DECLARE

/* Whether the file at `path` has a trace's application id. `follow`: also if the path is a symbolic link to it. */
bool import_is_trace(const char *path, bool follow);

/*
 * Begin a trace at `path`. An existing trace there is replaced only with `overwrite`; any other file never is.
 * COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to abandon.
 */
int import_begin(struct import *import, const char *path, bool overwrite);

/* Insert a row: see insert.h. The formats insert what the functions below do not. COMMAND_FINE, or COMMAND_WRONG. */
#define import_row(import, table, ...) import_inserted((import), tidei_insert(&(import)->inserts, table, __VA_ARGS__))
int import_inserted(const struct import *import, int code);

/*
 * Add a stack of a log layer and what is below it, all on `device` (-1: none): `kinds` has the kinds from the top down,
 * blanks between them, and each `log` in it is a layer that events may name. The number of the first of them goes to
 * *first, the others follow. `config` is that of the last kind.
 */
int import_layers(struct import *import, const char *kinds, const char *config, int64_t device, uint64_t alignment,
                  unsigned *first);

/*
 * Set the time of all events added until the next call. It is at least 1 ns after the previous event, so that the trace
 * keeps the input's order (a trace puts allocations before frees of the same time). A time that is not `known` is
 * guessed to be right after the previous event.
 */
void import_time(struct import *import, bool known, int64_t ns);

/* Add an allocation, one that failed, or a free, and set allocation_id. COMMAND_FINE, or COMMAND_WRONG. */
int import_alloc(struct import *import, const struct import_event *event);
int import_failure(struct import *import, const struct import_event *event);
int import_free(struct import *import, const struct import_event *event);

/* Whether the address is live on the layer. */
bool import_is_live(const struct import *import, unsigned layer, uint64_t address);

/* The trace's id of a thread of the input. 0: a message was printed. */
int64_t import_thread(struct import *import, uint64_t thread);

/* A tag below `parent` (0: none). 0: a message was printed. */
int64_t import_tag(struct import *import, int64_t parent, const char *name);

/*
 * Write the live allocations, the losses and the metadata; `from` names the format and `source` the input. Prints on
 * standard error what was skipped. COMMAND_FINE; COMMAND_INCOMPLETE if the trace lacks part of the input;
 * COMMAND_WRONG after a message, and there is no trace.
 */
int import_finish(struct import *import, const char *from, const char *source, uint64_t start_unix_ns);

/* Discard the trace. */
void import_abandon(struct import *import);

#endif
