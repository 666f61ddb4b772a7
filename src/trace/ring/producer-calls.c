/* Records events with several driver calls, and samples of pools. */
#include "config.h"

#include <string.h>

#include "src/trace/ring/capture.h"
#include "src/trace/ring/producer.h"

/* Write the calls, each into its own record after the event's. */
static void
frontcalls_put(struct tidei_producer *producer, const struct tidei_call_part *calls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct tidei_text_record part = { .length = sizeof(calls[i]),
                                          .kind = TIDEI_RECORD_TEXT,
                                          .thread = producer->thread_id };

        memcpy(part.text, &calls[i], sizeof(calls[i]));
        memcpy(&producer->records[(producer->head + 1 + i) & producer->mask], &part, sizeof(part));
    }
}

void
tidei_producer_event_calls_behind(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size,
                                  uint64_t stream, uint64_t word, uint32_t callstack, bool settled,
                                  const struct tidei_call_capture *slot)
{
    struct tidei_call_part calls[TIDEI_CALLS_MOST];
    unsigned count = tidei_call_capture_take(slot, calls);
    struct tidei_record *record;
    uint64_t now;

    /* The first call may have opened the ring; close it, so that a wait holds up no merge. Pairs with its acquire. */
    atomic_store_explicit(&producer->ring->open, 0, memory_order_release);
    if (producer->head + 1 + count - producer->tail > producer->mask + 1 && !tidei_producer_room(producer, 1 + count)) {
        tidei_producer_dropped(producer, address, word);
        return;
    }
    record = &producer->records[producer->head & producer->mask];
    tidei_producer_fill(producer, record, address, size, stream, word, callstack);
    record->text_records = (uint16_t)count;
    frontcalls_put(producer, calls, count);
    tidei_producer_open(producer, producer->ring, begin, false);
    now = settled ? tidei_producer_ticks_settled(producer, false) : tidei_producer_ticks(producer, false);
    record->ticks = now;
    record->duration_ticks = now - begin;
    tidei_producer_publish(producer, producer->ring, 1 + count);
}

void
tidei_producer_sample(struct tidei_producer *producer, uint32_t layer_id, uint64_t used_bytes, uint64_t reserved_bytes)
{
    struct tidei_record *record;

    /* A sample may be left out without counting as lost: the next one has the newer figures. */
    if (producer->head - producer->tail > producer->mask && !tidei_producer_room(producer, 1))
        return;
    record = &producer->records[producer->head & producer->mask];
    *record = (struct tidei_record){ .address = used_bytes,
                                     .size = reserved_bytes,
                                     .tag = layer_id,
                                     .kind = TIDEI_RECORD_SAMPLE,
                                     .thread = producer->thread_id };
    tidei_producer_open(producer, producer->ring, tidei_producer_ticks(producer, false), false);
    record->ticks = tidei_producer_ticks(producer, false);
    tidei_producer_publish(producer, producer->ring, 1);
}
