/*
 * Queries the used and reserved bytes of layers every millisecond, for the table pool_sample, and now and then the free
 * bytes of their devices, for device_sample.
 */
#ifndef TIDEI_TRACE_EVENTS_SAMPLER_H
#define TIDEI_TRACE_EVENTS_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "src/resource/resource.h"
#include "src/trace/ring/gauge.h"

/* The bytes of one pool at one time. */
struct tidei_pool_sample {
    uint64_t ns; /* CLOCK_MONOTONIC */
    uint32_t layer_id;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t reserved_high_bytes; /* the most since the watch began; 0: not known */
};

/* The bytes of one device at one time. */
struct tidei_device_sample {
    uint64_t ns;    /* CLOCK_MONOTONIC */
    int32_t device; /* CUDA ordinal */
    uint64_t free_bytes;
    uint64_t total_bytes;
};

/*
 * What the figures of a layer tell of the most that it had reserved while it was watched. A base may have counted a
 * most of its own before, which tells nothing until it is passed or reached. It may be reset, too: `bytes` never falls.
 */
struct tidei_high {
    uint64_t before_bytes; /* the layer's own most when the watch began, unless that was reserved then: then 0 */
    uint64_t bytes;        /* 0: not known */
    uint64_t seen_bytes;   /* the most that a question has found reserved */
};

void tidei_high_begin(struct tidei_high *high, const struct tidei_layer_figures *figures);

/* Take new figures into account, and set their reserved_high_bytes. */
void tidei_high_next(struct tidei_high *high, struct tidei_layer_figures *figures);

struct tidei_sampler;

/* NULL without host memory. */
struct tidei_sampler *tidei_sampler_new(void);
void tidei_sampler_free(struct tidei_sampler *sampler);

/*
 * Query `resource` (borrowed) until it is unwatched; the unwatch queries it once more. `high` is from tidei_high_begin.
 * Any thread.
 */
void tidei_sampler_watch(struct tidei_sampler *sampler, struct tide_resource *resource, uint32_t layer_id,
                         struct tidei_high high);

/*
 * Query the free and total bytes of `device`, CUDA ordinal, of `resource` (borrowed) until that is unwatched. A device
 * of several resources is asked through one of them. Any thread.
 */
void tidei_sampler_watch_device(struct tidei_sampler *sampler, struct tide_resource *resource, int32_t device);

/*
 * End both watches of a resource. Where a query of it does not return in time, it is kept until it has: see asker.h.
 */
void tidei_sampler_unwatch(struct tidei_sampler *sampler, struct tide_resource *resource);

/*
 * Query all resources if the period has passed, or with `at_once`; keep the figures that have changed. Devices are
 * asked in the same turn as the layers, less often: the driver's answer may take long, and is bought for a hundredth of
 * the time. Where the last sample is wanted, this takes it. One thread at a time.
 */
void tidei_sampler_sample(struct tidei_sampler *sampler, uint64_t now_ns, bool at_once);

/* The last sample of a process that exits: each device has one of this moment, changed or not. */
void tidei_sampler_end(struct tidei_sampler *sampler, uint64_t now_ns);

/*
 * While the process exits and the driver still answers, another thread than the one that samples has it take the last
 * sample, and waits for that until a time of CLOCK_MONOTONIC. Devices are asked no more afterwards, whether the answer
 * came or not. Want returns false where the last sample was wanted before.
 */
bool tidei_sampler_want(struct tidei_sampler *sampler);
bool tidei_sampler_is_wanted(const struct tidei_sampler *sampler);
void tidei_sampler_wait(struct tidei_sampler *sampler, const struct timespec *until);

/* Whether the question for the last sample has not returned: the thread that has asked may never come back. */
bool tidei_sampler_hangs(const struct tidei_sampler *sampler);

/*
 * What the watched layers said last, of at most `most`; *left_out are those for which there is no room. Returns how
 * many. Any thread.
 */
uint32_t tidei_sampler_latest(struct tidei_sampler *sampler, struct tidei_gauge_pool *pools, uint32_t most,
                              uint32_t *left_out);

/* Around fork(): no query is under way and none begins, unless one takes too long. In the child: there is no thread. */
void tidei_sampler_hold(struct tidei_sampler *sampler);
void tidei_sampler_release(struct tidei_sampler *sampler);
void tidei_sampler_forked(struct tidei_sampler *sampler);

/* Whether there are samples to write. */
bool tidei_sampler_has(struct tidei_sampler *sampler);

/* The samples to write (borrowed). Both return the same ones until tidei_sampler_written. Writer thread only. */
const struct tidei_pool_sample *tidei_sampler_take(struct tidei_sampler *sampler, size_t *count);
const struct tidei_device_sample *tidei_sampler_take_devices(struct tidei_sampler *sampler, size_t *count);
void tidei_sampler_written(struct tidei_sampler *sampler);

#endif
