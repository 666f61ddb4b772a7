/* Tests sim: exact capacity, addresses that never overlap, and pointer queries, at any size and with threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/statistics.h>

#include "contract.h"
#include "tap.h"

#define GIB          (UINT64_C(1) << 30)
#define MIB          (UINT64_C(1) << 20)
#define RANDOM_LIVE  4000
#define RANDOM_STEPS 40000
#define THREADS      8

struct block {
    uintptr_t address;
    uint64_t bytes;
    uint64_t alignment;
};

static struct tide_resource *
create(void *context)
{
    struct tide_resource *sim;

    return tide_sim_create(context, &sim) == TIDE_OK ? sim : NULL;
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value;

    tide_query(resource, what, &value);
    return value;
}

static void
check_capacity(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .capacity_bytes = 80 * GIB };
    struct tide_resource *sim = create(&options);
    void *first;
    void *second;
    void *third;

    ok(tide_allocate(sim, 80 * GIB + 1, 256, 0, &first) == TIDE_ECAPACITY && first == NULL,
       "a request of a byte over the capacity is refused");
    ok(tide_allocate(sim, 80 * GIB - 1, 256, 0, &first) == TIDE_OK, "a request of 80 GiB less a byte is granted");
    ok(tide_allocate(sim, 2, 256, 0, &second) == TIDE_ECAPACITY, "with one byte left two bytes are refused");
    ok(tide_allocate(sim, 1, 256, 0, &second) == TIDE_OK, "with one byte left one byte is granted");
    ok(tide_allocate(sim, 1, 256, 0, &third) == TIDE_ECAPACITY, "with no byte left one byte is refused");
    is_string(tide_error_text(), "sim: 1 B request exceeds 80 GiB capacity (80 GiB in use)",
              "the refusal names the request, the capacity and what is in use");
    ok(tide_allocate(sim, 0, 256, 0, &third) == TIDE_OK, "0 bytes are granted at the capacity");
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 80 * GIB, "the bytes used are exact to the byte");
    is_u64(figure(sim, TIDE_QUERY_CAPACITY), 80 * GIB, "a query of the capacity gives 80 GiB");
    tide_deallocate(sim, first, 80 * GIB - 1, 256, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 1, "freed bytes do not count as used");
    tide_resource_release(sim);
}

static void
check_granularity(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), 8 * MIB, 2 * MIB };
    struct tide_resource *sim = create(&options);
    struct tide_resource *none = sim;
    void *pointers[5];

    for (int i = 0; i < 4; i++)
        tide_allocate(sim, 1, 256, 0, &pointers[i]);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 8 * MIB, "a request of a byte reserves a granule");
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 4, "a request of a byte uses a byte");
    ok(tide_allocate(sim, 1, 256, 0, &pointers[4]) == TIDE_ECAPACITY, "the capacity bounds the granules");
    is_string(tide_error_text(), "sim: 1 B request, rounded up to 2 MiB, exceeds 8 MiB capacity (8 MiB in use)",
              "the refusal names the rounded request");
    for (int i = 0; i < 4; i++)
        tide_deallocate(sim, pointers[i], 1, 256, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 0, "freed granules are not reserved");
    tide_resource_release(sim);
    options.granularity_bytes = 3;
    ok(tide_sim_create(&options, &none) == TIDE_EINVAL && none == NULL, "a granularity of 3 is refused");
    has_words(tide_error_text(), "granularity=3 is no power of two", "the refusal of the granularity says why");
}

static void
check_pointers(void)
{
    struct tide_resource *sim = create(NULL);
    void *pointer;
    void *again;
    char *inner;

    tide_allocate(sim, 1000, 256, 0, &pointer);
    inner = pointer;
    ok(tide_deallocate(sim, pointer, 999, 256, 0) == TIDE_EMISMATCH, "a free with another size is a mismatch");
    has_words(tide_error_text(), "sim: 999 bytes at a multiple of 256", "the mismatch names the size");
    ok(tide_deallocate(sim, pointer, 1000, 512, 0) == TIDE_EMISMATCH, "a free with another alignment is a mismatch");
    ok(tide_deallocate(sim, pointer, 0, 256, 0) == TIDE_EMISMATCH, "a free of 0 bytes is a mismatch");
    ok(tide_deallocate(sim, pointer, SIZE_MAX, 256, 0) == TIDE_EMISMATCH, "a free of SIZE_MAX bytes is a mismatch");
    ok(tide_deallocate(sim, inner + 256, 744, 256, 0) == TIDE_EPOINTER, "a free inside of a block is refused");
    ok(tide_deallocate(sim, inner + 1024, 1000, 256, 0) == TIDE_EPOINTER, "a free right behind a block is refused");
    ok(tide_deallocate(sim, inner + (UINT64_C(1) << 50), 1000, 256, 0) == TIDE_EPOINTER,
       "a free far behind a block is refused");
    ok(tide_deallocate(sim, NULL, 1000, 256, 0) == TIDE_EPOINTER, "a free of NULL with a size is refused");
    ok(tide_deallocate(sim, (void *)UINTPTR_MAX, 1000, 256, 0) == TIDE_EPOINTER,
       "a free of the last address is refused");
    ok(tide_deallocate(sim, &pointer, 1000, 256, 0) == TIDE_EPOINTER, "a free of a stack address is refused");
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 1000, "refused frees leave the bytes used unchanged");
    ok(tide_deallocate(sim, pointer, 1000, 256, 0) == TIDE_OK, "a free with the right size and alignment succeeds");
    ok(tide_deallocate(sim, pointer, 1000, 256, 0) == TIDE_EPOINTER, "a second free is refused");
    tide_allocate(sim, 1000, 256, 0, &again);
    ok(again == pointer, "a freed address is given out again");
    tide_resource_release(sim);
}

static void
check_extremes(void)
{
    struct tide_resource *sim = create(NULL);
    bool aligned = true;
    bool in_range = true;
    void *pointer;

    ok(tide_allocate(sim, SIZE_MAX, 1, 0, &pointer) == TIDE_EOVERFLOW, "a request of SIZE_MAX overflows when rounded");
    ok(tide_allocate(sim, SIZE_MAX - 256 * 1024, 1, 0, &pointer) == TIDE_ECAPACITY,
       "a request of SIZE_MAX - 256 KiB exceeds the capacity");
    ok(tide_allocate(sim, (size_t)1 << 50, 256, 0, &pointer) == TIDE_OK, "a request of 1 PiB is granted");
    ok(tide_allocate(sim, ((size_t)1 << 50) + 1, 256, 0, &pointer) == TIDE_ECAPACITY,
       "a request of a byte over 1 PiB is refused");
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), UINT64_C(1) << 50, "a refused request reserves nothing");
    for (unsigned log2 = 0; log2 <= 50; log2++) {
        for (unsigned step = 0; step < 3; step++) {
            size_t alignment = (size_t)1 << (step == 0 ? 0 : step == 1 ? log2 : 50 - log2);

            if (tide_allocate(sim, ((size_t)1 << log2) - (log2 > 3 ? step : 0), alignment, 0, &pointer) != TIDE_OK)
                in_range = false;
            aligned = aligned && (uintptr_t)pointer % alignment == 0 && (uintptr_t)pointer % 256 == 0;
            in_range = in_range && (uintptr_t)pointer >> 63 == 0 && pointer != NULL;
        }
    }
    ok(aligned, "every alignment up to 1 PiB is honoured");
    ok(in_range, "every address is positive in 63 bits");
    ok(tide_allocate(sim, 1, (size_t)1 << 51, 0, &pointer) == TIDE_ECAPACITY, "an alignment of 2 PiB is refused");
    is_u64(figure(sim, TIDE_QUERY_HOST_ACCESS), 0, "the host has no access");
    is_u64(figure(sim, TIDE_QUERY_ALIGNMENT), 256, "the base's alignment is 256");
    tide_resource_release(sim);
}

/* Sixteen pages in three blocks, of which the middle one goes. */
static void
check_pages(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_VMM };
    struct tide_resource *sim = create(&options), *wrong = NULL;
    uintptr_t addresses[3];
    uint64_t page;
    void *pointer;

    for (int i = 0; i < 3; i++) {
        tide_allocate(sim, (i + 1) * 2 * MIB - 1, 256, 0, &pointer);
        addresses[i] = (uintptr_t)pointer;
    }
    is_u64(figure(sim, TIDE_QUERY_PAGE), 2 * MIB, "with model=vmm a page has 2 MiB unless given");
    ok(all_of(addresses[1] == addresses[0] + 2 * MIB, addresses[2] == addresses[1] + 4 * MIB),
       "blocks of whole pages lie side by side");
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 12 * MIB, "each request takes whole pages");
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 12 * MIB - 3, "the bytes used are those of the requests");
    ok(tide_deallocate(sim, (void *)(addresses[1] + 2 * MIB), 2 * MIB, 256, 0) == TIDE_EPOINTER,
       "a page within a block is none that can be freed");
    ok(tide_deallocate(sim, (void *)addresses[1], 4 * MIB, 256, 0) == TIDE_EMISMATCH,
       "a block of pages is not freed with another size");
    ok(tide_deallocate(sim, (void *)addresses[1], 4 * MIB - 1, 256, 0) == TIDE_OK, "a block of pages is freed");
    ok(tide_deallocate(sim, (void *)addresses[1], 4 * MIB - 1, 256, 0) == TIDE_EPOINTER,
       "a block of pages is freed once");
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 8 * MIB, "a freed block's pages are no longer reserved");
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED_HIGH), 12 * MIB, "the most pages are remembered");
    tide_resource_release(sim);
    options = (struct tide_sim_options){ TIDE_OPTIONS(options), .page_bytes = MIB };
    ok(tide_sim_create(&options, &wrong) == TIDE_EINVAL && strstr(tide_error_text(), "model=vmm") != NULL,
       "a page without model=vmm is refused, and the refusal says what it belongs to");
    options.model = TIDE_SIM_VMM;
    options.granularity_bytes = 512;
    ok(tide_sim_create(&options, &wrong) == TIDE_EINVAL, "a granularity with model=vmm is refused");
    sim = create(NULL);
    ok(tide_query(sim, TIDE_QUERY_PAGE, &page) == TIDE_EUNSUPPORTED, "model=plain has no pages");
    tide_resource_release(sim);
}

