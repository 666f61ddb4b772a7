/*
 * What a base `vmm` does with freed blocks: it takes them back as they are, or gives their handles other addresses.
 *
 * A block is freed in the order of a stream, and mappings begin and end at once. So a mapping ends only when the work
 * before the free is done. But a handle may be mapped at two addresses at a time. So the handles of a freed block are
 * mapped in a new place at once where the new block's work comes after that of the old one: on the same stream, or on a
 * stream that was made to wait. The old mapping is left, and ends later: the block is leaving.
 */
#include "src/bases/vmm/base.h"

#ifdef HAVE_CUDA_H

#include "src/tables/grow.h"

/* More handles than this for one block cost more than a new handle: 35 us each for mapping, access and unmapping. */
#define REUSE_FEW ((size_t)4)

/* How many streams with unfinished work a poll remembers. */
#define REUSE_QUEUES ((size_t)8)

/* The handle of the stream that each thread has for itself. */
#define REUSE_PER_THREAD ((tide_stream)2)

struct vmm_queue
tidei_vmm_queue(const struct vmm *self, tide_stream stream)
{
    const struct tidei_driver *cuda = self->device.cuda;
    struct vmm_queue queue = { .stream = stream };
    struct tidei_thread *thread;

    if (stream > REUSE_PER_THREAD) {
        if (cuda->stream_get_id == NULL ||
            TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->stream_get_id((CUstream)stream, &queue.id)) !=
                CUDA_SUCCESS)
            queue.id = 0;
        return queue;
    }
    if (cuda->stream_get_ctx == NULL || cuda->stream_get_ctx((CUstream)stream, &queue.context) != CUDA_SUCCESS)
        queue.context = self->device.context;
    thread = stream == REUSE_PER_THREAD ? tidei_thread_get() : NULL;
    queue.thread = thread != NULL ? thread->number : 0;
    return queue;
}

/* Without an object the thread cannot be told from others. */
static bool
queue_is(const struct vmm_queue *one, const struct vmm_queue *other)
{
    return one->stream == other->stream && one->id == other->id && one->context == other->context &&
           one->thread == other->thread && (one->stream != REUSE_PER_THREAD || one->thread != 0);
}

/* Lists and buckets. */

static struct vmm_list *
list_of(struct vmm *self, const struct vmm_block *block)
{
    return block->state == VMM_GOING ? &self->going : block->state == VMM_READY ? &self->ready : &self->leaving;
}

static void
list_add(struct vmm *self, struct vmm_block *block, enum vmm_state state)
{
    struct vmm_list *list;

    block->state = state;
    list = list_of(self, block);
    block->after = NULL;
    block->before = list->last;
    if (list->last != NULL)
        list->last->after = block;
    else
        list->first = block;
    list->last = block;
}

static void
list_remove(struct vmm *self, struct vmm_block *block)
{
    struct vmm_list *list = list_of(self, block);

    if (block->before != NULL)
        block->before->after = block->after;
    else
        list->first = block->after;
    if (block->after != NULL)
        block->after->before = block->before;
    else
        list->last = block->before;
}

