/*
 * The version of the running library, and the layout of the structs that programs share with it.
 *
 * A program is compiled with the sizes in its headers. So a struct changes its size only on purpose: by fields at its
 * end, in a new version. No struct has padding at its end, where a later field would not change the size.
 */
#include <config.h>

#include <tidemark/tidemark.h>

/* Check a struct that begins with its size: its last member, and its size with 8-byte pointers. */
#define SIZED(name, last, bytes)                                                                                       \
    _Static_assert(offsetof(struct name, struct_size) == 0, #name " begins with its size");                            \
    _Static_assert(offsetof(struct name, last) + sizeof(((struct name *)NULL)->last) == sizeof(struct name),           \
                   #name " has no padding at its end");                                                                \
    _Static_assert(sizeof(void *) != 8 || sizeof(struct name) == (bytes), #name " has another size")

SIZED(tide_aligned_options, above_bytes, 24);
SIZED(tide_arena_options, reserved, 24);
SIZED(tide_host_options, capacity_bytes, 16);
SIZED(tide_sim_options, page_bytes, 40);
SIZED(tide_cuda_options, reserved, 16);
SIZED(tide_managed_options, reserved, 24);
SIZED(tide_pinned_options, reserved, 16);
SIZED(tide_binning_options, largest_bytes, 40);
SIZED(tide_callback_options, reserved, 56);
SIZED(tide_frame, reserved, 56);
SIZED(tide_driver_options, reserved, 64);
SIZED(tide_driver_import_options, reserved, 16);
SIZED(tide_fallback_options, reserved, 16);
SIZED(tide_fallback_figures, served, 16);
SIZED(tide_fault_options, reserved, 64);
SIZED(tide_fault_figures, planted, 24);
SIZED(tide_fixed_options, reserved, 32);
SIZED(tide_guard_damage, reserved, 72);
SIZED(tide_guard_options, context, 40);
SIZED(tide_limit_options, shared, 72);
SIZED(tide_limit_figures, processes, 40);
SIZED(tide_log_options, mode, 64);
SIZED(tide_monotonic_options, reserved, 24);
SIZED(tide_pool_options, reserved, 72);
SIZED(tide_pool_figures, waits, 128);
SIZED(tide_prefetch_options, reserved, 24);
SIZED(tide_retry_options, reserved, 32);
SIZED(tide_retry_figures, served, 24);
SIZED(tide_sim_figures, orders, 88);
SIZED(tide_statistics_figures, count, 56);
SIZED(tide_statistics_options, reserved, 16);
SIZED(tide_trace_recovery, pid, 24);
SIZED(tide_trace_resolution, postponed, 32);
SIZED(tide_track_options, unwind, 16);
SIZED(tide_track_block, callstack, 56);
SIZED(tide_vmm_figures, waits, 104);
SIZED(tide_vmm_options, reserved, 48);

/* These never grow: they are embedded in others, or sent between processes of different versions. */
_Static_assert(sizeof(struct tide_counter) == 24, "tide_counter has another size");
_Static_assert(sizeof(struct tide_driver_fabric) == 64, "tide_driver_fabric has another size");
_Static_assert(sizeof(struct tide_driver_pointer) == 72, "tide_driver_pointer has another size");
_Static_assert(sizeof(void *) != 8 || sizeof(struct tide_upstream) == 16, "tide_upstream has another size");

uint32_t
tide_version_number(void)
{
    return TIDE_VERSION_NUMBER;
}

const char *
tide_version(void)
{
    return PACKAGE_VERSION;
}
