/* Captures call stacks, and stores each distinct one once. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/context/callstack.h"
#include "src/context/python.h"
#include "src/context/sources.h"
#include "src/resource/resource.h"
#include "src/sync/fork.h"
#include "src/sync/inside.h"
#include "src/sync/thread.h"
#include "src/tables/grow.h"
#include "src/context/walk.h"

#define CALLSTACK_SLOTS_FIRST 1024
#define CALLSTACK_MOST        (1u << 20) /* 180 MiB with 16 frames each */

/* Open addressing, with a load factor of at most 1/2. A slot that has a call stack never changes. */
struct table {
    size_t mask;
    struct table *smaller; /* the one before, which other threads may still read */
    _Atomic(struct tidei_callstack *) slots[];
};

/* Distinct call stacks. */
struct store {
    _Atomic(struct table *) table; /* written under the lock */
    struct tidei_callstack **all;  /* owned; by number - 1; this and all that follows under the lock */
    uint32_t count;
    size_t capacity;
};

static struct {
    struct store told;       /* those of events: the listener is called for each */
    struct store walked;     /* those of native code that become a part of one with frames of Python */
    size_t notified_modules; /* the listener was called for this many; under the lock, as all that follows */
    struct tidei_modules modules;
} callstacks;

const char *const tidei_unwind_words[] = { "auto", "fp", "dwarf", NULL };
const char *const tidei_callstack_words[] = { "python", "mixed", NULL };
const unsigned tidei_callstack_bits[] = { TIDE_CALLSTACK_PYTHON, TIDE_CALLSTACK_MIXED };

#define CALLSTACK_BITS (TIDE_CALLSTACK_PYTHON | TIDE_CALLSTACK_MIXED)

enum tide_status
tidei_callstack_options(const char *subject, uint32_t depth, enum tide_unwind *unwind)
{
    uint32_t bits = depth & CALLSTACK_BITS;

    if (bits == CALLSTACK_BITS)
        return tide_error_set(TIDE_EINVAL, "%s: call stacks of Python's frames alone and of mixed ones", subject);
    if ((depth ^ bits) > TIDE_CALLSTACK_MOST)
        return tide_error_set(TIDE_EINVAL, "%s: call stacks of %u frames, expected at most %u", subject,
                              (unsigned)(depth ^ bits), TIDE_CALLSTACK_MOST);
    if (*unwind > TIDE_UNWIND_DWARF)
        return tide_error_set(TIDE_EINVAL, "%s: unknown unwind", subject);
    if (*unwind == TIDE_UNWIND_FP && !TIDEI_WALK_HAS_FP)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: unwind=fp: frame pointers are not known on this machine",
                              subject);
    if (bits == TIDE_CALLSTACK_PYTHON && *unwind != TIDE_UNWIND_AUTO)
        return tide_error_set(TIDE_EINVAL,
                              "%s: unwind says how native frames are found, which callstack=python has not", subject);
    if (depth == 0)
        *unwind = TIDE_UNWIND_AUTO;
    tidei_walk_begin();
    tidei_callstack_handle_forks();
    return TIDE_OK;
}

void
tidei_callstack_begin(uint32_t depth)
{
    if ((depth & CALLSTACK_BITS) != 0)
        tidei_python_begin();
}

static void
callstack_forked(void)
{
    tidei_python_forked();
    tidei_callstack_unlock();
}

void
tidei_callstack_handle_forks(void)
{
    static const struct tidei_fork_hook hook = { tidei_callstack_lock, tidei_callstack_unlock, callstack_forked };

    tidei_fork_hook_set(TIDEI_FORK_CALLSTACKS, &hook);
}

