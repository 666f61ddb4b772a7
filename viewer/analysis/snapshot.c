/* The figures of a trace for comparing it with another. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/callstack-text.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/analysis/snapshot.h"

static int
snapshot_restart(void *context)
{
    struct snapshot *snapshot = context;

    reserved_begin(&snapshot->reserved);
    snapshot->all = (struct tally){ 0 };
    snapshot->peaks = 0;
    for (size_t i = 0; i < snapshot->by_count; i++) {
        if (snapshot->by[i].capacity > 0)
            memset(snapshot->by[i].list, 0, snapshot->by[i].capacity * sizeof(*snapshot->by[i].list));
    }
    return COMMAND_FINE;
}

/* An allocation begins or ends: change its group in each grouping. */
static int
snapshot_change(struct snapshot *snapshot, const struct scan_life *life, bool is_free)
{
    for (size_t i = 0; i < snapshot->by_count; i++) {
        struct snapshot_groups *by = &snapshot->by[i];
        uint32_t number = groups_of(&by->groups, life);

        if (number >= by->capacity && !groups_reach(&by->list, &by->capacity, number))
            return trace_broken(&snapshot->view->trace, "no memory for its groups");
        marked_change(&by->list[number], snapshot->peaks, life->size, is_free);
    }
    return COMMAND_FINE;
}

