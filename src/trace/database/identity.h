/* Which process of a job this is, as whatever started the job says in the environment. */
#ifndef TIDEI_TRACE_DATABASE_IDENTITY_H
#define TIDEI_TRACE_DATABASE_IDENTITY_H

#include <stdint.h>

/* The most characters of a job's name, and the end. */
#define TIDEI_IDENTITY_JOB_BYTES 256

struct tidei_identity {
    int64_t rank;                       /* among all processes of the job; as the next two, -1: not known */
    int64_t world_size;                 /* processes of the job */
    int64_t local_rank;                 /* among those of its host */
    char job[TIDEI_IDENTITY_JOB_BYTES]; /* ""; not known */
};

/*
 * Read the environment: of torchrun, Open MPI, PMI and Slurm, the first that says a rank. A set-uid program ignores it.
 * Not while another thread calls setenv(), as with getenv().
 */
void tidei_identity_read(struct tidei_identity *out);

#endif
