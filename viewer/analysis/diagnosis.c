/* The memory of one stack at the moment at which an allocation failed. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/diagnosis.h"

static int
diagnoser_no_memory(const struct diagnoser *diagnoser)
{
    return trace_broken(&diagnoser->view->trace, "no memory for its failures");
}

/* ---- what is live, and the samples ------------------------------------------------------------------------------ */

int
diagnoser_begin(struct view *view, struct routes *routes, struct diagnoser *out)
{
    *out = (struct diagnoser){ .view = view, .routes = routes };
    out->layers = calloc(view->layers.count + 1, sizeof(*out->layers));
    if (out->layers == NULL)
        return diagnoser_no_memory(out);
    return samples_read(&view->trace, &view->layers, &out->samples);
}

void
diagnoser_free(struct diagnoser *diagnoser)
{
    free(diagnoser->layers);
    samples_free(&diagnoser->samples);
    space_layers_free(&diagnoser->stack);
    space_free(&diagnoser->space);
    groups_end(&diagnoser->groups);
    *diagnoser = (struct diagnoser){ 0 };
}

void
diagnoser_restart(struct diagnoser *diagnoser)
{
    for (size_t i = 0; i < diagnoser->routes->layers->count; i++)
        diagnoser->layers[i] = (struct diagnosis_layer){ .sample = NULL };
    diagnoser->sample_next = 0;
    diagnoser->looked_events = 0;
    diagnoser->largest_count = diagnoser->hole_count = diagnoser->group_total = 0;
    diagnoser->held_bytes = 0;
}

void
diagnoser_change(struct diagnoser *diagnoser, const struct scan_life *life, bool is_free)
{
    size_t layer = routes_find(diagnoser->routes, life->layer_id);

    if (layer == ROUTES_NONE)
        return;
    diagnoser->layers[layer].live_bytes += is_free ? 0 - life->size : life->size;
    diagnoser->layers[layer].live_count += is_free ? 0 - scan_live_count(life) : scan_live_count(life);
}

static void
diagnoser_take_samples(struct diagnoser *diagnoser, int64_t ns)
{
    const struct samples *samples = &diagnoser->samples;

    for (; diagnoser->sample_next < samples->row_count && samples->rows[diagnoser->sample_next].ns <= ns;
         diagnoser->sample_next++) {
        const struct sample_row *row = &samples->rows[diagnoser->sample_next];

        /* In a broken file more may be in use than there is: that says nothing of what is free. */
        if (row->ns >= 0 && row->reserved_bytes >= row->used_bytes)
            diagnoser->layers[row->layer].sample = row;
    }
}

/* diagnosis_layer.vague_by: requests may have gone elsewhere, or several suballocators have chunks below. */
#define VAGUE_ELSEWHERE (SIZE_MAX - 1)

/* ---- what passes the bounds ------------------------------------------------------------------------------------- */

/* Whether what passes `layer` counts for the bound of `bound`. */
static bool
diagnoser_shares(const struct diagnoser *diagnoser, size_t bound, size_t layer)
{
    const struct routes_layer *list = diagnoser->routes->list;

    if (bound == layer)
        return true;
    if (list[bound].budget != NULL)
        return list[layer].budget != NULL && strcmp(list[bound].budget, list[layer].budget) == 0;
    return list[bound].is_device_bound && list[layer].kind != NULL && list[layer].upstream == ROUTES_NONE &&
           list[layer].device == list[bound].device;
}

/* The context of diagnoser_pass. */
struct diagnoser_passing {
    struct diagnoser *diagnoser;
    size_t bounds[TRACE_LAYERS_DEPTH]; /* the bounded layers on the way of the request */
    size_t count;
};

static void
diagnoser_pass_bound(struct diagnoser *diagnoser, size_t bound, const struct route *way, uint64_t size)
{
    const struct routes_layer *list = diagnoser->routes->list;
    struct diagnosis_layer *sum = &diagnoser->layers[bound];
    size_t vague = way->is_unsure ? VAGUE_ELSEWHERE : ROUTES_NONE;

    for (size_t i = 0; i < way->count; i++) {
        size_t layer = way->layers[i];

        if (diagnoser_shares(diagnoser, bound, layer)) {
            sum->passed_bytes += routes_round(size, list[bound].rounding);
            if (vague != ROUTES_NONE && sum->vague_by != vague)
                sum->vague_by = sum->vague_by == ROUTES_NONE ? vague : VAGUE_ELSEWHERE;
        }
        /* The chunks that this one has taken from below are not known. */
        if (list[layer].is_suballocator && !list[layer].is_recorded)
            vague = vague == ROUTES_NONE ? layer : VAGUE_ELSEWHERE;
    }
}

