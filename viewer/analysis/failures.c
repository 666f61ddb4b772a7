/* Explains failed allocations. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/failures.h"

/* A refusal whose text begins with the kind of a layer, where the trace does not name the layer itself. */
#define REFUSAL_OF_KIND (UINT32_C(1) << 31)

/* The most failed calls of one thread that wait for the call around them. */
#define PENDING_MAX 4096

/* Both ends of a call are rounded to nanoseconds. */
#define PENDING_SLACK_NS 2

/* A failed call below a log; the call around it, which ends later, tells what became of it. */
struct failures_pending {
    struct scan_life life;
    size_t layer;
    size_t refuser;
    size_t place; /* in failures.list; SIZE_MAX: not there */
    bool selected;
    bool refuser_is_sure;
    bool has_cause; /* the next is valid, of one that is not in failures.list */
    enum failure_cause cause;
    uint64_t asked_bytes;
};

struct failures_thread {
    struct failures_pending *list; /* owns */
    size_t count;
    size_t capacity;
};

const char *
failures_word(enum failure_cause cause)
{
    static const char *const words[FAILURE_CAUSES] = {
        "limit", "capacity", "device full", "fragmentation", "unused hole", "planted", "request", "other",
    };

    return words[cause];
}

static int
failures_no_memory(const struct failures *failures)
{
    return trace_broken(&failures->view->trace, "no memory for its failures");
}

/* ---- who refused ------------------------------------------------------------------------------------------------ */

/* Leave out what layers put before the words of the one that refused: "retry: ", "fallback: ...; then ". */
static const char *
failures_innermost(const char *words)
{
    static const char retry[] = "retry: ", fallback[] = "fallback: ", then[] = "; then ";
    const char *next;

    while (words != NULL) {
        if (strncmp(words, retry, sizeof(retry) - 1) == 0)
            words += sizeof(retry) - 1;
        else if (strncmp(words, fallback, sizeof(fallback) - 1) == 0 && (next = strstr(words, then)) != NULL)
            words = next + sizeof(then) - 1;
        else
            break;
    }
    return words;
}

/* The layer whose kind begins the words "limit: ..."; ROUTES_NONE: none. */
static size_t
failures_kind_of(const struct failures *failures, const char *words)
{
    const struct trace_layers *layers = &failures->view->layers;
    size_t length = words != NULL ? strcspn(words, ":") : 0;

    for (size_t i = 0; i < layers->count && length > 0 && words[length] == ':'; i++) {
        if (strlen(layers->layers[i].kind) == length && strncmp(layers->layers[i].kind, words, length) == 0)
            return i;
    }
    return ROUTES_NONE;
}

static int
failures_read_refusal(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct failures *failures = context;
    int64_t id = sqlite3_column_int64(row, 0);
    size_t layer = routes_find(&failures->routes, sqlite3_column_int64(row, 1)); /* NULL: 0, which is no layer */
    uint32_t number = (uint32_t)layer;

    /* What is no number, as in a damaged trace, comes as 0 behind all numbers. */
    if (failures->refusal_count > 0 && id <= failures->refusals[failures->refusal_count - 1].allocation_id)
        return COMMAND_FINE;
    if (layer == ROUTES_NONE) {
        layer = failures_kind_of(failures, failures_innermost((const char *)sqlite3_column_text(row, 2)));
        number = (uint32_t)layer | REFUSAL_OF_KIND;
    }
    if (layer == ROUTES_NONE)
        return COMMAND_FINE;
    if (!tidei_grow(&failures->refusals, &failures->refusal_capacity, failures->refusal_count, 1))
        return trace_broken(trace, "no memory");
    failures->refusals[failures->refusal_count++] = (struct failures_refusal){ id, number };
    return COMMAND_FINE;
}

static int
failures_compare_refusals(const void *left, const void *right)
{
    int64_t a = ((const struct failures_refusal *)left)->allocation_id;
    int64_t b = ((const struct failures_refusal *)right)->allocation_id;

    return (a > b) - (a < b);
}

