/* Records the definitions of layers, bins, stacks and devices, and watches bases and driver calls. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cuda/device.h"
#include "src/resource/resource.h"
#include "src/tables/grow.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

#define DEFINITION_DEVICES_BYTES 4096

uint32_t
tidei_recorder_new_layer(struct tidei_recorder *recorder)
{
    uint32_t id;

    pthread_mutex_lock(&recorder->session.lock);
    id = ++recorder->next_layer_id;
    pthread_mutex_unlock(&recorder->session.lock);
    return id;
}

void
tidei_recorder_use_again(struct tidei_recorder *recorder)
{
    pthread_mutex_lock(&recorder->session.lock);
    recorder->uses_again = true;
    if (recorder->writer != NULL)
        tidei_counts_keep(recorder->writer->counts);
    pthread_mutex_unlock(&recorder->session.lock);
}

bool
tidei_recorder_uses_again(struct tidei_recorder *recorder)
{
    bool uses;

    pthread_mutex_lock(&recorder->session.lock);
    uses = recorder->uses_again;
    pthread_mutex_unlock(&recorder->session.lock);
    return uses;
}

void
tidei_recorder_put_ended_layers(struct tidei_recorder *recorder, struct tidei_ended_layers *layers)
{
    pthread_mutex_lock(&recorder->session.lock);
    layers->next = recorder->ended_layers;
    recorder->ended_layers = layers;
    pthread_mutex_unlock(&recorder->session.lock);
}

bool
tidei_recorder_has_ended_layers(struct tidei_recorder *recorder)
{
    bool has;

    pthread_mutex_lock(&recorder->session.lock);
    has = recorder->ended_layers != NULL;
    pthread_mutex_unlock(&recorder->session.lock);
    return has;
}

struct tidei_ended_layers *
tidei_recorder_take_ended_layers(struct tidei_recorder *recorder, const char *shape)
{
    struct tidei_ended_layers **link, *layers;

    pthread_mutex_lock(&recorder->session.lock);
    link = &recorder->ended_layers;
    while (*link != NULL && strcmp((*link)->shape, shape) != 0)
        link = &(*link)->next;
    layers = *link;
    if (layers != NULL)
        *link = layers->next;
    pthread_mutex_unlock(&recorder->session.lock);
    return layers;
}

void
tidei_ended_layers_free(struct tidei_ended_layers *layers)
{
    if (layers != NULL)
        free(layers->shape);
    free(layers);
}

static void
definition_write(struct tidei_recorder *recorder, const struct tidei_definition *definition)
{
    struct tidei_producer *producer = tidei_producer_for_text(&recorder->session);
    struct tidei_record record = definition->record;

    if (producer != NULL)
        tidei_producer_text(producer, &record, definition->text, definition->length);
}

/* Write a definition, and keep it for a trace that a forked process may begin. */
static void
definition_keep(struct tidei_recorder *recorder, const struct tidei_record *record, const char *text, size_t length)
{
    struct tidei_definition definition = { .record = *record, .length = length };

    definition.text = malloc(length + 1);
    if (definition.text == NULL)
        return;
    memcpy(definition.text, text, length);
    definition_write(recorder, &definition);
    pthread_mutex_lock(&recorder->session.lock);
    if (tidei_grow(&recorder->definitions, &recorder->definition_capacity, recorder->definition_count, 1))
        recorder->definitions[recorder->definition_count++] = definition;
    else
        free(definition.text);
    pthread_mutex_unlock(&recorder->session.lock);
}

void
tidei_recorder_define_layer(struct tidei_recorder *recorder, uint32_t layer_id, uint32_t upstream_layer_id,
                            const char *kind, const char *config, int64_t device)
{
    struct tidei_record record = {
        .kind = TIDEI_RECORD_LAYER, .address = layer_id, .size = upstream_layer_id, .stream = (uint64_t)device
    };
    char *text;
    int length = asprintf(&text, "%s%c%s", kind, '\0', config);

    if (length < 0)
        return;
    definition_keep(recorder, &record, text, (size_t)length);
    free(text);
}

void
tidei_recorder_define_bin(struct tidei_recorder *recorder, uint32_t layer_id, uint64_t limit_bytes,
                          uint32_t upstream_layer_id)
{
    struct tidei_record record = {
        .kind = TIDEI_RECORD_BIN, .address = layer_id, .size = limit_bytes, .stream = upstream_layer_id
    };

    definition_keep(recorder, &record, "", 0);
}

uint32_t
tidei_recorder_define_stack(struct tidei_recorder *recorder, uint32_t stack_id, const char *text)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_STACK, .address = stack_id };

    pthread_mutex_lock(&recorder->session.lock);
    if (stack_id == 0)
        record.address = ++recorder->next_stack;
    pthread_mutex_unlock(&recorder->session.lock);
    definition_keep(recorder, &record, text, strlen(text));
    return (uint32_t)record.address;
}

void
tidei_recorder_define_devices(struct tidei_recorder *recorder)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_DEVICES };
    struct tidei_error error;
    char *text;
    bool known;

    pthread_mutex_lock(&recorder->session.lock);
    known = recorder->knows_devices;
    recorder->knows_devices = true;
    pthread_mutex_unlock(&recorder->session.lock);
    if (known)
        return;
    /* On the heap, since the thread that allocates may have a small stack. */
    text = malloc(DEFINITION_DEVICES_BYTES);
    if (text == NULL)
        return;
    tidei_error_save(&error);
    tidei_device_list(text, DEFINITION_DEVICES_BYTES);
    tidei_error_restore(&error);
    definition_keep(recorder, &record, text, strlen(text));
    free(text);
}

