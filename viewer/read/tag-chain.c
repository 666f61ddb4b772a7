/* Follows a tag to those around it. */
#include "config.h"

#include "viewer/read/tag-chain.h"

static const struct name *
tag_around(const struct name_list *tags, const struct name *tag)
{
    return tag->number != 0 ? names_find(tags, tag->number) : NULL;
}

size_t
tag_chain(const struct name_list *tags, const struct name *tag, const struct name *chain[TAG_CHAIN_MOST],
          const char **left_out)
{
    size_t depth = 0, more = 0;

    for (; tag != NULL && depth < TAG_CHAIN_MOST; tag = tag_around(tags, tag))
        chain[depth++] = tag;
    for (; tag != NULL && more <= tags->count; tag = tag_around(tags, tag))
        more++;
    *left_out = more == 0 ? NULL : more <= tags->count ? "(too many nested tags)" : "(a circle of tags)";
    return depth;
}
