/* The streams of a replay: recorded handles belong to a process that is gone, and a driver crashes on them. */
#ifndef VIEWER_REPLAY_STREAMS_H
#define VIEWER_REPLAY_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/resource.h>

struct replay_streams {
    tide_stream *streams; /* owns; the replay's stream for each recorded one */
    size_t count;
    struct replay_driver *driver; /* owns; NULL: the streams are the recorded numbers */
    char failure[128];            /* why they could not be made */
};

/*
 * Make a stream for each of the `count` recorded ones. Where a base of `stack` uses a CUDA device they are new streams
 * of that device, and the recorded stream 0 stays 0. Otherwise they are the recorded numbers. COMMAND_FINE, or
 * COMMAND_WRONG with a reason in *out, which is zeroed before. Call replay_streams_finish in any case, from the same
 * thread and once the stack is released: what it holds may be given back in the order of a stream.
 *
 * Until then the thread has the primary context of the device current, as a thread of a program that uses the device
 * has. Without one each call of a base fails first, and is made again with a context (src/cuda/driver-table.h).
 */
int replay_streams_make(struct tide_resource *stack, const uint64_t *recorded, size_t count,
                        struct replay_streams *out);

/* The same for another thread, until replay_streams_leave. False: there is no device. */
bool replay_streams_enter(const struct replay_streams *streams);
void replay_streams_leave(const struct replay_streams *streams);

void replay_streams_finish(struct replay_streams *streams);

#endif
