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

#include "viewer/analysis/space.h"
#include "viewer/read/device-use.h"
#include "viewer/read/samples.h"
#include "viewer/read/scan.h"
#include "viewer/read/view.h"

enum reserved_source {
    RESERVED_UNKNOWN, /* nothing says what was reserved */
    RESERVED_LAYERS,  /* chunks: rows of the logs below, or of the pools themselves */
    RESERVED_HIGHS,   /* samples with the high-water mark of a pool or base */
    RESERVED_SAMPLES, /* samples alone, or beside chunks */
};

/* What was reserved, of one source or of a group. */
struct reserved_figure {
    uint64_t bytes; /* at the moment */
    uint64_t peak_bytes;
    uint64_t most_bytes; /* since reserved_restart */
    int64_t peak_ns;     /* of the peak in rows or samples; a peak by a high-water mark has no time */
    int64_t peak_id;     /* the chunk with which it was reached; 0: a sample */
    int64_t sample_ns;   /* when the last sample in `bytes` was taken; INT64_MIN: there is none */
    enum reserved_source source;
    bool is_exact; /* else it is the least that `peak_bytes` can be */
    bool is_live;  /* more was live than the source says: the peak is that */
};

/* The memory of one kind, on one device, of one stack. */
struct reserved_group {
    char name[96];                 /* "GPU 0", "pinned"; where the trace has several stacks, "log 1, GPU 0" */
    char memory[64];               /* "GPU 0", "pinned"; more than one, where logs and pools do not tell them apart */
    int64_t device;                /* -1: none, or several */
    size_t stack;                  /* the index of the first layer of its stack */
    size_t number;                 /* of its stack, from 0 */
    struct trace_layer_set bases;  /* one base for each kind of memory */
    struct trace_layer_set upper;  /* the selected logs whose memory it is */
    struct trace_layer_set chunks; /* the layers whose rows are its chunks */
    bool has_upper;
    uint64_t live_bytes; /* requested through the upper logs */
    uint64_t live_peak_bytes;
    int64_t live_peak_ns;
    int64_t live_peak_id;
    uint64_t largest_request;
    uint64_t rounded_bytes; /* live, each size rounded up to the alignment */
    uint64_t rounded_peak_bytes;
    uint64_t used_peak_bytes; /* that samples of the pool or base say, where they are the source */
    uint64_t rows_bytes;      /* of the chunks alone */
    uint64_t rows_most_bytes; /* since reserved_restart */
    uint64_t rows_peak_bytes;
    int64_t rows_peak_ns;
    int64_t rows_peak_id;
    struct reserved_figure reserved;
    struct reserved_figure base; /* what the bases hold, where pools above them are the source of `reserved` */
};

/* What a layer is for the figures. */
struct reserved_role {
    int64_t layer_id;
    bool is_selected; /* by the filter, before reserved_select */
    bool is_upper;
    bool may_have_chunks; /* a pool that may say its chunks itself */
    bool is_chunks;       /* its rows count as reserved */
    bool has_rows;        /* it had a row */
    bool is_sampled;      /* its samples count as reserved */
    bool is_base;
    bool is_unknown; /* nothing says what is reserved in it, though it counts */
    size_t group;
    uint64_t held_bytes; /* of its rows */
    uint64_t held_peak_bytes;
    uint64_t sampled_bytes; /* by its last sample */
    int64_t sample_ns;
    uint64_t highest_bytes;   /* of its samples */
    uint64_t used_peak_bytes; /* of its samples */
    uint64_t high_bytes;      /* the high-water mark; valid if `has_high` */
    bool has_samples;
    bool has_high;
    bool has_exact_high; /* the mark tells the peak of the selected time */
};

struct reserved {
    const struct view *view;       /* borrows */
    struct reserved_role *roles;   /* owns; by the index of the layer */
    struct reserved_group *groups; /* owns; outermost first */
    size_t group_count;
    size_t stack_count;
    struct samples samples;
    struct device_uses devices; /* empty where is_off */
    bool is_off;                /* a filter takes a part of the allocations: what is reserved for them cannot be told */
    bool was_killed;            /* the last samples are missing */
    size_t next;                /* the next sample */
    size_t last_layer;          /* the index of the last event's layer */
};

/*
 * Find the groups, their sources and samples, for what `view` (borrowed) selects. COMMAND_FINE, or another status and
 * there is nothing to free.
 */
int reserved_make(const struct view *view, struct reserved *out);

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

/* The group whose blocks are the lives of a layer; NULL: those of none. */
struct reserved_group *reserved_upper(struct reserved *reserved, int64_t layer_id);

/* What is reserved below a layer: in its group, or by the base below it; NULL: nothing says that. */
const struct reserved_figure *reserved_below(const struct reserved *reserved, int64_t layer_id);

/* What the layer at an index holds itself: a pool by its chunks or samples, a base by its samples. */
struct reserved_figure reserved_of_layer(const struct reserved *reserved, size_t layer);

/* The lowest bound of the `limit` layers below the logs of a group; 0: there is none. */
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
