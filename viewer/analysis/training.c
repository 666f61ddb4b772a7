/* Tells parameters, gradients, states of the optimizer, activations and workspace apart, by tags and lifetimes. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/training.h"
#include "viewer/read/name-texts.h"
#include "viewer/read/tag-levels.h"

/* The number of a module that is not known yet. */
#define TRAINING_NO_MODULE UINT32_MAX

static enum training_phase
training_phase_of(const struct tag_level *level)
{
    static const char *const words[] = { NULL, "forward", "backward", "optimizer", "parameters" };

    for (enum training_phase phase = TRAINING_FORWARD; phase <= TRAINING_SETUP; phase++) {
        if (tag_level_is(level, words[phase]))
            return phase;
    }
    return TRAINING_NO_PHASE;
}

/* The phases of a tag, and where the levels of its module begin. */
static struct training_tag
training_read_tag(const struct tag_levels *levels, size_t *first_level)
{
    struct training_tag tag = { .module = TRAINING_NO_MODULE };

    *first_level = levels->count;
    for (size_t i = 0; i < levels->count; i++) {
        enum training_phase phase = training_phase_of(&levels->list[i]);

        if (phase == TRAINING_NO_PHASE)
            continue;
        /* An optimizer that runs the model itself stands around the passes of a step. */
        if (tag.outer == TRAINING_NO_PHASE || tag.outer == TRAINING_OPTIMIZER)
            tag.outer = phase;
        tag.inner = phase;
        *first_level = i + 1;
    }
    return tag;
}

/* Set the module of a tag to a new one, or to that of the same text. */
static bool
training_set_module(struct training *self, struct name_texts *texts, const struct tag_levels *levels, int64_t tag_id,
                    size_t first_level, struct training_tag *tag)
{
    char *text = tag_levels_join(levels, first_level, levels->count - first_level);
    const struct name *name = text != NULL ? name_texts_add(texts, tag_id, text) : NULL;

    free(text);
    if (name == NULL)
        return false;
    if (name->number != tag_id) {
        /* The first tag that reads the same stands before this one. */
        tag->module = self->tags[*id_map_find(&self->names->tags.by_id, (uint64_t)name->number)].module;
        return true;
    }
    if (!tidei_grow(&self->modules, &self->module_capacity, self->module_count, 1))
        return false;
    tag->module = (uint32_t)self->module_count;
    self->modules[self->module_count] = (struct training_module){
        .name = strdup(name->text),
        .tag_id = tag_id,
        .first_level = first_level,
    };
    return self->modules[self->module_count++].name != NULL;
}

/* Look at the tags. False: no memory, and nothing to free. */
static bool
training_begin(const struct names *names, struct training *out)
{
    const struct name_list *tags = &names->tags;
    struct name_list list = { 0 };
    struct name_texts texts = { .list = &list };
    unsigned seen = 0;
    bool done = true;

    *out = (struct training){ .names = names, .tags = calloc(tags->count + 1, sizeof(*out->tags)) };
    for (size_t i = 0; i < tags->count && out->tags != NULL && done; i++) {
        struct tag_levels levels;
        size_t first_level;

        tag_levels_of(tags, tags->names[i].id, &levels);
        out->tags[i] = training_read_tag(&levels, &first_level);
        seen |= 1U << out->tags[i].outer | 1U << out->tags[i].inner;
        if (out->tags[i].inner != TRAINING_NO_PHASE && out->tags[i].inner != TRAINING_OPTIMIZER)
            done = training_set_module(out, &texts, &levels, tags->names[i].id, first_level, &out->tags[i]);
    }
    name_texts_free(&texts);
    names_free_list(&list);
    done = done && out->tags != NULL;
    if (!done)
        training_free(out);
    out->is_there = done && (seen & 1U << TRAINING_FORWARD) != 0 &&
                    (seen & (1U << TRAINING_BACKWARD | 1U << TRAINING_OPTIMIZER)) != 0;
    out->has_parameters = (seen & 1U << TRAINING_SETUP) != 0;
    return done;
}

