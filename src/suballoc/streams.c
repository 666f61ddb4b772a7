/* Numbers the streams on which memory was freed, and records which has waited for which; see streams.h. */
#include "src/suballoc/streams.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"

void
tidei_streams_init(struct tidei_streams *streams)
{
    memset(streams, 0, sizeof(*streams));
    streams->epoch = 1; /* nothing was freed in epoch 0 */
}

void
tidei_streams_fini(struct tidei_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++)
        free(streams->streams[i]);
    free(streams->streams);
    tidei_map_free(&streams->numbers);
}

/* Reuse the number of a stream that has no freed memory any more. */
static bool
streams_recycle(struct tidei_streams *streams, tide_stream handle, uint32_t *out)
{
    uint32_t i = 0, same;

    while (i < streams->count && streams->streams[i]->freed_runs != 0)
        i++;
    if (i == streams->count)
        return false;
    tidei_map_take(&streams->numbers, streams->streams[i]->handle, 0, &same);
    tidei_map_add(&streams->numbers, handle, 0, i); /* there is room: that of the replaced entry */
    streams->streams[i]->handle = handle;
    streams->streams[i]->blank = 0;
    for (uint32_t other = 0; i < TIDEI_STREAMS_KNOWN && other < TIDEI_STREAMS_KNOWN; other++) {
        streams->waited[i][other] = 0;
        streams->waited[other][i] = 0;
    }
    *out = i;
    return true;
}

uint32_t
tidei_streams_number(struct tidei_streams *streams, tide_stream handle)
{
    const uint32_t *known = tidei_map_find(&streams->numbers, handle, 0);
    struct tidei_stream *stream;
    uint32_t number;

    if (known != NULL)
        return *known;
    /* Programs that keep creating streams have few of them at a time. */
    if (streams->count >= TIDEI_STREAMS_KNOWN && streams_recycle(streams, handle, &number))
        return number;
    if (streams->count == TIDEI_STREAMS_MOST || !tidei_grow(&streams->streams, &streams->capacity, streams->count, 1))
        return TIDEI_STREAM_NONE;
    number = streams->count;
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL || !tidei_map_add(&streams->numbers, handle, 0, number)) {
        free(stream);
        return TIDEI_STREAM_NONE;
    }
    stream->handle = handle;
    streams->streams[streams->count++] = stream;
    return number;
}

void
tidei_streams_note(struct tidei_streams *streams, uint32_t earlier, uint64_t epoch, uint32_t later)
{
    if (earlier >= TIDEI_STREAMS_KNOWN || later >= TIDEI_STREAMS_KNOWN || epoch <= streams->waited_all)
        return;
    if (streams->waited[later][earlier] < epoch)
        streams->waited[later][earlier] = epoch;
}

void
tidei_streams_forget(struct tidei_streams *streams, uint64_t epoch)
{
    memset(streams->waited, 0, sizeof(streams->waited));
    streams->waited_all = epoch;
}
