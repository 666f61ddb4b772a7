/* The table of the kinds of layers. */
#include "config.h"

#include <string.h>

#include "viewer/read/layer-kinds.h"

static const struct layer_kind layer_kinds[] = {
    { .name = "log", .role = LAYER_RECORDS },

    { .name = "aligned", .role = LAYER_PASSES },
    { .name = "binning", .role = LAYER_PASSES },
    { .name = "callback", .role = LAYER_PASSES },
    { .name = "fallback", .role = LAYER_PASSES },
    { .name = "fault", .role = LAYER_PASSES },
    { .name = "guard", .role = LAYER_PASSES },
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

    { .name = "cuda", .role = LAYER_BASE, .memory = "GPU", .has_bound = true, .is_of_device = true, .rounding = 1 },
    { .name = "driver",
      .role = LAYER_BASE,
      .memory = "GPU",
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
      .has_bound = true,
      .bound_key = "maximum",
      .is_of_device = true,
      .rounder = "granularity",
      .rounding = 2 << 20 },
};

const struct layer_kind *
layer_kind_find(const char *name)
{
    static const struct layer_kind other = { .role = LAYER_OTHER };

    for (size_t i = 0; i < sizeof(layer_kinds) / sizeof(layer_kinds[0]); i++) {
        if (strcmp(name, layer_kinds[i].name) == 0)
            return &layer_kinds[i];
    }
    return &other;
}
