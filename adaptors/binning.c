/*
 * binning: send each request to the smallest bin that fits.
 *
 * Usage: binning(LIMIT={STACK} | SMALLEST..LARGEST [, ...])
 *     LIMIT={STACK}      requests of up to LIMIT go through STACK, which ends in the layer that follows binning
 *     SMALLEST..LARGEST  a bin of `fixed` blocks for each power of two from SMALLEST to LARGEST
 *
 * Example: blocks of three sizes for small and frequent requests, the driver for the rest:
 *     binning(256KiB={fixed(256KiB)}, 1MiB..2MiB) | driver
 *
 * The size alone selects the bin, at deallocation as at allocation, so the layer stores nothing for each allocation.
 * Requests of 0 bytes go to the smallest bin. Without bins, everything goes to the layer that follows.
 *
 * A bin that is added later (tide_binning_add) serves sizes of which blocks of other bins are still outstanding. The
 * layer notes the addresses of the new bin's blocks, so that each deallocation reaches the resource that served it.
 *
 * LIMITATIONS
 *  - A deallocation with a wrong size that belongs to another bin goes to that bin; `fixed` bins detect it.
 *  - Where a bin fails, the request fails: no larger bin is tried. An alignment over 256 bytes fails in a `fixed` bin.
 *  - Figures are those of the layer that follows, for which all blocks of a bin are in use.
 *  - Streams are ordered through the layer that follows, which must serve the same device. An order behind
 *    TIDE_STREAM_ALL also goes through every bin, so that bins which keep blocks forget their streams.
 *  - A bin that is added later costs a short lock for each call that it serves.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <tidemark/binning.h>
#include <tidemark/fixed.h>

#include "src/tables/address-shards.h"
#include "src/stack/stack.h"
#include "src/resource/kind.h"
#include "src/resource/upstreams.h"
#include "src/sync/inside.h"

#define RANGE_MOST 64 /* powers of two in 64 bits */

/* The resource that serves a range of sizes. */
struct bin_route {
    struct tide_resource *resource;
    uint32_t added; /* from 1, the number of a bin that was added later; 0: it is one of the first bins */
};

/*
 * `slot_count` slots, a power of two: the bins by size, then the layer that follows in all slots that are left, at
 * least one. The limits are stored apart from the routes, so that a search through 16 bins reads two cache lines. A
 * table never changes: adding a bin makes a new one, and old tables stay for threads that are reading them.
 */
struct bin_table {
    struct bin_table *before; /* owned */
    size_t bin_count;
    size_t slot_count;
    struct bin_route *routes; /* the latest table holds a reference to each bin; owns the array behind the limits */
    uint64_t limits[];
};

/*
 * The slot's index is the number of limits below `bytes`; the last limit is UINT64_MAX. Each round halves the range
 * without a branch, because sizes come in no order that a branch predictor could learn.
 */
static inline const struct bin_route *
bin_route(const struct bin_table *table, uint64_t bytes)
{
    size_t slot = 0;

    for (size_t half = table->slot_count / 2; half > 0; half /= 2)
        slot += table->limits[slot + half - 1] < bytes ? half : 0;
    return &table->routes[slot];
}

struct binning {
    struct tide_resource base;
    _Atomic(struct bin_table *) table;        /* owned; written with tidei_upstreams_lock */
    struct bin_table *first;                  /* the first table; borrowed */
    uint32_t added;                           /* number of bins added, guarded by the same lock */
    struct tidei_address_shards *_Atomic out; /* owned; addresses from added bins, with the bin's number */
};

/* The added bin with this number; every later table has it. */
static struct tide_resource *
bin_added(const struct bin_table *table, uint32_t added)
{
    size_t slot = 0;

    while (table->routes[slot].added != added)
        slot++;
    return table->routes[slot].resource;
}

/* Free the table, with its references, and all earlier ones. */
static void
bin_table_free(struct bin_table *table)
{
    for (size_t i = 0; table != NULL && i < table->bin_count; i++)
        tide_resource_release(table->routes[i].resource);
    while (table != NULL) {
        struct bin_table *before = table->before;

        free(table);
        table = before;
    }
}

