/* What was reserved, for each stack and each kind of memory of it. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/reserved.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/routes.h"

/*
 * Whether the high-water mark of a layer tells its peak within the selected time: the mark rose between two samples in
 * it, or the time is not bounded. `before` and `after` are the samples next to the time; NULL: there are none.
 */
static void
reserved_take_high(struct reserved_role *role, const struct filter *filter, const struct sample_row *row,
                   const struct sample_row *before)
{
    bool is_bounded = filter->from_ns != INT64_MIN;

    if (row->ns > filter->to_ns) {
        /* The mark rose behind the last sample of the time: perhaps still within it. */
        if (!row->has_high || (role->has_high && row->high_bytes > role->high_bytes))
            role->has_exact_high = false;
        return;
    }
    role->has_high = row->has_high;
    if (!is_bounded)
        role->has_exact_high = row->has_high;
    else if (row->ns < filter->from_ns || !row->has_high || before == NULL || !before->has_high)
        role->has_exact_high = false;
    else if (row->high_bytes > before->high_bytes)
        role->has_exact_high = before->ns >= filter->from_ns;
    role->high_bytes = row->high_bytes;
}

/* Take in what the samples of each layer say on the whole. */
static int
reserved_read_samples(struct reserved *reserved)
{
    const struct filter *filter = &reserved->view->filter;
    size_t count = reserved->view->layers.count;
    const struct sample_row **last = calloc(count + 1, sizeof(*last));

    if (last == NULL)
        return trace_broken(&reserved->view->trace, "no memory for its pool samples");
    for (size_t i = 0; i < reserved->samples.row_count; i++) {
        const struct sample_row *row = &reserved->samples.rows[i];
        struct reserved_role *role = &reserved->roles[row->layer];

        if (last[row->layer] != NULL && last[row->layer]->ns > filter->to_ns)
            continue;
        reserved_take_high(role, filter, row, last[row->layer]);
        last[row->layer] = row;
        if (row->ns > filter->to_ns)
            continue;
        if (row->ns < filter->from_ns) /* what it holds as the time begins */
            role->highest_bytes = role->used_peak_bytes = 0;
        role->has_samples = true;
        if (row->reserved_bytes > role->highest_bytes)
            role->highest_bytes = row->reserved_bytes;
        if (row->used_bytes > role->used_peak_bytes)
            role->used_peak_bytes = row->used_bytes;
    }
    free(last);
    return COMMAND_FINE;
}

/* Whether the last samples before the end are missing: the calling threads did not take them, and were killed. */
static bool
reserved_has_no_end(const struct view *view)
{
    bool killed = !view->trace.complete || view->trace.end == TRACE_KILLED || view->trace.end == TRACE_FAILED;

    for (size_t i = 0; i < view->layers.count && killed; i++)
        killed = !trace_layer_is_log(&view->layers.layers[i]) ||
                 strstr(view->layers.layers[i].config, "samples=every") == NULL;
    return killed;
}

int
reserved_select(const struct reserved *reserved, struct view *view)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < view->layers.count && status == COMMAND_FINE && view->filter.layers.active; i++) {
        const struct reserved_role *role = &reserved->roles[i];

        if (role->is_chunks || role->may_have_chunks)
            status = filter_set_add(&view->filter.layers, role->layer_id);
    }
    return status;
}

void
reserved_deselect(const struct reserved *reserved, struct view *view)
{
    uint32_t value;

    for (size_t i = 0; i < view->layers.count && view->filter.layers.active; i++) {
        if (!reserved->roles[i].is_selected)
            id_map_take(&view->filter.layers.ids, (uint64_t)reserved->roles[i].layer_id, &value);
    }
}

int
reserved_make_groups(const struct view *view, struct reserved *out)
{
    size_t count = view->layers.count;
    int status = COMMAND_FINE;

    *out = (struct reserved){ .view = view,
                              .roles = calloc(count + 1, sizeof(*out->roles)),
                              .groups = calloc(2 * count + 1, sizeof(*out->groups)),
                              .is_off = filter_has_rows(&view->filter),
                              .was_killed = reserved_has_no_end(view) };
    if (out->roles == NULL || out->groups == NULL)
        status = trace_broken(&view->trace, "no memory for its layers");
    else
        out->roles[count].layer_id = INT64_MIN; /* of no layer, where there are none */
    if (status == COMMAND_FINE)
        status = reserved_plan_groups(out);
    if (status != COMMAND_FINE)
        reserved_free(out);
    return status;
}

