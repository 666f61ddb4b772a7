/* Tests the bases `cuda`, `managed` and `pinned` on a GPU: the contract, their special features, and their refusals. */
#include "tests/gpu/work.h"

#include "tests/contract.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

#define COMMON_TESTS 6

/* What all three bases have in common. No context is current on this thread. */
static void
test_common(const char *text)
{
    struct tide_resource *base = gpu_stack("%s", text);
    uint64_t ordered = 2;
    CUcontext current = (CUcontext)&gpu;
    void *block = NULL;
    void *none = &gpu;

    ok(all_of(gpu_allocates(base, 3 * MIB + 1, NULL, &block), (uintptr_t)block % TIDE_DEFAULT_ALIGNMENT == 0),
       "%s: a thread without a context allocates", text);
    is_u64(gpu_figure(base, TIDE_QUERY_BYTES_USED), 3 * MIB + 1, "the allocated bytes are counted");
    ok(all_of(tide_query(base, TIDE_QUERY_STREAM_ORDERED, &ordered) == TIDE_OK, ordered == 0),
       "%s: the base is not stream ordered", text);
    ok(all_of(tide_allocate(base, MIB, 512, 0, &none) == TIDE_EINVAL, none == NULL),
       "%s: an alignment of 512 is refused", text);
    none = &gpu;
    ok(all_of(tide_allocate(base, SIZE_MAX / 2, 256, 0, &none) == TIDE_ECAPACITY, none == NULL,
              tide_error_driver() == CUDA_ERROR_OUT_OF_MEMORY, strstr(tide_error_text(), "CUDA_ERROR_OUT_OF_MEMORY")),
       "%s: a request that no machine can serve is refused with the driver's error", text);
    diag("%s", tide_error_text());
    ok(all_of(gpu_frees(base, block, 3 * MIB + 1, NULL), gpu_figure(base, TIDE_QUERY_BYTES_USED) == 0,
              gpu.context_get(&current) == CUDA_SUCCESS, current == NULL),
       "%s: the block is freed, and the thread has no context afterwards", text);
    tide_resource_release(base);
}

#define FOREIGN_TESTS 5

