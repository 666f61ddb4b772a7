/* Places blocks of whole pages in one range of addresses; see sim-pages.h. */
#include "src/bases/sim-pages.h"

#include <stdlib.h>
#include <string.h>

#include "src/bases/sim-search.h"
#include "src/resource/place.h"
#include "src/tables/grow.h"

/* Addresses end below 2^63, since traces hold signed integers. */
#define PAGES_END (UINT64_C(1) << 63)
/* Freed blocks are cleared away once they are this many and half of all. */
#define PAGES_FREED_LEAST 64

void
tidei_sim_pages_init(struct tidei_sim_pages *pages, uint64_t begin, uint64_t page_bytes, struct tidei_sim_tally *tally)
{
    *pages = (struct tidei_sim_pages){ .begin = begin, .top = begin, .page_bytes = page_bytes };
    pages->handles = (struct tidei_sim_handles){ .unused = TIDEI_SIM_NO_HANDLE, .tally = tally };
    tidei_lock_init(&pages->lock);
}

void
tidei_sim_pages_fini(struct tidei_sim_pages *pages)
{
    free(pages->blocks);
    tidei_sim_handles_fini(&pages->handles);
    tidei_lock_fini(&pages->lock);
}

/* The first block at or behind the address. */
static size_t
pages_at(const struct tidei_sim_pages *pages, uint64_t address)
{
    return pages->count != 0 ? TIDEI_SIM_SEARCH(pages->blocks, pages->count, address) : 0;
}

/* Whether no live block lies in the `bytes` bytes at `address`. */
static bool
pages_are_free(const struct tidei_sim_pages *pages, uint64_t address, uint64_t bytes)
{
    size_t next = pages_at(pages, address), before = next;

    while (next < pages->count && pages->blocks[next].word == 0)
        next++;
    if (next < pages->count && pages->blocks[next].address - address < bytes)
        return false;
    while (before > 0 && pages->blocks[before - 1].word == 0)
        before--;
    return before == 0 || address - pages->blocks[before - 1].address >= pages->blocks[before - 1].bytes;
}

/* Whether a block may lie where its thread wishes it. */
static bool
pages_grant(const struct tidei_sim_pages *pages, uint64_t wish, uint64_t bytes, uint64_t alignment)
{
    return wish >= pages->begin && wish < PAGES_END && bytes <= PAGES_END - wish && wish % pages->page_bytes == 0 &&
           wish % alignment == 0 && pages_are_free(pages, wish, bytes);
}

/* Enter a block, for which there is room, in the order of addresses; it replaces a freed one beside it. */
static void
pages_insert(struct tidei_sim_pages *pages, struct tidei_sim_block block)
{
    size_t i = pages_at(pages, block.address);

    if (i > 0 && (i == pages->count || pages->blocks[i].word != 0) && pages->blocks[i - 1].word == 0)
        i--;
    if (i < pages->count && pages->blocks[i].word == 0) {
        pages->freed--;
    } else {
        memmove(&pages->blocks[i + 1], &pages->blocks[i], (pages->count - i) * sizeof(block));
        pages->count++;
    }
    pages->blocks[i] = block;
}

enum tide_status
tidei_sim_pages_take(struct tidei_sim_pages *pages, uint64_t bytes, uint64_t alignment, uint64_t word,
                     tide_stream stream, void **out)
{
    struct tidei_sim_handles_request request = { .bytes = bytes, .stream = stream };
    uint64_t wish = tidei_place_take(), address;
    enum tide_status status = TIDE_OK;
    uint32_t handle;

    tidei_lock_acquire(&pages->lock);
    if (alignment < pages->page_bytes)
        alignment = pages->page_bytes;
    address = (pages->top + alignment - 1) & ~(alignment - 1);
    request.wished = pages_grant(pages, wish, bytes, alignment);
    if (request.wished)
        address = wish;
    request.address = address;
    if (address >= PAGES_END || bytes > PAGES_END - address)
        status = tide_error_set(TIDE_ECAPACITY, "sim: no room for %s behind the highest of its addresses",
                                tidei_size_text(bytes));
    else if (!tidei_grow(&pages->blocks, &pages->capacity, pages->count, 1) ||
             !tidei_sim_handles_take(&pages->handles, &request, &handle))
        status = tide_error_set(TIDE_ENOMEM, "sim: no memory to note %zu requests", pages->count + 1);
    if (status == TIDE_OK) {
        pages_insert(pages, (struct tidei_sim_block){ address, bytes, word, handle });
        if (pages->top < address + bytes)
            pages->top = address + bytes;
        *out = (void *)(uintptr_t)address;
    }
    tidei_lock_release(&pages->lock);
    return status;
}

/* Clear freed blocks away where they are many. */
static void
pages_clear(struct tidei_sim_pages *pages)
{
    size_t kept = 0;

    if (pages->freed < PAGES_FREED_LEAST || pages->freed < pages->count / 2)
        return;
    for (size_t i = 0; i < pages->count; i++) {
        if (pages->blocks[i].word != 0)
            pages->blocks[kept++] = pages->blocks[i];
    }
    pages->count = kept;
    pages->freed = 0;
}

enum tide_status
tidei_sim_pages_give(struct tidei_sim_pages *pages, const void *pointer, uint64_t word, tide_stream stream)
{
    enum tide_status status = TIDE_EPOINTER;
    size_t i;

    tidei_lock_acquire(&pages->lock);
    i = pages_at(pages, (uintptr_t)pointer);
    if (i < pages->count && pages->blocks[i].address == (uintptr_t)pointer && pages->blocks[i].word != 0)
        status = pages->blocks[i].word == word ? TIDE_OK : TIDE_EMISMATCH;
    if (status == TIDE_OK) {
        struct tidei_sim_block *block = &pages->blocks[i];

        tidei_sim_handles_give(&pages->handles, block->address, block->bytes, stream, block->handle);
        block->word = 0;
        pages->freed++;
        pages_clear(pages);
    }
    tidei_lock_release(&pages->lock);
    return status;
}

void
tidei_sim_pages_trim(struct tidei_sim_pages *pages, uint64_t keep_bytes)
{
    tidei_lock_acquire(&pages->lock);
    tidei_sim_handles_trim(&pages->handles, keep_bytes);
    tidei_lock_release(&pages->lock);
}
