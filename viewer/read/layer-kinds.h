/* What the viewer knows of each kind of layer: what it does with a request, its memory, and what bounds it. */
#ifndef VIEWER_READ_LAYER_KINDS_H
#define VIEWER_READ_LAYER_KINDS_H

#include <stdbool.h>
#include <stdint.h>

enum layer_role {
    LAYER_OTHER,   /* of an application: it may hold chunks, but nothing is known of it */
    LAYER_RECORDS, /* a log: hands each request on, and has a row for it */
    LAYER_PASSES,  /* hands each request on, or refuses it */
    LAYER_CUTS,    /* a suballocator: takes chunks from below and cuts them into blocks */
    LAYER_BASE,    /* has its memory from outside */
};

struct layer_kind {
    const char *name; /* NULL: of LAYER_OTHER */
    enum layer_role role;
    const char *memory;    /* of a base, in one word; NULL: that of its device, or its name */
    bool is_process;       /* a kind of memory of a whole process, which has one stack for each; `memory` is the kind */
    bool is_tracked;       /* what the base holds is memory of its device, and the process's own */
    bool has_bound;        /* the next ones are valid */
    const char *bound_key; /* the argument that bounds it: "maximum"; NULL: the device alone does */
    bool bound_is_first;   /* it may stand without its key */
    bool is_of_device;     /* without that argument its device bounds it */
    const char *rounder;   /* the argument with the rounding of each request; NULL: none */
    uint64_t rounding;     /* where that argument is missing */
    uint64_t least_rounding;
};

/* The kind of a layer of that name with these arguments; where there is none, one of LAYER_OTHER. */
const struct layer_kind *layer_kind_find(const char *name, const char *config);

/*
 * Whether a text has no words but those of the kinds and of their memory, and numbers: "1 log, GPU 0 + pinned". A kind
 * of a program's own is none of them.
 */
bool layer_kind_is_words(const char *text);

/* A number for each kind, and the kind with a number. */
unsigned layer_kind_number(const struct layer_kind *kind);
const struct layer_kind *layer_kind_at(unsigned number);

/* What the memory of a base of this kind is called: the kind of a process's memory, else the layer's name. */
const char *layer_kind_word(const struct layer_kind *kind);

#endif
