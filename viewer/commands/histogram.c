/* `tidemark histogram`: the distributions of sizes and lifetimes. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "viewer/cli/answer.h"
#include "viewer/commands/commands.h"
#include "viewer/output/drawing.h"
#include "viewer/analysis/histogram.h"
#include "viewer/base/order.h"
#include "viewer/base/output.h"

#define HISTOGRAM_BAR 20

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

/* What a table of bins is printed with. */
struct histogram_table {
    struct report *report;
    enum histogram_of of;
    bool ascii;
    double most; /* of one bin, of the figure that the bars are of */
    double all_count, all_bytes, all_byte_ns;
};

static double
histogram_figure(enum histogram_of of, uint64_t count, uint64_t bytes, unsigned __int128 byte_ns)
{
    return of == HISTOGRAM_COUNT ? (double)count : of == HISTOGRAM_BYTES ? (double)bytes : (double)byte_ns;
}

static const char *
histogram_bar(const struct histogram_table *table, uint64_t count, uint64_t bytes, unsigned __int128 byte_ns,
              char *buffer)
{
    double figure = histogram_figure(table->of, count, bytes, byte_ns);

    return drawing_bar(table->most > 0 ? figure / table->most : 0, HISTOGRAM_BAR, table->ascii, buffer);
}

/* The columns of every table here behind those that say what a row is of. */
#define HISTOGRAM_COLUMNS                                                                                              \
    { "count", "COUNT", REPORT_COUNT }, { "count_share", "", REPORT_SHARE }, { "bytes", "BYTES", REPORT_SIZE },        \
        { "bytes_share", "", REPORT_SHARE }, { "byte_seconds", NULL, REPORT_REAL },                                    \
    {                                                                                                                  \
        "byte_seconds_share", "BYTE-SECONDS", REPORT_SHARE                                                             \
    }

#define HISTOGRAM_CELLS(table, count, bytes, byte_ns)                                                                  \
    cell_unsigned(count), cell_share((double)(count), (table)->all_count), cell_unsigned(bytes),                       \
        cell_share((double)(bytes), (table)->all_bytes), cell_real((double)(byte_ns) / 1e9),                           \
        cell_share((double)(byte_ns), (table)->all_byte_ns)

static const struct report_column histogram_size_columns[] = {
    { NULL, "SIZES", REPORT_TEXT },
    { "from_bytes", NULL, REPORT_SIZE },
    { "size", "SIZE", REPORT_SIZE },
    HISTOGRAM_COLUMNS,
    { "mean_life_ns", "MEAN LIFE", REPORT_TIME },
    { "live_count", "LIVE", REPORT_COUNT },
    { NULL, "", REPORT_TEXT },
};

/* A row of a class (`name`, `from`) or of an exact size. */
static void
histogram_size_row(const struct histogram_table *table, const char *name, struct report_cell from,
                   struct report_cell size, const struct tally *tally)
{
    char bar[3 * HISTOGRAM_BAR + 1];
    const struct report_cell cells[] = {
        cell_text(name),
        from,
        size,
        HISTOGRAM_CELLS(table, tally->allocations, tally->bytes, tally->byte_ns),
        tally->frees > 0 ? cell_signed(tally_mean_life(tally)) : cell_none(),
        cell_unsigned(tally->live_count),
        cell_text(histogram_bar(table, tally->allocations, tally->bytes, tally->byte_ns, bar)),
    };

    report_row(table->report, cells);
}

#define HISTOGRAM_SIZE_COLUMNS (sizeof(histogram_size_columns) / sizeof(histogram_size_columns[0]))

static void
histogram_report_classes(struct histogram_table *table, const struct histogram *histogram)
{
    char buffer[GROUPS_NAME];

    table->most = 0;
    for (unsigned i = 0; i < HISTOGRAM_CLASSES; i++) {
        const struct tally *tally = &histogram->classes[i];
        double figure = histogram_figure(table->of, tally->allocations, tally->bytes, tally->byte_ns);

        table->most = figure > table->most ? figure : table->most;
    }
    report_table(table->report, "sizes", "Sizes", histogram_size_columns, HISTOGRAM_SIZE_COLUMNS);
    report_spare(table->report, "live_count mean_life_ns bytes_share");
    for (unsigned i = 0; i < HISTOGRAM_CLASSES; i++) {
        uint64_t from = i == 0 ? 0 : UINT64_C(1) << (i - 1);

        if (histogram->classes[i].allocations > 0)
            histogram_size_row(table, groups_class_name(i, buffer, sizeof(buffer)), cell_unsigned(from), cell_none(),
                               &histogram->classes[i]);
    }
}

struct histogram_order {
    const struct histogram *histogram;
    enum histogram_of of;
};

static uint64_t
histogram_order_figure(const void *context, uint32_t number)
{
    const struct histogram_order *self = context;
    const struct tally *tally = &self->histogram->exact.list[number];

    return self->of == HISTOGRAM_COUNT   ? tally->allocations
           : self->of == HISTOGRAM_BYTES ? tally->bytes
                                         : tally_byte_order(tally);
}

