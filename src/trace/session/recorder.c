/* Opens, shares and closes recorders; completes their traces at the end of the process. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/cuda/device-list.h"
#include "src/resource/resource.h"
#include "src/tables/grow.h"
#include "src/trace/database/replaced.h"
#include "src/trace/session/callstacks.h"
#include "src/trace/session/create.h"
#include "src/trace/ring/drops.h"
#include "src/trace/ring/producer.h"
#include "src/trace/database/path.h"
#include "src/trace/session/registry.h"
#include "src/context/tag.h"
#include "src/trace/session/writer.h"

#define RECORDER_RING_BYTES    ((uint64_t)1 << 20)
#define RECORDER_BACKLOG_BYTES ((uint64_t)128 << 20)

/* The process exits with traces open: they are completed. Their memory stays, for threads that still run. */
__attribute__((destructor)) static void
recorder_at_exit(void)
{
    pthread_mutex_lock(&tidei_registry.lock);
    for (struct tidei_recorder *recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        int mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);

        if (mode != TIDEI_RECORDING && mode != TIDEI_RECORDER_FAILED)
            continue;
        tidei_recorder_set_mode(recorder, TIDEI_RECORDER_CLOSED);
        tidei_writer_stop(recorder->writer, "exit");
    }
    pthread_mutex_unlock(&tidei_registry.lock);
}

/* Replace what is 0 by its default, and refuse what cannot be. */
static enum tide_status
recorder_check(struct tide_log_options *options)
{
    if (options->ring_bytes == 0)
        options->ring_bytes = RECORDER_RING_BYTES;
    if (options->backlog_bytes == 0)
        options->backlog_bytes = RECORDER_BACKLOG_BYTES;
    if (!tidei_is_power_of_two(options->ring_bytes) || options->ring_bytes < 4096 ||
        options->ring_bytes > (uint64_t)1 << 30)
        return tide_error_set(TIDE_EINVAL, "log: ring of %s, expected a power of two from 4 KiB to 1 GiB",
                              tidei_size_text(options->ring_bytes));
    if (options->backlog_bytes < (uint64_t)1 << 20 || options->backlog_bytes > (uint64_t)16 << 30)
        return tide_error_set(TIDE_EINVAL, "log: backlog of %s, expected 1 MiB to 16 GiB",
                              tidei_size_text(options->backlog_bytes));
    if (options->clock > TIDE_CLOCK_MONOTONIC || options->overflow > TIDE_OVERFLOW_DROP ||
        options->cupti > TIDE_CUPTI_MEMORY || options->samples > TIDE_SAMPLES_OFF)
        return tide_error_set(TIDE_EINVAL, "log: unknown clock, overflow, cupti or samples");
    if (options->clock == TIDE_CLOCK_TSC && !tidei_clock_tsc_is_invariant())
        return tide_error_set(TIDE_EUNSUPPORTED, "log: clock=tsc: this machine has no invariant time stamp counter");
    return TIDE_OK;
}

/* What was given for a trace that is already open must be what it was opened with. */
static enum tide_status
recorder_check_same(const struct tidei_recorder *recorder, const struct tide_log_options *options)
{
    const struct tide_log_options *open = &recorder->options;

    if ((options->ring_bytes != 0 && options->ring_bytes != open->ring_bytes) ||
        (options->backlog_bytes != 0 && options->backlog_bytes != open->backlog_bytes) ||
        (options->clock != TIDE_CLOCK_AUTO && options->clock != open->clock) ||
        (options->overflow != TIDE_OVERFLOW_WAIT && options->overflow != open->overflow) ||
        (options->cupti != TIDE_CUPTI_AUTO && options->cupti != open->cupti) ||
        (options->samples != TIDE_SAMPLES_AUTO && options->samples != open->samples))
        return tide_error_set(TIDE_EINVAL, "log: %s is already open in this process with other options",
                              recorder->path);
    return TIDE_OK;
}

static void
recorder_free(struct tidei_recorder *recorder)
{
    for (size_t i = 0; i < recorder->definition_count; i++)
        free(recorder->definitions[i].text);
    free(recorder->definitions);
    free(recorder->watches);
    tidei_drops_free(recorder->drops);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->path);
    free(recorder->path_pattern);
    free(recorder->replaced);
    free(recorder);
}

