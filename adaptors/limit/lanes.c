/* Grants and leases in the file of a shared budget, and how leases are taken back. */
#include "adaptors/limit/file.h"
#include "src/sync/testpoint.h"

/* Requests with the lock before leases are granted again: doubled each time that they were taken back soon. */
#define LANES_PATIENCE_FIRST 8
#define LANES_PATIENCE_MOST  1024

uint64_t
tidei_limit_granted(const struct tidei_limit_slot *slot)
{
    uint64_t sum = 0;

    for (int i = 0; i < TIDEI_LIMIT_LANES; i++)
        sum += atomic_load_explicit(&slot->lanes[i].granted, memory_order_relaxed);
    return sum;
}

bool
tidei_limit_slot_is_used(const struct tidei_limit_slot *slot)
{
    return atomic_load_explicit(&slot->used, memory_order_relaxed) != 0;
}

/* What is granted to all processes. */
uint64_t
tidei_limit_sum(const struct tidei_limit_file *file)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < file->slots_end; i++) {
        if (tidei_limit_slot_is_used(&file->slots[i]))
            sum += tidei_limit_granted(&file->slots[i]);
    }
    return sum;
}

uint64_t
tidei_limit_room(const struct tidei_limit_file *file)
{
    uint64_t sum = tidei_limit_sum(file);

    return sum < file->limit_bytes ? file->limit_bytes - sum : 0;
}

static struct tidei_limit_lane *
lanes_lane_at(struct tidei_limit_file *file, uint32_t number)
{
    return &file->slots[number / TIDEI_LIMIT_LANES].lanes[number % TIDEI_LIMIT_LANES];
}

/* Sequentially consistent, as all stores here that a killed process leaves half done: they are made in this order. */
static void
lanes_close(struct tidei_limit_file *file)
{
    atomic_store(&file->closing, 1);
    for (uint32_t i = 0; i < file->slots_end * TIDEI_LIMIT_LANES; i++)
        atomic_fetch_or(&lanes_lane_at(file, i)->lease, TIDEI_LIMIT_CLOSED);
    TIDEI_TEST_POINT("shared.closed");
}

static void
lanes_reopen(struct tidei_limit_file *file)
{
    for (uint32_t i = 0; i < file->slots_end * TIDEI_LIMIT_LANES; i++)
        atomic_fetch_and(&lanes_lane_at(file, i)->lease, ~TIDEI_LIMIT_CLOSED);
    atomic_store(&file->closing, 0);
}

/* The second half of taking back a lease, which can be done again from its beginning. */
static void
lanes_finish_taking(struct tidei_limit_file *file)
{
    struct tidei_limit_lane *lane = lanes_lane_at(file, atomic_load(&file->taking) - 1);

    atomic_store(&lane->granted, atomic_load(&file->taking_granted));
    TIDEI_TEST_POINT("shared.taking");
    atomic_store(&lane->lease, TIDEI_LIMIT_CLOSED);
    atomic_store(&file->taking, 0);
}

/* Take back the lease of a closed lane. */
static void
lanes_take_lease(struct tidei_limit_file *file, uint32_t number)
{
    struct tidei_limit_lane *lane = lanes_lane_at(file, number);
    uint64_t lease = atomic_load(&lane->lease) & ~TIDEI_LIMIT_CLOSED;

    if (lease == 0)
        return;
    atomic_store(&file->taking_granted, atomic_load(&lane->granted) - lease);
    atomic_store(&file->taking, number + 1);
    TIDEI_TEST_POINT("shared.taken");
    lanes_finish_taking(file);
}

/* A program that frees more than it has must not make room for others. */
static void
lanes_keep_positive(struct tidei_limit_slot *slot)
{
    uint64_t sum = tidei_limit_granted(slot);

    if ((int64_t)sum < 0)
        atomic_fetch_sub(&slot->lanes[0].granted, sum);
}

/* Take back the leases of all processes, all at one moment. Afterwards the grants are what is outstanding. */
void
tidei_limit_recall(struct tidei_limit_file *file)
{
    lanes_close(file);
    for (uint32_t i = 0; i < file->slots_end; i++) {
        if (!tidei_limit_slot_is_used(&file->slots[i]))
            continue;
        for (uint32_t j = 0; j < TIDEI_LIMIT_LANES; j++)
            lanes_take_lease(file, i * TIDEI_LIMIT_LANES + j);
        lanes_keep_positive(&file->slots[i]);
    }
    lanes_reopen(file);
    if (file->served >= 4 * file->patience)
        file->patience /= 2;
    else if (file->patience < LANES_PATIENCE_MOST)
        file->patience = file->patience == 0 ? LANES_PATIENCE_FIRST : 2 * file->patience;
    file->served = 0;
}

/* What is granted, less the leases; those of closed lanes only where `closed` says so. */
static uint64_t
lanes_outstanding(const struct tidei_limit_slot *slot, bool closed)
{
    uint64_t sum = tidei_limit_granted(slot);

    atomic_thread_fence(memory_order_acquire);
    for (int i = 0; i < TIDEI_LIMIT_LANES; i++) {
        uint64_t lease = atomic_load_explicit(&slot->lanes[i].lease, memory_order_relaxed);

        if (closed || (lease & TIDEI_LIMIT_CLOSED) == 0)
            sum -= lease & ~TIDEI_LIMIT_CLOSED;
    }
    return (int64_t)sum > 0 ? sum : 0;
}

uint64_t
tidei_limit_outstanding(const struct tidei_limit_slot *slot)
{
    return lanes_outstanding(slot, true);
}

uint64_t
tidei_limit_outstanding_most(const struct tidei_limit_slot *slot)
{
    return lanes_outstanding(slot, false);
}

void
tidei_limit_look(struct tidei_limit_file *file, uint32_t own, uint64_t *used_bytes, uint64_t *own_bytes)
{
    *used_bytes = 0;
    lanes_close(file);
    *own_bytes = tidei_limit_outstanding(&file->slots[own]);
    for (uint32_t i = 0; i < file->slots_end; i++) {
        if (tidei_limit_slot_is_used(&file->slots[i]))
            *used_bytes += tidei_limit_outstanding(&file->slots[i]);
    }
    lanes_reopen(file);
}

/* Complete what a process had begun that was killed with the lock. */
void
tidei_limit_repair(struct tidei_limit_file *file)
{
    if (atomic_load(&file->taking) != 0)
        lanes_finish_taking(file);
    if (atomic_load(&file->closing) != 0)
        lanes_reopen(file);
}
