/* Reads suppressions and matches allocations with them. */
#include "config.h"

#include <fnmatch.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/output.h"
#include "viewer/base/parse.h"
#include "viewer/analysis/suppress.h"

/* The words before the colon, in the order of enum suppression_kind. */
static const char *const suppress_words[] = { "tag", "thread", "callstack", "size" };

#define SUPPRESS_WORDS (sizeof(suppress_words) / sizeof(suppress_words[0]))

static int
suppress_wrong(const char *path, size_t line, const char *why, const char *text)
{
    message("%s:%zu: %s: \"%s\"", path, line, why, text);
    return COMMAND_WRONG;
}

static bool
suppress_fits(enum suppression_kind kind, const char *pattern, const regex_t *regex, const char *name)
{
    if (kind == SUPPRESS_TAG)
        return filter_tag_fits(name, pattern);
    if (kind == SUPPRESS_THREAD)
        return fnmatch(pattern, name, 0) == 0;
    return regexec(regex, name, 0, NULL, 0) == 0;
}

/* Find the names that match. It is no error if none does: the same file serves many traces. */
static int
suppress_resolve(const struct name_list *list, const char *pattern, struct suppression *out)
{
    int status = COMMAND_FINE;
    regex_t regex;

    out->ids.active = true;
    if (out->kind == SUPPRESS_CALLSTACK && regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return COMMAND_FINDING;
    if (out->kind == SUPPRESS_TAG && strcmp(pattern, "none") == 0)
        status = filter_set_add(&out->ids, 0);
    for (size_t i = 0; i < list->count && status == COMMAND_FINE; i++) {
        if (suppress_fits(out->kind, pattern, &regex, list->names[i].text))
            status = filter_set_add(&out->ids, list->names[i].id);
    }
    if (out->kind == SUPPRESS_CALLSTACK)
        regfree(&regex);
    return status;
}

/* A file that is being read. */
struct suppress_file {
    const struct names *names;
    const char *path;
    struct suppress *suppress;
};

/* Parse the line in `out->text`. */
static int
suppress_line(const struct suppress_file *file, struct suppression *out)
{
    const struct names *names = file->names;
    static const unsigned needs[SUPPRESS_WORDS] = { SCAN_ORIGIN, SCAN_CALLER, SCAN_ORIGIN, 0 };
    const struct name_list *lists[SUPPRESS_WORDS] = { &names->tags, &names->threads, &names->callstacks, NULL };
    const char *colon = strchr(out->text, ':');
    size_t length = colon != NULL ? (size_t)(colon - out->text) : 0;
    size_t kind = 0;
    int status;

    while (kind < SUPPRESS_WORDS &&
           (strlen(suppress_words[kind]) != length || strncmp(suppress_words[kind], out->text, length) != 0))
        kind++;
    if (kind == SUPPRESS_WORDS)
        return suppress_wrong(file->path, out->line, "tag:, callstack:, thread: or size: was expected", out->text);
    out->kind = (enum suppression_kind)kind;
    file->suppress->needs |= needs[kind];
    if (colon[1] == '\0')
        return suppress_wrong(file->path, out->line, "a pattern is missing", out->text);
    if (out->kind == SUPPRESS_SIZE)
        return parse_size(colon + 1, &out->size) ? COMMAND_FINE
                                                 : suppress_wrong(file->path, out->line, "no size", out->text);
    status = suppress_resolve(lists[kind], colon + 1, out);
    return status == COMMAND_FINDING ? suppress_wrong(file->path, out->line, "no regular expression", out->text)
                                     : status;
}

static int
suppress_add(void *context, char *line, size_t number)
{
    const struct suppress_file *file = context;
    struct suppress *self = file->suppress;
    struct suppression *added = NULL;

    if (tidei_grow(&self->list, &self->capacity, self->count, 1)) {
        added = &self->list[self->count++];
        *added = (struct suppression){ .text = strdup(line), .line = number };
    }
    return added != NULL && added->text != NULL ? suppress_line(file, added)
                                                : suppress_wrong(file->path, number, "no memory", line);
}

int
suppress_read(const struct names *names, const char *path, struct suppress *out)
{
    struct suppress_file file = { names, path, out };
    int status;

    *out = (struct suppress){ 0 };
    status = path != NULL ? file_each_line(path, suppress_add, &file) : COMMAND_FINE;
    if (status != COMMAND_FINE)
        suppress_free(out);
    return status;
}

void
suppress_free(struct suppress *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->list[i].text);
        id_map_free(&self->list[i].ids.ids);
    }
    free(self->list);
    *self = (struct suppress){ 0 };
}

static bool
suppress_takes(const struct suppression *suppression, const struct scan_life *life)
{
    switch (suppression->kind) {
    case SUPPRESS_TAG:
        return filter_set_has(&suppression->ids, life->tag_id);
    case SUPPRESS_THREAD:
        return filter_set_has(&suppression->ids, life->alloc_thread_id);
    case SUPPRESS_CALLSTACK:
        return filter_set_has(&suppression->ids, life->callstack_id);
    case SUPPRESS_SIZE:
        return life->size == suppression->size;
    }
    return false;
}

struct suppression *
suppress_find(const struct suppress *self, const struct scan_life *life)
{
    for (size_t i = 0; i < self->count; i++) {
        if (suppress_takes(&self->list[i], life))
            return &self->list[i];
    }
    return NULL;
}
