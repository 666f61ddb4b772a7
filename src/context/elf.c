/* Reads build ids and symbol tables of ELF files. */
#include "config.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/context/elf.h"
#include "src/context/symbols.h"

#define ELF_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define ELF_DATA  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

/* Upper bound of symbols before an address that are checked: aliases and nested functions hide the right one. */
#define ELF_LOOK_BACK 16

struct elf_function {
    uint64_t begin;
    uint64_t end;   /* `begin` where the symbol has no size */
    uint32_t name;  /* in `names` */
    uint8_t renown; /* global before weak before local, where several have one address */
};

struct tidei_elf {
    int file; /* owned */
    uint64_t file_bytes;
    uint64_t base;         /* the address of the lowest segment in memory */
    uint64_t low;          /* the address of the lowest segment, as the file has it */
    ElfW(Shdr) * sections; /* owned */
    unsigned section_count;
    unsigned name_section; /* its index; past the last where there is none */
    bool is_loaded;
    struct elf_function *functions; /* owned; by address */
    size_t function_count;
    char *names; /* owned; ends in a zero */
    uint64_t names_bytes;
};

int
tidei_elf_open_file(const char *path)
{
    int found = open(path, O_PATH | O_CLOEXEC), file = -1;
    struct stat status;
    char name[64];

    if (found < 0)
        return -1;
    if (fstat(found, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size <= TIDEI_ELF_FILE_MOST) {
        snprintf(name, sizeof(name), "/proc/self/fd/%d", found);
        file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    close(found);
    return file;
}

static bool
elf_read(const struct tidei_elf *elf, uint64_t offset, void *out, size_t bytes)
{
    return offset <= elf->file_bytes && bytes <= elf->file_bytes - offset &&
           pread(elf->file, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Copy a part of the file, with a zero behind it; the caller frees it. NULL if the file is too short. */
static void *
elf_copy(const struct tidei_elf *elf, uint64_t offset, uint64_t bytes)
{
    char *copy;

    if (bytes > TIDEI_ELF_SECTION_MOST || offset > elf->file_bytes || bytes > elf->file_bytes - offset)
        return NULL;
    copy = malloc((size_t)bytes + 1);
    if (copy == NULL)
        return NULL;
    copy[bytes] = '\0';
    if (elf_read(elf, offset, copy, (size_t)bytes))
        return copy;
    free(copy);
    return NULL;
}

static bool
elf_read_header(struct tidei_elf *elf)
{
    ElfW(Ehdr) header;

    if (!elf_read(elf, 0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELF_CLASS || header.e_ident[EI_DATA] != ELF_DATA ||
        (header.e_shnum != 0 && header.e_shentsize != sizeof(ElfW(Shdr))) ||
        (header.e_phnum != 0 && header.e_phentsize != sizeof(ElfW(Phdr))))
        return false;
    elf->low = UINT64_MAX;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;

        if (!elf_read(elf, header.e_phoff + i * sizeof(segment), &segment, sizeof(segment)))
            return false;
        if (segment.p_type == PT_LOAD && segment.p_vaddr < elf->low)
            elf->low = segment.p_vaddr;
    }
    elf->section_count = header.e_shnum;
    elf->name_section = header.e_shstrndx;
    elf->sections = elf_copy(elf, header.e_shoff, header.e_shnum * sizeof(ElfW(Shdr)));
    return elf->sections != NULL;
}

struct tidei_elf *
tidei_elf_open(const char *path)
{
    struct tidei_elf *elf = calloc(1, sizeof(*elf));
    struct stat status;

    if (elf == NULL)
        return NULL;
    elf->file = tidei_elf_open_file(path);
    elf->file_bytes = elf->file >= 0 && fstat(elf->file, &status) == 0 ? (uint64_t)status.st_size : 0;
    if (elf_read_header(elf))
        return elf;
    tidei_elf_close(elf);
    return NULL;
}

void
tidei_elf_close(struct tidei_elf *elf)
{
    if (elf == NULL)
        return;
    if (elf->file >= 0)
        close(elf->file);
    free(elf->sections);
    free(elf->functions);
    free(elf->names);
    free(elf);
}

int
tidei_elf_file(const struct tidei_elf *elf)
{
    return elf->file;
}

/* Copy a section's contents; the caller frees them. NULL if the file has fewer bytes. */
static void *
elf_section(const struct tidei_elf *elf, const ElfW(Shdr) * section)
{
    return section->sh_type == SHT_NOBITS ? NULL : elf_copy(elf, section->sh_offset, section->sh_size);
}

void
tidei_elf_build_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT])
{
    size_t left = TIDEI_ELF_NOTES_MOST;
    bool found = false;

    /* By sections: in a file of debug information alone the segments' offsets mean nothing. */
    for (unsigned i = 0; !found && left > 0 && i < elf->section_count; i++) {
        const ElfW(Shdr) *section = &elf->sections[i];
        size_t bytes = section->sh_size < left ? (size_t)section->sh_size : left;
        void *notes = section->sh_type == SHT_NOTE ? elf_copy(elf, section->sh_offset, bytes) : NULL;

        found = notes != NULL && tidei_modules_build_id(notes, bytes, out);
        left -= notes != NULL ? bytes : 0;
        free(notes);
    }
    if (!found)
        out[0] = '\0';
}

struct tidei_elf *
tidei_elf_open_build(const char *path, const char *build_id)
{
    struct tidei_elf *elf = tidei_elf_open(path);
    char found[TIDEI_BUILD_ID_TEXT];

    if (elf == NULL)
        return NULL;
    tidei_elf_build_id(elf, found);
    if (strcmp(found, build_id) == 0)
        return elf;
    tidei_elf_close(elf);
    return NULL;
}

/* The section with this name; NULL if there is none. */
static const ElfW(Shdr) * elf_section_named(const struct tidei_elf *elf, const char *name)
{
    const ElfW(Shdr) *names = elf->name_section < elf->section_count ? &elf->sections[elf->name_section] : NULL;
    const ElfW(Shdr) *found = NULL;
    char *text = names != NULL ? elf_section(elf, names) : NULL;

    for (unsigned i = 0; text != NULL && found == NULL && i < elf->section_count; i++) {
        if (elf->sections[i].sh_name < names->sh_size && strcmp(text + elf->sections[i].sh_name, name) == 0)
            found = &elf->sections[i];
    }
    free(text);
    return found;
}

void
tidei_elf_alternate_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT])
{
    const ElfW(Shdr) *section = elf_section_named(elf, ".gnu_debugaltlink");
    char *link = section != NULL ? elf_section(elf, section) : NULL;
    size_t begin = link != NULL ? strlen(link) + 1 : 0; /* behind the path */

    out[0] = '\0';
    if (link != NULL && section->sh_size > begin)
        tidei_build_id_print(link + begin, (size_t)section->sh_size - begin, out);
    free(link);
}

