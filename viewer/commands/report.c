/* `tidemark report`: a trace or a job to look at, in one HTML file; or its data, as JSON. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/analysis/timeline.h"
#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/diff.h"
#include "viewer/commands/report-job.h"
#include "viewer/commands/training.h"
#include "viewer/read/joint.h"
#include "viewer/report/manifest.h"
#include "viewer/report/page.h"

struct report_own {
    const char *output;
    int detail; /* enum gather_details */
    bool no_names;
};

#define AT(field) offsetof(struct report_own, field)

static const struct option_def report_option_defs[] = {
    { "output", 'o', OPTION_TEXT, "FILE", "write the page to FILE; -: to standard output", AT(output), NULL, 0 },
    { "detail", 0, OPTION_CHOICE, "HOW", "small, normal or full: how much data the page has; normal", AT(detail),
      GATHER_DETAIL_CHOICES, 0 },
    { "no-names", 0, OPTION_FLAG, NULL, "leave out names: of tags, frames, threads, files and the command",
      AT(no_names), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/*
 * Who reads in which lane (viewer/read/joint.h). What is gathered for the page costs as much as the answers and the
 * timeline, if histogram, which reads once, is with it. The reading itself costs a third of either.
 */
enum { REPORT_LANE_ANSWERS = 1, REPORT_LANE_GATHER };

/* The commands whose answers are in the page. The verdict is that of the first. */
static const struct {
    const struct command *command;
    unsigned lane;
} report_commands[] = {
    { &command_summary, REPORT_LANE_ANSWERS },       { &command_peak, REPORT_LANE_ANSWERS },
    { &command_fragmentation, REPORT_LANE_ANSWERS }, { &command_histogram, REPORT_LANE_GATHER },
    { &command_top, REPORT_LANE_ANSWERS },           { &command_leaks, REPORT_LANE_ANSWERS },
    { &command_failures, REPORT_LANE_ANSWERS },      { &command_layers, REPORT_LANE_ANSWERS },
};

#define REPORT_COMMANDS (sizeof(report_commands) / sizeof(report_commands[0]))

/* The most rows of their tables. */
#define REPORT_ROWS 1000

/* The largest allocations that `peak` lists. */
#define REPORT_BLOCKS 50

/* What was reserved, so many times along the axis; of all memories together, unless there are very many. */
#define REPORT_COLUMNS        4096
#define REPORT_COLUMNS_ALL    (16 * REPORT_COLUMNS)
#define REPORT_COLUMNS_FEWEST 16

/* Those that read a trace have figures of each layer. Where it has more layers than this they read it one by one. */
#define REPORT_LAYERS_TOGETHER 16384

/* What a command answers. It changes the filter of its view, so it has one of its own. */
struct report_answer {
    const struct command *command;
    struct view view; /* borrows all but the filter */
    struct report report;
    _Alignas(max_align_t) char own[COMMAND_OWN_BYTES];
};

/* One trace: all that read it. */
struct report_trace {
    struct view view;
    struct joint joint;
    struct report_answer answers[REPORT_COMMANDS];
    struct manifest_answer answered[REPORT_COMMANDS];
    struct view timeline_view; /* borrows all but the filter, as the next */
    struct timeline timeline;
    bool has_timeline;
    struct view gather_view;
    struct gather gather;
    const struct gather_detail *detail;
};

/* A view of the same trace with a filter of its own. */
static int
report_view(const struct view *view, struct view *out)
{
    *out = *view;
    out->filter = (struct filter){ .active = false };
    return filter_make(&view->names, view->options, &out->filter);
}

/* Set an option of a command that takes a number. */
static void
report_set(struct report_answer *answer, const char *name, uint64_t value)
{
    for (const struct option_def *def = answer->command->options; def != NULL && def->name != NULL; def++) {
        if (strcmp(def->name, name) == 0)
            memcpy(answer->own + def->offset, &value, sizeof(value));
    }
}

static int
report_run_answer(void *context)
{
    struct report_answer *answer = context;
    bool limits = (answer->command->common & OPTIONS_LIMIT) != 0;
    const struct report_options options = { .format = REPORT_JSON, .limit = limits ? REPORT_ROWS : UINT64_MAX };

    if (answer->command->defaults != NULL)
        memcpy(answer->own, answer->command->defaults, answer->command->own_bytes);
    if (answer->command == &command_peak)
        report_set(answer, "blocks", REPORT_BLOCKS);
    report_begin(&answer->report, &options, answer->command->name);
    return answer->command->analyse(&answer->view, &answer->report, answer->own);
}

static int
report_last_event(void *context, const struct scan_life *life)
{
    int64_t *last_ns = context, ns = life->freed ? life->free_ns : life->alloc_ns;

    *last_ns = ns > *last_ns ? ns : *last_ns;
    return COMMAND_FINE;
}

/* The last event of all layers. A query would read all rows once more; this reading is that of the others, too. */
static int
report_find_last(const struct view *view, int64_t *last_ns)
{
    static const struct scan_unit unit = { .alloc = report_last_event };
    const struct scan_pass pass = { &unit, last_ns };

    *last_ns = 0;
    return scan_run(&view->trace, NULL, &pass, 1);
}

static int
report_run_timeline(void *context)
{
    struct report_trace *trace = context;
    struct reserved groups;
    int64_t last_ns;
    size_t count;
    int status = report_find_last(&trace->timeline_view, &last_ns);

    if (status == COMMAND_FINE)
        status = reserved_make_groups(&trace->timeline_view, &groups);
    if (status != COMMAND_FINE)
        return status;
    /* Every memory has all columns: those of 13,107 stacks took 4 GB. */
    count = groups.group_count <= REPORT_COLUMNS_ALL / REPORT_COLUMNS ? REPORT_COLUMNS
                                                                      : REPORT_COLUMNS_ALL / groups.group_count;
    reserved_free(&groups);
    count = count < REPORT_COLUMNS_FEWEST ? REPORT_COLUMNS_FEWEST : count;
    status = timeline_make(&trace->timeline_view, count, last_ns, &trace->timeline);
    trace->has_timeline = status == COMMAND_FINE;
    return status;
}

static int
report_run_gather(void *context)
{
    struct report_trace *trace = context;

    return gather_make(&trace->gather, &trace->gather_view, trace->detail);
}

/* Make a view for each that reads the trace. They share its readings. */
static int
report_views(struct report_trace *trace)
{
    int status = names_check_callstacks(&trace->view.names, NULL);

    trace->view.trace.share = &trace->joint.share;
    for (size_t i = 0; i < REPORT_COMMANDS && status == COMMAND_FINE; i++) {
        trace->answers[i].command = report_commands[i].command;
        status = report_view(&trace->view, &trace->answers[i].view);
    }
    if (status == COMMAND_FINE)
        status = report_view(&trace->view, &trace->timeline_view);
    return status == COMMAND_FINE ? report_view(&trace->view, &trace->gather_view) : status;
}

/* Read the trace, for all. COMMAND_FINE, or another status after a message. */
static int
report_read(struct report_trace *trace)
{
    struct joint_caller callers[REPORT_COMMANDS + 2];
    size_t count = 0, together;
    int status = report_views(trace);

    memset(callers, 0, sizeof(callers));
    for (size_t i = 0; i < REPORT_COMMANDS; i++)
        callers[count++] = (struct joint_caller){
            .run = report_run_answer,
            .context = &trace->answers[i],
            .lane = report_commands[i].lane,
        };
    callers[count++] =
        (struct joint_caller){ .run = report_run_timeline, .context = trace, .lane = REPORT_LANE_ANSWERS };
    callers[count++] = (struct joint_caller){ .run = report_run_gather, .context = trace, .lane = REPORT_LANE_GATHER };
    together = trace->view.layers.count > REPORT_LAYERS_TOGETHER ? 1 : count;
    for (size_t i = 0; i < count && status == COMMAND_FINE; i += together)
        status = joint_run(&trace->joint, &trace->view.trace, callers + i, together);
    trace->view.trace.share = NULL;
    for (size_t i = 0; i < REPORT_COMMANDS && status == COMMAND_FINE; i++) {
        bool answered = callers[i].status == COMMAND_FINE || callers[i].status == COMMAND_FINDING;

        trace->answered[i] = (struct manifest_answer){
            .command = trace->answers[i].command->name,
            .report = answered && !trace->answers[i].report.failed ? &trace->answers[i].report : NULL,
        };
    }
    return status == COMMAND_FINE ? callers[count - 1].status : status;
}

/* Open the trace at `path` and read it. Call report_close in any case. */
static int
report_open(struct report_trace *trace, const struct invocation *call, const char *path)
{
    const struct report_own *own = (const struct report_own *)call->own;
    int status;

    trace->detail = &gather_details[own->detail];
    joint_begin(&trace->joint);
    status = view_open(&trace->view, &call->common.filter, path);
    if (status == COMMAND_FINE)
        status = report_read(trace);
    return status;
}

static void
report_close(struct report_trace *trace)
{
    for (size_t i = 0; i < REPORT_COMMANDS; i++) {
        report_end(&trace->answers[i].report);
        filter_free(&trace->answers[i].view.filter);
    }
    if (trace->has_timeline)
        timeline_free(&trace->timeline);
    filter_free(&trace->timeline_view.filter);
    gather_free(&trace->gather);
    filter_free(&trace->gather_view.filter);
    view_close(&trace->view);
    joint_end(&trace->joint);
}

/* Words that commands choose from fixed lists. Kinds of layers and of memory are among them, but no program's own. */
static bool
report_keeps(const char *name, const char *text)
{
    static const char *const words[] = {
        "cause",           "ended",  "figure", "held_by", "moment",       "pass",
        "reserved_source", "source", "status", "step",    "steps_source", "sufficient"
    };

    if (name == NULL || text == NULL)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i], name) == 0)
            return true;
    }
    if (strcmp(name, "memory") == 0 || strcmp(name, "memory_name") == 0)
        return layer_kind_is_words(text);
    /* What is wasted is "reserved of" a memory, where the trace has several. */
    if (strcmp(name, "what") == 0)
        return strncmp(text, "reserved of ", strlen("reserved of ")) != 0;
    return strcmp(name, "kind") == 0 &&
           (layer_kind_find(text, "kind=plain")->role != LAYER_OTHER || training_is_kind(text));
}

