/* The driver's numbers for the types of handles that share a pool. */
#ifndef TIDEI_BASES_DRIVER_SHARE_H
#define TIDEI_BASES_DRIVER_SHARE_H

/* As in enum CUmemAllocationHandleType; headers of older CUDA versions lack some. */
#define TIDEI_SHARE_POSIX_FD 1
#define TIDEI_SHARE_FABRIC   8

#endif
