/* Finds the driver calls that were recorded with events. */
#include "config.h"

#include <string.h>

#include "src/trace/events/event-calls.h"
#include "src/trace/ring/function.h"

static size_t
eventcalls_steps(const struct tidei_pair *pair)
{
    return pair->row_count * 2 + pair->closing_count + pair->more_count;
}

/* The record of a step: for each row its allocation, then its free; then the frees of earlier rows; then more calls. */
static bool
eventcalls_record(const struct tidei_pair *pair, size_t step, uint32_t *index, struct tidei_event_call *out)
{
    if (step < pair->row_count * 2) {
        const struct tidei_row *row = &pair->rows[step / 2];

        out->allocation_id = pair->first_id + step / 2;
        out->is_free = step % 2 != 0;
        *index = out->is_free ? row->free : row->alloc;
        return *index != TIDEI_NO_FREE;
    }
    step -= pair->row_count * 2;
    if (step < pair->closing_count) {
        out->allocation_id = pair->closings[step].id;
        out->is_free = true;
        *index = pair->closings[step].free;
        return *index != TIDEI_NO_FREE;
    }
    step -= pair->closing_count;
    out->allocation_id = pair->more_calls[step].id;
    out->is_free = pair->more_calls[step].is_free;
    *index = pair->more_calls[step].index;
    return true;
}

/* The times of the event: a CALLS record has them beside its own. */
static void
eventcalls_event(const struct tidei_record *record, struct tidei_event_call *out)
{
    bool more = record->kind == TIDEI_RECORD_CALLS;

    out->began = more ? record->address : record->ticks - tidei_record_duration(record);
    out->ended = more ? record->size : record->ticks;
    out->thread = record->thread;
}

/* The call in the event's own record. */
static void
eventcalls_own(const struct tidei_record *event, struct tidei_call_part *part)
{
    uint64_t start = event->ticks - tidei_record_duration(event) + (event->call_span >> 16);

    *part = (struct tidei_call_part){ .start = start,
                                      .end = start + (event->call_span & UINT16_MAX),
                                      .function = event->call_function };
}

/* The call in a TEXT record behind the event; false if that record is not a call. */
static bool
eventcalls_behind(const struct tidei_pair *pair, uint64_t index, struct tidei_call_part *part)
{
    const struct tidei_text_record *record;

    if (index >= pair->end)
        return false;
    record = (const struct tidei_text_record *)tidei_buffer_record(pair->file, pair->buffer, index);
    if (record->kind != TIDEI_RECORD_TEXT || record->part == TIDEI_PART_REFUSAL || record->length != sizeof(*part))
        return false;
    memcpy(part, record->text, sizeof(*part));
    return true;
}

/* Check a call: a ring file that was left behind may be damaged. */
static bool
eventcalls_is_good(const struct tidei_event_call *call)
{
    return tidei_function_name(call->part.function) != NULL && call->part.start >= call->began &&
           call->part.end >= call->part.start && call->part.end <= call->ended;
}

bool
tidei_event_calls_next(struct tidei_event_calls *walk, const struct tidei_pair *pair, struct tidei_event_call *out)
{
    size_t steps = eventcalls_steps(pair);
    const struct tidei_record *record;
    uint32_t index;

    for (; walk->step < steps; walk->step++, walk->part = 0) {
        if (!eventcalls_record(pair, walk->step, &index, out))
            continue;
        record = tidei_pair_event_record(pair, index);
        eventcalls_event(record, out);
        if (walk->part == 0 && record->call_function != 0) {
            walk->part++;
            eventcalls_own(record, &out->part);
            if (eventcalls_is_good(out))
                return true;
        }
        while (record->call_function == 0 && walk->part < record->text_records) {
            walk->part++;
            if (eventcalls_behind(pair, (uint64_t)index + walk->part, &out->part) && eventcalls_is_good(out))
                return true;
        }
    }
    return false;
}

bool
tidei_event_calls_any_after(const struct tidei_pair *pair, uint64_t ticks)
{
    size_t steps = eventcalls_steps(pair);
    struct tidei_event_call unused;
    uint32_t index;

    for (size_t step = 0; step < steps; step++) {
        if (eventcalls_record(pair, step, &index, &unused) && tidei_pair_event_record(pair, index)->ticks > ticks)
            return true;
    }
    return false;
}
