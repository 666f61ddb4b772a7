/* Tests how much of an ELF file is read for a build id. */
#include "config.h"

#include <link.h>
#include <unistd.h>

#include "src/context/elf.h"
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

int
main(void)
{
    uint64_t before, read;

    plan(6);
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
    unlink(path);
    return done();
}