/*
 * Where more layers than this may turn out to say their chunks themselves, it is asked beforehand which do. A plan for
 * each as its first row comes took minutes for 20,000 pools; asking costs one more look at all rows.
 */
#define RESERVED_PLANS 64

static int
reserved_note_rows(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct reserved *reserved = context;
    struct reserved_role *role = reserved_look_up(reserved, sqlite3_column_int64(row, 0));

    (void)trace;
    if (role != NULL && role->may_have_chunks)
        role->has_rows = true;
    return COMMAND_FINE;
}

/* Plan with the layers that may say their chunks themselves, and again with those that do. */
static int
reserved_plan(struct reserved *reserved)
{
    const struct view *view = reserved->view;
    size_t may_have = 0;
    int status = reserved_plan_sources(reserved);

    for (size_t i = 0; i < view->layers.count; i++)
        may_have += reserved->roles[i].may_have_chunks;
    if (status != COMMAND_FINE || may_have <= RESERVED_PLANS)
        return status;
    status = trace_each(&view->trace, reserved_note_rows, reserved,
                        "SELECT DISTINCT layer_id FROM allocation WHERE status = 0 AND alloc_ns <= %lld"
                        " AND ifnull(free_ns, %lld) >= %lld",
                        (long long)view->filter.to_ns, (long long)INT64_MAX, (long long)view->filter.from_ns);
    return status == COMMAND_FINE ? reserved_plan_sources(reserved) : status;
}

int
reserved_make(const struct view *view, struct reserved *out)
{
    int status = reserved_make_groups(view, out);

    if (status != COMMAND_FINE || out->is_off)
        return status;
    status = samples_read(&view->trace, &view->layers, &out->samples);
    if (status == COMMAND_FINE)
        status = reserved_read_samples(out);
    if (status == COMMAND_FINE)
        status = reserved_plan(out);
    if (status == COMMAND_FINE)
        status = device_use_read(view, &out->samples, &out->devices);
    if (status != COMMAND_FINE)
        reserved_free(out);
    return status;
}

void
reserved_free(struct reserved *reserved)
{
    samples_free(&reserved->samples);
    device_use_free(&reserved->devices);
    for (size_t i = 0; i < reserved->group_count; i++)
        free(reserved->groups[i].bases);
    free(reserved->roles);
    free(reserved->groups);
    reserved->roles = NULL;
    reserved->groups = NULL;
    reserved->group_count = 0;
}

/* A figure has changed to `bytes`, by a chunk (0: by a sample) at `ns`. */
static void
figure_set(struct reserved_figure *figure, uint64_t bytes, int64_t ns, int64_t id)
{
    figure->bytes = bytes;
    if (bytes > figure->most_bytes)
        figure->most_bytes = bytes;
    if (bytes <= figure->peak_bytes)
        return;
    figure->peak_bytes = bytes;
    figure->peak_ns = ns;
    figure->peak_id = id;
}

/* Where a sample of a layer counts; NULL: nowhere. */
static struct reserved_figure *
reserved_sampled(struct reserved *reserved, const struct reserved_role *role)
{
    struct reserved_group *group = &reserved->groups[role->group];

    return role->is_sampled ? &group->reserved : role->is_base ? &group->base : NULL;
}

/*
 * Add up what the sources of each group hold at `ns`. Earlier peaks are those of the chunks alone: what the other
 * sources said then counts no longer.
 */
static void
reserved_sum(struct reserved *reserved, int64_t ns)
{
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];

        group->rows_bytes = 0;
        for (size_t j = group->first_source; j != TRACE_LAYERS_NONE; j = reserved->roles[j].next_source)
            group->rows_bytes += reserved->roles[j].is_chunks ? reserved->roles[j].held_bytes : 0;
        group->reserved = group->base = (struct reserved_figure){ .sample_ns = INT64_MIN };
        figure_set(&group->reserved, group->rows_peak_bytes, group->rows_peak_ns, group->rows_peak_id);
        figure_set(&group->reserved, group->rows_bytes, ns, 0);
    }
    for (size_t i = 0; i < reserved->view->layers.count; i++) {
        const struct reserved_role *role = &reserved->roles[i];
        struct reserved_figure *figure = reserved_sampled(reserved, role);

        if (figure == NULL || !role->has_samples)
            continue;
        figure_set(figure, figure->bytes + role->sampled_bytes, ns, 0);
        if (role->sample_ns > figure->sample_ns)
            figure->sample_ns = role->sample_ns;
    }
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];

        group->base.most_bytes = group->base.bytes;
        group->reserved.most_bytes = group->reserved.bytes;
        if (group->rows_most_bytes > group->reserved.most_bytes)
            group->reserved.most_bytes = group->rows_most_bytes;
    }
}

