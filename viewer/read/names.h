/* The names for the ids of a trace: tags (as paths), threads, streams, layers, call stacks and devices. */
#ifndef VIEWER_READ_NAMES_H
#define VIEWER_READ_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/callstacks.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"

/* A file with more names is refused. */
#define NAMES_MAX 16777216

/* One tag, thread, stream, call stack or device. */
struct name {
    int64_t id;
    int64_t number; /* os_tid of a thread, handle of a stream, total bytes of a device (0: unknown); of a call stack the
                       id of the first one that reads the same */
    int64_t device; /* of a stream; -1: none */
    char *text;     /* owns, unless it borrows; a tag's path, innermost last; a call stack's frames, innermost first,
                       joined by " < " */
    bool borrows;   /* the text is that of another name of the list */
    bool is_shared; /* of the first call stack that reads so: others read the same */
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
    struct name_list callstacks;               /* empty if the trace has none */
    struct name_list counted;                  /* the same for groups: only the frames that count; empty if all do */
    struct name_list functions;                /* the frames that count, without lines */
    struct name_list files;                    /* the file of the innermost frame that counts and has one */
    struct name_list branches;                 /* the tags, cut off below the levels that count; empty if all do */
    uint64_t depth;                            /* the levels of tags that count; 0: all */
    const struct callstack_options *callstack; /* borrows; which frames count */
    struct id_map skipped_frames;              /* those that do not, by their pattern */
    uint32_t fitting;                          /* a bit for each of these patterns that a frame fits */
};

/*
 * Read the names of `trace`; all are borrowed until names_free. COMMAND_FINE, or another status and there is nothing to
 * free.
 */
int names_read(const struct trace *trace, const struct trace_layers *layers, const struct callstack_options *callstack,
               uint64_t depth, struct names *out);

/*
 * Refuse options of call stacks or tags where no trace has any, and patterns that no frame fits. `other` (NULL: none)
 * is a second trace, which may have what the first lacks. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int names_check_callstacks(const struct names *names, const struct names *other);

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
static inline const struct name *
names_find(const struct name_list *list, int64_t id)
{
    const uint32_t *place = id_map_find(&list->by_id, (uint64_t)id);

    return place != NULL ? &list->names[*place] : NULL;
}

/* A name to print, in `buffer` or in the list: "(none)" for id 0, "tag 7" for an id that the trace does not define. */
const char *names_tag(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_thread(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_stream(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_layer(const struct names *names, int64_t id, char *buffer, size_t size);

/*
 * The kind of memory below a layer, as one number, and its name: "plain of GPU 0", "driver of GPU 1", "host". Layers
 * over several bases have that of the one which serves all other requests.
 */
int64_t names_same_kind(const struct names *names, int64_t layer_id);
const char *names_kind(const struct names *names, int64_t kind, char *buffer, size_t size);
const char *names_callstack(const struct names *names, int64_t id, char *buffer, size_t size);

/*
 * The same for groups: of call stacks only the frames that count, those without their lines, or one file; of tags only
 * the levels that count.
 */
const char *names_counted(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_functions(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_file(const struct names *names, int64_t id, char *buffer, size_t size);
const char *names_branch(const struct names *names, int64_t id, char *buffer, size_t size);

/* The id of the first call stack, or tag, that reads the same as `id` by the function above. */
int64_t names_same_counted(const struct names *names, int64_t id);
int64_t names_same_functions(const struct names *names, int64_t id);
int64_t names_same_file(const struct names *names, int64_t id);
int64_t names_same_branch(const struct names *names, int64_t id);

/* Whether several call stacks, or tags, of the trace read as that one does, or it is cut off. */
bool names_is_shared_counted(const struct names *names, int64_t id);
bool names_is_shared_functions(const struct names *names, int64_t id);
bool names_is_shared_branch(const struct names *names, int64_t id);

#endif