static void *
take(struct tide_resource *sim, uint64_t bytes)
{
    void *pointer = NULL;

    if (tide_allocate(sim, bytes, 256, 0, &pointer) != TIDE_OK)
        diag("%s", tide_error_text());
    return pointer;
}

/* What the driver's pool has of a device. */
static void
check_driver(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };
    struct tide_resource *sim = create(&options), *wrong = NULL;
    void *first = take(sim, 2 * MIB), *second = take(sim, 10 * MIB), *third, *pointer;

    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 32 * MIB, "model=driver: small requests share a unit of 32 MiB");
    ok(tide_allocate(sim, 1, 512, 0, &pointer) == TIDE_EINVAL && pointer == NULL,
       "model=driver: an alignment above the 256 bytes of the base is refused");
    third = take(sim, 80 * MIB);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 96 * MIB,
           "model=driver: a large request uses the free end of the last unit, and is not rounded up");
    tide_deallocate(sim, second, 10 * MIB, 256, 0);
    ok(take(sim, 8 * MIB) == second, "model=driver: the front of what is free serves a request");
    tide_deallocate(sim, third, 80 * MIB, 256, 0);
    tide_trim(sim, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 96 * MIB, "model=driver: a trim leaves what waits for a stream");
    ok(tide_deallocate(sim, third, 80 * MIB, 256, 0) == TIDE_EPOINTER, "model=driver: a block is freed once");
    ok(tide_deallocate(sim, first, 2, 256, 0) == TIDE_EMISMATCH,
       "model=driver: a block is not freed with another size");
    tide_order(sim, TIDE_STREAM_ALL, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 32 * MIB,
           "model=driver: where the host waits the units go back that are free whole");
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED_HIGH), 96 * MIB,
           "model=driver: the most that was reserved stays known");
    tide_resource_release(sim);
    options.capacity_bytes = 96 * MIB;
    sim = create(&options);
    first = take(sim, 40 * MIB);
    second = take(sim, 10 * MIB);
    third = take(sim, 40 * MIB);
    ok(tide_allocate(sim, 10 * MIB, 256, 0, &pointer) == TIDE_ECAPACITY && pointer == NULL &&
           strstr(tide_error_text(),
                  "10 MiB request, for which it reserves 32 MiB, exceeds 96 MiB capacity (96 MiB in use)") != NULL,
       "model=driver: a request that needs one unit more than the capacity is refused in words");
    tide_deallocate(sim, first, 40 * MIB, 256, 0);
    tide_deallocate(sim, third, 40 * MIB, 256, 0);
    ok(second != NULL && take(sim, 64 * MIB) != NULL,
       "model=driver: at the capacity free units that lie apart serve a request of both");
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 96 * MIB, "model=driver: for that the device is asked for nothing");
    tide_resource_release(sim);
    options = (struct tide_sim_options){ TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER, .granularity_bytes = 512 };
    ok(tide_sim_create(&options, &wrong) == TIDE_EINVAL, "a granularity with model=driver is refused");
}

