/*
 * Finds a function that a loaded object exports, in the object's own tables: for the auditor, which has no C library,
 * and for what must not ask dlsym(). All is inline and calls nothing.
 */
#ifndef TIDEI_RUN_ELF_SYMBOLS_H
#define TIDEI_RUN_ELF_SYMBOLS_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_elf_symbols {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH */
};

static inline bool
tidei_elf_equal(const char *one, const char *other)
{
    while (*one != '\0' && *one == *other) {
        one++;
        other++;
    }
    return *one == *other;
}

/* What an entry of the dynamic section points to. The loader has added the base in some sections, and not in others. */
static inline const void *
tidei_elf_pointer(uintptr_t base, uintptr_t value)
{
    return (const void *)(value < base ? base + value : value);
}

/* Returns false where the object has no table of that form. */
static inline bool
tidei_elf_open(struct tidei_elf_symbols *out, uintptr_t base, const ElfW(Dyn) * dynamic)
{
    *out = (struct tidei_elf_symbols){ .base = base };
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *pointer = tidei_elf_pointer(base, dynamic->d_un.d_ptr);

        if (dynamic->d_tag == DT_SYMTAB)
            out->symbols = pointer;
        else if (dynamic->d_tag == DT_STRTAB)
            out->names = pointer;
        else if (dynamic->d_tag == DT_GNU_HASH)
            out->hash = pointer;
    }
    return out->symbols != NULL && out->names != NULL && out->hash != NULL;
}

static inline uint32_t
tidei_elf_hash(const char *name)
{
    uint32_t hash = 5381;

    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The address of the function or object of that name; NULL: the object defines none. */
static inline void *
tidei_elf_find(const struct tidei_elf_symbols *self, const char *name)
{
    uint32_t buckets = self->hash[0], first = self->hash[1], words = self->hash[2];
    const uint32_t *bucket = self->hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = tidei_elf_hash(name);
    uint32_t index = buckets > 0 ? bucket[hash % buckets] : 0;

    if (index < first)
        return NULL;
    for (;; index++) {
        const ElfW(Sym) *symbol = &self->symbols[index];

        if ((chain[index - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            tidei_elf_equal(self->names + symbol->st_name, name))
            return (void *)(self->base + symbol->st_value);
        if (chain[index - first] & 1)
            return NULL;
    }
}

#endif
