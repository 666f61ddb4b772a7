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
    struct tide_resource *top_statistics; /* sees all that passes through the top */
    unsigned threads;
    unsigned steps;
    pthread_mutex_t lock; /* guards what follows */
    struct block live[THREADS_MOST * LIVE_MOST + MAILBOXES];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t peak_bytes, total_bytes, total_count; /* the peak is exact with one thread */
    unsigned added_bins;
    unsigned faults; /* what went wrong; the first is told */
    struct block mailboxes[MAILBOXES];
    struct lives lives;
};

/* Note a fault. Call with the lock held, or with no other threads. */
void fault(struct round *round, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of a call that has failed, without the lock. */
void note_fault(struct round *round, const char *what, enum tide_status status);

/* A block that was handed out; or, where `status` is not TIDE_OK, one that was not. */
void model_add(struct round *round, struct block *block, const struct caller *caller, enum tide_status status);

/* A block that is about to be freed: its address may come back at once. */
void model_remove(struct round *round, const struct block *block, const struct caller *caller);

/* UINT64_MAX: unknown. */
uint64_t figure_of(struct tide_resource *resource, enum tide_query what);

/* From the top down, while layers pass requests on unchanged, check that their figures are the model's. */
void check_figures(struct round *round);

/* After all is freed and trimmed, no layer has anything outstanding, unless a layer above keeps its chunks. */
void check_empty(struct round *round, struct tide_resource *layer);

#endif
