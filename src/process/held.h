/*
 * The layer `held`, which stands over the bases of a stack that plain memory is redirected to: what the base has given
 * is known by its address, so that the driver is not asked to free what a layer above has cut.
 */
#ifndef TIDEI_PROCESS_HELD_H
#define TIDEI_PROCESS_HELD_H

#include "src/cuda/driver-table.h"
#include "src/resource/kind.h"

#ifdef HAVE_CUDA_H

/* Not in the table of all kinds. */
extern const struct tidei_kind tidei_held_kind;

/* Before a stack is made. */
void tidei_process_held_start(void);

/* Whether an address lies in what a base has given. Looks at all of it. */
bool tidei_process_held_covers(uint64_t address);

/*
 * The context of a stack has ended: no base of it is asked any more to free what has gone with the context. Memory of
 * `driver` and `vmm` has not: it stays, and is given back.
 */
void tidei_process_held_forget(struct tide_resource *top);

#endif
#endif
