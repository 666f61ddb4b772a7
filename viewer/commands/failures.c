/* `tidemark failures`: which layer refused an allocation, why, and what would have sufficed. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/analysis/failures.h"
#include "viewer/analysis/groups.h"
#include "viewer/base/callstack-text.h"
#include "viewer/base/output.h"

/* The longest name of a layer with its arguments. */
#define FAILURES_LAYER 160

struct failures_options {
    bool all;
};

static const struct option_def failures_option_defs[] = {
    { "all", 'a', OPTION_FLAG, NULL, "also a row for each failure, as --json has them",
      offsetof(struct failures_options, all), NULL, 0 },
    { .name = NULL },
};

static const struct report_column failures_columns[] = {
    { "allocation_id", "ALLOCATION", REPORT_COUNT },
    { "ns", "AT", REPORT_TIME },
    { "size", "SIZE", REPORT_SIZE },
    { "status", NULL, REPORT_TEXT },
    { "cause", "CAUSE", REPORT_TEXT },
    { "live_bytes", "LIVE", REPORT_SIZE },
    { "live_count", NULL, REPORT_COUNT },
    { "reserved_bytes", "RESERVED", REPORT_SIZE },
    { "free_bytes", "FREE", REPORT_SIZE },
    { "largest_hole_bytes", "LARGEST HOLE", REPORT_SIZE },
    { "left_bytes", NULL, REPORT_SIZE },
    { "layer_id", NULL, REPORT_COUNT },
    { "refused_by_layer_id", NULL, REPORT_COUNT },
    { "made_good_by_layer_id", NULL, REPORT_COUNT },
    { "text", NULL, REPORT_TEXT },
    { "tag", "TAG", REPORT_NAME },
    { "callstack", "CALL STACK", REPORT_STACK },
    { "stream_id", NULL, REPORT_COUNT },
    { "stream", NULL, REPORT_TEXT },
    { "thread_id", NULL, REPORT_COUNT },
    { "thread", NULL, REPORT_TEXT },
    { "pinned_by", "PINNED BY", REPORT_NAME },
};

/* "layer 2 limit(8GiB)" */
static const char *
failures_layer(const struct failures *failures, size_t layer, char *buffer, size_t size)
{
    const struct trace_layer *list = failures->view->layers.layers;
    char device[32] = "";
    const char *config;
    int shown;

    if (layer == ROUTES_NONE)
        return "an unknown layer";
    config = list[layer].config;
    shown = strlen(config) < 80 && !trace_layer_is_log(&list[layer]) ? (int)strlen(config) : 0;
    if (failures->routes.list[layer].device >= 0 && failures->routes.list[layer].upstream == ROUTES_NONE)
        snprintf(device, sizeof(device), " of device %" PRId64, failures->routes.list[layer].device);
    snprintf(buffer, size, "layer %" PRId64 " %s%s%.*s%s%s", list[layer].layer_id, list[layer].kind,
             shown > 0 ? "(" : "", shown, config, shown > 0 ? ")" : "", device);
    return buffer;
}

static struct report_cell
failures_layer_id(const struct failures *failures, size_t layer)
{
    return layer != ROUTES_NONE ? cell_signed(failures->view->layers.layers[layer].layer_id) : cell_none();
}

static struct report_cell
failures_if(bool there, uint64_t value)
{
    return there ? cell_unsigned(value) : cell_none();
}

static void
failures_report_row(struct view *view, struct report *report, const struct failures *failures,
                    const struct failure *failure)
{
    const struct scan_life *life = &failure->life;
    const struct diagnosis *at = &failure->at;
    const struct names *names = &view->names;
    char tag[GROUPS_NAME], stack[GROUPS_NAME], stream[GROUPS_NAME], thread[GROUPS_NAME];
    bool space = at->source != DIAGNOSIS_NONE;

    REPORT_ROW(
        report, cell_signed(life->allocation_id), cell_signed(life->alloc_ns), cell_unsigned(life->size),
        cell_text(tide_status_name((enum tide_status)life->status)), cell_text(failures_word(failure->cause)),
        cell_unsigned(at->live_bytes), cell_unsigned(at->live_count), failures_if(space, at->reserved_bytes),
        failures_if(space, at->free_bytes), failures_if(at->source == DIAGNOSIS_CHUNKS, at->largest_hole),
        failures_if(at->has_left, at->left_bytes), failures_layer_id(failures, failure->layer),
        failures_layer_id(failures, failure->refuser), failures_layer_id(failures, failure->made_good_by),
        cell_text(failure->words),
        life->tag_id != 0 ? cell_text(names_tag(names, life->tag_id, tag, sizeof(tag))) : cell_none(),
        life->callstack_id != 0 ? cell_text(names_callstack(names, life->callstack_id, stack, sizeof(stack)))
                                : cell_none(),
        cell_id(life->alloc_stream_id), cell_text(names_stream(names, life->alloc_stream_id, stream, sizeof(stream))),
        cell_id(life->alloc_thread_id), cell_text(names_thread(names, life->alloc_thread_id, thread, sizeof(thread))),
        cell_text(failure->pinned_by));
}

