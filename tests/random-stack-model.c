/* Models the expected state of a random stack. */
#include "random-stack-model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "limit-used.h"
#include "tap.h"

void
fault(struct round *round, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (round->faults++ < 3)
        diag("%s", text);
}

void
note_fault(struct round *round, const char *what, enum tide_status status)
{
    pthread_mutex_lock(&round->lock);
    fault(round, "%s: %s: %s", what, tide_status_name(status), tide_error_text());
    pthread_mutex_unlock(&round->lock);
}

/* Call with the lock held. */
static void
model_add_live(struct round *round, const struct block *block)
{
    for (size_t i = 0; i < round->live_count; i++) {
        const struct block *other = &round->live[i];

        if (block->bytes != 0 && block->pointer < other->pointer + other->bytes &&
            other->pointer < block->pointer + block->bytes)
            fault(round, "%p of %zu B overlaps %p of %zu B", (void *)block->pointer, block->bytes,
                  (void *)other->pointer, other->bytes);
    }
    if ((uintptr_t)block->pointer % block->alignment != 0)
        fault(round, "%p is no multiple of %zu", (void *)block->pointer, block->alignment);
    if ((block->pointer == NULL) != (block->bytes == 0))
        fault(round, "%p has %zu B", (void *)block->pointer, block->bytes);
    round->live[round->live_count++] = *block;
    round->live_bytes += block->bytes;
    round->total_bytes += block->bytes;
    round->total_count++;
    if (round->live_bytes > round->peak_bytes)
        round->peak_bytes = round->live_bytes;
}

void
model_add(struct round *round, struct block *block, const struct caller *caller, enum tide_status status)
{
    struct life life = {
        .column = { [LIFE_ADDRESS] = (int64_t)(uintptr_t)block->pointer,
                    [LIFE_SIZE] = (int64_t)block->bytes,
                    [LIFE_ALIGNMENT] = (int64_t)block->alignment,
                    [LIFE_STATUS] = status,
                    [LIFE_TAG] = caller->tag,
                    [LIFE_ALLOC_THREAD] = caller->thread,
                    [LIFE_ALLOC_STREAM] = (int64_t)caller->stream,
                    [LIFE_FREE_THREAD] = -1,
                    [LIFE_FREE_STREAM] = -1 },
    };

    pthread_mutex_lock(&round->lock);
    block->life = lives_add(&round->lives, &life);
    if (status == TIDE_OK)
        model_add_live(round, block);
    pthread_mutex_unlock(&round->lock);
}

void
model_remove(struct round *round, const struct block *block, const struct caller *caller)
{
    struct life *life;
    size_t i = 0;

    pthread_mutex_lock(&round->lock);
    while (i < round->live_count && (round->live[i].pointer != block->pointer || round->live[i].bytes != block->bytes ||
                                     round->live[i].alignment != block->alignment))
        i++;
    if (i == round->live_count) {
        fault(round, "the model has lost %p", (void *)block->pointer);
    } else {
        round->live[i] = round->live[--round->live_count];
        round->live_bytes -= block->bytes;
    }
    life = &round->lives.all[block->life];
    life->column[LIFE_FREE_THREAD] = caller->thread;
    life->column[LIFE_FREE_STREAM] = (int64_t)caller->stream;
    pthread_mutex_unlock(&round->lock);
}

uint64_t
figure_of(struct tide_resource *resource, enum tide_query what)
{
    uint64_t figure;

    return tide_query(resource, what, &figure) == TIDE_OK ? figure : UINT64_MAX;
}

/* What a limit should count, from the live blocks. */
static uint64_t
limit_wanted(const struct round *round, struct tide_resource *limit)
{
    char text[256] = "";
    struct tide_text out = { .data = text, .capacity = sizeof(text) };
    const char *argument;
    uint64_t alignment = 256, wanted = 0;

    limit->ops->describe(limit, &out);
    argument = strstr(text, "alignment=");
    if (argument != NULL) {
        char *unit;

        alignment = strtoull(argument + strlen("alignment="), &unit, 10);
        alignment <<= strncmp(unit, "KiB", 3) == 0 ? 10 : 0;
    }
    for (size_t i = 0; i < round->live_count; i++)
        wanted += (round->live[i].bytes + alignment - 1) & ~(alignment - 1);
    return wanted;
}

