/* statistics: counts how much memory is outstanding now, at most, and in all. */
#ifndef TIDEMARK_STATISTICS_H
#define TIDEMARK_STATISTICS_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One counter. The numbers are signed: if memory that was allocated before a push is freed after it, `current` can fall
 * below 0. This struct never grows.
 */
struct tide_counter {
    int64_t current; /* outstanding now */
    int64_t peak;    /* the highest `current` since this counter began; at least 0 */
    int64_t total;   /* all that was allocated; nothing is subtracted */
};

/* Both counters at one moment. */
struct tide_statistics_figures {
    size_t struct_size;        /* TIDE_FIGURES */
    struct tide_counter bytes; /* as requested */
    struct tide_counter count; /* allocations; one of 0 bytes counts */
};

struct tide_statistics_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    bool by_tag;         /* count by tag (tag.h), too, for tide_statistics_report; costs a lock and a table */
    uint8_t reserved[7]; /* 0 */
};

/*
 * Create a layer that counts what passes through it to `upstream`: requested bytes and allocations. Only successful
 * requests count.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL), TIDE_ENOMEM. Errors of its allocations: what upstream returns; TIDE_ENOMEM (by_tag: no
 * host memory to note the block, which is given back).
 * Thread safety: any thread. Each thread holds a part of the difference between the current bytes and the peak so far.
 * Within that part a call is wait-free, else it takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_create(struct tide_resource *upstream,
                                                    const struct tide_statistics_options *options,
                                                    struct tide_resource **out);

/*
 * Read the innermost counters, all figures at one moment. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a statistics resource, NULL, struct_size).
 * Thread safety: any thread. Stops all threads that use the layer for some microseconds; so do push and pop. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_read(struct tide_resource *statistics,
                                                  struct tide_statistics_figures *out);

/*
 * Push begins new counters at 0, which are the innermost ones from then on. Pop ends the innermost counters and adds
 * them to the ones around them: peak = max(peak, current + inner peak), current += inner current, total += inner total.
 * These are the rules of RMM's statistics_resource_adaptor. Both put the counters that were innermost before the call
 * into *out, which may be NULL. The counters belong to the layer, not to a thread.
 *
 * Errors: TIDE_EINVAL (not a statistics resource, struct_size; pop without a push), TIDE_ENOMEM (push). On failure the
 * figures are zeros and nothing has changed.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_push(struct tide_resource *statistics,
                                                  struct tide_statistics_figures *out);
TIDE_EXPORT enum tide_status tide_statistics_pop(struct tide_resource *statistics, struct tide_statistics_figures *out);

/*
 * One line of a report. `path` is the names of nested tags, the outermost first, with '/' between them; "" is what was
 * allocated under no tag. `figures` count what was allocated under that path and under all tags nested in it. Both are
 * borrowed for the call; the library sets struct_size. No lock is held: the function may call any function of the
 * library.
 */
typedef void (*tide_statistics_function)(void *context, const char *path,
                                         const struct tide_statistics_figures *figures);

/*
 * Call `function` for each path of tags under which something was allocated, the highest peak in bytes first.
 *
 * An allocation counts under the tag that its thread had when it allocated, until any thread frees it. The figures of a
 * path are those of one moment. Push and pop do not change them.
 *
 * Errors: TIDE_EINVAL (not a statistics resource, or one without by_tag; NULL), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_report(struct tide_resource *statistics, tide_statistics_function function,
                                                    void *context);

/*
 * The same report as a table in text: for each path the allocations, and the peak, total and current bytes. Text that
 * exceeds `capacity` is cut. *needed (may be NULL) is the full length without the NUL.
 * Errors and thread safety: as tide_statistics_report. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_report_text(struct tide_resource *statistics, char *text, size_t capacity,
                                                         size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
