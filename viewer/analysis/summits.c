/* Finds the distinct peaks of the live bytes by prominence. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/summits.h"

void
summits_free(struct summits *self)
{
    free(self->open);
    self->open = NULL;
    self->depth = self->capacity = 0;
}

static bool
summits_is_before(const struct summit *a, const struct summit *b)
{
    if (a->prominence_bytes != b->prominence_bytes)
        return a->prominence_bytes > b->prominence_bytes;
    return a->ns < b->ns;
}

/* Close an open peak: both valleys are known, and the higher one gives its prominence. */
static void
summits_close(struct summits *self, const struct summits_open *open, uint64_t right_bytes)
{
    uint64_t ground = right_bytes > open->valley_bytes ? right_bytes : open->valley_bytes;
    struct summit summit = { open->bytes, open->ns, open->bytes - ground };
    size_t at = self->count;

    if (at == SUMMITS_MAX) {
        if (!summits_is_before(&summit, &self->found[at - 1]))
            return;
        at--;
    } else {
        self->count++;
    }
    for (; at > 0 && summits_is_before(&summit, &self->found[at - 1]); at--)
        self->found[at] = self->found[at - 1];
    self->found[at] = summit;
}

/* Drop open peaks that cannot become one of the most prominent: a prominence is at most the height above the valley. */
static void
summits_thin(struct summits *self)
{
    uint64_t least = self->count == SUMMITS_MAX ? self->found[SUMMITS_MAX - 1].prominence_bytes : 0;
    uint64_t valley_bytes = UINT64_MAX;
    size_t kept = 0;

    for (size_t i = 0; i < self->depth; i++) {
        struct summits_open open = self->open[i];

        if (open.valley_bytes > valley_bytes)
            open.valley_bytes = valley_bytes;
        if (i + 1 < self->depth && open.bytes - open.valley_bytes < least) {
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
        if (self->depth >= 65536)
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

        summits_close(self, &passed, top->valley_bytes);
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

void
summits_end(struct summits *self)
{
    /* No higher value follows, so the right valley is 0. */
    for (; self->depth > 0; self->depth--)
        summits_close(self, &self->open[self->depth - 1], 0);
}
