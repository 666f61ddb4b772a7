/* Draws the screen of `tidemark watch`: one process, or a line for each. Needs curses to be begun. */
#ifndef VIEWER_WATCH_DRAW_H
#define VIEWER_WATCH_DRAW_H

#include "viewer/watch/watch.h"

enum draw_sort { DRAW_BY_LIVE, DRAW_BY_COUNT, DRAW_BY_PEAK, DRAW_BY_RATE, DRAW_BY_NAME, DRAW_SORTS };

/* What the screen shows now. */
struct draw_state {
    const struct watch *watch;           /* borrows */
    const struct watch_process *process; /* borrows; NULL: all of them */
    size_t selected;                     /* of all, as sorted */
    enum draw_sort sort;
    enum watch_by by;                /* of the live set */
    const struct watch_lives *lives; /* borrows; NULL: the tags of the page */
    bool is_at_peak;                 /* of `lives`: the moment is the peak's */
    bool is_frozen;
    bool has_help;
    char message[256]; /* at the bottom */
};

/* The words of an order and of a grouping. */
const char *draw_sort_word(enum draw_sort sort);
const char *draw_by_word(enum watch_by by);

/* The processes in the order of the screen: places in the list of the watch. Their number is that of the list. */
void draw_order(const struct draw_state *state, size_t *places);

void draw_screen(const struct draw_state *state);

#endif
