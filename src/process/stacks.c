/* Makes the stacks of the account from the text that the program's user wants. */
#include "config.h"

#include "src/process/stacks.h"

#ifdef HAVE_CUDA_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/limit.h>
#include <tidemark/log.h>
#include <tidemark/monotonic.h>
#include <tidemark/text.h>

#include "adaptors/log/again.h"
#include "adaptors/log/record.h"
#include "src/process/call.h"
#include "src/process/devices.h"
#include "src/process/held.h"
#include "src/process/turn.h"
#include "src/run/names.h"
#include "src/stack/parse.h"
#include "src/stack/stack.h"
#include "src/sync/fork.h"
#include "src/sync/lock.h"
#include "src/sync/testpoint.h"

#define STACKS_KINDS  64 /* of layers, more than there are */
#define STACKS_TRACES 1000

/* For each allocation its context's stack is looked up. A device has room for a few hundred contexts. */
#define STACKS_BUCKET_BITS 10
#define STACKS_BUCKETS     (1u << STACKS_BUCKET_BITS)

_Atomic(struct tidei_process_stack *) tidei_process_stacks[TIDEI_PROCESS_DEVICES][TIDEI_PROCESS_KINDS];

static struct {
    const struct tidei_kind *kinds[STACKS_KINDS + 1]; /* all layers, and the two of this room; ends in NULL */
    char *text;                                       /* owned: the layers, with a base where `redirects` */
    char *over;                                       /* owned: the layers without the base of that; else as `text` */
    char *trace;                                      /* owned */
    char *list;                                       /* owned; NULL: nobody wants to know the trace's name */
    bool redirects;
    bool limited;           /* some layer is a limit */
    bool shared;            /* some limit is shared with other processes: only its stack knows what they use */
    uint64_t limit_bytes;   /* of the lowest limit in bytes; UINT64_MAX: there is none */
    double limit_share;     /* the same of those that are shares of the device; 1: there is none */
    unsigned traces;        /* how many names of the trace were taken */
    bool failed;            /* some stack could not be made; of the thread that makes stacks */
    struct tidei_turn turn; /* of the threads that make stacks */
    /* Those of contexts, by context; written with the lock of contexts, read after tidei_process_enter. */
    _Atomic(struct tidei_process_stack *) own[STACKS_BUCKETS];
    struct tidei_process_stack *own_last[TIDEI_PROCESS_DEVICES]; /* the same by device; under the lock of contexts */
    struct tidei_process_ending *endings;                        /* borrowed; guarded by the lock of contexts */
    _Atomic(struct tidei_process_stack *) first; /* that stays and has a log, of whatever kind; NULL: none yet */
    _Atomic bool refuses[TIDEI_PROCESS_DEVICES]; /* a stack of limited memory could not be made: the sink was told */
} stacks;

/* Layers that pass each request on as it is, so that they may stand over the driver's own memory. */
static const char *const stacks_layers[] = { "fault", "limit", "log", "retry", "statistics", "track", NULL };

static bool
stacks_may_stand(const char *name)
{
    size_t i = 0;

    while (stacks_layers[i] != NULL && strcmp(stacks_layers[i], name) != 0)
        i++;
    return stacks_layers[i] != NULL;
}

static const struct tidei_argument *
stacks_argument(const struct stack_layer *layer, const char *key, struct tidei_value **value)
{
    for (size_t i = 0; i < layer->kind->argument_count; i++) {
        *value = &((struct stack_layer *)layer)->values[i];
        if (strcmp(layer->kind->arguments[i].key, key) == 0)
            return &layer->kind->arguments[i];
    }
    return NULL;
}

/* What a text gets that describes one kind of memory of one device. */
struct stacks_fill {
    enum tidei_process_kind kind;
    int device;
    bool over_driver;
    char path[4096];
    char budgets[8][64]; /* the names of the device's limits, in the order of the text */
    unsigned limits;
};

static enum tide_status
fill_limit(struct stack_layer *layer, struct stacks_fill *fill)
{
    struct tidei_value *budget, *shared;

    if (stacks_argument(layer, "budget", &budget) == NULL || budget->given ||
        (stacks_argument(layer, "shared", &shared) != NULL && shared->given))
        return TIDE_OK;
    if (fill->limits == sizeof(fill->budgets) / sizeof(fill->budgets[0]))
        return tide_error_set(TIDE_EUNSUPPORTED, "process: more than %u limits in a stack", fill->limits);
    snprintf(fill->budgets[fill->limits], sizeof(fill->budgets[0]), "process, device %d, limit %u", fill->device,
             fill->limits + 1);
    *budget = (struct tidei_value){ .given = true, .column = layer->column, .word = fill->budgets[fill->limits++] };
    return TIDE_OK;
}

