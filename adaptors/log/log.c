/*
 * log: record all calls that pass through into an SQLite trace.
 *
 * Usage: log(PATH, overwrite=false, clock=auto|tsc|monotonic, overflow=wait|drop, cupti=auto|calls|memory|off,
 * samples=auto|every|off, ring=1MiB, backlog=128MiB, mode=0600, callstack=0|python|mixed,
 * unwind=auto|fp|dwarf). A log below another one may have no path: it records into the trace of the log above, with its
 * own setting of callstack.
 *
 * Example: log(trace.db) | statistics | limit(4GiB) | log | driver
 *
 * In the trace, an allocation lives from the return of its call to the begin of the call that frees it. That is exactly
 * as long as the caller may use it, so two lives of one address never overlap. Over layers that do next to nothing but
 * pass a call on, the end of the driver's one call serves as the end of the event, which saves one reading of the
 * clock.
 *
 * Memory that a pool or another suballocator below has from its upstream is recorded by a log below it. What passes
 * none is recorded with the suballocator's own layer: see log_take_up in opening.c. What it had before the trace is
 * there, too.
 *
 * A second log of the same path, in this stack or in another one of the process, records into the same trace, with the
 * options with which it was opened.
 *
 * LIMITATIONS
 *  - It records the calls at its place in the stack: above `limit` also the refused requests, below it only those that
 *    reach upstream.
 *  - It must not be called from a signal handler.
 *  - One trace has at most 65,535 layers over its life, and 4,096 threads that record at once.
 *  - Memory that was allocated from a base, or through layers that an application brings, before the trace began is not
 *    in it, but for the chunks of a suballocator and the freed blocks that a `guard` keeps.
 *  - A log that is opened or released over a suballocator that other threads use waits for their requests for chunks,
 *    and they wait for it.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adaptors/log/opening.h"
#include "adaptors/log/record.h"
#include "src/context/callstack.h"
#include "src/resource/kind.h"
#include "src/sync/inside.h"

static void
log_fini(struct tide_resource *self)
{
    struct tidei_log *log = (struct tidei_log *)self;

    tidei_log_close(log);
    free((char *)log->options.path);
}

static const char *const log_clocks[] = { "auto", "tsc", "monotonic", NULL };
static const char *const log_cuptis[] = { "auto", "calls", "off", "memory", NULL };
static const char *const log_overflows[] = { "wait", "drop", NULL };
static const char *const log_samples[] = { "auto", "every", "off", NULL };

/* A layer that records into another's trace has options only for call stacks. */
static void
log_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct tide_log_options *options = &((struct tidei_log *)self)->options;
    const struct tide_log_options own = { .callstack_depth = options->callstack_depth, .unwind = options->unwind };

    tidei_kind_describe_options(tidei_kind_of(self), options->path != NULL ? options : &own, "", text);
}

static enum tide_status
log_check(void *options, size_t *fault)
{
    struct tide_log_options *wanted = options;

    (void)fault;
    return tidei_callstack_options("log", wanted->callstack_depth, &wanted->unwind);
}