void
training_free(struct training *self)
{
    for (size_t i = 0; i < self->module_count; i++)
        free(self->modules[i].name);
    free(self->modules);
    free(self->tags);
    free(self->passes);
    id_map_free(&self->backward_threads);
    *self = (struct training){ .names = self->names };
}

static struct training_tag
training_tag_of(const struct training *self, int64_t tag_id)
{
    static const struct training_tag none = { .module = TRAINING_NO_MODULE };
    const uint32_t *place = tag_id != 0 ? id_map_find(&self->names->tags.by_id, (uint64_t)tag_id) : NULL;

    return place != NULL ? self->tags[*place] : none;
}

/* Whether a forward belongs to the backward that is on: its thread runs backward, and is not that of the program. */
static bool
training_is_again(const struct training *self, const struct scan_life *life)
{
    return self->pass_count > 0 && self->passes[self->pass_count - 1].phase == TRAINING_BACKWARD &&
           life->alloc_thread_id != self->forward_thread &&
           id_map_find(&self->backward_threads, (uint64_t)life->alloc_thread_id) != NULL;
}

static int
training_no_memory(const struct training *self)
{
    return trace_broken(self->names->trace, "no memory for its steps");
}

/* The first reading: the passes. */

static int
find_begin(void *context)
{
    struct training *self = context;

    id_map_free(&self->backward_threads);
    self->pass_count = 0;
    self->forward_thread = 0;
    return COMMAND_FINE;
}

/* The pass that an allocation belongs to. */
static enum training_phase
find_phase(struct training *self, const struct scan_life *life)
{
    enum training_phase phase = training_tag_of(self, life->tag_id).outer;

    if (phase == TRAINING_FORWARD && self->forward_thread == 0)
        self->forward_thread = life->alloc_thread_id;
    return phase == TRAINING_FORWARD && training_is_again(self, life) ? TRAINING_BACKWARD : phase;
}

static int
find_alloc(void *context, const struct scan_life *life)
{
    struct training *self = context;
    enum training_phase phase = find_phase(self, life);
    struct training_pass *last = self->pass_count > 0 ? &self->passes[self->pass_count - 1] : NULL;
    uint64_t thread = (uint64_t)life->alloc_thread_id;
    uint64_t step = last != NULL ? last->step : 0;

    if (phase == TRAINING_NO_PHASE || phase == TRAINING_SETUP || life->status != 0)
        return COMMAND_FINE;
    if (phase == TRAINING_BACKWARD && id_map_find(&self->backward_threads, thread) == NULL &&
        !id_map_add(&self->backward_threads, thread, 0))
        return training_no_memory(self);
    if (last != NULL && last->phase == phase) {
        last->last_ns = life->alloc_ns;
        return COMMAND_FINE;
    }
    if (!tidei_grow(&self->passes, &self->pass_capacity, self->pass_count, 1))
        return training_no_memory(self);
    step += step == 0 || phase == TRAINING_FORWARD;
    self->passes[self->pass_count++] = (struct training_pass){ phase, step, life->alloc_ns, life->alloc_ns };
    return COMMAND_FINE;
}

static const struct scan_unit find_unit = {
    .needs = SCAN_ORIGIN | SCAN_CALLER,
    .begin = find_begin,
    .alloc = find_alloc,
};

