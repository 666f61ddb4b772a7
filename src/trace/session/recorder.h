/*
 * A recorder is one trace that is being written. Adaptors define their layers here, and record events with
 * src/trace/ring/producer.h. For the writer thread see writer.h.
 */
#ifndef TIDEI_TRACE_SESSION_RECORDER_H
#define TIDEI_TRACE_SESSION_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/log.h>
#include <tidemark/resource.h>

#include "src/tables/map.h"
#include "src/trace/events/sampler.h"
#include "src/trace/ring/session.h"

struct tidei_writer;

/* The definition of a layer, bin or stack, kept so that it can be written again into a forked process's own trace. */
struct tidei_definition {
    struct tidei_record record;
    char *text; /* owned */
    size_t length;
};

/* A resource whose used and reserved bytes are sampled. */
struct tidei_watch {
    struct tide_resource *resource; /* borrowed */
    uint32_t layer_id;              /* whose figures are sampled; 0: the device is */
    bool counts;                    /* what the layer counts is read, and not its figures */
    int32_t device;
    struct tidei_high high; /* at the begin of the watch */
};

/* What a forked process's own trace begins with beside the definitions: `begin` records it. */
struct tidei_beginning {
    void (*begin)(void *context);
    void *context; /* borrowed */
};

/* The numbers of layers that are recorded no more, for others of the same shape. */
struct tidei_ended_layers {
    struct tidei_ended_layers *next;
    char *shape;       /* owned: equal for layers that have the same definitions */
    uint32_t stack_id; /* of the stack that they were the top of; 0: another log has it */
    size_t count;
    uint32_t ids[];
};

struct tidei_recorder {
    struct tidei_session session; /* first */

    /* Guarded by session.lock; used once for each layer. */
    uint32_t next_layer_id;
    uint32_t next_stack;
    bool knows_devices; /* the definitions have the GPUs */
    struct tidei_definition *definitions;
    size_t definition_count, definition_capacity;
    struct tidei_watch *watches;
    size_t watch_count, watch_capacity;
    struct tidei_map watch_places;           /* of a resource's watches in that list */
    bool watches_calls;                      /* CUPTI was requested */
    bool uses_again;                         /* tidei_recorder_use_again was called */
    struct tidei_ended_layers *ended_layers; /* owned */

    /* Guarded by the lock of tidei_sessions. */
    struct tidei_beginning *beginnings;
    size_t beginning_count, beginning_capacity;
    uint32_t references;
    uint32_t left; /* of these, whose holders record no more */
    bool kept;
    bool ended; /* the trace is complete, though there are references */

    /* Set at creation. */
    char *path;         /* owned; %p and the like expanded */
    char *path_pattern; /* owned; as given */
    char *replaced;     /* owned; path of the replaced trace until this one is kept; NULL: none */
    struct tide_log_options options;
    struct tidei_writer *writer;
};

/* The recorder of a session: every session is the first member of one. */
static inline struct tidei_recorder *
tidei_recorder_of(struct tidei_session *session)
{
    return (struct tidei_recorder *)session;
}

/* Whether this process records into the session's trace, or did until the disk was full. */
static inline bool
tidei_recorder_is_open(const struct tidei_session *session)
{
    int mode = atomic_load_explicit(&session->mode, memory_order_relaxed);

    return mode == TIDEI_SESSION_RECORDING || mode == TIDEI_SESSION_FAILED;
}

/*
 * Create the trace that options->path names, or take a reference if this process already has it open.
 * Errors: as tide_log_create.
 */
enum tide_status tidei_recorder_open(const struct tide_log_options *options, struct tidei_recorder **out);

/*
 * protect.c: the recorder of this process that writes the file at `path`, which may be another name of it; NULL: none.
 * The lock of tidei_sessions is held.
 */
struct tidei_recorder *tidei_recorder_at_locked(const char *path);

/* protect.c: whether tide_trace_protect was called for the file at `path`, by this or another name. */
bool tidei_trace_is_protected(const char *path);

/* protect.c: make its lock one of those that fork() takes. The caller holds no lock of the library. */
void tidei_protect_handle_forks(void);

/* Take another reference; returns `recorder`. */
struct tidei_recorder *tidei_recorder_retain(struct tidei_recorder *recorder);

/* Keep the trace, and remove the one it replaces. A trace that was not kept is discarded with its last reference. */
void tidei_recorder_keep(struct tidei_recorder *recorder);

/*
 * exit.c: a device is watched, so that its driver has started: at exit() the recorders take their last samples before
 * the driver ends.
 */
void tidei_recorder_watches_device(int32_t device);

/* Release a reference; the last release completes the trace. */
void tidei_recorder_release(struct tidei_recorder *recorder);

/*
 * The holder of a reference records no more, but keeps it: threads may be within events of its layer. Where that holds
 * for all references, the trace is completed now, and events that come yet are passed over. The memory stays until the
 * last release, each by tidei_recorder_release_as with `left` true.
 */
void tidei_recorder_leave(struct tidei_recorder *recorder);
void tidei_recorder_release_as(struct tidei_recorder *recorder, bool left);

