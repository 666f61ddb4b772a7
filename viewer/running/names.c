/* Reads what a trace says of its layers and tags, in transactions of some milliseconds. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/resource/visible.h"
#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/parse.h"
#include "viewer/read/layer-kinds.h"
#include "viewer/read/trace.h"
#include "viewer/running/running.h"

#define NAMES_AGAIN_NS    UINT64_C(1000000000)
#define NAMES_LAYERS_MOST 4096
#define NAMES_TAGS_MOST   16384
#define NAMES_DEPTH_MOST  16 /* of tags around a tag */

const struct running_layer *
running_layer(const struct running *running, uint32_t id)
{
    for (size_t i = 0; i < running->names.layer_count; i++) {
        if (running->names.layers[i].id == id)
            return &running->names.layers[i];
    }
    return NULL;
}

static struct running_layer *
names_layer(struct running_names *names, int64_t id)
{
    for (size_t i = 0; i < names->layer_count; i++) {
        if (names->layers[i].id == (uint64_t)id)
            return &names->layers[i];
    }
    return NULL;
}

static const struct running_tag *
names_tag(const struct running_names *names, uint32_t id)
{
    for (size_t i = 0; i < names->tag_count; i++) {
        if (names->tags[i].id == id)
            return &names->tags[i];
    }
    return NULL;
}

const struct running_tag *
running_tag(const struct running *running, uint32_t id)
{
    return names_tag(&running->names, id);
}

const char *
running_tag_name(const struct running *running, uint32_t id, char *buffer, size_t size)
{
    const struct running_tag *tag = running_tag(running, id);

    if (tag != NULL)
        tidei_visible_copy(tag->name, buffer, size);
    else if (id == 0)
        snprintf(buffer, size, "(no tag)");
    else
        snprintf(buffer, size, "tag %u", id);
    return buffer;
}

/* The bound of a limit, by its arguments as stack text: the first, or the one with that name. */
static uint64_t
names_limit(const char *kind, const char *config)
{
    const struct layer_kind *known = layer_kind_find(kind, config);
    char word[64];
    size_t length;
    uint64_t bytes;

    if (strcmp(kind, "limit") != 0 || known->bound_key == NULL)
        return RUNNING_NO_LIMIT;
    for (bool first = true; *config != '\0'; first = false) {
        const char *value = config;
        size_t key = strlen(known->bound_key);

        length = strcspn(config, ",");
        if (strncmp(config, known->bound_key, key) == 0 && config[key] == '=')
            value += key + 1;
        else if (!first || memchr(config, '=', length) != NULL)
            value = NULL;
        if (value != NULL && length - (size_t)(value - config) < sizeof(word)) {
            snprintf(word, sizeof(word), "%.*s", (int)(length - (size_t)(value - config)), value);
            if (parse_size(word, &bytes))
                return bytes;
        }
        config += length;
        config += strspn(config, ", ");
    }
    return RUNNING_NO_LIMIT;
}

/* A row: layer_id, upstream_layer_id, kind, config, the kind below, and the device. */
static int
names_take_layer(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const char *kind = (const char *)sqlite3_column_text(row, 2), *config = (const char *)sqlite3_column_text(row, 3);
    const char *below = (const char *)sqlite3_column_text(row, 4);
    struct running_names *names = context;
    struct running_layer *layer;
    uint64_t limit;

    (void)trace;
    if (names->layer_count >= NAMES_LAYERS_MOST ||
        !tidei_grow(&names->layers, &names->layer_capacity, names->layer_count, 1))
        return COMMAND_FINE;
    layer = &names->layers[names->layer_count++];
    *layer = (struct running_layer){ .id = (uint32_t)sqlite3_column_int64(row, 0),
                                     .device =
                                         sqlite3_column_type(row, 5) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 5),
                                     .is_base = sqlite3_column_type(row, 1) == SQLITE_NULL };
    tidei_visible_copy(kind != NULL ? kind : "", layer->kind, sizeof(layer->kind));
    snprintf(layer->name, sizeof(layer->name), "%u %s", layer->id, layer->kind);
    if (layer_kind_find(layer->kind, "")->role == LAYER_CUTS)
        snprintf(layer->name, sizeof(layer->name), "%u %s chunks", layer->id, layer->kind);
    if (strcmp(layer->kind, "log") == 0 && below != NULL) {
        char words[24];

        tidei_visible_copy(below, words, sizeof(words));
        snprintf(layer->name, sizeof(layer->name), "%u log (%s)", layer->id, words);
    }
    limit = names_limit(layer->kind, config != NULL ? config : "");
    if (limit < names->limit_bytes)
        names->limit_bytes = limit;
    return COMMAND_FINE;
}

/* A row: a recorded layer, and one that its requests come down to. */
static int
names_take_below(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct running_layer *layer = names_layer(context, sqlite3_column_int64(row, 0));

    (void)trace;
    if (layer != NULL)
        layer->is_below = true;
    return COMMAND_FINE;
}

static void
names_read_meta(struct running_names *names, const struct trace *trace)
{
    char *command = trace_meta(trace, "command"), *host = trace_meta(trace, "hostname");
    char *start = trace_meta(trace, "start_unix_ns"), *job = trace_meta(trace, "job");
    char *rank = trace_meta(trace, "rank");

    snprintf(names->command, sizeof(names->command), "%s", command != NULL ? command : "");
    snprintf(names->hostname, sizeof(names->hostname), "%s", host != NULL ? host : "");
    if (start == NULL || !parse_count(start, &names->start_unix_ns))
        names->start_unix_ns = 0;
    snprintf(names->job, sizeof(names->job), "%s", job != NULL ? job : "");
    snprintf(names->rank, sizeof(names->rank), "%s", rank != NULL ? rank : "");
    free(command);
    free(host);
    free(start);
    free(job);
    free(rank);
}

