/*
 * Keeps the gauge page of a recording up to date (src/trace/ring/gauge.h).
 *
 * Merged records count at once: an allocation by its size, a free by the size that it was called with. Once a slice is
 * paired, it is known what each free has ended; what layers and tags have is settled by that. Where a slice has frees
 * of nothing, or of another size, the layers begin anew from what is settled.
 *
 * The peak is the trace's: a life ends where the call that frees it begins. That call may return after others have
 * allocated. So each moment at which more was live than ever before is kept for a while, and a free lowers those since
 * its begin.
 *
 * LIMITATIONS: of these moments the latest 2,048 at least are kept. An allocation that counts as freed by an earlier
 * free of its address (see early.h) is live here until it is sure.
 */
#ifndef TIDEI_TRACE_EVENTS_GAUGES_H
#define TIDEI_TRACE_EVENTS_GAUGES_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/events/pair.h"
#include "src/trace/events/sampler.h"
#include "src/trace/events/timeline.h"
#include "src/trace/ring/ringfile.h"

struct tidei_gauges;

/* Borrows all three. NULL without host memory, or where the file has no gauge page. */
struct tidei_gauges *tidei_gauges_new(struct tidei_ringfile *file, struct tidei_sampler *sampler,
                                      const struct tidei_timeline *timeline);
void tidei_gauges_free(struct tidei_gauges *gauges);

/* A drain has moved the records [from, to) of a buffer; all before `watermark` are there. Writes the page. */
void tidei_gauges_merged(struct tidei_gauges *gauges, unsigned buffer, uint64_t from, uint64_t to, uint64_t watermark,
                         uint64_t late);

/* The records [from, to) of the sealed buffer are paired; with `all`, it has no more. Writes the page. */
void tidei_gauges_paired(struct tidei_gauges *gauges, const struct tidei_pair *pair, uint64_t from, uint64_t to,
                         bool all);

#endif
