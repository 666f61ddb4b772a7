/*
 * libtidemark-run.so, which `tidemark run` preloads: a stub for each function of the driver that has a wrapper
 * (src/process/functions.def). It is thin, since every process that the program starts gets it, too. Before the first
 * call that allocates, nothing is loaded, no file is made, no thread started: stubs call the driver. That call loads
 * libtidemark, which says which wrappers to call from then on (tide_process_start).
 *
 * libtidemark-dlsym.so is the same with dlsym() and dlvsym() of its own, for systems without an auditor (dlsym.c).
 */
#ifndef TIDEI_RUN_RUN_H
#define TIDEI_RUN_RUN_H

#include "config.h"

/* cuda.h then declares cuMemAlloc and cuMemAlloc_v2 as what they are, without a macro that makes one the other. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "src/run/names.h"

#define RUN_EXPORT __attribute__((visibility("default")))

/* What dlsym.c has of its own. In libtidemark-run.so look-ups are those of the C library. */
#ifdef TIDEI_RUN_OWN_DLSYM
void *tidei_run_look_up(void *library, const char *name);
#else
#include <dlfcn.h>
#define tidei_run_look_up dlsym
#endif

/* One index for each function. */
enum {
#define FUNCTION(name, parameters, arguments) RUN_##name,
#include "src/process/functions.def"
#undef FUNCTION
    RUN_cuGetProcAddress, /* its stubs are in address.c */
    RUN_cuGetProcAddress_v2,
    RUN_COUNT
};

/* Names and stubs, by index (stubs.c). */
extern const char *const tidei_run_names[RUN_COUNT];
extern void (*const tidei_run_stubs[RUN_COUNT])(void);

/* What the stub of an index calls; NULL: not known yet. Stored with release, loaded with acquire. */
extern _Atomic(void (*)(void)) tidei_run_functions[RUN_COUNT];

/*
 * The function to call for a stub whose tidei_run_functions has none: the first call that allocates starts the account.
 */
void (*tidei_run_decide(unsigned index))(void);

static inline void (*tidei_run_function(unsigned index))(void)
{
    void (*function)(void) = atomic_load_explicit(&tidei_run_functions[index], memory_order_acquire);

    return __builtin_expect(function != NULL, 1) ? function : tidei_run_decide(index);
}

/* The driver's function; NULL: it has none of that name, or there is no driver. Any thread (driver.c). */
void (*tidei_run_real(unsigned index))(void);

/* Whether the program has started the driver by cuInit(), as far as that can be asked. Starts nothing. */
bool tidei_run_driver_runs(void);

/* The index of the function of that name; RUN_COUNT: there is none. */
unsigned tidei_run_index(const char *name);

/* The stub to call in the place of an address of the driver's; the address itself where it has none (address.c). */
void *tidei_run_replace(void *address);

/* The options that `tidemark run` has put into the environment, copied when the process starts (environment.c). */
enum tidei_run_option {
    RUN_LIBRARY,
    RUN_STACK,
    RUN_TRACE,
    RUN_LIMIT,
    RUN_BUDGET,
    RUN_LOG,
    RUN_LIST, /* the file that gets the names of traces */
    RUN_ONLY, /* the process that is recorded, by its id, where its children are not */
    RUN_OPTION_COUNT,
};

/* NULL: not set. */
const char *tidei_run_option(enum tidei_run_option option);

/* Whether this process is to be recorded: it was started by `tidemark run`, and --no-children does not leave it out. */
bool tidei_run_is_on(void);

/* Write a line to standard error. */
void tidei_run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
