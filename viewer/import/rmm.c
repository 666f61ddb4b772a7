/*
 * Imports RMM's CSV. Its rows have the time of day but no date: the trace begins on 1 January 1970 at the time of the
 * first event, and a clock that goes back by more than twelve hours has passed midnight. Events have the order of the
 * lines.
 */
#include "config.h"

#include <stdio.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/import/import.h"
#include "viewer/read/rmm-csv.h"

#define RMM_DAY_NS INT64_C(86400000000000)

/* RMM logs no alignment: it is always this one. */
#define RMM_ALIGNMENT 256

struct rmm {
    struct import *import;
    struct rmm_csv csv;
    unsigned layer;
    int64_t start_ns;  /* time of day of the first event that has one; -1: none had one yet */
    int64_t day_ns;    /* the last midnight, since that of the first day */
    int64_t before_ns; /* the time of day of the event before */
};

/* Two digits and what must follow them: '\0' is the end or the fraction. */
static bool
rmm_digits(const char *text, size_t length, size_t at, int64_t *out)
{
    if (at + 2 > length || text[at] < '0' || text[at] > '9' || text[at + 1] < '0' || text[at + 1] > '9')
        return false;
    *out = (text[at] - '0') * 10 + (text[at + 1] - '0');
    return true;
}

/* HH:MM:SS, and after ':' or '.' up to nine digits of a second. */
static bool
rmm_time_of_day(const char *text, size_t length, int64_t *ns)
{
    int64_t hours, minutes, seconds;
    int64_t unit = 100000000;

    if (!rmm_digits(text, length, 0, &hours) || !rmm_digits(text, length, 3, &minutes) ||
        !rmm_digits(text, length, 6, &seconds) || text[2] != ':' || text[5] != ':')
        return false;
    if (hours > 23 || minutes > 59 || seconds > 60 || length == 9 || length > 18)
        return false;
    *ns = ((hours * 60 + minutes) * 60 + seconds) * 1000000000;
    if (length > 8 && text[8] != ':' && text[8] != '.')
        return false;
    for (size_t i = 9; i < length; i++, unit /= 10) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *ns += (text[i] - '0') * unit;
    }
    return true;
}

static void
rmm_set_time(struct rmm *rmm, const struct rmm_row *row)
{
    int64_t ns = 0;
    bool known = rmm_time_of_day(row->time, row->time_length, &ns);

    if (known && rmm->start_ns < 0)
        rmm->start_ns = rmm->before_ns = ns;
    if (known) {
        if (ns < rmm->before_ns - RMM_DAY_NS / 2)
            rmm->day_ns += RMM_DAY_NS;
        rmm->before_ns = ns;
    }
    import_time(rmm->import, known, known ? rmm->day_ns + ns - rmm->start_ns : 0);
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
    struct rmm rmm = { .import = import, .start_ns = -1 };
    int status = rmm_csv_open(&rmm.csv, path, true, "importing");

    if (status == COMMAND_FINE)
        status = import_layers(import, "log rmm", "", -1, RMM_ALIGNMENT, &rmm.layer);
    if (status == COMMAND_FINE)
        status = rmm_rows(&rmm);
    rmm_csv_close(&rmm.csv);
    *start_unix_ns = rmm.start_ns > 0 ? (uint64_t)rmm.start_ns : 0;
    return status;
}

const struct import_format import_rmm = {
    .name = "rmm",
    .purpose = "RMM's log (Thread,Time,Action,Pointer,Size,Stream)",
    .run = rmm_run,
};
