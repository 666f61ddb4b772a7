/* Writes what is no allocation: threads, layers, tags, marks, losses, and frees that fit nothing. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/tables/grow.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/database.h"

static const struct tidei_record *
definitions_record(const struct tidei_database *database, uint64_t index)
{
    return tidei_half_record(database->pair->file, database->pair->half, index);
}

/* Put together the text that follows a record; owned by the caller. */
static char *
definitions_text(const struct tidei_database *database, uint64_t index, size_t *length)
{
    unsigned records = definitions_record(database, index)->text_records;
    char *text = calloc(records + 1, TIDEI_TEXT_BYTES);

    *length = 0;
    for (unsigned i = 1; text != NULL && i <= records && index + i < database->pair->end; i++) {
        const struct tidei_text_record *part =
            (const struct tidei_text_record *)definitions_record(database, index + i);

        if (part->kind != TIDEI_RECORD_TEXT || part->length > TIDEI_TEXT_BYTES)
            break;
        memcpy(text + *length, part->text, part->length);
        *length += part->length;
    }
    return text;
}

bool
tidei_database_set_device(struct tidei_database *database, uint32_t layer_id, int64_t device)
{
    size_t before;

    if (layer_id > UINT16_MAX)
        return true;
    before = database->layer_capacity;
    if (!tidei_grow(&database->layer_devices, &database->layer_capacity, layer_id, 1))
        return false;
    for (size_t i = before; i < database->layer_capacity; i++)
        database->layer_devices[i] = -1;
    database->layer_devices[layer_id] = device;
    return true;
}

static enum tide_status
definitions_layer(struct tidei_database *database, const struct tidei_record *record, const char *text, size_t length)
{
    size_t kind = strlen(text);

    sqlite3_bind_int64(database->layer, 1, (int64_t)record->address);
    if (record->size != 0)
        sqlite3_bind_int64(database->layer, 2, (int64_t)record->size);
    sqlite3_bind_text(database->layer, 3, text, (int)kind, SQLITE_STATIC);
    sqlite3_bind_text(database->layer, 4, kind < length ? text + kind + 1 : "", -1, SQLITE_STATIC);
    if ((int64_t)record->stream >= 0)
        sqlite3_bind_int64(database->layer, 5, (int64_t)record->stream);
    if (!tidei_database_set_device(database, (uint32_t)record->address, (int64_t)record->stream))
        database->no_memory = true;
    return tidei_database_run(database, database->layer, "layer");
}

static enum tide_status
definitions_bin(struct tidei_database *database, const struct tidei_record *record)
{
    sqlite3_bind_int64(database->bin, 1, (int64_t)record->address);
    /* a column has no more than 63 bits */
    sqlite3_bind_int64(database->bin, 2, record->size > INT64_MAX ? INT64_MAX : (int64_t)record->size);
    sqlite3_bind_int64(database->bin, 3, (int64_t)record->stream);
    return tidei_database_run(database, database->bin, "layer_bin");
}

static enum tide_status
definitions_thread(struct tidei_database *database, const struct tidei_record *record, const char *text)
{
    if (database->devices != NULL)
        tidei_device_events_add_thread(database->devices, (uint32_t)record->address, (uint32_t)record->size);
    sqlite3_bind_int64(database->thread, 1, (int64_t)record->address);
    sqlite3_bind_int64(database->thread, 2, (int64_t)record->size);
    sqlite3_bind_text(database->thread, 3, text, -1, SQLITE_STATIC);
    return tidei_database_run(database, database->thread, "thread");
}

static enum tide_status
definitions_tag(struct tidei_database *database, const struct tidei_record *record, const char *text)
{
    sqlite3_bind_int64(database->tag, 1, (int64_t)record->address);
    if (record->size != 0)
        sqlite3_bind_int64(database->tag, 2, (int64_t)record->size);
    sqlite3_bind_text(database->tag, 3, text, -1, SQLITE_STATIC);
    return tidei_database_run(database, database->tag, "tag");
}

static enum tide_status
definitions_mark(struct tidei_database *database, const struct tidei_record *record, const char *kind, const char *text,
                 const int64_t *value)
{
    sqlite3_bind_int64(database->mark, 1, (int64_t)tidei_timeline_ns(&database->timeline, record->ticks));
    sqlite3_bind_int64(database->mark, 2, record->thread);
    sqlite3_bind_text(database->mark, 3, kind, -1, SQLITE_STATIC);
    sqlite3_bind_text(database->mark, 4, text, -1, SQLITE_STATIC);
    if (value != NULL)
        sqlite3_bind_int64(database->mark, 5, *value);
    return tidei_database_run(database, database->mark, "mark");
}

static enum tide_status
definitions_loss(struct tidei_database *database, const struct tidei_record *record)
{
    enum tide_status status = tidei_database_loss(database, record->thread, "dropped allocation", record->address);

    if (status == TIDE_OK)
        status = tidei_database_loss(database, record->thread, "dropped free", record->size);
    if (status == TIDE_OK)
        status = tidei_database_loss(database, record->thread, "dropped mark", record->stream);
    return status;
}

