/* Figures of ranks along an axis. */
#include "config.h"

#include <stdlib.h>

#include "viewer/ranks/median.h"
#include "viewer/report-job/grid.h"

/* The fewest buckets, however many ranks there are. */
#define GRID_COLUMNS_FEWEST 16

/* In the coarsest unit the highest figure has so many bits: it is at least 2^(GRID_UNITS - 1) units. */
#define GRID_UNITS 8

bool
grid_begin(struct grid *grid, size_t rows, size_t columns_most, unsigned shift, uint64_t first, uint64_t last)
{
    while (columns_most > GRID_COLUMNS_FEWEST && columns_most > GRID_CELLS / rows)
        columns_most /= 2;
    while ((last >> shift) - (first >> shift) >= columns_most)
        shift++;
    *grid = (struct grid){
        .row_count = rows,
        .column_count = (size_t)((last >> shift) - (first >> shift)) + 1,
        .begin = first >> shift,
        .shift = shift,
    };
    grid->cells = calloc(rows * grid->column_count, sizeof(*grid->cells));
    grid->known = calloc(rows, sizeof(*grid->known));
    grid->least = calloc(3 * grid->column_count, sizeof(*grid->least));
    if (grid->cells == NULL || grid->known == NULL || grid->least == NULL) {
        grid_free(grid);
        return false;
    }
    grid->median = grid->least + grid->column_count;
    grid->most = grid->median + grid->column_count;
    return true;
}

void
grid_drop(struct grid *grid)
{
    free(grid->cells);
    free(grid->known);
    free(grid->least);
    grid->cells = NULL;
    grid->known = NULL;
    grid->least = grid->median = grid->most = NULL;
}

void
grid_free(struct grid *grid)
{
    grid_drop(grid);
    *grid = (struct grid){ .cells = NULL };
}

/* The column of a position. False: it has none. */
static bool
grid_place(const struct grid *grid, uint64_t position, size_t *out)
{
    uint64_t bucket = position >> grid->shift;

    if (bucket < grid->begin || bucket - grid->begin >= grid->column_count)
        return false;
    *out = (size_t)(bucket - grid->begin);
    return true;
}

bool
grid_begin_row(struct grid *grid, uint64_t first, uint64_t last)
{
    struct grid_known *known = &grid->known[grid->row];
    size_t end;

    if (last < first || !grid_place(grid, first, &known->first) || !grid_place(grid, last, &end))
        return false;
    known->end = end + 1;
    grid->column = known->first;
    grid->carry = 0;
    return true;
}

/* What holds goes into all columns before `column`. In that of the last figure, there was no less. */
static void
grid_carry(struct grid *grid, size_t column)
{
    uint64_t *cells = grid->cells + grid->row * grid->column_count;

    for (; grid->column < column; grid->column++) {
        if (cells[grid->column] < grid->carry)
            cells[grid->column] = grid->carry;
    }
}

bool
grid_put(struct grid *grid, uint64_t position, uint64_t most, uint64_t end)
{
    uint64_t *cells = grid->cells + grid->row * grid->column_count;
    size_t column;

    if (!grid_place(grid, position, &column) || column < grid->column || column >= grid->known[grid->row].end ||
        end > most)
        return false;
    grid_carry(grid, column);
    /* What held before holds in a bucket's beginning. */
    if (cells[column] < grid->carry && (position & ((UINT64_C(1) << grid->shift) - 1)) != 0)
        cells[column] = grid->carry;
    if (cells[column] < most)
        cells[column] = most;
    grid->carry = end;
    return true;
}

void
grid_end_row(struct grid *grid)
{
    grid_carry(grid, grid->known[grid->row].end);
    grid->row++;
}

