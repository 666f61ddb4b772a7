/* Cuts requests out of units of physical memory; see sim-units.h. */
#include "src/bases/sim-units.h"

#include "src/bases/sim-search.h"

#define UNITS_BYTES (UINT64_C(2) << 20)

/* Up to here requests share units, and are rounded up to the step. */
#define UNITS_SMALL (UINT64_C(1) << 20)
#define UNITS_STEP  UINT64_C(512)

void
tidei_sim_units_init(struct tidei_sim_units *units, uint64_t begin, struct tidei_sim_tally *tally)
{
    *units = (struct tidei_sim_units){ .end = begin, .tally = tally };
    tidei_lock_init(&units->lock);
}

void
tidei_sim_units_fini(struct tidei_sim_units *units)
{
    tidei_sim_lives_fini(&units->lives);
    tidei_sim_pieces_fini(&units->pieces);
    tidei_lock_fini(&units->lock);
}

/* The first piece in which a small block has room; or the number of pieces. */
static size_t
units_find(const struct tidei_sim_units *units, uint64_t bytes)
{
    size_t i = 0;

    while (i < units->pieces.count && units->pieces.items[i].bytes < bytes)
        i++;
    return i;
}

/* Take units of the device for a block. *i is the piece that they are. */
static enum tide_status
units_extend(struct tidei_sim_units *units, uint64_t bytes, uint64_t capacity, uint64_t *missing, size_t *i)
{
    uint64_t need = tidei_sim_up(bytes, UNITS_BYTES), reserved = tidei_figure_get(&units->reserved_bytes);

    *missing = need;
    if (units->end >= TIDEI_SIM_END || need > TIDEI_SIM_END - units->end)
        return tide_error_set(TIDE_ENOMEM, "sim: no more addresses");
    if (need > capacity || reserved > capacity - need)
        return TIDE_ECAPACITY;
    *i = tidei_sim_pieces_join(&units->pieces, units->end, need, 0);
    /* Units that are taken apart must not touch: a piece would hide where one ends. */
    units->end += need + UNITS_BYTES;
    tidei_figure_add(&units->reserved_bytes, need);
    tidei_sim_tally_grow(units->tally, need, reserved + need);
    return TIDE_OK;
}

/* tidei_sim_units_take under the lock, of rounded bytes. */
static enum tide_status
units_take(struct tidei_sim_units *units, uint64_t bytes, uint64_t word, uint64_t capacity, uint64_t *missing,
           void **out)
{
    size_t i = bytes <= UNITS_SMALL ? units_find(units, bytes) : units->pieces.count;
    enum tide_status status = TIDE_OK;
    uint64_t address;

    if (!tidei_sim_pieces_reserve(&units->pieces))
        return TIDE_ENOMEM;
    if (i == units->pieces.count)
        status = units_extend(units, bytes, capacity, missing, &i);
    if (status != TIDE_OK)
        return status;
    address = units->pieces.items[i].address;
    if (!tidei_sim_lives_add(&units->lives, address, bytes, word))
        return TIDE_ENOMEM;
    tidei_sim_pieces_cut(&units->pieces, i, address, address + bytes);
    *out = (void *)(uintptr_t)address;
    return TIDE_OK;
}

enum tide_status
tidei_sim_units_take(struct tidei_sim_units *units, uint64_t bytes, uint64_t word, uint64_t capacity_bytes,
                     uint64_t *missing, void **out)
{
    enum tide_status status;

    bytes = tidei_sim_up(bytes, bytes <= UNITS_SMALL ? UNITS_STEP : UNITS_BYTES);
    tidei_lock_acquire(&units->lock);
    status = units_take(units, bytes, word, capacity_bytes, missing, out);
    if (status == TIDE_ENOMEM)
        tide_error_set(status, "sim: no memory to note %zu requests", units->lives.count + 1);
    tidei_lock_release(&units->lock);
    return status;
}

/* A block is free, and so are the units that lie whole in the piece that it becomes. There is room. */
static void
units_free(struct tidei_sim_units *units, const struct tidei_sim_life *life)
{
    size_t i = tidei_sim_pieces_join(&units->pieces, life->address, life->bytes, 0);
    const struct tidei_sim_piece *piece = &units->pieces.items[i];
    uint64_t begin = tidei_sim_up(piece->address, UNITS_BYTES);
    uint64_t end = (piece->address + piece->bytes) & ~(UNITS_BYTES - 1);

    if (begin >= end)
        return;
    tidei_sim_pieces_cut(&units->pieces, i, begin, end);
    tidei_figure_add(&units->reserved_bytes, begin - end);
    tidei_sim_tally_return(units->tally, end - begin);
}

enum tide_status
tidei_sim_units_give(struct tidei_sim_units *units, const void *pointer, uint64_t word)
{
    struct tidei_sim_life life;
    enum tide_status status;

    tidei_lock_acquire(&units->lock);
    status = tidei_sim_lives_find(&units->lives, pointer, word, &life);
    if (status == TIDE_OK && !tidei_sim_pieces_reserve(&units->pieces))
        status = tide_error_set(TIDE_ENOMEM, "sim: no memory to free a block");
    if (status == TIDE_OK) {
        tidei_sim_lives_remove(&units->lives, &life);
        units_free(units, &life);
    }
    tidei_lock_release(&units->lock);
    return status;
}
