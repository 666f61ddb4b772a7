/*
 * Reads what was live at a moment. The moment is in the past: whatever part is read when, each row says whether it was
 * live then. So parts are transactions of their own, and nothing stays open between them.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/resource/visible.h"
#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/trace.h"
#include "viewer/watch/watch.h"

#define LIVES_PART        20000 /* rows; some milliseconds */
#define LIVES_GROUPS_MOST 65536

void
watch_lives_begin(struct watch_lives *lives, uint64_t at_ns, enum watch_by by, uint32_t layer_id)
{
    watch_lives_free(lives);
    *lives = (struct watch_lives){ .at_ns = at_ns, .by = by, .layer_id = layer_id, .next_id = 1 };
}

void
watch_lives_free(struct watch_lives *lives)
{
    free(lives->groups);
    *lives = (struct watch_lives){ 0 };
}

static struct watch_group *
lives_group(struct watch_lives *lives, int64_t id)
{
    for (size_t i = 0; i < lives->group_count; i++) {
        if (lives->groups[i].id == id)
            return &lives->groups[i];
    }
    if (lives->group_count == LIVES_GROUPS_MOST ||
        !tidei_grow(&lives->groups, &lives->group_capacity, lives->group_count, 1))
        return NULL;
    lives->groups[lives->group_count] = (struct watch_group){ .id = id };
    return &lives->groups[lives->group_count++];
}

/* A row: the id of a group, the bytes and the number of what was live. */
static int
lives_take(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct watch_lives *lives = context;
    struct watch_group *group = lives_group(lives, sqlite3_column_int64(row, 0));
    uint64_t bytes = (uint64_t)sqlite3_column_int64(row, 1), count = (uint64_t)sqlite3_column_int64(row, 2);

    (void)trace;
    lives->bytes += bytes;
    lives->count += count;
    if (group != NULL) {
        group->bytes += bytes;
        group->count += count;
    }
    return COMMAND_FINE;
}

static int
lives_take_name(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const char *name = (const char *)sqlite3_column_text(row, 0);
    struct watch_group *group = context;
    char text[RUNNING_NAME_BYTES / 2];

    (void)trace;
    tidei_visible_copy(name != NULL ? name : "", text, sizeof(text));
    snprintf(group->name, sizeof(group->name), "%lld%s%s", (long long)group->id, text[0] != '\0' ? " " : "", text);
    return COMMAND_FINE;
}

static int
lives_compare(const void *left, const void *right)
{
    const struct watch_group *a = left, *b = right;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Sort the groups, and name those that a screen has room for. */
static void
lives_name(struct watch_lives *lives, const struct trace *trace, const struct watch_process *process)
{
    if (lives->group_count != 0)
        qsort(lives->groups, lives->group_count, sizeof(*lives->groups), lives_compare);
    for (size_t i = 0; i < lives->group_count && i < 200; i++) {
        struct watch_group *group = &lives->groups[i];
        char buffer[RUNNING_NAME_BYTES];

        if (lives->by == WATCH_BY_TAG)
            snprintf(group->name, sizeof(group->name), "%s",
                     running_tag_name(&process->base, (uint32_t)group->id, buffer, sizeof(buffer)));
        else if (lives->by == WATCH_BY_THREAD && trace_has(trace, "thread", "thread_id name"))
            trace_each(trace, lives_take_name, group, "SELECT name FROM thread WHERE thread_id = %lld",
                       (long long)group->id);
        else if (lives->by == WATCH_BY_STREAM && trace_has(trace, "stream", "stream_id handle"))
            trace_each(trace, lives_take_name, group,
                       "SELECT printf('(0x%%x)', handle) FROM stream WHERE stream_id = %lld", (long long)group->id);
    }
}

/* Read the rows from next_id on; the last part names the groups. */
static bool
lives_read_part(struct watch_lives *lives, const struct trace *trace, const struct watch_process *process)
{
    static const char *const columns[WATCH_BYS] = { "tag_id", "alloc_thread_id", "alloc_stream_id" };
    int64_t is_before, until = lives->next_id + LIVES_PART;

    if (!trace_has(trace, "allocation",
                   "allocation_id layer_id size status tag_id alloc_ns free_ns alloc_thread_id "
                   "alloc_stream_id") ||
        trace_each(trace, lives_take, lives,
                   "SELECT coalesce(%s, 0), sum(size), count(*) FROM allocation WHERE allocation_id >= %lld AND "
                   "allocation_id < %lld AND alloc_ns <= %lld AND (free_ns IS NULL OR free_ns > %lld) AND status = 0 "
                   "AND size > 0 AND layer_id = %lld GROUP BY 1",
                   columns[lives->by], (long long)lives->next_id, (long long)until, (long long)lives->at_ns,
                   (long long)lives->at_ns, (long long)lives->layer_id) != COMMAND_FINE)
        return false;
    lives->next_id = until;
    /* Ids are in the order of alloc_ns: the next row tells of all that follow. */
    if (trace_look_up(trace, &is_before,
                      "SELECT alloc_ns <= %lld, allocation_id FROM allocation WHERE allocation_id >= %lld "
                      "ORDER BY allocation_id LIMIT 1",
                      (long long)lives->at_ns, (long long)until) == SQLITE_ROW &&
        is_before != 0)
        return true;
    lives->is_done = true;
    lives_name(lives, trace, process);
    return true;
}

bool
watch_lives_read(struct watch_lives *lives, const struct watch_process *process)
{
    struct trace trace;

    if (lives->is_done || lives->has_failed)
        return false;
    if (access(process->base.file.trace, R_OK) != 0 ||
        trace_open_other(process->base.file.trace, &trace) != COMMAND_FINE) {
        lives->has_failed = true;
        return false;
    }
    lives->has_failed = !lives_read_part(lives, &trace, process);
    trace_close(&trace);
    return !lives->is_done && !lives->has_failed;
}
