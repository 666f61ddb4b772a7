/* What the files of `log` share: log.c records events, log-open.c says what there is to record. */
#ifndef TIDEI_ADAPTORS_LOG_LOG_H
#define TIDEI_ADAPTORS_LOG_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/log.h>

#include "src/resource/resource.h"
#include "src/trace/session/recorder.h"

/* A base that is asked what it holds after each event. */
struct log_sampled {
    struct log_sampled *next;
    struct tide_resource *base; /* borrowed: it lies below */
    uint32_t layer_id;
};

#define LOG_CALLS   1u /* the driver's calls within them */
#define LOG_QUICK   2u /* an event is over when its call is */
#define LOG_SAMPLES 4u /* what `sampled` has */
#define LOG_STACKS  8u /* of an allocation its call stack */

struct log {
    struct tide_resource base;                 /* first */
    _Atomic(struct tidei_recorder *) recorder; /* holds a reference; NULL until one above has a path */
    uint16_t layer_id;                         /* set before `recorder` */
    _Atomic uint32_t stack_id;             /* of the stack that it opened the trace for; 0: another one has it all */
    bool watches;                          /* opened the trace, and has the bases watched */
    _Atomic unsigned beside;               /* what is recorded beside its events: the flags above */
    _Atomic(struct log_sampled *) sampled; /* owned */
    struct tide_log_options options;       /* as they were given; path is owned */
};

/* Open the trace that the options name, number the layers, have the logs below join. Errors: as tide_log_create. */
enum tide_status tidei_log_open(struct log *log);

/* The log that opened the trace goes: nothing below it is watched any more. */
void tidei_log_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource);

#endif