static int
snapshot_alloc(void *context, const struct scan_life *life)
{
    struct snapshot *snapshot = context;
    int status = reserved_alloc(&snapshot->reserved, life);

    if (status != COMMAND_FINE || reserved_is_chunk(&snapshot->reserved, life->layer_id))
        return status;
    if (life->status == 0 && snapshot->all.live_bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&snapshot->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    if (life->status == 0)
        status = snapshot_change(snapshot, life, false);
    snapshot->peaks += tally_alloc(&snapshot->all, life);
    return status;
}

static int
snapshot_release(void *context, const struct scan_life *life)
{
    struct snapshot *snapshot = context;

    reserved_release(&snapshot->reserved, life);
    if (reserved_is_chunk(&snapshot->reserved, life->layer_id))
        return COMMAND_FINE;
    tally_free(&snapshot->all, life);
    return snapshot_change(snapshot, life, true);
}

static int
snapshot_end(void *context, int64_t last_ns)
{
    struct snapshot *snapshot = context;

    snapshot->end_ns = last_ns;
    reserved_end(&snapshot->reserved);
    for (size_t i = 0; i < snapshot->by_count; i++) {
        for (size_t j = 0; j < snapshot->by[i].groups.count; j++)
            marked_keep(&snapshot->by[i].list[j], snapshot->peaks);
    }
    return COMMAND_FINE;
}

int
snapshot_begin(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    out->by_count = by_count;
    for (size_t i = 0; i < by_count; i++)
        groups_begin(&out->by[i].groups, by[i], &view->names);
    status = reserved_make(view, &out->reserved);
    return status == COMMAND_FINE ? reserved_select(&out->reserved, view) : status;
}

int
snapshot_next(void *context, struct scan_pass *pass)
{
    struct snapshot *snapshot = context;

    snapshot->unit = (struct scan_unit){
        .needs = SCAN_ALIGNMENT,
        .begin = snapshot_restart,
        .alloc = snapshot_alloc,
        .free = snapshot_release,
        .end = snapshot_end,
    };
    for (size_t i = 0; i < snapshot->by_count; i++)
        snapshot->unit.needs |= groups_needs(snapshot->by[i].groups.by);
    pass->unit = snapshot->asked ? NULL : &snapshot->unit;
    if (snapshot->asked)
        reserved_deselect(&snapshot->reserved, snapshot->view);
    snapshot->asked = true;
    return COMMAND_FINE;
}

/*
 * Keep the groups that had something live at the peak alone. A trace may have sizes by the hundred thousand, of which
 * few are live at a time, and the snapshot of a second trace is made beside this one.
 */
static void
snapshot_keep_peak(struct snapshot_groups *by)
{
    struct groups *groups = &by->groups;
    struct marked_amount *list;
    uint64_t *keys;
    size_t kept = 0;

    for (size_t i = 0; i < groups->count; i++) {
        if (by->list[i].marked.count == 0)
            continue;
        groups->keys[kept] = groups->keys[i];
        by->list[kept++] = by->list[i];
    }
    id_map_free(&groups->by_key); /* no further lives come */
    groups->count = kept;
    keys = realloc(groups->keys, (kept + 1) * sizeof(*keys));
    if (keys != NULL) {
        groups->keys = keys;
        groups->capacity = kept + 1;
    }
    list = realloc(by->list, (kept + 1) * sizeof(*list));
    if (list != NULL) {
        by->list = list;
        by->capacity = kept + 1;
    }
}

int
snapshot_make(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out)
{
    int status = view_run_analysis(view, snapshot_begin(view, by, by_count, out), snapshot_next, snapshot_free, out);

    for (size_t i = 0; i < by_count && status == COMMAND_FINE; i++)
        snapshot_keep_peak(&out->by[i]);
    return status;
}

void
snapshot_free(void *context)
{
    struct snapshot *snapshot = context;

    for (size_t i = 0; i < snapshot->by_count; i++) {
        groups_end(&snapshot->by[i].groups);
        free(snapshot->by[i].list);
        snapshot->by[i] = (struct snapshot_groups){ 0 };
    }
    snapshot->by_count = 0;
    reserved_free(&snapshot->reserved);
}

size_t
snapshot_groups_default(const struct names *a, const struct names *b, enum groups_by *by)
{
    size_t count = 0;

    if (a->callstacks.count > 0 || b->callstacks.count > 0)
        by[count++] = GROUPS_FUNCTION;
    if (a->tags.count > 0 || b->tags.count > 0)
        by[count++] = GROUPS_TAG;
    by[count++] = GROUPS_SIZE;
    return count;
}

bool
snapshot_exceeds(uint64_t a, uint64_t b, double tolerance)
{
    return b > a && (double)(b - a) > tolerance * (double)a;
}

/* Whether a memory has anything to compare. */
static bool
memory_has_figures(const struct reserved_group *group)
{
    return group->has_upper || group->reserved.source != RESERVED_UNKNOWN;
}

static int
memory_compare(const struct reserved_group *a, const struct reserved_group *b)
{
    return a->number != b->number ? (a->number < b->number ? -1 : 1) : strcmp(a->memory, b->memory);
}

static int
memory_compare_places(const void *left, const void *right)
{
    const struct reserved_group *a = *(const struct reserved_group *const *)left;
    const struct reserved_group *b = *(const struct reserved_group *const *)right;
    int order = memory_compare(a, b);

    return order != 0 ? order : (a > b) - (a < b);
}

/* The groups of a snapshot in the order of memory_compare. The caller frees the list; NULL: no memory. */
static const struct reserved_group **
memory_sort(const struct snapshot *snapshot)
{
    size_t count = snapshot->reserved.group_count;
    const struct reserved_group **sorted = calloc(count + 1, sizeof(*sorted));

    for (size_t i = 0; i < count && sorted != NULL; i++)
        sorted[i] = &snapshot->reserved.groups[i];
    if (sorted != NULL)
        qsort(sorted, count, sizeof(*sorted), memory_compare_places);
    return sorted;
}

/* The first memory of another snapshot, sorted, that is of the same kind and of the stack of the same number. */
static const struct reserved_group *
memory_find(const struct reserved_group *const *sorted, size_t count, const struct reserved_group *group)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (memory_compare(sorted[middle], group) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && memory_compare(sorted[low], group) == 0 ? sorted[low] : NULL;
}

/* What is reserved of a memory that a trace does not have. */
static struct reserved_figure
memory_reserved(const struct reserved_group *group)
{
    static const struct reserved_figure none = { .source = RESERVED_LAYERS, .is_exact = true };

    return group != NULL ? group->reserved : none;
}

static void
memories_add(struct snapshot_memories *self, const struct reserved_group *a, const struct reserved_group *b)
{
    self->list[self->count++] = (struct snapshot_memory){
        .name = a != NULL ? a->name : b->name,
        .a_peak_bytes = a != NULL ? a->live_peak_bytes : 0,
        .b_peak_bytes = b != NULL ? b->live_peak_bytes : 0,
        .a_live_bytes = a != NULL ? a->live_bytes : 0,
        .b_live_bytes = b != NULL ? b->live_bytes : 0,
        .a_most = memory_reserved(a),
        .b_most = memory_reserved(b),
    };
}

/* Add each memory that either has, with that of the other: those of `a` first. */
static int
memories_pair(const struct snapshot *a, const struct snapshot *b, struct snapshot_memories *out)
{
    const struct reserved *of_a = &a->reserved, *of_b = &b->reserved;
    const struct reserved_group **in_a = memory_sort(a), **in_b = memory_sort(b);
    bool done = in_a != NULL && in_b != NULL;

    for (size_t i = 0; i < of_a->group_count && done; i++) {
        if (memory_has_figures(&of_a->groups[i]))
            memories_add(out, &of_a->groups[i], memory_find(in_b, of_b->group_count, &of_a->groups[i]));
    }
    for (size_t i = 0; i < of_b->group_count && done; i++) {
        const struct reserved_group *other = memory_find(in_a, of_a->group_count, &of_b->groups[i]);

        if (memory_has_figures(&of_b->groups[i]) && (other == NULL || !memory_has_figures(other)))
            memories_add(out, other, &of_b->groups[i]);
    }
    free(in_a);
    free(in_b);
    if (!done)
        snapshot_memories_free(out);
    return done ? COMMAND_FINE : trace_broken(&b->view->trace, "no memory for its kinds of memory");
}

int
snapshot_pair(const struct snapshot *a, const struct snapshot *b, struct snapshot_memories *out)
{
    const struct reserved *of_a = &a->reserved, *of_b = &b->reserved;

    *out = (struct snapshot_memories){ .list = calloc(of_a->group_count + of_b->group_count + 1, sizeof(*out->list)) };
    if (out->list == NULL)
        return trace_broken(&b->view->trace, "no memory for its kinds of memory");
    if (!reserved_is_parted(of_a) && !reserved_is_parted(of_b)) {
        out->list[out->count++] = (struct snapshot_memory){
            .a_peak_bytes = a->all.peak_bytes,
            .b_peak_bytes = b->all.peak_bytes,
            .a_live_bytes = a->all.live_bytes,
            .b_live_bytes = b->all.live_bytes,
        };
        if (of_a->group_count > 0)
            out->list[0].a_most = of_a->groups[0].reserved;
        if (of_b->group_count > 0)
            out->list[0].b_most = of_b->groups[0].reserved;
        return COMMAND_FINE;
    }
    return memories_pair(a, b, out);
}

void
snapshot_memories_free(struct snapshot_memories *self)
{
    free(self->list);
    *self = (struct snapshot_memories){ 0 };
}

bool
snapshot_judges_reserved(const struct snapshot_memory *memory)
{
    return memory->a_most.source != RESERVED_UNKNOWN && memory->b_most.source != RESERVED_UNKNOWN &&
           memory->a_most.is_exact;
}

bool
snapshot_is_unsure(const struct snapshot_memory *memory, double tolerance)
{
    const struct reserved_figure *a = &memory->a_most, *b = &memory->b_most;

    if (a->source == RESERVED_UNKNOWN && b->source == RESERVED_UNKNOWN)
        return false;
    if (a->source == RESERVED_UNKNOWN || b->source == RESERVED_UNKNOWN || !b->is_exact)
        return true;
    return !a->is_exact && snapshot_exceeds(a->peak_bytes, b->peak_bytes, tolerance);
}

bool
snapshot_find_worst(const struct snapshot_memories *memories, double tolerance, struct snapshot_worst *out)
{
    bool is_worse = false;

    *out = (struct snapshot_worst){ 0 };
    /* The peaks first: what is reserved is named only where no peak exceeds. */
    for (size_t i = 0; i < 2 * memories->count; i++) {
        const struct snapshot_memory *memory = &memories->list[i % memories->count];
        bool is_reserved = i >= memories->count;
        struct snapshot_worst one = {
            .memory = memory->name,
            .is_reserved = is_reserved,
            .a_bytes = is_reserved ? memory->a_most.peak_bytes : memory->a_peak_bytes,
            .b_bytes = is_reserved ? memory->b_most.peak_bytes : memory->b_peak_bytes,
        };
        bool exceeds = snapshot_exceeds(one.a_bytes, one.b_bytes, tolerance);
        int64_t more = (int64_t)(one.b_bytes - one.a_bytes), most = (int64_t)(out->b_bytes - out->a_bytes);

        if (is_reserved && !snapshot_judges_reserved(memory))
            continue;
        if (i == 0 || (exceeds && !is_worse) || (exceeds == is_worse && is_reserved == out->is_reserved && more > most))
            *out = one;
        is_worse = is_worse || exceeds;
    }
    return is_worse;
}

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

/* Append the groups of one snapshot to `rows`. false: no memory. */
static bool
align_list(const struct snapshot_groups *by, bool is_b, struct align_row *rows, size_t *count)
{
    for (uint32_t i = 0; i < by->groups.count; i++) {
        struct align_row *row = &rows[*count];
        char name[GROUPS_NAME];

        if (by->list[i].marked.count == 0)
            continue;
        *row = (struct align_row){ .size = by->groups.keys[i] };
        *(is_b ? &row->b : &row->a) = by->list[i].marked;
        if (by->groups.by != GROUPS_SIZE) {
            row->name = strdup(groups_name(&by->groups, i, name, sizeof(name)));
            if (row->name == NULL)
                return false;
        }
        if (by->groups.by == GROUPS_CALLSTACK)
            row->functions = names_functions(by->groups.names, (int64_t)by->groups.keys[i], name, sizeof(name));
        if (row->functions == name) /* of no call stack */
            row->functions = row->name;
        row->is_b = is_b;
        ++*count;
    }
    return true;
}

/* Before the rows are merged: the same functions together, those of A first, and their lines in order. */
static int
align_compare_lines(const void *left, const void *right)
{
    const struct align_row *a = left;
    const struct align_row *b = right;
    int functions = strcmp(a->functions, b->functions);

    if (functions != 0)
        return functions;
    return a->is_b != b->is_b ? a->is_b - b->is_b : strverscmp(a->name, b->name);
}

/*
 * Where A and B have as many call stacks of the same functions, the lines of A are those of B in their order: give the
 * rows of A the names of those of B. false: no memory.
 */
static bool
align_lines(struct align *align)
{
    struct align_row *rows = align->rows;
    size_t end;

    qsort(rows, align->count, sizeof(*rows), align_compare_lines);
    for (size_t i = 0; i < align->count; i = end) {
        size_t of_a = 0;

        for (end = i; end < align->count && strcmp(rows[i].functions, rows[end].functions) == 0; end++)
            of_a += !rows[end].is_b;
        for (size_t j = i; 2 * of_a == end - i && j < i + of_a; j++) {
            char *name = strdup(rows[j + of_a].name);

            if (name == NULL)
                return false;
            free(rows[j].name);
            rows[j].name = name;
        }
    }
    return true;
}

/* Merge the rows of each key into one, and sort the rows by their change. */
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
        !align_list(&b->by[by], true, out->rows, &out->count) ||
        (a->by[by].groups.by == GROUPS_CALLSTACK && !align_lines(out))) {
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

    return groups_are_stacks(by) ? stack_text_brief(name, buffer, size) : name;
}
