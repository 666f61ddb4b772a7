/* Looks at what the trace of a dead process says of itself, and changes none of its files. */
#ifndef TIDEI_TRACE_DATABASE_LOOK_H
#define TIDEI_TRACE_DATABASE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

/* From meta; 0 where it is not there. */
struct tidei_look {
    int64_t trace_id, epoch, epoch_records;
    bool ended;
    bool exit_recovered; /* what threads recorded after the end at exit() is in the trace */
};

/*
 * Errors: TIDE_EFORMAT (no SQLite file, or a damaged one), TIDE_EIO, TIDE_ENOMEM. `busy`: called while another process
 * has locked the trace, with the time that was waited; false: give up.
 */
enum tide_status tidei_database_look(const char *path, bool (*busy)(void *context, uint64_t waited_ns),
                                     struct tidei_look *out);

#endif