static enum tide_status
definitions_stack(struct tidei_database *database, const struct tidei_record *record, const char *text)
{
    char key[32] = "stack";

    /* The first one is meta.stack; an application's further stacks into one trace are stack.2, stack.3, ... */
    if (record->address > 1)
        snprintf(key, sizeof(key), "stack.%u", (unsigned)record->address);
    sqlite3_bind_text(database->stack, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(database->stack, 2, text, -1, SQLITE_STATIC);
    return tidei_database_run(database, database->stack, "meta");
}

static enum tide_status
definitions_other(struct tidei_database *database, uint64_t index)
{
    const struct tidei_record *record = definitions_record(database, index);
    enum tide_status status = TIDE_OK;
    size_t length;
    char *text = definitions_text(database, index, &length);

    if (text == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", database->path);
    switch ((enum tidei_record_kind)record->kind) {
    case TIDEI_RECORD_LAYER:
        status = definitions_layer(database, record, text, length);
        break;
    case TIDEI_RECORD_BIN:
        status = definitions_bin(database, record);
        break;
    case TIDEI_RECORD_THREAD:
        status = definitions_thread(database, record, text);
        break;
    case TIDEI_RECORD_TAG:
        status = definitions_tag(database, record, text);
        break;
    case TIDEI_RECORD_MARK:
        status = definitions_mark(database, record, "mark", text, NULL);
        break;
    case TIDEI_RECORD_LOSS:
        status = definitions_loss(database, record);
        break;
    case TIDEI_RECORD_STACK:
        status = definitions_stack(database, record, text);
        break;
    case TIDEI_RECORD_DEVICES:
        status = tidei_database_meta_text(database, "devices", text);
        break;
    case TIDEI_RECORD_SAMPLE:
        status = tidei_database_sample(database, tidei_timeline_ns(&database->timeline, record->ticks), record->tag,
                                       record->address, record->size);
        break;
    case TIDEI_RECORD_MODULE:
        status = tidei_stacks_module(database, record, text, length);
        break;
    case TIDEI_RECORD_CALLSTACK:
        status = tidei_stacks_callstack(database, record, text, length);
        break;
    case TIDEI_RECORD_MISUSE:
        status = tidei_stacks_misuse(database, record, text, length);
        break;
    default:
        database->unreadable++; /* a damaged file */
        break;
    }
    free(text);
    return status;
}

static enum tide_status
definitions_unmatched(struct tidei_database *database, uint64_t index)
{
    const struct tidei_record *record = definitions_record(database, index);
    uint64_t began = record->ticks - record->duration_ticks;

    sqlite3_bind_int64(database->unmatched, 1, (int64_t)tidei_timeline_ns(&database->timeline, began));
    sqlite3_bind_int64(database->unmatched, 2, record->layer);
    sqlite3_bind_int64(database->unmatched, 3, (int64_t)record->address);
    sqlite3_bind_int64(database->unmatched, 4, (int64_t)record->size);
    sqlite3_bind_int64(database->unmatched, 5, record->thread);
    sqlite3_bind_int64(database->unmatched, 6, tidei_database_stream(database, record->stream, record->layer));
    return tidei_database_run(database, database->unmatched, "unmatched_free");
}

/* A free that was refused, or that named another size than its allocation. */
static enum tide_status
definitions_odd(struct tidei_database *database, uint64_t index)
{
    const struct tidei_record *record = definitions_record(database, index);
    int64_t address = (int64_t)record->address;
    char text[128];

    if (record->status != TIDE_OK) {
        snprintf(text, sizeof(text), "layer %u: %s: free of %llu bytes", record->layer,
                 tide_status_name(record->status), (unsigned long long)record->size);
        return definitions_mark(database, record, "refused_free", text, &address);
    }
    snprintf(text, sizeof(text), "layer %u: freed as %llu bytes", record->layer, (unsigned long long)record->size);
    return definitions_mark(database, record, "size_mismatch", text, &address);
}

enum tide_status
tidei_extras_write(struct tidei_database *database)
{
    const struct tidei_pair *pair = database->pair;
    enum tide_status status = TIDE_OK;

    database->unreadable = 0;
    for (size_t i = 0; status == TIDE_OK && i < pair->other.count; i++)
        status = definitions_other(database, pair->other.items[i]);
    if (status == TIDE_OK)
        status = tidei_database_loss(database, 0, "unreadable record", database->unreadable);
    for (size_t i = 0; status == TIDE_OK && i < pair->unmatched.count; i++)
        status = definitions_unmatched(database, pair->unmatched.items[i]);
    for (size_t i = 0; status == TIDE_OK && i < pair->odd.count; i++)
        status = definitions_odd(database, pair->odd.items[i]);
    return status;
}
