/*
 * The base `sim`: addresses with no memory behind them, for replays and planning on any machine.
 *
 * Usage: sim(capacity=SIZE, granularity=SIZE, model=plain|vmm|driver|cuda, page=SIZE)
 *     capacity     the most that is outstanding, rounded up; no bound unless given
 *     granularity  each request is rounded up to a multiple of this power of two; 1 unless given; of model=plain
 *     model        plain: addresses alone, the default; vmm: physical pages, mapped side by side, as the base `vmm` has
 *                  them; driver, cuda: units of memory, as the bases of these names have from the device
 *     page         of model=vmm: the size of a page, a power of two; 2 MiB unless given
 *
 * Example: log(trace.db) | statistics | sim(capacity=80GiB, granularity=2MiB)
 *
 * LIMITATIONS
 *  - The addresses of model=plain do not model a real allocator's: nothing fragments, and requests of different size
 *    classes lie far apart.
 *  - The largest request is 1 PiB.
 *  - Two sims hand out the same addresses.
 *
 * model=plain: each size class (a power of two cut into eight steps) has its own 2^54 bytes of addresses, and a table
 * with one word for each slot. Arithmetic on an address yields its class and slot. So allocating and freeing take
 * constant time, live addresses cannot overlap, and host memory is eight bytes for each allocation that is live at the
 * peak.
 *
 * model=vmm: src/bases/sim-pages.h. Both models count what is outstanding in their units, pages or the granularity.
 *
 * model=driver: src/bases/sim-mempool.h; model=cuda: src/bases/sim-units.h. Reserved are their units, also where
 * nothing in them is outstanding.
 *
 * What these three bases would have the driver do is counted, so that its time can be estimated: src/bases/sim-tally.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/base.h>

#include "src/bases/figures.h"
#include "src/bases/sim-mempool.h"
#include "src/bases/sim-pages.h"
#include "src/bases/sim-units.h"
#include "src/resource/kind.h"
#include "src/sync/inside.h"
#include "src/sync/lock.h"
#include "src/tables/grow.h"

#define SIM_PAGE_BYTES    (UINT64_C(2) << 20) /* model=vmm, unless given */
#define SIM_ALIGNMENT     ((uint64_t)256)     /* every address is a multiple of this, as the driver's addresses are */
#define SIM_SMALLEST_LOG2 8u                  /* of the smallest class */
#define SIM_LARGEST_LOG2  50u                 /* of the largest class: 16 of its slots fit its region */
#define SIM_STEPS_LOG2    3u                  /* classes to a power of two */
#define SIM_STEPS         (1u << SIM_STEPS_LOG2)
#define SIM_CLASS_COUNT   ((SIM_LARGEST_LOG2 - SIM_SMALLEST_LOG2) * SIM_STEPS + 1)
#define SIM_LARGEST_BYTES (UINT64_C(1) << SIM_LARGEST_LOG2)

/* Region 0 stays empty, so that no address is NULL; the last ends below 2^63, since traces hold signed integers. */
#define SIM_REGION_LOG2  54u
#define SIM_REGION_BYTES (UINT64_C(1) << SIM_REGION_LOG2)

#define SIM_PAGE_BYTES (UINT64_C(2) << 20) /* unless another page is given */

/* Where the addresses of the other models begin. */
#define SIM_BEHIND ((SIM_CLASS_COUNT + 1) * SIM_REGION_BYTES)

_Static_assert(SIM_CLASS_COUNT + 1 <= UINT64_C(1) << (63 - SIM_REGION_LOG2), "addresses stay below 2^63");

/* The word of a slot: if live, the size, the alignment's exponent, and 1; else the next free slot, and 0. */
#define SIM_LIVE            UINT64_C(1)
#define SIM_WORD(bytes, l2) ((uint64_t)(bytes) << 7 | (uint64_t)(l2) << 1 | SIM_LIVE)
#define SIM_NO_SLOT         (UINT64_MAX >> 1)

