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
 * one line that names the layer, the argument, the column (from 1) and what was expected. Traces that the text's logs
 * created are removed, and a trace that one was to replace is restored. A trace that an earlier stack records into goes
 * on, and keeps the layers that were numbered in it. Errors: TIDE_ESYNTAX, and those of the constructors. Thread
 * safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_parse(const char *text, struct tide_resource **out);

/* What stack text leaves open. */
struct tide_stack_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    int32_t device;      /* CUDA ordinal for bases whose text does not say device= */
    bool without_cupti;  /* logs do without CUPTI, unless the text of one says cupti= */
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
 * Create the stack that the environment variable TIDEMARK_STACK describes; where that is unset or empty, the one of
 * `default_text`; where that is NULL, the one of tide_stack_default for device 0. Errors: as tide_stack_parse, and with
 * NULL as tide_stack_default; messages begin with "TIDEMARK_STACK: " where the text is the variable's. In a program
 * with rights that its caller lacks (set-uid, capabilities; see secure_getenv(3)) the variable counts as unset, as do
 * those of the rank in the path of a log. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_from_environment(const char *default_text, struct tide_resource **out);

/*
 * Write the text of the stack that a program gets where neither it nor its user chooses one: the one that takes the
 * least of the device `device` (CUDA ordinal) for real traffic, of those that the device has. That is
 *
 *     pool | vmm        where the device has virtual memory calls,
 *     pool | driver     else, where it has memory pools,
 *     pool | cuda       else;
 *
 * with the argument device= where that is not 0; under a checker that listens to blocks by NVTX `pool | cuda`, since
 * such a checker takes them in memory of that base alone (nvtx.h). A later version may choose another stack. *needed
 * (may be NULL) is the full length without the NUL, even where `capacity` was too small and the text was cut. On
 * failure the text is empty.
 *
 * Errors: TIDE_EINVAL (NULL, no such device), TIDE_EUNSUPPORTED (this build has no CUDA; the machine has no driver or
 * no device), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_default(int device, char *text, size_t capacity, size_t *needed);

/*
 * Check stack text without creating what it describes: no file is made, and no device is asked. `full` gets the text
 * with one layer a line and each argument that has a value, given or default; it describes the same stack. *needed (may
 * be NULL) is the full length without the NUL, even where `capacity` was too small and the text was cut.
 *
 * What depends on the machine is not checked: devices, paths, and whether memory suffices. On failure `full` is empty
 * and tide_error_text() is as after tide_stack_parse. Errors: TIDE_EINVAL (NULL), TIDE_ESYNTAX, and those of the
 * constructors. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_stack_check(const char *text, char *full, size_t capacity, size_t *needed);

/*
 * Print the stack under `top` as text from which tide_stack_parse creates the same stack. *needed (may be NULL) is the
 * full length without the NUL, even where `capacity` was too small and the text was cut. A resource of the
 * application's own is printed under its name, which tide_stack_parse does not know. Errors: TIDE_EINVAL (NULL). Thread
 * safety: any thread. Since 0.1.
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
