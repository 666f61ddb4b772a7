/* Fills the table of the CUDA driver's entry points, and starts the driver. */
#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include <string.h>

struct driver_entry {
    const char *name;
    const char *symbol;
    int version;
    enum { REQUIRED, OPTIONAL } need;
    size_t slot;
};

static const struct driver_entry driver_entries[] = {
#define ENTRY(slot, name, suffix, version, need, parameters)                                                           \
    { name, name suffix, version, need, offsetof(struct tidei_driver, slot) },
#include "src/cuda/driver-entries.def"
#undef ENTRY
};

/* cuGetProcAddress as in 11.3, and as in 12.0. */
typedef CUresult(CUDAAPI *driver_proc_address)(const char *, void **, int, cuuint64_t);
typedef CUresult(CUDAAPI *driver_proc_address_v2)(const char *, void **, int, cuuint64_t, int *);

/* CU_GET_PROC_ADDRESS_LEGACY_STREAM, which older headers lack: stream 0 is the legacy default stream here. */
#define DRIVER_LEGACY_STREAM 1

struct driver_finder {
    tidei_driver_find find;
    void *context;
    driver_proc_address proc_address;
    driver_proc_address_v2 proc_address_v2;
};

/* ISO C has no conversion between a function and void *; POSIX gives both one representation. */
static void
driver_slot_set(void *slot, void *address)
{
    memcpy(slot, &address, sizeof(address));
}

static void *
driver_entry_find(const struct driver_finder *finder, const struct driver_entry *entry)
{
    void *address = NULL;
    int how;

    if (finder->proc_address_v2 != NULL) {
        if (finder->proc_address_v2(entry->name, &address, entry->version, DRIVER_LEGACY_STREAM, &how) != CUDA_SUCCESS)
            address = NULL;
    } else if (finder->proc_address != NULL) {
        if (finder->proc_address(entry->name, &address, entry->version, DRIVER_LEGACY_STREAM) != CUDA_SUCCESS)
            address = NULL;
    }
    return address != NULL ? address : finder->find(finder->context, entry->symbol);
}

const char *
tidei_driver_error_name(const struct tidei_driver *table, CUresult result)
{
    const char *name = NULL;

    if (table->get_error_name(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "an unknown CUDA error";
    return name;
}

enum tide_status
tidei_driver_error(const struct tidei_driver *table, const char *subject, CUresult result, const char *function)
{
    if (result == CUDA_SUCCESS)
        return TIDE_OK;
    tidei_error_driver_set((int)result);
    return tide_error_set(TIDE_EDRIVER, "%s: %s: %s (%d)", subject, function, tidei_driver_error_name(table, result),
                          (int)result);
}

/* The same for failures before the table is usable: they mean that this machine cannot do it. */
static enum tide_status
driver_start_error(const struct tidei_driver *table, CUresult result, const char *function)
{
    if (result == CUDA_SUCCESS)
        return TIDE_OK;
    tidei_error_driver_set((int)result);
    if (result == CUDA_ERROR_NO_DEVICE)
        return tide_error_set(TIDE_EUNSUPPORTED, "driver: no CUDA device on this machine (%s: CUDA_ERROR_NO_DEVICE)",
                              function);
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: the NVIDIA driver does not start (%s: %s, %d)", function,
                          tidei_driver_error_name(table, result), (int)result);
}

static enum tide_status
driver_start(struct tidei_driver *table)
{
    enum tide_status status;
    int count = 0;

    status = driver_start_error(table, table->init(0), "cuInit");
    if (status == TIDE_OK)
        status = driver_start_error(table, table->driver_get_version(&table->version), "cuDriverGetVersion");
    if (status == TIDE_OK)
        status = driver_start_error(table, table->device_get_count(&count), "cuDeviceGetCount");
    if (status == TIDE_OK && count == 0)
        status = tide_error_set(TIDE_EUNSUPPORTED, "driver: no CUDA device on this machine (cuDeviceGetCount: 0)");
    return status;
}

enum tide_status
tidei_driver_fill(struct tidei_driver *table, tidei_driver_find find, void *context)
{
    struct driver_finder finder = { .find = find, .context = context };

    memset(table, 0, sizeof(*table));
    driver_slot_set(&finder.proc_address_v2, find(context, "cuGetProcAddress_v2"));
    driver_slot_set(&finder.proc_address, find(context, "cuGetProcAddress"));
    for (size_t i = 0; i < sizeof(driver_entries) / sizeof(driver_entries[0]); i++) {
        const struct driver_entry *entry = &driver_entries[i];
        void *address = driver_entry_find(&finder, entry);

        if (address == NULL && entry->need == REQUIRED)
            return tide_error_set(TIDE_EUNSUPPORTED, "driver: the NVIDIA driver has no %s", entry->name);
        driver_slot_set((char *)table + entry->slot, address);
    }
    return driver_start(table);
}

#endif
