/* Makes the calls of recorded traffic, with their streams. */
#include "config.h"

#include <tidemark/tidemark.h>

#include "bench.h"
#include "replayed.h"

uint64_t
replayed_call(struct tide_resource *stack, const struct replay_input *input, const struct replay_event *event,
              void **pointers)
{
    uint64_t bytes, stream = input->streams[event->stream];
    size_t alignment = (size_t)1 << event->alignment_shift;
    bool is_free = event->kind == REPLAY_FREE;
    enum tide_status status;

    if (event->kind == REPLAY_MARK)
        return 0;
    bytes = input->sizes[event->allocation];
    status = is_free ? tide_deallocate(stack, pointers[event->allocation], bytes, alignment, stream)
                     : tide_allocate(stack, bytes, alignment, stream, &pointers[event->allocation]);
    if (status != TIDE_OK)
        bench_fail(tide_error_text());
    return is_free ? 0 - bytes : bytes;
}

uint64_t
replayed_asked(struct tide_resource *statistics)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };

    tide_statistics_read(statistics, &figures);
    return (uint64_t)figures.count.total;
}
