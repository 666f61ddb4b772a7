/*
 * Measures what a pair, an allocation and its free, costs on a GPU: from the driver's pool alone to stacks over it, and
 * what CUPTI adds. 4 KiB, warm, each thread on a stream of its own, all from the device's default pool.
 *
 * Usage: bench/gpu [--only=PROCESS] [JSON-FILE]. With --only, the configurations of one process alone run, such as
 * vmm: less than a minute. BENCH_GPU_SECONDS (default 6): how long each number of threads is measured. Writes its
 * traces into the current directory and removes them.
 *
 * The processes (see gpu.h) wait while one of them runs a round. In each turn every configuration runs one round, in a
 * new random order, so that disturbances of the machine affect all alike. A figure is the median of its rounds.
 */
#include "config.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/gpu.h"

#define BARE           "the driver's pool, bare"
#define BARE_TOO       BARE ", beside callbacks"
#define DRIVER         "driver"
#define FULL_OFF       "log(cupti=off) | statistics | limit | driver"
#define FULL_OFF_AGAIN FULL_OFF ", made for each round"
#define FULL_CALLS     "log(cupti=calls) | statistics | limit | driver"
#define BASE           "driver(default=true, release_threshold=1TiB)"
#define LAYERS         "statistics | limit(1TiB) | "
#define OVER_DRIVER    "pool | driver"
#define OVER_PAGES     "pool | vmm"
#define REPLACE        ", random replacement"

const struct gpu_config gpu_configs[] = {
    { .name = BARE, .process = "plain" },
    { .name = DRIVER, .process = "plain", .stack = BASE, .beside = BARE, .word = "bare", .most_ratio = 1.05 },
    { .name = "log(cupti=off) | driver",
      .process = "plain",
      .stack = "log(%s, overwrite=true, cupti=off) | " BASE,
      .beside = BARE,
      .word = "bare" },
    { .name = FULL_OFF,
      .process = "plain",
      .stack = "log(%s, overwrite=true, cupti=off) | " LAYERS BASE,
      .beside = BARE,
      .word = "bare",
      .most_more = 150 },
    { .name = FULL_OFF_AGAIN,
      .process = "plain",
      .stack = "log(%s, overwrite=true, cupti=off) | " LAYERS BASE,
      .for_round = true,
      .beside = BARE,
      .word = "bare" },
    { .name = FULL_CALLS,
      .process = "plain",
      .stack = "log(%s, overwrite=true, cupti=calls) | " LAYERS BASE,
      .for_round = true,
      .beside = FULL_OFF_AGAIN,
      .word = "cupti=off",
      .most_more = 250 },
    { .name = BARE_TOO, .process = "callbacks" },
    { .name = "the driver's pool, bare but for CUPTI callbacks",
      .process = "callbacks",
      .cupti = GPU_CUPTI_CALLBACKS,
      .for_round = true,
      .beside = BARE_TOO,
      .word = "bare" },
    { .name = "log(cupti=memory) | statistics | limit | driver",
      .process = "memory",
      .stack = "log(%s, overwrite=true, cupti=memory) | " LAYERS BASE,
      .beside = FULL_OFF,
      .word = "cupti=off" },
    { .name = "the driver's pool, bare but for CUPTI MEMORY2",
      .process = "memory2",
      .cupti = GPU_CUPTI_MEMORY2,
      .beside = BARE,
      .word = "bare" },
    { .name = "log | statistics | limit | pool | driver",
      .process = "pool",
      .stack = "log(%s, overwrite=true) | " LAYERS "pool | " BASE,
      .beside = BARE,
      .word = "bare" },
    { .name = "log | statistics | limit | arena | driver",
      .process = "arena",
      .stack = "log(%s, overwrite=true) | " LAYERS "arena | " BASE,
      .beside = BARE,
      .word = "bare" },
    { .name = "log | statistics | limit | binning | driver",
      .process = "binning",
      .stack = "log(%s, overwrite=true) | " LAYERS "binning(4KiB..1MiB) | " BASE,
      .beside = BARE,
      .word = "bare" },
    { .name = OVER_DRIVER, .process = "vmm", .stack = OVER_DRIVER },
    { .name = OVER_PAGES,
      .process = "vmm",
      .stack = OVER_PAGES,
      .beside = OVER_DRIVER,
      .word = OVER_DRIVER,
      .most_ratio = 1.05 },
    { .name = OVER_DRIVER REPLACE, .process = "vmm", .stack = OVER_DRIVER, .pairs = GPU_REPLACE },
    { .name = OVER_PAGES REPLACE,
      .process = "vmm",
      .stack = OVER_PAGES,
      .pairs = GPU_REPLACE,
      .beside = OVER_DRIVER REPLACE,
      .word = OVER_DRIVER,
      .most_ratio = 1.05 },
};

