/*
 * libtidemark-audit.so: an auditor of the dynamic linker (LD_AUDIT; rtld-audit(7)). Whoever asks for a function of the
 * CUDA driver that has a stub in libtidemark-run.so gets the stub: by a call through its PLT, by dlsym() or dlvsym().
 * All other look-ups stay as they are.
 *
 * An auditor lives in a namespace of its own, where it would get a C library of its own: so this one needs none. It is
 * freestanding, calls no function, has no thread-local storage, and writes a few words.
 *
 * The linker does not report the addresses that an object has in its data, as all calls are where it was compiled with
 * -fno-plt. So before an object that is linked with the driver is relocated, it gets a copy of its relocations, in
 * which those of that kind give the stub's address.
 *
 * LIMITATIONS: A driver that was loaded by dlmopen() is not looked at. The linker reports what is bound at start-up
 * (-z now) from glibc 2.35 on. Addresses in the data of objects that have no DT_NEEDED of the driver are the driver's,
 * and so are those of objects whose dynamic section is only read (lld -z rodynamic).
 */
#include "config.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "src/run/elf-symbols.h"
#include "src/run/names.h"

#define AUDIT_EXPORT __attribute__((visibility("default")))

/* What an object's cookie says of it; any other value: the copy of its relocations. */
enum {
    AUDIT_USER = 0,   /* its look-ups are answered by stubs, as they are where there is a copy */
    AUDIT_DRIVER = 1, /* the driver: it finds its own functions */
    AUDIT_OWN,        /* an object of Tidemark's: it finds the driver's */
};

/* The linker calls la_objopen and la_objclose under its lock; la_symbind64 reads what they stored, on any thread. */
static struct tidei_elf_symbols audit_stubs;
static int audit_has_stubs; /* stored with release after audit_stubs, loaded with acquire */
static struct link_map *audit_program;

/* Objects before the stubs' that have names of the driver's: other tools, in the place of the driver. */
#define AUDIT_TOOLS 8
static struct tidei_elf_symbols audit_tools[AUDIT_TOOLS];
static size_t audit_tool_count;                 /* AUDIT_TOOLS + 1: more than there is room for */
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

/* The stub of the driver's function of that name; NULL: it has none. */
static void *
audit_stub(const char *name)
{
    static const char prefix[] = TIDEI_RUN_STUB;
    char stub[96];
    size_t length = 0;

    if (!__atomic_load_n(&audit_has_stubs, __ATOMIC_ACQUIRE) || name[0] != 'c' || name[1] != 'u')
        return NULL;
    while (prefix[length] != '\0') {
        stub[length] = prefix[length];
        length++;
    }
    for (; *name != '\0' && length < sizeof(stub) - 1; name++)
        stub[length++] = *name;
    stub[length] = '\0';
    return *name == '\0' ? tidei_elf_find(&audit_stubs, stub) : NULL;
}