struct sim_class {
    struct tidei_lock lock; /* guards the fields below */
    uint64_t *slots;        /* owns */
    size_t slot_count;      /* slots that were ever handed out */
    size_t slot_capacity;
    uint64_t free_slot; /* the slot freed last; SIM_NO_SLOT where there is none */
};

struct sim {
    struct tide_resource base;
    struct tide_sim_options options;
    uint64_t unit_bytes;           /* the granularity, or a page */
    _Atomic uint64_t used;         /* requested bytes outstanding, of all threads */
    _Atomic uint64_t reserved;     /* the same, with requests rounded up to the unit; the capacity bounds it */
    _Atomic uint64_t high;         /* the most that `reserved` was */
    struct tidei_sim_pages pages;  /* model=vmm */
    struct tidei_sim_mempool pool; /* model=driver; it counts what is reserved */
    struct tidei_sim_units units;  /* model=cuda; likewise */
    struct tidei_sim_tally tally;  /* of the models that have any of these */
    struct sim_class classes[SIM_CLASS_COUNT];
};

static bool
sim_has_pages(const struct sim *sim)
{
    return sim->options.model == TIDE_SIM_VMM;
}

static bool
sim_has_pool(const struct sim *sim)
{
    return sim->options.model == TIDE_SIM_DRIVER;
}

static bool
sim_has_units(const struct sim *sim)
{
    return sim->options.model == TIDE_SIM_CUDA;
}

/* What is reserved. */
static const _Atomic uint64_t *
sim_reserved(const struct sim *sim)
{
    return sim_has_pool(sim)    ? &sim->pool.reserved_bytes
           : sim_has_units(sim) ? &sim->units.reserved_bytes
                                : &sim->reserved;
}