/* The driver would free all of these blocks; each base frees only its own. */
static void
test_foreign(const char *text, const char *other_text)
{
    struct tide_resource *base = gpu_stack("%s", text);
    struct tide_resource *other = gpu_stack("%s", other_text);
    void *block = NULL;
    void *foreign = NULL;

    gpu_allocates(base, MIB, NULL, &block);
    gpu_allocates(other, 2 * MIB, NULL, &foreign);
    ok(tide_deallocate(base, foreign, MIB, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_EPOINTER, "%s: a block of %s is refused",
       text, other_text);
    diag("%s", tide_error_text());
    ok(all_of(tide_deallocate(base, foreign, 2 * MIB, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_EPOINTER,
              gpu_figure(base, TIDE_QUERY_BYTES_USED) == MIB, gpu_figure(other, TIDE_QUERY_BYTES_USED) == 2 * MIB),
       "%s: another base's block that is larger than all bytes in use is refused, and no figure changes", text);
    ok(all_of(tide_deallocate(base, block, MIB - 1, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_EMISMATCH,
              gpu_figure(base, TIDE_QUERY_BYTES_USED) == MIB),
       "%s: a free with a wrong size is refused", text);
    diag("%s", tide_error_text());
    ok(all_of(gpu_frees(base, block, MIB, NULL), gpu_frees(other, foreign, 2 * MIB, NULL)),
       "%s: after refused frees both bases free their own blocks", text);
    ok(all_of(gpu_figure(base, TIDE_QUERY_BYTES_USED) == 0, gpu_figure(other, TIDE_QUERY_BYTES_USED) == 0),
       "%s: after the frees nothing is left in use on both bases", text);
    tide_resource_release(base);
    tide_resource_release(other);
}

#define RESET_TESTS 3

/* A block that was destroyed with its context is not confused with a later one at the same address. */
static void
test_reset(const char *text)
{
    struct tide_resource *base = gpu_stack("%s", text);
    CUcontext own = NULL;
    CUcontext popped;
    void *before = NULL;
    void *after = NULL;

    gpu.context_create(&own, 0, 0);
    gpu_allocates(base, MIB, NULL, &before);
    ok(gpu.context_destroy(own) == CUDA_SUCCESS, "%s: the application destroys a context with a block in it", text);
    gpu.context_create(&own, 0, 0);
    ok(all_of(gpu_allocates(base, 2 * MIB, NULL, &after), gpu_frees(base, after, 2 * MIB, NULL)),
       "%s: after the destroyed context a block is allocated and freed in another one", text);
    diag("%p then %p", before, after);
    is_u64(gpu_figure(base, TIDE_QUERY_BYTES_USED), after == before ? 0 : MIB,
           "a block of the destroyed context is counted until its address is allocated again");
    gpu.context_pop(&popped);
    gpu.context_destroy(own);
    tide_resource_release(base);
}

#define BOTH_TESTS 4

/* The host writes, a kernel adds, and the host reads. */
static void
test_host(struct gpu_work *work, const char *text)
{
    struct tide_resource *base = gpu_stack("%s", text);
    volatile uint32_t *words;
    uint32_t right = 0;
    uint64_t host = 0;
    void *block = NULL;

    if (base == NULL) {
        skip(BOTH_TESTS, tide_error_text());
        return;
    }
    ok(all_of(tide_query(base, TIDE_QUERY_HOST_ACCESS, &host) == TIDE_OK, host == 1), "%s: the host has access", text);
    if (!ok(gpu_allocates(base, MIB, work->first, &block), "%s: 1 MiB is allocated", text)) {
        skip(BOTH_TESTS - 2, "there is no memory");
        goto out;
    }
    words = block;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i;
    gpu_add(&work->kernels, work->first, block, WORDS, 1000);
    gpu.stream_synchronize(work->first);
    for (uint32_t i = 0; i < WORDS; i++)
        right += words[i] == i + 1000;
    ok(right == WORDS, "%s: a kernel has added to what the host wrote", text);
    ok(gpu_frees(base, block, MIB, work->first), "%s: the memory that a kernel wrote to is freed", text);
out:
    tide_resource_release(base);
}

#define FALLBACK_TESTS 2

static void
test_fallback(void)
{
    struct tide_resource *base = gpu_stack("driver(fallback=cuda)");
    uint64_t pools = 0;

    tide_device_query(0, TIDE_QUERY_POOLS, &pools);
    is_string(base != NULL ? tide_resource_name(base) : "none", pools != 0 ? "driver" : "cuda",
              "driver(fallback=cuda) is the base cuda exactly if the device has no pools");
    ok(all_of(base != NULL, gpu_figure(base, TIDE_QUERY_DEVICE) == 0), "the fallback lies on the same device");
    tide_resource_release(base);
}

static struct tide_resource *
contract_create(void *context)
{
    return gpu_stack("%s", (const char *)context);
}

static void
check_contract(const char *name)
{
    struct contract contract = { .name = name,
                                 .create = contract_create,
                                 .context = (void *)(uintptr_t)name,
                                 .largest_bytes = MIB,
                                 .knows_pointers = true };

    contract_check(&contract);
}

int
main(void)
{
    const char *reason = gpu_open();
    struct gpu_work work = { 0 };

    if (reason != NULL)
        skip_all(reason);
    plan(3 * COMMON_TESTS + 5 * FOREIGN_TESTS + RESET_TESTS + 6 * BOTH_TESTS + FALLBACK_TESTS + 3 * CONTRACT_TESTS);
    gpu_diag();
    test_common("cuda");
    test_common("managed");
    test_common("pinned");
    test_foreign("cuda", "cuda");
    test_foreign("cuda", "managed");
    test_foreign("managed", "cuda");
    test_foreign("pinned", "managed");
    test_foreign("cuda", "driver");
    test_reset("cuda");
    test_fallback();
    check_contract("cuda");
    check_contract("managed");
    check_contract("pinned");
    if (gpu_work_open(&work, 0)) {
        test_host(&work, "managed");
        test_host(&work, "managed(preferred=host)");
        test_host(&work, "managed(preferred=device, read_mostly=true)");
        test_host(&work, "pinned");
        test_host(&work, "pinned(portable=true, mapped=true)");
        test_host(&work, "pinned(write_combined=true)");
    } else {
        skip(6 * BOTH_TESTS, "this device cannot run the tests' kernels");
    }
    gpu_work_close(&work);
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
