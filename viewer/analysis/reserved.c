/* What was reserved, for each stack and each kind of memory of it. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/analysis/reserved.h"
#include "viewer/base/exit-status.h"

/* Layers that hand each request on, or refuse it. What is neither a log nor one of these may hold chunks. */
static const char *const plan_passing[] = {
    "aligned", "binning", "callback", "fallback", "fault", "guard", "limit", "prefetch", "retry", "statistics", "track",
};

/* A walk from the selected logs down to what holds their memory. */
struct plan {
    struct reserved *reserved;
    const struct trace_layers *layers;
    size_t *stacks;                    /* by layer: the first layer of its stack */
    struct trace_layer_set visited[2]; /* reached, and reached through a pool */
    struct trace_layer_set logs;       /* that hold chunks */
    struct trace_layer_set bases;
    size_t firsts[TRACE_LAYERS_MAX]; /* of each base: the first one of its stack with memory of its kind */
    unsigned char covered[TRACE_LAYERS_MAX];
};

static bool
plan_is_log(const struct plan *plan, size_t at)
{
    return strcmp(plan->layers->layers[at].kind, "log") == 0;
}

static bool
plan_is_base(const struct plan *plan, size_t at)
{
    return trace_layer_set_has(&plan->bases, at);
}

static bool
layer_is_passing(const struct trace_layer *layer)
{
    for (size_t i = 0; i < sizeof(plan_passing) / sizeof(plan_passing[0]); i++) {
        if (strcmp(layer->kind, plan_passing[i]) == 0)
            return true;
    }
    return false;
}

static bool
plan_is_passing(const struct plan *plan, size_t at)
{
    return layer_is_passing(&plan->layers->layers[at]);
}

/* The memory of a base in one word, and its device. Bases of one word and device are one kind of memory. */
static const char *
plan_word(const struct trace_layer *base)
{
    static const char *const own[] = { "managed", "pinned", "pageable", "host", "sim" };
    static const char *const on_device[] = { "driver", "vmm", "cuda" };

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strcmp(base->kind, own[i]) == 0)
            return base->kind;
    }
    for (size_t i = 0; i < sizeof(on_device) / sizeof(on_device[0]); i++) {
        if (base->device >= 0 || strcmp(base->kind, on_device[i]) == 0)
            return "GPU";
    }
    return base->kind;
}

static bool
plan_is_same(const struct trace_layer *a, const struct trace_layer *b)
{
    return a->device == b->device && strcmp(plan_word(a), plan_word(b)) == 0;
}

/* Find the bases, and which of them have memory of one kind. */
static void
plan_find_bases(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;

    for (size_t i = 0; i < layers->count; i++)
        trace_layer_set_add(&plan->bases, i);
    for (size_t i = 0; i < layers->edge_count; i++)
        plan->bases.bits[layers->edges[i].from / 64] &= ~(UINT64_C(1) << layers->edges[i].from % 64);
    for (size_t i = 0; i < layers->count; i++) {
        size_t first = 0;

        while (first < i && !(plan_is_base(plan, first) && plan->stacks[first] == plan->stacks[i] &&
                              plan_is_same(&layers->layers[first], &layers->layers[i])))
            first++;
        plan->firsts[i] = first;
    }
}

/* The kinds of memory that a layer's blocks may lie in: one base of its stack for each. */
static void
plan_bases(const struct plan *plan, size_t at, struct trace_layer_set *out)
{
    *out = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < plan->layers->count; i++) {
        if (plan_is_base(plan, i) && trace_layer_set_has(&plan->layers->below[at], i))
            trace_layer_set_add(out, plan->firsts[i]);
    }
}

/* "GPU 0 + pinned" */
static void
plan_name_memory(const struct plan *plan, struct reserved_group *group)
{
    size_t length = 0, count = 0;

    group->device = -1;
    for (size_t i = 0; i < plan->layers->count && length < sizeof(group->memory); i++) {
        const struct trace_layer *base = &plan->layers->layers[i];

        if (!trace_layer_set_has(&group->bases, i))
            continue;
        length += (size_t)snprintf(group->memory + length, sizeof(group->memory) - length, "%s%s",
                                   count > 0 ? " + " : "", plan_word(base));
        if (base->device >= 0 && length < sizeof(group->memory))
            length += (size_t)snprintf(group->memory + length, sizeof(group->memory) - length, "%s%" PRId64,
                                       strcmp(plan_word(base), "GPU") == 0 ? " " : " of GPU ", base->device);
        group->device = count++ == 0 ? base->device : -1;
    }
}