/* ---- the first failure ------------------------------------------------------------------------------------------ */

/* A size for stack text, rounded up so that it suffices: "8556MiB". */
static const char *
failures_enough(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = { "B", "KiB", "MiB" };
    unsigned unit = bytes >= UINT64_C(1) << 30 ? 2 : bytes >= UINT64_C(1) << 20 ? 1 : 0;
    uint64_t one = UINT64_C(1) << (10 * unit);

    snprintf(buffer, size, "%" PRIu64 "%s", (bytes + one - 1) / one, unit > 0 ? units[unit] : "");
    return buffer;
}

/* A layer with a bound that would have sufficed: "limit(8556MiB)". NULL: its bound cannot be set, or is not known. */
static const char *
failures_raised(const struct failures *failures, size_t layer, uint64_t bytes, char *buffer, size_t size)
{
    const struct routes_layer *route = layer != ROUTES_NONE ? &failures->routes.list[layer] : NULL;
    char enough[32];

    if (route == NULL || route->kind == NULL || route->kind->bound_key == NULL || route->is_device_bound || bytes == 0)
        return NULL;
    failures_enough(bytes, enough, sizeof(enough));
    if (route->kind->bound_is_first)
        snprintf(buffer, size, "%s(%s)", route->kind->name, enough);
    else
        snprintf(buffer, size, "%s(%s=%s)", route->kind->name, route->kind->bound_key, enough);
    return buffer;
}

/* The layer that refused, as it would have sufficed; NULL: not known. */
static const char *
failures_remedy(const struct failures *failures, const struct failure *failure, char *buffer, size_t size)
{
    if (failure->at.sufficient_count == 0)
        return failures_raised(failures, failure->refuser, failure->at.sufficient_bytes, buffer, size);
    snprintf(buffer, size, "limit(count=%" PRIu64 ")", failure->at.sufficient_count);
    return buffer;
}

/* The command that shows more of the moment. */
static void
failures_more(const struct failures *failures, const struct failure *failure, char *buffer, size_t size)
{
    const struct scan_life *life = &failure->life;
    bool holes = failure->cause == FAILURE_FRAGMENTATION || failure->cause == FAILURE_UNUSED;
    char request[48] = "";
    char layer[48] = "";

    if (holes)
        snprintf(request, sizeof(request), " --request=%" PRIu64, life->size);
    if (failures->group_count > 1 || failures->view->options->layers.count > 0)
        snprintf(layer, sizeof(layer), " --layer=%" PRId64, life->layer_id);
    snprintf(buffer, size, "tidemark %s --at=#%" PRId64 "%s%s %s", holes ? "fragmentation" : "peak",
             life->allocation_id, request, layer, failures->view->trace.path);
}

/* What would have sufficed, for programs. */
static void
failures_report_sufficient(struct report *report, const struct failures *failures, const struct failure *failure)
{
    const struct diagnosis *at = &failure->at;
    char remedy[96], other[96];
    bool is_short = failure->cause <= FAILURE_UNUSED;

    report_field(report, "sufficient", NULL, REPORT_TEXT,
                 cell_text(is_short ? failures_remedy(failures, failure, remedy, sizeof(remedy)) : NULL));
    report_field(
        report, "sufficient_with", NULL, REPORT_TEXT,
        cell_text(is_short ? failures_raised(failures, at->also, at->also_bytes, other, sizeof(other)) : NULL));
    report_field(report, "sufficient_bytes", NULL, REPORT_SIZE,
                 failures_if(at->sufficient_bytes > 0, at->sufficient_bytes));
    report_field(report, "sufficient_count", NULL, REPORT_COUNT,
                 failures_if(at->sufficient_count > 0, at->sufficient_count));
    report_field(report, "sufficient_without_holes_bytes", NULL, REPORT_SIZE,
                 failures_if(at->whole_bytes > 0, at->whole_bytes));
}

