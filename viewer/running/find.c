/* Finds the recordings of traces, folders and processes. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/parse.h"
#include "viewer/running/running.h"

#define FIND_SUFFIX "-rings"

static void
find_empty(const struct running_list *list, struct running *running)
{
    if (list->empty != NULL)
        list->empty(running);
    gauge_close(&running->file);
    running_names_free(&running->names);
}

/* One that is over: another recording may have its name by now. Its place in the list stays. */
static void
find_again(const struct running_list *list, struct running *running)
{
    struct running fresh = { .names.limit_bytes = RUNNING_NO_LIMIT };

    if (!gauge_open(running->file.trace, &fresh.file))
        return;
    gauge_look(&fresh.file, &fresh.look);
    if (!fresh.look.has_page || fresh.file.trace_id == running->file.trace_id) {
        gauge_close(&fresh.file);
        return;
    }
    find_empty(list, running);
    memset(running, 0, list->item_bytes);
    *running = fresh;
}

/* FNV-1a; the map that it goes into has a random key of its own. */
static uint64_t
find_hash(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *path != '\0'; path++)
        hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    return hash;
}

/* The recording of this path; NULL: it is not in the list. */
static struct running *
find_known(const struct running_list *list, const char *path, uint64_t hash)
{
    const uint32_t *place = id_map_find(&list->places, hash);

    if (place == NULL || strcmp(list->list[*place]->file.trace, path) == 0)
        return place != NULL ? list->list[*place] : NULL;
    for (size_t i = 0; i < list->list_count; i++) {
        if (strcmp(list->list[i]->file.trace, path) == 0)
            return list->list[i];
    }
    return NULL;
}

static int
find_no_memory(const struct running_list *list)
{
    message("%s: no memory", list->what);
    return COMMAND_WRONG;
}

/* Have find_known find the last of the list. False: no memory. */
static bool
find_index(struct running_list *list, size_t place)
{
    uint64_t hash = find_hash(list->list[place]->file.trace);

    return id_map_find(&list->places, hash) != NULL || id_map_add(&list->places, hash, (uint32_t)place);
}

/* Add the trace, unless it is in the list. COMMAND_WRONG after a message: no memory. */
static int
find_add(struct running_list *list, const char *path)
{
    struct running *running = find_known(list, path, find_hash(path));

    if (running != NULL) {
        if (running->is_over)
            find_again(list, running);
        return COMMAND_FINE;
    }
    if (list->list_count == list->most) {
        list->left_out = true;
        return COMMAND_FINE;
    }
    running = calloc(1, list->item_bytes);
    if (running == NULL || !gauge_open(path, &running->file)) {
        free(running);
        return find_no_memory(list);
    }
    running->names.limit_bytes = RUNNING_NO_LIMIT;
    if (!tidei_grow(&list->list, &list->list_capacity, list->list_count, 1)) {
        gauge_close(&running->file);
        free(running);
        return find_no_memory(list);
    }
    list->list[list->list_count++] = running;
    return find_index(list, list->list_count - 1) ? COMMAND_FINE : find_no_memory(list);
}

/* The length of a name without the ring file's ending; 0: it is no ring file's. */
static size_t
find_stem(const char *name)
{
    size_t length = strlen(name), ending = sizeof(FIND_SUFFIX) - 1;

    return length > ending && strcmp(name + length - ending, FIND_SUFFIX) == 0 ? length - ending : 0;
}

/* The paths of traces, of which there are more in a folder than in the list. */
struct find_paths {
    char **list; /* owns, and each of them */
    size_t count, capacity;
};

static int
find_compare(const void *left, const void *right)
{
    return strverscmp(*(char *const *)left, *(char *const *)right);
}

/* Look at one name of a folder. `info` is the folder. COMMAND_WRONG after a message: no memory. */
static int
find_name(struct running_list *list, const struct stat *info, const struct dirent *entry, const char *path,
          struct find_paths *fresh)
{
    struct running *running = find_known(list, path, find_hash(path));

    if (running != NULL) {
        /* The folder has said what the name leads to: nobody need ask for each again. */
        running->file.is_named =
            running->file.fd >= 0 && running->file.inode == entry->d_ino && running->file.device == info->st_dev;
        if (running->is_over)
            find_again(list, running);
        return COMMAND_FINE;
    }
    if (!tidei_grow(&fresh->list, &fresh->capacity, fresh->count, 1) ||
        (fresh->list[fresh->count] = strdup(path)) == NULL)
        return find_no_memory(list);
    fresh->count++;
    return COMMAND_FINE;
}

/*
 * Each trace of a folder that has a ring file. Those that are new come in the order of their names. *error says why the
 * folder cannot be read; 0: it can.
 */
