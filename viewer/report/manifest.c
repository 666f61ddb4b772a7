/* Writes what was gathered of a trace as the manifest of a report. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/timeline.h"
#include "viewer/base/callstack-text.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/order.h"
#include "viewer/output/report-item.h"
#include "viewer/report/fit.h"
#include "viewer/report/manifest.h"
#include "viewer/report/name-index.h"

/* The names that lives and failures refer to. */
struct manifest_names {
    struct name_index tags, stacks, threads, streams, layers;
};

/* A text that a program chose. */
static void
manifest_put_chosen(const struct manifest *manifest, struct json *json, const char *text, size_t length)
{
    struct fit *fit = manifest->fit;

    fit_note_length(&fit->names, length);
    blocks_put_name_most(json, text, length, fit->names.most);
}

/* A name of the trace, or, where names are not to leave the house, what it is of and its number; 0: the name stays. */
static void
manifest_put_name(const struct manifest *manifest, const char *what, int64_t id, const char *text)
{
    char number[64];

    if (manifest->no_names && id != 0) {
        snprintf(number, sizeof(number), "%s %lld", what, (long long)id);
        text = number;
    }
    manifest_put_chosen(manifest, &manifest->blocks->json, text, strlen(text));
}

/* The trace. */

/* The keys of `meta` that no program chooses. */
static bool
manifest_is_plain_key(const char *key)
{
    static const char *const plain[] = { "format_version",
                                         "start_unix_ns",
                                         "complete",
                                         "versions",
                                         "devices",
                                         "clock",
                                         "ended",
                                         "end_ns",
                                         "ring_waits",
                                         "late_records",
                                         "import_format",
                                         "import_events",
                                         "trace_id",
                                         "assumed_frees",
                                         "exit_recovered",
                                         "ring_longest_wait_ns",
                                         "epoch",
                                         "epoch_records",
                                         "import_guessed_times" };

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(plain[i], key) == 0)
            return true;
    }
    return false;
}

static int
manifest_meta_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const struct manifest *manifest = context;
    const char *key = (const char *)sqlite3_column_text(row, 0);
    const char *value = (const char *)sqlite3_column_text(row, 1);

    (void)trace;
    if (key == NULL || value == NULL || (manifest->no_names && !manifest_is_plain_key(key)))
        return COMMAND_FINE;
    json_key_text(&manifest->blocks->json, key);
    if (manifest_is_plain_key(key))
        blocks_put_name(&manifest->blocks->json, value, strlen(value));
    else
        manifest_put_chosen(manifest, &manifest->blocks->json, value, strlen(value));
    return COMMAND_FINE;
}

static int
manifest_put_trace(const struct manifest *manifest)
{
    const struct trace *trace = &manifest->gather->view->trace;
    const char *slash = strrchr(trace->path, '/');
    struct json *json = &manifest->blocks->json;
    int status;

    json_key(json, "trace");
    json_begin(json, '{');
    if (!manifest->no_names) {
        json_key(json, "file");
        blocks_put_name(json, slash != NULL ? slash + 1 : trace->path, strlen(slash != NULL ? slash + 1 : trace->path));
    }
    status =
        trace_each(trace, manifest_meta_row, (void *)manifest,
                   "SELECT key, value FROM meta WHERE typeof(key) = 'text' AND typeof(value) IN ('text', 'integer')"
                   " AND key <> 'file' AND length(key) < 100 ORDER BY key LIMIT 1000");
    json_end(json, '}');
    return status;
}

/* Sentences. */

/* The most bytes of all notes together; of one there are 1,000 at most. */
#define MANIFEST_NOTES 65536

static void
manifest_put_notes(const struct manifest *manifest, const struct report *report)
{
    struct json *json = &manifest->blocks->json;
    size_t before = manifest->blocks->text.used;

    json_begin(json, '[');
    for (size_t i = 0; report != NULL && !manifest->no_names && i < report->count; i++) {
        if (report->items[i].kind != REPORT_ITEM_NOTE)
            continue;
        if (manifest->blocks->text.used - before < MANIFEST_NOTES)
            blocks_put_name(json, report->items[i].text, strlen(report->items[i].text));
        else
            manifest->fit->notes_left_out++;
    }
    json_end(json, ']');
}

static void __attribute__((format(printf, 2, 3))) manifest_say(struct json *json, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    json_text(json, text);
}

/* What is cut because the page would have more bytes than its detail allows. */
static void
manifest_put_cuts(const struct manifest *manifest)
{
    const struct fit *fit = manifest->fit;
    const struct anchors *anchors = &manifest->gather->anchors;
    struct json *json = &manifest->blocks->json;

    if (fit->is_larger)
        manifest_say(json, "The page is larger than 3 MB: what may be left out of it is not enough.");
    else if (fit->is_cut)
        manifest_say(json, "The page is kept within 3 MB, which takes some of its detail: --detail=full has more.");
    if (anchors->count < fit->instants)
        manifest_say(json, "%zu of %zu instants are left out, because the page would be too large.",
                     fit->instants - anchors->count, anchors->chosen);
    if (fit->names.cut > 0 && fit->is_cut)
        manifest_say(json, "%zu names are cut off behind %zu bytes.", fit->names.cut, fit->names.most);
    if (fit->stacks.cut > 0)
        manifest_say(json, "Of %zu call stacks only the innermost %zu frames are listed.", fit->stacks.cut,
                     fit->stacks.most);
    if (fit->timelines > 0)
        manifest_say(json, "The timelines have buckets of %zu times the width.", (size_t)1 << fit->timelines);
    if (fit->groups > 0)
        manifest_say(json, "The timelines of groups have buckets of %zu times the width.", (size_t)1 << fit->groups);
    if (fit->map > 0)
        manifest_say(json, "The address map has buckets of %zu times the width.", (size_t)1 << fit->map);
}

