/* Looks at all recordings, and makes the labels of their figures. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/metrics/metrics.h"

static uint64_t
gather_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
gather_empty(struct running *running)
{
    free(((struct metrics_recording *)running)->text);
}

int
metrics_init(struct metrics *metrics, char **arguments, int count)
{
    *metrics = (struct metrics){ .tag_limit = METRICS_TAGS };
    metrics->found = (struct running_list){ .what = "tidemark metrics",
                                            .arguments = arguments,
                                            .count = count,
                                            .most = METRICS_RECORDINGS,
                                            .item_bytes = sizeof(struct metrics_recording),
                                            .empty = gather_empty,
                                            .finds_again = true };
    return emit_open_memory(&metrics->labels);
}

void
metrics_free(struct metrics *metrics)
{
    running_free(&metrics->found);
    id_map_free(&metrics->known);
    emit_close(&metrics->labels, COMMAND_WRONG);
}

int
metrics_find(struct metrics *metrics, bool first)
{
    int status = running_find(&metrics->found, first);

    metrics->absent[METRICS_OVER] = metrics->found.left_out;
    return status;
}

static struct metrics_recording *
gather_at(const struct metrics *metrics, size_t place)
{
    return (struct metrics_recording *)metrics->found.list[place];
}

static struct metrics_span
gather_span(const struct metrics *metrics, size_t begin)
{
    return (struct metrics_span){ begin, metrics->labels.used - begin };
}

/* A label with the comma before it. */
static void
gather_put(struct metrics *metrics, const char *name, const char *text)
{
    struct emit *out = &metrics->labels;

    emit_bytes(out, ",", 1);
    emit_string(out, name);
    emit_bytes(out, "=\"", 2);
    metrics_put_label_text(out, text);
    emit_bytes(out, "\"", 1);
}

static void
gather_put_known(struct metrics *metrics, const char *name, const char *text)
{
    if (text[0] != '\0')
        gather_put(metrics, name, text);
}

/* The name of the program alone: the words behind it may be secret, and everybody may read the labels. */
static void
gather_program(const char *command, char *out, size_t size)
{
    int length = (int)strcspn(command, " ");

    for (int i = length - 1; i >= 0; i--) {
        if (command[i] == '/') {
            command += i + 1;
            length -= i + 1;
            break;
        }
    }
    snprintf(out, size, "%.*s", length, command);
}

/* The labels of all figures of a recording; the first one stands without a comma. */
static void
gather_recording(struct metrics *metrics, struct metrics_recording *recording)
{
    const struct running *running = &recording->base;
    const struct running_names *names = &running->names;
    struct emit *out = &metrics->labels;
    size_t begin = out->used;
    char program[256];

    emit_string(out, "trace=\"");
    metrics_put_label_text(out, running->file.trace);
    emit_string(out, "\",pid=\"");
    emit_unsigned(out, running->file.pid);
    emit_bytes(out, "\"", 1);
    gather_put_known(metrics, "rank", names->rank);
    gather_put_known(metrics, "run", names->job); /* Prometheus has a label "job" of its own */
    gather_put_known(metrics, "host", names->hostname);
    recording->labels = gather_span(metrics, begin);
    begin = out->used;
    gather_put(metrics, "state", gauge_state_word(running->look.state));
    gather_program(names->command, program, sizeof(program));
    gather_put_known(metrics, "command", program);
    recording->info = gather_span(metrics, begin);
}

/* The labels of a layer: how the trace names it, and a flag. Of one that is not known yet, its number. */
static struct metrics_span
gather_layer(struct metrics *metrics, const struct running *running, uint64_t id, const char *flag, bool is_so)
{
    const struct running_layer *layer = running_layer(running, (uint32_t)id);
    struct emit *out = &metrics->labels;
    size_t begin = out->used;

    if (layer != NULL) {
        gather_put(metrics, "layer", layer->name);
    } else {
        emit_string(out, ",layer=\"");
        emit_unsigned(out, id);
        emit_bytes(out, "\"", 1);
    }
    gather_put(metrics, flag, is_so ? "yes" : "no");
    if (layer != NULL && layer->device >= 0) {
        emit_string(out, ",device=\"");
        emit_signed(out, layer->device);
        emit_bytes(out, "\"", 1);
    }
    return gather_span(metrics, begin);
}

static bool
gather_same(const struct metrics *metrics, struct metrics_span left, struct metrics_span right)
{
    const char *text = metrics->labels.buffer;

    return left.length == right.length && memcmp(text + left.begin, text + right.begin, left.length) == 0;
}

/* The labels of a tag's layer: one of those on the page, unless these had no room for it. */
static struct metrics_span
gather_tag_layer(struct metrics *metrics, const struct metrics_recording *recording, uint64_t layer_id)
{
    const struct tidei_gauge *page = &recording->base.page;

    for (size_t i = 0; i < page->layer_count; i++) {
        if (page->layers[i].layer_id == layer_id)
            return recording->layers[i];
    }
    return gather_layer(metrics, &recording->base, layer_id, "outermost", false);
}

