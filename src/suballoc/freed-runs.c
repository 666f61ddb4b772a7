/* Lists of stretches: which stream each byte of free memory was freed on, and when. */
#include "src/suballoc/freed-runs.h"

struct tidei_stretch *
tidei_stretch_new(struct tidei_stretch_store *store, uint64_t bytes, uint32_t stream, uint64_t epoch)
{
    struct tidei_stretch *stretch = tidei_store_take(&store->items);

    *stretch = (struct tidei_stretch){ .bytes = bytes, .epoch = epoch, .stream = stream };
    tidei_streams_hold(store->streams, stream);
    return stretch;
}

void
tidei_stretch_free(struct tidei_stretch_store *store, struct tidei_stretch *stretch)
{
    tidei_streams_release(store->streams, stretch->stream);
    tidei_store_give(&store->items, stretch);
}

void
tidei_stretches_free(struct tidei_stretch_store *store, struct tidei_stretches *list)
{
    while (list->first != NULL) {
        struct tidei_stretch *next = list->first->next;

        tidei_stretch_free(store, list->first);
        list->first = next;
    }
    list->last = NULL;
}

/* Put `more` behind `list`; where both meet on one stream they are one stretch, as late as the later one. */
void
tidei_stretches_join(struct tidei_stretch_store *store, struct tidei_stretches *list, struct tidei_stretches *more)
{
    struct tidei_stretch *left = list->last, *right = more->first;

    if (left->stream == right->stream) {
        left->bytes += right->bytes;
        if (left->epoch < right->epoch)
            left->epoch = right->epoch;
        more->first = right->next;
        tidei_stretch_free(store, right);
        if (more->first == NULL) {
            more->last = NULL;
            return;
        }
        right = more->first;
    }
    left->next = right;
    right->before = left;
    list->last = more->last;
    more->first = more->last = NULL;
}

void
tidei_stretches_move_last(struct tidei_stretch_store *store, struct tidei_stretches *from, uint64_t bytes,
                          struct tidei_stretches *to)
{
    while (bytes > 0) {
        struct tidei_stretch *stretch = from->last;

        if (stretch->bytes > bytes) {
            stretch->bytes -= bytes;
            stretch = tidei_stretch_new(store, bytes, stretch->stream, stretch->epoch);
        } else {
            from->last = stretch->before;
            if (from->last != NULL)
                from->last->next = NULL;
            else
                from->first = NULL;
        }
        bytes -= stretch->bytes;
        stretch->before = NULL;
        stretch->next = to->first;
        if (to->first != NULL)
            to->first->before = stretch;
        else
            to->last = stretch;
        to->first = stretch;
    }
}

void
tidei_stretches_settle(struct tidei_stretch_store *store, struct tidei_stretches *list, uint64_t epoch, uint32_t stream)
{
    struct tidei_stretches rest = *list, one;

    list->first = list->last = NULL;
    while (rest.first != NULL) {
        struct tidei_stretch *stretch = rest.first;

        rest.first = stretch->next;
        stretch->next = stretch->before = NULL;
        if (stretch->epoch <= epoch) {
            tidei_streams_hold(store->streams, stream);
            tidei_streams_release(store->streams, stretch->stream);
            stretch->stream = stream;
            stretch->epoch = store->streams->epoch;
        }
        one.first = one.last = stretch;
        if (list->first == NULL)
            *list = one;
        else
            tidei_stretches_join(store, list, &one);
    }
}
