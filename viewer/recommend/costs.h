/* What calls of the driver cost: the defaults, and files with the costs of one device. */
#ifndef VIEWER_RECOMMEND_COSTS_H
#define VIEWER_RECOMMEND_COSTS_H

#include <stdint.h>

#include "viewer/output/emit.h"

/* A base over which stacks are tried. */
enum cost_base {
    COST_CUDA,
    COST_DRIVER,
    COST_VMM,
    COST_BASES,
};

/* The name of the base in stack text. */
extern const char *const cost_base_names[COST_BASES];

enum cost_call {
    COST_ALLOCATE, /* an allocation that the base serves, as far as it does not grow */
    COST_FREE,
    COST_GROW, /* what the base takes of the device, by its bytes: `driver` keeps memory, so an allocation need not */
    COST_CALLS,
};

/* A call costs ns + ns_per_mib * MiB. */
struct cost {
    double ns;
    double ns_per_mib;
    double spread; /* the median distance of the measured calls from that, as a share; 0: not known */
};

struct costs {
    char device[128]; /* the name of the device */
    struct cost of[COST_BASES][COST_CALLS];
};

/* The costs of an NVIDIA H200, with the sources of the figures beside them. */
extern const struct costs costs_default;

/* Read a file that costs_write wrote. Each cost must be there once. COMMAND_FINE, or COMMAND_WRONG after a message. */
int costs_read(const char *path, struct costs *out);

void costs_write(struct emit *out, const struct costs *costs);

/* The ns that so many calls with so many bytes in all cost. */
double costs_of(const struct cost *cost, uint64_t calls, double bytes);

#endif
