/* Tests the base `vmm` on a GPU: blocks and their figures, memory that gets other addresses, streams, and refusals. */
#include "tests/gpu/lock.h"
#include "tests/gpu/work.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/resource/place.h"
#include "tests/contract.h"
#include "tests/gpu/parts.h"
#include "tests/gpu/process.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define PAGE  (2 * MIB) /* or a multiple of the device's, where that has larger pages */
#define WORDS ((uint32_t)(PAGE / sizeof(uint32_t)))

/* A time that is long beside a few calls of the driver; where it was not, nobody has to wait. */
#define WHILE_NS UINT64_C(100000000)

static struct tide_vmm_figures
figures_of(struct tide_resource *vmm)
{
    struct tide_vmm_figures figures = { TIDE_FIGURES(figures) };

    if (tide_vmm_read(vmm, &figures) != TIDE_OK)
        diag("%s", tide_error_text());
    return figures;
}

static void
say(struct tide_resource *vmm)
{
    struct tide_vmm_figures figures = figures_of(vmm);

    diag("%" PRIu64 " in use, %" PRIu64 " cached, %" PRIu64 " reserved in %" PRIu64 " handles, %" PRIu64
         " created, %" PRIu64 " released, %" PRIu64 " kept, %" PRIu64 " remapped, %" PRIu64 " orders, %" PRIu64
         " waits",
         figures.mapped_bytes, figures.cached_bytes, figures.reserved_bytes, figures.handles, figures.created,
         figures.released, figures.kept, figures.remapped, figures.orders, figures.waits);
}

static uint64_t
device_free(void)
{
    uint64_t bytes = 0;

    tide_device_query(0, TIDE_QUERY_DEVICE_FREE, &bytes);
    return bytes;
}

#define BLOCKS_TESTS 9

/* No context is current on this thread. */
static void
test_blocks(void)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    struct tide_vmm_figures figures;
    CUcontext current = (CUcontext)&gpu;
    void *block = NULL, *other = NULL, *none = &gpu;
    uint64_t page = gpu_figure(vmm, TIDE_QUERY_PAGE);

    ok(all_of(gpu_allocates(vmm, 3 * MIB, NULL, &block), (uintptr_t)block % page == 0, page >= 64 << 10),
       "a thread without a context allocates whole pages");
    ok(all_of(gpu_figure(vmm, TIDE_QUERY_BYTES_USED) == 3 * MIB,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == (3 * MIB + page - 1) / page * page),
       "a block counts as used as it was requested, and as reserved in pages");
    ok(all_of(gpu_figure(vmm, TIDE_QUERY_STREAM_ORDERED) == 1, gpu_figure(vmm, TIDE_QUERY_ALIGNMENT) == page,
              gpu_figure(vmm, TIDE_QUERY_CAPACITY) == gpu_figure(vmm, TIDE_QUERY_DEVICE_TOTAL),
              gpu_figure(vmm, TIDE_QUERY_LARGEST_REQUEST) == gpu_figure(vmm, TIDE_QUERY_CAPACITY)),
       "the base answers for its device");
    ok(all_of(tide_allocate(vmm, 1, 2 * page, 0, &none) == TIDE_EINVAL, none == NULL),
       "an alignment above a page is refused");
    ok(all_of(gpu_allocates(vmm, 1, NULL, &other), tide_deallocate(vmm, other, 2, 256, 0) == TIDE_EMISMATCH,
              tide_deallocate(vmm, (char *)other + 256, 1, 256, 0) == TIDE_EPOINTER, gpu_frees(vmm, other, 1, NULL),
              tide_deallocate(vmm, other, 1, 256, 0) == TIDE_EPOINTER),
       "a wrong size, a pointer into a block and a second free are refused");
    diag("%s", tide_error_text());
    ok(all_of(gpu_frees(vmm, block, 3 * MIB, NULL), gpu_figure(vmm, TIDE_QUERY_BYTES_USED) == 0,
              gpu.context_get(&current) == CUDA_SUCCESS, current == NULL),
       "the block is freed, and the thread has no context afterwards");
    is_u64(gpu_figure(vmm, TIDE_QUERY_BYTES_USED_HIGH), 3 * MIB + 1, "the most that was in use is exact");
    ok(all_of(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK, tide_trim(vmm, 0) == TIDE_OK,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0),
       "a trim after all streams gives everything back");
    figures = figures_of(vmm);
    ok(all_of(figures.handles == 0, figures.created == figures.released, figures.cached_bytes == 0),
       "after the trim every handle that was created is released");
    tide_resource_release(vmm);
}

#define REUSE_TESTS 8

