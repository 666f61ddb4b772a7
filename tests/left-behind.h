/* The files that a killed recording program has left, which a test can restore as often as needed. */
#ifndef TESTS_LEFT_BEHIND_H
#define TESTS_LEFT_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct left_file {
    unsigned char *bytes;
    size_t length;
};

struct left {
    char folder[32];
    char trace_path[48], rings_path[64], log_path[64], index_path[64];
    char base_path[48]; /* a trace with what the trace had when the program was killed */
    struct left_file rings, trace, log;
};

extern struct left left;

/* Run a program that records, and kill it. It leaves records in the trace, in the backlog and in a ring. */
bool leave_behind(void);

/* The number of a ring that has records; UINT32_MAX if there is none. */
uint32_t left_pending_ring(void);

/* Restore the trace as it was left, with this ring file beside it; NULL: none. */
void left_lay_out(const unsigned char *rings, size_t length);

/* Whether the ring file is unchanged. */
bool left_rings_are(const unsigned char *bytes, size_t length);

/* Whether no file of the trace was changed since left_lay_out, its times included, and none has come. */
bool left_is_untouched(const unsigned char *bytes, size_t length);

/*
 * Whether the trace has everything that it had when it was left, unchanged, and is sound. Unless it must be untouched,
 * live allocations may have been freed and more may have been added.
 */
bool left_keeps_what_it_had(bool untouched);

/* The number that a query over the trace returns; -1 if it fails. */
int64_t left_number(const char *sql);

/* Remove all files. */
void left_remove(void);

#endif
