/* Keeps the uses of the bridge and their stacks. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/log.h>
#include <tidemark/stack.h>

#include "src/bridge/blocks.h"
#include "src/bridge/uses.h"
#include "src/context/python.h"
#include "src/stack/stack.h"
#include "src/sync/fork.h"
#include "src/sync/inside.h"
#include "src/tables/grow.h"

struct tidei_bridge_use {
    struct tidei_bridge_use *outer; /* owned; NULL for the outermost */
    char *text;                     /* owned; NULL: that of the defaults, chosen when a stack is made */
    enum tidei_bridge_asker asker;  /* of a default */
    bool forked;                    /* it began before fork(): its traces have the names of the parent's */
    uint32_t makers;                /* threads that make a stack of it */
    struct {
        struct tidei_bridge_stack *stack; /* NULL until it is made */
        bool making;                      /* a thread makes it */
    } devices[TIDE_BRIDGE_DEVICES];
};

struct tidei_presence tidei_bridge_presence;

/* Guards all of this file. Nothing is called while it is held. */
static struct tidei_lock uses_lock;

static struct tidei_bridge_use uses_defaults[TIDEI_BRIDGE_ASKERS] = {
    { .asker = TIDEI_BRIDGE_BLOCKS },
    { .asker = TIDEI_BRIDGE_SEGMENTS },
};
static struct tidei_bridge_use *uses_latest;   /* NULL: the defaults */
static struct tidei_bridge_stack *uses_stacks; /* all that exist, newest first */
static uint32_t uses_generation;               /* of fork(): in a child no thread of the parent makes a stack */

/* In a child of fork(): the driver does not work there, so that stacks over a device are left alone. */
static void
uses_in_child(void)
{
    /* The locks of the library are held by the thread that forked, this one, and released after that. */
    for (struct tidei_bridge_stack *stack = uses_stacks; stack != NULL; stack = stack->older)
        atomic_store_explicit(&stack->forked, stack->on_device, memory_order_relaxed);
    for (struct tidei_bridge_use *use = uses_latest; use != NULL; use = use->outer)
        use->forked = true;
    for (int asker = 0; asker < TIDEI_BRIDGE_ASKERS; asker++)
        uses_defaults[asker].forked = true;
    atomic_store_explicit(&tidei_bridge_presence.others, 0, memory_order_relaxed);
}

__attribute__((constructor)) static void
uses_start(void)
{
    static const struct tidei_fork_hook hook = { .child = uses_in_child };

    tidei_lock_init(&uses_lock);
    tidei_presence_init(&tidei_bridge_presence);
    tidei_fork_hook_set(TIDEI_FORK_BRIDGE, &hook);
}

static void
uses_enter(void)
{
    tidei_lock_acquire(&uses_lock);
    if (uses_generation == tidei_fork_generation())
        return;
    uses_generation = tidei_fork_generation();
    for (struct tidei_bridge_use *use = uses_latest; use != NULL; use = use->outer) {
        use->makers = 0;
        for (int i = 0; i < TIDE_BRIDGE_DEVICES; i++)
            use->devices[i].making = false;
    }
    for (int asker = 0; asker < TIDEI_BRIDGE_ASKERS; asker++)
        for (int i = 0; i < TIDE_BRIDGE_DEVICES; i++)
            uses_defaults[asker].devices[i].making = false;
}

static void
uses_leave(void)
{
    tidei_lock_release(&uses_lock);
}

/* Have all devices look up their stacks. The lock is held. */
static void
uses_changed(void)
{
    for (int i = 0; i < TIDE_BRIDGE_DEVICES; i++) {
        struct tidei_bridge_device *device = tidei_bridge_device_known(i);

        for (int asker = 0; device != NULL && asker < TIDEI_BRIDGE_ASKERS; asker++)
            atomic_store_explicit(&device->current[asker], NULL, memory_order_seq_cst); /* see src/sync/presence.h */
    }
}

/* Stacks. */

static struct tidei_bridge_stack *
stack_new(struct tidei_bridge_use *use, struct tidei_bridge_device *device, struct tide_resource *top)
{
    struct tidei_bridge_stack *stack = calloc(1, sizeof(*stack));
    struct tidei_error error;
    uint64_t ordinal;

    if (stack == NULL)
        return NULL;
    tidei_error_save(&error);
    stack->top = top;
    stack->device = device;
    stack->use = use;
    stack->on_device = tide_query(top, TIDE_QUERY_DEVICE, &ordinal) == TIDE_OK;
    atomic_init(&stack->left, 1);
    tidei_error_restore(&error);
    return stack;
}

/* The lock is held. */
static void
stack_list(struct tidei_bridge_stack *stack)
{
    stack->older = uses_stacks;
    if (uses_stacks != NULL)
        uses_stacks->newer = stack;
    uses_stacks = stack;
}

