/*
 * What the library keeps for each thread: one object on the heap, found through one word of thread-local storage.
 *
 * Each room has a part of the object, of which this file knows only the size. The room declares the part's struct with
 * TIDEI_THREAD_PART, and reads it with two loads. One word is all that the library takes of the static TLS block, in
 * which a process that opens the library with dlopen may have little left.
 *
 * A thread has no object until a part is to be written, and when the host has no memory for it, or the process has used
 * up its keys of pthread_key_create. `tidei_thread` then points to an object that all such threads share, which is all
 * zeros and read-only. So what only reads asks no pointer for NULL; what writes calls tidei_thread_get and has an
 * answer where that returns NULL: an error status, an event that is counted as lost, or the longer way.
 *
 * A thread that ends calls what rooms have set with tidei_thread_at_end, and frees its object. A thread that goes on
 * after that, in a destructor of its own, gets a new object.
 */
#ifndef TIDEI_SYNC_THREAD_H
#define TIDEI_SYNC_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_thread {
    uint64_t number; /* from 1 upwards, never used again; 0 in the shared object */
    uint32_t os_id;  /* see tidei_thread_os_id; 0: not asked for yet */
    uint32_t tag;    /* of this thread's allocations; 0: none; written by src/context/tag.c */
    bool refused;    /* the shared object of threads that were to have their own, and got none */

    _Alignas(64) unsigned char capture[128]; /* src/trace/ring/capture.h */
    unsigned char producers[160];            /* src/trace/ring/producer.h */
    _Alignas(16) unsigned char slots[288];   /* slots.h */
    _Alignas(16) unsigned char tags[16];     /* src/context/tag.c */
    _Alignas(8) unsigned char fixed[8];      /* adaptors/fixed/block-shards.c */
    _Alignas(8) unsigned char guard[8];      /* adaptors/guard/canaries.c */
    _Alignas(16) unsigned char walk[16];     /* src/context/walk.c */
    _Alignas(16) unsigned char import[16];   /* src/bases/driver/import.c */
    _Alignas(16) unsigned char error[528];   /* src/resource/message.c */
    _Alignas(16) unsigned char sizes[272];   /* src/resource/text.c */
};

/* Declare that the part `part` of a thread's object is a `type`, which `function` returns a pointer to. */
#define TIDEI_THREAD_PART(function, part, type)                                                                        \
    static inline type *function(struct tidei_thread *thread)                                                          \
    {                                                                                                                  \
        return (type *)(void *)thread->part;                                                                           \
    }                                                                                                                  \
    _Static_assert(sizeof(type) <= sizeof(((struct tidei_thread *)NULL)->part), "the part has room for " #type)

/* This thread's object, or one that all threads without their own share. Initial-exec: no call of __tls_get_addr. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) struct tidei_thread *tidei_thread;

/* The slow side of tidei_thread_get. Keeps errno. */
struct tidei_thread *tidei_thread_make(void);

/* This thread's own object; NULL where it can have none. */
static inline struct tidei_thread *
tidei_thread_get(void)
{
    struct tidei_thread *thread = tidei_thread;

    return __builtin_expect(thread->number != 0, 1) ? thread : tidei_thread_make();
}

/* In the order in which they are called. */
enum tidei_thread_end { TIDEI_THREAD_END_PRODUCERS, TIDEI_THREAD_END_TAGS, TIDEI_THREAD_END_SLOTS, TIDEI_THREAD_ENDS };

/* Every thread that has an object calls `function` when it ends. Costs a store. */
void tidei_thread_at_end(enum tidei_thread_end end, void (*function)(struct tidei_thread *thread));

/* The system's number of this thread, gettid(2). The caller holds no lock of the library. */
uint32_t tidei_thread_os_id(void);

#endif