static void
test_reuse(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    void *blocks[4] = { NULL }, *again = NULL, *large = NULL;
    struct tide_vmm_figures figures;
    bool done = true;

    for (int i = 0; i < 4; i++)
        done = gpu_allocates(vmm, PAGE, work->first, &blocks[i]) && done;
    ok(all_of(done, gpu_frees(vmm, blocks[0], PAGE, work->first), gpu_allocates(vmm, PAGE, work->first, &again),
              again == blocks[0], figures_of(vmm).kept == 1),
       "a request for the same size on the same stream takes the block back as it is");
    for (int i = 0; i < 4; i++)
        done = gpu_fill(&work->kernels, work->first, blocks[i], WORDS, 1) &&
               gpu_frees(vmm, blocks[i], PAGE, work->first) && done;
    ok(all_of(done, gpu_allocates(vmm, 4 * PAGE, work->first, &large)),
       "four blocks are freed, and one of their sum is allocated at once on the same stream");
    figures = figures_of(vmm);
    ok(all_of(figures.remapped == 4, figures.created == 4, figures.reserved_bytes == 4 * PAGE),
       "the large block has the memory of the four");
    is_u64(figures.waits, 0, "the host has not waited for the same stream");
    say(vmm);
    gpu_fill(&work->kernels, work->first, large, 4 * WORDS, 7);
    is_u64(gpu_count_wrong(&work->kernels, work->first, large, 4 * WORDS, 7), 0,
           "the large block holds what is written to it after the work on the four");
    ok(gpu_frees(vmm, large, 4 * PAGE, work->first), "the large block is freed");
    gpu.stream_synchronize(work->first);
    ok(all_of(gpu_allocates(vmm, 2 * PAGE, work->second, &again), figures_of(vmm).reserved_bytes <= 4 * PAGE,
              gpu_fill(&work->kernels, work->second, again, 2 * WORDS, 9),
              gpu_count_wrong(&work->kernels, work->second, again, 2 * WORDS, 9) == 0,
              gpu_frees(vmm, again, 2 * PAGE, work->second)),
       "a smaller block on another stream takes no more memory than was ever in use");
    is_u64(gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH), 4 * PAGE, "the base never held more than was in use");
    tide_resource_release(vmm);
}

#define PARTS_TESTS 7

/* What is left of a block, of which a handle has gone, and a new handle make another block of the same size. */
static void
test_broken(struct gpu_work *work, struct gpu_hold *hold)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    void *pages[2] = { NULL }, *large = NULL, *small = NULL, *other = NULL;
    bool done = true;

    for (int i = 0; i < 2; i++)
        done = gpu_allocates(vmm, PAGE, work->first, &pages[i]) && done;
    for (int i = 0; i < 2; i++)
        done = gpu_frees(vmm, pages[i], PAGE, work->first) && done;
    ok(all_of(done, gpu_allocates(vmm, 2 * PAGE, work->first, &large),
              gpu_hold_fill(hold, work->first, large, 2 * WORDS, 1), gpu_frees(vmm, large, 2 * PAGE, work->first),
              gpu_allocates(vmm, PAGE, work->first, &small), gpu_allocates(vmm, 2 * PAGE, work->second, &other),
              other != large, figures_of(vmm).created == 3),
       "a block of two handles gives one to a smaller block, and one to another of its own size");
    gpu_fill(&work->kernels, work->first, small, WORDS, 3);
    gpu_fill(&work->kernels, work->second, other, 2 * WORDS, 4);
    gpu_hold_go(hold);
    ok(all_of(gpu_count_wrong(&work->kernels, work->first, small, WORDS, 3) == 0,
              gpu_count_wrong(&work->kernels, work->second, other, 2 * WORDS, 4) == 0,
              gpu_count_wrong(&work->kernels, work->first, small, WORDS, 3) == 0,
              gpu_frees(vmm, small, PAGE, work->first), gpu_frees(vmm, other, 2 * PAGE, work->second)),
       "the two blocks share no memory");
    tide_resource_release(vmm);
}

