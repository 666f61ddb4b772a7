/* `tidemark fragmentation`: how much of the reserved memory is wasted, how, and which blocks hold it. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/memory.h"
#include "viewer/commands/tables.h"
#include "viewer/analysis/fragment.h"
#include "viewer/analysis/groups.h"
#include "viewer/base/output.h"

/* Chunks that are used at most to this share are "otherwise empty". */
#define FRAGMENTATION_PINNED 0.25

struct fragmentation_options {
    struct moment at;
    uint64_t request;
    uint64_t page;
    uint64_t moments;
    uint64_t memory; /* from 1; UINT64_MAX: that with the most reserved */
};

#define AT(field) offsetof(struct fragmentation_options, field)

static const struct option_def fragmentation_option_defs[] = {
    { "at", 'a', OPTION_MOMENT, "MOMENT", "look at 1.5s, 50%, #ALLOCATION or mark:TEXT instead of the peak", AT(at),
      NULL, 0 },
    { "request", 'r', OPTION_SIZE, "SIZE", "the request of the unusable index; else the largest of the trace",
      AT(request), NULL, 0 },
    { "page", 0, OPTION_SIZE, "SIZE", "of the runs of pages, where no log is below; 2MiB", AT(page), NULL, 0 },
    { "moments", 0, OPTION_COUNT, "N", "so many moments evenly over the time; 10", AT(moments), NULL, 0 },
    { "memory", 0, OPTION_COUNT, "N",
      "of the kinds of memory that the trace has the N-th, else the one with\nthe most reserved", AT(memory), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static const struct report_column fragmentation_columns[] = {
    { "moment", "AT", REPORT_TEXT },
    { "ns", "", REPORT_TIME },
    { "live_bytes", "REQUESTED", REPORT_SIZE },
    { "rounded_bytes", NULL, REPORT_SIZE },
    { "internal_bytes", NULL, REPORT_SIZE },
    { "internal_share", "INTERNAL", REPORT_SHARE },
    { "reserved_bytes", "RESERVED", REPORT_SIZE },
    { "pages_bytes", "IN PAGES", REPORT_SIZE },
    { "used_share", "USED", REPORT_SHARE },
    { "free_bytes", "FREE", REPORT_SIZE },
    { "largest_hole_bytes", "LARGEST", REPORT_SIZE },
    { "holes", "HOLES", REPORT_COUNT },
    { "external_share", "EXTERNAL", REPORT_SHARE },
    { "unusable_share", "UNUSABLE", REPORT_SHARE },
    { "empty_bytes", "EMPTY", REPORT_SIZE },
    { "live_count", NULL, REPORT_COUNT },
    { "chunks", NULL, REPORT_COUNT },
    { "device_bytes", "DEVICE", REPORT_SIZE },
    { "sample_age_ns", "OLDER BY", REPORT_TIME },
    { "in_use_bytes", "IN USE", REPORT_SIZE },
};

static void
fragmentation_row(struct report *report, const struct fragment *fragment, const char *moment,
                  const struct fragment_figures *figures)
{
    bool has_chunks = fragment->layers.lower.active;
    double external = figures->free_bytes == 0 ? 0 : 1 - (double)figures->largest_hole / (double)figures->free_bytes;

    REPORT_ROW(report, cell_text(moment), cell_signed(figures->ns), cell_unsigned(figures->requested_bytes),
               cell_unsigned(figures->rounded_bytes), cell_unsigned(figures->rounded_bytes - figures->requested_bytes),
               cell_share((double)(figures->rounded_bytes - figures->requested_bytes), (double)figures->rounded_bytes),
               figures->has_reserved ? cell_unsigned(figures->reserved_bytes) : cell_none(),
               has_chunks ? cell_none() : cell_unsigned(figures->space_bytes),
               cell_share((double)figures->inside_bytes, (double)figures->space_bytes),
               cell_unsigned(figures->free_bytes), cell_unsigned(figures->largest_hole), cell_unsigned(figures->holes),
               cell_real(external), cell_share((double)figures->unusable_bytes, (double)figures->free_bytes),
               cell_unsigned(figures->empty_bytes), cell_unsigned(figures->blocks), cell_unsigned(figures->chunks),
               figures->has_device ? cell_unsigned(figures->device_bytes) : cell_none(),
               figures->sample_age_ns >= 0 ? cell_signed(figures->sample_age_ns) : cell_none(),
               figures->has_in_use ? cell_unsigned(figures->in_use_bytes) : cell_none());
}

static void
fragmentation_report_moments(struct report *report, const struct fragment *fragment)
{
    REPORT_TABLE(report, "moments", NULL, fragmentation_columns);
    report_spare(
        report, "holes empty_bytes sample_age_ns in_use_bytes device_bytes unusable_share used_share largest_hole_bytes"
                " external_share internal_share free_bytes live_bytes");
    fragmentation_row(report, fragment, fragment->at.kind == MOMENT_PEAK ? "peak" : "there", &fragment->figures);
    if (fragment->reserved_peak_id != 0)
        fragmentation_row(report, fragment, "most reserved", &fragment->reserved_figures);
    for (size_t i = 0; i < fragment->moments_done; i++)
        fragmentation_row(report, fragment, "", &fragment->moments[i]);
}

/* The steps from the requested bytes to those of the device, at the moment that is looked at. */
static void
fragmentation_report_waterfall(struct report *report, const struct fragment *fragment)
{
    static const struct report_column columns[] = {
        { "step", "STEP", REPORT_TEXT },
        { "bytes", "BYTES", REPORT_SIZE },
        { "added_bytes", "ADDED", REPORT_CHANGE },
        { "what", "WHAT IS ADDED", REPORT_NAME },
    };
    const struct fragment_figures *at = &fragment->figures;
    bool lower = fragment->layers.lower.active;
    const char *old = at->sample_age_ns > 0 ? "by a sample older than the moment" : "by a sample of that moment";
    const struct {
        const char *step;
        const char *what;
        uint64_t bytes;
        bool there;
        bool sampled;
    } steps[] = {
        { "requested", NULL, at->requested_bytes, true, false },
        { "rounded", "rounding up to the alignment: internal fragmentation", at->rounded_bytes, true, false },
        { "live in pool", "what lies outside of the chunks is less", at->inside_bytes, lower, false },
        { "in pages", "free in pages that hold a block", at->space_bytes, !lower, false },
        { "reserved", lower ? "free in chunks" : old, at->reserved_bytes, at->has_reserved, !lower },
        { "device", "held by the base, and not by the layer above it", at->device_bytes, at->has_device, true },
        { "in use", MEMORY_BESIDE, at->in_use_bytes, at->has_in_use, true },
    };
    uint64_t before = 0, least = 0;

    REPORT_TABLE(report, "waterfall", "From the request to the device", columns);
    report_spare(report, "what");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        /* What is sampled holds all of the steps before but the guess of the pages: less is of an earlier moment. */
        bool is_least = steps[i].sampled && steps[i].bytes < least;
        uint64_t bytes = is_least ? least : steps[i].bytes;

        if (!steps[i].there)
            continue;
        REPORT_ROW(report, cell_text(steps[i].step), cell_unsigned(bytes),
                   i > 0 ? cell_signed((int64_t)(bytes - before)) : cell_none(),
                   cell_text(is_least          ? "at least that: the last sample says less"
                             : bytes != before ? steps[i].what
                                               : NULL));
        before = bytes;
        least = !lower && !steps[i].sampled ? at->rounded_bytes : bytes;
    }
}

/* The context of the tables of chunks. */
struct fragmentation_chunks {
    struct view *view;
    const struct space *space;
};

/* The free bytes of a pinned chunk, which is nearly empty but not given back because of a few blocks; 0: not pinned. */
static uint64_t
fragmentation_held(const void *context, uint32_t number)
{
    const struct space_chunk *chunk = &((const struct fragmentation_chunks *)context)->space->chunks[number];
    bool pinned = chunk->block_count > 0 && (double)chunk->used_bytes <= FRAGMENTATION_PINNED * (double)chunk->size;

    return pinned ? chunk->size - chunk->used_bytes : 0;
}

static void
fragmentation_report_pin(struct report *report, void *context, uint32_t number)
{
    const struct fragmentation_chunks *chunks = context;
    const struct space_chunk *chunk = &chunks->space->chunks[number];
    char text[512];

    space_pins(chunks->view, chunks->space, chunk, text, sizeof(text));
    REPORT_ROW(report, cell_unsigned(chunk->address), cell_unsigned(chunk->size), cell_unsigned(chunk->block_count),
               cell_unsigned(chunk->used_bytes), cell_unsigned(chunk->size - chunk->used_bytes), cell_text(text));
}

static int
fragmentation_report_pins(struct view *view, struct report *report, const struct space *space)
{
    static const struct report_column columns[] = {
        { "chunk", "CHUNK", REPORT_ADDRESS },       { "chunk_bytes", "SIZE", REPORT_SIZE },
        { "live_count", "BLOCKS", REPORT_COUNT },   { "used_bytes", "USED", REPORT_SIZE },
        { "free_bytes", "HELD BACK", REPORT_SIZE }, { "pinned_by", "PINNED BY", REPORT_NAME },
    };
    const struct ranking ranking = { space->chunk_count, 0, report->options.limit, fragmentation_held,
                                     fragmentation_report_pin };
    struct fragmentation_chunks chunks = { view, space };
    struct output_figure figure;
    struct ranking_rows rows;
    uint64_t count;

    REPORT_TABLE(report, "pins", "Blocks that pin chunks which are otherwise empty", columns);
    report_spare(report, "used_bytes chunk_bytes live_count");
    if (ranking_report(view, report, &ranking, &chunks, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    report_rest(report, rows.left, cell_unsigned(rows.left_figures));
    count = rows.shown + rows.left;
    if (count > 0)
        report_note(report, "%llu chunk%s at most a quarter full hold%s back %s.", (unsigned long long)count,
                    count == 1 ? "" : "s", count == 1 ? "s" : "",
                    output_size(&figure, rows.shown_figures + rows.left_figures));
    return COMMAND_FINE;
}

static uint64_t
fragmentation_free(const void *context, uint32_t number)
{
    const struct space_chunk *chunk = &((const struct fragmentation_chunks *)context)->space->chunks[number];

    return chunk->size - chunk->used_bytes;
}

static void
fragmentation_report_chunk(struct report *report, void *context, uint32_t number)
{
    const struct space_chunk *chunk = &((const struct fragmentation_chunks *)context)->space->chunks[number];
    uint64_t free_bytes = fragmentation_free(context, number);

    REPORT_ROW(report, cell_unsigned(chunk->address), cell_unsigned(chunk->size),
               cell_share((double)chunk->used_bytes, (double)chunk->size), cell_unsigned(free_bytes),
               cell_unsigned(chunk->largest_hole), cell_unsigned(chunk->holes),
               cell_real(free_bytes == 0 ? 0 : 1 - (double)chunk->largest_hole / (double)free_bytes),
               cell_unsigned(chunk->block_count));
}

static int
fragmentation_report_chunks(struct view *view, struct report *report, const struct space *space)
{
    static const struct report_column columns[] = {
        { "chunk", "CHUNK", REPORT_ADDRESS },
        { "chunk_bytes", "SIZE", REPORT_SIZE },
        { "used_share", "USED", REPORT_SHARE },
        { "free_bytes", "FREE", REPORT_SIZE },
        { "largest_hole_bytes", "LARGEST", REPORT_SIZE },
        { "holes", "HOLES", REPORT_COUNT },
        { "external_share", "EXTERNAL", REPORT_SHARE },
        { "live_count", "BLOCKS", REPORT_COUNT },
    };
    const struct ranking ranking = { space->chunk_count, SIZE_MAX, report->options.limit, fragmentation_free,
                                     fragmentation_report_chunk };
    struct fragmentation_chunks chunks = { view, space };
    struct ranking_rows rows;
    int status;

    REPORT_TABLE(report, "chunks", "Chunks with the most free bytes", columns);
    report_spare(report, "holes used_share external_share live_count largest_hole_bytes chunk_bytes");
    status = ranking_report(view, report, &ranking, &chunks, &rows);
    report_rest(report, rows.left, cell_unsigned(rows.left_figures));
    return status;
}

/* The blocks of each stream. The free bytes between blocks belong to no stream. */
static int
fragmentation_report_streams(struct view *view, struct report *report, const struct fragment *fragment)
{
    static const struct report_column columns[] = {
        { "stream_id", NULL, REPORT_COUNT },        { "stream", "STREAM", REPORT_TEXT },
        { "live_bytes", "REQUESTED", REPORT_SIZE }, { "internal_bytes", "INTERNAL", REPORT_SIZE },
        { "internal_share", "", REPORT_SHARE },     { "live_count", "BLOCKS", REPORT_COUNT },
        { "chunks", "IN CHUNKS", REPORT_COUNT },
    };
    const struct space *space = &fragment->space;
    size_t count = view->names.streams.count;
    struct amount left = { 0 };
    size_t shown = 0;
    struct {
        uint64_t requested, rounded, blocks, chunks, last_chunk;
    } *sums = calloc(count + 1, sizeof(*sums));

    if (sums == NULL)
        return trace_broken(&view->trace, "no memory for the answer");
    for (size_t i = 0; i < space->chunk_count; i++) {
        for (size_t j = 0; j < space->chunks[i].block_count; j++) {
            const struct space_block *block = &space->blocks[space->chunks[i].first_block + j];
            const uint32_t *place = id_map_find(&view->names.streams.by_id, (uint64_t)block->stream_id);
            size_t at = place != NULL ? *place : count;

            sums[at].requested += block->size;
            sums[at].rounded += block->rounded;
            sums[at].blocks++;
            sums[at].chunks += sums[at].last_chunk != i + 1;
            sums[at].last_chunk = i + 1;
        }
    }
    REPORT_TABLE(report, "streams", "By stream", columns);
    report_spare(report, "internal_share internal_bytes chunks live_count");
    for (size_t i = 0; i < count; i++) {
        char name[GROUPS_NAME];

        if (sums[i].blocks == 0)
            continue;
        if (shown++ >= report->options.limit) {
            left.count++;
            left.bytes += sums[i].requested;
            continue;
        }
        REPORT_ROW(report, cell_id(view->names.streams.names[i].id),
                   cell_text(names_stream(&view->names, view->names.streams.names[i].id, name, sizeof(name))),
                   cell_unsigned(sums[i].requested), cell_unsigned(sums[i].rounded - sums[i].requested),
                   cell_share((double)(sums[i].rounded - sums[i].requested), (double)sums[i].rounded),
                   cell_unsigned(sums[i].blocks), cell_unsigned(sums[i].chunks));
    }
    report_rest(report, left.count, cell_unsigned(left.bytes));
    free(sums);
    return COMMAND_FINE;
}

/* Say where the figures come from. */
static void
fragmentation_report_source(struct report *report, const struct fragment *fragment)
{
    const struct reserved_figure *reserved = &fragment->group->reserved;
    struct output_figure figure;

    report_field(
        report, "source", NULL, REPORT_TEXT,
        cell_text(reserved->source != RESERVED_UNKNOWN ? reserved_source_word(reserved->source) : "addresses"));
    if (fragment->layers.lower.active)
        report_label(report, "from", "two recorded layers: the chunks are what the log below, or the pool, has live%s",
                     fragment->group->base.source != RESERVED_UNKNOWN ? "; the device from pool samples" : "");
    else
        report_label(report, "from", "%sruns of %s pages that hold a block, by their addresses",
                     reserved->source == RESERVED_HIGHS
                         ? "pool samples with the most reserved, for reserved and utilisation; for holes, "
                     : reserved->source == RESERVED_SAMPLES
                         ? "pool samples, which can miss a peak, for reserved and utilisation; for holes, "
                         : "no chunks and no pool samples: ",
                     output_size(&figure, fragment->layers.page_bytes));
}

/* Say which memory the figures are of, where the trace has several kinds, or stacks. */
static void
fragmentation_report_memory(struct report *report, const struct fragment *fragment)
{
    const struct reserved *reserved = &fragment->reserved;

    memory_report(report, reserved);
    report_field(report, "memory_name", reserved_is_parted(reserved) ? "memory" : NULL, REPORT_TEXT,
                 cell_text(fragment->group->name));
}

static void
fragmentation_report_head(struct report *report, const struct fragment *fragment)
{
    const struct reserved_group *group = fragment->group;
    double share = reserved_utilisation(group);

    fragmentation_report_memory(report, fragment);
    fragmentation_report_source(report, fragment);
    report_field(report, "peak_bytes", "peak", REPORT_SIZE, cell_unsigned(group->live_peak_bytes));
    report_field(report, "rounded_peak_bytes", "peak, rounded", REPORT_SIZE, cell_unsigned(group->rounded_peak_bytes));
    memory_report_peak(report, &group->reserved);
    report_field(report, "utilisation", NULL, REPORT_SHARE, share >= 0 ? cell_real(share) : cell_none());
    if (share >= 0)
        report_label(report, "utilisation", "%s%.1f%%", group->reserved.is_exact ? "" : "at most ", 100 * share);
    else
        report_label(report, "utilisation", "unknown");
    memory_report_use(report, &fragment->reserved.devices);
    report_field(report, "request_bytes", "request", REPORT_SIZE, cell_unsigned(fragment->request_bytes));
}

static int
fragmentation_analyse(struct view *view, struct report *report, const void *own)
{
    const struct fragmentation_options *options = own;
    struct fragment fragment;
    int status;

    if (options->memory == 0)
        return command_misused(&command_fragmentation, "--memory: kinds of memory are numbered from 1");
    if (options->page == 0 || (options->page & (options->page - 1)) != 0)
        return command_misused(&command_fragmentation, "--page: a power of two");
    command_subject(report, view); /* before the logs below are taken in */
    status = fragment_make(view,
                           &(struct fragment_options){ options->at, options->request, options->page, options->moments,
                                                       options->memory < SIZE_MAX ? (size_t)options->memory : 0 },
                           &fragment);
    if (status != COMMAND_FINE)
        return status;
    fragmentation_report_head(report, &fragment);
    fragmentation_report_waterfall(report, &fragment);
    fragmentation_report_moments(report, &fragment);
    status = fragmentation_report_pins(view, report, &fragment.space);
    if (status == COMMAND_FINE)
        status = fragmentation_report_chunks(view, report, &fragment.space);
    if (status == COMMAND_FINE)
        status = fragmentation_report_streams(view, report, &fragment);
    memory_report_use_table(report, &fragment.reserved.devices);
    fragment_free(&fragment);
    return status;
}

const struct command command_fragmentation = {
    .name = "fragmentation",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "How much of the memory that is held is waste, of which kind, and what holds it",
    .help = "\n"
            "REQUESTED    bytes that the program asked for and has not freed\n"
            "INTERNAL     (rounded - requested) / rounded, each request rounded up to its alignment\n"
            "RESERVED     chunks: what the log below, or the pool, has live; without chunks, the\n"
            "             sample before, and OLDER BY is its age\n"
            "IN PAGES     without chunks, the runs of pages that hold a block\n"
            "USED         rounded bytes inside the chunks, or those pages / the bytes of these\n"
            "FREE         the rest of them; LARGEST: the largest hole; EMPTY: in chunks with no block\n"
            "EXTERNAL     1 - largest hole / free\n"
            "UNUSABLE     the share of the free bytes in holes that are smaller than the request\n"
            "DEVICE       what the bases below held, at the pool sample before\n"
            "IN USE       of the whole device, at its sample before: not all of it is through this stack\n"
            "utilisation  most used / peak reserved, over the whole time\n"
            "\n"
            "A block pins a chunk that is at most a quarter full; HELD BACK is what is free in it.\n"
            "What another stack would reserve for the same requests says\n"
            "  tidemark replay --stack 'pool | sim' TRACE\n",
    .options = fragmentation_option_defs,
    COMMAND_OWN(struct fragmentation_options, .at = { .kind = MOMENT_PEAK }, .page = SPACE_PAGE, .moments = 10,
                .memory = UINT64_MAX),
    .common = OPTIONS_REPORT | OPTIONS_WINDOW | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = fragmentation_analyse,
};
