/* Refuses or puts off calls from signal handlers that have interrupted another call of the same thread. */
#include "src/resource/interrupted.h"

#include <errno.h>
#include <sys/mman.h>

#include "src/sync/testpoint.h"

#define DEFERRED_MOST 100 /* a page */

/* Frees that handlers have put off during one call. */
struct tidei_deferred {
    _Atomic uint32_t count;
    struct deferred_free {
        struct tide_resource *resource; /* holds a reference */
        struct tidei_place place;
    } frees[DEFERRED_MOST];
};

/* Figures of all threads since the start. Relaxed: numbers, no data behind them. Lock-free, so that a handler may. */
static struct {
    _Atomic uint64_t refused;
    _Atomic uint64_t deferred;
    _Atomic uint64_t failed;
} interrupted;

static void
interrupted_count(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

bool
tidei_interrupted_refuses(void)
{
    if (!tidei_interrupted_by(tidei_inside_call()))
        return false;
    interrupted_count(&interrupted.refused);
    return true;
}

/* The list of the thread, which gets one; NULL without memory. Two handlers may be in here, one within the other. */
static struct tidei_deferred *
deferred_list(void)
{
    struct tidei_deferred *list = __atomic_load_n(&tidei_inside.deferred, __ATOMIC_RELAXED), *none = NULL;

    if (list != NULL)
        return list;
    list = mmap(NULL, sizeof(*list), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED)
        return NULL;
    TIDEI_TEST_POINT("interrupted.list");
    if (__atomic_compare_exchange_n(&tidei_inside.deferred, &none, list, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return list;
    munmap(list, sizeof(*list));
    return none;
}

enum tide_status
tidei_interrupted_defer(struct tide_resource *resource, const struct tidei_place *place)
{
    int saved = errno;
    struct tidei_deferred *list = deferred_list();
    uint32_t at = list != NULL ? atomic_load_explicit(&list->count, memory_order_relaxed) : DEFERRED_MOST;

    errno = saved;
    while (at < DEFERRED_MOST && !atomic_compare_exchange_weak_explicit(&list->count, &at, at + 1, memory_order_relaxed,
                                                                        memory_order_relaxed))
        ;
    interrupted_count(at < DEFERRED_MOST ? &interrupted.deferred : &interrupted.refused);
    if (at >= DEFERRED_MOST)
        return TIDE_ESIGNAL;
    /* Filled when the interrupted call goes on, which alone reads the list. */
    list->frees[at] = (struct deferred_free){ .resource = tide_resource_retain(resource), .place = *place };
    atomic_store_explicit(&tidei_inside_ended, tidei_interrupted_free, memory_order_relaxed);
    return TIDE_OK;
}

/* Make one free. The thread is marked, but while the last reference may go: destroy may call as from outside. */
static void
deferred_make(const struct deferred_free *deferred, const void *before)
{
    const struct tidei_place *place = &deferred->place;
    enum tide_status status;

    tidei_inside_set(deferred->resource);
    status = tidei_deallocate(deferred->resource, place->pointer, place->bytes, place->alignment, place->stream);
    tidei_inside_set(&tidei_inside_library);
    if (status != TIDE_OK) {
        interrupted_count(&interrupted.failed);
        tidei_message(TIDE_WARNING, "%s: a free from a signal handler has failed: %s", deferred->resource->ops->name,
                      tide_error_text());
    }
    tidei_inside_set(before);
    tide_resource_release(deferred->resource);
    tidei_inside_set(&tidei_inside_library);
}

void
tidei_interrupted_free(void)
{
    const void *before = tidei_inside_call();
    struct tidei_deferred *list;
    struct tidei_error error;
    int saved = errno;

    if (tidei_inside_deferred() == NULL)
        return;
    tidei_error_save(&error);
    do {
        tidei_inside_set(&tidei_inside_library); /* handlers begin another list */
        while ((list = __atomic_exchange_n(&tidei_inside.deferred, NULL, __ATOMIC_RELAXED)) != NULL) {
            uint32_t count = atomic_load_explicit(&list->count, memory_order_relaxed);

            TIDEI_TEST_POINT("interrupted.free");
            for (uint32_t i = 0; i < count; i++)
                deferred_make(&list->frees[i], before);
            munmap(list, sizeof(*list));
        }
        tidei_inside_set(before);
    } while (tidei_inside_deferred() != NULL); /* of handlers that came since the exchange */
    tidei_error_restore(&error);
    errno = saved;
}

enum tide_status
tide_interrupted_read(struct tide_interrupted_figures *out)
{
    struct tide_interrupted_figures figures = { TIDE_FIGURES(figures) };
    enum tide_status status = tidei_figures_clear("interrupted", out);

    if (status != TIDE_OK)
        return status;
    figures.refused = tidei_figure_get(&interrupted.refused);
    figures.deferred = tidei_figure_get(&interrupted.deferred);
    figures.failed = tidei_figure_get(&interrupted.failed);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}
