/* Passes the program's calls through the stacks of the account. */
#include "config.h"

#include "src/process/account.h"

#ifdef HAVE_CUDA_H

#include <stdlib.h>

#include "src/process/devices.h"
#include "src/process/held.h"
#include "src/sync/fork.h"
#include "src/sync/inside.h"
#include "src/sync/testpoint.h"
#include "src/tables/grow.h"

/* What logs have as the alignment of each block; the driver gives at least that. */
#define ACCOUNT_ALIGNMENT TIDE_DEFAULT_ALIGNMENT

static struct tidei_entries account_blocks[TIDEI_PROCESS_NAMES];
static _Atomic bool account_started;
static uint32_t account_generation; /* of fork(), when the account has started */

void
tidei_process_account_start(void)
{
    for (unsigned i = 0; i < TIDEI_PROCESS_NAMES; i++)
        tidei_entries_init(&account_blocks[i], sizeof(struct tidei_process_block));
    tidei_presence_init(&tidei_process_calls);
    account_generation = tidei_fork_generation();
    /* Release: pairs with the acquire in tidei_process_passes. */
    atomic_store_explicit(&account_started, true, memory_order_release);
}

bool
tidei_process_passes(void)
{
    return tidei_inside_call() != NULL || !atomic_load_explicit(&account_started, memory_order_acquire) ||
           account_generation != tidei_fork_generation() || tidei_thread_get() == NULL;
}

/* Announce a call to the base, and make `pass`, an expression, pass through the stack. */
#define ACCOUNT_PASS(announced, pass)                                                                                  \
    __extension__({                                                                                                    \
        struct tidei_process_thread *mine_ = tidei_process_thread(tidei_thread);                                       \
        struct tidei_process_call *before_ = mine_->call;                                                              \
        enum tide_status passed_;                                                                                      \
                                                                                                                       \
        mine_->call = (announced);                                                                                     \
        passed_ = (pass);                                                                                              \
        mine_->call = before_;                                                                                         \
        passed_;                                                                                                       \
    })

