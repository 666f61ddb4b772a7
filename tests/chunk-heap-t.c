/* Tests when a chunk heap is restless: when it exchanges more chunks than its requests pay for. */
#include "src/suballoc/chunk-heap-inner.h"
#include "tap.h"

#define CHUNKS     10
#define PAID_EACH  64   /* requests that pay for an exchange */
#define PAID_UNITS 1536 /* the same over units */

/* A heap of so many chunks over pages, over units, or over neither. */
static struct tidei_chunk_heap
heap_of(size_t chunks, uint64_t page_bytes, uint64_t unit_bytes)
{
    struct tidei_chunk_heap heap = { .unit_bytes = unit_bytes };

    heap.heap.chunk_count = chunks;
    heap.heap.range.page_bytes = page_bytes;
    return heap;
}

/* So many requests, then an exchange of so many chunks; whether the heap is restless. */
static bool
exchange(struct tidei_chunk_heap *heap, uint64_t requests, uint64_t chunks)
{
    heap->requests += requests;
    tidei_chunk_heap_pay(heap, chunks);
    return heap->restless;
}

/* How many chunks make a calm heap restless, one after the other. */
static uint64_t
patience(struct tidei_chunk_heap heap)
{
    uint64_t count = 1;

    while (count < 10000 && !exchange(&heap, 0, 1))
        count++;
    return count;
}

int
main(void)
{
    struct tidei_chunk_heap heap = heap_of(CHUNKS, 4096, 0);

    plan(9);
    is_u64(patience(heap), 5 * CHUNKS / 4 + 1,
           "over pages a heap is restless once a quarter more chunks moved than it has");
    is_u64(patience(heap_of(CHUNKS, 0, 4096)), CHUNKS / 4 + 1,
           "over units a heap is restless once more than a quarter of its chunks were exchanged");
    is_u64(patience(heap_of(CHUNKS, 0, 0)), 32 * CHUNKS + 1,
           "over other bases 32 times as many are exchanged, where the chunks are few");
    is_u64(patience(heap_of(25, 0, 0)), 10000, "over other bases any number, where there are more than 24 chunks");

    exchange(&heap, 1000 * PAID_EACH, 0);
    ok(exchange(&heap, 0, 5 * CHUNKS / 4 + 1), "what requests of a calm heap paid too much does not count later");
    ok(exchange(&heap, 7 * PAID_EACH, 2), "a restless heap is restless while little more is paid than moves");
    exchange(&heap, 5 * PAID_EACH, 2);
    ok(!exchange(&heap, 5 * PAID_EACH, 2), "what is paid beyond the moves adds up, until the heap is calm again");
    heap = heap_of(CHUNKS, 0, 4096);
    exchange(&heap, 0, CHUNKS + 1);
    ok(all_of(exchange(&heap, (CHUNKS + 1) * PAID_EACH, 0), !exchange(&heap, (CHUNKS + 1) * PAID_UNITS, 0)),
       "over units it takes more requests to pay for an exchange");
    heap.restless = true;
    heap.unit_bytes = 0;
    heap.heap.range.page_bytes = 0;
    heap.heap.chunk_count = 25;
    ok(!exchange(&heap, 0, 1), "a heap over other bases is calm again once it has more than 24 chunks");
    return done();
}