/* Write the manifest of one trace. */
static int
report_put(struct report_trace *trace, struct blocks *blocks, const struct report *diff, bool no_names)
{
    const struct manifest manifest = {
        .blocks = blocks,
        .gather = &trace->gather,
        .timeline = trace->has_timeline ? &trace->timeline : NULL,
        .answers = trace->answered,
        .answer_count = REPORT_COMMANDS,
        .diff = diff,
        .no_names = no_names,
    };

    for (size_t i = 0; i < REPORT_COMMANDS && no_names; i++)
        report_hide_texts(&trace->answers[i].report, report_keeps);
    return manifest_write(&manifest);
}

/* Compare the traces, with filters of their own. `out` is ended by the caller. */
static int
report_compare(const struct report_trace *a, const struct report_trace *b, bool no_names, struct report *out)
{
    const struct report_options options = { .format = REPORT_JSON, .limit = REPORT_ROWS };
    struct view views[2] = { { .options = NULL }, { .options = NULL } };
    int status = report_view(&a->view, &views[0]);

    if (status == COMMAND_FINE)
        status = report_view(&b->view, &views[1]);
    if (status == COMMAND_FINE)
        status = diff_answer(&views[0], &views[1], &options, out);
    if (no_names)
        report_hide_texts(out, report_keeps);
    filter_free(&views[0].filter);
    filter_free(&views[1].filter);
    return status == COMMAND_FINDING ? COMMAND_FINE : status;
}

