/*
 * From which layers it is known what was reserved: the plan of viewer/analysis/reserved.h.
 *
 * A walk from the selected logs down finds what holds their memory. The rows of a log below a pool are its chunks, as
 * are a pool's own, and both together where only some of its ways have a log; else samples of the pool or of the base
 * say what it holds. Layers that are connected are one stack. Memory of one stack that lies in bases of the same kinds
 * and devices is one group.
 */
#ifndef VIEWER_ANALYSIS_RESERVED_PLAN_H
#define VIEWER_ANALYSIS_RESERVED_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/device-use.h"
#include "viewer/read/samples.h"
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
    char name[96];   /* "GPU 0", "pinned"; where the trace has several stacks, "log 1, GPU 0" */
    char memory[64]; /* "GPU 0", "pinned"; more than one, where logs and pools do not tell them apart */
    int64_t device;  /* -1: none, or several */
    size_t stack;    /* the index of the first layer of its stack */
    size_t number;   /* of its stack, from 0 */
    size_t *bases;   /* owns; one base for each kind of memory, in ascending order */
    size_t base_count;
    size_t next_group;   /* an earlier one of its stack; as the next two an index, or TRACE_LAYERS_NONE */
    size_t first_upper;  /* the first of the selected logs whose memory it is; see reserved_role.next_upper */
    size_t first_source; /* the first of the layers that say what is reserved; see reserved_role.next_source */
    bool has_upper;
    bool is_mixed;       /* of several kinds of memory */
    bool is_process;     /* a kind of memory of a whole process, which has one such stack on each device */
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

/* Stands where a trace has no memory of any kind. */
extern const struct reserved_group reserved_no_group;

/* What a layer is for the figures. */
struct reserved_role {
    int64_t layer_id;
    bool is_selected; /* by the filter, before reserved_select */
    bool is_upper;
    bool may_have_chunks; /* a pool that may say its chunks itself, or a log that may have those of some of its ways */
    size_t part_of;       /* 1 more than the index of that pool; 0: none */
    bool is_chunks;       /* its rows count as reserved */
    bool has_rows;        /* it had a row */
    bool is_sampled;      /* its samples count as reserved */
    bool is_base;
    bool is_unknown; /* nothing says what is reserved in it, though it counts */
    size_t group;
    size_t next_upper;   /* of the group, in ascending order; as the next one an index, or TRACE_LAYERS_NONE */
    size_t next_source;  /* likewise, of the layers with chunks, samples that count, or nothing */
    uint64_t held_bytes; /* of its rows */
    uint64_t held_peak_bytes;
    uint64_t whole_bytes; /* of a pool: with the rows of the logs that are parts of it */
    uint64_t whole_peak_bytes;
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
    unsigned plans;             /* how often a layer turned out to say its chunks itself, so that sources changed */
    size_t next;                /* the next sample */
    int64_t next_ns;            /* its time; INT64_MAX: there is none */
    size_t last_layer;          /* the index of the last event's layer */
};

/* Find the groups of the selected logs. COMMAND_FINE, or another status after a message. */
int reserved_plan_groups(struct reserved *reserved);

/*
 * Choose the sources by what is known of the rows and samples of each layer: at the beginning, and again once a pool
 * turns out to say its chunks itself. COMMAND_FINE, or another status after a message.
 */
int reserved_plan_sources(struct reserved *reserved);

#endif