static void
stack_destroy(struct tidei_bridge_stack *stack)
{
    uses_enter();
    if (stack->newer != NULL)
        stack->newer->older = stack->older;
    else
        uses_stacks = stack->older;
    if (stack->older != NULL)
        stack->older->newer = stack->newer;
    uses_leave();
    tide_resource_release(stack->top);
    free(stack);
}

void
tidei_bridge_stack_left(struct tidei_bridge_stack *stack)
{
    /* Acquire and release: the last one sees all that the others have done with the stack. */
    if (atomic_fetch_sub_explicit(&stack->left, 1, memory_order_acq_rel) == 1)
        stack_destroy(stack);
}

/* Make the stack that the use's text describes, or the one that is the default. No lock is held. */
static enum tide_status
stack_parse(const struct tidei_bridge_use *use, int device, struct tide_resource **out)
{
    const struct tide_stack_options options = {
        TIDE_OPTIONS(options),
        .device = device,
        .without_cupti = true,
        .process_paths = use->forked,
    };
    const char *text = use->text != NULL ? use->text : tidei_stack_environment();
    bool from_environment = use->text == NULL && text != NULL;
    enum tide_status status = TIDE_OK;
    char chosen[64] = "cuda";
    bool within;

    *out = NULL;
    /* The thread may hold a lock of PyTorch's allocator, for which one that holds the GIL waits. */
    within = tidei_python_within(true);
    if (text == NULL && use->asker == TIDEI_BRIDGE_BLOCKS)
        status = tide_stack_default(device, chosen, sizeof(chosen), NULL);
    if (status == TIDE_OK)
        status = tide_stack_parse_with(text != NULL ? text : chosen, &options, out);
    tidei_python_within(within);
    if (status != TIDE_OK)
        tide_error_set(status, "bridge: device %d: %s%s", device, from_environment ? "TIDEMARK_STACK: " : "",
                       tide_error_text());
    return status;
}

/* The use that an asker's blocks come from now; one without a text is the default. The lock is held. */
static struct tidei_bridge_use *
uses_now(enum tidei_bridge_asker asker)
{
    return uses_latest != NULL && uses_latest->text != NULL ? uses_latest : &uses_defaults[asker];
}

/* With the lock held; it is given back meanwhile. */
static enum tide_status
use_make(struct tidei_bridge_use *use, struct tidei_bridge_device *device)
{
    struct tidei_bridge_stack *stack = NULL;
    struct tide_resource *top;
    enum tide_status status;

    use->devices[device->ordinal].making = true;
    use->makers++;
    uses_leave();
    status = stack_parse(use, device->ordinal, &top);
    if (status == TIDE_OK && (stack = stack_new(use, device, top)) == NULL) {
        tide_resource_release(top);
        status = tide_error_set(TIDE_ENOMEM, "bridge: no host memory");
    }
    uses_enter();
    use->makers--;
    use->devices[device->ordinal].making = false;
    use->devices[device->ordinal].stack = stack;
    if (stack != NULL)
        stack_list(stack);
    return status;
}

/* The stack of the device now, made if needed; returns with the lock held where that succeeds. */
static enum tide_status
uses_find(struct tidei_bridge_device *device, enum tidei_bridge_asker asker, struct tidei_bridge_stack **out)
{
    enum tide_status status = TIDE_OK;
    struct tidei_bridge_use *use;
    unsigned looks = 0;

    uses_enter();
    for (;;) {
        use = uses_now(asker);
        *out = use->devices[device->ordinal].stack;
        if (*out != NULL)
            return TIDE_OK;
        if (!use->devices[device->ordinal].making) {
            status = use_make(use, device);
            if (status == TIDE_OK)
                continue;
            uses_leave();
            return status;
        }
        uses_leave();
        tidei_lock_pause(&looks);
        uses_enter();
    }
}

enum tide_status
tidei_bridge_stack_make(struct tidei_bridge_device *device, enum tidei_bridge_asker asker)
{
    struct tidei_bridge_stack *stack;
    enum tide_status status = uses_find(device, asker, &stack);

    if (status != TIDE_OK)
        return status;
    /* Release: pairs with the acquire of an allocation, which sees the stack. */
    atomic_store_explicit(&device->current[asker], stack, memory_order_release);
    uses_leave();
    return TIDE_OK;
}

enum tide_status
tide_bridge_stack(int ordinal, struct tide_resource **out)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device;
    struct tidei_bridge_stack *stack;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "bridge: NULL in place of an address for the stack");
    *out = NULL;
    status = tidei_bridge_device_get(ordinal, &device);
    if (status == TIDE_OK)
        status = uses_find(device, TIDEI_BRIDGE_BLOCKS, &stack);
    if (status != TIDE_OK)
        return status;
    *out = tide_resource_retain(stack->top);
    uses_leave();
    return TIDE_OK;
}

