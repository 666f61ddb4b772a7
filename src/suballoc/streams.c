/* Numbers the streams that memory was freed on, and knows which has waited for which; see streams.h. */
#include "src/suballoc/streams.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"

void
tidei_streams_init(struct tidei_streams *streams)
{
    memset(streams, 0, sizeof(*streams));
    memset(streams->buckets, 0xff, sizeof(streams->buckets)); /* TIDEI_STREAM_NONE */
    streams->epoch = 1;                                       /* nothing was freed in epoch 0 */
}

void
tidei_streams_fini(struct tidei_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++)
        free(streams->streams[i]);
    free(streams->streams);
}

static uint32_t *
streams_bucket(struct tidei_streams *streams, tide_stream handle)
{
    return &streams->buckets[(uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

static void
streams_link(struct tidei_streams *streams, uint32_t number, tide_stream handle)
{
    uint32_t *bucket = streams_bucket(streams, handle);

    streams->streams[number]->handle = handle;
    streams->streams[number]->bucket_next = *bucket;
    *bucket = number;
}

static void
streams_unlink(struct tidei_streams *streams, uint32_t number)
{
    uint32_t *link = streams_bucket(streams, streams->streams[number]->handle);

    while (*link != number)
        link = &streams->streams[*link]->bucket_next;
    *link = streams->streams[number]->bucket_next;
}

/* Take the number of a stream that no memory was freed on any more. */
static bool
streams_recycle(struct tidei_streams *streams, tide_stream handle, uint32_t *out)
{
    uint32_t i = 0;

    while (i < streams->count && streams->streams[i]->freed_runs != 0)
        i++;
    if (i == streams->count)
        return false;
    streams_unlink(streams, i);
    streams_link(streams, i, handle);
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
    uint32_t number = *streams_bucket(streams, handle);

    while (number != TIDEI_STREAM_NONE && streams->streams[number]->handle != handle)
        number = streams->streams[number]->bucket_next;
    if (number != TIDEI_STREAM_NONE)
        return number;
    /* A program that goes on making streams has few of them at a time. */
    if (streams->count >= TIDEI_STREAMS_KNOWN && streams_recycle(streams, handle, &number))
        return number;
    if (streams->count == TIDEI_STREAMS_MOST || !tidei_grow(&streams->streams, &streams->capacity, streams->count, 1))
        return TIDEI_STREAM_NONE;
    number = streams->count;
    streams->streams[number] = calloc(1, sizeof(*streams->streams[number]));
    if (streams->streams[number] == NULL)
        return TIDEI_STREAM_NONE;
    streams->count++;
    streams_link(streams, number, handle);
    return number;
}

void
tidei_streams_note(struct tidei_streams *streams, uint32_t earlier, uint64_t epoch, uint32_t later)
{
    if (earlier >= TIDEI_STREAMS_KNOWN || later >= TIDEI_STREAMS_KNOWN || epoch <= streams->settled)
        return;
    if (streams->waited[later][earlier] < epoch)
        streams->waited[later][earlier] = epoch;
}

void
tidei_streams_forget(struct tidei_streams *streams, uint64_t epoch)
{
    memset(streams->waited, 0, sizeof(streams->waited));
    streams->settled = epoch;
}