/* The group of a layer's memory, which is added where it is new. */
static size_t
plan_group(struct plan *plan, size_t at)
{
    struct reserved *reserved = plan->reserved;
    struct reserved_group group = { .stack = plan->stacks[at] };
    size_t i = 0;

    plan_bases(plan, at, &group.bases);
    while (i < reserved->group_count && (reserved->groups[i].stack != group.stack ||
                                         memcmp(&reserved->groups[i].bases, &group.bases, sizeof(group.bases)) != 0))
        i++;
    if (i < reserved->group_count)
        return i;
    plan_name_memory(plan, &group);
    reserved->groups[reserved->group_count++] = group; /* there is room for one a layer */
    return i;
}

/* Whether every way down from `at` meets a log before it meets a pool or a base. */
static bool
plan_is_covered(struct plan *plan, size_t at, bool is_first)
{
    enum { NEW, COVERED, OPEN };
    bool covered = true;

    if (!is_first && plan_is_log(plan, at))
        return true;
    if (!is_first && (plan_is_base(plan, at) || !plan_is_passing(plan, at)))
        return false;
    if (plan->covered[at] != NEW)
        return plan->covered[at] == COVERED;
    plan->covered[at] = COVERED; /* of a circle, as in a broken file */
    for (size_t i = 0; i < plan->layers->edge_count && covered; i++) {
        if (plan->layers->edges[i].from == at)
            covered = plan_is_covered(plan, plan->layers->edges[i].to, false);
    }
    plan->covered[at] = covered ? COVERED : OPEN;
    return covered;
}

static void plan_visit(struct plan *plan, size_t at, bool through_pool);

static void
plan_visit_below(struct plan *plan, size_t at, bool through_pool)
{
    for (size_t i = 0; i < plan->layers->edge_count; i++) {
        if (plan->layers->edges[i].from == at)
            plan_visit(plan, plan->layers->edges[i].to, through_pool);
    }
}

/* Visit a layer on the way down: what holds chunks, or says what it holds by samples, is a source and ends the way. */
static void
plan_visit(struct plan *plan, size_t at, bool through_pool)
{
    struct reserved_role *role = &plan->reserved->roles[at];

    if (trace_layer_set_has(&plan->visited[through_pool], at))
        return;
    trace_layer_set_add(&plan->visited[through_pool], at);
    if (plan_is_log(plan, at) && (through_pool || trace_layer_set_has(&plan->logs, at))) {
        trace_layer_set_add(&plan->logs, at);
        role->is_chunks = true;
    } else if (plan_is_log(plan, at) || (!plan_is_base(plan, at) && plan_is_passing(plan, at))) {
        plan_visit_below(plan, at, through_pool);
    } else if (plan_is_base(plan, at)) {
        role->is_sampled = role->has_samples;
        role->is_unknown = !role->has_samples;
    } else if (plan_is_covered(plan, at, true)) {
        plan_visit_below(plan, at, true);
    } else {
        role->may_have_chunks = true;
        role->is_chunks = role->has_rows;
        role->is_sampled = !role->has_rows && role->has_samples;
        if (!role->has_rows && !role->has_samples)
            plan_visit_below(plan, at, true);
    }
}

/* A source above another one has its memory from there, where it is counted. */
static void
plan_drop_upper_sources(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;
    struct reserved_role *roles = plan->reserved->roles;

    for (size_t i = 0; i < layers->count; i++) {
        for (size_t j = 0; j < layers->count && (roles[i].is_chunks || roles[i].is_sampled); j++) {
            if (i != j && (roles[j].is_chunks || roles[j].is_sampled) && trace_layer_set_has(&layers->below[i], j) &&
                !trace_layer_set_has(&layers->below[j], i))
                roles[i].is_chunks = roles[i].is_sampled = false;
        }
    }
}

/* Choose the sources by what is known of the rows and samples of each layer. */
static void
plan_sources(struct plan *plan)
{
    struct reserved *reserved = plan->reserved;
    struct reserved_role *roles = reserved->roles;

    /* The second time the logs that hold chunks of a pool are known to those who reach them past that pool. */
    for (int time = 0; time < 2; time++) {
        memset(plan->visited, 0, sizeof(plan->visited));
        for (size_t i = 0; i < plan->layers->count; i++)
            roles[i].is_chunks = roles[i].is_sampled = roles[i].is_unknown = false;
        for (size_t i = 0; i < plan->layers->count; i++) {
            if (roles[i].is_upper)
                plan_visit_below(plan, i, false);
        }
    }
    plan_drop_upper_sources(plan);
    for (size_t i = 0; i < plan->layers->count; i++) {
        const struct reserved_role *role = &roles[i];

        if (role->is_chunks || role->may_have_chunks || role->is_sampled || role->is_unknown ||
            (role->is_base && role->has_samples))
            roles[i].group = plan_group(plan, i);
    }
    for (size_t i = 0; i < reserved->group_count; i++)
        reserved->groups[i].chunks = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < plan->layers->count; i++) {
        if (roles[i].is_chunks)
            trace_layer_set_add(&reserved->groups[roles[i].group].chunks, i);
    }
}