/* A block of several handles that is on its way gives some of them to a smaller one. */
static void
test_parts(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    void *pages[4] = { NULL }, *large = NULL, *small = NULL, *other = NULL;
    struct gpu_hold hold = { 0 };
    bool done = gpu_hold_open(&hold);

    if (!done) {
        skip(PARTS_TESTS, "no kernel that waits");
        goto out;
    }
    test_broken(work, &hold);
    *hold.go = 0;
    for (int i = 0; i < 4; i++)
        done = gpu_allocates(vmm, PAGE, work->first, &pages[i]) && done;
    for (int i = 0; i < 4; i++)
        done = gpu_frees(vmm, pages[i], PAGE, work->first) && done;
    ok(all_of(done, gpu_allocates(vmm, 4 * PAGE, work->first, &large), figures_of(vmm).handles == 4,
              gpu_hold_fill(&hold, work->first, large, 4 * WORDS, 1), gpu_frees(vmm, large, 4 * PAGE, work->first)),
       "a block of four handles is freed while a kernel that will write to it is held");
    ok(all_of(gpu_allocates(vmm, 3 * PAGE, work->first, &small), gpu_allocates(vmm, PAGE, work->second, &other),
              figures_of(vmm).remapped == 8, figures_of(vmm).waits == 0, figures_of(vmm).created == 4),
       "two smaller blocks get its handles at once");
    gpu_fill(&work->kernels, work->first, small, 3 * WORDS, 3);
    gpu_fill(&work->kernels, work->second, other, WORDS, 4);
    gpu_hold_go(&hold);
    ok(all_of(gpu_count_wrong(&work->kernels, work->first, small, 3 * WORDS, 3) == 0,
              gpu_count_wrong(&work->kernels, work->second, other, WORDS, 4) == 0),
       "both smaller blocks hold what is written after the late kernel");
    ok(all_of(gpu_frees(vmm, small, 3 * PAGE, work->first), gpu_allocates(vmm, PAGE, work->first, &small),
              gpu_allocates(vmm, 2 * PAGE, work->first, &large), gpu_frees(vmm, small, PAGE, work->first),
              gpu_frees(vmm, large, 2 * PAGE, work->first), gpu_frees(vmm, other, PAGE, work->second)),
       "the parts come and go");
    ok(all_of(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK, tide_trim(vmm, 0) == TIDE_OK,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0, figures_of(vmm).handles == 0,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) == 4 * PAGE),
       "every part is given back, and no more was held than was in use");
out:
    gpu_hold_close(&hold);
    tide_resource_release(vmm);
}

#define STREAMS_TESTS 8

/* As long as less is held than was in use, streams do not wait for each other. Two pages were in use. */
static void
test_apart(struct gpu_work *work, struct tide_resource *vmm)
{
    struct gpu_hold hold = { 0 };
    void *first = NULL, *other = NULL;

    if (!gpu_hold_open(&hold)) {
        skip(2, "no kernel that waits");
        return;
    }
    ok(all_of(gpu_allocates(vmm, PAGE, work->first, &first), gpu_hold_fill(&hold, work->first, first, WORDS, 1),
              gpu_frees(vmm, first, PAGE, work->first), gpu_allocates(vmm, PAGE, work->second, &other), other != first,
              gpu_fill(&work->kernels, work->second, other, WORDS, 2),
              gpu.stream_synchronize(work->second) == CUDA_SUCCESS),
       "another stream gets other memory, and waits for nothing");
    gpu_hold_go(&hold);
    ok(all_of(gpu.stream_synchronize(work->first) == CUDA_SUCCESS,
              gpu_count_wrong(&work->kernels, work->second, other, WORDS, 2) == 0,
              gpu_frees(vmm, other, PAGE, work->second)),
       "the late kernel has not written to the other memory");
    gpu_hold_close(&hold);
}

/* Memory that is on its way on one stream, and is needed on another one. */
static void
test_streams(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    struct gpu_hold hold = { 0 };
    void *first = NULL, *again = NULL, *other = NULL;

    if (!gpu_hold_open(&hold)) {
        skip(STREAMS_TESTS, "no kernel that waits");
        goto out;
    }
    ok(all_of(gpu_allocates(vmm, PAGE, work->first, &first), gpu_allocates(vmm, PAGE, work->first, &other),
              gpu_hold_fill(&hold, work->first, first, WORDS, 1), gpu_frees(vmm, first, PAGE, work->first),
              gpu_frees(vmm, other, PAGE, work->first)),
       "two blocks are freed while a kernel that will write to one is held");
    ok(all_of(gpu_allocates(vmm, 2 * PAGE, work->second, &again), figures_of(vmm).orders == 2,
              figures_of(vmm).waits == 0, figures_of(vmm).reserved_bytes == 2 * PAGE),
       "another stream gets their memory at once, behind their work, and the base holds no more");
    gpu_fill(&work->kernels, work->second, again, 2 * WORDS, 2);
    ok(gpu.stream_query(work->second) == CUDA_ERROR_NOT_READY, "the other stream waits to write to it");
    gpu_hold_go(&hold);
    is_u64(gpu_count_wrong(&work->kernels, work->second, again, 2 * WORDS, 2), 0,
           "the late kernel has overwritten no word of the other stream's block");
    ok(gpu_frees(vmm, again, 2 * PAGE, work->second), "the other stream frees the block");
    ok(all_of(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK, tide_trim(vmm, 0) == TIDE_OK,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0),
       "nothing is held after all streams are done");
    say(vmm);
    test_apart(work, vmm);
out:
    gpu_hold_close(&hold);
    tide_resource_release(vmm);
}

