/* Pairs the events of another program's recording and writes them as a trace. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "src/tables/grow.h"
#include "src/trace/database/schema.h"
#include "viewer/base/exit-status.h"
#include "viewer/import/import.h"

/* 146 years: later times are no times, and sums of two have room. */
#define IMPORT_NS_MOST (INT64_C(1) << 62)

static int
import_no_memory(void)
{
    fputs("tidemark import: no memory for what is live\n", stderr);
    return COMMAND_WRONG;
}

int
import_begin(struct import *import, const char *path, bool overwrite)
{
    int status;

    *import = (struct import){ .last_ns = -1 };
    tidei_map_draw_key(&import->live.by_address);
    import->layers = calloc(IMPORT_LAYERS_MAX, sizeof(*import->layers));
    if (import->layers == NULL)
        return import_no_memory();
    status = trace_writer_open(&import->writer, path, overwrite);
    if (status != COMMAND_FINE)
        free(import->layers);
    return status;
}

static void
import_free_all(struct import *import)
{
    for (unsigned i = 0; i < import->layer_count; i++) {
        id_map_free(&import->layers[i].streams);
    }
    free(import->layers);
    tidei_lives_free(&import->live);
    free(import->lives);
    free(import->free_slots);
    id_map_free(&import->threads);
}

void
import_abandon(struct import *import)
{
    trace_writer_abandon(&import->writer);
    import_free_all(import);
}

/* One row of `layer`; where it is a log, events may name it. */
static int
import_add_layer(struct import *import, const char *kind, const char *config, bool is_base, int64_t device,
                 uint64_t alignment)
{
    int64_t id = ++import->layer_ids;

    if (strcmp(kind, "log") == 0) {
        if (import->layer_count == IMPORT_LAYERS_MAX) {
            fprintf(stderr, "tidemark import: more than %d devices and kinds of memory\n", IMPORT_LAYERS_MAX);
            return COMMAND_WRONG;
        }
        import->layers[import->layer_count++] =
            (struct import_layer){ .layer_id = id, .device = device, .alignment = alignment };
    }
    return trace_writer_row(&import->writer, layer, TIDEI_NUMBER(id), TIDEI_NUMBER_IF(!is_base, id + 1),
                            TIDEI_TEXT(kind), TIDEI_TEXT(config), TIDEI_NUMBER_IF(device >= 0, device));
}

int
import_layers(struct import *import, const char *kinds, const char *config, int64_t device, uint64_t alignment,
              unsigned *first)
{
    int status = COMMAND_FINE;
    char kind[64];
    int length;

    *first = import->layer_count;
    for (; status == COMMAND_FINE && sscanf(kinds, " %63s%n", kind, &length) == 1; kinds += length) {
        bool is_base = kinds[length] == '\0';

        status = import_add_layer(import, kind, is_base ? config : "", is_base, device, alignment);
    }
    return status;
}

int64_t
import_base_id(const struct import *import)
{
    return import->layer_ids;
}

void
import_time(struct import *import, bool known, int64_t ns)
{
    if (!known || ns < import->latest_ns || ns >= IMPORT_NS_MOST)
        import->guessed++;
    else
        import->latest_ns = ns;
    import->last_ns = import->last_ns >= import->latest_ns ? import->last_ns + 1 : import->latest_ns;
}

int64_t
import_thread(struct import *import, uint64_t thread, const char *name)
{
    const uint32_t *known = id_map_find(&import->threads, thread);
    uint32_t id = (uint32_t)import->threads.count + 1;

    if (known != NULL)
        return *known;
    if (id == 0 || !id_map_add(&import->threads, thread, id)) {
        import_no_memory();
        return 0;
    }
    return trace_writer_row(&import->writer, thread, TIDEI_NUMBER(id), TIDEI_NUMBER(thread),
                            TIDEI_TEXT(name != NULL ? name : "")) == COMMAND_FINE
               ? id
               : 0;
}

static int64_t
import_stream(struct import *import, struct import_layer *layer, uint64_t handle)
{
    const uint32_t *known = id_map_find(&layer->streams, handle);
    int status;

    if (known != NULL)
        return *known;
    if (import->stream_ids == UINT32_MAX || !id_map_add(&layer->streams, handle, (uint32_t)import->stream_ids + 1)) {
        import_no_memory();
        return 0;
    }
    import->stream_ids++;
    status = trace_writer_row(&import->writer, stream, TIDEI_NUMBER(import->stream_ids), TIDEI_NUMBER(handle),
                              TIDEI_NUMBER_IF(layer->device >= 0, layer->device));
    return status == COMMAND_FINE ? import->stream_ids : 0;
}

int64_t
import_tag(struct import *import, int64_t parent, const char *name)
{
    int64_t id = ++import->tag_ids;

    return trace_writer_row(&import->writer, tag, TIDEI_NUMBER(id), TIDEI_ID(parent), TIDEI_TEXT(name)) == COMMAND_FINE
               ? id
               : 0;
}

