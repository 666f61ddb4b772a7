/* Cuts requests out of units of physical memory; see sim-units.h. */
#include "src/bases/sim-units.h"

#include <stdlib.h>
#include <string.h>

#include "src/bases/sim-search.h"
#include "src/tables/grow.h"

/* Addresses end below 2^63, since traces hold signed integers. */
#define UNITS_END (UINT64_C(1) << 63)

/* What small requests are rounded up to. */
#define UNITS_STEP UINT64_C(512)

/* Memory is added behind a piece that begins at a multiple of it. */
#define UNITS_PAGE (UINT64_C(2) << 20)

static uint64_t
units_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) & ~(step - 1);
}

void
tidei_sim_units_init(struct tidei_sim_units *units, uint64_t begin, struct tidei_sim_rules rules,
                     struct tidei_sim_tally *tally)
{
    *units = (struct tidei_sim_units){ .rules = rules, .end = begin, .cut_free = UINT64_MAX, .tally = tally };
    tidei_lock_init(&units->lock);
}

void
tidei_sim_units_fini(struct tidei_sim_units *units)
{
    tidei_map_free(&units->places);
    free(units->pieces);
    free(units->cuts);
    tidei_lock_fini(&units->lock);
}

/*
 * A pool of the driver has a release threshold of 0 unless it is given another: where the host waits for a stream, the
 * driver gives back what is free. It is reserved again as it is needed, so the most that is reserved stays the same,
 * and only the tally has it. All is under the lock.
 */
static uint64_t
units_free_bytes(const struct tidei_sim_units *units)
{
    return (tidei_figure_get(&units->reserved_bytes) - units->live_bytes) & ~(units->rules.unit_bytes - 1);
}

/* The host waits. */
static void
units_idle(struct tidei_sim_units *units)
{
    uint64_t free_bytes = units_free_bytes(units);

    if (!units->rules.keeps || free_bytes <= units->idle_bytes)
        return;
    tidei_sim_tally_return(units->tally, free_bytes - units->idle_bytes);
    units->idle_bytes = free_bytes;
}

/* A block was placed, for which units that had gone back are reserved again. */
static void
units_regrow(struct tidei_sim_units *units)
{
    uint64_t free_bytes = units_free_bytes(units);

    if (free_bytes >= units->idle_bytes)
        return;
    tidei_sim_tally_grow(units->tally, units->idle_bytes - free_bytes, 0);
    units->idle_bytes = free_bytes;
}

/* Under the lock: units come or go. */
static void
units_count(struct tidei_sim_units *units, uint64_t added, uint64_t removed)
{
    uint64_t reserved = tidei_figure_get(&units->reserved_bytes) + added - removed;
    uint64_t idle = removed < units->idle_bytes ? removed : units->idle_bytes;

    /* Relaxed: figures of their own, which order nothing. */
    atomic_store_explicit(&units->reserved_bytes, reserved, memory_order_relaxed);
    if (added > 0)
        tidei_sim_tally_grow(units->tally, added, reserved);
    units->idle_bytes -= idle;
    if (removed > idle)
        tidei_sim_tally_return(units->tally, removed - idle);
}

/* The first piece at or behind the address. */
static size_t
units_piece_at(const struct tidei_sim_units *units, uint64_t address)
{
    return units->piece_count != 0 ? TIDEI_SIM_SEARCH(units->pieces, units->piece_count, address) : 0;
}

/* Put `count` pieces, none of 0 bytes, in the place of the one at `i`, for which there is room. */
static void
units_replace(struct tidei_sim_units *units, size_t i, const struct tidei_sim_piece *by, size_t count)
{
    struct tidei_sim_piece *at = &units->pieces[i];

    memmove(at + count, at + 1, (units->piece_count - i - 1) * sizeof(*at));
    for (size_t k = 0; k < count; k++)
        at[k] = by[k];
    units->piece_count = units->piece_count - 1 + count;
}

/* Take [address, end) out of the piece at `i`, which has it. */
static void
units_cut(struct tidei_sim_units *units, size_t i, uint64_t address, uint64_t end)
{
    struct tidei_sim_piece piece = units->pieces[i], rest[2];
    size_t count = 0;

    if (address > piece.address)
        rest[count++] = (struct tidei_sim_piece){ piece.address, address - piece.address, piece.since };
    if (end < piece.address + piece.bytes)
        rest[count++] = (struct tidei_sim_piece){ end, piece.address + piece.bytes - end, piece.since };
    units_replace(units, i, rest, count);
}

