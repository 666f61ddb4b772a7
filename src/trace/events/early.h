/*
 * Frees that came before their allocation: the counter of the thread that freed is behind the one that allocated.
 *
 * By the order of times such a free ends nothing. It is kept here for a while. If another thread then allocates that
 * address with that size, the free may be this allocation's. Nothing proves that: the free may as well be of memory
 * that the trace does not know. So the allocation is *assumed* to be freed, until a free of its own comes.
 *
 * Nothing proves that the later free is its own, either. Where the counters differ, it may be early itself, for the
 * next allocation of that address, and so on: each life of the address then has the free of the next one. So the later
 * free is *doubtful*. It waits here, too, and an allocation that it may have ended counts as assumed while it lives. If
 * none comes in time, the first free was of something else.
 */
#ifndef TIDEI_TRACE_EVENTS_EARLY_H
#define TIDEI_TRACE_EVENTS_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/tables/map.h"
#include "src/trace/ring/record.h"

#define TIDEI_NO_EARLY UINT32_MAX

enum tidei_early_state {
    TIDEI_EARLY_UNUSED = 0,
    TIDEI_EARLY_WAITING = 1, /* for an allocation of its address */
    TIDEI_EARLY_ASSUMED = 2, /* to end an allocation, which stays in the table of live ones */
    TIDEI_EARLY_DONE = 3,    /* unused from the next slice on */
    TIDEI_EARLY_DOUBTED = 4, /* doubtful, and may have ended an allocation that the rows show as live */
};

struct tidei_early {
    struct tidei_record record; /* a copy: it outlives its slice */
    int64_t row;                /* of its row in unmatched_free; 0: it has none */
    uint32_t index;             /* of its record in this slice; UINT32_MAX: it is of an earlier one */
    uint32_t place;             /* in the slice's list of unmatched frees; UINT32_MAX: in none */
    uint32_t next_unused;
    enum tidei_early_state state;
    bool doubtful; /* it ended an allocation that an earlier free may have ended */
};

/* Initialize to zeros, but for `unused`, which is TIDEI_NO_EARLY. */
struct tidei_earlies {
    struct tidei_early *items; /* owned */
    size_t capacity;
    size_t used;              /* that are not unused */
    uint64_t assumed_before;  /* how many a killed process has left assumed in the trace, or found no room */
    uint32_t unused;          /* the first unused item */
    struct tidei_map waiting; /* those that wait, by address and layer */
};

void tidei_earlies_free(struct tidei_earlies *earlies);

/* Keep a free. TIDEI_NO_EARLY without host memory, or where too many wait already. */
uint32_t tidei_earlies_add(struct tidei_earlies *earlies, const struct tidei_record *record, uint32_t index);

/*
 * Keep a free that ended an allocation and is doubtful. `early` is where the number of the early free stands in the
 * allocation that it may have ended, NULL if that is still to come. A free that cannot be kept counts as assumed for
 * good.
 */
void tidei_earlies_doubt(struct tidei_earlies *earlies, const struct tidei_record *record, uint32_t *early);

/*
 * The first of the waiting frees that may end an allocation, doubtful ones last: of its address, layer and size, by
 * another thread, since within one ring the order is that of the program; and begun no more than `window` ticks before
 * the allocation returned. TIDEI_NO_EARLY: there is none. It waits no more.
 */
uint32_t tidei_earlies_take(struct tidei_earlies *earlies, const struct tidei_record *alloc, uint64_t window);

/* A new slice begins: forget what is done, and what has waited for longer than `window` at tick `now`. */
void tidei_earlies_next_slice(struct tidei_earlies *earlies, uint64_t now, uint64_t window);

#endif
