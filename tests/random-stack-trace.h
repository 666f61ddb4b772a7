/* Compares the trace of a random stack with its expected content: the layers, and each allocation's life. */
#ifndef TESTS_RANDOM_STACK_TRACE_H
#define TESTS_RANDOM_STACK_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/tidemark.h>

#include "random-stack.h"

/* The caller as it is recorded: the system's thread id, the stream, and the number of the tag or 0. */
struct caller {
    int64_t thread;
    tide_stream stream;
    int64_t tag;
};

enum life_column {
    LIFE_ADDRESS,
    LIFE_SIZE,
    LIFE_ALIGNMENT,
    LIFE_STATUS,
    LIFE_TAG,
    LIFE_ALLOC_THREAD,
    LIFE_ALLOC_STREAM,
    LIFE_FREE_THREAD, /* -1: not freed */
    LIFE_FREE_STREAM, /* -1: not freed */
    LIFE_COLUMNS
};

/* A row of `allocation` without its times. */
struct life {
    int64_t column[LIFE_COLUMNS];
};

struct lives {
    struct life *all; /* owns */
    size_t count;
    size_t capacity;
};

/* Add one; returns its index. */
size_t lives_add(struct lives *lives, const struct life *life);
void lives_free(struct lives *lives);

#define TRACE_LAYERS_MOST 512

/* The layers of a stack, with their numbers in the trace. */
struct trace_layers {
    struct {
        struct tide_resource *resource; /* borrowed */
        int64_t id;
        unsigned edges; /* the number of edges to it from layers of the trace */
    } all[TRACE_LAYERS_MOST];
    size_t count;
    size_t logs;
};

/*
 * Check the rows of `layer` and `layer_bin` in the trace at `path` for `log`, which opened it, and all layers below.
 * Returns what is wrong, or NULL. Call right after the stack was made.
 */
const char *trace_check_layers(const char *path, struct tide_resource *log, struct trace_layers *layers);

/*
 * Check the rows of `allocation` likewise: compare those of `log`, and of the logs below it that get the same requests,
 * with the model, and check that in all logs no two blocks overlap. All blocks must be free, and the trace flushed.
 * Sorts `model`.
 */
const char *trace_check_lives(const char *path, const struct random_stack *random, struct tide_resource *log,
                              const struct trace_layers *layers, struct lives *model);

/* Check the whole trace likewise, after the stack was released: every block was freed at every layer. */
const char *trace_check_end(const char *path, const struct random_stack *random);

#endif