/* A call: a new place in the ring of those of late. */
static struct tidei_sim_piece *
units_note(struct tidei_sim_units *units)
{
    struct tidei_sim_piece *late = &units->late[units->calls++ % TIDEI_SIM_LATE];

    if (units->passed + TIDEI_SIM_LATE < units->calls)
        units->passed = units->calls - TIDEI_SIM_LATE;
    *late = (struct tidei_sim_piece){ 0 };
    return late;
}

/* Whether the work that used the unit at `address` has passed. */
static bool
units_passed(const struct tidei_sim_units *units, uint64_t address)
{
    for (uint64_t call = units->passed; units->rules.keeps && call < units->calls; call++) {
        const struct tidei_sim_piece *late = &units->late[call % TIDEI_SIM_LATE];

        if (late->address < address + units->rules.unit_bytes && address < late->address + late->bytes)
            return false;
    }
    return true;
}

/*
 * Give back whole units of the piece at `i` whose work has passed, from its end on, `most` bytes of them at most: those
 * that lie side by side. Returns their bytes. There is room.
 */
static uint64_t
units_release(struct tidei_sim_units *units, size_t i, uint64_t most)
{
    uint64_t unit = units->rules.unit_bytes;
    uint64_t first = units_up(units->pieces[i].address, unit);
    uint64_t end = (units->pieces[i].address + units->pieces[i].bytes) & ~(unit - 1), begin;

    while (first < end && !units_passed(units, end - unit))
        end -= unit;
    for (begin = end; first < begin && end - begin + unit <= most && units_passed(units, begin - unit);)
        begin -= unit;
    if (first >= end || begin == end)
        return 0;
    units_cut(units, i, begin, end);
    units_count(units, 0, end - begin);
    return end - begin;
}

/* Room for two more pieces than there are. */
static bool
units_has_room(struct tidei_sim_units *units)
{
    return tidei_grow(&units->pieces, &units->piece_capacity, units->piece_count, 2);
}

/* Give back units of the first `count` pieces, of `bytes` or what makes them up in whole units. */
static void
units_give_back(struct tidei_sim_units *units, size_t count, uint64_t bytes)
{
    bytes = units_up(bytes, units->rules.unit_bytes);
    for (size_t i = count; i-- > 0 && bytes > 0;) {
        uint64_t address = units->pieces[i].address, released = 1;

        /* What is left in front of what goes back stays in the piece's place. */
        while (released != 0 && bytes > 0 && i < units->piece_count && units->pieces[i].address == address &&
               units_has_room(units)) {
            released = units_release(units, i, bytes);
            bytes -= released;
        }
    }
}

/* Under the lock, as the driver does where it would run out of memory, and when it is trimmed. */
static void
units_trim(struct tidei_sim_units *units, uint64_t keep_bytes)
{
    uint64_t reserved = tidei_figure_get(&units->reserved_bytes);

    if (reserved > keep_bytes)
        units_give_back(units, units->piece_count, reserved - keep_bytes);
}

void
tidei_sim_units_trim(struct tidei_sim_units *units, uint64_t keep_bytes)
{
    tidei_lock_acquire(&units->lock);
    tidei_figure_add(&units->tally->trims, 1);
    units_trim(units, keep_bytes);
    tidei_lock_release(&units->lock);
}

/* A wish that looks once finds the work done that went before the last such look. */
void
tidei_sim_units_await(struct tidei_sim_units *units, struct tidei_await *await)
{
    tidei_lock_acquire(&units->lock);
    if (await->count > 0)
        units_idle(units);
    await->waited = await->most_ns != 0 && units->passed < units->calls;
    if (await->most_ns != 0)
        units->looked = units->calls;
    if (units->passed < units->looked)
        units->passed = units->looked;
    units->looked = units->calls;
    await->vain = await->late = units->passed < units->calls;
    tidei_lock_release(&units->lock);
}

void
tidei_sim_units_pass(struct tidei_sim_units *units)
{
    tidei_lock_acquire(&units->lock);
    units_idle(units);
    units->passed = units->calls;
    tidei_lock_release(&units->lock);
}

