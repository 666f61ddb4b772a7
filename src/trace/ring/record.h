/*
 * The records that a calling thread writes into its ring. A record is one cache line, with the same layout in rings and
 * backlog.
 *
 * The layout is part of the ring file's format (doc/trace.md); changing it requires a new TIDEI_RING_FORMAT.
 */
#ifndef TIDEI_TRACE_RING_RECORD_H
#define TIDEI_TRACE_RING_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum tidei_record_kind {
    TIDEI_RECORD_BAD = 0, /* a recovery found that it is not what was written */
    TIDEI_RECORD_ALLOC = 1,
    TIDEI_RECORD_FREE = 2,
    TIDEI_RECORD_MARK = 3,    /* text: the mark's; tag: its length */
    TIDEI_RECORD_TAG = 4,     /* text: name; address: tag id, size: parent's */
    TIDEI_RECORD_LAYER = 5,   /* text: kind, NUL, config; address: layer id, size: upstream's, stream: device or -1 */
    TIDEI_RECORD_BIN = 6,     /* address: layer id, size: limit in bytes, stream: upstream layer id */
    TIDEI_RECORD_THREAD = 7,  /* text: name; address: thread id, size: os tid */
    TIDEI_RECORD_LOSS = 8,    /* address: dropped allocations, size: dropped frees, stream: dropped marks */
    TIDEI_RECORD_STACK = 9,   /* text: a stack as text; address: its number from 1 */
    TIDEI_RECORD_TEXT = 10,   /* more of the record before: see enum tidei_text_part */
    TIDEI_RECORD_SAMPLE = 11, /* address: used bytes, size: reserved bytes, stream: the most of these, tag: layer id */
    TIDEI_RECORD_MODULE = 12, /* text: path, NUL, build id; address: module id, size: bytes in memory, stream: base */
    TIDEI_RECORD_CALLSTACK = 13, /* text: addresses of 8 bytes, the innermost first; address: call stack id */
    TIDEI_RECORD_MISUSE = 14,    /* text: struct tidei_misuse; address, size, alignment, callstack: of the call */
    TIDEI_RECORD_DEVICES = 15,   /* text: the machine's GPUs, as meta.devices has them */
    TIDEI_RECORD_HELD = 16,      /* as ALLOC: memory that was held before the trace, or the layer in it, began */
    TIDEI_RECORD_CALLS = 17,  /* text: driver calls of the thread's latest event; address: when that began, size: when
                                    it ended, stream: its address, status: 1 if it is a free, alignment_log2: 1 if
                                    another such record follows */
    TIDEI_RECORD_SOURCE = 18, /* text: function, NUL, file; address: its number, size: line */
};

/*
 * `ticks` of an event is the time at which its call returned, for allocations, failures and frees alike; the call began
 * as many ticks earlier as `duration_check` says. Fields that a kind does not name above have the meaning that they
 * have for an allocation.
 */