/* Fibonacci hashing of the number of pages. */
static struct vmm_block **
bucket_of(struct vmm *self, uint64_t bytes)
{
    return &self->by_size[(bytes / self->page_bytes * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}

_Static_assert(VMM_BUCKETS == 256, "a bucket is chosen by 8 bits");

static void
bucket_add(struct vmm *self, struct vmm_block *block)
{
    struct vmm_block **bucket = bucket_of(self, block->bytes);

    block->whole = true;
    block->size_before = NULL;
    block->size_after = *bucket;
    if (*bucket != NULL)
        (*bucket)->size_before = block;
    *bucket = block;
}

static void
bucket_remove(struct vmm *self, struct vmm_block *block)
{
    if (!block->whole)
        return;
    block->whole = false;
    if (block->size_before != NULL)
        block->size_before->size_after = block->size_after;
    else
        *bucket_of(self, block->bytes) = block->size_after;
    if (block->size_after != NULL)
        block->size_after->size_before = block->size_before;
}

/* Blocks. */

struct vmm_block *
tidei_vmm_block_new(uint64_t bytes)
{
    struct vmm_block *block = calloc(1, sizeof(*block));

    if (block != NULL)
        block->bytes = bytes;
    return block;
}

void
tidei_vmm_block_destroy(struct vmm_block *block)
{
    free(block->pieces);
    free(block);
}

/* Tell the threads that wait for the event that no block has it any more. False where there are none. */
static bool
event_is_awaited(struct vmm *self, CUevent event)
{
    bool awaited = false;

    for (struct vmm_waiter *waiter = self->waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->event != event)
            continue;
        waiter->ended = true;
        awaited = true;
    }
    return awaited;
}

/* The last thread that waits for the event ends it, or nobody does and we do. */
static void
block_event_end(struct vmm *self, struct vmm_block *block)
{
    if (block->event != NULL && !event_is_awaited(self, block->event))
        tidei_device_mark_end(&self->device, block->event);
    block->event = NULL;
}

/*
 * End the mappings of a block that has no handles any more but the one of another process. Where the driver refuses, it
 * stays among the leaving.
 */
static bool
block_leave(struct vmm *self, struct vmm_block *block)
{
    if (tidei_vmm_unmap(self, block) != CUDA_SUCCESS || (block->imported && !tidei_vmm_imported_release(self, block)))
        return false;
    list_remove(self, block);
    tidei_vmm_space_remove(&self->space, block);
    tidei_vmm_block_destroy(block);
    return true;
}

void
tidei_vmm_block_leave(struct vmm *self, struct vmm_block *block)
{
    list_add(self, block, VMM_LEAVING);
    (void)block_leave(self, block);
}

/* Take the handles that a block which is ready still has into the cache, and end its mappings. */
static bool
block_retire(struct vmm *self, struct vmm_block *block)
{
    for (size_t i = 0; i < block->piece_count; i++) {
        if (!block->pieces[i].gone)
            tidei_vmm_cache_put(self, &block->pieces[i]);
        block->pieces[i].gone = true;
    }
    list_remove(self, block);
    bucket_remove(self, block);
    list_add(self, block, VMM_LEAVING);
    return block_leave(self, block);
}

/*
 * End the mappings of a block that is ready, and release its handles. Where the driver refuses to end one, others have
 * ended: the handles go to the cache, and the block is leaving.
 */
static CUresult
block_release(struct vmm *self, struct vmm_block *block, const char **function)
{
    CUresult result = tidei_vmm_unmap(self, block);

    *function = "cuMemUnmap";
    if (result != CUDA_SUCCESS) {
        (void)block_retire(self, block);
        return result;
    }
    *function = "cuMemRelease";
    for (size_t i = 0; i < block->piece_count; i++) {
        CUresult released = tidei_vmm_handle_release(self, &block->pieces[i]);

        if (released != CUDA_SUCCESS && result == CUDA_SUCCESS)
            result = released;
    }
    list_remove(self, block);
    bucket_remove(self, block);
    tidei_vmm_space_remove(&self->space, block);
    tidei_vmm_block_destroy(block);
    return result;
}

/* Whether the work before a block's free is done. It is as well where the context is gone, and the work with it. */
static bool
block_passed(struct vmm *self, struct vmm_block *block)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUresult result;

    if (block->event == NULL)
        return true;
    result = TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->event_query(block->event));
    block->stuck = block->stuck || result == CUDA_ERROR_CAPTURED_EVENT;
    return result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void
block_ready(struct vmm *self, struct vmm_block *block)
{
    block_event_end(self, block);
    list_remove(self, block);
    if (block->imported) {
        bucket_remove(self, block);
        tidei_vmm_block_leave(self, block);
        return;
    }
    list_add(self, block, VMM_READY);
    if (self->options.stress || !block->whole)
        (void)block_retire(self, block);
}