/*
 * A table for `count` bins, which the caller fills in; the slots behind them go to `upstream` (borrowed). NULL, with
 * the error text set, where the host has no memory.
 */
static struct bin_table *
bin_table_new(size_t count, struct tide_resource *upstream)
{
    size_t slot_count = 1;
    struct bin_table *table;

    while (slot_count < count + 1)
        slot_count *= 2;
    table = calloc(1, sizeof(*table) + slot_count * (sizeof(uint64_t) + sizeof(struct bin_route)));
    if (table == NULL) {
        tide_error_set(TIDE_ENOMEM, "binning: no host memory for %zu bins", count);
        return NULL;
    }
    table->bin_count = count;
    table->slot_count = slot_count;
    table->routes = (struct bin_route *)(table->limits + slot_count);
    for (size_t i = count; i < slot_count; i++) {
        table->limits[i] = UINT64_MAX;
        table->routes[i].resource = upstream;
    }
    return table;
}

static void
bin_table_set(struct bin_table *table, size_t slot, uint64_t limit_bytes, struct tide_resource *resource,
              uint32_t added)
{
    table->limits[slot] = limit_bytes;
    table->routes[slot] = (struct bin_route){ resource, added };
}

/* A table with the bins of `now`, which it owns, references included, and one more at slot `place`; NULL as above. */
static struct bin_table *
bin_table_grow(struct bin_table *now, size_t place, uint64_t limit_bytes, struct tide_resource *resource,
               uint32_t added)
{
    struct tide_resource *upstream = now->routes[now->bin_count].resource;
    struct bin_table *table = bin_table_new(now->bin_count + 1, upstream);

    if (table == NULL)
        return NULL;
    bin_table_set(table, place, limit_bytes, tide_resource_retain(resource), added);
    for (size_t i = 0; i < now->bin_count; i++)
        bin_table_set(table, i + (i >= place), now->limits[i], now->routes[i].resource, now->routes[i].added);
    table->before = now;
    return table;
}

static inline const struct bin_table *
binning_table(struct binning *binning)
{
    /* Acquire: pairs with the release in binning_publish, and sees the table. */
    return atomic_load_explicit(&binning->table, memory_order_acquire);
}

static struct tidei_address_shards *
binning_out(struct binning *binning)
{
    return atomic_load_explicit(&binning->out, memory_order_relaxed); /* relaxed: written before the table's release */
}

/* Allocate from an added bin, and note the address. */
static __attribute__((noinline)) enum tide_status
binning_allocate_noted(struct binning *binning, const struct bin_route *route, size_t bytes, size_t alignment,
                       tide_stream stream, void **out)
{
    enum tide_status status = tidei_allocate(route->resource, bytes, alignment, stream, out);

    if (status != TIDE_OK || tidei_address_shards_put(binning_out(binning), *out, route->added))
        return status;
    tidei_deallocate(route->resource, *out, bytes, alignment, stream);
    *out = NULL;
    return tidei_refused(&binning->base, tide_error_set(TIDE_ENOMEM, "binning: no host memory to note an address"));
}

static enum tide_status
binning_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct binning *binning = (struct binning *)self;
    const struct bin_route *route = bin_route(binning_table(binning), bytes);

    if (__builtin_expect(route->added != 0, 0))
        return binning_allocate_noted(binning, route, bytes, alignment, stream, out);
    return tidei_allocate(route->resource, bytes, alignment, stream, out);
}

/* Sizes that an added bin has taken over: free the block where its address came from, after removing the address. */
static __attribute__((noinline)) enum tide_status
binning_deallocate_noted(struct binning *binning, const struct bin_table *table, void *pointer, size_t bytes,
                         size_t alignment, tide_stream stream)
{
    uint32_t added = tidei_address_shards_take(binning_out(binning), pointer);
    struct tide_resource *bin = added != 0 ? bin_added(table, added) : bin_route(binning->first, bytes)->resource;
    enum tide_status status = tidei_deallocate(bin, pointer, bytes, alignment, stream);

    /* There is room, unless others have taken it meanwhile: then the block's bin is forgotten. */
    if (status != TIDE_OK && added != 0 && !tidei_address_shards_put(binning_out(binning), pointer, added))
        tidei_message(TIDE_ERROR, "binning: no host memory to note an address again that its bin did not take back");
    return status;
}

