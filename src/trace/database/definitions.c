/* Writes the rows that are not allocations: threads, layers, tags, marks, losses, and unmatched frees. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/common-rows.h"

static const struct tidei_record *
definitions_record(const struct tidei_database *database, uint64_t index)
{
    return tidei_buffer_record(database->pair->file, database->pair->buffer, index);
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

static void
definitions_layer(struct tidei_database *database, const struct tidei_record *record, const char *text, size_t length)
{
    size_t kind = strlen(text);

    if (!tidei_database_set_device(database, (uint32_t)record->address, (int64_t)record->stream))
        database->no_memory = true;
    tidei_database_insert(database, layer, TIDEI_NUMBER(record->address), TIDEI_ID(record->size),
                          TIDEI_TEXT_OF(text, kind), TIDEI_TEXT(kind < length ? text + kind + 1 : ""),
                          TIDEI_NUMBER_IF((int64_t)record->stream >= 0, record->stream));
}

static void
definitions_bin(struct tidei_database *database, const struct tidei_record *record)
{
    uint64_t limit_bytes = record->size > INT64_MAX ? INT64_MAX : record->size; /* a column has no more than 63 bits */

    tidei_database_insert(database, layer_bin, TIDEI_NUMBER(record->address), TIDEI_NUMBER(limit_bytes),
                          TIDEI_NUMBER(record->stream));
}

static void
definitions_thread(struct tidei_database *database, const struct tidei_record *record, const char *text)
{
    if (database->devices != NULL)
        tidei_device_events_add_thread(database->devices, (uint32_t)record->address, (uint32_t)record->size);
    tidei_database_insert(database, thread, TIDEI_NUMBER(record->address), TIDEI_NUMBER(record->size),
                          TIDEI_TEXT(text));
}

static void
definitions_loss(struct tidei_database *database, const struct tidei_record *record)
{
    tidei_database_loss(database, record->thread, "dropped allocation", record->address);
    tidei_database_loss(database, record->thread, "dropped free", record->size);
    tidei_database_loss(database, record->thread, "dropped mark", record->stream);
}

