/*
 * Allocator traffic in memory, ready to be replayed: events in the recorded order, each free paired with its
 * allocation, so that a replay only indexes arrays.
 */
#ifndef VIEWER_REPLAY_INPUT_H
#define VIEWER_REPLAY_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"

enum replay_kind {
    REPLAY_ALLOCATE,
    REPLAY_FREE,
    REPLAY_MARK,
};

/* One call, in 12 bytes: a replay is bound by the speed of reading events. */
struct replay_event {
    uint32_t allocation;  /* its number, from 0; of a mark: the index of `marks` */
    uint32_t stream;      /* index of `streams` */
    uint32_t thread : 24; /* from 0, in the order of appearance */
    uint32_t alignment_shift : 6;
    uint32_t kind : 2; /* enum replay_kind */
};

/* The most threads of an input; a trace with more is refused as well. */
#define REPLAY_THREADS_MAX ((size_t)1 << 24)

/* What an allocation was noted under: a tag and a call stack. */
struct replay_label {
    char **tags; /* owns, with the texts; the outermost first */
    size_t tag_count;
    int64_t tag_id;
    int64_t callstack_id; /* 0: none */
};

struct replay_mark {
    int64_t ns;
    int64_t thread_id;
    char *text; /* owns */
};

/* What a trace says about the events, which a replay into another trace keeps. Empty for other inputs. */
struct replay_notes {
    const char *path;            /* borrows; of the trace; NULL: the input is none */
    struct replay_label *labels; /* owns */
    size_t label_count;
    size_t label_capacity;
    struct id_map label_numbers; /* owns; by tag_id and callstack_id */
    uint32_t *label_of;          /* owns; by allocation: 1 + the index of `labels`, 0: none */
    size_t label_of_capacity;
    struct replay_mark *marks; /* owns; in the order of time */
    size_t mark_count;
    size_t mark_capacity;
    char **thread_names; /* owns, with the texts; by thread; NULL: none */
    bool has_callstacks;
};

struct replay_input {
    struct replay_event *events; /* owns */
    size_t event_count;
    size_t event_capacity;
    int64_t *times; /* owns; by event: the recorded ns; NULL: not asked for */
    size_t time_capacity;
    uint64_t *sizes; /* owns; bytes of each allocation */
    size_t allocation_count;
    size_t allocation_capacity;
    uint64_t *streams; /* owns; the recorded handles */
    size_t stream_count;
    size_t stream_capacity;
    size_t thread_count;
    struct id_map stream_numbers; /* owns; by handle */
    struct id_map thread_numbers; /* owns; by recorded id */
    uint64_t recorded_events;     /* all events of the input, including those that are not replayed: */
    uint64_t recorded_failures;   /* allocations that failed when they were recorded */
    uint64_t unknown_frees;       /* frees of pointers never seen */
    uint64_t replaced;            /* pointers allocated again while they were live; the earlier one stays live */
    uint64_t
        size_differences; /* frees with another size than their allocation; the replay uses that of the allocation */
    int64_t duration_ns;  /* from the first recorded event to the last; 0: the input does not say */
    struct replay_notes notes;
    bool incomplete; /* a trace of a recording that is not complete */
};

/* The error of a reader that has no memory for an event. */
extern const char replay_no_memory[];

/*
 * Add an allocation, whose number goes to *allocation, or the free of an allocation, with the same alignment. NULL, or
 * the text of an error, to which the reader of the input adds the position.
 */
const char *replay_input_alloc(struct replay_input *input, uint64_t thread, uint64_t stream, uint64_t size,
                               unsigned alignment_shift, uint32_t *allocation);
const char *replay_input_free(struct replay_input *input, uint64_t thread, uint64_t stream, unsigned alignment_shift,
                              uint32_t allocation);

/* Add a mark, the number of which is `mark`. The same result. */
const char *replay_input_mark(struct replay_input *input, uint64_t thread, uint32_t mark);

/* Note the recorded time of the event that was added last. The same result. */
const char *replay_input_time(struct replay_input *input, int64_t ns);

/* Free all that `input` owns. */
void replay_input_clear(struct replay_input *input);

/* What is read of an input. */
struct replay_reading {
    bool keeps_times; /* 8 bytes an event */
    /* Of a trace: */
    int64_t layer_id; /* 0: the outermost log layer */
    bool keeps_notes; /* the tags, call stacks and times that a trace of the replay keeps, 12 bytes an event */
    bool no_symbols;  /* as for trace_open */
};

/*
 * Read RMM's CSV (plain or gzip; "-" is standard input), or a layer of a trace. *input is zeroed first. COMMAND_FINE,
 * or COMMAND_WRONG after a message and there is nothing to clear.
 */
int replay_read_csv(const char *path, const struct replay_reading *reading, struct replay_input *input);
int replay_read_trace(const char *path, const struct replay_reading *reading, struct replay_input *input);

#endif