static uint8_t
elf_renown(unsigned binding)
{
    return binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
}

static int
elf_compare(const void *left, const void *right)
{
    const struct elf_function *a = left, *b = right;

    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (int)a->renown - (int)b->renown;
}

/* Load the functions of a symbol table. */
static void
elf_load_table(struct tidei_elf *elf, const ElfW(Shdr) * table)
{
    size_t count = (size_t)(table->sh_size / sizeof(ElfW(Sym)));
    ElfW(Sym) *symbols = elf_section(elf, table);

    elf->names = elf_section(elf, &elf->sections[table->sh_link]);
    elf->names_bytes = elf->sections[table->sh_link].sh_size;
    if (symbols != NULL && elf->names != NULL)
        elf->functions = malloc((count + 1) * sizeof(*elf->functions));
    for (size_t i = 0; elf->functions != NULL && i < count; i++) {
        unsigned type = ELF64_ST_TYPE(symbols[i].st_info);

        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbols[i].st_shndx == SHN_UNDEF ||
            symbols[i].st_name >= elf->names_bytes)
            continue;
        elf->functions[elf->function_count++] = (struct elf_function){
            .begin = symbols[i].st_value,
            .end = symbols[i].st_value + symbols[i].st_size,
            .name = symbols[i].st_name,
            .renown = elf_renown(ELF64_ST_BIND(symbols[i].st_info)),
        };
    }
    free(symbols);
    if (elf->functions != NULL)
        qsort(elf->functions, elf->function_count, sizeof(*elf->functions), elf_compare);
}

/* Load the full symbol table, or, if that was stripped, the table of exported symbols. */
static void
elf_load(struct tidei_elf *elf)
{
    const ElfW(Shdr) *table = NULL;

    for (unsigned i = 0; i < elf->section_count; i++) {
        const ElfW(Shdr) *section = &elf->sections[i];

        if (section->sh_link < elf->section_count &&
            (section->sh_type == SHT_SYMTAB || (section->sh_type == SHT_DYNSYM && table == NULL)))
            table = section;
    }
    if (table != NULL)
        elf_load_table(elf, table);
    elf->is_loaded = true;
}

/* Find the function at an address in memory. */
static void
elf_find(void *file, uint64_t address_in_memory, struct tidei_symbol *out)
{
    struct tidei_elf *elf = file;
    uint64_t address = address_in_memory - elf->base + elf->low;
    size_t low = 0, high;

    if (!elf->is_loaded)
        elf_load(elf);
    high = elf->function_count;
    while (low < high) { /* how many begin at or before the address */
        size_t middle = low + (high - low) / 2;

        if (elf->functions[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i-- > 0 && low - i <= ELF_LOOK_BACK;) {
        const struct elf_function *function = &elf->functions[i];

        if (address < function->end || (function->begin == function->end && i + 1 == low)) {
            const char *name = elf->names + function->name;

            if (strnlen(name, TIDEI_ELF_NAME_MOST + 1) <= TIDEI_ELF_NAME_MOST)
                out->function = name;
            break;
        }
    }
}

static void *
elf_open(const char *path, const char *build_id, uint64_t base)
{
    struct tidei_elf *elf = tidei_elf_open_build(path, build_id);

    if (elf != NULL)
        elf->base = base;
    return elf;
}

static void
elf_close(void *file)
{
    tidei_elf_close(file);
}

const struct tidei_symbol_reader tidei_elf_reader = { .open = elf_open, .close = elf_close, .find = elf_find };