static enum tide_status
log_init(struct tide_resource *self, size_t *fault)
{
    struct tidei_log *log = (struct tidei_log *)self;
    enum tide_status status = TIDE_OK;
    struct tidei_error error;

    (void)fault;
    tidei_callstack_begin(log->options.callstack_depth);
    atomic_init(&log->extras, log->options.callstack_depth != 0 ? TIDEI_LOG_STACKS : 0);
    if (log->options.path == NULL)
        return TIDE_OK;
    log->options.path = strdup(log->options.path);
    if (log->options.path == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    tidei_error_save(&error);
    status = tidei_log_open(log);
    if (status == TIDE_OK)
        tidei_error_restore(&error);
    else
        log_fini(self);
    return status;
}

static void
log_complete(struct tide_resource *self)
{
    struct tidei_log *log = (struct tidei_log *)self;

    if (log->watches)
        tidei_recorder_keep(atomic_load_explicit(&log->recorder, memory_order_acquire));
}

static const struct tidei_argument log_arguments[] = {
    TIDEI_ARGUMENT("path", WORD, struct tide_log_options, path, "the path of a trace", .positional = true, .least = 1),
    TIDEI_FLAG("overwrite", struct tide_log_options, overwrite),
    TIDEI_ARGUMENT("clock", CHOICE, struct tide_log_options, clock, "auto, tsc or monotonic", .choices = log_clocks),
    TIDEI_ARGUMENT("overflow", CHOICE, struct tide_log_options, overflow, "wait or drop", .choices = log_overflows),
    TIDEI_ARGUMENT("cupti", CHOICE, struct tide_log_options, cupti, "auto, calls, memory or off",
                   .choices = log_cuptis),
    TIDEI_ARGUMENT("samples", CHOICE, struct tide_log_options, samples, "auto, every or off", .choices = log_samples),
    TIDEI_ARGUMENT("ring", SIZE, struct tide_log_options, ring_bytes, "a power of two from 4KiB to 1GiB",
                   .power_of_two = true, .least = UINT64_C(4) << 10, .most = UINT64_C(1) << 30,
                   .default_value = UINT64_C(1) << 20),
    TIDEI_ARGUMENT("backlog", SIZE, struct tide_log_options, backlog_bytes, "a size from 1MiB to 16GiB",
                   .least = UINT64_C(1) << 20, .most = UINT64_C(16) << 30, .default_value = UINT64_C(128) << 20),
    TIDEI_ARGUMENT("mode", MODE, struct tide_log_options, mode, "permissions from 0600 to 0666", .least = 0600,
                   .most = 0666, .default_value = 0600),
    TIDEI_CALLSTACK_ARGUMENTS(struct tide_log_options),
};

const struct tidei_kind tidei_log_kind = {
    .ops = {
        TIDEI_KIND_OPS("log"),
        .allocate = tidei_log_allocate,
        .deallocate = tidei_log_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = log_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(log_arguments),
    .options_size = sizeof(struct tide_log_options),
    TIDEI_KIND_STRUCT(struct tidei_log),
    .keeps_unset = true,
    .inherits = "path",
    .check = log_check,
    .init = log_init,
    .fini = log_fini,
    .complete = log_complete,
};

enum tide_status
tide_log_create(struct tide_resource *upstream, const struct tide_log_options *options, struct tide_resource **out)
{
    TIDEI_INSIDE(upstream);
    enum tide_status status = tidei_kind_create(&tidei_log_kind, upstream, options, out);

    if (status == TIDE_OK)
        log_complete(*out);
    return status;
}

/* The recorder of a log resource; NULL with the error set. */
static struct tidei_recorder *
log_recorder(struct tide_resource *log)
{
    struct tidei_recorder *recorder = NULL;

    if (log == NULL || log->ops != &tidei_log_kind.ops) {
        tide_error_set(TIDE_EINVAL, "log: not a log");
        return NULL;
    }
    recorder = atomic_load_explicit(&((struct tidei_log *)log)->recorder, memory_order_acquire);
    if (recorder == NULL)
        tide_error_set(TIDE_EINVAL, "log: no trace: none above it has a path");
    return recorder;
}

enum tide_status
tide_log_flush(struct tide_resource *log)
{
    TIDEI_INSIDE(log);
    struct tidei_recorder *recorder = log_recorder(log);

    if (recorder == NULL)
        return TIDE_EINVAL;
    tidei_log_sample_last((struct tidei_log *)log);
    return tidei_log_flush(recorder);
}

/* A layer may be reached on several ways, and then does nothing from the second time on. */
static void
log_end_all(struct tide_resource *layer)
{
    struct tide_upstream edge;

    if (layer->ops == &tidei_log_kind.ops)
        tidei_log_end((struct tidei_log *)layer);
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &edge) == TIDE_OK; i++)
        log_end_all(edge.resource);
}

enum tide_status
tide_log_end(struct tide_resource *top)
{
    TIDEI_INSIDE(NULL);
    struct tidei_error error;

    if (top == NULL)
        return tide_error_set(TIDE_EINVAL, "log: NULL in place of a stack");
    tidei_error_save(&error);
    log_end_all(top);
    tidei_error_restore(&error);
    return TIDE_OK;
}

enum tide_status
tide_log_path(struct tide_resource *log, char *path, size_t capacity, size_t *needed)
{
    TIDEI_INSIDE(log);
    struct tidei_recorder *recorder;

    if (needed != NULL)
        *needed = 0;
    if (path == NULL && capacity != 0)
        return tide_error_set(TIDE_EINVAL, "log: NULL in place of the path");
    recorder = log_recorder(log);
    if (recorder == NULL)
        return TIDE_EINVAL;
    if (capacity != 0)
        snprintf(path, capacity, "%s", recorder->path);
    if (needed != NULL)
        *needed = strlen(recorder->path);
    return TIDE_OK;
}
