/*
 * The library's per-thread state: one object on the heap for each thread, found through one word of thread-local
 * storage.
 *
 * Each module has a part of the object, of which this file knows only the size. The module declares the part's struct
 * with TIDEI_THREAD_PART, and reaches it with two loads. The library takes only that one word of the static TLS block,
 * and the two of inside.h: it may be nearly full in a process that loads the library with dlopen.
 *
 * A thread has no object before a part is first written, nor if host memory or the process's pthread keys are
 * exhausted. `tidei_thread` then points to an object that all such threads share, all zeros and read-only. So readers
 * need no test for NULL. Writers call tidei_thread_get and handle NULL: with an error status, an event counted as lost,
 * or a slower path.
 *
 * A thread that ends calls the functions set with tidei_thread_at_end, and frees its object. If the thread uses the
 * library again after that, in another destructor, it gets a new object.
 */
#ifndef TIDEI_SYNC_THREAD_H
#define TIDEI_SYNC_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_thread {
    uint64_t number;    /* from 1 upwards, never used again; 0 in the shared object */
    uint32_t os_id;     /* see tidei_thread_os_id; 0: not known yet */
    uint32_t tag;       /* of this thread's allocations; 0: none; written by src/context/tag.c */
    uint32_t ambient;   /* the latest change of the ambient tag that `tag` follows; as above */
    uint32_t callstack; /* of what it allocates while it runs no Python code; 0: none; src/context/callstack.c */
    bool refused;       /* set in the shared object of threads that could not get their own */
    bool relaxed;       /* within a call while a graph is captured; src/cuda/device.h, tidei_device_stream */
    uintptr_t place;    /* src/resource/place.h; 0: none */
    const void *untold; /* src/suballoc/chunks.h; NULL: none */

    struct tidei_await *await; /* src/resource/await.h; NULL: none */

    _Alignas(64) unsigned char capture[128]; /* src/trace/ring/capture.h */
    unsigned char producers[160];            /* src/trace/ring/producer.h */
    _Alignas(16) unsigned char slots[288];   /* slots.h */
    _Alignas(16) unsigned char tags[16];     /* src/context/tag.c */
    _Alignas(8) unsigned char fixed[8];      /* adaptors/fixed.c */
    _Alignas(8) unsigned char guard[8];      /* adaptors/guard/guard.c */
    _Alignas(16) unsigned char walk[16];     /* src/context/walk.c */
    _Alignas(16) unsigned char import[16];   /* src/bases/driver/import.c */
    _Alignas(8) unsigned char process[24];   /* src/process/call.h */
    _Alignas(16) unsigned char error[544];   /* src/resource/message.c */
    _Alignas(16) unsigned char sizes[272];   /* src/resource/text.c */
};

/* Declare that `part` of a thread's object has type `type`, and define `function`, which returns a pointer to it. */
#define TIDEI_THREAD_PART(function, part, type)                                                                        \
    static inline type *function(struct tidei_thread *thread)                                                          \
    {                                                                                                                  \
        return (type *)(void *)thread->part;                                                                           \
    }                                                                                                                  \
    _Static_assert(sizeof(type) <= sizeof(((struct tidei_thread *)NULL)->part), "the part has room for " #type)

/* This thread's object, or one shared by all threads without their own. Initial-exec: no call of __tls_get_addr. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) struct tidei_thread *tidei_thread;

/* The slow path of tidei_thread_get. Keeps errno. */
struct tidei_thread *tidei_thread_make(void);

/* This thread's own object, created if needed; NULL if it cannot be created. */
static inline struct tidei_thread *
tidei_thread_get(void)
{
    struct tidei_thread *thread = tidei_thread;

    return __builtin_expect(thread->number != 0, 1) ? thread : tidei_thread_make();
}

/* The functions called when a thread ends, in this order. */
enum tidei_thread_end { TIDEI_THREAD_END_PRODUCERS, TIDEI_THREAD_END_TAGS, TIDEI_THREAD_END_SLOTS, TIDEI_THREAD_ENDS };

/* Set the function that every thread with an object calls when it ends. Costs one store. */
void tidei_thread_at_end(enum tidei_thread_end end, void (*function)(struct tidei_thread *thread));

/* The slow path of tidei_thread_os_id. */
uint32_t tidei_thread_ask_os_id(void);

/* The thread id of the system, gettid(2). The caller holds no lock of the library. */
static inline uint32_t
tidei_thread_os_id(void)
{
    uint32_t id = tidei_thread->os_id;

    return __builtin_expect(id != 0, 1) ? id : tidei_thread_ask_os_id();
}

/*
 * Threads of the library's own. They block all signals but SIGBUS, so that the program's handlers run on the program's
 * threads. A process ends with its last thread: a thread of the library returns once tidei_thread_is_left, so that a
 * program whose main thread ended with pthread_exit ends as it would without the library.
 */

/* Have fork() set the number of the library's threads to 0 in a child. The caller holds no lock of the library. */
void tidei_thread_handle_forks(void);

/* Start a thread, after that; `name` has 15 characters at most. 0 or an error number. */
int tidei_thread_start(pthread_t *thread, const char *name, void (*function)(void *argument), void *argument);

/*
 * Call the function in a thread of its own, and wait until it has returned: for work that needs more stack than the
 * caller may have. Where no thread can be started, it is called in this one. The caller may hold locks, as long as the
 * function takes none of them. No cancellation point.
 */
void tidei_thread_call(const char *name, void (*function)(void *argument), void *argument);

/* Whether all threads of the program have ended, and only the library's are left. Some system calls. */
bool tidei_thread_is_left(void);

#endif
