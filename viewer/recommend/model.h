/* The text of a stack over models of memory, with counters of what reaches them. */
#ifndef VIEWER_RECOMMEND_MODEL_H
#define VIEWER_RECOMMEND_MODEL_H

#include "viewer/recommend/costs.h"

struct model {
    char *text;          /* owns; NULL: no memory */
    enum cost_base base; /* the last one; COST_BASES: there is none */
    const char *why;     /* a constant; why the model would not be right; NULL: it is */
};

/*
 * The text of the stack `text` with `statistics | sim(model=...)` in place of each base of device memory, and
 * `statistics` in place of each `log`, which would record a trace; where a `limit` shares its budget with other
 * processes, that of the model is its own. `text`: what tide_stack_check takes. `capacity`: of each of these bases; 0:
 * any.
 */
void model_make(const char *text, uint64_t capacity, struct model *out);

#endif
