/*
 * The records that a calling thread writes into its ring. A record is one cache line, with the same layout in rings and
 * backlog.
 *
 * The layout is part of the ring file's format (doc/trace.md); changing it requires a new TIDEI_RING_FORMAT.
 */
#ifndef TIDEI_TRACE_RING_RECORD_H
#define TIDEI_TRACE_RING_RECORD_H

#include <stdint.h>

enum tidei_record_kind {
    TIDEI_RECORD_ALLOC = 1,
    TIDEI_RECORD_FREE = 2,
    TIDEI_RECORD_MARK = 3,    /* text: the mark's; tag: its length */
    TIDEI_RECORD_TAG = 4,     /* text: name; address: tag id, size: parent's */
    TIDEI_RECORD_LAYER = 5,   /* text: kind, NUL, config; address: layer id, size: upstream's, stream: device or -1 */
    TIDEI_RECORD_BIN = 6,     /* address: layer id, size: limit in bytes, stream: upstream layer id */
    TIDEI_RECORD_THREAD = 7,  /* text: name; address: thread id, size: os tid */
    TIDEI_RECORD_LOSS = 8,    /* address: dropped allocations, size: dropped frees, stream: dropped marks */
    TIDEI_RECORD_STACK = 9,   /* text: a stack as text; address: its number from 1 */
    TIDEI_RECORD_TEXT = 10,   /* more text of the record before; after an event: a driver call */
    TIDEI_RECORD_SAMPLE = 11, /* address: used bytes, size: reserved bytes, stream: the most of these, tag: layer id */
    TIDEI_RECORD_MODULE = 12, /* text: path, NUL, build id; address: module id, size: bytes in memory, stream: base */
    TIDEI_RECORD_CALLSTACK = 13, /* text: addresses of 8 bytes, the innermost first; address: call stack id */
    TIDEI_RECORD_MISUSE = 14,    /* text: struct tidei_misuse; address, size, alignment, callstack: of the call */
    TIDEI_RECORD_DEVICES = 15,   /* text: the machine's GPUs, as meta.devices has them */
    TIDEI_RECORD_HELD = 16,      /* as ALLOC: memory that was held before the trace, or the layer in it, began */
};

/*
 * `ticks` of an event is the time at which its call returned, for allocations, failures and frees alike; the call began
 * `duration_ticks` earlier. Fields that a kind does not name above have the meaning that they have for an allocation.
 */
struct tidei_record {
    uint64_t ticks;
    uint64_t duration_ticks;
    uint64_t address;
    uint64_t size;
    uint64_t stream;
    uint32_t tag;
    uint32_t callstack;
    uint16_t layer;
    uint8_t kind;
    uint8_t status;
    uint8_t alignment_log2;
    uint8_t call_function; /* of an event: its only driver call (see function.h); 0: none in this record */
    uint16_t text_records; /* how many TEXT records follow */
    uint32_t thread;       /* the thread that wrote it: when a thread ends, another may reuse its ring */
    uint32_t call_span;    /* of that call: ticks from the event's begin << 16 | duration in ticks */
};

/* The eight bytes from `layer` on, as one word; the union makes it independent of the byte order. */
static inline uint64_t
tidei_record_word(uint16_t layer, uint8_t kind, uint8_t status, uint8_t alignment_log2)
{
    union {
        struct {
            uint16_t layer;
            uint8_t kind;
            uint8_t status;
            uint8_t alignment_log2;
            uint8_t call_function;
            uint16_t text_records;
        } fields;
        uint64_t word;
    } both = { .fields = { layer, kind, status, alignment_log2, 0, 0 } };

    return both.word;
}

#define TIDEI_TEXT_BYTES 48

struct tidei_text_record {
    char text[TIDEI_TEXT_BYTES];
    uint16_t length; /* of the text in this record */
    uint8_t kind;
    uint8_t reserved[5];
    uint32_t thread;
    uint32_t reserved2;
};

/*
 * A driver call within an event, as the text of a TEXT record after the event. Used if the call failed, took too long
 * for `call_span`, was not the only one, or has a correlation number.
 */
struct tidei_call_part {
    uint64_t start; /* ticks */
    uint64_t end;
    uint32_t correlation; /* CUPTI's number of the call; 0: not kept */
    int32_t result;       /* CUresult, or cudaError_t of a runtime function */
    uint8_t function;     /* function.h */
    uint8_t reserved[7];
};

_Static_assert(sizeof(struct tidei_call_part) == 32, "a call fits into the text of one record");
_Static_assert(sizeof(struct tidei_record) == 64, "a record is one cache line");
_Static_assert(sizeof(struct tidei_text_record) == 64, "a text record is one cache line");

enum tidei_misuse_kind {
    TIDEI_MISUSE_UNKNOWN_POINTER = 0,
    TIDEI_MISUSE_DOUBLE_FREE = 1,
    TIDEI_MISUSE_WRONG_SIZE = 2,
    TIDEI_MISUSE_WRONG_ALIGNMENT = 3,
    TIDEI_MISUSE_GIVEN_TWICE = 4,
};

/* The allocation that was misused, as far as it is known; unknown fields are 0. */
struct tidei_misuse {
    uint64_t size;
    uint32_t kind; /* enum tidei_misuse_kind */
    uint32_t alignment_log2;
    uint32_t alloc_os_tid;
    uint32_t alloc_callstack;
    uint32_t free_os_tid; /* of a double free: the thread of the first free */
    uint32_t free_callstack;
};

_Static_assert(sizeof(struct tidei_misuse) <= TIDEI_TEXT_BYTES, "a misuse is one text record");

/* Upper bound of the text of one record; longer text is cut. */
#define TIDEI_TEXT_MAX 16383

#endif
