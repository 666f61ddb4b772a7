/* A base for tests: it counts calls and bytes, and a test can make it fail, delay, and return chosen addresses. */
#ifndef TESTS_UPSTREAM_H
#define TESTS_UPSTREAM_H

#include <pthread.h>
#include <stdbool.h>

#include <tidemark/tidemark.h>

struct upstream_block;

/*
 * The knobs are set by the test while no other thread uses the resource. The figures are this resource's own: read
 * them when no other thread uses it, or take `lock`.
 */
struct upstream {
    struct tide_resource base;
    pthread_mutex_t lock;

    /* knobs */
    uint64_t fail_allocate;       /* the nth allocation call from now on fails; 0: none */
    uint64_t fail_allocate_count; /* how many fail from there on; 0: only that one */
    enum tide_status fail_status; /* their status; TIDE_OK: TIDE_ECAPACITY */
    uint64_t fail_deallocate;     /* the nth deallocation call from now on fails; 0: none */
    unsigned delay_us;            /* each call takes at least this long */
    uint64_t capacity_bytes;      /* refuse requests beyond it; 0: no limit */
    void *const *chosen;          /* addresses to give out next, in this order; then its own again */
    size_t chosen_count;
    bool reuse;                        /* give out the block freed last at once, if size and alignment are the same */
    bool memory;                       /* its own addresses are backed by host memory */
    bool *destroyed;                   /* set when the last reference is released; may be NULL */
    tide_stream gone;                  /* a destroyed stream; 0: none */
    uint64_t page_bytes;               /* unless 0: its blocks may be used as one where they touch */
    uint64_t unit_bytes;               /* unless 0: it keeps memory in these units for later requests, */
    uint64_t kept_bytes;               /* and has so many beside those in use, */
    uint64_t told_bytes;               /* and was told to keep so many; 0: was not told */
    enum tide_status trim_status;      /* unless TIDE_OK, a trim returns it */
    enum tide_status order_all_status; /* unless TIDE_OK, an order behind TIDE_STREAM_ALL returns it */

    /* figures */
    uint64_t allocate_calls;
    uint64_t deallocate_calls;
    uint64_t order_calls;
    uint64_t order_all_calls; /* of these, behind TIDE_STREAM_ALL */
    uint64_t trim_calls;
    uint64_t last_keep_bytes;
    uint64_t gone_named; /* calls that named the destroyed stream, on which a driver would crash */
    tide_stream last_stream;
    tide_stream last_earlier;
    tide_stream last_later;
    size_t last_bytes;
    size_t last_alignment;
    uint64_t live_bytes;
    uint64_t live_count; /* without allocations of 0 bytes */
    uint64_t peak_bytes;
    uint64_t wrong_frees; /* unknown pointers, or wrong sizes or alignments; 0 below a correct adaptor */

    /* its own */
    uint64_t next_address;
    struct upstream_block *live[1024];
    struct upstream_block *freed;
};

/* A new upstream, with one reference in base. Exits without memory. Release it like any resource. */
struct upstream *upstream_create(void);

#endif
