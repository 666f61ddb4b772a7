/*
 * Tests that each kind of the table of layers is complete: its header, its section and its arguments in
 * doc/stack-text.md, its line in the README's table, and its test. The contract (tests/contract-all-t.c) and the random
 * stacks (tests/random-stack.c) walk the same table.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/resource/kind.h"
#include "tests/tap.h"

#define PATH_CAPACITY 4096
#define FILE_CAPACITY ((size_t)1 << 18)

/* The text of a file in the source tree; empty if there is none. */
static char *
read_source(const char *name)
{
    const char *top = getenv("top_srcdir");
    char *text = calloc(1, FILE_CAPACITY);
    char path[PATH_CAPACITY];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", top != NULL ? top : ".", name);
    file = fopen(path, "r");
    if (text == NULL)
        abort();
    if (file != NULL) {
        text[fread(text, 1, FILE_CAPACITY - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

/*
 * Copy the text from the line that begins with the words to the next line that begins with `end` into *out. False if
 * there is none.
 */
static bool cut(const char *text, const char *end, char *out, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static bool
cut(const char *text, const char *end, char *out, size_t capacity, const char *format, ...)
{
    char begin[128];
    const char *from, *to;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(begin, sizeof(begin), format, arguments);
    va_end(arguments);
    out[0] = '\0';
    from = strstr(text, begin);
    if (from == NULL)
        return false;
    to = strstr(from + strlen(begin), end);
    snprintf(out, capacity, "%.*s", (int)(to != NULL ? (size_t)(to - from) : strlen(from)), from);
    return true;
}

static bool has(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool
has(const char *text, const char *format, ...)
{
    char words[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    return strstr(text, words) != NULL;
}

static const char *
type_word(const struct tidei_argument *argument)
{
    static const char *const words[] = {
        [TIDEI_ARGUMENT_SIZE] = "| size",         [TIDEI_ARGUMENT_COUNT] = "| count",
        [TIDEI_ARGUMENT_FRACTION] = "| fraction", [TIDEI_ARGUMENT_MODE] = "| mode",
        [TIDEI_ARGUMENT_FLAG] = "| flag",         [TIDEI_ARGUMENT_WORD] = "| word",
        [TIDEI_ARGUMENT_CHOICE] = "| choice",     [TIDEI_ARGUMENT_BIN] = "| bin",
        [TIDEI_ARGUMENT_STACK] = "| stack",
    };

    return words[argument->type];
}

/* Whether the documentation's row says the default of the argument, unless that is a plain 0. */
static bool
says_default(const struct tidei_argument *argument, const char *row)
{
    char shown[64] = "";
    struct tide_text text = { .data = shown, .capacity = sizeof(shown) };

    if (argument->default_value == 0)
        return true;
    if (argument->default_value == UINT64_MAX)
        return has(row, "unless given") || has(row, "must be given where");
    if (argument->type == TIDEI_ARGUMENT_CHOICE)
        for (size_t i = 0; argument->choices[i] != NULL; i++) {
            if (argument->choice_values[i] == argument->default_value)
                tide_text_format(&text, "`%s`", argument->choices[i]);
        }
    else if (argument->type == TIDEI_ARGUMENT_MODE)
        tide_text_format(&text, "0%llo", (unsigned long long)argument->default_value);
    else
        tide_text_size(&text, argument->default_value);
    return has(row, "%s unless given", shown);
}

/* What the documentation lacks about an argument, or NULL. */
static const char *
argument_lacks(const struct tidei_argument *argument, const char *section)
{
    char row[2048];

    if (argument->type == TIDEI_ARGUMENT_BIN)
        return has(section, "| bin |") && has(section, "| range |") ? NULL : "its rows";
    if (!cut(section, "\n", row, sizeof(row), "| `%s=`", argument->key))
        return "a row";
    if (has(row, ", or first") != argument->positional)
        return "whether it may stand without its key";
    if (!has(row, "%s", type_word(argument)))
        return "its type";
    if (argument->type == TIDEI_ARGUMENT_SIZE && argument->share && !has(row, "share"))
        return "that it may be a share";
    for (size_t i = 0; argument->type == TIDEI_ARGUMENT_CHOICE && argument->choices[i] != NULL; i++) {
        if (!has(row, "`%s`", argument->choices[i]))
            return "a choice";
    }
    if (argument->required && !has(row, "must be given"))
        return "that it must be given";
    return says_default(argument, row) ? NULL : "its default, as \"256 unless given\"";
}

/* Whether a test is named after the layer. A layer that needs a GPU may be tested together with others. */
static bool
has_test(const char *name)
{
    static const char *const places[] = { "tests/%s-t.c", "tests/%s-layer-t.c", "tests/gpu/%s-t.c",
                                          "tests/gpu/bases-t.c", "tests/gpu/guard-t.c" };
    bool found = false;

    for (size_t i = 0; !found && i < TIDEI_COUNT_OF(places); i++) {
        struct tide_text path = { .data = (char[256]){ "" }, .capacity = 256 };
        char *test;

        tide_text_format(&path, places[i], name);
        test = read_source(path.data);
        found = has(test, "%s", name);
        free(test);
    }
    return found;
}

/* Whether each size for which TIDE_NONE makes no sense refuses it, as stack text refuses 0. */
static bool
refuses_none(const struct tidei_kind *kind)
{
    bool refused = true;

    for (size_t i = 0; i < kind->argument_count; i++) {
        const struct tidei_argument *argument = &kind->arguments[i];
        uint64_t options[64] = { kind->options_size };
        size_t fault;

        if (argument->type != TIDEI_ARGUMENT_SIZE || argument->zero_value != 0)
            continue;
        for (size_t j = 0; j < kind->argument_count; j++) {
            if (kind->arguments[j].required)
                options[kind->arguments[j].offset / sizeof(options[0])] = 1;
        }
        options[argument->offset / sizeof(options[0])] = TIDE_NONE;
        if (tidei_fields_check(kind, options, &fault) != TIDE_EINVAL || fault != i) {
            diag("%s=TIDE_NONE is taken", argument->key);
            refused = false;
        }
    }
    return refused;
}

#define KIND_TESTS 6

static void
check_kind(const struct tidei_kind *kind, const char *documentation, const char *readme)
{
    const char *name = kind->ops.name;
    char section[8192], path[256];
    bool whole = true;
    char *header, *base;

    ok(cut(documentation, "\n### ", section, sizeof(section), "\n### %s\n", name),
       "doc/stack-text.md has a section of %s", name);
    for (size_t i = 0; i < kind->argument_count; i++) {
        const char *lacks = argument_lacks(&kind->arguments[i], section);

        if (lacks != NULL) {
            diag("doc/stack-text.md, %s, argument %s lacks %s", name, kind->arguments[i].key, lacks);
            whole = false;
        }
    }
    ok(whole, "the section of %s in doc/stack-text.md has all arguments and their defaults", name);
    ok(cut(readme, "\n\n", section, sizeof(section), "| layer | |") && has(section, "`%s`", name),
       "README.md has %s in its table of layers", name);
    snprintf(path, sizeof(path), "include/tidemark/%s.h", name);
    header = read_source(path);
    base = read_source("include/tidemark/base.h");
    ok(has(header, "tide_%s_create(", name) || (kind->is_base && has(base, "tide_%s_create(", name)),
       "include/tidemark/%s.h declares tide_%s_create", name, name);
    ok(refuses_none(kind), "%s takes TIDE_NONE only where its text takes 0 for nothing", name);
    ok(has_test(name), "%s has a test named after it, or a test in tests/gpu with it in a stack text", name);
    free(base);
    free(header);
}

int
main(void)
{
    char *documentation = read_source("doc/stack-text.md");
    char *readme = read_source("README.md");
    bool in_order = true;
    size_t count = 0;

    while (tidei_kinds[count] != NULL) {
        in_order =
            in_order && (count == 0 || strcmp(tidei_kinds[count - 1]->ops.name, tidei_kinds[count]->ops.name) < 0);
        count++;
    }
    plan((int)(KIND_TESTS * count) + 1);
    ok(count > 0 && in_order, "the kinds are in alphabetical order");
    for (size_t i = 0; i < count; i++)
        check_kind(tidei_kinds[i], documentation, readme);
    free(readme);
    free(documentation);
    return done();
}
