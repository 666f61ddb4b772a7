/*
 * Reads what a program's or library's file says of addresses: function, file and line through libdw where that is
 * installed, else the function alone, from the file's symbol table.
 */
#ifndef TIDEI_CONTEXT_SYMBOLS_H
#define TIDEI_CONTEXT_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct tidei_symbols;

/* Texts are "" and the line is 0 where the file does not say; they stay until the next look or the end. */
struct tidei_symbol {
    const char *function; /* demangled */
    const char *file;
    uint32_t line;
};

/* Whether source files and lines can be read, which needs libdw. */
bool tidei_symbols_have_lines(void);

/*
 * Open the file at `path`, whose code lay at `base` in memory. `build_id` in hexadecimal digits: NULL where that of the
 * file is another one; "" takes any. NULL also where there is no such file.
 */
struct tidei_symbols *tidei_symbols_open(const char *path, const char *build_id, uint64_t base);
void tidei_symbols_close(struct tidei_symbols *symbols); /* NULL is allowed */

/* What is at an address in memory. */
void tidei_symbols_find(struct tidei_symbols *symbols, uint64_t address, struct tidei_symbol *out);

/* A C++ name as people write it, to be freed; NULL where it is none, or nothing here can tell. */
char *tidei_symbols_demangle(const char *name);

#endif