static void
manifest_put_left_out(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    const struct anchors *anchors = &gather->anchors;
    struct json *json = &manifest->blocks->json;

    json_key(json, "left_out");
    json_begin(json, '[');
    if (manifest->fit->instants < anchors->chosen)
        manifest_say(json, "%zu of %zu instants are left out, because more than %zu allocations were live at them.",
                     anchors->chosen - manifest->fit->instants, anchors->chosen, manifest->fit->instant_lives);
    if (anchors->largest > 0)
        manifest_say(json, "At the instants only the %zu largest allocations are listed; the sums are those of all.",
                     anchors->largest);
    if (gather->failures_count > gather->failure_count)
        manifest_say(json, "%llu failures are not listed: they came after the first %zu.",
                     (unsigned long long)(gather->failures_count - gather->failure_count), gather->failure_count);
    if (gather->marks_count > gather->mark_count)
        manifest_say(json, "%llu marks are not listed: they came after the first %zu.",
                     (unsigned long long)(gather->marks_count - gather->mark_count), gather->mark_count);
    if (manifest->fit->notes_left_out > 0)
        manifest_say(json, "%zu notes of the summary are not listed: they came after the first %d bytes.",
                     manifest->fit->notes_left_out, MANIFEST_NOTES);
    for (size_t i = 0; i < manifest->answer_count; i++) {
        const struct manifest_answer *answer = &manifest->answers[i];

        if (answer->report == NULL)
            manifest_say(json, "`tidemark %s` has no answer for this trace.", answer->command);
        if (answer->left_out_bytes > 0)
            manifest_say(json, "The answer of `tidemark %s` is left out: it has %zu bytes.", answer->command,
                         answer->left_out_bytes);
    }
    if (manifest->timeline != NULL && manifest->timeline->part_count > manifest->fit->memory_most)
        manifest_say(json, "Of %zu memories the %zu with the most reserved are drawn.", manifest->timeline->part_count,
                     manifest->fit->memory_most);
    if (manifest->timeline == NULL)
        manifest_say(json, "`tidemark timeline` has no answer for this trace: what was reserved is not shown.");
    if (manifest->fit->diff_bytes > manifest->fit->answer_most)
        manifest_say(json, "The answer of `tidemark diff` is left out: it has %zu bytes.", manifest->fit->diff_bytes);
    manifest_put_cuts(manifest);
    if (manifest->no_names)
        manifest_say(json, "Names are left out, as --no-names asked.");
    json_end(json, ']');
}

/* Blocks over an axis. */

static void
manifest_put_axis(struct json *json, const struct axis *axis)
{
    json_put_signed(json, "begin", axis->begin);
    json_put_unsigned(json, "width", UINT64_C(1) << axis->shift);
}

static uint64_t
manifest_bucket(const void *context, size_t column, size_t row)
{
    const struct buckets *buckets = context;

    return column == 0   ? buckets->least[row]
           : column == 1 ? buckets->high[row] - buckets->least[row]
                         : buckets->events[row];
}

static void
manifest_put_buckets(const struct manifest *manifest, const struct buckets *buckets, bool has_events)
{
    static const struct column columns[] = {
        { "least", COLUMN_DELTA, manifest_bucket },
        { "spread", COLUMN_VARINT, manifest_bucket },
        { "events", COLUMN_VARINT, manifest_bucket },
    };

    blocks_columns(manifest->blocks, columns, has_events ? 3 : 2, buckets->axis.count, buckets);
    manifest_put_axis(&manifest->blocks->json, &buckets->axis);
    json_end(&manifest->blocks->json, '}');
}

static uint64_t
manifest_series_sum(const void *context, size_t column, size_t row)
{
    const uint64_t *sums = context;

    return sums[row * SERIES_MOST + column];
}

static void
manifest_put_board(const struct manifest *manifest, const struct series_board *board, enum series_key key)
{
    static const char *const names[SERIES_MOST] = { "s0", "s1", "s2",  "s3",  "s4",  "s5",  "s6",  "s7",
                                                    "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15" };
    struct column columns[SERIES_MOST];
    size_t count = manifest->gather->series.of[key].count;

    for (size_t i = 0; i < count; i++)
        columns[i] = (struct column){ names[i], COLUMN_DELTA, manifest_series_sum };
    blocks_columns(manifest->blocks, columns, count, board->axis.count, board->sums[key]);
    manifest_put_axis(&manifest->blocks->json, &board->axis);
    json_end(&manifest->blocks->json, '}');
}

