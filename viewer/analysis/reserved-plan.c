/* From which layers it is known what was reserved. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/reserved-plan.h"
#include "viewer/base/exit-status.h"

const struct reserved_group reserved_no_group = { .device = -1,
                                                  .next_group = TRACE_LAYERS_NONE,
                                                  .first_upper = TRACE_LAYERS_NONE,
                                                  .first_source = TRACE_LAYERS_NONE,
                                                  .reserved = { .sample_ns = INT64_MIN },
                                                  .base = { .sample_ns = INT64_MIN } };

/* What the plan knows of a layer. All but `stack` are TRACE_LAYERS_NONE where there is none. */
struct plan_layer {
    size_t stack;       /* the first layer of its stack */
    size_t first_alike; /* of a base: one of its stack with memory of its kind, the same for all of them */
    size_t first_base;  /* of the first layer of a stack: the list of these bases */
    size_t next_base;
    size_t first_group; /* of the first layer of a stack: the list of its groups; see plan.next_group */
    size_t first_upper; /* of the first layer of a stack: the first selected log without another one above */
};

/* What the plan knows of the layers while it is made. */
struct plan {
    struct reserved *reserved;
    const struct trace_layers *layers;
    struct plan_layer *of; /* owns; by the index of the layer */
    struct layer_walk walk;
    struct trace_layer_set logs; /* that hold chunks */
};

static int
plan_no_memory(const struct plan *plan)
{
    return trace_broken(&plan->reserved->view->trace, "no memory for its layers");
}

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

/* Find which bases have memory of one kind. Those of a stack that are the first of theirs form a list. */
static void
plan_find_bases(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;

    for (size_t i = 0; i < layers->count; i++) {
        struct plan_layer *stack = &plan->of[plan->of[i].stack];
        size_t first = stack->first_base;

        if (!plan_is_base(plan, i))
            continue;
        while (first != TRACE_LAYERS_NONE && !plan_is_same(&layers->layers[first], &layers->layers[i]))
            first = plan->of[first].next_base;
        if (first == TRACE_LAYERS_NONE) {
            first = i;
            plan->of[i].next_base = stack->first_base;
            stack->first_base = i;
        }
        plan->of[i].first_alike = first;
    }
}

/* The kinds of memory that a layer's blocks may lie in: one base of its stack for each, in ascending order. */
static int
plan_bases(const struct plan *plan, size_t at, struct reserved_group *out)
{
    size_t capacity = 0;

    TRACE_LAYER_SETS_EACH(i, &plan->layers->below, at)
    {
        size_t first = plan->of[i].first_alike, place = out->base_count;

        if (!plan_is_base(plan, i))
            continue;
        while (place > 0 && out->bases[place - 1] > first)
            place--;
        if (place > 0 && out->bases[place - 1] == first)
            continue;
        if (!tidei_grow(&out->bases, &capacity, out->base_count, 1))
            return plan_no_memory(plan);
        memmove(out->bases + place + 1, out->bases + place, (out->base_count - place) * sizeof(*out->bases));
        out->bases[place] = first;
        out->base_count++;
    }
    return COMMAND_FINE;
}

/* "GPU 0 + pinned" */
static void
plan_name_memory(const struct plan *plan, struct reserved_group *group)
{
    size_t length = 0, count = 0;

    group->device = -1;
    for (size_t i = 0; i < group->base_count && length < sizeof(group->memory); i++) {
        const struct trace_layer *base = &plan->layers->layers[group->bases[i]];

        length += (size_t)snprintf(group->memory + length, sizeof(group->memory) - length, "%s%s",
                                   count > 0 ? " + " : "", plan_word(base));
        if (base->device >= 0 && length < sizeof(group->memory))
            length += (size_t)snprintf(group->memory + length, sizeof(group->memory) - length, "%s%" PRId64,
                                       strcmp(plan_word(base), "GPU") == 0 ? " " : " of GPU ", base->device);
        group->device = count++ == 0 ? base->device : -1;
    }
    group->is_mixed = count > 1;
}

static bool
plan_has_bases(const struct reserved_group *a, const struct reserved_group *b)
{
    return a->base_count == b->base_count &&
           (a->base_count == 0 || memcmp(a->bases, b->bases, a->base_count * sizeof(*a->bases)) == 0);
}

