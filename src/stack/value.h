/* Reads the values of stack text: sizes, shares, counts, flags, choices. */
#ifndef TIDEI_STACK_VALUE_H
#define TIDEI_STACK_VALUE_H

#include "src/resource/kind.h"

/* A share of the capacity below: number / whole. whole is 0 where the value is not a share. */
struct stack_share {
    uint64_t number;
    uint64_t whole;
};

/*
 * Read `word` (borrowed by *out for WORD) as a value of `argument` into *out, whose column is set. A share goes into
 * *share and leaves out->number 0. On failure returns TIDE_ESYNTAX, with the text set.
 */
enum tide_status tidei_stack_value(const char *layer, const struct tidei_argument *argument, const char *word,
                                   struct tidei_value *out, struct stack_share *share);

/* Read a size such as "64KiB" for `argument`, at `column`. */
enum tide_status tidei_stack_size(const char *layer, const struct tidei_argument *argument, const char *word,
                                  size_t length, unsigned column, uint64_t *out);

/* Whether `word` is only a unit, such as "GiB". */
bool tidei_stack_is_unit(const char *word);

#endif