static int
find_in_folder(struct running_list *list, const char *folder, int *error)
{
    struct find_paths fresh = { .list = NULL };
    int status = COMMAND_FINE, length;
    char path[PATH_MAX + NAME_MAX];
    DIR *entries = opendir(folder);
    struct dirent *entry;
    struct stat info;

    *error = entries == NULL ? errno : 0;
    if (entries == NULL || fstat(dirfd(entries), &info) != 0)
        info = (struct stat){ 0 };
    length = snprintf(path, sizeof(path), "%.*s/", PATH_MAX - 2, folder);
    while (entries != NULL && status == COMMAND_FINE && (errno = 0, entry = readdir(entries)) != NULL) {
        size_t stem = find_stem(entry->d_name);

        if (stem == 0)
            continue;
        memcpy(path + length, entry->d_name, stem);
        path[(size_t)length + stem] = '\0';
        status = find_name(list, &info, entry, path, &fresh);
    }
    if (entries != NULL && status == COMMAND_FINE)
        *error = errno;
    if (entries != NULL)
        closedir(entries);
    if (fresh.count > 0)
        qsort(fresh.list, fresh.count, sizeof(*fresh.list), find_compare);
    for (size_t i = 0; i < fresh.count; i++) {
        if (status == COMMAND_FINE)
            status = find_add(list, fresh.list[i]);
        free(fresh.list[i]);
    }
    free(fresh.list);
    return status;
}

/* Each trace whose ring file the process has open. */
static int
find_of_process(struct running_list *list, uint64_t pid, bool *exists)
{
    char folder[64], link[128], target[4096];
    int status = COMMAND_FINE;
    struct dirent *entry;
    DIR *fds;

    snprintf(folder, sizeof(folder), "/proc/%llu/fd", (unsigned long long)pid);
    fds = opendir(folder);
    *exists = fds != NULL || errno != ENOENT;
    while (fds != NULL && status == COMMAND_FINE && (entry = readdir(fds)) != NULL) {
        ssize_t length;

        if (strlen(entry->d_name) > 32 || entry->d_name[0] == '.')
            continue;
        snprintf(link, sizeof(link), "%s/%.32s", folder, entry->d_name);
        length = readlink(link, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        if (find_stem(target) == 0)
            continue;
        target[find_stem(target)] = '\0';
        status = find_add(list, target);
    }
    if (fds != NULL)
        closedir(fds);
    return status;
}

/* The argument is a folder, or was one. */
static int
find_folder(struct running_list *list, const char *argument, struct running_folder *folder, bool first)
{
    int error, status = find_in_folder(list, argument, &error);

    if (error != 0 && error != folder->error)
        message("%s: %s", argument, strerror(error));
    folder->is_folder = true;
    folder->error = error;
    return status == COMMAND_FINE && first && error != 0 ? COMMAND_WRONG : status;
}

/* One argument. The first time, what it names must be there. */
static int
find_argument(struct running_list *list, int place, bool first)
{
    const char *argument = list->arguments[place];
    size_t before = list->list_count;
    struct stat info;
    bool exists;
    uint64_t pid;
    int status;

    if (list->folders[place].is_folder || (stat(argument, &info) == 0 && S_ISDIR(info.st_mode))) {
        list->finds_more = true;
        return find_folder(list, argument, &list->folders[place], first);
    }
    if (stat(argument, &info) != 0 && parse_count(argument, &pid)) {
        status = find_of_process(list, pid, &exists);
        if (!first || status != COMMAND_FINE || list->list_count != before)
            return status;
        message(exists ? "%s: process %s records no trace that this user can see"
                       : "%s: %s is no trace, no folder and no process",
                list->what, argument);
        return COMMAND_WRONG;
    }
    if (first && stat(argument, &info) != 0) {
        message("%s: %s", argument, strerror(errno));
        return COMMAND_WRONG;
    }
    return first || list->finds_again ? find_add(list, argument) : COMMAND_FINE;
}

int
running_find(struct running_list *list, bool first)
{
    int status = COMMAND_FINE;

    list->left_out = false;
    if (list->folders == NULL)
        list->folders = calloc((size_t)list->count + 1, sizeof(*list->folders));
    if (list->folders == NULL)
        return find_no_memory(list);
    for (int i = 0; status == COMMAND_FINE && i < list->count; i++)
        status = find_argument(list, i, first);
    return status;
}

int
running_remove(struct running_list *list, bool (*is_left)(const struct running *running))
{
    size_t kept = 0;
    bool indexed = true;

    for (size_t i = 0; i < list->list_count; i++) {
        if (is_left(list->list[i])) {
            find_empty(list, list->list[i]);
            free(list->list[i]);
        } else {
            list->list[kept++] = list->list[i];
        }
    }
    if (kept == list->list_count)
        return COMMAND_FINE;
    list->list_count = kept;
    id_map_free(&list->places);
    for (size_t i = 0; indexed && i < kept; i++)
        indexed = find_index(list, i);
    return indexed ? COMMAND_FINE : find_no_memory(list);
}

void
running_free(struct running_list *list)
{
    for (size_t i = 0; i < list->list_count; i++) {
        find_empty(list, list->list[i]);
        free(list->list[i]);
    }
    free(list->list);
    free(list->folders);
    id_map_free(&list->places);
}
