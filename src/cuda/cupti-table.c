/* Loads CUPTI, once in a process. */
#include "src/cuda/cupti-table.h"

#ifdef HAVE_CUPTI_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "src/resource/resource.h"

static struct {
    struct tidei_cupti table;
    enum tide_status status;
    char text[256];
} cupti_loaded;

static pthread_once_t cupti_once = PTHREAD_ONCE_INIT;

/* By soname, for the loader's search path, then by path, where the toolkit's packages install them. */
static const char *const cupti_names[] = {
    "libcupti.so.13",
    "libcupti.so.12",
    "/usr/local/cuda/lib64/libcupti.so.13",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
    "/usr/local/cuda/lib/libcupti.so.13",
    "/usr/local/cuda/lib64/libcupti.so.12",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12",
};

#define CUPTI_NAMES (sizeof(cupti_names) / sizeof(cupti_names[0]))

/* A copy that the process has loaded comes first: two copies of CUPTI in one process break each other. */
static void *
cupti_open(void)
{
    void *library = NULL;

    for (size_t i = 0; i < CUPTI_NAMES && library == NULL; i++)
        library = dlopen(cupti_names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; i < CUPTI_NAMES && library == NULL; i++)
        library = dlopen(cupti_names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* Fill the table; returns the name of a missing symbol, or NULL. */
static const char *
cupti_fill(struct tidei_cupti *table, void *library)
{
    const struct {
        const char *name;
        void *entry; /* the slot in the table */
        int optional;
    } entries[] = {
        { "cuptiSubscribe", &table->subscribe, 0 },
        { "cuptiSubscribe_v2", &table->subscribe_v2, 1 },
        { "cuptiUnsubscribe", &table->unsubscribe, 0 },
        { "cuptiEnableCallback", &table->enable_callback, 0 },
        { "cuptiGetResultString", &table->get_result_string, 0 },
        { "cuptiGetVersion", &table->get_version, 0 },
        { "cuptiActivityRegisterCallbacks", &table->activity_register_callbacks, 0 },
        { "cuptiActivityRegisterTimestampCallback", &table->activity_register_timestamp, 0 },
        { "cuptiActivityEnable", &table->activity_enable, 0 },
        { "cuptiActivityDisable", &table->activity_disable, 0 },
        { "cuptiActivityGetNextRecord", &table->activity_get_next_record, 0 },
        { "cuptiActivityGetNumDroppedRecords", &table->activity_get_dropped, 0 },
        { "cuptiActivitySetAttribute", &table->activity_set_attribute, 0 },
        { "cuptiActivityFlushAll", &table->activity_flush_all, 0 },
    };

    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(library, entries[i].name);

        if (symbol == NULL && !entries[i].optional)
            return entries[i].name;
        memcpy(entries[i].entry, &symbol, sizeof(symbol));
    }
    return NULL;
}

static void
cupti_load(void)
{
    void *library = cupti_open();
    const char *missing;

    cupti_loaded.status = TIDE_EUNSUPPORTED;
    if (library == NULL) {
        snprintf(cupti_loaded.text, sizeof(cupti_loaded.text), "no libcupti.so.13 or .12 on this machine");
        return;
    }
    missing = cupti_fill(&cupti_loaded.table, library);
    if (missing != NULL) {
        snprintf(cupti_loaded.text, sizeof(cupti_loaded.text), "this libcupti has no %s: it is older than 12.0",
                 missing);
        return;
    }
    cupti_loaded.table.get_version(&cupti_loaded.table.version);
    cupti_loaded.status = TIDE_OK;
}

enum tide_status
tidei_cupti_get(const struct tidei_cupti **out)
{
    *out = NULL;
    pthread_once(&cupti_once, cupti_load);
    if (cupti_loaded.status != TIDE_OK)
        return tide_error_set(cupti_loaded.status, "cupti: %s", cupti_loaded.text);
    *out = &cupti_loaded.table;
    return TIDE_OK;
}

#endif
