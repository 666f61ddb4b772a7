/*
 * The CUDA driver as a table of entry points, loaded once from libcuda.so.1 at run time. No other part of the library
 * calls the driver, and nothing links against it: one build runs with and without a GPU.
 */
#ifndef TIDEI_CUDA_DRIVER_TABLE_H
#define TIDEI_CUDA_DRIVER_TABLE_H

#include "config.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>
#include <stdbool.h>

#include "src/resource/resource.h"

/* In a table that tidei_driver_get returns, all required entries are set; optional ones may be NULL. */
struct tidei_driver {
#define ENTRY(slot, name, suffix, version, need, parameters) CUresult(CUDAAPI *slot) parameters;
#include "src/cuda/driver-entries.def"
#undef ENTRY
    int version; /* of the driver, as CUDA_VERSION counts: 12020 for 12.2 */
};

/*
 * The driver of this machine (static), loaded and initialized by the first call in the process. A failure is kept, too,
 * and reported to every caller, prefixed with its `subject`: the base that needs the driver.
 *
 * Errors: TIDE_EUNSUPPORTED (no library, a library that lacks an entry point of every driver, cuInit failed, no device,
 * or a child of fork() whose parent had loaded the driver); the text names the error. Thread safety: any thread.
 */
enum tide_status tidei_driver_get(const char *subject, const struct tidei_driver **out);

/* The same table where an earlier call has got it; else NULL. Loads nothing. Any thread. */
const struct tidei_driver *tidei_driver_loaded(void);

/* False in a child of fork() whose parent has loaded the driver: there no call into it is safe. */
bool tidei_driver_usable(void);

/* Returns the address of `symbol`, or NULL where there is none; used by tidei_driver_fill. */
typedef void *(*tidei_driver_find)(void *context, const char *symbol);

/*
 * Fill `table` with symbols from `find`, initialize the driver and query its version and a device. tidei_driver_get
 * calls it once the library is open; tests call it with their own symbols. Errors: TIDE_EUNSUPPORTED.
 */
enum tide_status tidei_driver_fill(struct tidei_driver *table, tidei_driver_find find, void *context);

/* The name of `result`, "CUDA_ERROR_OUT_OF_MEMORY"; "an unknown CUDA error" where the driver has none. */
const char *tidei_driver_error_name(const struct tidei_driver *table, CUresult result);

/*
 * Report that `function` returned `result`: set the thread's driver error and return TIDE_EDRIVER; TIDE_OK for
 * CUDA_SUCCESS. `subject` is a base: "driver: cuMemPoolCreate: CUDA_ERROR_INVALID_VALUE (1)".
 */
enum tide_status tidei_driver_error(const struct tidei_driver *table, const char *subject, CUresult result,
                                    const char *function);

/*
 * If a call returned `result` because the thread has no context, or a destroyed one, make `context` current and return
 * true. The caller then repeats the call and calls tidei_driver_leave.
 *
 * Querying the context before each call would cost more than the driver's own check. The context must not stay current:
 * the CUDA runtime takes the current context for the thread's choice of a device, so a thread that never chose one
 * would end up on ours.
 */
static inline bool
tidei_driver_enter(const struct tidei_driver *table, CUresult result, CUcontext context)
{
    if (result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return false;
    return table->context_push(context) == CUDA_SUCCESS;
}

static inline void
tidei_driver_leave(const struct tidei_driver *table)
{
    CUcontext left;

    table->context_pop(&left);
}

/* The result of `call`, an expression, which is evaluated again with `context` current where the thread has none. */
#define TIDEI_DRIVER_CALL(table, context, call)                                                                        \
    __extension__({                                                                                                    \
        CUresult result_ = (call);                                                                                     \
        if (tidei_driver_enter((table), result_, (context))) {                                                         \
            result_ = (call);                                                                                          \
            tidei_driver_leave(table);                                                                                 \
        }                                                                                                              \
        result_;                                                                                                       \
    })

#endif
#endif
