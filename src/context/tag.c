/*
 * The names that threads give to their allocations, numbered for the whole process.
 *
 * A new name is recorded into every trace, in a record before the first allocation with it. From then on each thread
 * finds the name's number in its own small table.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tag.h>

#include "src/resource/resource.h"
#include "src/sync/fork.h"
#include "src/sync/thread.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"
#include "src/context/tag.h"
#include "src/resource/interrupted.h"
#include "src/sync/inside.h"

#define TAG_NAME_MAX   255
#define TAG_CACHE_SIZE 64

/* Tags that sources other than the program may add; behind them those without numbers; behind these "(other)" alone. */
#define TAG_FOREIGN_MOST 2048
#define TAG_PLAIN_MOST   (TAG_FOREIGN_MOST + 256)
#define TAG_OTHER_MOST   (TAG_PLAIN_MOST + 256)
#define TAG_OTHER        "(other)"

struct tag {
    uint32_t parent;
    char *name; /* owned; for the life of the process */
};

/* All tags, by number - 1. Under tag_lock. */
static pthread_mutex_t tag_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tag *tags;
static uint32_t tag_count;
static size_t tag_capacity;
static uint32_t tag_foreign; /* of all: added by other sources than the program */

/* Their numbers by the hash of name and parent. Under tag_lock. */
static struct tidei_map tag_numbers;

/*
 * The tag of threads that have none of their own. A change tells no thread: each finds that out by itself, in the slow
 * path of its next event, or in tidei_tag_now. So no thread ever writes the tag of another.
 */
static _Atomic uint32_t tag_ambient;
_Atomic uint32_t tidei_tag_ambient_changes;

struct tag_open {
    uint32_t parent; /* the tag within which it has begun */
    uint32_t source; /* who ends it: 0 is the program */
};

/* A thread's open tags, and a cache of those that it has used lately. */
struct tag_thread {
    struct tag_open *stack;
    size_t depth;
    size_t capacity;
    struct tag_cached {
        uint32_t parent;
        uint32_t id;      /* 0: the entry is unused */
        const char *name; /* of the tag */
    } cache[TAG_CACHE_SIZE];
};

/* A thread's part: owned; NULL until the first tag. */
TIDEI_THREAD_PART(tag_thread_of, tags, struct tag_thread *);

static void
tag_thread_ends(struct tidei_thread *thread)
{
    struct tag_thread *mine = *tag_thread_of(thread);

    *tag_thread_of(thread) = NULL;
    thread->tag = 0;
    if (mine != NULL)
        free(mine->stack);
    free(mine);
}

void
tidei_tags_handle_forks(void)
{
    static const struct tidei_fork_hook hook = { tidei_tags_lock, tidei_tags_unlock, tidei_tags_unlock };

    tidei_fork_hook_set(TIDEI_FORK_TAGS, &hook);
}

void
tidei_tags_notify_locked(const struct tidei_context_listener *listener, void *context)
{
    for (uint32_t id = 1; id <= tag_count; id++)
        listener->tag(id, tags[id - 1].parent, tags[id - 1].name, context);
}

void
tidei_tags_lock(void)
{
    pthread_mutex_lock(&tag_lock);
}

void
tidei_tags_unlock(void)
{
    pthread_mutex_unlock(&tag_lock);
}

/* FNV-1a (Fowler, Noll, Vo), from the parent on. */
static uint32_t
tag_hash(uint32_t parent, const char *name, size_t length)
{
    uint32_t hash = (UINT32_C(2166136261) ^ parent) * UINT32_C(16777619);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT32_C(16777619);
    return hash;
}

/* Add a tag and return its number; 0 without host memory. tag_lock is held. */
static uint32_t
tag_add(uint32_t parent, const char *name, size_t length, uint32_t hash)
{
    const struct tidei_context_listener *listener = tidei_context_listener();
    char *copy;

    if (!tidei_grow(&tags, &tag_capacity, tag_count, 1))
        return 0;
    copy = strndup(name, length);
    if (copy == NULL || !tidei_map_add(&tag_numbers, hash, 0, tag_count + 1)) {
        free(copy);
        return 0;
    }
    tags[tag_count].parent = parent;
    tags[tag_count].name = copy;
    tag_count++;
    if (listener != NULL)
        listener->tag(tag_count, parent, copy, NULL);
    return tag_count;
}

/* The number of a tag; 0 if it is new. tag_lock is held. */
static uint32_t
tag_look_up(uint32_t parent, const char *name, size_t length, uint32_t hash)
{
    for (size_t i = tidei_map_first(&tag_numbers, hash, 0); i != TIDEI_MAP_NONE; i = tidei_map_next(&tag_numbers, i)) {
        uint32_t id = tag_numbers.entries[i].number;
        const struct tag *tag = &tags[id - 1];

        if (tag->parent == parent && strncmp(tag->name, name, length) == 0 && tag->name[length] == '\0')
            return id;
    }
    return 0;
}

