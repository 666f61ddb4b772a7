/* Writes the rollups of a rank into the file of its job. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "viewer/analysis/failures.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/order.h"
#include "viewer/ranks/store.h"

/* What the functions below share. */
struct store {
    struct job *job;
    const struct store_rank *who;
    struct rollup *rollup;
    int64_t memory_id;
    const struct rollup_memory *memory;
};

static const char *const store_tables[] = {
    "rank", "rank_memory", "usage_bucket", "peak_group", "step", "step_group", "group_cut", "failure", "mark",
};

static int
store_forget(struct store *store)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < sizeof(store_tables) / sizeof(store_tables[0]) && status == COMMAND_FINE; i++)
        status =
            job_execute(store->job, "DELETE FROM %s WHERE rank = %lld", store_tables[i], (long long)store->who->rank);
    return status;
}

/* ---- one memory -------------------------------------------------------------------------------------------------- */

static int
store_usage(struct store *store)
{
    const struct curve *curve = &store->memory->curve;
    bool is_known = store->memory->group->reserved.source != RESERVED_UNKNOWN;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < curve->count && status == COMMAND_FINE; i++) {
        const struct curve_bucket *bucket = &curve->list[i];

        if (!bucket->changed)
            continue;
        status = job_insert(
            store->job, usage_bucket, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER(store->memory_id),
            TIDEI_NUMBER(curve->first + i), TIDEI_NUMBER(bucket->live.most), TIDEI_NUMBER(bucket->live.least),
            TIDEI_NUMBER(bucket->live.end), TIDEI_NUMBER_IF(is_known, bucket->reserved.most),
            TIDEI_NUMBER_IF(is_known, bucket->reserved.least), TIDEI_NUMBER_IF(is_known, bucket->reserved.end),
            TIDEI_NUMBER(bucket->allocations), TIDEI_NUMBER(bucket->frees), TIDEI_NUMBER(bucket->failures));
    }
    return status;
}

static int
store_steps(struct store *store)
{
    const struct rollup_memory *memory = store->memory;
    bool is_known = memory->group->reserved.source != RESERVED_UNKNOWN;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < memory->step_count && status == COMMAND_FINE; i++) {
        const struct rollup_step *step = &memory->steps[i];

        status = job_insert(store->job, step, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER(store->memory_id),
                            TIDEI_NUMBER(step->number), TIDEI_NUMBER(step->begin_ns), TIDEI_NUMBER(step->end_ns),
                            TIDEI_NUMBER(step->is_whole), TIDEI_NUMBER(step->peak_bytes), TIDEI_NUMBER(step->peak_ns),
                            TIDEI_NUMBER(step->end_bytes), TIDEI_NUMBER_IF(is_known, step->reserved_bytes),
                            TIDEI_NUMBER(step->allocations), TIDEI_NUMBER(step->allocated_bytes));
    }
    return status;
}

/* The id of a group in the file, found once for each group that is written. 0 after a message. */
static int64_t
store_group(struct store *store, const struct rollup_groups *by, int64_t *ids, uint32_t group)
{
    char buffer[GROUPS_NAME];

    if (ids[group] == 0)
        ids[group] =
            job_group(store->job, rollup_word(by->groups.by), groups_name(&by->groups, group, buffer, sizeof(buffer)));
    return ids[group];
}

static uint64_t
store_figure(const void *context, uint32_t group)
{
    return ((const struct rollup_group *)context)[group].at_peak.bytes;
}

