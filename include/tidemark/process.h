/*
 * process: the account of all device memory of a process, for code that wraps the functions of the CUDA driver.
 *
 * `tidemark run` has an unmodified program call wrappers in the place of some functions of the driver
 * (doc/tidemark-run.1). A wrapper passes the program's call through a stack, so that a `log` records it and a `limit`
 * refuses it; the base of the stack makes the call. There is a stack for each device and each kind of memory.
 */
#ifndef TIDEMARK_PROCESS_H
#define TIDEMARK_PROCESS_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A function of the driver that has a wrapper: its exported name, the wrapper to call in its place, and the place for
 * the address of the real function. `wrapper` has the prototype of cuda.h's function of that name.
 */
struct tide_process_function {
    const char *name;
    void (*wrapper)(void);
    void (**real)(void);
};

struct tide_process_options {
    size_t struct_size; /* TIDE_OPTIONS */
    /*
     * The layers above each kind of memory, as stack text without a base, such as "log | statistics | limit(8GiB)".
     * With a base, plain device memory (cuMemAlloc) comes from that stack instead of the driver. A log without a path
     * records into `trace`. NULL: a log alone.
     */
    const char *stack;
    const char *trace;  /* the path of the trace, as of a log; NULL: "tidemark-%p.db" */
    const char *limit;  /* the most bytes of each device, as in stack text: "8GiB", or "50%" of it; NULL: no limit */
    const char *budget; /* "NAME=16GiB": a limit that processes share; NULL: none */
    const char *log;    /* more arguments of the log, such as "callstack=python:32"; NULL: none */
    /*
     * An existing file, for the process that started this one: once the trace is made, its path is appended to the file
     * with a NUL byte. NULL: none. If the file cannot be opened, this is ignored.
     */
    const char *list;
};

/*
 * Set up the account of this process, once; a later call changes nothing and gives the same functions. *functions is a
 * static array of the *count functions that have wrappers. Before the caller calls a wrapper, it stores the address of
 * each real function where `real` points. A function that the driver lacks keeps NULL, and its wrapper must not be
 * called.
 *
 * No file is made and no device is queried before a wrapper allocates. All logs of the process with that path record
 * into one trace. If a file of that name exists already, as after exec(), a number is added to the name.
 *
 * `options` may be NULL. On failure *functions is NULL and *count 0.
 * Errors: TIDE_EINVAL (NULL; a text that does not parse; limit and budget both given), TIDE_ESYNTAX, TIDE_EUNSUPPORTED
 * (this build has no CUDA; a layer that changes requests over the driver's own memory), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_process_start(const struct tide_process_options *options,
                                                const struct tide_process_function **functions, size_t *count);

/*
 * Check options without starting the account, for programs that set the environment of others, such as `tidemark run`.
 * It creates nothing, and looks at no file and no device.
 *
 * Errors: those of tide_process_start, and TIDE_EINVAL where the account was started.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_process_check(const struct tide_process_options *options);

#ifdef __cplusplus
}
#endif
#endif