static enum tide_status
binning_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct binning *binning = (struct binning *)self;
    const struct bin_table *table = binning_table(binning);
    const struct bin_route *route = bin_route(table, bytes);

    if (__builtin_expect(route->added != 0, 0))
        return binning_deallocate_noted(binning, table, pointer, bytes, alignment, stream);
    return tidei_deallocate(route->resource, pointer, bytes, alignment, stream);
}

static struct tide_resource *
binning_beneath(struct tide_resource *self, struct tidei_place *place)
{
    struct binning *binning = (struct binning *)self;
    const struct bin_table *table = binning_table(binning);
    uint32_t added;

    if (bin_route(table, place->bytes)->added == 0)
        return bin_route(table, place->bytes)->resource;
    added = tidei_address_shards_take(binning_out(binning), place->pointer);
    if (added == 0)
        return bin_route(binning->first, place->bytes)->resource;
    return tidei_address_shards_put(binning_out(binning), place->pointer, added) ? bin_added(table, added) : NULL;
}

/* Orders all resources even where one fails, and returns the failure. */
static enum tide_status
binning_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    const struct bin_table *table = binning_table((struct binning *)self);
    enum tide_status status = tide_pass_order(self, earlier, later);

    for (size_t i = 0; earlier == TIDE_STREAM_ALL && i < table->bin_count; i++) {
        struct tide_resource *bin = table->routes[i].resource;
        enum tide_status bin_status = bin->ops->order(bin, earlier, later);

        if (status == TIDE_OK)
            status = bin_status;
    }
    return status;
}

/* Upstream comes last, because the bins may return memory to it. */
static enum tide_status
binning_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    const struct bin_table *table = binning_table((struct binning *)self);
    enum tide_status status = TIDE_OK;
    enum tide_status upstream_status;

    for (size_t i = 0; i < table->bin_count; i++) {
        struct tide_resource *bin = table->routes[i].resource;
        enum tide_status bin_status = bin->ops->trim(bin, keep_bytes);

        if (status == TIDE_OK)
            status = bin_status;
    }
    upstream_status = tide_pass_trim(self, keep_bytes);
    return status != TIDE_OK ? status : upstream_status;
}

/* The alignment is what all provide. The largest request is that of the layer that follows, or of a larger bin. */
static enum tide_status
binning_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct bin_table *table = binning_table((struct binning *)self);
    enum tide_status status;

    if (tidei_query_is_of_blocks(what))
        return tide_base_query(self, what, out); /* blocks come from several upstreams */
    status = tide_pass_query(self, what, out);
    if (what != TIDE_QUERY_ALIGNMENT && what != TIDE_QUERY_LARGEST_REQUEST)
        return status;
    for (size_t i = 0; status == TIDE_OK && i < table->bin_count; i++) {
        struct tide_resource *bin = table->routes[i].resource;
        uint64_t figure;

        if (what == TIDE_QUERY_ALIGNMENT)
            status = bin->ops->query(bin, what, &figure);
        else
            figure = table->limits[i];
        if (status == TIDE_OK && (figure < *out) == (what == TIDE_QUERY_ALIGNMENT))
            *out = figure;
    }
    return status;
}

static void
binning_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct bin_table *table = binning_table((struct binning *)self);

    for (size_t i = 0; i < table->bin_count; i++) {
        if (i > 0)
            tide_text_format(text, ", ");
        tide_text_size(text, table->limits[i]);
        tide_text_format(text, "={");
        tidei_describe_until(table->routes[i].resource, self->upstream, text);
        tide_text_format(text, "}");
    }
}