/* Which free piece serves a request. */
static void
check_driver_pieces(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };
    struct tide_resource *sim = create(&options);
    void *blocks[7];

    for (int i = 0; i < 7; i++)
        blocks[i] = take(sim, 4 * MIB);
    tide_deallocate(sim, blocks[3], 4 * MIB, 256, 0);
    tide_deallocate(sim, blocks[1], 4 * MIB, 256, 0);
    ok(take(sim, 4 * MIB) == blocks[3], "model=driver: of pieces of one size the one that became free first serves");
    tide_deallocate(sim, blocks[4], 4 * MIB, 256, 0);
    tide_deallocate(sim, blocks[5], 4 * MIB, 256, 0);
    ok(take(sim, 2 * MIB) == blocks[1], "model=driver: the smallest piece that suffices serves a request");
    ok(take(sim, 6 * MIB) == blocks[4], "model=driver: pieces that touch are one");
    tide_resource_release(sim);
    sim = create(&options);
    take(sim, 1);
    take(sim, 40 * MIB);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 64 * MIB,
           "model=driver: a large request begins right behind a small one");
    tide_resource_release(sim);
}

/*
 * Four blocks of 64 MiB, of which block `freed` is freed, and then a block of `bytes`. The result is what is reserved
 * then, in MiB; *at is its place in MiB behind the first block's.
 */
