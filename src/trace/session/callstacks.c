/* Tells traces of call stacks. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/trace/session/callstacks.h"
#include "src/trace/ring/producer.h"

/* A record with its text for one trace, or for all. */
struct tell {
    struct tidei_record record;
    const void *text;
    size_t length;
};

static void
tell_one(struct tidei_recorder *recorder, void *context)
{
    const struct tell *tell = context;
    struct tidei_producer *producer = tidei_producer_get_recording(recorder);
    struct tidei_record record = tell->record;

    if (producer != NULL)
        tidei_producer_text(producer, &record, tell->text, tell->length);
}

/* Tell `recorder`, or all where it is NULL. */
static void
tell(struct tidei_recorder *recorder, const struct tidei_record *record, const void *text, size_t length)
{
    struct tell what = { .record = *record, .text = text, .length = length };

    if (recorder != NULL)
        tell_one(recorder, &what);
    else
        tidei_recorder_each(tell_one, &what);
}

static void
tell_module(const struct tidei_module *module, void *recorder)
{
    struct tidei_record record = {
        .kind = TIDEI_RECORD_MODULE, .address = module->id, .size = module->size, .stream = module->base
    };
    size_t path_bytes = strlen(module->path) + 1;
    size_t length = path_bytes + strlen(module->build_id);
    char *text = malloc(length + 1);

    if (text == NULL)
        return;
    memcpy(text, module->path, path_bytes);
    memcpy(text + path_bytes, module->build_id, length - path_bytes);
    tell(recorder, &record, text, length);
    free(text);
}

static void
tell_callstack(const struct tidei_callstack *callstack, void *recorder)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_CALLSTACK, .address = callstack->id };

    tell(recorder, &record, callstack->frames, callstack->count * sizeof(callstack->frames[0]));
}

void
tidei_trace_module(const struct tidei_module *module)
{
    tell_module(module, NULL);
}

void
tidei_trace_callstack(const struct tidei_callstack *callstack)
{
    tell_callstack(callstack, NULL);
}

void
tidei_callstacks_define_locked(struct tidei_recorder *recorder)
{
    tidei_callstack_each_locked(tell_module, tell_callstack, recorder);
}

void
tidei_callstacks_define(struct tidei_recorder *recorder)
{
    tidei_callstack_lock();
    tidei_callstacks_define_locked(recorder);
    tidei_callstack_unlock();
}

void
tidei_trace_misuse(const struct tidei_record *call, const struct tidei_misuse *misuse)
{
    struct tidei_record record = *call;

    record.kind = TIDEI_RECORD_MISUSE;
    tidei_recorder_revive_all();
    tell(NULL, &record, misuse, sizeof(*misuse));
}
