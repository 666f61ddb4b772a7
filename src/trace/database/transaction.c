/* Writes slices of the backlog into the trace as transactions. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/database.h"

#define STORE_LOSS_MOST ((uint64_t)1 << 40)

int64_t
tidei_store_device(const struct tidei_store *store, uint32_t layer_id)
{
    return layer_id < store->layer_capacity ? store->layer_devices[layer_id] : -1;
}

uint32_t
tidei_store_stream(struct tidei_store *store, uint64_t handle, uint32_t layer_id)
{
    int64_t device = tidei_store_device(store, layer_id);
    struct tidei_stream *stream;

    if (store->stream_latest < store->stream_count) {
        stream = &store->streams[store->stream_latest];
        if (stream->handle == handle && stream->device == device)
            return stream->id;
    }
    for (uint32_t i = 0; i < store->stream_count; i++) {
        stream = &store->streams[i];
        if (stream->handle == handle && stream->device == device) {
            store->stream_latest = i;
            return stream->id;
        }
    }
    if (store->stream_count == store->stream_capacity) {
        uint32_t larger = store->stream_capacity == 0 ? 16 : store->stream_capacity * 2;

        stream = realloc(store->streams, larger * sizeof(*stream));
        if (stream == NULL) {
            store->no_memory = true;
            return 0;
        }
        store->streams = stream;
        store->stream_capacity = larger;
    }
    stream = &store->streams[store->stream_count++];
    *stream = (struct tidei_stream){ .handle = handle, .device = device, .id = store->stream_count };
    return stream->id;
}

static enum tide_status
store_write_streams(struct tidei_store *store)
{
    enum tide_status status = TIDE_OK;

    for (uint32_t i = 0; status == TIDE_OK && i < store->stream_count; i++) {
        const struct tidei_stream *stream = &store->streams[i];

        if (stream->written)
            continue;
        sqlite3_bind_int64(store->stream, 1, stream->id);
        sqlite3_bind_int64(store->stream, 2, (int64_t)stream->handle);
        if (stream->device >= 0)
            sqlite3_bind_int64(store->stream, 3, stream->device);
        status = tidei_store_run(store, store->stream, "stream");
    }
    return status;
}

/* The latest sample of a layer; one without a layer where there is none yet, NULL where host memory is short. */
static struct tidei_pool_sample *
store_sample_latest(struct tidei_store *store, uint32_t layer_id)
{
    struct tidei_pool_sample *moved;

    for (uint32_t i = 0; i < store->sampled_layers; i++) {
        if (store->samples_latest[i].layer_id == layer_id)
            return &store->samples_latest[i];
    }
    moved = realloc(store->samples_latest, (store->sampled_layers + 1) * sizeof(*moved));
    if (moved == NULL)
        return NULL;
    store->samples_latest = moved;
    moved += store->sampled_layers++;
    memset(moved, 0, sizeof(*moved));
    return moved;
}

enum tide_status
tidei_store_sample(struct tidei_store *store, uint64_t ns, uint32_t layer_id, uint64_t used_bytes,
                   uint64_t reserved_bytes)
{
    struct tidei_pool_sample *latest = store_sample_latest(store, layer_id);

    if (latest == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", store->path);
    if (latest->layer_id == layer_id && latest->used_bytes == used_bytes && latest->reserved_bytes == reserved_bytes)
        return TIDE_OK;
    *latest = (struct tidei_pool_sample){
        .ns = ns, .layer_id = layer_id, .used_bytes = used_bytes, .reserved_bytes = reserved_bytes
    };
    sqlite3_bind_int64(store->sample, 1, (int64_t)ns);
    sqlite3_bind_int64(store->sample, 2, layer_id);
    sqlite3_bind_int64(store->sample, 3, (int64_t)used_bytes);
    sqlite3_bind_int64(store->sample, 4, (int64_t)reserved_bytes);
    return tidei_store_run(store, store->sample, "pool sample");
}

static enum tide_status
store_write_samples(struct tidei_store *store, const struct tidei_pool_sample *samples, size_t count)
{
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; status == TIDE_OK && i < count; i++)
        status = tidei_store_sample(store, tidei_store_since_start(store, samples[i].ns), samples[i].layer_id,
                                    samples[i].used_bytes, samples[i].reserved_bytes);
    return status;
}

