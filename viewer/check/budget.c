/* Reads the budgets for a trace from options and files. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/output.h"
#include "viewer/base/parse.h"
#include "viewer/check/budget.h"

/* What a budget may be for a part of. */
#define SCOPE_LAYER  1u
#define SCOPE_TAG    2u
#define SCOPE_MEMORY 4u /* of a job */

enum budget_value {
    VALUE_NONE,
    VALUE_SIZE,
    VALUE_COUNT,
    VALUE_SHARE,
    VALUE_PATH,
};

/* In the order of enum budget_kind. */
static const struct budget_word {
    const char *word;
    enum budget_value value;
    unsigned scopes; /* SCOPE_* */
    bool is_of_job;  /* a trace has nothing of it */
} budget_words[] = {
    { "max-peak", VALUE_SIZE, SCOPE_LAYER | SCOPE_TAG | SCOPE_MEMORY, false },
    { "max-reserved", VALUE_SIZE, SCOPE_LAYER | SCOPE_MEMORY, false },
    { "max-fragmentation", VALUE_SHARE, SCOPE_LAYER, false },
    { "max-allocations", VALUE_COUNT, SCOPE_LAYER | SCOPE_TAG | SCOPE_MEMORY, false },
    { "max-failures", VALUE_COUNT, SCOPE_LAYER | SCOPE_MEMORY, false },
    { "no-leaks", VALUE_NONE, 0, false },
    { "baseline", VALUE_PATH, 0, false },
    { "max-skew", VALUE_SHARE, SCOPE_MEMORY, true },
    { "max-growth", VALUE_SIZE, SCOPE_MEMORY, true },
};

#define BUDGET_WORDS (sizeof(budget_words) / sizeof(budget_words[0]))

static const char budget_no_memory[] = "more memory was expected";

static char *
budget_path(const char *path, const char *folder)
{
    char *joined;

    if (folder == NULL || path[0] == '/')
        return strdup(path);
    return asprintf(&joined, "%s/%s", folder, path) < 0 ? NULL : joined;
}

static const struct budget_scope {
    const char *prefix;
    unsigned scope;
    size_t offset; /* of the name in struct budget */
    const char *refusal;
} budget_scopes[] = {
    { "tag=", SCOPE_TAG, offsetof(struct budget, tag), "no tag was expected" },
    { "layer=", SCOPE_LAYER, offsetof(struct budget, layer), "no layer was expected" },
    { "memory=", SCOPE_MEMORY, offsetof(struct budget, memory), "no memory was expected" },
};

#define BUDGET_SCOPES (sizeof(budget_scopes) / sizeof(budget_scopes[0]))

/* Take "tag=NAME:", "layer=N:" or "memory=NAME:" off the front of *value. */
static const char *
budget_take_scope(const struct budget_word *word, const char **value, struct budget *out)
{
    const char *colon = strrchr(*value, ':');
    const struct budget_scope *scope = NULL;
    size_t prefix;
    char **name;

    for (size_t i = 0; i < BUDGET_SCOPES && scope == NULL; i++) {
        if (strncmp(*value, budget_scopes[i].prefix, strlen(budget_scopes[i].prefix)) == 0)
            scope = &budget_scopes[i];
    }
    /* Any path of a baseline is one. */
    if (scope == NULL || word->value == VALUE_PATH)
        return NULL;
    if ((word->scopes & scope->scope) == 0)
        return scope->refusal;
    prefix = strlen(scope->prefix);
    if (colon == NULL || colon < *value + prefix)
        return "a colon and a limit were expected behind the name";
    name = (char **)((char *)out + scope->offset);
    *name = strndup(*value + prefix, (size_t)(colon - *value) - prefix);
    *value = colon + 1;
    return *name != NULL ? NULL : budget_no_memory;
}

/* Take a share. NULL, or why it is none, in the buffer of `self`. */
static const char *
budgets_take_share(struct budgets *self, const char *value, double *out)
{
    return parse_share(value, out) ? NULL : parse_share_refusal(value, self->wrong, sizeof(self->wrong));
}

