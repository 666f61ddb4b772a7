/* The kernels of the GPU tests: their PTX, and their launches. */
#include "tests/gpu/kernels.h"

#ifdef HAVE_CUDA_H

#include "tests/tap.h"

/* Every thread begins at its own index and steps by the number of threads, until `count`. */
#define PTX_WORDS_BEGIN                                                                                                \
    "    .reg .pred %p;\n"                                                                                             \
    "    .reg .u32 %i, %step, %block, %count, %value, %seen;\n"                                                        \
    "    .reg .u64 %words, %address;\n"                                                                                \
    "    ld.param.u64 %words, [words];\n"                                                                              \
    "    ld.param.u32 %count, [count];\n"                                                                              \
    "    ld.param.u32 %value, [value];\n"                                                                              \
    "    mov.u32 %i, %tid.x;\n"                                                                                        \
    "    mov.u32 %step, %ntid.x;\n"                                                                                    \
    "    mov.u32 %block, %ctaid.x;\n"                                                                                  \
    "    mad.lo.u32 %i, %block, %step, %i;\n"                                                                          \
    "    mov.u32 %block, %nctaid.x;\n"                                                                                 \
    "    mul.lo.u32 %step, %step, %block;\n"                                                                           \
    "next:\n"                                                                                                          \
    "    setp.ge.u32 %p, %i, %count;\n"                                                                                \
    "    @%p bra done;\n"                                                                                              \
    "    mad.wide.u32 %address, %i, 4, %words;\n"

#define PTX_WORDS_END                                                                                                  \
    "    add.u32 %i, %i, %step;\n"                                                                                     \
    "    bra next;\n"                                                                                                  \
    "done:\n"                                                                                                          \
    "    ret;\n"                                                                                                       \
    "}\n"

/* clang-format off */
const char gpu_kernels_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"

    ".visible .entry fill(.param .u64 words, .param .u32 count, .param .u32 value)\n"
    "{\n"
    PTX_WORDS_BEGIN
    "    st.global.u32 [%address], %value;\n"
    PTX_WORDS_END

    ".visible .entry add(.param .u64 words, .param .u32 count, .param .u32 value)\n"
    "{\n"
    PTX_WORDS_BEGIN
    "    ld.global.u32 %seen, [%address];\n"
    "    add.u32 %seen, %seen, %value;\n"
    "    st.global.u32 [%address], %seen;\n"
    PTX_WORDS_END

    ".visible .entry verify(.param .u64 words, .param .u32 count, .param .u32 value, .param .u64 wrong)\n"
    "{\n"
    "    .reg .u64 %wrong;\n"
    "    ld.param.u64 %wrong, [wrong];\n"
    PTX_WORDS_BEGIN
    "    ld.global.u32 %seen, [%address];\n"
    "    setp.ne.u32 %p, %seen, %value;\n"
    "    @%p red.global.add.u32 [%wrong], 1;\n"
    PTX_WORDS_END

    ".visible .entry delay(.param .u64 ns)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .u64 %now, %end, %ns;\n"
    "    ld.param.u64 %ns, [ns];\n"
    "    mov.u64 %end, %globaltimer;\n"
    "    add.u64 %end, %end, %ns;\n"
    "wait:\n"
    "    mov.u64 %now, %globaltimer;\n"
    "    setp.lt.u64 %p, %now, %end;\n"
    "    @%p bra wait;\n"
    "    ret;\n"
    "}\n"

    /* It waits for at most 20,000,000,000 ns. */
    ".visible .entry hold_then_fill(.param .u64 go, .param .u64 words, .param .u32 count, .param .u32 value)\n"
    "{\n"
    "    .reg .pred %q;\n"
    "    .reg .u32 %go;\n"
    "    .reg .u64 %gate, %now, %end;\n"
    "    ld.param.u64 %gate, [go];\n"
    "    mov.u64 %end, %globaltimer;\n"
    "    add.u64 %end, %end, 20000000000;\n"
    "hold:\n"
    "    ld.volatile.global.u32 %go, [%gate];\n"
    "    setp.ne.u32 %q, %go, 0;\n"
    "    @%q bra opened;\n"
    "    mov.u64 %now, %globaltimer;\n"
    "    setp.lt.u64 %q, %now, %end;\n"
    "    @%q bra hold;\n"
    "opened:\n"
    PTX_WORDS_BEGIN
    "    st.global.u32 [%address], %value;\n"
    PTX_WORDS_END;
