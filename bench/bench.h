/* What benchmarks share: threads that start together, medians, and results as a table and as JSON. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t bench_now_ns(void);

/* The median; sorts `values`. */
double bench_median(double *values, size_t count);

/*
 * Have `threads` threads run `round` at the same moment, `rounds` times, with `pause_ns` between two rounds. `round`
 * returns the nanoseconds that it took, or a negative number to leave the round out. The result is the median over
 * all threads and rounds.
 */
double bench_threads(unsigned threads, unsigned rounds, uint64_t pause_ns,
                     double (*round)(void *context, unsigned thread), void *context);

/* The processors that this process may run on. */
unsigned bench_processors(void);

/* Pin the calling thread to one processor, always the same for the same `thread`. Not for the process's main thread. */
void bench_pin(unsigned thread);

/*
 * The next number of threads to measure with: 1, 2, 4 and so on up to the processors and `most`, then 0. Pass 0 for the
 * first. If BENCH_THREADS is a number, only that number is measured, limited to `most`.
 */
unsigned bench_next_threads(unsigned before, unsigned most);

/* Bytes of resident memory: the peak of all memory (anonymous and mapped files), and the current anonymous memory. */
uint64_t bench_peak_resident(void);
uint64_t bench_anonymous(void);

/*
 * Add a figure. `unit` is for example "ns/event"; `ratio` is the figure over `beside`, the floor of the same run. 0 and
 * NULL: none.
 */
void bench_report(const char *name, unsigned threads, double figure, const char *unit, double floor,
                  const char *beside);

/* Begin with the benchmark's name and the machine. End by writing all figures as JSON to `path` (NULL: no file). */
void bench_begin(const char *title);
void bench_end(const char *path);

/* Report why and end the process with status 1. */
_Noreturn void bench_fail(const char *what);

#endif
