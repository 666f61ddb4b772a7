/*
 * A resource of an application's own: `frame` hands out parts of one block, one behind the other, and begins again
 * once all of them have come back. Adaptors stack over it as over any base.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#define FRAME_BYTES     ((size_t)1 << 20)
#define FRAME_ALIGNMENT ((size_t)4096)

struct frame {
    struct tide_resource base; /* first: a pointer to it is a pointer to the frame */
    pthread_mutex_t lock;      /* over all below */
    char *block;               /* owns */
    size_t next_bytes;         /* offset of the next allocation */
    size_t used_bytes;
    size_t count;
};

static enum tide_status
frame_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct frame *frame = (struct frame *)self;
    enum tide_status status = TIDE_OK;
    size_t start;

    (void)stream; /* host memory has no streams */
    *out = NULL;
    if (alignment > FRAME_ALIGNMENT)
        return tide_error_set(TIDE_EINVAL, "frame: alignment %zu is over %zu bytes", alignment, FRAME_ALIGNMENT);
    pthread_mutex_lock(&frame->lock);
    start = (frame->next_bytes + alignment - 1) & ~(alignment - 1);
    if (start > FRAME_BYTES || bytes > FRAME_BYTES - start) {
        status = tide_error_set(TIDE_ECAPACITY, "frame: %zu bytes requested, %zu bytes left", bytes,
                                FRAME_BYTES - frame->next_bytes);
    } else {
        if (bytes != 0) {
            *out = frame->block + start;
            frame->next_bytes = start + bytes;
        }
        frame->used_bytes += bytes;
        frame->count++;
    }
    pthread_mutex_unlock(&frame->lock);
    return status;
}

static enum tide_status
frame_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct frame *frame = (struct frame *)self;

    (void)pointer, (void)alignment, (void)stream;
    pthread_mutex_lock(&frame->lock);
    frame->used_bytes -= bytes;
    if (--frame->count == 0)
        frame->next_bytes = 0;
    pthread_mutex_unlock(&frame->lock);
    return TIDE_OK;
}

static enum tide_status
frame_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct frame *frame = (struct frame *)self;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
        pthread_mutex_lock(&frame->lock);
        *out = frame->used_bytes;
        pthread_mutex_unlock(&frame->lock);
        return TIDE_OK;
    case TIDE_QUERY_BYTES_RESERVED:
    case TIDE_QUERY_CAPACITY:
        *out = FRAME_BYTES;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = 1;
        return TIDE_OK;
    default:
        return tide_base_query(self, what, out);
    }
}

static void
frame_destroy(struct tide_resource *self)
{
    struct frame *frame = (struct frame *)self;

    tide_resource_fini(self);
    pthread_mutex_destroy(&frame->lock);
    free(frame->block);
    free(frame);
}

/*
 * Every slot is filled. The library's functions for a base serve the operations that this resource does not implement.
 */
static const struct tide_resource_ops frame_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "frame",
    .allocate = frame_allocate,
    .deallocate = frame_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = frame_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = frame_destroy,
};

static enum tide_status
frame_create(struct tide_resource **out)
{
    struct frame *frame = calloc(1, sizeof(*frame));
    enum tide_status status;

    *out = NULL;
    if (frame == NULL || (frame->block = aligned_alloc(FRAME_ALIGNMENT, FRAME_BYTES)) == NULL) {
        free(frame);
        return tide_error_set(TIDE_ENOMEM, "frame: no memory for a block of %zu bytes", FRAME_BYTES);
    }
    pthread_mutex_init(&frame->lock, NULL);
    status = tide_resource_init(&frame->base, &frame_ops, NULL);
    if (status != TIDE_OK) {
        free(frame->block);
        free(frame);
        return status;
    }
    *out = &frame->base;
    return TIDE_OK;
}

int
main(void)
{
    struct tide_resource *frame = NULL;
    struct tide_resource *statistics = NULL;
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    void *small = NULL;
    void *large = NULL;
    int exit_status = 1;

    if (frame_create(&frame) != TIDE_OK || tide_statistics_create(frame, NULL, &statistics) != TIDE_OK)
        goto out;
    if (tide_allocate(statistics, 1000, TIDE_DEFAULT_ALIGNMENT, 0, &small) != TIDE_OK)
        goto out;
    if (tide_allocate(statistics, FRAME_BYTES, TIDE_DEFAULT_ALIGNMENT, 0, &large) != TIDE_ECAPACITY)
        goto out;
    printf("refused: %s\n", tide_error_text());
    if (tide_deallocate(statistics, small, 1000, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK)
        goto out;
    if (tide_allocate(statistics, FRAME_BYTES, TIDE_DEFAULT_ALIGNMENT, 0, &large) != TIDE_OK)
        goto out;
    if (tide_statistics_read(statistics, &figures) != TIDE_OK)
        goto out;
    printf("current %lld bytes, peak %lld bytes, %lld allocations\n", (long long)figures.bytes.current,
           (long long)figures.bytes.peak, (long long)figures.count.total);
    exit_status = tide_deallocate(statistics, large, FRAME_BYTES, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK;
out:
    if (exit_status != 0)
        fprintf(stderr, "own-resource: %s\n", tide_error_text());
    tide_resource_release(statistics);
    tide_resource_release(frame);
    return exit_status;
}
