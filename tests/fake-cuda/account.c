/* The wrappers of the account, and the fake driver's other functions. */
#include "tests/fake-cuda/account.h"

#ifdef HAVE_CUDA_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <tidemark/tidemark.h>

#include "src/process/stacks.h"
#include "src/process/devices.h"
#include "src/stack/stack.h"
#include "tests/tap.h"
#include "tests/trace.h"

struct account account;
int account_failures;

static const struct {
    const char *symbol;
    size_t slot;
} account_symbols[] = {
    { "cuInit", offsetof(struct account, init) },
    { "cuCtxCreate_v2", offsetof(struct account, context_create) },
    { "cuCtxSetCurrent", offsetof(struct account, context_set) },
    { "cuCtxPopCurrent_v2", offsetof(struct account, context_pop) },
    { "cuCtxAttach", offsetof(struct account, context_attach) },
    { "cuDeviceGetDevResource", offsetof(struct account, device_resource) },
    { "cuDevResourceGenerateDesc", offsetof(struct account, resource_descriptor) },
    { "cuGreenCtxCreate", offsetof(struct account, green_create) },
    { "cuCtxFromGreenCtx", offsetof(struct account, green_context) },
    { "cuGreenCtxStreamCreate", offsetof(struct account, green_stream) },
    { "cuMemsetD8_v2", offsetof(struct account, set_bytes) },
    { "cuDevicePrimaryCtxRetain", offsetof(struct account, primary_retain) },
    { "cuDevicePrimaryCtxGetState", offsetof(struct account, primary_state) },
    { "cuStreamCreate", offsetof(struct account, stream_create) },
    { "cuStreamBeginCapture_v2", offsetof(struct account, stream_begin_capture) },
    { "cuStreamEndCapture", offsetof(struct account, stream_end_capture) },
    { "cuStreamSynchronize", offsetof(struct account, stream_synchronize) },
    { "cuLaunchHostFunc", offsetof(struct account, launch_host) },
    { "cuMemAddressReserve", offsetof(struct account, address_reserve) },
    { "cuDeviceGetDefaultMemPool", offsetof(struct account, default_pool) },
    { "cuDeviceSetMemPool", offsetof(struct account, set_pool) },
    { "cuMemPoolSetAttribute", offsetof(struct account, set_pool_attribute) },
    { "cuMemPoolGetAttribute", offsetof(struct account, pool_attribute) },
    { "cuCtxSynchronize", offsetof(struct account, context_synchronize) },
    { "cuGraphCreate", offsetof(struct account, graph_create) },
    { "cuGraphAddMemAllocNode", offsetof(struct account, graph_add_alloc) },
    { "cuGraphAddMemFreeNode", offsetof(struct account, graph_add_free) },
    { "cuGraphInstantiateWithFlags", offsetof(struct account, graph_instantiate) },
    { "cuGraphLaunch", offsetof(struct account, graph_launch) },
    { "cuDeviceGraphMemTrim", offsetof(struct account, graph_trim) },
    { "cuMemPoolExportPointer", offsetof(struct account, export_pointer) },
    { "cuMemPoolExportToShareableHandle", offsetof(struct account, pool_export) },
    { "cuMemPoolImportFromShareableHandle", offsetof(struct account, pool_import) },
    { "cuIpcGetMemHandle", offsetof(struct account, ipc_get) },
    { "cuMemGetInfo_v2", offsetof(struct account, real_get_info) },
    { "cuMemAlloc_v2", offsetof(struct account, real_alloc) },
    { "cuMemFree_v2", offsetof(struct account, real_free) },
    { "cuDevicePrimaryCtxReset_v2", offsetof(struct account, real_reset) },
};

static const struct {
    const char *name;
    size_t slot;
} account_wrappers[] = {
#define FUNCTION(name, parameters, arguments) { #name, offsetof(struct account, w_##name) },
#include "src/process/functions.def"
#undef FUNCTION
};