enum tide_status
tidei_bridge_stacks_each(const struct tidei_bridge_device *device,
                         enum tide_status (*function)(struct tide_resource *top, void *context), void *context)
{
    enum tide_status status = TIDE_OK;
    struct tide_resource **tops = NULL;
    size_t count = 0, capacity = 0;

    uses_enter();
    for (struct tidei_bridge_stack *stack = uses_stacks; status == TIDE_OK && stack != NULL; stack = stack->older) {
        if (stack->device != device || atomic_load_explicit(&stack->forked, memory_order_relaxed))
            continue;
        if (tidei_grow(&tops, &capacity, count, 1))
            tops[count++] = tide_resource_retain(stack->top);
        else
            status = TIDE_ENOMEM;
    }
    uses_leave();
    if (status != TIDE_OK)
        tide_error_set(status, "bridge: no host memory");
    for (size_t i = 0; i < count; i++) {
        if (status == TIDE_OK)
            status = function(tops[i], context);
        tide_resource_release(tops[i]);
    }
    free(tops);
    return status;
}

/* Uses. */

enum tide_status
tide_bridge_use(const char *text)
{
    TIDEI_INSIDE(NULL);
    const char *checked = text != NULL ? text : tidei_stack_environment();
    struct tidei_bridge_use *use;
    enum tide_status status = checked != NULL ? tide_stack_check(checked, NULL, 0, NULL) : TIDE_OK;

    if (status != TIDE_OK)
        return text != NULL ? status : tide_error_set(status, "TIDEMARK_STACK: %s", tide_error_text());
    /* Its stacks are made within allocations. A text that has these words in a path prepares it for nothing. */
    if (checked != NULL && (strstr(checked, "python") != NULL || strstr(checked, "mixed") != NULL))
        tidei_python_begin();
    use = calloc(1, sizeof(*use));
    if (use != NULL && checked != NULL)
        use->text = strdup(checked);
    if (use == NULL || (checked != NULL && use->text == NULL)) {
        free(use);
        return tide_error_set(TIDE_ENOMEM, "bridge: no host memory");
    }
    uses_enter();
    use->outer = uses_latest;
    uses_latest = use;
    uses_changed();
    uses_leave();
    return TIDE_OK;
}

struct use_left {
    const struct tidei_bridge_use *use;
    uint64_t found;
};

/* Count the blocks of a use that is ending in their stacks, which they keep. */
static void
use_count_left(uintptr_t address, struct tidei_bridge_entry *entry, void *context)
{
    struct use_left *left = context;

    (void)address;
    if (entry->stack->use != left->use || (entry->flags & TIDEI_BRIDGE_LEFT) != 0)
        return;
    entry->flags |= TIDEI_BRIDGE_LEFT;
    atomic_fetch_add_explicit(&entry->stack->left, 1, memory_order_relaxed); /* the end holds one, too */
    left->found++;
}

/* No allocation comes from the use any more. */
static void
use_finish(struct tidei_bridge_use *use)
{
    struct use_left left = { .use = use };

    for (int i = 0; i < TIDE_BRIDGE_DEVICES; i++) {
        if (use->devices[i].stack != NULL)
            tide_log_end(use->devices[i].stack->top);
    }
    /*
     * Frees that took their block before it was counted are done with the stack after the wait. One that failed, or
     * that waits for a capture, has put its block back, which the next round counts.
     */
    do {
        left.found = 0;
        tidei_bridge_blocks_each(false, use_count_left, &left);
        tidei_presence_wait(&tidei_bridge_presence);
    } while (left.found != 0);
    for (int i = 0; i < TIDE_BRIDGE_DEVICES; i++) {
        if (use->devices[i].stack != NULL)
            tidei_bridge_stack_left(use->devices[i].stack);
    }
    free(use->text);
    free(use);
}

enum tide_status
tide_bridge_end(void)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_use *use;
    unsigned looks = 0;

    if (tidei_presence_here(&tidei_bridge_presence))
        return tide_error_set(TIDE_EINVAL, "bridge: a use cannot end within an allocation or a free of the bridge");
    uses_enter();
    use = uses_latest;
    if (use == NULL) {
        uses_leave();
        return tide_error_set(TIDE_EINVAL, "bridge: no use to end");
    }
    uses_latest = use->outer;
    uses_changed();
    while (use->makers != 0) {
        uses_leave();
        tidei_lock_pause(&looks);
        uses_enter();
    }
    uses_leave();
    tidei_presence_wait(&tidei_bridge_presence);
    use_finish(use);
    return TIDE_OK;
}