static void
names_read_layers(struct running_names *names, const struct trace *trace)
{
    names->layer_count = 0;
    names->limit_bytes = RUNNING_NO_LIMIT;
    trace_each(trace, names_take_layer, names,
               "SELECT a.layer_id, a.upstream_layer_id, a.kind, a.config, b.kind, a.device FROM layer AS a LEFT JOIN "
               "layer AS b "
               "ON b.layer_id = a.upstream_layer_id ORDER BY a.layer_id LIMIT %d",
               NAMES_LAYERS_MOST);
    trace_each(trace, names_take_below, names,
               "WITH RECURSIVE down(layer_id) AS (SELECT layer_id FROM layer WHERE kind = 'log' UNION "
               "SELECT coalesce(b.upstream_layer_id, l.upstream_layer_id) FROM down JOIN layer AS l USING (layer_id) "
               "LEFT JOIN layer_bin AS b USING (layer_id) UNION "
               "SELECT l.upstream_layer_id FROM down JOIN layer AS l USING (layer_id)), "
               "below(layer_id) AS (SELECT upstream_layer_id FROM down JOIN layer USING (layer_id) UNION "
               "SELECT b.upstream_layer_id FROM down JOIN layer_bin AS b USING (layer_id)) "
               "SELECT layer_id FROM below WHERE layer_id IS NOT NULL");
}

/* A row: the name of a tag, and that of the tag around it. */
struct names_path {
    char text[RUNNING_NAME_BYTES];
    int64_t parent;
    bool was_found;
};

static int
names_take_tag(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const char *name = (const char *)sqlite3_column_text(row, 0);
    struct names_path *path = context;
    char after[RUNNING_NAME_BYTES];

    (void)trace;
    memcpy(after, path->text, sizeof(after));
    /* The inner ones are cut where there is no room. */
    if (snprintf(path->text, sizeof(path->text), "%s%s%s", name != NULL ? name : "", after[0] != '\0' ? "/" : "",
                 after) >= (int)sizeof(path->text))
        path->text[sizeof(path->text) - 1] = '\0';
    path->parent = sqlite3_column_int64(row, 1);
    path->was_found = true;
    return COMMAND_FINE;
}

static void
names_read_tag(struct running_names *names, const struct trace *trace, uint32_t id)
{
    struct names_path path = { .parent = id };
    int depth = 0;

    do {
        path.was_found = false;
        trace_each(trace, names_take_tag, &path, "SELECT name, parent_tag_id FROM tag WHERE tag_id = %lld",
                   (long long)path.parent);
    } while (path.was_found && path.parent != 0 && ++depth < NAMES_DEPTH_MOST);
    if (path.text[0] == '\0' || !tidei_grow(&names->tags, &names->tag_capacity, names->tag_count, 1))
        return;
    names->tags[names->tag_count].id = id;
    names->tags[names->tag_count].name = strdup(path.text);
    if (names->tags[names->tag_count].name != NULL)
        names->tag_count++;
}

/* Whether the page has a layer or a tag of which nothing is known; also what there is. */
bool
running_wants_names(const struct running *running)
{
    const struct tidei_gauge *page = &running->page;

    for (size_t i = 0; i < page->layer_count; i++) {
        if (running_layer(running, (uint32_t)page->layers[i].layer_id) == NULL)
            return true;
    }
    for (size_t i = 0; i < page->pool_count; i++) {
        if (running_layer(running, (uint32_t)page->pools[i].layer_id) == NULL)
            return true;
    }
    for (size_t i = 0; i < page->tag_count; i++) {
        if (page->tags[i].tag_id != 0 && names_tag(&running->names, page->tags[i].tag_id) == NULL)
            return true;
    }
    return false;
}

void
running_read_names(struct running *running)
{
    struct running_names *names = &running->names;
    uint64_t now = running->look.now_ns;
    struct trace trace;

    if (!running_wants_names(running) || (names->asked_ns != 0 && now - names->asked_ns < NAMES_AGAIN_NS))
        return;
    names->asked_ns = now;
    /* Where the trace has vanished, its numbers go on without names. */
    if (access(running->file.trace, R_OK) != 0 || trace_open_other(running->file.trace, &trace) != COMMAND_FINE)
        return;
    /* No view or computed column of a trace that anybody may have made. */
    if (trace_has(&trace, "meta", "key value"))
        names_read_meta(names, &trace);
    if (trace_has(&trace, "layer", "layer_id upstream_layer_id kind config device") &&
        trace_has(&trace, "layer_bin", "layer_id upstream_layer_id"))
        names_read_layers(names, &trace);
    for (size_t i = 0; trace_has(&trace, "tag", "tag_id parent_tag_id name") && i < running->page.tag_count; i++) {
        uint32_t id = running->page.tags[i].tag_id;

        if (id != 0 && names->tag_count < NAMES_TAGS_MOST && names_tag(names, id) == NULL)
            names_read_tag(names, &trace, id);
    }
    trace_close(&trace);
}

void
running_names_free(struct running_names *names)
{
    for (size_t i = 0; i < names->tag_count; i++)
        free(names->tags[i].name);
    free(names->tags);
    free(names->layers);
}
