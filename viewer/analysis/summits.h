/*
 * Finds the distinct peaks of the live bytes by topographic prominence. On each side of a peak, take the lowest value
 * before the curve rises above the peak, or 0 if it never does. The prominence is the peak less the higher of the two.
 */
#ifndef VIEWER_ANALYSIS_SUMMITS_H
#define VIEWER_ANALYSIS_SUMMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct summit {
    uint64_t bytes;
    int64_t ns;
    uint64_t prominence_bytes;
};

/* A peak that no later value has exceeded so far. */
struct summits_open {
    uint64_t bytes;
    int64_t ns;
    uint64_t valley_bytes; /* the lowest value since the previous open peak, which is at least as high; or 0 */
};

/* All zeros but `share` is the initial state. */
struct summits {
    double share;         /* of the highest value: what is less prominent is left out; 0: nothing is */
    struct summit *found; /* owns; after summits_end the most prominent first; of equal ones, the earlier first */
    size_t count;
    size_t found_capacity;
    uint64_t highest_bytes;
    struct summits_open *open; /* owns; bytes decrease */
    size_t depth;
    size_t capacity;
    uint64_t valley_bytes; /* the lowest value since the last open peak */
    bool rising;
};

void summits_free(struct summits *self);

/* The live bytes have risen, or fallen, to `bytes`. false: no memory. */
bool summits_rise(struct summits *self, uint64_t bytes, int64_t ns);
void summits_fall(struct summits *self, uint64_t bytes);

/* The curve is complete. Afterwards `found` has the result. false: no memory. */
bool summits_end(struct summits *self);

#endif
