/* Writes what is no allocation: threads, layers, tags, marks, losses, and frees that fit nothing. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/database.h"

static const struct tidei_record *
extras_record(const struct tidei_store *store, uint64_t index)
{
    return tidei_half_record(store->pair->file, store->pair->half, index);
}

/* Put together the text that follows a record; owned by the caller. */
static char *
extras_text(const struct tidei_store *store, uint64_t index, size_t *length)
{
    unsigned records = extras_record(store, index)->text_records;
    char *text = calloc(records + 1, TIDEI_TEXT_BYTES);

    *length = 0;
    for (unsigned i = 1; text != NULL && i <= records && index + i < store->pair->end; i++) {
        const struct tidei_text_record *part = (const struct tidei_text_record *)extras_record(store, index + i);

        if (part->kind != TIDEI_RECORD_TEXT || part->length > TIDEI_TEXT_BYTES)
            break;
        memcpy(text + *length, part->text, part->length);
        *length += part->length;
    }
    return text;
}

bool
tidei_store_set_device(struct tidei_store *store, uint32_t layer_id, int64_t device)
{
    if (layer_id > UINT16_MAX)
        return true;
    if (layer_id >= store->layer_capacity) {
        uint32_t larger = layer_id + 16;
        int64_t *moved = realloc(store->layer_devices, larger * sizeof(*moved));

        if (moved == NULL)
            return false;
        for (uint32_t i = store->layer_capacity; i < larger; i++)
            moved[i] = -1;
        store->layer_devices = moved;
        store->layer_capacity = larger;
    }
    store->layer_devices[layer_id] = device;
    return true;
}

static enum tide_status
extras_layer(struct tidei_store *store, const struct tidei_record *record, const char *text, size_t length)
{
    size_t kind = strlen(text);

    sqlite3_bind_int64(store->layer, 1, (int64_t)record->address);
    if (record->size != 0)
        sqlite3_bind_int64(store->layer, 2, (int64_t)record->size);
    sqlite3_bind_text(store->layer, 3, text, (int)kind, SQLITE_STATIC);
    sqlite3_bind_text(store->layer, 4, kind < length ? text + kind + 1 : "", -1, SQLITE_STATIC);
    if ((int64_t)record->stream >= 0)
        sqlite3_bind_int64(store->layer, 5, (int64_t)record->stream);
    if (!tidei_store_set_device(store, (uint32_t)record->address, (int64_t)record->stream))
        store->no_memory = true;
    return tidei_store_run(store, store->layer, "layer");
}

static enum tide_status
extras_bin(struct tidei_store *store, const struct tidei_record *record)
{
    sqlite3_bind_int64(store->bin, 1, (int64_t)record->address);
    /* a column has no more than 63 bits */
    sqlite3_bind_int64(store->bin, 2, record->size > INT64_MAX ? INT64_MAX : (int64_t)record->size);
    sqlite3_bind_int64(store->bin, 3, (int64_t)record->stream);
    return tidei_store_run(store, store->bin, "layer_bin");
}

static enum tide_status
extras_thread(struct tidei_store *store, const struct tidei_record *record, const char *text)
{
    if (store->devices != NULL)
        tidei_devices_add_thread(store->devices, (uint32_t)record->address, (uint32_t)record->size);
    sqlite3_bind_int64(store->thread, 1, (int64_t)record->address);
    sqlite3_bind_int64(store->thread, 2, (int64_t)record->size);
    sqlite3_bind_text(store->thread, 3, text, -1, SQLITE_STATIC);
    return tidei_store_run(store, store->thread, "thread");
}

static enum tide_status
extras_tag(struct tidei_store *store, const struct tidei_record *record, const char *text)
{
    sqlite3_bind_int64(store->tag, 1, (int64_t)record->address);
    if (record->size != 0)
        sqlite3_bind_int64(store->tag, 2, (int64_t)record->size);
    sqlite3_bind_text(store->tag, 3, text, -1, SQLITE_STATIC);
    return tidei_store_run(store, store->tag, "tag");
}

static enum tide_status
extras_mark(struct tidei_store *store, const struct tidei_record *record, const char *kind, const char *text,
            const int64_t *value)
{
    sqlite3_bind_int64(store->mark, 1, (int64_t)tidei_store_ns(store, record->ticks));
    sqlite3_bind_int64(store->mark, 2, record->thread);
    sqlite3_bind_text(store->mark, 3, kind, -1, SQLITE_STATIC);
    sqlite3_bind_text(store->mark, 4, text, -1, SQLITE_STATIC);
    if (value != NULL)
        sqlite3_bind_int64(store->mark, 5, *value);
    return tidei_store_run(store, store->mark, "mark");
}

