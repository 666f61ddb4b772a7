/*
 * Gives the new trace of a replay what the trace that was replayed has, and a log cannot know: its call stacks, with
 * the names of their frames, and its times.
 */
#ifndef VIEWER_REPLAY_KEEP_H
#define VIEWER_REPLAY_KEEP_H

#include "viewer/replay/run.h"

/*
 * Complete the trace at `path`, which has been recorded by `replay` and is closed. `recorded_times`: its times become
 * those of the input. A log that sees every request gets them exactly; what other layers, samples and calls of the
 * driver did in between gets times in between. Durations stay those of the replay. COMMAND_FINE, or COMMAND_WRONG after
 * a message: then the trace is as the replay has recorded it.
 */
int replay_keep(const char *path, const struct replay *replay, bool recorded_times);

#endif