/* A number for a new layer. */
uint32_t tidei_recorder_new_layer(struct tidei_recorder *recorder);

/*
 * Keep the numbers of layers that have ended. What new layers with such numbers count adds to what the former ones
 * have counted.
 */
void tidei_recorder_use_again(struct tidei_recorder *recorder);
bool tidei_recorder_uses_again(struct tidei_recorder *recorder);

/* Keep numbers (owned from then on, with their shape); whether there are any; and take those of a shape (or NULL). */
void tidei_recorder_put_ended_layers(struct tidei_recorder *recorder, struct tidei_ended_layers *layers);
bool tidei_recorder_has_ended_layers(struct tidei_recorder *recorder);
struct tidei_ended_layers *tidei_recorder_take_ended_layers(struct tidei_recorder *recorder, const char *shape);

/* Free such numbers; NULL: nothing. */
void tidei_ended_layers_free(struct tidei_ended_layers *layers);

/* Record a layer's definition: its kind, its arguments as stack text, its upstream (0: it is a base), its device. */
void tidei_recorder_define_layer(struct tidei_recorder *recorder, uint32_t layer_id, uint32_t upstream_layer_id,
                                 const char *kind, const char *config, int64_t device);
void tidei_recorder_define_bin(struct tidei_recorder *recorder, uint32_t layer_id, uint64_t limit_bytes,
                               uint32_t upstream_layer_id);

/* Record a stack's text. It replaces stack `stack_id` unless that is 0. Returns the stack's number. */
uint32_t tidei_recorder_define_stack(struct tidei_recorder *recorder, uint32_t stack_id, const char *text);

/* Record the machine's GPUs, once for each trace. Starts the driver. Keeps the thread's error. */
void tidei_recorder_define_devices(struct tidei_recorder *recorder);

/* Make the writer sample the used and reserved bytes of `resource` (borrowed until the matching unwatch). */
void tidei_recorder_watch(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id);

/* Sample the free memory of the device of a base, if it has one, until that is unwatched. */
void tidei_recorder_watch_device(struct tidei_recorder *recorder, struct tide_resource *base);

/* Read what `resource` counts, if anything, likewise. */
void tidei_recorder_watch_counts(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id);

/* End all watches of a resource. */
void tidei_recorder_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource);

/*
 * From now on a forked process's own trace begins with what `begin` records. It is called with the locks of tags, call
 * stacks and sessions, in any thread. Without host memory it is not. The other removes it.
 */
void tidei_recorder_begin_with(struct tidei_recorder *recorder, void (*begin)(void *context), void *context);
void tidei_recorder_begin_without(struct tidei_recorder *recorder, const void *context);

/* Follow driver calls through CUPTI, if it is available and the options ask for it. Returns whether they are. */
bool tidei_recorder_watch_calls(struct tidei_recorder *recorder);

/* Write every event whose call has returned to the trace, and wait until that is done. Errors: TIDE_EIO. */
enum tide_status tidei_recorder_flush(struct tidei_recorder *recorder);

/* After fork(): make every recorder of the parent's whose path has %p begin this process's own trace. */
void tidei_recorder_revive_all(void);

/* notes.c: record a misuse by the calling thread into every trace of this process. */
/* tide_mark from within a call. Keeps the thread's error. */
void tidei_trace_mark(const char *text);

void tidei_trace_misuse(const struct tidei_record *call, const struct tidei_misuse *misuse);

/*
 * The rest is for the files of this folder. Create trace and ring file at recorder->path, describe the process in meta,
 * and start the writer. A trace that this one replaces is kept at recorder->replaced (owned) until tidei_recorder_keep.
 * Errors: as tide_log_create. On failure the files are as they were before.
 */
enum tide_status tidei_recorder_create_files(struct tidei_recorder *recorder);

/* Stop the writer, remove the files, and restore a replaced trace. The caller still frees the writer. */
void tidei_recorder_discard_files(struct tidei_recorder *recorder);

/* Repeat all definitions, watches and the CUPTI request for the new trace of a forked process. */
void tidei_recorder_define_again(struct tidei_recorder *recorder);

/* Install the fork hooks. Call it before the first recorder is created. */
void tidei_recorder_handle_forks(void);

/*
 * In a forked process: if the recorder is the parent's and its path has %p, begin this process's own trace. Returns
 * whether the recorder records now. Takes the locks of tags, call stacks and sessions.
 */
bool tidei_recorder_revive(struct tidei_session *session);

/*
 * late.c, after the end at exit(): have what comes recorded into a new ring file, from which the next command adds it.
 * Returns whether the recorder records now.
 */
bool tidei_recorder_late(struct tidei_recorder *recorder);

/* Set the parent's objects aside without freeing them. False without host memory. Caller holds tidei_sessions.lock. */
bool tidei_recorder_leave_behind(struct tidei_recorder *recorder);

/* From now on, record each new tag, module and call stack into every trace of this process. Cheap; may be repeated. */
void tidei_context_follow(void);

/* Record all that exist so far into a new trace. */
void tidei_context_define(struct tidei_session *session);
void tidei_context_define_locked(struct tidei_session *session); /* caller holds the locks of tags and call stacks */

#endif