/* A row for an allocation that happens now; false after a message. */
static bool
import_new_life(struct import *import, const struct import_event *event, struct trace_writer_life *life)
{
    struct import_layer *layer = &import->layers[event->layer];

    *life = (struct trace_writer_life){
        .allocation_id = ++import->allocation_ids,
        .layer_id = layer->layer_id,
        .address = event->address,
        .size = event->size,
        .alignment = layer->alignment,
        .tag_id = event->tag_id,
        .alloc_ns = import->last_ns,
        .alloc_duration_ns = event->duration_ns,
        .alloc_thread_id = import_thread(import, event->thread, NULL),
        .alloc_stream_id = import_stream(import, layer, event->stream),
    };
    return life->alloc_thread_id != 0 && life->alloc_stream_id != 0;
}

/* Keep a life until its end. UINT32_MAX: no memory. */
static uint32_t
import_keep(struct import *import, const struct trace_writer_life *life)
{
    uint32_t slot = (uint32_t)import->slot_count;

    if (import->free_count > 0)
        slot = import->free_slots[--import->free_count];
    else if (import->slot_count < UINT32_MAX - 1 &&
             tidei_grow(&import->lives, &import->slot_capacity, import->slot_count, 1) &&
             tidei_grow(&import->free_slots, &import->free_capacity, 0, import->slot_capacity))
        import->slot_count++;
    else
        return UINT32_MAX;
    import->lives[slot] = *life;
    return slot;
}

/* Write a life that has come to its end, or to that of the input, and forget it. */
static int
import_let_go(struct import *import, uint32_t slot)
{
    int status = trace_writer_life(&import->writer, &import->lives[slot]);

    import->lives[slot].allocation_id = 0;
    import->free_slots[import->free_count++] = slot;
    return status;
}

int
import_alloc(struct import *import, const struct import_event *event, int64_t *allocation_id)
{
    struct trace_writer_life life;
    uint32_t slot, earlier;

    if (allocation_id != NULL)
        *allocation_id = 0;
    import->events++;
    if (event->size > INT64_MAX) {
        import->unreadable++;
        return COMMAND_FINE;
    }
    if (!import_new_life(import, event, &life))
        return COMMAND_WRONG;
    if (allocation_id != NULL)
        *allocation_id = life.allocation_id;
    slot = import_keep(import, &life);
    if (slot == UINT32_MAX ||
        !tidei_lives_replace(&import->live, event->address, (uint16_t)event->layer, slot + 1, &earlier))
        return import_no_memory();
    if (earlier == 0)
        return COMMAND_FINE;
    /* Its free is missing, and so is the time of that: it stays live. */
    import->replaced++;
    return import_let_go(import, earlier - 1);
}

int
import_failure(struct import *import, const struct import_event *event, int64_t *allocation_id)
{
    struct trace_writer_life life;

    import->events++;
    if (!import_new_life(import, event, &life))
        return COMMAND_WRONG;
    if (allocation_id != NULL)
        *allocation_id = life.allocation_id;
    life.status = TIDE_ECAPACITY;
    life.address = 0;
    return trace_writer_life(&import->writer, &life);
}

static int
import_unmatched(struct import *import, const struct import_event *event, int64_t thread_id, int64_t stream_id)
{
    import->unmatched++;
    return trace_writer_row(&import->writer, unmatched_free, TIDEI_NUMBER(import->last_ns),
                            TIDEI_NUMBER(import->layers[event->layer].layer_id), TIDEI_NUMBER(event->address),
                            TIDEI_NUMBER(event->size != IMPORT_SIZE_UNKNOWN ? event->size : 0), TIDEI_NUMBER(thread_id),
                            TIDEI_NUMBER(stream_id));
}

static int
import_mismatch(struct import *import, const struct import_event *event, int64_t thread_id)
{
    char text[96];

    import->mismatched++;
    snprintf(text, sizeof(text), "layer %" PRId64 ": freed as %" PRIu64 " bytes", import->layers[event->layer].layer_id,
             event->size);
    return trace_writer_row(&import->writer, mark, TIDEI_NUMBER(import->last_ns), TIDEI_NUMBER(thread_id),
                            TIDEI_TEXT("size_mismatch"), TIDEI_TEXT(text), TIDEI_NUMBER(event->address));
}

