/* The one table of all kinds of layers, and stacks from text of them: the only place that knows them all. */
#include <tidemark/stack.h>

#include "src/stack/build.h"

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
const struct tidei_kind *const tidei_kinds[] = {
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

enum tide_status
tide_stack_parse(const char *text, struct tide_resource **out)
{
    return tidei_stack_build(tidei_kinds, text, out);
}

enum tide_status
tide_stack_from_environment(const char *default_text, struct tide_resource **out)
{
    return tidei_stack_build_environment(tidei_kinds, default_text, out);
}