static int
grid_compare(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The least, the median and the most of each column. */
static bool
grid_band(struct grid *grid)
{
    int64_t *values = calloc(grid->row_count, sizeof(*values));

    if (values == NULL)
        return false;
    for (size_t column = 0; column < grid->column_count; column++) {
        size_t count = 0;

        for (size_t row = 0; row < grid->row_count; row++) {
            if (column >= grid->known[row].first && column < grid->known[row].end)
                values[count++] = (int64_t)grid->cells[row * grid->column_count + column];
        }
        if (count == 0)
            continue;
        qsort(values, count, sizeof(*values), grid_compare);
        grid->least[column] = (uint64_t)values[0];
        grid->most[column] = (uint64_t)values[count - 1];
        grid->median[column] = (uint64_t)median_of(values, count);
    }
    free(values);
    return true;
}

/* Count in units 2^by times as large. What is less than one counts as one, so the order of figures stays. */
static void
grid_coarsen(struct grid *grid, unsigned by)
{
    uint64_t more = (UINT64_C(1) << by) - 1;

    for (size_t i = 0; i < grid->row_count * grid->column_count; i++)
        grid->cells[i] = (grid->cells[i] + more) >> by;
    for (size_t i = 0; i < 3 * grid->column_count; i++)
        grid->least[i] = (grid->least[i] + more) >> by;
    grid->unit_shift += by;
}

/* By how much a cell is over the median of its column; where it is not known, as the nearest one that is. */
static uint64_t
grid_over(const void *context, size_t column, size_t place)
{
    const struct grid *grid = context;
    size_t row = place / grid->column_count, at = place % grid->column_count;
    const struct grid_known *known = &grid->known[row];

    (void)column;
    if (known->end == 0)
        return 0;
    at = at < known->first ? known->first : at >= known->end ? known->end - 1 : at;
    return grid->cells[row * grid->column_count + at] - grid->median[at];
}

/* Ranks do much the same at the same time, so most differences from the median stay what they were. */
static const struct column grid_columns[] = { { "over", COLUMN_DELTA, grid_over } };

bool
grid_finish(struct grid *grid, size_t bytes)
{
    size_t count = grid->row_count * grid->column_count, seen;
    uint64_t bits = 0, highest = 0;
    unsigned by = 0;

    if (!grid_band(grid))
        return false;
    for (size_t i = 0; i < count; i++) {
        bits |= grid->cells[i];
        highest = grid->cells[i] > highest ? grid->cells[i] : highest;
    }
    /* Sizes that are all multiples of a power of two are exact in units of that. */
    while (bits != 0 && (bits >> by & 1) == 0)
        by++;
    grid_coarsen(grid, by);
    while ((seen = blocks_measure(grid_columns, 1, count, grid)) > bytes && highest >> grid->unit_shift >> GRID_UNITS) {
        by = (unsigned)((seen - bytes) * 8 / count);
        by = by < 1 ? 1 : by;
        while (by > 1 && highest >> grid->unit_shift >> by < UINT64_C(1) << (GRID_UNITS - 1))
            by--;
        grid_coarsen(grid, by);
        grid->is_rounded = true;
    }
    return seen > 0;
}

static uint64_t
grid_known_value(const void *context, size_t column, size_t row)
{
    const struct grid *grid = context;

    return column == 0 ? grid->known[row].first : grid->known[row].end - grid->known[row].first;
}

static uint64_t
grid_band_value(const void *context, size_t column, size_t row)
{
    const struct grid *grid = context;

    return grid->least[column * grid->column_count + row];
}

void
grid_write(const struct grid *grid, struct blocks *blocks, int64_t origin)
{
    static const struct column known[] = {
        { "first", COLUMN_VARINT, grid_known_value },
        { "count", COLUMN_VARINT, grid_known_value },
    };
    static const struct column band[] = {
        { "least", COLUMN_DELTA, grid_band_value },
        { "median", COLUMN_DELTA, grid_band_value },
        { "most", COLUMN_DELTA, grid_band_value },
    };
    struct json *json = &blocks->json;

    json_begin(json, '{');
    json_put_signed(json, "begin", (int64_t)(grid->begin << grid->shift) - origin);
    json_put_unsigned(json, "width", UINT64_C(1) << grid->shift);
    json_put_unsigned(json, "buckets", grid->column_count);
    json_put_unsigned(json, "unit_bytes", UINT64_C(1) << grid->unit_shift);
    json_key(json, "cells");
    blocks_columns(blocks, grid_columns, 1, grid->row_count * grid->column_count, grid);
    json_end(json, '}');
    json_key(json, "known");
    blocks_columns(blocks, known, 2, grid->row_count, grid);
    json_end(json, '}');
    json_key(json, "band");
    blocks_columns(blocks, band, 3, grid->column_count, grid);
    json_end(json, '}');
    json_end(json, '}');
}
