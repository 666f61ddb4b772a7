/* The stacks that are tried: first a coarse choice, then others around the best. */
#ifndef VIEWER_RECOMMEND_CANDIDATES_H
#define VIEWER_RECOMMEND_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/recommend/costs.h"
#include "viewer/recommend/traffic.h"

/* Stacks that differ in a growth alone. */
enum candidate_family {
    CANDIDATE_POOL,
    CANDIDATE_UNCACHED,
    CANDIDATE_SMALL_APART,
    CANDIDATE_FAMILIES,
};

struct candidate {
    char *text;  /* owns; for TIDEMARK_STACK */
    char *model; /* owns; the same over models of memory, with counters */
    enum cost_base base;
    enum candidate_family family;
    uint64_t growth; /* what the pool of the family asks the base for at a time; 0: it is of none */
    bool is_now;     /* the recorded stack, or else the default */
    bool is_given;   /* by the user */
};

struct candidates {
    struct candidate *items; /* owns */
    size_t count;
    size_t capacity;
    uint64_t device_capacity; /* of each base; 0: any */
    bool bases[COST_BASES];   /* which are tried */
};

/*
 * Add the coarse choice, until there are `most` candidates: for each base that is tried none, `pool` as it is and with
 * several growths and thresholds, pools for small requests beside one for large ones, `arena`, and fitted bins. False
 * after a message: no memory.
 */
bool candidates_begin(struct candidates *list, size_t most, const struct traffic *traffic, size_t traffic_count);

/*
 * Add a stack as it is written. COMMAND_FINE; COMMAND_FINDING where it cannot be tried (*why says why, of at least 256
 * bytes); COMMAND_WRONG after a message.
 */
int candidates_add_text(struct candidates *list, const char *text, bool is_now, char why[256]);

/* The candidate with this text; NULL: none. */
struct candidate *candidates_find(const struct candidates *list, const char *text);

/*
 * Add stacks with growths between those of the candidates of which `is_best` is set and their neighbours in the family,
 * `most` at the most. Returns how many were added; -1 after a message.
 */
int candidates_refine(struct candidates *list, const bool *is_best, size_t most);

void candidates_free(struct candidates *list);

#endif
