/*
 * Tries stacks in forked processes: they share the traffic that was read once, give all memory back at their end, and a
 * stack that crashes is no more than a candidate that failed. A pipe of each brings its result.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/base.h>
#include <tidemark/message.h>
#include <tidemark/stack.h>

#include "viewer/base/clock.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/processor.h"
#include "viewer/base/progress.h"
#include "viewer/recommend/clearing.h"
#include "viewer/recommend/sweep.h"
#include "viewer/replay/report.h"
#include "viewer/replay/run.h"

#define SWEEP_JOBS_MOST 64

/*
 * What takes less than SWEEP_SHORT_NS side by side with others is replayed again alone: on a machine whose processors
 * are in pairs it takes twice as long beside another one. From SWEEP_ONCE_NS on that is done once, and else SWEEP_ALONE
 * times, of which the least time counts. While the second least is further from it than SWEEP_SAME, something else
 * disturbs the replays, and there are more, up to SWEEP_ALONE_MOST. What is shorter than SWEEP_VERY_SHORT_NS is
 * replayed until that time is reached, as little disturbs it much.
 */
#define SWEEP_SHORT_NS      200000000
#define SWEEP_ONCE_NS       60000000
#define SWEEP_ALONE         2
#define SWEEP_ALONE_MOST    5
#define SWEEP_SAME          1.05
#define SWEEP_VERY_SHORT_NS 4000000
#define SWEEP_TURNS_MOST    8

/* Clocks of processor time that count ticks count whole ones of these. */
#define SWEEP_TICK_NS 1000000

/* What a call of a model takes at most. What takes longer has lost its processor meanwhile. */
#define SWEEP_MODEL_NS 20000

/* And what a replay takes for a call at least: no stack takes nothing, whatever is taken off for reading the clock. */
#define SWEEP_CALL_NS 10

/* The processor time of a candidate: so many seconds, and one more for so many events, which take 10 ms. */
#define SWEEP_LEAST_S  60
#define SWEEP_EVENTS_S 100000

struct sweep_job {
    pid_t process; /* 0: free */
    int result;    /* owns; the end of the pipe that is read */
    size_t number; /* of the candidate */
};

struct sweep {
    const struct candidates *list;
    const struct traffic *traffic;
    size_t traffic_count;
    const struct costs *costs;
    struct trial *trials;
    bool is_alone; /* one candidate at a time */
};

/*
 * Processor time of all threads. Not by CLOCK_PROCESS_CPUTIME_ID: with a limit of processor time, as sweep_bound sets
 * it, Linux reads that from sums which are up to a tick old, 1 to 10 ms, where the usage is of now.
 */
static int64_t
sweep_processor_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

static void
sweep_add(struct cost_amount *amount, uint64_t count, uint64_t bytes)
{
    amount->count += count;
    amount->bytes += (double)bytes;
}

/* The time of a replay between two readings of both clocks. */
struct sweep_clock {
    int64_t processor_ns, wall_ns;
};

static struct sweep_clock
sweep_clock_now(void)
{
    return (struct sweep_clock){ sweep_processor_ns(), clock_now_ns() };
}

/*
 * Processor time since `begin`, which does not have the waits for a processor. On some machines it is counted in ticks
 * of milliseconds, and says nothing of a short replay: then the time that passed.
 */
static double
sweep_clock_since(const struct sweep_clock *begin)
{
    struct sweep_clock now = sweep_clock_now();
    bool has_ticks = begin->processor_ns % SWEEP_TICK_NS == 0 && now.processor_ns % SWEEP_TICK_NS == 0;

    return (double)(has_ticks ? now.wall_ns - begin->wall_ns : now.processor_ns - begin->processor_ns);
}

/* Add what a model of a base had the driver do. */
static void
sweep_count_driver(struct tide_resource *sim, struct cost_amount amounts[COST_CALLS])
{
    struct tide_sim_figures figures = { TIDE_FIGURES(figures) };

    if (tide_sim_read(sim, &figures) != TIDE_OK)
        return;
    sweep_add(&amounts[COST_GROW], figures.grown, figures.grown_bytes);
    sweep_add(&amounts[COST_RETURN], figures.returned, figures.returned_bytes);
    sweep_add(&amounts[COST_FRESH], figures.high_bytes > 0, figures.high_bytes);
    sweep_add(&amounts[COST_MAP], figures.mapped, 0);
    sweep_add(&amounts[COST_UNMAP], figures.unmapped, 0);
    sweep_add(&amounts[COST_TRIM], figures.trims, 0);
    sweep_add(&amounts[COST_ORDER], figures.orders, 0);
}

