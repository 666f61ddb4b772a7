/* The driver's own functions, by their names. */
#include "src/run/run.h"

#include <dlfcn.h>
#include <string.h>

/*
 * The driver, into which the auditor writes. It may write before the linker has relocated this object, so that it must
 * need no relocation.
 */
extern RUN_EXPORT _Atomic(struct link_map *) tidemark_run_driver;
_Atomic(struct link_map *) tidemark_run_driver;

/*
 * What was found; driver_lacks() where there is none. No lock is held over a look-up: the dynamic linker has a lock of
 * its own, which a thread that comes here from a constructor holds. Two threads that look for one function find the
 * same.
 */
static _Atomic(void (*)(void)) driver_functions[RUN_COUNT];

static void
driver_lacks(void)
{
}

static _Atomic(void *) driver_held;

/*
 * The driver's handle. From the first time on it is held: what the addresses of its functions are kept for must not go
 * away. NULL: the process has not loaded a driver.
 */
static void *
driver_handle(void)
{
    void *handle = atomic_load_explicit(&driver_held, memory_order_acquire);
    struct link_map *map = atomic_load_explicit(&tidemark_run_driver, memory_order_acquire);
    void *none = NULL;

    if (handle != NULL)
        return handle;
    handle = dlopen(map != NULL ? map->l_name : TIDEI_RUN_LIBCUDA ".1", RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return NULL;
    if (!atomic_compare_exchange_strong_explicit(&driver_held, &none, handle, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        dlclose(handle);
        handle = none;
    }
    return handle;
}

bool
tidei_run_driver_runs(void)
{
    void *handle = driver_handle();
    CUresult(CUDAAPI * count_devices)(int *) = NULL;
    void *address = handle != NULL ? tidei_run_look_up(handle, "cuDeviceGetCount") : NULL;
    int count = 0;

    memcpy(&count_devices, &address, sizeof(address));
    return count_devices == NULL || count_devices(&count) != CUDA_ERROR_NOT_INITIALIZED;
}

void (*tidei_run_real(unsigned index))(void)
{
    void (*function)(void) = atomic_load_explicit(&driver_functions[index], memory_order_acquire);
    void *handle, *address;

    if (function != NULL)
        return function != driver_lacks ? function : NULL;
    handle = driver_handle();
    if (handle == NULL)
        return NULL;
    address = tidei_run_look_up(handle, tidei_run_names[index]);
    memcpy(&function, &address, sizeof(function));
    atomic_store_explicit(&driver_functions[index], address != NULL ? function : driver_lacks, memory_order_release);
    return function;
}

unsigned
tidei_run_index(const char *name)
{
    unsigned index = 0;

    while (index < RUN_COUNT && strcmp(tidei_run_names[index], name) != 0)
        index++;
    return index;
}