static void
manifest_put_series(const struct manifest *manifest, enum series_key key, size_t place)
{
    static const char *const whats[SERIES_KEYS] = { "size", "tag", "thread", "stream", "frame", "layer" };
    const struct series *series = &manifest->gather->series.of[key];
    uint32_t group = series->named[place < SERIES_NAMED ? place : 0];
    struct json *json = &manifest->blocks->json;
    char buffer[GROUPS_NAME];
    const char *name = series_name(&manifest->gather->series, key, place, buffer, sizeof(buffer));
    bool others = place == SERIES_NAMED;
    int64_t id = others ? 0 : (int64_t)series->groups.keys[group];

    json_begin(json, '{');
    json_key(json, "name");
    if (key == SERIES_SIZE || others)
        blocks_put_name(json, name, strlen(name));
    else
        manifest_put_name(manifest, whats[key], id, name);
    json_key(json, "id");
    if (!others && key != SERIES_FRAME && groups_has_id(&series->groups, group))
        json_signed(json, id);
    else
        json_word(json, "null");
    json_key(json, "peak_bytes");
    if (others)
        json_word(json, "null");
    else
        json_unsigned(json, series->list[group].peak_bytes);
    if (key == SERIES_SIZE && !others)
        json_put_unsigned(json, "least_bytes", id == 0 ? 0 : UINT64_C(1) << (id - 1));
    json_end(json, '}');
}

static void
manifest_put_groups(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    struct json *json = &manifest->blocks->json;

    json_key(json, "groups");
    json_begin(json, '{');
    for (enum series_key key = 0; key < SERIES_KEYS; key++) {
        const struct series *series = &gather->series.of[key];

        if (!series_has(&gather->series, key))
            continue;
        json_key_text(json, series_words[key]);
        json_begin(json, '{');
        json_put_unsigned(json, "count", series->groups.count);
        json_key(json, "series");
        json_begin(json, '[');
        for (size_t i = 0; i < series->count; i++)
            manifest_put_series(manifest, key, i);
        json_end(json, ']');
        json_key(json, "time");
        manifest_put_board(manifest, &gather->boards[0], key);
        json_key(json, "by_event");
        manifest_put_board(manifest, &gather->boards[1], key);
        json_end(json, '}');
    }
    json_end(json, '}');
}

/* What was reserved. */

static uint64_t
manifest_reserved(const void *context, size_t column, size_t row)
{
    const struct timeline_column *columns = context;

    return column == 0 ? (uint64_t)columns[row].ns : columns[row].reserved_bytes;
}

static void
manifest_put_part(const struct manifest *manifest, const struct timeline_part *part, size_t place)
{
    static const struct column columns[] = {
        { "ns", COLUMN_DELTA, manifest_reserved },
        { "bytes", COLUMN_DELTA, manifest_reserved },
    };
    const struct reserved_figure *reserved = &part->group->reserved;
    bool known = reserved->source != RESERVED_UNKNOWN;
    struct json *json = &manifest->blocks->json;

    json_begin(json, '{');
    json_key(json, "name");
    if (part->group->name[0] != '\0')
        manifest_put_name(manifest, "memory", layer_kind_is_words(part->group->name) ? 0 : (int64_t)place + 1,
                          part->group->name);
    else
        json_word(json, "null");
    json_key(json, "limit_bytes");
    if (part->limit_bytes > 0)
        json_unsigned(json, part->limit_bytes);
    else
        json_word(json, "null");
    json_key(json, "peak_bytes");
    if (known)
        json_unsigned(json, reserved->peak_bytes);
    else
        json_word(json, "null");
    json_key(json, "peak_is_exact");
    json_word(json, !known ? "null" : reserved->is_exact ? "true" : "false");
    json_key(json, "source");
    if (known)
        json_text(json, reserved_source_word(reserved->source));
    else
        json_word(json, "null");
    json_key(json, "columns");
    if (known) {
        blocks_columns(manifest->blocks, columns, 2, manifest->timeline->count, part->columns);
        json_end(json, '}');
    } else {
        json_word(json, "null");
    }
    json_end(json, '}');
}

/* What a memory had reserved at most, or live where that is not known. */
static uint64_t
manifest_memory_figure(const void *context, uint32_t number)
{
    const struct reserved_group *group = ((const struct timeline *)context)->parts[number].group;

    return group->reserved.source != RESERVED_UNKNOWN ? group->reserved.peak_bytes : group->live_peak_bytes;
}

static void
manifest_put_reserved(const struct manifest *manifest)
{
    struct json *json = &manifest->blocks->json;
    size_t count = manifest->timeline != NULL ? manifest->timeline->part_count : 0;
    struct order *order = order_make(count, manifest_memory_figure, manifest->timeline);

    json_key(json, "reserved");
    json_begin(json, '[');
    for (size_t i = 0; order != NULL && i < count && i < manifest->fit->memory_most; i++)
        manifest_put_part(manifest, &manifest->timeline->parts[order[i].number], i);
    json_end(json, ']');
    manifest->blocks->failed = manifest->blocks->failed || order == NULL;
    free(order);
}

/* The address map. */

static uint64_t
manifest_cell(const void *context, size_t column, size_t row)
{
    (void)column;
    return ((const struct map_board *)context)->cells[row];
}

static void
manifest_put_map_board(const struct manifest *manifest, const struct map_board *board)
{
    static const struct column columns[] = { { "share", COLUMN_U8, manifest_cell } };

    blocks_columns(manifest->blocks, columns, 1, manifest->gather->pages.count * board->axis.count, board);
    manifest_put_axis(&manifest->blocks->json, &board->axis);
    json_put_unsigned(&manifest->blocks->json, "buckets", board->axis.count);
    json_end(&manifest->blocks->json, '}');
}

