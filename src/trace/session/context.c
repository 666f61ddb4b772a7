/* Records tags, modules and call stacks into traces. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/context/callstack.h"
#include "src/context/tag.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"

static void
context_tag(uint32_t id, uint32_t parent, const char *name, void *session)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_TAG, .address = id, .size = parent };

    tidei_producer_tell(session, &record, name, strlen(name));
}

static void
context_module(const struct tidei_module *module, void *session)
{
    struct tidei_record record = {
        .kind = TIDEI_RECORD_MODULE, .address = module->id, .size = module->size, .stream = module->base
    };
    char *text;
    int length = asprintf(&text, "%s%c%s", module->path, '\0', module->build_id);

    if (length < 0)
        return;
    tidei_producer_tell(session, &record, text, (size_t)length);
    free(text);
}

static void
context_callstack(const struct tidei_callstack *callstack, void *session)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_CALLSTACK, .address = callstack->id };

    tidei_producer_tell(session, &record, callstack->frames, callstack->count * sizeof(callstack->frames[0]));
}

static void
context_ambient(void)
{
    pthread_mutex_lock(&tidei_sessions.lock);
    tidei_session_touch_all_locked();
    pthread_mutex_unlock(&tidei_sessions.lock);
}

static const struct tidei_context_listener context_listener = { context_tag, context_module, context_callstack,
                                                                context_ambient };

void
tidei_context_follow(void)
{
    tidei_context_listen(&context_listener);
}

void
tidei_context_define_locked(struct tidei_session *session)
{
    tidei_tags_notify_locked(&context_listener, session);
    tidei_callstacks_notify_locked(&context_listener, session);
}

void
tidei_context_define(struct tidei_session *session)
{
    tidei_tags_lock();
    tidei_callstack_lock();
    tidei_context_define_locked(session);
    tidei_callstack_unlock();
    tidei_tags_unlock();
}
