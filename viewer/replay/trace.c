/* Reads allocator traffic from a log layer of a trace. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"
#include "viewer/read/tag-chain.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"

struct reader {
    const struct trace *trace;
    struct replay_input *input;
    int64_t layer_id;
    struct id_map live;        /* owns; allocations by allocation_id */
    struct name_list streams;  /* owns */
    struct name_list tags;     /* owns */
    const struct name *stream; /* borrows; that of the event before; NULL: one that the trace does not know */
    size_t next_mark;          /* the first that is not among the events yet */
    int64_t first_ns;          /* the time of the first event */
    int64_t next_mark_ns;      /* its time; INT64_MAX: there is none */
    bool has_callstacks;       /* the trace has the tables that say what they are */
    bool keeps_notes;          /* else no tags and call stacks */
    bool keeps_times;
};

static int
reader_added(const struct reader *reader, const struct scan_life *life, const char *error)
{
    if (error == NULL)
        return COMMAND_FINE;
    return trace_broken(reader->trace, "allocation %" PRId64 ": %s", life->allocation_id, error);
}

static int
reader_begin(void *context)
{
    struct reader *reader = context;

    /* The marks are read before the events, and are kept where these are read again. */
    struct replay_notes notes = reader->input->notes;

    reader->input->notes = (struct replay_notes){ 0 };
    replay_input_clear(reader->input);
    reader->input->notes = notes;
    id_map_free(&reader->live);
    reader->next_mark = 0;
    reader->next_mark_ns = INT64_MIN;
    return COMMAND_FINE;
}

/* Note the recorded time of the event that was just added. NULL, or an error. */
static const char *
reader_time(const struct reader *reader, int64_t ns)
{
    return reader->keeps_times ? replay_input_time(reader->input, ns) : NULL;
}

/* Note that there is an event at `ns`. */
static void
reader_clock(struct reader *reader, int64_t ns)
{
    if (reader->input->event_count == 0)
        reader->first_ns = ns;
    if (ns - reader->first_ns > reader->input->duration_ns)
        reader->input->duration_ns = ns - reader->first_ns;
}

/* Add the marks up to `ns`. NULL, or an error. */
static const char *
reader_marks(struct reader *reader, int64_t ns)
{
    const struct replay_notes *notes = &reader->input->notes;
    const char *error = NULL;

    for (; error == NULL && reader->next_mark < notes->mark_count && notes->marks[reader->next_mark].ns <= ns;
         reader->next_mark++) {
        const struct replay_mark *mark = &notes->marks[reader->next_mark];

        error = replay_input_mark(reader->input, (uint64_t)mark->thread_id, (uint32_t)reader->next_mark);
        if (error == NULL)
            error = reader_time(reader, mark->ns);
    }
    reader->next_mark_ns = reader->next_mark < notes->mark_count ? notes->marks[reader->next_mark].ns : INT64_MAX;
    return error;
}

/* Set the names of the tags of a label, from the outermost on. False: no memory. */
static bool
reader_label_tags(const struct reader *reader, struct replay_label *label)
{
    const struct name *chain[TAG_CHAIN_MOST];
    const char *left_out;
    size_t depth = tag_chain(&reader->tags, names_find(&reader->tags, label->tag_id), chain, &left_out);

    label->tags = calloc(depth + 1, sizeof(*label->tags));
    for (; label->tags != NULL && label->tag_count < depth; label->tag_count++) {
        label->tags[label->tag_count] = strdup(chain[depth - 1 - label->tag_count]->text);
        if (label->tags[label->tag_count] == NULL)
            return false;
    }
    return label->tags != NULL;
}

/* Note the tag and the call stack of an allocation. NULL, or an error. */
static const char *
reader_label(struct reader *reader, const struct scan_life *life, uint32_t allocation)
{
    struct replay_notes *notes = &reader->input->notes;
    int64_t callstack_id = reader->has_callstacks ? life->callstack_id : 0;
    uint64_t key = (uint64_t)life->tag_id << 32 ^ (uint64_t)callstack_id;
    const uint32_t *known;

    if (!reader->keeps_notes)
        return NULL;
    if (life->tag_id < 0 || life->tag_id > UINT32_MAX || callstack_id < 0 || callstack_id > UINT32_MAX)
        return "its tag or its call stack has a number that no recording gives";
    if (!tidei_grow(&notes->label_of, &notes->label_of_capacity, allocation, 1))
        return replay_no_memory;
    notes->label_of[allocation] = 0;
    if (key == 0)
        return NULL;
    known = id_map_find(&notes->label_numbers, key);
    if (known == NULL) {
        struct replay_label label = { .tag_id = life->tag_id, .callstack_id = callstack_id };

        if (!tidei_grow(&notes->labels, &notes->label_capacity, notes->label_count, 1))
            return replay_no_memory;
        notes->labels[notes->label_count++] = label;
        if (!reader_label_tags(reader, &notes->labels[notes->label_count - 1]) ||
            !id_map_add(&notes->label_numbers, key, (uint32_t)notes->label_count))
            return replay_no_memory;
        known = id_map_find(&notes->label_numbers, key);
    }
    notes->label_of[allocation] = *known;
    notes->has_callstacks = notes->has_callstacks || callstack_id != 0;
    return NULL;
}

