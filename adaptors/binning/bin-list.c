/* Takes together the bins of a new `binning`. */
#include "adaptors/binning/bin-list.h"

#include <stdlib.h>

#include "src/resource/kind.h"

#define RANGE_MOST 64 /* bins of a range: powers of two of 64 bits */

enum tide_status
tidei_bin_list_init(struct tidei_bin_list *list, size_t single, size_t ranges)
{
    /* One more, so that none at all is no allocation of 0 bytes; and no sum that wraps round. */
    bool possible = single < SIZE_MAX / 2 && ranges < SIZE_MAX / (4 * RANGE_MOST);

    list->count = 0;
    list->bins = possible ? calloc(single + RANGE_MOST * ranges + 1, sizeof(*list->bins)) : NULL;
    if (list->bins == NULL)
        return tide_error_set(TIDE_ENOMEM, "binning: no host memory for %zu bins", single + ranges);
    return TIDE_OK;
}

void
tidei_bin_list_fini(struct tidei_bin_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        tide_resource_release(list->bins[i].resource);
    free(list->bins);
}

void
tidei_bin_list_add(struct tidei_bin_list *list, const struct tide_upstream *bin)
{
    list->bins[list->count] = *bin;
    tide_resource_retain(list->bins[list->count++].resource);
}

/* Made by name: binning knows no other adaptor. */
enum tide_status
tidei_bin_list_add_range(struct tidei_bin_list *list, struct tide_resource *upstream, uint64_t smallest,
                         uint64_t largest)
{
    const struct tidei_kind *fixed = tidei_kind_find("fixed");

    if (!tidei_is_power_of_two(smallest) || !tidei_is_power_of_two(largest) || smallest > largest)
        return tide_error_set(TIDE_EINVAL, "binning: a range of %s to %s, expected powers of two that rise",
                              tidei_size_text(smallest), tidei_size_text(largest));
    if (fixed == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "binning: this library has no fixed layer for a range of bins");
    /* From the exponents, as the power after the largest may not exist. */
    for (int exponent = __builtin_ctzll(smallest); exponent <= __builtin_ctzll(largest); exponent++) {
        uint64_t bytes = UINT64_C(1) << exponent;
        struct tidei_arguments arguments = { .values = { { .given = true, .number = bytes } } };
        struct tide_upstream *bin = &list->bins[list->count];
        enum tide_status status = fixed->create(&arguments, upstream, &bin->resource);

        if (status != TIDE_OK)
            return status;
        bin->limit_bytes = bytes;
        list->count++;
    }
    return TIDE_OK;
}

static int
list_compare(const void *left, const void *right)
{
    uint64_t a = ((const struct tide_upstream *)left)->limit_bytes;
    uint64_t b = ((const struct tide_upstream *)right)->limit_bytes;

    return (a > b) - (a < b);
}

enum tide_status
tidei_bin_check(const struct tide_upstream *bin)
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

enum tide_status
tidei_bin_list_sort(struct tidei_bin_list *list, uint64_t *wrong)
{
    enum tide_status status = TIDE_OK;

    *wrong = 0;
    qsort(list->bins, list->count, sizeof(*list->bins), list_compare);
    for (size_t i = 0; i < list->count && status == TIDE_OK; i++) {
        const struct tide_upstream *bin = &list->bins[i];

        status = tidei_bin_check(bin);
        if (status == TIDE_OK && i > 0 && bin->limit_bytes == bin[-1].limit_bytes)
            status = tide_error_set(TIDE_EINVAL, "binning: two bins of up to %s", tidei_size_text(bin->limit_bytes));
        if (status != TIDE_OK)
            *wrong = bin->limit_bytes;
    }
    return status;
}
