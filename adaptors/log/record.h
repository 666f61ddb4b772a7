/*
 * What a `log` is while it records: its layers' numbers, what it adds to an event, and the recording of calls.
 *
 * A log without a recorder passes each call on. Progress: tidei_log_allocate and tidei_log_deallocate take no lock, but
 * for what their upstream does, and for a ring that is full (src/trace/ring/producer.h).
 */
#ifndef TIDEI_ADAPTORS_LOG_RECORD_H
#define TIDEI_ADAPTORS_LOG_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/log.h>
#include <tidemark/resource.h>

#include "src/resource/resource.h"
#include "src/sync/lock.h"
#include "src/trace/session/recorder.h"

/* A layer whose figures are sampled after each event. */
struct tidei_log_sampled {
    struct tidei_log_sampled *next;
    struct tide_resource *layer; /* borrowed: it lies below */
    uint32_t layer_id;
    struct tidei_lock lock; /* guards `high` */
    struct tidei_high high;
};

#define TIDEI_LOG_CALLS   1u  /* record the driver's calls within the events */
#define TIDEI_LOG_QUICK   2u  /* the event ends when the driver's call ends */
#define TIDEI_LOG_SAMPLES 4u  /* sample the layers in `sampled` */
#define TIDEI_LOG_STACKS  8u  /* record call stacks of allocations */
#define TIDEI_LOG_TAP     16u /* a tap: records what no log below has; calls are those of a log above that records */
#define TIDEI_LOG_TELLS   32u /* lies below a tap, which is to know what is recorded */

/* The numbers of the layers of a stack in its trace, sorted by resource. */
struct tidei_log_layers {
    struct tidei_log_layers *before; /* owned; readers may still have it */
    size_t count;
    struct tidei_log_numbered {
        const struct tide_resource *resource; /* only compared */
        uint32_t id;
    } items[];
};

struct tidei_log {
    struct tide_resource base;                   /* first */
    _Atomic(struct tidei_recorder *) recorder;   /* holds a reference; NULL until one above has a path */
    uint16_t layer_id;                           /* set before `recorder` */
    uint64_t opening;                            /* that of the log which numbered it; set before `recorder` */
    _Atomic uint32_t stack_id;                   /* of the stack that it opened the trace for; 0: another log did */
    bool watches;                                /* opened the trace, and started the watch of its bases */
    bool leaving;                                /* tidei_log_end was called; with the lock of opening.c */
    bool ended;                                  /* what it has set up below it has ended */
    _Atomic unsigned extras;                     /* extra records for each event: the flags above */
    _Atomic(struct tidei_log_sampled *) sampled; /* owned */
    struct tidei_log_below *below;               /* owned */
    _Atomic(struct tidei_log_layers *) layers;   /* owned; NULL until the whole stack has numbers */
    struct tidei_log *next;                      /* of those with `layers`; with tidei_upstreams_lock */
    struct tidei_log **link;                     /* what points to it in that list; NULL: it is in none */
    struct tide_log_options options;             /* as given; path is owned */
};

/* As operations of the kind. */
enum tide_status tidei_log_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream,
                                    void **out);
enum tide_status tidei_log_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment,
                                      tide_stream stream);

/* Record a block that was allocated before the log recorded. */
void tidei_log_hold(struct tidei_log *log, const struct tidei_place *place);

/* Count an allocation that has not passed the stack as lost in the trace of its first log, if it has one. */
void tidei_log_passed_by(struct tide_resource *top);

/* Record what is reserved after the last event, when no event follows soon. */
void tidei_log_sample_last(struct tidei_log *log);

/* The order of tidei_log_layers.items, for qsort and bsearch. */
int tidei_log_by_resource(const void *left, const void *right);

/* The number of a layer of this log's stack; 0: it is none. */
uint16_t tidei_log_layer_number(struct tidei_log *log, const struct tide_resource *resource);

#endif
