/* What a calling thread records beside plain events: the driver's calls within them, and what pools hold. */
#include "config.h"

#include <string.h>

#include "src/trace/ring/capture.h"
#include "src/trace/ring/producer.h"

/* The calls, each in a record of its own behind the event's. */
static void
frontcalls_put(struct tidei_front *front, const struct tidei_call_part *calls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct tidei_text_record part = { .length = sizeof(calls[i]),
                                          .kind = TIDEI_RECORD_TEXT,
                                          .thread = front->thread_id };

        memcpy(part.text, &calls[i], sizeof(calls[i]));
        memcpy(&front->records[(front->head + 1 + i) & front->mask], &part, sizeof(part));
    }
}

void
tidei_front_event_calls_behind(struct tidei_front *front, uint64_t begin, uint64_t address, uint64_t size,
                               uint64_t stream, uint64_t word, uint32_t callstack, bool settled,
                               const struct tidei_call_slot *slot)
{
    struct tidei_call_part calls[TIDEI_CALLS_MOST];
    unsigned count = tidei_call_slot_take(slot, calls);
    struct tidei_record *record;
    uint64_t now;

    /* The first call may have opened it. Nothing is held up while this waits. Pairs with the acquire in the merge. */
    atomic_store_explicit(&front->ring->open, 0, memory_order_release);
    if (front->head + 1 + count - front->tail > front->mask + 1 && !tidei_front_room(front, 1 + count)) {
        tidei_front_dropped(front, address, word);
        return;
    }
    record = &front->records[front->head & front->mask];
    tidei_front_fill(front, record, address, size, stream, word, callstack);
    record->text_records = (uint16_t)count;
    frontcalls_put(front, calls, count);
    tidei_front_open(front, front->ring, begin, false);
    now = settled ? tidei_front_ticks_settled(front, false) : tidei_front_ticks(front, false);
    record->ticks = now;
    record->duration_ticks = now - begin;
    tidei_front_publish(front, front->ring, 1 + count);
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
