/* Tables that several commands print. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/order.h"
#include "viewer/commands/tables.h"

int
tables_check_stacks(const struct view *view, const struct report *report, unsigned by)
{
    const struct filter_options *options = view->options;
    unsigned stacks = 1U << GROUPS_CALLSTACK | 1U << GROUPS_FUNCTION;

    if (options->stacks.frames > 0 && (by & stacks) == 0)
        message("tidemark %s: --frames is for groups by callstack or function", report->name);
    else if (options->stacks.skip.count > 0 && (by & (stacks | 1U << GROUPS_FILE)) == 0)
        message("tidemark %s: --skip is for groups by callstack, function or file", report->name);
    else if (options->depth > 0 && (by & 1U << GROUPS_TAG) == 0)
        message("tidemark %s: --depth is for groups by tag", report->name);
    else
        return COMMAND_FINE;
    return COMMAND_WRONG;
}

int
tables_by(const struct view *view, const struct report *report, int option, enum groups_by *by)
{
    *by = option >= 0 ? (enum groups_by)option : view->options->depth > 0 ? GROUPS_TAG : groups_default(&view->names);
    return tables_check_stacks(view, report, 1U << *by);
}

void
report_group_title(struct report *report, enum groups_by by)
{
    static const char *const titles[] = { "TAG",   "CALL STACK", "SIZE",       "SIZES", "STREAM", "THREAD",
                                          "LAYER", "DEVICE",     "CALL STACK", "FILE",  "KIND" };
    enum report_kind kind = groups_are_stacks(by) ? REPORT_STACK : by == GROUPS_SIZE ? REPORT_SIZE : REPORT_NAME;

    report_set_column(report, 0, (struct report_column){ NULL, titles[by], kind });
}

void
group_cells_make(const struct groups *groups, uint32_t number, struct group_cells *out)
{
    struct report_cell text = cell_text(groups_name(groups, number, out->buffer, sizeof(out->buffer)));
    uint64_t key = groups->keys[number];
    bool is_stack = groups_are_stacks(groups->by);

    out->words = groups->by == GROUPS_SIZE ? cell_unsigned(key) : text;
    out->name = is_stack ? cell_none() : text;
    out->callstack = is_stack && key != 0 ? text : cell_none();
    out->id = groups_has_id(groups, number) ? cell_unsigned(key) : cell_none();
    out->size = groups->by == GROUPS_SIZE ? cell_unsigned(key) : cell_none();
}

int
ranking_report(struct view *view, struct report *report, const struct ranking *ranking, void *context,
               struct ranking_rows *out)
{
    struct order *order = order_make(ranking->count, ranking->figure, context);

    *out = (struct ranking_rows){ 0 };
    if (order == NULL)
        return trace_broken(&view->trace, "no memory for the answer");
    for (size_t i = 0; i < ranking->count && (order[i].figure > 0 || i < ranking->always); i++) {
        if (i < ranking->limit) {
            ranking->row(report, context, order[i].number);
            out->shown_figures += order[i].figure;
            out->shown++;
        } else {
            out->left_figures += order[i].figure;
            out->left++;
        }
    }
    free(order);
    return COMMAND_FINE;
}

void
report_lives(struct report *report, const struct names *names, const struct top_lives *lives)
{
    static const struct report_column columns[] = {
        { "allocation_id", "ALLOCATION", REPORT_COUNT },
        { "size", "SIZE", REPORT_SIZE },
        { "address", "ADDRESS", REPORT_ADDRESS },
        { "alloc_ns", "ALLOCATED", REPORT_TIME },
        { "free_ns", "FREED", REPORT_TIME },
        { "tag_id", NULL, REPORT_COUNT },
        { "tag", "TAG", REPORT_NAME },
        { "callstack_id", NULL, REPORT_COUNT },
        { "callstack", "CALL STACK", REPORT_STACK },
        { "thread_id", NULL, REPORT_COUNT },
        { "thread", "THREAD", REPORT_TEXT },
        { "stream_id", NULL, REPORT_COUNT },
        { "stream", "STREAM", REPORT_TEXT },
    };

    REPORT_TABLE(report, "blocks", "Largest allocations", columns);
    report_spare(report, "thread stream address free_ns alloc_ns tag");
    for (size_t i = 0; i < lives->count; i++) {
        const struct scan_life *life = &lives->lives[i];
        char tag[GROUPS_NAME], stack[GROUPS_NAME], thread[GROUPS_NAME], stream[GROUPS_NAME];

        REPORT_ROW(report, cell_signed(life->allocation_id), cell_unsigned(life->size), cell_unsigned(life->address),
                   cell_signed(life->alloc_ns), life->freed ? cell_signed(life->free_ns) : cell_none(),
                   cell_id(life->tag_id),
                   life->tag_id != 0 ? cell_text(names_tag(names, life->tag_id, tag, sizeof(tag))) : cell_none(),
                   cell_id(life->callstack_id),
                   life->callstack_id != 0 ? cell_text(names_callstack(names, life->callstack_id, stack, sizeof(stack)))
                                           : cell_none(),
                   cell_id(life->alloc_thread_id),
                   cell_text(names_thread(names, life->alloc_thread_id, thread, sizeof(thread))),
                   cell_id(life->alloc_stream_id),
                   cell_text(names_stream(names, life->alloc_stream_id, stream, sizeof(stream))));
    }
}