/* Find the group of a layer's memory, which is added where it is new. */
static int
plan_group(struct plan *plan, size_t at, size_t *out)
{
    struct reserved *reserved = plan->reserved;
    struct plan_layer *stack = &plan->of[plan->of[at].stack];
    struct reserved_group group = { .stack = plan->of[at].stack,
                                    .first_upper = TRACE_LAYERS_NONE,
                                    .first_source = TRACE_LAYERS_NONE };
    size_t i = stack->first_group;

    *out = 0;
    if (plan_bases(plan, at, &group) != COMMAND_FINE)
        return COMMAND_WRONG;
    while (i != TRACE_LAYERS_NONE && !plan_has_bases(&reserved->groups[i], &group))
        i = reserved->groups[i].next_group;
    if (i != TRACE_LAYERS_NONE) {
        free(group.bases);
        *out = i;
        return COMMAND_FINE;
    }
    plan_name_memory(plan, &group);
    group.next_group = stack->first_group;
    *out = stack->first_group = reserved->group_count;
    reserved->groups[reserved->group_count++] = group; /* there is room for one a layer */
    return COMMAND_FINE;
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

    TRACE_LAYER_SETS_EACH(i, &plan->layers->below, pool)
    {
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

/* A source above another one has its memory from there, where it is counted. */
static void
plan_drop_upper_sources(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;
    struct reserved_role *roles = plan->reserved->roles;

    for (size_t i = 0; i < layers->count; i++) {
        bool is_pool = !trace_layer_is_log(&layers->layers[i]);
        struct plan_cover cover;

        if (!roles[i].is_chunks && !roles[i].is_sampled)
            continue;
        if (is_pool)
            cover = plan_cover(plan, i);
        TRACE_LAYER_SETS_EACH(j, &layers->below, i)
        {
            /* A log that has some chunks of a pool, which says the others itself. */
            bool is_part = is_pool && trace_layer_is_log(&layers->layers[j]) && trace_layer_set_has(&cover.logs, j);

            if (i != j && (roles[j].is_chunks || roles[j].is_sampled) && !trace_layer_sets_has(&layers->below, j, i) &&
                !is_part) {
                roles[i].is_chunks = roles[i].is_sampled = false;
                break;
            }
        }
    }
}

/* Find the groups of all layers that say something, and list for each the layers that say what it has reserved. */
static int
plan_source_groups(struct plan *plan)
{
    struct reserved *reserved = plan->reserved;
    struct reserved_role *roles = reserved->roles;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < plan->layers->count && status == COMMAND_FINE; i++) {
        const struct reserved_role *role = &roles[i];

        if (role->is_chunks || role->may_have_chunks || role->is_sampled || role->is_unknown ||
            (role->is_base && role->has_samples))
            status = plan_group(plan, role->part_of != 0 ? role->part_of - 1 : i, &roles[i].group);
    }
    for (size_t i = 0; i < reserved->group_count; i++)
        reserved->groups[i].first_source = TRACE_LAYERS_NONE;
    for (size_t i = plan->layers->count; i-- > 0 && status == COMMAND_FINE;) {
        const struct reserved_role *role = &roles[i];

        if (!role->is_chunks && !role->is_sampled && !role->is_unknown && !(role->is_base && role->has_samples))
            continue;
        roles[i].next_source = reserved->groups[role->group].first_source;
        reserved->groups[role->group].first_source = i;
    }
    return status;
}

/* Choose the sources by what is known of the rows and samples of each layer. */
static int
plan_sources(struct plan *plan)
{
    struct reserved_role *roles = plan->reserved->roles;

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
    return plan_source_groups(plan);
}

/* Mark the selected layers that have no selected layer above them, and the bases below. */
static int
plan_uppers(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;
    const struct filter *filter = &plan->reserved->view->filter;
    struct reserved_role *roles = plan->reserved->roles;
    struct trace_layer_set covered = { { 0 } };
    int status = COMMAND_FINE;

    for (size_t i = 0; i < layers->count; i++) {
        bool selected = filter_has_layer(filter, layers->layers[i].layer_id);

        roles[i] = (struct reserved_role){ .layer_id = layers->layers[i].layer_id,
                                           .is_selected = selected,
                                           .is_upper = selected && !trace_layer_set_has(&covered, i) };
        roles[i].is_base = !roles[i].is_upper && plan_is_base(plan, i) && trace_layer_set_has(&covered, i);
        if (roles[i].is_upper)
            trace_layer_sets_add_to(&layers->below, i, &covered);
    }
    for (size_t i = 0; i < layers->count && status == COMMAND_FINE; i++) {
        if (roles[i].is_upper)
            status = plan_group(plan, i, &roles[i].group);
    }
    for (size_t i = layers->count; i-- > 0 && status == COMMAND_FINE;) {
        struct reserved_group *group = &plan->reserved->groups[roles[i].group];

        if (!roles[i].is_upper)
            continue;
        group->has_upper = true;
        roles[i].next_upper = group->first_upper;
        group->first_upper = i;
    }
    return status;
}

/* The first layer that is known to be of the stack of `at`. Halving the way to it makes further searches short. */
static size_t
plan_stack(struct plan *plan, size_t at)
{
    while (plan->of[at].stack != at)
        at = plan->of[at].stack = plan->of[plan->of[at].stack].stack;
    return at;
}

/* Find the stacks: layers that are connected, in any direction, belong to one. */
static void
plan_stacks(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;

    for (size_t i = 0; i < layers->count; i++)
        plan->of[i] = (struct plan_layer){
            i, TRACE_LAYERS_NONE, TRACE_LAYERS_NONE, TRACE_LAYERS_NONE, TRACE_LAYERS_NONE, TRACE_LAYERS_NONE
        };
    for (size_t i = 0; i < layers->edge_count; i++) {
        size_t from = plan_stack(plan, layers->edges[i].from);
        size_t to = plan_stack(plan, layers->edges[i].to);

        if (from < to)
            plan->of[to].stack = from;
        else
            plan->of[from].stack = to;
    }
    for (size_t i = 0; i < layers->count; i++)
        plan->of[i].stack = plan_stack(plan, i);
}

/* Number the stacks of the groups from 0 on, and name the groups. */
static void
plan_name_groups(struct plan *plan)
{
    struct reserved *reserved = plan->reserved;
    const struct trace_layers *layers = plan->layers;

    reserved->stack_count = 0;
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];

        /* The earliest group of a stack is the last one of its list. */
        group->number = group->next_group != TRACE_LAYERS_NONE ? reserved->groups[group->next_group].number
                                                               : reserved->stack_count++;
    }
    for (size_t i = layers->count; i-- > 0;) {
        if (reserved->roles[i].is_upper)
            plan->of[plan->of[i].stack].first_upper = i;
    }
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct reserved_group *group = &reserved->groups[i];
        size_t upper = plan->of[group->stack].first_upper;
        const struct trace_layer *first = &layers->layers[upper != TRACE_LAYERS_NONE ? upper : group->stack];

        if (reserved->stack_count > 1)
            snprintf(group->name, sizeof(group->name), "%" PRId64 " %.20s, %s", first->layer_id, first->kind,
                     group->memory);
        else
            snprintf(group->name, sizeof(group->name), "%s", group->memory);
    }
}