/* Take a layer out of the tree, which owns it on. */
static void
fill_remove(struct stack_tree *tree, struct stack_layer *layer)
{
    if (layer->above != NULL)
        layer->above->below = layer->below;
    else
        tree->top = layer->below;
    if (layer->below != NULL)
        layer->below->above = layer->above;
}

static enum tide_status
fill_layer(struct stack_tree *tree, struct stack_layer *layer, struct stacks_fill *fill)
{
    const char *name = layer->kind->ops.name;
    struct tidei_value *path;

    if (fill->over_driver && !layer->kind->is_base && !stacks_may_stand(name))
        return tidei_stack_fail_status(TIDE_EUNSUPPORTED, layer->column, name,
                                       "this layer changes requests, which needs a base behind it such as cuda");
    if (strcmp(name, "limit") == 0 && !tidei_process_is_limited(fill->kind))
        fill_remove(tree, layer);
    else if (strcmp(name, "limit") == 0)
        return fill_limit(layer, fill);
    else if (strcmp(name, "log") == 0 && stacks_argument(layer, "path", &path) != NULL && !path->given)
        *path = (struct tidei_value){ .given = true, .column = layer->column, .word = fill->path };
    return TIDE_OK;
}

static enum tide_status
stacks_fill_in(struct stack_tree *tree, void *context)
{
    struct stack_layer *layer = tree->top;
    enum tide_status status = TIDE_OK;

    while (status == TIDE_OK && layer != NULL) {
        struct stack_layer *below = layer->below;

        status = fill_layer(tree, layer, context);
        layer = below;
    }
    return status;
}

/* The name of the trace: as given at first, then with a number before its extension. */
static void
stacks_path(char *path, size_t capacity)
{
    const char *slash = strrchr(stacks.trace, '/');
    const char *dot = strrchr(slash != NULL ? slash : stacks.trace, '.');

    if (stacks.traces == 0)
        snprintf(path, capacity, "%s", stacks.trace);
    else if (dot == NULL)
        snprintf(path, capacity, "%s-%u", stacks.trace, stacks.traces + 1);
    else
        snprintf(path, capacity, "%.*s-%u%s", (int)(dot - stacks.trace), stacks.trace, stacks.traces + 1, dot);
}

