/* Resolves the frames of this process's call stacks to names. */
#include "config.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "src/context/callstack.h"
#include "src/resource/resource.h"
#include "src/context/symbols.h"

/* A module in which a frame was found. */
struct frames_module {
    struct tidei_module module;    /* borrows its texts */
    struct tidei_symbols *symbols; /* owned; NULL where there are none */
    struct frames_module *next;    /* owned */
};

struct tidei_frames {
    struct frames_module *first; /* owned */
    char *demangled;             /* owned, the latest that no file has named */
};

struct tidei_frames *
tidei_frames_begin(void)
{
    return calloc(1, sizeof(struct tidei_frames));
}

void
tidei_frames_end(struct tidei_frames *frames)
{
    while (frames->first != NULL) {
        struct frames_module *next = frames->first->next;

        tidei_symbols_close(frames->first->symbols);
        free(frames->first);
        frames->first = next;
    }
    free(frames->demangled);
    free(frames);
}

/* The module of an address; NULL if there is none, or without host memory. */
static struct frames_module *
frames_module(struct tidei_frames *frames, uint64_t address)
{
    struct frames_module *module = frames->first;

    while (module != NULL && address - module->module.base >= module->module.size)
        module = module->next;
    if (module != NULL)
        return module;
    module = calloc(1, sizeof(*module));
    if (module == NULL)
        return NULL;
    if (!tidei_callstack_module(address, &module->module)) {
        free(module);
        return NULL;
    }
    module->symbols = tidei_symbols_open(module->module.path, module->module.build_id, module->module.base);
    module->next = frames->first;
    frames->first = module;
    return module;
}

void
tidei_frames_find(struct tidei_frames *frames, uint64_t address, struct tide_frame *out)
{
    /* A call precedes its return address, which may belong to the next function, or to the next file. */
    struct frames_module *module = frames_module(frames, address - 1);
    struct tidei_symbol symbol = { .function = "", .file = "" };
    Dl_info info;

    if (module != NULL && module->symbols != NULL) {
        tidei_symbols_find(module->symbols, address - 1, &symbol);
    } else if (dladdr((const void *)(uintptr_t)(address - 1), &info) != 0 && info.dli_sname != NULL) {
        free(frames->demangled);
        frames->demangled = tidei_symbols_demangle(info.dli_sname);
        symbol.function = frames->demangled != NULL ? frames->demangled : info.dli_sname;
    }
    *out = (struct tide_frame){ TIDE_FIGURES(*out),
                                .address = address,
                                .module = module != NULL ? module->module.path : "",
                                .offset = module != NULL ? address - module->module.base : 0,
                                .function = symbol.function,
                                .file = symbol.file,
                                .line = symbol.line };
}

enum tide_status
tide_callstack_frames(uint32_t callstack, tide_frame_function function, void *context)
{
    const struct tidei_callstack *stack = tidei_callstack_get(callstack);
    struct tidei_frames *frames;

    if (function == NULL)
        return tide_error_set(TIDE_EINVAL, "call stack: no function to report to");
    if (stack == NULL)
        return tide_error_set(TIDE_EINVAL, "call stack: there is no %u", (unsigned)callstack);
    frames = tidei_frames_begin();
    if (frames == NULL)
        return tide_error_set(TIDE_ENOMEM, "call stack: no host memory");
    for (uint32_t i = 0; i < stack->count; i++) {
        struct tide_frame frame;

        tidei_frames_find(frames, stack->frames[i], &frame);
        function(context, &frame);
    }
    tidei_frames_end(frames);
    return TIDE_OK;
}
