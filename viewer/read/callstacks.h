/*
 * Reads the call stacks of a trace as texts: "innermost (file:line) < ... < outermost". Call stacks that read the same
 * share a text, and know the first of them.
 */
#ifndef VIEWER_READ_CALLSTACKS_H
#define VIEWER_READ_CALLSTACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/base/parse.h"
#include "viewer/read/trace.h"

struct name_list;

/* Which frames count where call stacks are grouped. All zeros: all. */
struct callstack_options {
    uint64_t frames;         /* so many innermost ones; 0: all */
    struct option_list skip; /* patterns (fnmatch) of a function, or of "function (file:line)": these do not count */
};

/* The lists to fill, which are empty: each has a name for every call stack of the trace. */
struct callstack_lists {
    struct name_list *whole;
    struct name_list *counted;   /* only the frames that count; stays empty if all do */
    struct name_list *functions; /* the frames that count without lines and folders: "function (file) < ..." */
    struct name_list *files;     /* the source file of the innermost frame that counts and has one */
    struct id_map *skipped;      /* the frames that do not count; empty before */
    uint32_t *fitting;           /* a bit for each pattern that a frame fits */
};

/* COMMAND_FINE, or another status after a message. The caller frees the lists in any case. */
int callstacks_read(const struct trace *trace, const struct callstack_options *options,
                    const struct callstack_lists *out);

#endif
