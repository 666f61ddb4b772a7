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
    const char *subject;             /* static; for messages */
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
 * Make future work on `later` wait for all work submitted to `earlier` so far. A thread without a context uses that of
 * `events`. Errors: TIDE_EUNSUPPORTED (a driver without events), TIDE_EDRIVER. Thread safety: any thread; takes a short
 * lock.
 */
enum tide_status tidei_driver_order(struct tidei_driver_events *events, CUstream earlier, CUstream later);

/*
 * Wait on the host until all work submitted to any stream of the context of `events`, and of the current context, is
 * done. Destroyed streams are included: no handle is named, because the driver crashes on a destroyed one. Errors:
 * TIDE_EUNSUPPORTED (a child of fork()), TIDE_EDRIVER (also for work that failed). Thread safety: any thread.
 */
enum tide_status tidei_driver_order_all(struct tidei_driver_events *events);

#endif
#endif