#define GPU_CONFIGS (sizeof(gpu_configs) / sizeof(gpu_configs[0]))

const unsigned gpu_config_count = GPU_CONFIGS;

#define GPU_MAX_ROUNDS 400
#define GPU_MIN_ROUNDS 5
#define GPU_PAUSE      10000000 /* ns after a round, in which the writer of its trace catches up */
#define GPU_THREADS    16

/* One measuring process, which several configurations share. */
struct gpu_process {
    const char *name;
    pid_t pid;
    FILE *ask;
    FILE *answers;
};

/* The results of one configuration's rounds, at one number of threads. */
struct gpu_result {
    struct gpu_process *process; /* NULL: not chosen */
    unsigned place;              /* its index in its process */
    bool skipped;
    unsigned rounds;
    double ns[GPU_MAX_ROUNDS];
    double median;
};

static struct gpu_process gpu_processes[GPU_CONFIGS];
static unsigned gpu_process_count;
static struct gpu_result gpu_results[GPU_CONFIGS];
static double gpu_one_thread[GPU_CONFIGS];   /* medians; 0: skipped */
static double gpu_most_threads[GPU_CONFIGS]; /* the same, of the last number of threads */
static const char *gpu_only;                 /* the only process to run; NULL: all */

extern char **environ;

static void
gpu_read_line(const struct gpu_process *process, char *line, size_t bytes)
{
    if (fgets(line, (int)bytes, process->answers) == NULL)
        bench_fail(process->name);
    line[strcspn(line, "\n")] = '\0';
}

static struct gpu_process *
gpu_start(const char *name, unsigned threads)
{
    struct gpu_process *process = &gpu_processes[gpu_process_count++];
    posix_spawn_file_actions_t actions;
    int in[2], out[2];
    char count[16];

    if (pipe(in) != 0 || pipe(out) != 0)
        bench_fail("pipe");
    snprintf(count, sizeof(count), "%u", threads);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, in[i]);
        posix_spawn_file_actions_addclose(&actions, out[i]);
    }
    /*
     * Close the other children's pipes: a child that inherited one would keep it open, and the other child would not
     * see the end of its input.
     */
    for (struct gpu_process *other = gpu_processes; other < process; other++) {
        posix_spawn_file_actions_addclose(&actions, fileno(other->ask));
        posix_spawn_file_actions_addclose(&actions, fileno(other->answers));
    }
    if (posix_spawn(&process->pid, "/proc/self/exe", &actions, NULL,
                    (char *[]){ "bench/gpu", "--child", (char *)(uintptr_t)name, count, NULL }, environ) != 0)
        bench_fail("no process");
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    process->name = name;
    process->ask = fdopen(in[1], "w");
    process->answers = fdopen(out[0], "r");
    if (process->ask == NULL || process->answers == NULL)
        bench_fail("pipe");
    return process;
}

