/*
 * The gauge page of a running recording (doc/trace.md): read from the ring file beside the trace, without a lock and
 * without a transaction. The file may come from anyone, and may be cut off or vanish at any time.
 */
#ifndef VIEWER_READ_GAUGE_H
#define VIEWER_READ_GAUGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/trace/ring/gauge.h"

/* What a look at a recording finds. */
enum gauge_state {
    GAUGE_RECORDING,
    GAUGE_BEGINS,  /* its files are being made */
    GAUGE_ENDED,   /* there is no ring file, or the process has ended the trace: it has all */
    GAUGE_KILLED,  /* the process is gone; the page has its last word */
    GAUGE_FAILED,  /* the recording has ended early: see `failure` */
    GAUGE_OLD,     /* the recorder is of a version without a gauge page */
    GAUGE_NEWER,   /* the recorder is of a later version */
    GAUGE_UNKNOWN, /* no ring file, or damaged */
    GAUGE_REFUSED, /* the file may not be read, or belongs to others: see `error` */
};

struct gauge_file {
    char *trace; /* owned: the path as it was given */
    char *rings; /* owned */
    int fd;      /* -1: not open */
    dev_t device;
    ino_t inode;   /* of the open file */
    bool is_named; /* its name is known to lead to it still: the next look, and no other, does without asking */
    uint32_t format;
    uint32_t pid;
    uint64_t trace_id;
    uint64_t begins_ns; /* when a file without a header and without a lock was first seen; 0: never */
    int error;          /* errno of GAUGE_REFUSED */
    char failure[256];  /* of GAUGE_FAILED */
};

/* A look: the page, and what the rings add to it. */
struct gauge_look {
    enum gauge_state state;
    bool has_page;      /* `page` is valid: also of a recording that has ended while it was watched */
    uint64_t now_ns;    /* the time of the look, in the trace's time */
    uint64_t behind_ns; /* how far the page is behind; 0: nothing waits */
    bool is_new;        /* the page is another than that of the look before */
    uint64_t sequence;  /* of the page in the open file; 0: it is to be read */
    struct tidei_gauge page;
};

/* Begin to watch the trace at `path`, which need not be there yet. False: no memory. */
bool gauge_open(const char *path, struct gauge_file *out);

/*
 * Look. Opens the ring file where it is not open, or where another recording has taken its place. `out` is that of the
 * look before, or zeros: a page that has not been written since is not read again.
 */
void gauge_look(struct gauge_file *file, struct gauge_look *out);

/* Close the ring file until the next look. */
void gauge_rest(struct gauge_file *file);

void gauge_close(struct gauge_file *file);

/* Why a file is GAUGE_REFUSED, in words. */
const char *gauge_refusal(const struct gauge_file *file);

/* The state in words: "recording", "killed". */
const char *gauge_state_word(enum gauge_state state);

#endif
