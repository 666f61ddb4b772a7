/*
 * track: know every block that is outstanding, and refuse wrong frees.
 *
 * Usage: track [(callstack=DEPTH, unwind=auto|fp|dwarf)]
 *     callstack  frames of the call stack that is kept with each block; none unless given
 *     unwind     how the call stack is unwound
 *
 * Example: list the blocks that a program has not freed, with the call stacks of their allocations:
 *     tide_stack_parse("track(callstack=16) | driver", &memory);
 *     run();
 *     tide_track_report_text(memory, 10, text, sizeof(text), NULL);
 *
 * A block enters the table after upstream has returned it, and leaves it before upstream takes it back, because another
 * thread may get its address at once. A wrong free never reaches upstream, and the block that it names stays live.
 *
 * LIMITATIONS
 *  - A wrong free is detected where it passes through: place this layer above those that it is to protect.
 *  - Where an address was freed, handed out again and then freed once more by its first owner, no double free is
 *    detected.
 *  - Of allocations of 0 bytes, which have no address, only the number is kept.
 *  - It must not be called from a signal handler. Call stacks of code without frame pointers cost microseconds each.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/track.h>

#include "src/context/callstack.h"
#include "src/context/tag.h"
#include "src/resource/kind.h"
#include "src/resource/resource.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"
#include "adaptors/track/table.h"
#include "src/sync/inside.h"

struct track {
    struct tide_resource base;       /* first */
    struct tidei_track_table *table; /* owned */
    _Atomic uint64_t nulls;          /* allocations of 0 bytes that are outstanding */
    struct tide_track_options options;
};

/* Inline, so that it adds no second frame of the library's: the caller's is one. */
static inline struct tidei_track_caller
track_caller(const struct track *track)
{
    struct tidei_track_caller caller = { .thread = tidei_thread_os_id() };

    if (track->options.callstack_depth != 0)
        caller.callstack = tidei_callstack_here(track->options.callstack_depth, track->options.unwind);
    return caller;
}

/* Print "thread 123", or "step+0x1f, thread 123", for a message. */
static const char *
track_place(const struct tidei_track_caller *caller, char *buffer, size_t size)
{
    char brief[96];

    if (caller->callstack == 0)
        snprintf(buffer, size, "thread %u", (unsigned)caller->thread);
    else
        snprintf(buffer, size, "%s, thread %u", tidei_callstack_brief(caller->callstack, brief, sizeof(brief)),
                 (unsigned)caller->thread);
    return buffer;
}

/* Set this thread's error: the wrong call, and the block's record. */
static enum tide_status
track_complain(enum tidei_track_answer answer, const struct tidei_track_block *call,
               const struct tidei_track_block *known)
{
    unsigned long long address = call->address;
    char now[160], then[160], freed[160];

    track_place(&call->caller, now, sizeof(now));
    track_place(&known->caller, then, sizeof(then));
    track_place(&known->freed_by, freed, sizeof(freed));
    switch (answer) {
    case TIDEI_TRACK_FREED_BEFORE:
        return tide_error_set(TIDE_EPOINTER,
                              "track: double free of 0x%llx (%s): allocated by %s; freed by %s; again by %s", address,
                              tidei_size_text(known->bytes), then, freed, now);
    case TIDEI_TRACK_OTHER_SIZE:
        return tide_error_set(TIDE_EMISMATCH, "track: 0x%llx freed as %llu B by %s; allocated as %llu B by %s", address,
                              (unsigned long long)call->bytes, now, (unsigned long long)known->bytes, then);
    case TIDEI_TRACK_OTHER_ALIGNMENT:
        return tide_error_set(TIDE_EMISMATCH,
                              "track: 0x%llx freed with an alignment of %llu B by %s; allocated with %llu B by %s",
                              address, 1ull << call->alignment_log2, now, 1ull << known->alignment_log2, then);
    case TIDEI_TRACK_LIVE:
        return tide_error_set(TIDE_EPOINTER, "track: upstream gave out 0x%llx to %s, although %s still has it", address,
                              now, then);
    default:
        return tide_error_set(TIDE_EPOINTER, "track: 0x%llx freed as %llu B by %s was not allocated here", address,
                              (unsigned long long)call->bytes, now);
    }
}

