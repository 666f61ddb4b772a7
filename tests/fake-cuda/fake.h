/*
 * What the files of the fake CUDA driver share. It is for tests on machines without a GPU: "device" memory is host
 * memory, a stream is a host thread, a kernel is a C function. Where it and the real driver differ, it is wrong.
 *
 * One lock covers all of it, as coarse as the real driver's; every entry point takes it and every thread of a stream
 * gives it away while it works. Handles are never freed, so that one which is gone can be told.
 */
#ifndef TESTS_FAKE_CUDA_FAKE_H
#define TESTS_FAKE_CUDA_FAKE_H

#include "config.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fake-cuda/tracer.h"

#define FAKE_MOST_DEVICES 8
#define FAKE_MIB          ((uint64_t)1 << 20)
#define FAKE_EXPORT       __attribute__((visibility("default")))

/* A driver function, as known to cuGetProcAddress, to the failures that a test requests, and to CUPTI. */
struct fake_function {
    const char *name;   /* cuMemAlloc */
    const char *symbol; /* cuMemAlloc_v2 */
    int version;        /* the CUDA version that introduced this signature: 3020 */
    bool per_thread;    /* its default stream is the thread's: the symbol ends in _ptsz or _ptds */
    void (*address)(void);
    struct fake_function *next;
    int calls;  /* guarded by fake_lock */
    int wait_s; /* how long it waits, as for a lock of the driver's; atomic */
    int number; /* the tracer's number; 0 until it was asked for */
};

/* One call, on its caller's stack. Its events are sent to CUPTI after the lock is released. */
struct fake_call {
    struct fake_function *function;
    struct fake_call *outer;
    struct fake_event events[16];
    size_t event_count;
    const struct fake_tracer *tracer; /* NULL: not traced */
    struct fake_traced_call traced;
};

enum fake_need { FAKE_NEEDS_NOTHING, FAKE_NEEDS_INIT };

void fake_function_add(struct fake_function *function);
struct fake_function *fake_functions(void);
CUresult fake_call_begin(struct fake_call *call, struct fake_function *function, enum fake_need need);
CUresult fake_call_end(struct fake_call *call, CUresult result);

/* Whether the default stream of the call that runs on this thread is the thread's own. */
bool fake_call_is_per_thread(void);
/* Call a function of the program without the lock. */
void fake_call_outside(void (*function)(void *), void *argument);

/* Add an event of the call that runs on this thread for CUPTI. Events over the call's room are dropped. */
void fake_trace(const struct fake_event *event);

#define FAKE_TEXT_OF(name)     #name
#define FAKE_TEXT(name)        FAKE_TEXT_OF(name)
#define FAKE_GLUE_OF(one, two) one##two
#define FAKE_GLUE(one, two)    FAKE_GLUE_OF(one, two)

/*
 * The entry point `entry`, which came with CUDA `since`: it does what do_<entry> of the same file does. cuda.h makes
 * cuMemAlloc cuMemAlloc_v2 wherever it stands, but not where # or ## has it.
 */
#define FAKE_API(since, entry, parameters, arguments)                                                                  \
    FAKE_DEFINE(FAKE_NEEDS_INIT, false, since, #entry, entry, do_##entry, of_##entry, add_##entry, parameters,         \
                arguments)
#define FAKE_API_EARLY(since, entry, parameters, arguments)                                                            \
    FAKE_DEFINE(FAKE_NEEDS_NOTHING, false, since, #entry, entry, do_##entry, of_##entry, add_##entry, parameters,      \
                arguments)