/* Mark the selected layers that have no selected layer above them, and the bases below. */
static void
plan_uppers(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;
    const struct filter *filter = &plan->reserved->view->filter;
    struct reserved_role *roles = plan->reserved->roles;

    for (size_t i = 0; i < layers->count; i++) {
        bool selected = filter_has_layer(filter, layers->layers[i].layer_id);

        roles[i] = (struct reserved_role){ .layer_id = layers->layers[i].layer_id,
                                           .is_selected = selected,
                                           .is_upper = selected };
        for (size_t j = 0; j < i && roles[i].is_upper; j++)
            roles[i].is_upper = !roles[j].is_upper || !trace_layer_set_has(&layers->below[j], i);
    }
    for (size_t i = 0; i < layers->count; i++) {
        struct reserved_group *group;

        if (!roles[i].is_upper)
            continue;
        roles[i].group = plan_group(plan, i);
        group = &plan->reserved->groups[roles[i].group];
        group->has_upper = true;
        trace_layer_set_add(&group->upper, i);
        for (size_t j = 0; j < layers->count; j++)
            roles[j].is_base =
                roles[j].is_base || (trace_layer_set_has(&layers->below[i], j) && plan_is_base(plan, j) && i != j);
    }
}

/* Find the stacks: layers that are connected, in any direction, belong to one. */
static void
plan_stacks(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;
    bool changed = true;

    for (size_t i = 0; i < layers->count; i++)
        plan->stacks[i] = i;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < layers->edge_count; i++) {
            size_t *from = &plan->stacks[layers->edges[i].from];
            size_t *to = &plan->stacks[layers->edges[i].to];

            changed = changed || *from != *to;
            *from = *to = *from < *to ? *from : *to;
        }
    }
}

/* Number the stacks of the groups from 0 on, and name the groups. */
static void
plan_name_groups(struct reserved *reserved, const struct trace_layers *layers)
{
    size_t firsts[TRACE_LAYERS_MAX];

    reserved->stack_count = 0;
    for (size_t i = 0; i < reserved->group_count; i++) {
        size_t stack = 0;

        while (stack < reserved->stack_count && firsts[stack] != reserved->groups[i].stack)
            stack++;
        firsts[stack] = reserved->groups[i].stack;
        reserved->stack_count += stack == reserved->stack_count;
        reserved->groups[i].number = stack;
    }
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];
        const struct trace_layer *first = &layers->layers[group->stack];

        for (size_t j = layers->count; j-- > 0;) {
            if (reserved->roles[j].is_upper && reserved->groups[reserved->roles[j].group].number == group->number)
                first = &layers->layers[j];
        }
        if (reserved->stack_count > 1)
            snprintf(group->name, sizeof(group->name), "%" PRId64 " %.20s, %s", first->layer_id, first->kind,
                     group->memory);
        else
            snprintf(group->name, sizeof(group->name), "%s", group->memory);
    }
}

/*
 * Choose the sources again: at the beginning, and once a pool turns out to say its chunks itself. `is_new`: find the
 * groups, too.
 */
static int
reserved_plan(struct reserved *reserved, bool is_new)
{
    const struct trace_layers *layers = &reserved->view->layers;
    struct plan *plan = calloc(1, sizeof(*plan));
    int status = COMMAND_FINE;

    if (plan != NULL)
        *plan = (struct plan){ .reserved = reserved,
                               .layers = layers,
                               .stacks = calloc(layers->count + 1, sizeof(*plan->stacks)) };
    if (plan == NULL || plan->stacks == NULL) {
        free(plan);
        return trace_broken(&reserved->view->trace, "no memory for its layers");
    }
    plan_stacks(plan);
    plan_find_bases(plan);
    if (is_new)
        plan_uppers(plan);
    else
        plan_sources(plan);
    plan_name_groups(reserved, layers);
    free(plan->stacks);
    free(plan);
    return status;
}

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
    bool killed = !view->trace.complete || view->trace.end == TRACE_KILLED;

    for (size_t i = 0; i < view->layers.count && killed; i++)
        killed = strcmp(view->layers.layers[i].kind, "log") != 0 ||
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
reserved_make(const struct view *view, struct reserved *out)
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
    if (status == COMMAND_FINE)
        status = reserved_plan(out, true);
    if (status == COMMAND_FINE && !out->is_off) {
        status = samples_read(view, &out->samples);
        if (status == COMMAND_FINE)
            status = reserved_read_samples(out);
        if (status == COMMAND_FINE)
            status = reserved_plan(out, false);
        if (status == COMMAND_FINE)
            status = device_use_read(view, &out->samples, &out->devices);
    }
    if (status != COMMAND_FINE)
        reserved_free(out);
    return status;
}

