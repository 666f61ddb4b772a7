/* Finds the driver calls that were recorded with events. */
#include "config.h"

#include <string.h>

#include "src/trace/events/event-calls.h"
#include "src/trace/ring/function.h"

/* The event of a step: for each row its allocation, then its free; after all rows, the frees of earlier rows. */
static bool
eventcalls_event(const struct tidei_pair *pair, size_t step, uint32_t *index, struct tidei_event_call *out)
{
    if (step < pair->row_count * 2) {
        const struct tidei_row *row = &pair->rows[step / 2];

        out->allocation_id = pair->first_id + step / 2;
        out->is_free = step % 2 != 0;
        *index = out->is_free ? row->free : row->alloc;
        return *index != TIDEI_NO_FREE;
    }
    out->allocation_id = pair->closings[step - pair->row_count * 2].id;
    out->is_free = true;
    *index = pair->closings[step - pair->row_count * 2].free;
    return true;
}

/* The call in the event's own record. */
static void
eventcalls_own(const struct tidei_record *event, struct tidei_call_part *part)
{
    uint64_t start = event->ticks - event->duration_ticks + (event->call_span >> 16);

    *part = (struct tidei_call_part){ .start = start,
                                      .end = start + (event->call_span & UINT16_MAX),
                                      .function = event->call_function };
}

/* The call in a TEXT record after the event; false if that record is not a call. */
static bool
eventcalls_behind(const struct tidei_pair *pair, uint64_t index, struct tidei_call_part *part)
{
    const struct tidei_text_record *record;

    if (index >= pair->end)
        return false;
    record = (const struct tidei_text_record *)tidei_buffer_record(pair->file, pair->buffer, index);
    if (record->kind != TIDEI_RECORD_TEXT || record->length != sizeof(*part))
        return false;
    memcpy(part, record->text, sizeof(*part));
    return true;
}

/* Check a call: a ring file that was left behind may be damaged. */
static bool
eventcalls_is_good(const struct tidei_event_call *call)
{
    return tidei_function_name(call->part.function) != NULL &&
           call->part.start >= call->event->ticks - call->event->duration_ticks && call->part.end >= call->part.start &&
           call->part.end <= call->event->ticks;
}

bool
tidei_event_calls_next(struct tidei_event_calls *walk, const struct tidei_pair *pair, struct tidei_event_call *out)
{
    size_t steps = pair->row_count * 2 + pair->closing_count;
    uint32_t index;

    for (; walk->step < steps; walk->step++, walk->part = 0) {
        if (!eventcalls_event(pair, walk->step, &index, out))
            continue;
        out->event = tidei_buffer_record(pair->file, pair->buffer, index);
        if (walk->part == 0 && out->event->call_function != 0) {
            walk->part++;
            eventcalls_own(out->event, &out->part);
            if (eventcalls_is_good(out))
                return true;
        }
        while (out->event->call_function == 0 && walk->part < out->event->text_records) {
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
    size_t steps = pair->row_count * 2 + pair->closing_count;
    struct tidei_event_call unused;
    uint32_t index;

    for (size_t step = 0; step < steps; step++) {
        if (eventcalls_event(pair, step, &index, &unused) &&
            tidei_buffer_record(pair->file, pair->buffer, index)->ticks > ticks)
            return true;
    }
    return false;
}
