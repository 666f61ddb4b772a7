/* Stacks from text, and back. */
#ifndef TIDEMARK_STACK_H
#define TIDEMARK_STACK_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Create the stack that `text` describes, top first, such as "log(trace.db) | limit(4GiB) as gpu | driver". The grammar
 * is in doc/stack-text.md.
 *
 * The caller gets one reference to the top. On failure *out is NULL, nothing is left behind, and tide_error_text() is
 * one line that names the layer, the argument, the column (from 1) and what was expected. Traces that the logs of the
 * text created are removed, and a trace that a log was to replace is restored. If a log of the text joined a trace that
 * an earlier stack records into, that trace goes on, and keeps the layer numbers that it gave out.
 * Errors: TIDE_ESYNTAX, and those of the constructors. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_parse(const char *text, struct tide_resource **out);

/* What stack text leaves open. */
struct tide_stack_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    int32_t device;      /* CUDA ordinal for bases whose text does not say device= */
    bool without_cupti;  /* logs use no CUPTI, unless their text says cupti= */
    bool process_paths;  /* a path of a log without %p gets -%p before its extension: "x.db" is "x-%p.db" */
    uint8_t reserved[2]; /* 0 */
};

/*
 * tide_stack_parse, with options: for a program that makes the same stack on several devices. `options` may be NULL.
 * Errors: as tide_stack_parse, and TIDE_EINVAL (a negative device). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_parse_with(const char *text, const struct tide_stack_options *options,
                                                   struct tide_resource **out);

/*
 * Create the stack that the environment variable TIDEMARK_STACK describes. If it is unset or empty, create the stack of
 * `default_text`; if that is NULL, the stack of tide_stack_default for device 0. The caller gets one reference to the
 * top. On failure *out is NULL. In a program with rights that its caller lacks (set-uid, capabilities; see
 * secure_getenv(3)) the variable counts as unset, and so do the variables of the rank in the path of a log.
 *
 * Errors: as tide_stack_parse, and with NULL as tide_stack_default; messages begin with "TIDEMARK_STACK: " where the
 * text is that of the variable. Thread safety: any thread, while no other thread changes the environment. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_from_environment(const char *default_text, struct tide_resource **out);

/*
 * Write the text of the stack that a program gets if neither the program nor its user chooses one. Of the stacks that
 * the device `device` (CUDA ordinal) supports, it is the one that takes the least memory of the device for real
 * traffic:
 *
 *     pool | vmm        where the device has virtual memory calls,
 *     pool | driver     else, where it has memory pools,
 *     pool | cuda       else.
 *
 * The text has the argument device= if `device` is not 0. Under a checker that listens to blocks by NVTX it is
 * `pool | cuda`, since such a checker accepts blocks only in memory of that base (nvtx.h). A later version may choose
 * another stack. *needed (may be NULL) is the full length without the NUL, even where `capacity` was too small and the
 * text was cut. On failure the text is empty.
 *
 * Errors: TIDE_EINVAL (NULL, no such device), TIDE_EUNSUPPORTED (this build has no CUDA; the machine has no driver or
 * no device), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_default(int device, char *text, size_t capacity, size_t *needed);

/*
 * Check stack text without creating what it describes: no file is made, and no device is queried. `full` gets the text
 * of the same stack, with one layer on each line and all arguments that have a value, given or default. It may be NULL
 * if `capacity` is 0. *needed (may be NULL) is the full length without the NUL, even where `capacity` was too small and
 * the text was cut.
 *
 * What depends on the machine is not checked: devices, paths, and whether memory suffices. On failure `full` is empty
 * and tide_error_text() is as after tide_stack_parse. Errors: TIDE_EINVAL (NULL), TIDE_ESYNTAX, and those of the
 * constructors. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_check(const char *text, char *full, size_t capacity, size_t *needed);

/*
 * Print the stack under `top` as text from which tide_stack_parse creates the same stack. *needed (may be NULL) is the
 * full length without the NUL, even where `capacity` was too small and the text was cut. A resource of the
 * application's own is printed under its name, which tide_stack_parse does not know. On failure the text is empty.
 * Errors: TIDE_EINVAL (NULL). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_describe(struct tide_resource *top, char *text, size_t capacity, size_t *needed);

/*
 * Find a layer of the stack under `top`, `top` included, such as a layer of a stack that was created from text. It is
 * the layer that stack text named `name` (`limit(4GiB) as gpu`); if there is none, the first layer of the kind `name`
 * ("driver"). Below a layer over several others, such as binning, the one that serves all other requests is searched
 * first.
 *
 * *out is borrowed, and valid as long as the stack exists; on failure it is NULL. Errors: TIDE_EINVAL (NULL, or no such
 * layer; the text lists the layers). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_find(struct tide_resource *top, const char *name, struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