static void
manifest_put_map(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    const struct pages *pages = &gather->pages;
    struct json *json = &manifest->blocks->json;

    json_key(json, "map");
    if (pages->count == 0) {
        json_word(json, "null");
        return;
    }
    json_begin(json, '{');
    json_put_unsigned(json, "page_bytes", UINT64_C(1) << pages->shift);
    json_put_unsigned(json, "rows", pages->count);
    json_key(json, "row_address");
    json_begin(json, '[');
    for (size_t i = 0; i < pages->count; i++) {
        char address[32];

        snprintf(address, sizeof(address), "0x%llx", (unsigned long long)(pages->list[i] << pages->shift));
        json_text(json, address);
    }
    json_end(json, ']');
    json_key(json, "time");
    manifest_put_map_board(manifest, &gather->map.boards[0]);
    json_key(json, "by_event");
    manifest_put_map_board(manifest, &gather->map.boards[1]);
    json_end(json, '}');
}

/* Sizes by lifetimes. */

struct manifest_matrix {
    const struct matrix *matrix;
    uint16_t numbers[MATRIX_CELLS];
};

static uint64_t
manifest_matrix_cell(const void *context, size_t column, size_t row)
{
    const struct manifest_matrix *filled = context;
    size_t size = filled->numbers[row] / MATRIX_TIMES, time = filled->numbers[row] % MATRIX_TIMES;
    const struct matrix_cell *cell = &filled->matrix->cells[size][time];

    return column == 0 ? size : column == 1 ? time : column == 2 ? cell->count : cell->bytes;
}

static void
manifest_put_matrix(const struct manifest *manifest)
{
    static const struct column columns[] = {
        { "size", COLUMN_U8, manifest_matrix_cell },
        { "lived", COLUMN_U8, manifest_matrix_cell },
        { "allocations", COLUMN_VARINT, manifest_matrix_cell },
        { "bytes", COLUMN_VARINT, manifest_matrix_cell },
    };
    struct manifest_matrix filled = { .matrix = &manifest->gather->matrix };
    size_t count = matrix_filled(filled.matrix, filled.numbers);

    json_key(&manifest->blocks->json, "sizes_by_lifetimes");
    blocks_columns(manifest->blocks, columns, sizeof(columns) / sizeof(columns[0]), count, &filled);
    json_end(&manifest->blocks->json, '}');
}

/* Instants and lives. */

static uint64_t
manifest_anchor(const void *context, size_t column, size_t row)
{
    const struct anchor *anchor = &((const struct anchors *)context)->list[row];
    const uint64_t values[] = { (uint64_t)anchor->ns, anchor->event,      anchor->why,        anchor->bytes,
                                anchor->count,        anchor->kept_bytes, anchor->kept_count, anchor->least_bytes };

    return values[column];
}

static void
manifest_put_anchors(const struct manifest *manifest)
{
    static const struct column columns[] = {
        { "ns", COLUMN_DELTA, manifest_anchor },         { "event", COLUMN_DELTA, manifest_anchor },
        { "why", COLUMN_VARINT, manifest_anchor },       { "bytes", COLUMN_DELTA, manifest_anchor },
        { "count", COLUMN_DELTA, manifest_anchor },      { "kept_bytes", COLUMN_DELTA, manifest_anchor },
        { "kept_count", COLUMN_DELTA, manifest_anchor }, { "least_bytes", COLUMN_DELTA, manifest_anchor },
    };
    const struct anchors *anchors = &manifest->gather->anchors;

    json_key(&manifest->blocks->json, "anchors");
    blocks_columns(manifest->blocks, columns, sizeof(columns) / sizeof(columns[0]), anchors->count, anchors);
    json_end(&manifest->blocks->json, '}');
}

/* The rows of lives and failures, with their names. */
struct manifest_rows {
    const struct gather *gather;
    const struct manifest_names *names;
};

static uint64_t
manifest_life(const void *context, size_t column, size_t row)
{
    const struct manifest_rows *rows = context;
    const struct kept_life *life = &rows->gather->anchors.lives[row];

    switch (column) {
    case 0:
        return (uint64_t)life->alloc_ns;
    case 1:
        return life->lived;
    case 2:
        return life->size;
    case 3:
        return life->address >> 32;
    case 4:
        return life->address & UINT32_MAX;
    case 5:
        return name_index_place(&rows->names->tags, life->tag_id);
    case 6:
        return name_index_place(&rows->names->stacks, life->callstack_id);
    case 7:
        return name_index_place(&rows->names->threads, life->thread_id);
    case 8:
        return name_index_place(&rows->names->streams, life->stream_id);
    case 9:
        return name_index_place(&rows->names->layers, life->layer_id);
    default:
        return (uint64_t)life->allocation_id;
    }
}

