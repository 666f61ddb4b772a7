/* Tests how much of an ELF file is read for a build id. */
#include "config.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/context/elf.h"
#include "src/context/symbols.h"
#include "tests/tap.h"

#define SECTIONS   2000
#define FILE_BYTES ((size_t)64 << 20)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_DATA ELFDATA2LSB
#else
#define OWN_DATA ELFDATA2MSB
#endif

/* A section of notes that are all zeros, and a note of a build id of two bytes. */
struct contents {
    ElfW(Ehdr) header;
    ElfW(Shdr) sections[SECTIONS];
    struct {
        ElfW(Nhdr) head;
        char name[4];
        unsigned char id[4];
    } note;
};

static char path[] = "/tmp/tidemark-elf-t-XXXXXX";
static struct contents contents;

static void
contents_begin(unsigned sections)
{
    memset(&contents, 0, sizeof(contents));
    memcpy(contents.header.e_ident, ELFMAG, SELFMAG);
    contents.header.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    contents.header.e_ident[EI_DATA] = OWN_DATA;
    contents.header.e_shoff = offsetof(struct contents, sections);
    contents.header.e_shentsize = sizeof(ElfW(Shdr));
    contents.header.e_shnum = (ElfW(Half))sections;
    contents.note.head = (ElfW(Nhdr)){ .n_namesz = 4, .n_descsz = 2, .n_type = NT_GNU_BUILD_ID };
    memcpy(contents.note.name, "GNU", 4);
    contents.note.id[0] = 0x12;
    contents.note.id[1] = 0xab;
}

static void
section_set(unsigned index, size_t offset, size_t bytes)
{
    contents.sections[index].sh_type = SHT_NOTE;
    contents.sections[index].sh_offset = offset;
    contents.sections[index].sh_size = bytes;
}

/* The file's build id; zeros follow the contents up to FILE_BYTES. */
static const char *
contents_build_id(void)
{
    static char text[TIDEI_BUILD_ID_TEXT];
    FILE *file = fopen(path, "w");
    struct tidei_elf *elf;
    bool good = file != NULL && fwrite(&contents, sizeof(contents), 1, file) == 1;

    good = file != NULL && fclose(file) == 0 && good && truncate(path, (off_t)FILE_BYTES) == 0;
    elf = good ? tidei_elf_open(path) : NULL;
    if (elf == NULL)
        return "no file";
    tidei_elf_build_id(elf, text);
    tidei_elf_close(elf);
    return text;
}

/* The bytes that this process has read; 0 where the system does not say. */
static uint64_t
bytes_read(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    unsigned long long bytes = 0;

    if (file != NULL && fscanf(file, "rchar: %llu", &bytes) != 1)
        bytes = 0;
    if (file != NULL)
        fclose(file);
    return bytes;
}

/* Zeros of `before` bytes in the first section of notes, and the build id in the second. */
static const char *
build_id_after(size_t before)
{
    contents_begin(2);
    section_set(0, sizeof(contents), before);
    section_set(1, offsetof(struct contents, note), sizeof(contents.note));
    return contents_build_id();
}

/* Write the contents, and zeros up to `bytes`. */
static void
contents_write(off_t bytes)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(&contents, sizeof(contents), 1, file) != 1 || fclose(file) != 0 ||
        truncate(path, bytes) != 0) {
        perror(path);
        exit(99);
    }
}

/* A table of two functions, at 0x100 and 0x200, whose names have `first` and `second` letters, of `bytes` in all. */
static void
functions_write(size_t first, size_t second, uint64_t bytes)
{
    const ElfW(Sym) symbols[2] = {
        { .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x100, .st_size = 16, .st_name = 1 },
        { .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x200, .st_size = 16, .st_name = (ElfW(Word))first + 2 },
    };
    int file;

    contents_begin(2);
    contents.sections[0] =
        (ElfW(Shdr)){ .sh_type = SHT_SYMTAB, .sh_link = 1, .sh_offset = sizeof(contents), .sh_size = sizeof(symbols) };
    contents.sections[1] =
        (ElfW(Shdr)){ .sh_type = SHT_STRTAB, .sh_offset = sizeof(contents) + sizeof(symbols), .sh_size = bytes };
    contents_write((off_t)(sizeof(contents) + sizeof(symbols) + bytes));
    file = open(path, O_WRONLY);
    pwrite(file, symbols, sizeof(symbols), sizeof(contents));
    for (size_t i = 0; i < first + second + 1; i++) {
        if (i != first)
            pwrite(file, "n", 1, (off_t)(sizeof(contents) + sizeof(symbols) + 1 + i));
    }
    close(file);
}

