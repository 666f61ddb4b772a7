/* The one table of all kinds of layers: the only place in src that knows them. */
#include <string.h>

#include "src/resource/kind.h"

/* One extern declaration here and one entry below for each kind, in alphabetical order. */
extern const struct tidei_kind tidei_aligned_kind;
extern const struct tidei_kind tidei_arena_kind;
extern const struct tidei_kind tidei_binning_kind;
extern const struct tidei_kind tidei_cuda_kind;
extern const struct tidei_kind tidei_driver_kind;
extern const struct tidei_kind tidei_fallback_kind;
extern const struct tidei_kind tidei_fault_kind;
extern const struct tidei_kind tidei_fixed_kind;
extern const struct tidei_kind tidei_guard_kind;
extern const struct tidei_kind tidei_host_kind;
extern const struct tidei_kind tidei_limit_kind;
extern const struct tidei_kind tidei_log_kind;
extern const struct tidei_kind tidei_managed_kind;
extern const struct tidei_kind tidei_monotonic_kind;
extern const struct tidei_kind tidei_pinned_kind;
extern const struct tidei_kind tidei_pool_kind;
extern const struct tidei_kind tidei_prefetch_kind;
extern const struct tidei_kind tidei_retry_kind;
extern const struct tidei_kind tidei_sim_kind;
extern const struct tidei_kind tidei_statistics_kind;
extern const struct tidei_kind tidei_track_kind;

/* Ends in NULL; one line for each, which clang-format would pack. */
/* clang-format off */
static const struct tidei_kind *const kinds[] = {
    &tidei_aligned_kind,
    &tidei_arena_kind,
    &tidei_binning_kind,
    &tidei_cuda_kind,
    &tidei_driver_kind,
    &tidei_fallback_kind,
    &tidei_fault_kind,
    &tidei_fixed_kind,
    &tidei_guard_kind,
    &tidei_host_kind,
    &tidei_limit_kind,
    &tidei_log_kind,
    &tidei_managed_kind,
    &tidei_monotonic_kind,
    &tidei_pinned_kind,
    &tidei_pool_kind,
    &tidei_prefetch_kind,
    &tidei_retry_kind,
    &tidei_sim_kind,
    &tidei_statistics_kind,
    &tidei_track_kind,
    NULL,
};
/* clang-format on */

const struct tidei_kind *
tidei_kind_at(size_t index)
{
    return index < TIDEI_COUNT_OF(kinds) ? kinds[index] : NULL;
}

const struct tidei_kind *
tidei_kind_find(const char *name)
{
    for (size_t i = 0; kinds[i] != NULL; i++) {
        if (strcmp(kinds[i]->ops.name, name) == 0)
            return kinds[i];
    }
    return NULL;
}