/* End the mappings of blocks that are leaving, where the work on them is done, of at most `most` that are asked. */
static void
poll_leaving(struct vmm *self, size_t most)
{
    struct vmm_block *next;
    size_t asked = 0;

    for (struct vmm_block *block = self->leaving.first; block != NULL && asked < most; block = next) {
        next = block->after;
        asked++;
        if (block_passed(self, block)) {
            block_event_end(self, block);
            (void)block_leave(self, block);
        }
    }
}

/* The queues of which a block was just asked in vain: later blocks of them are on their way, too. */
struct poll_queues {
    struct vmm_queue queues[REUSE_QUEUES];
    size_t count;
};

static bool
poll_is_waiting(const struct poll_queues *waiting, const struct vmm_queue *queue)
{
    for (size_t i = 0; i < waiting->count; i++) {
        if (queue_is(&waiting->queues[i], queue))
            return true;
    }
    return false;
}

void
tidei_vmm_poll(struct vmm *self, size_t most)
{
    struct poll_queues waiting = { .count = 0 };
    struct vmm_block *next;
    size_t asked = 0;

    for (struct vmm_block *block = self->going.first; block != NULL && asked < most; block = next) {
        next = block->after;
        if (block->stuck || poll_is_waiting(&waiting, &block->queue))
            continue;
        asked++;
        if (block_passed(self, block))
            block_ready(self, block);
        else if (!block->stuck && waiting.count < REUSE_QUEUES)
            waiting.queues[waiting.count++] = block->queue;
    }
    poll_leaving(self, most);
}

void
tidei_vmm_block_put(struct vmm *self, struct vmm_block *block, CUevent event)
{
    block->event = event;
    block->stuck = false;
    list_add(self, block, VMM_GOING);
    bucket_add(self, block);
    if (event == NULL)
        block_ready(self, block);
}

/* Take a freed block out, as it is, for a request. */
static void
block_keep(struct vmm *self, struct vmm_block *block)
{
    block_event_end(self, block);
    list_remove(self, block);
    bucket_remove(self, block);
    tidei_figure_add(&self->kept, 1);
}

/* A freed block of the size that serves the request as it is: of the same stream if there is one, else a ready one. */
static struct vmm_block *
block_find(struct vmm *self, const struct vmm_request *request)
{
    struct vmm_block *found = NULL;

    if (self->options.stress)
        return NULL;
    for (struct vmm_block *block = *bucket_of(self, request->bytes); block != NULL; block = block->size_after) {
        if (block->bytes != request->bytes || block->imported ||
            (request->wish != 0 && request->wish != block->address))
            continue;
        if (queue_is(&block->queue, &request->queue))
            return block;
        if (block->state == VMM_READY)
            found = block;
    }
    return found;
}

/* Addresses. */

/* Whether the wished addresses can be had: nothing is there, or blocks that are ready, whose mappings are ended. */
static bool
wish_clear(struct vmm *self, const struct vmm_request *request)
{
    struct vmm_block *block;
    bool inside;

    if (request->wish % self->page_bytes != 0)
        return false;
    for (;;) {
        block = tidei_vmm_space_overlap(&self->space, request->wish, request->bytes, &inside);
        if (!inside)
            return false;
        if (block == NULL)
            return true;
        if (block->state != VMM_READY || !block_retire(self, block))
            return false;
    }
}

enum tide_status
tidei_vmm_block_place(struct vmm *self, struct vmm_block *block, uintptr_t wish)
{
    enum tide_status status;

    block->address = wish != 0 ? wish : tidei_vmm_space_place(&self->space, block->bytes);
    if (block->address == 0) {
        status = tidei_vmm_range_add(self);
        if (status != TIDE_OK)
            return status;
        block->address = tidei_vmm_space_place(&self->space, block->bytes);
    }
    if (block->address != 0 && tidei_vmm_space_add(&self->space, block, wish != 0))
        return TIDE_OK;
    return tide_error_set(TIDE_ENOMEM, "vmm: no host memory to know a block by");
}

/* Plans: which handles a new block gets. */

enum plan_from { PLAN_READY, PLAN_SAME_QUEUE, PLAN_ANY_QUEUE };

