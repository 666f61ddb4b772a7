/*
 * The levels of a tag in the tree of all tags.
 *
 * Tags lie in each other, and a name may hold several levels itself: "forward/transformer.h.3" has the levels forward,
 * transformer, h and 3. A level ends at "/". It ends at "." where the text between two slashes reads as the path of a
 * module: letters, digits and "_" between the dots, a letter or "_" first. A tag whose name goes on from that of the
 * tag around it ("transformer.h" inside "transformer") is a level of it, and does not repeat it.
 */
#ifndef VIEWER_READ_TAG_LEVELS_H
#define VIEWER_READ_TAG_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/names.h"

/* Deeper levels are left out. */
#define TAG_LEVELS_MAX 4096

struct tag_level {
    const char *text; /* borrows from the names; not terminated */
    size_t length;
    char before; /* the sign that parts it from the level around it: '/' or '.' */
};

struct tag_levels {
    size_t count;
    struct tag_level list[TAG_LEVELS_MAX]; /* the outermost first */
};

/* The levels of the tag `id`; none if the trace does not define it. */
void tag_levels_of(const struct name_list *tags, int64_t id, struct tag_levels *out);

/* Whether a level is this text. */
bool tag_level_is(const struct tag_level *level, const char *text);

/* Join `count` levels from `first` on. The caller frees the text; NULL: no memory. */
char *tag_levels_join(const struct tag_levels *levels, size_t first, size_t count);

/* Whether `text` is one of the tags around the levels, or all of them. */
bool tag_levels_lie_in(const struct tag_levels *levels, const char *text);

/*
 * Fill `out`, which is zeroed, with a name for each tag: its path cut off below `depth` levels. Tags that read the same
 * then know the first of them, and so does a tag that was cut off: such a name is no tag's own. COMMAND_FINE, or
 * another status after a message; the caller frees the list in any case.
 */
int tag_levels_cut(const struct trace *trace, const struct name_list *tags, uint64_t depth, struct name_list *out);

#endif
