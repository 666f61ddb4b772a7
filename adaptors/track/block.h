/* What `track` knows of one block, and what it answers to a call. */
#ifndef TIDEI_ADAPTORS_TRACK_BLOCK_H
#define TIDEI_ADAPTORS_TRACK_BLOCK_H

#include <stdint.h>

#include <tidemark/resource.h>

/* Who called, and from where. */
struct tidei_track_caller {
    uint32_t thread;    /* the system's id */
    uint32_t callstack; /* 0: none */
};

/* One block that was given out; `address` is 0 where a place is empty. */
struct tidei_track_block {
    uint64_t address;
    uint64_t bytes;
    tide_stream stream;
    uint32_t alignment_log2;
    uint32_t tag;
    struct tidei_track_caller caller;
    struct tidei_track_caller freed_by; /* zeros while it is outstanding */
};

enum tidei_track_answer {
    TIDEI_TRACK_FINE = 0,
    TIDEI_TRACK_UNKNOWN,
    TIDEI_TRACK_FREED_BEFORE,
    TIDEI_TRACK_OTHER_SIZE,
    TIDEI_TRACK_OTHER_ALIGNMENT,
    TIDEI_TRACK_LIVE,      /* it is outstanding already */
    TIDEI_TRACK_NO_MEMORY, /* of the host */
};

#endif
