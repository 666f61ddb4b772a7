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
    size_t first_alike; /* of a base: the first of its stack with memory of its kind */
    size_t first_group; /* of the first layer of a stack: the list of its groups; see reserved_group.next_group */
    size_t first_upper; /* of the first layer of a stack: the first selected log without another one above */
};

/* What the plan knows of the layers while it is made. */
struct plan {
    struct reserved *reserved;
    const struct trace_layers *layers;
    struct plan_layer *of;  /* owns; by the index of the layer */
    struct id_map by_bases; /* owns; the index of the newest group of a hash of its stack and bases */
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

/* A base, while those of a stack with memory of one kind are brought together. */
struct plan_base {
    const struct trace_layer *layer;
    size_t stack;
    size_t at;
};

static int
plan_compare_kinds(const struct plan_base *a, const struct plan_base *b)
{
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    if (a->layer->device != b->layer->device)
        return a->layer->device < b->layer->device ? -1 : 1;
    return strcmp(plan_word(a->layer), plan_word(b->layer));
}

static int
plan_compare_bases(const void *left, const void *right)
{
    const struct plan_base *a = left, *b = right;
    int kinds = plan_compare_kinds(a, b);

    return kinds != 0 ? kinds : (a->at > b->at) - (a->at < b->at);
}

/* Find which bases have memory of one kind: those that follow each other once they are sorted. False: no memory. */
static bool
plan_find_bases(struct plan *plan)
{
    const struct trace_layers *layers = plan->layers;
    struct plan_base *bases = calloc(layers->count + 1, sizeof(*bases));
    size_t count = 0;

    for (size_t i = 0; i < layers->count && bases != NULL; i++) {
        if (plan_is_base(plan, i))
            bases[count++] = (struct plan_base){ &layers->layers[i], plan->of[i].stack, i };
    }
    if (bases != NULL)
        qsort(bases, count, sizeof(*bases), plan_compare_bases);
    for (size_t i = 0; i < count; i++) {
        bool is_first = i == 0 || plan_compare_kinds(&bases[i - 1], &bases[i]) != 0;

        plan->of[bases[i].at].first_alike = is_first ? bases[i].at : plan->of[bases[i - 1].at].first_alike;
    }
    free(bases);
    return bases != NULL;
}

static int
plan_compare_places(const void *left, const void *right)
{
    size_t a = *(const size_t *)left, b = *(const size_t *)right;

    return (a > b) - (a < b);
}

/* The kinds of memory that a layer's blocks may lie in: one base of its stack for each, in ascending order. */
static int
plan_bases(const struct plan *plan, size_t at, struct reserved_group *out)
{
    size_t capacity = 0, kept = 0;

    TRACE_LAYER_SETS_EACH(i, &plan->layers->below, at)
    {
        size_t first = plan->of[i].first_alike;

        /* Many bases of one kind mostly follow each other. */
        if (!plan_is_base(plan, i) || (out->base_count > 0 && out->bases[out->base_count - 1] == first))
            continue;
        if (!tidei_grow(&out->bases, &capacity, out->base_count, 1)) {
            free(out->bases);
            return plan_no_memory(plan);
        }
        out->bases[out->base_count++] = first;
    }
    if (out->base_count > 0)
        qsort(out->bases, out->base_count, sizeof(*out->bases), plan_compare_places);
    for (size_t i = 0; i < out->base_count; i++) {
        if (kept == 0 || out->bases[i] != out->bases[kept - 1])
            out->bases[kept++] = out->bases[i];
    }
    out->base_count = kept;
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
        group->is_process = base->known->is_process;
    }
    group->is_mixed = count > 1;
}

static bool
plan_has_bases(const struct reserved_group *a, const struct reserved_group *b)
{
    return a->base_count == b->base_count &&
           (a->base_count == 0 || memcmp(a->bases, b->bases, a->base_count * sizeof(*a->bases)) == 0);
}

static uint64_t
plan_hash(const struct reserved_group *group)
{
    uint64_t hash = (uint64_t)group->stack + 1;

    for (size_t i = 0; i < group->base_count; i++)
        hash = (hash ^ (group->bases[i] + UINT64_C(1))) * UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

/* A group of the same stack and bases, or TRACE_LAYERS_NONE. Where another one has its hash, all are searched. */
static size_t
plan_find_group(const struct plan *plan, const struct reserved_group *group)
{
    const struct reserved *reserved = plan->reserved;
    const uint32_t *known = id_map_find(&plan->by_bases, plan_hash(group));
    size_t i = plan->of[group->stack].first_group;

    if (known == NULL)
        return TRACE_LAYERS_NONE;
    if (reserved->groups[*known].stack == group->stack && plan_has_bases(&reserved->groups[*known], group))
        return *known;
    while (i != TRACE_LAYERS_NONE && !plan_has_bases(&reserved->groups[i], group))
        i = reserved->groups[i].next_group;
    return i;
}

/* Remember the group at an index. False: no memory. */
static bool
plan_note_group(struct plan *plan, size_t at)
{
    uint64_t hash = plan_hash(&plan->reserved->groups[at]);

    plan->of[plan->reserved->groups[at].stack].first_group = at;
    return id_map_find(&plan->by_bases, hash) != NULL || id_map_add(&plan->by_bases, hash, (uint32_t)at);
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
    size_t i;

    *out = 0;
    if (plan_bases(plan, at, &group) != COMMAND_FINE)
        return COMMAND_WRONG;
    i = plan_find_group(plan, &group);
    if (i != TRACE_LAYERS_NONE) {
        free(group.bases);
        *out = i;
        return COMMAND_FINE;
    }
    plan_name_memory(plan, &group);
    group.next_group = stack->first_group;
    *out = reserved->group_count;
    reserved->groups[reserved->group_count++] = group; /* there is room for one a layer */
    return plan_note_group(plan, *out) ? COMMAND_FINE : plan_no_memory(plan);
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
        plan->of[i] = (struct plan_layer){ i, TRACE_LAYERS_NONE, TRACE_LAYERS_NONE, TRACE_LAYERS_NONE };
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

        if (reserved->stack_count > 1 && !group->is_process)
            snprintf(group->name, sizeof(group->name), "%" PRId64 " %.20s, %s", first->layer_id, first->kind,
                     group->memory);
        else
            snprintf(group->name, sizeof(group->name), "%s", group->memory);
    }
}

static void
plan_free(struct plan *plan)
{
    if (plan != NULL) {
        id_map_free(&plan->by_bases);
        free(plan->of);
    }
    free(plan);
}

/* A new plan; NULL, after a message: no memory. */
static struct plan *
plan_new(struct reserved *reserved)
{
    const struct trace_layers *layers = &reserved->view->layers;
    struct plan *plan = calloc(1, sizeof(*plan));
    bool done = plan != NULL && (plan->of = calloc(layers->count + 1, sizeof(*plan->of))) != NULL;

    if (done) {
        plan->reserved = reserved;
        plan->layers = layers;
        plan_stacks(plan);
        done = plan_find_bases(plan);
    }
    for (size_t i = 0; i < reserved->group_count && done; i++)
        done = plan_note_group(plan, i);
    if (done)
        return plan;
    trace_broken(&reserved->view->trace, "no memory for its layers");
    plan_free(plan);
    return NULL;
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