static const char *
budgets_take_value(struct budgets *self, enum budget_value kind, const char *value, const char *folder,
                   struct budget *out)
{
    switch (kind) {
    case VALUE_NONE:
        return value[0] == '\0' ? NULL : "no value was expected";
    case VALUE_SIZE:
        return parse_size(value, &out->limit) ? NULL : "a size was expected, as 4GiB";
    case VALUE_COUNT:
        return parse_count(value, &out->limit) ? NULL : "a number was expected";
    case VALUE_SHARE:
        return budgets_take_share(self, value, &out->share);
    case VALUE_PATH:
        if (value[0] == '\0')
            return "the path of a trace was expected";
        out->path = budget_path(value, folder);
        return out->path != NULL ? NULL : budget_no_memory;
    }
    return NULL;
}

static void
budget_free(struct budget *budget)
{
    free(budget->tag);
    free(budget->layer);
    free(budget->memory);
    free(budget->path);
}

static const char *
budgets_add(struct budgets *self, size_t kind, const char *value, const char *folder)
{
    struct budget added = { .kind = (enum budget_kind)kind };
    const char *wrong;

    if (!tidei_grow(&self->list, &self->capacity, self->count, 1))
        return budget_no_memory;
    wrong = budget_take_scope(&budget_words[kind], &value, &added);
    if (wrong == NULL)
        wrong = budgets_take_value(self, budget_words[kind].value, value, folder, &added);
    if (wrong != NULL)
        budget_free(&added);
    else
        self->list[self->count++] = added;
    return wrong;
}

const char *
budgets_set(struct budgets *self, const char *word, const char *value, const char *folder)
{
    for (size_t i = 0; i < BUDGET_WORDS; i++) {
        if (strcmp(budget_words[i].word, word) == 0)
            return budgets_add(self, i, value, folder);
    }
    if (strcmp(word, "tolerance") == 0)
        return budgets_take_share(self, value, &self->tolerance);
    if (strcmp(word, "even-killed") == 0) {
        self->even_killed = true;
        return value[0] == '\0' ? NULL : "no value was expected";
    }
    if (strcmp(word, "suppressions") == 0) {
        free(self->suppressions);
        self->suppressions = budget_path(value, folder);
        return self->suppressions != NULL ? NULL : budget_no_memory;
    }
    return "a budget was expected: max-peak, max-reserved, max-fragmentation, max-allocations, max-failures, no-leaks,"
           " baseline, max-skew or max-growth; or suppressions, even-killed or tolerance";
}

/* A file that is being read. */
struct budgets_file {
    struct budgets *budgets;
    const char *path;
    const char *folder;
};

/* Take a line: a word, then blanks or "=", then its value. */
static int
budgets_line(void *context, char *line, size_t number)
{
    const struct budgets_file *file = context;
    char *value = line + strcspn(line, " \t=");
    const char *wrong;

    if (value[0] != '\0') {
        *value++ = '\0';
        value += strspn(value, " \t=");
    }
    wrong = budgets_set(file->budgets, line, value, file->folder);
    if (wrong != NULL)
        message("%s:%zu: %s", file->path, number, wrong);
    return wrong == NULL ? COMMAND_FINE : COMMAND_WRONG;
}

int
budgets_read(struct budgets *self, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? strndup(path, (size_t)(slash - path)) : NULL;
    struct budgets_file file = { self, path, folder };
    int status = COMMAND_WRONG;

    if (slash != NULL && folder == NULL)
        message("%s: no memory", path);
    else
        status = file_each_line(path, budgets_line, &file);
    free(folder);
    return status;
}

void
budgets_free(struct budgets *self)
{
    for (size_t i = 0; i < self->count; i++)
        budget_free(&self->list[i]);
    free(self->list);
    free(self->suppressions);
    *self = (struct budgets){ 0 };
}

const char *
budget_name(const struct budget *budget, char *buffer, size_t size)
{
    const char *word = budget_words[budget->kind].word;

    if (budget->tag != NULL)
        snprintf(buffer, size, "%s tag=%s", word, budget->tag);
    else if (budget->layer != NULL)
        snprintf(buffer, size, "%s layer=%s", word, budget->layer);
    else if (budget->memory != NULL)
        snprintf(buffer, size, "%s memory=%s", word, budget->memory);
    else if (budget->path != NULL)
        snprintf(buffer, size, "%s %s", word, budget->path);
    else
        snprintf(buffer, size, "%s", word);
    return buffer;
}

bool
budget_is_of_job(const struct budget *budget)
{
    return budget_words[budget->kind].is_of_job || budget->memory != NULL;
}