static void *account_library;

bool
account_find(void)
{
    account_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (account_library == NULL)
        return false;
    for (size_t i = 0; i < sizeof(account_symbols) / sizeof(account_symbols[0]); i++) {
        void *address = dlsym(account_library, account_symbols[i].symbol);

        if (address == NULL) {
            diag("the driver has no %s", account_symbols[i].symbol);
            return false;
        }
        memcpy((char *)&account + account_symbols[i].slot, &address, sizeof(address));
    }
    return true;
}

bool
account_start(const struct tide_process_options *options)
{
    const struct tide_process_function *functions;
    CUcontext context;
    size_t count;

    if (account.init(0) != CUDA_SUCCESS || account.primary_retain(&context, 0) != CUDA_SUCCESS ||
        account.context_set(context) != CUDA_SUCCESS) {
        diag("the driver does not start");
        return false;
    }
    if (tide_process_start(options, &functions, &count) != TIDE_OK) {
        diag("%s", tide_error_text());
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(account_library, functions[i].name);

        memcpy(functions[i].real, &address, sizeof(address));
        for (size_t k = 0; k < sizeof(account_wrappers) / sizeof(account_wrappers[0]); k++)
            if (strcmp(account_wrappers[k].name, functions[i].name) == 0)
                memcpy((char *)&account + account_wrappers[k].slot, &functions[i].wrapper, sizeof(address));
    }
    return true;
}

const char *
account_trace(const char *name)
{
    return scratch("%s.db", name);
}

bool
account_begin(const char *name, const char *stack, const char *limit)
{
    const char *trace = account_trace(name);
    const struct tide_process_options options = { TIDE_OPTIONS(options), .stack = stack, .trace = trace,
                                                  .limit = limit };

    return account_start(&options);
}

bool
account_passes(int (*test)(void *unused))
{
    return account_passes_with(test, NULL);
}

bool
account_passes_with(int (*test)(void *argument), void *argument)
{
    int status;

    fflush(stdout);
    status = in_child(test, argument);
    if (WIFSIGNALED(status))
        diag("killed by signal %d", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void
account_recover(const char *name)
{
    struct tide_trace_recovery figures = { TIDE_FIGURES(figures) };

    if (tide_trace_recover(account_trace(name), &figures) != TIDE_OK)
        diag("%s", tide_error_text());
}

static struct tidei_process_stack *
account_stack(const char *kind, int device)
{
    for (int i = 0; i < TIDEI_PROCESS_KINDS; i++) {
        if (strcmp(tidei_process_kind_name((enum tidei_process_kind)i), kind) == 0)
            return tidei_process_stacks[device][i];
    }
    return NULL;
}

void
account_flush(void)
{
    struct tide_resource *log = NULL;

    for (int i = 0; log == NULL && i < TIDEI_PROCESS_KINDS; i++)
        if (tidei_process_stacks[0][i] != NULL)
            log = tidei_stack_find(tidei_process_stacks[0][i]->top, "log");
    CHECK(log != NULL && tide_log_flush(log) == TIDE_OK);
}

static uint64_t
account_ask(const char *kind, int device, enum tide_query what)
{
    struct tidei_process_stack *stack = account_stack(kind, device);
    struct tide_resource *base = stack != NULL ? tidei_stack_find(stack->top, "process") : NULL;
    uint64_t bytes = 0;

    if (base != NULL)
        tide_query(base, what, &bytes);
    return bytes;
}

uint64_t
account_used(const char *kind, int device)
{
    return account_ask(kind, device, TIDE_QUERY_BYTES_USED);
}

uint64_t
account_reserved(const char *kind, int device)
{
    return account_ask(kind, device, TIDE_QUERY_BYTES_RESERVED);
}

bool
account_check(bool condition, const char *text, int line)
{
    if (!condition) {
        diag("line %d: %s", line, text);
        account_failures++;
    }
    return condition;
}

#endif