/* Two lanes, so that one multiplication does not wait for the other; both end in one as in MurmurHash3 (Appleby). */
static uint64_t
callstack_hash(const uint64_t *frames, unsigned count)
{
    uint64_t a = count, b = 0x9e3779b97f4a7c15u;
    unsigned i;

    for (i = 0; i + 1 < count; i += 2) {
        a = (a ^ frames[i]) * 0xff51afd7ed558ccdu;
        b = (b ^ frames[i + 1]) * 0xc4ceb9fe1a85ec53u;
        a ^= a >> 32;
        b ^= b >> 32;
    }
    if (i < count)
        a = (a ^ frames[i]) * 0xff51afd7ed558ccdu;
    a ^= b * 0x9e3779b97f4a7c15u;
    return a ^ a >> 29;
}

/* The index of the slot that has the call stack, or would have it; *found is NULL if it is not there. */
static size_t
table_look(struct table *table, uint64_t hash, const uint64_t *frames, unsigned count, struct tidei_callstack **found)
{
    size_t i = hash & table->mask;

    /* Acquire: pairs with the release in table_put, to see the call stack's contents. */
    while ((*found = atomic_load_explicit(&table->slots[i], memory_order_acquire)) != NULL) {
        if ((*found)->hash == hash && (*found)->count == count &&
            memcmp((*found)->frames, frames, count * sizeof(*frames)) == 0)
            break;
        i = (i + 1) & table->mask;
    }
    return i;
}

static void
table_put(struct table *table, struct tidei_callstack *stack)
{
    struct tidei_callstack *found;
    size_t i = table_look(table, stack->hash, stack->frames, stack->count, &found);

    /* Release: pairs with the acquire in table_look. */
    atomic_store_explicit(&table->slots[i], stack, memory_order_release);
}

/* The table, grown if it has no free slot; NULL without host memory. The lock is held. */
static struct table *
table_with_room(struct store *store)
{
    struct table *table = atomic_load_explicit(&store->table, memory_order_relaxed), *larger;
    size_t slots = table == NULL ? CALLSTACK_SLOTS_FIRST : 2 * (table->mask + 1);

    if (table != NULL && store->count < (table->mask + 1) / 2)
        return table;
    larger = calloc(1, sizeof(*larger) + slots * sizeof(larger->slots[0]));
    if (larger == NULL)
        return NULL;
    larger->mask = slots - 1;
    larger->smaller = table;
    for (uint32_t i = 0; i < store->count; i++)
        table_put(larger, store->all[i]);
    /* Release: pairs with the acquire in callstack_find. Readers of the smaller table look again under the lock. */
    atomic_store_explicit(&store->table, larger, memory_order_release);
    return larger;
}

/* The stored call stack; NULL if it was not seen yet. Lock-free. */
static struct tidei_callstack *
callstack_find(struct store *store, uint64_t hash, const uint64_t *frames, unsigned count)
{
    /* Acquire: pairs with the release in table_with_room. */
    struct table *table = atomic_load_explicit(&store->table, memory_order_acquire);
    struct tidei_callstack *found = NULL;

    if (table != NULL)
        table_look(table, hash, frames, count, &found);
    return found;
}

/* Call the listener for a new stack, and before that for the modules that were loaded since the last one. */
static void
callstack_notify(const struct tidei_callstack *stack)
{
    const struct tidei_context_listener *listener = tidei_context_listener();

    tidei_modules_refresh(&callstacks.modules);
    for (; callstacks.notified_modules < callstacks.modules.count; callstacks.notified_modules++) {
        if (listener != NULL)
            listener->module(&callstacks.modules.items[callstacks.notified_modules], NULL);
    }
    if (listener != NULL)
        listener->callstack(stack, NULL);
}

/* Store a new call stack; NULL without host memory. The lock is held. */
static struct tidei_callstack *
callstack_add(struct store *store, uint64_t hash, const uint64_t *frames, unsigned count)
{
    struct tidei_callstack *stack;
    struct table *table;

    if (store->count == CALLSTACK_MOST || !tidei_grow(&store->all, &store->capacity, store->count, 1) ||
        (table = table_with_room(store)) == NULL)
        return NULL;
    stack = malloc(sizeof(*stack) + count * sizeof(*frames));
    if (stack == NULL)
        return NULL;
    stack->hash = hash;
    atomic_init(&stack->checked, 0);
    stack->id = store->count + 1;
    stack->count = count;
    memcpy(stack->frames, frames, count * sizeof(*frames));
    if (store == &callstacks.told)
        callstack_notify(stack);
    store->all[store->count++] = stack;
    /* Last: a thread that finds it uses its number in events, and by now the rings have it. */
    table_put(table, stack);
    return stack;
}