/* A live row counts for the bounds that it passes on its way to the next recorded layer. */
static void
diagnoser_pass(void *context, const struct scan_life *life)
{
    struct diagnoser_passing *passing = context;
    struct routes *routes = passing->diagnoser->routes;
    size_t layer = routes_find(routes, life->layer_id);
    struct route way;

    if (layer == ROUTES_NONE || life->status != 0 || life->size == 0)
        return;
    routes_follow(routes, layer, life->size, false, &way);
    for (size_t i = 0; i < passing->count; i++)
        diagnoser_pass_bound(passing->diagnoser, passing->bounds[i], &way, life->size);
}

static void
diagnoser_pass_all(struct diagnoser *diagnoser, const struct scan *scan)
{
    struct diagnoser_passing passing = { .diagnoser = diagnoser };

    for (size_t i = 0; i < diagnoser->way.count; i++) {
        size_t layer = diagnoser->way.layers[i];

        diagnoser->layers[layer].passed_bytes = 0;
        /* What other processes have of a shared bound is in no trace of this one. */
        diagnoser->layers[layer].vague_by = diagnoser->routes->list[layer].is_shared ? VAGUE_ELSEWHERE : ROUTES_NONE;
        if (diagnoser->routes->list[layer].bound_bytes != ROUTES_UNBOUNDED)
            passing.bounds[passing.count++] = layer;
    }
    if (passing.count > 0)
        scan_each_live(scan, diagnoser_pass, &passing);
}

/* What the bases of a device have reserved, by their last samples; they may be old. */
static uint64_t
diagnoser_on_device(const struct diagnoser *diagnoser, size_t bound)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < diagnoser->routes->layers->count; i++) {
        const struct sample_row *sample = diagnoser->layers[i].sample;

        if (sample != NULL && diagnoser_shares(diagnoser, bound, i) && sum <= UINT64_MAX - sample->reserved_bytes)
            sum += sample->reserved_bytes;
    }
    return sum;
}

/* What is in use of a bound, as its layer counts. false: not known. */
static bool
diagnoser_in_use(const struct diagnoser *diagnoser, const struct diagnosis *at, size_t bound, uint64_t *out)
{
    const struct routes_layer *route = &diagnoser->routes->list[bound];
    const struct diagnosis_layer *layer = &diagnoser->layers[bound];
    bool vague = layer->vague_by != ROUTES_NONE || route->is_suballocator;
    bool sampled = layer->sample != NULL;

    if (bound == at->suballocator && at->source == DIAGNOSIS_CHUNKS) {
        *out = at->reserved_bytes;
        return true;
    }
    *out = vague ? 0 : layer->passed_bytes;
    if (route->is_device_bound) {
        uint64_t reserved = diagnoser_on_device(diagnoser, bound);

        *out = *out > reserved ? *out : reserved;
        return true;
    }
    /* A driver's pool has more than its requests; other bases have just these, and a sample may be old. */
    if (sampled && !vague && strcmp(route->kind->name, "driver") == 0 && layer->sample->reserved_bytes > *out)
        *out = layer->sample->reserved_bytes;
    return !vague;
}

/* ---- chunks and holes ------------------------------------------------------------------------------------------- */

/* A base that has a pool of its own, whose figures say what is free in it. */
static bool
diagnoser_pools(const struct diagnoser *diagnoser, size_t layer)
{
    return strcmp(diagnoser->routes->layers->layers[layer].kind, "driver") == 0;
}

/* The first suballocator on the way down to the layer that refused; a driver's pool that has refused is one, too. */
static size_t
diagnoser_suballocator(const struct diagnoser *diagnoser, size_t refuser)
{
    for (size_t i = 0; i < diagnoser->way.count; i++) {
        size_t layer = diagnoser->way.layers[i];

        if (diagnoser->routes->list[layer].is_suballocator)
            return layer;
        if (layer == refuser)
            return diagnoser_pools(diagnoser, layer) ? layer : ROUTES_NONE;
    }
    return ROUTES_NONE;
}

/* The context of diagnoser_add_lower. */
struct diagnoser_lower {
    struct diagnoser *diagnoser;
    int status;
};

