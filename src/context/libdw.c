/*
 * Reads symbols and line tables through libdw of elfutils. It is loaded at the first use, so that it is not a
 * dependency of programs that do not use it. Debug information is local only: DEBUGINFOD_URLS is ignored.
 */
#include "config.h"

#include "src/context/symbols.h"

#ifdef HAVE_ELFUTILS_LIBDWFL_H

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "src/context/elf.h"
#include "src/context/modules.h"

/* libdw has this name since 2005, and all functions that are called here since version 0.150. */
#define LIBDW_NAME "libdw.so.1"

/* Where the debug information of installed files lies. */
#define LIBDW_SYSTEM "/usr/lib/debug"

#define LIBDW_EACH(CALL)                                                                                               \
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
    CALL(dwfl_build_id_find_debuginfo)                                                                                 \
    CALL(dwfl_offline_section_address)

/* The functions of libdw. */
#define LIBDW_MEMBER(name) __typeof__(name) *name;
static struct {
    LIBDW_EACH(LIBDW_MEMBER)
} api;

static bool libdw_loaded;

struct libdw {
    Dwfl *dwfl;
    Dwfl_Module *module;
    Dwarf_Die *unit; /* of the latest address, if the module has no table of addresses */
    Dwarf_Addr unit_bias;
    char *file; /* owned, the latest */
};

static void
libdw_load(void)
{
    void *library = tidei_modules_have_loader() ? dlopen(LIBDW_NAME, RTLD_NOW | RTLD_LOCAL) : NULL;
    bool all = library != NULL;

#define LIBDW_LOAD(name) all = all && (api.name = (__typeof__(api.name))dlsym(library, #name)) != NULL;
    LIBDW_EACH(LIBDW_LOAD)
    libdw_loaded = all;
}

/* The module's build id in hexadecimal digits; "" where it has none. */
static void
libdw_build_id(Dwfl_Module *module, char out[TIDEI_BUILD_ID_TEXT])
{
    const unsigned char *bits;
    GElf_Addr unused;
    int bytes = api.dwfl_module_build_id(module, &bits, &unused);

    tidei_build_id_print(bits, bytes > 0 ? (size_t)bytes : 0, out);
}

/* The checksum of a .gnu_debuglink: CRC-32 as in ISO 3309, over the whole file. */
static bool
libdw_has_checksum(int file, uint32_t wanted)
{
    uint32_t table[256], sum = UINT32_MAX;
    unsigned char buffer[16384];
    off_t at = 0;
    ssize_t got;

    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
    }
    for (; (got = pread(file, buffer, sizeof(buffer), at)) > 0; at += got) {
        for (ssize_t i = 0; i < got; i++)
            sum = table[(sum ^ buffer[i]) & 255] ^ sum >> 8;
    }
    return got == 0 && ~sum == wanted;
}

/* A file of debug information is identified by its build id or its checksum. */
struct libdw_wanted {
    char build_id[TIDEI_BUILD_ID_TEXT]; /* "": the checksum decides */
    uint32_t checksum;
};

/* A descriptor of the file at `path`, where it is the wanted one; else -1. */
static int
libdw_try(const struct libdw_wanted *wanted, const char *path)
{
    struct tidei_elf *elf = tidei_elf_open(path);
    char build_id[TIDEI_BUILD_ID_TEXT];
    int file = -1;
    bool good;

    if (elf == NULL)
        return -1;
    tidei_elf_build_id(elf, build_id);
    if (wanted->build_id[0] != '\0')
        good = strcmp(build_id, wanted->build_id) == 0;
    else
        good = wanted->checksum != 0 && libdw_has_checksum(tidei_elf_file(elf), wanted->checksum);
    if (good)
        file = fcntl(tidei_elf_file(elf), F_DUPFD_CLOEXEC, 0);
    tidei_elf_close(elf);
    return file;
}

/* Look for `name` where debuggers do: beside the file, in its .debug, and under the system's folder. */
static int
libdw_search(const struct libdw_wanted *wanted, const char *of, const char *name, char **path)
{
    static const char *const begins[] = { "", "", LIBDW_SYSTEM };
    static const char *const ends[] = { "", ".debug/", "" };
    const char *slash = strrchr(of, '/');
    int folder = slash != NULL ? (int)(slash + 1 - of) : 0, file = -1;
    size_t size = sizeof(LIBDW_SYSTEM) + strlen(of) + sizeof(".debug/") + strlen(name);
    char *text = malloc(size);

    if (text == NULL)
        return -1;
    for (int i = 0; file < 0 && i < 3; i++) {
        if (name[0] == '/')
            snprintf(text, size, "%s", name);
        else
            snprintf(text, size, "%s%.*s%s%s", begins[i], folder, of, ends[i], name);
        file = libdw_try(wanted, text);
    }
    if (file >= 0)
        *path = text; /* libdw's to free */
    else
        free(text);
    return file;
}

/* The build id of the alternate file, which has debug information that `of` shares with other files. */
static void
libdw_alternate(const char *of, char out[TIDEI_BUILD_ID_TEXT])
{
    struct tidei_elf *elf = tidei_elf_open(of);

    out[0] = '\0';
    if (elf != NULL)
        tidei_elf_alternate_id(elf, out);
    tidei_elf_close(elf);
}

/*
 * libdw calls this for separate debug information. Its own dwfl_standard_find_debuginfo asks the servers of
 * DEBUGINFOD_URLS last, which may take any time, while the program only wants a name. So this searches local files, by
 * build id and by name. A `link` without a checksum names an alternate file.
 */