static enum tide_status
extras_loss(struct tidei_store *store, const struct tidei_record *record)
{
    enum tide_status status = tidei_store_loss(store, record->thread, "dropped allocation", record->address);

    if (status == TIDE_OK)
        status = tidei_store_loss(store, record->thread, "dropped free", record->size);
    if (status == TIDE_OK)
        status = tidei_store_loss(store, record->thread, "dropped mark", record->stream);
    return status;
}

static enum tide_status
extras_stack(struct tidei_store *store, const struct tidei_record *record, const char *text)
{
    char key[32] = "stack";

    /* The first one is meta.stack; an application's further stacks into one trace are stack.2, stack.3, ... */
    if (record->address > 1)
        snprintf(key, sizeof(key), "stack.%u", (unsigned)record->address);
    sqlite3_bind_text(store->stack, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(store->stack, 2, text, -1, SQLITE_STATIC);
    return tidei_store_run(store, store->stack, "meta");
}

static enum tide_status
extras_other(struct tidei_store *store, uint64_t index)
{
    const struct tidei_record *record = extras_record(store, index);
    enum tide_status status = TIDE_OK;
    size_t length;
    char *text = extras_text(store, index, &length);

    if (text == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", store->path);
    switch ((enum tidei_record_kind)record->kind) {
    case TIDEI_RECORD_LAYER:
        status = extras_layer(store, record, text, length);
        break;
    case TIDEI_RECORD_BIN:
        status = extras_bin(store, record);
        break;
    case TIDEI_RECORD_THREAD:
        status = extras_thread(store, record, text);
        break;
    case TIDEI_RECORD_TAG:
        status = extras_tag(store, record, text);
        break;
    case TIDEI_RECORD_MARK:
        status = extras_mark(store, record, "mark", text, NULL);
        break;
    case TIDEI_RECORD_LOSS:
        status = extras_loss(store, record);
        break;
    case TIDEI_RECORD_STACK:
        status = extras_stack(store, record, text);
        break;
    case TIDEI_RECORD_DEVICES:
        status = tidei_store_meta_text(store, "devices", text);
        break;
    case TIDEI_RECORD_SAMPLE:
        status =
            tidei_store_sample(store, tidei_store_ns(store, record->ticks), record->tag, record->address, record->size);
        break;
    case TIDEI_RECORD_MODULE:
        status = tidei_stacks_module(store, record, text, length);
        break;
    case TIDEI_RECORD_CALLSTACK:
        status = tidei_stacks_callstack(store, record, text, length);
        break;
    case TIDEI_RECORD_MISUSE:
        status = tidei_stacks_misuse(store, record, text, length);
        break;
    default:
        store->unreadable++; /* a damaged file */
        break;
    }
    free(text);
    return status;
}

static enum tide_status
extras_unmatched(struct tidei_store *store, uint64_t index)
{
    const struct tidei_record *record = extras_record(store, index);
    uint64_t began = record->ticks - record->duration_ticks;

    sqlite3_bind_int64(store->unmatched, 1, (int64_t)tidei_store_ns(store, began));
    sqlite3_bind_int64(store->unmatched, 2, record->layer);
    sqlite3_bind_int64(store->unmatched, 3, (int64_t)record->address);
    sqlite3_bind_int64(store->unmatched, 4, (int64_t)record->size);
    sqlite3_bind_int64(store->unmatched, 5, record->thread);
    sqlite3_bind_int64(store->unmatched, 6, tidei_store_stream(store, record->stream, record->layer));
    return tidei_store_run(store, store->unmatched, "unmatched_free");
}

/* A free that was refused, or that named another size than its allocation. */
static enum tide_status
extras_odd(struct tidei_store *store, uint64_t index)
{
    const struct tidei_record *record = extras_record(store, index);
    int64_t address = (int64_t)record->address;
    char text[128];

    if (record->status != TIDE_OK) {
        snprintf(text, sizeof(text), "layer %u: %s: free of %llu bytes", record->layer,
                 tide_status_name(record->status), (unsigned long long)record->size);
        return extras_mark(store, record, "refused_free", text, &address);
    }
    snprintf(text, sizeof(text), "layer %u: freed as %llu bytes", record->layer, (unsigned long long)record->size);
    return extras_mark(store, record, "size_mismatch", text, &address);
}

enum tide_status
tidei_extras_write(struct tidei_store *store)
{
    const struct tidei_pair *pair = store->pair;
    enum tide_status status = TIDE_OK;

    store->unreadable = 0;
    for (size_t i = 0; status == TIDE_OK && i < pair->other.count; i++)
        status = extras_other(store, pair->other.items[i]);
    if (status == TIDE_OK)
        status = tidei_store_loss(store, 0, "unreadable record", store->unreadable);
    for (size_t i = 0; status == TIDE_OK && i < pair->unmatched.count; i++)
        status = extras_unmatched(store, pair->unmatched.items[i]);
    for (size_t i = 0; status == TIDE_OK && i < pair->odd.count; i++)
        status = extras_odd(store, pair->odd.items[i]);
    return status;
}