/* The name with a # for each number, as in "step #", and its length. */
static size_t
tag_without_numbers(const char *name, size_t length, char *out)
{
    bool in_number = false;
    size_t written = 0;

    for (size_t i = 0; i < length; i++) {
        bool is_digit = name[i] >= '0' && name[i] <= '9';

        if (!is_digit || !in_number)
            out[written++] = is_digit ? '#' : name[i];
        in_number = is_digit;
    }
    return written;
}

/* A new tag of a source other than the program, by a name of which there are fewer where it has added many. */
static uint32_t
tag_add_foreign(uint32_t parent, const char *name, size_t length, uint32_t hash)
{
    char plain[TAG_NAME_MAX];
    uint32_t id = 0;

    for (int tries = 0; id == 0 && tries < 2; tries++) {
        if (tag_foreign < (tries == 0 ? TAG_FOREIGN_MOST : TAG_PLAIN_MOST))
            break;
        length = tries == 0 ? tag_without_numbers(name, length, plain) : strlen(TAG_OTHER);
        name = tries == 0 ? plain : TAG_OTHER;
        hash = tag_hash(parent, name, length);
        id = tag_look_up(parent, name, length, hash);
    }
    if (id == 0 && tag_foreign < TAG_OTHER_MOST) {
        id = tag_add(parent, name, length, hash);
        tag_foreign += id != 0;
    }
    return id;
}

/* The number of a tag, which is added if it is new; 0 without host memory, or where `source` has too many. */
static uint32_t
tag_find(uint32_t source, uint32_t parent, const char *name, size_t length, const char **kept)
{
    uint32_t hash = tag_hash(parent, name, length);
    uint32_t id;

    pthread_mutex_lock(&tag_lock);
    id = tag_look_up(parent, name, length, hash);
    if (id == 0)
        id = (source == 0 ? tag_add : tag_add_foreign)(parent, name, length, hash);
    *kept = id != 0 ? tags[id - 1].name : NULL;
    pthread_mutex_unlock(&tag_lock);
    return id;
}

static struct tag_thread *
tag_thread_mine(void)
{
    struct tidei_thread *thread = tidei_thread_get();

    if (thread == NULL)
        return NULL;
    if (*tag_thread_of(thread) == NULL) {
        tidei_tags_handle_forks();
        tidei_thread_at_end(TIDEI_THREAD_END_TAGS, tag_thread_ends);
        *tag_thread_of(thread) = calloc(1, sizeof(struct tag_thread));
    }
    return *tag_thread_of(thread);
}

static enum tide_status
tag_push(uint32_t source, const char *name)
{
    struct tag_thread *mine = tag_thread_mine();
    uint32_t parent = mine != NULL && mine->depth > 0 ? tidei_thread->tag : 0; /* the ambient tag is nobody's parent */
    struct tag_cached *cached;

    if (name == NULL || name[0] == '\0')
        return tide_error_set(TIDE_EINVAL, "tag: the name is %s", name == NULL ? "NULL" : "empty");
    if (mine == NULL || !tidei_grow(&mine->stack, &mine->capacity, mine->depth, 1))
        return tide_error_set(TIDE_ENOMEM, "tag: no host memory");
    cached = &mine->cache[((uintptr_t)name * 0x9e3779b97f4a7c15u >> 32 ^ parent) % TAG_CACHE_SIZE];
    if (cached->id == 0 || cached->parent != parent || strcmp(cached->name, name) != 0) {
        cached->id = tag_find(source, parent, name, tidei_utf8_length(name, TAG_NAME_MAX), &cached->name);
        cached->parent = parent;
    }
    if (cached->id == 0 && source != 0)
        return tide_error_set(TIDE_ECAPACITY, "tag: no host memory, or %d tags of other sources than the program",
                              TAG_FOREIGN_MOST);
    if (cached->id == 0)
        return tide_error_set(TIDE_ENOMEM, "tag: no host memory");
    mine->stack[mine->depth++] = (struct tag_open){ parent, source };
    tidei_thread->tag = cached->id;
    return TIDE_OK;
}

enum tide_status
tide_tag_push(const char *name)
{
    if (tidei_interrupted_refuses())
        return TIDE_ESIGNAL;
    TIDEI_INSIDE(NULL);
    return tag_push(0, name);
}

enum tide_status
tide_tag_push_from(uint32_t source, const char *name)
{
    if (tidei_interrupted_refuses())
        return TIDE_ESIGNAL;
    TIDEI_INSIDE(NULL);
    return tag_push(source, name);
}