static int
libdw_find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, const char *of,
                     const char *link, GElf_Word checksum, char **path)
{
    int file = api.dwfl_build_id_find_debuginfo(module, data, name, base, of, link, checksum, path);
    struct libdw_wanted wanted = { .checksum = checksum };
    char usual[256];

    if (file >= 0 || of == NULL)
        return file;
    if (link != NULL && checksum == 0)
        libdw_alternate(of, wanted.build_id);
    else
        libdw_build_id(module, wanted.build_id);
    if (link == NULL) {
        const char *slash = strrchr(of, '/');

        snprintf(usual, sizeof(usual), "%s.debug", slash != NULL ? slash + 1 : of);
        link = usual;
    }
    return libdw_search(&wanted, of, link, path);
}

/* libdw calls this for a module without a file; all have one, since they are reported with it. */
static int
libdw_find_no_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, char **path, Elf **elf)
{
    (void)module, (void)data, (void)name, (void)base, (void)path, (void)elf;
    return -1;
}

static void
libdw_close(void *file)
{
    struct libdw *libdw = file;

    if (libdw->dwfl != NULL)
        api.dwfl_end(libdw->dwfl);
    free(libdw->file);
    free(libdw);
}

/* A descriptor of the file, if it is of this build; else -1. libdw sees no other file that a trace names. */
static int
libdw_open_file(const char *path, const char *build_id)
{
    struct tidei_elf *elf = tidei_elf_open_build(path, build_id);
    int file = elf != NULL ? fcntl(tidei_elf_file(elf), F_DUPFD_CLOEXEC, 0) : -1;

    tidei_elf_close(elf);
    return file;
}

static void *
libdw_open(const char *path, const char *build_id, uint64_t base)
{
    static char *debuginfo_path; /* the default: by build id, under /usr/lib/debug */
    static Dwfl_Callbacks callbacks;
    int file = libdw_open_file(path, build_id);
    struct libdw *libdw = file >= 0 ? calloc(1, sizeof(*libdw)) : NULL;

    if (libdw != NULL) {
        callbacks.find_elf = libdw_find_no_file;
        callbacks.find_debuginfo = libdw_find_debuginfo;
        callbacks.section_address = api.dwfl_offline_section_address;
        callbacks.debuginfo_path = &debuginfo_path;
        libdw->dwfl = api.dwfl_begin(&callbacks);
    }
    if (libdw != NULL && libdw->dwfl != NULL) {
        api.dwfl_report_begin(libdw->dwfl);
        libdw->module = api.dwfl_report_elf(libdw->dwfl, path, path, file, base, false);
        api.dwfl_report_end(libdw->dwfl, NULL, NULL);
    }
    if (libdw != NULL && libdw->module != NULL)
        return libdw;
    if (file >= 0)
        close(file); /* with a module it is libdw's */
    if (libdw != NULL)
        libdw_close(libdw);
    return NULL;
}

/*
 * The compilation unit of an address in memory, which is *bias more than the same address in the unit. clang writes no
 * table of addresses (.debug_aranges), without which libdw before 0.191 finds no unit: then each unit is searched.
 */
static Dwarf_Die *
libdw_unit(struct libdw *libdw, uint64_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = api.dwfl_module_addrdie(libdw->module, address, bias);

    if (unit != NULL)
        return unit;
    if (libdw->unit == NULL || api.dwarf_haspc(libdw->unit, address - libdw->unit_bias) != 1) {
        libdw->unit = NULL;
        do
            libdw->unit = api.dwfl_module_nextcu(libdw->module, libdw->unit, &libdw->unit_bias);
        while (libdw->unit != NULL && api.dwarf_haspc(libdw->unit, address - libdw->unit_bias) != 1);
    }
    *bias = libdw->unit_bias;
    return libdw->unit;
}

/* The path of a source file, as its compiler recorded it. */
static const char *
libdw_path(struct libdw *libdw, Dwarf_Die *unit, const char *name)
{
    Dwarf_Attribute attribute;
    const char *folder = api.dwarf_formstring(api.dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    size_t size;

    if (name[0] == '/' || folder == NULL)
        return name;
    free(libdw->file);
    size = strlen(folder) + strlen(name) + 2;
    libdw->file = malloc(size);
    if (libdw->file == NULL)
        return name;
    snprintf(libdw->file, size, "%s/%s", folder, name);
    return libdw->file;
}

static void
libdw_find(void *file, uint64_t address, struct tidei_symbol *out)
{
    struct libdw *libdw = file;
    const char *name = api.dwfl_module_addrname(libdw->module, address);
    Dwarf_Line *line = NULL;
    Dwarf_Addr bias = 0;
    Dwarf_Die *unit;
    int number = 0;

    if (name != NULL && strnlen(name, TIDEI_ELF_NAME_MOST + 1) <= TIDEI_ELF_NAME_MOST)
        out->function = name;
    unit = libdw_unit(libdw, address, &bias);
    if (unit != NULL)
        line = api.dwarf_getsrc_die(unit, address - bias);
    name = line != NULL ? api.dwarf_linesrc(line, NULL, NULL) : NULL;
    if (name == NULL || strnlen(name, TIDEI_ELF_NAME_MOST + 1) > TIDEI_ELF_NAME_MOST)
        return;
    out->file = libdw_path(libdw, unit, name);
    if (api.dwarf_lineno(line, &number) == 0 && number > 0)
        out->line = (uint32_t)number;
}

const struct tidei_symbol_reader *
tidei_libdw_reader(void)
{
    static const struct tidei_symbol_reader reader = { .open = libdw_open, .close = libdw_close, .find = libdw_find };
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, libdw_load);
    return libdw_loaded ? &reader : NULL;
}

#else

#include <stddef.h>

const struct tidei_symbol_reader *
tidei_libdw_reader(void)
{
    return NULL;
}

#endif
