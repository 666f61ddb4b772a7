/*
 * Reads the build id and the symbol table of an ELF file, without another library. The file may be malformed: all its
 * offsets and sizes are checked against its length.
 */
#ifndef TIDEI_CONTEXT_ELF_H
#define TIDEI_CONTEXT_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "src/context/modules.h"

/* The digits of a build id and the terminating zero. */
#define TIDEI_BUILD_ID_TEXT (2 * TIDEI_BUILD_ID_MOST + 1)

struct tidei_elf;

/* Open a regular file; a descriptor, or -1. Does not block on a pipe or device that a trace may name. */
int tidei_elf_open_file(const char *path);

/* Borrows `file` until tidei_elf_close. NULL if it is not an ELF file for this machine, or without host memory. */
struct tidei_elf *tidei_elf_open(int file);
void tidei_elf_close(struct tidei_elf *elf); /* NULL is allowed */

/* The file's build id in hexadecimal digits; "" if it has none. */
void tidei_elf_build_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT]);

/* The build id of the file with shared debug information that this file names (.gnu_debugaltlink); "" if none. */
void tidei_elf_alternate_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT]);

/*
 * The symbol table's name for the function at `offset`, counted from the start of the file's lowest segment in memory;
 * NULL if it has none. The text is valid until tidei_elf_close.
 */
const char *tidei_elf_function(struct tidei_elf *elf, uint64_t offset);

#endif