/* Report a wrong call: record it in traces, and return a status with its text. */
static __attribute__((noinline)) enum tide_status
track_misuse(enum tidei_track_answer answer, const struct tidei_track_block *call,
             const struct tidei_track_block *known)
{
    static const enum tidei_misuse_kind kinds[] = { [TIDEI_TRACK_UNKNOWN] = TIDEI_MISUSE_UNKNOWN_POINTER,
                                                    [TIDEI_TRACK_FREED_BEFORE] = TIDEI_MISUSE_DOUBLE_FREE,
                                                    [TIDEI_TRACK_OTHER_SIZE] = TIDEI_MISUSE_WRONG_SIZE,
                                                    [TIDEI_TRACK_OTHER_ALIGNMENT] = TIDEI_MISUSE_WRONG_ALIGNMENT,
                                                    [TIDEI_TRACK_LIVE] = TIDEI_MISUSE_GIVEN_TWICE };
    const struct tidei_record record = { .address = call->address,
                                         .size = call->bytes,
                                         .stream = call->stream,
                                         .callstack = call->caller.callstack,
                                         .alignment_log2 = (uint8_t)call->alignment_log2 };
    struct tidei_misuse misuse = { .size = known->bytes,
                                   .kind = kinds[answer],
                                   .alignment_log2 = known->alignment_log2,
                                   .alloc_os_tid = known->caller.thread,
                                   .alloc_callstack = known->caller.callstack };

    if (answer == TIDEI_TRACK_FREED_BEFORE) {
        misuse.free_os_tid = known->freed_by.thread;
        misuse.free_callstack = known->freed_by.callstack;
    }
    tidei_trace_misuse(&record, &misuse);
    return track_complain(answer, call, known);
}

static enum tide_status
track_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct track *track = (struct track *)self;
    enum tide_status status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    struct tidei_track_block block, known;
    enum tidei_track_answer answer;

    if (status != TIDE_OK)
        return status;
    if (*out == NULL) {
        if (bytes != 0)
            return tidei_refused(self, tide_error_set(TIDE_EUPSTREAM, "track: %s gave NULL for %s",
                                                      tide_resource_name(self->upstream), tidei_size_text(bytes)));
        /* Relaxed: a number; no data depends on it. */
        atomic_fetch_add_explicit(&track->nulls, 1, memory_order_relaxed);
        return TIDE_OK;
    }
    block = (struct tidei_track_block){ .address = (uintptr_t)*out,
                                        .bytes = bytes,
                                        .stream = stream,
                                        .alignment_log2 = (uint32_t)__builtin_ctzll(alignment),
                                        .tag = tidei_tag_now(),
                                        .caller = track_caller(track) };
    answer = tidei_track_put(track->table, &block, &known);
    if (__builtin_expect(answer == TIDEI_TRACK_FINE, 1))
        return TIDE_OK;
    if (answer == TIDEI_TRACK_LIVE) {
        /* The address is another live block's: returning it would free that. */
        status = tidei_refused(self, track_misuse(answer, &block, &known));
    } else {
        tidei_deallocate(self->upstream, *out, bytes, alignment, stream);
        status = tidei_refused(self, tide_error_set(TIDE_ENOMEM, "track: no host memory to remember an allocation"));
    }
    *out = NULL;
    return status;
}