static unsigned
sim_log2(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

static uint64_t
sim_class_bytes(size_t class_index)
{
    return (uint64_t)(SIM_STEPS + class_index % SIM_STEPS)
           << (class_index / SIM_STEPS + SIM_SMALLEST_LOG2 - SIM_STEPS_LOG2);
}

/*
 * The smallest class of at least `bytes` (1 to SIM_LARGEST_BYTES) in which every slot is a multiple of `alignment` (at
 * most SIM_LARGEST_BYTES). Powers of two qualify, so the search ends within eight steps.
 */
static size_t
sim_class_of(uint64_t bytes, uint64_t alignment)
{
    uint64_t least = bytes > alignment ? bytes : alignment;
    unsigned exponent = sim_log2(least);
    uint64_t step = (UINT64_C(1) << exponent) >> SIM_STEPS_LOG2;
    uint64_t steps = (least - (UINT64_C(1) << exponent) + step - 1) / step;
    size_t class_index = (size_t)(exponent - SIM_SMALLEST_LOG2) * SIM_STEPS + (size_t)steps;

    while (sim_class_bytes(class_index) % alignment != 0)
        class_index++;
    return class_index;
}

/* Take a slot that was never handed out, if the table has or gets room for it. */
static enum tide_status
sim_slot_new(struct sim_class *sim_class, uint64_t class_bytes, uint64_t *out)
{
    if (sim_class->slot_count == SIM_REGION_BYTES / class_bytes)
        return tide_error_set(TIDE_ECAPACITY, "sim: %zu requests of up to %s are live, there is room for no more",
                              sim_class->slot_count, tidei_size_text(class_bytes));
    if (!tidei_grow(&sim_class->slots, &sim_class->slot_capacity, sim_class->slot_count, 1))
        return tide_error_set(TIDE_ENOMEM, "sim: no memory to note %zu requests", sim_class->slot_count + 1);
    *out = sim_class->slot_count++;
    return TIDE_OK;
}

/* Hand out the slot that was freed last, else a new one. */
static enum tide_status
sim_take(struct sim *sim, size_t class_index, uint64_t word, void **out)
{
    struct sim_class *sim_class = &sim->classes[class_index];
    enum tide_status status = TIDE_OK;
    uint64_t slot;

    tidei_lock_acquire(&sim_class->lock);
    slot = sim_class->free_slot;
    if (slot != SIM_NO_SLOT)
        sim_class->free_slot = sim_class->slots[slot] >> 1;
    else
        status = sim_slot_new(sim_class, sim_class_bytes(class_index), &slot);
    if (status == TIDE_OK) {
        sim_class->slots[slot] = word;
        *out = (void *)(uintptr_t)((class_index + 1) * SIM_REGION_BYTES + slot * sim_class_bytes(class_index));
    }
    tidei_lock_release(&sim_class->lock);
    return status;
}

static enum tide_status
sim_too_large(uint64_t bytes, uint64_t alignment)
{
    return tide_error_set(TIDE_ECAPACITY, "sim: %s request at a multiple of %s exceeds the largest of %s",
                          tidei_size_text(bytes), tidei_size_text(alignment), tidei_size_text(SIM_LARGEST_BYTES));
}

/* Addresses for a request of `bytes` that counts as `rounded`. */
static enum tide_status
sim_place(struct sim *sim, uint64_t bytes, uint64_t rounded, size_t alignment, tide_stream stream, void **out)
{
    uint64_t slot_alignment = alignment > SIM_ALIGNMENT ? alignment : SIM_ALIGNMENT;
    uint64_t word = SIM_WORD(bytes, sim_log2(alignment));

    if (bytes > SIM_LARGEST_BYTES || slot_alignment > SIM_LARGEST_BYTES)
        return sim_too_large(bytes, alignment);
    if (sim_has_pages(sim))
        return tidei_sim_pages_take(&sim->pages, rounded, alignment, word, stream, out);
    return sim_take(sim, sim_class_of(bytes, slot_alignment), word, out);
}

/* The request takes `taken` bytes of the capacity; `how` are the words for that where it is another size. */
static enum tide_status
sim_refuse(const struct sim *sim, uint64_t bytes, const char *how, uint64_t taken, uint64_t reserved)
{
    char as[64] = "";

    if (taken != bytes)
        snprintf(as, sizeof(as), ", %s %s,", how, tidei_size_text(taken));
    return tidei_refused(&sim->base,
                         tide_error_set(TIDE_ECAPACITY, "sim: %s request%s exceeds %s capacity (%s in use)",
                                        tidei_size_text(bytes), as, tidei_size_text(sim->options.capacity_bytes),
                                        tidei_size_text(reserved)));
}

/* The memory of model=driver and model=cuda: what a request adds to what is reserved, its neighbours decide. */
static enum tide_status
sim_allocate_cut(struct sim *sim, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    uint64_t capacity = sim->options.capacity_bytes, word, missing = 0;
    enum tide_status status;

    if (alignment > SIM_ALIGNMENT) /* neither base has it */
        return tidei_refused(
            &sim->base,
            tide_error_set(TIDE_EINVAL, "sim: alignment %zu exceeds the 256 bytes of the model", alignment));
    if (bytes > SIM_LARGEST_BYTES)
        return tidei_refused(&sim->base, sim_too_large(bytes, alignment));
    word = SIM_WORD(bytes, sim_log2(alignment));
    if (sim_has_pool(sim))
        status = tidei_sim_mempool_take(&sim->pool, bytes, word, stream, capacity, &missing, out);
    else
        status = tidei_sim_units_take(&sim->units, bytes, word, capacity, &missing, out);
    if (status == TIDE_ECAPACITY && missing != 0)
        return sim_refuse(sim, bytes, "for which it reserves", missing, tidei_figure_get(sim_reserved(sim)));
    if (status != TIDE_OK)
        return tidei_refused(&sim->base, status);
    atomic_fetch_add_explicit(&sim->used, bytes, memory_order_relaxed); /* as tidei_bounded_add */
    return TIDE_OK;
}

static enum tide_status
sim_serve(struct sim *sim, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    uint64_t slot_alignment = alignment > SIM_ALIGNMENT ? alignment : SIM_ALIGNMENT;
    uint64_t rounded;
    uint64_t reserved;
    enum tide_status status;

    if (sim_has_pool(sim) || sim_has_units(sim))
        return sim_allocate_cut(sim, bytes, alignment, stream, out);
    if (!tidei_round_up(bytes, slot_alignment, &rounded) || !tidei_round_up(bytes, sim->unit_bytes, &rounded))
        return tidei_refused(&sim->base,
                             tide_error_set(TIDE_EOVERFLOW, "sim: %zu bytes overflow when rounded up", bytes));
    if (!tidei_bounded_add(&sim->reserved, rounded, sim->options.capacity_bytes, &reserved))
        return sim_refuse(sim, bytes, "rounded up to", rounded, reserved);
    status = sim_place(sim, bytes, rounded, alignment, stream, out);
    /* Relaxed: as tidei_bounded_add. */
    if (status != TIDE_OK) {
        atomic_fetch_sub_explicit(&sim->reserved, rounded, memory_order_relaxed);
        return tidei_refused(&sim->base, status);
    }
    atomic_fetch_add_explicit(&sim->used, bytes, memory_order_relaxed);
    tidei_figure_raise(&sim->high, reserved + rounded);
    return TIDE_OK;
}

static enum tide_status
sim_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct sim *sim = (struct sim *)self;
    enum tide_status status;

    *out = NULL;
    if (bytes == 0)
        return TIDE_OK;
    tidei_sim_tally_tell(&sim->tally, TIDE_SIM_ALLOCATES, bytes);
    status = sim_serve(sim, bytes, alignment, stream, out);
    tidei_sim_tally_tell(&sim->tally, TIDE_SIM_ENDS, bytes);
    return status;
}