static uint64_t
reserved_after(int freed, uint64_t bytes, bool waited, uint64_t *at)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };
    struct tide_resource *sim = create(&options);
    uint64_t reserved;
    void *blocks[4];

    for (int i = 0; i < 4; i++)
        blocks[i] = take(sim, 64 * MIB);
    tide_deallocate(sim, blocks[freed], 64 * MIB, 256, 0);
    if (waited)
        tide_order(sim, TIDE_STREAM_ALL, 0);
    *at = (uint64_t)((uintptr_t)take(sim, bytes) - (uintptr_t)blocks[0]) / MIB;
    reserved = figure(sim, TIDE_QUERY_BYTES_RESERVED) / MIB;
    tide_resource_release(sim);
    return reserved;
}

/* Where units are mapped; what a device did: tests/sim-mempool-t.c. */
static void
check_driver_units(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };
    struct tide_sim_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *sim;
    void *blocks[4];
    uint64_t at;

    ok(all_of(reserved_after(1, 32 * MIB, false, &at) == 256, at == 64),
       "model=driver: a part of what was freed serves the next request");
    ok(all_of(reserved_after(1, 96 * MIB, false, &at) == 288, at == 256),
       "model=driver: a request that fits nowhere has the units of free pieces, and of the device what is missing");
    ok(all_of(reserved_after(3, 96 * MIB, false, &at) == 288, at == 192),
       "model=driver: units are added behind a free end");
    ok(all_of(reserved_after(1, 64 * MIB, true, &at) == 256, at == 64),
       "model=driver: addresses whose units went back get units again");
    sim = create(&options);
    for (int i = 0; i < 4; i++)
        blocks[i] = take(sim, (i % 2 == 0 ? 64 : 32) * MIB);
    tide_deallocate(sim, blocks[0], 64 * MIB, 256, 0);
    tide_deallocate(sim, blocks[2], 64 * MIB, 256, 0);
    take(sim, 80 * MIB);
    if (tide_sim_read(sim, &figures) != TIDE_OK)
        diag("%s", tide_error_text());
    ok(all_of(figures.mapped == 3, figures.grown_bytes == 192 * MIB, figures.returned == 0),
       "model=driver: units that are mapped elsewhere are counted, and are neither taken nor returned");
    tide_trim(sim, 170 * MIB);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 192 * MIB, "model=driver: a trim gives back no part of a unit");
    tide_trim(sim, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 160 * MIB, "model=driver: a trim gives back units that are free");
    tide_resource_release(sim);
}