static bool
plan_may(const struct vmm_block *block, const struct vmm_request *request, enum plan_from from)
{
    if (block->imported)
        return false;
    if (block->state == VMM_READY)
        return true;
    return !block->stuck &&
           (from == PLAN_ANY_QUEUE || (from == PLAN_SAME_QUEUE && queue_is(&block->queue, &request->queue)));
}

/* The largest whole block of the list that is not larger than `most_bytes`, of those that the request may have. */
static struct vmm_block *
plan_largest(const struct vmm_list *list, const struct vmm_request *request, enum plan_from from, uint64_t most_bytes)
{
    struct vmm_block *best = NULL;

    for (struct vmm_block *block = list->first; block != NULL; block = block->after) {
        if (block->bytes <= most_bytes && block->whole && !block->planned && plan_may(block, request, from) &&
            (best == NULL || block->bytes > best->bytes))
            best = block;
    }
    return best;
}

static struct vmm_piece *
plan_largest_of(struct vmm_block *block, uint64_t most_bytes)
{
    struct vmm_piece *best = NULL;

    for (size_t i = 0; i < block->piece_count; i++) {
        struct vmm_piece *piece = &block->pieces[i];

        if (!piece->gone && !piece->planned && piece->bytes <= most_bytes &&
            (best == NULL || piece->bytes > best->bytes))
            best = piece;
    }
    return best;
}

/* The largest handle of the list's blocks that is not larger, and its block. */
static struct vmm_piece *
plan_largest_piece(const struct vmm_list *list, const struct vmm_request *request, enum plan_from from,
                   uint64_t most_bytes, struct vmm_block **out)
{
    struct vmm_piece *best = NULL;

    for (struct vmm_block *block = list->first; block != NULL; block = block->after) {
        struct vmm_piece *piece = plan_may(block, request, from) ? plan_largest_of(block, most_bytes) : NULL;

        if (piece == NULL || (best != NULL && piece->bytes <= best->bytes))
            continue;
        best = piece;
        *out = block;
    }
    return best;
}

/* The index of the largest cached handle that is not larger; cache_count where there is none. */
static size_t
plan_cached(const struct vmm *self, uint64_t most_bytes)
{
    size_t best = self->cache_count;

    for (size_t i = 0; i < self->cache_count; i++) {
        if (self->cache[i].bytes <= most_bytes &&
            (best == self->cache_count || self->cache[i].bytes > self->cache[best].bytes))
            best = i;
    }
    return best;
}

struct vmm_plan {
    struct vmm_block *block; /* the new one; its pieces are the plan */
    size_t piece_capacity;
    uint64_t missing_bytes;
};

static bool
plan_room(struct vmm_plan *plan, size_t more)
{
    return tidei_grow(&plan->block->pieces, &plan->piece_capacity, plan->block->piece_count, more);
}

static void
plan_add(struct vmm_plan *plan, const struct vmm_piece *piece, bool own)
{
    struct vmm_block *block = plan->block;

    block->pieces[block->piece_count++] =
        (struct vmm_piece){ .handle = piece->handle, .bytes = piece->bytes, .own = own };
    plan->missing_bytes -= piece->bytes;
}

/* Note a block of which handles will be planned. False without host memory. */
static bool
plan_add_source(struct vmm *self, struct vmm_plan *plan, struct vmm_block *source, size_t more)
{
    if (!plan_room(plan, more) || !tidei_grow(&self->sources, &self->source_capacity, self->source_count, 1))
        return false;
    if (!source->planned)
        self->sources[self->source_count++] = source;
    source->planned = true;
    return true;
}

/* Plan all handles of a whole block. */
static bool
plan_add_block(struct vmm *self, struct vmm_plan *plan, struct vmm_block *source)
{
    if (!plan_add_source(self, plan, source, source->piece_count))
        return false;
    for (size_t i = 0; i < source->piece_count; i++) {
        source->pieces[i].planned = true;
        plan_add(plan, &source->pieces[i], false);
    }
    return true;
}

