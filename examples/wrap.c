/*
 * Wrap a program's own allocations in a stack that a user can change without building it anew:
 *
 *     ./wrap
 *     TIDEMARK_STACK='log(wrap.db) | statistics | limit(32MiB) | host' ./wrap
 */
#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#define LAYERS 12

/* What this program allocates all over the place; before Tidemark came in, these were two calls of the driver. */
struct buffer {
    void *data;
    size_t bytes;
};

static enum tide_status
buffer_make(struct buffer *buffer, struct tide_resource *memory, size_t bytes)
{
    buffer->bytes = bytes;
    return tide_allocate(memory, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &buffer->data);
}

static enum tide_status
buffer_drop(struct buffer *buffer, struct tide_resource *memory)
{
    return tide_deallocate(memory, buffer->data, buffer->bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

/* One pass through a small network. Each layer's output lives until the end of the pass. */
static enum tide_status
forward(struct tide_resource *memory, size_t batch)
{
    struct buffer outputs[LAYERS];
    enum tide_status status = TIDE_OK;
    size_t made = 0;

    while (made < LAYERS && status == TIDE_OK) {
        status = buffer_make(&outputs[made], memory, batch * (4096 << (made % 4)));
        made += status == TIDE_OK;
    }
    while (made > 0) {
        enum tide_status dropped = buffer_drop(&outputs[--made], memory);

        status = status == TIDE_OK ? dropped : status;
    }
    return status;
}

/* The layer called `name` on the way down from `top`; NULL if there is none. */
static struct tide_resource *
find_layer(struct tide_resource *top, const char *name)
{
    while (top != NULL && strcmp(tide_resource_name(top), name) != 0)
        top = top->upstream;
    return top;
}

int
main(void)
{
    struct tide_resource *memory;
    struct tide_resource *statistics;
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    char text[1024];
    int exit_status = 0;

    if (tide_stack_from_environment("statistics | limit(64MiB) | host", &memory) != TIDE_OK) {
        fprintf(stderr, "wrap: %s\n", tide_error_text());
        return 2;
    }
    if (tide_describe(memory, text, sizeof(text), NULL) == TIDE_OK)
        printf("memory comes from: %s\n", text);
    for (size_t batch = 16; batch <= 256; batch *= 2) {
        if (forward(memory, batch) != TIDE_OK) {
            printf("batch %zu does not fit: %s\n", batch, tide_error_text());
            exit_status = 1;
            break;
        }
        printf("batch %zu fits\n", batch);
    }
    statistics = find_layer(memory, "statistics");
    if (statistics != NULL && tide_statistics_read(statistics, &figures) == TIDE_OK)
        printf("peak: %lld bytes in %lld allocations\n", (long long)figures.bytes.peak, (long long)figures.count.peak);
    tide_resource_release(memory);
    return exit_status;
}