void
reserved_begin(struct reserved *reserved)
{
    for (size_t i = 0; i < reserved->view->layers.count; i++) {
        reserved->roles[i].held_bytes = reserved->roles[i].held_peak_bytes = 0;
        reserved->roles[i].whole_bytes = reserved->roles[i].whole_peak_bytes = 0;
        reserved->roles[i].sampled_bytes = 0;
        reserved->roles[i].sample_ns = INT64_MIN;
    }
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];

        group->live_bytes = group->live_peak_bytes = group->rounded_bytes = group->rounded_peak_bytes = 0;
        group->rows_peak_bytes = group->rows_most_bytes = group->largest_request = 0;
        group->live_peak_ns = group->live_peak_id = 0;
    }
    reserved->next = reserved->last_layer = 0;
    reserved_until(reserved, reserved->view->filter.from_ns);
    reserved_sum(reserved, reserved->view->filter.from_ns);
}

static void
reserved_take_sample(struct reserved *reserved, const struct sample_row *row)
{
    struct reserved_role *role = &reserved->roles[row->layer];
    struct reserved_figure *figure = reserved_sampled(reserved, role);

    if (figure != NULL) {
        figure->sample_ns = row->ns;
        figure_set(figure, figure->bytes - role->sampled_bytes + row->reserved_bytes, row->ns, 0);
    }
    role->sampled_bytes = row->reserved_bytes;
    role->sample_ns = row->ns;
}

void
reserved_until(struct reserved *reserved, int64_t ns)
{
    const struct samples *samples = &reserved->samples;

    for (; reserved->next < samples->row_count && samples->rows[reserved->next].ns < ns; reserved->next++) {
        const struct sample_row *row = &samples->rows[reserved->next];

        if (row->ns > reserved->view->filter.to_ns)
            break;
        reserved_take_sample(reserved, row);
    }
    reserved->next_ns = reserved->next < samples->row_count ? samples->rows[reserved->next].ns : INT64_MAX;
}

void
reserved_restart(struct reserved *reserved)
{
    for (size_t i = 0; i < reserved->group_count; i++) {
        reserved->groups[i].rows_most_bytes = reserved->groups[i].rows_bytes;
        reserved->groups[i].reserved.most_bytes = reserved->groups[i].reserved.bytes;
        reserved->groups[i].base.most_bytes = reserved->groups[i].base.bytes;
    }
}

struct reserved_role *
reserved_look_up(struct reserved *reserved, int64_t layer_id)
{
    const struct trace_layer *layer = trace_layers_find(&reserved->view->layers, layer_id);

    if (layer == NULL)
        return NULL;
    reserved->last_layer = (size_t)(layer - reserved->view->layers.layers);
    return &reserved->roles[reserved->last_layer];
}

bool
reserved_is_chunk(struct reserved *reserved, int64_t layer_id)
{
    const struct reserved_role *role = reserved_role(reserved, layer_id);

    return role != NULL && !role->is_selected && (role->is_chunks || role->may_have_chunks);
}

bool
reserved_may_have_chunks(const struct reserved *reserved)
{
    bool may = false;

    for (size_t i = 0; i < reserved->view->layers.count && !reserved->is_off; i++)
        may = may || reserved->roles[i].is_chunks || reserved->roles[i].may_have_chunks;
    return may;
}

const struct reserved_figure *
reserved_larger(const struct reserved_group *group)
{
    return group->base.source != RESERVED_UNKNOWN && group->base.peak_bytes > group->reserved.peak_bytes
               ? &group->base
               : &group->reserved;
}