/* The handle that was recorded; a stream that the trace does not know goes by its id. */
static uint64_t
reader_stream(struct reader *reader, int64_t stream_id)
{
    if (reader->stream == NULL || reader->stream->id != stream_id)
        reader->stream = names_find(&reader->streams, stream_id);
    return (uint64_t)(reader->stream != NULL ? reader->stream->number : stream_id);
}

static int
reader_alloc(void *context, const struct scan_life *life)
{
    struct reader *reader = context;
    const char *error;
    uint32_t allocation;

    if (life->layer_id != reader->layer_id)
        return COMMAND_FINE;
    reader->input->recorded_events++;
    if (life->status != 0) {
        reader->input->recorded_failures++;
        return COMMAND_FINE;
    }
    if (life->alignment == 0 || (life->alignment & (life->alignment - 1)) != 0)
        return trace_broken(reader->trace, "allocation %" PRId64 ": alignment %" PRIu64 " is no power of two",
                            life->allocation_id, life->alignment);
    reader_clock(reader, life->alloc_ns);
    error = life->alloc_ns >= reader->next_mark_ns ? reader_marks(reader, life->alloc_ns) : NULL;
    if (error != NULL)
        return reader_added(reader, life, error);
    error =
        replay_input_alloc(reader->input, (uint64_t)life->alloc_thread_id, reader_stream(reader, life->alloc_stream_id),
                           life->size, (unsigned)__builtin_ctzll(life->alignment), &allocation);
    if (error == NULL)
        error = reader_time(reader, life->alloc_ns);
    if (error == NULL)
        error = reader_label(reader, life, allocation);
    if (error == NULL && life->freed && !id_map_add(&reader->live, (uint64_t)life->allocation_id, allocation))
        error = replay_no_memory;
    return reader_added(reader, life, error);
}

static int
reader_free(void *context, const struct scan_life *life)
{
    struct reader *reader = context;
    const char *error;
    uint32_t allocation;

    if (life->layer_id != reader->layer_id || !id_map_take(&reader->live, (uint64_t)life->allocation_id, &allocation))
        return COMMAND_FINE;
    reader->input->recorded_events++;
    reader_clock(reader, life->free_ns);
    error = life->free_ns >= reader->next_mark_ns ? reader_marks(reader, life->free_ns) : NULL;
    if (error == NULL)
        error = replay_input_free(reader->input, (uint64_t)life->free_thread_id,
                                  reader_stream(reader, life->free_stream_id),
                                  (unsigned)__builtin_ctzll(life->alignment), allocation);
    if (error == NULL)
        error = reader_time(reader, life->free_ns);
    return reader_added(reader, life, error);
}

/* The marks after the last event. */
static int
reader_end(void *context, int64_t last_ns)
{
    struct reader *reader = context;
    const char *error = reader_marks(reader, INT64_MAX);

    (void)last_ns;
    return error == NULL ? COMMAND_FINE : trace_broken(reader->trace, "its marks: %s", error);
}

/* With the notes, and without. */
static const struct scan_unit reader_units[] = {
    {
        .needs = SCAN_DETAILS | SCAN_ORIGIN,
        .begin = reader_begin,
        .alloc = reader_alloc,
        .free = reader_free,
        .end = reader_end,
    },
    {
        .needs = SCAN_DETAILS,
        .begin = reader_begin,
        .alloc = reader_alloc,
        .free = reader_free,
        .end = reader_end,
    },
};

/* The layer that was asked for, or the outermost log layer. */
static int
reader_layer(const struct trace *trace, int64_t wanted, int64_t *out)
{
    struct trace_layers layers;
    const struct trace_layer *found = NULL;
    int status = trace_layers_read(trace, &layers);

    if (status != COMMAND_FINE)
        return status;
    for (size_t i = 0; i < layers.count && found == NULL; i++) {
        if (trace_layer_is_log(&layers.layers[i]) && (wanted == 0 || layers.layers[i].layer_id == wanted))
            found = &layers.layers[i];
    }
    if (found != NULL)
        *out = found->layer_id;
    else if (wanted != 0)
        status = trace_broken(trace, "there is no log layer %" PRId64 "; `tidemark summary` lists them", wanted);
    else
        status = trace_broken(trace, "there is no log layer");
    trace_layers_free(&layers);
    return status;
}