static int
histogram_report_exact(struct view *view, struct report *report, struct histogram_table *table,
                       const struct histogram *histogram)
{
    const struct histogram_order self = { histogram, table->of };
    struct order *order = order_make(histogram->exact.groups.count, histogram_order_figure, &self);
    size_t count = histogram->exact.groups.count;

    if (order == NULL)
        return trace_broken(&view->trace, "no memory for the answer");
    if (count > 0) {
        const struct tally *first = &histogram->exact.list[order[0].number];

        table->most = histogram_figure(table->of, first->allocations, first->bytes, first->byte_ns);
    }
    report_table(table->report, "exact", "Exact sizes", histogram_size_columns, HISTOGRAM_SIZE_COLUMNS);
    report_spare(table->report, "live_count mean_life_ns bytes_share");
    for (size_t i = 0; i < count && i < report->options.limit; i++)
        histogram_size_row(table, NULL, cell_none(), cell_unsigned(histogram->exact.groups.keys[order[i].number]),
                           &histogram->exact.list[order[i].number]);
    if (count > report->options.limit)
        report_note(table->report, "%llu more sizes.", (unsigned long long)(count - report->options.limit));
    free(order);
    return COMMAND_FINE;
}

/* "10 us": powers of ten, plain. */
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

static void
histogram_bin_row(const struct histogram_table *table, const char *name, struct report_cell from,
                  const struct histogram_bin *bin)
{
    char bar[3 * HISTOGRAM_BAR + 1];
    const struct report_cell cells[] = {
        cell_text(name),
        from,
        HISTOGRAM_CELLS(table, bin->count, bin->bytes, bin->byte_ns),
        cell_text(histogram_bar(table, bin->count, bin->bytes, bin->byte_ns, bar)),
    };

    report_row(table->report, cells);
}

/* Lifetimes: in time, or in events. What is live at the end is a row of its own. */
static void
histogram_report_bins(struct histogram_table *table, const struct histogram *histogram, bool times)
{
    static const struct report_column time_columns[] = {
        { NULL, "LIVED", REPORT_TEXT },
        { "from_ns", NULL, REPORT_TIME },
        HISTOGRAM_COLUMNS,
        { NULL, "", REPORT_TEXT },
    };
    static const struct report_column event_columns[] = {
        { NULL, "EVENTS", REPORT_TEXT },
        { "from_events", NULL, REPORT_COUNT },
        HISTOGRAM_COLUMNS,
        { NULL, "", REPORT_TEXT },
    };
    const struct histogram_bin *bins = times ? histogram->times : histogram->events;
    unsigned count = times ? HISTOGRAM_TIMES : HISTOGRAM_EVENTS;
    char buffer[80];

    table->most = histogram_figure(table->of, histogram->live.count, histogram->live.bytes, histogram->live.byte_ns);
    for (unsigned i = 0; i < count; i++) {
        double figure = histogram_figure(table->of, bins[i].count, bins[i].bytes, bins[i].byte_ns);

        table->most = figure > table->most ? figure : table->most;
    }
    report_table(table->report, times ? "lifetimes" : "lifetimes_events",
                 times ? "Lifetimes" : "Lifetimes in events between the allocation and its free",
                 times ? time_columns : event_columns, sizeof(time_columns) / sizeof(time_columns[0]));
    for (unsigned i = 0; i < count; i++) {
        uint64_t from = times ? histogram_time_begin(i) : i == 0 ? 0 : UINT64_C(1) << (i - 1);

        if (bins[i].count > 0)
            histogram_bin_row(table, histogram_bin_name(times, i, buffer, sizeof(buffer)), cell_unsigned(from),
                              &bins[i]);
    }
    if (histogram->live.count > 0)
        histogram_bin_row(table, "to the end", cell_none(), &histogram->live);
}

static int
histogram_analyse(struct view *view, struct report *report, const void *own)
{
    const struct histogram_options *options = own;
    struct histogram_table table = { .report = report, .of = (enum histogram_of)options->of };
    struct histogram *histogram = malloc(sizeof(*histogram));
    int status;

    answer_subject(report, view);
    status = histogram != NULL ? histogram_make(view, histogram) : trace_broken(&view->trace, "no memory");
    if (status == COMMAND_FINE) {
        const struct tally *all = &histogram->exact.all;

        table.ascii = options->ascii || drawing_is_ascii();
        table.all_count = (double)all->allocations;
        table.all_bytes = (double)all->bytes;
        table.all_byte_ns = (double)all->byte_ns;
        report_field(report, "allocations", "allocations", REPORT_COUNT, cell_unsigned(all->allocations));
        report_field(report, "total_bytes", "bytes", REPORT_SIZE, cell_unsigned(all->bytes));
        report_field(report, "sizes_count", "different sizes", REPORT_COUNT,
                     cell_unsigned(histogram->exact.groups.count));
        histogram_report_classes(&table, histogram);
        status = histogram_report_exact(view, report, &table, histogram);
        histogram_report_bins(&table, histogram, true);
        histogram_report_bins(&table, histogram, false);
        histogram_free(histogram);
    }
    free(histogram);
    return status;
}

static int
histogram_run(const struct command *self, int argc, char **argv)
{
    struct histogram_options options = { .of = HISTOGRAM_COUNT };

    return answer_run(self, argc, argv, &options, histogram_analyse);
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
    .common = OPTIONS_REPORT | OPTIONS_FILTER | OPTIONS_LIMIT,
    .run = histogram_run,
};
