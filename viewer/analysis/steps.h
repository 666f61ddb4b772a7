/*
 * The steps that a program went through: from its marks, or from the rhythm in which its live bytes rise and fall.
 *
 * Rhythm: where the live bytes swing by at least a quarter of the peak, each low between two highs ends a step. It is
 * one where there are three steps or more, and three quarters of them last between half and twice as long as the one in
 * the middle. Marks: the text that most marks have, numbers at its end aside; four of them or more.
 */
#ifndef VIEWER_ANALYSIS_STEPS_H
#define VIEWER_ANALYSIS_STEPS_H

#include "viewer/read/view.h"

enum steps_source {
    STEPS_NONE,
    STEPS_MARKS,
    STEPS_RHYTHM,
};

/* A high or a low: the first moment of it. */
struct steps_turn {
    int64_t ns;
    uint64_t bytes;
};

/* Swings, of which a turn is one: taken in one level at a time. All zeros begins one. */
struct swings {
    struct steps_turn *turns; /* owns; highs and lows in turn, a high first */
    size_t count;
    size_t capacity;
    struct steps_turn last; /* the highest or lowest since the last turn */
    bool falling;           /* it is the lowest */
    bool failed;            /* no memory, or too many */
};

/* The level becomes `bytes`, and it takes `swing` of them to turn. */
void swings_level(struct swings *self, int64_t ns, uint64_t bytes, uint64_t swing);

void swings_free(struct swings *self);

struct steps {
    enum steps_source source;
    int64_t *ends; /* owns; the moments between steps, in the order of time */
    size_t count;  /* of them: steps + 1 */
    char *text;    /* owns; of the marks, without the numbers; NULL: no marks */
};

/* Texts for `pattern` that mean no steps at all, and the rhythm even where there are marks. */
#define STEPS_OFF          "none"
#define STEPS_RHYTHM_ALONE "rhythm"

/*
 * Find the steps of what the filters of `view` take: the marks whose text `pattern` matches as in glob(7); NULL: those
 * that repeat, or else the rhythm. COMMAND_FINE, or there is nothing to free.
 */
int steps_find(struct view *view, const char *pattern, struct steps *out);

void steps_free(struct steps *steps);

#endif
