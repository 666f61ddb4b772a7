/*
 * Which files this process has its code from, and where: what an address means once the process is gone. A list that
 * only grows; a library that was unloaded stays in it. No function takes a lock of ours: the caller has one.
 */
#ifndef TIDEI_CONTEXT_MODULES_H
#define TIDEI_CONTEXT_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIDEI_BUILD_ID_MOST 64 /* bytes; those in use have 20 or fewer */

struct tidei_module {
    uint32_t id;    /* from 1, its place in the list */
    bool is_loaded; /* as of the last look */
    char *path;     /* owned; absolute where that can be known */
    char *build_id; /* owned; in hexadecimal digits, "" where the file has none */
    uint64_t base;  /* of its lowest segment in memory */
    uint64_t size;  /* up to the end of its highest */
};

struct tidei_modules {
    struct tidei_module *items; /* owned, and their texts */
    size_t count;
    size_t capacity;
    uint64_t adds, subs; /* the loader's counters at the last look */
    bool seen;           /* there was one */
};

/* Look whether anything was loaded or unloaded, and take it in. False where host memory is short. */
bool tidei_modules_refresh(struct tidei_modules *modules);

/* The module that has `address`, of several the latest; NULL: none. */
const struct tidei_module *tidei_modules_find(const struct tidei_modules *modules, uint64_t address);

/* The build id among an ELF file's notes, as hexadecimal digits into 2 * TIDEI_BUILD_ID_MOST + 1 bytes; false: none. */
bool tidei_modules_build_id(const char *notes, size_t bytes, char *out);

/*
 * Whether a loader has started this program. A static program has none: a library that is loaded into it brings a C
 * library of its own, which nobody has set up, and crashes.
 */
bool tidei_modules_have_loader(void);

#endif
