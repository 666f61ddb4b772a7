/*
 * How sizes and lifetimes go together: a cell for each class of both, which are those of `tidemark histogram`.
 */
#ifndef VIEWER_REPORT_MATRIX_H
#define VIEWER_REPORT_MATRIX_H

#include "viewer/analysis/histogram.h"

/* Behind the bins of lifetimes: what is never freed. */
#define MATRIX_LIVE  HISTOGRAM_TIMES
#define MATRIX_TIMES (HISTOGRAM_TIMES + 1)
#define MATRIX_CELLS (HISTOGRAM_CLASSES * MATRIX_TIMES)

struct matrix_cell {
    uint64_t count;
    uint64_t bytes;
};

struct matrix {
    struct matrix_cell cells[HISTOGRAM_CLASSES][MATRIX_TIMES];
};

void matrix_clear(struct matrix *matrix);

/* A life begins, and ends. */
void matrix_alloc(struct matrix *matrix, const struct scan_life *life);
void matrix_free(struct matrix *matrix, const struct scan_life *life);

/* The numbers of the cells that have allocations, ascending: size * MATRIX_TIMES + time. Returns how many. */
size_t matrix_filled(const struct matrix *matrix, uint16_t numbers[MATRIX_CELLS]);

#endif
