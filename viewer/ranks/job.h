/*
 * The file of a job: an SQLite file with the rollups of its ranks (doc/ranks.md). Several processes write into it, one
 * at a time, each the rows of one rank in one transaction.
 */
#ifndef VIEWER_RANKS_JOB_H
#define VIEWER_RANKS_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "src/trace/database/insert.h"
#include "viewer/read/trace.h"

#define JOB_FORMAT 5

/* Each table with the number of its columns. */
/* clang-format off */
#define JOB_TABLES(each) \
    each(meta, 2) \
    each(memory, 2) \
    each(allocation_group, 3) \
    each(rank, 19) \
    each(rank_memory, 21) \
    each(usage_bucket, 12) \
    each(peak_group, 6) \
    each(step, 12) \
    each(step_group, 6) \
    each(group_cut, 5) \
    each(failure, 10) \
    each(mark, 3) \
    each(left_out, 3) \
    each(step_median, 7) \
    each(group_median, 5) \
    each(group_step_median, 7)
/* clang-format on */

#define JOB_TABLE(name, columns) JOB_##name,
enum job_table { JOB_TABLES(JOB_TABLE) JOB_TABLE_COUNT };
#undef JOB_TABLE

#define JOB_COLUMNS(name, columns) JOB_##name##_columns = (columns),
enum { JOB_TABLES(JOB_COLUMNS) };
#undef JOB_COLUMNS

extern const char job_schema[];

struct job {
    const char *path; /* borrows */
    sqlite3 *db;      /* owns */
    sqlite3_stmt *rows[JOB_TABLE_COUNT];
};

/* What a file is. */
enum job_file { JOB_FILE_NONE, JOB_FILE_EMPTY, JOB_FILE_JOB, JOB_FILE_OTHER };
enum job_file job_look(const char *path);

/* Open the file for writing; make it where there is none. COMMAND_FINE, or COMMAND_WRONG after a message. */
int job_open(const char *path, struct job *out);
void job_close(struct job *job);

/* Open it for reading, and check that it is the file of a job. COMMAND_FINE, or another status after a message. */
int job_read(const char *path, struct trace *out);

/* Say that a table has figures that cannot be, those of a rank; -1: of no certain one. Returns COMMAND_WRONG. */
int job_wrong(const struct trace *file, const char *table, int64_t rank);

/* Begin and end the transaction of this process. COMMAND_FINE, or COMMAND_WRONG after a message. */
int job_begin(struct job *job);
int job_commit(struct job *job);

int job_execute(struct job *job, const char *format, ...);

/* Insert a row, a value for each column. COMMAND_FINE, or COMMAND_WRONG after a message. */
#define job_insert(job, table, ...)                                                                                    \
    job_insert_row((job), JOB_##table, (const struct tidei_value[JOB_##table##_columns]){ __VA_ARGS__ })
int job_insert_row(struct job *job, enum job_table table, const struct tidei_value *values);

/* The id of a memory, and of a group of allocations; they are added where they are new. 0 after a message. */
int64_t job_memory(struct job *job, const char *name);
int64_t job_group(struct job *job, const char *by, const char *name);

/*
 * The ranks below `world_size` that the file does not have, as "5, 7-9", which the caller frees; NULL: none. Their
 * number. False: no memory.
 */
bool job_missing(sqlite3 *db, int64_t world_size, char **text, int64_t *count);

/* The file cannot be written: SQLite's last error. Returns COMMAND_WRONG. */
int job_failed(const struct job *job);

#endif
