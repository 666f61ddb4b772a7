/*
 * The bridge: a fixed set of functions through which a framework gets its memory from stacks, one stack for each
 * device.
 *
 * A framework such as PyTorch takes an allocator once, as the addresses of some functions, and keeps it for the life of
 * the process. The bridge implements such functions. The stacks behind it can be exchanged while blocks are
 * outstanding: each block goes back to the stack that it came from.
 *
 *     tide_bridge_use("log(step.db) | limit(8GiB) | pool | driver");
 *     tide_bridge_allocate(0, bytes, stream, &pointer);
 *     ...
 *     tide_bridge_end();                            // the trace is complete now
 *     tide_bridge_deallocate(pointer, stream);      // it still goes back to where it came from
 *
 * All functions may be called by any thread, also by one that has no context of CUDA. A device is a CUDA ordinal from 0
 * to 63. Blocks may be freed at any time, also after exit() has begun. A signal handler must not call any of these
 * functions.
 */
#ifndef TIDEMARK_BRIDGE_H
#define TIDEMARK_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>
#include <tidemark/sized.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* More devices than one machine has. */
#define TIDE_BRIDGE_DEVICES 64

/*
 * Have later allocations come from stacks that `text` describes. Each device gets a stack, which is made when the
 * device is first used. Bases whose text does not say device= get that device. Logs whose text does not say cupti= do
 * without CUPTI, since a profiler may want it. NULL: the text of the environment variable TIDEMARK_STACK; where that is
 * not set, the text of tide_stack_default for the device. The same stacks are used where nobody has called
 * tide_bridge_use.
 *
 * This function checks the text, as tide_stack_check does. Errors that depend on the machine come with the first
 * allocation. Uses nest: tide_bridge_end ends the latest one.
 *
 * A child of fork() makes its own stack from the text for a device for which the parent had made none. In the child, a
 * path without %p gets -%p before its extension, so that the child does not take the parent's trace.
 *
 * Errors: those of tide_stack_check, TIDE_ENOMEM. On failure nothing has changed.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_use(const char *text);

/*
 * End the latest use: later allocations come from the stacks that were in use before it. The traces that its logs
 * opened are complete when this returns (tide_log_end), unless logs of other stacks record there, too. Outstanding
 * blocks stay valid. Their frees go to their stack, unrecorded, and the last one releases the stack.
 *
 * Waits for the calls of the bridge that are under way on other threads.
 *
 * Errors: TIDE_EINVAL (no use, or called by a layer within a call of the bridge).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_end(void);

/*
 * Get the stack that an allocation on `device` would come from now. It is made now if the device has not been used yet.
 * The caller owns a reference, and releases it. On failure *out is NULL.
 *
 * Errors: TIDE_EINVAL (NULL, device), and those of tide_stack_parse.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_stack(int device, struct tide_resource **out);

/*
 * Allocate `bytes` bytes of `device`, at a multiple of 256 bytes, to be used in the order of `stream`. 0 bytes succeed
 * with NULL and reach no stack. On failure *out is NULL.
 *
 * Errors: TIDE_EINVAL (NULL, device, TIDE_STREAM_ALL), TIDE_ELIMIT (tide_bridge_fraction), TIDE_EUNSUPPORTED (in a
 * child of fork(), where the stack is over a device), those of tide_bridge_stack, and those of tide_allocate.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_allocate(int device, size_t bytes, tide_stream stream, void **out);

/*
 * Free what the bridge gave out, after the work that was submitted to `stream` and to the streams that
 * tide_bridge_record_stream named. NULL is allowed. While a CUDA graph is captured, the block may go back later.
 *
 * Errors: TIDE_EPOINTER (not a block of the bridge), and those of tide_deallocate. On failure the block has not been
 * freed.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_deallocate(void *pointer, tide_stream stream);

/*
 * Note that `stream` uses a block of another stream. The memory is used again only after all work that has been
 * submitted to `stream` when the block is freed.
 *
 * Errors: TIDE_EPOINTER (not a block of the bridge), TIDE_EINVAL (TIDE_STREAM_ALL), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_record_stream(void *pointer, tide_stream stream);

/* A block that is outstanding. */
struct tide_bridge_block {
    size_t struct_size;    /* TIDE_FIGURES */
    void *base;            /* where it begins */
    uint64_t bytes;        /* as requested */
    tide_stream stream;    /* of the allocation */
    uint64_t stream_count; /* other streams that tide_bridge_record_stream named */
    int device;
    uint32_t captured; /* 1: it belongs to the pool of a captured graph */
};

/*
 * Find the block that `pointer` lies in. For an address inside of a block, this searches all blocks. On failure *out is
 * zeros.
 *
 * Errors: TIDE_EPOINTER (in no block of the bridge), TIDE_EINVAL (NULL, struct_size).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_find(const void *pointer, struct tide_bridge_block *out);

/*
 * Have messages of the library (tide_message_sink_set) written into the file descriptor `descriptor`, borrowed until
 * the next call. Each message is a line: the number of its severity (enum tide_severity), a blank, and the text. This
 * is for programs of an interpreter: a sink of such a program would need the interpreter's lock, and a thread that
 * waits for the library may hold it. With a non-blocking descriptor the library never waits for the reader; a message
 * that does not fit is dropped. -1: write no more messages.
 *
 * This replaces a sink that was set before, and a sink that is set later replaces this one.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void tide_bridge_messages(int descriptor);

/*
 * What one device has given out, over all uses. All figures are exact, and except for failures and reserved_bytes they
 * are those of one moment.
 */
