/* Tests adaptors/aligned.c. */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "tap.h"
#include "texts.h"
#include "upstream.h"

#define KIB     ((size_t)1 << 10)
#define MIB     ((size_t)1 << 20)
#define THREADS 4
#define STEPS   4000

static struct tide_resource *
over(struct tide_resource *upstream, uint64_t alignment_bytes, uint64_t above_bytes)
{
    struct tide_aligned_options options = { TIDE_OPTIONS(options), .alignment_bytes = alignment_bytes,
                                            .above_bytes = above_bytes };
    struct tide_resource *aligned;

    if (tide_aligned_create(upstream, &options, &aligned) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return aligned;
}

/* Upstream gives out odd multiples of 256 only, so that an address with a larger alignment is no accident. */
#define ODD(multiple) ((void *)(UINT64_C(0x200000000000) + 256 * (multiple)))

#define ALIGN_TESTS 14

static void
check_alignment(void)
{
    void *const chosen[] = { ODD(1), ODD(3), ODD(4096), ODD(4097), ODD(9001), ODD(9002) };
    struct upstream *upstream = upstream_create();
    struct tide_resource *aligned = over(&upstream->base, 0, 0);
    void *a, *b, *c, *d;

    upstream->chosen = chosen;
    upstream->chosen_count = 6;
    ok(all_of(tide_allocate(aligned, 100, 256, 0, &a) == TIDE_OK, a == ODD(1), upstream->last_bytes == 100),
       "a request for an alignment of 256 passes unchanged");
    ok(all_of(tide_allocate(aligned, 100, 4096, 0, &b) == TIDE_OK, b == ODD(16),
              upstream->last_bytes == 100 + 4096 - 256, upstream->last_alignment == 256),
       "a request for a larger alignment is placed inside a larger upstream block");
    ok(all_of(tide_allocate(aligned, 100, 4096, 5, &c) == TIDE_OK, c == ODD(4096), upstream->last_stream == 5),
       "an upstream block that has the larger alignment by chance is used from its start");
    ok(all_of(tide_allocate(aligned, 1, MIB, 0, &d) == TIDE_OK, (uintptr_t)d % MIB == 0, d >= ODD(4097)),
       "a request is aligned to a megabyte");
    ok(all_of(tide_deallocate(aligned, b, 100, 4096, 0) == TIDE_OK, tide_deallocate(aligned, a, 100, 256, 0) == TIDE_OK,
              tide_deallocate(aligned, d, 1, MIB, 0) == TIDE_OK, tide_deallocate(aligned, c, 100, 4096, 7) == TIDE_OK,
              upstream->last_stream == 7),
       "blocks of large alignments all go back");
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0),
       "the blocks of large alignments go back with the addresses, sizes and alignments that upstream gave");
    ok(all_of(tide_deallocate(aligned, b, 100, 4096, 0) == TIDE_EPOINTER, upstream->deallocate_calls == 4),
       "a second free of a block of a large alignment is refused");
    ok(all_of(tide_allocate(aligned, 0, 1 << 20, 0, &a) == TIDE_OK, a == NULL, upstream->last_bytes == 0,
              tide_deallocate(aligned, a, 0, 1 << 20, 0) == TIDE_OK),
       "0 bytes have every alignment");
    tide_resource_release(aligned);

    upstream = upstream_create();
    upstream->chosen = chosen;
    upstream->chosen_count = 6;
    aligned = over(&upstream->base, 4096, 1000);
    ok(all_of(tide_allocate(aligned, 1000, 1, 0, &a) == TIDE_OK, a == ODD(1), upstream->last_bytes == 1000),
       "a request of the size in the options gets the alignment that it asks for");
    ok(all_of(tide_allocate(aligned, 1001, 1, 0, &b) == TIDE_OK, b == ODD(16)),
       "a request one byte over the size in the options gets the alignment in the options");
    ok(all_of(tide_allocate(aligned, 1001, 2 * MIB, 0, &c) == TIDE_OK, (uintptr_t)c % (2 * MIB) == 0),
       "a request over the size in the options gets a larger alignment if it asks for one");
    ok(all_of(tide_allocate(aligned, 10, 8 * KIB, 0, &d) == TIDE_OK, (uintptr_t)d % (8 * KIB) == 0),
       "a request under the size in the options gets a large alignment if it asks for one");
    ok(all_of(tide_deallocate(aligned, a, 1000, 1, 0) == TIDE_OK, tide_deallocate(aligned, b, 1001, 1, 0) == TIDE_OK,
              tide_deallocate(aligned, c, 1001, 2 * MIB, 0) == TIDE_OK,
              tide_deallocate(aligned, d, 10, 8 * KIB, 0) == TIDE_OK),
       "small blocks of large alignments all go back");
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0),
       "the small blocks go back with the addresses, sizes and alignments that upstream gave");
    tide_resource_release(aligned);
}