static void
manifest_put_lives(const struct manifest *manifest, const struct manifest_rows *rows)
{
    static const struct column columns[] = {
        { "alloc_ns", COLUMN_DELTA, manifest_life },      { "lived", COLUMN_VARINT, manifest_life },
        { "size", COLUMN_VARINT, manifest_life },         { "address_high", COLUMN_DELTA, manifest_life },
        { "address_low", COLUMN_VARINT, manifest_life },  { "tag", COLUMN_VARINT, manifest_life },
        { "stack", COLUMN_VARINT, manifest_life },        { "thread", COLUMN_VARINT, manifest_life },
        { "stream", COLUMN_VARINT, manifest_life },       { "layer", COLUMN_VARINT, manifest_life },
        { "allocation_id", COLUMN_DELTA, manifest_life },
    };
    const struct anchors *anchors = &rows->gather->anchors;
    struct json *json = &manifest->blocks->json;
    uint64_t least = 0;

    for (size_t i = 0; i < anchors->count; i++)
        least = anchors->list[i].least_bytes > least ? anchors->list[i].least_bytes : least;
    json_key(json, "lives");
    blocks_columns(manifest->blocks, columns, sizeof(columns) / sizeof(columns[0]), anchors->life_count, rows);
    json_put_unsigned(json, "least_bytes", least);
    json_put_unsigned(json, "largest_count", anchors->largest);
    json_end(json, '}');
}

static uint64_t
manifest_failure(const void *context, size_t column, size_t row)
{
    const struct manifest_rows *rows = context;
    const struct gather_failure *failure = &rows->gather->failures[row];

    switch (column) {
    case 0:
        return (uint64_t)failure->ns;
    case 1:
        return failure->event;
    case 2:
        return (uint64_t)failure->allocation_id;
    case 3:
        return failure->size;
    case 4:
        return (uint64_t)failure->status;
    case 5:
        return name_index_place(&rows->names->tags, failure->tag_id);
    case 6:
        return name_index_place(&rows->names->stacks, failure->callstack_id);
    case 7:
        return name_index_place(&rows->names->threads, failure->thread_id);
    case 8:
        return name_index_place(&rows->names->streams, failure->stream_id);
    default:
        return name_index_place(&rows->names->layers, failure->layer_id);
    }
}

static void
manifest_put_failures(const struct manifest *manifest, const struct manifest_rows *rows)
{
    static const struct column columns[] = {
        { "ns", COLUMN_DELTA, manifest_failure },
        { "event", COLUMN_DELTA, manifest_failure },
        { "allocation_id", COLUMN_DELTA, manifest_failure },
        { "size", COLUMN_VARINT, manifest_failure },
        { "status", COLUMN_VARINT, manifest_failure },
        { "tag", COLUMN_VARINT, manifest_failure },
        { "stack", COLUMN_VARINT, manifest_failure },
        { "thread", COLUMN_VARINT, manifest_failure },
        { "stream", COLUMN_VARINT, manifest_failure },
        { "layer", COLUMN_VARINT, manifest_failure },
    };
    struct json *json = &manifest->blocks->json;

    json_key(json, "failures");
    blocks_columns(manifest->blocks, columns, sizeof(columns) / sizeof(columns[0]), rows->gather->failure_count, rows);
    json_end(json, '}');
    json_put_unsigned(json, "failures_count", rows->gather->failures_count);
}

static bool
manifest_index(const struct gather *gather, struct manifest_names *names)
{
    for (size_t i = 0; i < gather->anchors.life_count; i++) {
        const struct kept_life *life = &gather->anchors.lives[i];

        name_index_add(&names->tags, life->tag_id);
        name_index_add(&names->stacks, life->callstack_id);
        name_index_add(&names->threads, life->thread_id);
        name_index_add(&names->streams, life->stream_id);
        name_index_add(&names->layers, life->layer_id);
    }
    for (size_t i = 0; i < gather->failure_count; i++) {
        const struct gather_failure *failure = &gather->failures[i];

        name_index_add(&names->tags, failure->tag_id);
        name_index_add(&names->stacks, failure->callstack_id);
        name_index_add(&names->threads, failure->thread_id);
        name_index_add(&names->streams, failure->stream_id);
        name_index_add(&names->layers, failure->layer_id);
    }
    return name_index_sort(&names->tags) && name_index_sort(&names->stacks) && name_index_sort(&names->threads) &&
           name_index_sort(&names->streams) && name_index_sort(&names->layers);
}

/* Texts that are written into a block of their own. */
static struct manifest
manifest_within(const struct manifest *manifest, struct blocks *inner)
{
    struct manifest copy = *manifest;

    copy.blocks = inner;
    return copy;
}

/* The series that a row of the names belongs to. */
static void
manifest_put_place(const struct manifest *manifest, enum series_key key, int64_t id)
{
    struct json *json = &manifest->blocks->json;
    int place = series_place(&manifest->gather->series, key, id);

    json_key(json, "series");
    if (place >= 0)
        json_signed(json, place);
    else
        json_word(json, "null");
}

typedef const char *manifest_name_fn(const struct names *names, int64_t id, char *buffer, size_t size);

/* An array of objects with id and text. */
static void
manifest_put_list(const struct manifest *manifest, const struct name_index *index, const char *member,
                  enum series_key key, manifest_name_fn *name)
{
    const struct names *names = &manifest->gather->view->names;
    struct json *json = &manifest->blocks->json;
    bool is_stream = name == names_stream;

    json_begin(json, '[');
    for (size_t i = 0; i < index->count; i++) {
        const struct name *stream = is_stream ? names_find(&names->streams, index->ids[i]) : NULL;
        char buffer[256];

        json_begin(json, '{');
        json_put_signed(json, "id", index->ids[i]);
        json_key_text(json, member);
        manifest_put_name(manifest, series_words[key], index->ids[i],
                          name(names, index->ids[i], buffer, sizeof(buffer)));
        manifest_put_place(manifest, key, index->ids[i]);
        if (is_stream) {
            json_key(json, "device");
            if (stream != NULL && stream->device >= 0)
                json_signed(json, stream->device);
            else
                json_word(json, "null");
        }
        json_end(json, '}');
    }
    json_end(json, ']');
}

