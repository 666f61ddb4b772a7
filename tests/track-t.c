/* Tests adaptors/track/track.c and adaptors/track/table.c. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "tap.h"
#include "trace.h"
#include "upstream.h"

#define THREADS  8
#define STEPS    20000
#define MANY     5000
#define FREES    20000
#define NOINLINE __attribute__((noinline))

/* Keeps a call from being a tail call, so that its frame stays. */
#define STAY() __asm__ volatile("" ::: "memory")

/* A track layer over `upstream`. Takes over the reference. */
static struct tide_resource *
over(struct tide_resource *upstream, uint32_t depth)
{
    const struct tide_track_options options = { TIDE_OPTIONS(options), .callstack_depth = depth };
    struct tide_resource *track;

    if (tide_track_create(upstream, &options, &track) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return track;
}

NOINLINE void *
take_in_a_function(struct tide_resource *track, size_t bytes)
{
    void *pointer = NULL;

    if (tide_allocate(track, bytes, 256, 7, &pointer) != TIDE_OK)
        diag("%s", tide_error_text());
    STAY();
    return pointer;
}

NOINLINE enum tide_status
give_in_a_function(struct tide_resource *track, void *pointer, size_t bytes)
{
    enum tide_status status = tide_deallocate(track, pointer, bytes, 256, 7);

    STAY();
    return status;
}

NOINLINE enum tide_status
give_in_another(struct tide_resource *track, void *pointer, size_t bytes)
{
    enum tide_status status = tide_deallocate(track, pointer, bytes, 256, 7);

    STAY();
    return status;
}

/* The blocks of a report, in its order. */
struct blocks {
    size_t count;
    struct tide_track_block seen[16];
    char tags[16][64];
};

static void
blocks_add(void *context, const struct tide_track_block *block)
{
    struct blocks *blocks = context;

    if (blocks->count < 16) {
        blocks->seen[blocks->count] = *block;
        snprintf(blocks->tags[blocks->count], sizeof(blocks->tags[0]), "%s", block->tag);
    }
    blocks->count++;
}

static struct blocks
report_of(struct tide_resource *track)
{
    struct blocks blocks = { .count = 0 };

    if (tide_track_report(track, blocks_add, &blocks) != TIDE_OK)
        diag("report: %s", tide_error_text());
    return blocks;
}

/* The functions of a call stack, the innermost first, as far as there is room. */
struct functions {
    char text[512];
};

static void
functions_add(void *context, const struct tide_frame *frame)
{
    struct functions *functions = context;
    size_t length = strlen(functions->text);

    snprintf(functions->text + length, sizeof(functions->text) - length, "%s ", frame->function);
}

static const char *
functions_of(uint32_t callstack)
{
    static struct functions functions;

    functions.text[0] = '\0';
    if (tide_callstack_frames(callstack, functions_add, &functions) != TIDE_OK)
        diag("call stack %u: %s", callstack, tide_error_text());
    return functions.text;
}

/* Whether the names of functions can be found. */
static bool
names_are_known(void)
{
#ifdef HAVE_ELFUTILS_LIBDWFL_H
    return dlopen("libdw.so.1", RTLD_NOW) != NULL;
#else
    return false;
#endif
}

#define REPORT_TESTS 9

static NOINLINE void
check_report(const struct base_maker *base)
{
    struct tide_resource *track = over(base->create(0), 16);
    void *small, *large, *empty, *middle;
    struct blocks blocks;
    char text[4096];
    size_t needed;

    tide_tag_push("train");
    small = take_in_a_function(track, 100);
    tide_tag_push("forward");
    large = take_in_a_function(track, 5000);
    tide_tag_pop();
    tide_tag_pop();
    middle = take_in_a_function(track, 700);
    empty = take_in_a_function(track, 0);
    blocks = report_of(track);
    ok(all_of(blocks.count == 3, blocks.seen[0].pointer == large, blocks.seen[1].pointer == middle,
              blocks.seen[2].pointer == small),
       "%s: the report lists the live blocks, the largest first", base->name);
    ok(all_of(blocks.seen[0].bytes == 5000, blocks.seen[0].alignment == 256, blocks.seen[0].stream == 7,
              blocks.seen[0].thread == (uint32_t)getpid()),
       "a block in the report has its size, alignment, stream and thread");
    ok(all_of(strcmp(blocks.tags[0], "train/forward") == 0, strcmp(blocks.tags[1], "") == 0,
              strcmp(blocks.tags[2], "train") == 0),
       "a block in the report has its tag");
    ok(all_of(blocks.seen[0].callstack != 0, blocks.seen[0].callstack != blocks.seen[1].callstack),
       "a block in the report has its call stack");
    if (names_are_known())
        ok(strncmp(functions_of(blocks.seen[0].callstack), "take_in_a_function check_report main ", 36) == 0,
           "a call stack in the report begins with the function that called the library");
    else
        skip(1, "there is no libdw");
    ok(all_of(tide_track_report_text(track, 1, text, sizeof(text), &needed) == TIDE_OK, needed == strlen(text),
              strncmp(text, "3 blocks outstanding, 5.66 KiB\n4.88 KiB at ", 43) == 0, strstr(text, "700 B") == NULL,
              strstr(text, ", tag train/forward\n    ") != NULL),
       "the report in text has as many blocks as requested, with their frames");
    ok(all_of(tide_track_report_text(track, 9, text, 20, &needed) == TIDE_OK, needed > 100, strlen(text) == 19),
       "the report in text may be cut to the buffer");
    give_in_a_function(track, small, 100);
    give_in_a_function(track, large, 5000);
    give_in_a_function(track, middle, 700);
    is_u64(report_of(track).count, 0, "a freed block is not in the report");
    ok(all_of(tide_deallocate(track, empty, 0, 256, 7) == TIDE_OK,
              tide_deallocate(track, NULL, 0, 256, 7) == TIDE_EPOINTER),
       "allocations of 0 bytes are freed as often as they were made, and no more");
    tide_resource_release(track);
}

#define SIZE_TESTS 9

/* The size of a block, by its pointer. */
static void
check_size(void)
{
    struct tide_resource *base = base_host(0), *track = over(base, 0);
    void *pointer = take_in_a_function(track, 100);
    uint64_t bytes = 5;

    ok(tide_track_size(track, pointer, &bytes) == TIDE_OK, "the size of a live block is known");
    is_u64(bytes, 100, "the size of a live block is the requested one");
    ok(tide_track_size(track, (char *)pointer + 1, &bytes) == TIDE_EPOINTER,
       "an address inside of a block has no size");
    is_u64(bytes, 0, "the size of an unknown address is set to 0");
    has_words(tide_error_text(), "was not allocated here", "the error for an unknown address says why it has no size");
    give_in_a_function(track, pointer, 100);
    ok(tide_track_size(track, pointer, &bytes) == TIDE_EPOINTER && bytes == 0, "a freed block has no size");
    has_words(tide_error_text(), "it was freed by thread", "the error for a freed block says which thread freed it");
    ok(tide_track_size(track, NULL, &bytes) == TIDE_EPOINTER, "NULL has no size");
    ok(tide_track_size(track->upstream, pointer, &bytes) == TIDE_EINVAL && bytes == 0,
       "a resource that is not a track resource knows no sizes");
    tide_resource_release(track);
}

#define WRONG_TESTS 12

static void
check_wrong(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *track = over(&upstream->base, 16);
    void *pointer = take_in_a_function(track, 1024);
    uint64_t calls = upstream->deallocate_calls;

    is_u64(give_in_a_function(track, pointer, 512), TIDE_EMISMATCH, "a free with another size is refused");
    has_words(tide_error_text(), "freed as 512 B by ", "the refusal of a wrong size names it");
    has_words(tide_error_text(), "; allocated as 1024 B by ", "the refusal of a wrong size names the allocated size");
    is_u64(tide_deallocate(track, pointer, 1024, 64, 7), TIDE_EMISMATCH, "a free with another alignment is refused");
    is_u64(tide_deallocate(track, (char *)pointer + 8, 1024, 256, 7), TIDE_EPOINTER,
           "a free of a pointer inside of a block is refused");
    has_words(tide_error_text(), "was not allocated here",
              "the refusal of an unknown pointer says that it was not allocated here");
    ok(all_of(upstream->deallocate_calls == calls, report_of(track).count == 1, upstream->live_count == 1),
       "refused frees do not reach upstream, and the block stays live");
    is_u64(give_in_a_function(track, pointer, 1024), TIDE_OK, "a right free after refused ones succeeds");
    is_u64(give_in_another(track, pointer, 1024), TIDE_EPOINTER, "a double free is refused");
    has_words(tide_error_text(), "double free of 0x", "the refusal of a double free says so");
    ok(all_of(strstr(tide_error_text(), "(1 KiB): allocated by ") != NULL,
              strstr(tide_error_text(), "; freed by ") != NULL, strstr(tide_error_text(), "; again by ") != NULL),
       "the refusal of a double free names the allocation, the first free and the second free");
    is_u64(upstream->wrong_frees, 0, "no wrong free has reached upstream");
    tide_resource_release(track);
}

#define FREED_TESTS 4

static void
check_freed(void)
{
    struct tide_resource *track = over(base_sim(0), 0);
    void *first = take_in_a_function(track, 64), **many = calloc(FREES, sizeof(*many));

    give_in_a_function(track, first, 64);
    give_in_a_function(track, first, 64);
    has_words(tide_error_text(), "double free", "without call stacks a double free is recognised");
    for (int i = 0; i < FREES; i++)
        many[i] = take_in_a_function(track, 64);
    for (int i = 1; i < FREES; i++)
        give_in_a_function(track, many[i], 64);
    is_u64(give_in_a_function(track, many[1], 64), TIDE_EPOINTER, "a double free of long ago is refused");
    has_words(tide_error_text(), "double free",
              "a double free of long ago is recognised if its place in the table was not needed");
    is_u64(give_in_a_function(track, many[0], 64), TIDE_OK, "a live block is freed between double frees");
    free(many);
    tide_resource_release(track);
}

#define UPSTREAM_TESTS 10

static void
check_upstream(void)
{
    struct upstream *upstream = upstream_create();
    void *const chosen[] = { (void *)0x10000, (void *)0x10000, NULL };
    struct tide_resource *track = over(&upstream->base, 8);
    void *pointer, *again = &pointer;

    upstream->fail_allocate = 1;
    ok(all_of(tide_allocate(track, 8, 8, 0, &pointer) == TIDE_ECAPACITY, report_of(track).count == 0),
       "a request that upstream has refused is not in the report");
    pointer = take_in_a_function(track, 32);
    upstream->fail_deallocate = 1;
    ok(give_in_a_function(track, pointer, 32) != TIDE_OK, "a free that upstream refuses fails");
    is_u64(report_of(track).count, 1, "a block whose free upstream has refused is in the report");
    is_u64(give_in_a_function(track, pointer, 32), TIDE_OK,
           "a block whose free upstream has refused can be freed again");
    upstream->chosen = chosen;
    upstream->chosen_count = 3;
    pointer = take_in_a_function(track, 32);
    ok(all_of(tide_allocate(track, 32, 256, 0, &again) == TIDE_EPOINTER, again == NULL),
       "an address that upstream gives out twice is refused");
    has_words(tide_error_text(), "track: upstream gave out 0x10000 to ",
              "the failure of an address given out twice names the address");
    ok(all_of(tide_allocate(track, 4096, 256, 0, &again) == TIDE_EUPSTREAM, again == NULL),
       "an upstream that returns NULL with success fails the request");
    has_words(tide_error_text(), "track: upstream gave NULL for 4 KiB",
              "the failure of NULL with success names the size");
    is_u64(tide_deallocate(track, NULL, 0, 256, 0), TIDE_EPOINTER,
           "NULL from upstream is not counted as an allocation of 0 bytes");
    ok(all_of(give_in_a_function(track, pointer, 32) == TIDE_OK, upstream->wrong_frees == 0),
       "the first allocation of an address that was given out twice is freed");
    tide_resource_release(track);
}

#define TRACE_TESTS 9

/* The begin of the call stack in a column of the row of a misuse. */
static const char *
misuse_stack(const char *path, const char *kind, const char *column)
{
    return sql_text(path,
                    "SELECT group_concat(function, ' ') FROM (SELECT function FROM misuse JOIN callstack ON"
                    " callstack.callstack_id = misuse.%s JOIN frame USING (frame_id) WHERE kind = '%s'"
                    " ORDER BY position LIMIT 2)",
                    column, kind);
}

static NOINLINE void
check_trace(void)
{
    const char *path = scratch("misuse.db");
    struct tide_resource *track = stack_of("track(callstack=16) | log(%s) | host", path);
    void *pointer = take_in_a_function(track, 1024);
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };

    give_in_another(track, pointer, 100);
    give_in_a_function(track, pointer, 1024);
    give_in_another(track, pointer, 1024);
    give_in_another(track, (void *)(uintptr_t)16, 1);
    tide_resource_release(track);
    ok(trace_is_whole(path), "a trace with misuse is whole");
    is_string(sql_text(path, "SELECT group_concat(kind) FROM (SELECT kind FROM misuse ORDER BY ns)"),
              "wrong_size,double_free,unknown_pointer", "each misuse is a row in the trace");
    is_string(sql_text(path, "SELECT size || ' ' || alignment || ' ' || known_size || ' ' || known_alignment"
                             " FROM misuse WHERE kind = 'wrong_size'"),
              "100 256 1024 256", "a row of misuse has the sizes of the free and of the allocation");
    is_i64(sql_number(path, "SELECT address FROM misuse WHERE kind = 'unknown_pointer' AND alloc_callstack_id IS NULL"
                            " AND known_size IS NULL AND free_os_tid IS NULL"),
           16, "a row for an unknown pointer has no known allocation");
    is_i64(sql_number(path, "SELECT count(*) FROM misuse JOIN thread USING (thread_id)"
                            " WHERE alloc_os_tid = os_tid AND callstack_id IS NOT NULL"),
           2, "a row of misuse has the thread of the allocation");
    if (tide_trace_resolve(path, &frames) != TIDE_OK || frames.resolved == 0) {
        skip(4, "there is no libdw");
        return;
    }
    is_string(misuse_stack(path, "double_free", "alloc_callstack_id"), "take_in_a_function check_trace",
              "a double free names the stack of its allocation");
    is_string(misuse_stack(path, "double_free", "free_callstack_id"), "give_in_a_function check_trace",
              "a double free names the stack of the first free");
    is_string(misuse_stack(path, "double_free", "callstack_id"), "give_in_another check_trace",
              "a double free names the stack of the second free");
    is_string(misuse_stack(path, "wrong_size", "alloc_callstack_id"), "take_in_a_function check_trace",
              "a wrong size names the stack of the allocation");
}

