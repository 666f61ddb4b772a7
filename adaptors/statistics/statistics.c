/*
 * statistics: count the bytes and allocations outstanding, their peaks and their totals.
 *
 * Usage: statistics [(tags)]
 *     tags  also count for each tag: how much did each part of the program allocate
 *
 * Example: the memory that one phase of a program needs beyond what is already allocated:
 *     tide_statistics_push(statistics, NULL);
 *     phase();
 *     tide_statistics_pop(statistics, &phase_statistics);
 *
 * An allocation is added after upstream has succeeded, and subtracted before upstream takes it back. So a failed
 * attempt never shows, and `current` never exceeds what upstream has outstanding: the peak over a limit never passes
 * that limit.
 *
 * Every call takes effect at one moment between its begin and its end, in bytes and number at once. The figures follow
 * the order of these moments. src/account/ledger.h lets threads count apart from each other and keeps the peak exact.
 *
 * LIMITATIONS
 *  - Push and pop nest for the whole resource, not for each thread.
 *  - Bytes are as requested. A second `statistics` further down counts what alignment, bins and pools add.
 *  - It knows no pointers: it does not detect a deallocation with a wrong size.
 *  - Reading, push and pop stop all threads for some microseconds.
 *  - Counters by tag are for hundreds of tags: a thread that uses thousands has to search for its part of each.
 */
#include <stdlib.h>

#include <tidemark/statistics.h>

#include "src/resource/kind.h"
#include "src/account/ledger.h"
#include "src/resource/resource.h"
#include "adaptors/statistics/tag-counters.h"

/* The outer counters, as they stood at the push. */
struct level {
    struct tide_statistics_figures figures;
    uint64_t serial;
    struct level *outer; /* owned */
};

/* The ledger keeps the innermost counters. The fields behind it change only between the ledger's begin and end. */
struct statistics {
    struct tide_resource base;
    struct tidei_ledger ledger; /* its serial: 0 for the outermost counters, then one more for each push ever */
    struct level *outer;        /* owned */
    uint64_t pushes;
    struct tidei_tag_counters *by_tag; /* owned; NULL without `tags` */
    struct tide_statistics_options options;
};

/* Computed as unsigned: a sum past INT64_MAX, which only addresses without memory reach, wraps and is defined. */
static int64_t
counter_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Bytes are outstanding that were not counted, and have been all along. */
static void
counter_raise(struct tide_counter *counter, int64_t value)
{
    counter->current = counter_sum(counter->current, value);
    if (counter->current > counter->peak)
        counter->peak = counter->current;
}

/* Add the counts of a push to the counters around it. */
static void
counter_fold(struct tide_counter *counter, const struct tide_counter *inner)
{
    int64_t reached = counter_sum(counter->current, inner->peak);

    if (reached > counter->peak)
        counter->peak = reached;
    counter->current = counter_sum(counter->current, inner->current);
    counter->total = counter_sum(counter->total, inner->total);
}

static void
statistics_from_ledger(const struct tidei_ledger_figures *figures, struct tide_statistics_figures *out)
{
    out->struct_size = sizeof(*out);
    out->bytes = (struct tide_counter){ (int64_t)figures->current.bytes, (int64_t)figures->mark.bytes,
                                        (int64_t)figures->total.bytes };
    out->count = (struct tide_counter){ (int64_t)figures->current.count, (int64_t)figures->mark.count,
                                        (int64_t)figures->total.count };
}

static struct tidei_ledger_figures
statistics_to_ledger(const struct tide_statistics_figures *figures)
{
    return (struct tidei_ledger_figures){
        .current = { (uint64_t)figures->bytes.current, (uint64_t)figures->count.current },
        .mark = { (uint64_t)figures->bytes.peak, (uint64_t)figures->count.peak },
        .total = { (uint64_t)figures->bytes.total, (uint64_t)figures->count.total },
    };
}

/* Stop all other threads until statistics_end, and read the innermost counters. */
static void
statistics_begin(struct statistics *statistics, struct tide_statistics_figures *out)
{
    struct tidei_ledger_figures figures;

    tidei_ledger_begin(&statistics->ledger, &figures);
    statistics_from_ledger(&figures, out);
}

