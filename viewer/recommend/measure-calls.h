/*
 * Timed calls of a base, and what is done with their times: for what `tidemark devices --measure` measures of each.
 */
#ifndef VIEWER_RECOMMEND_MEASURE_CALLS_H
#define VIEWER_RECOMMEND_MEASURE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

#include "viewer/recommend/costs.h"

#define MIB (UINT64_C(1) << 20)

/* Sizes are powers of two from 2 MiB to 1 GiB: those of the chunks that pools ask for. */
#define MEASURE_SIZES 10

/* Blocks of a base at most. Once the large ones have their share, only so many of the smallest sizes follow. */
#define MEASURE_BLOCKS 512
#define MEASURE_MANY   4

/* Calls that are timed in each pass, where there are no blocks that say how many. */
#define MEASURE_TURNS 16

/* Passes. The least of their means counts, since what disturbs a pass only adds to it. */
#define MEASURE_PASSES 3

/* The share of a base's memory that is left for small requests, should each have a page of its own. */
#define MEASURE_SMALL_SHARE 4

/* The times of one call by size. */
struct measured {
    double ns[MEASURE_SIZES][4 * MEASURE_BLOCKS / MEASURE_MANY];
    size_t count[MEASURE_SIZES];
};

struct measure_block {
    void *pointer; /* NULL: none */
    unsigned size; /* 2 MiB << size */
};

/* A base that is measured. */
struct measure {
    struct tide_resource *base; /* owns */
    double clear_ns;            /* for each MiB; 0: nothing waits for that; < 0: not known */
    double reading_ns;          /* what reading the clock takes, which no call does */
    const char *text;           /* borrowed; of the base */
    const char *second_text;    /* borrowed; of another such base, in which nothing was before */
    char why[128];              /* why it is not measured; "": the error's text says it */
    uint64_t most_bytes;        /* that the base may have, and the second one beside it */
    unsigned sizes;             /* how many sizes that allows */
    struct measure_block blocks[MEASURE_BLOCKS];
    size_t count;
    uint64_t bytes; /* of the blocks */
    struct measured allocates, frees;
};

/* The bytes of a size. */
uint64_t measure_bytes(unsigned size);

/* The part of most_bytes that large blocks may have beside small ones. */
uint64_t measure_large_bytes(const struct measure *measure);

double measure_max(double one, double other);

/* The mean without the slowest of 16, for which `values` are sorted; 0 of none. */
double measure_mean(double *values, size_t count);

/* The median of at least one value, for which `values` are sorted. */
double measure_median(double *values, size_t count);

/* The mean of all sizes. */
double measure_mean_of(const struct measured *measured);

/* Keep the least of the passes. `pass`: its number, from 0. */
double measure_least(double least, double now, int pass);

/* The same for the mean of each size; both are sorted. */
void measure_keep_least(struct measured *least, struct measured *now);

/* Add a time; what a size has no room for is left out. */
void measure_add(struct measured *measured, unsigned size, double ns);

/* Fit ns + ns_per_mib * MiB to the means of the sizes, for which the times are sorted. Of one size: no ns_per_mib. */
struct cost measure_fit(struct measured *measured);

/* What one cost has on top of others; never less than nothing. */
struct cost measure_less(struct cost whole, double ns, double ns_per_mib);

/* Timed calls; *ns is what they took. *out is for measure_free. False: the call has failed, with the error text. */
bool measure_allocate(struct measure *measure, uint64_t bytes, void **out, double *ns);
bool measure_free(struct measure *measure, void *pointer, uint64_t bytes, double *ns);

/* Give free memory back until `keep_bytes` are left, once its work is done. *mib is how much it was. */
bool measure_trim(struct measure *measure, uint64_t keep_bytes, double *ns, double *mib);

/* Wait until so much that went back is cleared; 20 ms while the speed of that is not known. */
void measure_settle(const struct measure *measure, double mib);

/* The i-th of so many places, at least one, in an order in which neighbours are far apart. */
size_t measure_visit(size_t i, size_t count);

/* Allocate one of the blocks, or free it; the time goes to `times`. */
bool measure_fill_block(struct measure *measure, struct measure_block *block, struct measured *times);
bool measure_empty_block(struct measure *measure, struct measure_block *block, struct measured *times);

/* Allocate all blocks. *sum is the ns that took. */
bool measure_fill(struct measure *measure, struct measured *times, double *sum);

/* Free all blocks. */
bool measure_empty(struct measure *measure);

/* Measure allocates and frees of blocks while others stay. */
bool measure_churn(struct measure *measure);

/* Measure COST_ALLOCATE and COST_FREE by requests that share pages with others, which stay. */
bool measure_small(struct measure *measure, struct cost out[COST_CALLS]);

#endif