struct tidei_record {
    uint64_t ticks;
    uint64_t duration_check; /* in ticks; the upper 16 bits are a check of the record: see tidei_record_seal */
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

/* Where `alignment_log2` lies in that word. To shift it there takes an instruction less than the union. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TIDEI_RECORD_ALIGNMENT_SHIFT 32
#else
#define TIDEI_RECORD_ALIGNMENT_SHIFT 24
#endif

/* The word of an event that succeeds; `alignment` is a power of two. */
static inline __attribute__((always_inline)) uint64_t
tidei_record_event_word(uint16_t layer, uint8_t kind, uint64_t alignment)
{
    uint64_t log2 = (uint64_t)__builtin_ctzll(alignment);

    return tidei_record_word(layer, kind, 0, 0) | log2 << TIDEI_RECORD_ALIGNMENT_SHIFT;
}

/* The word of a record with nothing but the function of a call. */
static inline uint64_t
tidei_record_call_word(uint8_t function)
{
    union {
        uint8_t bytes[8];
        uint64_t word;
    } both = { .bytes = { [5] = function } };

    return both.word;
}

/*
 * The check of a record: a ring file that lies on a disk after a kill, or in memory that fails, may lose a bit, which
 * would end an allocation of another address. It is in bits that no duration has. Each lane is a word of the record;
 * the xor of them has a flipped bit, whichever it was, and the product with this odd number then differs in the upper
 * 16 bits, for every single bit.
 */
#define TIDEI_CHECK_FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define TIDEI_CHECK_MASK   UINT64_C(0xffff000000000000)

/* 13 hours at 3 GHz. A longer call counts as this long. */
#define TIDEI_DURATION_MOST ((UINT64_C(1) << 47) - 1)

/* The lanes but for the times. `call_span` is 0 where the record has no call: the field then has any value. */
static inline __attribute__((always_inline)) uint64_t
tidei_record_lanes(uint64_t address, uint64_t size, uint64_t stream, uint64_t word, uint32_t tag, uint32_t callstack,
                   uint32_t thread, uint32_t call_span)
{
    return (address ^ size ^ stream ^ word) ^
           (((uint64_t)callstack << 32 | tag) ^ ((uint64_t)call_span << 32 | thread) << 16 ^ call_span >> 16);
}

/* Where the check lies within `duration_check`. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TIDEI_CHECK_OFFSET 6
#else
#define TIDEI_CHECK_OFFSET 0
#endif

/*
 * Set the duration and the check. A clock that differs between processors may make a duration negative. The check is
 * stored over the upper bits of the duration: to join the two in a register takes two instructions more, for which the
 * thread's next event waits.
 */
static inline __attribute__((always_inline)) void
tidei_record_seal_lanes(struct tidei_record *record, uint64_t lanes, uint64_t ticks, uint64_t duration_ticks)
{
    uint16_t check;

    if (__builtin_expect(duration_ticks > TIDEI_DURATION_MOST, 0))
        duration_ticks = (int64_t)duration_ticks < 0 ? 0 : TIDEI_DURATION_MOST;
    record->duration_check = duration_ticks;
    check = (uint16_t)((lanes ^ ticks ^ duration_ticks) * TIDEI_CHECK_FACTOR >> 48);
    __asm__("" : "+r"(check)); /* else the compiler joins the two after all */
    memcpy((unsigned char *)&record->duration_check + TIDEI_CHECK_OFFSET, &check, sizeof(check));
}

static inline uint64_t
tidei_record_duration(const struct tidei_record *record)
{
    return record->duration_check & ~TIDEI_CHECK_MASK;
}

/* Set the duration and the check; all other fields are set. */
static inline void
tidei_record_seal(struct tidei_record *record, uint64_t duration_ticks)
{
    uint64_t word, lanes;

    memcpy(&word, &record->layer, sizeof(word));
    lanes = tidei_record_lanes(record->address, record->size, record->stream, word, record->tag, record->callstack,
                               record->thread, record->call_function != 0 ? record->call_span : 0);
    tidei_record_seal_lanes(record, lanes, record->ticks, duration_ticks);
}

/* Whether a record is what was sealed. */
static inline bool
tidei_record_is_sealed(const struct tidei_record *record)
{
    struct tidei_record again = *record;

    tidei_record_seal(&again, tidei_record_duration(record));
    return again.duration_check == record->duration_check;
}

#define TIDEI_TEXT_BYTES 48

/* What a TEXT record holds, by its `part`. */
enum tidei_text_part {
    TIDEI_PART_TEXT = 0,      /* after an event or CALLS: a driver call, struct tidei_call_part; else text */
    TIDEI_PART_REFUSAL = 1,   /* after a failed allocation: text of the refusal; `layer`: the one that refused, or 0 */
    TIDEI_PART_CALL_MORE = 2, /* after an event: its last call here; a CALLS record of the thread has more */
};

struct tidei_text_record {
    char text[TIDEI_TEXT_BYTES];
    uint16_t length; /* of the text in this record */
    uint8_t kind;
    uint8_t part;
    uint16_t layer;
    uint16_t reserved;
    uint32_t thread;
    uint32_t check; /* of the other fields */
};

/* The check of a text record: a flipped bit of any of its words changes it. */
static inline uint32_t
tidei_text_record_check(const struct tidei_text_record *record)
{
    struct tidei_text_record all = *record;
    uint64_t words[sizeof(all) / sizeof(uint64_t)], sum = 0;

    all.check = 0;
    memcpy(words, &all, sizeof(words));
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        sum = (sum ^ words[i] ^ sum >> 29) * TIDEI_CHECK_FACTOR;
    return (uint32_t)(sum >> 32);
}

/* Upper bound of the text of a refusal; longer text is cut. */
#define TIDEI_REFUSAL_BYTES   256
#define TIDEI_REFUSAL_RECORDS ((TIDEI_REFUSAL_BYTES + TIDEI_TEXT_BYTES - 1) / TIDEI_TEXT_BYTES)

/*
 * Upper bound of the driver calls behind one record; a small ring lowers it further, to a quarter of its records. An
 * event with more of them has the others behind CALLS records, each written as soon as the ring has room.
 */
#define TIDEI_CALLS_MOST 1024

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
