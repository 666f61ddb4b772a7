/* Writes the rows that several parts of the database write or refer to: streams, pool samples, losses. */
#include "config.h"

#include <string.h>

#include "src/tables/grow.h"
#include "src/trace/database/common-rows.h"

#define LOSS_MAX ((uint64_t)1 << 40)

bool
tidei_database_set_device(struct tidei_database *database, uint32_t layer_id, int64_t device)
{
    if (layer_id > UINT16_MAX)
        return true;
    if (!tidei_grow(&database->layer_devices, &database->layer_capacity, 0, (size_t)layer_id + 1))
        return false;
    for (; database->layer_count <= layer_id; database->layer_count++)
        database->layer_devices[database->layer_count] = -1;
    database->layer_devices[layer_id] = device;
    return true;
}

int64_t
tidei_database_device(const struct tidei_database *database, uint32_t layer_id)
{
    return layer_id < database->layer_count ? database->layer_devices[layer_id] : -1;
}

bool
tidei_database_add_stream(struct tidei_database *database, struct tidei_stream stream)
{
    if (!tidei_grow(&database->streams, &database->stream_capacity, database->stream_count, 1) ||
        !tidei_map_add(&database->stream_places, stream.handle, 0, (uint32_t)database->stream_count))
        return false;
    database->streams[database->stream_count++] = stream;
    return true;
}

uint32_t
tidei_database_stream(struct tidei_database *database, uint64_t handle, uint32_t layer_id)
{
    struct tidei_stream wanted = { .handle = handle, .device = tidei_database_device(database, layer_id) };
    const struct tidei_map *places = &database->stream_places;

    for (size_t i = tidei_map_first(places, handle, 0); i != TIDEI_MAP_NONE; i = tidei_map_next(places, i)) {
        const struct tidei_stream *stream = &database->streams[places->entries[i].number];

        if (stream->device == wanted.device)
            return stream->id;
    }
    wanted.id = (uint32_t)database->stream_count + 1;
    if (tidei_database_add_stream(database, wanted))
        return wanted.id;
    database->no_memory = true;
    return 0;
}

void
tidei_database_write_streams(struct tidei_database *database)
{
    /* Not from the first: a trace may have 100,000, and has a transaction for every 32,768 records. */
    for (size_t i = database->streams_written; i < database->stream_count; i++) {
        const struct tidei_stream *stream = &database->streams[i];

        if (!stream->written)
            tidei_database_insert(database, stream, TIDEI_NUMBER(stream->id), TIDEI_NUMBER(stream->handle),
                                  TIDEI_NUMBER_IF(stream->device >= 0, stream->device));
    }
}

/* The latest sample of a layer, or a new entry without a layer; NULL without host memory. */
static struct tidei_pool_sample *
sample_latest(struct tidei_database *database, uint32_t layer_id)
{
    const uint32_t *place = tidei_map_find(&database->sample_places, layer_id, 0);

    if (place != NULL)
        return &database->samples_latest[*place];
    if (!tidei_grow(&database->samples_latest, &database->sample_capacity, database->sampled_layers, 1) ||
        !tidei_map_add(&database->sample_places, layer_id, 0, (uint32_t)database->sampled_layers))
        return NULL;
    memset(&database->samples_latest[database->sampled_layers], 0, sizeof(*database->samples_latest));
    return &database->samples_latest[database->sampled_layers++];
}

void
tidei_database_sample(struct tidei_database *database, const struct tidei_pool_sample *sample)
{
    struct tidei_pool_sample *latest = sample_latest(database, sample->layer_id);
    uint64_t high_bytes = sample->reserved_high_bytes;

    if (latest == NULL) {
        tidei_database_fail_memory(database);
        return;
    }
    /* Threads that sample at once may write the newer high first. */
    if (latest->layer_id == sample->layer_id && high_bytes < latest->reserved_high_bytes)
        high_bytes = latest->reserved_high_bytes;
    if (latest->layer_id == sample->layer_id && latest->used_bytes == sample->used_bytes &&
        latest->reserved_bytes == sample->reserved_bytes && latest->reserved_high_bytes == high_bytes)
        return;
    *latest = *sample;
    latest->reserved_high_bytes = high_bytes;
    tidei_database_insert(database, pool_sample, TIDEI_NUMBER(sample->ns), TIDEI_NUMBER(sample->layer_id),
                          TIDEI_NUMBER(sample->used_bytes), TIDEI_NUMBER(sample->reserved_bytes), TIDEI_ID(high_bytes));
}

void
tidei_database_write_device_samples(struct tidei_database *database)
{
    for (size_t i = 0; i < database->device_sample_count; i++) {
        const struct tidei_device_sample *sample = &database->device_samples[i];

        tidei_database_insert(
            database, device_sample, TIDEI_NUMBER(tidei_timeline_since_start(&database->timeline, sample->ns)),
            TIDEI_NUMBER(sample->device), TIDEI_NUMBER(sample->free_bytes), TIDEI_NUMBER(sample->total_bytes));
    }
}

void
tidei_database_write_layer_counts(struct tidei_database *database)
{
    for (size_t i = 0; i < database->layer_count_count; i++) {
        const struct tidei_layer_count *count = &database->layer_counts[i];

        tidei_database_insert(database, layer_count, TIDEI_NUMBER(count->layer_id), TIDEI_TEXT(count->name),
                              TIDEI_NUMBER(count->value));
    }
}

void
tidei_database_rows_ended(struct tidei_database *database, bool committed)
{
    for (; committed && database->streams_written < database->stream_count; database->streams_written++)
        database->streams[database->streams_written].written = true;
    if (!committed) {
        database->sampled_layers = 0;
        tidei_map_free(&database->sample_places);
    }
}

void
tidei_database_loss(struct tidei_database *database, uint32_t thread_id, const char *reason, uint64_t events)
{
    if (events == 0)
        return;
    /* Clamped, so that the sum of all losses fits SQLite's integers even if a damaged file has huge numbers. */
    tidei_database_insert(database, loss, TIDEI_ID(thread_id), TIDEI_TEXT(reason),
                          TIDEI_NUMBER(events < LOSS_MAX ? events : LOSS_MAX));
}
