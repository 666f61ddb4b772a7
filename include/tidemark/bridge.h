/*
 * The bridge: one set of fixed functions through which the memory of a framework comes from stacks, one for each
 * device.
 *
 * A framework such as PyTorch takes an allocator once, as the addresses of some functions, and keeps it for the life of
 * the process. The bridge stands behind such functions. The stacks behind it can be exchanged while blocks are
 * outstanding: each block goes back to the stack that it came from.
 *
 *     tide_bridge_use("log(step.db) | limit(8GiB) | pool | driver");
 *     tide_bridge_allocate(0, bytes, stream, &pointer);
 *     ...
 *     tide_bridge_end();                            // the trace is complete now
 *     tide_bridge_deallocate(pointer, stream);      // it still goes back to where it came from
 *
 * All functions may be called by any thread, also by one that has no context of CUDA, unless they say otherwise. A
 * device is a CUDA ordinal from 0 to 63. Frees are welcome at any time, also after exit() has begun. A signal
 * handler must not call any of them.
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
 * Have later allocations come from the stacks that `text` describes, one for each device, made when the device is first
 * used. The argument device= of each base whose text does not say it is the device; logs whose text does not say cupti=
 * do without CUPTI, which a profiler may want. NULL: the text of the environment variable TIDEMARK_STACK; where that is
 * not set, the text of tide_stack_default for the device. The same holds without any use.
 *
 * The text is checked now, as by tide_stack_check; what depends on the machine is found out with the first allocation.
 * Uses nest: tide_bridge_end ends the latest.
 *
 * A child of fork() makes its own stacks of the text where the parent had made none before. So that no trace is taken
 * from the parent, a path without %p gets -%p before its extension there.
 *
 * Errors: those of tide_stack_check, TIDE_ENOMEM. On failure nothing has changed. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_use(const char *text);

/*
 * End the latest use: later allocations come from the stacks that were in use before it. The traces that its logs
 * opened are complete when this returns (tide_log_end), unless logs of other stacks record there, too. Blocks that are
 * outstanding stay valid; they go back to their stack, unrecorded, which is released with the last of them.
 *
 * Waits for the calls of the bridge that are under way on other threads.
 *
 * Errors: TIDE_EINVAL (no use, or called by a layer within a call of the bridge). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_end(void);

/*
 * The stack that an allocation on `device` would come from now; it is made if it is the first. The caller releases it.
 * On failure *out is NULL.
 *
 * Errors: TIDE_EINVAL (NULL, device), and those of tide_stack_parse. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_stack(int device, struct tide_resource **out);

/*
 * Allocate `bytes` bytes of `device`, at a multiple of 256, to be used in the order of `stream`. 0 bytes succeed with
 * NULL and reach no stack. On failure *out is NULL.
 *
 * Errors: TIDE_EINVAL (NULL, device, TIDE_STREAM_ALL), TIDE_ELIMIT (tide_bridge_fraction), TIDE_EUNSUPPORTED (in a
 * child of fork(), where the stack is over a device), those of tide_bridge_stack, and those of tide_allocate.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_allocate(int device, size_t bytes, tide_stream stream, void **out);

/*
 * Free what the bridge gave out, after the work that was submitted to `stream` and to the streams that
 * tide_bridge_record_stream named. NULL is fine. While a CUDA graph is captured the block may go back later.
 *
 * Errors: TIDE_EPOINTER (not a block of the bridge), and those of tide_deallocate. On failure the block has not been
 * freed. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_deallocate(void *pointer, tide_stream stream);

/*
 * Note that `stream` uses a block of another stream. What is submitted to it before the block is freed is waited for
 * before the memory is used again.
 *
 * Errors: TIDE_EPOINTER (not a block of the bridge), TIDE_EINVAL (TIDE_STREAM_ALL), TIDE_ENOMEM. Since 0.1.
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
 * Find the block that `pointer` lies in. An address within a block takes a search through all of them. On failure *out
 * is zeros.
 *
 * Errors: TIDE_EPOINTER (in no block of the bridge), TIDE_EINVAL (NULL, struct_size). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_find(const void *pointer, struct tide_bridge_block *out);

/*
 * Have messages of the library (tide_message_sink_set) written into `descriptor`, borrowed until the next call: a line
 * each, with the number of its severity and a blank before the text. For programs of an interpreter: a sink of theirs
 * would need the lock of the interpreter, which a thread may hold that waits for the library. A descriptor that does
 * not block keeps the library from waiting for the reader; what it has no room for is dropped. -1: no more.
 *
 * It takes the place of a sink that was set, and a sink that is set later takes its place. Since 0.1.
 */
TIDE_EXPORT void tide_bridge_messages(int descriptor);

/* What one device has given out, over all uses: exact, and all but failures and reserved_bytes of one moment. */
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
 * Read the figures of a device. On failure they are zeros. A device that was not used has zeros.
 * Errors: TIDE_EINVAL (device, NULL, struct_size). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_read(int device, struct tide_bridge_figures *out);