/* Warn once that new call stacks are missing from now on. */
static void
callstack_warn_full(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    /* Relaxed: it orders no other data. */
    if (!atomic_flag_test_and_set_explicit(&warned, memory_order_relaxed))
        tidei_message(TIDE_WARNING,
                      "call stacks: no room for another; allocations with a new one are recorded without it");
}

/*
 * A stack, which is stored if it is new; NULL without frames or room. `checked`: which walk by frame pointers is
 * trusted for it.
 */
static __attribute__((noinline)) const struct tidei_callstack *
callstack_keep(struct store *store, const uint64_t *frames, unsigned count, enum tidei_callstack_check checked)
{
    uint64_t hash = callstack_hash(frames, count);
    struct tidei_callstack *stack;
    int cancel;

    if (count == 0)
        return NULL;
    stack = callstack_find(store, hash, frames, count);
    if (stack == NULL) {
        /* No cancellation: the thread holds locks, and may wait for a trace's writer. */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        tidei_callstack_lock();
        stack = callstack_find(store, hash, frames, count);
        if (stack == NULL)
            stack = callstack_add(store, hash, frames, count);
        tidei_callstack_unlock();
        if (stack == NULL)
            callstack_warn_full();
        pthread_setcancelstate(cancel, NULL);
    }
    /* Relaxed: it orders no other data, and any thread finds the same. */
    if (stack != NULL && checked != TIDEI_CALLSTACK_UNCHECKED)
        atomic_fetch_or_explicit(&stack->checked, checked, memory_order_relaxed);
    return stack;
}

static inline enum tidei_callstack_check
callstack_check_of(const struct tidei_walk *walk, unsigned depth)
{
    return walk->raw_count == depth ? TIDEI_CALLSTACK_CUT : TIDEI_CALLSTACK_ENDED;
}

/* Check a new walk by frame pointers against the unwinder's. Returns the right stack. */
static __attribute__((noinline)) const struct tidei_callstack *
callstack_check(struct store *store, const struct tidei_walk *walk, uint64_t from, unsigned depth)
{
    struct tidei_walk dwarf;
    unsigned same = 0;
    bool without_tables;

    tidei_walk_dwarf(from, depth, &dwarf);
    while (same < walk->count && same < dwarf.count && walk->frames[same] == dwarf.frames[same])
        same++;
    /* The unwinder ends at code without tables, such as is generated at run time: frame pointers are all there is. */
    without_tables = same == dwarf.count && same == dwarf.raw_count && dwarf.ended;
    if ((same == walk->count && same == dwarf.count) || without_tables)
        return callstack_keep(store, walk->frames, walk->count, callstack_check_of(walk, depth));
    if (same == dwarf.count && same < dwarf.raw_count && walk->frames[same] == dwarf.frames[same])
        tidei_walk_learn_end(dwarf.frames[same]);
    else
        tidei_walk_learn_stray(same > 0 ? walk->frames[same - 1] : walk->last_own);
    return callstack_keep(store, dwarf.frames, dwarf.count, TIDEI_CALLSTACK_UNCHECKED);
}

static __attribute__((noinline)) const struct tidei_callstack *
callstack_unwind(struct store *store, uint64_t from, unsigned depth)
{
    struct tidei_walk walk;

    tidei_walk_dwarf(from, depth, &walk);
    return callstack_keep(store, walk.frames, walk.count, TIDEI_CALLSTACK_UNCHECKED);
}

