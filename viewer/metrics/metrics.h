/*
 * The figures of running recordings as a text that monitoring systems read: OpenMetrics 1.0, or the text format of
 * Prometheus. They come from the gauge pages; the recorded programs do nothing for it.
 *
 *     metrics_init(&metrics, folders, 1);
 *     if (metrics_find(&metrics, true) == COMMAND_FINE && metrics_gather(&metrics, METRICS_NO_BOUND) == COMMAND_FINE)
 *         metrics_write(&metrics, METRICS_OPENMETRICS, &out);
 *     metrics_free(&metrics);
 */
#ifndef VIEWER_METRICS_METRICS_H
#define VIEWER_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/output/emit.h"
#include "viewer/running/running.h"

#define METRICS_RECORDINGS 16384 /* at most */
#define METRICS_TAGS       32    /* of a recording, unless told otherwise */
#define METRICS_NO_BOUND   UINT64_MAX

enum metrics_format { METRICS_OPENMETRICS, METRICS_PROMETHEUS, METRICS_FORMATS };

/* A part of the labels of a recording. */
struct metrics_span {
    size_t begin, length;
};

/* What the labels of a recording were made of: they are made anew where any of it is another. */
struct metrics_shape {
    enum gauge_state state;
    uint32_t pid;
    uint64_t trace_id;
    uint64_t names_ns; /* running_names.asked_ns */
    bool is_made, has_figures;
    size_t layer_count, pool_count, tag_count;
    uint64_t layers[TIDEI_GAUGE_LAYERS], pools[TIDEI_GAUGE_POOLS]; /* their ids */
    uint32_t tags[TIDEI_GAUGE_TAGS], tag_layers[TIDEI_GAUGE_TAGS];
};

/* Tags that read the same are one. */
struct metrics_tag {
    struct metrics_span layer, tag;
    uint64_t live_bytes, live_count;
};

struct metrics_recording {
    struct running base; /* first */
    bool is_shown;
    bool has_figures;
    bool is_sound; /* the page says nothing twice */
    struct metrics_shape shape;
    char *text;                 /* owned: the labels, from one gathering to the next */
    uint64_t hash;              /* of `labels` */
    struct metrics_span labels; /* trace, pid, rank, run, host */
    struct metrics_span info;   /* what the info has more */
    struct metrics_span layers[TIDEI_GAUGE_LAYERS];
    struct metrics_span pools[TIDEI_GAUGE_POOLS];
    struct metrics_tag tags[TIDEI_GAUGE_TAGS];
    size_t tag_count;
    uint8_t tag_places[TIDEI_GAUGE_TAGS]; /* of the tags of the page in `tags`; TIDEI_GAUGE_TAGS: it is not there */
};

/* Why recordings are not shown. */
enum metrics_absence {
    METRICS_TWICE,   /* another one is the same recording, or has the same labels */
    METRICS_WAITING, /* their names have not been read yet */
    METRICS_OVER,    /* there are more than METRICS_RECORDINGS; 1 stands for all of them */
    METRICS_ABSENCES,
};

struct metrics {
    struct running_list found; /* of struct metrics_recording */
    uint64_t tag_limit;
    bool no_durations;
    size_t open_most;    /* ring files that stay open between two gatherings; a scrape is a third faster then */
    struct emit labels;  /* of the recording whose labels are made */
    struct id_map known; /* recordings and labels of the last gathering, by hash */
    uint64_t now_unix_ns;
    uint64_t shown, absent[METRICS_ABSENCES];
    uint64_t gather_ns; /* how long the last gathering took */
};

/* gather.c. COMMAND_FINE, or COMMAND_WRONG after a message. `arguments` is borrowed. */
int metrics_init(struct metrics *metrics, char **arguments, int count);
void metrics_free(struct metrics *metrics);

/* Look for recordings, as running_find. */
int metrics_find(struct metrics *metrics, bool first);

/*
 * Look at all recordings. Names of new ones are read from their traces for `names_ns` at most; what is left then is
 * absent, and metrics_read_names goes on with it.
 */
int metrics_gather(struct metrics *metrics, uint64_t names_ns);

/* Close the ring files until the next gathering: one that is open keeps its blocks on the disk after its removal. */
void metrics_rest(struct metrics *metrics);

/* Read names that are wanted for `ns` at most. False: none are wanted any more. */
bool metrics_read_names(struct metrics *metrics, uint64_t ns);

static inline const struct metrics_recording *
metrics_at(const struct metrics *metrics, size_t place)
{
    return (const struct metrics_recording *)metrics->found.list[place];
}

/* text.c: write what was gathered. */
void metrics_write(const struct metrics *metrics, enum metrics_format format, struct emit *out);

/* The media type of a format. */
const char *metrics_media_type(enum metrics_format format);

/* labels.c: write `text` as the value of a label, without the quotes. */
void metrics_put_label_text(struct emit *out, const char *text);

/*
 * serve.c: answer GET /metrics at `address` ("127.0.0.1:9455") until a signal ends the program. COMMAND_FINE, or
 * COMMAND_WRONG after a message.
 */
int metrics_serve(struct metrics *metrics, const char *address);

/*
 * The host and the port of `text`, an address for metrics_serve; the caller frees both. What is wrong with it, as a
 * sentence, and both are NULL; NULL: nothing.
 */
const char *metrics_parse_address(const char *text, char **host, char **port);

#endif