/* Free the slot of `pointer`, which must hold `word`. */
static enum tide_status
sim_give(struct sim *sim, void *pointer, uint64_t word)
{
    uint64_t address = (uintptr_t)pointer;
    uint64_t class_index = (address >> SIM_REGION_LOG2) - 1; /* an address below the first region gives no class */
    uint64_t offset = address & (SIM_REGION_BYTES - 1);
    enum tide_status status = TIDE_EPOINTER;
    struct sim_class *sim_class;
    uint64_t slot;

    if (class_index >= SIM_CLASS_COUNT || offset % sim_class_bytes(class_index) != 0)
        return TIDE_EPOINTER;
    slot = offset / sim_class_bytes(class_index);
    sim_class = &sim->classes[class_index];
    tidei_lock_acquire(&sim_class->lock);
    if (slot < sim_class->slot_count && (sim_class->slots[slot] & SIM_LIVE) != 0)
        status = sim_class->slots[slot] == word ? TIDE_OK : TIDE_EMISMATCH;
    if (status == TIDE_OK) {
        sim_class->slots[slot] = sim_class->free_slot << 1;
        sim_class->free_slot = slot;
    }
    tidei_lock_release(&sim_class->lock);
    return status;
}

static enum tide_status
sim_take_back(struct sim *sim, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    /* a size too large to be live may not fit into a word: bare SIM_LIVE means 0 bytes, which no slot has */
    uint64_t word = bytes <= SIM_LARGEST_BYTES ? SIM_WORD(bytes, sim_log2(alignment)) : SIM_LIVE;
    uint64_t rounded;
    enum tide_status status;

    status = sim_has_pool(sim)    ? tidei_sim_mempool_give(&sim->pool, pointer, word, stream)
             : sim_has_units(sim) ? tidei_sim_units_give(&sim->units, pointer, word)
             : sim_has_pages(sim) ? tidei_sim_pages_give(&sim->pages, pointer, word, stream)
                                  : sim_give(sim, pointer, word);
    if (status == TIDE_EMISMATCH)
        return tide_error_set(status, "sim: %zu bytes at a multiple of %zu given back at %p, allocated otherwise",
                              bytes, alignment, pointer);
    if (status == TIDE_EPOINTER)
        return tide_error_set(status, "sim: %p given back, which is no live address", pointer);
    if (status != TIDE_OK)
        return status;
    atomic_fetch_sub_explicit(&sim->used, bytes, memory_order_relaxed); /* as tidei_bounded_add */
    if (sim_has_pool(sim) || sim_has_units(sim))
        return TIDE_OK;
    (void)tidei_round_up(bytes, sim->unit_bytes, &rounded);                   /* it fitted when it was allocated */
    atomic_fetch_sub_explicit(&sim->reserved, rounded, memory_order_relaxed); /* as tidei_bounded_add */
    return TIDE_OK;
}

