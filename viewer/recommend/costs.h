/* What calls of the driver cost: the defaults, and files with the costs of one device. */
#ifndef VIEWER_RECOMMEND_COSTS_H
#define VIEWER_RECOMMEND_COSTS_H

#include <stdbool.h>
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

/* What a base has the driver do. Each base has only some of them; see cost_has. */
enum cost_call {
    COST_ALLOCATE, /* an allocation that the base serves from what it has */
    COST_FREE,     /* one after which the base keeps what it has */
    COST_GROW,     /* on top: an allocation for which it takes memory of the device */
    COST_RETURN,   /* memory that it gives back to the device */
    COST_FRESH,    /* on top of COST_GROW: memory that it did not have before */
    COST_MAP,      /* a handle that is mapped; of `driver`, a unit of a pool that gets other addresses */
    COST_UNMAP,    /* and that is no longer */
    COST_TRIM,     /* a trim */
    COST_ORDER,    /* a stream that is made to wait for another one */
    COST_WAIT,     /* memory that went back is cleared; growth waits for that, but no longer than `ns` */
    COST_CALLS,
};

/* What a replay had a base do of one kind. */
struct cost_amount {
    uint64_t count;
    double bytes;
};

/* The name of the call in files of costs. */
extern const char *const cost_call_names[COST_CALLS];

/* Whether this base does this. */
bool cost_has(enum cost_base base, enum cost_call call);

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

/*
 * Read a file that costs_write wrote, or an earlier version did, whose growths have their waits in them. Each cost must
 * be there once, as far as that version has it. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int costs_read(const char *path, struct costs *out);

void costs_write(struct emit *out, const struct costs *costs);

/* The ns that so many calls with so many bytes in all cost. Those of COST_WAIT cost nothing beside the bytes. */
double costs_of(const struct costs *costs, enum cost_base base, enum cost_call call, const struct cost_amount *amount);

#endif
