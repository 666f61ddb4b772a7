/* The input of an analysis: a trace with its layers, names and filter. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/view.h"

int
view_open(struct view *view, const struct filter_options *options, const char *path)
{
    int status;

    *view = (struct view){ .options = options };
    status = trace_open(path, options->no_symbols, &view->trace);
    if (status == COMMAND_FINE)
        status = trace_layers_read(&view->trace, &view->layers);
    if (status == COMMAND_FINE)
        status = names_read(&view->trace, &view->layers, &options->stacks, options->depth, &view->names);
    if (status == COMMAND_FINE)
        status = filter_make(&view->names, options, &view->filter);
    if (status != COMMAND_FINE)
        view_close(view);
    return status;
}

int
view_scan(struct view *view, const struct scan_pass *passes, size_t pass_count)
{
    return scan_run(&view->trace, &view->filter, passes, pass_count);
}

/* Ask each analysis for its next unit. Those that are not done are the parts of the next reading. */
static int
view_next_parts(struct view_analysis *list, size_t count, struct scan_part *parts, size_t *part_count)
{
    int status = COMMAND_FINE;

    *part_count = 0;
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        if (list[i].done)
            continue;
        list[i].pass = (struct scan_pass){ NULL, list[i].context };
        status = list[i].next(list[i].context, &list[i].pass);
        list[i].done = list[i].pass.unit == NULL;
        if (!list[i].done)
            parts[(*part_count)++] = (struct scan_part){ list[i].filter, &list[i].pass, 1 };
    }
    return status;
}

int
view_run_analyses(const struct trace *trace, struct view_analysis *list, size_t count)
{
    struct scan_part *parts = calloc(count + 1, sizeof(*parts));
    size_t part_count = 1;
    int status = parts != NULL ? COMMAND_FINE : trace_broken(trace, "no memory");

    while (status == COMMAND_FINE && part_count > 0) {
        status = view_next_parts(list, count, parts, &part_count);
        if (status == COMMAND_FINE && part_count > 0)
            status = scan_run_parts(trace, parts, part_count);
    }
    free(parts);
    return status;
}

int
view_run_analysis(struct view *view, int status, int (*next)(void *context, struct scan_pass *pass),
                  void (*release)(void *context), void *context)
{
    struct view_analysis analysis = { .filter = &view->filter, .next = next, .context = context };

    if (status == COMMAND_FINE)
        status = view_run_analyses(&view->trace, &analysis, 1);
    if (status != COMMAND_FINE)
        release(context);
    return status;
}

void
view_close(struct view *view)
{
    filter_free(&view->filter);
    names_free(&view->names);
    trace_layers_free(&view->layers);
    trace_close(&view->trace);
}

void
view_covered(const struct view *view, struct trace_layer_set *out)
{
    *out = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < view->layers.count; i++) {
        if (filter_has_layer(&view->filter, view->layers.layers[i].layer_id))
            trace_layer_sets_add_to(&view->layers.below, i, out);
    }
}

static void
view_add_list(FILE *out, const char *what, const struct option_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, "%s%s %s", i > 0 ? " or " : ", ", what, list->items[i]);
}

const char *
view_live_words(const struct view *view)
{
    return view->options->to.kind == MOMENT_NONE ? trace_live_words(&view->trace) : "live at the end";
}

char *
view_subject(const struct view *view)
{
    const struct filter_options *options = view->options;
    const char *separator = "";
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < view->layers.count; i++) {
        const struct trace_layer *layer = &view->layers.layers[i];
        char name[64];

        if (!trace_layer_is_log(layer) || !filter_has_layer(&view->filter, layer->layer_id))
            continue;
        fprintf(out, "%slayer %s", separator, names_layer(&view->names, layer->layer_id, name, sizeof(name)));
        separator = " + ";
    }
    view_add_list(out, "tag", &options->tags);
    view_add_list(out, "thread", &options->threads);
    view_add_list(out, "stream", &options->streams);
    view_add_list(out, "device", &options->devices);
    if (options->callstack != NULL)
        fprintf(out, ", call stacks with %s", options->callstack);
    if (options->min_size > 0)
        fprintf(out, ", from %llu B", (unsigned long long)options->min_size);
    if (options->from.kind != MOMENT_NONE || options->to.kind != MOMENT_NONE)
        fputs(", a part of the time", out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
