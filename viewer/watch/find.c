/* Finds the recordings of traces, folders and processes. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/parse.h"
#include "viewer/watch/watch.h"

#define FIND_SUFFIX "-rings"

static void
find_empty(struct watch_process *process)
{
    gauge_close(&process->file);
    watch_names_free(&process->names);
    free(process->samples);
}

/* A process that is over: another recording may have its name by now. Its place in the list stays. */
static void
find_again(struct watch_process *process)
{
    struct watch_process fresh = { .names.limit_bytes = WATCH_NO_LIMIT };

    if (!gauge_open(process->file.trace, &fresh.file))
        return;
    gauge_look(&fresh.file, &fresh.look);
    if (!fresh.look.has_page || fresh.file.trace_id == process->file.trace_id) {
        gauge_close(&fresh.file);
        return;
    }
    find_empty(process);
    *process = fresh;
}

/* Add the trace, unless it is in the list. COMMAND_WRONG after a message: no memory. */
static int
find_add(struct watch *watch, const char *path)
{
    struct watch_process *process;

    for (size_t i = 0; i < watch->list_count; i++) {
        if (strcmp(watch->list[i]->file.trace, path) != 0)
            continue;
        if (watch->list[i]->is_over)
            find_again(watch->list[i]);
        return COMMAND_FINE;
    }
    if (watch->list_count == WATCH_PROCESSES)
        return COMMAND_FINE;
    process = calloc(1, sizeof(*process));
    if (process == NULL || !gauge_open(path, &process->file) ||
        !tidei_grow(&watch->list, &watch->list_capacity, watch->list_count, 1)) {
        free(process);
        message("tidemark watch: no memory");
        return COMMAND_WRONG;
    }
    process->names.limit_bytes = WATCH_NO_LIMIT;
    watch->list[watch->list_count++] = process;
    return COMMAND_FINE;
}

/* The length of a name without the ring file's ending; 0: it is no ring file's. */
static size_t
find_stem(const char *name)
{
    size_t length = strlen(name), ending = sizeof(FIND_SUFFIX) - 1;

    return length > ending && strcmp(name + length - ending, FIND_SUFFIX) == 0 ? length - ending : 0;
}

static int
find_compare(const struct dirent **left, const struct dirent **right)
{
    return strverscmp((*left)->d_name, (*right)->d_name);
}

static int
find_is_ring(const struct dirent *entry)
{
    return find_stem(entry->d_name) != 0;
}

/* Each trace of a folder that has a ring file. */
static int
find_in_folder(struct watch *watch, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, find_is_ring, find_compare);
    int status = COMMAND_FINE;

    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char *path;

        if (asprintf(&path, "%s/%.*s", folder, (int)find_stem(name), name) >= 0) {
            if (status == COMMAND_FINE)
                status = find_add(watch, path);
            free(path);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* Each trace whose ring file the process has open. */
static int
find_of_process(struct watch *watch, uint64_t pid, bool *exists)
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
        status = find_add(watch, target);
    }
    if (fds != NULL)
        closedir(fds);
    return status;
}

/* One argument. The first time, what it names must be there. */
static int
find_argument(struct watch *watch, const char *argument, bool first)
{
    size_t before = watch->list_count;
    struct stat info;
    bool exists;
    uint64_t pid;
    int status;

    if (stat(argument, &info) == 0 && S_ISDIR(info.st_mode)) {
        watch->finds_more = true;
        return find_in_folder(watch, argument);
    }
    if (stat(argument, &info) != 0 && parse_count(argument, &pid)) {
        status = find_of_process(watch, pid, &exists);
        if (!first || status != COMMAND_FINE || watch->list_count != before)
            return status;
        message(exists ? "tidemark watch: process %s records no trace that this user can see"
                       : "tidemark watch: %s is no trace, no folder and no process",
                argument);
        return COMMAND_WRONG;
    }
    if (first && stat(argument, &info) != 0) {
        message("%s: %s", argument, strerror(errno));
        return COMMAND_WRONG;
    }
    return first ? find_add(watch, argument) : COMMAND_FINE;
}

int
watch_find(struct watch *watch, bool first)
{
    int status = COMMAND_FINE;

    for (int i = 0; status == COMMAND_FINE && i < watch->count; i++)
        status = find_argument(watch, watch->arguments[i], first);
    return status;
}

void
watch_free(struct watch *watch)
{
    for (size_t i = 0; i < watch->list_count; i++) {
        find_empty(watch->list[i]);
        free(watch->list[i]);
    }
    free(watch->list);
}
