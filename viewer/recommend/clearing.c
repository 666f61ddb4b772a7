/* Keeps the time of a replay as it would be on the device, to see which growth waits. */
#include "config.h"

#include "viewer/recommend/clearing.h"

#define MIB (UINT64_C(1) << 20)

/* What an event takes beside its calls, about: five traces took 27 to 200 ns through pools. */
#define CLEARING_EVENT_NS 80

/* The share of a growth that comes behind its wait. What comes before is done while memory is cleared. */
#define CLEARING_BEHIND (1.0 / 3)

static double
clearing_now(const struct clearing *clearing)
{
    const struct replay_result *replay = clearing->replay;

    return clearing->calls_ns + CLEARING_EVENT_NS * (double)(replay->allocations + replay->frees);
}

/* A growth that costs `ns` without a wait begins. What it costs more. */
static double
clearing_wait(struct clearing *clearing, double ns)
{
    const struct cost *cost = &clearing->costs[COST_WAIT];
    double now = clearing_now(clearing), end, wait;

    if (clearing->end_ns <= now || cost->ns <= 0)
        return 0;
    clearing->begin_ns += (double)(uint64_t)((now - clearing->begin_ns) / cost->ns) * cost->ns;
    end = clearing->begin_ns + cost->ns;
    if (end > clearing->end_ns)
        end = clearing->end_ns;
    /* A pool of the driver waits once for what went back, and then grows; other calls wait each, and do all else. */
    wait = end - now - (clearing->base == COST_DRIVER ? 0 : (1 - CLEARING_BEHIND) * ns);
    if (clearing->base == COST_DRIVER)
        clearing->end_ns = 0;
    if (wait <= 0)
        return 0;
    clearing->begin_ns = end;
    clearing->waits.count++;
    clearing->waits.bytes += wait / cost->ns_per_mib * (double)MIB;
    return wait;
}

/* So much went back in a call that takes `ns`. A pool of the driver gives memory back piece by piece. */
static void
clearing_give(struct clearing *clearing, double mib, double ns)
{
    double begin = clearing_now(clearing) + (clearing->base == COST_DRIVER ? 0 : ns);

    if (clearing->end_ns <= begin)
        clearing->begin_ns = clearing->end_ns = begin;
    clearing->end_ns += mib * clearing->costs[COST_WAIT].ns_per_mib;
}

void
clearing_watch(void *context, enum tide_sim_event event, uint64_t amount)
{
    struct clearing *clearing = context;
    const struct cost *costs = clearing->costs;
    double mib = (double)amount / (double)MIB, ns = 0;

    switch (event) {
    case TIDE_SIM_ALLOCATES:
        ns = costs[COST_ALLOCATE].ns;
        break;
    case TIDE_SIM_FREES:
        ns = costs[COST_FREE].ns;
        break;
    case TIDE_SIM_GROWS:
        ns = costs[COST_GROW].ns + costs[COST_GROW].ns_per_mib * mib;
        /* `vmm` creates a handle, and waits as it maps it. */
        if (clearing->base != COST_VMM)
            ns += clearing_wait(clearing, ns);
        break;
    case TIDE_SIM_RETURNS:
        ns = costs[COST_RETURN].ns + costs[COST_RETURN].ns_per_mib * mib;
        clearing_give(clearing, mib, ns);
        break;
    case TIDE_SIM_MAPS:
        ns = costs[COST_MAP].ns * (double)amount;
        /* What a pool of the driver maps elsewhere it has. */
        if (clearing->base == COST_VMM)
            ns += clearing_wait(clearing, costs[COST_MAP].ns);
        break;
    case TIDE_SIM_UNMAPS:
        ns = costs[COST_UNMAP].ns * (double)amount;
        break;
    case TIDE_SIM_ENDS:
        break;
    }
    clearing->calls_ns += ns;
}
