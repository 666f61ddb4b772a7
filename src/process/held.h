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

/* What there is of a context has gone with it: no base is asked to free it any more. */
void tidei_process_held_forget(CUcontext context, int device);

#endif
#endif
