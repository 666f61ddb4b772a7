/* Reads, checks and completes options structs by the argument rows of a kind. */
#ifndef TIDEI_RESOURCE_FIELDS_H
#define TIDEI_RESOURCE_FIELDS_H

#include "src/resource/kind.h"

/* Fill `options` from stack text. The field of an argument that is not given is marked as not set. */
void tidei_fields_read(const struct tidei_kind *kind, const struct tidei_value *values, void *options);

/* Check that each field that is set has a value that its row allows. Errors: TIDE_EINVAL; *fault is the row. */
enum tide_status tidei_fields_check(const struct tidei_kind *kind, const void *options, size_t *fault);

/* Replace each field that is not set by its default, and each `zero_value` by 0. */
void tidei_fields_complete(const struct tidei_kind *kind, void *options);

/*
 * Whether stack text can say the value of the field in completed options: not where it is not set and has no default.
 */
bool tidei_field_has_value(const struct tidei_argument *argument, const void *options);

/* Print the value of the field in the syntax of stack text. */
void tidei_field_print(const struct tidei_argument *argument, const void *options, struct tide_text *text);

#endif
