/* From which layers it is known what was reserved. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/analysis/reserved-plan.h"
#include "viewer/base/exit-status.h"

/* What the plan knows of the layers while it is made. */
struct plan {
    struct reserved *reserved;
    const struct trace_layers *layers;
    struct layer_walk walk;
    struct trace_layer_set logs;     /* that hold chunks */
    size_t stacks[TRACE_LAYERS_MAX]; /* by layer: the first layer of its stack */
    size_t firsts[TRACE_LAYERS_MAX]; /* of each base: the first one of its stack with memory of its kind */
};

static bool
plan_is_base(const struct plan *plan, size_t at)
{
    return trace_layer_is_base(&plan->layers->layers[at]);
}

/* The memory of a base in one word, and its device. Bases of one word and device are one kind of memory. */
static const char *
plan_word(const struct trace_layer *base)
{
    return base->known->memory != NULL ? base->known->memory : base->device >= 0 ? "GPU" : base->kind;
}

static bool
plan_is_same(const struct trace_layer *a, const struct trace_layer *b)
{
    return a->device == b->device && strcmp(plan_word(a), plan_word(b)) == 0;
}

/* Find which bases have memory of one kind. */
static void
plan_find_bases(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;

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
    group->is_mixed = count > 1;
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

/* As a step of a walk: the way ends at a log; a pool or a base without one before it is told to `context`, a flag. */
struct plan_cover {
    const struct trace_layers *layers;
    struct trace_layer_set logs; /* at which ways ended */
    bool is_open;
};

static int
plan_look_for_log(void *context, size_t at, int state)
{
    struct plan_cover *cover = context;
    const struct trace_layer *layer = &cover->layers->layers[at];

    if (trace_layer_is_log(layer)) {
        trace_layer_set_add(&cover->logs, at);
        return LAYER_WALK_ENDS;
    }
    if (trace_layer_is_base(layer) || layer->known->role != LAYER_PASSES) {
        cover->is_open = true;
        return LAYER_WALK_ENDS;
    }
    return state;
}

/* The logs that ways down from `at` meet before a pool or a base, and whether some meet none. */
static struct plan_cover
plan_cover(const struct plan *plan, size_t at)
{
    struct plan_cover cover = { .layers = plan->layers };
    struct layer_walk walk = { .layers = plan->layers, .each = plan_look_for_log, .context = &cover };

    layer_walk_below(&walk, at, 0);
    return cover;
}

/* Only some ways down from a pool have a log: the chunks are the rows of these logs and the pool's own. */
static void
plan_join_parts(struct plan *plan, size_t pool, const struct trace_layer_set *logs)
{
    struct reserved_role *roles = plan->reserved->roles;

    for (size_t i = 0; i < plan->layers->count; i++) {
        if (!trace_layer_set_has(logs, i) || roles[i].is_upper)
            continue;
        roles[i].may_have_chunks = true;
        if (roles[i].part_of == 0)
            roles[i].part_of = pool + 1;
        if (!roles[pool].has_rows)
            continue;
        trace_layer_set_add(&plan->logs, i);
        roles[i].is_chunks = true;
    }
}

/* The states of the walk from the selected logs down: whether it has come through a pool. */
enum { PLAN_DIRECT, PLAN_THROUGH_POOL };

/* A step of that walk: what holds chunks, or says what it holds by samples, is a source and ends the way. */
static int
plan_visit(void *context, size_t at, int state)
{
    struct plan *plan = context;
    const struct trace_layer *layer = &plan->layers->layers[at];
    struct reserved_role *role = &plan->reserved->roles[at];
    struct plan_cover cover;

    if (trace_layer_is_log(layer) && (state == PLAN_THROUGH_POOL || trace_layer_set_has(&plan->logs, at))) {
        trace_layer_set_add(&plan->logs, at);
        role->is_chunks = true;
        return LAYER_WALK_ENDS;
    }
    if (trace_layer_is_log(layer) || (!trace_layer_is_base(layer) && layer->known->role == LAYER_PASSES))
        return state;
    if (trace_layer_is_base(layer)) {
        role->is_sampled = role->has_samples;
        role->is_unknown = !role->has_samples;
        return LAYER_WALK_ENDS;
    }
    cover = plan_cover(plan, at);
    if (!cover.is_open)
        return PLAN_THROUGH_POOL;
    plan_join_parts(plan, at, &cover.logs);
    role->may_have_chunks = true;
    role->is_chunks = role->has_rows;
    role->is_sampled = !role->has_rows && role->has_samples;
    return role->has_rows || role->has_samples ? LAYER_WALK_ENDS : PLAN_THROUGH_POOL;
}

/* Whether a log has chunks of a pool, which says the others itself. */
static bool
plan_is_part(const struct plan *plan, size_t pool, size_t log)
{
    const struct trace_layer *layers = plan->layers->layers;
    struct plan_cover cover;

    if (trace_layer_is_log(&layers[pool]) || !trace_layer_is_log(&layers[log]))
        return false;
    cover = plan_cover(plan, pool);
    return trace_layer_set_has(&cover.logs, log);
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
                !trace_layer_set_has(&layers->below[j], i) && !plan_is_part(plan, i, j))
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
        plan->walk = (struct layer_walk){ .layers = plan->layers, .each = plan_visit, .context = plan };
        for (size_t i = 0; i < plan->layers->count; i++)
            roles[i].is_chunks = roles[i].is_sampled = roles[i].is_unknown = false;
        for (size_t i = 0; i < plan->layers->count; i++) {
            if (roles[i].is_upper)
                layer_walk_below(&plan->walk, i, PLAN_DIRECT);
        }
    }
    plan_drop_upper_sources(plan);
    for (size_t i = 0; i < plan->layers->count; i++) {
        const struct reserved_role *role = &roles[i];

        if (role->is_chunks || role->may_have_chunks || role->is_sampled || role->is_unknown ||
            (role->is_base && role->has_samples))
            roles[i].group = plan_group(plan, role->part_of != 0 ? role->part_of - 1 : i);
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

/* A new plan, which the caller frees; NULL, after a message: no memory. */
static struct plan *
plan_new(struct reserved *reserved)
{
    struct plan *plan = calloc(1, sizeof(*plan));

    if (plan == NULL) {
        trace_broken(&reserved->view->trace, "no memory for its layers");
        return NULL;
    }
    plan->reserved = reserved;
    plan->layers = &reserved->view->layers;
    plan_stacks(plan);
    plan_find_bases(plan);
    return plan;
}

int
reserved_plan_groups(struct reserved *reserved)
{
    struct plan *plan = plan_new(reserved);

    if (plan == NULL)
        return COMMAND_WRONG;
    plan_uppers(plan);
    plan_name_groups(reserved, plan->layers);
    free(plan);
    return COMMAND_FINE;
}

int
reserved_plan_sources(struct reserved *reserved)
{
    struct plan *plan = plan_new(reserved);

    if (plan == NULL)
        return COMMAND_WRONG;
    plan_sources(plan);
    plan_name_groups(reserved, plan->layers);
    free(plan);
    return COMMAND_FINE;
}