/* What models of bases do in a replay: the waits of the device, and how long it takes them themselves. */
struct sweep_models {
    struct clearing clearing;
    int64_t begin_ns; /* of the call of a model that has begun */
    int64_t spent_ns;
    uint64_t calls;
};

static void
sweep_see(void *context, enum tide_sim_event event, uint64_t amount)
{
    struct sweep_models *models = context;
    int64_t spent_ns;

    if (event == TIDE_SIM_ALLOCATES || event == TIDE_SIM_FREES)
        models->begin_ns = clock_now_ns();
    clearing_watch(&models->clearing, event, amount);
    if (event != TIDE_SIM_ENDS)
        return;
    spent_ns = clock_now_ns() - models->begin_ns;
    models->spent_ns += spent_ns < SWEEP_MODEL_NS ? spent_ns : SWEEP_MODEL_NS;
    models->calls++;
}

/* Have all its bases watched: they are of one device. */
static void
sweep_watch(struct tide_resource *resource, struct sweep_models *models)
{
    struct tide_upstream upstream;

    if (strcmp(tide_resource_name(resource), "sim") == 0)
        (void)tide_sim_watch(resource, sweep_see, models);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &upstream) == TIDE_OK; i++)
        sweep_watch(upstream.resource, models);
}

/* Add what reached the bases of a stack. */
static void
sweep_count(const struct replay_report *report, struct trial *trial)
{
    uint64_t reserved = 0;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_layer *layer = &report->layers[i];
        uint64_t total, frees;

        /* Bases that are used at different times need not have their most at the same one: then this is a bound. */
        if (strcmp(layer->kind, "sim") == 0) {
            reserved += layer->reserved_peak_bytes;
            sweep_count_driver(layer->resource, trial->amounts);
        }
        if (!layer->is_counter)
            continue;
        total = (uint64_t)layer->statistics.count.total;
        frees = total - (uint64_t)layer->statistics.count.current;
        trial->calls += total + frees;
        sweep_add(&trial->amounts[COST_ALLOCATE], total, (uint64_t)layer->statistics.bytes.total);
        sweep_add(&trial->amounts[COST_FREE], frees,
                  (uint64_t)(layer->statistics.bytes.total - layer->statistics.bytes.current));
    }
    if (reserved > trial->reserved_bytes)
        trial->reserved_bytes = reserved;
}

/* Replay one input once. False: trial->error says why. */
static bool
sweep_replay(const struct sweep *sweep, const struct candidate *candidate, const struct traffic *traffic,
             struct trial *trial)
{
    struct replay_options options = { 0 };
    struct replay_report report = { 0 };
    struct tide_resource *stack;
    struct replay replay = { 0 };
    struct sweep_models models = {
        .clearing = { .costs = sweep->costs->of[candidate->base], .replay = &replay.result, .base = candidate->base }
    };
    struct sweep_clock begin;
    double own_ns, least_ns;
    int status;

    if (tide_stack_parse(candidate->model, &stack) != TIDE_OK) {
        snprintf(trial->error, sizeof(trial->error), "%s", tide_error_text());
        return false;
    }
    sweep_watch(stack, &models);
    begin = sweep_clock_now();
    status = replay_run(&replay, &traffic->input, stack, &options);
    /* Of the two readings of a call one is in what the model has spent, about. */
    own_ns = sweep_clock_since(&begin) - (double)models.spent_ns - clock_reading_ns() * (double)models.calls;
    least_ns = SWEEP_CALL_NS * (double)models.calls;
    trial->own_ns += own_ns > least_ns ? own_ns : least_ns;
    if (status == COMMAND_FINE)
        status = replay_report_make(stack, candidate->model, &report);
    if (status == COMMAND_FINE) {
        trial->failures += replay.result.failures;
        sweep_count(&report, trial);
        trial->amounts[COST_WAIT].count += models.clearing.waits.count;
        trial->amounts[COST_WAIT].bytes += models.clearing.waits.bytes;
        replay_report_free(&report);
    } else {
        snprintf(trial->error, sizeof(trial->error), "it could not be replayed");
    }
    tide_resource_release(stack);
    replay_finish(&replay);
    return status == COMMAND_FINE;
}