static void
definitions_stack(struct tidei_database *database, const struct tidei_record *record, const char *text)
{
    char key[32] = "stack";

    /* The first one is meta.stack; an application's further stacks into one trace are stack.2, stack.3, ... */
    if (record->address > 1)
        snprintf(key, sizeof(key), "stack.%u", (unsigned)record->address);
    sqlite3_bind_text(database->stack, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(database->stack, 2, text, -1, SQLITE_STATIC);
    tidei_database_run(database, database->stack, "meta");
}

static void
definitions_other(struct tidei_database *database, uint64_t index)
{
    const struct tidei_record *record = definitions_record(database, index);
    uint64_t ns = tidei_timeline_ns(&database->timeline, record->ticks);
    size_t length;
    char *text = definitions_text(database, index, &length);

    if (text == NULL) {
        tidei_database_fail_memory(database);
        return;
    }
    switch ((enum tidei_record_kind)record->kind) {
    case TIDEI_RECORD_LAYER:
        definitions_layer(database, record, text, length);
        break;
    case TIDEI_RECORD_BIN:
        definitions_bin(database, record);
        break;
    case TIDEI_RECORD_THREAD:
        definitions_thread(database, record, text);
        break;
    case TIDEI_RECORD_TAG:
        tidei_database_insert(database, tag, TIDEI_NUMBER(record->address), TIDEI_ID(record->size), TIDEI_TEXT(text));
        break;
    case TIDEI_RECORD_MARK:
        tidei_database_insert(database, mark, TIDEI_NUMBER(ns), TIDEI_NUMBER(record->thread), TIDEI_TEXT("mark"),
                              TIDEI_TEXT(text));
        break;
    case TIDEI_RECORD_LOSS:
        definitions_loss(database, record);
        break;
    case TIDEI_RECORD_STACK:
        definitions_stack(database, record, text);
        break;
    case TIDEI_RECORD_DEVICES:
        tidei_database_meta_text(database, "devices", text);
        break;
    case TIDEI_RECORD_SAMPLE:
        tidei_database_sample(database, &(struct tidei_pool_sample){ .ns = ns,
                                                                     .layer_id = record->tag,
                                                                     .used_bytes = record->address,
                                                                     .reserved_bytes = record->size,
                                                                     .reserved_high_bytes = record->stream });
        break;
    case TIDEI_RECORD_MODULE:
        tidei_callstacks_module(database, record, text, length);
        break;
    case TIDEI_RECORD_SOURCE:
        tidei_callstacks_source(database, record, text, length);
        break;
    case TIDEI_RECORD_CALLSTACK:
        tidei_callstacks_stack(database, record, text, length);
        break;
    case TIDEI_RECORD_MISUSE:
        tidei_callstacks_misuse(database, record, text, length);
        break;
    default:
        database->unreadable++; /* a damaged file */
        break;
    }
    free(text);
}

static void
definitions_unmatched(struct tidei_database *database, uint32_t index)
{
    const struct tidei_record *record = tidei_pair_event_record(database->pair, index);
    uint64_t began = record->ticks - tidei_record_duration(record);

    tidei_database_insert(database, unmatched_free, TIDEI_NUMBER(tidei_timeline_ns(&database->timeline, began)),
                          TIDEI_NUMBER(record->layer), TIDEI_NUMBER(record->address), TIDEI_NUMBER(record->size),
                          TIDEI_NUMBER(record->thread),
                          TIDEI_NUMBER(tidei_database_stream(database, record->stream, record->layer)));
    /* The row goes if an allocation comes that the free was of. */
    if (index & TIDEI_FREE_EARLY)
        database->pair->early.items[index & ~TIDEI_FREE_EARLY].row = sqlite3_last_insert_rowid(database->db);
}

/* Remove the row of a free whose allocation has come. */
static void
definitions_revoke(struct tidei_database *database, uint32_t early)
{
    sqlite3_bind_int64(database->revoke, 1, database->pair->early.items[early].row);
    tidei_database_run(database, database->revoke, "unmatched_free");
}

/* A free that was refused, or that gave another size than its allocation's. */
static void
definitions_odd(struct tidei_database *database, uint64_t index)
{
    const struct tidei_record *record = definitions_record(database, index);
    bool refused = record->status != TIDE_OK;
    char text[128];

    if (refused)
        snprintf(text, sizeof(text), "layer %u: %s: free of %llu bytes", record->layer,
                 tide_status_name(record->status), (unsigned long long)record->size);
    else
        snprintf(text, sizeof(text), "layer %u: freed as %llu bytes", record->layer, (unsigned long long)record->size);
    tidei_database_insert(database, mark, TIDEI_NUMBER(tidei_timeline_ns(&database->timeline, record->ticks)),
                          TIDEI_NUMBER(record->thread), TIDEI_TEXT(refused ? "refused_free" : "size_mismatch"),
                          TIDEI_TEXT(text), TIDEI_NUMBER(record->address));
}

void
tidei_database_write_definitions(struct tidei_database *database)
{
    const struct tidei_pair *pair = database->pair;

    database->unreadable = 0;
    for (size_t i = 0; database->status == TIDE_OK && i < pair->other.count; i++)
        definitions_other(database, pair->other.items[i]);
    tidei_database_loss(database, 0, "unreadable record", database->unreadable);
    database->unreadable_all += database->unreadable;
    for (size_t i = 0; i < pair->revoked.count; i++)
        definitions_revoke(database, pair->revoked.items[i]);
    for (size_t i = 0; i < pair->unmatched.count; i++) {
        if (pair->unmatched.items[i] != TIDEI_NO_FREE)
            definitions_unmatched(database, pair->unmatched.items[i]);
    }
    for (size_t i = 0; i < pair->odd.count; i++)
        definitions_odd(database, pair->odd.items[i]);
}
