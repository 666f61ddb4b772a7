/*
 * The list of the files that this process's code was loaded from, and their addresses. It gives an address a meaning
 * after the process has ended. The list only grows: unloaded libraries stay, and a module's texts are never freed. The
 * functions take no lock of the library; the caller holds one.
 */
#ifndef TIDEI_CONTEXT_MODULES_H
#define TIDEI_CONTEXT_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIDEI_BUILD_ID_MOST 64 /* bytes; build ids in use have 20 or fewer */

/* The digits of a build id and the terminating zero. */
#define TIDEI_BUILD_ID_TEXT (2 * TIDEI_BUILD_ID_MOST + 1)

struct tidei_module {
    uint32_t id;    /* from 1: the place in the list */
    bool is_loaded; /* as of the last refresh */
    char *path;     /* owned; absolute if known */
    char *build_id; /* owned; hexadecimal digits, "" if the file has none */
    uint64_t base;  /* address of the lowest segment */
    uint64_t size;  /* to the end of the highest segment */
};

struct tidei_modules {
    struct tidei_module *items; /* owned, with their texts */
    size_t count;
    size_t capacity;
    uint64_t adds, subs; /* the loader's counters at the last refresh */
    bool seen;           /* refreshed at least once */
};

/* Update the list if anything was loaded or unloaded. False without host memory. */
bool tidei_modules_refresh(struct tidei_modules *modules);

/* The module that contains `address`, the latest if there are several; NULL if none does. */
const struct tidei_module *tidei_modules_find(const struct tidei_modules *modules, uint64_t address);

/* Write a build id as hexadecimal digits; "" if it has more than TIDEI_BUILD_ID_MOST bytes. */
void tidei_build_id_print(const void *id, size_t bytes, char out[TIDEI_BUILD_ID_TEXT]);

/* Find the build id in ELF notes. False if there is none. */
bool tidei_modules_build_id(const char *notes, size_t bytes, char out[TIDEI_BUILD_ID_TEXT]);

/*
 * Whether a dynamic loader started this program. In a static program there is none, and loading a library must not be
 * tried: the library brings its own C library, which is never initialized, and crashes.
 */
bool tidei_modules_have_loader(void);

#endif
