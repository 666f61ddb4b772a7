/* Allocator traffic in memory, ready to be replayed. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/replay/input.h"

/* Each is a thread of the replay. */
#define REPLAY_THREADS_MAX 4096

static enum replay_add
input_thread(struct replay_input *input, uint64_t id, struct replay_event *event)
{
    uint32_t *known = id_map_find(&input->thread_numbers, id);

    if (known == NULL) {
        if (input->thread_count == REPLAY_THREADS_MAX)
            return REPLAY_ADD_TOO_MANY;
        if (!id_map_add(&input->thread_numbers, id, (uint32_t)input->thread_count))
            return REPLAY_ADD_NO_MEMORY;
        event->thread = (uint16_t)input->thread_count++;
    } else {
        event->thread = (uint16_t)*known;
    }
    return REPLAY_ADD_FINE;
}

static enum replay_add
input_stream(struct replay_input *input, uint64_t handle, struct replay_event *event)
{
    uint32_t *known = id_map_find(&input->stream_numbers, handle);

    if (known != NULL) {
        event->stream = *known;
        return REPLAY_ADD_FINE;
    }
    if (input->stream_count == UINT32_MAX)
        return REPLAY_ADD_TOO_MANY;
    if (!tidei_grow(&input->streams, &input->stream_capacity, input->stream_count, 1) ||
        !id_map_add(&input->stream_numbers, handle, (uint32_t)input->stream_count))
        return REPLAY_ADD_NO_MEMORY;
    event->stream = (uint32_t)input->stream_count;
    input->streams[input->stream_count++] = handle;
    return REPLAY_ADD_FINE;
}

static enum replay_add
input_event(struct replay_input *input, uint64_t thread, uint64_t stream, struct replay_event *event)
{
    enum replay_add added;

    if (!tidei_grow(&input->events, &input->event_capacity, input->event_count, 1))
        return REPLAY_ADD_NO_MEMORY;
    added = input_thread(input, thread, event);
    if (added == REPLAY_ADD_FINE)
        added = input_stream(input, stream, event);
    if (added == REPLAY_ADD_FINE)
        input->events[input->event_count++] = *event;
    return added;
}

enum replay_add
replay_input_alloc(struct replay_input *input, uint64_t thread, uint64_t stream, uint64_t size,
                   unsigned alignment_shift, uint32_t *allocation)
{
    struct replay_event event = { .allocation = (uint32_t)input->allocation_count,
                                  .alignment_shift = (uint8_t)alignment_shift };

    if (input->allocation_count == UINT32_MAX)
        return REPLAY_ADD_TOO_MANY;
    if (!tidei_grow(&input->sizes, &input->allocation_capacity, input->allocation_count, 1))
        return REPLAY_ADD_NO_MEMORY;
    input->sizes[input->allocation_count] = size;
    *allocation = (uint32_t)input->allocation_count++;
    return input_event(input, thread, stream, &event);
}

enum replay_add
replay_input_free(struct replay_input *input, uint64_t thread, uint64_t stream, unsigned alignment_shift,
                  uint32_t allocation)
{
    struct replay_event event = { .allocation = allocation,
                                  .alignment_shift = (uint8_t)alignment_shift,
                                  .is_free = true };

    return input_event(input, thread, stream, &event);
}

const char *
replay_add_text(enum replay_add added)
{
    switch (added) {
    case REPLAY_ADD_FINE:
        break;
    case REPLAY_ADD_NO_MEMORY:
        return "no memory for more events";
    case REPLAY_ADD_TOO_MANY:
        return "more threads (4096), streams or allocations (4294967295) than a replay takes";
    }
    return NULL;
}

void
replay_input_clear(struct replay_input *input)
{
    free(input->events);
    free(input->sizes);
    free(input->streams);
    id_map_free(&input->stream_numbers);
    id_map_free(&input->thread_numbers);
    *input = (struct replay_input){ 0 };
}