static void
diagnoser_add_lower(void *context, size_t layer)
{
    struct diagnoser_lower *lower = context;

    if (lower->status == COMMAND_FINE && lower->diagnoser->routes->list[layer].is_recorded)
        lower->status =
            filter_set_add(&lower->diagnoser->stack.lower, lower->diagnoser->routes->layers->layers[layer].layer_id);
}

/* Blocks of other topmost logs lie in the same chunks where pools share a log below, or logs a pool. */
static int
diagnoser_add_others(struct diagnoser *diagnoser, size_t layer)
{
    const struct trace_layers *layers = diagnoser->routes->layers;
    struct space_layers *stack = &diagnoser->stack;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < layers->count && stack->lower.active; i++) {
        bool reaches = false;

        if (i == layer || !diagnoser->routes->list[i].is_log || !diagnoser->routes->list[i].is_top)
            continue;
        TRACE_LAYER_SETS_EACH(j, &layers->below, i)
        {
            reaches = i != j && filter_set_has(&stack->lower, layers->layers[j].layer_id);
            if (reaches)
                break;
        }
        if (reaches && status == COMMAND_FINE)
            status = filter_set_add(&stack->others, layers->layers[i].layer_id);
    }
    return status;
}

/* Of which layers the blocks and the chunks are. */
static int
diagnoser_set_stack(struct diagnoser *diagnoser, size_t layer, size_t suballocator)
{
    const struct trace_layer *layers = diagnoser->routes->layers->layers;
    struct diagnoser_lower lower = { diagnoser, COMMAND_FINE };

    space_layers_free(&diagnoser->stack);
    diagnoser->stack = (struct space_layers){ .page_bytes = SPACE_PAGE };
    lower.status = filter_set_add(&diagnoser->stack.upper, layers[layer].layer_id);
    if (lower.status != COMMAND_FINE || suballocator == ROUTES_NONE)
        return lower.status;
    if (diagnoser->routes->list[suballocator].is_recorded)
        diagnoser_add_lower(&lower, suballocator);
    else
        routes_each_near(diagnoser->routes, suballocator, diagnoser_add_lower, &lower);
    return lower.status == COMMAND_FINE ? diagnoser_add_others(diagnoser, layer) : lower.status;
}

/* Whether the suballocator handed out a block. */
static bool
diagnoser_serves(const struct diagnoser *diagnoser, size_t suballocator, const struct space_block *block)
{
    struct route way;

    routes_follow(diagnoser->routes, routes_find(diagnoser->routes, block->layer_id), block->size, true, &way);
    for (size_t i = 0; i < way.count; i++) {
        if (way.layers[i] == suballocator)
            return true;
    }
    return false;
}

/* Where pools share a log below: whether a chunk has only blocks of other pools. It is of this one, else. */
static bool
diagnoser_is_foreign(const struct diagnoser *diagnoser, size_t suballocator, const struct space_chunk *chunk)
{
    const struct space *space = &diagnoser->space;

    if ((!diagnoser->routes->layers->has_bins && !diagnoser->stack.others.active) || chunk->block_count == 0)
        return false;
    for (size_t i = 0; i < chunk->block_count; i++) {
        if (diagnoser_serves(diagnoser, suballocator, &space->blocks[chunk->first_block + i]))
            return false;
    }
    return true;
}

/* Leave only the chunks of the pool, and sum them up. */
static void
diagnoser_take_chunks(struct diagnoser *diagnoser, size_t suballocator)
{
    struct space *space = &diagnoser->space;
    size_t kept = 0;

    space->reserved_bytes = space->inside_bytes = space->largest_hole = space->holes = 0;
    for (size_t i = 0; i < space->chunk_count; i++) {
        struct space_chunk *chunk = &space->chunks[i];

        if (diagnoser_is_foreign(diagnoser, suballocator, chunk))
            continue;
        space->reserved_bytes += chunk->size;
        space->inside_bytes += chunk->used_bytes;
        space->holes += chunk->holes;
        if (chunk->largest_hole > space->largest_hole)
            space->largest_hole = chunk->largest_hole;
        space->chunks[kept++] = *chunk;
    }
    space->chunk_count = kept;
    space->free_bytes = space->reserved_bytes - space->inside_bytes;
}

