/* The text of a stack over models of memory, with counters of what reaches them. */
#ifndef VIEWER_RECOMMEND_MODEL_H
#define VIEWER_RECOMMEND_MODEL_H

#include "viewer/recommend/costs.h"

/*
 * The text of the stack `text` with `statistics | sim(model=...)` in place of each base of device memory, and
 * `statistics` in place of each `log`, which would record a trace. `capacity`: of each of these bases; 0: any. *base is
 * the last base; COST_BASES: there is none. The caller frees the result; NULL: no memory.
 */
char *model_text(const char *text, uint64_t capacity, enum cost_base *base);

#endif