static void
check_statistics(struct round *round, struct tide_resource *layer)
{
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };
    bool right;

    if (tide_statistics_read(layer, &seen) != TIDE_OK) {
        fault(round, "statistics cannot be read");
        return;
    }
    right = (uint64_t)seen.bytes.current == round->live_bytes && (uint64_t)seen.count.current == round->live_count;
    if (!right)
        fault(round, "statistics: %" PRId64 " bytes in %" PRId64 " blocks, expected %" PRIu64 " in %zu",
              seen.bytes.current, seen.count.current, round->live_bytes, round->live_count);
    if (layer == round->top_statistics &&
        ((uint64_t)seen.bytes.total != round->total_bytes || (uint64_t)seen.count.total != round->total_count))
        fault(round, "statistics: %" PRId64 " bytes in all, expected %" PRIu64, seen.bytes.total, round->total_bytes);
    if (layer == round->top_statistics && round->threads == 1 && (uint64_t)seen.bytes.peak != round->peak_bytes)
        fault(round, "statistics: a peak of %" PRId64 ", expected %" PRIu64, seen.bytes.peak, round->peak_bytes);
}

static void
add_tracked(void *context, const struct tide_track_block *block)
{
    *(uint64_t *)context += block->bytes;
}

static void
check_track(struct round *round, struct tide_resource *layer)
{
    uint64_t bytes = 0;

    if (tide_track_report(layer, add_tracked, &bytes) != TIDE_OK || bytes != round->live_bytes)
        fault(round, "track: %" PRIu64 " bytes outstanding, expected %" PRIu64, bytes, round->live_bytes);
}

void
check_figures(struct round *round)
{
    struct tide_resource *layer = round->stack;

    while (layer != NULL) {
        const char *name = tide_resource_name(layer);

        if (strcmp(name, "statistics") == 0)
            check_statistics(round, layer);
        else if (strcmp(name, "track") == 0)
            check_track(round, layer);
        else if (strcmp(name, "limit") == 0 && limit_used(layer) != limit_wanted(round, layer))
            fault(round, "limit: %" PRIu64 " bytes in use, expected %" PRIu64, limit_used(layer),
                  limit_wanted(round, layer));
        else if (strcmp(name, "aligned") == 0 || strcmp(name, "binning") == 0 || strcmp(name, "fallback") == 0)
            return;
        else if ((strcmp(name, "pool") == 0 || strcmp(name, "arena") == 0 || strcmp(name, "monotonic") == 0 ||
                  strcmp(name, "guard") == 0 || layer->upstream == NULL) &&
                 figure_of(layer, TIDE_QUERY_BYTES_USED) != round->live_bytes)
            fault(round, "%s: %" PRIu64 " bytes used, expected %" PRIu64, name, figure_of(layer, TIDE_QUERY_BYTES_USED),
                  round->live_bytes);
        if (strcmp(name, "pool") == 0 || strcmp(name, "arena") == 0 || strcmp(name, "monotonic") == 0 ||
            strcmp(name, "guard") == 0)
            return;
        layer = layer->upstream;
    }
}

void
check_empty(struct round *round, struct tide_resource *layer)
{
    struct tide_upstream edge;
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };
    uint64_t used = limit_used(layer); /* UINT64_MAX if it is no limit */

    if (tide_statistics_read(layer, &seen) == TIDE_OK && (seen.bytes.current != 0 || seen.count.current != 0))
        fault(round, "statistics: %" PRId64 " bytes in %" PRId64 " blocks where there are none", seen.bytes.current,
              seen.count.current);
    if (used != UINT64_MAX && used != 0)
        fault(round, "limit: %" PRIu64 " bytes in use where there are none", used);
    if (layer->upstream == NULL && figure_of(layer, TIDE_QUERY_BYTES_USED) != 0)
        fault(round, "%s: %" PRIu64 " bytes used where there are none", tide_resource_name(layer),
              figure_of(layer, TIDE_QUERY_BYTES_USED));
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &edge) == TIDE_OK; i++)
        check_empty(round, edge.resource);
}
