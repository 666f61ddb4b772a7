/* Loads the CUDA driver's library, once in a process. */
#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The result of the one load. Written only under driver_once, read after it. */
static struct {
    struct tidei_driver table;
    enum tide_status status;
    int driver_error;
    char text[512]; /* the text after the subject, which each caller supplies */
    pid_t pid;      /* of the process that loaded it; 0 where the driver was never called */
} driver_loaded;

/* The table once it is filled. Stored with release, loaded with acquire. */
static _Atomic(const struct tidei_driver *) driver_table;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void *
driver_find_in_library(void *context, const char *symbol)
{
    return dlsym(context, symbol);
}

/* The library is never closed: the driver has threads of its own. */
static void
driver_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        const char *reason = dlerror();

        driver_loaded.status = tide_error_set(TIDE_EUNSUPPORTED, "driver: no NVIDIA driver on this machine (%s)",
                                              reason != NULL ? reason : "libcuda.so.1");
    } else {
        driver_loaded.pid = getpid();
        driver_loaded.status = tidei_driver_fill(&driver_loaded.table, driver_find_in_library, library);
    }
    if (driver_loaded.status != TIDE_OK) {
        driver_loaded.driver_error = library != NULL ? tide_error_driver() : 0;
        snprintf(driver_loaded.text, sizeof(driver_loaded.text), "%s", tide_error_text() + strlen("driver: "));
        return;
    }
    atomic_store_explicit(&driver_table, &driver_loaded.table, memory_order_release);
}

const struct tidei_driver *
tidei_driver_loaded(void)
{
    const struct tidei_driver *table = atomic_load_explicit(&driver_table, memory_order_acquire);

    return table != NULL && tidei_driver_usable() ? table : NULL;
}

bool
tidei_driver_usable(void)
{
    return driver_loaded.pid == 0 || driver_loaded.pid == getpid();
}

enum tide_status
tidei_driver_get(const char *subject, const struct tidei_driver **out)
{
    *out = NULL;
    pthread_once(&driver_once, driver_load);
    if (driver_loaded.status != TIDE_OK) {
        if (driver_loaded.driver_error != 0)
            tidei_error_driver_set(driver_loaded.driver_error);
        return tide_error_set(driver_loaded.status, "%s: %s", subject, driver_loaded.text);
    }
    if (!tidei_driver_usable())
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "%s: CUDA does not work after fork(): the parent process had started it", subject);
    *out = &driver_loaded.table;
    return TIDE_OK;
}

#endif