/* Add a time; where there is no room, the longest one goes. */
static void
sweep_add_time(struct trial *trial, double own_ns)
{
    unsigned at = trial->time_count < TRIAL_TIMES ? trial->time_count++ : TRIAL_TIMES - 1;

    for (; at > 0 && trial->times[at - 1] > own_ns; at--)
        trial->times[at] = trial->times[at - 1];
    trial->times[at] = own_ns;
    trial->own_ns = trial->times[0];
    trial->ns = trial->own_ns + trial->driver_ns;
}

/* Whether so many replays, which took `sum` ns in all, are enough. */
static bool
sweep_is_enough(unsigned turns, double sum, double least, double second)
{
    return turns >= SWEEP_TURNS_MOST || (turns >= SWEEP_ALONE && sum >= SWEEP_VERY_SHORT_NS &&
                                         (turns >= SWEEP_ALONE_MOST || second <= SWEEP_SAME * least));
}

/* Replay all inputs, alone more than once, and take the least time. */
static void
sweep_try(const struct sweep *sweep, const struct candidate *candidate, struct trial *out)
{
    double least = 0, second = 0, sum = 0;

    for (unsigned turn = 0; !sweep_is_enough(turn, sum, least, second); turn++) {
        if (turn > 0 && (!sweep->is_alone || out->error[0] != '\0' || out->own_ns > SWEEP_ONCE_NS))
            break;
        if (sweep->is_alone)
            processor_choose();
        *out = (struct trial){ .is_alone = sweep->is_alone };
        for (size_t i = 0; i < sweep->traffic_count; i++) {
            if (!sweep_replay(sweep, candidate, &sweep->traffic[i], out))
                break;
        }
        if (turn == 0 || out->own_ns < least) {
            second = turn == 0 ? out->own_ns : least;
            least = out->own_ns;
        } else if (turn == 1 || out->own_ns < second) {
            second = out->own_ns;
        }
        sum += out->own_ns;
    }
    for (int call = 0; call < COST_CALLS; call++)
        out->driver_ns += costs_of(sweep->costs, candidate->base, (enum cost_call)call, &out->amounts[call]);
    sweep_add_time(out, least);
}

