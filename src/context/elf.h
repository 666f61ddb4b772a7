/*
 * Reads a program's or library's own file: its build id and the functions that its symbol table names. Needs no other
 * library. The file may be any: whatever it says of itself is checked against its length.
 */
#ifndef TIDEI_CONTEXT_ELF_H
#define TIDEI_CONTEXT_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "src/context/modules.h"

/* The digits of a build id and the zero behind them. */
#define TIDEI_BUILD_ID_TEXT (2 * TIDEI_BUILD_ID_MOST + 1)

struct tidei_elf;

/* A descriptor of a regular file, or -1. Waits for no pipe or device that a trace may name. */
int tidei_elf_open_file(const char *path);

/* Borrows `file` until tidei_elf_close. NULL where it is no ELF file for this machine, or host memory is short. */
struct tidei_elf *tidei_elf_open(int file);
void tidei_elf_close(struct tidei_elf *elf); /* NULL is allowed */

/* The file's build id in hexadecimal digits; "" where it has none. */
void tidei_elf_build_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT]);

/* The build id of the file that this one shares debug information with (.gnu_debugaltlink); "" where there is none. */
void tidei_elf_alternate_id(struct tidei_elf *elf, char out[TIDEI_BUILD_ID_TEXT]);

/*
 * The name of the function at `offset`, counted from the begin of the file's lowest segment in memory, as the symbol
 * table has it; NULL where that names none. The text stays until tidei_elf_close.
 */
const char *tidei_elf_function(struct tidei_elf *elf, uint64_t offset);

#endif
