/*
 * A recorder: one trace that is being written. This is all that adaptors see of it; producer.h is their way to record
 * an event, writer.h the other side.
 */
#ifndef TIDEI_TRACE_SESSION_RECORDER_H
#define TIDEI_TRACE_SESSION_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/log.h>
#include <tidemark/resource.h>

#include "src/trace/ring/ringfile.h"

struct tidei_writer;
struct tidei_drops;
struct tidei_gate;

enum tidei_recorder_mode {
    TIDEI_RECORDING = 0,
    TIDEI_RECORDER_FAILED = 1, /* the disk is full or such: events are counted as lost */
    TIDEI_RECORDER_CLOSED = 2, /* the process exits */
    TIDEI_RECORDER_FORKED = 3, /* the parent's; this process records nothing into it */
};

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
    /* Read for each event, written when recording begins and ends. */
    _Atomic uint64_t serial; /* of what the producers hold; changes when they must look again */
    uint32_t slot;
    bool tsc;
    bool fence;
    bool drop;
    _Atomic bool many;    /* more than one thread has recorded: their clocks are to be read in order */
    _Atomic int mode;     /* enum tidei_recorder_mode */
    atomic_flag ringless; /* set once a thread has got no ring */

    /* Under `lock`, for what happens once for a thread, a layer, a tag. */
    pthread_mutex_t lock;
    uint32_t references;
    uint32_t next_thread_id;
    uint32_t event_threads; /* that have recorded more than definitions */
    uint32_t next_layer_id;
    uint32_t next_stack;
    bool knows_devices; /* they are among the definitions */
    struct tidei_definition *definitions;
    size_t definition_count, definition_capacity;
    struct tidei_watch *watches;
    size_t watch_count, watch_capacity;
    bool watches_calls;        /* CUPTI has been asked for */
    struct tidei_drops *drops; /* what overflow=drop has dropped and may still see freed */

    /* Set at creation. */
    char *path;         /* owned; %p and the like are replaced */
    char *path_pattern; /* owned; as it was given */
    char *replaced;     /* owned; where the trace that is replaced is, until this one is kept; NULL: none */
    bool kept;          /* under the registry's lock */
    struct tide_log_options options;
    struct tidei_ringfile *file;
    struct tidei_writer *writer;
    struct tidei_recorder *next; /* of all open ones, under the registry's lock */
};

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

/* Count an event that could not be recorded. */
void tidei_recorder_lost(struct tidei_recorder *recorder, enum tidei_record_kind kind);

/* A thread gets no ring, for the reason in its error text: its events are lost, and the message sink is told once. */
void tidei_recorder_no_ring(struct tidei_recorder *recorder);

/* The recording has failed: from now on events are counted and not kept. Called by the writer. */
void tidei_recorder_fail(struct tidei_recorder *recorder);

/* Call `each` for every open recorder of this process, under the registry's lock. */
void tidei_recorder_each(void (*each)(struct tidei_recorder *recorder, void *context), void *context);

/* A recorder of this process has the ring file at `path` open. */
bool tidei_recorder_owns(const char *path);
bool tidei_recorder_owns_locked(const char *path); /* from within tidei_recorder_open */

/* The recorder with that serial still records; its lock is held until tidei_recorder_unlock where it is found. */
struct tidei_recorder *tidei_recorder_lock_serial(uint64_t serial);
void tidei_recorder_unlock(struct tidei_recorder *recorder);

/* Take the registry's lock where nobody has it, this thread neither; until tidei_recorder_unlock. */
bool tidei_recorder_try_lock(void);

/* With that lock: there is a recorder at this address, this one or one that came later. */
bool tidei_recorder_is_open_locked(const struct tidei_recorder *recorder);

/*
 * A recorder of the parent's in a forked process: begin a trace of its own where the path has %p. Whether it records
 * now. Takes the locks of tags, call stacks and registry.
 */
bool tidei_recorder_revive(struct tidei_recorder *recorder);
void tidei_recorder_revive_all(void);

/* Around a recovery: see files_lock in src/trace/session/registry.h. */
void tidei_recorder_files_lock(void);
void tidei_recorder_files_unlock(void);

/* Around all that a recovery does with SQLite, so that another thread may fork. */
struct tidei_gate *tidei_recorder_recovery_gate(void);

#endif
