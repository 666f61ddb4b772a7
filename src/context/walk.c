/* Walks stacks by frame pointers and with the unwinder. */
#include "config.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <unwind.h>

#include "src/context/walk.h"
#include "src/sync/thread.h"
#include "src/sync/testpoint.h"

/* For functions that read other functions' frames, which sanitizers would report. */
#define WALK_RAW __attribute__((no_sanitize("address"), no_sanitize("thread")))

/* No code lies in the first page. */
#define WALK_FIRST_PAGE 4096

/* Upper bound of the length of a program's entry, _start. */
#define WALK_ENTRY_BYTES 64

struct walk_range {
    uint64_t begin;
    uint64_t bytes;
};

/* Where code lies; written by tidei_walk_begin. */
static struct walk_range walk_own;       /* this library; nothing where it is a part of the program */
static struct walk_range walk_starts[4]; /* the C library, the loader, the program's entry */
static unsigned walk_start_count;

/*
 * Learned sites: return addresses at which, as the unwinder has shown, the frame pointer is not the caller's. They are
 * kept in a Bloom filter and never removed; a false positive only costs time.
 */
#define WALK_SITE_BITS 13
#define WALK_ENDS      8

static _Atomic uint64_t walk_sites[(1u << WALK_SITE_BITS) / 64];
static _Atomic uint64_t walk_ends[WALK_ENDS];

/* A thread's part: its stack; 0 until it is known. */
struct walk_stack {
    uintptr_t low;
    uintptr_t high;
};

TIDEI_THREAD_PART(walk_stack_of, walk, struct walk_stack);

static inline bool
range_has(const struct walk_range *range, uint64_t address)
{
    return address - range->begin < range->bytes;
}

static void
walk_add_start(uint64_t begin, uint64_t bytes)
{
    if (walk_start_count < sizeof(walk_starts) / sizeof(walk_starts[0]))
        walk_starts[walk_start_count++] = (struct walk_range){ begin, bytes };
}

/* Whether a file belongs to the C library, judged by its name. */
static bool
walk_is_libc(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-", 5) == 0 || strncmp(name, "ld-", 3) == 0 ||
           strncmp(name, "libpthread", 10) == 0;
}

static int
walk_see_object(struct dl_phdr_info *info, size_t size, void *context)
{
    bool is_program = *(unsigned *)context == 0;

    (void)size;
    ++*(unsigned *)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        struct walk_range range = { info->dlpi_addr + segment->p_vaddr, segment->p_memsz };

        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0)
            continue;
        if (!is_program && range_has(&range, (uint64_t)(uintptr_t)walk_see_object))
            walk_own = range;
        if (!is_program && walk_is_libc(info->dlpi_name))
            walk_add_start(range.begin, range.bytes);
    }
    return 0;
}

static void
walk_begin_once(void)
{
    unsigned seen = 0;

    walk_add_start(getauxval(AT_ENTRY), WALK_ENTRY_BYTES);
    dl_iterate_phdr(walk_see_object, &seen);
}

void
tidei_walk_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, walk_begin_once);
}

/* Remove the outer frames in which the C library starts programs and threads. */
static void
walk_trim(struct tidei_walk *walk)
{
    unsigned count = walk->count;

    walk->raw_count = count;
    while (count > 0) {
        unsigned i = 0;

        while (i < walk_start_count && !range_has(&walk_starts[i], walk->frames[count - 1]))
            i++;
        if (i == walk_start_count)
            break;
        count--;
    }
    walk->count = count;
}

/* Find the thread's stack. Called once in a thread; for the main thread it reads /proc. */
static __attribute__((noinline)) struct walk_stack
walk_find_stack(void)
{
    struct walk_stack found = { 1, 1 }; /* none, where that cannot be known */
    struct tidei_thread *thread = tidei_thread_get();
    int saved = errno;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;

    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
            found.low = (uintptr_t)low;
            found.high = (uintptr_t)low + bytes;
        }
        pthread_attr_destroy(&attributes);
    }
    errno = saved;
    if (thread != NULL)
        *walk_stack_of(thread) = found;
    return found;
}

static inline uint64_t
site_hash(uint64_t address)
{
    return address * 0x9e3779b97f4a7c15u >> (64 - WALK_SITE_BITS);
}

