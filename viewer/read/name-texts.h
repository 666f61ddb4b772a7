/* Fills a list of names in which equal texts are one: names that read the same share it, and know the first of them. */
#ifndef VIEWER_READ_NAME_TEXTS_H
#define VIEWER_READ_NAME_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"

struct name;
struct name_list;

/* All zeros but for the list is the initial state. */
struct name_texts {
    struct name_list *list; /* borrows; its `number` is the id of the first name that reads the same */
    struct id_map by_hash;  /* owns; the index of the first name with a text of this hash */
    size_t bytes;           /* of all different texts */
};

/* Add a name for `id`. Returns it, valid until the next one; NULL: no memory, or too many names or bytes. */
struct name *name_texts_add(struct name_texts *self, int64_t id, const char *text);

void name_texts_free(struct name_texts *self);

#endif
