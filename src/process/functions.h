/* The wrappers, and the functions of the driver that they stand for. */
#ifndef TIDEI_PROCESS_FUNCTIONS_H
#define TIDEI_PROCESS_FUNCTIONS_H

#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

/* The real functions; NULL: the driver lacks it, or its address was not given. Written before any wrapper is called. */
struct tidei_process_functions {
#define FUNCTION(name, parameters, arguments) CUresult(CUDAAPI *real_##name) parameters;
#include "src/process/functions.def"
#undef FUNCTION
};

extern struct tidei_process_functions tidei_process_functions;

#define TIDEI_REAL(name) (tidei_process_functions.real_##name)

#define FUNCTION(name, parameters, arguments) CUresult CUDAAPI tidei_process_##name parameters;
#include "src/process/functions.def"
#undef FUNCTION

#endif
#endif