/* Find out what is live now. A refused program often retries at once: without events in between, nothing changes. */
static int
diagnoser_update(struct diagnoser *diagnoser, const struct scan *scan, const struct diagnosis_question *question,
                 size_t suballocator)
{
    int status;

    if (diagnoser->looked_events == scan_events(scan) + 1 && diagnoser->looked_layer == question->layer &&
        diagnoser->looked_suballocator == suballocator && diagnoser->looked_refuser == question->refuser)
        return COMMAND_FINE;
    status = diagnoser_set_stack(diagnoser, question->layer, suballocator);
    if (status != COMMAND_FINE)
        return status;
    if (diagnoser->stack.lower.active) {
        space_look(&diagnoser->space, &diagnoser->stack, scan, NULL);
        if (diagnoser->space.failed)
            return diagnoser_no_memory(diagnoser);
        diagnoser_take_chunks(diagnoser, suballocator);
    }
    diagnoser_pass_all(diagnoser, scan);
    diagnoser->looked_events = scan_events(scan) + 1;
    diagnoser->looked_layer = question->layer;
    diagnoser->looked_suballocator = suballocator;
    diagnoser->looked_refuser = question->refuser;
    return COMMAND_FINE;
}

/* Without chunks: the last sample of the pool, or of the base below it where that is a pool. ROUTES_NONE: none. */
static size_t
diagnoser_sampled(const struct diagnoser *diagnoser, size_t refuser, const struct diagnosis *at)
{
    size_t sampled = ROUTES_NONE;

    for (size_t i = diagnoser->way.count; i-- > 0;) {
        size_t layer = diagnoser->way.layers[i];
        bool is_base = i + 1 == diagnoser->way.count &&
                       (at->suballocator != ROUTES_NONE || refuser == ROUTES_NONE || refuser == layer);

        if (diagnoser->layers[layer].sample != NULL &&
            (layer == at->suballocator || (is_base && diagnoser_pools(diagnoser, layer))))
            sampled = layer;
    }
    return sampled;
}

/* What is free by that sample. What is live is known better than by a sample, which may be old. */
static void
diagnoser_take_sample(const struct diagnoser *diagnoser, size_t refuser, struct diagnosis *at)
{
    size_t sampled = diagnoser_sampled(diagnoser, refuser, at);
    const struct diagnosis_layer *layer;
    uint64_t used;

    if (sampled == ROUTES_NONE)
        return;
    layer = &diagnoser->layers[sampled];
    used = layer->sample->used_bytes;
    if (diagnoser->routes->list[sampled].bound_bytes != ROUTES_UNBOUNDED &&
        (layer->vague_by == ROUTES_NONE || layer->vague_by == at->suballocator))
        used = layer->passed_bytes;
    at->source = DIAGNOSIS_SAMPLE;
    at->sample_ns = layer->sample->ns;
    at->reserved_bytes = layer->sample->reserved_bytes > used ? layer->sample->reserved_bytes : used;
    at->free_bytes = at->reserved_bytes - used;
}

/* ---- the verdict ------------------------------------------------------------------------------------------------ */

bool
diagnosis_plain_cause(const struct routes *routes, int64_t status, size_t refuser, enum failure_cause *cause)
{
    if (refuser != ROUTES_NONE && strcmp(routes->layers->layers[refuser].kind, "fault") == 0) {
        *cause = FAILURE_PLANTED;
        return true;
    }
    switch (status) {
    case TIDE_EINVAL:
    case TIDE_EOVERFLOW:
    case TIDE_EUNSUPPORTED:
        *cause = FAILURE_REQUEST;
        return true;
    case TIDE_ELIMIT:
        *cause = FAILURE_LIMIT;
        /* A limit below a pool may refuse a chunk while the pool has enough in holes. */
        return refuser == ROUTES_NONE || !routes->list[refuser].is_chunked;
    case TIDE_ECAPACITY:
    case TIDE_EDRIVER:
        return false;
    default:
        *cause = FAILURE_OTHER;
        return true;
    }
}