const struct training_pass *
training_pass_at(const struct training *self, int64_t ns)
{
    size_t low = 0;
    size_t high = self->pass_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (self->passes[middle].begin_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &self->passes[low - 1] : NULL;
}

/* When a pass ends: what is live then is more than workspace. */
static int64_t
training_end_of(const struct training *self, const struct training_pass *pass)
{
    const struct training_pass *next = pass + 1 < self->passes + self->pass_count ? pass + 1 : NULL;

    if (next != NULL && (pass->phase != TRAINING_BACKWARD || next->phase == TRAINING_OPTIMIZER))
        return next->begin_ns;
    return pass->phase == TRAINING_FORWARD ? INT64_MAX : pass->last_ns;
}

/* When the first step has ended: what is allocated before all passes and lives then is no input of that step. */
static int64_t
training_settled(const struct training *self)
{
    const struct training_pass *pass = self->passes;

    while (pass != NULL && pass + 1 < self->passes + self->pass_count && pass->step == self->passes[0].step)
        pass++;
    return pass != NULL ? pass->begin_ns : INT64_MAX;
}

/* Whether a life without a tag of a pass began before all of them, and outlasted the first step. */
static bool
training_is_setup(const struct training *self, const struct scan_life *life)
{
    return self->pass_count > 0 && life->alloc_ns < self->passes[0].begin_ns &&
           (!life->freed || life->free_ns >= self->settled_ns);
}

static enum training_kind
training_kind_of(const struct training *self, const struct scan_life *life, enum training_phase phase)
{
    const struct training_pass *pass = training_pass_at(self, life->alloc_ns);
    bool in_backward = pass != NULL && pass->phase == TRAINING_BACKWARD;

    if (phase == TRAINING_SETUP)
        return TRAINING_PARAMETERS;
    if (phase == TRAINING_NO_PHASE)
        return !self->has_parameters && training_is_setup(self, life) ? TRAINING_PARAMETERS : TRAINING_OTHER;
    /* What is made again is freed in the same pass, as workspace is. */
    if (phase == TRAINING_FORWARD && in_backward)
        return TRAINING_ACTIVATIONS;
    if (pass != NULL && life->freed && life->free_ns < training_end_of(self, pass))
        return TRAINING_WORKSPACE;
    if (phase == TRAINING_FORWARD)
        return pass != NULL && pass->step < self->step ? TRAINING_LEFT : TRAINING_ACTIVATIONS;
    return phase == TRAINING_BACKWARD ? TRAINING_GRADIENTS : TRAINING_STATES;
}

/* The second reading: what is live at the moment. A row tells when it is freed, so that no free need be waited for. */

static int
look_begin(void *context)
{
    struct training *self = context;

    memset(self->kinds, 0, sizeof(self->kinds));
    for (size_t i = 0; i < self->module_count; i++)
        memset(self->modules[i].kinds, 0, sizeof(self->modules[i].kinds));
    return COMMAND_FINE;
}

static int
look_alloc(void *context, const struct scan_life *life)
{
    struct training *self = context;
    struct training_tag tag = training_tag_of(self, life->tag_id);
    struct amount *amounts[2] = { NULL };
    enum training_kind kind;

    if (life->alloc_ns > self->at_ns)
        return SCAN_ENOUGH;
    if (life->status != 0 || (life->freed && life->free_ns < self->at_ns) ||
        (life->alloc_ns == self->at_ns && self->at_id != 0 && life->allocation_id > self->at_id))
        return COMMAND_FINE;
    kind = training_kind_of(self, life, tag.inner);
    amounts[0] = &self->kinds[kind];
    if (tag.module != TRAINING_NO_MODULE)
        amounts[1] = &self->modules[tag.module].kinds[kind];
    for (size_t i = 0; i < 2 && amounts[i] != NULL; i++) {
        amounts[i]->bytes += life->size;
        amounts[i]->count += scan_live_count(life);
    }
    return COMMAND_FINE;
}

static const struct scan_unit look_unit = {
    .needs = SCAN_ORIGIN,
    .begin = look_begin,
    .alloc = look_alloc,
};

uint64_t
training_module_bytes(const struct training_module *module)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < TRAINING_KINDS; i++)
        bytes += module->kinds[i].bytes;
    return bytes;
}

/* Drop the modules without anything live. */
static void
training_drop(struct training *self)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->module_count; i++) {
        if (training_module_bytes(&self->modules[i]) > 0)
            self->modules[kept++] = self->modules[i];
        else
            free(self->modules[i].name);
    }
    self->module_count = kept;
}

