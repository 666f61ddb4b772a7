/* Asks the layers of a stack for their figures. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <tidemark/stack.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/stack-report.h"

static bool
report_has(const struct stack_report *report, const struct tide_resource *resource)
{
    for (size_t i = 0; i < report->count; i++) {
        if (report->layers[i].resource == resource)
            return true;
    }
    return false;
}

/* Add all below `resource`, then `resource`: the reverse of the order that is wanted. */
static bool
report_visit(struct stack_report *report, struct tide_resource *resource)
{
    struct tide_upstream upstream;
    size_t below = 0;

    if (report_has(report, resource))
        return true;
    while (resource->ops->upstream_at(resource, below, &upstream) == TIDE_OK)
        below++;
    /* What serves the rest first, then the bins from the largest down: in reverse they stand in their order. */
    for (size_t i = 0; i < below; i++) {
        size_t index = i == 0 ? 0 : below - i;

        if (resource->ops->upstream_at(resource, index, &upstream) == TIDE_OK &&
            !report_visit(report, upstream.resource))
            return false;
    }
    if (!tidei_grow(&report->layers, &report->capacity, report->count, 1))
        return false;
    report->layers[report->count++] = (struct stack_layer){ .resource = resource };
    return true;
}

static void
report_ask(struct stack_layer *layer)
{
    struct tide_resource *resource = layer->resource;
    char arguments[128] = "";
    struct tide_text text = { .data = arguments, .capacity = sizeof(arguments) };

    resource->ops->describe(resource, &text);
    snprintf(layer->text, sizeof(layer->text), text.length > 0 ? "%s(%s%s)" : "%s", tide_resource_name(resource),
             arguments, text.length >= sizeof(arguments) ? "..." : "");
    layer->has_used = tide_query(resource, TIDE_QUERY_BYTES_USED, &layer->used_bytes) == TIDE_OK;
    layer->has_reserved = tide_query(resource, TIDE_QUERY_BYTES_RESERVED, &layer->reserved_bytes) == TIDE_OK;
    layer->statistics.struct_size = sizeof(layer->statistics);
    layer->has_statistics = tide_statistics_read(resource, &layer->statistics) == TIDE_OK;
}

int
stack_report_make(struct tide_resource *top, struct stack_report *out)
{
    *out = (struct stack_report){ 0 };
    if (!report_visit(out, top)) {
        fputs("tidemark: no memory for the layers of the stack\n", stderr);
        stack_report_free(out);
        return COMMAND_WRONG;
    }
    for (size_t i = 0; i < out->count / 2; i++) {
        struct stack_layer layer = out->layers[i];

        out->layers[i] = out->layers[out->count - 1 - i];
        out->layers[out->count - 1 - i] = layer;
    }
    for (size_t i = 0; i < out->count; i++)
        report_ask(&out->layers[i]);
    return COMMAND_FINE;
}

void
stack_report_free(struct stack_report *report)
{
    free(report->layers);
    *report = (struct stack_report){ 0 };
}

char *
stack_text(struct tide_resource *top)
{
    size_t needed = 0;
    char *text;

    tide_describe(top, NULL, 0, &needed);
    text = malloc(needed + 1);
    if (text != NULL && tide_describe(top, text, needed + 1, NULL) != TIDE_OK)
        text[0] = '\0';
    return text;
}
