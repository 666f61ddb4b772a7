/*
 * The stacks of the account: one for each device and each kind of memory, made from the same text when the first block
 * of its kind is allocated. They stay for ever.
 */
#ifndef TIDEI_PROCESS_STACKS_H
#define TIDEI_PROCESS_STACKS_H

#include <stdbool.h>

#include <tidemark/process.h>

#include "src/process/base.h"
#include "src/cuda/driver-table.h"

struct tidei_process_stack {
    struct tide_resource *top;  /* holds a reference */
    struct tide_resource *base; /* borrowed: its base `process`; NULL: memory comes from the text's own base */
    enum tidei_process_kind kind;
    int device;
};

/* Keep what the program's user wants, checked. Errors: those of tide_process_start. */
enum tide_status tidei_process_stacks_start(const struct tide_process_options *options);

/* Undo tidei_process_stacks_start, of which nothing was used. */
void tidei_process_stacks_forget(void);

/* The slow path of tidei_process_stack: make it. NULL: it cannot be made, which the message sink was told once. */
struct tidei_process_stack *tidei_process_stack_make(int device, enum tidei_process_kind kind);

extern _Atomic(struct tidei_process_stack *) tidei_process_stacks[][TIDEI_PROCESS_KINDS];

/* The stack of a device, below the number of devices, and a kind. */
static inline struct tidei_process_stack *
tidei_process_stack(int device, enum tidei_process_kind kind)
{
    /* Acquire: pairs with the release in tidei_process_stack_make. */
    struct tidei_process_stack *stack = atomic_load_explicit(&tidei_process_stacks[device][kind], memory_order_acquire);

    return __builtin_expect(stack != NULL, 1) ? stack : tidei_process_stack_make(device, kind);
}

/*
 * A context is about to end, and its blocks were freed: the stacks of plain memory that have memory of it give it back
 * and are not used any more, as what a layer keeps of a context is of no use without it. They stay, for the blocks of
 * other contexts.
 */
void tidei_process_stacks_end(CUcontext context);

/*
 * Whether memory of a kind is refused where its stack cannot be made: what a limit holds for is not had without one.
 */
bool tidei_process_refuses(enum tidei_process_kind kind);

/* Whether plain memory comes from the text's own base. */
bool tidei_process_redirects(void);

/* Whether a limit holds for the device, what it is, and how much of it is used now. */
bool tidei_process_limit(int device, uint64_t *limit_bytes, uint64_t *used_bytes);

#endif
