/*
 * The stubs: what a program calls in the place of the driver's functions. Each jumps to the wrapper, or to the driver,
 * with the arguments that it got. Their prototypes are those of cuda.h, as a stub that passed on some fixed number of
 * arguments would lose those of a function with more.
 */
#include "src/run/run.h"

/* A second name of the stub, under which a program that is linked with the driver finds it. */
#ifdef TIDEI_RUN_OWN_DLSYM
#define STUB_ALIAS(name, parameters)                                                                                   \
    RUN_EXPORT CUresult CUDAAPI name parameters __attribute__((alias(TIDEI_RUN_STUB #name)));
#else
#define STUB_ALIAS(name, parameters)
#endif

#define FUNCTION(name, parameters, arguments)                                                                          \
    RUN_EXPORT CUresult CUDAAPI tidemark_run_##name parameters;                                                        \
    RUN_EXPORT CUresult CUDAAPI tidemark_run_##name parameters                                                         \
    {                                                                                                                  \
        CUresult(CUDAAPI *function) parameters;                                                                        \
                                                                                                                       \
        function = (CUresult(CUDAAPI *) parameters)tidei_run_function(RUN_##name);                                     \
        return function arguments;                                                                                     \
    }                                                                                                                  \
    STUB_ALIAS(name, parameters)
#include "src/process/functions.def"
#undef FUNCTION

/* Defined in address.c. */
void tidemark_run_cuGetProcAddress(void);
void tidemark_run_cuGetProcAddress_v2(void);

void (*const tidei_run_stubs[RUN_COUNT])(void) = {
#define FUNCTION(name, parameters, arguments) [RUN_##name] = (void (*)(void))tidemark_run_##name,
#include "src/process/functions.def"
#undef FUNCTION
    [RUN_cuGetProcAddress] = tidemark_run_cuGetProcAddress,
    [RUN_cuGetProcAddress_v2] = tidemark_run_cuGetProcAddress_v2,
};

const char *const tidei_run_names[RUN_COUNT] = {
#define FUNCTION(name, parameters, arguments) [RUN_##name] = #name,
#include "src/process/functions.def"
#undef FUNCTION
    [RUN_cuGetProcAddress] = "cuGetProcAddress",
    [RUN_cuGetProcAddress_v2] = "cuGetProcAddress_v2",
};

_Atomic(void (*)(void)) tidei_run_functions[RUN_COUNT];
