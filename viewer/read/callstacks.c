/* Reads the call stacks of a trace as texts. */
#include "config.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/callstacks.h"
#include "viewer/read/names.h"

/* The most bytes of the different texts of a list. A real program has some MiB. */
#define CALLSTACKS_BYTES ((size_t)1 << 30)

/* The text of a call stack whose frames all do not count. */
#define CALLSTACKS_NOTHING "(left out)"

/* A frame: "function (file:line)", and "function (file)" without folders. */
struct callstacks_frame {
    char *text;     /* owns */
    char *function; /* owns */
    bool skipped;
};

/* A list that is being filled. */
struct callstacks_maker {
    struct name_list *list; /* NULL: not wanted */
    struct id_map by_hash;  /* owns; the index of the first name with a text of this hash */
    char *text;             /* owns; of the current call stack so far */
    size_t length;
    size_t capacity;
    uint64_t frames; /* in it */
    size_t bytes;    /* of all different texts */
};

struct callstacks {
    const struct callstack_options *options;
    const struct callstack_lists *out;
    struct callstacks_frame *frames; /* owns */
    size_t frame_count;
    size_t frame_capacity;
    struct id_map frame_by_id; /* owns */
    struct callstacks_maker whole, counted, functions;
    int64_t id; /* of the current call stack */
    bool any;   /* there is one */
};

static int
callstacks_no_memory(const struct trace *trace)
{
    return trace_broken(trace, "no memory for its call stacks");
}

static bool
callstacks_skips(struct callstacks *self, const char *function, const char *text)
{
    const struct option_list *skip = &self->options->skip;
    bool skipped = false;

    for (size_t i = 0; i < skip->count; i++) {
        if (fnmatch(skip->items[i], function, 0) != 0 && fnmatch(skip->items[i], text, 0) != 0)
            continue;
        skipped = true;
        *self->out->fitting |= UINT32_C(1) << i;
    }
    return skipped;
}

/* Add a frame: id, function or place in a module, " (file:line)" or "", " (file)" or "". */
static int
callstacks_add_frame(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct callstacks *self = context;
    const char *parts[3] = { "", "", "" };
    struct callstacks_frame *frame;
    uint64_t id = (uint64_t)sqlite3_column_int64(row, 0);

    for (int i = 0; i < 3; i++) {
        if (sqlite3_column_text(row, i + 1) != NULL)
            parts[i] = (const char *)sqlite3_column_text(row, i + 1);
    }
    if (self->frame_count == UINT32_MAX || !tidei_grow(&self->frames, &self->frame_capacity, self->frame_count, 1))
        return callstacks_no_memory(trace);
    frame = &self->frames[self->frame_count];
    *frame = (struct callstacks_frame){ 0 };
    if (asprintf(&frame->text, "%s%s", parts[0], parts[1]) < 0) {
        frame->text = NULL;
        return callstacks_no_memory(trace);
    }
    if (asprintf(&frame->function, "%s%s", parts[0], parts[2]) < 0) {
        free(frame->text);
        return callstacks_no_memory(trace);
    }
    frame->skipped = callstacks_skips(self, parts[0], frame->text);
    if (!id_map_add(&self->frame_by_id, id, (uint32_t)self->frame_count++) ||
        (frame->skipped && !id_map_add(self->out->skipped, id, 0)))
        return callstacks_no_memory(trace);
    return COMMAND_FINE;
}

/* Append a frame to the current text. */
static bool
callstacks_append(struct callstacks_maker *maker, const char *frame)
{
    const char *separator = maker->frames > 0 ? " < " : "";
    size_t before = strlen(separator);
    size_t length = strlen(frame);

    if (maker->list == NULL)
        return true;
    if (maker->length + length > CALLSTACKS_BYTES ||
        !tidei_grow(&maker->text, &maker->capacity, maker->length, before + length + 1))
        return false;
    memcpy(maker->text + maker->length, separator, before);
    memcpy(maker->text + maker->length + before, frame, length + 1);
    maker->length += before + length;
    maker->frames++;
    return true;
}

static uint64_t
callstacks_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/*
 * End the current text: add a name for the call stack `id`. If two texts share a hash, which those of real programs do
 * not, those of the second are not found to be the same.
 */
