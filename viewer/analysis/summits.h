/*
 * The distinct peaks of live bytes over time, by prominence: how far the bytes fall, on the lower side of the two,
 * before they rise higher than the peak; a peak that nothing is higher than falls to 0, at the beginning or at the end.
 */
#ifndef VIEWER_ANALYSIS_SUMMITS_H
#define VIEWER_ANALYSIS_SUMMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUMMITS_MAX 32

struct summit {
    uint64_t bytes;
    int64_t ns;
    uint64_t prominence_bytes;
};

/* A peak that nothing later is higher than, so far. */
struct summits_open {
    uint64_t bytes;
    int64_t ns;
    uint64_t valley_bytes; /* the least between it and the one before, which is at least as high; or 0 */
};

/* All zeros begins one. */
struct summits {
    struct summit found[SUMMITS_MAX]; /* the most prominent first, the earlier of two equal ones */
    size_t count;
    struct summits_open *open; /* owns; bytes fall */
    size_t depth;
    size_t capacity;
    uint64_t valley_bytes; /* the least since the last open one */
    bool rising;
};

void summits_free(struct summits *self);

/* The live bytes have risen, or fallen, to `bytes`. false: no memory. */
bool summits_rise(struct summits *self, uint64_t bytes, int64_t ns);
void summits_fall(struct summits *self, uint64_t bytes);

/* That was all: `found` has the result. */
void summits_end(struct summits *self);

#endif
