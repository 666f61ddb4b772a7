/* The one table of all kinds of layers: the only place in src that knows them. */
#include <string.h>

#include "kind.h"

/* One extern declaration above and one entry here for each kind, in alphabetical order. */
static const struct tidei_kind *const kinds[] = {
    NULL,
};

const struct tidei_kind *
tidei_kind_at(size_t index)
{
    return index < TIDEI_COUNT_OF(kinds) - 1 ? kinds[index] : NULL;
}

const struct tidei_kind *
tidei_kind_find(const char *name)
{
    for (size_t i = 0; i < TIDEI_COUNT_OF(kinds) - 1; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    return NULL;
}
