/*
 * Allocator traffic in memory, ready to be replayed: events in the recorded order, each free paired with its
 * allocation, so that a replay only indexes arrays.
 */
#ifndef VIEWER_REPLAY_INPUT_H
#define VIEWER_REPLAY_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"

/* One call, in 12 bytes: a replay is bound by the speed of reading events. */
struct replay_event {
    uint32_t allocation; /* its number, from 0 */
    uint32_t stream;     /* index of `streams` */
    uint16_t thread;     /* from 0, in the order of appearance */
    uint8_t alignment_shift;
    bool is_free;
};

struct replay_input {
    struct replay_event *events; /* owns */
    size_t event_count;
    size_t event_capacity;
    uint64_t *sizes; /* owns; bytes of each allocation */
    size_t allocation_count;
    size_t allocation_capacity;
    uint64_t *streams; /* owns; the recorded handles */
    size_t stream_count;
    size_t stream_capacity;
    size_t thread_count;
    struct id_map stream_numbers; /* owns; by handle */
    struct id_map thread_numbers; /* owns; by recorded id */
    uint64_t recorded_events;     /* all events of the input, including those that are not replayed: */
    uint64_t recorded_failures;   /* allocations that failed when they were recorded */
    uint64_t unknown_frees;       /* frees of pointers never seen */
    uint64_t replaced;            /* pointers allocated again while they were live; the earlier one stays live */
    uint64_t
        size_differences; /* frees with another size than their allocation; the replay uses that of the allocation */
    bool incomplete;      /* a trace of a recording that is not complete */
};

/* The error of a reader that has no memory for an event. */
extern const char replay_no_memory[];

/*
 * Add an allocation, whose number goes to *allocation, or the free of an allocation, with the same alignment. NULL, or
 * the text of an error, to which the reader of the input adds the position.
 */
const char *replay_input_alloc(struct replay_input *input, uint64_t thread, uint64_t stream, uint64_t size,
                               unsigned alignment_shift, uint32_t *allocation);
const char *replay_input_free(struct replay_input *input, uint64_t thread, uint64_t stream, unsigned alignment_shift,
                              uint32_t allocation);

/* Free all that `input` owns. */
void replay_input_clear(struct replay_input *input);

/*
 * Read RMM's CSV (plain or gzip; "-" is standard input), or a layer of a trace (`layer_id` 0: the outermost log
 * layer). *input is zeroed first. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to clear.
 */
int replay_read_csv(const char *path, struct replay_input *input);
int replay_read_trace(const char *path, int64_t layer_id, struct replay_input *input);

#endif