static struct metrics_span
gather_tag_name(struct metrics *metrics, const struct running *running, uint32_t id)
{
    const struct running_tag *known = running_tag(running, id);
    struct emit *out = &metrics->labels;
    size_t begin = out->used;

    emit_string(out, ",tag=\"");
    if (known != NULL) {
        metrics_put_label_text(out, known->name);
    } else if (id != 0) {
        emit_string(out, "tag ");
        emit_unsigned(out, id);
    }
    emit_bytes(out, "\"", 1);
    return gather_span(metrics, begin);
}

/* The largest tags. Two that read the same would be one series twice. */
static void
gather_tags(struct metrics *metrics, struct metrics_recording *recording)
{
    const struct tidei_gauge *page = &recording->base.page;

    recording->tag_count = 0;
    for (size_t i = 0; i < page->tag_count; i++) {
        struct metrics_tag tag = { .layer = gather_tag_layer(metrics, recording, page->tags[i].layer_id) };
        size_t place = 0;

        tag.tag = gather_tag_name(metrics, &recording->base, page->tags[i].tag_id);
        while (place < recording->tag_count && !(gather_same(metrics, recording->tags[place].tag, tag.tag) &&
                                                 gather_same(metrics, recording->tags[place].layer, tag.layer)))
            place++;
        recording->tag_places[i] = place < metrics->tag_limit ? (uint8_t)place : TIDEI_GAUGE_TAGS;
        if (place == recording->tag_count && place < metrics->tag_limit)
            recording->tags[recording->tag_count++] = tag;
    }
}

static void
gather_sum_tags(struct metrics_recording *recording)
{
    const struct tidei_gauge *page = &recording->base.page;

    for (size_t i = 0; i < recording->tag_count; i++)
        recording->tags[i].live_bytes = recording->tags[i].live_count = 0;
    for (size_t i = 0; i < page->tag_count; i++) {
        if (recording->tag_places[i] == TIDEI_GAUGE_TAGS)
            continue;
        recording->tags[recording->tag_places[i]].live_bytes += page->tags[i].live_bytes;
        recording->tags[recording->tag_places[i]].live_count += page->tags[i].live_count;
    }
}

/* Whether this is new; remembers it. Without memory it is. */
static bool
gather_is_new(struct metrics *metrics, uint64_t hash)
{
    if (id_map_find(&metrics->known, hash) != NULL)
        return false;
    id_map_add(&metrics->known, hash, 0);
    return true;
}

/* Whether no other recording that is shown is this one, by another path, or has the same labels. */
static bool
gather_is_alone(struct metrics *metrics, const struct metrics_recording *recording)
{
    uint64_t trace_id = recording->base.file.trace_id;

    return gather_is_new(metrics, recording->hash) && (trace_id == 0 || gather_is_new(metrics, trace_id));
}

/* A page that says more of a layer than once would be a series twice. */
static bool
gather_is_sound(const struct tidei_gauge *page)
{
    for (size_t i = 1; i < page->layer_count; i++) {
        if (page->layers[i].layer_id == page->layers[i - 1].layer_id)
            return false;
    }
    for (size_t i = 1; i < page->pool_count; i++) {
        if (page->pools[i].layer_id == page->pools[i - 1].layer_id)
            return false;
    }
    return true;
}

static void
gather_figures(struct metrics *metrics, struct metrics_recording *recording)
{
    const struct running *running = &recording->base;

    for (size_t i = 0; i < running->page.layer_count; i++)
        recording->layers[i] = gather_layer(metrics, running, running->page.layers[i].layer_id, "outermost",
                                            running_is_outermost(running, i));
    for (size_t i = 0; i < running->page.pool_count; i++) {
        const struct running_layer *layer = running_layer(running, (uint32_t)running->page.pools[i].layer_id);

        recording->pools[i] =
            gather_layer(metrics, running, running->page.pools[i].layer_id, "base", layer != NULL && layer->is_base);
    }
    gather_tags(metrics, recording);
}

/* One that has ended has all in its trace; one that begins has nothing yet. */
static bool
gather_is_left(const struct running *running)
{
    return running->look.state == GAUGE_ENDED;
}

/* Whether names are to be read before the recording is shown at all. */
static bool
gather_is_fresh(const struct running *running)
{
    return running->was_seen && running->names.asked_ns == 0 && running_wants_names(running);
}

static struct metrics_shape
gather_shape(const struct metrics_recording *recording)
{
    const struct running *running = &recording->base;
    const struct tidei_gauge *page = &running->page;
    struct metrics_shape shape = { .is_made = true,
                                   .state = running->look.state,
                                   .pid = running->file.pid,
                                   .trace_id = running->file.trace_id,
                                   .names_ns = running->names.asked_ns,
                                   .has_figures = recording->has_figures };

    if (!recording->has_figures)
        return shape;
    shape.layer_count = page->layer_count;
    shape.pool_count = page->pool_count;
    shape.tag_count = page->tag_count;
    for (size_t i = 0; i < page->layer_count; i++)
        shape.layers[i] = page->layers[i].layer_id;
    for (size_t i = 0; i < page->pool_count; i++)
        shape.pools[i] = page->pools[i].layer_id;
    for (size_t i = 0; i < page->tag_count; i++) {
        shape.tags[i] = page->tags[i].tag_id;
        shape.tag_layers[i] = page->tags[i].layer_id;
    }
    return shape;
}

