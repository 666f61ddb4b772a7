/* Finds the distinct peaks of the live bytes by prominence. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/summits.h"

/* From so many on, those that no longer count are dropped before there is more room. */
#define SUMMITS_MANY 65536

void
summits_free(struct summits *self)
{
    free(self->open);
    free(self->found);
    *self = (struct summits){ .share = self->share };
}

/* Whether a prominence may count in the end: what is asked for rises with the highest value so far. */
static bool
summits_counts(const struct summits *self, uint64_t prominence_bytes)
{
    return (double)prominence_bytes >= self->share * (double)self->highest_bytes;
}

static int
summits_compare(const void *left, const void *right)
{
    const struct summit *a = left, *b = right;

    if (a->prominence_bytes != b->prominence_bytes)
        return a->prominence_bytes > b->prominence_bytes ? -1 : 1;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* Drop those found that no longer count. */
static void
summits_sift(struct summits *self)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->count; i++) {
        if (summits_counts(self, self->found[i].prominence_bytes))
            self->found[kept++] = self->found[i];
    }
    self->count = kept;
}

/* Make room for another found one; where the half no longer counts, there is room. false: no memory. */
static bool
summits_reserve(struct summits *self)
{
    if (self->count >= SUMMITS_MANY)
        summits_sift(self);
    return self->count < self->found_capacity / 2 ||
           tidei_grow(&self->found, &self->found_capacity, self->found_capacity, 1);
}

/* Close an open peak: both valleys are known, and the higher one gives its prominence. false: no memory. */
static bool
summits_close(struct summits *self, const struct summits_open *open, uint64_t right_bytes)
{
    uint64_t ground = right_bytes > open->valley_bytes ? right_bytes : open->valley_bytes;
    struct summit summit = { open->bytes, open->ns, open->bytes - ground };

    if (!summits_counts(self, summit.prominence_bytes))
        return true;
    if (self->count == self->found_capacity && !summits_reserve(self))
        return false;
    self->found[self->count++] = summit;
    return true;
}

/* Drop open peaks that cannot count: a prominence is at most the height above the valley. */
static void
summits_thin(struct summits *self)
{
    uint64_t valley_bytes = UINT64_MAX;
    size_t kept = 0;

    for (size_t i = 0; i < self->depth; i++) {
        struct summits_open open = self->open[i];

        if (open.valley_bytes > valley_bytes)
            open.valley_bytes = valley_bytes;
        if (i + 1 < self->depth && !summits_counts(self, open.bytes - open.valley_bytes)) {
            valley_bytes = open.valley_bytes;
            continue;
        }
        valley_bytes = UINT64_MAX;
        self->open[kept++] = open;
    }
    self->depth = kept;
}

static bool
summits_open(struct summits *self)
{
    if (self->depth == self->capacity) {
        if (self->depth >= SUMMITS_MANY)
            summits_thin(self);
        if ((self->depth > self->capacity / 2 || self->capacity == 0) &&
            !tidei_grow(&self->open, &self->capacity, self->capacity, 1))
            return false;
    }
    self->depth++;
    return true;
}

bool
summits_rise(struct summits *self, uint64_t bytes, int64_t ns)
{
    struct summits_open *top;

    if (bytes > self->highest_bytes)
        self->highest_bytes = bytes;
    if (!self->rising) {
        if (!summits_open(self))
            return false;
        self->open[self->depth - 1].valley_bytes = self->valley_bytes;
        self->rising = true;
    }
    top = &self->open[self->depth - 1];
    top->bytes = bytes;
    top->ns = ns;
    while (self->depth > 1 && top[-1].bytes < bytes) {
        struct summits_open passed = top[-1];

        if (!summits_close(self, &passed, top->valley_bytes))
            return false;
        if (passed.valley_bytes < top->valley_bytes)
            top->valley_bytes = passed.valley_bytes;
        top[-1] = *top;
        top--;
        self->depth--;
    }
    return true;
}

void
summits_fall(struct summits *self, uint64_t bytes)
{
    if (self->rising || bytes < self->valley_bytes)
        self->valley_bytes = bytes;
    self->rising = false;
}

bool
summits_end(struct summits *self)
{
    /* No higher value follows, so the right valley is 0. */
    for (; self->depth > 0; self->depth--) {
        if (!summits_close(self, &self->open[self->depth - 1], 0))
            return false;
    }
    summits_sift(self);
    if (self->count > 0)
        qsort(self->found, self->count, sizeof(*self->found), summits_compare);
    return true;
}
