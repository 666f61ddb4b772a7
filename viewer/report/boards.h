/*
 * What a second reading fills bucket by bucket along an axis whose ends are known: the series of all groupings at the
 * highest moment of each bucket, and how much of each page was occupied at most.
 */
#ifndef VIEWER_REPORT_BOARDS_H
#define VIEWER_REPORT_BOARDS_H

#include "viewer/report/buckets.h"
#include "viewer/report/pages.h"
#include "viewer/report/series.h"

/* The series over an axis. */
struct series_board {
    struct axis axis;
    struct series_set *set;      /* borrows */
    size_t at;                   /* the current bucket */
    uint64_t high_bytes;         /* the most live in it so far */
    bool kept;                   /* the sums at that moment are in `sums` */
    uint64_t *sums[SERIES_KEYS]; /* owns; by bucket and series: SERIES_MOST a bucket */
};

/* False: no memory. */
bool series_board_begin(struct series_board *board, struct series_set *set, const struct axis *axis);
void series_board_free(struct series_board *board);
void series_board_clear(struct series_board *board);

/* Go on to the bucket of `position`, with the sums and `live` bytes of now. */
void series_board_go(struct series_board *board, int64_t position, uint64_t live);

/* The last bucket ends. */
void series_board_end(struct series_board *board);

/* Two buckets become one, with the sums of the one whose highest moment is higher. Call after the end. */
void series_board_fold(struct series_board *board);

/* Keep the sums as those of the highest moment. */
void series_board_keep(struct series_board *board);

/* Call before the sums fall. While the highest moment lasts nothing is copied: a rise has many. */
static inline void
series_board_falls(struct series_board *board)
{
    if (!board->kept)
        series_board_keep(board);
}

/* The sums have risen to `live` bytes. */
static inline void
series_board_rose(struct series_board *board, uint64_t live)
{
    if (live > board->high_bytes) {
        board->high_bytes = live;
        board->kept = false;
    }
}

/* A page whose every byte is occupied. */
#define MAP_FULL 15

/* The address map over an axis. */
struct map_board {
    struct axis axis;
    const struct pages *pages; /* borrows */
    size_t at;
    uint64_t *most;       /* owns; by page: the most occupied in this bucket so far */
    unsigned char *cells; /* owns; by page and bucket */
};

/* The bytes occupied of each page, and the maps that want to know. */
struct map {
    const struct pages *pages; /* borrows */
    uint64_t *live;            /* owns; by page */
    struct map_board boards[2];
};

/* Over two axes. False: no memory. */
bool map_begin(struct map *map, const struct pages *pages, const struct axis *time, const struct axis *by_event);
void map_free(struct map *map);
void map_clear(struct map *map);

/* Go on to the bucket of `position`. */
void map_go(const struct map *map, struct map_board *board, int64_t position);

/* The last buckets end. */
void map_end(struct map *map);

/* Two buckets become one, with the most that was occupied in either. Call after the end. */
void map_board_fold(struct map_board *board);

/* A life begins or ends. */
void map_add(struct map *map, const struct scan_life *life, bool is_free);

#endif