int
import_free(struct import *import, const struct import_event *event, int64_t *allocation_id)
{
    struct import_layer *layer = &import->layers[event->layer];
    int64_t thread_id = import_thread(import, event->thread, NULL);
    int64_t stream_id = import_stream(import, layer, event->stream);
    struct trace_writer_life *life;
    uint32_t number;
    int status = COMMAND_FINE;

    if (allocation_id != NULL)
        *allocation_id = 0;
    import->events++;
    if (thread_id == 0 || stream_id == 0)
        return COMMAND_WRONG;
    number = tidei_lives_take(&import->live, event->address, (uint16_t)event->layer, NULL, NULL);
    if (number == 0)
        return import_unmatched(import, event, thread_id, stream_id);
    life = &import->lives[number - 1];
    if (event->size != IMPORT_SIZE_UNKNOWN && event->size != life->size)
        status = import_mismatch(import, event, thread_id);
    life->freed = true;
    life->free_ns = import->last_ns;
    life->free_duration_ns = event->duration_ns;
    life->free_thread_id = thread_id;
    life->free_stream_id = stream_id;
    if (allocation_id != NULL)
        *allocation_id = life->allocation_id;
    return status == COMMAND_FINE ? import_let_go(import, number - 1) : status;
}

bool
import_is_live(const struct import *import, unsigned layer, uint64_t address)
{
    return tidei_lives_has(&import->live, address, (uint16_t)layer);
}

/* What the input ended with. */
static int
import_write_live(struct import *import)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; status == COMMAND_FINE && i < import->slot_count; i++) {
        if (import->lives[i].allocation_id != 0)
            status = trace_writer_life(&import->writer, &import->lives[i]);
    }
    return status;
}

/* A count of what the trace lacks, which is also said. */
static int
import_write_loss(struct import *import, const char *reason, uint64_t count, const char *words)
{
    if (count == 0)
        return COMMAND_FINE;
    fprintf(stderr, "tidemark import: %" PRIu64 " %s\n", count, words);
    return trace_writer_row(&import->writer, loss, TIDEI_NULL, TIDEI_TEXT(reason), TIDEI_NUMBER(count));
}

static void
import_say(uint64_t count, const char *words)
{
    if (count > 0)
        fprintf(stderr, "tidemark import: %" PRIu64 " %s\n", count, words);
}

static int
import_write_meta(struct import *import, const char *from, const char *source, uint64_t start_unix_ns)
{
    struct trace_writer *writer = &import->writer;
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        { "format_version", TIDEI_TRACE_FORMAT },
        { "start_unix_ns", (int64_t)start_unix_ns },
        { "complete", 1 },
        { "pid", 0 },
        { "end_ns", import->last_ns > 0 ? import->last_ns : 0 },
        { "import_events", (int64_t)import->events },
        { "import_guessed_times", (int64_t)import->guessed },
    };
    const struct {
        const char *key;
        const char *value;
    } texts[] = {
        { "hostname", "" },      { "command", "" },       { "devices", "" },         { "stack", "" },
        { "clock", "imported" }, { "ended", "imported" }, { "import_format", from }, { "import_source", source },
    };
    char versions[128];
    int status = COMMAND_FINE;

    snprintf(versions, sizeof(versions), "tidemark %s, sqlite %s", tide_version(), sqlite3_libversion());
    for (size_t i = 0; status == COMMAND_FINE && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        status = trace_writer_row(writer, meta, TIDEI_TEXT(numbers[i].key), TIDEI_NUMBER(numbers[i].value));
    for (size_t i = 0; status == COMMAND_FINE && i < sizeof(texts) / sizeof(texts[0]); i++)
        status = trace_writer_row(writer, meta, TIDEI_TEXT(texts[i].key), TIDEI_TEXT(texts[i].value));
    if (status == COMMAND_FINE)
        status = trace_writer_row(writer, meta, TIDEI_TEXT("versions"), TIDEI_TEXT(versions));
    return status;
}

int
import_finish(struct import *import, const char *from, const char *source, uint64_t start_unix_ns)
{
    bool lossless = import->replaced == 0 && import->unreadable == 0 && import->cut_off == 0;
    int status = import_write_live(import);

    if (status == COMMAND_FINE)
        status = import_write_loss(import, "missing free", import->replaced,
                                   "addresses were allocated again while they were live: their frees are missing, and "
                                   "what had them before stays live");
    if (status == COMMAND_FINE)
        status = import_write_loss(import, "unreadable record", import->unreadable, "records could not be read");
    if (status == COMMAND_FINE)
        status = import_write_loss(import, "input cut off", import->cut_off, "input that ends in the middle");
    if (status == COMMAND_FINE)
        status = import_write_meta(import, from, source, start_unix_ns);
    import_say(import->unmatched, "frees of what was not live are in the table unmatched_free");
    import_say(import->mismatched, "frees named another size than their allocation, and are marks");
    import_say(import->guessed, "times were missing, unreadable or went back: they are those of the events before");
    if (status == COMMAND_FINE)
        status = trace_writer_finish(&import->writer);
    else
        trace_writer_abandon(&import->writer);
    import_free_all(import);
    return status != COMMAND_FINE || lossless ? status : COMMAND_INCOMPLETE;
}
