/*
 * libtidemark-audit.so: an auditor of the dynamic linker (LD_AUDIT; rtld-audit(7)). Whoever asks for a function of the
 * CUDA driver that has a stub in libtidemark-run.so gets the stub: by a call through its PLT, by dlsym() or dlvsym().
 * All other look-ups stay as they are.
 *
 * An auditor lives in a namespace of its own, where it would get a C library of its own: so this one needs none. It is
 * freestanding, calls nothing, has no thread-local storage, and writes a few words.
 *
 * LIMITATIONS: the linker reports no addresses that a program takes by a relocation of data (-fno-plt). It reports what
 * is bound at start-up (-z now) from glibc 2.35 on.
 */
#include "config.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "src/run/elf-symbols.h"
#include "src/run/names.h"

#define AUDIT_EXPORT __attribute__((visibility("default")))

/* What an object's cookie says of it; any other value: one whose look-ups are answered by stubs. */
enum {
    AUDIT_DRIVER = 1, /* the driver: it finds its own functions */
    AUDIT_OWN,        /* an object of Tidemark's: it finds the driver's */
};

/* The linker calls la_objopen and la_objclose under its lock; la_symbind64 reads what they stored, on any thread. */
static struct tidei_elf_symbols audit_stubs;
static int audit_has_stubs;                     /* stored with release after audit_stubs, loaded with acquire */
static struct link_map *volatile audit_driver;  /* the first one: there is one in a process */
static struct link_map **volatile audit_answer; /* TIDEI_RUN_DRIVER of the preloaded object */

AUDIT_EXPORT unsigned
la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static const char *
audit_base_name(const char *path)
{
    const char *name = path;

    for (; *path != '\0'; path++) {
        if (*path == '/')
            name = path + 1;
    }
    return name;
}

static bool
audit_begins(const char *name, const char *with)
{
    while (*with != '\0' && *name == *with) {
        name++;
        with++;
    }
    return *with == '\0';
}

/* A stub's address is computed, not read from a table: the linker may not have relocated the object yet. */
static void
audit_take_stubs(struct link_map *map)
{
    if (!tidei_elf_open(&audit_stubs, map->l_addr, map->l_ld))
        return;
    audit_answer = tidei_elf_find(&audit_stubs, TIDEI_RUN_DRIVER);
    __atomic_store_n(&audit_has_stubs, audit_answer != NULL, __ATOMIC_RELEASE);
}

static void
audit_publish(void)
{
    if (audit_answer != NULL)
        __atomic_store_n(audit_answer, audit_driver, __ATOMIC_RELEASE);
}

AUDIT_EXPORT unsigned
la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
    const char *name = audit_base_name(map->l_name != NULL ? map->l_name : "");

    (void)namespace;
    if (audit_begins(name, TIDEI_RUN_LIBCUDA) && audit_driver == NULL) {
        *cookie = AUDIT_DRIVER;
        audit_driver = map;
        audit_publish();
        return LA_FLG_BINDTO;
    }
    if (audit_begins(name, "libtidemark.so") || audit_begins(name, "libtidemark-")) {
        *cookie = AUDIT_OWN;
        if (tidei_elf_equal(name, TIDEI_RUN_PRELOAD) && !audit_has_stubs) {
            audit_take_stubs(map);
            audit_publish();
        }
    }
    return LA_FLG_BINDFROM;
}

AUDIT_EXPORT unsigned
la_objclose(uintptr_t *cookie)
{
    if (*cookie == AUDIT_DRIVER) {
        audit_driver = NULL;
        audit_publish();
    }
    return 0;
}

AUDIT_EXPORT uintptr_t
la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
    static const char prefix[] = TIDEI_RUN_STUB;
    char stub[96];
    size_t length = 0;
    void *address;

    (void)index;
    (void)flags;
    if (*to != AUDIT_DRIVER || *from == AUDIT_DRIVER || *from == AUDIT_OWN)
        return symbol->st_value;
    if (!__atomic_load_n(&audit_has_stubs, __ATOMIC_ACQUIRE))
        return symbol->st_value;
    while (prefix[length] != '\0') {
        stub[length] = prefix[length];
        length++;
    }
    for (; *name != '\0' && length < sizeof(stub) - 1; name++)
        stub[length++] = *name;
    stub[length] = '\0';
    address = *name == '\0' ? tidei_elf_find(&audit_stubs, stub) : NULL;
    return address != NULL ? (uintptr_t)address : symbol->st_value;
}