void
reserved_free(struct reserved *reserved)
{
    samples_free(&reserved->samples);
    device_use_free(&reserved->devices);
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
        for (size_t j = 0; j < reserved->view->layers.count; j++) {
            if (reserved->roles[j].is_chunks && reserved->roles[j].group == i)
                group->rows_bytes += reserved->roles[j].held_bytes;
        }
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

/* The role of a layer, mostly that of the event before. */
static struct reserved_role *
reserved_find(struct reserved *reserved, int64_t layer_id)
{
    const struct trace_layer *layer;

    if (reserved->view->layers.count == 0)
        return NULL;
    if (reserved->roles[reserved->last_layer].layer_id == layer_id)
        return &reserved->roles[reserved->last_layer];
    layer = trace_layers_find(&reserved->view->layers, layer_id);
    if (layer == NULL)
        return NULL;
    reserved->last_layer = (size_t)(layer - reserved->view->layers.layers);
    return &reserved->roles[reserved->last_layer];
}

struct reserved_group *
reserved_upper(struct reserved *reserved, int64_t layer_id)
{
    const struct reserved_role *role = reserved_find(reserved, layer_id);

    return role != NULL && role->is_upper ? &reserved->groups[role->group] : NULL;
}

bool
reserved_is_chunk(struct reserved *reserved, int64_t layer_id)
{
    const struct reserved_role *role = reserved_find(reserved, layer_id);

    return role != NULL && !role->is_selected && (role->is_chunks || role->may_have_chunks);
}

const struct reserved_figure *
reserved_below(const struct reserved *reserved, int64_t layer_id)
{
    const struct trace_layers *layers = &reserved->view->layers;
    const struct trace_layer *layer = trace_layers_find(layers, layer_id);
    const struct reserved_figure *found = NULL;
    size_t at = layer != NULL ? (size_t)(layer - layers->layers) : 0;

    if (layer != NULL && reserved->roles[at].is_upper)
        return &reserved->groups[reserved->roles[at].group].reserved;
    for (size_t i = 0; layer != NULL && i < layers->count; i++) {
        const struct reserved_role *role = &reserved->roles[i];
        const struct reserved_group *group = &reserved->groups[role->group];
        const struct reserved_figure *figure = role->is_sampled ? &group->reserved : &group->base;

        if (!role->is_base || !role->has_samples || !trace_layer_set_has(&layers->below[at], i))
            continue;
        if (found != NULL && found != figure)
            return NULL;
        found = figure;
    }
    return found;
}

uint64_t
reserved_limit(const struct reserved *reserved, const struct reserved_group *group)
{
    const struct trace_layers *layers = &reserved->view->layers;
    uint64_t lowest = 0;

    for (size_t i = 0; i < layers->count; i++) {
        bool is_below = false;
        uint64_t bytes;

        if (!view_limit_of(&layers->layers[i], &bytes))
            continue;
        for (size_t j = 0; j < layers->count && !is_below; j++)
            is_below = trace_layer_set_has(&group->upper, j) && trace_layer_set_has(&layers->below[j], i);
        if (is_below && (lowest == 0 || bytes < lowest))
            lowest = bytes;
    }
    return lowest;
}

/* The log whose rows are the chunks of a pool and of nothing else; NULL: there is none. */
static const struct reserved_role *
reserved_own_log(const struct reserved *reserved, size_t pool)
{
    const struct trace_layers *layers = &reserved->view->layers;
    const struct reserved_role *found = NULL;

    for (size_t i = 0; i < layers->count; i++) {
        if (!trace_layer_set_has(&layers->next_logs[pool], i))
            continue;
        if (found != NULL)
            return NULL;
        found = &reserved->roles[i];
        for (size_t j = 0; j < layers->count; j++) {
            const struct trace_layer *other = &layers->layers[j];
            bool is_above = j != pool && trace_layer_set_has(&layers->next_logs[j], i);

            /* Layers on the way from the pool to the log, or from a log to the pool, are no other pools. */
            if (is_above && strcmp(other->kind, "log") != 0 && !layer_is_passing(other))
                return NULL;
            if (is_above && strcmp(other->kind, "log") == 0 && !trace_layer_set_has(&layers->below[j], pool))
                return NULL;
        }
    }
    return found;
}

struct reserved_figure
reserved_of_layer(const struct reserved *reserved, size_t layer)
{
    const struct trace_layer *own = &reserved->view->layers.layers[layer];
    const struct reserved_role *role = &reserved->roles[layer];
    const struct reserved_role *rows = role->may_have_chunks && role->has_rows ? role : NULL;
    bool has_high = role->has_exact_high && !reserved->was_killed;
    struct reserved_figure figure = { .sample_ns = INT64_MIN };

    if (reserved->is_off || role->is_upper || strcmp(own->kind, "log") == 0)
        return figure;
    if (rows == NULL && !layer_is_passing(own) && !role->may_have_chunks && !role->is_base)
        rows = reserved_own_log(reserved, layer);
    if (rows != NULL)
        figure = (struct reserved_figure){ .bytes = rows->held_bytes,
                                           .peak_bytes = rows->held_peak_bytes,
                                           .sample_ns = INT64_MIN,
                                           .source = RESERVED_LAYERS,
                                           .is_exact = reserved->view->trace.lost_events == 0 };
    else if (role->has_samples)
        figure = (struct reserved_figure){ .bytes = role->sampled_bytes,
                                           .peak_bytes = has_high ? role->high_bytes : role->highest_bytes,
                                           .sample_ns = role->sample_ns,
                                           .source = has_high ? RESERVED_HIGHS : RESERVED_SAMPLES,
                                           .is_exact = has_high };
    return figure;
}

int
reserved_space_layers(const struct reserved *reserved, const struct reserved_group *group, uint64_t page_bytes,
                      struct space_layers *out)
{
    int status = COMMAND_FINE;

    *out = (struct space_layers){ .page_bytes = page_bytes };
    for (size_t i = 0; i < reserved->view->layers.count && status == COMMAND_FINE; i++) {
        if (trace_layer_set_has(&group->upper, i))
            status = filter_set_add(&out->upper, reserved->roles[i].layer_id);
        else if (trace_layer_set_has(&group->chunks, i))
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

/* Where a chunk belongs to the sources, `group` has it now. */
static int
reserved_hold(struct reserved *reserved, struct reserved_role *role, const struct scan_life *life)
{
    struct reserved_group *group;
    int status = COMMAND_FINE;

    if (!role->has_rows) {
        role->has_rows = true;
        if (role->may_have_chunks)
            status = reserved_plan(reserved, false);
        if (status == COMMAND_FINE && role->may_have_chunks)
            reserved_sum(reserved, life->alloc_ns);
    }
    if (role->held_bytes > (uint64_t)INT64_MAX / 2 || life->size > (uint64_t)INT64_MAX / 2 - role->held_bytes)
        return reserved_too_much(reserved, life);
    role->held_bytes += life->size;
    if (role->held_bytes > role->held_peak_bytes)
        role->held_peak_bytes = role->held_bytes;
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
    struct reserved_role *role = reserved_find(reserved, life->layer_id);

    if (reserved->next < reserved->samples.row_count)
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
    struct reserved_role *role = reserved_find(reserved, life->layer_id);
    struct reserved_group *group;

    if (reserved->next < reserved->samples.row_count)
        reserved_until(reserved, life->free_ns);
    if (role == NULL)
        return;
    group = &reserved->groups[role->group];
    if (role->is_upper) {
        group->live_bytes -= life->size;
        group->rounded_bytes -= space_rounded(life);
    } else if (!reserved->is_off) {
        role->held_bytes -= life->size;
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

    for (size_t i = 0; i < reserved->view->layers.count; i++) {
        const struct reserved_role *role = &reserved->roles[i];
        bool counts = is_base ? role->is_base && role->has_samples && !role->is_sampled : role->is_sampled;
        bool has_high = role->has_exact_high && !reserved->was_killed;
        uint64_t most = has_high ? role->high_bytes : role->highest_bytes;

        if (role->group != at || role->is_upper)
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
                       reserved->view->trace.lost_events == 0;
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
