/*
 * What a calling thread writes into its ring: records of one cache line, the same in the rings and in the backlog.
 *
 * The layout is part of the ring file's format (doc/trace.md); a change of it is a new TIDEI_RING_FORMAT.
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
    TIDEI_RECORD_TEXT = 10,   /* more of the text of the record before; of an event: a call of the driver */
    TIDEI_RECORD_SAMPLE = 11, /* address: used bytes, size: reserved bytes, tag: layer id */
    TIDEI_RECORD_MODULE = 12, /* text: path, NUL, build id; address: module id, size: bytes in memory, stream: base */
    TIDEI_RECORD_CALLSTACK = 13, /* text: addresses of 8 bytes, the innermost first; address: call stack id */
    TIDEI_RECORD_MISUSE = 14,    /* text: struct tidei_misuse; address, size, alignment, callstack: of the call */
    TIDEI_RECORD_DEVICES = 15,   /* text: the machine's GPUs, as meta.devices has them */
};

/*
 * `ticks` of an allocation and of a failure is the moment its call returned; so is that of a free, whose call began
 * `duration_ticks` earlier. Fields that a kind does not name are as for an allocation.
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
    uint8_t call_function; /* of an event: the one call of the driver that it made, function.h; 0: none here */
    uint16_t text_records; /* how many TEXT records follow */
    uint32_t thread;       /* the thread that wrote it: a ring passes from a thread that ends to the next one */
    uint32_t call_span;    /* of that call: ticks after the event's begin << 16 | ticks that it took */
};

/* The eight bytes from `layer` on, as one word (little-endian or not: both ways are the same struct). */
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
    uint16_t length; /* of the text here */
    uint8_t kind;
    uint8_t reserved[5];
    uint32_t thread;
    uint32_t reserved2;
};

/*
 * A call of the driver within an event, as the text of a TEXT record behind it: where it has failed, took long, was not
 * the only one, or has a number.
 */
struct tidei_call_part {
    uint64_t start; /* ticks */
    uint64_t end;
    uint32_t correlation; /* CUPTI's number of it; 0: not kept */
    int32_t result;       /* CUresult, or cudaError_t of a function of the runtime */
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

/* What is known of the allocation that a misuse is about; 0 where nothing is. */
struct tidei_misuse {
    uint64_t size;
    uint32_t kind; /* enum tidei_misuse_kind */
    uint32_t alignment_log2;
    uint32_t alloc_os_tid;
    uint32_t alloc_callstack;
    uint32_t free_os_tid; /* of a double free: the first one */
    uint32_t free_callstack;
};

_Static_assert(sizeof(struct tidei_misuse) <= TIDEI_TEXT_BYTES, "a misuse is one text record");

/* The most text that goes with one record; longer text is cut. */
#define TIDEI_TEXT_MAX 16383

#endif