/* Handle a free of NULL, which ends an allocation of 0 bytes. */
static enum tide_status
track_deallocate_null(struct track *track, const struct tidei_track_block *back, size_t alignment)
{
    uint64_t before;
    enum tide_status status;

    before = atomic_load_explicit(&track->nulls, memory_order_relaxed);
    do {
        if (before == 0 || back->bytes != 0)
            return track_misuse(TIDEI_TRACK_UNKNOWN, back, &(struct tidei_track_block){ 0 });
    } while (!atomic_compare_exchange_weak_explicit(&track->nulls, &before, before - 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    status = tidei_deallocate(track->base.upstream, NULL, back->bytes, alignment, back->stream);
    if (status != TIDE_OK)
        atomic_fetch_add_explicit(&track->nulls, 1, memory_order_relaxed);
    return status;
}

/*
 * Enter a block again, as outstanding all along: upstream has refused to take it. Its place is still there, unless
 * another block got it meanwhile.
 */
static __attribute__((noinline)) void
track_put_back(struct track *track, const struct tidei_track_block *block)
{
    struct tidei_track_block known;
    struct tidei_error error;

    tidei_error_save(&error);
    if (tidei_track_put(track->table, block, &known) != TIDEI_TRACK_FINE)
        tidei_message(TIDE_ERROR,
                      "track: no host memory to note that 0x%llx (%s), which could not be freed, is outstanding",
                      (unsigned long long)block->address, tidei_size_text(block->bytes));
    tidei_error_restore(&error);
}

static enum tide_status
track_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct track *track = (struct track *)self;
    struct tidei_track_block back = { .address = (uintptr_t)pointer,
                                      .bytes = bytes,
                                      .stream = stream,
                                      .alignment_log2 = (uint32_t)__builtin_ctzll(alignment),
                                      .caller = track_caller(track) };
    struct tidei_track_block known;
    enum tidei_track_answer answer;
    enum tide_status status;

    if (pointer == NULL)
        return track_deallocate_null(track, &back, alignment);
    back.freed_by = back.caller;
    answer = tidei_track_take(track->table, &back, &known);
    if (__builtin_expect(answer != TIDEI_TRACK_FINE, 0))
        return track_misuse(answer, &back, &known);
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (status != TIDE_OK)
        track_put_back(track, &known);
    return status;
}

static enum tide_status
track_check(void *options, size_t *fault)
{
    struct tide_track_options *wanted = options;

    (void)fault;
    return tidei_callstack_options("track", wanted->callstack_depth, &wanted->unwind);
}

static enum tide_status
track_init(struct tide_resource *self, size_t *fault)
{
    struct track *track = (struct track *)self;
    enum tide_status status = tidei_track_table_create(&track->table);

    (void)fault;
    tidei_callstack_begin(track->options.callstack_depth);
    return status == TIDE_OK ? status : tide_error_set(status, "track: %s", tide_error_text());
}

static void
track_fini(struct tide_resource *self)
{
    tidei_track_table_destroy(((struct track *)self)->table);
}

static const struct tidei_argument track_arguments[] = {
    TIDEI_CALLSTACK_ARGUMENTS(struct tide_track_options),
};

const struct tidei_kind tidei_track_kind = {
    .ops = {
        TIDEI_KIND_OPS("track"),
        .allocate = track_allocate,
        .deallocate = track_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(track_arguments),
    .options_size = sizeof(struct tide_track_options),
    TIDEI_KIND_STRUCT(struct track),
    .check = track_check,
    .init = track_init,
    .fini = track_fini,
};

enum tide_status
tide_track_create(struct tide_resource *upstream, const struct tide_track_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_track_kind, upstream, options, out);
}

enum tide_status
tide_track_size(struct tide_resource *resource, const void *pointer, uint64_t *bytes)
{
    TIDEI_INSIDE(resource);
    struct tidei_track_block known;
    char freed[160];

    if (bytes == NULL)
        return tide_error_set(TIDE_EINVAL, "track: NULL in place of the size's address");
    *bytes = 0;
    if (tidei_kind_check(&tidei_track_kind, resource) != TIDE_OK)
        return TIDE_EINVAL;
    if (pointer == NULL)
        return tide_error_set(TIDE_EPOINTER, "track: NULL has no size");
    if (tidei_track_find(((struct track *)resource)->table, (uintptr_t)pointer, &known)) {
        *bytes = known.bytes;
        return TIDE_OK;
    }
    if (known.address != 0)
        return tide_error_set(TIDE_EPOINTER, "track: %p has no size: it was freed by %s", pointer,
                              track_place(&known.freed_by, freed, sizeof(freed)));
    return tide_error_set(TIDE_EPOINTER, "track: %p has no size: it was not allocated here", pointer);
}

static int
report_by_size(const void *left, const void *right)
{
    const struct tidei_track_block *a = left, *b = right;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->address > b->address) - (a->address < b->address);
}

/* List all blocks, the largest first; the caller frees the list. */
static enum tide_status
report_list(struct tide_resource *resource, struct tidei_track_block **out, size_t *count)
{
    if (tidei_kind_check(&tidei_track_kind, resource) != TIDE_OK)
        return TIDE_EINVAL;
    if (!tidei_track_list(((struct track *)resource)->table, out, count))
        return tide_error_set(TIDE_ENOMEM, "track: no host memory for a report");
    qsort(*out, *count, sizeof(**out), report_by_size);
    return TIDE_OK;
}