/* What the program is told of a request that has failed. */
static CUresult
account_refusal(const struct tidei_process_call *call, const struct tidei_process_stack *stack, enum tide_status status)
{
    if (stack->base == NULL && status == TIDE_EDRIVER && tide_error_driver() != 0)
        return (CUresult)tide_error_driver();
    return call->result != CUDA_SUCCESS ? call->result : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Keep a new block. One that was there at its address is gone by a way that was not seen. */
static bool
account_keep(struct tidei_entries *table, uint64_t key, const struct tidei_process_block *block,
             struct tidei_presence_slot *slot)
{
    struct tidei_process_block stale;

    tidei_process_within(slot, NULL); /* it may be of any stack */
    if (tidei_entries_take(table, key, &stale))
        tidei_process_forget(&stale, key);
    return tidei_entries_put(table, key, block);
}

static CUresult
account_allocate(struct tidei_process_call *call, const struct tidei_process_what *what,
                 struct tidei_process_stack *stack, CUcontext context, struct tidei_presence_slot *slot)
{
    struct tidei_process_block block = { .stack = stack,
                                         .bytes = call->bytes,
                                         .stream = call->stream,
                                         .context = what->stays ? NULL : context,
                                         .holds = 1,
                                         .redirected = stack->base == NULL };
    enum tide_status status;
    void *key;

    tidei_process_within(slot, stack);
    status = ACCOUNT_PASS(call, tidei_allocate(stack->top, call->bytes, ACCOUNT_ALIGNMENT, call->stream, &key));
    if (status != TIDE_OK)
        return account_refusal(call, stack, status);
    if (account_keep(&account_blocks[what->names], (uintptr_t)key, &block, slot)) {
        if (block.redirected && call->redirected != NULL)
            *call->redirected = (uintptr_t)key;
        return CUDA_SUCCESS;
    }
    (void)ACCOUNT_PASS(call, tidei_deallocate(stack->top, key, block.bytes, ACCOUNT_ALIGNMENT, block.stream));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Memory for which no stack could be made. */
static CUresult
account_pass_by(struct tidei_process_call *call, const struct tidei_process_what *what,
                struct tidei_presence_slot *slot)
{
    CUresult result;
    uint64_t key;

    if (tidei_process_refuses(what->kind))
        return CUDA_ERROR_OUT_OF_MEMORY;
    tidei_process_within_none(slot);
    result = call->make(call, &key);
    if (result == CUDA_SUCCESS)
        tidei_process_passed_by();
    return result;
}

static CUresult
account_try(struct tidei_process_call *call, const struct tidei_process_what *what, struct tidei_presence_slot *slot)
{
    struct tidei_process_stack *stack = NULL;
    CUcontext context = NULL;
    int device = -1;
    uint64_t key;

    if (!tidei_process_current(&context, &device) && what->device < 0) {
        tidei_process_within_none(slot);
        return call->make(call, &key);
    }
    if (what->device >= 0)
        device = what->device;
    if (tidei_process_has_device(device))
        stack = what->kind == TIDEI_PROCESS_PLAIN && tidei_process_redirects()
                    ? tidei_process_stack_own(device, context, slot)
                    : tidei_process_stack(device, what->kind);
    if (stack == NULL)
        return account_pass_by(call, what, slot);
    call->counted = true;
    return account_allocate(call, what, stack, context, slot);
}

CUresult
tidei_process_allocate(struct tidei_process_call *call, const struct tidei_process_what *what)
{
    struct tidei_presence_slot *slot;
    CUresult result;
    uint64_t key;

    call->result = CUDA_SUCCESS;
    if (tidei_process_passes() || call->bytes == 0 || call->stream == TIDE_STREAM_ALL)
        return call->make(call, &key);
    TIDEI_INSIDE(NULL);
    slot = tidei_process_enter();
    result = account_try(call, what, slot);
    tidei_process_leave(slot);
    return result;
}

/*
 * Whether an address that is no block's lies in memory out of which a stack cuts blocks: such as that of a block which
 * is freed a second time. To the driver it may be an allocation of its own, of which others are blocks.
 */
static bool
account_is_cut(enum tidei_process_names names, uint64_t key)
{
    return names == TIDEI_PROCESS_ADDRESSES && key != 0 && tidei_process_redirects() && tidei_process_held_covers(key);
}

/* Free what is no block of the account's: such as what was there before it. */
static CUresult
account_free_unknown(struct tidei_process_call *call, enum tidei_process_names names, uint64_t key,
                     struct tidei_presence_slot *slot)
{
    if (account_is_cut(names, key))
        return CUDA_ERROR_INVALID_VALUE;
    tidei_process_within_none(slot);
    TIDEI_TEST_POINT("account.frees");
    return call->give(call, key);
}

static CUresult
account_free(struct tidei_process_call *call, enum tidei_process_names names, uint64_t key,
             struct tidei_presence_slot *slot)
{
    struct tidei_process_block block;
    enum tide_status status;

    if (!tidei_entries_take(&account_blocks[names], key, &block))
        return account_free_unknown(call, names, key, slot);
    tidei_process_within(slot, block.stack);
    TIDEI_TEST_POINT("account.frees");
    call->bytes = block.bytes;
    if (block.redirected && call->waits)
        (void)block.stack->top->ops->order(block.stack->top, TIDE_STREAM_ALL, 0);
    status = ACCOUNT_PASS(
        call, tidei_deallocate(block.stack->top, (void *)(uintptr_t)key, block.bytes, ACCOUNT_ALIGNMENT, call->stream));
    if (status == TIDE_OK)
        return CUDA_SUCCESS;
    tidei_entries_put(&account_blocks[names], key, &block);
    return call->result != CUDA_SUCCESS ? call->result : CUDA_ERROR_INVALID_VALUE;
}

CUresult
tidei_process_free(struct tidei_process_call *call, enum tidei_process_names names, uint64_t key)
{
    struct tidei_presence_slot *slot;
    CUresult result;

    call->result = CUDA_SUCCESS;
    if (tidei_process_passes())
        return call->give(call, key);
    TIDEI_INSIDE(NULL);
    slot = tidei_process_enter();
    result = account_free(call, names, key, slot);
    tidei_process_leave(slot);
    return result;
}

static CUresult
forget_give(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    (void)key;
    return CUDA_SUCCESS;
}

void
tidei_process_forget(const struct tidei_process_block *block, uint64_t key)
{
    struct tidei_process_call call = { .give = forget_give, .bytes = block->bytes, .stream = block->stream };

    (void)ACCOUNT_PASS(&call, tidei_deallocate(block->stack->top, (void *)(uintptr_t)key, block->bytes,
                                               ACCOUNT_ALIGNMENT, block->stream));
}

void
tidei_process_forget_key(enum tidei_process_names names, uint64_t key)
{
    struct tidei_process_block block;

    if (tidei_entries_take(&account_blocks[names], key, &block))
        tidei_process_forget(&block, key);
}

struct gone_wanted {
    CUcontext context;
    const struct tidei_process_stack *stack;
};

/* A new context may have the handle of one that has ended: what is in its own stack is not taken. */
static bool
gone_look(const void *entry, const void *context)
{
    const struct tidei_process_block *block = entry;
    const struct gone_wanted *wanted = context;

    return block->redirected ? block->stack == wanted->stack
                             : block->context == wanted->context && wanted->context != NULL;
}

void
tidei_process_gone_take(struct tidei_process_gone *gone, CUcontext context, const struct tidei_process_stack *stack)
{
    const struct gone_wanted wanted = { context, stack };
    struct tidei_process_gone_block found;

    for (unsigned names = 0; (context != NULL || stack != NULL) && names < TIDEI_PROCESS_NAMES; names++) {
        struct tidei_entries_cursor cursor = { 0 };

        found.names = (enum tidei_process_names)names;
        while (tidei_grow(&gone->blocks, &gone->capacity, gone->count, 1) &&
               tidei_entries_take_next(&account_blocks[names], &cursor, gone_look, &wanted, &found.key, &found.block))
            gone->blocks[gone->count++] = found;
    }
}

/* A call that began before has a block, or puts one back that it could not free. */
void
tidei_process_gone_empty(struct tidei_process_gone *gone, const struct tidei_process_stack *stack)
{
    size_t count;

    if (stack == NULL)
        return;
    tidei_process_stack_wait(stack);
    tidei_process_gone_take(gone, NULL, stack);
    do {
        count = gone->count;
        tidei_process_stack_wait(stack);
        tidei_process_gone_take(gone, NULL, stack);
    } while (gone->count != count);
}

void
tidei_process_gone_return(struct tidei_process_gone *gone)
{
    size_t kept = 0;

    for (size_t i = 0; i < gone->count; i++) {
        if (gone->blocks[i].block.redirected)
            tidei_process_forget(&gone->blocks[i].block, gone->blocks[i].key);
        else
            gone->blocks[kept++] = gone->blocks[i];
    }
    gone->count = kept;
}

void
tidei_process_gone_put(struct tidei_process_gone *gone)
{
    for (size_t i = 0; i < gone->count; i++)
        tidei_entries_put(&account_blocks[gone->blocks[i].names], gone->blocks[i].key, &gone->blocks[i].block);
    free(gone->blocks);
}

void
tidei_process_gone_forget(struct tidei_process_gone *gone)
{
    for (size_t i = 0; i < gone->count; i++)
        tidei_process_forget(&gone->blocks[i].block, gone->blocks[i].key);
    free(gone->blocks);
}

static void
hold_change(void *entry, void *unused)
{
    (void)unused;
    ((struct tidei_process_block *)entry)->holds++;
}

bool
tidei_process_hold(enum tidei_process_names names, uint64_t key)
{
    return tidei_entries_change(&account_blocks[names], key, hold_change, NULL);
}

static void
drop_change(void *entry, void *held)
{
    struct tidei_process_block *block = entry;

    *(bool *)held = block->holds > 1;
    block->holds -= block->holds > 1;
}

bool
tidei_process_drop(enum tidei_process_names names, uint64_t key)
{
    bool held = false;

    return tidei_entries_change(&account_blocks[names], key, drop_change, &held) && held;
}

bool
tidei_process_find(enum tidei_process_names names, uint64_t key, struct tidei_process_block *out)
{
    return tidei_entries_get(&account_blocks[names], key, out);
}

struct covering {
    uint64_t address;
    uint64_t *start;
    struct tidei_process_block *out;
};

static bool
covering_look(uint64_t key, const void *entry, void *context)
{
    const struct tidei_process_block *block = entry;
    struct covering *covering = context;

    if (covering->address < key || covering->address - key >= block->bytes)
        return false;
    if (covering->start != NULL)
        *covering->start = key;
    *covering->out = *block;
    return true;
}

bool
tidei_process_covering(uint64_t address, uint64_t *start, struct tidei_process_block *out)
{
    struct covering covering = { address, start, out };

    return tidei_entries_any(&account_blocks[TIDEI_PROCESS_ADDRESSES], covering_look, &covering);
}

#endif