#define WAITS_TESTS 3

/* The only free memory is of the wrong size, and its work is not done: the host waits rather than hold more. */
static void
test_waits(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    void *large = NULL, *small = NULL;

    ok(all_of(gpu_allocates(vmm, 4 * PAGE, work->first, &large), gpu_delay(&work->kernels, work->first, WHILE_NS),
              gpu_fill(&work->kernels, work->first, large, 4 * WORDS, 1), gpu_frees(vmm, large, 4 * PAGE, work->first),
              gpu_allocates(vmm, 3 * PAGE, work->second, &small)),
       "a smaller block is allocated while the work of the larger one goes on");
    ok(all_of(figures_of(vmm).waits <= 1, gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) == 4 * PAGE,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 3 * PAGE),
       "the host has waited rather than hold more than was in use");
    say(vmm);
    ok(all_of(gpu_fill(&work->kernels, work->second, small, 3 * WORDS, 3),
              gpu_count_wrong(&work->kernels, work->second, small, 3 * WORDS, 3) == 0,
              gpu_frees(vmm, small, 3 * PAGE, work->second)),
       "the smaller block is used and freed");
    tide_resource_release(vmm);
}

#define PLACE_TESTS 6

/* Allocate at a wished address. */
static void *
wished(struct tide_resource *vmm, void *address, size_t bytes)
{
    void *block = NULL;

    tidei_place_wish((uintptr_t)address);
    gpu_allocates(vmm, bytes, NULL, &block);
    return block;
}

static void
test_places(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    char *first = wished(vmm, NULL, PAGE), *other = wished(vmm, NULL, PAGE), *second, *third, *again;

    second = wished(vmm, first + PAGE, 2 * PAGE);
    third = wished(vmm, first + 3 * PAGE, PAGE);
    ok(all_of(second == first + PAGE, third == first + 3 * PAGE), "blocks lie side by side where that is wished");
    ok(all_of(other + PAGE <= first || other >= first + 1024 * PAGE / 8), "a block without a wish leaves room behind");
    ok(all_of(gpu_fill(&work->kernels, NULL, first, 4 * WORDS, 5),
              gpu_count_wrong(&work->kernels, NULL, first, 4 * WORDS, 5) == 0),
       "blocks side by side are used as one");
    again = wished(vmm, first, PAGE);
    ok(all_of(again != NULL, again != first, gpu_frees(vmm, again, PAGE, NULL)),
       "a wish for addresses in use is no failure");
    ok(all_of(gpu_frees(vmm, second, 2 * PAGE, NULL), gpu.context_synchronize() == CUDA_SUCCESS,
              (again = wished(vmm, second, PAGE)) == second, gpu_frees(vmm, again, PAGE, NULL)),
       "a smaller block lies in the gap where that is wished");
    gpu.context_synchronize();
    ok(all_of((again = wished(vmm, second, 2 * PAGE)) == second, gpu_fill(&work->kernels, NULL, first, 4 * WORDS, 6),
              gpu_count_wrong(&work->kernels, NULL, first, 4 * WORDS, 6) == 0, gpu_frees(vmm, again, 2 * PAGE, NULL),
              gpu_frees(vmm, first, PAGE, NULL), gpu_frees(vmm, third, PAGE, NULL), gpu_frees(vmm, other, PAGE, NULL)),
       "the gap is filled again, and its neighbours are as they were");
    say(vmm);
    tide_resource_release(vmm);
}

#define MAXIMUM_TESTS 5

static void
test_maximum(void)
{
    struct tide_resource *vmm = gpu_stack("vmm(maximum=%zu)", 8 * PAGE);
    uint64_t before = device_free();
    void *block = NULL, *more = &gpu;

    ok(all_of(gpu_allocates(vmm, 8 * PAGE, NULL, &block), tide_allocate(vmm, 1, 256, 0, &more) == TIDE_ECAPACITY,
              more == NULL, strstr(tide_error_text(), "maximum") != NULL),
       "the maximum is reached to the byte, and not passed");
    diag("%s", tide_error_text());
    ok(device_free() <= before - 8 * PAGE, "the device has less free memory meanwhile");
    ok(all_of(gpu_frees(vmm, block, 8 * PAGE, NULL), gpu_allocates(vmm, 1, NULL, &more), gpu_frees(vmm, more, 1, NULL)),
       "what was freed is available again");
    ok(all_of(tide_allocate(vmm, 8 * PAGE + 1, 256, 0, &more) == TIDE_ECAPACITY, more == NULL,
              tide_allocate(vmm, SIZE_MAX, 256, 0, &more) == TIDE_ECAPACITY),
       "a request above the maximum never reaches the driver");
    tide_resource_release(vmm);
    ok(device_free() + PAGE > before, "the device has all its memory back after the base");
}

