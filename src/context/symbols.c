/* Resolves addresses with a file, through libdw or else its symbol table. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/context/modules.h"
#include "src/context/symbols.h"

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

char *
tidei_symbols_demangle(const char *name)
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
    symbols->demangled = tidei_symbols_demangle(out->function);
    if (symbols->demangled != NULL)
        out->function = symbols->demangled;
}