static enum tide_status
binning_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out)
{
    const struct bin_table *table = binning_table((struct binning *)self);

    if (index == 0)
        return tide_pass_upstream_at(self, 0, out);
    *out = (struct tide_upstream){ 0 };
    if (index > table->bin_count)
        return TIDE_EINVAL; /* the end of every walk, as in tide_pass_upstream_at */
    *out = (struct tide_upstream){ table->routes[index - 1].resource, table->limits[index - 1] };
    return TIDE_OK;
}

static void
binning_fini(struct tide_resource *self)
{
    struct binning *binning = (struct binning *)self;

    bin_table_free(atomic_load_explicit(&binning->table, memory_order_relaxed)); /* relaxed: nobody else is here */
    tidei_address_shards_destroy(binning_out(binning));
}

extern const struct tidei_kind tidei_binning_kind;

/* The bins of a new resource, as given: in any order, some as ranges of powers of two. */
struct bin_list {
    struct tide_upstream *bins; /* owned; holds a reference to each resource */
    size_t count;
};

/* Create an empty list with room for `single` bins and `ranges` ranges. Errors: TIDE_ENOMEM; the text is set. */
static enum tide_status
bins_init(struct bin_list *list, size_t single, size_t ranges)
{
    /* One more, so that an empty list is no allocation of 0 bytes. The bounds keep the sum from overflowing. */
    bool possible = single < SIZE_MAX / 2 && ranges < SIZE_MAX / (4 * RANGE_MOST);

    list->count = 0;
    list->bins = possible ? calloc(single + RANGE_MOST * ranges + 1, sizeof(*list->bins)) : NULL;
    if (list->bins == NULL)
        return tide_error_set(TIDE_ENOMEM, "binning: no host memory for %zu bins", single + ranges);
    return TIDE_OK;
}

/* May be called after a failure of init. */
static void
bins_fini(struct bin_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        tide_resource_release(list->bins[i].resource);
    free(list->bins);
}

/* Room is reserved. A bin without a resource is found by the later check. */
static void
bins_add(struct bin_list *list, const struct tide_upstream *bin)
{
    list->bins[list->count] = *bin;
    tide_resource_retain(list->bins[list->count++].resource);
}

/*
 * Add a `fixed` bin over `upstream` for each power of two from `smallest` to `largest`; room is reserved. Errors:
 * TIDE_EINVAL (not powers of two in rising order), those of fixed.
 */
static enum tide_status
bins_add_range(struct bin_list *list, struct tide_resource *upstream, uint64_t smallest, uint64_t largest)
{
    if (!tidei_is_power_of_two(smallest) || !tidei_is_power_of_two(largest) || smallest > largest)
        return tide_error_set(TIDE_EINVAL, "binning: a range of %s to %s, expected powers of two that rise",
                              tidei_size_text(smallest), tidei_size_text(largest));
    /* Loop over the exponents, because the power after the largest may not fit. */
    for (int exponent = __builtin_ctzll(smallest); exponent <= __builtin_ctzll(largest); exponent++) {
        const struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = (size_t)1 << exponent };
        struct tide_upstream *bin = &list->bins[list->count];
        enum tide_status status = tide_fixed_create(upstream, &options, &bin->resource);

        if (status != TIDE_OK)
            return status;
        bin->limit_bytes = options.block_bytes;
        list->count++;
    }
    return TIDE_OK;
}

static int
bins_compare(const void *left, const void *right)
{
    uint64_t a = ((const struct tide_upstream *)left)->limit_bytes;
    uint64_t b = ((const struct tide_upstream *)right)->limit_bytes;

    return (a > b) - (a < b);
}

/* Check that the bin's resource can serve the bin's sizes; a resource without a known limit serves all. */
static enum tide_status
bin_check(const struct tide_upstream *bin)
{
    uint64_t largest_bytes;
    struct tidei_error error;

    if (bin->resource == NULL)
        return tide_error_set(TIDE_EINVAL, "binning: no resource for the bin of up to %s",
                              tidei_size_text(bin->limit_bytes));
    if (bin->limit_bytes == 0)
        return tide_error_set(TIDE_EINVAL, "binning: a bin of up to 0 B");
    tidei_error_save(&error);
    if (bin->resource->ops->query(bin->resource, TIDE_QUERY_LARGEST_REQUEST, &largest_bytes) != TIDE_OK) {
        tidei_error_restore(&error);
        return TIDE_OK;
    }
    if (largest_bytes < bin->limit_bytes)
        return tide_error_set(TIDE_EINVAL, "binning: the bin of up to %s serves no more than %llu B",
                              tidei_size_text(bin->limit_bytes), (unsigned long long)largest_bytes);
    return TIDE_OK;
}

