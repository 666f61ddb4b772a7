/*
 * Symbols and line tables through libdw of elfutils, which is loaded at the first use, so that nothing depends on it
 * that does not ask. Debug information comes from this machine alone: DEBUGINFOD_URLS counts for nothing.
 */
#ifndef TIDEI_CONTEXT_LIBDW_H
#define TIDEI_CONTEXT_LIBDW_H

#include <stdbool.h>
#include <stdint.h>

#include "src/context/symbols.h"

struct tidei_libdw;

/* Whether there is a libdw, and it was known when this was built. */
bool tidei_libdw_is_there(void);

/* As tidei_symbols_open, where libdw is there. Takes over the descriptor `file`, also where it returns NULL. */
struct tidei_libdw *tidei_libdw_open(const char *path, int file, const char *build_id, uint64_t base);
void tidei_libdw_close(struct tidei_libdw *libdw); /* NULL is allowed */

/* As tidei_symbols_find, with the function's name as the file has it. */
void tidei_libdw_find(struct tidei_libdw *libdw, uint64_t address, struct tidei_symbol *out);

#endif
