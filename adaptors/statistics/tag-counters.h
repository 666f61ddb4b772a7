/*
 * Counters by tag: the allocations under each path of tags (tide_tag_push), including all nested tags.
 *
 * Each tag in use has a ledger, which also counts what its children count. A sharded hash table records the tag under
 * which a live address was allocated. So a free is subtracted there, whatever thread and tag it comes from.
 */
#ifndef TIDEI_ADAPTORS_STATISTICS_TAG_COUNTERS_H
#define TIDEI_ADAPTORS_STATISTICS_TAG_COUNTERS_H

#include <tidemark/statistics.h>

struct tidei_tag_counters;

/* Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_tag_counters_create(struct tidei_tag_counters **out);
void tidei_tag_counters_destroy(struct tidei_tag_counters *counters);

/* Count an allocation under this thread's tag. On TIDE_ENOMEM, with the error text set, nothing is counted. */
enum tide_status tidei_tag_counters_add(struct tidei_tag_counters *counters, const void *pointer, uint64_t bytes);

/* Subtract a block where it was counted. Returns that place, for put_back; 0 where the pointer is unknown. */
uint32_t tidei_tag_counters_take_off(struct tidei_tag_counters *counters, const void *pointer, uint64_t bytes);

/* Add the block again, as outstanding all along: upstream has refused to take it. */
void tidei_tag_counters_put_back(struct tidei_tag_counters *counters, const void *pointer, uint64_t bytes,
                                 uint32_t place);

/* Call `function` for each path, the highest peak first. Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_tag_counters_report(struct tidei_tag_counters *counters, tide_statistics_function function,
                                           void *context);

#endif