static enum tide_status
recorder_new(const struct tide_log_options *options, char *path, struct tidei_recorder **out)
{
    struct tidei_recorder *recorder = calloc(1, sizeof(*recorder));
    enum tide_status status;

    *out = NULL;
    if (recorder == NULL) {
        free(path);
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    }
    pthread_mutex_init(&recorder->lock, NULL);
    recorder->path = path;
    recorder->path_pattern = strdup(options->path);
    recorder->drops = tidei_drops_new();
    recorder->options = *options;
    recorder->options.path = recorder->path_pattern;
    recorder->references = 1;
    recorder->serial = tidei_recorder_new_serial();
    recorder->slot = recorder->serial % TIDEI_PRODUCER_SLOTS;
    status = recorder_check(&recorder->options);
    recorder->drop = recorder->options.overflow == TIDE_OVERFLOW_DROP;
    recorder->tsc = recorder->options.clock == TIDE_CLOCK_TSC ||
                    (recorder->options.clock == TIDE_CLOCK_AUTO && tidei_clock_tsc_is_invariant());
    if (status == TIDE_OK && (recorder->path_pattern == NULL || recorder->drops == NULL))
        status = tide_error_set(TIDE_ENOMEM, "log: no host memory");
    if (status == TIDE_OK)
        status = tidei_recorder_create_files(recorder);
    if (status != TIDE_OK) {
        recorder_free(recorder);
        return status;
    }
    *out = recorder;
    return TIDE_OK;
}

enum tide_status
tidei_recorder_open(const struct tide_log_options *options, struct tidei_recorder **out)
{
    struct tidei_recorder *recorder;
    enum tide_status status;
    bool is_new = false;
    char *path;

    *out = NULL;
    tidei_recorder_handle_forks();
    status = tidei_trace_path(options->path, &path);
    if (status != TIDE_OK)
        return status;
    pthread_mutex_lock(&tidei_registry.files_lock);
    pthread_mutex_lock(&tidei_registry.lock);
    for (recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        int mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);

        if (strcmp(recorder->path, path) == 0 && (mode == TIDEI_RECORDING || mode == TIDEI_RECORDER_FAILED))
            break;
    }
    if (recorder != NULL) {
        free(path);
        status = recorder_check_same(recorder, options);
        if (status == TIDE_OK)
            recorder->references++;
    } else {
        status = recorder_new(options, path, &recorder);
        if (status == TIDE_OK) {
            recorder->next = tidei_registry.first;
            tidei_registry.first = recorder;
            is_new = true;
        }
    }
    pthread_mutex_unlock(&tidei_registry.lock);
    pthread_mutex_unlock(&tidei_registry.files_lock);
    if (status != TIDE_OK)
        return status;
    if (is_new) {
        tidei_tags_define(recorder);
        tidei_callstacks_define(recorder);
    }
    *out = recorder;
    return TIDE_OK;
}

struct tidei_recorder *
tidei_recorder_retain(struct tidei_recorder *recorder)
{
    pthread_mutex_lock(&tidei_registry.lock);
    recorder->references++;
    pthread_mutex_unlock(&tidei_registry.lock);
    return recorder;
}

void
tidei_recorder_keep(struct tidei_recorder *recorder)
{
    char *replaced;

    pthread_mutex_lock(&tidei_registry.lock);
    recorder->kept = true;
    replaced = recorder->replaced;
    recorder->replaced = NULL;
    pthread_mutex_unlock(&tidei_registry.lock);
    if (replaced != NULL)
        tidei_replaced_drop(replaced, true);
    free(replaced);
}

/* Take it out of the registry. */
static void
recorder_unlist(struct tidei_recorder *recorder)
{
    struct tidei_recorder **link = &tidei_registry.first;

    pthread_mutex_lock(&tidei_registry.lock);
    while (*link != recorder)
        link = &(*link)->next;
    *link = recorder->next;
    pthread_mutex_unlock(&tidei_registry.lock);
}