#define POOL_TESTS 3

static void
test_pool(struct gpu_work *work)
{
    struct tide_resource *pool = gpu_stack("pool | vmm");
    void *blocks[64] = { NULL };
    uint32_t wrong = 0;
    bool done = true;

    for (uint32_t i = 0; i < 64 && done; i++)
        done = gpu_allocates(pool, (i + 1) * 4096, i % 2 ? work->first : work->second, &blocks[i]) &&
               gpu_fill(&work->kernels, i % 2 ? work->first : work->second, blocks[i], (i + 1) * 1024, i);
    ok(done, "a pool over the base serves 64 blocks of two streams");
    for (uint32_t i = 0; i < 64 && done; i++)
        wrong += gpu_count_wrong(&work->kernels, i % 2 ? work->first : work->second, blocks[i], (i + 1) * 1024, i) != 0;
    is_u64(wrong, 0, "every block of the pool holds what was written to it");
    for (uint32_t i = 0; i < 64 && done; i++)
        done = gpu_frees(pool, blocks[i], (i + 1) * 4096, i % 2 ? work->first : work->second);
    gpu.context_synchronize();
    ok(all_of(done, tide_trim(pool, 0) == TIDE_OK, gpu_figure(pool, TIDE_QUERY_BYTES_RESERVED) == 0),
       "the pool gives all memory back");
    tide_resource_release(pool);
}

#define OPTIONS_TESTS 13

static bool
is_refused(const char *text, enum tide_status wanted, const char *words)
{
    struct tide_resource *stack = NULL;
    enum tide_status status = tide_stack_parse(text, &stack);
    bool right = status == wanted && stack == NULL && strstr(tide_error_text(), words) != NULL;

    diag("%s: %s", tide_status_name(status), tide_error_text());
    tide_resource_release(stack);
    return right;
}

static void
test_options(void)
{
    struct tide_resource *stack = gpu_stack("vmm(maximum=50%%, granularity=4MiB, access=all, stress=true)");
    char text[256] = "";
    void *block = NULL;

    ok(is_refused("vmm(granularity=3MiB)", TIDE_ESYNTAX, "power of two"),
       "a granularity that is no power of two is refused");
    ok(is_refused("vmm(granularity=4KiB)", TIDE_EINVAL, "below the"), "a granularity below the device's is refused");
    ok(is_refused("vmm(granularity=8388608TiB)", TIDE_EINVAL, "does not fit in the memory"),
       "a granularity above the device's memory is refused");
    ok(is_refused("vmm(maximum=4KiB)", TIDE_EINVAL, "does not fit in the maximum of 4 KiB"),
       "a maximum below one page is refused");
    ok(is_refused("vmm(device=99)", TIDE_EINVAL, "no device 99"), "a device that is not there is refused");
    ok(is_refused("vmm(access=1+)", TIDE_EINVAL, "CUDA ordinals"), "words that are no ordinals are refused");
    ok(is_refused("vmm(access=99)", TIDE_EINVAL, "no device 99"), "access for a device that is not there is refused");
    ok(is_refused("vmm(maximum=0)", TIDE_ESYNTAX, "maximum"), "a maximum of 0 is refused");
    ok(is_refused("vmm(decay=0)", TIDE_ESYNTAX, "milliseconds"), "a decay of 0 is refused");
    ok(is_refused("vmm(fallback=host)", TIDE_ESYNTAX, "none, driver or cuda"), "a fallback to no base is refused");
    ok(all_of(stack != NULL, gpu_figure(stack, TIDE_QUERY_PAGE) == 4 * MIB,
              gpu_figure(stack, TIDE_QUERY_CAPACITY) == gpu_figure(stack, TIDE_QUERY_DEVICE_TOTAL) / 2),
       "a maximum is a share of the device's memory, and the page is the granularity");
    tide_describe(stack, text, sizeof(text), NULL);
    diag("%s", text);
    ok(all_of(strstr(text, "granularity=4MiB") != NULL, strstr(text, "access=\"all\"") != NULL),
       "the base describes itself with its options");
    ok(all_of(gpu_allocates(stack, 1, NULL, &block), gpu_figure(stack, TIDE_QUERY_BYTES_RESERVED) == 4 * MIB,
              gpu_frees(stack, block, 1, NULL)),
       "a request takes pages of the granularity");
    tide_resource_release(stack);
}