static void
plan_free(struct plan *plan)
{
    if (plan != NULL)
        free(plan->of);
    free(plan);
}

/* A new plan; NULL, after a message: no memory. */
static struct plan *
plan_new(struct reserved *reserved)
{
    const struct trace_layers *layers = &reserved->view->layers;
    struct plan *plan = calloc(1, sizeof(*plan));

    if (plan != NULL)
        plan->of = calloc(layers->count + 1, sizeof(*plan->of));
    if (plan == NULL || plan->of == NULL) {
        trace_broken(&reserved->view->trace, "no memory for its layers");
        plan_free(plan);
        return NULL;
    }
    plan->reserved = reserved;
    plan->layers = layers;
    plan_stacks(plan);
    plan_find_bases(plan);
    for (size_t i = 0; i < reserved->group_count; i++)
        plan->of[reserved->groups[i].stack].first_group = i;
    return plan;
}

int
reserved_plan_groups(struct reserved *reserved)
{
    struct plan *plan = plan_new(reserved);
    int status = plan != NULL ? plan_uppers(plan) : COMMAND_WRONG;

    if (status == COMMAND_FINE)
        plan_name_groups(plan);
    plan_free(plan);
    return status;
}

int
reserved_plan_sources(struct reserved *reserved)
{
    struct plan *plan = plan_new(reserved);
    int status = plan != NULL ? plan_sources(plan) : COMMAND_WRONG;

    if (status == COMMAND_FINE)
        plan_name_groups(plan);
    plan_free(plan);
    return status;
}