#if defined __x86_64__
#define AUDIT_DATA(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#define AUDIT_RELATIVE   R_X86_64_RELATIVE
static long
audit_call(long number, const long arguments[6])
{
    register long four __asm__("r10") = arguments[3];
    register long five __asm__("r8") = arguments[4];
    register long six __asm__("r9") = arguments[5];
    long result = number;

    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(four), "r"(five), "r"(six)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined __aarch64__
#define AUDIT_DATA(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#define AUDIT_RELATIVE   R_AARCH64_RELATIVE
static long
audit_call(long number, const long arguments[6])
{
    register long call __asm__("x8") = number;
    register long one __asm__("x0") = arguments[0];
    register long two __asm__("x1") = arguments[1];
    register long three __asm__("x2") = arguments[2];
    register long four __asm__("x3") = arguments[3];
    register long five __asm__("x4") = arguments[4];
    register long six __asm__("x5") = arguments[5];

    __asm__ volatile("svc 0" : "+r"(one) : "r"(call), "r"(two), "r"(three), "r"(four), "r"(five), "r"(six) : "memory");
    return one;
}
#else
#error "no system calls for this processor"
#endif

/* Note an object that is loaded before the stubs: what it has of the driver's names is found in it. */
static void
audit_note_tool(const struct link_map *map)
{
    struct tidei_elf_symbols symbols;

    if (!tidei_elf_open(&symbols, map->l_addr, map->l_ld))
        return;
    if (audit_tool_count < AUDIT_TOOLS)
        audit_tools[audit_tool_count] = symbols;
    if (audit_tool_count <= AUDIT_TOOLS)
        audit_tool_count++;
}

/* Whether others find a function of the driver's in another tool. */
static bool
audit_is_of_tool(const char *name)
{
    for (size_t i = 0; i < audit_tool_count && i < AUDIT_TOOLS; i++) {
        if (tidei_elf_find(&audit_tools[i], name) != NULL)
            return true;
    }
    return audit_tool_count > AUDIT_TOOLS;
}

/* The relocations of an object that is not relocated yet. */
struct audit_relocations {
    Elf64_Dyn *place; /* the entry that says where they are */
    Elf64_Rela *first;
    size_t bytes;
    const void *calls; /* the relocations of the PLT; NULL: none */
    bool is_linked;    /* with the driver, by a DT_NEEDED of its own */
};

static void
audit_read_relocations(const struct link_map *map, const char *names, struct audit_relocations *out)
{
    *out = (struct audit_relocations){ 0 };
    for (Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        const void *pointer = tidei_elf_pointer(map->l_addr, entry->d_un.d_ptr);

        if (entry->d_tag == DT_RELA) {
            out->place = entry;
            out->first = (Elf64_Rela *)pointer;
        } else if (entry->d_tag == DT_RELASZ) {
            out->bytes = entry->d_un.d_val;
        } else if (entry->d_tag == DT_JMPREL) {
            out->calls = pointer;
        } else if (entry->d_tag == DT_NEEDED && audit_begins(names + entry->d_un.d_val, TIDEI_RUN_LIBCUDA)) {
            out->is_linked = true;
        }
    }
}

/* Before the relocations of a copy. */
struct audit_copy {
    size_t bytes; /* of all of it */
    Elf64_Rela relocations[];
};

/*
 * Whether the linker can be told another address: some objects have a dynamic section that is only read. An object's
 * program headers are not found from here in all objects, so the system is asked for something that it writes there.
 */
static bool
audit_is_writable(Elf64_Dyn *entry)
{
    const long arguments[6] = { 0, 0, (long)&entry->d_un, sizeof(entry->d_un) };
    volatile Elf64_Dyn *written = entry;
    Elf64_Addr value = written->d_un.d_ptr;

    if (audit_call(SYS_rt_sigprocmask, arguments) != 0)
        return false;
    written->d_un.d_ptr = value;
    return true;
}

/*
 * Have the linker read the relocations from a copy, which stays as long as the object. They themselves lie in memory
 * that is only read, on aarch64 and with older linkers together with the code: there no system need let them be
 * written. The linker has the address from the dynamic section, which it writes itself, if it can be written.
 */
static struct audit_copy *
audit_copy(const struct link_map *map, struct audit_relocations *all)
{
    size_t bytes = sizeof(struct audit_copy) + all->bytes;
    const long map_arguments[6] = { 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0 };
    bool is_absolute = (uintptr_t)all->first == all->place->d_un.d_ptr;
    struct audit_copy *copy;
    long mapped;

    if (!audit_is_writable(all->place))
        return NULL;
    mapped = audit_call(SYS_mmap, map_arguments);
    if (mapped < 0 && mapped > -4096)
        return NULL;
    copy = (struct audit_copy *)mapped;
    copy->bytes = bytes;
    for (size_t i = 0; i < all->bytes / sizeof(*all->first); i++)
        copy->relocations[i] = all->first[i];
    all->first = copy->relocations;
    all->place->d_un.d_ptr = (uintptr_t)copy->relocations - (is_absolute ? 0 : map->l_addr);
    return copy;
}

/* Change the relocations by which an object's data would get the driver's functions, in a copy; NULL: none is made. */
static struct audit_copy *
audit_relocate(const struct link_map *map)
{
    struct tidei_elf_symbols symbols;
    struct audit_relocations all;
    struct audit_copy *copy = NULL;

    tidei_elf_open(&symbols, map->l_addr, map->l_ld);
    if (symbols.symbols == NULL || symbols.names == NULL)
        return NULL;
    audit_read_relocations(map, symbols.names, &all);
    /* Where those of the PLT were a part of them, the linker would no longer know that they are. */
    if (!all.is_linked || all.first == NULL ||
        (uintptr_t)all.calls - (uintptr_t)all.first < (all.calls != NULL ? all.bytes : 0))
        return NULL;
    for (size_t i = 0; i < all.bytes / sizeof(*all.first); i++) {
        const Elf64_Sym *symbol = &symbols.symbols[ELF64_R_SYM(all.first[i].r_info)];
        void *stub = NULL;

        if (AUDIT_DATA(ELF64_R_TYPE(all.first[i].r_info)) && symbol->st_shndx == SHN_UNDEF &&
            all.first[i].r_addend == 0)
            stub = audit_stub(symbols.names + symbol->st_name);
        if (stub == NULL || audit_is_of_tool(symbols.names + symbol->st_name))
            continue;
        if (copy == NULL)
            copy = audit_copy(map, &all);
        if (copy == NULL)
            return NULL;
        all.first[i].r_addend = (Elf64_Sxword)((uintptr_t)stub - map->l_addr);
        all.first[i].r_info = ELF64_R_INFO(0, AUDIT_RELATIVE);
    }
    return copy;
}

/* The process has the driver, and LD_AUDIT without LD_PRELOAD: somebody has taken that out of the environment. */
static void
audit_say_alone(void)
{
    static const char line[] =
        "tidemark: nothing is recorded of this process: LD_PRELOAD has lost " TIDEI_RUN_PRELOAD "\n";

    const long arguments[6] = { 2, (long)line, sizeof(line) - 1 };

    /* Where it fails there is nobody to tell. */
    if (!audit_has_stubs)
        audit_call(SYS_write, arguments);
}

/*
 * All but the driver have the flag that stands for whoever asks: glibc 2.36 asks the auditors behind this one only
 * about objects for which this one has been asked.
 */
AUDIT_EXPORT unsigned
la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
    const char *name = audit_base_name(map->l_name != NULL ? map->l_name : "");

    *cookie = AUDIT_USER;
    /* libtidemark has the driver of the first namespace: of another one the account would know nothing. */
    if (namespace != LM_ID_BASE)
        return LA_FLG_BINDFROM;
    if (audit_begins(name, TIDEI_RUN_LIBCUDA) && audit_driver == NULL) {
        *cookie = AUDIT_DRIVER;
        audit_driver = map;
        audit_publish();
        audit_say_alone();
        return LA_FLG_BINDTO;
    }
    if (audit_begins(name, "libtidemark.so") || audit_begins(name, "libtidemark-")) {
        *cookie = AUDIT_OWN;
        if (tidei_elf_equal(name, TIDEI_RUN_PRELOAD) && !audit_has_stubs) {
            audit_take_stubs(map);
            audit_publish();
            /* The program comes first of all objects. */
            if (audit_program != NULL)
                (void)audit_relocate(audit_program);
        }
    } else if (audit_has_stubs) {
        *cookie = (uintptr_t)audit_relocate(map);
    } else {
        if (audit_program == NULL)
            audit_program = map;
        audit_note_tool(map);
    }
    return LA_FLG_BINDFROM;
}

AUDIT_EXPORT unsigned
la_objclose(uintptr_t *cookie)
{
    if (*cookie == AUDIT_DRIVER) {
        audit_driver = NULL;
        audit_publish();
    } else if (*cookie != AUDIT_USER && *cookie != AUDIT_OWN) {
        const long arguments[6] = { (long)*cookie, (long)((const struct audit_copy *)*cookie)->bytes };

        audit_call(SYS_munmap, arguments);
        *cookie = AUDIT_USER;
    }
    return 0;
}

AUDIT_EXPORT uintptr_t
la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
    void *stub = NULL;

    (void)index;
    (void)flags;
    if (*to == AUDIT_DRIVER && *from != AUDIT_DRIVER && *from != AUDIT_OWN)
        stub = audit_stub(name);
    return stub != NULL ? (uintptr_t)stub : symbol->st_value;
}
