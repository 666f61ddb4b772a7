/* Lists the files that this process's code was loaded from. */
#include "config.h"

#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/context/modules.h"
#include "src/tables/grow.h"

/* The state of one iteration over the loaded objects. */
struct modules_look {
    struct tidei_modules *modules;
    size_t objects;
    bool unchanged;
    bool failed;
};

/* The absolute path of an object, as the loader names it; NULL: no host memory. */
static char *
modules_path(const char *name, bool is_program)
{
    char path[PATH_MAX];
    ssize_t length;

    if (is_program) {
        length = readlink("/proc/self/exe", path, sizeof(path) - 1);
        path[length > 0 ? length : 0] = '\0';
        return strdup(path);
    }
    /* A name without a slash is no file: it is the kernel's own object. */
    if (name[0] != '/' && strchr(name, '/') != NULL && realpath(name, path) != NULL)
        return strdup(path);
    return strdup(name);
}

void
tidei_build_id_print(const void *id, size_t bytes, char out[TIDEI_BUILD_ID_TEXT])
{
    const unsigned char *at = id;

    out[0] = '\0';
    for (size_t i = 0; i < bytes && bytes <= TIDEI_BUILD_ID_MOST; i++)
        sprintf(out + 2 * i, "%02x", at[i]);
}

bool
tidei_modules_build_id(const char *notes, size_t bytes, char out[TIDEI_BUILD_ID_TEXT])
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        size_t name_bytes, whole;

        memcpy(&note, notes, sizeof(note));
        name_bytes = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        whole = sizeof(note) + name_bytes + (((size_t)note.n_descsz + 3) & ~(size_t)3);
        if (whole > bytes)
            break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + sizeof(note), "GNU", 4) == 0 &&
            note.n_descsz <= TIDEI_BUILD_ID_MOST) {
            tidei_build_id_print(notes + sizeof(note) + name_bytes, note.n_descsz, out);
            return true;
        }
        notes += whole;
        bytes -= whole;
    }
    return false;
}

/* Whether a segment lies within one that is loaded. */
static bool
modules_is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * wanted)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) != 0 && wanted->p_vaddr >= segment->p_vaddr &&
            wanted->p_vaddr + wanted->p_memsz <= segment->p_vaddr + segment->p_filesz)
            return true;
    }
    return false;
}

static void
modules_build_id(const struct dl_phdr_info *info, char *out)
{
    out[0] = '\0';
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_NOTE && modules_is_loaded(info, segment) &&
            tidei_modules_build_id((const char *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz, out))
            return;
    }
}

static void
modules_extent(const struct dl_phdr_info *info, uint64_t *base, uint64_t *size)
{
    uint64_t low = UINT64_MAX, high = 0;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t begin = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD)
            continue;
        low = begin < low ? begin : low;
        high = begin + segment->p_memsz > high ? begin + segment->p_memsz : high;
    }
    *base = low <= high ? low : 0;
    *size = low <= high ? high - low : 0;
}

/* Whether the list has a module at this place of this build; it is then marked as loaded. */
static bool
modules_knows(struct tidei_modules *modules, uint64_t base, uint64_t size, const char *build_id, const char *name)
{
    for (size_t i = modules->count; i-- > 0;) {
        struct tidei_module *module = &modules->items[i];

        if (module->base != base || module->size != size || strcmp(module->build_id, build_id) != 0)
            continue;
        if (build_id[0] == '\0' && name[0] == '/' && strcmp(module->path, name) != 0)
            continue;
        module->is_loaded = true;
        return true;
    }
    return false;
}

static int
modules_see(struct dl_phdr_info *info, size_t size, void *context)
{
    struct modules_look *look = context;
    struct tidei_modules *modules = look->modules;
    struct tidei_module module = { .is_loaded = true };
    char build_id[TIDEI_BUILD_ID_TEXT];
    bool is_program = look->objects++ == 0;

    if (is_program && size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
        look->unchanged = modules->seen && modules->adds == info->dlpi_adds && modules->subs == info->dlpi_subs;
        modules->adds = info->dlpi_adds;
        modules->subs = info->dlpi_subs;
        if (look->unchanged)
            return 1;
    }
    if (is_program) {
        for (size_t i = 0; i < modules->count; i++)
            modules->items[i].is_loaded = false;
    }
    modules_extent(info, &module.base, &module.size);
    modules_build_id(info, build_id);
    if (module.size == 0 || modules_knows(modules, module.base, module.size, build_id, info->dlpi_name))
        return 0;
    module.id = (uint32_t)modules->count + 1;
    module.path = modules_path(info->dlpi_name, is_program);
    module.build_id = strdup(build_id);
    if (module.path != NULL && module.build_id != NULL &&
        tidei_grow(&modules->items, &modules->capacity, modules->count, 1)) {
        modules->items[modules->count++] = module;
        return 0;
    }
    free(module.path);
    free(module.build_id);
    look->failed = true;
    return 0;
}

bool
tidei_modules_refresh(struct tidei_modules *modules)
{
    struct modules_look look = { .modules = modules };

    dl_iterate_phdr(modules_see, &look);
    modules->seen = !look.failed;
    return !look.failed;
}

const struct tidei_module *
tidei_modules_find(const struct tidei_modules *modules, uint64_t address)
{
    const struct tidei_module *best = NULL;

    for (size_t i = modules->count; i-- > 0;) {
        const struct tidei_module *module = &modules->items[i];

        if (address - module->base >= module->size)
            continue;
        if (module->is_loaded)
            return module;
        best = best != NULL ? best : module;
    }
    return best;
}

/* Called for the program, which comes first: whether a loader started it. */
static int
modules_see_loader(struct dl_phdr_info *info, size_t bytes, void *loader)
{
    (void)bytes;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        *(bool *)loader |= info->dlpi_phdr[i].p_type == PT_INTERP;
    return 1;
}

bool
tidei_modules_have_loader(void)
{
    bool loader = false;

    dl_iterate_phdr(modules_see_loader, &loader);
    return loader;
}