/* End with the command that waits for the result, and after a time that no replay takes. */
static void
sweep_bound(const struct sweep *sweep)
{
    uint64_t events = 0;
    struct rlimit limit;

    for (size_t i = 0; i < sweep->traffic_count; i++)
        events += sweep->traffic[i].input.event_count;
    limit.rlim_cur = limit.rlim_max = SWEEP_LEAST_S + events / SWEEP_EVENTS_S;
    (void)setrlimit(RLIMIT_CPU, &limit);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Start a process for the candidate. */
static bool
sweep_start(const struct sweep *sweep, struct sweep_job *job, size_t number)
{
    struct trial trial;
    int ends[2];

    if (pipe(ends) != 0)
        return false;
    job->process = fork();
    if (job->process < 0) {
        job->process = 0;
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (job->process == 0) {
        close(ends[0]);
        sweep_bound(sweep);
        sweep_try(sweep, &sweep->list->items[number], &trial);
        /* Less than PIPE_BUF: the pipe takes it whole. */
        _exit(write(ends[1], &trial, sizeof(trial)) == (ssize_t)sizeof(trial) ? 0 : 1);
    }
    close(ends[1]);
    job->result = ends[0];
    job->number = number;
    return true;
}

/* Take the result of a process that has ended. */
static void
sweep_take(const struct sweep *sweep, struct sweep_job *job, int status)
{
    struct trial *trial = &sweep->trials[job->number];

    *trial = (struct trial){ .ns = 0 };
    if (read(job->result, trial, sizeof(*trial)) != (ssize_t)sizeof(*trial)) {
        *trial = (struct trial){ .ns = 0 };
        if (WIFSIGNALED(status))
            snprintf(trial->error, sizeof(trial->error), "its replay was ended by %s", strsignal(WTERMSIG(status)));
        else
            snprintf(trial->error, sizeof(trial->error), "its replay ended with status %d", WEXITSTATUS(status));
    }
    close(job->result);
    job->process = 0;
}

/* Wait for at least one of the processes: each closes its pipe at its end. False: none is running. */
static bool
sweep_wait(const struct sweep *sweep, struct sweep_job *jobs, unsigned count)
{
    struct pollfd ends[SWEEP_JOBS_MOST];
    bool running = false;
    int status = 0;

    for (unsigned i = 0; i < count; i++) {
        ends[i] = (struct pollfd){ jobs[i].process != 0 ? jobs[i].result : -1, POLLIN, 0 };
        running = running || jobs[i].process != 0;
    }
    if (!running || poll(ends, count, -1) < 0)
        return running;
    for (unsigned i = 0; i < count; i++) {
        if (jobs[i].process == 0 || ends[i].revents == 0)
            continue;
        while (waitpid(jobs[i].process, &status, 0) < 0 && errno == EINTR)
            ;
        sweep_take(sweep, &jobs[i], status);
    }
    return true;
}

static struct sweep_job *
sweep_free_job(struct sweep_job *jobs, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (jobs[i].process == 0)
            return &jobs[i];
    }
    return NULL;
}

static void
sweep_cannot_start(void)
{
    message("tidemark recommend: a process for a replay cannot be started: %s", strerror(errno));
}

/* Try the candidates from `first` on, at most `count` at a time; alone: what is short. */
static bool
sweep_through(const struct sweep *sweep, size_t first, struct sweep_job *running, unsigned count,
              struct progress *progress)
{
    bool good = true;

    for (size_t i = first; good && i < sweep->list->count; i++) {
        struct sweep_job *job;

        if (sweep->is_alone && (sweep->trials[i].error[0] != '\0' || sweep->trials[i].own_ns > SWEEP_SHORT_NS))
            continue;
        while ((job = sweep_free_job(running, count)) == NULL)
            sweep_wait(sweep, running, count);
        if (!sweep->is_alone)
            progress_update(progress, i, sweep->list->count);
        good = sweep_start(sweep, job, i);
    }
    if (!good)
        sweep_cannot_start();
    while (sweep_wait(sweep, running, count))
        ;
    return good;
}

int
sweep_run(const struct candidates *list, size_t first, const struct traffic *traffic, size_t traffic_count,
          const struct costs *costs, unsigned jobs, struct trial *trials)
{
    struct sweep sweep = { list, traffic, traffic_count, costs, trials, false };
    struct sweep_job running[SWEEP_JOBS_MOST] = { 0 };
    unsigned count = jobs < 1 ? 1 : jobs < SWEEP_JOBS_MOST ? jobs : SWEEP_JOBS_MOST;
    struct progress progress;
    bool good;

    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored, there would be nothing to wait for */
    fflush(NULL);                   /* else each process would write what is in the buffers again */
    progress_begin(&progress, "trying stacks");
    good = sweep_through(&sweep, first, running, count, &progress);
    sweep.is_alone = true;
    good = good && sweep_through(&sweep, first, running, 1, &progress);
    progress_end(&progress);
    return good ? COMMAND_FINE : COMMAND_WRONG;
}

/* Take a further replay of a trial. One that failed, as it was killed, takes nothing from a trial that did not. */
static void
sweep_merge(struct trial *again, struct trial *trial)
{
    if (again->error[0] != '\0' && trial->error[0] == '\0') {
        trial->again_failed = true;
        return;
    }
    for (unsigned i = 0; trial->is_alone && i < trial->time_count && again->error[0] == '\0'; i++)
        sweep_add_time(again, trial->times[i]);
    *trial = *again;
}

int
sweep_again(const struct candidates *list, size_t number, const struct traffic *traffic, size_t traffic_count,
            const struct costs *costs, struct trial *trial)
{
    struct trial *again = calloc(list->count + 1, sizeof(*again));
    struct sweep sweep = { list, traffic, traffic_count, costs, again, true };
    struct sweep_job running = { .process = 0 };

    if (again == NULL || !sweep_start(&sweep, &running, number)) {
        sweep_cannot_start();
        free(again);
        return COMMAND_WRONG;
    }
    while (sweep_wait(&sweep, &running, 1))
        ;
    sweep_merge(&again[number], trial);
    free(again);
    return COMMAND_FINE;
}
