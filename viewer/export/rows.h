/* A row for each allocation with its whole life, for the formats that have such rows. */
#ifndef VIEWER_EXPORT_ROWS_H
#define VIEWER_EXPORT_ROWS_H

#include "viewer/export/export.h"

/*
 * The columns of every allocation, and of freed ones. They are macro lists, so that each format writes a row without
 * testing the kinds of columns at run time: a loop over them made JSON lines an eighth slower.
 */
/* clang-format off */
#define ROWS_LIFE(each) \
    each(allocation_id, signed) \
    each(layer_id, signed) \
    each(layer, text) \
    each(address, unsigned) \
    each(size, unsigned) \
    each(alignment, signed) \
    each(status, text) \
    each(tag, text) \
    each(callstack, stack) \
    each(alloc_ns, signed) \
    each(alloc_duration_ns, signed) \
    each(alloc_thread, unsigned) \
    each(alloc_stream, unsigned)
#define ROWS_FREE(each) \
    each(free_ns, signed) \
    each(free_duration_ns, signed) \
    each(free_thread, unsigned) \
    each(free_stream, unsigned)
/* clang-format on */

#define ROWS_TYPE_signed        int64_t
#define ROWS_TYPE_unsigned      uint64_t
#define ROWS_TYPE_text          const char * /* "" where there is none */
#define ROWS_TYPE_stack         const char * /* its frames; "" where there is none */
#define ROWS_MEMBER(name, kind) ROWS_TYPE_##kind name;

struct row {
    ROWS_LIFE(ROWS_MEMBER)
    ROWS_FREE(ROWS_MEMBER)
    bool freed;
};

/*
 * Write the allocations that pass the filters, each by `row`; `begin` (or NULL) writes what comes first. COMMAND_FINE,
 * or COMMAND_WRONG after a message.
 */
int rows_write(const struct export_job *export, void (*begin)(struct emit *out),
               void (*row)(struct emit *out, const struct row *row));

#endif
