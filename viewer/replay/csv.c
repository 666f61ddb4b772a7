/*
 * Reads allocator traffic from RMM's CSV. Events have the order of the lines, since some writers leave times malformed;
 * those that can be read only say how long the program ran.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/tables/lives.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"
#include "viewer/read/rmm-csv.h"

/* RMM logs no alignment: it is always this one. */
#define CSV_ALIGNMENT_SHIFT 8

struct csv {
    struct rmm_csv file;
    struct rmm_clock clock;
    bool keeps_times;
    int64_t ns; /* the time of this row, since that of the first one */
    struct replay_input *input;
    struct tidei_lives live; /* owns; numbers of allocations + 1, by pointer */
};

static const char *
csv_allocate(struct csv *csv, const struct rmm_row *row)
{
    struct replay_input *input = csv->input;
    uint32_t allocation, earlier;
    const char *error =
        replay_input_alloc(input, row->thread, row->stream, row->size, CSV_ALIGNMENT_SHIFT, &allocation);

    if (error != NULL)
        return error;
    if (!tidei_lives_replace(&csv->live, row->pointer, 0, allocation + 1, &earlier))
        return replay_no_memory;
    input->replaced += earlier != 0;
    return csv->keeps_times ? replay_input_time(input, csv->ns) : NULL;
}

static const char *
csv_free(struct csv *csv, const struct rmm_row *row)
{
    struct replay_input *input = csv->input;
    uint32_t number = tidei_lives_take(&csv->live, row->pointer, 0, NULL, NULL);
    const char *error;

    if (number == 0) {
        input->unknown_frees++;
        return NULL;
    }
    input->size_differences += input->sizes[number - 1] != row->size;
    error = replay_input_free(input, row->thread, row->stream, CSV_ALIGNMENT_SHIFT, number - 1);
    return error == NULL && csv->keeps_times ? replay_input_time(input, csv->ns) : error;
}

static int
csv_row(struct csv *csv, const struct rmm_row *row)
{
    const char *error = NULL;
    bool has_time = rmm_clock_read(&csv->clock, row, &csv->ns);

    csv->input->recorded_events++;
    if (has_time && csv->ns > csv->input->duration_ns)
        csv->input->duration_ns = csv->ns;
    if (csv->keeps_times && !has_time)
        error = "column 2 (Time): expected a time of day such as 12:34:56.789012, for --time-scale";
    else if (row->action == RMM_ALLOCATE)
        error = csv_allocate(csv, row);
    else if (row->action == RMM_FREE)
        error = csv_free(csv, row);
    else
        csv->input->recorded_failures++;
    if (error == NULL)
        return COMMAND_FINE;
    message("%s:%" PRIu64 ": %s", csv->file.path, csv->file.line, error);
    return COMMAND_WRONG;
}

static int
csv_rows(struct csv *csv)
{
    struct rmm_row row;
    enum rmm_found found;
    int status = COMMAND_FINE;

    while (status == COMMAND_FINE && (found = rmm_csv_next(&csv->file, &row)) != RMM_END) {
        if (found == RMM_ROW) {
            status = csv_row(csv, &row);
        } else {
            message("%s", csv->file.message);
            status = COMMAND_WRONG;
        }
    }
    return status;
}

int
replay_read_csv(const char *path, const struct replay_reading *reading, struct replay_input *input)
{
    struct csv csv = { .clock = RMM_CLOCK, .keeps_times = reading->keeps_times, .input = input };
    int status;

    *input = (struct replay_input){ 0 };
    tidei_map_draw_key(&csv.live.by_address);
    status = rmm_csv_open(&csv.file, path, false, "reading");
    if (status == COMMAND_FINE)
        status = csv_rows(&csv);
    rmm_csv_close(&csv.file);
    tidei_lives_free(&csv.live);
    if (status != COMMAND_FINE)
        replay_input_clear(input);
    return status;
}