/* All accesses of sites are relaxed: a thread that sees a site late uses the unwinder once more. */
static inline bool
site_is_learned(uint64_t address)
{
    uint64_t hash = site_hash(address);

    return (atomic_load_explicit(&walk_sites[hash / 64], memory_order_relaxed) >> (hash % 64) & 1) != 0;
}

void
tidei_walk_learn_stray(uint64_t address)
{
    uint64_t hash = site_hash(address);

    atomic_fetch_or_explicit(&walk_sites[hash / 64], UINT64_C(1) << (hash % 64), memory_order_relaxed);
}

static bool
site_is_end(uint64_t address)
{
    for (unsigned i = 0; i < WALK_ENDS; i++) {
        if (atomic_load_explicit(&walk_ends[i], memory_order_relaxed) == address)
            return true;
    }
    return false;
}

void
tidei_walk_learn_end(uint64_t address)
{
    for (unsigned i = 0; i < WALK_ENDS; i++) {
        uint64_t found = 0;

        if (atomic_compare_exchange_strong_explicit(&walk_ends[i], &found, address, memory_order_relaxed,
                                                    memory_order_relaxed) ||
            found == address)
            break;
    }
    tidei_walk_learn_stray(address);
}

/*
 * Safe for any values of the frame pointers: it reads only between this function's own frame and the end of the
 * thread's stack, all of which is mapped, and each frame must lie farther out than the one before.
 */
WALK_RAW void
tidei_walk_fp(const void *frame, unsigned depth, bool learned, struct tidei_walk *walk)
{
    struct walk_stack stack = *walk_stack_of(tidei_thread);
    uintptr_t at = (uintptr_t)frame;
    unsigned count = 0;

    walk->count = walk->raw_count = 0;
    walk->stopped = walk->off_stack = walk->ended = false;
    walk->last_own = 0;
    if (__builtin_expect(stack.high == 0, 0))
        stack = walk_find_stack();
    if (!TIDEI_WALK_HAS_FP || at < stack.low || at >= stack.high) {
        walk->off_stack = true;
        return;
    }
    while (at % sizeof(uintptr_t) == 0 && at <= stack.high - 2 * sizeof(uintptr_t)) {
        uintptr_t next = ((const uintptr_t *)at)[0];
        uint64_t address = ((const uintptr_t *)at)[1];

        if (address < WALK_FIRST_PAGE)
            break;
        if (count == 0 && range_has(&walk_own, address))
            walk->last_own = address;
        else
            walk->frames[count++] = address;
        if (count == depth)
            break;
        if (learned && __builtin_expect(site_is_learned(address), 0)) {
            walk->stopped = !site_is_end(address);
            break;
        }
        if (next <= at)
            break;
        at = next;
    }
    walk->count = count;
    walk_trim(walk);
}

/* The state of a walk with the unwinder. */
struct walk_dwarf {
    struct tidei_walk *walk;
    uint64_t from;
    unsigned depth;
    bool started;
};

static _Unwind_Reason_Code
walk_see_frame(struct _Unwind_Context *context, void *argument)
{
    struct walk_dwarf *dwarf = argument;
    struct tidei_walk *walk = dwarf->walk;
    uint64_t address = _Unwind_GetIP(context);

    if (!dwarf->started && address != dwarf->from)
        return _URC_NO_REASON;
    dwarf->started = true;
    if (address < WALK_FIRST_PAGE)
        return _URC_NO_REASON;
    if (walk->count == 0 && range_has(&walk_own, address))
        walk->last_own = address;
    else
        walk->frames[walk->count++] = address;
    return walk->count < dwarf->depth ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

void
tidei_walk_dwarf(uint64_t from, unsigned depth, struct tidei_walk *walk)
{
    struct walk_dwarf dwarf = { .walk = walk, .from = from, .depth = depth };

    TIDEI_TEST_POINT("unwind");
    walk->count = walk->raw_count = 0;
    walk->stopped = walk->off_stack = false;
    walk->last_own = from;
    walk->ended = _Unwind_Backtrace(walk_see_frame, &dwarf) == _URC_END_OF_STACK;
    walk_trim(walk);
}
