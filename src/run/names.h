/* What the auditor and the preloaded object have to agree on: names. */
#ifndef TIDEI_RUN_NAMES_H
#define TIDEI_RUN_NAMES_H

/* The base names of the objects. `tidemark run` looks for them by the same names. */
#define TIDEI_RUN_AUDIT   "libtidemark-audit.so"
#define TIDEI_RUN_PRELOAD "libtidemark-run.so"
#define TIDEI_RUN_DLSYM   "libtidemark-dlsym.so"
#define TIDEI_RUN_NVTX    "libtidemark-nvtx.so"

/* The stub of a driver function has the function's name behind this one. */
#define TIDEI_RUN_STUB "tidemark_run_"

/* The variable of the preloaded object into which the auditor puts the driver's struct link_map. */
#define TIDEI_RUN_DRIVER "tidemark_run_driver"

/* The driver's library is each object whose base name begins so. */
#define TIDEI_RUN_LIBCUDA "libcuda.so"

#endif