/* Give up a plan: what came from the cache goes there, as do handles that were created for it. */
static void
plan_undo(struct vmm *self, struct vmm_plan *plan)
{
    struct vmm_block *block = plan->block;

    for (size_t i = 0; i < block->piece_count; i++) {
        if (block->pieces[i].own)
            tidei_vmm_cache_put(self, &block->pieces[i]);
    }
    for (size_t i = 0; i < self->source_count; i++) {
        struct vmm_block *source = self->sources[i];

        for (size_t j = 0; j < source->piece_count; j++)
            source->pieces[j].planned = false;
        source->planned = false;
    }
    self->source_count = 0;
    block->piece_count = 0;
    plan->missing_bytes = block->bytes;
}

/* Plan blocks of the list, largest first, as long as they fit and there are at most `most` pieces. */
static void
plan_gather_blocks(struct vmm *self, struct vmm_plan *plan, const struct vmm_list *list,
                   const struct vmm_request *request, enum plan_from from, size_t most)
{
    while (plan->missing_bytes > 0 && plan->block->piece_count < most) {
        struct vmm_block *source = plan_largest(list, request, from, plan->missing_bytes);

        if (source == NULL || !plan_add_block(self, plan, source))
            return;
    }
}

/* Plan cached handles. */
static void
plan_gather_cached(struct vmm *self, struct vmm_plan *plan, size_t most)
{
    while (plan->missing_bytes > 0 && plan->block->piece_count < most && plan_room(plan, 1)) {
        size_t index = plan_cached(self, plan->missing_bytes);

        if (index == self->cache_count)
            return;
        plan_add(plan, &self->cache[index], true);
        self->cache[index] = self->cache[--self->cache_count];
    }
}

/* Plan one handle or block of exactly the size. */
static bool
plan_exactly(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request)
{
    size_t index = plan_cached(self, request->bytes);
    struct vmm_block *source = NULL;

    if (index < self->cache_count && self->cache[index].bytes == request->bytes) {
        plan_gather_cached(self, plan, 1);
        return plan->missing_bytes == 0;
    }
    for (enum plan_from from = PLAN_READY; from <= PLAN_SAME_QUEUE; from++) {
        source = plan_largest(from == PLAN_READY ? &self->ready : &self->going, request, from, request->bytes);
        if (source != NULL && source->bytes == request->bytes && plan_add_block(self, plan, source))
            return true;
    }
    return false;
}

/* Plan whole blocks and cached handles, up to `most` handles. */
static void
plan_gather(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request, size_t most)
{
    plan_gather_blocks(self, plan, &self->ready, request, PLAN_READY, most);
    plan_gather_cached(self, plan, most);
    plan_gather_blocks(self, plan, &self->going, request, PLAN_SAME_QUEUE, most);
}

/* Plan single handles of larger blocks that are ready, whose handles all go to the cache. */
static void
plan_gather_ready_pieces(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request)
{
    struct vmm_block *source;

    while (plan->missing_bytes > 0 &&
           plan_largest_piece(&self->ready, request, PLAN_READY, plan->missing_bytes, &source) != NULL) {
        (void)block_retire(self, source);
        plan_gather_cached(self, plan, SIZE_MAX);
    }
}

/* Plan blocks on their way, and then single handles of larger ones. */
static void
plan_gather_going(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request)
{
    for (enum plan_from from = PLAN_SAME_QUEUE; from <= PLAN_ANY_QUEUE; from++)
        plan_gather_blocks(self, plan, &self->going, request, from, SIZE_MAX);
    for (enum plan_from from = PLAN_SAME_QUEUE; from <= PLAN_ANY_QUEUE; from++) {
        struct vmm_block *source;
        struct vmm_piece *piece;

        while (plan->missing_bytes > 0 &&
               (piece = plan_largest_piece(&self->going, request, from, plan->missing_bytes, &source)) != NULL &&
               plan_add_source(self, plan, source, 1)) {
            piece->planned = true;
            plan_add(plan, piece, false);
        }
    }
}

/*
 * Plan without new memory, as far as that goes. Many small handles that are free cost as much to map as to release, and
 * one large new handle in their place costs less from then on. What is on its way cannot be released without a wait.
 */
