/* Looks at a recording: its latest page, in an order that does not change, and the names for it. */
#include "config.h"

#include <stdlib.h>

#include "viewer/running/running.h"

bool
running_is_outermost(const struct running *running, size_t place)
{
    const struct running_layer *layer = running_layer(running, (uint32_t)running->page.layers[place].layer_id);

    return layer != NULL ? !layer->is_below : running->names.layer_count == 0 && place == 0;
}

static int
look_by_layer(const void *left, const void *right)
{
    const struct tidei_gauge_layer *a = left, *b = right;

    return (a->layer_id > b->layer_id) - (a->layer_id < b->layer_id);
}

static int
look_by_pool(const void *left, const void *right)
{
    const struct tidei_gauge_pool *a = left, *b = right;

    return (a->layer_id > b->layer_id) - (a->layer_id < b->layer_id);
}

/* Take the page over, in an order that does not change. */
static void
look_take_page(struct running *running)
{
    struct tidei_gauge *page = &running->page;

    *page = running->look.page;
    qsort(page->layers, page->layer_count, sizeof(*page->layers), look_by_layer);
    qsort(page->pools, page->pool_count, sizeof(*page->pools), look_by_pool);
}

bool
running_look(struct running *running)
{
    uint64_t trace_id = running->file.trace_id;

    gauge_look(&running->file, &running->look);
    /* Another recording has taken the name: nothing that is known is of it, also before it has a page. */
    if (running->was_seen && running->file.trace_id != trace_id) {
        running_names_free(&running->names);
        running->names = (struct running_names){ .limit_bytes = RUNNING_NO_LIMIT };
        running->was_seen = false;
    }
    if (!running->look.has_page)
        return false;
    if (running->look.is_new || !running->was_seen)
        look_take_page(running);
    running->was_seen = true;
    return true;
}
