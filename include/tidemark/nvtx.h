/*
 * NVTX: whether the layers that cut memory into blocks (`pool`, `arena`, `fixed`, `monotonic`) say so to a tool.
 *
 * A checker such as compute-sanitizer sees the memory that a program takes from the driver, and not the blocks that a
 * layer cuts it into: it cannot detect an overrun into the next block, or a use after free. Under
 * `compute-sanitizer --nvtx=yes`, these layers report each chunk to the checker as a heap of NVTX's memory extension,
 * and each block as a region, which has the bytes requested and is named by its tags (tag.h). compute-sanitizer accepts
 * heaps only in memory of the base `cuda`. Over `driver`, `vmm` and `managed` the layers report nothing, and a warning
 * says so once.
 */
#ifndef TIDEMARK_NVTX_H
#define TIDEMARK_NVTX_H

#ifdef __cplusplus
extern "C" {
#endif

/* When a layer reports its blocks. */
enum tide_nvtx {
    TIDE_NVTX_AUTO, /* if a tool listens when the layer is created; else this costs a load and a branch in each call */
    TIDE_NVTX_OFF,  /* never */
};

#ifdef __cplusplus
}
#endif
#endif