const struct reserved_figure *
reserved_below(const struct reserved *reserved, int64_t layer_id)
{
    const struct trace_layers *layers = &reserved->view->layers;
    const struct trace_layer *layer = trace_layers_find(layers, layer_id);
    const struct reserved_figure *found = NULL;
    size_t at = layer != NULL ? (size_t)(layer - layers->layers) : 0;

    if (layer == NULL)
        return NULL;
    if (reserved->roles[at].is_upper)
        return &reserved->groups[reserved->roles[at].group].reserved;
    TRACE_LAYER_SETS_EACH(i, &layers->below, at)
    {
        const struct reserved_role *role = &reserved->roles[i];
        const struct reserved_group *group = &reserved->groups[role->group];
        const struct reserved_figure *figure = role->is_sampled ? &group->reserved : &group->base;

        if (!role->is_base || !role->has_samples)
            continue;
        if (found != NULL && found != figure)
            return NULL;
        found = figure;
    }
    return found;
}

/* As a step of a walk: the way ends at the layer `at`, and one that comes to a base past it is told. */
struct reserved_pass {
    const struct trace_layers *layers;
    size_t at;
    bool is_met;
    bool is_left_out;
};

static int
reserved_pass(void *context, size_t at, int state)
{
    struct reserved_pass *pass = context;

    pass->is_met = pass->is_met || at == pass->at;
    if (at == pass->at)
        return LAYER_WALK_ENDS;
    pass->is_left_out = pass->is_left_out || trace_layer_is_base(&pass->layers->layers[at]);
    return state;
}

/* Whether all requests of a group pass the layer `at`: it is on every way from each of its logs to a base. */
static bool
reserved_all_pass(const struct reserved *reserved, const struct reserved_group *group, size_t at)
{
    struct reserved_pass pass = { .layers = &reserved->view->layers, .at = at };

    for (size_t i = group->first_upper; i != TRACE_LAYERS_NONE; i = reserved->roles[i].next_upper) {
        struct layer_walk walk = { .layers = pass.layers, .each = reserved_pass, .context = &pass };

        pass.is_met = false;
        layer_walk_below(&walk, i, 0);
        if (!pass.is_met || pass.is_left_out)
            return false;
    }
    return group->has_upper;
}

/* A layer `limit` that may bound a group. */
struct reserved_bound {
    uint64_t bytes;
    size_t at;
};

static int
reserved_compare_bounds(const void *left, const void *right)
{
    const struct reserved_bound *a = left, *b = right;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? -1 : 1) : (a->at > b->at) - (a->at < b->at);
}

/*
 * The limits on one way from a layer down, the lowest first: what all ways pass is on each. So no limit of another way
 * is looked at, of which a layer with many bins may have tens of thousands. A way in a circle ends.
 */
static size_t
reserved_bounds(const struct trace_layers *layers, size_t at, struct reserved_bound bounds[TRACE_LAYERS_DEPTH])
{
    size_t count = 0;

    for (size_t steps = 0; steps < TRACE_LAYERS_DEPTH; steps++) {
        const struct trace_layer *layer = &layers->layers[at];
        uint64_t bytes = strcmp(layer->kind, "limit") == 0 ? routes_bound(layer) : ROUTES_UNBOUNDED;

        if (bytes < ROUTES_UNBOUNDED)
            bounds[count++] = (struct reserved_bound){ bytes, at };
        if (layer->edge_count == 0)
            break;
        at = layers->edges[layer->first_edge].to;
    }
    qsort(bounds, count, sizeof(*bounds), reserved_compare_bounds);
    return count;
}

uint64_t
reserved_limit(const struct reserved *reserved, const struct reserved_group *group)
{
    struct reserved_bound bounds[TRACE_LAYERS_DEPTH];
    size_t count;

    if (!group->has_upper)
        return 0;
    count = reserved_bounds(&reserved->view->layers, group->first_upper, bounds);
    for (size_t i = 0; i < count; i++) {
        if (reserved_all_pass(reserved, group, bounds[i].at))
            return bounds[i].bytes;
    }
    return 0;
}

/* Layers that are left to look at, and all that ever were. */
struct reserved_climb {
    size_t *left; /* owns */
    size_t count, capacity;
    struct trace_layer_set reached;
};

/* False: no memory. */
static bool
reserved_climb_to(struct reserved_climb *climb, size_t layer)
{
    if (trace_layer_set_has(&climb->reached, layer))
        return true;
    trace_layer_set_add(&climb->reached, layer);
    if (!tidei_grow(&climb->left, &climb->capacity, climb->count, 1))
        return false;
    climb->left[climb->count++] = layer;
    return true;
}