#define IMPORTER    "importer"
#define SHARE_TESTS 4
#define SHARE_BYTES (2 * PAGE - 4096)

/* What the importing process answers. */
struct answer {
    bool imported, freed;
    uint32_t wrong;
    uint64_t used_bytes, reserved_bytes; /* while the block was mapped */
    char text[160];
};

/* The importing process: it reads what the other one has written, and adds to it. */
static int
import_main(int socket)
{
    struct answer answer = { .wrong = 0 };
    struct tide_resource *vmm;
    struct gpu_work work = { 0 };
    void *block = NULL;
    int fd;

    alarm(gpu_part_seconds());
    fd = gpu_receive_descriptor(socket);
    if (fd < 0 || gpu_open() != NULL || !gpu_work_open(&work, 0))
        return 1;
    vmm = gpu_stack("vmm");
    answer.imported = tide_vmm_import(vmm, fd, SHARE_BYTES, &block) == TIDE_OK;
    close(fd);
    if (answer.imported) {
        answer.used_bytes = gpu_figure(vmm, TIDE_QUERY_BYTES_USED);
        answer.reserved_bytes = gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED);
        answer.wrong = gpu_count_wrong(&work.kernels, work.first, block, WORDS, 10);
        gpu_add(&work.kernels, work.first, block, WORDS, 100);
        answer.freed =
            gpu.stream_synchronize(work.first) == CUDA_SUCCESS && gpu_frees(vmm, block, SHARE_BYTES, work.first);
    }
    snprintf(answer.text, sizeof(answer.text), "%s", tide_error_text());
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer) ? 0 : 1;
}

static void
test_share(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm(shareable=true)");
    struct answer answer = { .wrong = 1 };
    char number[16] = "";
    void *block = NULL;
    int sockets[2] = { -1, -1 };
    int status = 1, fd = -1;
    pid_t child = -1;

    if (vmm == NULL) {
        skip(SHARE_TESTS, tide_error_text());
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0) {
        snprintf(number, sizeof(number), "%d", sockets[1]);
        child = gpu_process_start(sockets[1], (char *[]){ IMPORTER, IMPORTER, number, NULL });
    }
    close(sockets[1]);
    ok(all_of(child > 0, gpu_allocates(vmm, SHARE_BYTES, work->first, &block),
              gpu_fill(&work->kernels, work->first, block, WORDS, 10),
              gpu.stream_synchronize(work->first) == CUDA_SUCCESS, tide_vmm_export(vmm, block, &fd) == TIDE_OK,
              gpu_send_descriptor(sockets[0], fd)),
       "a process exports a block");
    ok(all_of(gpu_receive(sockets[0], &answer, sizeof(answer)), waitpid(child, &status, 0) == child, status == 0,
              answer.imported, answer.freed, answer.wrong == 0),
       "another process imports the block, reads what was written to it, and frees it");
    if (answer.text[0] != '\0')
        diag("%s", answer.text);
    ok(all_of(answer.used_bytes == SHARE_BYTES, answer.reserved_bytes == 0),
       "the imported block counts as used there, and not as reserved");
    ok(all_of(gpu_count_wrong(&work->kernels, work->first, block, WORDS, 110) == 0,
              gpu_frees(vmm, block, SHARE_BYTES, work->first)),
       "the block holds what the other process has added");
    close(fd);
    close(sockets[0]);
    tide_resource_release(vmm);
}

#define PEER_TESTS 3

/* A kernel of another device writes to the memory, also after it got other addresses. */
static void
test_peer(void)
{
    struct tide_resource *vmm = NULL;
    struct gpu_work work = { 0 };
    void *block = NULL, *large = NULL;
    uint64_t peers = 0;

    if (gpu.devices < 2 || tide_device_query(1, TIDE_QUERY_PEERS, &peers) != TIDE_OK || (peers & 1) == 0 ||
        !gpu_work_open(&work, 1)) {
        skip(PEER_TESTS, "there are no two devices that reach each other's memory");
        goto out;
    }
    vmm = gpu_stack("vmm(access=1)");
    ok(all_of(gpu_allocates(vmm, PAGE, work.first, &block), gpu_fill(&work.kernels, work.first, block, WORDS, 1),
              gpu_count_wrong(&work.kernels, work.first, block, WORDS, 1) == 0),
       "a kernel of device 1 uses memory of device 0, on a stream of device 1");
    ok(all_of(gpu_frees(vmm, block, PAGE, work.first), gpu_allocates(vmm, 2 * PAGE, work.first, &large),
              gpu_fill(&work.kernels, work.first, large, 2 * WORDS, 2),
              gpu_count_wrong(&work.kernels, work.first, large, 2 * WORDS, 2) == 0),
       "so does another one after the memory got other addresses");
    ok(all_of(gpu_figure(vmm, TIDE_QUERY_DEVICE) == 0, gpu_frees(vmm, large, 2 * PAGE, work.first),
              tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK),
       "memory that a peer has used is freed on the peer's stream");
out:
    tide_resource_release(vmm);
    gpu_work_close(&work);
}