/* The same with a stream in its parameters: <entry>_ptsz takes 0 for the thread's default stream. */
#define FAKE_API_STREAM(since, entry, parameters, arguments)                                                           \
    FAKE_DEFINE(FAKE_NEEDS_INIT, false, since, #entry, entry, do_##entry, of_##entry, add_##entry, parameters,         \
                arguments)                                                                                             \
    FAKE_PER_THREAD((since) < 7000 ? 7000 : (since), #entry, FAKE_GLUE(entry, _ptsz), do_##entry, of_ptsz_##entry,     \
                    add_ptsz_##entry, parameters, arguments)
/* The same for one that works on the default stream: <entry>_ptds works on the thread's. */
#define FAKE_API_DEFAULT_STREAM(since, entry, parameters, arguments)                                                   \
    FAKE_DEFINE(FAKE_NEEDS_INIT, false, since, #entry, entry, do_##entry, of_##entry, add_##entry, parameters,         \
                arguments)                                                                                             \
    FAKE_PER_THREAD((since) < 7000 ? 7000 : (since), #entry, FAKE_GLUE(entry, _ptds), do_##entry, of_ptds_##entry,     \
                    add_ptds_##entry, parameters, arguments)
#define FAKE_PER_THREAD(since, text, entry, work, function, add, parameters, arguments)                                \
    CUresult CUDAAPI entry parameters;                                                                                 \
    FAKE_DEFINE(FAKE_NEEDS_INIT, true, since, text, entry, work, function, add, parameters, arguments)

#define FAKE_DEFINE(need, own, since, text, entry, work, function, add, parameters, arguments)                         \
    static struct fake_function function = { .name = text,                                                             \
                                             .symbol = FAKE_TEXT(entry),                                               \
                                             .version = (since),                                                       \
                                             .per_thread = (own),                                                      \
                                             .address = (void (*)(void))(entry) };                                     \
    __attribute__((constructor)) static void add(void)                                                                 \
    {                                                                                                                  \
        fake_function_add(&(function));                                                                                \
    }                                                                                                                  \
    FAKE_EXPORT CUresult CUDAAPI entry parameters                                                                      \
    {                                                                                                                  \
        struct fake_call call;                                                                                         \
        CUresult result = fake_call_begin(&call, &(function), (need));                                                 \
                                                                                                                       \
        if (result == CUDA_SUCCESS)                                                                                    \
            result = work arguments;                                                                                   \
        return fake_call_end(&call, result);                                                                           \
    }

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_progress; /* a stream has progressed, or is to end */
extern __thread bool fake_in_stream; /* this is a stream's thread, in which no call is permitted */

/* A point in a stream: after its first `seq` operations. */
struct fake_point {
    CUstream stream;
    uint64_t seq;
};

/* What is known to be done before something: at most one point in each stream. */
struct fake_clock {
    struct fake_point *points;
    size_t count, capacity;
};

struct CUctx_st {
    struct CUctx_st *next;
    int device;
    unsigned int flags;
    unsigned int references; /* of a primary context */
    unsigned int users;      /* of one that is no primary context: cuCtxAttach */
    bool primary, alive;
    CUcontext home;   /* of a green context: the primary one, whose resources it uses; else NULL */
    uint32_t id;      /* as CUPTI counts contexts */
    CUstream legacy;  /* stream 0 */
    CUresult error;   /* of a kernel; it stays */
    unsigned peers;   /* a bit for each device that it may access */
    uint64_t streams; /* the number of streams created so far */
};

typedef void (*fake_work)(void *argument);

struct fake_operation {
    struct fake_operation *next;
    uint64_t seq;
    struct fake_clock waits;
    fake_work work; /* NULL: the operation only waits */
    size_t bytes;   /* of the argument */
    max_align_t argument[];
};

struct CUstream_st {
    struct CUstream_st *next;
    CUcontext context;
    unsigned int flags;
    int priority;
    uint64_t id;
    bool alive, started, legacy;
    CUgreenCtx green; /* NULL: none */
    struct fake_operation *first, **last;
    uint64_t submitted, done;
    struct fake_clock known;
    struct fake_capture *capture;
    uint64_t captured, joined; /* the number of captured operations, and how many of them another stream waits for */
};

struct CUevent_st {
    struct CUevent_st *next;
    CUcontext context;
    unsigned int flags;
    bool alive, recorded;
    struct fake_point point;
    struct fake_clock known;
    struct fake_capture *capture; /* the capture in which it was recorded, by that stream, after that many operations */
    CUstream captured_stream;
    uint64_t captured;
    uint64_t ns; /* when it was done; written by the stream's thread under fake_lock */
};

struct fake_device {
    struct CUctx_st *primary;
    CUmemoryPool default_pool, pool;
    uint64_t total_bytes, used_bytes;
    uint64_t others_bytes;               /* of other processes */
    uint64_t clear_ns, clear_ns_per_mib; /* when all is cleared that went back, and what that takes; 0: nothing */
    uint64_t clear_misses;               /* one of so many calls does not wait; 0: each waits */
    uint64_t clear_draws;
    unsigned int primary_flags;
};

/* The state of the whole driver. */
extern struct fake_state {
    bool initialized, gone;
    bool forked; /* this is a child of fork() of a process that had called cuInit */
    int device_count;
    int version;
    struct fake_device devices[FAKE_MOST_DEVICES];
    struct CUctx_st *contexts;
    struct CUstream_st *streams;
} fake;

bool fake_device_is(CUdevice device);
int fake_driver_version(void);
uint64_t fake_environment_bytes(const char *name, uint64_t otherwise);

/* Put the current context into *out. Returns its own error, that of a destroyed context, or that there is none. */
CUresult fake_context_current(CUcontext *out);
void fake_context_push(CUcontext context);
void fake_context_pop(void);
bool fake_context_is(CUcontext context);
/* The context on top of the thread's stack; that of a green context where that is current. NULL: none. */
CUcontext fake_context_top(void);
/* A handle for the use of the primary context through a green one, which holds a reference to it; and its end. */
CUresult fake_context_green(CUdevice device, CUcontext *out);
void fake_context_green_end(CUcontext context);
unsigned fake_context_depth(void);

/* The stream of a handle; 0, 1 and 2 are in the current context. */
CUresult fake_stream_find(CUstream handle, CUstream *out);
CUstream fake_stream_new(CUcontext context, unsigned int flags, int priority);
void fake_streams_end(CUcontext context);

/* The context of a green one; and the green one whose context it is, NULL where it is of none. */
CUcontext fake_green_context(CUgreenCtx green);
CUgreenCtx fake_green_of(CUcontext context);

/* Submit `work` with a copy of the argument to the stream; in a capture it runs when the graph is launched. */
CUresult fake_submit(CUstream stream, CUgraphNodeType type, fake_work work, const void *argument, size_t bytes);
/* Submit at once, also during a capture. */
CUresult fake_submit_now(CUstream stream, fake_work work, const void *argument, size_t bytes);
void fake_submit_wait(CUstream stream, const struct fake_clock *waits);
bool fake_point_is_done(struct fake_point point);
/* Whether work that is not done names an address from `start` up to `end` in its arguments. */
bool fake_work_names(uint64_t start, uint64_t end);
/* Whether everything that the stream gets from here on comes after the point. */
bool fake_stream_knows(CUstream stream, struct fake_point point);
void fake_stream_order_legacy(CUstream stream);
void fake_wait_point(struct fake_point point);
void fake_wait_context(CUcontext context);

void fake_clock_add(struct fake_clock *clock, struct fake_point point);
void fake_clock_merge(struct fake_clock *clock, const struct fake_clock *other);
void fake_clock_free(struct fake_clock *clock);

/* All events, destroyed ones included. */
CUevent fake_events(void);

#endif
