/*
 * Reads an ELF file without another library: its build ids, and its symbol table for tidei_elf_reader (symbols.h). The
 * file may be malformed: all its offsets and sizes are checked against its length.
 */
#ifndef TIDEI_CONTEXT_ELF_H
#define TIDEI_CONTEXT_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "src/context/modules.h"

struct tidei_elf;

/* Bytes of notes that are read for a build id: sections of a malformed file may all name the whole file as notes. */
#define TIDEI_ELF_NOTES_MOST ((size_t)1 << 20)

/* No larger file is opened, and no larger section read: a sparse file takes time and memory, and no disk. */
#define TIDEI_ELF_FILE_MOST    ((uint64_t)16 << 30)
#define TIDEI_ELF_SECTION_MOST ((uint64_t)512 << 20)

/* Names of functions that are longer are left out; they would become rows of the trace. */
#define TIDEI_ELF_NAME_MOST ((size_t)64 << 10)

/*
 * Open a regular file of TIDEI_ELF_FILE_MOST bytes at the most; a descriptor, or -1. What a trace names instead, a pipe
 * or a device, is not opened at all: that alone may wait, or set the device going.
 */
int tidei_elf_open_file(const char *path);

/* NULL if there is no ELF file for this machine at `path`, or without host memory. */
struct tidei_elf *tidei_elf_open(const char *path);

/* The same, if the file has the build id `build_id`; "": it has none. */
struct tidei_elf *tidei_elf_open_build(const char *path, const char *build_id);
void tidei_elf_close(struct tidei_elf *elf); /* NULL is allowed */

/* The descriptor of the file, valid until tidei_elf_close. */
int tidei_elf_file(const struct tidei_elf *elf);

/* The build id in hexadecimal digits; "" if there is none in the first TIDEI_ELF_NOTES_MOST bytes of notes. */
void tidei_elf_build_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT]);

/* The build id of the file with shared debug information that this file names (.gnu_debugaltlink); "" if none. */
void tidei_elf_alternate_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT]);

#endif