static int
store_peak_groups(struct store *store, const struct rollup_groups *by, int64_t *ids, const struct order *order)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < by->groups.count && i < ROLLUP_GROUPS && status == COMMAND_FINE; i++) {
        uint32_t group = order[i].number;
        const struct amount *amount = &by->list[group].at_peak;
        int64_t id;

        if (amount->bytes == 0)
            break;
        id = store_group(store, by, ids, group);
        status = id == 0
                     ? COMMAND_WRONG
                     : job_insert(store->job, peak_group, TIDEI_NUMBER(store->who->rank),
                                  TIDEI_NUMBER(store->memory_id), TIDEI_NUMBER(id), TIDEI_NUMBER(amount->bytes),
                                  TIDEI_NUMBER(amount->count), TIDEI_NUMBER(counterfactual_without(&by->rest, group)));
    }
    return status;
}

static int
store_changes(struct store *store, const struct rollup_groups *by, int64_t *ids)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < by->change_count && status == COMMAND_FINE; i++) {
        const struct rollup_change *change = &by->changes[i];
        int64_t id = store_group(store, by, ids, change->group);

        status =
            id == 0 ? COMMAND_WRONG
                    : job_insert(store->job, step_group, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER(store->memory_id),
                                 TIDEI_NUMBER(id), TIDEI_NUMBER(store->memory->steps[change->step].number),
                                 TIDEI_NUMBER(change->peak_bytes), TIDEI_NUMBER(change->end_bytes));
    }
    return status;
}

/* Say where groups are left out, and the most that any of them has. */
static int
store_cut(struct store *store, const struct rollup_groups *by, const struct order *order)
{
    uint64_t peak_bytes = 0, step_bytes = 0;

    if (by->groups.count > ROLLUP_GROUPS)
        peak_bytes = by->list[order[ROLLUP_GROUPS].number].at_peak.bytes;
    for (size_t i = 0; i < by->groups.count; i++) {
        if (by->list[i].is_dropped && by->list[i].most_bytes > step_bytes)
            step_bytes = by->list[i].most_bytes;
    }
    if (peak_bytes == 0 && step_bytes == 0)
        return COMMAND_FINE;
    return job_insert(store->job, group_cut, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER(store->memory_id),
                      TIDEI_TEXT(rollup_word(by->groups.by)), TIDEI_NUMBER(peak_bytes), TIDEI_NUMBER(step_bytes));
}

static int
store_groups(struct store *store, const struct rollup_groups *by)
{
    struct order *order = order_make(by->groups.count, store_figure, by->list);
    int64_t *ids = calloc(by->groups.count + 1, sizeof(*ids));
    int status = order != NULL && ids != NULL ? COMMAND_FINE
                                              : trace_broken(&store->rollup->view->trace, "no memory for its groups");

    if (status == COMMAND_FINE)
        status = store_peak_groups(store, by, ids, order);
    if (status == COMMAND_FINE)
        status = store_changes(store, by, ids);
    if (status == COMMAND_FINE)
        status = store_cut(store, by, order);
    free(order);
    free(ids);
    return status;
}

/* How much more was live at the end of the last whole step than at that of the first; in how many steps it rose. */
static int64_t
store_growth(const struct rollup_memory *memory, size_t first, size_t end, int64_t *rose)
{
    *rose = 0;
    for (size_t i = first + 1; i < end; i++)
        *rose += memory->steps[i].end_bytes > memory->steps[i - 1].end_bytes;
    return end > first + 1 ? (int64_t)(memory->steps[end - 1].end_bytes - memory->steps[first].end_bytes) : 0;
}