/* clang-format on */

#define THREADS     256
#define MOST_BLOCKS 128

static bool
kernels_step(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        diag("%s: CUresult %d", what, (int)result);
    return result == CUDA_SUCCESS;
}

static bool
kernels_find(const struct gpu_kernels *kernels, CUfunction *out, const char *name)
{
    return kernels_step(gpu.module_get_function(out, kernels->module, name), name);
}

static bool
kernels_launch(CUfunction function, uint32_t count, CUstream stream, void **arguments)
{
    uint32_t blocks = count / THREADS + 1;

    if (blocks > MOST_BLOCKS)
        blocks = MOST_BLOCKS;
    return kernels_step(gpu.launch_kernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL),
                        "cuLaunchKernel");
}

bool
gpu_kernels_open(struct gpu_kernels *kernels)
{
    memset(kernels, 0, sizeof(*kernels));
    return kernels_step(gpu.module_load_data(&kernels->module, gpu_kernels_ptx), "cuModuleLoadData") &&
           kernels_find(kernels, &kernels->fill, "fill") && kernels_find(kernels, &kernels->add, "add") &&
           kernels_find(kernels, &kernels->verify, "verify") && kernels_find(kernels, &kernels->delay, "delay") &&
           kernels_step(gpu.mem_alloc(&kernels->wrong, sizeof(uint32_t)), "cuMemAlloc") &&
           gpu_fill(kernels, NULL, NULL, 0, 0) && gpu_add(kernels, NULL, NULL, 0, 0) &&
           gpu_verify(kernels, NULL, NULL, 0, 0, kernels->wrong) && gpu_delay(kernels, NULL, 0) &&
           kernels_step(gpu.context_synchronize(), "cuCtxSynchronize");
}

void
gpu_kernels_close(struct gpu_kernels *kernels)
{
    if (kernels->wrong != 0)
        gpu.mem_free(kernels->wrong);
    if (kernels->module != NULL)
        gpu.module_unload(kernels->module);
    memset(kernels, 0, sizeof(*kernels));
}

bool
gpu_fill(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)words;

    return kernels_launch(kernels->fill, count, stream, (void *[]){ &address, &count, &value });
}

bool
gpu_add(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)words;

    return kernels_launch(kernels->add, count, stream, (void *[]){ &address, &count, &value });
}

bool
gpu_verify(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value,
           CUdeviceptr wrong)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)words;

    return kernels_launch(kernels->verify, count, stream, (void *[]){ &address, &count, &value, &wrong });
}

bool
gpu_delay(const struct gpu_kernels *kernels, CUstream stream, uint64_t ns)
{
    return kernels_step(gpu.launch_kernel(kernels->delay, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){ &ns }, NULL),
                        "cuLaunchKernel");
}

uint32_t
gpu_count_wrong(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value)
{
    uint32_t wrong = UINT32_MAX;

    if (!kernels_step(gpu.memset_d32_async(kernels->wrong, 0, 1, stream), "cuMemsetD32Async") ||
        !gpu_verify(kernels, stream, words, count, value, kernels->wrong) ||
        !kernels_step(gpu.memcpy_dtoh_async(&wrong, kernels->wrong, sizeof(wrong), stream), "cuMemcpyDtoHAsync") ||
        !kernels_step(gpu.stream_synchronize(stream), "cuStreamSynchronize"))
        return UINT32_MAX;
    return wrong;
}

#endif
