/* The names for the ids of a trace: tags (as paths), threads, streams, layers, call stacks and devices. */
#ifndef VIEWER_READ_NAMES_H
#define VIEWER_READ_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"

/* One tag, thread, stream, call stack or device. */
struct name {
    int64_t id;
    int64_t number; /* os_tid of a thread, handle of a stream, total bytes of a device (0: unknown) */
    int64_t device; /* of a stream; -1: none */
    char *text;     /* owns; a tag's path, innermost last; a call stack's frames, innermost first, joined by " < " */
};

struct name_list {
    struct name *names; /* owns; in the order of ids */
    size_t count;
    size_t capacity;
    struct id_map by_id; /* to the index in `names` */
};

struct names {
    const struct trace *trace;         /* borrows */
    const struct trace_layers *layers; /* borrows */
    struct name_list tags;
    struct name_list threads;
    struct name_list streams;
    struct name_list callstacks; /* empty if the trace has none */
};

/*
 * Read the names of `trace`; `trace` and `layers` are borrowed until names_free. COMMAND_FINE, or another status and
 * there is nothing to free.
 */
int names_read(const struct trace *trace, const struct trace_layers *layers, struct names *out);

void names_free(struct names *names);

/* Read the streams into `out`, which is zeroed. COMMAND_FINE, or another status. Call names_free_list in any case. */
int names_read_streams(const struct trace *trace, struct name_list *out);

/* The same for the tags, with their own names and not their paths; `number` is the parent, 0: none. */
int names_read_tags(const struct trace *trace, struct name_list *out);

/* The same for the threads. */
int names_read_threads(const struct trace *trace, struct name_list *out);

/*
 * The same for the GPUs in meta.devices. Returns whether that is a list that is not empty. Elements that are not
 * readable as devices are left out.
 */
bool names_read_devices(const struct trace *trace, struct name_list *out);

void names_free_list(struct name_list *list);

/* NULL if the list has no such id. */
const struct name *names_find(const struct name_list *list, int64_t id);

/* A name to print, in `buffer` or in the list: "(none)" for id 0, "tag 7" for an id that the trace does not define. */
const char *names_tag(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_thread(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_stream(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_layer(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_callstack(const struct names *names, int64_t id, char *buffer, size_t size);

#endif
