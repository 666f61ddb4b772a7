/*
 * Tags and marks: what a program says about itself in its traces and reports.
 *
 * A tag names the part of the program that a thread is in. Traces (`log`), `track` and `statistics` note the tag with
 * each allocation. A mark is a point in time with a text, such as "epoch 3".
 */
#ifndef TIDEMARK_TAG_H
#define TIDEMARK_TAG_H

#include <stddef.h>
#include <stdint.h>

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
 * The number of tags that the calling thread has begun with tide_tag_push and not ended. The ambient tag and tags of
 * other sources do not count. This is for runtimes that can be interrupted between a push and their own record of it.
 * Thread safety: any thread, and signal handlers; each thread has its own tags. Since 0.1.
 */
TIDE_EXPORT size_t tide_tag_depth(void);

/*
 * tide_tag_push and tide_tag_pop for tags that do not come from the program itself, but from a `source`: a number that
 * the caller chooses. TIDE_TAG_NVTX and the numbers above it are the domains of NVTX. Tags of all sources nest in the
 * order in which they begin. But tide_tag_pop_from ends the innermost tag of its source, even if tags of other sources
 * have begun within it; these stay, as if they had begun without it. tide_tag_push and tide_tag_pop are source 0.
 *
 * Sources other than 0 add at most 2048 different tags to a process. Then 256 more may be added in whose names #
 * replaces each number, as in "step #". After that the tag is "(other)", in at most 256 places.
 *
 * On failure no tag has begun.
 * Errors: as tide_tag_push; TIDE_ECAPACITY (no room for that either).
 * Thread safety: as tide_tag_push. Since 0.1.
 */
#define TIDE_TAG_NVTX UINT32_C(0x4e56) /* the default domain */
TIDE_EXPORT enum tide_status tide_tag_push_from(uint32_t source, const char *name);
TIDE_EXPORT void tide_tag_pop_from(uint32_t source);

/*
 * Set the ambient tag of the process: what a thread allocates while it has no tag of its own is noted under `name`.
 * This is for phases of a program whose allocations come from threads that the program does not know, such as those of
 * PyTorch's autograd. It replaces the former ambient tag; NULL: none. A thread that is within an allocation may still
 * use the former one. `name` is as for tide_tag_push; tags that threads push do not nest in the ambient tag.
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