/* The refusal of an allocation; NULL: the trace has none. */
static const struct failures_refusal *
failures_refusal(struct failures *failures, int64_t allocation_id)
{
    const struct failures_refusal wanted = { .allocation_id = allocation_id };
    const struct failures_refusal *list = failures->refusals, *found = NULL;

    if (failures->refusal_next < failures->refusal_count && list[failures->refusal_next].allocation_id == allocation_id)
        found = &list[failures->refusal_next];
    else if (failures->refusal_count > 0)
        found = bsearch(&wanted, list, failures->refusal_count, sizeof(*list), failures_compare_refusals);
    if (found != NULL)
        failures->refusal_next = (size_t)(found - list) + 1;
    return found;
}

/* What failures_infer looks for, and the best that it has found. */
struct failures_search {
    const struct failures *failures;
    int64_t status;
    const char *kind; /* NULL: any that may return the status */
    size_t best;
    int best_score;
    unsigned candidates;
};

/* How likely a layer has refused, from what layers of its kind return; 0: not at all. */
static int
failures_score(const struct failures_search *search, size_t layer)
{
    const struct routes_layer *route = &search->failures->routes.list[layer];
    const char *kind = search->failures->view->layers.layers[layer].kind;
    bool bounded = route->bound_bytes != ROUTES_UNBOUNDED;

    if (search->kind != NULL)
        return strcmp(kind, search->kind) == 0 ? 1 : 0;
    if (search->status == TIDE_ELIMIT)
        return strcmp(kind, "limit") == 0 ? 5 : strcmp(kind, "fault") == 0 ? 2 : 0;
    if (search->status != TIDE_ECAPACITY && search->status != TIDE_EDRIVER)
        return 0;
    if (route->is_suballocator)
        return bounded ? 5 : 1;
    if (strcmp(kind, "fault") == 0)
        return 2;
    if (route->upstream != ROUTES_NONE || route->is_log)
        return 0;
    return bounded ? 4 : strcmp(kind, "sim") == 0 || strcmp(kind, "host") == 0 ? 1 : 3;
}

static void
failures_consider(void *context, size_t layer)
{
    struct failures_search *search = context;
    const struct routes_layer *list = search->failures->routes.list;
    int score = failures_score(search, layer);

    search->candidates += score > 0;
    if (score == 0 || score < search->best_score)
        return;
    if (score == search->best_score && list[layer].bound_bytes >= list[search->best].bound_bytes)
        return;
    search->best = layer;
    search->best_score = score;
}

/* Who refused a request that no recorded layer below saw fail: a layer above the next recorded ones. */
static size_t
failures_infer(const struct failures *failures, size_t from, const struct scan_life *life, const char *kind, bool *sure)
{
    struct failures_search search = { failures, life->status, kind, ROUTES_NONE, 0, 0 };
    struct route way;

    routes_follow(&failures->routes, from, life->size, false, &way);
    if (way.is_unsure)
        routes_each_near(&failures->routes, from, failures_consider, &search);
    for (size_t i = 0; i < way.count && !way.is_unsure; i++)
        failures_consider(&search, way.layers[i]);
    *sure = search.candidates == 1;
    return search.best;
}

/* The layer that refused a failed row; `inner`: the failed call within it, or NULL. */
static size_t
failures_refuser(struct failures *failures, const struct scan_life *life, size_t layer,
                 const struct failures_pending *inner, bool *sure)
{
    const struct failures_refusal *found = failures_refusal(failures, life->allocation_id);

    *sure = found != NULL && (found->layer & REFUSAL_OF_KIND) == 0;
    if (*sure)
        return found->layer;
    if (inner != NULL) {
        *sure = inner->refuser_is_sure;
        return inner->refuser;
    }
    if (found != NULL)
        return failures_infer(failures, layer, life,
                              failures->view->layers.layers[found->layer & ~REFUSAL_OF_KIND].kind, sure);
    return failures_infer(failures, layer, life, NULL, sure);
}

/* ---- what became of it ------------------------------------------------------------------------------------------ */