static void
statistics_end(struct statistics *statistics, const struct tide_statistics_figures *set)
{
    struct tidei_ledger_figures figures = statistics_to_ledger(set);

    tidei_ledger_end(&statistics->ledger, &figures);
}

static enum tide_status
statistics_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct statistics *statistics = (struct statistics *)self;
    enum tide_status status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    struct tidei_ledger_answer answer;

    if (status != TIDE_OK)
        return status;
    if (__builtin_expect(statistics->by_tag != NULL, 0)) {
        status = tidei_tag_counters_add(statistics->by_tag, *out, bytes);
        if (status != TIDE_OK) {
            tidei_deallocate(self->upstream, *out, bytes, alignment, stream);
            *out = NULL;
            return status;
        }
    }
    tidei_ledger_add(&statistics->ledger, bytes, &answer);
    return TIDE_OK;
}

/*
 * Add a block again that upstream refused to take back: to the counters of serial `serial` from which it was
 * subtracted, or, where these were popped since, to those that include them. The memory was outstanding all along, so
 * the sum with later allocations is a height that was reached, and may raise the peak. It is no new allocation, so the
 * total stays.
 */
static void
statistics_put_back(struct statistics *statistics, size_t bytes, uint64_t serial)
{
    struct tide_statistics_figures innermost, *figures = &innermost;

    statistics_begin(statistics, &innermost);
    if (statistics->ledger.serial > serial) {
        struct level *level = statistics->outer;

        while (level->serial > serial)
            level = level->outer;
        figures = &level->figures;
    }
    counter_raise(&figures->bytes, (int64_t)bytes);
    counter_raise(&figures->count, 1);
    statistics_end(statistics, &innermost);
}

static enum tide_status
statistics_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct statistics *statistics = (struct statistics *)self;
    uint64_t serial = tidei_ledger_take_off(&statistics->ledger, bytes);
    enum tide_status status;
    uint32_t place = 0;

    if (__builtin_expect(statistics->by_tag != NULL, 0))
        place = tidei_tag_counters_take_off(statistics->by_tag, pointer, bytes);
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (status == TIDE_OK)
        return TIDE_OK;
    statistics_put_back(statistics, bytes, serial);
    if (statistics->by_tag != NULL)
        tidei_tag_counters_put_back(statistics->by_tag, pointer, bytes, place);
    return status;
}

static void
statistics_fini(struct tide_resource *self)
{
    struct statistics *statistics = (struct statistics *)self;
    struct level *level = statistics->outer;

    while (level != NULL) {
        struct level *outer = level->outer;

        free(level);
        level = outer;
    }
    tidei_tag_counters_destroy(statistics->by_tag);
    tidei_ledger_fini(&statistics->ledger);
}

static enum tide_status
statistics_init(struct tide_resource *self, size_t *fault)
{
    struct statistics *statistics = (struct statistics *)self;
    enum tide_status status = TIDE_OK;

    (void)fault;
    tidei_ledger_init(&statistics->ledger, true, (struct tidei_amount){ 0, 0 }, UINT64_MAX);
    if (statistics->options.by_tag)
        status = tidei_tag_counters_create(&statistics->by_tag);
    if (status != TIDE_OK)
        tidei_ledger_fini(&statistics->ledger);
    tidei_resource_set_quick(self);
    return status;
}

static const struct tidei_argument statistics_arguments[] = {
    TIDEI_FLAG("tags", struct tide_statistics_options, by_tag),
};

