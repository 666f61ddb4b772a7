/* Keeps the lines of source that frames of an interpreter stand at, and the lock of call stacks. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/context/sources.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"

static pthread_mutex_t source_lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. */
static struct {
    struct tidei_source *items; /* owned, with their texts; by number - 1 */
    size_t count;
    size_t capacity;
    struct tidei_map numbers; /* by the hash of the texts and the line */
} sources;

void
tidei_callstack_lock(void)
{
    pthread_mutex_lock(&source_lock);
}

void
tidei_callstack_unlock(void)
{
    pthread_mutex_unlock(&source_lock);
}

/* FNV-1a (Fowler, Noll, Vo), with the line first and a zero byte behind each text. */
static uint64_t
source_hash(const char *function, const char *file, uint32_t line)
{
    const char *const texts[] = { function, file };
    uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ line) * UINT64_C(0x100000001b3);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (const char *at = texts[i]; *at != '\0'; at++)
            hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

/* The number of a line; 0: it is new. */
static uint32_t
source_look_up(const char *function, const char *file, uint32_t line, uint64_t hash)
{
    for (size_t i = tidei_map_first(&sources.numbers, hash, 0); i != TIDEI_MAP_NONE;
         i = tidei_map_next(&sources.numbers, i)) {
        const struct tidei_source *known = &sources.items[sources.numbers.entries[i].number - 1];

        if (known->line == line && strcmp(known->function, function) == 0 && strcmp(known->file, file) == 0)
            return known->number;
    }
    return 0;
}

uint32_t
tidei_source_find_locked(const char *function, const char *file, uint32_t line)
{
    const struct tidei_context_listener *listener = tidei_context_listener();
    uint64_t hash = source_hash(function, file, line);
    struct tidei_source source = { .number = source_look_up(function, file, line, hash), .line = line };

    if (source.number != 0)
        return source.number;
    source.number = (uint32_t)sources.count + 1;
    if (sources.count == UINT32_MAX - 2 || !tidei_grow(&sources.items, &sources.capacity, sources.count, 1))
        return 0;
    source.function = strdup(function);
    source.file = strdup(file);
    if (source.function == NULL || source.file == NULL || !tidei_map_add(&sources.numbers, hash, 0, source.number)) {
        free(source.function);
        free(source.file);
        return 0;
    }
    sources.items[sources.count++] = source;
    if (listener != NULL)
        listener->source(&source, NULL);
    return source.number;
}

bool
tidei_source_get(uint64_t frame, struct tidei_source *out)
{
    bool found;

    *out = (struct tidei_source){ 0 };
    tidei_callstack_lock();
    found = -frame - 1 < sources.count;
    if (found)
        *out = sources.items[-frame - 1];
    tidei_callstack_unlock();
    return found;
}

void
tidei_sources_notify_locked(const struct tidei_context_listener *listener, void *context)
{
    for (size_t i = 0; i < sources.count; i++)
        listener->source(&sources.items[i], context);
}
