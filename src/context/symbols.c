/* Reads symbols and line tables through libdw. */
#include "config.h"

#include "src/context/symbols.h"

#ifdef HAVE_ELFUTILS_LIBDWFL_H

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

/* libdw 1 since 2005; what is called here is there since 0.150. */
#define SYMBOLS_LIBDW     "libdw.so.1"
#define SYMBOLS_LIBSTDCXX "libstdc++.so.6"

#define SYMBOLS_EACH(CALL)                                                                                             \
    CALL(dwfl_begin)                                                                                                   \
    CALL(dwfl_end)                                                                                                     \
    CALL(dwfl_report_begin)                                                                                            \
    CALL(dwfl_report_elf)                                                                                              \
    CALL(dwfl_report_end)                                                                                              \
    CALL(dwfl_module_build_id)                                                                                         \
    CALL(dwfl_module_addrname)                                                                                         \
    CALL(dwfl_module_addrdie)                                                                                          \
    CALL(dwfl_module_nextcu)                                                                                           \
    CALL(dwarf_attr)                                                                                                   \
    CALL(dwarf_formstring)                                                                                             \
    CALL(dwarf_getsrc_die)                                                                                             \
    CALL(dwarf_haspc)                                                                                                  \
    CALL(dwarf_lineno)                                                                                                 \
    CALL(dwarf_linesrc)                                                                                                \
    CALL(dwfl_standard_find_debuginfo)                                                                                 \
    CALL(dwfl_build_id_find_elf)                                                                                       \
    CALL(dwfl_offline_section_address)

/* The functions of libdw; `begin` is NULL where there is none. */
#define SYMBOLS_MEMBER(name) __typeof__(name) *name;
static struct {
    SYMBOLS_EACH(SYMBOLS_MEMBER)
} libdw;

/* The Itanium C++ ABI's; NULL: names stay mangled. */
static char *(*symbols_demangle)(const char *name, char *buffer, size_t *length, int *status);

static bool symbols_loaded;

struct tidei_symbols {
    Dwfl *dwfl;
    Dwfl_Module *module;
    Dwarf_Die *unit; /* that had the latest address, where the module has no table of them */
    Dwarf_Addr unit_bias;
    char *demangled; /* owned, the latest */
    char *file;      /* owned, the latest */
};

/* For the program, which is told first: whether a loader started it. */
static int
symbols_see_program(struct dl_phdr_info *info, size_t bytes, void *loader)
{
    (void)bytes;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        *(bool *)loader |= info->dlpi_phdr[i].p_type == PT_INTERP;
    return 1;
}

/*
 * A library that is loaded into a static program brings a C library of its own, which nobody has set up: libdw crashes
 * there. Names are left to whoever reads the trace.
 */
static void *
symbols_library(void)
{
    bool loader = false;

    dl_iterate_phdr(symbols_see_program, &loader);
    return loader ? dlopen(SYMBOLS_LIBDW, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void
symbols_load(void)
{
    void *library = symbols_library();
    bool all = library != NULL;
    void *cxx;

#define SYMBOLS_LOAD(name) all = all && (libdw.name = (__typeof__(libdw.name))dlsym(library, #name)) != NULL;
    SYMBOLS_EACH(SYMBOLS_LOAD)
    symbols_loaded = all;
    if (!all)
        return;
    cxx = dlopen(SYMBOLS_LIBSTDCXX, RTLD_NOW | RTLD_LOCAL);
    if (cxx != NULL)
        symbols_demangle = (__typeof__(symbols_demangle))dlsym(cxx, "__cxa_demangle");
}

bool
tidei_symbols_are_possible(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, symbols_load);
    return symbols_loaded;
}

/* A regular file; a trace may name anything. */
static int
symbols_open_file(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;

    if (file >= 0 && (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))) {
        close(file);
        file = -1;
    }
    return file;
}

static bool
symbols_are_of(Dwfl_Module *module, const char *build_id)
{
    const unsigned char *bits;
    GElf_Addr unused;
    int bytes = libdw.dwfl_module_build_id(module, &bits, &unused);

    if (bytes <= 0 || strlen(build_id) != 2 * (size_t)bytes)
        return false;
    for (int i = 0; i < bytes; i++) {
        char digits[3];

        snprintf(digits, sizeof(digits), "%02x", bits[i]);
        if (memcmp(digits, build_id + 2 * (size_t)i, 2) != 0)
            return false;
    }
    return true;
}

