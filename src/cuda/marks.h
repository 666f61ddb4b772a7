/* Events behind frees of a pool of the driver, so that it can give the memory back; see src/resource/await.h. */
#ifndef TIDEI_CUDA_MARKS_H
#define TIDEI_CUDA_MARKS_H

#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

#include "src/resource/await.h"

/*
 * How many marks are kept that were late. Where there are more, the latest of each stream are, as what is before it on
 * that stream passes earlier. Where there are still more, what they stand for goes back later or never.
 */
#define TIDEI_MARKS_MOST 16

struct tidei_mark {
    CUevent event; /* owned, of the device's own context */
    bool vain;     /* a wish has waited for it up to its bound: no other one does */
    tide_stream stream;
    uint64_t number; /* of its wish: a later one has a larger number */
};

struct tidei_marks {
    struct tidei_lock lock; /* guards the fields below; never held over a call of the driver */
    size_t count;           /* of those that are late */
    uint64_t wishes;        /* so far */
    struct tidei_mark marks[TIDEI_MARKS_MOST];
};

void tidei_marks_init(struct tidei_marks *marks);

/* Give the events back to the device, which is still open. */
void tidei_marks_fini(struct tidei_marks *marks, struct tidei_device *device);

/*
 * Do what a wish asks. A stream that is being captured is left out, and a capture of another one goes on. Nothing is
 * done where the driver has no events, and in a child of fork(). Thread safety: any thread; several may wait at once.
 */
void tidei_marks_await(struct tidei_marks *marks, struct tidei_device *device, struct tidei_await *await);

#endif
#endif
