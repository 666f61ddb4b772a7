/* What a base would have had the driver do, as `sim` counts it: see struct tide_sim_figures. */
#ifndef TIDEI_BASES_SIM_TALLY_H
#define TIDEI_BASES_SIM_TALLY_H

#include <tidemark/base.h>

#include "src/resource/resource.h"

/* Written under the lock of the model. */
struct tidei_sim_tally {
    _Atomic uint64_t grown, grown_bytes;
    _Atomic uint64_t returned, returned_bytes;
    _Atomic uint64_t high_bytes; /* the most that was reserved, with what is kept though it is free */
    _Atomic uint64_t kept, mapped, unmapped;
    _Atomic uint64_t trims;
    _Atomic uint64_t orders;  /* of any model, added to by any thread */
    tide_sim_watcher watcher; /* NULL: none; written while nobody uses the model */
    void *watcher_context;
};

static inline void
tidei_sim_tally_tell(const struct tidei_sim_tally *tally, enum tide_sim_event event, uint64_t amount)
{
    if (__builtin_expect(tally->watcher != NULL, 0))
        tally->watcher(tally->watcher_context, event, amount);
}

/* Memory came from the device, so that there are `reserved_bytes`. */
static inline void
tidei_sim_tally_grow(struct tidei_sim_tally *tally, uint64_t bytes, uint64_t reserved_bytes)
{
    tidei_figure_add(&tally->grown, 1);
    tidei_figure_add(&tally->grown_bytes, bytes);
    tidei_figure_raise(&tally->high_bytes, reserved_bytes);
    tidei_sim_tally_tell(tally, TIDE_SIM_GROWS, bytes);
}

/* Memory went back to it. */
static inline void
tidei_sim_tally_return(struct tidei_sim_tally *tally, uint64_t bytes)
{
    tidei_figure_add(&tally->returned, 1);
    tidei_figure_add(&tally->returned_bytes, bytes);
    tidei_sim_tally_tell(tally, TIDE_SIM_RETURNS, bytes);
}

/* So many handles are mapped. */
static inline void
tidei_sim_tally_map(struct tidei_sim_tally *tally, uint64_t count)
{
    tidei_figure_add(&tally->mapped, count);
    tidei_sim_tally_tell(tally, TIDE_SIM_MAPS, count);
}

/* So many mappings end. */
static inline void
tidei_sim_tally_unmap(struct tidei_sim_tally *tally, uint64_t count)
{
    tidei_figure_add(&tally->unmapped, count);
    tidei_sim_tally_tell(tally, TIDE_SIM_UNMAPS, count);
}

#endif
