/* A base for tests: it hands out addresses without memory, and checks each one that comes back. */
#include "upstream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UPSTREAM_FIRST_ADDRESS UINT64_C(0x100000000000)
#define UPSTREAM_BUCKETS       (sizeof(((struct upstream *)NULL)->live) / sizeof(struct upstream_block *))

struct upstream_block {
    struct upstream_block *next;
    void *pointer;
    void *memory; /* owned; NULL: no memory behind the address */
    size_t bytes;
    size_t alignment;
};

static struct upstream_block **
upstream_bucket(struct upstream *self, const void *pointer)
{
    return &self->live[((uintptr_t)pointer >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54 & (UPSTREAM_BUCKETS - 1)];
}

static void
upstream_delay(const struct upstream *self)
{
    if (self->delay_us != 0)
        usleep(self->delay_us);
}

/* Whether this call is the nth from now on, to which *nth counts down, or one of *more after it. */
static bool
upstream_fails(uint64_t *nth, uint64_t *more)
{
    if (*nth == 0 || --*nth != 0)
        return false;
    if (*more > 1) {
        --*more;
        *nth = 1;
    }
    return true;
}

static void *
upstream_address(struct upstream *self, size_t bytes, size_t alignment)
{
    if (self->chosen_count != 0) {
        self->chosen_count--;
        return *self->chosen++;
    }
    self->next_address = (self->next_address + alignment - 1) & ~((uint64_t)alignment - 1);
    self->next_address += bytes;
    return (void *)(uintptr_t)(self->next_address - bytes);
}

/* Back addresses with memory, if that is requested and no address is chosen. */
static void
upstream_place(struct upstream *self, struct upstream_block *block, size_t bytes, size_t alignment)
{
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;

    if (!self->memory || self->chosen_count != 0) {
        block->pointer = upstream_address(self, bytes, alignment);
        return;
    }
    block->memory = aligned_alloc(least, (bytes + least - 1) & ~(least - 1));
    if (block->memory == NULL)
        abort();
    block->pointer = block->memory;
}

/* The block for a request: the one freed last, if that is requested and fits, else a new one. */
static struct upstream_block *
upstream_block(struct upstream *self, size_t bytes, size_t alignment)
{
    struct upstream_block *block = self->freed;

    if (block != NULL) {
        self->freed = block->next;
        if (self->reuse && self->chosen_count == 0 && block->bytes == bytes && block->alignment == alignment)
            return block;
        free(block->memory);
        block->memory = NULL;
    } else {
        block = calloc(1, sizeof(*block));
        if (block == NULL)
            abort();
    }
    upstream_place(self, block, bytes, alignment);
    block->bytes = bytes;
    block->alignment = alignment;
    return block;
}

static enum tide_status
upstream_refuses(struct upstream *self, size_t bytes)
{
    uint64_t room = self->capacity_bytes != 0 ? self->capacity_bytes : UINT64_C(1) << 46;

    if (upstream_fails(&self->fail_allocate, &self->fail_allocate_count))
        return tide_error_set(self->fail_status != TIDE_OK ? self->fail_status : TIDE_ECAPACITY,
                              "upstream: told to fail");
    if (bytes > room || self->live_bytes > room - bytes)
        return tide_error_set(TIDE_ECAPACITY, "upstream: %zu bytes exceed its capacity", bytes);
    return TIDE_OK;
}

static enum tide_status
upstream_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct upstream *self = (struct upstream *)resource;
    enum tide_status status;

    *out = NULL;
    upstream_delay(self);
    pthread_mutex_lock(&self->lock);
    self->allocate_calls++;
    self->last_stream = stream;
    self->gone_named += self->gone != 0 && stream == self->gone;
    self->last_bytes = bytes;
    self->last_alignment = alignment;
    status = upstream_refuses(self, bytes);
    if (status == TIDE_OK && bytes != 0) {
        struct upstream_block *block = upstream_block(self, bytes, alignment);
        struct upstream_block **bucket = upstream_bucket(self, block->pointer);

        block->next = *bucket;
        *bucket = block;
        *out = block->pointer;
        self->live_count++;
        self->live_bytes += bytes;
        if (self->peak_bytes < self->live_bytes)
            self->peak_bytes = self->live_bytes;
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* Forget the block, if it is given back with its own size and alignment. */
static enum tide_status
upstream_forget(struct upstream *self, const void *pointer, size_t bytes, size_t alignment)
{
    struct upstream_block **link = upstream_bucket(self, pointer);
    struct upstream_block *block;

    while (*link != NULL && (*link)->pointer != pointer)
        link = &(*link)->next;
    block = *link;
    if (block == NULL || block->bytes != bytes || block->alignment != alignment) {
        self->wrong_frees++;
        return tide_error_set(block == NULL ? TIDE_EPOINTER : TIDE_EMISMATCH, "upstream: wrong free of %p", pointer);
    }
    *link = block->next;
    if (!self->reuse) {
        free(block->memory);
        block->memory = NULL;
    }
    block->next = self->freed;
    self->freed = block;
    self->live_count--;
    self->live_bytes -= bytes;
    return TIDE_OK;
}

static enum tide_status
upstream_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct upstream *self = (struct upstream *)resource;
    uint64_t no_more = 0;
    enum tide_status status = TIDE_OK;

    upstream_delay(self);
    pthread_mutex_lock(&self->lock);
    self->deallocate_calls++;
    self->last_stream = stream;
    self->gone_named += self->gone != 0 && stream == self->gone;
    self->last_bytes = bytes;
    self->last_alignment = alignment;
    if (upstream_fails(&self->fail_deallocate, &no_more))
        status = tide_error_set(TIDE_EDRIVER, "upstream: told to fail");
    else if (pointer != NULL || bytes != 0)
        status = upstream_forget(self, pointer, bytes, alignment);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static enum tide_status
upstream_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    struct upstream *self = (struct upstream *)resource;
    enum tide_status status = TIDE_OK;

    pthread_mutex_lock(&self->lock);
    self->order_calls++;
    self->order_all_calls += earlier == TIDE_STREAM_ALL;
    self->gone_named += self->gone != 0 && (earlier == self->gone || later == self->gone);
    self->last_earlier = earlier;
    self->last_later = later;
    if (earlier == TIDE_STREAM_ALL)
        status = self->order_all_status;
    pthread_mutex_unlock(&self->lock);
    return status == TIDE_OK ? TIDE_OK : tide_error_set(status, "upstream: told to fail");
}

static enum tide_status
upstream_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct upstream *self = (struct upstream *)resource;

    if (what == TIDE_QUERY_HOST_ACCESS && self->memory) {
        *out = 1;
        return TIDE_OK;
    }
    if (what == TIDE_QUERY_PAGE && self->page_bytes != 0) {
        *out = self->page_bytes;
        return TIDE_OK;
    }
    if (what == TIDE_QUERY_UNIT && self->unit_bytes != 0) {
        *out = self->unit_bytes;
        return TIDE_OK;
    }
    if (what == TIDE_QUERY_KEPT && self->told_bytes != 0) {
        *out = self->told_bytes;
        return TIDE_OK;
    }
    if (what != TIDE_QUERY_BYTES_USED && what != TIDE_QUERY_BYTES_RESERVED)
        return tide_base_query(resource, what, out);
    pthread_mutex_lock(&self->lock);
    *out = self->live_bytes + (what == TIDE_QUERY_BYTES_RESERVED ? self->kept_bytes : 0);
    pthread_mutex_unlock(&self->lock);
    return TIDE_OK;
}