/* Write the manifests of the traces, the second within the first. */
static int
report_put_all(struct report_trace *traces, int count, struct blocks *blocks, bool no_names)
{
    struct report diff = { 0 };
    int status = count > 1 ? report_compare(&traces[0], &traces[1], no_names, &diff) : COMMAND_FINE;

    json_begin(&blocks->json, '{');
    if (status == COMMAND_FINE)
        status = report_put(&traces[0], blocks, count > 1 ? &diff : NULL, no_names);
    if (status == COMMAND_FINE && count > 1) {
        json_key(&blocks->json, "second");
        json_begin(&blocks->json, '{');
        status = report_put(&traces[1], blocks, NULL, no_names);
        json_end(&blocks->json, '}');
    }
    json_end(&blocks->json, '}');
    report_end(&diff);
    return status;
}

static void
report_write_blocks(struct blocks *blocks, enum page_kind kind, bool is_json, struct emit *out)
{
    if (!is_json) {
        page_write(kind, blocks, out);
        return;
    }
    emit_bytes(out, blocks->text.buffer, blocks->text.used);
    emit_bytes(out, "\n", 1);
}

static int
report_write(struct report_trace *traces, const struct invocation *call, struct emit *out)
{
    const struct report_own *own = (const struct report_own *)call->own;
    bool is_json = call->common.report.format == REPORT_JSON;
    struct blocks blocks;
    int status = COMMAND_FINE;

    for (int i = 0; i < call->count && status == COMMAND_FINE; i++)
        status = report_open(&traces[i], call, call->arguments[i]);
    if (status == COMMAND_FINE)
        status = blocks_begin(&blocks, is_json);
    if (status != COMMAND_FINE)
        return status;
    status = report_put_all(traces, call->count, &blocks, own->no_names);
    if (status == COMMAND_FINE)
        report_write_blocks(&blocks, PAGE_TRACE, is_json, out);
    blocks_free(&blocks);
    return status;
}