/* The piece that a block is cut out of: the one that became free last, or the first one; or the number of pieces. */
static size_t
units_find(const struct tidei_sim_units *units, uint64_t bytes, uint64_t alignment)
{
    size_t found = units->piece_count;

    if (!units->rules.keeps && bytes >= units->rules.large_bytes)
        return found;
    for (size_t i = 0; i < units->piece_count; i++) {
        const struct tidei_sim_piece *piece = &units->pieces[i];

        if (piece->bytes < bytes || units_up(piece->address, alignment) - piece->address > piece->bytes - bytes)
            continue;
        if (!units->rules.keeps)
            return i;
        if (found == units->piece_count || piece->since > units->pieces[found].since)
            found = i;
    }
    return found;
}

/*
 * How much of the last piece a block that reaches beyond the end may use: nothing of what is still being used, or does
 * not begin at a page.
 */
static uint64_t
units_tail(const struct tidei_sim_units *units, uint64_t alignment)
{
    const struct tidei_sim_piece *last = units->pieces + units->piece_count - 1;
    uint64_t address;

    if (!units->rules.keeps || units->piece_count == 0 || last->address + last->bytes != units->end ||
        last->address % UNITS_PAGE != 0)
        return 0;
    for (address = last->address & ~(units->rules.unit_bytes - 1); address < units->end;
         address += units->rules.unit_bytes) {
        if (!units_passed(units, address))
            return 0;
    }
    address = units_up(last->address, alignment);
    return address < units->end ? units->end - address : 0;
}

/* Reserve what a block needs that no piece has room for. The last piece has it then. */
static enum tide_status
units_extend(struct tidei_sim_units *units, uint64_t bytes, uint64_t alignment, uint64_t capacity, uint64_t *missing)
{
    uint64_t unit = units->rules.unit_bytes;
    uint64_t tail = units_tail(units, alignment);
    uint64_t begin = tail > 0 ? units->end : units_up(units->end, alignment > unit ? alignment : unit);
    uint64_t need = units_up(bytes - tail, unit);

    if (units->rules.keeps)
        units_give_back(units, units->piece_count - (tail > 0), need);
    if (!units_has_room(units))
        return TIDE_ENOMEM;
    *missing = need;
    if (begin >= UNITS_END || need > UNITS_END - begin)
        return tide_error_set(TIDE_ENOMEM, "sim: no more addresses");
    if (need > capacity || tidei_figure_get(&units->reserved_bytes) > capacity - need)
        return TIDE_ECAPACITY;
    if (tail > 0)
        units->pieces[units->piece_count - 1].bytes += need;
    else
        units->pieces[units->piece_count++] = (struct tidei_sim_piece){ begin, need, units->calls };
    /* Units that are given back whole must not touch: a piece would hide where one ends. */
    units->end = begin + need + (units->rules.keeps ? 0 : unit);
    units_count(units, need, 0);
    return TIDE_OK;
}

/*
 * The same at the capacity: all work is waited for, and free units go back. Where the last one is among them, more is
 * missing than before.
 */
static enum tide_status
units_extend_again(struct tidei_sim_units *units, uint64_t bytes, uint64_t alignment, uint64_t capacity,
                   uint64_t *missing)
{
    enum tide_status status;
    uint64_t before;

    units->passed = units->calls;
    do {
        before = tidei_figure_get(&units->reserved_bytes);
        units_trim(units, capacity > *missing ? capacity - *missing : 0);
        if (!units_has_room(units))
            return TIDE_ENOMEM;
        status = units_extend(units, bytes, alignment, capacity, missing);
    } while (status == TIDE_ECAPACITY && tidei_figure_get(&units->reserved_bytes) < before);
    return status;
}

/* Enter a live block, for which there is room. */
static bool
units_enter(struct tidei_sim_units *units, uint64_t address, uint64_t bytes, uint64_t word)
{
    uint64_t entry = units->cut_free != UINT64_MAX ? units->cut_free : units->cut_count;

    if (entry >= UINT32_MAX || !tidei_map_add(&units->places, address, 0, (uint32_t)entry))
        return false;
    if (entry == units->cut_count)
        units->cut_count++;
    else
        units->cut_free = units->cuts[entry].bytes;
    units->cuts[entry] = (struct tidei_sim_cut){ address, bytes, word };
    return true;
}

