/*
 * Labelled test points in race windows. They compile to nothing in the library. In the copy that tests link, and in the
 * library of a build with sanitizers (TIDEI_TEST_POINTS), a test sets a function that stops, kills or counts there.
 */
#ifndef TIDEI_SYNC_TESTPOINT_H
#define TIDEI_SYNC_TESTPOINT_H

#ifdef TIDEI_TEST_POINTS
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A variable that all files of a test program share. */
#define TIDEI_TEST_SHARED __attribute__((weak))

typedef void (*tidei_test_point_function)(const char *label);
TIDEI_TEST_SHARED _Atomic(tidei_test_point_function) tidei_test_point;

#define TIDEI_TEST_POINT(label)                                                                                        \
    do {                                                                                                               \
        tidei_test_point_function function_ = atomic_load_explicit(&tidei_test_point, memory_order_acquire);           \
        if (function_ != NULL)                                                                                         \
            function_(label);                                                                                          \
    } while (0)

/* Limits that a test may override; 0: no override. */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_patience_ns; /* how long an open record holds up all others */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_wait_ns;     /* how long a thread waits for room in its ring */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_busy_ns;     /* how long the writer waits for another process's lock */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_sample_ns;   /* sampling period of used and reserved bytes */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_device_ns;   /* sampling period of a device's free bytes */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_quiet_ns;    /* how long sampling continues after the last event */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_query_ns;    /* how long anybody waits for a query of the program's */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_await_ns;    /* how long a request waits for streams, src/suballoc */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_rings;       /* how many threads may record at once */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_slice;       /* records in the first transactions */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_fault;       /* not 0: a SIGBUS counts as a fault that lasts */
TIDEI_TEST_SHARED _Atomic uint64_t tidei_test_no_open_file_locks; /* 1: as a kernel that has none */

/* A file that stands for the kernel's with the name of its clock; NULL: no override. */
TIDEI_TEST_SHARED _Atomic(const char *) tidei_test_clocksource;

#define TIDEI_TEST_LIMIT(name, limit)                                                                                  \
    (atomic_load_explicit(&tidei_test_##name, memory_order_relaxed) != 0                                               \
         ? atomic_load_explicit(&tidei_test_##name, memory_order_relaxed)                                              \
         : (limit))

/* A clock that a test uses for ticks instead of CLOCK_MONOTONIC, such as a coarse one; NULL: no override. */
typedef uint64_t (*tidei_test_clock_function)(void);
TIDEI_TEST_SHARED _Atomic(tidei_test_clock_function) tidei_test_clock;
#else
#define TIDEI_TEST_POINT(label)       ((void)0)
#define TIDEI_TEST_LIMIT(name, limit) (limit)
#endif

#endif
