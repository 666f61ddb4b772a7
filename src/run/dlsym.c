/*
 * dlsym() and dlvsym() of libtidemark-dlsym.so, for systems where no auditor does this better (audit.c). Together with
 * the driver's names, under which this object exports its stubs (stubs.c), they find what the auditor finds.
 *
 * What a handle such as RTLD_NEXT finds depends on the object that asks, by its return address. So all that is no
 * look-up of a function with a stub goes on to the C library by a jump: it sees the program's call, and not one from
 * here.
 *
 * LIMITATIONS: objects that were loaded with RTLD_DEEPBIND, or into a namespace of their own (dlmopen), find the C
 * library's functions. The global scope has the driver's names also where the driver was loaded with RTLD_LOCAL.
 */
#include "src/run/run.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "src/run/elf-symbols.h"

/* What to do with a look-up: return `value`, or jump to `onward` unless it is NULL. Two registers. */
struct dlsym_answer {
    void *value;
    void *onward;
};

typedef void *dlsym_function(void *, const char *);
typedef void *dlvsym_function(void *, const char *, const char *);

/* The C library's. Threads that find them at one time find the same. */
static _Atomic(void *) dlsym_real, dlvsym_real;

static const char *
dlsym_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Takes both functions from the C library's table of symbols, as a look-up by name would find ours. */
static int
dlsym_visit(struct dl_phdr_info *info, size_t size, void *context)
{
    static const char *const libraries[] = { "libc.so", "libdl.so", "ld-musl-", "libc.musl-" };
    const char *name = dlsym_base_name(info->dlpi_name);
    struct tidei_elf_symbols symbols;
    bool wanted = false;

    (void)size;
    (void)context;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        wanted = wanted || strncmp(name, libraries[i], strlen(libraries[i])) == 0;
    for (int i = 0; wanted && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC ||
            !tidei_elf_open(&symbols, info->dlpi_addr, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr)) ||
            tidei_elf_find(&symbols, "dlsym") == NULL)
            continue;
        atomic_store_explicit(&dlvsym_real, tidei_elf_find(&symbols, "dlvsym"), memory_order_relaxed);
        atomic_store_explicit(&dlsym_real, tidei_elf_find(&symbols, "dlsym"), memory_order_release);
        return 1;
    }
    return 0;
}

static void *
dlsym_find_real(bool versioned)
{
    if (atomic_load_explicit(&dlsym_real, memory_order_acquire) == NULL)
        dl_iterate_phdr(dlsym_visit, NULL);
    return atomic_load_explicit(versioned ? &dlvsym_real : &dlsym_real, memory_order_acquire);
}

void *
tidei_run_look_up(void *library, const char *name)
{
    void *address = dlsym_find_real(false);
    dlsym_function *real;

    memcpy(&real, &address, sizeof(real));
    return real != NULL ? real(library, name) : NULL;
}

/* Whether code of Tidemark's asks: it gets the driver's functions. */
static bool
dlsym_is_own(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) != 0 && info.dli_fname != NULL &&
           strncmp(dlsym_base_name(info.dli_fname), "libtidemark", strlen("libtidemark")) == 0;
}

/* Whether the process has loaded the driver. */
static bool
dlsym_has_driver(void)
{
    return tidei_run_real(RUN_cuGetProcAddress_v2) != NULL || tidei_run_real(RUN_cuMemAlloc_v2) != NULL;
}

/* `version` is NULL for dlsym(). */
__attribute__((used)) static struct dlsym_answer
dlsym_decide(void *handle, const char *name, const char *version, const void *caller)
{
    struct dlsym_answer answer = { .onward = dlsym_find_real(version != NULL) };
    dlvsym_function *real_versioned;

    if (name == NULL || strncmp(name, "cu", 2) != 0 || answer.onward == NULL || tidei_run_index(name) == RUN_COUNT ||
        !tidei_run_is_on())
        return answer;
    if ((handle == RTLD_DEFAULT || handle == RTLD_NEXT) && !dlsym_has_driver()) {
        /* Behind this object there is none either, which is an error with its words. */
        answer.value = tidei_run_look_up(RTLD_NEXT, name);
        answer.onward = NULL;
        return answer;
    }
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || dlsym_is_own(caller))
        return answer;
    memcpy(&real_versioned, &answer.onward, sizeof(real_versioned));
    answer.value = version != NULL ? real_versioned(handle, name, version) : tidei_run_look_up(handle, name);
    answer.onward = NULL;
    if (answer.value != NULL)
        answer.value = tidei_run_replace(answer.value);
    return answer;
}

/*
 * dlsym(handle, name): dlsym_decide(handle, name, NULL, return address); dlvsym() has a version. Then return the value,
 * or put the arguments back and jump on.
 */
/* clang-format off */
#if defined __x86_64__
#define DLSYM_ENTRY(name, version)                                                                                     \
    __asm__(".text\n.globl " name "\n.type " name ", @function\n.p2align 4\n" name ":\n.cfi_startproc\n"              \
            "endbr64\n"                                                                                                \
            "push %rdi\n.cfi_adjust_cfa_offset 8\n"                                                                    \
            "push %rsi\n.cfi_adjust_cfa_offset 8\n"                                                                    \
            "push %rdx\n.cfi_adjust_cfa_offset 8\n"                                                                    \
            version                                                                                                    \
            "mov 24(%rsp), %rcx\n"                                                                                     \
            "call dlsym_decide\n"                                                                                      \
            "mov %rdx, %rcx\n"                                                                                         \
            "pop %rdx\n.cfi_adjust_cfa_offset -8\n"                                                                    \
            "pop %rsi\n.cfi_adjust_cfa_offset -8\n"                                                                    \
            "pop %rdi\n.cfi_adjust_cfa_offset -8\n"                                                                    \
            "test %rcx, %rcx\n"                                                                                        \
            "jne 1f\n"                                                                                                 \
            "ret\n"                                                                                                    \
            "1: jmp *%rcx\n"                                                                                           \
            ".cfi_endproc\n.size " name ", . - " name "\n")
DLSYM_ENTRY("dlsym", "xor %edx, %edx\n");
DLSYM_ENTRY("dlvsym", "");
#elif defined __aarch64__
#define DLSYM_ENTRY(name, version)                                                                                     \
    __asm__(".text\n.globl " name "\n.type " name ", %function\n.p2align 4\n" name ":\n.cfi_startproc\n"              \
            "stp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n.cfi_offset 29, -48\n.cfi_offset 30, -40\n"            \
            "stp x0, x1, [sp, #16]\n"                                                                                  \
            "str x2, [sp, #32]\n"                                                                                      \
            version                                                                                                    \
            "mov x3, x30\n"                                                                                            \
            "bl dlsym_decide\n"                                                                                        \
            "mov x16, x1\n"                                                                                            \
            "cbz x16, 1f\n"                                                                                            \
            "ldp x0, x1, [sp, #16]\n"                                                                                  \
            "ldr x2, [sp, #32]\n"                                                                                      \
            "1: ldp x29, x30, [sp], #48\n.cfi_def_cfa_offset 0\n.cfi_restore 29\n.cfi_restore 30\n"                    \
            "cbz x16, 2f\n"                                                                                            \
            "br x16\n"                                                                                                 \
            "2: ret\n"                                                                                                 \
            ".cfi_endproc\n.size " name ", . - " name "\n")
DLSYM_ENTRY("dlsym", "mov x2, xzr\n");
DLSYM_ENTRY("dlvsym", "");
#else
#error "no dlsym() for this processor"
#endif
/* clang-format on */
