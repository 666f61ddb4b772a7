/*
 * A program that uses every options and figures struct. tests/abi-t.sh compiles it against headers in which these
 * structs are smaller (their last fields are missing) and larger (LARGER: they end in `appended`, which this library
 * does not know), and links it with the library. It names only fields that the smaller structs have.
 *
 * Prints what is wrong, and fails if anything is.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

static int wrong;

static void
check(bool right, const char *type, const char *what)
{
    if (right)
        return;
    printf("%s: %s (%s)\n", type, what, tide_error_text());
    wrong++;
}

/* Whether options were accepted. A layer that needs CUDA is unsupported on a machine without it. */
static bool
taken(enum tide_status status)
{
    return status == TIDE_OK || (strstr(tide_error_text(), "too old") == NULL &&
                                 strstr(tide_error_text(), "struct_size") == NULL && status != TIDE_EINVAL);
}

static void
drop(struct tide_resource *resource)
{
    tide_resource_release(resource);
}

#ifdef LARGER
#define CHECK_NEWER(type, create)                                                                                      \
    do {                                                                                                               \
        options.appended[1] = 1;                                                                                       \
        made = NULL;                                                                                                   \
        status = create;                                                                                               \
        check(status == TIDE_EUNSUPPORTED && strstr(tide_error_text(), "too old") != NULL, type,                       \
              "an option that the library does not know is not refused");                                              \
    } while (0)
#define CHECK_APPENDED(type)                                                                                           \
    check(place.figures.appended[0] == 0 && place.figures.appended[1] == 0, type, "unknown fields are not zeros")
#define CHECK_TOLD(type, pointer) check(!TIDE_HAS_FIELD(pointer, appended), type, "an unknown field is there")
#else
#define CHECK_NEWER(type, create) (void)0
#define CHECK_APPENDED(type)      (void)0
#define CHECK_TOLD(type, pointer) (void)(pointer)
#endif

