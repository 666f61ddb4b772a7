/* Lists of stretches: which stream each byte of free memory was freed on, and when. No locks: the caller has one. */
#ifndef TIDEI_SUBALLOC_FREED_RUNS_H
#define TIDEI_SUBALLOC_FREED_RUNS_H

#include "src/suballoc/slab.h"
#include "src/suballoc/streams.h"

struct tidei_stretch_store {
    struct tidei_store items;
    struct tidei_streams *streams; /* borrowed; each stretch holds its stream */
};

static inline void
tidei_stretch_store_init(struct tidei_stretch_store *store, struct tidei_streams *streams)
{
    tidei_store_init(&store->items, sizeof(struct tidei_stretch), NULL);
    store->streams = streams;
}

/* A new one, in no list; there is room for it. */
struct tidei_stretch *tidei_stretch_new(struct tidei_stretch_store *store, uint64_t bytes, uint32_t stream,
                                        uint64_t epoch);
void tidei_stretch_free(struct tidei_stretch_store *store, struct tidei_stretch *stretch);
void tidei_stretches_free(struct tidei_stretch_store *store, struct tidei_stretches *list);

/*
 * Put `more`, which is empty then, behind `list`; neither is empty. Where both meet on one stream they are one stretch,
 * as late as the later one.
 */
void tidei_stretches_join(struct tidei_stretch_store *store, struct tidei_stretches *list,
                          struct tidei_stretches *more);

/* Move the last `bytes` of `from` into `to`, which is empty. Takes one stretch from the store at most. */
void tidei_stretches_move_last(struct tidei_stretch_store *store, struct tidei_stretches *from, uint64_t bytes,
                               struct tidei_stretches *to);

/* Have what was freed up to `epoch` belong to `stream`, as if it had been freed now. */
void tidei_stretches_settle(struct tidei_stretch_store *store, struct tidei_stretches *list, uint64_t epoch,
                            uint32_t stream);

#endif
