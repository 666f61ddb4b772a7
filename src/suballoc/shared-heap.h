/*
 * A supply as a resource: what the arenas of `arena` have for an upstream. Whoever it serves asks for and frees what a
 * supply can, so that nothing is checked twice.
 */
#ifndef TIDEI_SUBALLOC_SHARED_HEAP_H
#define TIDEI_SUBALLOC_SHARED_HEAP_H

#include "src/suballoc/chunk-heap.h"

struct tidei_source {
    struct tide_resource base;
    struct tidei_supply supply; /* over the same upstream */
    uint64_t capacity_bytes;    /* what it says to whom it serves */
    void *context;              /* borrowed; for `gather` of the options */
};

/* With one reference in base, for the caller. Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_source_create(struct tide_resource *upstream, const struct tidei_supply_options *options,
                                     uint64_t capacity_bytes, void *context, struct tidei_source **out);

/* The one that has this supply. */
static inline struct tidei_source *
tidei_source_of(struct tidei_supply *supply)
{
    return (struct tidei_source *)(void *)((char *)supply - offsetof(struct tidei_source, supply));
}

#endif
