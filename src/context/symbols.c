/* Resolves addresses with a file, through libdw or else its symbol table. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/context/elf.h"
#include "src/context/libdw.h"
#include "src/context/modules.h"
#include "src/context/symbols.h"

#define SYMBOLS_LIBSTDCXX "libstdc++.so.6"

struct tidei_symbols {
    struct tidei_libdw *libdw; /* owned; NULL: `elf` instead */
    struct tidei_elf *elf;     /* owned */
    int file;                  /* owned, for `elf`; -1: it is libdw's */
    uint64_t base;
    char *demangled; /* owned, the latest */
};

/* The Itanium C++ ABI's; NULL: names stay mangled. */
static char *(*symbols_demangler)(const char *name, char *buffer, size_t *length, int *status);

bool
tidei_symbols_have_lines(void)
{
    return tidei_libdw_is_there();
}

/* That of the program, which has one where any of it is C++; else the one that is installed. */
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

/* Open with what there is: libdw, which reads lines and separate debug information, or the symbol table alone. */
static bool
symbols_open_file(struct tidei_symbols *symbols, const char *path, const char *build_id)
{
    char found[TIDEI_BUILD_ID_TEXT];

    if (tidei_libdw_is_there()) {
        symbols->libdw = tidei_libdw_open(path, symbols->file, build_id, symbols->base);
        symbols->file = -1;
        return symbols->libdw != NULL;
    }
    symbols->elf = tidei_elf_open(symbols->file);
    if (symbols->elf == NULL)
        return false;
    tidei_elf_build_id(symbols->elf, found);
    return build_id[0] == '\0' || strcmp(found, build_id) == 0;
}

struct tidei_symbols *
tidei_symbols_open(const char *path, const char *build_id, uint64_t base)
{
    struct tidei_symbols *symbols;
    int file;

    if (path[0] != '/' || (file = tidei_elf_open_file(path)) < 0)
        return NULL;
    symbols = calloc(1, sizeof(*symbols));
    if (symbols == NULL) {
        close(file);
        return NULL;
    }
    symbols->file = file;
    symbols->base = base;
    if (symbols_open_file(symbols, path, build_id))
        return symbols;
    tidei_symbols_close(symbols);
    return NULL;
}

void
tidei_symbols_close(struct tidei_symbols *symbols)
{
    if (symbols == NULL)
        return;
    tidei_libdw_close(symbols->libdw);
    tidei_elf_close(symbols->elf);
    if (symbols->file >= 0)
        close(symbols->file);
    free(symbols->demangled);
    free(symbols);
}

void
tidei_symbols_find(struct tidei_symbols *symbols, uint64_t address, struct tidei_symbol *out)
{
    const char *name;

    *out = (struct tidei_symbol){ .function = "", .file = "" };
    if (symbols->libdw != NULL)
        tidei_libdw_find(symbols->libdw, address, out);
    else if ((name = tidei_elf_function(symbols->elf, address - symbols->base)) != NULL)
        out->function = name;
    free(symbols->demangled);
    symbols->demangled = tidei_symbols_demangle(out->function);
    if (symbols->demangled != NULL)
        out->function = symbols->demangled;
}