struct tide_bridge_figures {
    size_t struct_size;      /* TIDE_FIGURES */
    uint64_t live_bytes;     /* outstanding now, as requested */
    uint64_t peak_bytes;     /* the most that was outstanding: since the reset, or beyond begin_bytes since the push */
    uint64_t live_count;     /* number of blocks that are outstanding */
    uint64_t allocations;    /* number, since the begin or since the push */
    uint64_t frees;          /* likewise */
    uint64_t failures;       /* refused requests, likewise */
    uint64_t reserved_bytes; /* what all stacks of the device hold from outside, as far as they know it */
    uint64_t total_bytes;    /* the sum of all allocations, since the begin or since the push */
    uint64_t begin_bytes;    /* live_bytes at the push; 0 where there was none */
};

/*
 * Read the figures of a device. They are zeros on failure, and for a device that was not used.
 * Errors: TIDE_EINVAL (device, NULL, struct_size).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_read(int device, struct tide_bridge_figures *out);

/*
 * Reset the peak of tide_bridge_read to the bytes that are outstanding now. Errors: TIDE_EINVAL (device). Thread
 * safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_reset_peak(int device);

/*
 * Push begins a phase of the program and its figures, which count all threads. Pop ends the latest phase and puts its
 * figures into *out, which may be NULL: the peak above the bytes that were live at its begin, and how much it
 * allocated. Phases nest, and tide_bridge_reset_peak does not affect them. On failure *out is zeros.
 *
 * Errors: TIDE_EINVAL (device, struct_size; pop without a push), TIDE_ENOMEM (push).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_push(int device);
TIDE_EXPORT enum tide_status tide_bridge_pop(int device, struct tide_bridge_figures *out);

/*
 * One line of tide_bridge_live: the outstanding bytes and blocks that were allocated under the tag itself, without the
 * tags nested in it. `path` is the names of the tag and of those around it, the outermost first, with '/' between them;
 * "" is no tag. It is borrowed for the call. No lock is held.
 */
typedef void (*tide_bridge_live_function)(void *context, const char *path, uint64_t bytes, uint64_t count);

/*
 * Call `function` for each tag under which blocks of the device are outstanding, the largest first. All lines are those
 * of one moment.
 * Errors: TIDE_EINVAL (device, NULL), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_live(int device, tide_bridge_live_function function, void *context);

/*
 * Have all stacks of the device give back memory that they hold and have not handed out. While a graph is captured this
 * does nothing. Errors: TIDE_EINVAL (device), those of tide_trim.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_trim(int device);

/*
 * Refuse allocations that would take the outstanding bytes past `share` (from 0 to 1) of the device's memory, or of the
 * stack's capacity if its memory lies on no device. 1: no limit. Blocks that are outstanding already count, and stay
 * valid. Waits for the calls of the bridge that are under way on other threads.
 *
 * Errors: TIDE_EINVAL (device; share below 0, above 1 or no number), TIDE_EUNSUPPORTED (nobody knows the capacity), and
 * those of tide_bridge_stack.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_fraction(int device, double share);

/*
 * For PyTorch: the functions of a CUDAPluggableAllocator. tide_torch_alloc throws a C++ exception if it is refused:
 * where PyTorch's library is loaded, its own (in Python a RuntimeError that begins with "CUDA out of memory."), else
 * std::bad_alloc; without a C++ library it returns NULL. So call it only from code that catches exceptions, and call
 * tide_bridge_allocate elsewhere. The other functions do not throw: their errors go to the message sink.
 * tide_torch_init does nothing.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void *tide_torch_alloc(size_t bytes, int device, void *stream);
TIDE_EXPORT void tide_torch_free(void *pointer, size_t bytes, int device, void *stream);
TIDE_EXPORT void tide_torch_init(int devices);
TIDE_EXPORT void tide_torch_reset(void); /* for torch.cuda.empty_cache(): tide_bridge_trim of all devices */
TIDE_EXPORT void tide_torch_fraction(double share, int device);
TIDE_EXPORT void *tide_torch_base(void *pointer, size_t *bytes); /* `pointer` and 0 where it lies in no block */
TIDE_EXPORT void tide_torch_record_stream(void *pointer, void *stream);

/* The id of a pool, std::pair<unsigned long long, unsigned long long> in C++. Passed by value. */
struct tide_torch_pool {
    uint64_t a;
    uint64_t b;
};

/*
 * From tide_torch_begin to tide_torch_end a CUDA graph is captured on `device`, into the pool `id`. Allocations on a
 * captured stream meanwhile get real memory. It stays allocated until the pool has been released as often as it was
 * begun, because the graph may be launched again. Freed blocks serve later requests of the same pool and stream.
 * `filter` is ignored. Errors go to the message sink. Begin and end wait for the calls of the bridge that are under way
 * on other threads, and begin waits for the device, too.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void tide_torch_begin(int device, struct tide_torch_pool id, void *filter);
TIDE_EXPORT void tide_torch_end(int device, struct tide_torch_pool id);
TIDE_EXPORT void tide_torch_release(int device, struct tide_torch_pool id);

/*
 * For a torch.cuda.MemPool: the functions from which PyTorch's own allocator gets its segments. A refused request
 * returns NULL, which PyTorch turns into torch.OutOfMemoryError. Without a use and without TIDEMARK_STACK the stack is
 * the base `cuda` alone.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void *tide_torch_segment_alloc(size_t bytes, int device, void *stream);
TIDE_EXPORT void tide_torch_segment_free(void *pointer, size_t bytes, int device, void *stream);

/*
 * For a cupy.cuda.CFunctionAllocator: memory in the order of stream 0. `parameter` is ignored. A refused request throws
 * std::bad_alloc, which CuPy turns into MemoryError; without a C++ library it returns NULL.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void *tide_cupy_malloc(void *parameter, size_t bytes, int device);
TIDE_EXPORT void tide_cupy_free(void *parameter, void *pointer, int device);

#ifdef __cplusplus
}
#endif
#endif