/* The names of all modules so many levels deep, of which those of a text know the first; ids are places. */
static bool
training_cut(const struct training *self, uint64_t depth, struct name_list *out, size_t *different)
{
    struct name_texts texts = { .list = out };
    bool done = true;

    *different = 0;
    for (size_t i = 0; i < self->module_count && done; i++) {
        const struct training_module *module = &self->modules[i];
        struct tag_levels levels;
        size_t count;
        const struct name *name;
        char *text;

        tag_levels_of(&self->names->tags, module->tag_id, &levels);
        count = levels.count - module->first_level;
        text = tag_levels_join(&levels, module->first_level, count < depth ? count : (size_t)depth);
        name = text != NULL ? name_texts_add(&texts, (int64_t)i, text) : NULL;
        free(text);
        done = name != NULL;
        *different += done && !name->borrows;
    }
    name_texts_free(&texts);
    return done;
}

/* Make one of the modules of each name. */
static bool
training_merge(struct training *self, const struct name_list *names)
{
    uint32_t *places = calloc(self->module_count + 1, sizeof(*places)); /* of the first module of a name */
    size_t kept = 0;
    bool done = places != NULL;

    for (size_t i = 0; i < self->module_count && places != NULL; i++) {
        const struct name *name = &names->names[i];
        struct training_module module = self->modules[i];

        free(module.name);
        if (name->borrows) {
            for (size_t kind = 0; kind < TRAINING_KINDS; kind++) {
                self->modules[places[name->number]].kinds[kind].bytes += module.kinds[kind].bytes;
                self->modules[places[name->number]].kinds[kind].count += module.kinds[kind].count;
            }
            continue;
        }
        module.name = strdup(name->text);
        done = done && module.name != NULL;
        places[i] = (uint32_t)kept;
        self->modules[kept++] = module;
    }
    if (places != NULL)
        self->module_count = kept;
    free(places);
    return done;
}

/*
 * Sum up modules `depth` levels deep; 0: as deep as TRAINING_MODULES of them allow. Those without anything live are
 * dropped. False: no memory.
 */
static bool
training_sum_up(struct training *self, uint64_t depth)
{
    struct name_list names = { 0 };
    uint64_t tried = depth > 0 ? depth : TAG_LEVELS_MAX;
    size_t different = 0;
    bool done;

    training_drop(self);
    done = training_cut(self, tried, &names, &different);
    while (done && depth == 0 && different > TRAINING_MODULES && tried > 1) {
        /* Few models are deeper than 16 levels, and each try takes as long as there are modules. */
        tried = tried > 16 ? 16 : tried - 1;
        names_free_list(&names);
        names = (struct name_list){ 0 };
        done = training_cut(self, tried, &names, &different);
    }
    done = done && training_merge(self, &names);
    names_free_list(&names);
    return done;
}

/* Run a unit over what these options select. */
static int
training_scan(struct training *self, const struct filter_options *options, const struct scan_unit *unit)
{
    const struct scan_pass pass = { unit, self };
    struct filter filter;
    int status = filter_make(self->names, options, &filter);

    if (status != COMMAND_FINE)
        return status;
    status = scan_run(self->names->trace, &filter, &pass, 1);
    filter_free(&filter);
    return status;
}

int
training_make(const struct view *view, int64_t ns, int64_t allocation_id, struct training *out)
{
    const struct filter_options all = { .layers = view->options->layers };
    struct filter_options selected = *view->options;
    int status;

    if (!training_begin(&view->names, out))
        return training_no_memory(out);
    if (!out->is_there)
        return COMMAND_FINE;
    out->at_ns = ns;
    out->at_id = allocation_id;
    /* A part of the time has at its moments what all of it has, and its lives are whole. */
    selected.from = selected.to = (struct moment){ 0 };
    status = training_scan(out, &all, &find_unit);
    if (status == COMMAND_FINE) {
        const struct training_pass *pass = training_pass_at(out, ns);

        out->step = pass != NULL ? pass->step : 0;
        out->settled_ns = training_settled(out);
        status = training_scan(out, &selected, &look_unit);
    }
    if (status == COMMAND_FINE && !training_sum_up(out, view->options->depth))
        status = training_no_memory(out);
    if (status != COMMAND_FINE)
        training_free(out);
    return status;
}
