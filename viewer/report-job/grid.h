/*
 * Figures of ranks along an axis: a row for each rank, a column for each of at most some thousand buckets of time or
 * of steps. A cell is the most that a rank had in a bucket. Before the first and behind the last event of a rank
 * nothing is known of it.
 */
#ifndef VIEWER_REPORT_JOB_GRID_H
#define VIEWER_REPORT_JOB_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/report/block.h"

/* All cells of a grid. More ranks have fewer buckets. */
#define GRID_CELLS ((size_t)1 << 22)

/* The columns of a row of which something is known. */
struct grid_known {
    size_t first, end;
};

struct grid {
    size_t row_count, column_count;
    uint64_t begin;                  /* the number of the first bucket */
    unsigned shift;                  /* a bucket has 2^shift positions */
    uint64_t *cells;                 /* owns, as the next ones; row by row, in units */
    struct grid_known *known;        /* of each row */
    uint64_t *least, *median, *most; /* of each column, over the rows that are known there */
    unsigned unit_shift;             /* a unit is 2^unit_shift bytes; less than one counts as one */
    bool is_rounded;                 /* cells are not exact in units */
    size_t row, column;              /* where the next figure goes, or behind it */
    uint64_t carry;                  /* what holds until then */
};

/*
 * Begin a grid of so many rows, whose buckets have at least 2^shift of the positions `first` to `last`. False: no
 * memory, and there is nothing to free.
 */
bool grid_begin(struct grid *grid, size_t rows, size_t columns_most, unsigned shift, uint64_t first, uint64_t last);
void grid_free(struct grid *grid);

/* Give back the memory of a grid that is written; what it says of its units stays. */
void grid_drop(struct grid *grid);

/* Begin the next row, of which positions `first` to `last` are known. False: they are not in the grid. */
bool grid_begin_row(struct grid *grid, uint64_t first, uint64_t last);

/* It was at most `most` in a bucket at `position`, no earlier than the one before, and `end` from there on. */
bool grid_put(struct grid *grid, uint64_t position, uint64_t most, uint64_t end);

void grid_end_row(struct grid *grid);

/*
 * Compare the rows, and choose the finest unit in which the cells have at most `bytes` in the page, but none coarser
 * than a 128th of the highest figure: a picture has few more shades. What has more bytes even so stays. False: no
 * memory.
 */
bool grid_finish(struct grid *grid, size_t bytes);

/* Write it as the value of the key before. Position 0 is called `origin`. */
void grid_write(const struct grid *grid, struct blocks *blocks, int64_t origin);

#endif