/* Frees that the recording itself could not match. */
static int
reader_unmatched(struct reader *reader)
{
    int64_t count;
    int code = trace_look_up(reader->trace, &count, "SELECT count(*) FROM unmatched_free WHERE layer_id = %lld",
                             reader->layer_id);

    reader->input->unknown_frees += (uint64_t)count;
    reader->input->recorded_events += (uint64_t)count;
    return code == SQLITE_ROW ? COMMAND_FINE : trace_failed(reader->trace);
}

static int
reader_add_mark(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct replay_notes *notes = &((struct reader *)context)->input->notes;
    const char *text = (const char *)sqlite3_column_text(row, 2);
    struct replay_mark mark = { sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                                strdup(text != NULL ? text : "") };

    if (mark.text != NULL && tidei_grow(&notes->marks, &notes->mark_capacity, notes->mark_count, 1)) {
        notes->marks[notes->mark_count++] = mark;
        return COMMAND_FINE;
    }
    free(mark.text);
    return trace_broken(trace, "no memory for its marks");
}

/* The marks of threads that are not known are those of the first thread. */
static int
reader_read_marks(struct reader *reader)
{
    if (!trace_has(reader->trace, "mark", "ns thread_id kind text"))
        return COMMAND_FINE;
    return trace_each(reader->trace, reader_add_mark, reader,
                      "SELECT ns, coalesce(thread_id, (SELECT min(thread_id) FROM thread), 0), text FROM mark"
                      " WHERE kind = 'mark' ORDER BY ns, rowid");
}

/* The names of the threads that have an event. */
static int
reader_name_threads(struct reader *reader)
{
    struct replay_input *input = reader->input;
    struct name_list threads = { 0 };
    int status = names_read_threads(reader->trace, &threads);

    input->notes.thread_names = calloc(input->thread_count + 1, sizeof(*input->notes.thread_names));
    if (status == COMMAND_FINE && input->notes.thread_names == NULL)
        status = trace_broken(reader->trace, "no memory for its threads");
    for (size_t i = 0; status == COMMAND_FINE && i < threads.count; i++) {
        const uint32_t *number = id_map_find(&input->thread_numbers, (uint64_t)threads.names[i].id);

        if (number == NULL)
            continue;
        input->notes.thread_names[*number] = threads.names[i].text;
        threads.names[i].text = NULL;
    }
    names_free_list(&threads);
    return status;
}

int
replay_read_trace(const char *path, const struct replay_reading *reading, struct replay_input *input)
{
    struct trace trace;
    struct reader reader = { .trace = &trace,
                             .input = input,
                             .keeps_notes = reading->keeps_notes,
                             .keeps_times = reading->keeps_times || reading->keeps_notes };
    struct scan_pass pass = { .unit = &reader_units[!reading->keeps_notes], .context = &reader };
    int status = trace_open(path, reading->no_symbols, &trace);

    *input = (struct replay_input){ 0 };
    if (status != COMMAND_FINE)
        return status;
    status = reader_layer(&trace, reading->layer_id, &reader.layer_id);
    if (status == COMMAND_FINE)
        status = names_read_streams(&trace, &reader.streams);
    if (status == COMMAND_FINE)
        status = names_read_tags(&trace, &reader.tags);
    if (status == COMMAND_FINE)
        status = reader_read_marks(&reader);
    reader.has_callstacks = status == COMMAND_FINE &&
                            trace_has(&trace, "callstack", "callstack_id position frame_id") &&
                            trace_has(&trace, "frame", "frame_id address module_id function file line") &&
                            trace_has(&trace, "module", "module_id path build_id base size");
    if (status == COMMAND_FINE)
        status = scan_run(&trace, NULL, &pass, 1);
    if (status == COMMAND_FINE)
        status = reader_unmatched(&reader);
    if (status == COMMAND_FINE)
        status = reader_name_threads(&reader);
    input->notes.path = path;
    if (status == COMMAND_FINE)
        input->incomplete = trace_verdict(&trace) != COMMAND_FINE;
    else
        replay_input_clear(input);
    id_map_free(&reader.live);
    names_free_list(&reader.streams);
    names_free_list(&reader.tags);
    trace_close(&trace);
    return status;
}
