/* The driver's numbers for the kinds of handles that a pool is shared by. */
#ifndef TIDEI_BASES_DRIVER_SHARE_H
#define TIDEI_BASES_DRIVER_SHARE_H

/* As in enum CUmemAllocationHandleType; the headers of an older CUDA do not name all. */
#define TIDEI_SHARE_POSIX_FD 1
#define TIDEI_SHARE_FABRIC   8

#endif