/* What may still be reserved: the least that any bound on the way has left. */
static void
diagnoser_find_left(const struct diagnoser *diagnoser, const struct diagnosis_question *question, struct diagnosis *at)
{
    const struct routes_layer *list = diagnoser->routes->list;
    bool below = at->suballocator == ROUTES_NONE;

    /* What a device has left is not known: others use it as well. Nor is what a driver's pool has reserved then. */
    if (question->refuser == ROUTES_NONE || list[question->refuser].bound_bytes == ROUTES_UNBOUNDED ||
        diagnoser_pools(diagnoser, question->refuser) || list[question->refuser].is_device_bound)
        return;
    for (size_t i = 0; i < diagnoser->way.count; i++) {
        size_t layer = diagnoser->way.layers[i];
        uint64_t bytes, in_use;

        below = below || layer == at->suballocator;
        if (!below || list[layer].bound_bytes == ROUTES_UNBOUNDED || !diagnoser_in_use(diagnoser, at, layer, &in_use))
            continue;
        bytes = list[layer].bound_bytes > in_use ? list[layer].bound_bytes - in_use : 0;
        if (!at->has_left || bytes < at->left_bytes)
            at->left_bytes = bytes;
        at->has_left = true;
    }
}

/* The first bound below the layer that refused that would have refused it next. */
static void
diagnoser_find_also(const struct diagnoser *diagnoser, const struct diagnosis_question *question, uint64_t needed,
                    struct diagnosis *at)
{
    const struct routes_layer *list = diagnoser->routes->list;
    bool below = false;

    for (size_t i = 0; i < diagnoser->way.count && at->also == ROUTES_NONE; i++) {
        size_t layer = diagnoser->way.layers[i];
        uint64_t in_use, more = routes_round(needed, list[layer].rounding);

        if (below && list[layer].bound_bytes != ROUTES_UNBOUNDED && !list[layer].is_device_bound &&
            diagnoser_in_use(diagnoser, at, layer, &in_use) && more < (uint64_t)INT64_MAX &&
            in_use + more > list[layer].bound_bytes) {
            at->also = layer;
            at->also_bytes = in_use + more;
        }
        below = below || layer == question->refuser;
    }
}

/* The least bound of the layer that refused that would have let the request pass. */
static void
diagnoser_find_sufficient(const struct diagnoser *diagnoser, const struct diagnosis_question *question,
                          struct diagnosis *at)
{
    const struct routes_layer *route = &diagnoser->routes->list[question->refuser];
    uint64_t chunk, needed, sum;

    if (at->has_room && at->source != DIAGNOSIS_CHUNKS && at->suballocator != ROUTES_NONE &&
        route->bound_bytes != ROUTES_UNBOUNDED && at->room_bytes < route->bound_bytes)
        at->whole_bytes = route->bound_bytes - at->room_bytes + at->wanted_bytes;
    at->has_in_use = route->kind != NULL && diagnoser_in_use(diagnoser, at, question->refuser, &at->in_use_bytes);
    if (!at->has_in_use)
        return;
    chunk = at->suballocator != ROUTES_NONE && question->asked_bytes == question->life->size ? at->wanted_bytes
                                                                                             : question->asked_bytes;
    needed = routes_round(question->refuser == at->suballocator ? question->life->size : chunk, route->rounding);
    sum = at->in_use_bytes > UINT64_MAX - needed ? UINT64_MAX : at->in_use_bytes + needed;
    if (route->bound_bytes != ROUTES_UNBOUNDED && sum > route->bound_bytes && sum < (uint64_t)INT64_MAX) {
        at->sufficient_bytes = sum;
        if (at->suballocator != ROUTES_NONE && at->source == DIAGNOSIS_CHUNKS && at->in_use_bytes >= at->free_bytes)
            at->whole_bytes = sum - at->free_bytes;
        diagnoser_find_also(diagnoser, question, needed, at);
    } else if (route->bound_count != ROUTES_UNBOUNDED && question->life->status == TIDE_ELIMIT) {
        at->sufficient_count = route->bound_count + 1;
    }
}

/*
 * What is free in the pool and may still be reserved, together. Of one bound that is the bound without what the
 * requests use, whatever the chunks are; so it is known even where nothing records the chunks.
 */
static void
diagnoser_find_room(const struct diagnoser *diagnoser, const struct diagnosis_question *question, struct diagnosis *at)
{
    const struct routes_layer *list = diagnoser->routes->list;
    size_t refuser = question->refuser;
    const struct diagnosis_layer *layer = refuser != ROUTES_NONE ? &diagnoser->layers[refuser] : NULL;

    if (at->source == DIAGNOSIS_CHUNKS || at->has_left || refuser == ROUTES_NONE || at->suballocator == ROUTES_NONE ||
        list[refuser].bound_bytes == ROUTES_UNBOUNDED || list[refuser].is_device_bound ||
        (layer->vague_by != ROUTES_NONE && layer->vague_by != at->suballocator)) {
        at->has_room = at->source != DIAGNOSIS_NONE || at->has_left;
        at->room_bytes = at->free_bytes + (at->has_left ? at->left_bytes : 0);
        return;
    }
    at->has_room = true;
    at->room_bytes =
        list[refuser].bound_bytes > layer->passed_bytes ? list[refuser].bound_bytes - layer->passed_bytes : 0;
}

