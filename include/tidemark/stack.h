/* Stacks from text, and back. */
#ifndef TIDEMARK_STACK_H
#define TIDEMARK_STACK_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Make the stack that `text` describes, top first, such as "log(trace.db) | limit(4GiB) as gpu | driver". The
 * grammar stands in doc/stack-text.md.
 *
 * The caller gets one reference to the top. On failure *out is NULL, nothing is left behind, and
 * tide_error_text() is one line that names the layer, the argument, the column (from 1) and what was expected. A trace
 * that the text's logs have made is removed again, and one that they were to replace comes back; one that a stack of
 * before records into goes on, and keeps the layers that were numbered in it.
 * Errors: TIDE_ESYNTAX, and all that the constructors return. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_parse(const char *text, struct tide_resource **out);

/*
 * The stack in the environment's TIDEMARK_STACK; where that is unset or empty, the one of `default_text`.
 * Errors: as tide_stack_parse; its messages begin with "TIDEMARK_STACK: " where the text came from there.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_from_environment(const char *default_text, struct tide_resource **out);

/*
 * Print the stack under `top` as text that tide_stack_parse makes the same stack of. *needed (may be NULL) is the
 * length without the NUL, also where `capacity` was too small and the text was cut. A resource that an
 * application brought is printed under its name, which tide_stack_parse does not know.
 * Errors: TIDE_EINVAL (NULL). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_describe(struct tide_resource *top, char *text, size_t capacity, size_t *needed);

/*
 * Find a layer of the stack under `top`, `top` included: the one that stack text called `name` (`limit(4GiB) as gpu`);
 * where there is none, the first layer of the kind `name` ("driver"). It is the way to a layer of a stack that was made
 * from text. Below a layer over several others, such as binning, the one that serves what no other does is looked
 * through first.
 *
 * *out is borrowed, as long as the stack is there; on failure it is NULL.
 * Errors: TIDE_EINVAL (NULL, no such layer; the text lists what there is). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_find(struct tide_resource *top, const char *name, struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
