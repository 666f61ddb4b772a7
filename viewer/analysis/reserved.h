/*
 * What was reserved, for each stack and each kind of memory of it: at a moment, at most, and from which source.
 *
 * Reserved is what the pools and bases next below the selected logs hold, handed out or not. What a pool holds are its
 * chunks: the live rows of the logs below it, or of the pool itself where it says its chunks. What a base holds, or a
 * pool of which no chunk is recorded, its samples say. Without the high-water mark samples can miss a peak: then the
 * figure is the least that it can have been, no less than what was live.
 *
 * Memory of two devices, or of two kinds, is never added up: each has a group of its own, and so has each stack.
 */
#ifndef VIEWER_ANALYSIS_RESERVED_H
#define VIEWER_ANALYSIS_RESERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/analysis/reserved-plan.h"
#include "viewer/analysis/space.h"
#include "viewer/read/scan.h"
#include "viewer/read/view.h"

/*
 * Find the groups, their sources and samples, for what `view` (borrowed) selects. COMMAND_FINE, or another status and
 * there is nothing to free.
 */
int reserved_make(const struct view *view, struct reserved *out);

/* The groups of the selected logs alone, without sources and samples. Likewise. */
int reserved_make_groups(const struct view *view, struct reserved *out);

/* Extend the filter of `view` to the layers that may hold chunks. COMMAND_FINE, or another status. */
int reserved_select(const struct reserved *reserved, struct view *view);

void reserved_free(struct reserved *reserved);

/* Undo reserved_select, for analyses of the same view that follow. */
void reserved_deselect(const struct reserved *reserved, struct view *view);

/* As callbacks of a scan unit: begin again, take an event, and set the results of all groups. */
void reserved_begin(struct reserved *reserved);
int reserved_alloc(struct reserved *reserved, const struct scan_life *life);
void reserved_release(struct reserved *reserved, const struct scan_life *life);
void reserved_end(struct reserved *reserved);

/* Take in the samples before `ns`, so that the figures are those of that moment. */
void reserved_until(struct reserved *reserved, int64_t ns);

/* Let `most_bytes` of all groups begin again with what is reserved now. */
void reserved_restart(struct reserved *reserved);

/* The role of a layer; NULL: the trace does not define the layer. */
struct reserved_role *reserved_look_up(struct reserved *reserved, int64_t layer_id);

/* The same for a layer that is mostly that of the event before. */
static inline struct reserved_role *
reserved_role(struct reserved *reserved, int64_t layer_id)
{
    struct reserved_role *last = &reserved->roles[reserved->last_layer];

    return last->layer_id == layer_id ? last : reserved_look_up(reserved, layer_id);
}

/* The group whose blocks are the lives of a layer; NULL: those of none. */
static inline struct reserved_group *
reserved_upper(struct reserved *reserved, int64_t layer_id)
{
    const struct reserved_role *role = reserved_role(reserved, layer_id);

    return role != NULL && role->is_upper ? &reserved->groups[role->group] : NULL;
}

/* Whether rows may say what is reserved: reserved_utilisation needs the alignments then, and no others. */
bool reserved_may_have_chunks(const struct reserved *reserved);

/* What was reserved of a group, the most on any level: a base may hold more than the pools above it. */
const struct reserved_figure *reserved_larger(const struct reserved_group *group);

/* What is reserved below a layer: in its group, or by the base below it; NULL: nothing says that. */
const struct reserved_figure *reserved_below(const struct reserved *reserved, int64_t layer_id);

/* What the layer at an index holds itself: a pool by its chunks or samples, a base by its samples. */
struct reserved_figure reserved_of_layer(const struct reserved *reserved, size_t layer);

/*
 * The lowest bound of the `limit` layers that all requests of a group pass; 0: there is none. One of a bin, or of the
 * first choice of a `fallback`, does not bound what takes another way.
 */
uint64_t reserved_limit(const struct reserved *reserved, const struct reserved_group *group);

/* Whether the lives of a layer are there as chunks alone: the layer is not selected. */
bool reserved_is_chunk(struct reserved *reserved, int64_t layer_id);

/* The layers whose lives are the blocks of `group`, and those whose lives are its chunks. COMMAND_FINE or another. */
int reserved_space_layers(const struct reserved *reserved, const struct reserved_group *group, uint64_t page_bytes,
                          struct space_layers *out);

/* The group with the most reserved, or live where nothing is known; NULL: there is none. Valid after reserved_end. */
struct reserved_group *reserved_largest(const struct reserved *reserved);

/* Whether several groups have figures, so that none speaks for the trace. */
bool reserved_is_parted(const struct reserved *reserved);

/*
 * The most that was used of what a group had reserved: of chunks the live bytes, rounded, else what samples say or was
 * live, the more of both.
 */
uint64_t reserved_used_peak(const struct reserved_group *group);

/* Most used over most reserved; -1: unknown. Where the peak is not exact it is the most that it can be. */
double reserved_utilisation(const struct reserved_group *group);

/* "layers", "highs", "samples"; NULL: unknown. */
const char *reserved_source_word(enum reserved_source source);

/* "at least " before a figure that is not exact, else "". */
const char *reserved_least(const struct reserved_figure *figure);

#endif
