/* Resolves addresses to names: with a file, and those of this process in the frames of its call stacks. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/context/callstack.h"
#include "src/context/modules.h"
#include "src/context/symbols.h"
#include "src/resource/resource.h"
#include "src/sync/inside.h"

#define SYMBOLS_LIBSTDCXX "libstdc++.so.6"

struct tidei_symbols {
    const struct tidei_symbol_reader *reader;
    void *file;      /* owned; the reader's */
    char *demangled; /* owned, the latest */
};

/* __cxa_demangle of the Itanium C++ ABI; NULL: names stay mangled. */
static char *(*symbols_demangler)(const char *name, char *buffer, size_t *length, int *status);

bool
tidei_symbols_have_lines(void)
{
    return tidei_libdw_reader() != NULL;
}

/* A program with C++ code has a demangler; else load that of the installed C++ library. */
static void
symbols_find_demangler(void)
{
    void *function = NULL, *library;

    if (!tidei_modules_have_loader())
        return;
    function = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (function == NULL && (library = dlopen(SYMBOLS_LIBSTDCXX, RTLD_NOW | RTLD_LOCAL)) != NULL)
        function = dlsym(library, "__cxa_demangle");
    symbols_demangler = (__typeof__(symbols_demangler))function;
}

/* A demangled C++ name, which the caller frees; NULL if `name` is not mangled, or without a demangler. */
static char *
symbols_demangle(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int status;

    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    pthread_once(&once, symbols_find_demangler);
    return symbols_demangler != NULL ? symbols_demangler(name, NULL, NULL, &status) : NULL;
}

struct tidei_symbols *
tidei_symbols_open(const char *path, const char *build_id, uint64_t base)
{
    const struct tidei_symbol_reader *libdw = tidei_libdw_reader();
    struct tidei_symbols *symbols = path[0] == '/' ? calloc(1, sizeof(*symbols)) : NULL;

    if (symbols == NULL)
        return NULL;
    symbols->reader = libdw != NULL ? libdw : &tidei_elf_reader;
    symbols->file = symbols->reader->open(path, build_id, base);
    if (symbols->file != NULL)
        return symbols;
    free(symbols);
    return NULL;
}

void
tidei_symbols_close(struct tidei_symbols *symbols)
{
    if (symbols == NULL)
        return;
    symbols->reader->close(symbols->file);
    free(symbols->demangled);
    free(symbols);
}

void
tidei_symbols_find(struct tidei_symbols *symbols, uint64_t address, struct tidei_symbol *out)
{
    *out = (struct tidei_symbol){ .function = "", .file = "" };
    symbols->reader->find(symbols->file, address, out);
    free(symbols->demangled);
    symbols->demangled = symbols_demangle(out->function);
    if (symbols->demangled != NULL)
        out->function = symbols->demangled;
}

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
    if (module == NULL || !tidei_callstack_module(address, &module->module)) {
        free(module);
        return NULL;
    }
    module->symbols = tidei_symbols_open(module->module.path, module->module.build_id, module->module.base);
    module->next = frames->first;
    frames->first = module;
    return module;
}

/* The frame of an address. */
static void
frames_find_address(struct tidei_frames *frames, uint64_t address, struct tide_frame *out)
{
    /* A call precedes its return address, which may belong to the next function, or to the next file. */
    struct frames_module *module = frames_module(frames, address - 1);
    struct tidei_symbol symbol = { .function = "", .file = "" };
    Dl_info info;

    if (module != NULL && module->symbols != NULL) {
        tidei_symbols_find(module->symbols, address - 1, &symbol);
    } else if (dladdr((const void *)(uintptr_t)(address - 1), &info) != 0 && info.dli_sname != NULL) {
        free(frames->demangled);
        frames->demangled = symbols_demangle(info.dli_sname);
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

void
tidei_frames_find(struct tidei_frames *frames, uint64_t frame, struct tide_frame *out)
{
    struct tidei_source source;

    if (tidei_source_get(frame, &source))
        *out = (struct tide_frame){ TIDE_FIGURES(*out), .module = "", .function = source.function, .file = source.file,
                                    .line = source.line };
    else
        frames_find_address(frames, frame, out);
}

enum tide_status
tide_callstack_frames(uint32_t callstack, tide_frame_function function, void *context)
{
    TIDEI_INSIDE(NULL);
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
        TIDEI_OUTSIDE(function(context, &frame));
    }
    tidei_frames_end(frames);
    return TIDE_OK;
}