static void
upstream_free_blocks(struct upstream_block *block)
{
    while (block != NULL) {
        struct upstream_block *next = block->next;

        free(block->memory);
        free(block);
        block = next;
    }
}

static enum tide_status
upstream_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    struct upstream *self = (struct upstream *)resource;

    pthread_mutex_lock(&self->lock);
    self->trim_calls++;
    self->last_keep_bytes = keep_bytes;
    pthread_mutex_unlock(&self->lock);
    return self->trim_status == TIDE_OK ? TIDE_OK : tide_error_set(self->trim_status, "upstream: told to fail");
}

static void
upstream_destroy(struct tide_resource *resource)
{
    struct upstream *self = (struct upstream *)resource;

    for (size_t i = 0; i < UPSTREAM_BUCKETS; i++)
        upstream_free_blocks(self->live[i]);
    upstream_free_blocks(self->freed);
    if (self->destroyed != NULL)
        *self->destroyed = true;
    pthread_mutex_destroy(&self->lock);
    tide_resource_fini(resource);
    free(self);
}

static const struct tide_resource_ops upstream_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "upstream",
    .allocate = upstream_allocate,
    .deallocate = upstream_deallocate,
    .order = upstream_order,
    .trim = upstream_trim,
    .query = upstream_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = upstream_destroy,
};

struct upstream *
upstream_create(void)
{
    struct upstream *self = calloc(1, sizeof(*self));

    if (self == NULL || tide_resource_init(&self->base, &upstream_ops, NULL) != TIDE_OK)
        abort();
    pthread_mutex_init(&self->lock, NULL);
    self->next_address = UPSTREAM_FIRST_ADDRESS;
    return self;
}