enum tide_status
tidei_store_write_devices(struct tidei_store *store)
{
    enum tide_status status = TIDE_OK;
    size_t rows, outside;

    if (store->devices == NULL)
        return TIDE_OK;
    tidei_devices_rows(store->devices, &rows);
    tidei_devices_outside(store->devices, &outside);
    if (outside != 0)
        status = tidei_store_run(store, store->insert_outside, "driver_call");
    if (status == TIDE_OK && rows != 0)
        status = tidei_store_run(store, store->insert_devices, "device_event");
    return status;
}

/* The trace has its name still: what is written to one that was removed goes with the process. */
static enum tide_status
store_check_name(struct tidei_store *store)
{
    int moved = 0;

    sqlite3_file_control(store->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return tide_error_set(TIDE_EIO, "log: %s: removed or replaced while it was being written", store->path);
    return TIDE_OK;
}

enum tide_status
tidei_store_write(struct tidei_store *store, uint64_t epoch, uint64_t records, const struct tidei_pool_sample *samples,
                  size_t sample_count)
{
    enum tide_status status = store_check_name(store);

    if (status == TIDE_OK)
        status = tidei_store_begin(store);
    if (status != TIDE_OK)
        return status;
    /* Layers first: they say on which device a stream is. */
    status = tidei_extras_write(store);
    if (status == TIDE_OK && store->pair->closing_count != 0)
        status = tidei_store_run(store, store->insert_closed, "allocation");
    if (status == TIDE_OK && store->pair->row_count != 0)
        status = tidei_store_run(store, store->insert_rows, "allocation");
    if (status == TIDE_OK && store->has_calls)
        status = tidei_store_run(store, store->insert_calls, "driver_call");
    if (status == TIDE_OK)
        status = tidei_store_write_devices(store);
    if (status == TIDE_OK)
        status = store_write_streams(store);
    if (status == TIDE_OK)
        status = store_write_samples(store, samples, sample_count);
    if (status == TIDE_OK && store->cupti != NULL)
        status = tidei_store_meta_text(store, "cupti", store->cupti);
    if (status == TIDE_OK)
        status = tidei_store_meta_number(store, "epoch", (int64_t)epoch);
    if (status == TIDE_OK)
        status = tidei_store_meta_number(store, "epoch_records", (int64_t)records);
    if (status == TIDE_OK && store->no_memory)
        status = tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", store->path);
    TIDEI_TEST_POINT("store.before-commit");
    status = tidei_store_end(store, status);
    if (status == TIDE_OK) {
        for (uint32_t i = 0; i < store->stream_count; i++)
            store->streams[i].written = true;
        if (store->devices != NULL)
            tidei_devices_written(store->devices);
        store->cupti = NULL;
    } else {
        store->sampled_layers = 0; /* those of the transaction are not there */
    }
    return status;
}

enum tide_status
tidei_store_loss(struct tidei_store *store, uint32_t thread_id, const char *reason, uint64_t events)
{
    if (events == 0)
        return TIDE_OK;
    /* The sum of them all has room in SQLite's integers, also where a damaged file names huge numbers. */
    if (events > STORE_LOSS_MOST)
        events = STORE_LOSS_MOST;
    if (thread_id != 0)
        sqlite3_bind_int64(store->loss, 1, thread_id);
    sqlite3_bind_text(store->loss, 2, reason, -1, SQLITE_STATIC);
    sqlite3_bind_int64(store->loss, 3, (int64_t)events);
    return tidei_store_run(store, store->loss, "loss");
}