#define DEVICES_TESTS 4

/* A thread has the context of one device, and uses a pool on each of two, in turns. */
static void
test_devices(void)
{
    struct tide_resource *pools[2] = { NULL }, *pages[2] = { NULL };
    struct gpu_work works[2] = { { 0 }, { 0 } };
    void *blocks[2][16] = { { NULL } };
    uint32_t wrong = 0;
    bool done = true;

    if (gpu.devices < 2 || !gpu_work_open(&works[0], 0) || !gpu_work_open(&works[1], 1)) {
        skip(DEVICES_TESTS, "there are no two devices");
        goto out;
    }
    for (int device = 0; device < 2; device++) {
        pools[device] = gpu_stack("pool | vmm(device=%d)", device);
        done = tide_stack_find(pools[device], "vmm", &pages[device]) == TIDE_OK && done;
    }
    for (uint32_t i = 0; i < 32 && done; i++)
        done = gpu_allocates(pools[i % 2], (1 + i) * MIB / 4, works[i % 2].first, &blocks[i % 2][i / 2]);
    ok(done, "a thread allocates from a pool on each of two devices, whichever context is current");
    for (uint32_t i = 0; i < 32 && done; i++) {
        const struct gpu_work *work = &works[i % 2];

        gpu.context_set(work->context);
        wrong += !gpu_fill(&work->kernels, work->first, blocks[i % 2][i / 2], (1 + i) * 65536, 100 + i);
    }
    for (uint32_t i = 0; i < 32 && done; i++) {
        const struct gpu_work *work = &works[i % 2];

        gpu.context_set(work->context);
        wrong += gpu_count_wrong(&work->kernels, work->first, blocks[i % 2][i / 2], (1 + i) * 65536, 100 + i) != 0;
    }
    is_u64(wrong, 0, "every block of two devices holds what kernels of its own device wrote");
    /* Freed with the other device's context current, half of them on the stream 0, which is then of that context. */
    for (uint32_t i = 0; i < 32 && done; i++) {
        gpu.context_set(works[1 - i % 2].context);
        done = gpu_frees(pools[i % 2], blocks[i % 2][i / 2], (1 + i) * MIB / 4, i % 4 < 2 ? works[i % 2].first : NULL);
    }
    ok(all_of(done, gpu_figure(pages[0], TIDE_QUERY_DEVICE) == 0, gpu_figure(pages[1], TIDE_QUERY_DEVICE) == 1),
       "blocks are freed while the context of the other device is current");
    for (int i = 0; i < 4 && done; i++)
        done = tide_order(pools[i % 2], TIDE_STREAM_ALL, 0) == TIDE_OK && tide_trim(pools[i % 2], 0) == TIDE_OK;
    ok(all_of(done, gpu_figure(pages[0], TIDE_QUERY_BYTES_RESERVED) == 0,
              gpu_figure(pages[1], TIDE_QUERY_BYTES_RESERVED) == 0),
       "both devices have their memory back");
out:
    for (int device = 0; device < 2; device++) {
        tide_resource_release(pools[device]);
        gpu_work_close(&works[device]);
    }
}

#define THREADS       8
#define THREAD_STEPS  300
#define THREAD_BLOCKS 4

struct worker {
    struct tide_resource *vmm;
    uint64_t seed;
    CUstream stream;
    unsigned failures;
};

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    size_t sizes[THREAD_BLOCKS] = { 0 };
    void *blocks[THREAD_BLOCKS] = { NULL };

    for (int step = 0; step < THREAD_STEPS; step++) {
        size_t i = contract_random(&worker->seed) % THREAD_BLOCKS;

        if (blocks[i] != NULL) {
            worker->failures += !gpu_frees(worker->vmm, blocks[i], sizes[i], worker->stream);
            blocks[i] = NULL;
        } else {
            sizes[i] = (1 + contract_random(&worker->seed) % 4) * PAGE;
            worker->failures += !gpu_allocates(worker->vmm, sizes[i], worker->stream, &blocks[i]);
        }
        if (step % 50 == 0)
            worker->failures += tide_trim(worker->vmm, 8 * PAGE) != TIDE_OK;
    }
    for (size_t i = 0; i < THREAD_BLOCKS; i++)
        worker->failures += blocks[i] != NULL && !gpu_frees(worker->vmm, blocks[i], sizes[i], worker->stream);
    return NULL;
}