const struct tidei_kind tidei_statistics_kind = {
    .ops = {
        TIDEI_KIND_OPS("statistics"),
        .allocate = statistics_allocate,
        .deallocate = statistics_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(statistics_arguments),
    .options_size = offsetof(struct tide_statistics_options, reserved),
    TIDEI_KIND_STRUCT(struct statistics),
    .init = statistics_init,
    .fini = statistics_fini,
};

enum tide_status
tide_statistics_create(struct tide_resource *upstream, const struct tide_statistics_options *options,
                       struct tide_resource **out)
{
    return tidei_kind_create(&tidei_statistics_kind, upstream, options, out);
}

enum tide_status
tide_statistics_read(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    enum tide_status status = tidei_kind_check_figures(&tidei_statistics_kind, resource, out);
    struct tide_statistics_figures figures;
    struct tidei_ledger_figures counted;

    if (status != TIDE_OK)
        return status;
    tidei_ledger_read(&((struct statistics *)resource)->ledger, &counted);
    statistics_from_ledger(&counted, &figures);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

/* `out` may be NULL. */
static enum tide_status
statistics_check(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    return out != NULL ? tidei_kind_check_figures(&tidei_statistics_kind, resource, out)
                       : tidei_kind_check(&tidei_statistics_kind, resource);
}

enum tide_status
tide_statistics_push(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    static const struct tide_statistics_figures zeros = { TIDE_FIGURES(zeros) };
    enum tide_status status = statistics_check(resource, out);
    struct statistics *statistics = (struct statistics *)resource;
    struct tide_statistics_figures figures;
    struct level *level;

    if (status != TIDE_OK)
        return status;
    level = malloc(sizeof(*level));
    if (level == NULL)
        return tide_error_set(TIDE_ENOMEM, "statistics: no host memory for %zu B", sizeof(*level));
    statistics_begin(statistics, &figures);
    level->figures = figures;
    level->serial = statistics->ledger.serial;
    level->outer = statistics->outer;
    statistics->outer = level;
    statistics->ledger.serial = ++statistics->pushes;
    statistics_end(statistics, &zeros);
    if (out != NULL)
        tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

enum tide_status
tide_statistics_pop(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    enum tide_status status = statistics_check(resource, out);
    struct statistics *statistics = (struct statistics *)resource;
    struct tide_statistics_figures inner, figures;
    struct level *level;

    if (status != TIDE_OK)
        return status;
    statistics_begin(statistics, &inner);
    figures = inner;
    level = statistics->outer;
    if (level != NULL) {
        figures = level->figures;
        statistics->ledger.serial = level->serial;
        statistics->outer = level->outer;
        counter_fold(&figures.bytes, &inner.bytes);
        counter_fold(&figures.count, &inner.count);
    }
    statistics_end(statistics, &figures);
    if (level == NULL)
        return tide_error_set(TIDE_EINVAL, "statistics: pop with nothing pushed");
    free(level);
    if (out != NULL)
        tidei_figures_copy(out, &inner, sizeof(inner));
    return TIDE_OK;
}

enum tide_status
tide_statistics_report(struct tide_resource *resource, tide_statistics_function function, void *context)
{
    struct statistics *statistics = (struct statistics *)resource;

    if (tidei_kind_check(&tidei_statistics_kind, resource) != TIDE_OK)
        return TIDE_EINVAL;
    if (function == NULL)
        return tide_error_set(TIDE_EINVAL, "statistics: no function to report to");
    if (statistics->by_tag == NULL)
        return tide_error_set(TIDE_EINVAL, "statistics: no counters by tag were asked for, expected tags=true");
    return tidei_tag_counters_report(statistics->by_tag, function, context);
}

static void
report_line(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    tide_text_format(context, "%12lld %20lld %20lld %20lld  %s\n", (long long)figures->count.total,
                     (long long)figures->bytes.peak, (long long)figures->bytes.total, (long long)figures->bytes.current,
                     path[0] != '\0' ? path : "(no tag)");
}

enum tide_status
tide_statistics_report_text(struct tide_resource *resource, char *text, size_t capacity, size_t *needed)
{
    struct tide_text report = { text, text != NULL ? capacity : 0, 0 };
    enum tide_status status;

    if (report.capacity > 0)
        text[0] = '\0';
    tide_text_format(&report, "%12s %20s %20s %20s  %s\n", "allocations", "peak bytes", "total bytes", "current bytes",
                     "tag");
    status = tide_statistics_report(resource, report_line, &report);
    if (status != TIDE_OK) {
        report.length = 0;
        if (report.capacity > 0)
            text[0] = '\0';
    }
    if (needed != NULL)
        *needed = report.length;
    return status;
}
