/*
 * Reads symbols and line tables through libdw of elfutils. It is loaded at the first use, so that it is not a
 * dependency of programs that do not use it. Debug information is local only: DEBUGINFOD_URLS is ignored.
 */
#ifndef TIDEI_CONTEXT_LIBDW_H
#define TIDEI_CONTEXT_LIBDW_H

#include <stdbool.h>
#include <stdint.h>

#include "src/context/symbols.h"

struct tidei_libdw;

/* Whether libdw can be loaded, and its headers were there when the library was built. */
bool tidei_libdw_is_there(void);

/* As tidei_symbols_open, if libdw is there. Takes ownership of the descriptor `file`, even if it returns NULL. */
struct tidei_libdw *tidei_libdw_open(const char *path, int file, const char *build_id, uint64_t base);
void tidei_libdw_close(struct tidei_libdw *libdw); /* NULL is allowed */

/* As tidei_symbols_find, but does not demangle the function's name. */
void tidei_libdw_find(struct tidei_libdw *libdw, uint64_t address, struct tidei_symbol *out);

#endif
