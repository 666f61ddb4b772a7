/* The rows of refusal, for the statement that writes them in bulk: why the failed allocations of this slice failed. */
#include "config.h"

#include <string.h>

#include "src/trace/database/bulk.h"

/* Put the text together that follows a failed allocation, into the cursor. Returns the layer that refused, or 0. */
static uint16_t
refusals_text(struct tidei_bulk_cursor *cursor, uint32_t index)
{
    const struct tidei_pair *pair = cursor->database->pair;
    unsigned records = tidei_buffer_record(pair->file, pair->buffer, index)->text_records;
    uint16_t layer = 0;
    size_t length = 0;

    for (unsigned i = 1; i <= records && (uint64_t)index + i < pair->end; i++) {
        const struct tidei_text_record *part =
            (const struct tidei_text_record *)tidei_buffer_record(pair->file, pair->buffer, index + i);

        /* The text comes first; a ring file that was left behind may be damaged. */
        if (part->kind != TIDEI_RECORD_TEXT || part->part != TIDEI_PART_REFUSAL || part->length > TIDEI_TEXT_BYTES ||
            length + part->length > TIDEI_REFUSAL_BYTES)
            break;
        memcpy(cursor->text + length, part->text, part->length);
        length += part->length;
        layer = part->layer;
    }
    cursor->text[length] = '\0';
    return layer;
}

static bool
refusals_load(struct tidei_bulk_cursor *cursor)
{
    const struct tidei_pair *pair = cursor->database->pair;

    for (; cursor->next < pair->failed.count; cursor->next++) {
        uint32_t row = pair->failed.items[cursor->next];
        uint16_t layer = refusals_text(cursor, pair->rows[row].alloc);

        if (layer == 0 && cursor->text[0] == '\0')
            continue;
        TIDEI_SET(cursor, refusal, allocation_id, TIDEI_NUMBER(pair->first_id + row));
        TIDEI_SET(cursor, refusal, layer_id, TIDEI_ID(layer));
        TIDEI_SET(cursor, refusal, text, TIDEI_TEXT(cursor->text[0] != '\0' ? cursor->text : NULL));
        cursor->next++;
        return true;
    }
    return false;
}

const struct tidei_bulk_table tidei_bulk_refusals = {
    .name = "tidei_refusals",
    .verb = "INSERT",
    .into = TIDEI_TABLE_refusal,
    .load = refusals_load,
};