/* Have the peak of tide_bridge_read begin anew, at what is outstanding. Errors: TIDE_EINVAL (device). Since 0.1. */
TIDE_EXPORT enum tide_status tide_bridge_reset_peak(int device);

/*
 * Push begins figures of a phase of the program, all threads included. Pop ends the latest phase and puts its figures
 * into *out, which may be NULL: how much it needed beyond what it began with, and how much it allocated. Phases nest,
 * and a reset does not touch them.
 *
 * Errors: TIDE_EINVAL (device, struct_size; pop without a push), TIDE_ENOMEM (push). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_push(int device);
TIDE_EXPORT enum tide_status tide_bridge_pop(int device, struct tide_bridge_figures *out);

/*
 * One line of tide_bridge_live: what is outstanding of what was allocated under the tag itself, without the tags nested
 * in it. `path` is the names of the nested tags, with '/' between them; "" is no tag. It is borrowed for the call. No
 * lock is held.
 */
typedef void (*tide_bridge_live_function)(void *context, const char *path, uint64_t bytes, uint64_t count);

/*
 * Call `function` for each tag under which blocks of the device are outstanding, the largest first. All lines are of
 * one moment.
 * Errors: TIDE_EINVAL (device, NULL), TIDE_ENOMEM. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_live(int device, tide_bridge_live_function function, void *context);

/*
 * Have all stacks of the device give back what they hold and have not handed out; nothing happens while a graph is
 * captured. Errors: TIDE_EINVAL (device), those of tide_trim. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_trim(int device);

/*
 * Refuse what would take the bytes outstanding past `share` of the device's memory (of the capacity of the stack, where
 * its memory lies on no device). 1: no limit. What is outstanding already counts; it stays.
 *
 * Errors: TIDE_EINVAL (device; share below 0, above 1 or no number), TIDE_EUNSUPPORTED (nobody knows the capacity), and
 * those of tide_bridge_stack. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_bridge_fraction(int device, double share);

/*
 * For PyTorch: the functions of a CUDAPluggableAllocator. A refusal raises an exception of the caller's language: of
 * PyTorch (a RuntimeError that begins with "CUDA out of memory.") where its library is loaded, else std::bad_alloc;
 * where there is no C++ either, NULL. So call tide_torch_alloc from code that catches, and tide_bridge_allocate from
 * all other. A free cannot fail; what goes wrong goes to the message sink. Since 0.1.
 */
TIDE_EXPORT void *tide_torch_alloc(size_t bytes, int device, void *stream);
TIDE_EXPORT void tide_torch_free(void *pointer, size_t bytes, int device, void *stream);
TIDE_EXPORT void tide_torch_init(int devices);
TIDE_EXPORT void tide_torch_reset(void); /* of what torch.cuda.empty_cache() is for: tide_bridge_trim of all devices */
TIDE_EXPORT void tide_torch_fraction(double share, int device);
TIDE_EXPORT void *tide_torch_base(void *pointer, size_t *bytes); /* `pointer` and 0 where it lies in no block */
TIDE_EXPORT void tide_torch_record_stream(void *pointer, void *stream);

/* The id of a pool, std::pair<unsigned long long, unsigned long long> in C++. Passed by value. */
struct tide_torch_pool {
    uint64_t a;
    uint64_t b;
};

/*
 * A CUDA graph is captured on `device` from begin to end, into the pool `id`. What is allocated meanwhile on a stream
 * that is being captured is real memory, which stays as it is until the pool is released as often as it was begun: the
 * graph may be launched again. Freed blocks serve later requests of the same pool and stream. `filter` is ignored.
 * Since 0.1.
 */
TIDE_EXPORT void tide_torch_begin(int device, struct tide_torch_pool id, void *filter);
TIDE_EXPORT void tide_torch_end(int device, struct tide_torch_pool id);
TIDE_EXPORT void tide_torch_release(int device, struct tide_torch_pool id);

/*
 * For a torch.cuda.MemPool: the functions from which PyTorch's own allocator gets its segments. A refusal is NULL,
 * which PyTorch turns into torch.OutOfMemoryError. Without a use and TIDEMARK_STACK the stack is the base `cuda` alone.
 * Since 0.1.
 */
TIDE_EXPORT void *tide_torch_segment_alloc(size_t bytes, int device, void *stream);
TIDE_EXPORT void tide_torch_segment_free(void *pointer, size_t bytes, int device, void *stream);

/*
 * For a cupy.cuda.CFunctionAllocator: memory of stream 0. `parameter` is ignored. A refusal raises std::bad_alloc,
 * which CuPy turns into MemoryError. Since 0.1.
 */
TIDE_EXPORT void *tide_cupy_malloc(void *parameter, size_t bytes, int device);
TIDE_EXPORT void tide_cupy_free(void *parameter, void *pointer, int device);

#ifdef __cplusplus
}
#endif
#endif