/* Whether requests reach the layer at `at` on a way that leaves out `pool`. Without memory: that is not known. */
static bool
reserved_is_reached_past(const struct trace_layers *layers, size_t at, size_t pool)
{
    struct reserved_climb climb = { .count = 0 };
    bool is_past = !reserved_climb_to(&climb, at);

    while (climb.count > 0 && !is_past) {
        const struct trace_layer *layer = &layers->layers[climb.left[--climb.count]];

        is_past = layer->above_count == 0;
        for (size_t i = layer->first_above; i < layer->first_above + layer->above_count && !is_past; i++) {
            size_t from = layers->edges[layers->above[i]].from;

            is_past = from != pool && !reserved_climb_to(&climb, from);
        }
    }
    free(climb.left);
    return is_past;
}

/* Whether the trace has all rows and samples: none was lost, and none is still to come. */
static bool
reserved_has_all(const struct reserved *reserved)
{
    return reserved->view->trace.complete && reserved->view->trace.lost_events == 0;
}

/* The log whose rows are the chunks of a pool and of nothing else; NULL: there is none. */
static const struct reserved_role *
reserved_own_log(const struct reserved *reserved, size_t pool)
{
    const struct trace_layers *layers = &reserved->view->layers;
    const struct reserved_role *found = NULL;

    TRACE_LAYER_SETS_EACH(i, &layers->next_logs, pool)
    {
        if (found != NULL)
            return NULL;
        found = &reserved->roles[i];
        TRACE_LAYER_SETS_EACH(j, &layers->below, pool)
        {
            const struct trace_layer *other = &layers->layers[j];
            bool is_between = trace_layer_sets_has(&layers->next_logs, j, i);

            /* Layers on the way from the pool to the log are no other pools. */
            if (is_between && j != pool && !trace_layer_is_log(other) && other->known->role != LAYER_PASSES)
                return NULL;
        }
        if (reserved_is_reached_past(layers, i, pool))
            return NULL;
    }
    return found;
}

struct reserved_figure
reserved_of_layer(const struct reserved *reserved, size_t layer)
{
    const struct trace_layer *own = &reserved->view->layers.layers[layer];
    const struct reserved_role *role = &reserved->roles[layer];
    const struct reserved_role *rows = role->may_have_chunks && role->has_rows ? role : NULL;
    bool is_whole = rows != NULL;
    bool has_high = role->has_exact_high && !reserved->was_killed;
    struct reserved_figure figure = { .sample_ns = INT64_MIN };

    if (reserved->is_off || role->is_upper || trace_layer_is_log(own))
        return figure;
    if (rows == NULL && own->known->role != LAYER_PASSES && !role->may_have_chunks && !role->is_base)
        rows = reserved_own_log(reserved, layer);
    if (rows != NULL)
        figure = (struct reserved_figure){ .bytes = is_whole ? rows->whole_bytes : rows->held_bytes,
                                           .peak_bytes = is_whole ? rows->whole_peak_bytes : rows->held_peak_bytes,
                                           .sample_ns = INT64_MIN,
                                           .source = RESERVED_LAYERS,
                                           .is_exact = reserved_has_all(reserved) };
    else if (role->has_samples)
        figure = (struct reserved_figure){ .bytes = role->sampled_bytes,
                                           .peak_bytes = has_high ? role->high_bytes : role->highest_bytes,
                                           .sample_ns = role->sample_ns,
                                           .source = has_high ? RESERVED_HIGHS : RESERVED_SAMPLES,
                                           .is_exact = has_high && reserved_has_all(reserved) };
    return figure;
}

int
reserved_space_layers(const struct reserved *reserved, const struct reserved_group *group, uint64_t page_bytes,
                      struct space_layers *out)
{
    int status = COMMAND_FINE;

    *out = (struct space_layers){ .page_bytes = page_bytes };
    for (size_t i = group->first_upper; i != TRACE_LAYERS_NONE && status == COMMAND_FINE;
         i = reserved->roles[i].next_upper)
        status = filter_set_add(&out->upper, reserved->roles[i].layer_id);
    for (size_t i = group->first_source; i != TRACE_LAYERS_NONE && status == COMMAND_FINE;
         i = reserved->roles[i].next_source) {
        if (reserved->roles[i].is_chunks && !reserved->roles[i].is_upper)
            status = filter_set_add(&out->lower, reserved->roles[i].layer_id);
    }
    if (status == COMMAND_FINE && !out->upper.active) /* an inactive set has every layer */
        status = filter_set_add(&out->upper, 0);
    return status;
}