/* The native call stack outside of the frame `frame`, which returns to `from`. */
static inline __attribute__((always_inline)) const struct tidei_callstack *
callstack_native(struct store *store, const void *frame, uint64_t from, unsigned depth, enum tide_unwind unwind)
{
    struct tidei_callstack *stack;
    struct tidei_walk walk;

    if (unwind == TIDE_UNWIND_DWARF)
        return callstack_unwind(store, from, depth);
    tidei_walk_fp(frame, depth, unwind == TIDE_UNWIND_AUTO, &walk);
    if (unwind == TIDE_UNWIND_FP)
        return callstack_keep(store, walk.frames, walk.count, TIDEI_CALLSTACK_UNCHECKED);
    if (__builtin_expect(walk.stopped || walk.off_stack, 0))
        return callstack_unwind(store, from, depth);
    stack = callstack_find(store, callstack_hash(walk.frames, walk.count), walk.frames, walk.count);
    /* Relaxed: as in callstack_keep. */
    if (__builtin_expect(stack != NULL && (atomic_load_explicit(&stack->checked, memory_order_relaxed) &
                                           callstack_check_of(&walk, depth)) != 0,
                         1))
        return stack;
    return callstack_check(store, &walk, from, depth);
}

/*
 * Put frames of Python in the places of the evaluation loop's frames, each of which runs as many as up to an entry. Of
 * the interpreter's other frames none is kept: they say how it calls, and not what. Frames of Python that are left,
 * because the native ones were cut off, come last.
 */
static unsigned
callstack_merge(const struct tidei_callstack *native, const struct tidei_python_walk *python, unsigned depth,
                uint64_t *frames)
{
    unsigned count = 0, next = 0;

    for (uint32_t i = 0; native != NULL && i < native->count && count < depth; i++) {
        enum tidei_python_code code = tidei_python_code_of(native->frames[i]);

        if (code == TIDEI_PYTHON_ELSEWHERE)
            frames[count++] = native->frames[i];
        if (code != TIDEI_PYTHON_LOOP)
            continue;
        while (next < python->count && count < depth) {
            frames[count++] = python->frames[next++];
            if (python->is_entry[next - 1])
                break;
        }
    }
    while (next < python->count && count < depth)
        frames[count++] = python->frames[next++];
    return count;
}

/* The call stack that the thread was lent, or as many of its innermost frames. */
static const struct tidei_callstack *
callstack_lent(unsigned most)
{
    const struct tidei_callstack *stack = tidei_callstack_get(tidei_thread->callstack);

    if (stack == NULL || stack->count <= most)
        return stack;
    return callstack_keep(&callstacks.told, stack->frames, most, TIDEI_CALLSTACK_UNCHECKED);
}

uint32_t
tide_callstack_python(uint32_t skip)
{
    TIDEI_INSIDE(NULL);
    const struct tidei_callstack *stack = NULL;
    struct tidei_python_walk python;

    if (tidei_python_is_ready())
        tidei_python_walk(TIDE_CALLSTACK_MOST, &python);
    else
        return 0;
    if (python.count > skip)
        stack = callstack_keep(&callstacks.told, python.frames + skip, python.count - skip, TIDEI_CALLSTACK_UNCHECKED);
    return stack != NULL ? stack->id : 0;
}

enum tide_status
tide_callstack_lend(uint32_t callstack)
{
    TIDEI_INSIDE(NULL);
    struct tidei_thread *thread;

    if (callstack != 0 && tidei_callstack_get(callstack) == NULL)
        return tide_error_set(TIDE_EINVAL, "call stacks: no call stack has the number %u", (unsigned)callstack);
    thread = tidei_thread_get();
    if (thread == NULL)
        return tide_error_set(TIDE_ENOMEM, "call stacks: no host memory for this thread");
    thread->callstack = callstack;
    return TIDE_OK;
}

