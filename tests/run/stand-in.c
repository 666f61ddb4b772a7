/*
 * Stands in for libtidemark in tests of `tidemark run`: its wrappers write a line "PID NAME" for each call into the
 * file that RUN_CALLS names, and call the driver. So a test sees which function a program has reached, by which way
 * soever.
 */
#include "config.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/message.h>
#include <tidemark/process.h>

#define EXPORT __attribute__((visibility("default")))

/* RUN_REFUSE names a function that returns CUDA_ERROR_OUT_OF_MEMORY, before the driver is asked. */
static int
called(const char *name)
{
    const char *path = getenv("RUN_CALLS"), *refused = getenv("RUN_REFUSE");
    int fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd >= 0) {
        dprintf(fd, "%ld %s\n", (long)getpid(), name);
        close(fd);
    }
    return refused != NULL && strcmp(refused, name) == 0;
}

#define FUNCTION(name, parameters, arguments)                                                                          \
    static CUresult(CUDAAPI *real_##name) parameters;                                                                  \
    static CUresult CUDAAPI wrap_##name parameters                                                                     \
    {                                                                                                                  \
        return called(#name) ? CUDA_ERROR_OUT_OF_MEMORY : real_##name arguments;                                       \
    }
#include "src/process/functions.def"
#undef FUNCTION

static const struct tide_process_function functions[] = {
#define FUNCTION(name, parameters, arguments) { #name, (void (*)(void))wrap_##name, (void (**)(void)) & real_##name },
#include "src/process/functions.def"
#undef FUNCTION
};

static const char *
text(const char *option)
{
    return option != NULL ? option : "-";
}

EXPORT enum tide_status
tide_process_start(const struct tide_process_options *options, const struct tide_process_function **out, size_t *count)
{
    char line[2048];

    snprintf(line, sizeof(line), "start stack=%s trace=%s limit=%s budget=%s log=%s", text(options->stack),
             text(options->trace), text(options->limit), text(options->budget), text(options->log));
    called(line);
    *out = NULL;
    *count = 0;
    /* A start that takes its time, and needs the dynamic linker. */
    if (getenv("RUN_START_SLOW") != NULL) {
        usleep(300000);
        dlopen("libcuda.so.1", RTLD_LAZY);
    }
    if (getenv("RUN_START_FAILS") != NULL)
        return TIDE_EIO;
    *out = functions;
    *count = sizeof(functions) / sizeof(functions[0]);
    return TIDE_OK;
}

EXPORT const char *
tide_error_text(void)
{
    return "the stand-in was told to fail";
}

EXPORT void
tide_message_sink_set(tide_message_function function, void *context)
{
    (void)function;
    (void)context;
}