/* What one stream has freed, and another wants. */
static void
check_driver_streams(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };
    const tide_stream streams[] = { (tide_stream)1, (tide_stream)2, (tide_stream)3 };
    struct tide_resource *sim = create(&options);
    void *blocks[6], *pointer;

    for (int i = 0; i < 6; i++)
        tide_allocate(sim, (i == 4 ? 6 : 4) * MIB, 256, streams[0], &blocks[i]);
    tide_deallocate(sim, blocks[0], 4 * MIB, 256, streams[1]);
    tide_deallocate(sim, blocks[2], 4 * MIB, 256, streams[2]);
    tide_deallocate(sim, blocks[4], 6 * MIB, 256, streams[0]);
    tide_allocate(sim, 4 * MIB, 256, streams[0], &pointer);
    ok(pointer == blocks[4], "model=driver: what its own stream has freed comes first");
    tide_order(sim, streams[2], streams[0]);
    tide_allocate(sim, 4 * MIB, 256, streams[0], &pointer);
    ok(pointer == blocks[2], "model=driver: then what an order has put before its work");
    tide_allocate(sim, 4 * MIB, 256, streams[0], &pointer);
    ok(pointer == blocks[0], "model=driver: then what others have freed");
    tide_resource_release(sim);
}

/* What cuMemAlloc has of a device. */
static void
check_cuda(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_CUDA };
    struct tide_resource *sim = create(&options);
    void *first = take(sim, MIB), *second = take(sim, MIB), *third, *fourth;

    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 2 * MIB, "model=cuda: two requests of 1 MiB share 2 MiB");
    ok(tide_allocate(sim, 1, 512, 0, &third) == TIDE_EINVAL && third == NULL,
       "model=cuda: an alignment above the 256 bytes of the base is refused");
    has_words(tide_error_text(), "sim: alignment 512 exceeds the 256 bytes of the model",
              "and the error says how much it is");
    third = take(sim, MIB + 1);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 4 * MIB, "model=cuda: a larger one has 2 MiB of its own");
    fourth = take(sim, 1);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 6 * MIB, "model=cuda: a third small one begins another unit");
    tide_deallocate(sim, third, MIB + 1, 256, 0);
    tide_deallocate(sim, first, MIB, 256, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 4 * MIB, "model=cuda: a unit that is used in part stays");
    tide_deallocate(sim, second, MIB, 256, 0);
    tide_deallocate(sim, fourth, 1, 256, 0);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 0, "model=cuda: what is free goes back at once");
    tide_resource_release(sim);
}

static struct tide_sim_figures
figures_of(struct tide_resource *sim)
{
    struct tide_sim_figures figures = { TIDE_FIGURES(figures) };

    if (tide_sim_read(sim, &figures) != TIDE_OK)
        diag("%s", tide_error_text());
    return figures;
}

