/* Tests the choice of processors by a measure that knows which one is fast. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "tap.h"
#include "viewer/base/processor.h"

static int fast;       /* the processor on which work takes less than on all others */
static int slow = -1;  /* one on which it takes longer; -1: none */
static int seen[1024]; /* how often each was tried */

static double
work(void)
{
    int here = sched_getcpu();

    seen[here % 1024]++;
    return here == fast ? 100 : here == slow ? 300 : 105;
}

static cpu_set_t
allowed(void)
{
    cpu_set_t all;

    sched_getaffinity(0, sizeof(all), &all);
    return all;
}

static int
last_of(const cpu_set_t *all)
{
    int last = 0;

    for (int i = 0; i < CPU_SETSIZE; i++)
        last = CPU_ISSET(i, all) ? i : last;
    return last;
}

static int
tried_of(const cpu_set_t *all)
{
    int count = 0;

    for (int i = 0; i < CPU_SETSIZE && i < 1024; i++)
        count += CPU_ISSET(i, all) && seen[i] > 0;
    return count;
}

static void *
thread(void *out)
{
    *(cpu_set_t *)out = allowed();
    return NULL;
}

int
main(void)
{
    cpu_set_t all = allowed(), kept, of_thread;
    int count = CPU_COUNT(&all), last = last_of(&all);
    pthread_t other;

    plan(6);
    fast = last;
    processor_choose_by(work);
    ok(sched_getcpu() == last, "the thread goes on on the processor that is fastest");
    ok(count > 64 || tried_of(&all) == count, "each processor is tried");
    slow = sched_getcpu();
    fast = slow == last ? -1 : last;
    for (int i = 0; i < CPU_SETSIZE && fast < 0; i++)
        fast = CPU_ISSET(i, &all) && i != slow ? i : fast;
    if (count < 2)
        fast = slow;
    processor_choose_by(work);
    kept = allowed();
    ok(sched_getcpu() == fast, "a later choice takes another one");
    ok(count < 4 ? CPU_EQUAL(&kept, &all)
                 : !CPU_ISSET(slow, &kept) && CPU_COUNT(&kept) == (count > 64 ? CPU_COUNT(&kept) : count - 1),
       "of four or more the slow ones are left out, and of fewer none");
    pthread_create(&other, NULL, thread, &of_thread);
    pthread_join(other, NULL);
    ok(CPU_EQUAL(&of_thread, &kept), "threads that are started later have the same choice");
    slow = -1;
    processor_choose_by(work);
    kept = allowed();
    ok(count > 64 || CPU_EQUAL(&kept, &all), "what was left out once comes back when it is as fast as the others");
    return done();
}