static int
store_memory_row(struct store *store)
{
    const struct rollup_memory *memory = store->memory;
    const struct reserved_group *group = memory->group;
    const struct reserved_figure *most = reserved_larger(group);
    bool is_known = most->source != RESERVED_UNKNOWN;
    uint64_t limit_bytes = reserved_limit(&store->rollup->reserved, group);
    size_t first, end;
    int64_t rose, grown;

    rollup_whole_steps(memory, &first, &end);
    grown = store_growth(memory, first, end, &rose);
    return job_insert(store->job, rank_memory, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER(store->memory_id),
                      TIDEI_NUMBER_IF(group->device >= 0, group->device), TIDEI_NUMBER(memory->peak_bytes),
                      TIDEI_NUMBER(memory->peak_ns), TIDEI_NUMBER(memory->peak_count),
                      TIDEI_NUMBER(memory->step_count > 0 ? memory->steps[memory->peak_step].number : ROLLUP_BEFORE),
                      TIDEI_NUMBER(group->live_bytes), TIDEI_NUMBER_IF(is_known, most->peak_bytes),
                      TIDEI_NUMBER_IF(is_known, most->is_exact), TIDEI_ID(limit_bytes),
                      TIDEI_NUMBER(memory->allocations), TIDEI_NUMBER(memory->frees), TIDEI_NUMBER(memory->failures),
                      TIDEI_NUMBER(memory->allocated_bytes), TIDEI_NUMBER(memory->curve.shift),
                      TIDEI_NUMBER(end - first),
                      TIDEI_NUMBER_IF(end > first, memory->steps[end > first ? first : 0].number),
                      TIDEI_NUMBER_IF(end > first, memory->steps[end > first ? end - 1 : 0].number),
                      TIDEI_NUMBER(grown), TIDEI_NUMBER(rose));
}

static int
store_memory(struct store *store)
{
    int status;

    store->memory_id = job_memory(store->job, store->memory->name);
    if (store->memory_id == 0)
        return COMMAND_WRONG;
    status = store_memory_row(store);
    if (status == COMMAND_FINE)
        status = store_usage(store);
    if (status == COMMAND_FINE)
        status = store_steps(store);
    for (size_t i = 0; i < store->rollup->by_count && status == COMMAND_FINE; i++)
        status = store_groups(store, &store->memory->by[i]);
    return status;
}

/* ---- the rank ---------------------------------------------------------------------------------------------------- */

static int
store_rank_row(struct store *store)
{
    const struct rollup *rollup = store->rollup;
    const struct trace *trace = &rollup->view->trace;
    char *texts[4];
    static const char *const keys[] = { "job", "hostname", "command", "versions" };
    uint64_t allocations = 0, frees = 0, failures = 0, bytes = 0;
    int64_t local_rank = -1;
    int status;

    trace_look_up(trace, &local_rank, "SELECT value FROM meta WHERE key = 'local_rank' UNION ALL SELECT -1");
    for (size_t i = 0; i < 4; i++)
        texts[i] = trace_meta(trace, keys[i]);
    for (size_t i = 0; i < rollup->memory_count; i++) {
        allocations += rollup->memories[i].allocations;
        frees += rollup->memories[i].frees;
        failures += rollup->memories[i].failures;
        bytes += rollup->memories[i].allocated_bytes;
    }
    status = job_insert(
        store->job, rank, TIDEI_NUMBER(store->who->rank), TIDEI_TEXT(store->who->trace), TIDEI_TEXT(store->who->path),
        TIDEI_TEXT(texts[0]), TIDEI_TEXT(texts[1]), TIDEI_ID(trace->process),
        TIDEI_NUMBER_IF(local_rank >= 0, local_rank), TIDEI_NUMBER(rollup->start_unix_ns),
        TIDEI_NUMBER(rollup->first_ns), TIDEI_NUMBER(rollup->last_ns),
        TIDEI_NUMBER(trace->complete && trace->lost_events == 0 && rollup->memories_left == 0),
        TIDEI_TEXT(trace_end_word(trace)), TIDEI_NUMBER(trace->lost_events), TIDEI_NUMBER(allocations),
        TIDEI_NUMBER(frees), TIDEI_NUMBER(failures), TIDEI_NUMBER(bytes), TIDEI_TEXT(texts[2]), TIDEI_TEXT(texts[3]));
    for (size_t i = 0; i < 4; i++)
        free(texts[i]);
    return status;
}