static struct failures_thread *
failures_thread(struct failures *failures, int64_t thread_id)
{
    const uint32_t *found = id_map_find(&failures->thread_by_id, (uint64_t)thread_id);

    if (found != NULL)
        return &failures->threads[*found];
    if (!tidei_grow(&failures->threads, &failures->thread_capacity, failures->thread_count, 1) ||
        !id_map_add(&failures->thread_by_id, (uint64_t)thread_id, (uint32_t)failures->thread_count))
        return NULL;
    failures->threads[failures->thread_count] = (struct failures_thread){ 0 };
    return &failures->threads[failures->thread_count++];
}

static struct failure_group *
failures_group(struct failures *failures, const struct scan_life *life, size_t layer, size_t refuser, size_t good)
{
    struct failure_group *group;

    for (size_t i = 0; i < failures->group_count; i++) {
        group = &failures->groups[i];
        if (group->layer == layer && group->refuser == refuser && group->made_good_by == good)
            return group;
    }
    if (failures->group_count == FAILURES_GROUPS)
        return &failures->groups[FAILURES_GROUPS - 1];
    group = &failures->groups[failures->group_count++];
    *group = (struct failure_group){ .layer = layer,
                                     .refuser = refuser,
                                     .made_good_by = good,
                                     .first_ns = life->alloc_ns,
                                     .first_id = life->allocation_id };
    return group;
}

static uint64_t
failures_sum(uint64_t sum, uint64_t bytes)
{
    return sum > UINT64_MAX - bytes ? UINT64_MAX : sum + bytes;
}

/* Count a failure whose fate is known. */
static void
failures_count(struct failures *failures, const struct failures_pending *failed, size_t good)
{
    struct failure_group *group = failures_group(failures, &failed->life, failed->layer, failed->refuser, good);

    group->count++;
    group->bytes = failures_sum(group->bytes, failed->life.size);
    if (failed->life.alloc_ns < group->first_ns) {
        group->first_ns = failed->life.alloc_ns;
        group->first_id = failed->life.allocation_id;
    }
    if (failed->place != SIZE_MAX) {
        failures->list[failed->place].made_good_by = good;
        failures->list[failed->place].group = (size_t)(group - failures->groups);
    } else if (failed->has_cause) {
        group->by_cause[failed->cause]++;
        failures->by_cause[failed->cause] += good == ROUTES_NONE;
    } else {
        group->unexplained++;
        failures->unexplained += good == ROUTES_NONE;
    }
    if (good != ROUTES_NONE) {
        failures->made_good++;
        return;
    }
    failures->total++;
    failures->bytes = failures_sum(failures->bytes, failed->life.size);
}

/* The layer that made a failure good: the lowest `retry` or `fallback` between the two, else a suballocator. */
static size_t
failures_helper(const struct failures *failures, size_t above, size_t below)
{
    const struct trace_layers *layers = &failures->view->layers;
    size_t best = above;
    int best_rank = 0;

    TRACE_LAYER_SETS_EACH(i, &layers->below, above)
    {
        const char *kind = layers->layers[i].kind;
        int rank = strcmp(kind, "retry") == 0 || strcmp(kind, "fallback") == 0 ? 2
                   : failures->routes.list[i].is_suballocator                  ? 1
                                                                               : 0;

        if (rank == 0 || rank < best_rank || (i != below && !routes_is_below(&failures->routes, i, below)) ||
            !routes_is_below(&failures->routes, above, i))
            continue;
        best = i;
        best_rank = rank;
    }
    return best;
}

/*
 * A call of a log has ended: decide on the failed calls within it. Where it succeeded, they were made good; where it
 * failed, the last of them is why, and it is put into *inner.
 */
static void
failures_settle(struct failures *failures, struct failures_thread *thread, const struct scan_life *life, size_t layer,
                struct failures_pending *inner, bool *has_inner)
{
    int64_t begin = life->alloc_ns - life->alloc_duration_ns - PENDING_SLACK_NS;
    bool is_top = failures->routes.list[layer].is_top;
    size_t kept = 0;