/* Start all processes. If `say`, print which configurations are skipped, and why. */
static void
gpu_open_all(unsigned threads, bool say)
{
    char line[512];

    gpu_process_count = 0;
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        struct gpu_result *result = &gpu_results[i];

        memset(result, 0, sizeof(*result));
        result->skipped = gpu_only != NULL && strcmp(gpu_only, gpu_configs[i].process) != 0;
        if (result->skipped)
            continue;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(gpu_configs[j].process, gpu_configs[i].process) == 0) {
                result->process = gpu_results[j].process;
                result->place++;
            }
        }
        if (result->process == NULL)
            result->process = gpu_start(gpu_configs[i].process, threads);
    }
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        if (gpu_results[i].process == NULL)
            continue;
        gpu_read_line(gpu_results[i].process, line, sizeof(line));
        gpu_results[i].skipped = strcmp(line, "ready") != 0;
        if (gpu_results[i].skipped && say)
            printf("skipped: %s: %s\n", gpu_configs[i].name, strncmp(line, "skip ", 5) == 0 ? line + 5 : line);
    }
}

/* End all processes. If `say`, print their notes. */
static void
gpu_close_all(bool say)
{
    char line[512];
    int status;

    for (unsigned i = 0; i < gpu_process_count; i++)
        fclose(gpu_processes[i].ask);
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        if (gpu_results[i].process == NULL)
            continue;
        gpu_read_line(gpu_results[i].process, line, sizeof(line));
        if (say && line[0] != '\0')
            printf("# %s: %s\n", gpu_configs[i].name, line);
    }
    for (unsigned i = 0; i < gpu_process_count; i++) {
        fclose(gpu_processes[i].answers);
        if (waitpid(gpu_processes[i].pid, &status, 0) < 0 || status != 0)
            bench_fail(gpu_processes[i].name);
    }
}

/* Read the line with the machine before anything is printed: without a GPU, the process has printed why. */
static void
gpu_say_machine(char *line, size_t bytes)
{
    struct gpu_process *process = gpu_start(GPU_MACHINE, 1);
    int status;

    if (fgets(line, (int)bytes, process->answers) == NULL)
        exit(1);
    fclose(process->ask);
    fclose(process->answers);
    waitpid(process->pid, &status, 0);
}

static double
gpu_round(const struct gpu_result *result)
{
    struct timespec pause = { .tv_nsec = GPU_PAUSE };
    char line[64];

    fprintf(result->process->ask, "%u\n", result->place);
    fflush(result->process->ask);
    gpu_read_line(result->process, line, sizeof(line));
    nanosleep(&pause, NULL);
    return strtod(line, NULL);
}

/*
 * Shuffle the order. If a configuration always ran right after another one of its process, whose threads have then
 * slept for only 10 ms, it would gain 250 ns a pair (measured on an H200).
 */
static void
gpu_shuffle(unsigned *order, uint64_t *seed)
{
    for (size_t i = GPU_CONFIGS - 1; i > 0; i--) {
        unsigned moved = order[i];
        size_t other;

        *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        other = (*seed >> 33) % (i + 1);
        order[i] = order[other];
        order[other] = moved;
    }
}

/* Run rounds in turns until the time is over. The first turn warms up. */
static void
gpu_measure(uint64_t budget_ns)
{
    uint64_t end = bench_now_ns() + budget_ns, seed = 1;
    unsigned order[GPU_CONFIGS];

    for (unsigned i = 0; i < GPU_CONFIGS; i++)
        order[i] = i;
    for (unsigned turn = 0; turn <= GPU_MAX_ROUNDS; turn++) {
        gpu_shuffle(order, &seed);
        for (size_t i = 0; i < GPU_CONFIGS; i++) {
            struct gpu_result *result = &gpu_results[order[i]];
            double ns = result->skipped ? 0 : gpu_round(result);

            if (!result->skipped && turn > 0)
                result->ns[result->rounds++] = ns;
        }
        if (turn > GPU_MIN_ROUNDS && bench_now_ns() > end)
            break;
    }
    for (size_t i = 0; i < GPU_CONFIGS; i++)
        gpu_results[i].median = bench_median(gpu_results[i].ns, gpu_results[i].rounds);
}

