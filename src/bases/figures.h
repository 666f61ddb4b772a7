/* Answers the queries of a base from a list of its figures. */
#ifndef TIDEI_BASES_FIGURES_H
#define TIDEI_BASES_FIGURES_H

#include "src/resource/resource.h"

struct tidei_figure {
    enum tide_query what;
    uint64_t value; /* UINT64_MAX: the base does not know it */
};

/* Set *out to the figure `what`; false where the list has none. */
static inline bool
tidei_figures_find(const struct tidei_figure *figures, size_t count, enum tide_query what, uint64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        if (figures[i].what == what && figures[i].value != UINT64_MAX) {
            *out = figures[i].value;
            return true;
        }
    }
    return false;
}

#endif