#define FAILURE_TESTS 10

static void
check_failures(void)
{
    void *const chosen[] = { (void *)0x7010, ODD(7) };
    struct upstream *upstream = upstream_create();
    struct tide_resource *aligned = over(&upstream->base, 0, 0);
    void *pointer = &pointer;
    uint64_t figure;

    upstream->fail_allocate = 1;
    ok(all_of(tide_allocate(aligned, 1, KIB, 0, &pointer) == TIDE_ECAPACITY, pointer == NULL),
       "a failure of upstream is passed on");
    ok(all_of(tide_allocate(aligned, SIZE_MAX - KIB + 257, KIB, 0, &pointer) == TIDE_EOVERFLOW, pointer == NULL,
              upstream->allocate_calls == 1),
       "a size that overflows when the alignment is added is refused");
    ok(all_of(tide_allocate(aligned, SIZE_MAX - KIB + 256, KIB, 0, &pointer) == TIDE_ECAPACITY,
              upstream->allocate_calls == 2),
       "the largest size that does not overflow is asked of upstream");
    ok(all_of(tide_allocate(aligned, 1, (size_t)1 << 41, 0, &pointer) == TIDE_EINVAL, pointer == NULL),
       "an alignment over 1 TiB is refused");
    ok(all_of(tide_allocate(aligned, 1, (size_t)1 << 40, 0, &pointer) == TIDE_OK,
              tide_deallocate(aligned, pointer, 1, (size_t)1 << 40, 0) == TIDE_OK),
       "an alignment of 1 TiB is accepted");
    upstream->chosen = chosen;
    upstream->chosen_count = 2;
    ok(all_of(tide_allocate(aligned, 1, KIB, 0, &pointer) == TIDE_EUPSTREAM, pointer == NULL,
              upstream->live_count == 0),
       "memory that upstream has misaligned goes back and the request fails");
    is_string(tide_error_text(), "aligned: upstream gave 0x7010, expected a multiple of 256",
              "the error names the misaligned address and the expected alignment");
    ok(tide_allocate(aligned, 1, KIB, 0, &pointer) == TIDE_OK, "the allocation after a refused one succeeds");
    upstream->fail_deallocate = 1;
    ok(all_of(tide_deallocate(aligned, pointer, 1, KIB, 0) == TIDE_EDRIVER,
              tide_deallocate(aligned, pointer, 1, KIB, 0) == TIDE_OK, upstream->live_count == 0),
       "a block whose free upstream has refused can be freed again");
    ok(all_of(tide_query(aligned, TIDE_QUERY_ALIGNMENT, &figure) == TIDE_OK, figure == 256),
       "the layer's alignment is 256");
    tide_resource_release(aligned);
}

static struct tide_resource *between; /* its upstream allocates again in the middle of a free */
static void *between_pointer;

static void
take_between(void *context)
{
    struct gate *gate = context;

    (void)gate;
    tide_allocate(between, 10, KIB, 0, &between_pointer);
}

#define REUSE_TESTS 2

/* Upstream gives an address out again before its free has returned. */
static void
check_reuse(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(&upstream->base);
    void *pointer;

    upstream->reuse = true;
    between = over(&gate->base, 0, 0);
    tide_allocate(between, 10, KIB, 0, &pointer);
    gate->after_deallocate = take_between;
    gate->context = gate;
    ok(all_of(tide_deallocate(between, pointer, 10, KIB, 0) == TIDE_OK, between_pointer == pointer),
       "an address that upstream gives out again during its free belongs to the new allocation");
    ok(all_of(tide_deallocate(between, between_pointer, 10, KIB, 0) == TIDE_OK, upstream->live_count == 0),
       "the thread that was given the address again can free it");
    tide_resource_release(between);
}

static void *
run(void *context)
{
    uint64_t state = (uintptr_t)&state;
    uint64_t wrong = 0;

    for (int i = 0; i < STEPS; i++) {
        size_t alignment = (size_t)1 << contract_random(&state) % 16, bytes = contract_random(&state) % 5000;
        void *pointer;

        if (tide_allocate(context, bytes, alignment, 0, &pointer) != TIDE_OK || (uintptr_t)pointer % alignment != 0 ||
            tide_deallocate(context, pointer, bytes, alignment, 0) != TIDE_OK)
            wrong++;
    }
    return (void *)(uintptr_t)wrong;
}