/* Sort and check all bins. On failure *wrong is the limit of the wrong bin, or else 0. */
static enum tide_status
bins_sort(struct bin_list *list, uint64_t *wrong)
{
    enum tide_status status = TIDE_OK;

    *wrong = 0;
    qsort(list->bins, list->count, sizeof(*list->bins), bins_compare);
    for (size_t i = 0; i < list->count && status == TIDE_OK; i++) {
        const struct tide_upstream *bin = &list->bins[i];

        status = bin_check(bin);
        if (status == TIDE_OK && i > 0 && bin->limit_bytes == bin[-1].limit_bytes)
            status = tide_error_set(TIDE_EINVAL, "binning: two bins of up to %s", tidei_size_text(bin->limit_bytes));
        if (status != TIDE_OK)
            *wrong = bin->limit_bytes;
    }
    return status;
}

/* Create the resource from the bins, in any order. On failure *wrong is as above. */
static enum tide_status
binning_new(struct tide_resource *upstream, struct bin_list *list, uint64_t *wrong, struct tide_resource **out)
{
    enum tide_status status = bins_sort(list, wrong);
    struct bin_table *table;
    struct binning *binning;

    if (status != TIDE_OK)
        return status;
    binning = calloc(1, sizeof(*binning));
    table = bin_table_new(list->count, upstream);
    if (binning == NULL || table == NULL) {
        status = tide_error_set(TIDE_ENOMEM, "binning: no host memory for %zu bins", list->count);
        goto free_both;
    }
    for (size_t i = 0; i < list->count; i++)
        bin_table_set(table, i, list->bins[i].limit_bytes, tide_resource_retain(list->bins[i].resource), 0);
    binning->first = table;
    atomic_init(&binning->table, table);
    status = tide_resource_init(&binning->base, &tidei_binning_kind.ops, upstream);
    if (status == TIDE_OK) {
        tidei_kind_mark(&binning->base);
        *out = &binning->base;
        return TIDE_OK;
    }
free_both:
    bin_table_free(table);
    free(binning);
    return status;
}

static enum tide_status
binning_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct bin_list list;
    enum tide_status status = bins_init(&list, 0, arguments->bin_count);
    uint64_t wrong = 0;

    *out = NULL;
    for (size_t i = 0; status == TIDE_OK && i < arguments->bin_count; i++) {
        const struct tidei_bin *bin = &arguments->bins[i];

        if (bin->resource != NULL)
            bins_add(&list, &(struct tide_upstream){ bin->resource, bin->limit_bytes });
        else
            status = bins_add_range(&list, upstream, bin->smallest_bytes, bin->limit_bytes);
    }
    if (status == TIDE_OK)
        status = binning_new(upstream, &list, &wrong, out);
    /* Of two bins with one limit, report the second one, which comes last in the text. */
    for (size_t i = 0; status != TIDE_OK && i < arguments->bin_count; i++) {
        if (arguments->bins[i].smallest_bytes <= wrong && wrong <= arguments->bins[i].limit_bytes)
            *arguments->error_column = arguments->bins[i].column;
    }
    bins_fini(&list);
    return status;
}

static const struct tidei_argument binning_arguments[] = {
    { .key = "bin",
      .type = TIDEI_ARGUMENT_BIN,
      .positional = true,
      .expected = "a bin such as 256KiB={fixed(256KiB)}, or powers of two such as 256..64KiB" },
};

