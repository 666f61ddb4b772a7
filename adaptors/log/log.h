/* The private declarations of `log`: log.c records events, open.c decides what there is to record. */
#ifndef TIDEI_ADAPTORS_LOG_LOG_H
#define TIDEI_ADAPTORS_LOG_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/log.h>

#include "src/resource/resource.h"
#include "src/trace/session/recorder.h"

/* A base whose figures are sampled after each event. */
struct log_sampled {
    struct log_sampled *next;
    struct tide_resource *base; /* borrowed: it lies below */
    uint32_t layer_id;
};

#define LOG_CALLS   1u /* record the driver's calls within the events */
#define LOG_QUICK   2u /* the event ends when the driver's call ends */
#define LOG_SAMPLES 4u /* sample the bases in `sampled` */
#define LOG_STACKS  8u /* record call stacks of allocations */

struct log {
    struct tide_resource base;                 /* first */
    _Atomic(struct tidei_recorder *) recorder; /* holds a reference; NULL until one above has a path */
    uint16_t layer_id;                         /* set before `recorder` */
    _Atomic uint32_t stack_id;                 /* of the stack that it opened the trace for; 0: another log did */
    bool watches;                              /* opened the trace, and started the watch of its bases */
    _Atomic unsigned beside;                   /* extra records for each event: the flags above */
    _Atomic(struct log_sampled *) sampled;     /* owned */
    struct tide_log_options options;           /* as given; path is owned */
};

/* Open the trace that the options name, number the layers, and attach the logs below. Errors: as tide_log_create. */
enum tide_status tidei_log_open(struct log *log);

/* The log that opened the trace is destroyed: stop watching the resources below it. */
void tidei_log_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource);

#endif
