/* Lists of freed runs: which stream each byte of free memory was freed on, and when. */
#include "src/suballoc/freed-runs.h"

struct tidei_freed_run *
tidei_freed_run_new(struct tidei_freed_run_slab *slab, uint64_t bytes, uint32_t stream, uint64_t epoch)
{
    struct tidei_freed_run *freed_run = tidei_slab_take(&slab->items);

    *freed_run = (struct tidei_freed_run){ .bytes = bytes, .epoch = epoch, .stream = stream };
    tidei_streams_hold(slab->streams, stream);
    return freed_run;
}

void
tidei_freed_run_free(struct tidei_freed_run_slab *slab, struct tidei_freed_run *freed_run)
{
    tidei_streams_release(slab->streams, freed_run->stream);
    tidei_slab_give(&slab->items, freed_run);
}

void
tidei_freed_runs_free(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *list)
{
    while (list->first != NULL) {
        struct tidei_freed_run *next = list->first->next;

        tidei_freed_run_free(slab, list->first);
        list->first = next;
    }
    list->last = NULL;
}

void
tidei_freed_runs_join(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *list, struct tidei_freed_runs *more)
{
    struct tidei_freed_run *left = list->last, *right = more->first;

    if (left->stream == right->stream) {
        left->bytes += right->bytes;
        if (left->epoch < right->epoch)
            left->epoch = right->epoch;
        more->first = right->next;
        tidei_freed_run_free(slab, right);
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
tidei_freed_runs_move_last(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *from, uint64_t bytes,
                           struct tidei_freed_runs *to)
{
    while (bytes > 0) {
        struct tidei_freed_run *freed_run = from->last;

        if (freed_run->bytes > bytes) {
            freed_run->bytes -= bytes;
            freed_run = tidei_freed_run_new(slab, bytes, freed_run->stream, freed_run->epoch);
        } else {
            from->last = freed_run->before;
            if (from->last != NULL)
                from->last->next = NULL;
            else
                from->first = NULL;
        }
        bytes -= freed_run->bytes;
        freed_run->before = NULL;
        freed_run->next = to->first;
        if (to->first != NULL)
            to->first->before = freed_run;
        else
            to->last = freed_run;
        to->first = freed_run;
    }
}

void
tidei_freed_runs_settle(struct tidei_freed_run_slab *slab, struct tidei_freed_runs *list, uint64_t epoch,
                        uint32_t stream)
{
    struct tidei_freed_runs rest = *list, one;

    list->first = list->last = NULL;
    while (rest.first != NULL) {
        struct tidei_freed_run *freed_run = rest.first;

        rest.first = freed_run->next;
        freed_run->next = freed_run->before = NULL;
        if (freed_run->epoch <= epoch) {
            tidei_streams_hold(slab->streams, stream);
            tidei_streams_release(slab->streams, freed_run->stream);
            freed_run->stream = stream;
            freed_run->epoch = slab->streams->epoch;
        }
        one.first = one.last = freed_run;
        if (list->first == NULL)
            *list = one;
        else
            tidei_freed_runs_join(slab, list, &one);
    }
}