/* What the bases would have the driver do. The handles of model=vmm: tests/fake-cuda/sim-vmm-t.c. */
static void
check_figures(void)
{
    struct tide_sim_options cuda = { TIDE_OPTIONS(cuda), .model = TIDE_SIM_CUDA };
    struct tide_sim_options driver = { TIDE_OPTIONS(driver), .model = TIDE_SIM_DRIVER };
    struct tide_sim_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *sim = create(&cuda), *above;
    void *first = take(sim, MIB), *second = take(sim, MIB), *third = take(sim, 5 * MIB);

    figures = figures_of(sim);
    ok(all_of(figures.grown == 2, figures.grown_bytes == 8 * MIB, figures.high_bytes == 8 * MIB),
       "model=cuda: a request that finds room in a unit takes none of the device");
    tide_deallocate(sim, first, MIB, 256, 0);
    ok(figures_of(sim).returned == 0, "model=cuda: a free of a unit that is in use gives nothing back");
    tide_deallocate(sim, second, MIB, 256, 0);
    tide_deallocate(sim, third, 5 * MIB, 256, 0);
    figures = figures_of(sim);
    ok(all_of(figures.returned == 2, figures.returned_bytes == 8 * MIB, figures.high_bytes == 8 * MIB),
       "model=cuda: the last free of a unit gives it back, and the most that was taken stays known");
    tide_statistics_create(sim, NULL, &above);
    tide_resource_release(sim);
    ok(tide_sim_read(above, &figures) == TIDE_EINVAL && figures.grown == 0, "the figures of another layer are refused");
    tide_resource_release(above);
    sim = create(&driver);
    first = take(sim, 40 * MIB);
    second = take(sim, 4 * MIB);
    tide_deallocate(sim, first, 40 * MIB, 256, 0);
    figures = figures_of(sim);
    ok(all_of(figures.grown == 1, figures.grown_bytes == 64 * MIB, figures.returned == 0, figures.orders == 0),
       "model=driver: units are taken once for a request, and a free gives none back");
    tide_order(sim, TIDE_STREAM_ALL, 0);
    tide_trim(sim, 0);
    tide_trim(sim, 0);
    figures = figures_of(sim);
    ok(all_of(figures.returned_bytes == 32 * MIB, figures.trims == 2, figures.orders == 1, figures.kept == 0),
       "model=driver: trims and orders are counted, and what goes back");
    first = take(sim, 30 * MIB);
    tide_deallocate(sim, first, 30 * MIB, 256, 0);
    tide_order(sim, TIDE_STREAM_ALL, 0);
    first = take(sim, 60 * MIB);
    figures = figures_of(sim);
    ok(all_of(figures.returned_bytes == 64 * MIB, figures.grown_bytes == 64 * MIB + 32 * MIB + 64 * MIB),
       "model=driver: what goes back where the host waits is taken again as it is needed");
    tide_deallocate(sim, first, 60 * MIB, 256, 0);
    tide_deallocate(sim, second, 4 * MIB, 256, 0);
    tide_resource_release(sim);
    sim = create(NULL);
    tide_deallocate(sim, take(sim, MIB), MIB, 256, 0);
    figures = figures_of(sim);
    ok(all_of(figures.grown == 0, figures.high_bytes == 0), "model=plain counts nothing of a device");
    tide_resource_release(sim);
}

/* What a watcher was told: how often, and how much. */
struct watched {
    uint64_t count[7], amount[7];
};

static void
watch(void *context, enum tide_sim_event event, uint64_t amount)
{
    struct watched *watched = context;

    watched->count[event]++;
    watched->amount[event] += amount;
}