static int
reserved_too_much(const struct reserved *reserved, const struct scan_life *life)
{
    return trace_broken(&reserved->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^62 bytes",
                        life->allocation_id);
}

static int
reserved_request(struct reserved *reserved, struct reserved_group *group, const struct scan_life *life)
{
    uint64_t rounded = space_rounded(life);

    if (group->rounded_bytes > (uint64_t)INT64_MAX / 2 - rounded || rounded > (uint64_t)INT64_MAX / 2)
        return reserved_too_much(reserved, life);
    group->live_bytes += life->size;
    group->rounded_bytes += rounded;
    if (group->rounded_bytes > group->rounded_peak_bytes)
        group->rounded_peak_bytes = group->rounded_bytes;
    if (life->size > group->largest_request)
        group->largest_request = life->size;
    if (group->live_bytes > group->live_peak_bytes) {
        group->live_peak_bytes = group->live_bytes;
        group->live_peak_ns = life->alloc_ns;
        group->live_peak_id = life->allocation_id;
    }
    return COMMAND_FINE;
}

/* The layer whose chunks the rows of a role are a part of: the pool above a log, or the layer itself. */
static struct reserved_role *
reserved_whole(struct reserved *reserved, struct reserved_role *role)
{
    return role->part_of != 0 ? &reserved->roles[role->part_of - 1] : role;
}

/* Where a chunk belongs to the sources, `group` has it now. */
static int
reserved_hold(struct reserved *reserved, struct reserved_role *role, const struct scan_life *life)
{
    struct reserved_role *whole;
    struct reserved_group *group;
    int status = COMMAND_FINE;

    if (!role->has_rows) {
        role->has_rows = true;
        reserved->plans += role->may_have_chunks;
        if (role->may_have_chunks)
            status = reserved_plan_sources(reserved);
        if (status == COMMAND_FINE && role->may_have_chunks)
            reserved_sum(reserved, life->alloc_ns);
    }
    if (role->held_bytes > (uint64_t)INT64_MAX / 2 || life->size > (uint64_t)INT64_MAX / 2 - role->held_bytes)
        return reserved_too_much(reserved, life);
    role->held_bytes += life->size;
    if (role->held_bytes > role->held_peak_bytes)
        role->held_peak_bytes = role->held_bytes;
    whole = reserved_whole(reserved, role);
    whole->whole_bytes += life->size;
    if (whole->whole_bytes > whole->whole_peak_bytes)
        whole->whole_peak_bytes = whole->whole_bytes;
    group = &reserved->groups[role->group];
    if (!role->is_chunks || status != COMMAND_FINE)
        return status;
    if (group->reserved.bytes > (uint64_t)INT64_MAX / 2 - life->size)
        return reserved_too_much(reserved, life);
    group->rows_bytes += life->size;
    if (group->rows_bytes > group->rows_most_bytes)
        group->rows_most_bytes = group->rows_bytes;
    if (group->rows_bytes > group->rows_peak_bytes) {
        group->rows_peak_bytes = group->rows_bytes;
        group->rows_peak_id = life->allocation_id;
        group->rows_peak_ns = life->alloc_ns;
    }
    figure_set(&group->reserved, group->reserved.bytes + life->size, life->alloc_ns, life->allocation_id);
    return COMMAND_FINE;
}

int
reserved_alloc(struct reserved *reserved, const struct scan_life *life)
{
    struct reserved_role *role = reserved_role(reserved, life->layer_id);

    if (life->alloc_ns > reserved->next_ns)
        reserved_until(reserved, life->alloc_ns);
    if (role == NULL || life->status != 0)
        return COMMAND_FINE;
    if (role->is_upper)
        return reserved_request(reserved, &reserved->groups[role->group], life);
    return reserved->is_off ? COMMAND_FINE : reserved_hold(reserved, role, life);
}