    for (size_t i = 0; i < thread->count; i++) {
        struct failures_pending *failed = &thread->list[i];
        bool below = routes_is_below(&failures->routes, layer, failed->layer);
        bool within = below && failed->life.alloc_ns >= begin;

        if (within && life->status == 0) {
            failures_count(failures, failed, failures_helper(failures, layer, failed->layer));
        } else if (within) {
            *inner = *failed;
            *has_inner = true;
            if (failed->selected)
                failures_count(failures, failed, ROUTES_NONE);
        } else if (below && is_top) {
            if (failed->selected)
                failures_count(failures, failed, ROUTES_NONE);
        } else {
            thread->list[kept++] = *failed;
        }
    }
    thread->count = kept;
}

/* Keep a failed call until the one around it ends. */
static bool
failures_wait(struct failures *failures, struct failures_thread *thread, const struct failures_pending *failed)
{
    if (thread->count == PENDING_MAX) {
        if (thread->list[0].selected)
            failures_count(failures, &thread->list[0], ROUTES_NONE);
        memmove(thread->list, thread->list + 1, --thread->count * sizeof(*thread->list));
    }
    if (!tidei_grow(&thread->list, &thread->capacity, thread->count, 1))
        return false;
    thread->list[thread->count++] = *failed;
    return true;
}

static int
failures_failed(struct failures *failures, struct failures_thread *thread, const struct scan_life *life, size_t layer,
                const struct failures_pending *inner)
{
    struct failures_pending failed = { .life = *life, .layer = layer, .place = SIZE_MAX };

    failed.selected = filter_set_has(&failures->upper, life->layer_id);
    failed.asked_bytes = inner != NULL ? inner->asked_bytes : life->size;
    failed.refuser = failures_refuser(failures, life, layer, inner, &failed.refuser_is_sure);
    if (failed.selected && failures->count < FAILURES_MAX) {
        failed.place = failures->count++;
        failures->list[failed.place] = (struct failure){ .life = *life,
                                                         .layer = layer,
                                                         .refuser = failed.refuser,
                                                         .made_good_by = ROUTES_NONE,
                                                         .asked_bytes = failed.asked_bytes,
                                                         .refuser_is_sure = failed.refuser_is_sure };
    } else if (failed.selected) {
        failed.has_cause = diagnosis_plain_cause(&failures->routes, life->status, failed.refuser, &failed.cause);
    }
    if (!failures->routes.list[layer].is_top)
        return failures_wait(failures, thread, &failed) ? COMMAND_FINE : failures_no_memory(failures);
    if (failed.selected)
        failures_count(failures, &failed, ROUTES_NONE);
    return COMMAND_FINE;
}

/* ---- the two readings ------------------------------------------------------------------------------------------- */

static void
failures_clear(struct failures *failures)
{
    for (size_t i = 0; i < failures->count; i++) {
        free(failures->list[i].pinned_by);
        free(failures->list[i].words);
    }
    for (size_t i = 0; i < failures->thread_count; i++)
        failures->threads[i].count = 0;
    failures->count = failures->group_count = 0;
    failures->total = failures->bytes = failures->served = failures->made_good = failures->unexplained = 0;
    failures->first = NULL;
    memset(failures->by_cause, 0, sizeof(failures->by_cause));
}

static int
failures_begin_scan(void *context)
{
    failures_clear(context);
    ((struct failures *)context)->begun++;
    return COMMAND_FINE;
}

static int
failures_find(void *context, const struct scan_life *life)
{
    struct failures *failures = context;
    size_t layer = routes_find(&failures->routes, life->layer_id);
    struct failures_thread *thread;
    struct failures_pending inner;
    bool has_inner = false;

    if (layer == ROUTES_NONE || life->clipped)
        return COMMAND_FINE;
    failures->routes.list[layer].is_recorded = true;
    if (life->status == 0 && filter_set_has(&failures->upper, life->layer_id))
        failures->served++;
    if (life->status == 0 && failures->thread_count == 0)
        return COMMAND_FINE;
    thread = failures_thread(failures, life->alloc_thread_id);
    if (thread == NULL)
        return failures_no_memory(failures);
    if (thread->count > 0)
        failures_settle(failures, thread, life, layer, &inner, &has_inner);
    return life->status == 0 ? COMMAND_FINE : failures_failed(failures, thread, life, layer, has_inner ? &inner : NULL);
}

