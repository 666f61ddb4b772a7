/* limit: refuse what would take the bytes or the allocations outstanding past a bound. */
#ifndef TIDEMARK_LIMIT_H
#define TIDEMARK_LIMIT_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Called when the bytes outstanding go from soft_limit_bytes or less to more, once each time that they do: on the
 * thread whose request it is, without any lock held, before upstream is asked. `used_bytes` includes that request. It
 * may call any function of the stack, also free, trim and allocate.
 */
typedef void (*tide_soft_limit_function)(void *context, uint64_t used_bytes, uint64_t soft_limit_bytes);

struct tide_limit_options {
    size_t struct_size;
    uint64_t limit_bytes; /* the most bytes outstanding; 0: no bound; TIDE_NONE lets requests of 0 bytes pass alone */
    uint64_t alignment;   /* power of two that each request counts rounded up to; 1: as requested; 0: 256, as RMM */
    uint64_t limit_count; /* the most allocations outstanding, those of 0 bytes too; 0: no bound */
    uint64_t soft_limit_bytes;         /* at most limit_bytes; 0: none */
    tide_soft_limit_function function; /* told of the soft limit; NULL: a warning goes to the message sink */
    void *context;                     /* borrowed for the life of the resource */
    const char *budget; /* copied; limits of one name in this process share one account; NULL: one of its own */
};

struct tide_limit_figures {
    size_t struct_size;
    uint64_t used_bytes; /* that count against the limit now, of the whole budget */
    uint64_t used_count; /* allocations that count against it now, likewise */
};

/*
 * Refuse what would take the bytes outstanding through `upstream` past options->limit_bytes, or the allocations past
 * options->limit_count.
 *
 * A refused request returns TIDE_ELIMIT and never reaches upstream. None is refused that fits: what other threads hold
 * in reserve is taken back before. Limits that share a budget have the same limit_bytes, limit_count and
 * soft_limit_bytes; the last one takes the budget along.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (alignment, a soft limit over the limit, other bounds than the budget's, NULL), TIDE_ENOMEM (host
 * memory). Its allocations: TIDE_ELIMIT, TIDE_EOVERFLOW. Its deallocations: TIDE_EMISMATCH (more than is outstanding;
 * looked at only while a single thread uses it).
 * Thread safety: any thread. Wait-free while a thread stays within what it holds in reserve, else takes a short lock.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_limit_create(struct tide_resource *upstream, const struct tide_limit_options *options,
                                               struct tide_resource **out);

/*
 * Read what is outstanding, as it is at one moment.
 * Errors: TIDE_EINVAL (not a limit, NULL); then the figures are zeros. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_limit_read(struct tide_resource *limit, struct tide_limit_figures *out);

#ifdef __cplusplus
}
#endif
#endif
