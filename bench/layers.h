/* The layers that bench/layers measures. */
#ifndef BENCH_LAYERS_H
#define BENCH_LAYERS_H

#include <tidemark/tidemark.h>

#define LAYERS_LIVE    100   /* blocks of each thread */
#define LAYERS_LARGEST 65536 /* bytes of a block */

struct bench_layer {
    const char *name;
    struct tide_resource *(*make)(unsigned threads); /* makes the layer over a base that costs almost nothing */
    unsigned pairs;                                  /* in a round; 0: the usual number */
};

/* Ends with a name of NULL. */
extern const struct bench_layer bench_layers[];

#endif
