/* Walks the frames of CPython's interpreter, and finds out which lines they stand at. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/context/python-api.h"
#include "src/context/python.h"
#include "src/context/sources.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"

#define PYTHON_PLACES_FIRST 1024
#define PYTHON_PLACES_MOST  (1u << 20) /* further ones are looked up at each event */
#define PYTHON_OWNED_MOST   (1u << 14) /* of the programs that make code without end, some MiB */

/* In place of a line: a frame that is left out, since its function has not begun. */
#define PYTHON_LEFT_OUT UINT32_MAX

/*
 * What a code object and an instruction in it stand for. A place whose `identity` is not that of the code object says
 * nothing: it is of one that lay at the same address before.
 */
struct python_place {
    _Atomic uintptr_t at; /* 0: free; written last, once, as `code` */
    uintptr_t code;
    _Atomic uint64_t identity; /* 0: says nothing */
    _Atomic uint32_t line;     /* its number */
};

/* Open addressing, with a load factor of at most 1/2. */
struct python_table {
    size_t mask;
    struct python_table *smaller; /* the one before, which other threads may still read */
    struct python_place places[];
};

/* Written with the lock of call stacks. */
static _Atomic(struct python_table *) python_table;
static size_t python_place_count;
static uintptr_t *python_owned; /* code objects of which a reference is owned, where these have no numbers */
static size_t python_owned_count, python_owned_capacity;
static struct tidei_map python_owned_places; /* by their addresses */

static atomic_flag python_own_pending = ATOMIC_FLAG_INIT;

static inline size_t
python_hash(uintptr_t code, uintptr_t at)
{
    uint64_t hash = ((uint64_t)code * 0x9e3779b97f4a7c15u ^ (uint64_t)at) * 0xff51afd7ed558ccdu;

    return (size_t)(hash ^ hash >> 32);
}

/* The place, or the free one that it would get. */
static inline struct python_place *
python_table_look(struct python_table *table, uintptr_t code, uintptr_t at)
{
    for (size_t i = python_hash(code, at);; i++) {
        struct python_place *place = &table->places[i & table->mask];
        /* Acquire: pairs with the release in python_put, to see the code. */
        uintptr_t found = atomic_load_explicit(&place->at, memory_order_acquire);

        if (found == 0 || (found == at && place->code == code))
            return place;
    }
}

/* What tells a code object from others that lay at its address; 0: nothing does. Those that are owned never die. */
static inline uint64_t
python_identity(const struct tidei_python_layout *layout, uintptr_t code)
{
    uint32_t number = layout->identity != 0 ? (uint32_t)tidei_python_int(code, layout->identity) : 1;

    return number != 0 ? number | (uint64_t)tidei_python_epoch() << 32 : 0;
}

/* The table with room for another place; NULL where there is none. The lock is held. */
static struct python_table *
python_table_with_room(void)
{
    struct python_table *table = atomic_load_explicit(&python_table, memory_order_relaxed), *larger;
    size_t slots = table == NULL ? PYTHON_PLACES_FIRST : 2 * (table->mask + 1);

    if (table != NULL && python_place_count < (table->mask + 1) / 2)
        return table;
    larger = slots / 2 <= PYTHON_PLACES_MOST ? calloc(1, sizeof(*larger) + slots * sizeof(larger->places[0])) : NULL;
    if (larger == NULL)
        return NULL;
    larger->mask = slots - 1;
    larger->smaller = table;
    for (size_t i = 0; table != NULL && i <= table->mask; i++) {
        struct python_place *from = &table->places[i], *to;
        uintptr_t at = atomic_load_explicit(&from->at, memory_order_relaxed);

        if (at == 0)
            continue;
        to = python_table_look(larger, from->code, at);
        to->code = from->code;
        atomic_init(&to->identity, atomic_load_explicit(&from->identity, memory_order_relaxed));
        atomic_init(&to->line, atomic_load_explicit(&from->line, memory_order_relaxed));
        atomic_init(&to->at, at);
    }
    /* Release: pairs with the acquire in python_find_line. */
    atomic_store_explicit(&python_table, larger, memory_order_release);
    return larger;
}

/* Keep what a place stands for. The lock is held. */
static void
python_put(uintptr_t code, uintptr_t at, uint64_t identity, uint32_t line)
{
    struct python_table *table = python_table_with_room();
    struct python_place *place;

    if (table == NULL)
        return;
    place = python_table_look(table, code, at);
    /*
     * A thread that reads this place runs the code object that is there now. The one before is dead, and no thread
     * looks for its identity. So the line may be written before: release, pairs with the acquire in python_find_line.
     */
    atomic_store_explicit(&place->line, line, memory_order_relaxed);
    atomic_store_explicit(&place->identity, identity, memory_order_release);
    if (atomic_load_explicit(&place->at, memory_order_relaxed) == 0) {
        place->code = code;
        atomic_store_explicit(&place->at, at, memory_order_release);
        python_place_count++;
    }
}

