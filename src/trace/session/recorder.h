/*
 * A recorder: one trace that is being written. Adaptors define their layers here and record events with
 * src/trace/ring/producer.h. The writer is in writer.h.
 */
#ifndef TIDEI_TRACE_SESSION_RECORDER_H
#define TIDEI_TRACE_SESSION_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/log.h>
#include <tidemark/resource.h>

#include "src/trace/ring/session.h"

struct tidei_writer;

/* What a layer, a bin or a stack was defined as: kept to be written again for a forked process's own trace. */
struct tidei_definition {
    struct tidei_record record;
    char *text; /* owned */
    size_t length;
};

/* A resource that is asked now and then what it holds. */
struct tidei_watch {
    struct tide_resource *resource; /* borrowed */
    uint32_t layer_id;
};

struct tidei_recorder {
    struct tidei_session session; /* first */

    /* Under session.lock, for what happens once for a layer. */
    uint32_t next_layer_id;
    uint32_t next_stack;
    bool knows_devices; /* they are among the definitions */
    struct tidei_definition *definitions;
    size_t definition_count, definition_capacity;
    struct tidei_watch *watches;
    size_t watch_count, watch_capacity;
    bool watches_calls; /* CUPTI has been asked for */

    /* Under the lock of tidei_sessions. */
    uint32_t references;
    bool kept;

    /* Set at creation. */
    char *path;         /* owned; %p and the like are replaced */
    char *path_pattern; /* owned; as it was given */
    char *replaced;     /* owned; where the trace that is replaced is, until this one is kept; NULL: none */
    struct tide_log_options options;
    struct tidei_writer *writer;
};

/* The recorder that a session is a part of: every one is. */
static inline struct tidei_recorder *
tidei_recorder_of(struct tidei_session *session)
{
    return (struct tidei_recorder *)session;
}

/*
 * Open the trace that options->path names, or take a reference to it where this process has it open already.
 * Errors: as tide_log_create.
 */
enum tide_status tidei_recorder_open(const struct tide_log_options *options, struct tidei_recorder **out);

/* Take another reference; returns `recorder`. */
struct tidei_recorder *tidei_recorder_retain(struct tidei_recorder *recorder);

/* The trace is there to stay: what it replaces goes. One that is not kept is discarded with its last reference. */
void tidei_recorder_keep(struct tidei_recorder *recorder);

/* Give a reference back; the last one completes the trace. */
void tidei_recorder_release(struct tidei_recorder *recorder);

/* Number a new layer, or a new stack. */
uint32_t tidei_recorder_new_layer(struct tidei_recorder *recorder);

/* Tell the trace what a layer is: its kind, its arguments as stack text, what is below (0: a base), its device. */
void tidei_recorder_define_layer(struct tidei_recorder *recorder, uint32_t layer_id, uint32_t upstream_layer_id,
                                 const char *kind, const char *config, int64_t device);
void tidei_recorder_define_bin(struct tidei_recorder *recorder, uint32_t layer_id, uint64_t limit_bytes,
                               uint32_t upstream_layer_id);

/* Tell the trace of a stack, in the place of stack `stack_id` where that is not 0. Returns its number. */
uint32_t tidei_recorder_define_stack(struct tidei_recorder *recorder, uint32_t stack_id, const char *text);

/* Tell the trace which GPUs there are, once; starts the driver. Keeps the thread's error. */
void tidei_recorder_define_devices(struct tidei_recorder *recorder);

/* Have the writer ask `resource` (borrowed until the matching unwatch) for its used and reserved bytes. */
void tidei_recorder_watch(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id);
void tidei_recorder_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource);

/* Have the driver's calls followed, where CUPTI can be had and the options want it: whether they are. */
bool tidei_recorder_watch_calls(struct tidei_recorder *recorder);

/* Everything whose call has returned is in the file when this returns. Errors: TIDE_EIO. */
enum tide_status tidei_recorder_flush(struct tidei_recorder *recorder);

/* Have every recorder that is the parent's begin a trace of this process's own, where its path has %p. */
void tidei_recorder_revive_all(void);

/* Write all definitions, watches and calls into the trace that a forked process has begun. */
void tidei_recorder_define_again(struct tidei_recorder *recorder);

#endif
