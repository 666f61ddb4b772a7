/* Writes slices of the backlog into the trace as transactions. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/tables/grow.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/database.h"

#define STORE_LOSS_MOST ((uint64_t)1 << 40)

int64_t
tidei_database_device(const struct tidei_database *database, uint32_t layer_id)
{
    return layer_id < database->layer_capacity ? database->layer_devices[layer_id] : -1;
}

uint32_t
tidei_database_stream(struct tidei_database *database, uint64_t handle, uint32_t layer_id)
{
    int64_t device = tidei_database_device(database, layer_id);
    struct tidei_stream *stream;

    if (database->stream_latest < database->stream_count) {
        stream = &database->streams[database->stream_latest];
        if (stream->handle == handle && stream->device == device)
            return stream->id;
    }
    for (uint32_t i = 0; i < database->stream_count; i++) {
        stream = &database->streams[i];
        if (stream->handle == handle && stream->device == device) {
            database->stream_latest = i;
            return stream->id;
        }
    }
    if (!tidei_grow(&database->streams, &database->stream_capacity, database->stream_count, 1)) {
        database->no_memory = true;
        return 0;
    }
    stream = &database->streams[database->stream_count++];
    *stream = (struct tidei_stream){ .handle = handle, .device = device, .id = database->stream_count };
    return stream->id;
}

static enum tide_status
database_write_streams(struct tidei_database *database)
{
    enum tide_status status = TIDE_OK;

    for (uint32_t i = 0; status == TIDE_OK && i < database->stream_count; i++) {
        const struct tidei_stream *stream = &database->streams[i];

        if (stream->written)
            continue;
        sqlite3_bind_int64(database->stream, 1, stream->id);
        sqlite3_bind_int64(database->stream, 2, (int64_t)stream->handle);
        if (stream->device >= 0)
            sqlite3_bind_int64(database->stream, 3, stream->device);
        status = tidei_database_run(database, database->stream, "stream");
    }
    return status;
}

/* The latest sample of a layer; one without a layer where there is none yet, NULL where host memory is short. */
static struct tidei_pool_sample *
database_sample_latest(struct tidei_database *database, uint32_t layer_id)
{
    struct tidei_pool_sample *latest;

    for (uint32_t i = 0; i < database->sampled_layers; i++) {
        if (database->samples_latest[i].layer_id == layer_id)
            return &database->samples_latest[i];
    }
    if (!tidei_grow(&database->samples_latest, &database->sampled_capacity, database->sampled_layers, 1))
        return NULL;
    latest = &database->samples_latest[database->sampled_layers++];
    memset(latest, 0, sizeof(*latest));
    return latest;
}

enum tide_status
tidei_database_sample(struct tidei_database *database, uint64_t ns, uint32_t layer_id, uint64_t used_bytes,
                      uint64_t reserved_bytes)
{
    struct tidei_pool_sample *latest = database_sample_latest(database, layer_id);

    if (latest == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", database->path);
    if (latest->layer_id == layer_id && latest->used_bytes == used_bytes && latest->reserved_bytes == reserved_bytes)
        return TIDE_OK;
    *latest = (struct tidei_pool_sample){
        .ns = ns, .layer_id = layer_id, .used_bytes = used_bytes, .reserved_bytes = reserved_bytes
    };
    sqlite3_bind_int64(database->sample, 1, (int64_t)ns);
    sqlite3_bind_int64(database->sample, 2, layer_id);
    sqlite3_bind_int64(database->sample, 3, (int64_t)used_bytes);
    sqlite3_bind_int64(database->sample, 4, (int64_t)reserved_bytes);
    return tidei_database_run(database, database->sample, "pool sample");
}

static enum tide_status
database_write_samples(struct tidei_database *database, const struct tidei_pool_sample *samples, size_t count)
{
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; status == TIDE_OK && i < count; i++)
        status = tidei_database_sample(database, tidei_timeline_since_start(&database->timeline, samples[i].ns),
                                       samples[i].layer_id, samples[i].used_bytes, samples[i].reserved_bytes);
    return status;
}

enum tide_status
tidei_database_write_devices(struct tidei_database *database)
{
    enum tide_status status = TIDE_OK;
    size_t rows, outside;

    if (database->devices == NULL)
        return TIDE_OK;
    tidei_device_events_rows(database->devices, &rows);
    tidei_device_events_outside(database->devices, &outside);
    if (outside != 0)
        status = tidei_database_run(database, database->insert_outside, "driver_call");
    if (status == TIDE_OK && rows != 0)
        status = tidei_database_run(database, database->insert_devices, "device_event");
    return status;
}

/* The trace has its name still: what is written to one that was removed goes with the process. */
static enum tide_status
database_check_name(struct tidei_database *database)
{
    int moved = 0;

    sqlite3_file_control(database->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return tide_error_set(TIDE_EIO, "log: %s: removed or replaced while it was being written", database->path);
    return TIDE_OK;
}

enum tide_status
tidei_database_write(struct tidei_database *database, uint64_t epoch, uint64_t records,
                     const struct tidei_pool_sample *samples, size_t sample_count)
{
    enum tide_status status = database_check_name(database);

    if (status == TIDE_OK)
        status = tidei_database_begin(database);
    if (status != TIDE_OK)
        return status;
    /* Layers first: they say on which device a stream is. */
    status = tidei_extras_write(database);
    if (status == TIDE_OK && database->pair->closing_count != 0)
        status = tidei_database_run(database, database->insert_closed, "allocation");
    if (status == TIDE_OK && database->pair->row_count != 0)
        status = tidei_database_run(database, database->insert_rows, "allocation");
    if (status == TIDE_OK && database->has_calls)
        status = tidei_database_run(database, database->insert_calls, "driver_call");
    if (status == TIDE_OK)
        status = tidei_database_write_devices(database);
    if (status == TIDE_OK)
        status = database_write_streams(database);
    if (status == TIDE_OK)
        status = database_write_samples(database, samples, sample_count);
    if (status == TIDE_OK && database->cupti != NULL)
        status = tidei_database_meta_text(database, "cupti", database->cupti);
    if (status == TIDE_OK)
        status = tidei_database_meta_number(database, "epoch", (int64_t)epoch);
    if (status == TIDE_OK)
        status = tidei_database_meta_number(database, "epoch_records", (int64_t)records);
    if (status == TIDE_OK && database->no_memory)
        status = tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", database->path);
    TIDEI_TEST_POINT("database.before-commit");
    status = tidei_database_end(database, status);
    if (status == TIDE_OK) {
        for (uint32_t i = 0; i < database->stream_count; i++)
            database->streams[i].written = true;
        if (database->devices != NULL)
            tidei_device_events_written(database->devices);
        database->cupti = NULL;
    } else {
        database->sampled_layers = 0; /* those of the transaction are not there */
    }
    return status;
}

enum tide_status
tidei_database_loss(struct tidei_database *database, uint32_t thread_id, const char *reason, uint64_t events)
{
    if (events == 0)
        return TIDE_OK;
    /* The sum of them all has room in SQLite's integers, also where a damaged file names huge numbers. */
    if (events > STORE_LOSS_MOST)
        events = STORE_LOSS_MOST;
    if (thread_id != 0)
        sqlite3_bind_int64(database->loss, 1, thread_id);
    sqlite3_bind_text(database->loss, 2, reason, -1, SQLITE_STATIC);
    sqlite3_bind_int64(database->loss, 3, (int64_t)events);
    return tidei_database_run(database, database->loss, "loss");
}
