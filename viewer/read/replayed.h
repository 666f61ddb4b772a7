/* The trace of a replay that was killed before it was completed. */
#ifndef VIEWER_READ_REPLAYED_H
#define VIEWER_READ_REPLAYED_H

#include "viewer/read/trace.h"

/*
 * While a replay runs, a call stack of its input stands in the new trace as a tag with this text and its number, within
 * the tags of the allocation. So it reaches every log of the stack. At its end the replay makes a call stack of it
 * again. No program's tag begins with this character.
 */
#define REPLAY_CALLSTACK_TAG "\037callstack "

/* Whether the trace, which has a table of tags, still has such ones, and the replay is gone. */
bool trace_has_replay_tags(const struct trace *trace);

/*
 * Take them out of the trace at `path`, so that what was noted under one has the tag around it. Where the trace cannot
 * be written they stay, without a message: only the names of some tags are worse then.
 */
void trace_drop_replay_tags(const char *path);

#endif