static enum failure_cause
diagnoser_judge(const struct diagnoser *diagnoser, const struct diagnosis_question *question,
                const struct diagnosis *at)
{
    const struct routes_layer *list = diagnoser->routes->list;
    size_t refuser = question->refuser;
    enum failure_cause full = question->life->status == TIDE_ELIMIT ? FAILURE_LIMIT : FAILURE_CAPACITY;
    uint64_t left = at->has_left ? at->left_bytes : 0;
    enum failure_cause cause;

    if (diagnosis_plain_cause(diagnoser->routes, question->life->status, refuser, &cause))
        return cause;
    /* A driver's pool with a maximum is full as a pool is, and not as a device is. */
    if (refuser != ROUTES_NONE && list[refuser].upstream == ROUTES_NONE &&
        !(diagnoser_pools(diagnoser, refuser) && !list[refuser].is_device_bound &&
          list[refuser].bound_bytes != ROUTES_UNBOUNDED))
        full = FAILURE_DEVICE;
    /* What lies free in the chunks of `monotonic` is used only after a reset. */
    if (at->suballocator != ROUTES_NONE &&
        strcmp(diagnoser->routes->layers->layers[at->suballocator].kind, "monotonic") == 0)
        return full;
    if (left >= at->wanted_bytes || !at->has_room || at->room_bytes < at->wanted_bytes)
        return full;
    return at->source == DIAGNOSIS_CHUNKS && at->largest_hole >= at->wanted_bytes ? FAILURE_UNUSED
                                                                                  : FAILURE_FRAGMENTATION;
}

int
diagnoser_look(struct diagnoser *diagnoser, const struct scan *scan, const struct diagnosis_question *question,
               struct diagnosis *out, enum failure_cause *cause)
{
    const struct routes *routes = diagnoser->routes;
    int status;

    diagnoser_take_samples(diagnoser, question->life->alloc_ns);
    routes_follow(routes, question->layer, question->life->size, true, &diagnoser->way);
    *out = (struct diagnosis){
        .suballocator = diagnoser_suballocator(diagnoser, question->refuser),
        .also = ROUTES_NONE,
        .live_bytes = diagnoser->layers[question->layer].live_bytes,
        .live_count = diagnoser->layers[question->layer].live_count,
        .wanted_bytes = space_rounded(question->life),
    };
    if (out->suballocator != ROUTES_NONE)
        out->wanted_bytes = routes_round(out->wanted_bytes, routes->list[out->suballocator].rounding);
    status = diagnoser_update(diagnoser, scan, question, out->suballocator);
    if (status != COMMAND_FINE)
        return status;
    if (diagnoser->stack.lower.active) {
        out->source = DIAGNOSIS_CHUNKS;
        out->reserved_bytes = diagnoser->space.reserved_bytes;
        out->free_bytes = diagnoser->space.free_bytes;
        out->largest_hole = diagnoser->space.largest_hole;
    } else {
        diagnoser_take_sample(diagnoser, question->refuser, out);
    }
    diagnoser_find_left(diagnoser, question, out);
    diagnoser_find_room(diagnoser, question, out);
    *cause = diagnoser_judge(diagnoser, question, out);
    if (question->refuser != ROUTES_NONE)
        diagnoser_find_sufficient(diagnoser, question, out);
    return COMMAND_FINE;
}

const struct space_chunk *
diagnoser_pinned(const struct diagnoser *diagnoser, uint64_t wanted)
{
    const struct space *space = &diagnoser->space;
    const struct space_chunk *best = NULL;

    for (size_t i = 0; i < space->chunk_count; i++) {
        const struct space_chunk *chunk = &space->chunks[i];

        if (chunk->block_count > 0 && chunk->size >= wanted && (best == NULL || chunk->used_bytes < best->used_bytes))
            best = chunk;
    }
    return best;
}

/* ---- who held it, and what holds the holes apart ---------------------------------------------------------------- */

