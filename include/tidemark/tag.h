/*
 * Tags and marks: what a program says about itself in its traces and reports.
 *
 * A tag names the part of the program that a thread is in. Traces (`log`), `track` and `statistics` note the tag with
 * each allocation. A mark is a point in time with a text, such as "epoch 3".
 */
#ifndef TIDEMARK_TAG_H
#define TIDEMARK_TAG_H

#include <stddef.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begin a tag: what the calling thread allocates from now on is noted under `name`, until the matching tide_tag_pop.
 * Tags nest: within "train", a push of "forward" gives the path "train/forward". `name` is UTF-8 and copied; what is
 * longer than 255 bytes is cut.
 *
 * On failure no tag has begun, so do not pop it.
 * Errors: TIDE_EINVAL (NULL or empty), TIDE_ENOMEM, TIDE_ESIGNAL (from a signal handler within another call).
 * Thread safety: any thread, and signal handlers; each thread has its own tags. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_tag_push(const char *name);

/*
 * End the innermost tag of the calling thread. Does nothing where the thread has none, and in a signal handler within
 * another call.
 * Thread safety: any thread, and signal handlers; each thread has its own tags. Since 0.1.
 */
TIDE_EXPORT void tide_tag_pop(void);

/*
 * How many tags of the calling thread are open; the ambient one is none of them. For runtimes that can be interrupted
 * between a push and their note of it.
 * Thread safety: any thread, and signal handlers; each thread has its own tags. Since 0.1.
 */
TIDE_EXPORT size_t tide_tag_depth(void);

/*
 * Set the ambient tag of the process: what a thread allocates while it has no tag of its own is noted under `name`. For
 * phases of a program whose allocations come from threads that it does not know, such as those of PyTorch's autograd.
 * It replaces the former one; NULL: none. A thread that is within an allocation may still note the former one. `name`
 * is as for tide_tag_push; tags that threads push do not nest in it.
 *
 * On failure nothing has changed.
 * Errors: TIDE_EINVAL (empty), TIDE_ENOMEM.
 * Thread safety: any thread. Costs each recording thread some hundred nanoseconds at its next event. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_tag_ambient(const char *name);

/*
 * Put a mark with `text` into every trace that this process records now, at the time of this call. `text` is UTF-8
 * and copied; what is longer than 1023 bytes is cut. Does nothing where no trace is recorded.
 *
 * Errors: TIDE_EINVAL (NULL), TIDE_ESIGNAL (from a signal handler within another call).
 * Thread safety: any thread, and signal handlers. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_mark(const char *text);

#ifdef __cplusplus
}
#endif
#endif
