/*
 * Reads allocator traffic from RMM's CSV. Time is not read: some writers leave it malformed, and the order is that of
 * the lines.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/progress.h"
#include "viewer/replay/input.h"
#include "viewer/read/rmm-csv.h"

/* RMM logs no alignment: it is always this one. */
#define CSV_ALIGNMENT_SHIFT 8

struct csv {
    struct rmm_csv file;
    struct replay_input *input;
    struct id_map live; /* owns; allocations by pointer */
    uint32_t *nulls;    /* owns; live allocations of 0 bytes at pointer 0, of which there may be any number */
    size_t null_count;
    size_t null_capacity;
};

static enum replay_add
csv_allocate(struct csv *csv, const struct rmm_row *row)
{
    struct replay_input *input = csv->input;
    uint32_t allocation;
    enum replay_add added =
        replay_input_alloc(input, row->thread, row->stream, row->size, CSV_ALIGNMENT_SHIFT, &allocation);
    uint32_t *earlier;

    if (added != REPLAY_ADD_FINE)
        return added;
    if (row->pointer == 0) {
        uint32_t *nulls = csv->nulls;

        if (csv->null_count == csv->null_capacity) {
            nulls = realloc(nulls, (2 * csv->null_capacity + 64) * sizeof(*nulls));
            if (nulls == NULL)
                return REPLAY_ADD_NO_MEMORY;
            csv->nulls = nulls;
            csv->null_capacity = 2 * csv->null_capacity + 64;
        }
        nulls[csv->null_count++] = allocation;
        return REPLAY_ADD_FINE;
    }
    earlier = id_map_find(&csv->live, row->pointer);
    if (earlier != NULL) {
        input->replaced++;
        *earlier = allocation;
        return REPLAY_ADD_FINE;
    }
    return id_map_add(&csv->live, row->pointer, allocation) ? REPLAY_ADD_FINE : REPLAY_ADD_NO_MEMORY;
}

static enum replay_add
csv_free(struct csv *csv, const struct rmm_row *row)
{
    struct replay_input *input = csv->input;
    uint32_t allocation;

    if (row->pointer == 0 && csv->null_count > 0) {
        allocation = csv->nulls[--csv->null_count];
    } else if (!id_map_take(&csv->live, row->pointer, &allocation)) {
        input->unknown_frees++;
        return REPLAY_ADD_FINE;
    }
    if (input->sizes[allocation] != row->size)
        input->size_differences++;
    return replay_input_free(input, row->thread, row->stream, CSV_ALIGNMENT_SHIFT, allocation);
}

static int
csv_row(struct csv *csv, const struct rmm_row *row)
{
    enum replay_add added = REPLAY_ADD_FINE;

    csv->input->recorded_events++;
    switch (row->action) {
    case RMM_ALLOCATE:
        added = csv_allocate(csv, row);
        break;
    case RMM_FREE:
        added = csv_free(csv, row);
        break;
    case RMM_FAILURE:
        csv->input->recorded_failures++;
        break;
    }
    if (added == REPLAY_ADD_FINE)
        return COMMAND_FINE;
    fprintf(stderr, "%s:%" PRIu64 ": %s\n", csv->file.path, csv->file.line, replay_add_text(added));
    return COMMAND_WRONG;
}

static int
csv_rows(struct csv *csv)
{
    struct progress progress;
    struct rmm_row row;
    enum rmm_found found;
    int status = COMMAND_FINE;

    progress_begin(&progress, "reading");
    while (status == COMMAND_FINE && (found = rmm_csv_next(&csv->file, &row)) != RMM_END) {
        if (found == RMM_ROW) {
            status = csv_row(csv, &row);
        } else {
            fprintf(stderr, "%s\n", csv->file.message);
            status = COMMAND_WRONG;
        }
        if (csv->file.line % 4096 == 0)
            progress_update(&progress, rmm_csv_offset(&csv->file), csv->file.file_bytes);
    }
    progress_end(&progress);
    return status;
}

int
replay_read_csv(const char *path, struct replay_input *input)
{
    struct csv csv = { .input = input };
    int status;

    *input = (struct replay_input){ 0 };
    status = rmm_csv_open(&csv.file, path, false);
    if (status == COMMAND_FINE)
        status = csv_rows(&csv);
    rmm_csv_close(&csv.file);
    free(csv.nulls);
    id_map_free(&csv.live);
    if (status != COMMAND_FINE)
        replay_input_clear(input);
    return status;
}