struct tidei_symbols *
tidei_symbols_open(const char *path, const char *build_id, uint64_t base)
{
    static char *debuginfo_path; /* the default, beside the file and under /usr/lib/debug */
    static Dwfl_Callbacks callbacks;
    struct tidei_symbols *symbols;
    int file;

    if (path[0] != '/' || !tidei_symbols_are_possible() || (file = symbols_open_file(path)) < 0)
        return NULL;
    symbols = calloc(1, sizeof(*symbols));
    if (symbols == NULL) {
        close(file);
        return NULL;
    }
    callbacks.find_elf = libdw.dwfl_build_id_find_elf;
    callbacks.find_debuginfo = libdw.dwfl_standard_find_debuginfo;
    callbacks.section_address = libdw.dwfl_offline_section_address;
    callbacks.debuginfo_path = &debuginfo_path;
    symbols->dwfl = libdw.dwfl_begin(&callbacks);
    if (symbols->dwfl != NULL) {
        libdw.dwfl_report_begin(symbols->dwfl);
        symbols->module = libdw.dwfl_report_elf(symbols->dwfl, path, path, file, base, false);
        libdw.dwfl_report_end(symbols->dwfl, NULL, NULL);
    }
    if (symbols->module == NULL)
        close(file); /* else it is libdw's */
    if (symbols->module == NULL || (build_id[0] != '\0' && !symbols_are_of(symbols->module, build_id))) {
        tidei_symbols_close(symbols);
        return NULL;
    }
    return symbols;
}

void
tidei_symbols_close(struct tidei_symbols *symbols)
{
    if (symbols == NULL)
        return;
    if (symbols->dwfl != NULL)
        libdw.dwfl_end(symbols->dwfl);
    free(symbols->demangled);
    free(symbols->file);
    free(symbols);
}

static const char *
symbols_readable(struct tidei_symbols *symbols, const char *name)
{
    int status;

    if (strncmp(name, "_Z", 2) != 0 || symbols_demangle == NULL)
        return name;
    free(symbols->demangled);
    symbols->demangled = symbols_demangle(name, NULL, NULL, &status);
    return symbols->demangled != NULL ? symbols->demangled : name;
}

/*
 * The compilation unit of an address; `bias` is from the addresses there to those in memory. clang writes no table of
 * addresses (.debug_aranges), without which a libdw before 0.191 finds none: then each unit is asked.
 */
static Dwarf_Die *
symbols_unit(struct tidei_symbols *symbols, uint64_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = libdw.dwfl_module_addrdie(symbols->module, address, bias);

    if (unit != NULL)
        return unit;
    if (symbols->unit == NULL || libdw.dwarf_haspc(symbols->unit, address - symbols->unit_bias) != 1) {
        symbols->unit = NULL;
        do
            symbols->unit = libdw.dwfl_module_nextcu(symbols->module, symbols->unit, &symbols->unit_bias);
        while (symbols->unit != NULL && libdw.dwarf_haspc(symbols->unit, address - symbols->unit_bias) != 1);
    }
    *bias = symbols->unit_bias;
    return symbols->unit;
}

/* The path of a source file, as its compiler was told. */
static const char *
symbols_path(struct tidei_symbols *symbols, Dwarf_Die *unit, const char *name)
{
    Dwarf_Attribute attribute;
    const char *folder = libdw.dwarf_formstring(libdw.dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    size_t size;

    if (name[0] == '/' || folder == NULL)
        return name;
    free(symbols->file);
    size = strlen(folder) + strlen(name) + 2;
    symbols->file = malloc(size);
    if (symbols->file == NULL)
        return name;
    snprintf(symbols->file, size, "%s/%s", folder, name);
    return symbols->file;
}

void
tidei_symbols_find(struct tidei_symbols *symbols, uint64_t address, struct tidei_symbol *out)
{
    const char *name = libdw.dwfl_module_addrname(symbols->module, address);
    Dwarf_Line *line = NULL;
    Dwarf_Addr bias = 0;
    Dwarf_Die *unit;
    int number = 0;

    *out = (struct tidei_symbol){ .function = "", .file = "" };
    if (name != NULL)
        out->function = symbols_readable(symbols, name);
    unit = symbols_unit(symbols, address, &bias);
    if (unit != NULL)
        line = libdw.dwarf_getsrc_die(unit, address - bias);
    name = line != NULL ? libdw.dwarf_linesrc(line, NULL, NULL) : NULL;
    if (name == NULL)
        return;
    out->file = symbols_path(symbols, unit, name);
    if (libdw.dwarf_lineno(line, &number) == 0 && number > 0)
        out->line = (uint32_t)number;
}

#else

#include <stddef.h>

bool
tidei_symbols_are_possible(void)
{
    return false;
}

struct tidei_symbols *
tidei_symbols_open(const char *path, const char *build_id, uint64_t base)
{
    (void)path;
    (void)build_id;
    (void)base;
    return NULL;
}

void
tidei_symbols_close(struct tidei_symbols *symbols)
{
    (void)symbols;
}

void
tidei_symbols_find(struct tidei_symbols *symbols, uint64_t address, struct tidei_symbol *out)
{
    (void)symbols;
    (void)address;
    *out = (struct tidei_symbol){ .function = "", .file = "" };
}

#endif
