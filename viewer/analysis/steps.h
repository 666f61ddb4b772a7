/*
 * Finds the steps of a program (its training iterations, for example), from its marks or from the rhythm of its live
 * bytes.
 *
 * Rhythm: the live bytes swing by at least a quarter of the peak, and each low between two highs ends a step. There
 * must be at least three steps, and three quarters of them must last between half and twice the median step. Marks: the
 * text that most marks share, without trailing numbers, if at least four marks have it.
 */
#ifndef VIEWER_ANALYSIS_STEPS_H
#define VIEWER_ANALYSIS_STEPS_H

#include "viewer/read/view.h"

enum steps_source {
    STEPS_NONE,
    STEPS_MARKS,
    STEPS_RHYTHM,
};

struct steps {
    enum steps_source source;
    int64_t *ends;    /* owns; the boundaries of steps, in time order */
    int64_t *numbers; /* owns; of each mark the number at its end, -1: it has none; NULL: not from marks */
    size_t count;     /* of boundaries: the number of steps + 1 */
    char *text;       /* owns; of the marks, without trailing numbers; NULL: not from marks */
    char lack[160];   /* why there is no rhythm; "": there is one, or it was not looked for */
};

/* Special values of `pattern`: no steps; and the rhythm even if there are marks. */
#define STEPS_OFF          "none"
#define STEPS_RHYTHM_ALONE "rhythm"

/*
 * Find the steps in the allocations that `view` selects, from the marks whose text matches the glob `pattern`. NULL:
 * from the marks that repeat, or else from the rhythm. COMMAND_FINE, or another status and there is nothing to free.
 */
int steps_find(struct view *view, const char *pattern, struct steps *out);

/* The same from marks alone: there may be none, and one makes no steps. */
int steps_find_marks(struct view *view, const char *pattern, struct steps *out);

void steps_free(struct steps *steps);

#endif
