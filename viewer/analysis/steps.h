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

/* The first moment of a high or a low. */
struct steps_turn {
    int64_t ns;
    uint64_t bytes;
};

/* Finds the highs and lows of a curve, fed one level at a time. All zeros is the initial state. */
struct swings {
    struct steps_turn *turns; /* owns; alternating highs and lows, a high first */
    size_t count;
    size_t capacity;
    struct steps_turn last; /* the highest or lowest level since the last turn */
    bool falling;           /* `last` is the lowest */
    bool failed;            /* no memory, or too many */
};

/* The level becomes `bytes`. A change of direction counts if it is at least `swing` bytes. */
void swings_level(struct swings *self, int64_t ns, uint64_t bytes, uint64_t swing);

void swings_free(struct swings *self);

struct steps {
    enum steps_source source;
    int64_t *ends; /* owns; the boundaries of steps, in time order */
    size_t count;  /* of boundaries: the number of steps + 1 */
    char *text;    /* owns; of the marks, without trailing numbers; NULL: not from marks */
};

/* Special values of `pattern`: no steps; and the rhythm even if there are marks. */
#define STEPS_OFF          "none"
#define STEPS_RHYTHM_ALONE "rhythm"

/*
 * Find the steps in the allocations that `view` selects, from the marks whose text matches the glob `pattern`. NULL:
 * from the marks that repeat, or else from the rhythm. COMMAND_FINE, or another status and there is nothing to free.
 */
int steps_find(struct view *view, const char *pattern, struct steps *out);

void steps_free(struct steps *steps);

#endif
