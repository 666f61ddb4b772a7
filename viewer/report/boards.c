/* What a second reading fills bucket by bucket. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/report/boards.h"

bool
series_board_begin(struct series_board *board, struct series_set *set, const struct axis *axis)
{
    bool done = true;

    *board = (struct series_board){ .axis = *axis, .set = set };
    for (size_t i = 0; i < SERIES_KEYS; i++) {
        board->sums[i] = calloc(axis->count + 1, SERIES_MOST * sizeof(*board->sums[i]));
        done = done && board->sums[i] != NULL;
    }
    return done;
}

void
series_board_free(struct series_board *board)
{
    for (size_t i = 0; i < SERIES_KEYS; i++)
        free(board->sums[i]);
    *board = (struct series_board){ 0 };
}

void
series_board_clear(struct series_board *board)
{
    board->at = 0;
    board->high_bytes = 0;
    board->kept = false;
}

void
series_board_keep(struct series_board *board)
{
    for (size_t i = 0; i < SERIES_KEYS; i++)
        memcpy(board->sums[i] + board->at * SERIES_MOST, board->set->of[i].live, sizeof(board->set->of[i].live));
    board->kept = true;
}

void
series_board_go(struct series_board *board, int64_t position, uint64_t live)
{
    size_t bucket = axis_bucket(&board->axis, position);

    while (board->at < bucket) {
        series_board_falls(board);
        board->at++;
        board->high_bytes = live;
        board->kept = false;
    }
}

void
series_board_end(struct series_board *board)
{
    if (board->axis.count > 0)
        series_board_falls(board);
}

/* The live bytes at the highest moment of a bucket: of any key, since each life is in one series of it. */
static uint64_t
series_board_total(const struct series_board *board, size_t bucket)
{
    uint64_t total = 0;

    for (size_t i = 0; i < SERIES_MOST; i++)
        total += board->sums[SERIES_SIZE][bucket * SERIES_MOST + i];
    return total;
}

void
series_board_fold(struct series_board *board)
{
    size_t count = board->axis.count;

    for (size_t i = 0; i < count; i += 2) {
        size_t next = i + 1 < count ? i + 1 : i;
        size_t higher = series_board_total(board, next) > series_board_total(board, i) ? next : i;

        for (size_t key = 0; key < SERIES_KEYS; key++)
            memmove(board->sums[key] + i / 2 * SERIES_MOST, board->sums[key] + higher * SERIES_MOST,
                    SERIES_MOST * sizeof(*board->sums[key]));
    }
    board->axis.count = (count + 1) / 2;
    board->axis.shift++;
}

static bool
map_board_begin(struct map_board *board, const struct pages *pages, const struct axis *axis)
{
    *board = (struct map_board){
        .axis = *axis,
        .pages = pages,
        .most = calloc(pages->count + 1, sizeof(*board->most)),
        .cells = calloc(pages->count * axis->count + 1, 1),
    };
    return board->most != NULL && board->cells != NULL;
}

bool
map_begin(struct map *map, const struct pages *pages, const struct axis *time, const struct axis *by_event)
{
    *map = (struct map){ .pages = pages, .live = calloc(pages->count + 1, sizeof(*map->live)) };
    return map_board_begin(&map->boards[0], pages, time) && map_board_begin(&map->boards[1], pages, by_event) &&
           map->live != NULL;
}

void
map_free(struct map *map)
{
    for (size_t i = 0; i < 2; i++) {
        free(map->boards[i].most);
        free(map->boards[i].cells);
    }
    free(map->live);
    *map = (struct map){ 0 };
}

void
map_clear(struct map *map)
{
    memset(map->live, 0, map->pages->count * sizeof(*map->live));
    for (size_t i = 0; i < 2; i++) {
        memset(map->boards[i].most, 0, map->pages->count * sizeof(*map->live));
        map->boards[i].at = 0;
    }
}

/* What a cell says of a page of which so much was occupied. */
static unsigned char
map_share(uint64_t bytes, unsigned shift)
{
    uint64_t page = UINT64_C(1) << shift;

    if (bytes == 0)
        return 0;
    if (bytes >= page)
        return MAP_FULL;
    return (unsigned char)(1 + ((MAP_FULL - 1) * (unsigned __int128)bytes >> shift));
}

static void
map_board_close(const struct map *map, struct map_board *board)
{
    const struct pages *pages = map->pages;

    for (size_t i = 0; i < pages->count; i++) {
        board->cells[i * board->axis.count + board->at] = map_share(board->most[i], pages->shift);
        board->most[i] = map->live[i];
    }
}

void
map_go(const struct map *map, struct map_board *board, int64_t position)
{
    size_t bucket = axis_bucket(&board->axis, position);

    for (; board->at < bucket; board->at++)
        map_board_close(map, board);
}

void
map_end(struct map *map)
{
    for (size_t i = 0; i < 2; i++) {
        if (map->boards[i].axis.count > 0)
            map_board_close(map, &map->boards[i]);
    }
}

void
map_add(struct map *map, const struct scan_life *life, bool is_free)
{
    const struct pages *pages = map->pages;
    uint64_t at = life->address, last = life->size > 0 ? pages_last_byte(life) : 0;
    size_t place = life->size > 0 ? pages_find(pages, life) : 0;

    for (uint64_t left = life->size; left > 0; place++) {
        uint64_t end = at | ((UINT64_C(1) << pages->shift) - 1); /* the last byte of the page */
        uint64_t part = (end < last ? end : last) - at + 1;

        map->live[place] += is_free ? -part : part;
        for (size_t i = 0; i < 2 && !is_free; i++) {
            if (map->live[place] > map->boards[i].most[place])
                map->boards[i].most[place] = map->live[place];
        }
        at = end + 1;
        left = end < last ? left - part : 0;
    }
}

void
map_board_fold(struct map_board *board)
{
    size_t count = board->axis.count, half = (count + 1) / 2;

    for (size_t page = 0; page < board->pages->count; page++) {
        const unsigned char *from = board->cells + page * count;
        unsigned char *to = board->cells + page * half;

        for (size_t i = 0; i < count; i += 2) {
            unsigned char one = from[i], other = from[i + 1 < count ? i + 1 : i];

            to[i / 2] = one > other ? one : other;
        }
    }
    board->axis.count = half;
    board->axis.shift++;
}