/* The tag of the same name as `id` within `parent`; `id` itself without host memory, or where `source` has too many. */
static uint32_t
tag_moved(uint32_t source, uint32_t id, uint32_t parent)
{
    const char *name, *kept;
    uint32_t moved;

    pthread_mutex_lock(&tag_lock);
    name = tags[id - 1].name;
    pthread_mutex_unlock(&tag_lock);
    moved = tag_find(source, parent, name, strlen(name), &kept);
    return moved != 0 ? moved : id;
}

/* End the tag at `i` of the stack; those that have begun within it stay. */
static void
tag_end(struct tag_thread *mine, size_t i)
{
    uint32_t parent = mine->stack[i].parent;

    while (++i < mine->depth) {
        uint32_t id = i + 1 < mine->depth ? mine->stack[i + 1].parent : tidei_thread->tag;

        mine->stack[i - 1] = (struct tag_open){ parent, mine->stack[i].source };
        parent = tag_moved(mine->stack[i].source, id, parent);
    }
    mine->depth--;
    tidei_thread->tag = parent;
}

static void
tag_pop(uint32_t source)
{
    struct tag_thread *mine = *tag_thread_of(tidei_thread);
    size_t i = mine != NULL ? mine->depth : 0;

    while (i > 0 && mine->stack[i - 1].source != source)
        i--;
    if (i == 0)
        return;
    tag_end(mine, i - 1);
    if (mine->depth == 0)
        tidei_tag_notice();
}

void
tidei_tag_notice(void)
{
    /* Acquire: pairs with the release in tide_tag_ambient. A later change is noticed later. */
    uint32_t changes = atomic_load_explicit(&tidei_tag_ambient_changes, memory_order_acquire);
    struct tidei_thread *thread = changes != 0 ? tidei_thread_get() : NULL;

    if (thread == NULL)
        return;
    thread->ambient = changes;
    if (*tag_thread_of(thread) == NULL || (*tag_thread_of(thread))->depth == 0)
        thread->tag = atomic_load_explicit(&tag_ambient, memory_order_relaxed);
}

enum tide_status
tide_tag_ambient(const char *name)
{
    const struct tidei_context_listener *listener;
    const char *kept;
    uint32_t id = 0;

    if (name != NULL && name[0] == '\0')
        return tide_error_set(TIDE_EINVAL, "tag: the ambient name is empty, expected NULL for none");
    tidei_tags_handle_forks();
    if (name != NULL)
        id = tag_find(0, 0, name, tidei_utf8_length(name, TAG_NAME_MAX), &kept);
    if (name != NULL && id == 0)
        return tide_error_set(TIDE_ENOMEM, "tag: no host memory");
    atomic_store_explicit(&tag_ambient, id, memory_order_relaxed);
    atomic_fetch_add_explicit(&tidei_tag_ambient_changes, 1, memory_order_release);
    listener = tidei_context_listener();
    if (listener != NULL)
        listener->ambient();
    tidei_tag_notice();
    return TIDE_OK;
}

void
tide_tag_pop(void)
{
    if (tidei_interrupted_refuses())
        return;
    TIDEI_INSIDE(NULL);
    tag_pop(0);
}

void
tide_tag_pop_from(uint32_t source)
{
    if (tidei_interrupted_refuses())
        return;
    TIDEI_INSIDE(NULL);
    tag_pop(source);
}

size_t
tide_tag_depth(void)
{
    const struct tag_thread *mine = *tag_thread_of(tidei_thread);
    size_t count = 0;

    for (size_t i = 0; mine != NULL && i < mine->depth; i++)
        count += mine->stack[i].source == 0;
    return count;
}

uint32_t
tidei_tag_parent(uint32_t tag)
{
    uint32_t parent = 0;

    pthread_mutex_lock(&tag_lock);
    if (tag != 0)
        parent = tags[tag - 1].parent;
    pthread_mutex_unlock(&tag_lock);
    return parent;
}

char *
tidei_tag_path(uint32_t tag)
{
    size_t length = 0;
    char *path;

    pthread_mutex_lock(&tag_lock);
    for (uint32_t id = tag; id != 0; id = tags[id - 1].parent)
        length += strlen(tags[id - 1].name) + 1;
    path = malloc(length + 1);
    /* Written from the end: each name is followed by '/', the last one by NUL. */
    for (uint32_t id = tag; path != NULL && id != 0; id = tags[id - 1].parent) {
        size_t part = strlen(tags[id - 1].name);

        path[--length] = id == tag ? '\0' : '/';
        length -= part;
        memcpy(path + length, tags[id - 1].name, part);
    }
    if (path != NULL && tag == 0)
        path[0] = '\0';
    pthread_mutex_unlock(&tag_lock);
    return path;
}