/* tidei_sim_units_take under the lock, of rounded bytes. */
static enum tide_status
units_take(struct tidei_sim_units *units, uint64_t bytes, uint64_t alignment, uint64_t word, uint64_t capacity,
           uint64_t *missing, void **out)
{
    enum tide_status status = TIDE_OK;
    size_t i = units_find(units, bytes, alignment);
    uint64_t address;

    if (i == units->piece_count) {
        status = units_extend(units, bytes, alignment, capacity, missing);
        if (status == TIDE_ECAPACITY)
            status = units_extend_again(units, bytes, alignment, capacity, missing);
        i = units->piece_count - 1;
    }
    if (status != TIDE_OK)
        return status;
    address = units_up(units->pieces[i].address, alignment);
    if (!units_enter(units, address, bytes, word))
        return TIDE_ENOMEM;
    units_cut(units, i, address, address + bytes);
    units->live_bytes += bytes;
    units_regrow(units);
    *out = (void *)(uintptr_t)address;
    return TIDE_OK;
}

enum tide_status
tidei_sim_units_take(struct tidei_sim_units *units, uint64_t bytes, uint64_t alignment, uint64_t word,
                     uint64_t capacity_bytes, uint64_t *missing, void **out)
{
    enum tide_status status = TIDE_ENOMEM;

    bytes = units_up(bytes, bytes >= units->rules.large_bytes ? units->rules.large_step : UNITS_STEP);
    if (alignment < UNITS_STEP)
        alignment = UNITS_STEP;
    tidei_lock_acquire(&units->lock);
    units_note(units);
    if (units_has_room(units) && tidei_grow(&units->cuts, &units->cut_capacity, units->cut_count, 1))
        status = units_take(units, bytes, alignment, word, capacity_bytes, missing, out);
    if (status == TIDE_ENOMEM)
        tide_error_set(status, "sim: no memory to note %zu requests", units->cut_count + 1);
    tidei_lock_release(&units->lock);
    return status;
}

/* A block is free: it joins the pieces that it touches, or becomes one, for which there is room. */
static void
units_free(struct tidei_sim_units *units, uint64_t address, uint64_t bytes)
{
    size_t i = units_piece_at(units, address);
    struct tidei_sim_piece *piece = &units->pieces[i];

    memmove(piece + 1, piece, (units->piece_count - i) * sizeof(*piece));
    units->piece_count++;
    *piece = (struct tidei_sim_piece){ address, bytes, units->calls };
    if (i + 1 < units->piece_count && piece[1].address == address + bytes) {
        piece->bytes += piece[1].bytes;
        piece->since = piece[1].since;
        units_replace(units, i + 1, NULL, 0);
    }
    if (i > 0 && piece[-1].address + piece[-1].bytes == address) {
        piece[-1].bytes += piece->bytes;
        units_replace(units, i--, NULL, 0);
    }
    if (!units->rules.keeps)
        units_release(units, i, UINT64_MAX);
}

enum tide_status
tidei_sim_units_give(struct tidei_sim_units *units, const void *pointer, uint64_t word)
{
    enum tide_status status = TIDE_EPOINTER;
    struct tidei_sim_cut *cut;
    uint32_t *place, entry;

    tidei_lock_acquire(&units->lock);
    place = tidei_map_find(&units->places, (uintptr_t)pointer, 0);
    if (place != NULL) {
        entry = *place;
        cut = &units->cuts[entry];
        status = cut->word == word ? TIDE_OK : TIDE_EMISMATCH;
        if (status == TIDE_OK && !units_has_room(units))
            status = tide_error_set(TIDE_ENOMEM, "sim: no memory to free a block");
    }
    if (status == TIDE_OK) {
        tidei_map_take(&units->places, (uintptr_t)pointer, 0, &entry);
        *units_note(units) = (struct tidei_sim_piece){ .address = cut->address, .bytes = cut->bytes };
        units->live_bytes -= cut->bytes;
        units_free(units, cut->address, cut->bytes);
        *cut = (struct tidei_sim_cut){ .bytes = units->cut_free };
        units->cut_free = entry;
    }
    tidei_lock_release(&units->lock);
    return status;
}