#define THREADS_TESTS 3

/* Threads with and without streams of their own, of which some never have a context. */
static void
test_threads(struct gpu_work *work, const char *text)
{
    struct tide_resource *vmm = gpu_stack("%s", text);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    unsigned failures = 0;
    struct tide_vmm_figures figures;
    uint64_t seed = contract_seed(20261122);

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .vmm = vmm, .seed = seed + i };
        workers[i].stream = i % 4 == 0 ? NULL : i % 4 == 1 ? work->first : i % 4 == 2 ? work->second : (CUstream)2;
        pthread_create(&threads[i], NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failures += workers[i].failures;
    }
    is_u64(failures, 0, "eight threads allocate, free and trim without a failure");
    figures = figures_of(vmm);
    say(vmm);
    ok(all_of(figures.used_bytes == 0, figures.mapped_bytes == 0, figures.cached_bytes == figures.reserved_bytes,
              figures.created - figures.released == figures.handles),
       "%s: after eight threads the figures agree", text);
    ok(all_of(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK, tide_trim(vmm, 0) == TIDE_OK,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0,
              gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) <= THREADS * THREAD_BLOCKS * 4 * PAGE),
       "%s: after eight threads everything is given back", text);
    tide_resource_release(vmm);
}

static struct tide_resource *
contract_create(void *context)
{
    return gpu_stack("%s", (const char *)context);
}

static void
check_contract(const char *name, const char *text)
{
    struct contract contract = { .name = name,
                                 .create = contract_create,
                                 .context = (void *)(uintptr_t)text,
                                 .largest_bytes = MIB,
                                 .knows_pointers = strcmp(name, "vmm") == 0 };

    contract_check(&contract);
}

static void
part_blocks(void)
{
    gpu_diag();
    test_blocks();
    test_maximum();
    test_options();
}

static void
all_reuse(struct gpu_work *work)
{
    test_reuse(work);
    test_parts(work);
    test_streams(work);
    test_waits(work);
    test_places(work);
    test_pool(work);
}

#define ALL_REUSE_TESTS (REUSE_TESTS + PARTS_TESTS + STREAMS_TESTS + WAITS_TESTS + PLACE_TESTS + POOL_TESTS)

static void
part_reuse(void)
{
    gpu_with_work(all_reuse, ALL_REUSE_TESTS);
}

static void
part_contract(void)
{
    check_contract("vmm", "vmm");
}

static void
part_contract_stress(void)
{
    check_contract("vmm", "vmm(stress=true)");
}

static void
part_share(void)
{
    if (gpu_is_sanitized())
        skip(SHARE_TESTS, "compute-sanitizer follows no memory from one process to another");
    else
        gpu_with_work(test_share, SHARE_TESTS);
}

static void
all_threads(struct gpu_work *work)
{
    test_threads(work, "vmm");
    test_threads(work, "vmm(stress=true)");
}

static void
part_threads(void)
{
    gpu_with_work(all_threads, 2 * THREADS_TESTS);
}

static void
part_contract_above(void)
{
    check_contract("pool", "pool(growth=2MiB) | vmm(stress=true)");
    check_contract("arena", "arena | vmm");
}

static const struct gpu_part parts[] = {
    { "blocks", BLOCKS_TESTS + MAXIMUM_TESTS + OPTIONS_TESTS, part_blocks },
    { "reuse", ALL_REUSE_TESTS, part_reuse },
    { "share", SHARE_TESTS, part_share },
    { "peer", PEER_TESTS, test_peer },
    { "devices", DEVICES_TESTS, test_devices },
    { "threads", 2 * THREADS_TESTS, part_threads },
    { "contract", CONTRACT_TESTS, part_contract },
    { "contract-stress", CONTRACT_TESTS, part_contract_stress },
    { "contract-above", 2 * CONTRACT_TESTS, part_contract_above },
};

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], IMPORTER) == 0)
        return import_main(atoi(argv[2]));
    gpu_lock(true);
    return gpu_parts_main(argc, argv, parts, sizeof(parts) / sizeof(parts[0]));
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
