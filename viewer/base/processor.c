/* Finds the processors on which work takes the least time. */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "viewer/base/clock.h"
#include "viewer/base/processor.h"

/* Processors that are tried at most: each n-th where there are more. */
#define PROCESSOR_MOST 64

/* Some 30 us of work, twice. */
#define PROCESSOR_ROUNDS 6000
#define PROCESSOR_TURNS  2

/* What takes so much longer than the least is left out, but not of fewer than so many. */
#define PROCESSOR_SAME 1.1
#define PROCESSOR_FEW  4

#define PROCESSOR_MIX(x) ((x) ^= (x) << 13, (x) ^= (x) >> 7, (x) ^= (x) << 17)

struct processor_time {
    int number;
    double ns;
};

static volatile uint64_t processor_sink;

/* Eight chains that do not wait for each other keep all units of a core busy, so that a neighbour is felt. */
static double
processor_work(void)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
    int64_t begin = clock_now_ns();

    for (int i = 0; i < PROCESSOR_ROUNDS; i++) {
        PROCESSOR_MIX(a), PROCESSOR_MIX(b), PROCESSOR_MIX(c), PROCESSOR_MIX(d);
        PROCESSOR_MIX(e), PROCESSOR_MIX(f), PROCESSOR_MIX(g), PROCESSOR_MIX(h);
    }
    processor_sink = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
    return (double)(clock_now_ns() - begin);
}

/* Go to one processor. False: it is not possible. */
static bool
processor_go(int number)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET(number, &only);
    return sched_setaffinity(0, sizeof(only), &only) == 0;
}

static double
processor_least(double (*work)(void))
{
    double least = 0;

    for (int turn = 0; turn < PROCESSOR_TURNS; turn++) {
        double now = work();

        least = turn == 0 || now < least ? now : least;
    }
    return least;
}

/* Those on which work took little more than the least. Of few processors none is left out. */
static void
processor_keep(const struct processor_time *times, int count, double least, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (int i = 0; i < count; i++) {
        if (count < PROCESSOR_FEW || times[i].ns <= PROCESSOR_SAME * least)
            CPU_SET(times[i].number, out);
    }
}

void
processor_choose_by(double (*work)(void))
{
    static cpu_set_t all; /* that the process may use */
    struct processor_time times[PROCESSOR_MOST];
    int saved = errno, best = 0, count = 0, step, seen = 0;
    cpu_set_t kept;

    if (CPU_COUNT(&all) == 0 && sched_getaffinity(0, sizeof(all), &all) != 0)
        CPU_ZERO(&all);
    step = (CPU_COUNT(&all) + PROCESSOR_MOST - 1) / PROCESSOR_MOST;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all) || seen++ % step != 0 || !processor_go(i))
            continue;
        times[count] = (struct processor_time){ i, processor_least(work) };
        best = times[count].ns < times[best].ns ? count : best;
        count++;
    }
    if (count > 0) {
        processor_keep(times, count, times[best].ns, &kept);
        (void)processor_go(times[best].number);
        (void)sched_setaffinity(0, sizeof(kept), &kept);
    }
    errno = saved;
}

void
processor_choose(void)
{
    processor_choose_by(processor_work);
}