static enum tide_status
sim_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct sim *sim = (struct sim *)self;
    enum tide_status status;

    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    tidei_sim_tally_tell(&sim->tally, TIDE_SIM_FREES, bytes);
    status = sim_take_back(sim, pointer, bytes, alignment, stream);
    tidei_sim_tally_tell(&sim->tally, TIDE_SIM_ENDS, bytes);
    return status;
}

/* An order behind all streams waits for their work. */
static enum tide_status
sim_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    struct sim *sim = (struct sim *)self;

    atomic_fetch_add_explicit(&sim->tally.orders, earlier != later, memory_order_relaxed); /* relaxed: a figure */
    if (sim_has_pool(sim) && earlier == TIDE_STREAM_ALL)
        tidei_sim_mempool_wait(&sim->pool);
    else if (sim_has_pool(sim) && earlier != later)
        tidei_sim_mempool_order(&sim->pool, earlier, later);
    return tide_base_order(self, earlier, later);
}

static enum tide_status
sim_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct sim *sim = (struct sim *)self;
    struct tidei_await *await = tidei_await_take();

    if (sim_has_pages(sim))
        tidei_sim_pages_trim(&sim->pages, keep_bytes);
    if (!sim_has_pool(sim))
        return TIDE_OK;
    if (await != NULL)
        tidei_sim_mempool_await(&sim->pool, await);
    tidei_sim_mempool_trim(&sim->pool, keep_bytes);
    return TIDE_OK;
}

static enum tide_status
sim_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct sim *sim = (const struct sim *)self;
    const _Atomic uint64_t *high = sim_has_pool(sim) || sim_has_units(sim) ? &sim->tally.high_bytes : &sim->high;
    const struct tidei_figure figures[] = {
        /* Relaxed: figures of their own, which order nothing. */
        { TIDE_QUERY_BYTES_USED, atomic_load_explicit(&sim->used, memory_order_relaxed) },
        { TIDE_QUERY_BYTES_RESERVED, tidei_figure_get(sim_reserved(sim)) },
        { TIDE_QUERY_BYTES_RESERVED_HIGH, tidei_figure_get(high) },
        { TIDE_QUERY_CAPACITY, sim->options.capacity_bytes },
        { TIDE_QUERY_HOST_ACCESS, 0 },
        { TIDE_QUERY_STREAM_ORDERED, 0 },
        { TIDE_QUERY_ALIGNMENT, SIM_ALIGNMENT },
        { TIDE_QUERY_PAGE, sim_has_pages(sim) ? sim->unit_bytes : UINT64_MAX },
        { TIDE_QUERY_UNIT, sim_has_pool(sim) ? TIDEI_SIM_MEMPOOL_UNIT : UINT64_MAX },
    };

    return tidei_figures_find(figures, TIDEI_COUNT_OF(figures), what, out) ? TIDE_OK : tide_base_query(self, what, out);
}

static enum tide_status
sim_check(void *given, size_t *fault)
{
    const struct tide_sim_options *options = given;

    (void)fault;
    /* What the full text of any model says, the default, is no contradiction. */
    if (options->model != TIDE_SIM_PLAIN && options->granularity_bytes > 1)
        return tide_error_set(TIDE_EINVAL, "sim: a granularity is of model=plain; the others have units of their own");
    if (options->model != TIDE_SIM_VMM && options->page_bytes != 0)
        return tide_error_set(TIDE_EINVAL, "sim: a page is of model=vmm; model=plain rounds up to its granularity");
    return TIDE_OK;
}

