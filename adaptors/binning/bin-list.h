/* The bins of a new `binning`, as they are given: in any order, some as a range of powers of two. */
#ifndef TIDEI_ADAPTORS_BINNING_BIN_LIST_H
#define TIDEI_ADAPTORS_BINNING_BIN_LIST_H

#include "src/resource/resource.h"

struct tidei_bin_list {
    struct tide_upstream *bins; /* owned; holds a reference to each resource */
    size_t count;
};

/* An empty list with room for `single` bins and as many `ranges`. Errors: TIDE_ENOMEM; the text is set. */
enum tide_status tidei_bin_list_init(struct tidei_bin_list *list, size_t single, size_t ranges);

/* Also after a failure of init. */
void tidei_bin_list_fini(struct tidei_bin_list *list);

/* There is room. The bin may have no resource, which the check finds. */
void tidei_bin_list_add(struct tidei_bin_list *list, const struct tide_upstream *bin);

/*
 * A `fixed` bin over `upstream` for each power of two from `smallest` to `largest`; there is room.
 * Errors: TIDE_EINVAL (not powers of two that rise), those of fixed; the text is set.
 */
enum tide_status tidei_bin_list_add_range(struct tidei_bin_list *list, struct tide_resource *upstream,
                                          uint64_t smallest, uint64_t largest);

/* Sort and check all. On failure *wrong is the limit of the bin that is not right; else it is 0. */
enum tide_status tidei_bin_list_sort(struct tidei_bin_list *list, uint64_t *wrong);

/* Whether the bin's resource serves all that the bin sends it: one that does not know serves everything. */
enum tide_status tidei_bin_check(const struct tide_upstream *bin);

#endif