#define THREAD_TESTS 2

static void
check_threads(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *aligned = over(&upstream->base, 512, 3000);
    pthread_t threads[THREADS];
    uint64_t wrong = 0;

    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, aligned);
    for (size_t i = 0; i < THREADS; i++) {
        void *seen;

        pthread_join(threads[i], &seen);
        wrong += (uintptr_t)seen;
    }
    is_u64(wrong, 0, "threads get every alignment up to 32 KiB");
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0), "all blocks of the threads go back to upstream");
    tide_resource_release(aligned);
}

static enum tide_status
refused(uint64_t alignment_bytes, uint64_t above_bytes)
{
    struct tide_aligned_options options = { TIDE_OPTIONS(options), .alignment_bytes = alignment_bytes,
                                            .above_bytes = above_bytes };
    struct upstream *upstream = upstream_create();
    struct tide_resource *aligned = &upstream->base;
    enum tide_status status = tide_aligned_create(&upstream->base, &options, &aligned);

    if (aligned != NULL)
        status = TIDE_OK;
    tide_resource_release(aligned);
    tide_resource_release(&upstream->base);
    return status;
}

#define BAD_TESTS 4

static void
check_bad_input(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *aligned;

    ok(all_of(refused(3, 0) == TIDE_EINVAL, refused(UINT64_MAX, 0) == TIDE_EINVAL),
       "an alignment that is no power of two is refused");
    ok(all_of(refused(TIDE_ALIGNED_MOST * 2, 0) == TIDE_EINVAL, refused(UINT64_C(1) << 63, 0) == TIDE_EINVAL,
              refused(TIDE_ALIGNED_MOST, 0) == TIDE_OK),
       "an alignment over 1 TiB is refused in the options and 1 TiB is accepted");
    ok(refused(0, 1) == TIDE_EINVAL, "alignment 0 with a size in the options is refused");
    ok(all_of(tide_aligned_create(NULL, NULL, &aligned) == TIDE_EINVAL, aligned == NULL,
              tide_aligned_create(&upstream->base, NULL, NULL) == TIDE_EINVAL,
              tide_aligned_create(&upstream->base, NULL, &aligned) == TIDE_OK),
       "NULL in place of a pointer is refused, and NULL options are accepted");
    tide_resource_release(aligned);
    tide_resource_release(&upstream->base);
}

static const struct stack_text texts[] = {
    { "aligned|sim", "aligned | sim" },
    { "aligned(2MiB)|sim", "aligned(2MiB) | sim" },
    { "aligned(alignment=4096, above=1MiB)|sim", "aligned(4KiB, above=1MiB) | sim" },
    { "aligned(1, above=5)|sim", "aligned(1, above=5) | sim" },
    { "aligned(above=5)|sim", "stack text, column 15: aligned: no alignment for requests over 5 B" },
    { "aligned(3)|sim",
      "stack text, column 9: aligned: argument 'alignment': '3' is no power of two, expected a power of "
      "two up to 1TiB, such as 2MiB" },
    { "aligned(2TiB)|sim",
      "stack text, column 9: aligned: argument 'alignment': '2TiB' is too large, expected a power of "
      "two up to 1TiB, such as 2MiB" },
};

#define TEXT_TESTS ((int)(sizeof(texts) / sizeof(texts[0])))

static struct tide_resource *
create(void *context)
{
    const struct base_maker *base = context;

    return over(base != NULL ? base->create(0) : &upstream_create()->base, 8 * KIB, 0);
}

int
main(void)
{
    plan(CONTRACT_TESTS * (BASE_COUNT + 1) + ALIGN_TESTS + FAILURE_TESTS + REUSE_TESTS + THREAD_TESTS + BAD_TESTS +
         TEXT_TESTS);
    for (size_t i = 0; i <= BASE_COUNT; i++) {
        const struct contract contract = { .name = "aligned",
                                           .create = create,
                                           .context = i < BASE_COUNT ? (void *)&bases[i] : NULL,
                                           .largest_bytes = 64 * KIB,
                                           .knows_pointers = true };

        contract_check(&contract);
    }
    check_alignment();
    check_failures();
    check_reuse();
    check_threads();
    check_bad_input();
    check_texts(texts, TEXT_TESTS);
    return done();
}