/* Whether the recorder has a sampler of this process. */
static bool
definition_samples(const struct tidei_recorder *recorder)
{
    return recorder->writer != NULL &&
           atomic_load_explicit(&recorder->session.mode, memory_order_acquire) != TIDEI_SESSION_FORKED;
}

/* Begin a watch in the sampler. The session's lock is held. */
static void
definition_watch(const struct tidei_recorder *recorder, const struct tidei_watch *watch)
{
    struct tidei_sampler *sampler = recorder->writer->sampler;

    if (watch->counts)
        tidei_counts_watch(recorder->writer->counts, watch->resource, watch->layer_id);
    else if (watch->layer_id != 0)
        tidei_sampler_watch(sampler, watch->resource, watch->layer_id, watch->high);
    else
        tidei_sampler_watch_device(sampler, watch->resource, watch->device);
}

static void
definition_add_watch(struct tidei_recorder *recorder, const struct tidei_watch *watch)
{
    pthread_mutex_lock(&recorder->session.lock);
    if (tidei_grow(&recorder->watches, &recorder->watch_capacity, recorder->watch_count, 1) &&
        tidei_map_add(&recorder->watch_places, (uintptr_t)watch->resource, 0, (uint32_t)recorder->watch_count)) {
        recorder->watches[recorder->watch_count++] = *watch;
        if (definition_samples(recorder))
            definition_watch(recorder, watch);
    }
    pthread_mutex_unlock(&recorder->session.lock);
}

void
tidei_recorder_watch(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id)
{
    struct tidei_watch watch = { .resource = resource, .layer_id = layer_id };
    struct tidei_layer_figures figures;

    /* Before the lock: this asks the resource, which has locks of its own. */
    if (!tidei_layer_figures(resource, &figures))
        return;
    tidei_high_begin(&watch.high, &figures);
    definition_add_watch(recorder, &watch);
}

void
tidei_recorder_watch_device(struct tidei_recorder *recorder, struct tide_resource *base)
{
    struct tidei_watch watch = { .resource = base };
    struct tidei_error error;
    uint64_t device, bytes;
    bool known;

    tidei_error_save(&error);
    known = tide_query(base, TIDE_QUERY_DEVICE, &device) == TIDE_OK &&
            tide_query(base, TIDE_QUERY_DEVICE_TOTAL, &bytes) == TIDE_OK;
    tidei_error_restore(&error);
    if (!known)
        return;
    watch.device = (int32_t)device;
    definition_add_watch(recorder, &watch);
    tidei_recorder_watches_device(watch.device);
}

void
tidei_recorder_watch_counts(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id)
{
    struct tidei_watch watch = { .resource = resource, .layer_id = layer_id, .counts = true };

    if (tidei_counts_has(resource))
        definition_add_watch(recorder, &watch);
}

void
tidei_recorder_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    uint32_t place;

    pthread_mutex_lock(&recorder->session.lock);
    while (tidei_map_take(&recorder->watch_places, (uintptr_t)resource, 0, &place)) {
        const struct tidei_watch *last = &recorder->watches[--recorder->watch_count];

        if (place == recorder->watch_count)
            continue;
        recorder->watches[place] = *last;
        tidei_map_renumber(&recorder->watch_places, (uintptr_t)last->resource, 0, (uint32_t)recorder->watch_count,
                           place);
    }
    pthread_mutex_unlock(&recorder->session.lock);
    /* Without the lock: this asks the resource, which has locks of its own. */
    if (!definition_samples(recorder))
        return;
    tidei_sampler_unwatch(recorder->writer->sampler, resource);
    tidei_counts_unwatch(recorder->writer->counts, resource);
}

void
tidei_recorder_begin_with(struct tidei_recorder *recorder, void (*begin)(void *context), void *context)
{
    pthread_mutex_lock(&tidei_sessions.lock);
    if (tidei_grow(&recorder->beginnings, &recorder->beginning_capacity, recorder->beginning_count, 1))
        recorder->beginnings[recorder->beginning_count++] = (struct tidei_beginning){ begin, context };
    pthread_mutex_unlock(&tidei_sessions.lock);
}

void
tidei_recorder_begin_without(struct tidei_recorder *recorder, const void *context)
{
    pthread_mutex_lock(&tidei_sessions.lock);
    for (size_t i = 0; i < recorder->beginning_count; i++) {
        if (recorder->beginnings[i].context == context) {
            recorder->beginnings[i] = recorder->beginnings[--recorder->beginning_count];
            break;
        }
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
}

bool
tidei_recorder_watch_calls(struct tidei_recorder *recorder)
{
    if (recorder->options.cupti == TIDE_CUPTI_OFF) {
        tidei_driver_calls_leave(recorder->writer->calls);
        return false;
    }
    pthread_mutex_lock(&recorder->session.lock);
    recorder->watches_calls = true;
    pthread_mutex_unlock(&recorder->session.lock);
    return tidei_driver_calls_watch(recorder->writer->calls, recorder->options.cupti == TIDE_CUPTI_MEMORY);
}

void
tidei_recorder_define_again(struct tidei_recorder *recorder)
{
    for (size_t i = 0; i < recorder->definition_count; i++)
        definition_write(recorder, &recorder->definitions[i]);
    for (size_t i = 0; i < recorder->beginning_count; i++)
        recorder->beginnings[i].begin(recorder->beginnings[i].context);
    pthread_mutex_lock(&recorder->session.lock);
    if (recorder->uses_again)
        tidei_counts_keep(recorder->writer->counts);
    for (size_t i = 0; i < recorder->watch_count; i++)
        definition_watch(recorder, &recorder->watches[i]);
    if (recorder->watches_calls)
        tidei_driver_calls_watch(recorder->writer->calls, recorder->options.cupti == TIDE_CUPTI_MEMORY);
    pthread_mutex_unlock(&recorder->session.lock);
}
