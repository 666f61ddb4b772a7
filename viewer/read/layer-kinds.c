/* The table of the kinds of layers. */
#include "config.h"

#include <string.h>

#include "viewer/read/layer-kinds.h"

#define PROCESS_KIND(word, tracked)                                                                                    \
    {                                                                                                                  \
        .name = "process", .role = LAYER_BASE, .memory = word, .is_process = true, .is_tracked = tracked,              \
        .has_bound = tracked, .is_of_device = tracked, .rounding = 1                                                   \
    }

static const struct layer_kind layer_kinds[] = {
    { .name = "log", .role = LAYER_RECORDS },

    { .name = "aligned", .role = LAYER_PASSES },
    { .name = "binning", .role = LAYER_PASSES },
    { .name = "callback", .role = LAYER_PASSES },
    { .name = "fallback", .role = LAYER_PASSES },
    { .name = "fault", .role = LAYER_PASSES },
    { .name = "guard", .role = LAYER_PASSES },
    { .name = "held", .role = LAYER_PASSES }, /* of `tidemark run` with a base */
    { .name = "limit",
      .role = LAYER_PASSES,
      .has_bound = true,
      .bound_key = "limit",
      .bound_is_first = true,
      .rounder = "alignment",
      .rounding = 256 },
    { .name = "prefetch", .role = LAYER_PASSES },
    { .name = "retry", .role = LAYER_PASSES },
    { .name = "statistics", .role = LAYER_PASSES },
    { .name = "track", .role = LAYER_PASSES },

    { .name = "arena", .role = LAYER_CUTS, .has_bound = true, .bound_key = "size", .rounding = 256 },
    { .name = "fixed", .role = LAYER_CUTS },
    { .name = "monotonic", .role = LAYER_CUTS },
    { .name = "pool",
      .role = LAYER_CUTS,
      .has_bound = true,
      .bound_key = "maximum",
      .rounder = "alignment",
      .rounding = 256 },

    { .name = "cuda",
      .role = LAYER_BASE,
      .memory = "GPU",
      .is_tracked = true,
      .has_bound = true,
      .is_of_device = true,
      .rounding = 1 },
    { .name = "driver",
      .role = LAYER_BASE,
      .memory = "GPU",
      .is_tracked = true,
      .has_bound = true,
      .bound_key = "maximum",
      .is_of_device = true,
      .rounding = 1 },
    { .name = "host", .role = LAYER_BASE, .memory = "host", .has_bound = true, .bound_key = "capacity", .rounding = 1 },
    { .name = "managed", .role = LAYER_BASE, .memory = "managed" },
    { .name = "pageable", .role = LAYER_BASE, .memory = "pageable" },
    { .name = "pinned", .role = LAYER_BASE, .memory = "pinned" },
    { .name = "sim",
      .role = LAYER_BASE,
      .memory = "sim",
      .has_bound = true,
      .bound_key = "capacity",
      .rounder = "granularity",
      .rounding = 1,
      .least_rounding = 256 }, /* the distance of its addresses */
    { .name = "vmm",
      .role = LAYER_BASE,
      .memory = "GPU",
      .is_tracked = true,
      .has_bound = true,
      .bound_key = "maximum",
      .is_of_device = true,
      .rounder = "granularity",
      .rounding = 2 << 20 },
};

/* The memory behind the layer `process`, by its argument `kind`. */
static const struct layer_kind layer_process_kinds[] = {
    PROCESS_KIND("plain", true),    PROCESS_KIND("async", true),   PROCESS_KIND("pool", true),
    PROCESS_KIND("virtual", true),  PROCESS_KIND("array", true),   PROCESS_KIND("graph", true),
    PROCESS_KIND("managed", false), PROCESS_KIND("pinned", false), PROCESS_KIND("imported", false),
};

static const struct layer_kind layer_other = { .role = LAYER_OTHER };

/* The word behind `kind=` in the arguments of a layer `process`. */
static const struct layer_kind *
layer_process_kind(const char *config)
{
    static const char key[] = "kind=";
    size_t length;

    if (strncmp(config, key, sizeof(key) - 1) != 0)
        return NULL;
    config += sizeof(key) - 1;
    length = strcspn(config, ",");
    for (size_t i = 0; i < sizeof(layer_process_kinds) / sizeof(layer_process_kinds[0]); i++) {
        if (strlen(layer_process_kinds[i].memory) == length &&
            memcmp(layer_process_kinds[i].memory, config, length) == 0)
            return &layer_process_kinds[i];
    }
    return NULL;
}

const struct layer_kind *
layer_kind_find(const char *name, const char *config)
{
    const struct layer_kind *process = strcmp(name, "process") == 0 ? layer_process_kind(config) : NULL;

    if (process != NULL)
        return process;

    for (size_t i = 0; i < sizeof(layer_kinds) / sizeof(layer_kinds[0]); i++) {
        if (strcmp(name, layer_kinds[i].name) == 0)
            return &layer_kinds[i];
    }
    return &layer_other;
}

#define LAYER_KINDS         (sizeof(layer_kinds) / sizeof(layer_kinds[0]))
#define LAYER_PROCESS_KINDS (sizeof(layer_process_kinds) / sizeof(layer_process_kinds[0]))

unsigned
layer_kind_number(const struct layer_kind *kind)
{
    if (kind >= layer_kinds && kind < layer_kinds + LAYER_KINDS)
        return (unsigned)(kind - layer_kinds);
    if (kind >= layer_process_kinds && kind < layer_process_kinds + LAYER_PROCESS_KINDS)
        return (unsigned)(LAYER_KINDS + (size_t)(kind - layer_process_kinds));
    return LAYER_KINDS + LAYER_PROCESS_KINDS;
}

const struct layer_kind *
layer_kind_at(unsigned number)
{
    if (number < LAYER_KINDS)
        return &layer_kinds[number];
    return number < LAYER_KINDS + LAYER_PROCESS_KINDS ? &layer_process_kinds[number - LAYER_KINDS] : &layer_other;
}

static bool
layer_kind_is_word(const char *word, size_t length, const char *of)
{
    return of != NULL && strlen(of) == length && memcmp(of, word, length) == 0;
}

bool
layer_kind_is_words(const char *text)
{
    static const char separators[] = " ,+";
    size_t length;

    for (const char *word = text + strspn(text, separators); *word != '\0';
         word += length + strspn(word + length, separators)) {
        bool known;

        length = strcspn(word, separators);
        known = strspn(word, "0123456789") >= length || layer_kind_is_word(word, length, "GPU") ||
                layer_kind_is_word(word, length, "of");
        for (unsigned i = 0; i < LAYER_KINDS + LAYER_PROCESS_KINDS && !known; i++) {
            const struct layer_kind *kind = layer_kind_at(i);

            known = layer_kind_is_word(word, length, kind->name) || layer_kind_is_word(word, length, kind->memory);
        }
        if (!known)
            return false;
    }
    return true;
}

const char *
layer_kind_word(const struct layer_kind *kind)
{
    return kind->is_process ? kind->memory : kind->name != NULL ? kind->name : "another base";
}
