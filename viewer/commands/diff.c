/* `tidemark diff`: whether the second of two traces is worse than the first, and which groups changed. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/analysis/snapshot.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/base/output.h"

struct diff_options {
    int by; /* enum groups_by; -1: all that the traces have */
    double tolerance;
};

#define AT(field) offsetof(struct diff_options, field)

static const struct option_def diff_option_defs[] = {
    { "by", 'b', OPTION_CHOICE, "WHAT",
      "align by tag, callstack, function (call stacks without lines), file (of the\n"
      "innermost frame), size, class (of sizes, powers of two), stream, thread,\n"
      "layer, device or kind (of memory) alone; else by function, tag and size",
      AT(by), GROUPS_CHOICES, 0 },
    { "tolerance", 0, OPTION_SHARE, "SHARE", "how much higher a peak is not worse yet; 0%", AT(tolerance), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

struct diff {
    struct view a_view;
    struct view b_view;
    struct report report;
    struct snapshot a;
    struct snapshot b;
    struct snapshot_memories memories;
    const char *memory; /* borrows; that the next figure is of; NULL: of all */
    double tolerance;
    bool worse;
    char why[512]; /* the figures that are worse, for a sentence */
};

/* Compare one figure: `name` is for programs, `words` for people. `judged`: a higher figure is worse. */
static void
diff_report_figure(struct diff *diff, const char *name, const char *words, enum report_kind kind, bool judged,
                   uint64_t a, uint64_t b)
{
    bool worse = judged && snapshot_exceeds(a, b, diff->tolerance);
    char texts[3][64];
    const struct report_cell cells[3] = { cell_unsigned(a), cell_unsigned(b), cell_unsigned(b - a) };
    struct output_figure figure;
    struct report_cell change = kind == REPORT_TIME || a == b ? cell_none() : cell_text(texts[2]);
    char of[160];

    snprintf(of, sizeof(of), diff->memory != NULL ? "%s (%s)" : "%s", words, diff->memory);
    for (size_t i = 0; i < 3; i++)
        report_words(i < 2 ? kind : REPORT_CHANGE, &cells[i], texts[i], sizeof(texts[i]));
    for (size_t i = 0; kind == REPORT_SIZE && i < 2; i++)
        snprintf(texts[i], sizeof(texts[i]), "%s", output_size_beside(&figure, cells[i].integer, cells[1 - i].integer));
    if (kind == REPORT_COUNT)
        snprintf(texts[2], sizeof(texts[2]), "%+" PRId64, (int64_t)(b - a));
    REPORT_ROW(&diff->report, cell_text(name), cell_text(of), cell_text(texts[0]), cell_text(texts[1]), change,
               cells[0], cells[1], cells[2], cell_share((double)b - (double)a, (double)a),
               judged ? cell_unsigned(worse) : cell_none(), cell_text(diff->memory));
    if (worse) {
        size_t length = strlen(diff->why);

        snprintf(diff->why + length, sizeof(diff->why) - length, "%s%s %s", diff->worse ? ", " : "", of, texts[2]);
        diff->worse = true;
    }
}

/* Whether the traces have several kinds of memory, or stacks, each of which has rows of its own. */
static bool
diff_is_parted(const struct diff *diff)
{
    return diff->memories.list[0].name != NULL;
}

/* A figure of each memory: "peak (GPU 0)", or "peak" where there is one memory alone. */
static void
diff_report_memory(struct diff *diff, const struct snapshot_memory *memory)
{
    bool is_known = memory->a_most.source != RESERVED_UNKNOWN && memory->b_most.source != RESERVED_UNKNOWN;
    bool is_exact = memory->a_most.is_exact && memory->b_most.is_exact;

    diff->memory = memory->name;
    diff_report_figure(diff, "peak_bytes", "peak", REPORT_SIZE, true, memory->a_peak_bytes, memory->b_peak_bytes);
    if (is_known)
        diff_report_figure(diff, "reserved_peak_bytes", is_exact ? "peak reserved" : "peak reserved, at least",
                           REPORT_SIZE, snapshot_judges_reserved(memory), memory->a_most.peak_bytes,
                           memory->b_most.peak_bytes);
    diff->memory = NULL;
}

/* What is said of the bytes that are live in the end: how both programs ended, where that is the same. */
static const char *
diff_live_words(const struct diff *diff)
{
    const char *a = view_live_words(&diff->a_view), *b = view_live_words(&diff->b_view);

    return strcmp(a, b) == 0 ? b : "live in the end";
}

static void
diff_report_figures(struct diff *diff)
{
    static const struct report_column columns[] = {
        { "figure", NULL, REPORT_TEXT },   { NULL, "", REPORT_TEXT },         { NULL, "A", REPORT_FIGURE },
        { NULL, "B", REPORT_FIGURE },      { NULL, "CHANGE", REPORT_FIGURE }, { "a", NULL, REPORT_COUNT },
        { "b", NULL, REPORT_COUNT },       { "change", NULL, REPORT_COUNT },  { "change_share", "", REPORT_SHARE },
        { "worse", "WORSE", REPORT_FLAG }, { "memory", NULL, REPORT_TEXT },
    };
    const struct snapshot *a = &diff->a, *b = &diff->b;

    REPORT_TABLE(&diff->report, "figures", NULL, columns);
    report_spare(&diff->report, "change_share worse #4");
    if (diff_is_parted(diff))
        diff_report_figure(diff, "peak_bytes", "peak of all together", REPORT_SIZE, false, a->all.peak_bytes,
                           b->all.peak_bytes);
    for (size_t i = 0; i < diff->memories.count; i++)
        diff_report_memory(diff, &diff->memories.list[i]);
    diff_report_figure(diff, "failures", "failures", REPORT_COUNT, true, a->all.failures, b->all.failures);
    for (size_t i = 0; i < diff->memories.count; i++) {
        const struct snapshot_memory *memory = &diff->memories.list[i];

        diff->memory = memory->name;
        diff_report_figure(diff, "live_bytes", diff_live_words(diff), REPORT_SIZE, false, memory->a_live_bytes,
                           memory->b_live_bytes);
        diff->memory = NULL;
    }
    diff_report_figure(diff, "live_count", "in allocations", REPORT_COUNT, false, a->all.live_count, b->all.live_count);
    diff_report_figure(diff, "allocations", "allocations", REPORT_COUNT, false, a->all.allocations, b->all.allocations);
    diff_report_figure(diff, "total_bytes", "allocated", REPORT_SIZE, false, a->all.bytes, b->all.bytes);
    diff_report_figure(diff, "duration_ns", "recorded", REPORT_TIME, false, (uint64_t)a->end_ns, (uint64_t)b->end_ns);
}

/* Say how each program ended, where that is not the same. */
static void
diff_note_ends(struct diff *diff)
{
    const char *a = view_live_words(&diff->a_view), *b = view_live_words(&diff->b_view);

    if (strcmp(a, b) != 0)
        report_note(&diff->report, "Live in the end: of A it is what was %s, of B what was %s.", a, b);
}

static void
diff_note_verdict(struct diff *diff)
{
    char allowed[48] = "";

    if (diff->tolerance > 0)
        snprintf(allowed, sizeof(allowed), ", with a tolerance of %.3g%%", 100 * diff->tolerance);
    if (diff->worse)
        report_note(&diff->report, "B is worse than A%s: %s.", allowed, diff->why);
    else
        report_note(&diff->report, "B is no worse than A%s.", allowed);
}

/* Say which group changed most in the direction of the peak. */
static void
diff_note_change(struct diff *diff, const struct align *align, enum groups_by by)
{
    struct report *report = &diff->report;
    uint64_t a = diff->a.all.peak_bytes, b = diff->b.all.peak_bytes;
    struct output_figure change_figure, own_figure;
    const struct align_row *most = NULL;
    char name[GROUPS_NAME];
    int64_t change;

    for (size_t i = 0; i < align->count && most == NULL; i++) {
        if ((align_change(&align->rows[i]) > 0) == (b > a))
            most = &align->rows[i];
    }
    if (a == b || most == NULL)
        return;
    change = align_change(most);
    report_note(report, "The peak%s is %s %s; %s %s has %s %s at it.", diff_is_parted(diff) ? " of all together" : "",
                output_size(&change_figure, b > a ? b - a : a - b), b > a ? "higher" : "lower", groups_word(by),
                align_brief(most, by, name, sizeof(name)),
                output_size(&own_figure, change < 0 ? (uint64_t)-change : (uint64_t)change),
                change < 0 ? "less" : "more");
}

/* The tables by enum groups_by. */
static const char *const diff_tables[] = { "tags",   "callstacks", "sizes",      "classes", "streams", "threads",
                                           "layers", "devices",    "callstacks", "files",   "kinds" };
_Static_assert(sizeof(diff_tables) / sizeof(diff_tables[0]) == GROUPS_KINDS, "each grouping has a table");

static int
diff_report_groups(struct diff *diff, size_t by, bool first)
{
    static const struct report_column columns[] = {
        { NULL, "", REPORT_NAME },
        { "name", NULL, REPORT_TEXT },
        { "callstack", NULL, REPORT_STACK },
        { "size", NULL, REPORT_SIZE },
        { "change_bytes", "CHANGE", REPORT_CHANGE },
        { "a_bytes", "A", REPORT_SIZE },
        { "b_bytes", "B", REPORT_SIZE },
        { "a_count", "IN A", REPORT_COUNT },
        { "b_count", "IN B", REPORT_COUNT },
    };
    enum groups_by what = diff->a.by[by].groups.by;
    struct report *report = &diff->report;
    uint64_t limit = report->options.limit;
    struct output_figure figure;
    struct align align;
    uint64_t left_count = 0;
    int64_t left = 0;
    size_t shown = 0;

    if (align_make(&diff->a, &diff->b, by, &align) != COMMAND_FINE)
        return COMMAND_WRONG;
    REPORT_TABLE(report, diff_tables[what],
                 !first                 ? NULL
                 : diff_is_parted(diff) ? "What was live at the two peaks of all together"
                                        : "What was live at the two peaks",
                 columns);
    report_group_title(report, what);
    report_spare(report, "a_count b_count a_bytes b_bytes");
    for (size_t i = 0; i < align.count; i++) {
        const struct align_row *row = &align.rows[i];
        struct report_cell words, text;
        char name[GROUPS_NAME];

        if (align_change(row) == 0)
            continue;
        if (shown >= limit) {
            left += align_change(row);
            left_count++;
            continue;
        }
        shown++;
        text = cell_text(align_name(row, name, sizeof(name)));
        words = what == GROUPS_SIZE ? cell_unsigned(row->size) : text;
        REPORT_ROW(report, words, groups_are_stacks(what) ? cell_none() : text,
                   groups_are_stacks(what) && strcmp(text.text, "(none)") != 0 ? text : cell_none(),
                   row->name == NULL ? cell_unsigned(row->size) : cell_none(), cell_signed(align_change(row)),
                   cell_unsigned(row->a.bytes), cell_unsigned(row->b.bytes), cell_unsigned(row->a.count),
                   cell_unsigned(row->b.count));
    }
    report_rest(report, left_count, cell_none());
    if (left != 0)
        report_note(report, "Those by %s that are not listed change it by %s%s.", groups_word(what),
                    left < 0 ? "-" : "+", output_size(&figure, left < 0 ? (uint64_t)-left : (uint64_t)left));
    if (first)
        diff_note_change(diff, &align, what);
    align_free(&align);
    return COMMAND_FINE;
}

/* Programs find every table; those of groups that were not compared have no rows. */
static void
diff_report_others(struct diff *diff, const enum groups_by *by, size_t count)
{
    for (size_t i = 0; i < GROUPS_KINDS; i++) {
        bool compared = i == GROUPS_FUNCTION; /* its table is that of call stacks */

        for (size_t j = 0; j < count; j++)
            compared = compared || strcmp(diff_tables[by[j]], diff_tables[i]) == 0;
        if (!compared)
            report_no_table(&diff->report, diff_tables[i]);
    }
}

static int
diff_report(struct diff *diff, const enum groups_by *by, size_t count)
{
    int status = snapshot_pair(&diff->a, &diff->b, &diff->memories);

    if (status != COMMAND_FINE)
        return status;
    diff_report_figures(diff);
    diff_note_verdict(diff);
    diff_note_ends(diff);
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++)
        status = diff_report_groups(diff, i, i == 0);
    diff_report_others(diff, by, count);
    snapshot_memories_free(&diff->memories);
    return status;
}

static int
diff_compare(struct diff *diff, const struct diff_options *options)
{
    enum groups_by by[SNAPSHOT_GROUPS];
    size_t count = 0;
    unsigned bits = 0;
    int status;

    if (options->by >= 0)
        by[count++] = (enum groups_by)options->by;
    else
        count = snapshot_groups_default(&diff->a_view.names, &diff->b_view.names, by);
    diff->tolerance = options->tolerance;
    status = names_check_callstacks(&diff->a_view.names, &diff->b_view.names);
    for (size_t i = 0; i < count; i++)
        bits |= 1U << by[i];
    if (status == COMMAND_FINE)
        status = tables_check_stacks(&diff->b_view, &diff->report, bits);
    if (status != COMMAND_FINE)
        return status;
    report_field(&diff->report, "a", "A", REPORT_TEXT, cell_text(diff->a_view.trace.path));
    report_field(&diff->report, "b", "B", REPORT_TEXT, cell_text(diff->b_view.trace.path));
    command_subject(&diff->report, &diff->b_view);
    status = snapshot_make(&diff->a_view, by, count, &diff->a);
    if (status != COMMAND_FINE)
        return status;
    status = snapshot_make(&diff->b_view, by, count, &diff->b);
    if (status == COMMAND_FINE) {
        status = diff_report(diff, by, count);
        snapshot_free(&diff->b);
    }
    snapshot_free(&diff->a);
    return status == COMMAND_FINE && diff->worse ? COMMAND_FINDING : status;
}

static int
diff_run(struct invocation *call)
{
    static struct diff diff;
    int verdict;
    int status = view_open(&diff.a_view, &call->common.filter, call->arguments[0]);

    if (status != COMMAND_FINE)
        return status;
    status = view_open(&diff.b_view, &call->common.filter, call->arguments[1]);
    if (status == COMMAND_FINE) {
        report_begin(&diff.report, &call->common.report, call->command->name);
        status = diff_compare(&diff, (const struct diff_options *)call->own);
        verdict = status == COMMAND_WRONG ? COMMAND_FINE : trace_verdict(&diff.a_view.trace);
        status = command_finish(&diff.b_view, &diff.report, status);
        if (verdict != COMMAND_FINE && status != COMMAND_WRONG)
            status = verdict;
    }
    view_close(&diff.a_view);
    return status;
}

const struct command command_diff = {
    .name = "diff",
    .arguments = "[OPTIONS] A B",
    .purpose = "Whether trace B is worse than trace A, and what the change in its peak consists of",
    .help = "\n"
            "It is worse where its peak, the peak of its reserved bytes or the number of its failures\n"
            "is higher by more than the tolerance; the exit status is 1 then. Each stack and kind of\n"
            "memory is compared by itself. The changes of all\n"
            "groups, each what it had live at the peak of B less what it had at that of A, add up to\n"
            "the change of the peak. Call stacks are the same where their functions are, so that a line\n"
            "that was inserted changes nothing; with --by=callstack lines of the same functions are\n"
            "aligned in their order.\n",
    .wanted = &(const struct command_arguments){ 2, "which trace?", "two of trace, no more" },
    .options = diff_option_defs,
    COMMAND_OWN(struct diff_options, .by = -1),
    .common = OPTIONS_REPORT | OPTIONS_FILTER | OPTIONS_STACKS | OPTIONS_LIMIT,
    .run = diff_run,
};
