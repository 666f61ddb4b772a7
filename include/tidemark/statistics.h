/* statistics: how much is outstanding, how much at most, how much in all. */
#ifndef TIDEMARK_STATISTICS_H
#define TIDEMARK_STATISTICS_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One kind of figure. Signed: freeing below a push what was allocated above it takes `current` below 0. */
struct tide_counter {
    int64_t current;
    int64_t peak;  /* the highest `current` since this counter began; at least 0 */
    int64_t total; /* all that was added, nothing taken off */
};

/* A consistent set: what stood at one moment. */
struct tide_statistics_figures {
    size_t struct_size;
    struct tide_counter bytes; /* as requested */
    struct tide_counter count; /* allocations; one of 0 bytes counts */
};

struct tide_statistics_options {
    size_t struct_size;
    bool by_tag;         /* count by tag (tide_tag_push), too, for tide_statistics_report; costs a lock and a table */
    uint8_t reserved[7]; /* 0 */
};

/*
 * Count what passes through to `upstream`: requested bytes and allocations, successful ones only. `options` may be
 * NULL.
 *
 * Holds a reference to `upstream`. On failure *out is NULL. Errors: TIDE_EINVAL (NULL, options), TIDE_ENOMEM.
 * Its allocations: TIDE_ENOMEM (by_tag: no host memory to remember one; it is given back).
 * Thread safety: any thread. Wait-free while a thread stays within what it has of the peak so far, else takes a short
 * lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_create(struct tide_resource *upstream,
                                                    const struct tide_statistics_options *options,
                                                    struct tide_resource **out);

/*
 * Read the innermost counters as one consistent set. Errors: TIDE_EINVAL (not a statistics resource). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_read(struct tide_resource *statistics,
                                                  struct tide_statistics_figures *out);

/*
 * Begin nested counters at 0 and return those that were innermost so far (`out` may be NULL). Rules as RMM's
 * statistics_resource_adaptor: pop ends the innermost, returns it, and folds it into the one around it: peak =
 * max(peak, current + inner peak), current += inner current, total += inner total.
 *
 * Errors: TIDE_EINVAL (not a statistics resource; pop with nothing pushed), TIDE_ENOMEM (push). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_push(struct tide_resource *statistics,
                                                  struct tide_statistics_figures *out);
TIDE_EXPORT enum tide_status tide_statistics_pop(struct tide_resource *statistics, struct tide_statistics_figures *out);

/*
 * One line of a report: what was allocated under `path`, the names of tags from the outermost down with '/' between,
 * and all that is nested in it included; "" is what was allocated under no tag. Both are borrowed for the call.
 */
typedef void (*tide_statistics_function)(void *context, const char *path,
                                         const struct tide_statistics_figures *figures);

/*
 * Call `function` for each path of tags that something was allocated under, the highest peak first. An allocation
 * counts under the tag that its thread had then, until it is freed, by whatever thread. Each path's figures are a
 * consistent set; push and pop leave them alone. No lock is held meanwhile: `function` may call any other.
 *
 * Errors: TIDE_EINVAL (not a statistics resource, or one without by_tag; NULL), TIDE_ENOMEM. Thread safety: any thread.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_report(struct tide_resource *statistics, tide_statistics_function function,
                                                    void *context);

/*
 * The same as a table in text, a line for each path: allocations, peak, total and outstanding bytes. *needed (may be
 * NULL) is the length without the NUL, also where `capacity` was too small and the text was cut.
 * Errors, thread safety: as tide_statistics_report. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_statistics_report_text(struct tide_resource *statistics, char *text, size_t capacity,
                                                         size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
