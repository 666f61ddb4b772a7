/* Fills a list of names in which equal texts are one. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/read/name-texts.h"
#include "viewer/read/names.h"

/* The most bytes of the different texts of a list. A real program has some MiB. */
#define NAME_TEXTS_BYTES ((size_t)1 << 30)

static uint64_t
name_texts_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* If two texts share a hash, which those of real programs do not, those of the second are not found to be the same. */
struct name *
name_texts_add(struct name_texts *self, int64_t id, const char *text)
{
    struct name_list *list = self->list;
    struct name name = { .id = id, .number = id, .device = -1 };
    uint64_t hash = name_texts_hash(text);
    const uint32_t *known = id_map_find(&self->by_hash, hash);
    struct name *same = NULL;

    if (known != NULL && strcmp(list->names[*known].text, text) == 0)
        same = &list->names[*known];
    if (same != NULL) {
        same->is_shared = true;
        name.number = same->id;
        name.text = same->text;
        name.borrows = true;
    } else if ((self->bytes += strlen(text)) > NAME_TEXTS_BYTES || (name.text = strdup(text)) == NULL) {
        return NULL;
    }
    if (list->count >= NAMES_MAX || !tidei_grow(&list->names, &list->capacity, list->count, 1)) {
        if (same == NULL)
            free(name.text);
        return NULL;
    }
    list->names[list->count] = name;
    if ((known == NULL && !id_map_add(&self->by_hash, hash, (uint32_t)list->count)) ||
        !id_map_add(&list->by_id, (uint64_t)id, (uint32_t)list->count)) {
        list->count++; /* the list owns the text */
        return NULL;
    }
    return &list->names[list->count++];
}

void
name_texts_free(struct name_texts *self)
{
    id_map_free(&self->by_hash);
}
