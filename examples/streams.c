/*
 * Shows which orders a program has to make if several streams use memory from a stack:
 *
 *     ./streams
 *
 * - Memory may be used on the stream of its allocation, from that point of the stream on. Another stream has to wait
 *   for that point first.
 * - Memory is freed in the order of the stream that deallocate names. All uses on other streams have to be ordered
 *   before that: either name the stream that uses the memory last, or make the named stream wait for the others.
 * - After the free the stack makes the orders: a later allocation of the memory, on any stream, is ordered behind the
 *   free.
 *
 * tide_order is one way to make a stream wait, and works on any stack. Events and synchronize work as well.
 */
#include <stdio.h>

#include <tidemark/tidemark.h>

#include "examples/cuda-calls.h"

#define WORDS ((size_t)1 << 20)
#define BYTES (WORDS * sizeof(uint32_t))

static struct cuda_calls cuda;

/* `maker` writes a buffer and `reader` reads it. It is allocated on the one and freed on the other. */
static enum tide_status
hand_over(struct tide_resource *memory, void *maker, void *reader, uint32_t *seen)
{
    void *buffer;
    enum tide_status status =
        tide_allocate(memory, BYTES, TIDE_DEFAULT_ALIGNMENT, (tide_stream)(uintptr_t)maker, &buffer);

    if (status != TIDE_OK)
        return status;
    cuda.memset_async((uint64_t)(uintptr_t)buffer, 7, WORDS, maker);

    /* The reader waits until the buffer is allocated and written. */
    status = tide_order(memory, (tide_stream)(uintptr_t)maker, (tide_stream)(uintptr_t)reader);
    cuda.copy_to_host_async(seen, (uint64_t)(uintptr_t)buffer, BYTES, reader);

    /* The reader is the last user, and already ordered behind the maker: no further order is needed. */
    if (status == TIDE_OK)
        return tide_deallocate(memory, buffer, BYTES, TIDE_DEFAULT_ALIGNMENT, (tide_stream)(uintptr_t)reader);
    (void)tide_deallocate(memory, buffer, BYTES, TIDE_DEFAULT_ALIGNMENT, (tide_stream)(uintptr_t)maker);
    return status;
}

/* The maker frees the buffer while the reader may still use it: the maker has to wait for the reader first. */
static enum tide_status
lend(struct tide_resource *memory, void *maker, void *reader, uint32_t *seen)
{
    void *buffer;
    enum tide_status status =
        tide_allocate(memory, BYTES, TIDE_DEFAULT_ALIGNMENT, (tide_stream)(uintptr_t)maker, &buffer);

    if (status != TIDE_OK)
        return status;
    cuda.memset_async((uint64_t)(uintptr_t)buffer, 8, WORDS, maker);
    status = tide_order(memory, (tide_stream)(uintptr_t)maker, (tide_stream)(uintptr_t)reader);
    cuda.copy_to_host_async(seen, (uint64_t)(uintptr_t)buffer, BYTES, reader);
    if (status == TIDE_OK)
        status = tide_order(memory, (tide_stream)(uintptr_t)reader, (tide_stream)(uintptr_t)maker);
    if (status == TIDE_OK)
        status = tide_deallocate(memory, buffer, BYTES, TIDE_DEFAULT_ALIGNMENT, (tide_stream)(uintptr_t)maker);
    return status;
}

static int
run(struct tide_resource *memory, uint32_t *seen)
{
    void *maker = NULL;
    void *reader = NULL;
    enum tide_status status;

    cuda.stream_create(&maker, CUDA_STREAM_NON_BLOCKING);
    cuda.stream_create(&reader, CUDA_STREAM_NON_BLOCKING);
    status = hand_over(memory, maker, reader, seen);
    cuda.stream_synchronize(reader);
    if (status == TIDE_OK)
        printf("handed over: the reader saw %u\n", seen[WORDS - 1]);
    if (status == TIDE_OK)
        status = lend(memory, maker, reader, seen);
    cuda.stream_synchronize(reader);
    if (status == TIDE_OK)
        printf("lent: the reader saw %u\n", seen[WORDS - 1]);
    else
        fprintf(stderr, "streams: %s\n", tide_error_text());

    /* Before streams are destroyed while the stack lives on, make sure that no layer names them again. */
    tide_order(memory, TIDE_STREAM_ALL, 0);
    cuda.stream_destroy(maker);
    cuda.stream_destroy(reader);
    return status == TIDE_OK ? 0 : 1;
}

int
main(void)
{
    struct tide_resource *memory;
    uint32_t *seen = malloc(BYTES);
    int result = 1;

    if (seen == NULL)
        return 1;
    if (!cuda_calls_open(&cuda)) {
        printf("streams: no GPU on this machine\n");
        free(seen);
        return 77; /* test harnesses take 77 as skipped */
    }
    if (tide_stack_from_environment("statistics | driver(release_threshold=all)", &memory) == TIDE_OK) {
        result = run(memory, seen);
        tide_resource_release(memory);
    } else {
        fprintf(stderr, "streams: %s\n", tide_error_text());
    }
    cuda.context_set(NULL);
    cuda.context_release(0);
    free(seen);
    return result;
}
