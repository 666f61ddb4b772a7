/* Replaces callbacks.c in a build without CUPTI's headers: attaching is unsupported. */
#include "config.h"

#ifndef HAVE_CUPTI_H

#include <string.h>

#include "src/resource/resource.h"
#include "src/trace/cupti/callbacks.h"

enum tide_status
tidei_calls_attach(struct tidei_cupti_queue *queue, const struct tidei_session *session, bool tsc, bool memory)
{
    memset(queue, 0, sizeof(*queue));
    pthread_mutex_init(&queue->lock, NULL);
    queue->session = session;
    queue->tsc = tsc;
    (void)memory;
    return tide_error_set(TIDE_EUNSUPPORTED, "cupti: this build has none (configure found no cupti.h)");
}

void
tidei_calls_detach(struct tidei_cupti_queue *queue)
{
    (void)queue;
}

void
tidei_calls_flush(void)
{
}

void
tidei_calls_forked(void)
{
}

uint64_t
tidei_calls_imported(void)
{
    return 0;
}

uint64_t
tidei_calls_exited(void)
{
    return 0;
}

uint64_t
tidei_calls_overflown(void)
{
    return 0;
}

#endif