void
tidei_recorder_release(struct tidei_recorder *recorder)
{
    bool last, kept;
    int mode;

    pthread_mutex_lock(&tidei_registry.lock);
    last = --recorder->references == 0;
    kept = recorder->kept;
    mode = atomic_load_explicit(&recorder->mode, memory_order_acquire);
    if (last)
        tidei_recorder_set_mode(recorder, TIDEI_RECORDER_CLOSED);
    if (last && mode == TIDEI_RECORDER_FORKED)
        tidei_recorder_leave_behind(recorder);
    pthread_mutex_unlock(&tidei_registry.lock);
    if (!last)
        return;
    /* It stays in the registry until its file is closed: see ringfile_try_lock. */
    if (mode == TIDEI_RECORDING || mode == TIDEI_RECORDER_FAILED) {
        if (kept)
            tidei_writer_stop(recorder->writer, "closed");
        else
            tidei_recorder_discard_files(recorder);
        recorder_unlist(recorder);
        tidei_writer_free(recorder->writer);
    } else {
        recorder_unlist(recorder);
    }
    recorder_free(recorder);
}

uint32_t
tidei_recorder_new_layer(struct tidei_recorder *recorder)
{
    uint32_t id;

    pthread_mutex_lock(&recorder->lock);
    id = ++recorder->next_layer_id;
    pthread_mutex_unlock(&recorder->lock);
    return id;
}

void
tidei_recorder_write_definition(struct tidei_recorder *recorder, const struct tidei_definition *definition)
{
    struct tidei_producer *producer = tidei_producer_for_text(recorder);
    struct tidei_record record = definition->record;

    if (producer != NULL)
        tidei_producer_text(producer, &record, definition->text, definition->length);
}

/* Write a definition, and keep it for a trace that a forked process may begin. */
static void
recorder_define(struct tidei_recorder *recorder, const struct tidei_record *record, const char *text, size_t length)
{
    struct tidei_definition definition = { .record = *record, .length = length };

    definition.text = malloc(length + 1);
    if (definition.text == NULL)
        return;
    memcpy(definition.text, text, length);
    tidei_recorder_write_definition(recorder, &definition);
    pthread_mutex_lock(&recorder->lock);
    if (tidei_grow(&recorder->definitions, &recorder->definition_capacity, recorder->definition_count, 1))
        recorder->definitions[recorder->definition_count++] = definition;
    else
        free(definition.text);
    pthread_mutex_unlock(&recorder->lock);
}

void
tidei_recorder_define_layer(struct tidei_recorder *recorder, uint32_t layer_id, uint32_t upstream_layer_id,
                            const char *kind, const char *config, int64_t device)
{
    struct tidei_record record = {
        .kind = TIDEI_RECORD_LAYER, .address = layer_id, .size = upstream_layer_id, .stream = (uint64_t)device
    };
    size_t kind_bytes = strlen(kind) + 1;
    size_t config_bytes = strlen(config);
    char *text = malloc(kind_bytes + config_bytes);

    if (text == NULL)
        return;
    memcpy(text, kind, kind_bytes);
    memcpy(text + kind_bytes, config, config_bytes);
    recorder_define(recorder, &record, text, kind_bytes + config_bytes);
    free(text);
}

void
tidei_recorder_define_bin(struct tidei_recorder *recorder, uint32_t layer_id, uint64_t limit_bytes,
                          uint32_t upstream_layer_id)
{
    struct tidei_record record = {
        .kind = TIDEI_RECORD_BIN, .address = layer_id, .size = limit_bytes, .stream = upstream_layer_id
    };

    recorder_define(recorder, &record, "", 0);
}

uint32_t
tidei_recorder_define_stack(struct tidei_recorder *recorder, uint32_t stack_id, const char *text)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_STACK, .address = stack_id };

    pthread_mutex_lock(&recorder->lock);
    if (stack_id == 0)
        record.address = ++recorder->next_stack;
    pthread_mutex_unlock(&recorder->lock);
    recorder_define(recorder, &record, text, strlen(text));
    return (uint32_t)record.address;
}