/* The members of the first failure, where there is none. */
static void
failures_report_no_first(struct report *report)
{
    static const char *const fields[] = {
        "cause",
        "tag",
        "callstack",
        "refused_by",
        "text",
        "allocation_id",
        "ns",
        "size",
        "status",
        "layer_id",
        "refused_by_layer_id",
        "refused_by_is_sure",
        "device",
        "bound_bytes",
        "bound_count",
        "in_use_bytes",
        "live_bytes",
        "live_count",
        "reserved_bytes",
        "free_bytes",
        "left_bytes",
        "room_bytes",
        "largest_hole_bytes",
        "sample_ns",
        "sufficient",
        "sufficient_with",
        "sufficient_bytes",
        "sufficient_count",
        "sufficient_without_holes_bytes",
        "held_by",
        "more",
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        report_field(report, fields[i], NULL, REPORT_TEXT, cell_none());
}

/* The members of the first failure that only JSON has. */
static void
failures_report_figures(struct report *report, const struct failures *failures, const struct failure *failure)
{
    const struct diagnosis *at = &failure->at;
    const struct routes_layer *route =
        failure->refuser != ROUTES_NONE ? &failures->routes.list[failure->refuser] : NULL;
    bool space = at->source != DIAGNOSIS_NONE;

    report_field(report, "allocation_id", NULL, REPORT_COUNT, cell_signed(failure->life.allocation_id));
    report_field(report, "ns", NULL, REPORT_TIME, cell_signed(failure->life.alloc_ns));
    report_field(report, "size", NULL, REPORT_SIZE, cell_unsigned(failure->life.size));
    report_field(report, "status", NULL, REPORT_TEXT,
                 cell_text(tide_status_name((enum tide_status)failure->life.status)));
    report_field(report, "layer_id", NULL, REPORT_COUNT, cell_signed(failure->life.layer_id));
    report_field(report, "refused_by_layer_id", NULL, REPORT_COUNT, failures_layer_id(failures, failure->refuser));
    report_field(report, "refused_by_is_sure", NULL, REPORT_FLAG, cell_unsigned(failure->refuser_is_sure));
    report_field(report, "device", NULL, REPORT_COUNT,
                 route != NULL && route->device >= 0 ? cell_signed(route->device) : cell_none());
    report_field(
        report, "bound_bytes", NULL, REPORT_SIZE,
        failures_if(route != NULL && route->bound_bytes != ROUTES_UNBOUNDED, route != NULL ? route->bound_bytes : 0));
    report_field(
        report, "bound_count", NULL, REPORT_COUNT,
        failures_if(route != NULL && route->bound_count != ROUTES_UNBOUNDED, route != NULL ? route->bound_count : 0));
    report_field(report, "in_use_bytes", NULL, REPORT_SIZE, failures_if(at->has_in_use, at->in_use_bytes));
    report_field(report, "live_bytes", NULL, REPORT_SIZE, cell_unsigned(at->live_bytes));
    report_field(report, "live_count", NULL, REPORT_COUNT, cell_unsigned(at->live_count));
    report_field(report, "reserved_bytes", NULL, REPORT_SIZE, failures_if(space, at->reserved_bytes));
    report_field(report, "free_bytes", NULL, REPORT_SIZE, failures_if(space, at->free_bytes));
    report_field(report, "left_bytes", NULL, REPORT_SIZE, failures_if(at->has_left, at->left_bytes));
    report_field(report, "room_bytes", NULL, REPORT_SIZE, failures_if(at->has_room, at->room_bytes));
    report_field(report, "largest_hole_bytes", NULL, REPORT_SIZE,
                 failures_if(at->source == DIAGNOSIS_CHUNKS, at->largest_hole));
    report_field(report, "sample_ns", NULL, REPORT_TIME,
                 at->source == DIAGNOSIS_SAMPLE ? cell_signed(at->sample_ns) : cell_none());
    failures_report_sufficient(report, failures, failure);
}

/* "167.5 MiB free in 11.63 GiB reserved, the largest hole 15.50 MiB; 1.37 GiB may still be reserved" */
static void
failures_report_space(struct report *report, const struct diagnosis *at)
{
    struct output_figure live, hole, free_text, reserved, left, when;

    report_label(report, "live", "%s in %" PRIu64 " allocations", output_size(&live, at->live_bytes), at->live_count);
    if (at->source == DIAGNOSIS_CHUNKS)
        report_label(report, "free", "%s of %s reserved, the largest hole %s", output_size(&free_text, at->free_bytes),
                     output_size(&reserved, at->reserved_bytes), output_size(&hole, at->largest_hole));
    else if (at->source == DIAGNOSIS_SAMPLE)
        report_label(report, "free", "%s of %s%s reserved, by the pool sample of %s",
                     output_size(&free_text, at->free_bytes), at->free_bytes == 0 ? "at least " : "",
                     output_size(&reserved, at->reserved_bytes), output_time(&when, at->sample_ns));
    if (at->has_left)
        report_label(report, "left", "%s%s", output_size(&left, at->left_bytes),
                     at->suballocator != ROUTES_NONE ? " may still be reserved" : " of its bound");
}

/* What the bound of a layer is called. */
static const char *
failures_bound_word(const struct routes_layer *route)
{
    if (route->is_device_bound)
        return "memory of the device";
    return strcmp(route->kind->name, "limit") == 0           ? "limit"
           : strcmp(route->kind->bound_key, "capacity") == 0 ? "capacity"
                                                             : "maximum";
}

/* Say what was short. */
static void
failures_note_short(struct report *report, const struct failures *failures, const struct failure *failure)
{
    const struct routes_layer *route =
        failure->refuser != ROUTES_NONE ? &failures->routes.list[failure->refuser] : NULL;
    const struct diagnosis *at = &failure->at;
    struct output_figure wanted, bound, in_use, all, hole;
    char layer[FAILURES_LAYER];

    output_size(&wanted, failure->life.size);
    if (at->sufficient_count > 0) {
        report_note(report, "The limit of %" PRIu64 " allocations was reached.", route->bound_count);
        return;
    }
    if (failure->cause == FAILURE_FRAGMENTATION)
        report_note(report, "%s was free or could still be reserved, enough for %s, but not in one piece%s%s.",
                    output_size(&all, at->room_bytes), wanted.text,
                    at->source == DIAGNOSIS_CHUNKS ? ": the largest hole is " : "",
                    at->source == DIAGNOSIS_CHUNKS ? output_size(&hole, at->largest_hole) : "");
    else if (failure->cause == FAILURE_UNUSED)
        report_note(report,
                    "A hole of %s was large enough: another stream may still have used that memory, or a"
                    " thread kept it in its cache.",
                    output_size(&hole, at->largest_hole));
    else if (route != NULL && route->is_device_bound && at->has_in_use && at->sufficient_bytes == 0)
        report_note(report,
                    "Device %" PRId64
                    " had no %s left: of its %s this trace knows of %s in use; other programs, and what it"
                    " did not record, hold the rest.",
                    route->device, wanted.text, output_size(&bound, route->bound_bytes),
                    output_size(&in_use, at->in_use_bytes));
    else if (route != NULL && route->bound_bytes != ROUTES_UNBOUNDED && at->has_in_use && at->sufficient_bytes == 0)
        report_note(report, "This trace accounts for %s of the %s of %s; what it did not record used the rest.",
                    output_size(&in_use, at->in_use_bytes), failures_bound_word(route),
                    output_size(&bound, route->bound_bytes));
    else if (route != NULL && route->bound_bytes != ROUTES_UNBOUNDED && at->has_in_use)
        report_note(report, "%s of the %s of %s was in use, and %s more was needed.",
                    output_size(&in_use, at->in_use_bytes), failures_bound_word(route),
                    output_size(&bound, route->bound_bytes), wanted.text);
    else if (at->has_room)
        report_note(report, "%s was free or could still be reserved, and %s was needed.",
                    output_size(&all, at->room_bytes), wanted.text);
    else
        report_note(report, "This trace does not say how much %s had left.",
                    failures_layer(failures, failure->refuser, layer, sizeof(layer)));
}

/* Say what would have sufficed. */
static void
failures_note_remedy(struct report *report, const struct failures *failures, const struct failure *failure)
{
    const struct diagnosis *at = &failure->at;
    char remedy[96], other[96];
    const char *also = failures_raised(failures, at->also, at->also_bytes, other, sizeof(other));
    const char *enough = failures_remedy(failures, failure, remedy, sizeof(remedy));
    struct output_figure whole;
    char layer[FAILURES_LAYER];

    if (at->whole_bytes > 0 && failure->cause == FAILURE_FRAGMENTATION)
        report_note(report, "Without its holes, %s would have held it as well: %s in all.",
                    failures_layer(failures, at->suballocator, layer, sizeof(layer)),
                    output_size(&whole, at->whole_bytes));
    if (enough != NULL)
        report_note(report, "%s%s%s would have sufficed for this request.", enough, also != NULL ? " over " : "",
                    also != NULL ? also : "");
}

static void
failures_note_cause(struct report *report, const struct failures *failures, const struct failure *failure)
{
    switch (failure->cause) {
    case FAILURE_PLANTED:
        report_note(report, "It was planted by the layer `fault`, to test what the program does then.");
        return;
    case FAILURE_REQUEST:
        report_note(report, "No stack could have met the request: %s.",
                    tide_status_text((enum tide_status)failure->life.status));
        return;
    case FAILURE_OTHER:
        report_note(report, "It was not for want of device memory: %s.",
                    tide_status_text((enum tide_status)failure->life.status));
        return;
    default:
        failures_note_short(report, failures, failure);
        failures_note_remedy(report, failures, failure);
    }
}

/* Who asked for it. */
static void
failures_report_origin(struct report *report, const struct failures *failures, const struct scan_life *life)
{
    const struct names *names = &failures->view->names;
    char tag[GROUPS_NAME], stack[GROUPS_NAME];

    report_field(report, "tag", "its tag", REPORT_TEXT,
                 life->tag_id != 0 ? cell_text(names_tag(names, life->tag_id, tag, sizeof(tag))) : cell_none());
    report_field(report, "callstack", "called by", REPORT_STACK,
                 life->callstack_id != 0 ? cell_text(names_callstack(names, life->callstack_id, stack, sizeof(stack)))
                                         : cell_none());
}

static void
failures_report_first(struct report *report, const struct failures *failures, const struct failure *failure)
{
    struct output_figure size, when;
    char layer[FAILURES_LAYER];
    const char *refuser = failures_layer(failures, failure->refuser, layer, sizeof(layer));

    report_field(report, "cause", "cause", REPORT_TEXT, cell_text(failures_word(failure->cause)));
    report_label(report, "first", "allocation %" PRId64 " of %s at %s", failure->life.allocation_id,
                 output_size(&size, failure->life.size), output_time(&when, failure->life.alloc_ns));
    failures_report_origin(report, failures, &failure->life);
    report_field(report, "refused_by", "refused by", REPORT_TEXT,
                 failure->refuser != ROUTES_NONE ? cell_text(refuser) : cell_none());
    report_field(report, "text", "its words", REPORT_TEXT, cell_text(failure->words));
    failures_report_figures(report, failures, failure);
    failures_report_space(report, &failure->at);
    failures_note_cause(report, failures, failure);
    if (failure->cause <= FAILURE_UNUSED && failure->at.suballocator != ROUTES_NONE &&
        failure->at.source != DIAGNOSIS_CHUNKS && failures->routes.list[failure->at.suballocator].is_suballocator)
        report_note(report, "This trace does not have the chunks of %s: how large its holes were is not known.",
                    failures_layer(failures, failure->at.suballocator, layer, sizeof(layer)));
    if (failure->refuser != ROUTES_NONE && !failure->refuser_is_sure)
        report_note(report, "Which layer refused is most likely; this trace does not say it.");
    if (failure->words == NULL)
        report_note(report, "This trace has no words of the refusal%s.",
                    failures->has_refusals ? "" : ": its recorder kept none");
}

/* Those of the same layer follow from the first, unless their cause is another. */
static void
failures_note_same(struct report *report, const struct failure_group *group, enum failure_cause first)
{
    uint64_t others = 0;

    for (int cause = 0; cause < FAILURE_CAUSES; cause++)
        others += cause != (int)first ? group->by_cause[cause] : 0;
    if (others > 0)
        report_note(report, "%" PRIu64 " more failed at the same layer afterwards, %" PRIu64 " for another cause.",
                    group->count - 1, others);
    else
        report_note(report, "%" PRIu64 " more failed at the same layer afterwards.", group->count - 1);
}

/* Those that follow from the first, and those of other layers. */
static void
failures_note_rest(struct report *report, const struct failures *failures, const struct failure *first)
{
    char layer[FAILURES_LAYER], refuser[FAILURES_LAYER];
    struct output_figure bytes, when;

    for (size_t i = 0; i < failures->group_count; i++) {
        const struct failure_group *group = &failures->groups[i];
        bool same = group->layer == first->layer && group->refuser == first->refuser;

        if (group->made_good_by != first->made_good_by || (same && group->count == 1))
            continue;
        if (same)
            failures_note_same(report, group, first->cause);
        else
            report_note(report, "%" PRIu64 " of %s, %s in all, %s refused by %s, the first at %s.", group->count,
                        failures_layer(failures, group->layer, layer, sizeof(layer)), output_size(&bytes, group->bytes),
                        group->count == 1 ? "was" : "were",
                        failures_layer(failures, group->refuser, refuser, sizeof(refuser)),
                        output_time(&when, group->first_ns));
    }
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void
failures_report_held(struct report *report, const struct failures *failures)
{
    static const struct report_column columns[] = {
        GROUP_COLUMNS,
        { "live_bytes", "BYTES", REPORT_SIZE },
        { "live_share", "SHARE", REPORT_SHARE },
        { "live_count", "COUNT", REPORT_COUNT },
    };
    const struct diagnoser *diagnoser = &failures->diagnoser;

    report_field(report, "held_by", NULL, REPORT_TEXT, cell_text(groups_word(diagnoser->groups.by)));
    REPORT_TABLE(report, "holders", "Who held the memory then", columns);
    report_group_title(report, diagnoser->groups.by);
    for (size_t i = 0; i < diagnoser->largest_count && i < report->options.limit; i++) {
        const struct diagnosis_group *group = &diagnoser->largest[i];
        struct group_cells cells;

        group_cells_make(&diagnoser->groups, group->group, &cells);
        REPORT_ROW(report, GROUP_CELLS(&cells), cell_unsigned(group->bytes),
                   cell_share((double)group->bytes, (double)diagnoser->held_bytes), cell_unsigned(group->count));
    }
}

/* "#12 16 MiB step/forward"; "the chunk's end" where there is no block. */
static const char *
failures_block(const struct failures *failures, const struct space_block *block, const char *edge, char *buffer,
               size_t size)
{
    const struct names *names = &failures->view->names;
    const char *name = NULL;
    struct output_figure figure;
    char text[GROUPS_NAME], brief[GROUPS_NAME];

    if (block->size == 0)
        return edge;
    if (block->tag_id != 0)
        name = names_tag(names, block->tag_id, text, sizeof(text));
    else if (block->callstack_id != 0)
        name = stack_text_brief(names_callstack(names, block->callstack_id, text, sizeof(text)), brief, sizeof(brief));
    snprintf(buffer, size, "#%" PRId64 " %s%s%s", block->allocation_id, output_size(&figure, block->size),
             name != NULL ? " " : "", name != NULL ? name : "");
    return buffer;
}

static void
failures_report_holes(struct report *report, const struct failures *failures)
{
    static const struct report_column columns[] = {
        { "hole_bytes", "HOLE", REPORT_SIZE },          { "address", NULL, REPORT_ADDRESS },
        { "chunk_bytes", "IN CHUNK OF", REPORT_SIZE },  { "before_allocation_id", NULL, REPORT_COUNT },
        { "before_bytes", NULL, REPORT_SIZE },          { "before", "BEFORE IT", REPORT_TEXT },
        { "behind_allocation_id", NULL, REPORT_COUNT }, { "behind_bytes", NULL, REPORT_SIZE },
        { "behind", "BEHIND IT", REPORT_TEXT },
    };

    REPORT_TABLE(report, "holes", "The largest holes, and what holds them apart", columns);
    report_spare(report, "chunk_bytes before");
    for (size_t i = 0; i < failures->diagnoser.hole_count && i < report->options.limit; i++) {
        const struct diagnosis_hole *hole = &failures->diagnoser.holes[i];
        char before[GROUPS_NAME + 80], behind[GROUPS_NAME + 80];

        REPORT_ROW(report, cell_unsigned(hole->bytes), cell_unsigned(hole->address), cell_unsigned(hole->chunk_bytes),
                   hole->before.size > 0 ? cell_signed(hole->before.allocation_id) : cell_none(),
                   failures_if(hole->before.size > 0, hole->before.size),
                   cell_text(failures_block(failures, &hole->before, "the chunk's begin", before, sizeof(before))),
                   hole->behind.size > 0 ? cell_signed(hole->behind.allocation_id) : cell_none(),
                   failures_if(hole->behind.size > 0, hole->behind.size),
                   cell_text(failures_block(failures, &hole->behind, "the chunk's end", behind, sizeof(behind))));
    }
}

static void
failures_report_causes(struct report *report, const struct failures *failures)
{
    static const struct report_column columns[] = {
        { "cause", "CAUSE", REPORT_TEXT },
        { "count", "COUNT", REPORT_COUNT },
    };

    REPORT_TABLE(report, "causes", NULL, columns);
    for (int cause = 0; cause < FAILURE_CAUSES; cause++) {
        if (failures->by_cause[cause] > 0)
            REPORT_ROW(report, cell_text(failures_word((enum failure_cause)cause)),
                       cell_unsigned(failures->by_cause[cause]));
    }
}

/* Call `each` for every layer that refused and cause, with their count; a cause of FAILURE_CAUSES was not looked at. */
static size_t
failures_each_cause(struct report *report, const struct failures *failures,
                    void (*each)(struct report *report, const struct failures *failures,
                                 const struct failure_group *group, int cause, uint64_t count))
{
    size_t found = 0;

    for (size_t i = 0; i < failures->group_count; i++) {
        const struct failure_group *group = &failures->groups[i];

        for (int cause = 0; cause <= FAILURE_CAUSES && group->made_good_by == ROUTES_NONE; cause++) {
            uint64_t count = cause < FAILURE_CAUSES ? group->by_cause[cause] : group->unexplained;

            found += count > 0;
            if (count > 0 && each != NULL)
                each(report, failures, group, cause, count);
        }
    }
    return found;
}

static void
failures_report_cause_of(struct report *report, const struct failures *failures, const struct failure_group *group,
                         int cause, uint64_t count)
{
    char refuser[FAILURES_LAYER];
    bool is_known = cause < FAILURE_CAUSES;

    REPORT_ROW(report, failures_layer_id(failures, group->layer), failures_layer_id(failures, group->refuser),
               cell_text(failures_layer(failures, group->refuser, refuser, sizeof(refuser))),
               is_known ? cell_text(failures_word((enum failure_cause)cause)) : cell_none(),
               cell_text(is_known ? failures_word((enum failure_cause)cause) : "not looked at"), cell_unsigned(count));
}

/* All failures by the layer that refused and the cause: those of another one do not follow from the first. */
static void
failures_report_refusers(struct report *report, const struct failures *failures)
{
    static const struct report_column columns[] = {
        { "layer_id", NULL, REPORT_COUNT },
        { "refused_by_layer_id", NULL, REPORT_COUNT },
        { "refused_by", "REFUSED BY", REPORT_TEXT },
        { "cause", NULL, REPORT_TEXT },
        { NULL, "CAUSE", REPORT_TEXT },
        { "count", "COUNT", REPORT_COUNT },
    };

    REPORT_TABLE(report, "refused_causes", "All by the layer that refused and the cause", columns);
    failures_each_cause(report, failures, failures_report_cause_of);
    if (failures->unexplained > 0)
        report_note(report, "Why %llu of the later ones failed was not looked at.",
                    (unsigned long long)failures->unexplained);
}

/* The failures by the layer that refused them; those that were made good apart. */
static void
failures_report_groups(struct report *report, const struct failures *failures, bool made_good)
{
    static const struct report_column columns[] = {
        { "layer_id", NULL, REPORT_COUNT },
        { "refused_by_layer_id", NULL, REPORT_COUNT },
        { "refused_by", "REFUSED BY", REPORT_TEXT },
        { "made_good_by_layer_id", NULL, REPORT_COUNT },
        { "made_good_by", "MADE GOOD BY", REPORT_TEXT },
        { "count", "COUNT", REPORT_COUNT },
        { "bytes", "BYTES", REPORT_SIZE },
        { "first_ns", "FIRST AT", REPORT_TIME },
        { "first_allocation_id", "ALLOCATION", REPORT_COUNT },
    };

    REPORT_TABLE(report, made_good ? "made_good" : "refused", made_good ? "Made good by a layer above" : NULL, columns);
    report_spare(report, "first_allocation_id first_ns bytes");
    if (!made_good)
        report_set_column(report, 4, (struct report_column){ "made_good_by", NULL, REPORT_TEXT });
    for (size_t i = 0; i < failures->group_count; i++) {
        const struct failure_group *group = &failures->groups[i];
        char refuser[FAILURES_LAYER], helper[FAILURES_LAYER];

        if ((group->made_good_by != ROUTES_NONE) != made_good)
            continue;
        REPORT_ROW(report, failures_layer_id(failures, group->layer), failures_layer_id(failures, group->refuser),
                   cell_text(failures_layer(failures, group->refuser, refuser, sizeof(refuser))),
                   failures_layer_id(failures, group->made_good_by),
                   made_good ? cell_text(failures_layer(failures, group->made_good_by, helper, sizeof(helper)))
                             : cell_none(),
                   cell_unsigned(group->count), cell_unsigned(group->bytes), cell_signed(group->first_ns),
                   cell_signed(group->first_id));
    }
}

static void
failures_report_list(struct view *view, struct report *report, const struct failures *failures)
{
    size_t shown = failures->count < report->options.limit ? failures->count : (size_t)report->options.limit;
    uint64_t all = failures->count < FAILURES_MAX ? failures->count : failures->total;
    uint64_t shown_bytes = 0;

    REPORT_TABLE(report, "failures", NULL, failures_columns);
    report_spare(report, "ns reserved_bytes largest_hole_bytes free_bytes pinned_by callstack tag allocation_id");
    for (size_t i = 0; i < shown; i++)
        failures_report_row(view, report, failures, &failures->list[i]);
    for (size_t i = 0; i < shown; i++)
        shown_bytes += failures->list[i].life.size;
    report_rest(report, all - shown, cell_unsigned(failures->bytes - shown_bytes));
    if (shown < all)
        report_note(report, "These are the first %zu of %llu.", shown, (unsigned long long)all);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static void
failures_report_head(struct report *report, const struct failures *failures)
{
    static const char *const sources[] = {
        [DIAGNOSIS_NONE] = "none",
        [DIAGNOSIS_CHUNKS] = "chunks",
        [DIAGNOSIS_SAMPLE] = "samples",
    };
    struct output_figure bytes;

    report_field(report, "source", NULL, REPORT_TEXT,
                 cell_text(sources[failures->first != NULL ? failures->first->at.source : DIAGNOSIS_NONE]));
    report_field(report, "failures_count", NULL, REPORT_COUNT, cell_unsigned(failures->total));
    report_field(report, "failed_bytes", NULL, REPORT_SIZE, cell_unsigned(failures->bytes));
    report_field(report, "allocations", NULL, REPORT_COUNT, cell_unsigned(failures->served));
    report_field(report, "made_good_count", NULL, REPORT_COUNT, cell_unsigned(failures->made_good));
    report_label(report, "failed", "%" PRIu64 " of %" PRIu64 " allocations%s%s", failures->total,
                 failures->served + failures->total, failures->total > 0 ? ", " : "",
                 failures->total > 0 ? output_size(&bytes, failures->bytes) : "");
    if (failures->made_good > 0)
        report_label(report, "made good", "%" PRIu64 " below, of which the program saw nothing", failures->made_good);
}

/* Tables for people have what explains the first failure; --all, --only and the other formats have each. */
static bool
failures_lists(const struct report *report, const struct failures_options *options)
{
    int format = report->options.format;

    return options->all || report->options.only != NULL || (format != REPORT_TABLE && format != REPORT_MARKDOWN);
}

static void
failures_report(struct view *view, struct report *report, const struct failures *failures, bool lists)
{
    const struct failure *first = failures->first;
    char more[512];

    failures_report_head(report, failures);
    if (first != NULL)
        failures_report_first(report, failures, first);
    else
        failures_report_no_first(report);
    if (first != NULL)
        failures_note_rest(report, failures, first);
    else
        report_note(report, "No allocation failed.");
    if (lists)
        failures_report_causes(report, failures);
    if (lists || failures_each_cause(report, failures, NULL) > 1)
        failures_report_refusers(report, failures);
    if (first != NULL)
        failures_report_held(report, failures);
    else
        report_no_table(report, "holders");
    if (first != NULL && first->at.source == DIAGNOSIS_CHUNKS && first->cause != FAILURE_PLANTED)
        failures_report_holes(report, failures);
    else
        report_no_table(report, "holes");
    if (lists || failures->made_good > 0)
        failures_report_groups(report, failures, true);
    if (lists)
        failures_report_groups(report, failures, false);
    if (lists)
        failures_report_list(view, report, failures);
    if (first != NULL) {
        failures_more(failures, first, more, sizeof(more));
        report_field(report, "more", NULL, REPORT_TEXT, cell_text(more));
        report_note(report, "`%s` says more.", more);
    }
}

static int
failures_analyse(struct view *view, struct report *report, const void *own)
{
    struct failures *failures = malloc(sizeof(*failures));
    int status;

    if (failures == NULL)
        return trace_broken(&view->trace, "no memory for its failures");
    command_subject(report, view);
    status = failures_make(view, failures);
    if (status == COMMAND_FINE) {
        failures_report(view, report, failures, failures_lists(report, own));
        failures_free(failures);
    }
    free(failures);
    return status;
}

const struct command command_failures = {
    .name = "failures",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Why an allocation failed, what was free then, and what would have sufficed",
    .help = "\n"
            "The first failure is explained; those that follow from it are counted. CAUSE is limit\n"
            "(a limit refused it), capacity (a pool was full: less was free and left of its maximum\n"
            "than was asked for), device full (the base had no more), fragmentation (enough was\n"
            "free or could still be reserved, but not in one piece), unused hole (a hole was large\n"
            "enough, and the pool did not take it), planted (by `fault`), request (no pool could\n"
            "have met it) or other. FREE and LARGEST HOLE are of the chunks that the trace has of\n"
            "this pool; without any, FREE is of the pool sample before. PINNED BY: the blocks of\n"
            "the chunk that has the least in use of those in which there would have been room.\n",
    .options = failures_option_defs,
    COMMAND_OWN(struct failures_options, .all = false),
    .common = OPTIONS_REPORT | OPTIONS_WINDOW | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = failures_analyse,
};
