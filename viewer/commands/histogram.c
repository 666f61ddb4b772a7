/* `tidemark histogram`: the distributions of sizes and lifetimes. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/base/output.h"
#include "viewer/analysis/histogram.h"

#define HISTOGRAM_BAR 20

/* The places of columns that not every table has. */
#define HISTOGRAM_FROM      1
#define HISTOGRAM_SIZE      2
#define HISTOGRAM_MEAN_LIFE 9
#define HISTOGRAM_LIVE      10

static const struct report_column histogram_hidden = { NULL, NULL, REPORT_COUNT };

/* In the order of HISTOGRAM_CHOICES. */
enum histogram_of {
    HISTOGRAM_COUNT,
    HISTOGRAM_BYTES,
    HISTOGRAM_BYTE_SECONDS,
};

#define HISTOGRAM_CHOICES "count|bytes|byte-seconds"

struct histogram_options {
    int of; /* enum histogram_of */
    bool ascii;
};

#define AT(field) offsetof(struct histogram_options, field)

static const struct option_def histogram_option_defs[] = {
    { "of", 0, OPTION_CHOICE, "FIGURE",
      "what the bars are of, and the order of exact sizes: count, bytes or\n"
      "byte-seconds; count",
      AT(of), HISTOGRAM_CHOICES, 0 },
    { "ascii", 0, OPTION_FLAG, NULL, "bars of plain characters, as where the locale has no others", AT(ascii), NULL,
      0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/* The context of all tables. */
struct histogram_tables {
    struct report *report;
    const struct histogram *histogram;
    enum histogram_of of;
    bool ascii;
    double longest;       /* the figure of the longest bar of the current table */
    uint64_t shown_bytes; /* of the exact sizes that have a row */
};

static double
histogram_figure(enum histogram_of of, const struct tally *tally)
{
    return of == HISTOGRAM_COUNT   ? (double)tally->allocations
           : of == HISTOGRAM_BYTES ? (double)tally->bytes
                                   : (double)tally->byte_ns;
}

/* Begin the table of `count` rows. */
static void
histogram_begin(struct histogram_tables *tables, const char *name, const char *title, const struct tally *rows,
                size_t count)
{
    static const struct report_column columns[] = {
        { NULL, "SIZES", REPORT_TEXT },
        { "from_bytes", NULL, REPORT_SIZE },
        { "size", "SIZE", REPORT_SIZE },
        { "allocations", "COUNT", REPORT_COUNT },
        { "allocations_share", "", REPORT_SHARE },
        { "total_bytes", "BYTES", REPORT_SIZE },
        { "total_share", "", REPORT_SHARE },
        { "byte_seconds", NULL, REPORT_REAL },
        { "byte_seconds_share", "BYTE-SECONDS", REPORT_SHARE },
        { "mean_life_ns", "MEAN LIFE", REPORT_TIME },
        { "live_count", "LIVE", REPORT_COUNT },
        { NULL, "", REPORT_TEXT },
    };

    tables->longest = 0;
    for (size_t i = 0; i < count; i++) {
        double figure = histogram_figure(tables->of, &rows[i]);

        tables->longest = figure > tables->longest ? figure : tables->longest;
    }
    REPORT_TABLE(tables->report, name, title, columns);
    report_spare(tables->report, "live_count mean_life_ns total_share byte_seconds_share #11 allocations_share");
}

/* A bar of HISTOGRAM_BAR characters, `share` of it filled, of block characters or of ASCII. */
static const char *
histogram_bar(double share, bool ascii, char buffer[3 * HISTOGRAM_BAR + 1])
{
    static const char *const parts[] = { "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
    size_t eighths = (size_t)(share * 8 * HISTOGRAM_BAR + 0.5);
    char *end = buffer;

    if (eighths > 8 * HISTOGRAM_BAR)
        eighths = 8 * HISTOGRAM_BAR;
    if (share > 0 && eighths == 0)
        eighths = 1;
    for (; eighths > 0; eighths -= eighths < 8 ? eighths : 8)
        end = stpcpy(end, ascii ? "#" : parts[eighths < 8 ? eighths - 1 : 7]);
    *end = '\0';
    return buffer;
}

static void
histogram_row(const struct histogram_tables *tables, const char *name, struct report_cell from, struct report_cell size,
              const struct tally *tally)
{
    const struct tally *all = &tables->histogram->exact.all;
    double share = tables->longest > 0 ? histogram_figure(tables->of, tally) / tables->longest : 0;
    char bar[3 * HISTOGRAM_BAR + 1];

    REPORT_ROW(tables->report, cell_text(name), from, size, cell_unsigned(tally->allocations),
               cell_share((double)tally->allocations, (double)all->allocations), cell_unsigned(tally->bytes),
               cell_share((double)tally->bytes, (double)all->bytes), cell_real((double)tally->byte_ns / 1e9),
               cell_share((double)tally->byte_ns, (double)all->byte_ns),
               tally->frees > 0 ? cell_signed(tally_mean_life(tally)) : cell_none(), cell_unsigned(tally->live_count),
               cell_text(histogram_bar(share, tables->ascii, bar)));
}

static void
histogram_report_classes(struct histogram_tables *tables)
{
    const struct tally *classes = tables->histogram->classes;
    char name[GROUPS_NAME];

    histogram_begin(tables, "sizes", "Sizes", classes, HISTOGRAM_CLASSES);
    report_set_column(tables->report, HISTOGRAM_SIZE, histogram_hidden);
    for (unsigned i = 0; i < HISTOGRAM_CLASSES; i++) {
        uint64_t from = i == 0 ? 0 : UINT64_C(1) << (i - 1);

        if (classes[i].allocations > 0)
            histogram_row(tables, groups_class_name(i, name, sizeof(name)), cell_unsigned(from), cell_none(),
                          &classes[i]);
    }
}

static uint64_t
histogram_exact_figure(const void *context, uint32_t number)
{
    const struct histogram_tables *tables = context;
    const struct tally *tally = &tables->histogram->exact.list[number];

    return tables->of == HISTOGRAM_COUNT   ? tally->allocations
           : tables->of == HISTOGRAM_BYTES ? tally->bytes
                                           : tally_byte_order(tally);
}

static void
histogram_exact_row(struct report *report, void *context, uint32_t number)
{
    struct histogram_tables *tables = context;
    const struct tallies *exact = &tables->histogram->exact;

    (void)report;
    tables->shown_bytes += exact->list[number].bytes;
    histogram_row(tables, NULL, cell_none(), cell_unsigned(exact->groups.keys[number]), &exact->list[number]);
}

static int
histogram_report_exact(struct view *view, struct histogram_tables *tables)
{
    const struct tallies *exact = &tables->histogram->exact;
    const struct ranking ranking = { exact->groups.count, SIZE_MAX, tables->report->options.limit,
                                     histogram_exact_figure, histogram_exact_row };
    struct ranking_rows rows;
    int status;

    histogram_begin(tables, "exact", "Exact sizes", exact->list, exact->groups.count);
    report_set_column(tables->report, HISTOGRAM_FROM, histogram_hidden);
    status = ranking_report(view, tables->report, &ranking, tables, &rows);
    report_rest(tables->report, rows.left, cell_unsigned(exact->all.bytes - tables->shown_bytes));
    if (rows.left > 0)
        report_note(tables->report, "%llu more sizes.", (unsigned long long)rows.left);
    return status;
}

/* The lowest lifetime of a bin, a power of ten: "10 us". */
static const char *
histogram_time_name(unsigned bin, char *buffer, size_t size)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    uint64_t value = histogram_time_begin(bin);
    unsigned unit = 0;

    for (; unit < 3 && value >= 1000; unit++)
        value /= 1000;
    snprintf(buffer, size, "%llu %s", (unsigned long long)value, units[unit]);
    return buffer;
}

static const char *
histogram_bin_name(bool times, unsigned bin, char *buffer, size_t size)
{
    char from[32], to[32];

    if (times && bin == 0)
        return "0 ns";
    if (times)
        snprintf(buffer, size, "%s to %s", histogram_time_name(bin, from, sizeof(from)),
                 bin + 1 < HISTOGRAM_TIMES ? histogram_time_name(bin + 1, to, sizeof(to)) : "...");
    else if (bin < 2)
        snprintf(buffer, size, "%u", bin);
    else
        snprintf(buffer, size, "%llu to %llu", 1ull << (bin - 1), (1ull << (bin - 1)) * 2 - 1);
    return buffer;
}

static struct tally
histogram_bin_tally(const struct histogram_bin *bin)
{
    return (struct tally){ .allocations = bin->count, .bytes = bin->bytes, .byte_ns = bin->byte_ns };
}

/* Lifetimes, in time or in events. Allocations that are live at the end have a row of their own. */
static void
histogram_report_bins(struct histogram_tables *tables, bool times)
{
    const struct histogram *histogram = tables->histogram;
    const struct histogram_bin *bins = times ? histogram->times : histogram->events;
    unsigned count = times ? HISTOGRAM_TIMES : HISTOGRAM_EVENTS;
    struct tally rows[HISTOGRAM_EVENTS + 1];
    char name[80];

    for (unsigned i = 0; i < count; i++)
        rows[i] = histogram_bin_tally(&bins[i]);
    rows[count] = histogram_bin_tally(&histogram->live);
    histogram_begin(tables, times ? "lifetimes" : "lifetimes_events",
                    times ? "Lifetimes" : "Lifetimes in events between the allocation and its free", rows, count + 1);
    report_set_column(tables->report, 0, (struct report_column){ NULL, times ? "LIVED" : "EVENTS", REPORT_TEXT });
    report_set_column(tables->report, HISTOGRAM_FROM,
                      (struct report_column){ times ? "from_ns" : "from_events", NULL, REPORT_COUNT });
    report_set_column(tables->report, HISTOGRAM_SIZE, histogram_hidden);
    report_set_column(tables->report, HISTOGRAM_MEAN_LIFE, histogram_hidden);
    report_set_column(tables->report, HISTOGRAM_LIVE, histogram_hidden);
    for (unsigned i = 0; i < count; i++) {
        uint64_t from = times ? histogram_time_begin(i) : i == 0 ? 0 : UINT64_C(1) << (i - 1);

        if (bins[i].count > 0)
            histogram_row(tables, histogram_bin_name(times, i, name, sizeof(name)), cell_unsigned(from), cell_none(),
                          &rows[i]);
    }
    if (histogram->live.count > 0)
        histogram_row(tables, "to the end", cell_none(), cell_none(), &rows[count]);
}

static int
histogram_analyse(struct view *view, struct report *report, const void *own)
{
    const struct histogram_options *options = own;
    struct histogram *histogram = malloc(sizeof(*histogram));
    struct histogram_tables tables = {
        .report = report,
        .histogram = histogram,
        .of = (enum histogram_of)options->of,
        .ascii = options->ascii || output_is_ascii(),
    };
    int status;

    command_subject(report, view);
    status = histogram != NULL ? histogram_make(view, histogram) : trace_broken(&view->trace, "no memory");
    if (status == COMMAND_FINE) {
        const struct tallies *exact = &histogram->exact;

        report_field(report, "allocations", "allocations", REPORT_COUNT, cell_unsigned(exact->all.allocations));
        report_field(report, "total_bytes", "bytes", REPORT_SIZE, cell_unsigned(exact->all.bytes));
        report_field(report, "sizes_count", "different sizes", REPORT_COUNT, cell_unsigned(exact->groups.count));
        histogram_report_classes(&tables);
        status = histogram_report_exact(view, &tables);
        histogram_report_bins(&tables, true);
        histogram_report_bins(&tables, false);
        histogram_free(histogram);
    }
    free(histogram);
    return status;
}

const struct command command_histogram = {
    .name = "histogram",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "How sizes and lifetimes are spread: counts, bytes, bytes times time",
    .help = "\n"
            "BYTE-SECONDS is the share of the sum of all sizes, each times how long it lived: of the\n"
            "memory that was taken over the time. EVENTS are the allocations and frees between an\n"
            "allocation and its free: 0 is freed at once.\n",
    .options = histogram_option_defs,
    COMMAND_OWN(struct histogram_options, .of = HISTOGRAM_COUNT),
    .common = OPTIONS_REPORT | OPTIONS_FILTER | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = histogram_analyse,
};