static bool
callstacks_end_text(struct callstacks_maker *maker, int64_t id)
{
    struct name_list *list = maker->list;
    const char *text = maker->frames > 0 ? maker->text : CALLSTACKS_NOTHING;
    struct name name = { .id = id, .number = id, .device = -1 };
    struct name *same = NULL;
    const uint32_t *known;
    uint64_t hash;

    if (list == NULL)
        return true;
    hash = callstacks_hash(text);
    known = id_map_find(&maker->by_hash, hash);
    if (known != NULL && strcmp(list->names[*known].text, text) == 0)
        same = &list->names[*known];
    if (same != NULL) {
        same->is_shared = true;
        name.number = same->id;
        name.text = same->text;
        name.borrows = true;
    } else if ((maker->bytes += strlen(text)) > CALLSTACKS_BYTES || (name.text = strdup(text)) == NULL) {
        return false;
    }
    maker->length = maker->frames = 0;
    if (list->count >= NAMES_MAX || !tidei_grow(&list->names, &list->capacity, list->count, 1)) {
        if (same == NULL)
            free(name.text);
        return false;
    }
    list->names[list->count] = name;
    return (known != NULL || id_map_add(&maker->by_hash, hash, (uint32_t)list->count)) &&
           id_map_add(&list->by_id, (uint64_t)id, (uint32_t)list->count++);
}

static bool
callstacks_end(struct callstacks *self)
{
    return !self->any ||
           (callstacks_end_text(&self->whole, self->id) && callstacks_end_text(&self->counted, self->id) &&
            callstacks_end_text(&self->functions, self->id));
}

/* Add a row of a call stack and a frame, the innermost first. A frame that is not defined is left out. */
static int
callstacks_add_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct callstacks *self = context;
    int64_t id = sqlite3_column_int64(row, 0);
    const uint32_t *place = id_map_find(&self->frame_by_id, (uint64_t)sqlite3_column_int64(row, 1));
    const struct callstacks_frame *frame;
    bool counts;

    if (place == NULL)
        return COMMAND_FINE;
    if ((!self->any || id != self->id) && !callstacks_end(self))
        return callstacks_no_memory(trace);
    self->id = id;
    self->any = true;
    frame = &self->frames[*place];
    counts = !frame->skipped && (self->options->frames == 0 || self->functions.frames < self->options->frames);
    if (!callstacks_append(&self->whole, frame->text) ||
        (counts &&
         (!callstacks_append(&self->counted, frame->text) || !callstacks_append(&self->functions, frame->function))))
        return callstacks_no_memory(trace);
    return COMMAND_FINE;
}

static int
callstacks_read_rows(const struct trace *trace, struct callstacks *self)
{
    /* The last part of a path: what is left of it without all that ends in a slash. */
    static const char frames_sql[] =
        "SELECT frame_id, coalesce(nullif(function, ''), replace(path, rtrim(path, replace(path, '/', '')), '') ||"
        " printf('+0x%%x', address - base), printf('0x%%x', address)),"
        " iif(ifnull(file, '') = '', '', ' (' || file || iif(ifnull(line, 0) = 0, '', ':' || line) || ')'),"
        " iif(ifnull(file, '') = '', '', ' (' || replace(file, rtrim(file, replace(file, '/', '')), '') || ')')"
        " FROM frame LEFT JOIN module USING (module_id)";
    int status = trace_each(trace, callstacks_add_frame, self, frames_sql);

    if (status == COMMAND_FINE)
        status = trace_each(trace, callstacks_add_row, self,
                            "SELECT callstack_id, frame_id FROM callstack ORDER BY callstack_id, position");
    if (status == COMMAND_FINE && !callstacks_end(self))
        status = callstacks_no_memory(trace);
    return status;
}

static void
callstacks_free_maker(struct callstacks_maker *maker)
{
    id_map_free(&maker->by_hash);
    free(maker->text);
}

int
callstacks_read(const struct trace *trace, const struct callstack_options *options, const struct callstack_lists *out)
{
    bool all = options->frames == 0 && options->skip.count == 0;
    struct callstacks self = { .options = options,
                               .out = out,
                               .whole.list = out->whole,
                               .counted.list = all ? NULL : out->counted,
                               .functions.list = out->functions };
    int status;

    if (!trace_has(trace, "callstack", "callstack_id position frame_id") ||
        !trace_has(trace, "frame", "frame_id address module_id function file line") ||
        !trace_has(trace, "module", "module_id path base"))
        return COMMAND_FINE;
    status = callstacks_read_rows(trace, &self);
    for (size_t i = 0; i < self.frame_count; i++) {
        free(self.frames[i].text);
        free(self.frames[i].function);
    }
    free(self.frames);
    id_map_free(&self.frame_by_id);
    callstacks_free_maker(&self.whole);
    callstacks_free_maker(&self.counted);
    callstacks_free_maker(&self.functions);
    return status;
}