/* The different frames of stacks, by a hash of their texts. */
struct manifest_frames {
    struct id_map by_hash;
    const char **texts; /* owns; each borrows */
    size_t *lengths;    /* owns */
    size_t *depths;     /* owns; how many frames of a stack are inside it, at least */
    size_t count, text_capacity, length_capacity, depth_capacity;
    bool failed;
};

static uint64_t
manifest_frame(struct manifest_frames *frames, const char *text, size_t length, size_t depth)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const uint32_t *known;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    known = id_map_find(&frames->by_hash, hash);
    if (known != NULL && frames->lengths[*known] == length && memcmp(frames->texts[*known], text, length) == 0) {
        frames->depths[*known] = depth < frames->depths[*known] ? depth : frames->depths[*known];
        return *known;
    }
    if (!tidei_grow(&frames->texts, &frames->text_capacity, frames->count, 1) ||
        !tidei_grow(&frames->lengths, &frames->length_capacity, frames->count, 1) ||
        !tidei_grow(&frames->depths, &frames->depth_capacity, frames->count, 1) ||
        (known == NULL && !id_map_add(&frames->by_hash, hash, (uint32_t)frames->count))) {
        frames->failed = true;
        return 0;
    }
    frames->texts[frames->count] = text;
    frames->lengths[frames->count] = length;
    frames->depths[frames->count] = depth;
    return frames->count++;
}

/* The places of the innermost frames of a stack. */
static void
manifest_put_stack(const struct manifest *manifest, struct manifest_frames *frames, const char *text)
{
    struct fit *fit = manifest->fit;
    struct json *json = &manifest->blocks->json;
    size_t depth = 0;

    json_begin(json, '[');
    while (text != NULL) {
        const char *next;
        size_t length = stack_text_frame(text, &next);

        if (depth < fit->stacks.most)
            json_unsigned(json, manifest_frame(frames, text, length, depth));
        depth++;
        text = next;
    }
    json_end(json, ']');
    fit_note_length(&fit->stacks, depth);
}

/* The call stacks, and then the frames that they have. */
static bool
manifest_put_stacks(const struct manifest *manifest, const struct name_index *index)
{
    const struct names *names = &manifest->gather->view->names;
    struct json *json = &manifest->blocks->json;
    struct manifest_frames frames = { .count = 0 };
    size_t before = manifest->blocks->text.used;

    json_key(json, "stacks");
    json_begin(json, '[');
    for (size_t i = 0; i < index->count; i++) {
        const struct name *stack = names_find(&names->callstacks, index->ids[i]);

        json_begin(json, '{');
        json_put_signed(json, "id", index->ids[i]);
        manifest_put_place(manifest, SERIES_FRAME, index->ids[i]);
        json_key(json, "frames");
        manifest_put_stack(manifest, &frames, stack != NULL ? stack->text : NULL);
        json_end(json, '}');
    }
    json_end(json, ']');
    manifest->fit->stack_bytes = manifest->blocks->text.used - before;
    json_key(json, "frames");
    json_begin(json, '[');
    for (size_t i = 0; i < frames.count; i++) {
        if (manifest->no_names) {
            manifest_say(json, "frame %zu", i);
            continue;
        }
        fit_note_frame(manifest->fit, frames.lengths[i], frames.depths[i]);
        manifest_put_chosen(manifest, json, frames.texts[i], frames.lengths[i]);
    }
    json_end(json, ']');
    id_map_free(&frames.by_hash);
    free(frames.texts);
    free(frames.lengths);
    free(frames.depths);
    return !frames.failed;
}

static bool
manifest_put_names(const struct manifest *manifest, const struct manifest_names *names)
{
    struct blocks inner;
    struct manifest within = manifest_within(manifest, &inner);
    bool done;

    if (blocks_begin(&inner, true) != COMMAND_FINE)
        return false;
    json_begin(&inner.json, '{');
    json_key(&inner.json, "tags");
    manifest_put_list(&within, &names->tags, "path", SERIES_TAG, names_tag);
    json_key(&inner.json, "threads");
    manifest_put_list(&within, &names->threads, "name", SERIES_THREAD, names_thread);
    json_key(&inner.json, "streams");
    manifest_put_list(&within, &names->streams, "name", SERIES_STREAM, names_stream);
    json_key(&inner.json, "layers");
    manifest_put_list(&within, &names->layers, "name", SERIES_LAYER, names_layer);
    done = manifest_put_stacks(&within, &names->stacks) && !inner.text.failed;
    json_end(&inner.json, '}');
    json_key(&manifest->blocks->json, "names");
    blocks_text(manifest->blocks, inner.text.buffer, inner.text.used);
    blocks_free(&inner);
    return done;
}

/* Lists. */

