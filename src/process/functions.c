/* The functions of the driver that have wrappers. */
#include "config.h"

#include "src/process/functions.h"

#ifdef HAVE_CUDA_H

struct tidei_process_functions tidei_process_functions;

#endif
