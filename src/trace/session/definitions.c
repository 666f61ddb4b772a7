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

uint32_t
tidei_recorder_new_layer(struct tidei_recorder *recorder)
{
    uint32_t id;

    pthread_mutex_lock(&recorder->session.lock);
    id = ++recorder->next_layer_id;
    pthread_mutex_unlock(&recorder->session.lock);
    return id;
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
    char text[4096];
    bool known;

    pthread_mutex_lock(&recorder->session.lock);
    known = recorder->knows_devices;
    recorder->knows_devices = true;
    pthread_mutex_unlock(&recorder->session.lock);
    if (known)
        return;
    tidei_error_save(&error);
    tidei_device_list(text, sizeof(text));
    tidei_error_restore(&error);
    definition_keep(recorder, &record, text, strlen(text));
}

/* Whether the recorder has a sampler of this process. */
static bool
definition_samples(const struct tidei_recorder *recorder)
{
    return recorder->writer != NULL &&
           atomic_load_explicit(&recorder->session.mode, memory_order_acquire) != TIDEI_SESSION_FORKED;
}

void
tidei_recorder_watch(struct tidei_recorder *recorder, struct tide_resource *resource, uint32_t layer_id)
{
    struct tidei_layer_figures figures;
    struct tidei_high high;

    /* Before the lock: this asks the resource, which has locks of its own. */
    if (!tidei_layer_figures(resource, &figures))
        return;
    tidei_high_begin(&high, &figures);
    pthread_mutex_lock(&recorder->session.lock);
    if (tidei_grow(&recorder->watches, &recorder->watch_capacity, recorder->watch_count, 1)) {
        recorder->watches[recorder->watch_count++] = (struct tidei_watch){ resource, layer_id, high };
        if (definition_samples(recorder))
            tidei_sampler_watch(recorder->writer->sampler, resource, layer_id, high);
    }
    pthread_mutex_unlock(&recorder->session.lock);
}

void
tidei_recorder_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    pthread_mutex_lock(&recorder->session.lock);
    for (size_t i = 0; i < recorder->watch_count; i++) {
        if (recorder->watches[i].resource == resource) {
            recorder->watches[i] = recorder->watches[--recorder->watch_count];
            break;
        }
    }
    pthread_mutex_unlock(&recorder->session.lock);
    /* Without the lock: this asks the resource, which has locks of its own. */
    if (definition_samples(recorder))
        tidei_sampler_unwatch(recorder->writer->sampler, resource);
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
    pthread_mutex_lock(&recorder->session.lock);
    for (size_t i = 0; i < recorder->watch_count; i++)
        tidei_sampler_watch(recorder->writer->sampler, recorder->watches[i].resource, recorder->watches[i].layer_id,
                            recorder->watches[i].high);
    if (recorder->watches_calls)
        tidei_driver_calls_watch(recorder->writer->calls, recorder->options.cupti == TIDE_CUPTI_MEMORY);
    pthread_mutex_unlock(&recorder->session.lock);
}