static void
plan_gather_all(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request)
{
    plan_gather_blocks(self, plan, &self->ready, request, PLAN_READY, SIZE_MAX);
    plan_gather_cached(self, plan, SIZE_MAX);
    plan_gather_ready_pieces(self, plan, request);
    if (plan->block->piece_count > REUSE_FEW && !self->options.stress)
        plan_undo(self, plan);
    plan_gather_going(self, plan, request);
}

/*
 * The block on its way that was freed first, which can be waited for; NULL where there is none. One of which a part is
 * planned is taken where there is no other. Several threads may wait for one block, since it may have enough for all.
 */
static struct vmm_block *
plan_oldest(const struct vmm *self)
{
    struct vmm_block *partly = NULL;

    for (struct vmm_block *block = self->going.first; block != NULL; block = block->after) {
        if (block->stuck || block->imported)
            continue;
        if (!block->planned)
            return block;
        if (partly == NULL && plan_largest_of(block, UINT64_MAX) != NULL)
            partly = block;
    }
    return partly;
}

CUresult
tidei_vmm_shrink(struct vmm *self, uint64_t keep_bytes, const char **function)
{
    CUresult first = CUDA_SUCCESS;
    struct vmm_block *next;
    size_t cached;

    /* The device has the memory of a handle back when its last mapping ends. */
    poll_leaving(self, SIZE_MAX);
    *function = "cuMemRelease";
    cached = self->cache_count;
    while (cached > 0 && tidei_figure_get(&self->reserved) > keep_bytes) {
        struct vmm_piece piece = self->cache[--cached];
        CUresult result;

        self->cache[cached] = self->cache[--self->cache_count];
        result = tidei_vmm_handle_release(self, &piece);
        if (first == CUDA_SUCCESS)
            first = result;
    }
    for (struct vmm_block *block = self->ready.first; block != NULL && tidei_figure_get(&self->reserved) > keep_bytes;
         block = next) {
        const char *called;
        CUresult result;

        next = block->after;
        if (block->planned)
            continue;
        result = block_release(self, block, &called);
        if (first == CUDA_SUCCESS && result != CUDA_SUCCESS)
            *function = called;
        if (first == CUDA_SUCCESS)
            first = result;
    }
    return first;
}

/*
 * Create the handle that a plan misses. The base holds no more than was in use of late: first it releases free memory
 * of other sizes, and waits for blocks on their way. Without room on the device it releases all that is free.
 */