static void
manifest_put_summits(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    struct json *json = &manifest->blocks->json;

    json_key(json, "summits");
    json_begin(json, '[');
    for (size_t i = 0; i < gather->summit_count; i++) {
        json_begin(json, '{');
        json_put_signed(json, "ns", gather->summits[i].ns);
        json_put_unsigned(json, "event", gather->summits[i].event);
        json_put_unsigned(json, "bytes", gather->summits[i].bytes);
        json_put_unsigned(json, "prominence_bytes", gather->summits[i].prominence_bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_key(json, "plateaus");
    json_begin(json, '[');
    for (size_t i = 0; i < gather->plateau_count; i++) {
        json_begin(json, '{');
        json_put_signed(json, "begin_ns", gather->peak.plateaus[i].begin_ns);
        json_put_signed(json, "end_ns", gather->peak.plateaus[i].end_ns);
        json_put_unsigned(json, "most_bytes", gather->peak.plateaus[i].most_bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static bool
manifest_put_marks(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    struct blocks inner;
    struct json *json = &inner.json;

    if (blocks_begin(&inner, true) != COMMAND_FINE)
        return false;
    json_begin(json, '[');
    for (size_t i = 0; i < gather->mark_count; i++) {
        const struct gather_mark *mark = &gather->marks[i];

        json_begin(json, '{');
        json_put_signed(json, "ns", mark->ns);
        json_put_unsigned(json, "event", mark->event);
        json_key(json, "kind");
        manifest_put_chosen(manifest, json, mark->kind != NULL ? mark->kind : "",
                            mark->kind != NULL ? strlen(mark->kind) : 0);
        json_key(json, "text");
        if (mark->text != NULL && !manifest->no_names)
            manifest_put_chosen(manifest, json, mark->text, strlen(mark->text));
        else
            json_word(json, "null");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_key(&manifest->blocks->json, "marks");
    blocks_text(manifest->blocks, inner.text.buffer, inner.text.used);
    json_put_unsigned(&manifest->blocks->json, "marks_count", gather->marks_count);
    blocks_free(&inner);
    return !inner.text.failed;
}

/* What the commands answered. */

/* Write what a command answered, or null where it is too long. Returns its bytes. */
static size_t
manifest_put_answer(struct fit *fit, struct blocks *inner, const struct report *report)
{
    size_t before, length;

    json_separate(&inner->json);
    before = inner->text.used;
    report_write_json(report, &inner->text);
    length = inner->text.used - before;
    if (!fit_note_answer(fit, length)) {
        inner->text.used = before;
        emit_string(&inner->text, "null");
    } else if (length > 0) {
        inner->text.used--; /* the line end */
    }
    return length;
}

static bool
manifest_put_answers(const struct manifest *manifest)
{
    struct blocks inner;
    bool done;

    if (blocks_begin(&inner, true) != COMMAND_FINE)
        return false;
    json_begin(&inner.json, '{');
    for (size_t i = 0; i < manifest->answer_count; i++) {
        struct manifest_answer *answer = &manifest->answers[i];
        size_t length = 0;

        json_key_text(&inner.json, answer->command);
        if (answer->report != NULL)
            length = manifest_put_answer(manifest->fit, &inner, answer->report);
        else
            json_word(&inner.json, "null");
        answer->left_out_bytes = length > manifest->fit->answer_most ? length : 0;
    }
    json_end(&inner.json, '}');
    done = !inner.text.failed;
    json_key(&manifest->blocks->json, "reports");
    blocks_text(manifest->blocks, inner.text.buffer, inner.text.used);
    blocks_free(&inner);
    if (manifest->diff == NULL || blocks_begin(&inner, true) != COMMAND_FINE)
        return done && manifest->diff == NULL;
    manifest->fit->diff_bytes = manifest_put_answer(manifest->fit, &inner, manifest->diff);
    done = done && !inner.text.failed;
    json_key(&manifest->blocks->json, "diff");
    blocks_text(manifest->blocks, inner.text.buffer, inner.text.used);
    blocks_free(&inner);
    return done;
}

/* The manifest. */

static void
manifest_put_head(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    const struct trace *trace = &gather->view->trace;
    struct json *json = &manifest->blocks->json;
    char *subject = view_subject(gather->view);

    json_put_unsigned(json, "format_version", 1);
    json_key(json, "of");
    if (subject != NULL && !manifest->no_names)
        blocks_put_name(json, subject, strlen(subject));
    else
        json_word(json, "null");
    free(subject);
    json_put_text(json, "detail", gather->detail->name);
    json_put_text(json, "version", PACKAGE_VERSION);
    json_key(json, "complete");
    json_flag(json, trace->complete && trace->lost_events == 0);
    json_put_text(json, "ended", trace_end_word(trace));
    json_put_signed(json, "lost_events", trace->lost_events);
    json_key(json, "verdict");
    manifest_put_notes(manifest, manifest->answer_count > 0 ? manifest->answers[0].report : NULL);
}

static void
manifest_put_figures(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    struct json *json = &manifest->blocks->json;

    json_put_signed(json, "begin_ns", gather->begun ? gather->begin_ns : 0);
    json_put_signed(json, "end_ns", gather->begun ? gather->end_ns : 0);
    json_put_unsigned(json, "events", gather->events);
    json_put_unsigned(json, "allocations", gather->allocations);
    json_put_unsigned(json, "frees", gather->events - gather->allocations);
    json_key(json, "peak");
    if (gather->has_peak) {
        json_begin(json, '{');
        json_put_unsigned(json, "bytes", gather->peak_bytes);
        json_put_signed(json, "ns", gather->peak_ns);
        json_put_unsigned(json, "event", gather->peak_event);
        json_put_signed(json, "allocation_id", gather->peak_id);
        json_put_unsigned(json, "count", gather->peak_count);
        json_end(json, '}');
    } else {
        json_word(json, "null");
    }
    json_key(json, "live");
    json_begin(json, '{');
    json_put_unsigned(json, "bytes", gather->live_bytes);
    json_put_unsigned(json, "count", gather->live_count);
    json_end(json, '}');
}

/* What was written since the last note is of `part`. */
static void
manifest_note(const struct manifest *manifest, enum fit_part part)
{
    if (!manifest->blocks->are_inline)
        fit_note(manifest->fit, part, blocks_bytes(manifest->blocks));
}

static bool
manifest_put_rows(const struct manifest *manifest)
{
    struct manifest_names names = { .tags.count = 0 };
    struct manifest_rows rows = { manifest->gather, &names };
    bool done = manifest_index(manifest->gather, &names);

    if (done) {
        manifest_put_lives(manifest, &rows);
        manifest_note(manifest, FIT_LIVES);
        manifest_put_summits(manifest);
        manifest_note(manifest, FIT_REST);
        manifest_put_failures(manifest, &rows);
        manifest_note(manifest, FIT_FAILURES);
        done = manifest_put_marks(manifest);
        manifest_note(manifest, FIT_MARKS);
        done = done && manifest_put_names(manifest, &names);
        manifest_note(manifest, FIT_NAMES);
    }
    name_index_free(&names.tags);
    name_index_free(&names.stacks);
    name_index_free(&names.threads);
    name_index_free(&names.streams);
    name_index_free(&names.layers);
    return done;
}

/* Write it with what is cut by now, but for the sentences on what that is. */
static int
manifest_put_all(const struct manifest *manifest)
{
    const struct gather *gather = manifest->gather;
    struct blocks *blocks = manifest->blocks;
    int status;

    fit_restart(manifest->fit);
    manifest_note(manifest, FIT_REST);
    manifest_put_head(manifest);
    manifest_note(manifest, FIT_REST);
    status = manifest_put_trace(manifest);
    manifest_note(manifest, FIT_NAMES);
    if (status != COMMAND_FINE)
        return status;
    manifest_put_figures(manifest);
    manifest_note(manifest, FIT_REST);
    json_key(&blocks->json, "time");
    manifest_put_buckets(manifest, &gather->time, true);
    json_key(&blocks->json, "by_event");
    manifest_put_buckets(manifest, &gather->by_event, false);
    manifest_note(manifest, FIT_TIMELINES);
    manifest_put_groups(manifest);
    manifest_note(manifest, FIT_GROUPS);
    manifest_put_reserved(manifest);
    manifest_note(manifest, FIT_RESERVED);
    manifest_put_map(manifest);
    manifest_note(manifest, FIT_MAP);
    manifest_put_matrix(manifest);
    manifest_put_anchors(manifest);
    manifest_note(manifest, FIT_REST);
    if (manifest_put_rows(manifest) && manifest_put_answers(manifest) && !blocks->failed && !blocks->text.failed) {
        manifest_note(manifest, FIT_ANSWERS);
        return COMMAND_FINE;
    }
    return trace_broken(&gather->view->trace, "no memory for its report");
}

static int
manifest_put_whole(const struct manifest *manifest)
{
    int status = manifest_put_all(manifest);

    if (status == COMMAND_FINE)
        manifest_put_left_out(manifest);
    return status;
}

/* Write into `manifest->blocks`, which has no blocks of its own yet or those of another trace, what fits. */
static int
manifest_write_blocks(const struct manifest *manifest)
{
    struct blocks *blocks = manifest->blocks;
    size_t had = blocks_bytes(blocks), most = manifest->gather->detail->bytes;
    struct blocks before = *blocks;

    for (;;) {
        int status = manifest_put_all(manifest);
        struct blocks all;

        if (status != COMMAND_FINE)
            return status;
        blocks_bytes(blocks);
        all = *blocks;
        manifest_put_left_out(manifest);
        if (blocks_bytes(blocks) - had <= most)
            return status;
        if (!fit_cut(manifest->fit, manifest->gather, blocks_bytes(blocks) - had - most)) {
            manifest->fit->is_larger = true;
            blocks_rewind(blocks, &all);
            manifest_put_left_out(manifest);
            return status;
        }
        if (manifest->gather->anchors.failed)
            return trace_broken(&manifest->gather->view->trace, "no memory for its report");
        blocks_rewind(blocks, &before);
    }
}

int
manifest_write(const struct manifest *manifest)
{
    struct manifest own = *manifest;
    struct blocks page;
    struct fit fit;
    int status;

    fit_begin(&fit, manifest->gather, manifest->timeline != NULL ? manifest->timeline->part_count : 0);
    own.fit = &fit;
    if (manifest->gather->detail->bytes == 0)
        return manifest_put_whole(&own);
    if (!manifest->blocks->are_inline)
        return manifest_write_blocks(&own);
    /* As the page has it: only there it is known what fits. */
    status = blocks_begin(&page, false);
    if (status != COMMAND_FINE)
        return status;
    own.blocks = &page;
    status = manifest_write_blocks(&own);
    blocks_free(&page);
    own.blocks = manifest->blocks;
    return status == COMMAND_FINE ? manifest_put_whole(&own) : status;
}
