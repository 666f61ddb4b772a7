/* Looks at recordings: sums of their outermost layers, rates, and samples for the picture. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/watch/watch.h"

/* Two samples are so far apart at least. */
#define PROCESS_STEP_NS (WATCH_SPAN_NS / (WATCH_SAMPLES - 24))

const struct watch_sample *
watch_sample_at(const struct watch_process *process, size_t back)
{
    return &process->samples[(process->first + process->count - 1 - back) % WATCH_SAMPLES];
}

uint32_t
watch_main_layer(const struct watch_process *process)
{
    uint64_t most = 0;
    uint32_t id = 0;

    for (size_t i = 0; i < process->base.page.layer_count; i++) {
        if (!running_is_outermost(&process->base, i) || (id != 0 && process->base.page.layers[i].live_bytes <= most))
            continue;
        most = process->base.page.layers[i].live_bytes;
        id = (uint32_t)process->base.page.layers[i].layer_id;
    }
    return id;
}

static void
process_sum(struct watch_process *process)
{
    struct watch_sample *now = &process->now;
    const struct tidei_gauge *page = &process->base.page;

    *now = (struct watch_sample){ .ns = process->base.look.now_ns };
    process->outermost = process->peak_bytes = process->peak_ns = 0;
    for (size_t i = 0; i < page->layer_count; i++) {
        const struct tidei_gauge_layer *layer = &page->layers[i];

        if (!running_is_outermost(&process->base, i))
            continue;
        now->live_bytes += layer->live_bytes;
        now->live_count += layer->live_count;
        now->total_bytes += layer->total_bytes;
        now->allocations += layer->allocations;
        now->frees += layer->frees;
        now->failures += layer->failures;
        process->peak_bytes += layer->peak_bytes;
        process->peak_ns = process->outermost++ == 0 ? layer->peak_ns : 0;
    }
    for (size_t i = 0; i < page->pool_count; i++) {
        const struct running_layer *layer = running_layer(&process->base, (uint32_t)page->pools[i].layer_id);

        if (layer == NULL || !layer->is_base)
            continue;
        now->used_bytes += page->pools[i].used_bytes;
        now->reserved_bytes += page->pools[i].reserved_bytes;
    }
}

static void
process_keep(struct watch_process *process)
{
    if (process->samples == NULL)
        process->samples = calloc(WATCH_SAMPLES, sizeof(*process->samples));
    if (process->samples == NULL)
        return;
    if (process->count != 0 && process->now.ns - watch_sample_at(process, 0)->ns < PROCESS_STEP_NS)
        return;
    if (process->count == WATCH_SAMPLES) {
        process->first = (process->first + 1) % WATCH_SAMPLES;
        process->count--;
    }
    process->samples[(process->first + process->count++) % WATCH_SAMPLES] = process->now;
}

/* A rate by two counters; one that was set back, by a new recording, has none. */
static double
process_rate(uint64_t before, uint64_t now, uint64_t ns)
{
    return ns != 0 && now > before ? (double)(now - before) * 1e9 / (double)ns : 0;
}

/* One that is over keeps its figures; nothing happens there any more. */
static void
process_clear_rates(struct watch_process *process)
{
    process->allocation_rate = process->free_rate = process->byte_rate = 0;
}

/* Rates since the sample that is about a second old, or the latest that is older. */
static void
process_set_rates(struct watch_process *process)
{
    const struct watch_sample *now = &process->now, *then = NULL;
    uint64_t ns;

    process_clear_rates(process);
    for (size_t back = 0; back < process->count; back++) {
        then = watch_sample_at(process, back);
        if (now->ns - then->ns >= WATCH_RATE_NS * 9 / 10)
            break;
    }
    if (then == NULL || then->ns >= now->ns)
        return;
    ns = now->ns - then->ns;
    process->allocation_rate = process_rate(then->allocations, now->allocations, ns);
    process->free_rate = process_rate(then->frees, now->frees, ns);
    process->byte_rate = process_rate(then->total_bytes, now->total_bytes, ns);
}

/* The duration that a share of the calls since the last time does not exceed: the end of its bucket. */
static uint64_t
process_quantile(const struct watch_process *process, double share, uint64_t calls)
{
    uint64_t seen = 0;

    for (unsigned i = 0; i < TIDEI_GAUGE_DURATIONS; i++) {
        seen += process->base.page.alloc_durations[i] - process->durations[i];
        if ((double)seen >= share * (double)calls)
            return tidei_gauge_bucket_ns(i + 1 < TIDEI_GAUGE_DURATIONS ? i + 1 : i);
    }
    return 0;
}

static void
process_set_durations(struct watch_process *process)
{
    uint64_t calls = 0;

    if (process->durations_ns != 0 && process->now.ns - process->durations_ns < WATCH_RATE_NS)
        return;
    for (unsigned i = 0; i < TIDEI_GAUGE_DURATIONS; i++) {
        if (process->base.page.alloc_durations[i] < process->durations[i])
            memset(process->durations, 0, sizeof(process->durations));
        calls += process->base.page.alloc_durations[i] - process->durations[i];
    }
    process->median_ns = calls != 0 ? process_quantile(process, 0.5, calls) : 0;
    process->most_ns = calls != 0 ? process_quantile(process, 0.99, calls) : 0;
    memcpy(process->durations, process->base.page.alloc_durations, sizeof(process->durations));
    process->durations_ns = process->now.ns;
}

/* What follows from the page of the look. */
static void
process_take_page(struct watch_process *process)
{
    running_read_names(&process->base);
    process_sum(process);
    process_set_rates(process);
    process_set_durations(process);
    process_keep(process);
}

static void
process_look(struct watch_process *process)
{
    bool has_page;

    if (process->base.is_over)
        return;
    has_page = running_look(&process->base);
    /* A folder may have another recording of this name later: see find_again. */
    process->base.is_over = process->base.look.state == GAUGE_ENDED || process->base.look.state == GAUGE_KILLED ||
                            process->base.look.state == GAUGE_OLD || process->base.look.state == GAUGE_NEWER ||
                            process->base.look.state == GAUGE_UNKNOWN || process->base.look.state == GAUGE_REFUSED;
    if (has_page)
        process_take_page(process);
    if (process->base.is_over)
        process_clear_rates(process);
}

int
watch_find(struct watch *watch, bool first)
{
    return running_find(&watch->found, first);
}

static void
process_empty(struct running *running)
{
    free(((struct watch_process *)running)->samples);
}

void
watch_init(struct watch *watch, char **arguments, int count)
{
    watch->found = (struct running_list){ .what = "tidemark watch",
                                          .arguments = arguments,
                                          .count = count,
                                          .most = WATCH_PROCESSES,
                                          .item_bytes = sizeof(struct watch_process),
                                          .empty = process_empty };
}

void
watch_look(struct watch *watch)
{
    for (size_t i = 0; i < watch->found.list_count; i++)
        process_look(watch_at(watch, i));
}

bool
watch_is_over(const struct watch *watch)
{
    for (size_t i = 0; i < watch->found.list_count; i++) {
        if (!watch_at(watch, i)->base.is_over)
            return false;
    }
    return true;
}