static void
report_each(const struct tidei_track_block *blocks, size_t count, tide_track_function function, void *context)
{
    for (size_t i = 0; i < count; i++) {
        char *tag = tidei_tag_path(blocks[i].tag);
        const struct tide_track_block block = { TIDE_FIGURES(block),
                                                .pointer = (void *)(uintptr_t)blocks[i].address,
                                                .bytes = blocks[i].bytes,
                                                .alignment = UINT64_C(1) << blocks[i].alignment_log2,
                                                .stream = blocks[i].stream,
                                                .thread = blocks[i].caller.thread,
                                                .callstack = blocks[i].caller.callstack,
                                                .tag = tag != NULL ? tag : "" };

        TIDEI_OUTSIDE(function(context, &block));
        free(tag);
    }
}

enum tide_status
tide_track_report(struct tide_resource *resource, tide_track_function function, void *context)
{
    TIDEI_INSIDE(resource);
    struct tidei_track_block *blocks;
    enum tide_status status;
    size_t count;

    if (function == NULL)
        return tide_error_set(TIDE_EINVAL, "track: no function to report to");
    status = report_list(resource, &blocks, &count);
    if (status != TIDE_OK)
        return status;
    report_each(blocks, count, function, context);
    free(blocks);
    return TIDE_OK;
}

static void
report_stack(struct tide_text *text, struct tidei_frames *frames, uint32_t callstack)
{
    const struct tidei_callstack *stack = tidei_callstack_get(callstack);

    for (uint32_t i = 0; stack != NULL && i < stack->count; i++) {
        struct tide_frame frame;

        tidei_frames_find(frames, stack->frames[i], &frame);
        tide_text_format(text, "    ");
        tidei_text_shown(text, frame.function[0] != '\0' ? frame.function : frame.module);
        if (frame.function[0] == '\0')
            tide_text_format(text, "+0x%llx", (unsigned long long)frame.offset);
        if (frame.file[0] != '\0') {
            tide_text_format(text, " (");
            tidei_text_shown(text, frame.file);
            tide_text_format(text, ":%u)", (unsigned)frame.line);
        }
        tide_text_format(text, "\n");
    }
}

/* The state of the text report. */
struct report {
    struct tide_text text;
    struct tidei_frames *frames;
};

static void
report_block(void *context, const struct tide_track_block *block)
{
    struct report *report = context;

    tide_text_format(&report->text, "%s at %p, thread %u, stream 0x%llx%s", tidei_size_text(block->bytes),
                     block->pointer, (unsigned)block->thread, (unsigned long long)block->stream,
                     block->tag[0] != '\0' ? ", tag " : "");
    tidei_text_shown(&report->text, block->tag);
    tide_text_format(&report->text, "\n");
    report_stack(&report->text, report->frames, block->callstack);
}

enum tide_status
tide_track_report_text(struct tide_resource *resource, size_t most, char *text, size_t capacity, size_t *needed)
{
    TIDEI_INSIDE(resource);
    struct report report = { .text = { text, text != NULL ? capacity : 0, 0 } };
    struct tidei_track_block *blocks;
    enum tide_status status;
    uint64_t bytes = 0;
    size_t count;

    if (report.text.capacity > 0)
        text[0] = '\0';
    if (needed != NULL)
        *needed = 0;
    status = report_list(resource, &blocks, &count);
    if (status != TIDE_OK)
        return status;
    report.frames = tidei_frames_begin();
    if (report.frames == NULL) {
        free(blocks);
        return tide_error_set(TIDE_ENOMEM, "track: no host memory for a report");
    }
    for (size_t i = 0; i < count; i++)
        bytes += blocks[i].bytes;
    tide_text_format(&report.text, "%zu blocks outstanding, %s\n", count, tidei_size_text(bytes));
    report_each(blocks, count < most ? count : most, report_block, &report);
    tidei_frames_end(report.frames);
    free(blocks);
    if (needed != NULL)
        *needed = report.text.length;
    return TIDE_OK;
}
