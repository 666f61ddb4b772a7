/* What a calling thread records beside plain events: the driver's calls within them, and what pools hold. */
#include "config.h"

#include <string.h>

#include "trace/callslot.h"
#include "trace/front.h"

/* Whether the one call of an event fits into its record: see tidei_record. */
static bool
frontcalls_fits(const struct tidei_call_slot *slot, uint64_t begin, uint64_t address)
{
    const struct tidei_call_part *call = &slot->calls[0];

    /* The writer needs the place for its own where there is no address. */
    return slot->count == 1 && call->result == 0 && call->correlation == 0 && address != 0 && call->start >= begin &&
           call->start - begin <= UINT16_MAX && call->end - call->start <= UINT16_MAX;
}

/* The calls, each in a record of its own behind the event's. */
static void
frontcalls_put(struct tidei_front *front, const struct tidei_call_slot *slot)
{
    for (unsigned i = 0; i < slot->count; i++) {
        struct tidei_text_record part = { .length = sizeof(slot->calls[i]),
                                          .kind = TIDEI_RECORD_TEXT,
                                          .thread = front->thread_id };

        memcpy(part.text, &slot->calls[i], sizeof(slot->calls[i]));
        memcpy(&front->records[(front->head + 1 + i) & front->mask], &part, sizeof(part));
    }
}

void
tidei_front_event_calls(struct tidei_front *front, uint64_t begin, uint64_t address, uint64_t size, uint64_t stream,
                        uint64_t word, bool settled, const struct tidei_call_slot *slot)
{
    bool fits = frontcalls_fits(slot, begin, address);
    uint64_t records = fits ? 1 : 1 + slot->count;
    struct tidei_record *record;
    uint64_t now;

    if (front->head + records - front->tail > front->mask + 1 && !tidei_front_room(front, records)) {
        tidei_front_dropped(front, address, word);
        return;
    }
    record = &front->records[front->head & front->mask];
    record->address = address;
    record->size = size;
    record->stream = stream;
    record->tag = tidei_tag_current;
    record->callstack = 0;
    memcpy(&record->layer, &word, sizeof(word));
    record->thread = front->thread_id;
    if (fits) {
        record->call_function = slot->calls[0].function;
        record->call_span =
            (uint32_t)((slot->calls[0].start - begin) << 16 | (slot->calls[0].end - slot->calls[0].start));
    } else {
        record->text_records = (uint16_t)slot->count;
        frontcalls_put(front, slot);
    }
    tidei_front_open(front, front->ring, begin, false);
    now = settled ? tidei_front_ticks_settled(front, false) : tidei_front_ticks(front, false);
    record->ticks = now;
    record->duration_ticks = now - begin;
    tidei_front_publish(front, front->ring, records);
}

void
tidei_front_sample(struct tidei_front *front, uint32_t layer_id, uint64_t used_bytes, uint64_t reserved_bytes)
{
    struct tidei_record *record;

    /* A sample is no event: where there is no room and nobody waits, the next one says what this one would have. */
    if (front->head - front->tail > front->mask && !tidei_front_room(front, 1))
        return;
    record = &front->records[front->head & front->mask];
    *record = (struct tidei_record){ .address = used_bytes,
                                     .size = reserved_bytes,
                                     .tag = layer_id,
                                     .kind = TIDEI_RECORD_SAMPLE,
                                     .thread = front->thread_id };
    tidei_front_open(front, front->ring, tidei_front_ticks(front, false), false);
    record->ticks = tidei_front_ticks(front, false);
    tidei_front_publish(front, front->ring, 1);
}