static enum tide_status
sim_init(struct tide_resource *self, size_t *fault)
{
    struct sim *sim = (struct sim *)self;

    (void)fault;
    sim->unit_bytes = sim->options.granularity_bytes;
    if (sim_has_pages(sim))
        sim->unit_bytes = sim->options.page_bytes != 0 ? sim->options.page_bytes : SIM_PAGE_BYTES;
    tidei_sim_pages_init(&sim->pages, SIM_BEHIND, sim->unit_bytes, &sim->tally);
    tidei_sim_mempool_init(&sim->pool, SIM_BEHIND, &sim->tally);
    tidei_sim_units_init(&sim->units, SIM_BEHIND, &sim->tally);
    for (size_t i = 0; i < SIM_CLASS_COUNT; i++) {
        tidei_lock_init(&sim->classes[i].lock);
        sim->classes[i].free_slot = SIM_NO_SLOT;
    }
    return TIDE_OK;
}

static void
sim_fini(struct tide_resource *self)
{
    struct sim *sim = (struct sim *)self;

    tidei_sim_pages_fini(&sim->pages);
    tidei_sim_mempool_fini(&sim->pool);
    tidei_sim_units_fini(&sim->units);
    for (size_t i = 0; i < SIM_CLASS_COUNT; i++) {
        tidei_lock_fini(&sim->classes[i].lock);
        free(sim->classes[i].slots);
    }
}

static const char *const sim_models[] = { "plain", "vmm", "driver", "cuda", NULL };

static const struct tidei_argument sim_arguments[] = {
    TIDEI_ARGUMENT("capacity", SIZE, struct tide_sim_options, capacity_bytes, "a size such as 80GiB", .least = 1,
                   .default_value = UINT64_MAX),
    TIDEI_ARGUMENT("granularity", SIZE, struct tide_sim_options, granularity_bytes, "a power of two such as 2MiB",
                   .power_of_two = true, .default_value = 1),
    TIDEI_ARGUMENT("model", CHOICE, struct tide_sim_options, model, "plain, vmm, driver or cuda",
                   .choices = sim_models),
    TIDEI_ARGUMENT("page", SIZE, struct tide_sim_options, page_bytes, "a power of two from 4KiB to 1GiB",
                   .power_of_two = true, .least = 4096, .most = UINT64_C(1) << 30),
};

const struct tidei_kind tidei_sim_kind = {
    .ops = {
        TIDEI_KIND_OPS("sim"),
        .allocate = sim_allocate,
        .deallocate = sim_deallocate,
        .order = sim_order,
        .trim = sim_trim,
        .query = sim_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
    },
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(sim_arguments),
    .options_size = sizeof(struct tide_sim_options),
    TIDEI_KIND_STRUCT(struct sim),
    .check = sim_check,
    .init = sim_init,
    .fini = sim_fini,
};

enum tide_status
tide_sim_create(const struct tide_sim_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_sim_kind, NULL, options, out);
}

enum tide_status
tide_sim_read(struct tide_resource *sim, struct tide_sim_figures *out)
{
    TIDEI_INSIDE(sim);
    enum tide_status status = tidei_kind_check_figures(&tidei_sim_kind, sim, out);
    const struct tidei_sim_tally *tally = &((const struct sim *)sim)->tally;
    struct tide_sim_figures figures = { TIDE_FIGURES(figures) };

    if (status != TIDE_OK)
        return status;
    figures.grown = tidei_figure_get(&tally->grown);
    figures.grown_bytes = tidei_figure_get(&tally->grown_bytes);
    figures.returned = tidei_figure_get(&tally->returned);
    figures.returned_bytes = tidei_figure_get(&tally->returned_bytes);
    figures.high_bytes = tidei_figure_get(&tally->high_bytes);
    figures.kept = tidei_figure_get(&tally->kept);
    figures.mapped = tidei_figure_get(&tally->mapped);
    figures.unmapped = tidei_figure_get(&tally->unmapped);
    figures.trims = tidei_figure_get(&tally->trims);
    figures.orders = tidei_figure_get(&tally->orders);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

enum tide_status
tide_sim_watch(struct tide_resource *sim, tide_sim_watcher watcher, void *context)
{
    TIDEI_INSIDE(sim);
    enum tide_status status = tidei_kind_check(&tidei_sim_kind, sim);
    struct tidei_sim_tally *tally;

    if (status != TIDE_OK)
        return status;
    tally = &((struct sim *)sim)->tally;
    tally->watcher = watcher;
    tally->watcher_context = context;
    return TIDE_OK;
}