static size_t
gpu_find(const char *name)
{
    size_t i = 0;

    while (strcmp(gpu_configs[i].name, name) != 0)
        i++;
    return i;
}

static void
gpu_report(unsigned threads)
{
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        const struct gpu_config *config = &gpu_configs[i];
        double floor = config->beside != NULL ? gpu_results[gpu_find(config->beside)].median : 0;
        char over[96];

        if (gpu_results[i].skipped)
            continue;
        bench_report(config->name, threads, gpu_results[i].median, "ns/pair", floor, config->word);
        if (floor > 0) {
            snprintf(over, sizeof(over), "%s - %s", config->name, config->word);
            bench_report(over, threads, gpu_results[i].median - floor, "ns/pair", 0, NULL);
        }
        if (threads == 1)
            gpu_one_thread[i] = gpu_results[i].median;
        gpu_most_threads[i] = gpu_results[i].median;
    }
}

/* Compare with the bars. They do not change the exit status, since the times depend on the machine. */
static void
gpu_report_bars(const char *when, const double *medians)
{
    printf("\nbars, %s:\n", when);
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        const struct gpu_config *config = &gpu_configs[i];
        double ns = medians[i], floor = config->beside != NULL ? medians[gpu_find(config->beside)] : 0;

        if (ns == 0 || floor == 0)
            continue;
        if (config->most_ratio > 0)
            printf("%s %s: %.3f x %s, at most %.2f\n", ns <= config->most_ratio * floor ? "kept  " : "BROKEN",
                   config->name, ns / floor, config->word, config->most_ratio);
        if (config->most_more > 0)
            printf("%s %s: %s %+.0f ns, at most %+.0f\n", ns <= floor + config->most_more ? "kept  " : "BROKEN",
                   config->name, config->word, ns - floor, config->most_more);
    }
}

/* Only the configurations over the pool have bars on many threads: the driver's pool has one lock for all. */
static void
gpu_report_all_bars(unsigned threads)
{
    gpu_report_bars("one thread", gpu_one_thread);
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        if (strcmp(gpu_configs[i].process, "vmm") != 0)
            gpu_most_threads[i] = 0;
    }
    if (threads > 1)
        gpu_report_bars("as many threads as there were", gpu_most_threads);
}

/* Read --only=PROCESS. Exits with 2 where there is no such process. */
static void
gpu_choose(const char *word)
{
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        if (strcmp(gpu_configs[i].process, word) == 0)
            gpu_only = word;
    }
    if (gpu_only != NULL)
        return;
    fprintf(stderr, "bench/gpu: --only=%s: the processes are", word);
    for (size_t i = 0; i < GPU_CONFIGS; i++) {
        if (i == 0 || strcmp(gpu_configs[i].process, gpu_configs[i - 1].process) != 0)
            fprintf(stderr, " %s", gpu_configs[i].process);
    }
    fputc('\n', stderr);
    exit(2);
}

int
main(int argc, char **argv)
{
    const char *seconds = getenv("BENCH_GPU_SECONDS");
    char machine[128];
    unsigned threads = 0, most = 0;

    if (argc == 4 && strcmp(argv[1], "--child") == 0)
        return gpu_child(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    if (argc > 1 && strncmp(argv[1], "--only=", 7) == 0) {
        gpu_choose(argv[1] + 7);
        argc--;
        argv++;
    }
    /* Writing to a process that has ended must not end this one: the end of its answers shows that it has ended. */
    signal(SIGPIPE, SIG_IGN);
    gpu_say_machine(machine, sizeof(machine));
    fputs(machine, stdout);
    bench_begin("gpu");
    while ((threads = bench_next_threads(threads, GPU_THREADS)) != 0) {
        bool first = threads == bench_next_threads(0, GPU_THREADS);

        gpu_open_all(threads, first);
        gpu_measure((uint64_t)((seconds != NULL ? strtod(seconds, NULL) : 6) * 1e9));
        gpu_report(threads);
        gpu_close_all(first);
        most = threads;
    }
    gpu_report_all_bars(most);
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