void
tidei_recorder_define_devices(struct tidei_recorder *recorder)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_DEVICES };
    struct tidei_error error;
    char text[4096];
    bool known;

    pthread_mutex_lock(&recorder->lock);
    known = recorder->knows_devices;
    recorder->knows_devices = true;
    pthread_mutex_unlock(&recorder->lock);
    if (known)
        return;
    tidei_error_save(&error);
    tidei_device_list(text, sizeof(text));
    tidei_error_restore(&error);
    recorder_define(recorder, &record, text, strlen(text));
}

/* The sampler is this process's. */
static bool
recorder_samples(const struct tidei_recorder *recorder)
{
    return recorder->writer != NULL &&
           atomic_load_explicit(&recorder->mode, memory_order_acquire) != TIDEI_RECORDER_FORKED;
}

void
tidei_recorder_watch(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id)
{
    pthread_mutex_lock(&recorder->lock);
    if (tidei_grow(&recorder->watches, &recorder->watch_capacity, recorder->watch_count, 1)) {
        recorder->watches[recorder->watch_count++] = (struct tidei_watch){ resource, layer_id };
        if (recorder_samples(recorder))
            tidei_sampler_watch(recorder->writer->sampler, resource, layer_id);
    }
    pthread_mutex_unlock(&recorder->lock);
}

void
tidei_recorder_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    pthread_mutex_lock(&recorder->lock);
    for (size_t i = 0; i < recorder->watch_count; i++) {
        if (recorder->watches[i].resource == resource) {
            recorder->watches[i] = recorder->watches[--recorder->watch_count];
            break;
        }
    }
    pthread_mutex_unlock(&recorder->lock);
    /* Without the lock: this asks the resource, which has locks of its own. */
    if (recorder_samples(recorder))
        tidei_sampler_unwatch(recorder->writer->sampler, resource);
}

bool
tidei_recorder_watch_calls(struct tidei_recorder *recorder)
{
    if (recorder->options.cupti == TIDE_CUPTI_OFF) {
        tidei_driver_calls_leave(recorder->writer->calls);
        return false;
    }
    pthread_mutex_lock(&recorder->lock);
    recorder->watches_calls = true;
    pthread_mutex_unlock(&recorder->lock);
    return tidei_driver_calls_watch(recorder->writer->calls, recorder->options.cupti == TIDE_CUPTI_MEMORY);
}

enum tide_status
tidei_recorder_flush(struct tidei_recorder *recorder)
{
    int mode;

    tidei_recorder_revive(recorder);
    mode = atomic_load_explicit(&recorder->mode, memory_order_acquire);
    if (mode != TIDEI_RECORDING && mode != TIDEI_RECORDER_FAILED)
        return tide_error_set(TIDE_EIO, "log: %s: %s", recorder->path,
                              mode == TIDEI_RECORDER_FORKED ? "the parent process records there"
                                                            : "the recording has ended");
    return tidei_writer_flush(recorder->writer);
}

void
tidei_recorder_lost(struct tidei_recorder *recorder, enum tidei_record_kind kind)
{
    int mode = atomic_load_explicit(&recorder->mode, memory_order_acquire);

    if (mode != TIDEI_RECORDING && mode != TIDEI_RECORDER_FAILED)
        return;
    if (kind == TIDEI_RECORD_ALLOC)
        atomic_fetch_add_explicit(&recorder->file->header->lost_allocs, 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&recorder->file->header->lost_frees, 1, memory_order_relaxed);
}

void
tidei_recorder_no_ring(struct tidei_recorder *recorder)
{
    /* Relaxed: one message, and nothing hangs on it. */
    if (!atomic_flag_test_and_set_explicit(&recorder->ringless, memory_order_relaxed))
        tidei_message(TIDE_ERROR, "%s; threads without a ring are not recorded, the program goes on",
                      tide_error_text());
}

void
tidei_recorder_fail(struct tidei_recorder *recorder)
{
    int recording = TIDEI_RECORDING;

    if (atomic_compare_exchange_strong_explicit(&recorder->mode, &recording, TIDEI_RECORDER_FAILED,
                                                memory_order_release, memory_order_relaxed))
        atomic_store_explicit(&recorder->serial, tidei_recorder_new_serial(), memory_order_release);
}