/* The number of the line that a place stands for; 0: not known. Lock-free. */
static inline uint32_t
python_find_line(uintptr_t code, uintptr_t at, uint64_t identity)
{
    struct python_table *table = atomic_load_explicit(&python_table, memory_order_acquire);
    struct python_place *place;

    if (table == NULL || identity == 0)
        return 0;
    place = python_table_look(table, code, at);
    if (atomic_load_explicit(&place->identity, memory_order_acquire) != identity)
        return 0;
    return atomic_load_explicit(&place->line, memory_order_relaxed);
}

/* Append a character as UTF-8. What is none, a half of a surrogate pair, and NUL are written as Python shows them. */
static size_t
python_put_character(char *out, uint32_t character)
{
    size_t length = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

    if (character == 0 || character > 0x10ffff)
        return (size_t)sprintf(out, "\\x00");
    if (character >= 0xd800 && character < 0xe000)
        return (size_t)sprintf(out, "\\u%04x", (unsigned)character);
    for (size_t i = length; i-- > 1; character >>= 6)
        out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)(first[length == 1 ? 0 : length] | character);
    return length;
}

/* Copy a text of Python's, as much of it as there is room for. Needs no GIL: a text never changes. */
static void
python_text(uintptr_t text, char out[TIDEI_SOURCE_NAME + 1])
{
    ssize_t characters = tidei_python.PyUnicode_GetLength((void *)text);
    size_t length = 0;

    for (ssize_t i = 0; i < characters && length <= TIDEI_SOURCE_NAME - 6; i++)
        length += python_put_character(out + length, tidei_python.PyUnicode_ReadChar((void *)text, i));
    out[length] = '\0';
}

/* Give the references back, with the GIL: nothing is read without it any more. */
static void
python_disown_all(void)
{
    uintptr_t *owned;
    size_t count;

    tidei_callstack_lock();
    owned = python_owned;
    count = python_owned_count;
    python_owned = NULL;
    python_owned_count = python_owned_capacity = 0;
    tidei_map_free(&python_owned_places);
    tidei_callstack_unlock();
    for (size_t i = 0; i < count; i++)
        tidei_python.Py_DecRef((void *)owned[i]);
    free(owned);
}

/* Whether the code object will live as long as the interpreter; with `take` that is seen to. The lock is held. */
static bool
python_owns(uintptr_t code, bool take)
{
    if (tidei_map_find(&python_owned_places, code, 0) != NULL)
        return true;
    if (!take || python_owned_count == PYTHON_OWNED_MOST || tidei_python_state() != TIDEI_PYTHON_READY ||
        !tidei_grow(&python_owned, &python_owned_capacity, python_owned_count, 1) ||
        !tidei_map_add(&python_owned_places, code, 0, (uint32_t)python_owned_count))
        return false;
    tidei_python_at_end = python_disown_all;
    tidei_python.Py_IncRef((void *)code);
    python_owned[python_owned_count++] = code;
    return true;
}

/* Called by the main thread with the GIL: own the code objects of the functions that it is in. */
static int
python_own_main(void *context)
{
    void *thread = tidei_python.PyGILState_GetThisThreadState();
    const struct tidei_python_layout *layout = tidei_python_layout;
    struct tidei_python_reader reader;

    (void)context;
    if (thread != NULL && tidei_python_enter(thread, &reader)) {
        tidei_callstack_lock();
        for (uintptr_t frame = tidei_python_first(layout, thread); reader.holds && frame != 0;
             frame = tidei_python_pointer(frame, layout->previous)) {
            uintptr_t code = tidei_python_pointer(frame, layout->code);

            if (!tidei_python_is_outside(layout, frame) && tidei_python_pointer(code, 8) == tidei_python.code_type)
                python_owns(code, true);
        }
        tidei_callstack_unlock();
        tidei_python_leave(&reader);
    }
    atomic_flag_clear(&python_own_pending);
    return 0;
}

static void
python_ask_main_to_own(void)
{
    if (!atomic_flag_test_and_set(&python_own_pending) && tidei_python.Py_AddPendingCall(python_own_main, NULL) != 0)
        atomic_flag_clear(&python_own_pending);
}