static void
check_watch(void)
{
    struct tide_sim_options cuda = { TIDE_OPTIONS(cuda), .model = TIDE_SIM_CUDA };
    struct tide_sim_options vmm = { TIDE_OPTIONS(vmm), .model = TIDE_SIM_VMM };
    struct watched watched = { { 0 }, { 0 } };
    struct tide_resource *sim = create(&cuda), *above;

    ok(tide_sim_watch(sim, watch, &watched) == TIDE_OK, "the events of a model can be watched");
    tide_deallocate(sim, take(sim, 3 * MIB), 3 * MIB, 256, 0);
    ok(all_of(watched.amount[TIDE_SIM_ALLOCATES] == 3 * MIB, watched.amount[TIDE_SIM_FREES] == 3 * MIB,
              watched.amount[TIDE_SIM_GROWS] == 4 * MIB, watched.amount[TIDE_SIM_RETURNS] == 4 * MIB,
              watched.count[TIDE_SIM_RETURNS] == 1, watched.count[TIDE_SIM_ENDS] == 2),
       "model=cuda: a watcher is told of a request, of its unit, of both again as they go, and when each call ends");
    tide_sim_watch(sim, NULL, NULL);
    tide_deallocate(sim, take(sim, MIB), MIB, 256, 0);
    ok(watched.count[TIDE_SIM_ALLOCATES] == 1, "without a watcher nobody is told");
    tide_statistics_create(sim, NULL, &above);
    tide_resource_release(sim);
    ok(all_of(tide_sim_watch(above, watch, &watched) == TIDE_EINVAL,
              tide_sim_watch(NULL, watch, &watched) == TIDE_EINVAL),
       "another layer, and none, have no events to watch");
    tide_resource_release(above);
    sim = create(&vmm);
    watched = (struct watched){ { 0 }, { 0 } };
    tide_sim_watch(sim, watch, &watched);
    tide_deallocate(sim, take(sim, 4 * MIB), 4 * MIB, 256, 0);
    tide_trim(sim, 0);
    ok(all_of(watched.amount[TIDE_SIM_MAPS] == 1, watched.amount[TIDE_SIM_UNMAPS] == 1,
              watched.amount[TIDE_SIM_GROWS] == 4 * MIB, watched.amount[TIDE_SIM_RETURNS] == 4 * MIB),
       "model=vmm: a watcher is told of handles that are mapped, and no longer");
    tide_resource_release(sim);
}

static int
block_compare(const void *left, const void *right)
{
    const struct block *a = left;
    const struct block *b = right;

    return (a->address > b->address) - (a->address < b->address);
}

/*
 * Sizes of all magnitudes, with some thousand blocks live; then compare the live blocks in the order of their
 * addresses.
 */
static void
check_overlap(struct tide_sim_options *options, const char *model, size_t most_alignment)
{
    static struct block blocks[RANDOM_LIVE];
    struct tide_resource *sim = create(options);
    uint64_t seed = contract_seed(4711);
    uint64_t used = 0;
    uint64_t failures = 0;
    uint64_t misaligned = 0;
    uint64_t overlaps = 0;

    for (int i = 0; i < RANDOM_STEPS; i++) {
        struct block *block = &blocks[contract_random(&seed) % RANDOM_LIVE];
        void *pointer = (void *)block->address;

        if (pointer != NULL) {
            failures += tide_deallocate(sim, pointer, block->bytes, block->alignment, 0) != TIDE_OK;
            used -= block->bytes;
            block->address = 0;
            continue;
        }
        block->bytes = 1 + contract_random(&seed) % (UINT64_C(1) << contract_random(&seed) % 41);
        block->alignment = UINT64_C(1) << contract_random(&seed) % 16;
        if (block->alignment > most_alignment)
            block->alignment = most_alignment;
        failures += tide_allocate(sim, block->bytes, block->alignment, 0, &pointer) != TIDE_OK;
        block->address = (uintptr_t)pointer;
        misaligned += block->address % block->alignment != 0;
        used += block->bytes;
    }
    ok(failures == 0, "%s: random requests of 1 byte to 1 TiB all succeed", model);
    ok(figure(sim, TIDE_QUERY_BYTES_USED) == used, "%s: the bytes in use are exact after random traffic", model);
    qsort(blocks, RANDOM_LIVE, sizeof(blocks[0]), block_compare);
    for (size_t i = 0; i + 1 < RANDOM_LIVE; i++)
        overlaps += blocks[i].address != 0 && blocks[i].address + blocks[i].bytes > blocks[i + 1].address;
    ok(misaligned == 0, "%s: every address has the requested alignment", model);
    ok(overlaps == 0, "%s: no two live blocks overlap", model);
    memset(blocks, 0, sizeof(blocks));
    tide_resource_release(sim);
}

struct crowd {
    struct tide_resource *sim;
    bool greedy;
    uint64_t refused;
    uint64_t seed;
};

