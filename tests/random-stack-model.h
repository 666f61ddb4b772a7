/* The expected state of a random stack: its live blocks, the figures of its layers, and its trace. */
#ifndef TESTS_RANDOM_STACK_MODEL_H
#define TESTS_RANDOM_STACK_MODEL_H

#include <pthread.h>

#include <tidemark/tidemark.h>

#include "random-stack-trace.h"
#include "random-stack.h"

#define THREADS_MOST 4
#define LIVE_MOST    48
#define MAILBOXES    8

struct block {
    unsigned char *pointer;
    size_t bytes;
    size_t alignment;
    unsigned char content;
    bool live;
    size_t life; /* its row in the trace */
};

struct round {
    struct random_stack random;
    struct tide_resource *stack;
    struct tide_resource *top_statistics; /* sees everything that passes the top */
    unsigned threads;
    unsigned steps;
    pthread_mutex_t lock; /* guards the fields below */
    struct block live[THREADS_MOST * LIVE_MOST + MAILBOXES];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t peak_bytes, total_bytes, total_count; /* the peak is exact with one thread */
    unsigned added_bins;
    unsigned faults; /* the number of faults; the first is printed */
    struct block mailboxes[MAILBOXES];
    struct lives lives;
};

/* Note a fault. Call with the lock held, or with no other threads. */
void fault(struct round *round, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Note that a call has failed. Call without the lock. */
void note_fault(struct round *round, const char *what, enum tide_status status);

/* Add a block that was allocated or, if `status` is not TIDE_OK, refused. */
void model_add(struct round *round, struct block *block, const struct caller *caller, enum tide_status status);

/* Remove a block before it is freed: its address may be given out again at once. */
void model_remove(struct round *round, const struct block *block, const struct caller *caller);

/* Returns UINT64_MAX if the figure is unknown. */
uint64_t figure_of(struct tide_resource *resource, enum tide_query what);

/* Compare the figures of the layers with the model, from the top down, while layers pass requests on unchanged. */
void check_figures(struct round *round);

/* After all frees and a trim, check that no layer has anything allocated, unless a layer above keeps its chunks. */
void check_empty(struct round *round, struct tide_resource *layer);

#endif