void
reserved_release(struct reserved *reserved, const struct scan_life *life)
{
    struct reserved_role *role = reserved_role(reserved, life->layer_id);
    struct reserved_group *group;

    if (life->free_ns > reserved->next_ns)
        reserved_until(reserved, life->free_ns);
    if (role == NULL)
        return;
    group = &reserved->groups[role->group];
    if (role->is_upper) {
        group->live_bytes -= life->size;
        group->rounded_bytes -= space_rounded(life);
    } else if (!reserved->is_off) {
        role->held_bytes -= life->size;
        reserved_whole(reserved, role)->whole_bytes -= life->size;
        if (role->is_chunks) {
            group->rows_bytes -= life->size;
            figure_set(&group->reserved, group->reserved.bytes - life->size, life->free_ns, 0);
        }
    }
}

/* Add up what the sources of a figure are, and take in their high-water marks. */
static void
reserved_judge(const struct reserved *reserved, size_t at, bool is_base, struct reserved_figure *figure)
{
    struct reserved_group *group = &reserved->groups[at];
    size_t rows = 0, sampled = 0, highs = 0, unknown = 0;

    for (size_t i = group->first_source; i != TRACE_LAYERS_NONE; i = reserved->roles[i].next_source) {
        const struct reserved_role *role = &reserved->roles[i];
        bool counts = is_base ? role->is_base && role->has_samples && !role->is_sampled : role->is_sampled;
        bool has_high = role->has_exact_high && !reserved->was_killed;
        uint64_t most = has_high ? role->high_bytes : role->highest_bytes;

        if (role->is_upper)
            continue;
        rows += !is_base && role->is_chunks;
        unknown += !is_base && role->is_unknown;
        sampled += counts;
        highs += counts && has_high;
        if (counts && most > figure->peak_bytes) {
            figure->peak_bytes = most;
            figure->peak_id = 0;
        }
        if (counts && role->used_peak_bytes > group->used_peak_bytes)
            group->used_peak_bytes = role->used_peak_bytes;
    }
    figure->source = rows > 0 && sampled == 0                  ? RESERVED_LAYERS
                     : rows == 0 && sampled == 1 && highs == 1 ? RESERVED_HIGHS
                     : sampled > 0                             ? RESERVED_SAMPLES
                                                               : RESERVED_UNKNOWN;
    figure->is_exact = (figure->source == RESERVED_LAYERS || figure->source == RESERVED_HIGHS) && unknown == 0 &&
                       reserved_has_all(reserved);
}

void
reserved_end(struct reserved *reserved)
{
    reserved_until(reserved, INT64_MAX);
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];

        group->used_peak_bytes = 0;
        if (!reserved->is_off) {
            reserved_judge(reserved, i, true, &group->base);
            reserved_judge(reserved, i, false, &group->reserved);
        }
        /* What is live is reserved: something was missed. */
        if (group->live_peak_bytes > group->reserved.peak_bytes) {
            group->reserved.peak_bytes = group->live_peak_bytes;
            group->reserved.peak_ns = group->live_peak_ns;
            group->reserved.peak_id = 0;
            group->reserved.is_exact = false;
            group->reserved.is_live = true;
        }
    }
}

struct reserved_group *
reserved_largest(const struct reserved *reserved)
{
    struct reserved_group *largest = NULL;

    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];

        if (largest == NULL || group->reserved.peak_bytes > largest->reserved.peak_bytes)
            largest = group;
    }
    return largest;
}

bool
reserved_is_parted(const struct reserved *reserved)
{
    return reserved->group_count > 1;
}

const char *
reserved_source_word(enum reserved_source source)
{
    static const char *const words[] = { NULL, "layers", "highs", "samples" };

    return words[source];
}

const char *
reserved_least(const struct reserved_figure *figure)
{
    return figure->is_exact ? "" : "at least ";
}

uint64_t
reserved_used_peak(const struct reserved_group *group)
{
    if (group->reserved.source == RESERVED_LAYERS)
        return group->rounded_peak_bytes;
    return group->used_peak_bytes > group->live_peak_bytes ? group->used_peak_bytes : group->live_peak_bytes;
}

double
reserved_utilisation(const struct reserved_group *group)
{
    uint64_t used_bytes = reserved_used_peak(group);

    if (group->reserved.source == RESERVED_UNKNOWN || group->reserved.peak_bytes == 0)
        return -1;
    return used_bytes < group->reserved.peak_bytes ? (double)used_bytes / (double)group->reserved.peak_bytes : 1;
}