static CUresult
plan_create(struct vmm *self, struct vmm_plan *plan, uint64_t most_bytes, struct vmm_block **wait_for)
{
    struct vmm_piece piece;
    const char *function;
    CUresult result;

    *wait_for = NULL;
    if (!plan_room(plan, 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    (void)tidei_vmm_shrink(self, most_bytes - plan->missing_bytes, &function);
    if (tidei_figure_get(&self->reserved) > most_bytes - plan->missing_bytes) {
        *wait_for = plan_oldest(self);
        if (*wait_for != NULL)
            return CUDA_SUCCESS;
    }
    result = tidei_vmm_handle_create(self, plan->missing_bytes, &piece);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        (void)tidei_vmm_shrink(self, 0, &function);
        result = tidei_vmm_handle_create(self, plan->missing_bytes, &piece);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        *wait_for = plan_oldest(self);
    if (result != CUDA_SUCCESS)
        return *wait_for != NULL ? CUDA_SUCCESS : result;
    plan_add(plan, &piece, true);
    return CUDA_SUCCESS;
}

/* Choose the handles of a new block. */
static CUresult
plan_make(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request, struct vmm_block **wait_for)
{
    uint64_t in_use = self->mapped_bytes + request->bytes;
    uint64_t most_bytes = in_use > self->mapped_high_bytes ? in_use : self->mapped_high_bytes;
    bool within = tidei_figure_get(&self->reserved) + request->bytes <= most_bytes;

    *wait_for = NULL;
    if (plan_exactly(self, plan, request))
        return CUDA_SUCCESS;
    if (self->options.shareable)
        return plan_create(self, plan, most_bytes, wait_for);
    if (within && !self->options.stress) {
        plan_gather(self, plan, request, REUSE_FEW);
        if (plan->missing_bytes == 0 && plan->block->piece_count <= REUSE_FEW)
            return CUDA_SUCCESS;
        plan_undo(self, plan);
    } else {
        plan_gather_all(self, plan, request);
    }
    return plan->missing_bytes > 0 ? plan_create(self, plan, most_bytes, wait_for) : CUDA_SUCCESS;
}

/* Make the request's stream wait for the work of the planned blocks that were freed on other streams. */
static CUresult
plan_order(struct vmm *self, const struct vmm_request *request, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUresult result = CUDA_SUCCESS;

    *function = "cuStreamWaitEvent";
    for (size_t i = 0; i < self->source_count && result == CUDA_SUCCESS; i++) {
        const struct vmm_block *source = self->sources[i];

        if (source->state != VMM_GOING || queue_is(&source->queue, &request->queue))
            continue;
        result = TIDEI_DRIVER_CALL(cuda, self->device.context,
                                   cuda->stream_wait_event((CUstream)request->queue.stream, source->event, 0));
        tidei_figure_add(&self->orders, result == CUDA_SUCCESS);
    }
    return result;
}

/* The planned handles belong to the new block from here on. A block that has none left is leaving. */
static void
plan_commit_source(struct vmm *self, struct vmm_block *source)
{
    bool left = false;

    for (size_t i = 0; i < source->piece_count; i++) {
        struct vmm_piece *piece = &source->pieces[i];

        tidei_figure_add(&self->remapped, piece->planned);
        piece->gone = piece->gone || piece->planned;
        piece->planned = false;
        left = left || !piece->gone;
    }
    source->planned = false;
    bucket_remove(self, source);
    if (left)
        return;
    list_remove(self, source);
    list_add(self, source, VMM_LEAVING);
}

static void
plan_commit(struct vmm *self, struct vmm_plan *plan)
{
    for (size_t i = 0; i < self->source_count; i++)
        plan_commit_source(self, self->sources[i]);
    self->source_count = 0;
    for (size_t i = 0; i < plan->block->piece_count; i++)
        plan->block->pieces[i].own = false;
}

static enum tide_status
reuse_error(struct vmm *self, CUresult result, const char *function)
{
    enum tide_status status;
    uint64_t reserved = tidei_figure_get(&self->reserved);

    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return tidei_device_error(&self->device, result, function);
    status =
        tide_error_set(TIDE_ECAPACITY, "%s: CUDA_ERROR_OUT_OF_MEMORY (%s in live blocks, %s held beside them", function,
                       tidei_size_text(self->mapped_bytes), tidei_size_text(reserved - self->mapped_bytes));
    tidei_error_driver_set((int)result);
    return status;
}

/* Map the planned handles in a place of their own. */
static enum tide_status
plan_carry_out(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request)
{
    struct vmm_block *block = plan->block;
    const char *function;
    enum tide_status status;
    CUresult result = plan_order(self, request, &function);

    if (result != CUDA_SUCCESS)
        return reuse_error(self, result, function);
    status = tidei_vmm_block_place(self, block, request->wish);
    if (status != TIDE_OK)
        return status;
    result = tidei_vmm_map(self, block, &function);
    if (result == CUDA_SUCCESS) {
        plan_commit(self, plan);
        return TIDE_OK;
    }
    return reuse_error(self, result, function);
}

/*
 * After a failure the new block is undone. Where its mappings cannot be ended, it stays among the leaving, without
 * handles of its own.
 */
static void
plan_fail(struct vmm *self, struct vmm_plan *plan)
{
    struct vmm_block *block = plan->block;
    size_t pieces = block->piece_count;
    bool mapped = false;

    for (size_t i = 0; i < pieces; i++)
        mapped = mapped || block->pieces[i].mapped;
    plan_undo(self, plan);
    if (mapped) {
        block->piece_count = pieces;
        for (size_t i = 0; i < pieces; i++)
            block->pieces[i].gone = true;
        list_add(self, block, VMM_LEAVING);
        return;
    }
    if (block->address != 0 && tidei_vmm_space_find(&self->space, block->address) == block)
        tidei_vmm_space_remove(&self->space, block);
    tidei_vmm_block_destroy(block);
}

/* Whether the plan is one whole block of another stream, on its way: it is taken as it is, after an order. */
static bool
plan_keeps(const struct vmm *self, const struct vmm_plan *plan, const struct vmm_request *request)
{
    const struct vmm_block *source = self->source_count == 1 ? self->sources[0] : NULL;

    if (source == NULL || source->bytes != request->bytes || self->options.stress ||
        (request->wish != 0 && request->wish != source->address))
        return false;
    for (size_t i = 0; i < plan->block->piece_count; i++) {
        if (plan->block->pieces[i].own)
            return false;
    }
    return true;
}

static enum tide_status
plan_keep(struct vmm *self, struct vmm_plan *plan, const struct vmm_request *request, struct vmm_block **out)
{
    struct vmm_block *source = self->sources[0];
    const char *function;
    CUresult result = plan_order(self, request, &function);
    enum tide_status status = TIDE_OK;

    if (result != CUDA_SUCCESS)
        status = reuse_error(self, result, function);
    plan_fail(self, plan);
    if (status != TIDE_OK)
        return status;
    block_keep(self, source);
    *out = source;
    return TIDE_OK;
}

enum tide_status
tidei_vmm_block_take(struct vmm *self, const struct vmm_request *asked, struct vmm_block **out,
                     struct vmm_block **wait_for)
{
    struct vmm_request request = *asked;
    struct vmm_plan plan = { .missing_bytes = request.bytes };
    enum tide_status status;
    CUresult result;

    *wait_for = NULL;
    *out = block_find(self, &request);
    if (*out == NULL) {
        tidei_vmm_poll(self, SIZE_MAX);
        if (request.wish != 0 && !wish_clear(self, &request))
            request.wish = 0;
        *out = block_find(self, &request);
    }
    if (*out != NULL) {
        block_keep(self, *out);
        return TIDE_OK;
    }
    plan.block = tidei_vmm_block_new(request.bytes);
    if (plan.block == NULL)
        return tide_error_set(TIDE_ENOMEM, "vmm: no host memory to know a block by");
    result = plan_make(self, &plan, &request, wait_for);
    if (result == CUDA_SUCCESS && *wait_for == NULL && plan_keeps(self, &plan, &request))
        return plan_keep(self, &plan, &request, out);
    status = result != CUDA_SUCCESS ? reuse_error(self, result, "cuMemCreate") : TIDE_OK;
    if (status == TIDE_OK && *wait_for == NULL)
        status = plan_carry_out(self, &plan, &request);
    if (status != TIDE_OK || *wait_for != NULL)
        plan_fail(self, &plan);
    else
        *out = plan.block;
    return status;
}

enum tide_status
tidei_vmm_wait(struct vmm *self, struct vmm_block *block)
{
    const struct tidei_driver *cuda = self->device.cuda;
    struct vmm_waiter waiter = { .next = self->waiters, .event = block->event };
    struct vmm_waiter **link = &self->waiters;
    CUresult result;

    self->waiters = &waiter;
    tidei_figure_add(&self->waits, 1);
    tidei_lock_release(&self->lock);
    result = TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->event_synchronize(waiter.event));
    tidei_lock_acquire(&self->lock);
    while (*link != &waiter)
        link = &(*link)->next;
    *link = waiter.next;
    if (waiter.ended && !event_is_awaited(self, waiter.event))
        tidei_device_mark_end(&self->device, waiter.event);
    /* The block may be gone where its event has ended. */
    if (result == CUDA_SUCCESS || waiter.ended || block_passed(self, block) || block->stuck)
        return TIDE_OK;
    return tidei_device_error(&self->device, result, "cuEventSynchronize");
}

#endif