/* A call stack with frames of Python: alone, or among those of native code. */
static __attribute__((noinline)) uint32_t
callstack_python(const void *frame, uint64_t from, uint32_t depth, enum tide_unwind unwind)
{
    unsigned most = (depth & ~CALLSTACK_BITS) != 0 ? depth & ~CALLSTACK_BITS : TIDE_CALLSTACK_MOST;
    bool mixed = (depth & TIDE_CALLSTACK_MIXED) != 0;
    const struct tidei_callstack *stack;
    uint64_t frames[TIDE_CALLSTACK_MOST];
    struct tidei_python_walk python;

    tidei_python_walk(most, &python);
    if (!mixed && python.count == 0 && tidei_thread->callstack != 0) {
        stack = callstack_lent(most);
    } else if (!mixed) {
        stack = callstack_keep(&callstacks.told, python.frames, python.count, TIDEI_CALLSTACK_UNCHECKED);
    } else if (python.count == 0) {
        stack = callstack_native(&callstacks.told, frame, from, most, unwind);
    } else {
        stack = callstack_native(&callstacks.walked, frame, from, most, unwind);
        stack = callstack_keep(&callstacks.told, frames, callstack_merge(stack, &python, most, frames),
                               TIDEI_CALLSTACK_UNCHECKED);
    }
    return stack != NULL ? stack->id : 0;
}

__attribute__((noinline)) uint32_t
tidei_callstack_here(unsigned depth, enum tide_unwind unwind)
{
    uint64_t from = (uint64_t)(uintptr_t)__builtin_return_address(0);
    const void *frame = __builtin_frame_address(0);
    const struct tidei_callstack *stack;

    if (__builtin_expect((depth & CALLSTACK_BITS) != 0, 0))
        return callstack_python(frame, from, depth, unwind);
    stack = callstack_native(&callstacks.told, frame, from, depth, unwind);
    return stack != NULL ? stack->id : 0;
}

const struct tidei_callstack *
tidei_callstack_get(uint32_t id)
{
    const struct tidei_callstack *stack = NULL;

    tidei_callstack_lock();
    if (id != 0 && id <= callstacks.told.count)
        stack = callstacks.told.all[id - 1];
    tidei_callstack_unlock();
    return stack;
}

bool
tidei_callstack_module(uint64_t address, struct tidei_module *out)
{
    const struct tidei_module *module;

    *out = (struct tidei_module){ 0 };
    tidei_callstack_lock();
    module = tidei_modules_find(&callstacks.modules, address);
    if (module != NULL)
        *out = *module;
    tidei_callstack_unlock();
    return module != NULL;
}

const char *
tidei_callstack_brief(uint32_t id, char *buffer, size_t size)
{
    const struct tidei_callstack *stack = tidei_callstack_get(id);
    struct tidei_source source;
    uint64_t address;
    Dl_info info;

    if (stack == NULL)
        return "?";
    address = stack->frames[0];
    if (tidei_source_get(address, &source)) {
        const char *slash = strrchr(source.file, '/');

        snprintf(buffer, size, "%s (%s:%u)", source.function, slash != NULL ? slash + 1 : source.file,
                 (unsigned)source.line);
    } else if (dladdr((const void *)(uintptr_t)(address - 1), &info) == 0 || info.dli_fname == NULL) {
        snprintf(buffer, size, "0x%llx", (unsigned long long)address);
    } else if (info.dli_sname != NULL) {
        snprintf(buffer, size, "%s+0x%llx", info.dli_sname,
                 (unsigned long long)(address - (uint64_t)(uintptr_t)info.dli_saddr));
    } else {
        const char *slash = strrchr(info.dli_fname, '/');

        snprintf(buffer, size, "%s+0x%llx", slash != NULL ? slash + 1 : info.dli_fname,
                 (unsigned long long)(address - (uint64_t)(uintptr_t)info.dli_fbase));
    }
    return buffer;
}

void
tidei_callstacks_notify_locked(const struct tidei_context_listener *listener, void *context)
{
    for (size_t i = 0; i < callstacks.notified_modules; i++)
        listener->module(&callstacks.modules.items[i], context);
    tidei_sources_notify_locked(listener, context);
    for (uint32_t i = 0; i < callstacks.told.count; i++)
        listener->callstack(callstacks.told.all[i], context);
}
