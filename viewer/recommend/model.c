/* Rewrites stack text. The text need not be parsed here, as it is checked before and once it is rewritten. */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/stack.h>

#include "viewer/recommend/model.h"

#define MODEL_NAME   "abcdefghijklmnopqrstuvwxyz_0123456789"
#define MODEL_BLANKS " \t\n\v\f\r" /* all that stack text has */

/* The end of the bracket that begins at `text`, behind it; what is in quotes has no brackets. */
static const char *
model_skip_bracket(const char *text)
{
    size_t depth = 0;
    bool quoted = false;

    for (; *text != '\0'; text++) {
        if (quoted && *text == '\\' && text[1] != '\0')
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && strchr("({", *text) != NULL)
            depth++;
        else if (!quoted && strchr(")}", *text) != NULL && --depth == 0)
            return text + 1;
    }
    return text;
}

/* Skip the arguments and the name of a layer, of which `text` is behind the word for its kind. */
static const char *
model_skip_layer(const char *text)
{
    const char *next = text + strspn(text, MODEL_BLANKS);

    if (*next == '(')
        text = model_skip_bracket(next);
    next = text + strspn(text, MODEL_BLANKS);
    if (strncmp(next, "as", 2) == 0 && next[2] != '\0' && strchr(MODEL_BLANKS, next[2]) != NULL) {
        next += 2 + strspn(next + 2, MODEL_BLANKS);
        text = next + strcspn(next, MODEL_BLANKS "|(){},");
    }
    return text;
}

static bool
model_is(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && memcmp(word, text, length) == 0;
}

/* The argument at `text`, "name=value": its end where the model leaves nothing of it out, else NULL. */
static const char *
model_skip_argument(const char *text)
{
    size_t name = strspn(text, MODEL_NAME), blanks;

    /* A device without such memory is not the one for which stacks are tried. */
    if (!model_is("fallback", text, name) && !model_is("device", text, name))
        return strspn(text, "0123456789") == name && name > 0 ? text + name : NULL;
    text += name;
    blanks = strspn(text, MODEL_BLANKS);
    if (text[blanks] != '=')
        return NULL;
    text += blanks + 1;
    text += strspn(text, MODEL_BLANKS);
    return text + strspn(text, MODEL_NAME);
}

/* Whether the arguments of a base, at `text`, say no more than the device, and what to do where it lacks the base. */
static bool
model_base_is_plain(const char *text)
{
    text += strspn(text, MODEL_BLANKS);
    if (*text != '(')
        return true;
    do {
        text += 1 + strspn(text + 1, MODEL_BLANKS);
        if (*text == ')')
            return true;
        text = model_skip_argument(text);
        if (text == NULL)
            return false;
        text += strspn(text, MODEL_BLANKS);
    } while (*text == ',');
    return *text == ')';
}

/* Whether this word alone is a stack. */
static bool
model_is_base(const char *name, size_t length)
{
    char word[64];

    if (length >= sizeof(word))
        return false;
    memcpy(word, name, length);
    word[length] = '\0';
    return tide_stack_check(word, NULL, 0, NULL) == TIDE_OK;
}

/* Write a `limit`, with budget= in place of shared=, and return what is behind it: other processes use that budget. */
static const char *
model_limit(FILE *out, const char *text)
{
    size_t blanks = strspn(text, MODEL_BLANKS);
    const char *end = text[blanks] == '(' ? model_skip_bracket(text + blanks) : text;
    bool begins = false, quoted = false; /* an argument may begin here; within quotes */

    fputs("limit", out);
    while (text < end) {
        size_t key = begins ? strspn(text, MODEL_NAME) : 0;

        if (key > 0 && model_is("shared", text, key)) {
            fputs("budget", out);
            text += key;
            begins = false;
            continue;
        }
        if (quoted && *text == '\\' && text[1] != '\0')
            putc(*text++, out);
        else if (*text == '"')
            quoted = !quoted;
        begins = !quoted && (strchr("(,", *text) != NULL || (begins && strchr(MODEL_BLANKS, *text) != NULL));
        putc(*text++, out);
    }
    return text;
}

/* Write what stands for the layer, and return what is behind it. */
static const char *
model_layer(FILE *out, const char *name, size_t length, uint64_t capacity, struct model *model)
{
    if (model_is("log", name, length)) {
        fputs("statistics", out);
        return model_skip_layer(name + length);
    }
    if (model_is("limit", name, length))
        return model_limit(out, name + length);
    for (int i = 0; i < COST_BASES; i++) {
        if (!model_is(cost_base_names[i], name, length))
            continue;
        model->base = (enum cost_base)i;
        if (!model_base_is_plain(name + length))
            model->why = "its base has arguments that are not modelled";
        fprintf(out, "statistics | sim(model=%s", cost_base_names[i]);
        if (capacity != 0)
            fprintf(out, ", capacity=%" PRIu64, capacity);
        putc(')', out);
        return model_skip_layer(name + length);
    }
    if (model_is_base(name, length))
        model->why = "it has memory that is not modelled, beside that of cuda, driver and vmm";
    fwrite(name, 1, length, out);
    return name + length;
}

void
model_make(const char *text, uint64_t capacity, struct model *model)
{
    bool begins = true, quoted = false; /* a layer may begin here; within quotes */
    char *made = NULL;
    size_t size;
    FILE *out = open_memstream(&made, &size);

    *model = (struct model){ .base = COST_BASES };
    while (out != NULL && *text != '\0') {
        size_t name = begins && !quoted ? strspn(text, MODEL_NAME) : 0;

        if (name > 0) {
            text = model_layer(out, text, name, capacity, model);
            begins = false;
            continue;
        }
        if (begins && *text == '"')
            model->why = "it has the name of a layer in quotes, which is not modelled";
        if (quoted && *text == '\\' && text[1] != '\0')
            putc(*text++, out);
        else if (*text == '"')
            quoted = !quoted;
        begins = !quoted && (strchr("|{", *text) != NULL || (begins && strchr(MODEL_BLANKS, *text) != NULL));
        putc(*text++, out);
    }
    if (model->base == COST_BASES)
        model->why = "it has no base of device memory that is modelled (cuda, driver, vmm)";
    if (out != NULL && fclose(out) == 0)
        model->text = made;
    else
        free(made);
}
