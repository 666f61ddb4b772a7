/* Reads suppressions and matches allocations with them. */
#include "config.h"

#include <errno.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/base/parse.h"
#include "viewer/analysis/suppress.h"

/* What stands in front of the colon, in the order of enum suppression_kind. */
static const char *const suppress_words[] = { "tag", "thread", "callstack", "size" };

#define SUPPRESS_WORDS (sizeof(suppress_words) / sizeof(suppress_words[0]))

static int
suppress_wrong(const char *path, size_t line, const char *why, const char *text)
{
    fprintf(stderr, "%s:%zu: %s: \"", path, line, why);
    output_text(stderr, text, strlen(text));
    fputs("\"\n", stderr);
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

/* Those names that fit. A pattern that fits none is no error: the same file serves many traces. */
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

/* Take in one line, of which `text` is a copy that is kept. */
static int
suppress_line(struct suppress *self, const struct names *names, const char *path, struct suppression *out)
{
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
        return suppress_wrong(path, out->line, "tag:, callstack:, thread: or size: was expected", out->text);
    out->kind = (enum suppression_kind)kind;
    self->needs |= needs[kind];
    if (colon[1] == '\0')
        return suppress_wrong(path, out->line, "a pattern is missing", out->text);
    if (out->kind == SUPPRESS_SIZE)
        return parse_size(colon + 1, &out->size) ? COMMAND_FINE : suppress_wrong(path, out->line, "no size", out->text);
    status = suppress_resolve(lists[kind], colon + 1, out);
    return status == COMMAND_FINDING ? suppress_wrong(path, out->line, "no regular expression", out->text) : status;
}

static char *
suppress_trim(char *text)
{
    size_t length;

    text += strspn(text, " \t");
    length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

static int
suppress_add(struct suppress *self, const struct names *names, const char *path, size_t line, const char *text)
{
    struct suppression *added;

    if (!tidei_grow(&self->list, &self->capacity, self->count, 1))
        return suppress_wrong(path, line, "no memory", text);
    added = &self->list[self->count++];
    *added = (struct suppression){ .text = strdup(text), .line = line };
    return added->text != NULL ? suppress_line(self, names, path, added)
                               : suppress_wrong(path, line, "no memory", text);
}

int
suppress_read(const struct names *names, const char *path, struct suppress *out)
{
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    size_t capacity = 0;
    char *line = NULL;
    int status = COMMAND_FINE;

    memset(out, 0, sizeof(*out));
    if (path == NULL)
        return COMMAND_FINE;
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return COMMAND_WRONG;
    }
    for (size_t number = 1; status == COMMAND_FINE && getline(&line, &capacity, file) >= 0; number++) {
        const char *text = suppress_trim(line);

        if (text[0] != '\0' && text[0] != '#')
            status = suppress_add(out, names, path, number, text);
    }
    if (status == COMMAND_FINE && ferror(file)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        status = COMMAND_WRONG;
    }
    free(line);
    fclose(file);
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
