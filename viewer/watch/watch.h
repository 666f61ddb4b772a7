/* Running recordings as `tidemark watch` shows them: their figures, rates, and what was live at a moment. */
#ifndef VIEWER_WATCH_WATCH_H
#define VIEWER_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/running/running.h"

#define WATCH_SPAN_NS   UINT64_C(60000000000) /* the picture shows so much */
#define WATCH_SAMPLES   1024                  /* kept for it */
#define WATCH_RATE_NS   UINT64_C(1000000000)  /* rates are means of about so long */
#define WATCH_PROCESSES 1024

/* The figures of the outermost layers at a moment. */
struct watch_sample {
    uint64_t ns;
    uint64_t live_bytes, live_count, total_bytes;
    uint64_t allocations, frees, failures;
    uint64_t used_bytes, reserved_bytes; /* of all bases */
    bool is_marked;
};

struct watch_process {
    struct running base;          /* first */
    uint64_t outermost;           /* how many layers the sums are of */
    uint64_t peak_bytes, peak_ns; /* of the only outermost layer; of several the sum of their peaks, and 0 */
    struct watch_sample now;
    struct watch_sample *samples; /* owned; a ring */
    size_t first, count;
    double allocation_rate, free_rate, byte_rate; /* a second */
    uint64_t durations[TIDEI_GAUGE_DURATIONS];    /* allocating calls at durations_ns */
    uint64_t durations_ns;
    uint64_t median_ns, most_ns; /* of the calls since: half of them and 99% took no longer; 0: there were none */
};

struct watch {
    struct running_list found; /* of struct watch_process */
};

static inline struct watch_process *
watch_at(const struct watch *watch, size_t place)
{
    return (struct watch_process *)watch->found.list[place];
}

void watch_init(struct watch *watch, char **arguments, int count);

/* Look for recordings, as running_find. */
int watch_find(struct watch *watch, bool first);

/* process.c: look at all; and at one. */
void watch_look(struct watch *watch);
bool watch_is_over(const struct watch *watch); /* nothing is recorded any more */

/* A sample of the process, 0 being the latest. */
const struct watch_sample *watch_sample_at(const struct watch_process *process, size_t back);

/* By what the live set is grouped. */
enum watch_by { WATCH_BY_TAG, WATCH_BY_THREAD, WATCH_BY_STREAM, WATCH_BYS };

struct watch_group {
    int64_t id;
    uint64_t bytes, count;
    char name[RUNNING_NAME_BYTES];
};

/* lives.c: what was live at a moment, read in parts; each is a transaction of some milliseconds. */
struct watch_lives {
    uint64_t at_ns;
    enum watch_by by;
    uint32_t layer_id;
    int64_t next_id; /* of an allocation */
    bool is_done;
    bool has_failed;
    uint64_t bytes, count;
    struct watch_group *groups; /* owned; once done, the largest first, with names */
    size_t group_count, group_capacity;
};

void watch_lives_begin(struct watch_lives *lives, uint64_t at_ns, enum watch_by by, uint32_t layer_id);

/* Read the next part. False: it is done, or has failed. */
bool watch_lives_read(struct watch_lives *lives, const struct watch_process *process);
void watch_lives_free(struct watch_lives *lives);

/* The outermost layer with the most live bytes; 0: none. */
uint32_t watch_main_layer(const struct watch_process *process);

/* plain.c: a line for each process, or an object of JSON. */
void watch_print_plain(const struct watch *watch, uint64_t line);
bool watch_print_json(const struct watch *watch);

/* The base name of the program, and the state in a word or two. */
const char *watch_process_name(const struct watch_process *process, char *buffer, size_t size);
const char *watch_process_state(const struct watch_process *process, char *buffer, size_t size);

/* A figure that is counted: "182", "18.2k", "3.1M". */
const char *watch_count(char *buffer, size_t size, double count);

/* screen.c: whether there is a screen: a terminal, and a build with curses. */
bool watch_has_screen(void);

/* The screen, until it is left or all is over. `ticks`: so many looks at most; 0: no bound. */
int watch_screen(struct watch *watch, uint64_t interval_ns, uint64_t ticks);

#endif
