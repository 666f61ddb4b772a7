/*
 * The functions that PyTorch and CuPy call, in the shapes that they have there.
 *
 * This file is compiled with -fexceptions, and a refusal is raised with no lock held and outside of any call of the
 * bridge: the exception passes through these functions alone.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>

#include <tidemark/bridge.h>

#include "src/bridge/allocate.h"
#include "src/resource/resource.h"

#define TORCH_OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */

/* c10::detail::torchCheckFail(const char *function, const char *file, uint32_t line, const char *message). */
typedef void torch_check_fail(const char *function, const char *file, uint32_t line, const char *message);

/* Throws c10::Error, a RuntimeError in Python, whose text is `text`. Returns where PyTorch's library is not loaded. */
static void
raise_torch(const char *text)
{
    void *library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
    torch_check_fail *fail = NULL;

    if (library != NULL) {
        *(void **)&fail = dlsym(library, "_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
        dlclose(library); /* PyTorch itself keeps it */
    }
    if (fail != NULL)
        fail("tide_torch_alloc", "tidemark", 0, text);
}

/* Throws std::bad_alloc. Returns where there is no C++. */
static void
raise_bad_alloc(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    void (*fail)(void) = NULL;

    if (library != NULL) {
        *(void **)&fail = dlsym(library, "_ZSt17__throw_bad_allocv");
        dlclose(library);
    }
    if (fail != NULL)
        fail();
}

/* Whether a program that frees something, or asks for less, may succeed: PyTorch's words tell it to. */
static bool
torch_lacks_memory(enum tide_status status)
{
    return status == TIDE_ECAPACITY || status == TIDE_ELIMIT || status == TIDE_EOVERFLOW ||
           (status == TIDE_EDRIVER && tide_error_driver() == TORCH_OUT_OF_MEMORY);
}

/* Does not return where something can be thrown. PyTorch's own words come first: programs look for them. */
static __attribute__((noinline, cold)) void
torch_refuse(enum tide_status status)
{
    char text[TIDE_ERROR_TEXT_BYTES + 64];

    snprintf(text, sizeof(text), "%s%s",
             torch_lacks_memory(status) ? "CUDA out of memory. " : "tidemark: ", tide_error_text());
    raise_torch(text);
    raise_bad_alloc();
    tidei_message(TIDE_ERROR, "%s; nothing can be raised here, the program gets NULL", text);
}

void *
tide_torch_alloc(size_t bytes, int device, void *stream)
{
    void *pointer;
    enum tide_status status = tidei_bridge_allocate(TIDEI_BRIDGE_BLOCKS, device, bytes, (tide_stream)stream, &pointer);

    if (__builtin_expect(status != TIDE_OK, 0))
        torch_refuse(status);
    return pointer;
}

void
tide_torch_free(void *pointer, size_t bytes, int device, void *stream)
{
    enum tide_status status = tide_bridge_deallocate(pointer, (tide_stream)stream);

    (void)bytes;
    if (__builtin_expect(status != TIDE_OK, 0))
        tidei_message(TIDE_ERROR, "a free by the program on device %d: %s", device, tide_error_text());
}

void
tide_torch_init(int devices)
{
    (void)devices; /* stacks are made when a device is first used */
}

void
tide_torch_reset(void)
{
    for (int device = 0; device < TIDE_BRIDGE_DEVICES; device++) {
        if (tide_bridge_trim(device) != TIDE_OK)
            tidei_message(TIDE_WARNING, "empty_cache on device %d: %s", device, tide_error_text());
    }
}

void
tide_torch_fraction(double share, int device)
{
    if (tide_bridge_fraction(device, share) != TIDE_OK)
        tidei_message(TIDE_ERROR, "%s", tide_error_text());
}

void *
tide_torch_base(void *pointer, size_t *bytes)
{
    struct tide_bridge_block block = { TIDE_FIGURES(block) };
    struct tidei_error error;
    bool found;

    tidei_error_save(&error);
    found = tide_bridge_find(pointer, &block) == TIDE_OK;
    tidei_error_restore(&error);
    if (bytes != NULL)
        *bytes = found ? block.bytes : 0;
    return found ? block.base : pointer;
}

void
tide_torch_record_stream(void *pointer, void *stream)
{
    /* A tensor of 0 bytes has no block, and memory of others may be recorded, too. */
    if (pointer != NULL && tide_bridge_record_stream(pointer, (tide_stream)stream) == TIDE_ENOMEM)
        tidei_message(TIDE_ERROR, "%s", tide_error_text());
}

void *
tide_torch_segment_alloc(size_t bytes, int device, void *stream)
{
    void *pointer;

    tidei_bridge_allocate(TIDEI_BRIDGE_SEGMENTS, device, bytes, (tide_stream)stream, &pointer);
    return pointer;
}

void
tide_torch_segment_free(void *pointer, size_t bytes, int device, void *stream)
{
    tide_torch_free(pointer, bytes, device, stream);
}

void *
tide_cupy_malloc(void *parameter, size_t bytes, int device)
{
    void *pointer;
    enum tide_status status = tidei_bridge_allocate(TIDEI_BRIDGE_BLOCKS, device, bytes, 0, &pointer);

    (void)parameter;
    if (__builtin_expect(status != TIDE_OK, 0)) {
        raise_bad_alloc();
        tidei_message(TIDE_ERROR, "%s; nothing can be raised here, the program gets NULL", tide_error_text());
    }
    return pointer;
}

void
tide_cupy_free(void *parameter, void *pointer, int device)
{
    (void)parameter;
    tide_torch_free(pointer, 0, device, NULL);
}
