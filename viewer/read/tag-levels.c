/* Cuts the paths of tags into the levels of a tree. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/name-texts.h"
#include "viewer/read/tag-chain.h"
#include "viewer/read/tag-levels.h"

/* Whether `inner` names the same as `outer` and more, so that it stands for both. */
static bool
tag_goes_on(const char *outer, const char *inner)
{
    size_t length = strlen(outer);

    return length > 0 && strncmp(inner, outer, length) == 0 && (inner[length] == '.' || inner[length] == '/');
}

/* The own names of a tag and those around it, the outermost first. */
static size_t
tag_pieces(const struct name_list *tags, const struct name *tag, const char *pieces[TAG_CHAIN_MOST + 1])
{
    const struct name *chain[TAG_CHAIN_MOST];
    size_t depth = tag_chain(tags, tag, chain, &pieces[0]);
    size_t count = pieces[0] != NULL;

    for (; depth > 0; depth--) {
        const char *name = chain[depth - 1]->text + chain[depth - 1]->own;

        if (count > 0 && tag_goes_on(pieces[count - 1], name))
            count--;
        pieces[count++] = name;
    }
    return count;
}

static bool
tag_is_word(char sign)
{
    return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || sign == '_';
}

/* Whether a text reads as the path of a module. */
static bool
tag_is_module(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool begins = i == 0 || text[i - 1] == '.';

        if (text[i] == '.' ? begins || i + 1 == length : !tag_is_word(text[i]) && !(text[i] >= '0' && text[i] <= '9'))
            return false;
    }
    return length > 0 && tag_is_word(text[0]);
}

static void
tag_add_level(struct tag_levels *levels, const char *text, size_t length, char before)
{
    if (length > 0 && levels->count < TAG_LEVELS_MAX)
        levels->list[levels->count++] = (struct tag_level){ text, length, before };
}

/* Add what lies between two slashes. */
static void
tag_add_part(struct tag_levels *levels, const char *text, size_t length)
{
    bool is_module = tag_is_module(text, length);
    char before = '/';

    for (const char *dot; is_module && (dot = memchr(text, '.', length)) != NULL; before = '.') {
        size_t level = (size_t)(dot - text);

        tag_add_level(levels, text, level, before);
        text = dot + 1;
        length -= level + 1;
    }
    tag_add_level(levels, text, length, before);
}

void
tag_levels_of(const struct name_list *tags, int64_t id, struct tag_levels *out)
{
    const char *pieces[TAG_CHAIN_MOST + 1];
    size_t count = tag_pieces(tags, names_find(tags, id), pieces);

    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        for (const char *part = pieces[i];; part++) {
            size_t length = strcspn(part, "/");

            tag_add_part(out, part, length);
            part += length;
            if (*part == '\0')
                break;
        }
    }
}

bool
tag_level_is(const struct tag_level *level, const char *text)
{
    return strncmp(level->text, text, level->length) == 0 && text[level->length] == '\0';
}

char *
tag_levels_join(const struct tag_levels *levels, size_t first, size_t count)
{
    size_t bytes = 1;
    char *text, *end;

    for (size_t i = first; i < first + count; i++)
        bytes += levels->list[i].length + 1;
    text = end = malloc(bytes);
    for (size_t i = first; text != NULL && i < first + count; i++) {
        if (i > first)
            *end++ = levels->list[i].before;
        end = mempcpy(end, levels->list[i].text, levels->list[i].length);
    }
    if (text != NULL)
        *end = '\0';
    return text;
}

bool
tag_levels_lie_in(const struct tag_levels *levels, const char *text)
{
    for (size_t i = 0; i < levels->count; i++) {
        const struct tag_level *level = &levels->list[i];

        if (i > 0 && *text++ != level->before)
            return false;
        if (strncmp(text, level->text, level->length) != 0)
            return false;
        text += level->length;
        if (*text == '\0')
            return true;
    }
    return false;
}

int
tag_levels_cut(const struct trace *trace, const struct name_list *tags, uint64_t depth, struct name_list *out)
{
    struct name_texts texts = { .list = out };
    struct tag_levels levels;
    bool done = true;

    for (size_t i = 0; i < tags->count && done; i++) {
        const struct name *tag = &tags->names[i];
        struct name *cut;
        char *text;

        tag_levels_of(tags, tag->id, &levels);
        text = tag_levels_join(&levels, 0, levels.count < depth ? levels.count : (size_t)depth);
        cut = text != NULL ? name_texts_add(&texts, tag->id, text) : NULL;
        done = cut != NULL;
        if (done && levels.count > depth)
            out->names[*id_map_find(&out->by_id, (uint64_t)cut->number)].is_shared = true;
        free(text);
    }
    name_texts_free(&texts);
    return done ? COMMAND_FINE : trace_broken(trace, "no memory for its tags");
}
