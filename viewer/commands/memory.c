/* What was reserved, for each stack and kind of memory. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "viewer/base/output.h"
#include "viewer/commands/memory.h"

const char *
memory_words(const struct reserved_figure *figure, char *buffer, size_t size)
{
    struct output_figure bytes;

    if (figure->source == RESERVED_UNKNOWN)
        snprintf(buffer, size, "unknown");
    else
        snprintf(buffer, size, "%s%s", reserved_least(figure), output_size(&bytes, figure->peak_bytes));
    return buffer;
}

struct report_cell
memory_peak(const struct reserved_figure *figure)
{
    return figure->source != RESERVED_UNKNOWN ? cell_unsigned(figure->peak_bytes) : cell_none();
}

struct report_cell
memory_is_exact(const struct reserved_figure *figure)
{
    return figure->source != RESERVED_UNKNOWN ? cell_unsigned(figure->is_exact) : cell_none();
}

void
memory_report_peak_fields(struct report *report, const struct reserved_figure *figure)
{
    report_field(report, "reserved_peak_bytes", NULL, REPORT_SIZE, memory_peak(figure));
    report_field(report, "reserved_peak_is_exact", NULL, REPORT_FLAG, memory_is_exact(figure));
    report_field(report, "reserved_source", NULL, REPORT_TEXT, cell_text(reserved_source_word(figure->source)));
}

void
memory_report_peak(struct report *report, const struct reserved_figure *figure)
{
    char words[MEMORY_WORDS];

    memory_report_peak_fields(report, figure);
    report_label(report, "peak reserved", "%s", memory_words(figure, words, sizeof(words)));
}

/* The cells of a group, in the order of memory_columns. The texts are copied into `words` or borrowed. */
static void
memory_cells(const struct reserved_group *group, char words[2][MEMORY_WORDS], struct report_cell *out)
{
    const struct reserved_figure *reserved = &group->reserved;
    const struct reserved_figure *base = &group->base;
    bool has_sample = reserved->sample_ns != INT64_MIN && reserved->source != RESERVED_UNKNOWN;
    double used = reserved_utilisation(group);
    const struct report_cell cells[] = {
        cell_text(group->name),
        cell_text(group->memory),
        cell_unsigned(group->number + 1),
        group->device >= 0 ? cell_signed(group->device) : cell_none(),
        group->has_upper ? cell_unsigned(group->live_peak_bytes) : cell_none(),
        group->has_upper ? cell_signed(group->live_peak_ns) : cell_none(),
        group->has_upper ? cell_unsigned(group->live_bytes) : cell_none(),
        reserved->source != RESERVED_UNKNOWN ? cell_unsigned(reserved->bytes) : cell_none(),
        has_sample ? cell_signed(reserved->sample_ns) : cell_none(),
        memory_peak(reserved),
        memory_is_exact(reserved),
        cell_text(reserved_source_word(reserved->source)),
        cell_text(memory_words(reserved, words[0], MEMORY_WORDS)),
        memory_peak(base),
        memory_is_exact(base),
        base->source != RESERVED_UNKNOWN ? cell_text(memory_words(base, words[1], MEMORY_WORDS)) : cell_none(),
        used >= 0 && group->has_upper ? cell_real(used) : cell_none(),
    };

    memcpy(out, cells, sizeof(cells));
}

static const struct report_column memory_columns[] = {
    { NULL, "MEMORY", REPORT_TEXT },
    { "memory", NULL, REPORT_TEXT },
    { "stack", NULL, REPORT_COUNT },
    { "device", NULL, REPORT_COUNT },
    { "peak_bytes", "PEAK", REPORT_SIZE },
    { "peak_ns", "AT", REPORT_TIME },
    { "live_bytes", "LIVE", REPORT_SIZE },
    { "reserved_bytes", "RESERVED", REPORT_SIZE },
    { "reserved_sample_ns", "SAMPLED AT", REPORT_TIME },
    { "reserved_peak_bytes", NULL, REPORT_SIZE },
    { "reserved_peak_is_exact", NULL, REPORT_FLAG },
    { "reserved_source", NULL, REPORT_TEXT },
    { NULL, "PEAK RESERVED", REPORT_FIGURE },
    { "device_peak_bytes", NULL, REPORT_SIZE },
    { "device_peak_is_exact", NULL, REPORT_FLAG },
    { NULL, "DEVICE", REPORT_FIGURE },
    { "utilisation", NULL, REPORT_SHARE },
};

#define MEMORY_COLUMNS (sizeof(memory_columns) / sizeof(memory_columns[0]))

void
memory_report_more(struct report *report, const struct reserved *reserved, const struct memory_more *more)
{
    struct report_column columns[MEMORY_COLUMNS + MEMORY_MORE];
    size_t count = MEMORY_COLUMNS;

    memcpy(columns, memory_columns, sizeof(memory_columns));
    for (size_t i = 0; i < MEMORY_COLUMNS && !reserved_is_parted(reserved); i++)
        columns[i].title = NULL;
    for (size_t i = 0; more != NULL && i < more->count; i++)
        columns[count++] = more->columns[i];
    report_table(report, "memory", NULL, columns, count);
    report_spare(report, "reserved_sample_ns peak_ns reserved_bytes");
    for (size_t i = 0; i < reserved->group_count; i++) {
        struct report_cell cells[MEMORY_COLUMNS + MEMORY_MORE] = { { 0 } };
        char words[2][MEMORY_WORDS];

        memory_cells(&reserved->groups[i], words, cells);
        if (more != NULL)
            more->cells(more->context, &reserved->groups[i], cells + MEMORY_COLUMNS);
        report_row(report, cells);
    }
}

void
memory_report(struct report *report, const struct reserved *reserved)
{
    memory_report_more(report, reserved, NULL);
}

void
memory_report_use(struct report *report, const struct device_uses *uses)
{
    for (size_t i = 0; i < uses->count; i++) {
        const struct device_use *use = &uses->list[i];
        struct output_figure most, total, when;
        char prefix[32] = "";

        if (uses->count > 1)
            snprintf(prefix, sizeof(prefix), "GPU %lld: ", (long long)use->device);
        report_label(report, "device in use", "%s%s of %s at %s", prefix, output_size(&most, use->peak_bytes),
                     output_size(&total, use->total_bytes), output_time(&when, use->peak_ns));
        report_label(report, "not this stack", "%s%s of that was " MEMORY_BESIDE, prefix,
                     output_size(&most, device_use_beside_peak(use)));
    }
}

void
memory_report_use_table(struct report *report, const struct device_uses *uses)
{
    static const struct report_column columns[] = {
        { "device", NULL, REPORT_COUNT },        { "total_bytes", NULL, REPORT_SIZE },
        { "in_use_bytes", NULL, REPORT_SIZE },   { "in_use_peak_bytes", NULL, REPORT_SIZE },
        { "in_use_peak_ns", NULL, REPORT_TIME }, { "bases_bytes", NULL, REPORT_SIZE },
        { "beside_bytes", NULL, REPORT_SIZE },   { "beside_peak_bytes", NULL, REPORT_SIZE },
    };

    REPORT_TABLE(report, "device_use", NULL, columns);
    for (size_t i = 0; i < uses->count; i++) {
        const struct device_use *use = &uses->list[i];

        REPORT_ROW(report, cell_signed(use->device), cell_unsigned(use->total_bytes), cell_unsigned(use->used_bytes),
                   cell_unsigned(use->peak_bytes), cell_signed(use->peak_ns), cell_unsigned(use->peak_held_bytes),
                   cell_unsigned(device_use_beside_peak(use)), cell_unsigned(use->beside_bytes));
    }
}