/* Look up the line of a place that is not known; 0: none. */
static __attribute__((noinline)) uint32_t
python_look_up(const struct tidei_python_layout *layout, uintptr_t frame, uintptr_t code, uintptr_t at, bool holds)
{
    char function[TIDEI_SOURCE_NAME + 1], file[TIDEI_SOURCE_NAME + 1];
    uint32_t number = PYTHON_LEFT_OUT;
    uint64_t identity;
    bool lasts, full;
    int line = 0, cancel;

    if (tidei_python_pointer(code, 8) != tidei_python.code_type)
        return 0;
    identity = python_identity(layout, code);
    if (tidei_python_has_begun(layout, frame, code, at)) {
        python_text(tidei_python_pointer(code, layout->function), function);
        python_text(tidei_python_pointer(code, layout->file), file);
        if (function[0] == '\0')
            strcpy(function, "?");
        line = tidei_python.PyCode_Addr2Line((void *)code, tidei_python_offset(layout, code, at));
        number = 0;
    }
    /* No cancellation: the thread holds a lock, and may wait for a trace's writer. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_callstack_lock();
    if (number == 0)
        number = tidei_source_find_locked(function, file, line > 0 ? (uint32_t)line : 0);
    lasts = identity != 0 && (layout->identity != 0 || python_owns(code, holds));
    full = python_owned_count == PYTHON_OWNED_MOST;
    if (lasts && number != 0)
        python_put(code, at, identity, number);
    tidei_callstack_unlock();
    if (!lasts && layout->identity == 0 && !holds && !full)
        python_ask_main_to_own();
    pthread_setcancelstate(cancel, NULL);
    return number;
}

static void
python_walk(const struct tidei_python_layout *layout, void *thread, unsigned depth, bool holds,
            struct tidei_python_walk *walk)
{
    unsigned count = 0;

    for (uintptr_t frame = tidei_python_first(layout, thread), code, at; frame != 0 && count < depth;
         frame = tidei_python_pointer(frame, layout->previous)) {
        bool is_entry = layout->entry != 0 ? tidei_python_byte(frame, layout->entry) != 0 : layout->at_scale != 0;
        uint32_t line = PYTHON_LEFT_OUT;

        if (!tidei_python_is_outside(layout, frame)) {
            code = tidei_python_pointer(frame, layout->code);
            at = tidei_python_at(layout, frame);
            line = python_find_line(code, at, python_identity(layout, code));
            if (__builtin_expect(line == 0, 0))
                line = python_look_up(layout, frame, code, at, holds);
        } else {
            is_entry = true;
        }
        if (line == PYTHON_LEFT_OUT || line == 0) {
            /* What is left out ends a run of frames all the same. */
            if (count > 0)
                walk->is_entry[count - 1] |= is_entry;
            continue;
        }
        walk->frames[count] = tidei_source_frame(line);
        walk->is_entry[count++] = is_entry;
    }
    walk->count = count;
}

void
tidei_python_walk(unsigned depth, struct tidei_python_walk *walk)
{
    struct tidei_python_reader reader;
    void *thread;

    walk->count = 0;
    if (__builtin_expect(tidei_python_state() == TIDEI_PYTHON_NONE, 0))
        tidei_python_begin_within();
    if (tidei_python_state() == TIDEI_PYTHON_NONE || tidei_python_state() == TIDEI_PYTHON_UNUSABLE)
        return;
    thread = tidei_python.PyGILState_GetThisThreadState();
    if (thread == NULL || !tidei_python_enter(thread, &reader))
        return;
    if (tidei_python_pointer((uintptr_t)thread, TIDEI_PYTHON_THREAD_INTERPRETER) ==
        (uintptr_t)tidei_python.PyInterpreterState_Main())
        python_walk(tidei_python_layout, thread, depth, reader.holds, walk);
    tidei_python_leave(&reader);
}

/* Where the interpreter's code lies; written once. */
static struct {
    uint64_t loop, loop_bytes;
    uint64_t begin, bytes; /* of a file that has nothing but the interpreter; else nothing */
} python_code;

/* Called for each object: the one that has the evaluation loop. */
static int
python_see_code(struct dl_phdr_info *info, size_t size, void *context)
{
    char program[PATH_MAX] = "";
    const char *path = info->dlpi_name, *slash;

    (void)size;
    (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t begin = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD || python_code.loop - begin >= segment->p_memsz)
            continue;
        if (path[0] == '\0' && readlink("/proc/self/exe", program, sizeof(program) - 1) > 0)
            path = program;
        slash = strrchr(path, '/');
        path = slash != NULL ? slash + 1 : path;
        if (strncmp(path, "libpython3", 10) == 0 || strncmp(path, "python3", 7) == 0) {
            python_code.begin = begin;
            python_code.bytes = segment->p_memsz;
        }
        return 1;
    }
    return 0;
}

static void
python_find_code(void)
{
    void *loop = tidei_python.eval_loop;
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (loop == NULL || dladdr1(loop, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
        return;
    python_code.loop = (uintptr_t)loop;
    python_code.loop_bytes = symbol->st_size;
    dl_iterate_phdr(python_see_code, NULL);
}

enum tidei_python_code
tidei_python_code_of(uint64_t address)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, python_find_code);
    /* A call precedes the address to which it returns. */
    if (address - 1 - python_code.loop < python_code.loop_bytes)
        return TIDEI_PYTHON_LOOP;
    return address - 1 - python_code.begin < python_code.bytes ? TIDEI_PYTHON_INSIDE : TIDEI_PYTHON_ELSEWHERE;
}