static int
report_write_job(const struct invocation *call, struct emit *out)
{
    const struct report_own *own = (const struct report_own *)call->own;
    bool is_json = call->common.report.format == REPORT_JSON;
    struct blocks blocks;
    int status = blocks_begin(&blocks, is_json);

    if (status != COMMAND_FINE)
        return status;
    status = report_job_write(call, own->detail, own->no_names, &blocks);
    if (status != COMMAND_WRONG)
        report_write_blocks(&blocks, PAGE_JOB, is_json, out);
    blocks_free(&blocks);
    return status;
}

/* Write the page of the traces, or of the job. */
static int
report_write_page(struct report_trace *traces, const struct invocation *call, const char *path)
{
    struct emit out;
    int status = emit_open(&out, path, false);

    if (status != COMMAND_FINE)
        return status;
    if (report_is_job(call))
        return emit_close(&out, report_write_job(call, &out));
    status = emit_close(&out, report_write(traces, call, &out));
    for (int i = 0; i < call->count && status != COMMAND_WRONG; i++) {
        int verdict = trace_verdict(&traces[i].view.trace);

        status = status == COMMAND_FINE ? verdict : status;
    }
    return status;
}

static int
report_run(struct invocation *call)
{
    const struct report_own *own = (const struct report_own *)call->own;
    const char *path = own->output != NULL && strcmp(own->output, "-") != 0 ? own->output : NULL;
    struct report_trace *traces;
    int status;

    if (call->count < 1)
        return command_misused(call->command, "which trace?");
    if (call->count > 2)
        return command_misused(call->command, "two traces at most");
    if (own->output == NULL && call->common.report.format != REPORT_JSON)
        return command_misused(call->command,
                               "where to? -o FILE makes an HTML page, -o - writes it to standard output");
    traces = calloc(2, sizeof(*traces));
    if (traces == NULL) {
        message("tidemark report: no memory");
        return COMMAND_WRONG;
    }
    status = report_write_page(traces, call, path);
    for (int i = 0; i < call->count; i++) {
        if (traces[i].view.options != NULL)
            report_close(&traces[i]);
    }
    free(traces);
    return status;
}

const struct command command_report = {
    .name = "report",
    .arguments = "[OPTIONS] -o FILE TRACE|JOB [B]",
    .purpose = "A trace to look at: one HTML file, for any browser, without a network",
    .help = "\n"
            "The page has the verdict, what was live over time, the address map, what lived at any of\n"
            "a thousand instants, and the tables of summary, peak, fragmentation, histogram, top, leaks,\n"
            "failures and layers. With a second trace it has both, and the tables of diff. JOB is the file\n"
            "of a job, which `tidemark merge` makes: its page has all ranks over time and over steps, each\n"
            "beside the others, and what ranks says of them. --json prints the data instead.\n",
    .wanted = &(const struct command_arguments){ -1, NULL, NULL },
    .options = report_option_defs,
    COMMAND_OWN(struct report_own, .detail = GATHER_NORMAL),
    .common = OPTIONS_FILTER | OPTIONS_JSON,
    .run = report_run,
};
