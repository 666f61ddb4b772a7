/*
 * Resolves addresses with the file of a program or library: to function, file and line through libdw if that is
 * installed, else to the function only, from the file's symbol table.
 */
#ifndef TIDEI_CONTEXT_SYMBOLS_H
#define TIDEI_CONTEXT_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct tidei_symbols;

/* Unknown texts are "", an unknown line is 0. Texts are valid until the next find, or tidei_symbols_close. */
struct tidei_symbol {
    const char *function; /* demangled */
    const char *file;
    uint32_t line;
};

/* Reads the symbols of a file. There are two readers. */
struct tidei_symbol_reader {
    /* As tidei_symbols_open, for an absolute path. */
    void *(*open)(const char *path, const char *build_id, uint64_t base);
    void (*close)(void *file);
    /* Set what is known of an address in memory. The function's name is not demangled. */
    void (*find)(void *file, uint64_t address, struct tidei_symbol *out);
};

/* Functions only, from the symbol table; src/context/elf.c. */
extern const struct tidei_symbol_reader tidei_elf_reader;

/* NULL if libdw cannot be loaded, or its headers were missing when the library was built; src/context/libdw.c. */
const struct tidei_symbol_reader *tidei_libdw_reader(void);

/* Whether source files and lines can be read, which needs libdw. */
bool tidei_symbols_have_lines(void);

/*
 * Open the file at `path`, whose code was at `base` in memory. NULL if there is no such regular file, or if its build
 * id is not `build_id` (hexadecimal digits; "": it has none).
 */
struct tidei_symbols *tidei_symbols_open(const char *path, const char *build_id, uint64_t base);
void tidei_symbols_close(struct tidei_symbols *symbols); /* NULL is allowed */

/* Resolve an address in memory. */
void tidei_symbols_find(struct tidei_symbols *symbols, uint64_t address, struct tidei_symbol *out);

#endif
