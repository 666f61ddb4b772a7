/*
 * Imports RMM's CSV. Its rows have the time of day but no date: the trace begins on 1 January 1970 at the time of the
 * first event. Events have the order of the lines.
 */
#include "config.h"

#include <stdio.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/import/import.h"
#include "viewer/read/rmm-csv.h"

/* RMM logs no alignment: it is always this one. */
#define RMM_ALIGNMENT 256

struct rmm {
    struct import *import;
    struct rmm_csv csv;
    unsigned layer;
    struct rmm_clock clock;
};

static void
rmm_set_time(struct rmm *rmm, const struct rmm_row *row)
{
    int64_t ns = 0;
    bool known = rmm_clock_read(&rmm->clock, row, &ns);

    import_time(rmm->import, known, ns);
}

static int
rmm_row(struct rmm *rmm, const struct rmm_row *row)
{
    static int (*const add[])(struct import * import, const struct import_event *event) = {
        [RMM_ALLOCATE] = import_alloc,
        [RMM_FREE] = import_free,
        [RMM_FAILURE] = import_failure,
    };
    struct import_event event = {
        .layer = rmm->layer,
        .address = row->pointer,
        .size = row->size,
        .thread = row->thread,
        .stream = row->stream,
    };

    rmm_set_time(rmm, row);
    return add[row->action](rmm->import, &event);
}

static int
rmm_rows(struct rmm *rmm)
{
    struct rmm_row row;
    enum rmm_found found = RMM_ROW;
    int status = COMMAND_FINE;

    while (status == COMMAND_FINE && found != RMM_FAILED && (found = rmm_csv_next(&rmm->csv, &row)) != RMM_END) {
        if (found == RMM_ROW) {
            status = rmm_row(rmm, &row);
        } else {
            if (rmm->import->unreadable == 0 || found == RMM_FAILED)
                message("%s", rmm->csv.message);
            rmm->import->unreadable += found == RMM_UNREADABLE;
            rmm->import->cut_off = found == RMM_FAILED;
        }
    }
    /* A file in which not one row can be read is something else. */
    if (status == COMMAND_FINE && rmm->import->events == 0 && rmm->import->unreadable + rmm->import->cut_off > 0)
        status = COMMAND_WRONG;
    return status;
}

static int
rmm_run(struct import *import, const char *path, uint64_t *start_unix_ns)
{
    struct rmm rmm = { .import = import, .clock = RMM_CLOCK };
    int status = rmm_csv_open(&rmm.csv, path, true, "importing");

    if (status == COMMAND_FINE)
        status = import_layers(import, "log rmm", "", -1, RMM_ALIGNMENT, &rmm.layer);
    if (status == COMMAND_FINE)
        status = rmm_rows(&rmm);
    rmm_csv_close(&rmm.csv);
    *start_unix_ns = rmm.clock.start_ns > 0 ? (uint64_t)rmm.clock.start_ns : 0;
    return status;
}

const struct import_format import_rmm = {
    .name = "rmm",
    .purpose = "RMM's log (Thread,Time,Action,Pointer,Size,Stream)",
    .run = rmm_run,
};