/* Create with options that `set` sets: `create` reads `options` and writes `made`. */
#define CHECK_OPTIONS(type, set, create)                                                                               \
    do {                                                                                                               \
        struct tide_resource *made = NULL;                                                                             \
        enum tide_status status;                                                                                       \
        type options;                                                                                                  \
        memset(&options, 0, sizeof(options));                                                                          \
        options.struct_size = sizeof(options);                                                                         \
        set;                                                                                                           \
        status = create;                                                                                               \
        check(taken(status), #type, "options are refused");                                                            \
        drop(made);                                                                                                    \
        CHECK_NEWER(#type, create);                                                                                    \
    } while (0)

/* Read figures with `read`, which writes to `out`; `right` says whether they are. Nothing behind them may change. */
#define CHECK_FIGURES(type, read, right)                                                                               \
    do {                                                                                                               \
        struct {                                                                                                       \
            type figures;                                                                                              \
            unsigned char behind[64];                                                                                  \
        } place;                                                                                                       \
        type *out = &place.figures;                                                                                    \
        bool untouched = true;                                                                                         \
        memset(&place, 0xa5, sizeof(place));                                                                           \
        out->struct_size = sizeof(*out);                                                                               \
        read;                                                                                                          \
        check(right, #type, "the figures are wrong");                                                                  \
        check(out->struct_size == sizeof(*out), #type, "the size has changed");                                        \
        for (size_t i = 0; i < sizeof(place.behind); i++)                                                              \
            untouched = untouched && place.behind[i] == 0xa5;                                                          \
        check(untouched, #type, "the library wrote past the struct");                                                  \
        CHECK_APPENDED(#type);                                                                                         \
    } while (0)

static enum tide_status
no_memory(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)context, (void)bytes, (void)alignment, (void)stream;
    *out = NULL;
    return tide_error_set(TIDE_ECAPACITY, "none");
}

static enum tide_status
no_free(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)context, (void)pointer, (void)bytes, (void)alignment, (void)stream;
    return TIDE_OK;
}

static void
check_options(struct tide_resource *sim, struct tide_resource *host, const char *trace)
{
    const struct tide_process_function *functions;
    size_t functions_count;
    CHECK_OPTIONS(struct tide_aligned_options, options.alignment_bytes = 512,
                  tide_aligned_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_arena_options, (void)0, tide_arena_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_binning_options, (void)0, tide_binning_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_callback_options, (options.allocate = no_memory, options.deallocate = no_free),
                  tide_callback_create(&options, &made));
    CHECK_OPTIONS(struct tide_cuda_options, options.device = 0, tide_cuda_create(&options, &made));
    CHECK_OPTIONS(struct tide_driver_options, options.maximum_bytes = (uint64_t)1 << 30,
                  tide_driver_create(&options, &made));
    CHECK_OPTIONS(struct tide_driver_import_options, options.device = 0, tide_driver_import(-1, &options, &made));
    CHECK_OPTIONS(struct tide_fallback_options, options.any = true, tide_fallback_create(sim, host, &options, &made));
    CHECK_OPTIONS(struct tide_fault_options, options.nth = 1, tide_fault_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_fixed_options, options.block_bytes = 4096, tide_fixed_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_guard_options, options.canary_bytes = 64, tide_guard_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_host_options, (void)0, tide_host_create(&options, &made));
    CHECK_OPTIONS(struct tide_limit_options, options.limit_bytes = 4096, tide_limit_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_process_options, options.stack = "log",
                  (made = NULL, tide_process_start(&options, &functions, &functions_count)));
    CHECK_OPTIONS(struct tide_log_options, options.path = trace, tide_log_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_managed_options, options.device = 0, tide_managed_create(&options, &made));
    CHECK_OPTIONS(struct tide_monotonic_options, (void)0, tide_monotonic_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_pinned_options, options.device = 0, tide_pinned_create(&options, &made));
    CHECK_OPTIONS(struct tide_pool_options, options.growth_bytes = 4 << 20, tide_pool_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_prefetch_options, options.above_bytes = 4096,
                  tide_prefetch_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_retry_options, options.function = NULL, tide_retry_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_vmm_options, options.maximum_bytes = (uint64_t)1 << 30, tide_vmm_create(&options, &made));
    CHECK_OPTIONS(struct tide_sim_options, options.capacity_bytes = 4096, tide_sim_create(&options, &made));
    CHECK_OPTIONS(struct tide_stack_options, options.device = 0, tide_stack_parse_with("host", &options, &made));
    CHECK_OPTIONS(struct tide_statistics_options, options.by_tag = true, tide_statistics_create(host, &options, &made));
    CHECK_OPTIONS(struct tide_track_options, options.callstack_depth = 4, tide_track_create(host, &options, &made));
}

/* Make a stack from text. Ends the program if that fails. */
static struct tide_resource *
stack_of(const char *text)
{
    struct tide_resource *stack = NULL;

    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        printf("%s: %s\n", text, tide_error_text());
        exit(1);
    }
    return stack;
}

/* The layer of a kind in a stack. */
static struct tide_resource *
layer_of(struct tide_resource *stack, const char *kind)
{
    while (stack != NULL && strcmp(tide_resource_name(stack), kind) != 0)
        stack = stack->upstream;
    return stack;
}

static void
check_figures(void)
{
    struct tide_resource *stack = stack_of("statistics | limit(1MiB) | retry | fault(nth=3) | pool | host");
    struct tide_resource *fallback = stack_of("fallback({limit(0)}) | host");
    void *first, *second, *third;

    tide_allocate(stack, 100, 256, 0, &first);
    tide_allocate(stack, 200, 256, 0, &second);
    tide_allocate(stack, 300, 256, 0, &third);
    CHECK_FIGURES(struct tide_statistics_figures, tide_statistics_read(stack, out),
                  out->bytes.current == 600 && out->bytes.total == 600);
    CHECK_FIGURES(struct tide_statistics_figures, tide_statistics_push(stack, out), out->bytes.current == 600);
    CHECK_FIGURES(struct tide_statistics_figures, tide_statistics_pop(stack, out), out->bytes.current == 0);
    CHECK_FIGURES(struct tide_limit_figures, tide_limit_read(layer_of(stack, "limit"), out),
                  out->used_bytes == 3 * 256 + 256);
    CHECK_FIGURES(struct tide_retry_figures, tide_retry_read(layer_of(stack, "retry"), out), out->failed == 1);
    CHECK_FIGURES(struct tide_fault_figures, tide_fault_read(layer_of(stack, "fault"), out), out->counted == 4);
    CHECK_FIGURES(struct tide_interrupted_figures, tide_interrupted_read(out), out->refused == 0);
    CHECK_FIGURES(struct tide_pool_figures, tide_pool_read(layer_of(stack, "pool"), out), out->used_bytes == 600);
    tide_deallocate(stack, first, 100, 256, 0);
    tide_deallocate(stack, second, 200, 256, 0);
    tide_deallocate(stack, third, 300, 256, 0);
    CHECK_FIGURES(struct tide_vmm_figures, tide_vmm_read(stack, out), out->handles == 0); /* not one: cleared */
    CHECK_FIGURES(struct tide_sim_figures, tide_sim_read(stack, out), out->grown == 0);   /* nor this */
    CHECK_FIGURES(struct tide_fallback_figures, tide_fallback_read(fallback, out), true);
    CHECK_FIGURES(struct tide_limit_figures, tide_limit_read(fallback, out), out->used_bytes == 0);
    CHECK_FIGURES(struct tide_trace_recovery, tide_trace_recover("/nonexistent/trace.db", out), out->events == 0);
    CHECK_FIGURES(struct tide_trace_resolution, tide_trace_resolve("/nonexistent/trace.db", out), out->resolved == 0);
    drop(stack);
    drop(fallback);
    tide_bridge_use("host");
    tide_bridge_allocate(0, 100, 0, &first);
    CHECK_FIGURES(struct tide_bridge_figures, tide_bridge_read(0, out), out->live_bytes == 100);
    CHECK_FIGURES(struct tide_bridge_figures, (tide_bridge_push(0), tide_bridge_pop(0, out)), out->live_bytes == 100);
    CHECK_FIGURES(struct tide_bridge_block, tide_bridge_find(first, out), out->bytes == 100);
    tide_bridge_deallocate(first, 0);
    tide_bridge_end();
}

static int told;

static void
see_damage(void *context, const struct tide_guard_damage *damage)
{
    (void)context;
    CHECK_TOLD("struct tide_guard_damage", damage);
    told += TIDE_HAS_FIELD(damage, block) && damage->block != NULL && damage->bytes == 100;
}

static void
see_frame(void *context, const struct tide_frame *frame)
{
    (void)context;
    CHECK_TOLD("struct tide_frame", frame);
    told += TIDE_HAS_FIELD(frame, address) && frame->address != 0;
}

static void
see_block(void *context, const struct tide_track_block *block)
{
    (void)context;
    CHECK_TOLD("struct tide_track_block", block);
    told += TIDE_HAS_FIELD(block, bytes) && block->bytes == 100;
}

static void
see_line(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    (void)context, (void)path;
    CHECK_TOLD("struct tide_statistics_figures", figures);
    told += figures->bytes.total == 100;
}

static void
check_callbacks(struct tide_resource *host)
{
    struct tide_resource *track = stack_of("track(callstack=4) | statistics(tags) | host"), *guard = NULL;
    struct tide_guard_options options;
    void *pointer;

    tide_allocate(track, 100, 256, 0, &pointer);
    told = 0;
    tide_track_report(track, see_block, NULL);
    check(told == 1, "struct tide_track_block", "the block is not told");
    told = 0;
    tide_callstack_frames(1, see_frame, NULL);
    check(told > 0, "struct tide_frame", "the frames are not told");
    told = 0;
    tide_statistics_report(layer_of(track, "statistics"), see_line, NULL);
    check(told == 1, "struct tide_statistics_figures", "the line is not told");
    tide_deallocate(track, pointer, 100, 256, 0);
    drop(track);

    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
#ifndef SMALLER
    options.function = see_damage;
    told = 0;
    tide_guard_create(host, &options, &guard);
    tide_allocate(guard, 100, 256, 0, &pointer);
    ((volatile char *)pointer)[100] ^= 1;
    tide_deallocate(guard, pointer, 100, 256, 0);
    check(told == 1, "struct tide_guard_damage", "the damage is not told");
    tide_deallocate(guard, pointer, 100, 256, 0);
    drop(guard);
#else
    (void)guard, (void)host, (void)see_damage; /* these options have no function */
#endif
}

int
main(int argc, char **argv)
{
    struct tide_resource *host = stack_of("host"), *sim = stack_of("sim");

    if (argc != 2)
        return 2;
    check_options(sim, host, argv[1]);
    check_figures();
    check_callbacks(host);
    drop(sim);
    drop(host);
    return wrong != 0;
}
