/* The clock by which commands wait and measure: CLOCK_MONOTONIC, in nanoseconds. */
#ifndef VIEWER_BASE_CLOCK_H
#define VIEWER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What a reading takes at least, about 15 to 45 ns: the least of the means of some batches. */
static inline double
clock_reading_ns(void)
{
    enum { CLOCK_BATCHES = 8, CLOCK_READINGS = 250 };
    int64_t least = INT64_MAX;

    for (int batch = 0; batch < CLOCK_BATCHES; batch++) {
        int64_t begin = clock_now_ns(), end = begin;

        for (int i = 0; i < CLOCK_READINGS; i++)
            end = clock_now_ns();
        least = end - begin < least ? end - begin : least;
    }
    return (double)least / CLOCK_READINGS;
}

/* A signal ends the sleep early. */
static inline void
clock_sleep_until(int64_t ns)
{
    struct timespec until = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

#endif