/* The length of the name at an address; 0: there is none. The file is opened as the build `build_id`. */
static size_t
name_at(const char *build_id, uint64_t address)
{
    struct tidei_symbol symbol = { .function = "", .file = "" };
    void *file = tidei_elf_reader.open(path, build_id, 0);
    size_t length;

    if (file == NULL)
        return 0;
    tidei_elf_reader.find(file, address - 1, &symbol); /* the file has no segments: its lowest address is the last */
    length = strlen(symbol.function);
    tidei_elf_reader.close(file);
    return length;
}

static void
test_sections(void)
{
    functions_write(TIDEI_ELF_NAME_MOST, 5, 1 << 20);
    ok(all_of(name_at("", 0x108) == TIDEI_ELF_NAME_MOST, name_at("", 0x208) == 5),
       "functions have names of up to that many bytes");
    ok(name_at("12ab", 0x208) == 0, "a file without a build id is not opened as one of a build");
    functions_write(TIDEI_ELF_NAME_MOST + 1, 5, 1 << 20);
    ok(all_of(name_at("", 0x108) == 0, name_at("", 0x208) == 5), "a name that is one byte longer is left out");
}

static void
test_sizes(void)
{
    uint64_t before, read;
    int file;

    functions_write(4, 5, TIDEI_ELF_SECTION_MOST + 1);
    before = bytes_read();
    ok(name_at("", 0x108) == 0, "a section of names that is one byte too large gives no names");
    read = bytes_read() - before;
    if (before == 0)
        skip(1, "the system does not say how much was read");
    else
        ok(read < 1 << 20, "such a section is not read (%" PRIu64 " bytes)", read);
    if (truncate(path, (off_t)TIDEI_ELF_FILE_MOST + 1) != 0) {
        skip(1, "no file of 16 GiB is possible here");
        return;
    }
    file = tidei_elf_open_file(path);
    read = truncate(path, (off_t)TIDEI_ELF_FILE_MOST) == 0;
    before = (uint64_t)tidei_elf_open_file(path);
    ok(all_of(file < 0, read == 1, (int)before >= 0), "a file of 16 GiB is opened, and one of a byte more is not");
    close((int)before);
}

int
main(void)
{
    uint64_t before, read;

    plan(12);
    close(mkstemp(path));
    is_string(build_id_after(0), "12ab", "a build id is found in a section of notes");
    is_string(build_id_after(TIDEI_ELF_NOTES_MOST - sizeof(contents.note)), "12ab",
              "a build id at the end of the bytes of notes that are read is found");
    is_string(build_id_after(TIDEI_ELF_NOTES_MOST - sizeof(contents.note) + 1), "",
              "a build id that ends one byte after them is not found");
    is_string(build_id_after(TIDEI_ELF_NOTES_MOST), "", "a build id behind all of them is not found");
    contents_begin(SECTIONS);
    for (unsigned i = 0; i < SECTIONS; i++)
        section_set(i, sizeof(contents), FILE_BYTES - sizeof(contents));
    before = bytes_read();
    is_string(contents_build_id(), "",
              "in a file whose sections all name the whole file as notes no build id is found");
    read = bytes_read() - before;
    if (before == 0)
        skip(1, "the system does not say how much was read");
    else
        ok(read < 2 * TIDEI_ELF_NOTES_MOST, "such a file is read no further than its head and that bound (%" PRIu64 ")",
           read);
    test_sections();
    test_sizes();
    unlink(path);
    return done();
}
