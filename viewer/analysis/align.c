/* Aligns the groups of two traces. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/analysis/align.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/base/callstack-text.h"

int64_t
align_change(const struct align_row *row)
{
    return (int64_t)(row->b.bytes - row->a.bytes);
}

static int
align_compare_keys(const void *left, const void *right)
{
    const struct align_row *a = left;
    const struct align_row *b = right;

    if (a->name != NULL && b->name != NULL)
        return strcmp(a->name, b->name);
    return (a->size > b->size) - (a->size < b->size);
}

static uint64_t
align_weight(const struct align_row *row)
{
    int64_t change = align_change(row);

    return change < 0 ? (uint64_t)-change : (uint64_t)change;
}

static int
align_compare_changes(const void *left, const void *right)
{
    uint64_t a = align_weight(left);
    uint64_t b = align_weight(right);

    return a != b ? (a < b) - (a > b) : align_compare_keys(left, right);
}

/* The groups of one snapshot as rows, in the order of their keys, from `rows` on. false: no memory. */
static bool
align_list(const struct snapshot_groups *by, bool is_b, struct align_row *rows, size_t *count)
{
    for (uint32_t i = 0; i < by->groups.count; i++) {
        struct align_row *row = &rows[*count];
        char name[GROUPS_NAME];

        if (by->list[i].count == 0)
            continue;
        *row = (struct align_row){ .size = by->groups.keys[i] };
        *(is_b ? &row->b : &row->a) = by->list[i];
        if (by->groups.by != GROUPS_SIZE) {
            row->name = strdup(groups_name(&by->groups, i, name, sizeof(name)));
            if (row->name == NULL)
                return false;
        }
        ++*count;
    }
    return true;
}

/* Rows of one key become one. */
static void
align_merge(struct align *align)
{
    size_t merged = 0;

    qsort(align->rows, align->count, sizeof(*align->rows), align_compare_keys);
    for (size_t i = 0; i < align->count; i++) {
        struct align_row *row = &align->rows[i];
        struct align_row *last = merged > 0 ? &align->rows[merged - 1] : NULL;

        if (last == NULL || align_compare_keys(last, row) != 0) {
            align->rows[merged++] = *row;
            continue;
        }
        last->a.bytes += row->a.bytes;
        last->a.count += row->a.count;
        last->b.bytes += row->b.bytes;
        last->b.count += row->b.count;
        free(row->name);
    }
    align->count = merged;
    qsort(align->rows, align->count, sizeof(*align->rows), align_compare_changes);
}

int
align_make(const struct snapshot *a, const struct snapshot *b, size_t by, struct align *out)
{
    size_t most = a->by[by].groups.count + b->by[by].groups.count;

    *out = (struct align){ .rows = calloc(most + 1, sizeof(*out->rows)) };
    if (out->rows == NULL || !align_list(&a->by[by], false, out->rows, &out->count) ||
        !align_list(&b->by[by], true, out->rows, &out->count)) {
        align_free(out);
        return trace_broken(&b->view->trace, "no memory for its groups");
    }
    align_merge(out);
    return COMMAND_FINE;
}

void
align_free(struct align *align)
{
    for (size_t i = 0; i < align->count; i++)
        free(align->rows[i].name);
    free(align->rows);
    *align = (struct align){ 0 };
}

const char *
align_name(const struct align_row *row, char *buffer, size_t size)
{
    struct output_figure figure;

    if (row->name != NULL)
        return row->name;
    snprintf(buffer, size, "%s", output_size(&figure, row->size));
    return buffer;
}

const char *
align_brief(const struct align_row *row, enum groups_by by, char *buffer, size_t size)
{
    const char *name = align_name(row, buffer, size);

    return by == GROUPS_CALLSTACK ? stack_text_brief(name, buffer, size) : name;
}