const struct tidei_kind tidei_binning_kind = {
    .ops = {
        TIDEI_KIND_OPS("binning"),
        .allocate = binning_allocate,
        .deallocate = binning_deallocate,
        .order = binning_order,
        .trim = binning_trim,
        .query = binning_query,
        .describe = binning_describe,
        .upstream_at = binning_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(binning_arguments),
    .options_size = sizeof(struct tide_binning_options),
    .fini = binning_fini,
    .beneath = binning_beneath,
    .create_text = binning_from_text,
};

enum tide_status
tide_binning_create(struct tide_resource *upstream, const struct tide_binning_options *options,
                    struct tide_resource **out)
{
    TIDEI_INSIDE(upstream);
    struct tide_binning_options wanted;
    struct bin_list list;
    enum tide_status status = tidei_kind_options(&tidei_binning_kind, upstream, options, &wanted, out);
    uint64_t wrong;

    if (status != TIDE_OK)
        return status;
    if (wanted.bins == NULL && wanted.bin_count > 0)
        return tide_error_set(TIDE_EINVAL, "binning: no bins where %zu are named", wanted.bin_count);
    status = bins_init(&list, wanted.bin_count, 1);
    if (status == TIDE_OK && (wanted.smallest_bytes != 0 || wanted.largest_bytes != 0))
        status = bins_add_range(&list, upstream, wanted.smallest_bytes, wanted.largest_bytes);
    for (size_t i = 0; status == TIDE_OK && i < wanted.bin_count; i++)
        bins_add(&list, &wanted.bins[i]);
    if (status == TIDE_OK)
        status = binning_new(upstream, &list, &wrong, out);
    bins_fini(&list);
    return status;
}

/*
 * Add a bin with a new limit. The caller has tidei_upstreams_lock, so that only one is added at a time. A trace knows
 * the bin before it gets a request.
 */
static enum tide_status
binning_publish(struct binning *binning, uint64_t limit_bytes, struct tide_resource *resource)
{
    struct bin_table *now = atomic_load_explicit(&binning->table, memory_order_relaxed); /* relaxed: has the lock */
    const struct tide_upstream bin = { resource, limit_bytes };
    struct bin_table *table;
    size_t place = 0;

    while (place < now->bin_count && now->limits[place] < limit_bytes)
        place++;
    if (place < now->bin_count && now->limits[place] == limit_bytes)
        return tide_error_set(TIDE_EINVAL, "binning: two bins of up to %s", tidei_size_text(limit_bytes));
    table = bin_table_grow(now, place, limit_bytes, resource, binning->added + 1);
    if (table == NULL)
        return TIDE_ENOMEM;
    binning->added++;
    tidei_upstreams_begin(&binning->base, &bin);
    /* Release: pairs with the acquire in binning_table. */
    atomic_store_explicit(&binning->table, table, memory_order_release);
    tidei_upstreams_end(&binning->base);
    return TIDE_OK;
}

/* The table of addresses from added bins, created with the first of them; without the lock. */
static enum tide_status
binning_make_out(struct binning *binning)
{
    struct tidei_address_shards *made, *none = NULL;
    enum tide_status status;

    if (binning_out(binning) != NULL)
        return TIDE_OK;
    status = tidei_address_shards_create("binning", &made);
    if (status != TIDE_OK)
        return status;
    /* Release for the thread that installs the table, acquire for the one that comes second. */
    if (!atomic_compare_exchange_strong_explicit(&binning->out, &none, made, memory_order_acq_rel,
                                                 memory_order_acquire))
        tidei_address_shards_destroy(made);
    return TIDE_OK;
}

enum tide_status
tide_binning_add(struct tide_resource *resource, uint64_t limit_bytes, struct tide_resource *bin)
{
    TIDEI_INSIDE(resource);
    struct binning *binning = (struct binning *)resource;
    struct tide_upstream checked = { bin, limit_bytes };
    enum tide_status status;

    if (resource == NULL || resource->ops != &tidei_binning_kind.ops)
        return tide_error_set(TIDE_EINVAL, "binning: not a binning resource");
    status = bin_check(&checked);
    if (status == TIDE_OK)
        status = binning_make_out(binning);
    if (status != TIDE_OK)
        return status;
    tidei_upstreams_lock();
    status = binning_publish(binning, limit_bytes, bin);
    tidei_upstreams_unlock();
    return status;
}
