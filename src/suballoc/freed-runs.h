/* Lists of freed runs: on which stream each byte of free memory was freed, and when. The caller holds a lock. */
#ifndef TIDEI_SUBALLOC_FREED_RUNS_H
#define TIDEI_SUBALLOC_FREED_RUNS_H

#include "src/suballoc/slab.h"
#include "src/suballoc/streams.h"

struct tidei_freed_run_slab {
    struct tidei_slab items;
    struct tidei_streams *streams; /* borrowed; each freed run holds its stream */
};

static inline void
tidei_freed_run_slab_init(struct tidei_freed_run_slab *slab, struct tidei_streams *streams)
{
    tidei_slab_init(&slab->items, sizeof(struct tidei_freed_run), NULL);
    slab->streams = streams;
}

/* A new freed run, in no list; the caller has reserved room for it. */
struct tidei_freed_run *tidei_freed_run_new(struct tidei_freed_run_slab *slab, uint64_t bytes, uint32_t stream,
                                            uint64_t epoch);
void tidei_freed_run_free(struct tidei_freed_run_slab *slab, struct tidei_freed_run *freed_run);
void tidei_freed_runs_free(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *list);

/*
 * Move all runs of `more` behind those of `list`; neither is empty. Where the last run of `list` and the first of
 * `more` were freed on one stream they become one run, with the later epoch of the two.
 */
void tidei_freed_runs_join(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *list,
                           struct tidei_freed_runs *more);

/* Move the last `bytes` of `from` into `to`, which is empty. Takes at most one freed run from the slab. */
void tidei_freed_runs_move_last(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *from, uint64_t bytes,
                                struct tidei_freed_runs *to);

/* Assign the runs that were freed up to `epoch` to `stream`, as if they had been freed now. */
void tidei_freed_runs_settle(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *list, uint64_t epoch,
                             uint32_t stream);

#endif
