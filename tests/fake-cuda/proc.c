/* The fake driver's look-up of its functions by name, version, and kind of default stream. */
#include "tests/fake-cuda/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether `known`, which may end in _v2, is `name`. */
static bool
proc_names(const char *known, const char *name)
{
    size_t length = strlen(name);

    return length > 0 && strncmp(known, name, length) == 0 &&
           (known[length] == '\0' || (strncmp(known + length, "_v", 2) == 0 && known[length + 3] == '\0'));
}

/* The newest function of the name that is no newer than `version`. */
static struct fake_function *
proc_find(const char *name, int version, bool per_thread)
{
    struct fake_function *best = NULL;

    for (struct fake_function *function = fake_functions(); function != NULL; function = function->next) {
        if (function->per_thread == per_thread && function->version > 0 && function->version <= version &&
            proc_names(function->name, name) && (best == NULL || best->version < function->version))
            best = function;
    }
    return best;
}

/* With the thread's default stream, what has no such variant is the plain function. */
static CUresult
proc_address(const char *name, void **address, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *how)
{
    struct fake_function *found = NULL;

    if (name == NULL || address == NULL || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    *address = NULL;
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        found = proc_find(name, version, true);
    if (found == NULL)
        found = proc_find(name, version, false);
    if (found != NULL && found->version <= fake_driver_version()) {
        memcpy(address, &found->address, sizeof(*address));
        *how = CU_GET_PROC_ADDRESS_SUCCESS;
        return CUDA_SUCCESS;
    }
    if (getenv("FAKE_CUDA_TELL") != NULL)
        fprintf(stderr, "fake-cuda: no function %s of version %d\n", name, version);
    *how = proc_find(name, 1 << 30, false) != NULL ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult
do_cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *how)
{
    CUdriverProcAddressQueryResult unwanted;

    return proc_address(name, address, version, flags, how != NULL ? how : &unwanted);
}

FAKE_API_EARLY(12000, cuGetProcAddress,
               (const char *name, void **address, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *how),
               (name, address, version, flags, how))

/* The function of CUDA 11.3, which cuda.h no longer declares: it does not say why nothing was found. */
#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags);

static CUresult
do_first_cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult unwanted;

    return proc_address(name, address, version, flags, &unwanted);
}

FAKE_DEFINE(FAKE_NEEDS_NOTHING, false, 11030, "cuGetProcAddress", cuGetProcAddress, do_first_cuGetProcAddress,
            of_first_cuGetProcAddress, add_first_cuGetProcAddress,
            (const char *name, void **address, int version, cuuint64_t flags), (name, address, version, flags))

/*
 * The fake has none of the tables that are not documented. Without them the CUDA runtime looks all its functions up and
 * then fails, as README.md says.
 */
static CUresult
do_cuGetExportTable(const void **out, const CUuuid *id)
{
    if (out == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

FAKE_API_EARLY(3000, cuGetExportTable, (const void **out, const CUuuid *id), (out, id))
