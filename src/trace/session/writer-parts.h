/* What the files of the writer share: writer.c (its thread), commit.c (the backlog) and finish.c (the end). */
#ifndef TIDEI_TRACE_SESSION_WRITER_PARTS_H
#define TIDEI_TRACE_SESSION_WRITER_PARTS_H

#include "src/trace/session/writer.h"

/* How many records go into a transaction at the least. */
#define TIDEI_SLICE_LEAST 32768u

/* Write the half that fills; the other one fills from now on. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_writer_commit(struct tidei_writer *writer);

/* Drain until everything that was recorded before now is in the backlog, and write that. Errors: as above. */
enum tide_status tidei_writer_settle(struct tidei_writer *writer);

/* Everything that is left goes to SQLite; after a failure too, since the disk may have room again. Errors: as above. */
enum tide_status tidei_writer_write_rest(struct tidei_writer *writer);

/* The recording has ended: threads go on without it, and the message sink hears of it once. */
void tidei_writer_fail(struct tidei_writer *writer);

/* Stop the thread, where it runs. */
void tidei_writer_join(struct tidei_writer *writer);

#endif
