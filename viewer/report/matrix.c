/* How sizes and lifetimes go together. */
#include "config.h"

#include <string.h>

#include "viewer/report/matrix.h"

void
matrix_clear(struct matrix *matrix)
{
    memset(matrix, 0, sizeof(*matrix));
}

void
matrix_alloc(struct matrix *matrix, const struct scan_life *life)
{
    struct matrix_cell *live = &matrix->cells[groups_class(life->size)][MATRIX_LIVE];

    live->count++;
    live->bytes += life->size;
}

void
matrix_free(struct matrix *matrix, const struct scan_life *life)
{
    struct matrix_cell *row = matrix->cells[groups_class(life->size)];
    unsigned time = histogram_time_bin((uint64_t)life->free_ns - (uint64_t)life->alloc_ns);

    row[MATRIX_LIVE].count--;
    row[MATRIX_LIVE].bytes -= life->size;
    row[time].count++;
    row[time].bytes += life->size;
}

size_t
matrix_filled(const struct matrix *matrix, uint16_t numbers[MATRIX_CELLS])
{
    size_t filled = 0;

    for (size_t i = 0; i < MATRIX_CELLS; i++) {
        if (matrix->cells[i / MATRIX_TIMES][i % MATRIX_TIMES].count > 0)
            numbers[filled++] = (uint16_t)i;
    }
    return filled;
}