/* Failed calls below a log without a call around them, as where that was dropped. */
static int
failures_found(void *context, int64_t last_ns)
{
    struct failures *failures = context;

    (void)last_ns;
    for (size_t i = 0; i < failures->thread_count; i++) {
        for (size_t j = 0; j < failures->threads[i].count; j++) {
            if (failures->threads[i].list[j].selected)
                failures_count(failures, &failures->threads[i].list[j], ROUTES_NONE);
        }
        failures->threads[i].count = 0;
    }
    for (size_t i = 0; i < failures->count && failures->first == NULL; i++) {
        if (failures->list[i].made_good_by == ROUTES_NONE)
            failures->first = &failures->list[i];
    }
    return COMMAND_FINE;
}

/*
 * The second reading has the rest of those in the list. Where each recorded layer is topmost, no call lies within
 * another one: then the caller and the duration say nothing.
 */
static const struct scan_unit failures_finding[2] = {
    { .attach = true, .begin = failures_begin_scan, .alloc = failures_find, .end = failures_found },
    { .needs = SCAN_CALL, .attach = true, .begin = failures_begin_scan, .alloc = failures_find, .end = failures_found },
};

static bool
failures_may_nest(const struct failures *failures)
{
    const struct routes *routes = &failures->routes;
    bool may = false;

    for (size_t i = 0; i < routes->layers->count; i++)
        may = may || ((routes->list[i].is_log || routes->list[i].is_suballocator) && !routes->list[i].is_top);
    return may;
}

static int
failures_begin_look(void *context)
{
    struct failures *failures = context;

    for (size_t i = 0; i < failures->count; i++) {
        free(failures->list[i].pinned_by);
        failures->list[i].pinned_by = NULL;
    }
    failures->next = 0;
    diagnoser_restart(&failures->diagnoser);
    return COMMAND_FINE;
}

/* Look at the memory at a failure. */
static int
failures_look(struct failures *failures, struct failure *failure)
{
    const struct diagnosis_question question = { &failure->life, failure->layer, failure->refuser,
                                                 failure->asked_bytes };
    const struct space_chunk *pinned;
    char text[512];
    int status = diagnoser_look(&failures->diagnoser, failures->scan, &question, &failure->at, &failure->cause);

    if (status == COMMAND_FINE && failure == failures->first)
        status = diagnoser_explain(&failures->diagnoser, failures->scan, &question);
    if (status != COMMAND_FINE || failure->at.source != DIAGNOSIS_CHUNKS ||
        (failure->cause != FAILURE_FRAGMENTATION && failure->cause != FAILURE_CAPACITY &&
         failure->cause != FAILURE_DEVICE))
        return status;
    pinned = diagnoser_pinned(&failures->diagnoser, failure->at.wanted_bytes);
    if (pinned == NULL)
        return COMMAND_FINE;
    space_pins(failures->view, &failures->diagnoser.space, pinned, text, sizeof(text));
    failure->pinned_by = strdup(text);
    return failure->pinned_by != NULL ? COMMAND_FINE : failures_no_memory(failures);
}

static int
failures_alloc(void *context, const struct scan_life *life)
{
    struct failures *failures = context;
    int status = COMMAND_FINE;

    if (life->status == 0) {
        diagnoser_change(&failures->diagnoser, life, false);
        return COMMAND_FINE;
    }
    if (failures->next < failures->count && failures->list[failures->next].life.allocation_id == life->allocation_id) {
        failures->list[failures->next].life = *life;
        status = failures_look(failures, &failures->list[failures->next++]);
    }
    /* Where rows are not in the order of time, a later one may have been live at an earlier failure. */
    return status == COMMAND_FINE && failures->next == failures->count && failures->begun == 1 ? SCAN_ENOUGH : status;
}

static int
failures_free_event(void *context, const struct scan_life *life)
{
    diagnoser_change(&((struct failures *)context)->diagnoser, life, true);
    return COMMAND_FINE;
}

