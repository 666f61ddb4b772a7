/* The configurations of bench/gpu, and its two kinds of processes: one that reports, and one for each CUPTI set-up. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <stdbool.h>

/*
 * A thread's ring of 1 MiB holds the records of a round: no thread waits, and the writer has a pause to catch up.
 * Many threads make fewer pairs each: the driver's pool takes longer for each of them.
 */
#define GPU_PAIRS(threads) ((threads) <= 4 ? 4096U / (threads) : 1024U)
#define GPU_BYTES          4096

/* Random replacement: how many blocks of each thread are live, and their largest size. */
#define GPU_LIVE    1000u
#define GPU_LARGEST 65536u

/* What a pair is. */
enum gpu_pairs {
    GPU_BACK_TO_BACK, /* a block of GPU_BYTES, freed at once */
    GPU_REPLACE       /* a random one of GPU_LIVE blocks is freed, and one of a random size takes its place */
};

/* What a process enables in CUPTI, apart from what its stacks enable. */
enum gpu_cupti {
    GPU_CUPTI_NOTHING,
    GPU_CUPTI_CALLBACKS, /* callbacks of the two functions, which do nothing */
    GPU_CUPTI_MEMORY2    /* MEMORY2 records, which nobody reads */
};

/*
 * A measured configuration. Those of one process run in turns: only they compare, since the bare pair differs by 100 ns
 * and more between two processes. MEMORY2 slows its process down from the moment it was enabled, so that it has a
 * process of its own; callbacks do not, and are enabled for single rounds. A subscriber that unsubscribes while its
 * callbacks are enabled costs 200 ns a pair from then on: the benchmark's own stays subscribed, in a process in which
 * no log records calls.
 */
struct gpu_config {
    const char *name;
    const char *process;
    const char *stack; /* stack text, with %s in place of the trace; NULL: the driver's pool without any layer */
    enum gpu_cupti cupti;
    enum gpu_pairs pairs;
    bool for_round;     /* opened for each of its rounds, and closed after it */
    const char *beside; /* the name of the configuration that it is compared with; NULL: none */
    const char *word;   /* the word for `beside` in the table */
    double most_ratio;  /* on one thread: no more than this times the other; 0: no bar */
    double most_more;   /* on one thread: no more than this many ns over the other; 0: no bar */
};

extern const struct gpu_config gpu_configs[];
extern const unsigned gpu_config_count;

/* The name of a process that measures nothing: it only prints the name of the GPU. */
#define GPU_MACHINE "machine"

/*
 * The main function of a measuring process: opens the configurations of `process` for `threads` threads and answers on
 * stdout. First it prints a line for each: "ready", or "skip " and the reason. Then, for each line of stdin, a
 * configuration's index in its process, it runs a round and prints ns a pair. At the end of stdin it prints a line of
 * notes for each: what the trace says about CUPTI. Returns the exit status; 1, with a message, if it fails.
 */
int gpu_child(const char *process, unsigned threads);

/* Enable CUPTI in this process; returns NULL, or why not. Callbacks can be disabled again. */
const char *gpu_cupti_start(enum gpu_cupti what);
void gpu_cupti_stop(void);

/* The bytes of records received. *fresh is how often a new buffer had to be allocated for them. */
unsigned long long gpu_cupti_finish(unsigned *fresh);

#endif
