/* Writes what was gathered of a trace as the manifest of a report (doc/report.md). */
#ifndef VIEWER_REPORT_MANIFEST_H
#define VIEWER_REPORT_MANIFEST_H

#include "viewer/output/report.h"
#include "viewer/report/block.h"
#include "viewer/report/gather.h"

/* What a command answered. */
struct manifest_answer {
    const char *command;         /* borrows */
    const struct report *report; /* borrows; NULL: it failed */
    size_t left_out_bytes;       /* set by manifest_write: the bytes of an answer that is too long; 0: it is there */
};

/* The memory below the selected allocations. */
struct timeline;

struct fit;

struct manifest {
    struct blocks *blocks; /* borrows, as all below */
    struct gather *gather;
    struct fit *fit;                 /* set by manifest_write: what is cut to keep the page small */
    const struct timeline *timeline; /* what was reserved; NULL: it failed */
    struct manifest_answer *answers; /* the first is of `summary` */
    size_t answer_count;
    const struct report *diff; /* NULL: none */
    bool no_names;
};

/*
 * Write the members of the manifest, within an object that the caller begins and ends. Where they and the blocks would
 * take more bytes than the detail allows, what was gathered is cut. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int manifest_write(const struct manifest *manifest);

#endif
