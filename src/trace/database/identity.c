/* Reads which process of a job this is from the environment. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/trace/database/identity.h"

/* What starts the processes of a job, and the variables that it sets. */
struct identity_launcher {
    const char *sign; /* has to be there, too; NULL: nothing has */
    const char *rank;
    const char *world_size;
    const char *local_rank;
};

/* torchrun starts several ranks in one task of Slurm or MPI, so what it says comes first. Others have a RANK, too. */
static const struct identity_launcher identity_launchers[] = {
    { "WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK" },
    { NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK" },
    { NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID" },
    { NULL, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID" },
};

/* What names the job, whoever says the rank. Its processes on all hosts have the same. */
static const char *const identity_jobs[] = { "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE", "PMI_JOBID" };

/* A variable that is a number; -1: it is none, or not set. No other text gets into a path. */
static int64_t
identity_number(const char *variable)
{
    const char *text = secure_getenv(variable);
    long value;

    if (text == NULL || text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return -1;
    errno = 0;
    value = strtol(text, NULL, 10);
    return errno == 0 && value <= INT_MAX ? value : -1;
}

void
tidei_identity_read(struct tidei_identity *out)
{
    *out = (struct tidei_identity){ .rank = -1, .world_size = -1, .local_rank = -1 };
    for (size_t i = 0; i < sizeof(identity_launchers) / sizeof(identity_launchers[0]) && out->rank < 0; i++) {
        const struct identity_launcher *launcher = &identity_launchers[i];

        if (launcher->sign != NULL && secure_getenv(launcher->sign) == NULL)
            continue;
        out->rank = identity_number(launcher->rank);
        out->world_size = out->rank < 0 ? -1 : identity_number(launcher->world_size);
        out->local_rank = out->rank < 0 ? -1 : identity_number(launcher->local_rank);
    }
    for (size_t i = 0; i < sizeof(identity_jobs) / sizeof(identity_jobs[0]) && out->job[0] == '\0'; i++) {
        const char *job = secure_getenv(identity_jobs[i]);

        /* "none" is what torchrun says where nobody has named the job. */
        if (out->rank >= 0 && job != NULL && strcmp(job, "none") != 0)
            snprintf(out->job, sizeof(out->job), "%s", job);
    }
}
