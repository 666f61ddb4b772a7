/*
 * What the page of a job shows beside the answers of `tidemark ranks`, read from the file of the job. Of its grids one
 * is held at a time: those of 16 memories and 4 million cells took a GiB.
 */
#ifndef VIEWER_REPORT_JOB_GATHER_H
#define VIEWER_REPORT_JOB_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace.h"
#include "viewer/ranks/ranks.h"
#include "viewer/report-job/grid.h"

/* How much of it. */
struct job_detail {
    const char *name;
    size_t columns;    /* buckets of an axis at most */
    size_t grid_bytes; /* of all cells in the page */
    size_t groups;     /* of each kind, of a rank */
    size_t failures;   /* of a rank */
    size_t marks;      /* of a rank */
};

/* As GATHER_DETAIL_CHOICES (viewer/report/gather.h). */
extern const struct job_detail job_details[];

/* Failures and marks of all ranks together. */
#define JOB_FAILURES 4096
#define JOB_MARKS    8192

/* Further memories have no pictures. */
#define JOB_MEMORIES 16

struct job_rank {
    int64_t rank;
    char *trace;             /* owns, as the next ones; where its trace lies, from the folder of the job on */
    char *hostname, *ended;  /* may be NULL */
    int64_t pid, local_rank; /* -1: not known */
    int64_t start_unix_ns, first_ns, last_ns;
    bool has_start; /* else `start_unix_ns` is where the rank is placed */
    bool is_complete;
    int64_t lost_events, allocations, frees, failures;
};

/* A rank that has a memory. */
struct job_row {
    size_t rank; /* its place in `ranks` */
    unsigned shift;
    int64_t first_bucket, last_bucket;
    int64_t first_step, last_step;
    bool has_buckets, has_steps;
    bool has_before; /* something before the first step */
};

/* What a group has more or less than in the median, at the peak of a rank. */
struct job_share {
    size_t row;
    uint32_t group; /* its place in `groups` */
    int64_t bytes;
};

struct job_group {
    int64_t group_id;
    char *kind, *name; /* own */
    struct ranks_range median;
};

struct job_memory {
    int64_t memory_id;
    char *name;           /* owns */
    struct job_row *rows; /* owns; in the order of ranks */
    size_t row_count, row_capacity;
    int64_t first_step;       /* of all ranks; known with `steps` */
    struct grid time, steps;  /* without cells: there are none, or not now */
    struct job_group *groups; /* owns; those in `shares`, in the order of ids */
    size_t group_count, group_capacity;
    struct job_share *shares; /* owns; of each row, kind by kind, the largest differences first */
    size_t share_count, share_capacity;
};

struct job_gather {
    const struct trace *file; /* borrows */
    const struct job_detail *detail;
    struct job_rank *ranks; /* owns; in the order of ranks */
    size_t rank_count, rank_capacity;
    struct job_memory memories[JOB_MEMORIES];
    size_t memory_count;
    size_t grid_bytes;      /* of the cells of a memory in the page */
    int64_t origin_unix_ns; /* when the first of the traces began, of those of which that is known */
};

/*
 * `names` in this order are the memories; their grids are empty. COMMAND_FINE, or another status after a message. Call
 * job_gather_free in any case.
 */
int job_gather_make(struct job_gather *gather, const struct trace *file, const struct job_detail *detail,
                    const char *const *names, size_t name_count);

/* Fill the grid of a memory over time, or over steps; grid_drop gives it back. As above. */
int job_gather_time(struct job_gather *gather, struct job_memory *memory);
int job_gather_steps(struct job_gather *gather, struct job_memory *memory);

void job_gather_free(struct job_gather *gather);

#endif
