/* Allocator traffic in memory, ready to be replayed. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/replay/input.h"

const char replay_no_memory[] = "no memory for more events";
static const char input_too_many[] = "more threads (16777216), streams or allocations (4294967295) than a replay takes";

/* The number of `id` in `numbers`; a new id gets *count, which grows. NULL, or an error. */
static const char *
input_number(struct id_map *numbers, uint64_t id, size_t *count, size_t most, uint32_t *number)
{
    const uint32_t *known = id_map_find(numbers, id);

    if (known != NULL) {
        *number = *known;
        return NULL;
    }
    if (*count == most)
        return input_too_many;
    *number = (uint32_t)*count;
    if (!id_map_add(numbers, id, *number))
        return replay_no_memory;
    ++*count;
    return NULL;
}

static const char *
input_add(struct replay_input *input, uint64_t thread, struct replay_event event)
{
    uint32_t number;
    const char *error = input_number(&input->thread_numbers, thread, &input->thread_count, REPLAY_THREADS_MAX, &number);

    if (error != NULL)
        return error;
    event.thread = number & (REPLAY_THREADS_MAX - 1);
    if (!tidei_grow(&input->events, &input->event_capacity, input->event_count, 1))
        return replay_no_memory;
    input->events[input->event_count++] = event;
    return NULL;
}

static const char *
input_event(struct replay_input *input, uint64_t thread, uint64_t stream, struct replay_event event)
{
    const char *error;

    if (!tidei_grow(&input->streams, &input->stream_capacity, input->stream_count, 1))
        return replay_no_memory;
    error = input_number(&input->stream_numbers, stream, &input->stream_count, UINT32_MAX, &event.stream);
    if (error != NULL)
        return error;
    input->streams[event.stream] = stream;
    return input_add(input, thread, event);
}

const char *
replay_input_alloc(struct replay_input *input, uint64_t thread, uint64_t stream, uint64_t size,
                   unsigned alignment_shift, uint32_t *allocation)
{
    if (input->allocation_count == UINT32_MAX)
        return input_too_many;
    if (!tidei_grow(&input->sizes, &input->allocation_capacity, input->allocation_count, 1))
        return replay_no_memory;
    input->sizes[input->allocation_count] = size;
    *allocation = (uint32_t)input->allocation_count++;
    return input_event(input, thread, stream,
                       (struct replay_event){ .allocation = *allocation, .alignment_shift = alignment_shift & 63 });
}

const char *
replay_input_free(struct replay_input *input, uint64_t thread, uint64_t stream, unsigned alignment_shift,
                  uint32_t allocation)
{
    return input_event(input, thread, stream,
                       (struct replay_event){
                           .allocation = allocation, .alignment_shift = alignment_shift & 63, .kind = REPLAY_FREE });
}

const char *
replay_input_mark(struct replay_input *input, uint64_t thread, uint32_t mark)
{
    return input_add(input, thread, (struct replay_event){ .allocation = mark, .kind = REPLAY_MARK });
}

const char *
replay_input_time(struct replay_input *input, int64_t ns)
{
    if (!tidei_grow(&input->times, &input->time_capacity, input->event_count - 1, 1))
        return replay_no_memory;
    input->times[input->event_count - 1] = ns;
    return NULL;
}

static void
input_clear_notes(struct replay_notes *notes, size_t thread_count)
{
    for (size_t i = 0; i < notes->label_count; i++) {
        for (size_t j = 0; j < notes->labels[i].tag_count; j++)
            free(notes->labels[i].tags[j]);
        free(notes->labels[i].tags);
    }
    for (size_t i = 0; i < notes->mark_count; i++)
        free(notes->marks[i].text);
    for (size_t i = 0; notes->thread_names != NULL && i < thread_count; i++)
        free(notes->thread_names[i]);
    free(notes->labels);
    free(notes->label_of);
    free(notes->marks);
    free(notes->thread_names);
    id_map_free(&notes->label_numbers);
}

void
replay_input_clear(struct replay_input *input)
{
    input_clear_notes(&input->notes, input->thread_count);
    free(input->events);
    free(input->times);
    free(input->sizes);
    free(input->streams);
    id_map_free(&input->stream_numbers);
    id_map_free(&input->thread_numbers);
    *input = (struct replay_input){ 0 };
}
