/* A tally for each group of allocations. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/command.h"
#include "viewer/tallies.h"

void
tallies_begin(struct tallies *tallies, struct view *view, enum groups_by by)
{
    *tallies = (struct tallies){ .view = view };
    groups_begin(&tallies->groups, by, &view->names);
}

void
tallies_free(struct tallies *tallies)
{
    groups_end(&tallies->groups);
    free(tallies->list);
    tallies->list = NULL;
    tallies->capacity = 0;
}

void
tallies_clear(struct tallies *tallies)
{
    if (tallies->list != NULL)
        memset(tallies->list, 0, tallies->capacity * sizeof(*tallies->list));
    tallies->all = (struct tally){ 0 };
}

/* The tally of a life's group; NULL: no memory. */
static struct tally *
tallies_of(struct tallies *tallies, const struct scan_life *life)
{
    uint32_t group = groups_of(&tallies->groups, life);

    if (group == GROUPS_FULL)
        return NULL;
    if (group >= tallies->capacity) {
        size_t capacity = tallies->capacity == 0 ? 64 : 2 * tallies->capacity;
        struct tally *grown = realloc(tallies->list, capacity * sizeof(*grown));

        if (grown == NULL)
            return NULL;
        memset(grown + tallies->capacity, 0, (capacity - tallies->capacity) * sizeof(*grown));
        tallies->list = grown;
        tallies->capacity = capacity;
    }
    return &tallies->list[group];
}

int
tallies_alloc(struct tallies *tallies, const struct scan_life *life)
{
    struct tally *tally = tallies_of(tallies, life);

    if (tally == NULL)
        return trace_broken(&tallies->view->trace, "no memory for its groups");
    if (life->status == 0 && tallies->all.bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&tallies->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    tally_alloc(tally, life);
    tally_alloc(&tallies->all, life);
    return COMMAND_FINE;
}

int
tallies_release(struct tallies *tallies, const struct scan_life *life)
{
    tally_free(tallies_of(tallies, life), life);
    tally_free(&tallies->all, life);
    return COMMAND_FINE;
}

void
tallies_finish(struct tallies *tallies, int64_t last_ns)
{
    int64_t to_ns = tallies->view->filter.to_ns;

    tallies->end_ns = to_ns < INT64_MAX ? to_ns : last_ns;
    for (size_t i = 0; i < tallies->groups.count; i++)
        tally_end(&tallies->list[i], tallies->end_ns);
    tally_end(&tallies->all, tallies->end_ns);
}

static int
tallies_unit_begin(void *context)
{
    tallies_clear(context);
    return COMMAND_FINE;
}

static int
tallies_unit_alloc(void *context, const struct scan_life *life)
{
    return tallies_alloc(context, life);
}

static int
tallies_unit_free(void *context, const struct scan_life *life)
{
    return tallies_release(context, life);
}

static int
tallies_unit_end(void *context, int64_t last_ns)
{
    tallies_finish(context, last_ns);
    return COMMAND_FINE;
}

/* A call of the driver, of an allocation of any layer below what is looked at. */
static int
tallies_driver_call(struct tallies *tallies, const struct filter *filter, sqlite3_stmt *row)
{
    struct scan_life life = {
        .allocation_id = sqlite3_column_int64(row, 1),
        .layer_id = sqlite3_column_int64(row, 2),
        .size = (uint64_t)sqlite3_column_int64(row, 3),
        .status = sqlite3_column_int64(row, 4),
        .alloc_ns = sqlite3_column_int64(row, 5),
        .free_ns = sqlite3_column_int64(row, 6),
        .freed = sqlite3_column_type(row, 6) == SQLITE_INTEGER,
        .tag_id = sqlite3_column_int64(row, 7),
        .callstack_id = sqlite3_column_int64(row, 8),
        .alloc_thread_id = sqlite3_column_int64(row, 9),
        .alloc_stream_id = sqlite3_column_int64(row, 10),
    };
    int64_t duration_ns = sqlite3_column_int64(row, 0);
    struct tally *tally;

    if (duration_ns < 0 || !filter_takes(filter, &life))
        return COMMAND_FINE;
    tally = tallies_of(tallies, &life);
    if (tally == NULL)
        return trace_broken(&tallies->view->trace, "no memory for its groups");
    tally->driver_ns += (uint64_t)duration_ns;
    tally->driver_calls++;
    tallies->all.driver_ns += (uint64_t)duration_ns;
    tallies->all.driver_calls++;
    return COMMAND_FINE;
}

/* The filter of what is looked at, with all layers below those that it takes. It has to be freed. */
static int
tallies_below(const struct view *view, struct filter *out)
{
    int status = filter_make(&view->names, view->options, out);

    for (size_t i = 0; status == COMMAND_FINE && i < view->layers.count; i++) {
        for (size_t j = 0; status == COMMAND_FINE && j < view->layers.count; j++) {
            int64_t above = view->layers.layers[i].layer_id;
            int64_t below = view->layers.layers[j].layer_id;

            if (filter_has_layer(&view->filter, above) && trace_layers_reaches(&view->layers, above, below))
                status = filter_set_add(&out->layers, below);
        }
    }
    return status;
}

static int
tallies_driver(struct tallies *tallies)
{
    static const char sql[] =
        "SELECT driver_call.duration_ns, allocation_id, layer_id, size, status, alloc_ns, free_ns, tag_id,"
        " callstack_id, alloc_thread_id, alloc_stream_id FROM driver_call CROSS JOIN allocation USING (allocation_id)";
    const struct trace *trace = &tallies->view->trace;
    sqlite3_stmt *statement = NULL;
    struct filter filter;
    int code = SQLITE_DONE;
    int status;

    if (!trace_has(trace, "driver_call", "allocation_id duration_ns"))
        return COMMAND_FINE;
    status = tallies_below(tallies->view, &filter);
    if (status != COMMAND_FINE)
        return status;
    if (sqlite3_prepare_v2(trace->db, sql, -1, &statement, NULL) != SQLITE_OK)
        status = trace_failed(trace);
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = tallies_driver_call(tallies, &filter, statement);
    if (status == COMMAND_FINE && code != SQLITE_DONE)
        status = trace_failed(trace);
    sqlite3_finalize(statement);
    filter_free(&filter);
    return status;
}

int
tallies_make(struct view *view, enum groups_by by, struct tallies *out)
{
    struct scan_unit unit = {
        .needs = groups_needs(by) | SCAN_DURATION,
        .begin = tallies_unit_begin,
        .alloc = tallies_unit_alloc,
        .free = tallies_unit_free,
        .end = tallies_unit_end,
    };
    struct scan_pass pass = { &unit, out };
    int status;

    tallies_begin(out, view, by);
    status = view_scan(view, &pass, 1);
    if (status == COMMAND_FINE)
        status = tallies_driver(out);
    if (status != COMMAND_FINE)
        tallies_free(out);
    return status;
}