/* Tell the trace's name to who started the process, who may be gone. */
static void
stacks_tell(struct tide_resource *top)
{
    struct tide_resource *log = tidei_stack_find(top, "log");
    char *path;
    size_t needed = 0;
    int fd;

    if (stacks.list == NULL || !tidei_run_is_list(stacks.list) || log == NULL ||
        tide_log_path(log, NULL, 0, &needed) != TIDE_OK || (path = malloc(needed + 1)) == NULL)
        return;
    fd = open(stacks.list, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    /* In one call: other processes write there, too. */
    if (fd >= 0 && tide_log_path(log, path, needed + 1, &needed) == TIDE_OK && write(fd, path, needed + 1) < 0)
        tidei_message(TIDE_WARNING, "process: %s: %s", stacks.list, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(path);
}

/* Build the stack; where the first one finds its trace there already, under another name. After stacks_enter. */
static enum tide_status
stacks_build(struct stacks_fill *fill, const char *text, struct tide_resource **out)
{
    static bool opened; /* a stack of this process has the trace: later ones join it */
    const struct tide_stack_options options = { TIDE_OPTIONS(options), .device = fill->device, .without_cupti = true };
    enum tide_status status;

    do {
        fill->limits = 0;
        stacks_path(fill->path, sizeof(fill->path));
        status = tidei_stack_build_filled(stacks.kinds, text, &options, stacks_fill_in, fill, out);
        if (status == TIDE_OK && !opened) {
            stacks_tell(*out);
            tidei_log_use_again(*out);
        }
        if (status == TIDE_OK)
            opened = true;
    } while ((status == TIDE_EEXIST || status == TIDE_EBUSY) && !opened && ++stacks.traces < STACKS_TRACES);
    return status;
}

/* Say why a stack is not there, with the error text: of the first, and of each device whose memory is refused. */
static void
stack_failed(int device, enum tidei_process_kind kind)
{
    if (tidei_process_refuses(kind)) {
        if (!atomic_exchange_explicit(&stacks.refuses[device], true, memory_order_relaxed))
            tidei_message(TIDE_ERROR, "process: device %d gets no memory, since without its account no limit holds: %s",
                          device, tide_error_text());
    } else if (!stacks.failed) {
        tidei_message(TIDE_ERROR, "process: device %d goes on without its account: %s", device, tide_error_text());
    }
    stacks.failed = true;
}

static struct tidei_process_stack *
stack_new(int device, enum tidei_process_kind kind)
{
    struct tidei_process_stack *stack = calloc(1, sizeof(*stack));
    bool redirected = stacks.redirects && kind == TIDEI_PROCESS_PLAIN;
    /* On the heap, since the thread that allocates may have a small stack. */
    struct stacks_fill *fill = malloc(sizeof(*fill));
    enum tide_status status;
    char *text = NULL;

    if (redirected)
        text = strdup(stacks.text);
    else if (asprintf(&text, "%s | process(kind=%s, device=%d)", stacks.over, tidei_process_kind_name(kind), device) <
             0)
        text = NULL;
    if (stack == NULL || fill == NULL || text == NULL) {
        status = tide_error_set(TIDE_ENOMEM, "process: no host memory");
    } else {
        *fill = (struct stacks_fill){ .kind = kind, .device = device, .over_driver = !redirected };
        status = stacks_build(fill, text, &stack->top);
    }
    free(text);
    free(fill);
    if (status != TIDE_OK) {
        free(stack);
        stack_failed(device, kind);
        return NULL;
    }
    stack->kind = kind;
    stack->device = device;
    if (!redirected)
        stack->base = tidei_stack_find(stack->top, "process");
    return stack;
}

/* What the device has in use already when its account begins: contexts, and what other processes hold. */
static void
stack_found(const struct tidei_process_stack *stack)
{
    uint64_t free_bytes, total_bytes;

    if (stack->base != NULL && tidei_process_free_bytes(stack->device, &free_bytes) == TIDE_OK &&
        tidei_process_total(stack->device, &total_bytes) == TIDE_OK)
        tidei_process_base_found(stack->base, total_bytes - free_bytes);
}

/* Make a stack that the device lacks, after stacks_enter. */
static struct tidei_process_stack *
stack_get(int device, enum tidei_process_kind kind)
{
    /* Relaxed: only who makes stacks writes it. */
    struct tidei_process_stack *stack = atomic_load_explicit(&tidei_process_stacks[device][kind], memory_order_relaxed);

    if (stack != NULL)
        return stack;
    stack = stack_new(device, kind);
    if (stack != NULL && kind == TIDEI_PROCESS_GRAPH)
        stack_found(stack);
    /* Release, both: they pair with the acquires in tidei_process_stack and tidei_process_passed_by. */
    atomic_store_explicit(&tidei_process_stacks[device][kind], stack, memory_order_release);
    if (stack != NULL && atomic_load_explicit(&stacks.first, memory_order_relaxed) == NULL &&
        tidei_stack_find(stack->top, "log") != NULL)
        atomic_store_explicit(&stacks.first, stack, memory_order_release);
    return stack;
}

/*
 * Whether plain memory has, on each device, been found to get no stack; and so for the other kinds. That of a context
 * is tried again in another one, and once a context has ended, which may leave room.
 */
static _Atomic bool stacks_gave_up[TIDEI_PROCESS_DEVICES][TIDEI_PROCESS_KINDS];

static struct {
    CUcontext context;
    uint32_t generation;
} stacks_failed_own[TIDEI_PROCESS_DEVICES]; /* the last one; of the thread that makes stacks */

/* The list that the stack of a context is in; Fibonacci hashing. */
static inline _Atomic(struct tidei_process_stack *) *
stack_bucket(CUcontext context)
{
    return &stacks.own[((uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - STACKS_BUCKET_BITS)];
}

/* The stack of a context; NULL: it has none. */
static struct tidei_process_stack *
stack_find_own(int device, CUcontext context)
{
    /* Acquire, both: they pair with the releases in tidei_process_stack_put and _take. */
    struct tidei_process_stack *stack = atomic_load_explicit(stack_bucket(context), memory_order_acquire);

    while (stack != NULL && (stack->context != context || stack->device != device)) {
        TIDEI_TEST_POINT("stacks.looks");
        stack = atomic_load_explicit(&stack->next, memory_order_acquire);
    }
    return stack;
}

void
tidei_process_stack_put(struct tidei_process_stack *stack)
{
    _Atomic(struct tidei_process_stack *) *bucket;

    if (stack == NULL)
        return;
    bucket = stack_bucket(stack->context);
    atomic_store_explicit(&stack->next, atomic_load_explicit(bucket, memory_order_relaxed), memory_order_release);
    atomic_store_explicit(bucket, stack, memory_order_release);
    stack->after = NULL;
    stack->before = stacks.own_last[stack->device];
    if (stack->before != NULL)
        stack->before->after = stack;
    stacks.own_last[stack->device] = stack;
    /* Release: pairs with the acquire in limit_find. */
    atomic_store_explicit(&tidei_process_stacks[stack->device][TIDEI_PROCESS_PLAIN], stack, memory_order_release);
}

/*
 * Make the stack of a context, after tidei_turn_enter. While it was made, the context may have ended, of which the lock
 * of contexts tells, and the stack that was there before may have been put back.
 */
static struct tidei_process_stack *
stack_new_own(int device, CUcontext context)
{
    uint32_t generation = tidei_process_contexts_generation();
    struct tidei_process_stack *made, *stack;

    if (stacks_failed_own[device].context == context && stacks_failed_own[device].generation == generation)
        return NULL;
    made = stack_new(device, TIDEI_PROCESS_PLAIN);
    if (made == NULL) {
        stacks_failed_own[device].context = context;
        stacks_failed_own[device].generation = generation;
        return NULL;
    }
    made->context = context;
    atomic_store_explicit(&stacks.refuses[device], false, memory_order_relaxed);
    tidei_process_contexts_lock();
    stack = stack_find_own(device, context);
    if (stack == NULL && tidei_process_context_lives()) {
        stack = made;
        tidei_process_stack_put(made);
    }
    tidei_process_contexts_unlock();
    if (stack != made)
        tidei_process_stack_end(made);
    return stack;
}

/* Make the stack of a kind; of plain memory with a base of its own, that of the context. */
static struct tidei_process_stack *
stacks_make(int device, enum tidei_process_kind kind, bool is_own, CUcontext context)
{
    struct tidei_process_stack *stack = NULL;
    struct tidei_error error;

    if (tidei_process_driver() == NULL || atomic_load_explicit(&stacks_gave_up[device][kind], memory_order_relaxed))
        return NULL;
    tidei_error_save(&error);
    tidei_turn_enter(&stacks.turn);
    if (is_own)
        stack = stack_find_own(device, context);
    if (stack == NULL)
        stack = is_own ? stack_new_own(device, context) : stack_get(device, kind);
    /* The stack of graphs is never allocated from. It has the device's own figures, from before its first block. */
    if (kind != TIDEI_PROCESS_PINNED)
        stack_get(device, TIDEI_PROCESS_GRAPH);
    tidei_turn_leave(&stacks.turn);
    if (stack == NULL && !is_own)
        atomic_store_explicit(&stacks_gave_up[device][kind], true, memory_order_relaxed);
    tidei_error_restore(&error);
    return stack;
}

struct tidei_process_stack *
tidei_process_stack_make(int device, enum tidei_process_kind kind)
{
    return stacks_make(device, kind, false, NULL);
}

struct tidei_presence tidei_process_calls;

static bool
stacks_is_ending(CUcontext context)
{
    const struct tidei_process_ending *ending;

    tidei_process_contexts_lock();
    ending = stacks.endings;
    while (ending != NULL && ending->context != context)
        ending = ending->next;
    tidei_process_contexts_unlock();
    return ending != NULL;
}

/*
 * Wait while the context ends, if it does. Who ends it waits for those that may make a stack: for this thread once it
 * has seen that none ends the context, and not before. Returns whether the context is there.
 */
static bool
stacks_await_end(CUcontext context, struct tidei_presence_slot *slot)
{
    unsigned looks = 0;

    if (slot == NULL) /* it cannot say what it does, and is waited for */
        return !stacks_is_ending(context);
    while (stacks_is_ending(context)) {
        tidei_presence_within(slot, &stacks); /* none of the stacks */
        while (stacks_is_ending(context))
            tidei_lock_pause(&looks);
        tidei_presence_within(slot, NULL);
    }
    return looks == 0 || tidei_process_context_lives();
}

void
tidei_process_stacks_ending(struct tidei_process_ending *ending, CUcontext context)
{
    *ending = (struct tidei_process_ending){ .context = context };
    if (!stacks.redirects || context == NULL)
        return;
    tidei_process_contexts_lock();
    ending->next = stacks.endings;
    stacks.endings = ending;
    tidei_process_contexts_unlock();
    tidei_presence_wait_within(&tidei_process_calls, ending);
}

void
tidei_process_stacks_over(struct tidei_process_ending *ending)
{
    struct tidei_process_ending **link = &stacks.endings;

    if (!stacks.redirects || ending->context == NULL)
        return;
    tidei_process_contexts_lock();
    while (*link != ending)
        link = &(*link)->next;
    *link = ending->next;
    tidei_process_contexts_unlock();
}

struct tidei_process_stack *
tidei_process_stack_own(int device, CUcontext context, struct tidei_presence_slot *slot)
{
    struct tidei_process_stack *stack = stack_find_own(device, context);

    if (__builtin_expect(stack != NULL, 1))
        return stack;
    return stacks_await_end(context, slot) ? stacks_make(device, TIDEI_PROCESS_PLAIN, true, context) : NULL;
}

/* Its own link stays, for threads that stand there. */
struct tidei_process_stack *
tidei_process_stack_take(CUcontext context)
{
    _Atomic(struct tidei_process_stack *) *link = stack_bucket(context);
    struct tidei_process_stack *stack;

    if (context == NULL)
        return NULL;
    while ((stack = atomic_load_explicit(link, memory_order_relaxed)) != NULL && stack->context != context)
        link = &stack->next;
    if (stack == NULL)
        return NULL;
    atomic_store_explicit(link, atomic_load_explicit(&stack->next, memory_order_relaxed), memory_order_release);
    if (stack->before != NULL)
        stack->before->after = stack->after;
    if (stack->after != NULL)
        stack->after->before = stack->before;
    else
        stacks.own_last[stack->device] = stack->before;
    atomic_store_explicit(&tidei_process_stacks[stack->device][TIDEI_PROCESS_PLAIN], stacks.own_last[stack->device],
                          memory_order_release);
    return stack;
}

void
tidei_process_stack_wait(const struct tidei_process_stack *stack)
{
    if (stack != NULL)
        tidei_presence_wait_within(&tidei_process_calls, stack);
}

static void
end_trim(const struct tidei_process_stack *stack)
{
    (void)stack->top->ops->order(stack->top, TIDE_STREAM_ALL, 0);
    (void)tide_trim(stack->top, 0);
}

/*
 * Have the layers that take memory back all at once do so. No block of the program is outstanding; what the layers
 * above keep of such a layer, they give back first.
 */
static void
end_reset(const struct tidei_process_stack *stack, struct tide_resource *layer)
{
    struct tide_upstream below;

    if (strcmp(layer->ops->name, "monotonic") == 0) {
        end_trim(stack);
        (void)tide_monotonic_reset(layer, 0);
    }
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &below) == TIDE_OK; i++)
        end_reset(stack, below.resource);
}

/*
 * Trimmed twice: what a layer returns to `vmm` with the first is in the order of a stream, and is released only once
 * the host has waited for that.
 */
void
tidei_process_stack_end(struct tidei_process_stack *stack)
{
    struct tidei_process_thread *mine = tidei_process_thread(tidei_thread);

    if (stack == NULL)
        return;
    mine->ends = true;
    /* While the layers are there: the trace shows that they have nothing any more. */
    end_reset(stack, stack->top);
    for (int i = 0; i < 2; i++)
        end_trim(stack);
    tide_resource_release(stack->top);
    mine->ends = false;
    free(stack);
}

void
tidei_process_passed_by(void)
{
    struct tidei_process_stack *stack = atomic_load_explicit(&stacks.first, memory_order_acquire);

    if (stack != NULL)
        tidei_log_passed_by(stack->top);
}

bool
tidei_process_refuses(enum tidei_process_kind kind)
{
    return stacks.limited && tidei_process_is_limited(kind);
}

bool
tidei_process_redirects(void)
{
    return stacks.redirects;
}

/* The limit of a device from which nothing was allocated yet. */
static bool
limit_unused(int device, uint64_t *limit_bytes)
{
    uint64_t total_bytes;

    if (tidei_process_total(device, &total_bytes) != TIDE_OK)
        return false;
    *limit_bytes = (uint64_t)((double)total_bytes * stacks.limit_share);
    if (*limit_bytes > stacks.limit_bytes)
        *limit_bytes = stacks.limit_bytes;
    return true;
}

/* Lower what a device looks like to what one more limit allows. */
static void
limit_look(struct tide_resource *layer, uint64_t *limit_bytes, uint64_t *left)
{
    struct tide_limit_figures figures = { TIDE_FIGURES(figures) };
    uint64_t bytes;

    if (strcmp(layer->ops->name, "limit") != 0 || tide_query(layer, TIDE_QUERY_CAPACITY, &bytes) != TIDE_OK ||
        tide_limit_read(layer, &figures) != TIDE_OK)
        return;
    if (bytes < *limit_bytes)
        *limit_bytes = bytes;
    bytes = bytes > figures.used_bytes ? bytes - figures.used_bytes : 0;
    if (bytes < *left)
        *left = bytes;
}

static bool
limit_find(int device, uint64_t *limit_bytes, uint64_t *used_bytes)
{
    struct tide_limit_figures figures = { TIDE_FIGURES(figures) };
    struct tidei_process_stack *stack = NULL;
    uint64_t left = UINT64_MAX;

    *limit_bytes = *used_bytes = 0;
    if (!stacks.limited)
        return false;
    /* A process that only asks gets no stack, and no trace. Any stack of the limited kinds knows what all use. */
    for (int kind = 0; stack == NULL && tidei_process_is_limited((enum tidei_process_kind)kind); kind++)
        stack = atomic_load_explicit(&tidei_process_stacks[device][kind], memory_order_acquire);
    if (stack == NULL && stacks.shared)
        stack = tidei_process_stack(device, TIDEI_PROCESS_ASYNC);
    if (stack == NULL) {
        if (!limit_unused(device, limit_bytes))
            return false;
        /* Where no stack can be made all is refused: see tidei_process_refuses. */
        if (atomic_load_explicit(&stacks.refuses[device], memory_order_relaxed))
            *used_bytes = *limit_bytes;
        return true;
    }
    *limit_bytes = UINT64_MAX;
    for (struct tide_resource *layer = stack->top; layer != NULL; layer = layer->upstream)
        limit_look(layer, limit_bytes, &left);
    *used_bytes = *limit_bytes > left ? *limit_bytes - left : 0;
    return true;
}

bool
tidei_process_limit(int device, uint64_t *limit_bytes, uint64_t *used_bytes)
{
    struct tidei_presence_slot *slot = tidei_process_enter();
    bool limited = limit_find(device, limit_bytes, used_bytes);

    tidei_process_leave(slot);
    return limited;
}

/* Check a text; false where it has no base, or is wrong. */
static bool
stacks_has_base(const char *text)
{
    struct stack_tree tree;
    bool has = tidei_stack_read(stacks.kinds, text, &tree) == TIDE_OK;

    tidei_stack_tree_free(&tree);
    return has;
}

/* The place of a column of the text, which counts characters from 1. */
static const char *
stacks_at(const char *text, unsigned column)
{
    while (*text != '\0' && column > 1) {
        text++;
        column -= ((unsigned char)*text & 0xc0) != 0x80;
    }
    return text;
}

/* Append a layer as the text has it, up to the column of the one below. */
static void
stacks_append(struct tide_text *out, const char *text, const struct stack_layer *layer)
{
    const char *from = stacks_at(text, layer->column), *to = stacks_at(text, layer->below->column);

    while (to > from && strchr(" \t\n\r|", to[-1]) != NULL)
        to--;
    tide_text_format(out, "%s%.*s", out->length != 0 ? " | " : "", (int)(to - from), from);
}

/*
 * The layer of a text with a base above which the limits of the options stand: the one below its first log, so that
 * their refusals are in the trace. They count what the program has, so they stand above all layers that change
 * requests: where the first log is below such a one, on top.
 */
static const struct stack_layer *
stacks_limits_place(const struct stack_tree *tree)
{
    for (const struct stack_layer *layer = tree->top; layer->below != NULL; layer = layer->below) {
        if (!stacks_may_stand(layer->kind->ops.name))
            break;
        if (strcmp(layer->kind->ops.name, "log") == 0)
            return layer->below;
    }
    return tree->top;
}

static const struct stack_layer *
stacks_first_log(const struct stack_tree *tree)
{
    const struct stack_layer *layer = tree->top;

    while (layer->below != NULL && strcmp(layer->kind->ops.name, "log") != 0)
        layer = layer->below;
    return layer->below != NULL ? layer : NULL;
}

static void
stacks_append_text(struct tide_text *out, const char *text)
{
    if (text[0] != '\0')
        tide_text_format(out, "%s%s", out->length != 0 ? " | " : "", text);
}

/*
 * What stands over the driver's own memory where the text has a base: the limits of the options, those of its layers
 * that may, and the first log alone, as each row would be there twice. All limits are in the order of the text with its
 * base, from which they have their names. *trace (owned) is the path of the log, if it is given.
 */
static void
stacks_over(const char *text, const char *limits, struct tide_text *out, char **trace)
{
    const struct stack_layer *place, *log, *layer;
    struct tidei_value *path;
    struct stack_tree tree;

    if (tidei_stack_read(stacks.kinds, text, &tree) == TIDE_OK) {
        place = stacks_limits_place(&tree);
        log = stacks_first_log(&tree);
        if (log != NULL && stacks_argument(log, "path", &path) != NULL && path->given)
            *trace = strdup(path->word);
        if (log != NULL && place == tree.top)
            stacks_append(out, text, log);
        for (layer = tree.top; layer->below != NULL; layer = layer->below) {
            bool is_log = strcmp(layer->kind->ops.name, "log") == 0;

            if (layer == place)
                stacks_append_text(out, limits);
            if (is_log ? layer == log && place != tree.top : stacks_may_stand(layer->kind->ops.name))
                stacks_append(out, text, layer);
        }
        if (layer == place)
            stacks_append_text(out, limits);
    }
    tidei_stack_tree_free(&tree);
    if (out->length == 0)
        tide_text_format(out, "statistics");
}

/*
 * Bases out of whose memory the driver would free a block that a layer above has cut, or that ends with a context. Also
 * vmm, which may fall back to one of the others.
 */
static bool
stacks_is_freed(const struct stack_layer *base)
{
    static const char *const names[] = { "cuda", "driver", "managed", "pinned", "vmm", NULL };
    size_t i = 0;

    while (names[i] != NULL && strcmp(names[i], base->kind->ops.name) != 0)
        i++;
    return names[i] != NULL;
}

/* Append the columns of the bases of a chain of layers, in the order of the text. */
static void
stacks_bases(const struct stack_layer *layer, unsigned *columns, unsigned most, unsigned *count)
{
    for (; layer != NULL; layer = layer->below) {
        for (const struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next)
            stacks_bases(bin->top, columns, most, count);
        if (layer->kind->is_base && stacks_is_freed(layer) && *count < most)
            columns[(*count)++] = layer->column;
    }
}

/* Append the text with the limits of the options, and with a layer over each base that knows what it has given. */
static void
stacks_held(const char *text, const char *limits, struct tide_text *out)
{
    unsigned columns[64], count = 0;
    const char *from = text, *to = text;
    struct stack_tree tree;

    if (tidei_stack_read(stacks.kinds, text, &tree) == TIDE_OK) {
        to = stacks_at(text, stacks_limits_place(&tree)->column);
        stacks_bases(tree.top, columns, TIDEI_COUNT_OF(columns), &count);
    }
    tidei_stack_tree_free(&tree);
    tide_text_format(out, "%.*s%s%s", (int)(to - from), from, limits, limits[0] != '\0' ? " | " : "");
    from = to;
    for (unsigned i = 0; i < count; i++) {
        to = stacks_at(text, columns[i]);
        tide_text_format(out, "%.*sheld | ", (int)(to - from), from);
        from = to;
    }
    tide_text_format(out, "%s", from);
}

/* Remember the bound of a limit. */
static void
stacks_note_limit(const struct stack_layer *layer)
{
    struct tidei_value *shared;
    const struct tidei_value *bytes = &layer->values[0]; /* its first argument */

    if (strcmp(layer->kind->ops.name, "limit") != 0)
        return;
    stacks.limited = true;
    if (stacks_argument(layer, "shared", &shared) != NULL && shared->given)
        stacks.shared = true;
    if (!bytes->given)
        return;
    if (bytes->share_whole != 0 && (double)bytes->share / (double)bytes->share_whole < stacks.limit_share)
        stacks.limit_share = (double)bytes->share / (double)bytes->share_whole;
    else if (bytes->share_whole == 0 && bytes->number < stacks.limit_bytes)
        stacks.limit_bytes = bytes->number;
}

static enum tide_status
stacks_check(void)
{
    struct stacks_fill *fill = calloc(1, sizeof(*fill));
    struct stack_tree tree = { 0 };
    enum tide_status status;
    char *text = NULL;

    if (asprintf(&text, "%s%s", stacks.text, stacks.redirects ? "" : " | process(kind=plain)") < 0)
        text = NULL;
    if (fill == NULL || text == NULL) {
        status = tide_error_set(TIDE_ENOMEM, "process: no host memory");
    } else {
        fill->kind = TIDEI_PROCESS_PLAIN;
        fill->over_driver = !stacks.redirects;
        status = tidei_stack_read(stacks.kinds, text, &tree);
        if (status == TIDE_OK)
            status = stacks_fill_in(&tree, fill);
    }
    stacks.limit_bytes = UINT64_MAX;
    stacks.limit_share = 1;
    for (const struct stack_layer *layer = status == TIDE_OK ? tree.top : NULL; layer != NULL; layer = layer->below)
        stacks_note_limit(layer);
    tidei_stack_tree_free(&tree);
    free(text);
    free(fill);
    return status;
}

/* Check a bound by itself, so that the message is about what the user wrote. */
static enum tide_status
stacks_check_bound(const char *what, const char *bound)
{
    struct stack_tree tree;
    enum tide_status status;
    char text[256];

    if (snprintf(text, sizeof(text), "limit(%s) | process(kind=plain)", bound) >= (int)sizeof(text))
        return tide_error_set(TIDE_EINVAL, "process: %s is too long", what);
    status = tidei_stack_read(stacks.kinds, text, &tree);
    tidei_stack_tree_free(&tree);
    return status == TIDE_OK ? TIDE_OK : tide_error_set(status, "process: %s %s: %s", what, bound, tide_error_text());
}

/* Append the limits that the options ask for. */
static enum tide_status
stacks_limits(const struct tide_process_options *options, struct tide_text *text)
{
    const char *equals = options->budget != NULL ? strchr(options->budget, '=') : NULL;
    enum tide_status status = TIDE_OK;

    if (options->budget != NULL && (equals == NULL || equals == options->budget || equals[1] == '\0'))
        return tide_error_set(TIDE_EINVAL, "process: budget '%s', expected a name and a size such as job=16GiB",
                              options->budget);
    if (status == TIDE_OK && options->limit != NULL)
        status = stacks_check_bound("limit", options->limit);
    if (status == TIDE_OK && options->budget != NULL)
        status = stacks_check_bound("budget", equals + 1);
    if (status != TIDE_OK)
        return status;
    if (options->limit != NULL)
        tide_text_format(text, "%slimit(%s, alignment=1)", text->length != 0 ? " | " : "", options->limit);
    if (options->budget != NULL)
        tide_text_format(text, "%slimit(%s, alignment=1, shared=\"%.*s\")", text->length != 0 ? " | " : "", equals + 1,
                         (int)(equals - options->budget), options->budget);
    return TIDE_OK;
}

/* The texts while they are composed: on the heap, since the first call of the program may have a small stack. */
struct stacks_room {
    char text[4096], over[4096], bounds[1024];
};

static enum tide_status
stacks_compose(const struct tide_process_options *options, struct stacks_room *room)
{
    struct tide_text limits = { .data = room->bounds, .capacity = sizeof(room->bounds) };
    struct tide_text others = { .data = room->over, .capacity = sizeof(room->over) };
    struct tide_text whole = { .data = room->text, .capacity = sizeof(room->text) };
    enum tide_status status = stacks_limits(options, &limits);

    stacks.redirects = options->stack != NULL && stacks_has_base(options->stack);
    if (stacks.redirects) {
        stacks_held(options->stack, room->bounds, &whole);
        stacks_over(options->stack, room->bounds, &others, &stacks.trace);
    } else {
        if (options->stack != NULL)
            tide_text_format(&others, "%s", options->stack);
        else
            tide_text_format(&others, options->log != NULL ? "log(%s)" : "log", options->log);
        stacks_append_text(&others, room->bounds);
    }
    if (status == TIDE_OK && (limits.length >= sizeof(room->bounds) || others.length >= sizeof(room->over) ||
                              whole.length >= sizeof(room->text)))
        status = tide_error_set(TIDE_EINVAL, "process: the stack text is too long");
    if (options->list != NULL)
        stacks.list = strdup(options->list);
    stacks.text = strdup(stacks.redirects ? room->text : room->over);
    stacks.over = strdup(room->over);
    if (stacks.trace == NULL)
        stacks.trace = strdup(options->trace != NULL ? options->trace : "tidemark-%p.db");
    if (status == TIDE_OK && (stacks.text == NULL || stacks.over == NULL || stacks.trace == NULL))
        status = tide_error_set(TIDE_ENOMEM, "process: no host memory");
    return status;
}

/* Compose the texts. */
static enum tide_status
stacks_texts(const struct tide_process_options *options)
{
    struct stacks_room *room = calloc(1, sizeof(*room));
    enum tide_status status =
        room != NULL ? stacks_compose(options, room) : tide_error_set(TIDE_ENOMEM, "process: no host memory");

    free(room);
    return status;
}

void
tidei_process_stacks_forget(void)
{
    free(stacks.text);
    free(stacks.over);
    free(stacks.trace);
    free(stacks.list);
    stacks.text = stacks.over = stacks.trace = stacks.list = NULL;
    tidei_lock_fini(&stacks.turn.lock);
    stacks.limited = false;
}

enum tide_status
tidei_process_stacks_start(const struct tide_process_options *options)
{
    size_t count = 0;
    enum tide_status status;

    while (tidei_kinds[count] != NULL && count < STACKS_KINDS - 2) {
        stacks.kinds[count] = tidei_kinds[count];
        count++;
    }
    stacks.kinds[count++] = &tidei_process_kind;
    stacks.kinds[count] = &tidei_held_kind;
    tidei_lock_init(&stacks.turn.lock);
    status = stacks_texts(options);
    if (status == TIDE_OK)
        status = stacks_check();
    if (status != TIDE_OK)
        tidei_process_stacks_forget();
    return status;
}

#endif
