/* The tags around a tag. */
#ifndef VIEWER_READ_TAG_CHAIN_H
#define VIEWER_READ_TAG_CHAIN_H

#include <stddef.h>

#include "viewer/read/names.h"

/* The most levels of nested tags: a Python program that nests them by calls ends at a thousand or so. */
#define TAG_CHAIN_MOST 2048

/*
 * The tag and those around it, the innermost first; returns how many. *left_out stands for those that are left out,
 * since there are more, or since they lie in each other in a circle; else NULL.
 */
size_t tag_chain(const struct name_list *tags, const struct name *tag, const struct name *chain[TAG_CHAIN_MOST],
                 const char **left_out);

#endif