/* Count the causes of the failures in the list: here, since a reading may begin again. */
static int
failures_looked(void *context, int64_t last_ns)
{
    struct failures *failures = context;

    (void)last_ns;
    for (size_t i = 0; i < failures->next; i++) {
        const struct failure *failure = &failures->list[i];

        failures->groups[failure->group].by_cause[failure->cause]++;
        failures->by_cause[failure->cause] += failure->made_good_by == ROUTES_NONE;
    }
    return COMMAND_FINE;
}

static const struct scan_unit failures_looking = {
    .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_LIVE,
    .attach = true,
    .begin = failures_begin_look,
    .alloc = failures_alloc,
    .free = failures_free_event,
    .end = failures_looked,
};

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

static int
failures_read_words(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct failures *failures = context;
    const char *text = (const char *)sqlite3_column_text(row, 1);
    const uint32_t *place = id_map_find(&failures->thread_by_id, (uint64_t)sqlite3_column_int64(row, 0));

    if (place == NULL || text == NULL || failures->list[*place].words != NULL)
        return COMMAND_FINE;
    failures->list[*place].words = strdup(text);
    return failures->list[*place].words != NULL ? COMMAND_FINE : trace_broken(trace, "no memory for its failures");
}

/* The words of the failures in the list. The map of threads is done with: it maps the failures now. */
static int
failures_words(struct failures *failures)
{
    int64_t least = INT64_MAX, most = INT64_MIN; /* the list has the first ones, of many */

    if (!failures->has_refusals || failures->count == 0)
        return COMMAND_FINE;
    id_map_free(&failures->thread_by_id);
    for (size_t i = 0; i < failures->count; i++) {
        uint64_t id = (uint64_t)failures->list[i].life.allocation_id;

        least = (int64_t)id < least ? (int64_t)id : least;
        most = (int64_t)id > most ? (int64_t)id : most;
        if (id_map_find(&failures->thread_by_id, id) == NULL && !id_map_add(&failures->thread_by_id, id, (uint32_t)i))
            return failures_no_memory(failures);
    }
    return trace_each(&failures->view->trace, failures_read_words, failures,
                      "SELECT allocation_id, text FROM refusal WHERE text IS NOT NULL"
                      " AND allocation_id BETWEEN %lld AND %lld",
                      (long long)least, (long long)most);
}

int
failures_begin(struct view *view, struct failures *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    out->list = calloc(FAILURES_MAX, sizeof(*out->list));
    if (out->list == NULL)
        return failures_no_memory(out);
    out->upper = view->filter.layers;
    view->filter.layers = (struct filter_set){ 0 };
    status = routes_read(&view->trace, &view->layers, &out->routes);
    if (status == COMMAND_FINE)
        status = diagnoser_begin(view, &out->routes, &out->diagnoser);
    out->has_refusals = trace_has(&view->trace, "refusal", "allocation_id layer_id text");
    if (status == COMMAND_FINE && out->has_refusals)
        status = trace_each(&view->trace, failures_read_refusal, out,
                            "SELECT allocation_id, layer_id, text FROM refusal ORDER BY allocation_id");
    return status;
}

int
failures_next(void *context, struct scan_pass *pass)
{
    struct failures *failures = context;
    int status = COMMAND_FINE;

    if (failures->turn == 0) {
        pass->unit = &failures_finding[failures_may_nest(failures)];
    } else if (failures->turn == 1 && failures->count > 0) {
        pass->unit = &failures_looking;
        status = failures_words(failures);
    }
    failures->turn++;
    return status;
}

int
failures_make(struct view *view, struct failures *out)
{
    return view_run_analysis(view, failures_begin(view, out), failures_next, failures_free, out);
}

void
failures_free(void *context)
{
    struct failures *failures = context;

    failures_clear(failures);
    for (size_t i = 0; i < failures->thread_count; i++)
        free(failures->threads[i].list);
    free(failures->threads);
    free(failures->list);
    id_map_free(&failures->thread_by_id);
    free(failures->refusals);
    id_map_free(&failures->upper.ids);
    diagnoser_free(&failures->diagnoser);
    routes_free(&failures->routes);
    memset(failures, 0, sizeof(*failures));
}