static bool
gather_is_same(const struct metrics_shape *shape, const struct metrics_recording *recording)
{
    const struct running *running = &recording->base;
    const struct tidei_gauge *page = &running->page;
    bool same = shape->is_made && shape->state == running->look.state && shape->pid == running->file.pid &&
                shape->trace_id == running->file.trace_id && shape->names_ns == running->names.asked_ns &&
                shape->has_figures == recording->has_figures;

    if (!recording->has_figures)
        return same;
    same = same && shape->layer_count == page->layer_count && shape->pool_count == page->pool_count &&
           shape->tag_count == page->tag_count;
    for (size_t i = 0; same && i < page->layer_count; i++)
        same = shape->layers[i] == page->layers[i].layer_id;
    for (size_t i = 0; same && i < page->pool_count; i++)
        same = shape->pools[i] == page->pools[i].layer_id;
    for (size_t i = 0; same && i < page->tag_count; i++)
        same = shape->tags[i] == page->tags[i].tag_id && shape->tag_layers[i] == page->tags[i].layer_id;
    return same;
}

/* Make the labels, all in one text. False: no memory. */
static bool
gather_label(struct metrics *metrics, struct metrics_recording *recording)
{
    char *text;

    metrics->labels.used = 0;
    gather_recording(metrics, recording);
    if (recording->has_figures)
        gather_figures(metrics, recording);
    text = metrics->labels.failed ? NULL : realloc(recording->text, metrics->labels.used);
    recording->shape.is_made = text != NULL;
    if (text == NULL)
        return false;
    memcpy(text, metrics->labels.buffer, metrics->labels.used);
    recording->text = text;
    recording->shape = gather_shape(recording);
    recording->hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < recording->labels.length; i++)
        recording->hash =
            (recording->hash ^ (unsigned char)text[recording->labels.begin + i]) * UINT64_C(0x100000001b3);
    return true;
}

/* False: no memory. */
static bool
gather_show(struct metrics *metrics, struct metrics_recording *recording)
{
    struct running *running = &recording->base;

    recording->is_shown = false;
    if (running->look.state == GAUGE_BEGINS)
        return true;
    if (gather_is_fresh(running)) {
        metrics->absent[METRICS_WAITING]++;
        return true;
    }
    if (!gather_is_same(&recording->shape, recording) && !gather_label(metrics, recording))
        return false;
    if (!gather_is_alone(metrics, recording)) {
        metrics->absent[METRICS_TWICE]++;
        return true;
    }
    recording->is_shown = true;
    metrics->shown++;
    if (recording->has_figures)
        gather_sum_tags(recording);
    return true;
}

bool
metrics_read_names(struct metrics *metrics, uint64_t ns)
{
    uint64_t begin = gather_clock(CLOCK_MONOTONIC);

    for (size_t i = 0; i < metrics->found.list_count; i++) {
        struct running *running = metrics->found.list[i];

        if (!running->was_seen || !running_wants_names(running))
            continue;
        if (ns != METRICS_NO_BOUND && gather_clock(CLOCK_MONOTONIC) - begin >= ns)
            return true;
        running_read_names(running);
    }
    return false;
}

void
metrics_rest(struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->found.list_count; i++)
        gauge_rest(&metrics->found.list[i]->file);
}

static void
gather_look(struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->found.list_count; i++) {
        struct metrics_recording *recording = gather_at(metrics, i);

        recording->has_figures = running_look(&recording->base);
        if (recording->has_figures && (recording->base.look.is_new || !recording->shape.is_made))
            recording->is_sound = gather_is_sound(&recording->base.page);
        recording->has_figures = recording->has_figures && recording->is_sound;
        if (i >= metrics->open_most)
            gauge_rest(&recording->base.file);
    }
}

int
metrics_gather(struct metrics *metrics, uint64_t names_ns)
{
    uint64_t begin = gather_clock(CLOCK_MONOTONIC);
    bool good = true;

    metrics->shown = metrics->absent[METRICS_TWICE] = metrics->absent[METRICS_WAITING] = 0;
    id_map_free(&metrics->known);
    gather_look(metrics);
    metrics->now_unix_ns = gather_clock(CLOCK_REALTIME);
    if (running_remove(&metrics->found, gather_is_left) != COMMAND_FINE)
        return COMMAND_WRONG;
    metrics_read_names(metrics, names_ns);
    for (size_t i = 0; i < metrics->found.list_count && good; i++)
        good = gather_show(metrics, gather_at(metrics, i));
    metrics->gather_ns = gather_clock(CLOCK_MONOTONIC) - begin;
    if (good)
        return COMMAND_FINE;
    message("tidemark metrics: no memory");
    return COMMAND_WRONG;
}
