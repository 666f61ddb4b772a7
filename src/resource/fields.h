/* The fields of options structs, through the rows of a kind's arguments. */
#ifndef TIDEI_RESOURCE_FIELDS_H
#define TIDEI_RESOURCE_FIELDS_H

#include "src/resource/kind.h"

/* Fill `options` from stack text: the field of an argument that is not given says so. */
void tidei_fields_read(const struct tidei_kind *kind, const struct tidei_value *values, void *options);

/* Whether each field that is set holds what its row takes. Errors: TIDE_EINVAL; *fault is the row. */
enum tide_status tidei_fields_check(const struct tidei_kind *kind, const void *options, size_t *fault);

/* Put the default in place of each field that is not set, and 0 where that was asked for in other words. */
void tidei_fields_complete(const struct tidei_kind *kind, void *options);

#endif
