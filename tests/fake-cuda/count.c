/* Counts the fake driver's objects that a program holds and has not released. */
#include "tests/fake-cuda/fake.h"

#include <string.h>

#include "tests/fake-cuda/memory.h"

FAKE_EXPORT void
fake_cuda_count(struct fake_count *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&fake_lock);
    for (CUmemoryPool pool = fake_pools(); pool != NULL; pool = pool->next) {
        out->pools += pool->alive && !pool->is_default;
        out->pool_blocks += (unsigned)pool->live_count;
    }
    for (CUcontext context = fake.contexts; context != NULL; context = context->next)
        out->references += context->references;
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next)
        out->streams += stream->alive && !stream->legacy;
    for (CUevent event = fake_events(); event != NULL; event = event->next)
        out->events += event->alive;
    out->blocks = fake_memory_count();
    fake_virtual_count(out);
    out->depth = fake_context_depth();
    pthread_mutex_unlock(&fake_lock);
}

FAKE_EXPORT const char *
fake_cuda_function(unsigned place, int *calls)
{
    const struct fake_function *function = fake_functions();

    pthread_mutex_lock(&fake_lock);
    while (place > 0 && function != NULL) {
        function = function->next;
        place--;
    }
    *calls = function != NULL ? function->calls : 0;
    pthread_mutex_unlock(&fake_lock);
    return function != NULL ? function->name : NULL;
}
