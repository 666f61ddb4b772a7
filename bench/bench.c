/* What all benchmarks share. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench.h"

#define BENCH_MAX_FIGURES 256

static struct {
    char name[96];
    unsigned threads;
    double figure;
    const char *unit;
    double floor;
    const char *beside;
} figures[BENCH_MAX_FIGURES];
static size_t figure_count;
static const char *bench_title;
static char bench_processor[128];

uint64_t
bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int
bench_by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double
bench_median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(*values), bench_by_value);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct bench_thread {
    pthread_barrier_t *barrier;
    double (*round)(void *context, unsigned thread);
    void *context;
    unsigned index;
    unsigned rounds;
    uint64_t pause_ns;
    double *results;
};

static void *
bench_thread_main(void *argument)
{
    struct bench_thread *thread = argument;
    struct timespec pause = { (time_t)(thread->pause_ns / 1000000000u), (long)(thread->pause_ns % 1000000000u) };

    for (unsigned i = 0; i < thread->rounds; i++) {
        pthread_barrier_wait(thread->barrier);
        thread->results[i] = thread->round(thread->context, thread->index);
        pthread_barrier_wait(thread->barrier);
        if (thread->pause_ns != 0)
            nanosleep(&pause, NULL);
    }
    return NULL;
}

double
bench_threads(unsigned threads, unsigned rounds, uint64_t pause_ns, double (*round)(void *context, unsigned thread),
              void *context)
{
    pthread_t *ids = calloc(threads, sizeof(*ids));
    struct bench_thread *all = calloc(threads, sizeof(*all));
    double *results = calloc((size_t)threads * rounds, sizeof(*results));
    pthread_barrier_t barrier;
    size_t kept = 0;
    double median;

    if (ids == NULL || all == NULL || results == NULL)
        bench_fail("no memory");
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        all[i] = (struct bench_thread){ &barrier, round, context, i, rounds, pause_ns, results + (size_t)i * rounds };
        if (pthread_create(&ids[i], NULL, bench_thread_main, &all[i]) != 0)
            bench_fail("no thread");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (size_t i = 0; i < (size_t)threads * rounds; i++) {
        if (results[i] >= 0)
            results[kept++] = results[i];
    }
    median = bench_median(results, kept);
    pthread_barrier_destroy(&barrier);
    free(ids);
    free(all);
    free(results);
    return median;
}

unsigned
bench_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

void
bench_pin(unsigned thread)
{
    unsigned processors = bench_processors();
    unsigned place = processors - 1 - thread % processors; /* the first ones serve interrupts */
    cpu_set_t allowed, one;

    if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) != 0)
        return;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &allowed) && place-- == 0) {
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

/* The number of threads in BENCH_THREADS; 0 if it is not set. */
static unsigned
bench_asked_threads(void)
{
    const char *text = getenv("BENCH_THREADS");
    unsigned long threads;
    char *end;

    if (text == NULL || *text == '\0')
        return 0;
    errno = 0;
    threads = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || threads == 0 || threads > UINT_MAX) {
        fprintf(stderr, "bench: BENCH_THREADS=%s is no number of threads\n", text);
        exit(1);
    }
    return (unsigned)threads;
}

unsigned
bench_next_threads(unsigned before, unsigned most)
{
    unsigned asked = bench_asked_threads(), processors = bench_processors();

    if (asked != 0)
        return before != 0 ? 0 : asked < most ? asked : most;
    if (before == 0)
        return 1;
    return before <= most / 2 && 2 * before <= processors ? 2 * before : 0;
}

uint64_t
bench_peak_resident(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

uint64_t
bench_anonymous(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    unsigned long long kib = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "RssAnon: %llu kB", &kib);
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

static void
bench_read_processor(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    strcpy(bench_processor, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "model name : %127[^\n]", bench_processor) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
}

void
bench_begin(const char *title)
{
    bench_title = title;
    bench_read_processor();
    printf("%s: %u x %s, tidemark %s\n\n%-58s %7s %12s %-14s %9s\n", title, bench_processors(), bench_processor,
           tide_version(), "", "threads", "figure", "unit", "ratio");
}

void
bench_report(const char *name, unsigned threads, double figure, const char *unit, double floor, const char *beside)
{
    if (figure_count == BENCH_MAX_FIGURES)
        bench_fail("too many figures");
    snprintf(figures[figure_count].name, sizeof(figures[0].name), "%s", name);
    figures[figure_count].threads = threads;
    figures[figure_count].figure = figure;
    figures[figure_count].unit = unit;
    figures[figure_count].floor = floor;
    figures[figure_count++].beside = beside;
    printf("%-58s %7u %12.*f %-14s", name, threads, figure < 1000 ? 1 : 0, figure, unit);
    if (floor > 0)
        printf(" %8.2f x %s", figure / floor, beside);
    putchar('\n');
    fflush(stdout);
}

void
bench_end(const char *path)
{
    FILE *file;

    if (path == NULL)
        return;
    file = fopen(path, "we");
    if (file == NULL)
        bench_fail(path);
    fprintf(file, "{\"title\": \"%s\", \"processors\": %u, \"processor\": \"%s\", \"version\": \"%s\", \"figures\": [",
            bench_title, bench_processors(), bench_processor, tide_version());
    for (size_t i = 0; i < figure_count; i++) {
        fprintf(file, "%s\n  {\"name\": \"%s\", \"threads\": %u, \"figure\": %.3f, \"unit\": \"%s\"", i > 0 ? "," : "",
                figures[i].name, figures[i].threads, figures[i].figure, figures[i].unit);
        if (figures[i].floor > 0)
            fprintf(file, ", \"floor\": %.3f, \"beside\": \"%s\"", figures[i].floor, figures[i].beside);
        fputc('}', file);
    }
    fprintf(file, "\n]}\n");
    if (fclose(file) != 0)
        bench_fail(path);
}

void
bench_fail(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, tide_error_text());
    exit(1);
}
