/* Starts the account of the process, once, and tells which functions of the driver have wrappers. */
#include "config.h"

#include <pthread.h>

#include <tidemark/process.h>

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/process/held.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

static const struct tide_process_function start_functions[] = {
#define FUNCTION(name, parameters, arguments)                                                                          \
    { #name, (void (*)(void))tidei_process_##name, (void (**)(void)) & tidei_process_functions.real_##name },
#include "src/process/functions.def"
#undef FUNCTION
};

static struct {
    pthread_mutex_t lock;
    bool started;
} start = { .lock = PTHREAD_MUTEX_INITIALIZER };

static enum tide_status
start_once(const struct tide_process_options *options)
{
    enum tide_status status = TIDE_OK;

    pthread_mutex_lock(&start.lock);
    if (!start.started) {
        status = tidei_process_stacks_start(options);
        if (status == TIDE_OK && (status = tidei_process_devices_start()) != TIDE_OK)
            tidei_process_stacks_forget(); /* else another attempt would make their locks again */
        start.started = status == TIDE_OK;
        if (start.started) {
            tidei_process_held_start();
            tidei_process_account_start();
        }
    }
    pthread_mutex_unlock(&start.lock);
    return status;
}

#endif

enum tide_status
tide_process_start(const struct tide_process_options *options, const struct tide_process_function **functions,
                   size_t *count)
{
    TIDEI_INSIDE(NULL);
    struct tide_process_options known;
    enum tide_status status;

    if (functions != NULL)
        *functions = NULL;
    if (count != NULL)
        *count = 0;
    if (functions == NULL || count == NULL)
        return tide_error_set(TIDE_EINVAL, "process: NULL in place of an address for the functions");
    status = tidei_options_copy("process", options, &known, sizeof(known));
    if (status != TIDE_OK)
        return status;
#ifdef HAVE_CUDA_H
    status = start_once(&known);
    if (status == TIDE_OK) {
        *functions = start_functions;
        *count = TIDEI_COUNT_OF(start_functions);
    }
    return status;
#else
    return tide_error_set(TIDE_EUNSUPPORTED, "process: this build of the library has no CUDA");
#endif
}

enum tide_status
tide_process_check(const struct tide_process_options *options)
{
    TIDEI_INSIDE(NULL);
    struct tide_process_options known;
    enum tide_status status = tidei_options_copy("process", options, &known, sizeof(known));

    if (status != TIDE_OK)
        return status;
#ifdef HAVE_CUDA_H
    pthread_mutex_lock(&start.lock);
    if (start.started) {
        status = tide_error_set(TIDE_EINVAL, "process: the account was started, and its options are no longer checked");
    } else {
        status = tidei_process_stacks_start(&known);
        if (status == TIDE_OK)
            tidei_process_stacks_forget();
    }
    pthread_mutex_unlock(&start.lock);
    return status;
#else
    return tide_error_set(TIDE_EUNSUPPORTED, "process: this build of the library has no CUDA");
#endif
}