#define USE_TESTS 7

static void
check_use(void)
{
    struct tide_track_options options = { TIDE_OPTIONS(options), .callstack_depth = TIDE_CALLSTACK_MOST + 1 };
    struct tide_resource *base = base_host(0), *track = base, *stack = NULL;
    char text[200];

    ok(all_of(tide_track_create(NULL, NULL, &track) == TIDE_EINVAL, track == NULL),
       "NULL in place of upstream is refused");
    ok(tide_track_create(base, NULL, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
    ok(all_of(tide_track_create(base, &options, &track) == TIDE_EINVAL,
              strstr(tide_error_text(), "at most 128") != NULL),
       "a call stack depth over the maximum is refused");
    ok(all_of(tide_track_report(base, blocks_add, NULL) == TIDE_EINVAL,
              tide_track_report(NULL, blocks_add, NULL) == TIDE_EINVAL,
              tide_track_report_text(base, 1, text, sizeof(text), NULL) == TIDE_EINVAL, text[0] == '\0'),
       "a report of another kind of resource is refused");
    tide_resource_release(base);
    ok(all_of(tide_stack_parse("track(callstack=16, unwind=dwarf) | track | sim", &stack) == TIDE_OK,
              tide_describe(stack, text, sizeof(text), NULL) == TIDE_OK,
              strcmp(text, "track(callstack=16, unwind=dwarf) | track | sim") == 0),
       "the description of a track layer is stack text that makes it again");
    ok(tide_track_report(stack, NULL, NULL) == TIDE_EINVAL, "a report without a function is refused");
    tide_resource_release(stack);
    ok(tide_stack_parse("track(callstack=129) | sim", &stack) == TIDE_ESYNTAX,
       "a call stack depth over the maximum is refused in stack text");
}

struct worker {
    pthread_t thread;
    struct tide_resource *track;
    uint64_t seed;
    unsigned wrong;
};

/* Random allocations, frees, and wrong frees, each of which has its status. */
static void *
worker_run(void *argument)
{
    struct worker *worker = argument;
    void *pointers[64] = { NULL };

    for (int i = 0; i < STEPS; i++) {
        unsigned slot = (unsigned)(contract_random(&worker->seed) % 64);
        size_t bytes = 32 + slot;

        if (pointers[slot] == NULL) {
            worker->wrong += tide_allocate(worker->track, bytes, 256, 0, &pointers[slot]) != TIDE_OK;
            continue;
        }
        if (contract_random(&worker->seed) % 16 == 0)
            worker->wrong += tide_deallocate(worker->track, pointers[slot], bytes + 1, 256, 0) != TIDE_EMISMATCH;
        worker->wrong += tide_deallocate(worker->track, pointers[slot], bytes, 256, 0) != TIDE_OK;
        pointers[slot] = NULL;
    }
    for (unsigned slot = 0; slot < 64; slot++) {
        if (pointers[slot] != NULL)
            worker->wrong += tide_deallocate(worker->track, pointers[slot], 32 + slot, 256, 0) != TIDE_OK;
    }
    return NULL;
}

#define THREADS_TESTS 3

static void
check_threads(void)
{
    struct tide_resource *track = over(base_sim(0), 16);
    struct worker workers[THREADS];
    uint64_t seed = contract_seed(20261);
    unsigned wrong = 0;
    void **many = calloc(MANY, sizeof(*many));

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .track = track, .seed = seed + i };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        report_of(track);
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    is_u64(wrong, 0, "threads allocate and free at once, and each wrong free has its status");
    is_u64(report_of(track).count, 0, "after the threads no block is in the report");
    for (int i = 0; i < MANY; i++)
        many[i] = take_in_a_function(track, 8);
    is_u64(report_of(track).count, MANY, "the report of many blocks has them all");
    for (int i = 0; i < MANY; i++)
        give_in_a_function(track, many[i], 8);
    free(many);
    tide_resource_release(track);
}

#define FORK_TESTS 1

static int
child_run(void *argument)
{
    struct tide_resource *track = argument;
    void *pointer = take_in_a_function(track, 50);
    struct blocks blocks = report_of(track);

    return blocks.count == 2 && blocks.seen[0].thread == (uint32_t)getpid() &&
                   give_in_a_function(track, pointer, 50) == TIDE_OK
               ? 0
               : 1;
}

static void
check_fork(void)
{
    struct tide_resource *track = over(base_host(0), 16);
    void *pointer = take_in_a_function(track, 40);

    is_i64(in_child(child_run, track), 0, "a forked child knows its parent's blocks, and tracks its own");
    give_in_a_function(track, pointer, 40);
    tide_resource_release(track);
}

static struct tide_resource *
contract_create(void *context)
{
    const struct base_maker *base = context;

    return over(base->create(0), 16);
}

int
main(void)
{
    plan(BASE_COUNT * (CONTRACT_TESTS + REPORT_TESTS) + WRONG_TESTS + FREED_TESTS + UPSTREAM_TESTS + TRACE_TESTS +
         USE_TESTS + THREADS_TESTS + FORK_TESTS + SIZE_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        const struct contract contract = { .name = "track",
                                           .create = contract_create,
                                           .context = (void *)&bases[i],
                                           .largest_bytes = 65536,
                                           .knows_pointers = true };

        contract_check(&contract);
        check_report(&bases[i]);
    }
    check_size();
    check_wrong();
    check_freed();
    check_upstream();
    check_trace();
    check_use();
    check_threads();
    check_fork();
    return done();
}
