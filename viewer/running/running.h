/*
 * Running recordings: where they are found, what their gauge pages say, and what their traces say of the names. A trace
 * is read for some milliseconds at a time, and no transaction stays open.
 *
 *     struct running_list list = { .what = "tidemark watch", .arguments = folders, .count = 1, .most = 1024,
 *                                  .item_bytes = sizeof(struct running) };
 *
 *     if (running_find(&list, true) == COMMAND_FINE)
 *         for (size_t i = 0; i < list.list_count; i++)
 *             running_look(list.list[i]);
 *     running_free(&list);
 */
#ifndef VIEWER_RUNNING_RUNNING_H
#define VIEWER_RUNNING_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/gauge.h"

#define RUNNING_NAME_BYTES 256
#define RUNNING_NO_LIMIT   UINT64_MAX

/* A layer as the trace describes it. */
struct running_layer {
    uint32_t id;
    bool is_base;
    bool is_below; /* another recorded layer hands its requests down to it */
    char kind[32];
    char name[64];  /* "3 log (pool)", shown as it is */
    int64_t device; /* -1: none */
};

struct running_tag {
    uint32_t id;
    char *name; /* owned; with those around it: "step/forward" */
};

/* What the trace says. Empty until it has been read. */
struct running_names {
    char command[RUNNING_NAME_BYTES]; /* may hold anything, as the next ones and the names of tags */
    char hostname[64];
    char job[RUNNING_NAME_BYTES];
    char rank[24];
    uint64_t start_unix_ns;       /* 0: not known */
    uint64_t limit_bytes;         /* the least of the limits; RUNNING_NO_LIMIT: there is none */
    struct running_layer *layers; /* owned */
    size_t layer_count, layer_capacity;
    struct running_tag *tags; /* owned */
    size_t tag_count, tag_capacity;
    uint64_t asked_ns; /* when the trace was last read */
};

/* A recording. What a command has more of it goes behind this in a struct of its own. */
struct running {
    struct gauge_file file;
    struct gauge_look look;
    struct running_names names;
    bool was_seen;           /* `look` has had a page: the last one stays in `page` */
    bool is_over;            /* it is not looked at, until another recording has its name */
    struct tidei_gauge page; /* the last one; layers and pools in the order of their ids */
};

/* Of an argument: whether it is, or was, a folder, and why it cannot be read now; 0: it can. */
struct running_folder {
    bool is_folder;
    int error;
};

struct running_list {
    const char *what; /* the begin of messages: "tidemark watch" */
    char **arguments; /* borrowed: traces, folders, process ids */
    int count;
    size_t most;                            /* recordings; further ones are left out */
    size_t item_bytes;                      /* of a struct that begins with a struct running */
    void (*empty)(struct running *running); /* frees what that struct has more; NULL: nothing */
    struct running **list;                  /* owned; in the order in which they were found */
    size_t list_count, list_capacity;
    struct id_map places;           /* in the list, by hashes of paths */
    struct running_folder *folders; /* owned; of each argument */
    bool finds_again;               /* a trace that was named and taken out of the list is looked for again */
    bool finds_more;                /* a folder or a process may have more later */
    bool left_out;                  /* there were more than `most` */
};

/*
 * find.c: look for recordings. The first time says what is wrong with an argument, and returns COMMAND_WRONG then. A
 * folder that cannot be read any more later is told once.
 */
int running_find(struct running_list *list, bool first);

/* Take those out of the list of which `is_left` says so. COMMAND_WRONG after a message: no memory. */
int running_remove(struct running_list *list, bool (*is_left)(const struct running *running));
void running_free(struct running_list *list);

/* look.c: look at one. True: there is a page. */
bool running_look(struct running *running);

/* Whether a recorded layer counts: requests of others come down to it otherwise. Without names the first one does. */
bool running_is_outermost(const struct running *running, size_t place);

/* names.c: read what the trace says, where the page has what is not known yet; once a second at most. */
void running_read_names(struct running *running);
bool running_wants_names(const struct running *running);
const struct running_layer *running_layer(const struct running *running, uint32_t id);
const struct running_tag *running_tag(const struct running *running, uint32_t id); /* NULL: not known */

/* The name of a tag as it is shown. Returns `buffer`. */
const char *running_tag_name(const struct running *running, uint32_t id, char *buffer, size_t size);
void running_names_free(struct running_names *names);

#endif
