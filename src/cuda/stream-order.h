/* Orders one CUDA stream behind another, with events that are kept for reuse. */
#ifndef TIDEI_CUDA_STREAM_ORDER_H
#define TIDEI_CUDA_STREAM_ORDER_H

#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include "src/sync/lock.h"

#define TIDEI_DRIVER_EVENTS 16

/* Idle events of one context. */
struct tidei_driver_events {
    const struct tidei_driver *cuda; /* borrowed */
    const char *subject;             /* static; of messages */
    CUcontext context;               /* borrowed */
    struct tidei_lock lock;
    size_t count;                      /* under lock */
    CUevent idle[TIDEI_DRIVER_EVENTS]; /* under lock */
};

/* Errors: TIDE_ENOMEM. */
void tidei_driver_events_init(struct tidei_driver_events *events, const struct tidei_driver *cuda, const char *subject,
                              CUcontext context);

/* Destroy the idle events; where `touch_driver` is false, only forget them. */
void tidei_driver_events_fini(struct tidei_driver_events *events, bool touch_driver);

/*
 * Have what will be submitted to `later` wait for what `earlier` holds so far. A thread without a context uses that
 * of `events`. Errors: TIDE_EUNSUPPORTED (a driver without events), TIDE_EDRIVER. Thread safety: any thread; a short
 * lock.
 */
enum tide_status tidei_driver_order(struct tidei_driver_events *events, CUstream earlier, CUstream later);

/*
 * Wait on the host until the context of `events`, and the one that is current, have done all that was submitted to any
 * of their streams, destroyed ones too: no handle is named, as the driver crashes on one that is gone. Errors:
 * TIDE_EUNSUPPORTED (a child of fork()), TIDE_EDRIVER (also for work that failed). Thread safety: any thread.
 */
enum tide_status tidei_driver_order_all(struct tidei_driver_events *events);

#endif
#endif
