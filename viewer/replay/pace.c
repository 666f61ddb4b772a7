/* Lets the events of a replay wait until their recorded times, scaled. */
#include "config.h"

#include <stdlib.h>

#include "viewer/base/clock.h"
#include "viewer/replay/pace.h"

/*
 * A sleep ends some tens of microseconds after its time: the timer's slack of 50 us, and the way to a processor. So the
 * last part of each wait is spent looking at the clock.
 */
#define PACE_AWAKE_NS 100000

/* The longest sleep, after which the progress is shown. */
#define PACE_SLEEP_NS 200000000

/* Later than this nothing is due; some hundred years. */
#define PACE_NEVER_NS ((double)(INT64_MAX / 2))

bool
replay_pace_begin(struct replay_pace *pace, double scale, size_t event_count)
{
    *pace = (struct replay_pace){ .scale = scale, .late = malloc((event_count + 1) * sizeof(*pace->late)) };
    return pace->late != NULL;
}

/* From the first event to the latest, as recorded. */
static double
pace_recorded(const struct replay_pace *pace)
{
    return (double)((uint64_t)pace->latest_ns - (uint64_t)pace->first_ns);
}

/* When an event is due that was recorded at `recorded_ns`. */
static int64_t
pace_due(struct replay_pace *pace, int64_t recorded_ns)
{
    double after;

    if (recorded_ns > pace->latest_ns)
        pace->latest_ns = recorded_ns;
    after = pace_recorded(pace) * pace->scale;
    return pace->begin_ns + (int64_t)(after < PACE_NEVER_NS ? after : PACE_NEVER_NS);
}

/* Let time pass until `due_ns`, but no more than a fifth of a second. The time then. */
static int64_t
pace_pass(int64_t now_ns, int64_t due_ns)
{
    int64_t end_ns = due_ns - now_ns > PACE_SLEEP_NS ? now_ns + PACE_SLEEP_NS : due_ns;

    if (end_ns - now_ns > PACE_AWAKE_NS)
        clock_sleep_until(end_ns - PACE_AWAKE_NS);
    do {
        now_ns = clock_now_ns();
    } while (now_ns < end_ns);
    return now_ns;
}

bool
replay_pace_await(struct replay_pace *pace, int64_t recorded_ns, double *passed_ns)
{
    int64_t began_ns = clock_now_ns(), now_ns = began_ns, due_ns;

    if (pace->count == 0) {
        pace->begin_ns = began_ns;
        pace->first_ns = pace->latest_ns = recorded_ns;
    }
    due_ns = pace_due(pace, recorded_ns);
    if (now_ns < due_ns)
        now_ns = pace_pass(now_ns, due_ns);
    pace->waited_ns += now_ns - began_ns;
    *passed_ns = (double)(now_ns - pace->begin_ns) / pace->scale;
    if (*passed_ns > pace_recorded(pace))
        *passed_ns = pace_recorded(pace);
    if (now_ns < due_ns)
        return false;
    pace->late[pace->count++] = now_ns - due_ns;
    return true;
}

static int
pace_compare(const void *one, const void *other)
{
    const int64_t *a = one, *b = other;

    return (*a > *b) - (*a < *b);
}

void
replay_pace_lateness(struct replay_pace *pace, struct replay_lateness *out)
{
    size_t count = pace->count;

    *out = (struct replay_lateness){ 0 };
    if (count == 0)
        return;
    qsort(pace->late, count, sizeof(*pace->late), pace_compare);
    out->median_ns = pace->late[(count - 1) / 2];
    out->p99_ns = pace->late[count - 1 - count / 100];
    out->most_ns = pace->late[count - 1];
}

void
replay_pace_end(struct replay_pace *pace)
{
    free(pace->late);
    *pace = (struct replay_pace){ 0 };
}