static int
store_failure(struct store *store, const struct failures *failures, const struct failure *failure)
{
    const struct names *names = &failures->view->names;
    const struct trace_layers *layers = &failures->view->layers;
    char layer[GROUPS_NAME], tag[GROUPS_NAME];
    const char *refuser = failure->refuser == ROUTES_NONE
                              ? NULL
                              : names_layer(names, layers->layers[failure->refuser].layer_id, layer, sizeof(layer));
    const struct rollup_memory *memory = rollup_memory_of(store->rollup, failure->life.layer_id);
    int64_t memory_id = memory != NULL ? job_memory(store->job, memory->name) : 0;

    if (memory != NULL && memory_id == 0)
        return COMMAND_WRONG;
    return job_insert(
        store->job, failure, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER_IF(memory != NULL, memory_id),
        TIDEI_NUMBER(failure->life.alloc_ns), TIDEI_NUMBER(failure->life.size),
        TIDEI_TEXT(tide_status_name((enum tide_status)failure->life.status)), TIDEI_TEXT(failures_word(failure->cause)),
        TIDEI_TEXT(refuser), TIDEI_NUMBER(failure->at.live_bytes),
        TIDEI_TEXT(failure->life.tag_id != 0 ? names_tag(names, failure->life.tag_id, tag, sizeof(tag)) : NULL),
        TIDEI_TEXT(failure->words));
}

static int
store_failures(struct store *store, const struct failures *failures)
{
    int status = COMMAND_FINE;
    size_t count = 0;

    for (size_t i = 0; i < failures->count && count < STORE_FAILURES && status == COMMAND_FINE; i++) {
        if (failures->list[i].made_good_by != ROUTES_NONE)
            continue;
        status = store_failure(store, failures, &failures->list[i]);
        count++;
    }
    return status;
}

static int
store_mark(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct store *store = context;

    (void)trace;
    return job_insert(store->job, mark, TIDEI_NUMBER(store->who->rank), TIDEI_NUMBER(sqlite3_column_int64(row, 0)),
                      TIDEI_TEXT((const char *)sqlite3_column_text(row, 1)));
}

/* The marks that are no steps. */
static int
store_marks(struct store *store)
{
    const struct trace *trace = &store->rollup->view->trace;

    if (!trace_has(trace, "mark", "ns kind text"))
        return COMMAND_FINE;
    return trace_each(trace, store_mark, store,
                      "SELECT ns, substr(text, 1, 256) FROM mark WHERE kind = 'mark' AND typeof(ns) = 'integer'"
                      " AND typeof(text) = 'text' AND NOT coalesce(CASE WHEN %Q IS NULL THEN"
                      " rtrim(text, '0123456789') = %Q ELSE text GLOB %Q END, 0) ORDER BY ns, rowid LIMIT %d",
                      store->who->steps, store->rollup->steps.text, store->who->steps, STORE_MARKS);
}

static int
store_rows(struct store *store, const struct failures *failures)
{
    int status = store_forget(store);

    if (status == COMMAND_FINE)
        status = store_rank_row(store);
    for (size_t i = 0; i < store->rollup->memory_count && status == COMMAND_FINE; i++) {
        store->memory = &store->rollup->memories[i];
        status = store_memory(store);
    }
    if (status == COMMAND_FINE && failures != NULL)
        status = store_failures(store, failures);
    if (status == COMMAND_FINE)
        status = store_marks(store);
    /* What was said over all ranks does not hold any more. */
    if (status == COMMAND_FINE)
        status = job_execute(store->job, "UPDATE meta SET value = 0 WHERE key = 'complete'");
    return status;
}

int
store_rank(struct job *job, const struct store_rank *who, struct rollup *rollup, const struct failures *failures)
{
    struct store store = { .job = job, .who = who, .rollup = rollup };
    int status = job_begin(job);

    if (status != COMMAND_FINE)
        return status;
    status = store_rows(&store, failures);
    if (status == COMMAND_FINE)
        return job_commit(job);
    sqlite3_exec(job->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