/* Put a group among the largest. Groups of the same bytes are in the order of their first block. */
static void
diagnoser_rank(struct diagnoser *diagnoser, const struct diagnosis_group *group)
{
    size_t place = diagnoser->largest_count;

    while (place > 0 && diagnoser->largest[place - 1].bytes < group->bytes)
        place--;
    if (place == DIAGNOSIS_GROUPS)
        return;
    if (diagnoser->largest_count < DIAGNOSIS_GROUPS)
        diagnoser->largest_count++;
    memmove(&diagnoser->largest[place + 1], &diagnoser->largest[place],
            (diagnoser->largest_count - 1 - place) * sizeof(*group));
    diagnoser->largest[place] = *group;
}

/* The context of diagnoser_hold. */
struct diagnoser_holding {
    struct diagnoser *diagnoser;
    int64_t layer_id;
    struct diagnosis_group *list; /* owns; by group number */
    size_t capacity;
    bool failed;
};

static void
diagnoser_hold(void *context, const struct scan_life *life)
{
    struct diagnoser_holding *holding = context;
    uint32_t group;

    if (holding->failed || life->layer_id != holding->layer_id || life->status != 0 || life->size == 0)
        return;
    group = groups_of(&holding->diagnoser->groups, life);
    if (!groups_reach(&holding->list, &holding->capacity, group)) {
        holding->failed = true;
        return;
    }
    holding->list[group].group = group;
    holding->list[group].bytes += life->size;
    holding->list[group].count++;
    holding->diagnoser->held_bytes += life->size;
}

/* Put a hole among the largest. */
static void
diagnoser_add_hole(struct diagnoser *diagnoser, const struct diagnosis_hole *hole)
{
    size_t place = diagnoser->hole_count;

    while (place > 0 && diagnoser->holes[place - 1].bytes < hole->bytes)
        place--;
    if (place == DIAGNOSIS_HOLES)
        return;
    if (diagnoser->hole_count < DIAGNOSIS_HOLES)
        diagnoser->hole_count++;
    memmove(&diagnoser->holes[place + 1], &diagnoser->holes[place],
            (diagnoser->hole_count - 1 - place) * sizeof(*hole));
    diagnoser->holes[place] = *hole;
}

static void
diagnoser_find_holes(struct diagnoser *diagnoser, const struct space_chunk *chunk)
{
    /* Where no chunk has a block there is no array, to whose address nothing may be added. */
    const struct space_block *blocks = chunk->block_count > 0 ? diagnoser->space.blocks + chunk->first_block : NULL;
    uint64_t end = chunk->address + chunk->size;
    uint64_t at = chunk->address;
    struct diagnosis_hole hole = { .chunk_bytes = chunk->size };

    for (size_t i = 0; i <= chunk->block_count; i++) {
        uint64_t next = i < chunk->block_count ? blocks[i].address : end;

        hole.behind = i < chunk->block_count ? blocks[i] : (struct space_block){ 0 };
        hole.address = at;
        hole.bytes = next > at ? next - at : 0;
        if (hole.bytes > 0)
            diagnoser_add_hole(diagnoser, &hole);
        if (i < chunk->block_count) {
            uint64_t stop = blocks[i].address + blocks[i].rounded;

            at = stop > at && stop <= end ? stop : stop > at ? end : at;
            hole.before = blocks[i];
        }
    }
}

int
diagnoser_explain(struct diagnoser *diagnoser, const struct scan *scan, const struct diagnosis_question *question)
{
    struct diagnoser_holding holding = { .diagnoser = diagnoser, .layer_id = question->life->layer_id };

    groups_end(&diagnoser->groups);
    groups_begin(&diagnoser->groups, groups_default(&diagnoser->view->names), &diagnoser->view->names);
    diagnoser->largest_count = diagnoser->hole_count = 0;
    diagnoser->held_bytes = 0;
    scan_each_live(scan, diagnoser_hold, &holding);
    for (size_t i = 0; i < diagnoser->groups.count && !holding.failed; i++)
        diagnoser_rank(diagnoser, &holding.list[i]);
    diagnoser->group_total = diagnoser->groups.count;
    free(holding.list);
    for (size_t i = 0; i < diagnoser->space.chunk_count && diagnoser->stack.lower.active; i++)
        diagnoser_find_holes(diagnoser, &diagnoser->space.chunks[i]);
    return holding.failed ? diagnoser_no_memory(diagnoser) : COMMAND_FINE;
}
