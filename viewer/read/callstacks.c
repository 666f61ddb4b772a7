/* Reads the call stacks of a trace as texts. */
#include "config.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/callstacks.h"
#include "viewer/read/name-texts.h"
#include "viewer/read/names.h"

/* The most bytes of one text. */
#define CALLSTACKS_BYTES ((size_t)1 << 30)

/* The text of a call stack whose frames all do not count. */
#define CALLSTACKS_NOTHING "(left out)"

/* A frame: "function (file:line)", "function (file)" without folders, and where its function is. */
struct callstacks_frame {
    char *text;     /* owns */
    char *function; /* owns */
    char *place;    /* owns; the source file, or else the name of the module; "": neither is known */
    bool has_file;
    bool skipped;
};

/* A list that is being filled. */
struct callstacks_maker {
    struct name_texts texts; /* its list is NULL: not wanted */
    char *text;              /* owns; of the current call stack so far */
    size_t length;
    size_t capacity;
    uint64_t frames; /* in it */
};

struct callstacks {
    const struct callstack_options *options;
    const struct callstack_lists *out;
    struct callstacks_frame *frames; /* owns */
    size_t frame_count;
    size_t frame_capacity;
    struct id_map frame_by_id; /* owns */
    struct callstacks_maker whole, counted, functions;
    struct name_texts files;
    const struct callstacks_frame *file;      /* of the current call stack: its innermost frame with a file, or NULL */
    const struct callstacks_frame *innermost; /* that counts; NULL: none */
    int64_t id;                               /* of the current call stack */
    bool any;                                 /* there is one */
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

/* Add a frame: id, function or place in a module, " (file:line)" or "", " (file)" or "", file or "", module or "". */
static int
callstacks_add_frame(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct callstacks *self = context;
    const char *parts[5] = { "", "", "", "", "" };
    struct callstacks_frame *frame;
    uint64_t id = (uint64_t)sqlite3_column_int64(row, 0);

    for (int i = 0; i < 5; i++) {
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
    frame->has_file = parts[3][0] != '\0';
    frame->place = strdup(frame->has_file ? parts[3] : parts[4]);
    if (frame->place == NULL || asprintf(&frame->function, "%s%s", parts[0], parts[2]) < 0) {
        free(frame->text);
        free(frame->place);
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

    if (maker->texts.list == NULL)
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

/* End the current text: add a name for the call stack `id`. */
static bool
callstacks_end_text(struct callstacks_maker *maker, int64_t id)
{
    const char *text = maker->frames > 0 ? maker->text : CALLSTACKS_NOTHING;

    maker->length = maker->frames = 0;
    return maker->texts.list == NULL || name_texts_add(&maker->texts, id, text) != NULL;
}

/* The file of a call stack is that of the innermost frame that counts and has one; without any, a module. */
static bool
callstacks_end_file(struct callstacks *self)
{
    const struct callstacks_frame *frame = self->file != NULL ? self->file : self->innermost;
    const char *text = frame == NULL ? CALLSTACKS_NOTHING : frame->place[0] != '\0' ? frame->place : "(unknown)";

    self->file = self->innermost = NULL;
    return name_texts_add(&self->files, self->id, text) != NULL;
}

static bool
callstacks_end(struct callstacks *self)
{
    return !self->any ||
           (callstacks_end_text(&self->whole, self->id) && callstacks_end_text(&self->counted, self->id) &&
            callstacks_end_text(&self->functions, self->id) && callstacks_end_file(self));
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
    if (!frame->skipped && self->innermost == NULL)
        self->innermost = frame;
    if (!frame->skipped && self->file == NULL && frame->has_file)
        self->file = frame;
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
#define CALLSTACKS_LAST(path) "replace(" path ", rtrim(" path ", replace(" path ", '/', '')), '')"
    static const char frames_sql[] = "SELECT frame_id, coalesce(nullif(function, ''), " CALLSTACKS_LAST(
        "path") " ||"
                " printf('+0x%%x', address - base), printf('0x%%x', address)),"
                " iif(ifnull(file, '') = '', '', ' (' || file || iif(ifnull(line, 0) = 0, '', ':' || line) || ')'),"
                " iif(ifnull(file, '') = '', '', ' (' || " CALLSTACKS_LAST("file") " || ')'), file, " CALLSTACKS_LAST(
                    "path") " FROM frame LEFT JOIN module USING (module_id)";
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
    name_texts_free(&maker->texts);
    free(maker->text);
}

int
callstacks_read(const struct trace *trace, const struct callstack_options *options, const struct callstack_lists *out)
{
    bool all = options->frames == 0 && options->skip.count == 0;
    struct callstacks self = { .options = options,
                               .out = out,
                               .whole.texts.list = out->whole,
                               .counted.texts.list = all ? NULL : out->counted,
                               .functions.texts.list = out->functions,
                               .files.list = out->files };
    int status;

    if (!trace_has(trace, "callstack", "callstack_id position frame_id") ||
        !trace_has(trace, "frame", "frame_id address module_id function file line") ||
        !trace_has(trace, "module", "module_id path base"))
        return COMMAND_FINE;
    status = callstacks_read_rows(trace, &self);
    for (size_t i = 0; i < self.frame_count; i++) {
        free(self.frames[i].text);
        free(self.frames[i].function);
        free(self.frames[i].place);
    }
    free(self.frames);
    id_map_free(&self.frame_by_id);
    callstacks_free_maker(&self.whole);
    callstacks_free_maker(&self.counted);
    callstacks_free_maker(&self.functions);
    name_texts_free(&self.files);
    return status;
}
