/*
 * NVTX: whether the layers that cut memory into blocks (`pool`, `arena`, `fixed`, `monotonic`) say so to a tool.
 *
 * A checker such as compute-sanitizer sees the memory that a program takes from the driver, and not the blocks that a
 * layer cuts it into: an overrun into the next block, or a use after free, is lost on it. Run with `compute-sanitizer
 * --nvtx=yes`, these layers tell it each chunk, as a heap of NVTX's memory extension, and each block, as a region of
 * the bytes requested that is named by its tags (tag.h). compute-sanitizer takes heaps in memory of the base `cuda`
 * alone; over `driver`, `vmm` and `managed` nothing is told, and a warning says so once.
 */
#ifndef TIDEMARK_NVTX_H
#define TIDEMARK_NVTX_H

#ifdef __cplusplus
extern "C" {
#endif

enum tide_nvtx {
    TIDE_NVTX_AUTO, /* where a tool listens when the layer is created; else a load and a branch in each call */
    TIDE_NVTX_OFF,  /* never */
};

#ifdef __cplusplus
}
#endif
#endif
