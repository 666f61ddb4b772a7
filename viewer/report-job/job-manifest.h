/* Writes what was gathered of a job as the manifest of its page (doc/report.md). */
#ifndef VIEWER_REPORT_JOB_MANIFEST_H
#define VIEWER_REPORT_JOB_MANIFEST_H

#include "viewer/output/report.h"
#include "viewer/report-job/job-gather.h"
#include "viewer/report/block.h"

struct job_manifest {
    struct blocks *blocks; /* borrows, as all below */
    struct job_gather *gather;
    const struct report *answers; /* of `tidemark ranks`, one for each memory of the gather */
    size_t memories_left;         /* that are not in the page */
    bool no_names;
};

/* Write the manifest. COMMAND_FINE, or another status after a message. */
int job_manifest_write(const struct job_manifest *manifest);

#endif
