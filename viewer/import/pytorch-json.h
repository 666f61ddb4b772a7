/*
 * Reads torch.cuda.memory._snapshot(), as JSON or as the pickle that torch.cuda.memory._dump_snapshot() writes: the
 * segments and blocks at the time of the snapshot, and the history of each device.
 */
#ifndef VIEWER_IMPORT_PYTORCH_JSON_H
#define VIEWER_IMPORT_PYTORCH_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/json-pull.h"

enum pytorch_item_kind {
    PYTORCH_SEGMENT, /* address, size, stream, device */
    PYTORCH_BLOCK,   /* address, size, stream, device, active, frames */
    PYTORCH_EVENT,   /* all */
    PYTORCH_END,
    PYTORCH_FAILED, /* reader->json.message says why */
};

enum pytorch_action {
    PYTORCH_ALLOC,
    PYTORCH_FREE_REQUESTED, /* the program frees the memory */
    PYTORCH_FREE_COMPLETED, /* no stream uses it any more */
    PYTORCH_SEGMENT_ALLOC,  /* or segment_map */
    PYTORCH_SEGMENT_FREE,   /* or segment_unmap */
    PYTORCH_OOM,
    PYTORCH_SNAPSHOT,
    PYTORCH_OTHER, /* an action unknown here, which neither allocates nor frees */
    PYTORCH_BROKEN /* an entry that lacks what it needs */
};

struct pytorch_item {
    enum pytorch_item_kind kind;
    enum pytorch_action action;
    uint64_t address;
    uint64_t size; /* as requested, where the snapshot says so */
    uint64_t stream;
    int64_t device;
    bool active; /* of a block: in use by the program */
    bool has_time;
    int64_t time_us;           /* since 1970 */
    uint64_t device_free;      /* of PYTORCH_OOM */
    const char *const *frames; /* "function (file:line)", the innermost first; until the next item */
    size_t frame_count;
};

/* The most frames of a stack that are read, from the innermost. */
#define PYTORCH_FRAMES_MAX 512

/* The most bytes of a frame's text, as of a tag's. */
#define PYTORCH_FRAME_BYTES 256

struct pytorch_reader {
    struct json_pull json;
    int64_t only_device; /* -1: everything */
    int state;
    int64_t device;                      /* of the trace, or of the segment */
    uint64_t next_block;                 /* its address, where it does not say */
    uint64_t stream;                     /* of the segment */
    char (*frames)[PYTORCH_FRAME_BYTES]; /* owns */
    const char *frame_texts[PYTORCH_FRAMES_MAX];
    size_t frame_count;
};

/*
 * Open the snapshot at `path`: all of it, or only the history of one device. `pickle` has its values where it is a
 * pickle (borrowed until pytorch_close), else NULL. COMMAND_FINE, or COMMAND_WRONG after a message; pytorch_close in
 * both cases.
 */
int pytorch_open(struct pytorch_reader *reader, const char *path, const struct pickle *pickle, int64_t only_device);

void pytorch_next(struct pytorch_reader *reader, struct pytorch_item *item);

void pytorch_close(struct pytorch_reader *reader);

#endif