/* The modest threads keep to 8 GiB each; the greedy ones always request more than there is. */
static void *
crowd_run(void *context)
{
    struct crowd *crowd = context;

    for (int i = 0; i < 5000; i++) {
        uint64_t bytes = crowd->greedy ? 81 * GIB : 1 + contract_random(&crowd->seed) % (8 * GIB);
        void *pointer;

        if (tide_allocate(crowd->sim, bytes, 256, 0, &pointer) != TIDE_OK)
            crowd->refused++;
        else if (tide_deallocate(crowd->sim, pointer, bytes, 256, 0) != TIDE_OK)
            crowd->refused += 1000000;
    }
    return NULL;
}

static void
check_crowd(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .capacity_bytes = 64 * GIB };
    struct tide_resource *sim = create(&options);
    struct crowd crowds[THREADS];
    pthread_t threads[THREADS];
    uint64_t modest = 0;
    uint64_t greedy = 0;

    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){ .sim = sim, .greedy = i % 2 != 0, .seed = 77 + (uint64_t)i };
        pthread_create(&threads[i], NULL, crowd_run, &crowds[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        *(crowds[i].greedy ? &greedy : &modest) += crowds[i].refused;
    }
    is_u64(modest, 0, "no request that fits is refused because of another thread's that does not");
    is_u64(greedy, 4 * 5000, "every request over the capacity is refused");
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 0, "after all frees nothing is left in use");
    tide_resource_release(sim);
}

static void *
churn_until_told(void *context)
{
    struct tide_resource *sim = ((void **)context)[0];
    _Atomic bool *stop = ((void **)context)[1];

    while (!atomic_load_explicit(stop, memory_order_relaxed)) { /* relaxed: only a flag */
        void *pointer;

        if (tide_allocate(sim, 1000, 256, 0, &pointer) == TIDE_OK)
            tide_deallocate(sim, pointer, 1000, 256, 0);
    }
    return NULL;
}

/* The parent's other thread holds the lock most of the time; the child must find it free, and the data consistent. */
static void
check_fork(void)
{
    struct tide_resource *sim = create(NULL);
    _Atomic bool stop = false;
    void *context[] = { sim, &stop };
    pthread_t thread;
    int good = 0;

    pthread_create(&thread, NULL, churn_until_told, context);
    for (int i = 0; i < 20; i++) {
        int status = 1;
        pid_t child = fork();

        if (child == 0) {
            void *pointer = NULL;
            bool fine;

            alarm(20);
            fine = tide_allocate(sim, 1000, 256, 0, &pointer) == TIDE_OK &&
                   tide_deallocate(sim, pointer, 1000, 256, 0) == TIDE_OK;
            _exit(!fine);
        }
        waitpid(child, &status, 0);
        good += status == 0;
    }
    atomic_store_explicit(&stop, true, memory_order_relaxed); /* relaxed: only a flag */
    pthread_join(thread, NULL);
    is_i64(good, 20, "a forked child allocates while a thread of its parent allocates");
    tide_resource_release(sim);
}

int
main(void)
{
    const struct contract contract = {
        .name = "sim", .create = create, .largest_bytes = (size_t)512 << 30, .knows_pointers = true
    };
    struct tide_sim_options pages = { TIDE_OPTIONS(pages), .model = TIDE_SIM_VMM, .page_bytes = 4096 };

    struct tide_sim_options driver = { TIDE_OPTIONS(driver), .model = TIDE_SIM_DRIVER };
    struct tide_sim_options cuda = { TIDE_OPTIONS(cuda), .model = TIDE_SIM_CUDA };

    plan(CONTRACT_TESTS + 3 + 10 + 7 + 13 + 4 + 7 + 3 + 10 + 8 + 13 + 6 + 13 + 5 + 4 * 4 + 3 + 1);
    contract_check(&contract);
    check_capacity();
    check_granularity();
    check_pointers();
    check_extremes();
    check_pages();
    check_driver();
    check_driver_pieces();
    check_driver_units();
    check_driver_streams();
    check_cuda();
    check_figures();
    check_watch();
    check_overlap(NULL, "model=plain", SIZE_MAX);
    check_overlap(&pages, "model=vmm", SIZE_MAX);
    check_overlap(&driver, "model=driver", 256);
    check_overlap(&cuda, "model=cuda", 256);
    check_crowd();
    check_fork();
    return done();
}
