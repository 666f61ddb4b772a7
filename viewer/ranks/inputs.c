/* The traces to merge. */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "src/tables/grow.h"
#include "src/trace/database/schema.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/message.h"
#include "viewer/ranks/inputs.h"

static int
inputs_no_memory(void)
{
    message("tidemark merge: no memory");
    return COMMAND_WRONG;
}

void
input_leave(struct input *input, const char *format, ...)
{
    va_list arguments;
    char *reason = NULL;

    va_start(arguments, format);
    if (vasprintf(&reason, format, arguments) < 0)
        reason = NULL;
    va_end(arguments);
    message("%s: %s: left out", input->path, reason != NULL ? reason : "no memory");
    free(input->reason);
    input->reason = reason != NULL ? reason : strdup("");
}

void
inputs_free(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        free(inputs->list[i].path);
        free(inputs->list[i].trace);
        free(inputs->list[i].job);
        free(inputs->list[i].reason);
    }
    free(inputs->list);
    free(inputs->job);
    *inputs = (struct inputs){ .world_size = -1 };
}

/* ---- where they are ---------------------------------------------------------------------------------------------- */

static int
inputs_add(struct inputs *inputs, const char *path)
{
    char *copy = strdup(path);

    if (copy == NULL || !tidei_grow(&inputs->list, &inputs->capacity, inputs->count, 1)) {
        free(copy);
        return inputs_no_memory();
    }
    inputs->list[inputs->count++] = (struct input){ .path = copy, .rank = -1, .world_size = -1 };
    return COMMAND_FINE;
}

static int
inputs_compare(const struct dirent **left, const struct dirent **right)
{
    return strverscmp((*left)->d_name, (*right)->d_name);
}

static int
inputs_is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* So many bytes of a database say of which program it is. */
#define INPUTS_HEAD_BYTES 72

/*
 * A name ending in .db is meant to be a trace: where it is broken or may not be read, it is named and not passed over.
 * Passed over are folders and pipes, and what is for certain a database of another program.
 */
static bool
inputs_is_wanted(const char *path)
{
    size_t length = strlen(path);
    unsigned char head[INPUTS_HEAD_BYTES];
    ssize_t count = file_head(path, (char *)head, sizeof(head));
    bool is_named = length > 3 && strcmp(path + length - 3, ".db") == 0;

    if (count < 0)
        return is_named && errno != EISDIR && errno != EINVAL;
    if (count < (ssize_t)sizeof(head) || !file_head_is_sqlite((const char *)head, count))
        return is_named;
    return ((uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 | head[71]) ==
           TIDEI_TRACE_APPLICATION_ID;
}

/* The traces of a folder. */
static int
inputs_add_folder(struct inputs *inputs, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, inputs_is_shown, inputs_compare);
    size_t before = inputs->count;
    int status = COMMAND_FINE;
    char *path;

    if (count < 0) {
        message("%s: %s", folder, strerror(errno));
        return COMMAND_WRONG;
    }
    for (int i = 0; i < count; i++) {
        if (status == COMMAND_FINE && asprintf(&path, "%s/%s", folder, entries[i]->d_name) >= 0) {
            if (inputs_is_wanted(path))
                status = inputs_add(inputs, path);
            free(path);
        }
        free(entries[i]);
    }
    free(entries);
    if (status == COMMAND_FINE && inputs->count == before)
        message("%s: it has no traces", folder);
    return status;
}

int
inputs_find(struct inputs *inputs, char *const *paths, size_t count)
{
    int status = COMMAND_FINE;

    *inputs = (struct inputs){ .world_size = -1 };
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        struct stat info;

        if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode))
            status = inputs_add_folder(inputs, paths[i]);
        else
            status = inputs_add(inputs, paths[i]);
    }
    return status;
}

/* ---- what they say of themselves --------------------------------------------------------------------------------- */

/* A number of meta; -1: there is none. */
static int64_t
input_number(const struct trace *trace, const char *key)
{
    int64_t number = -1;

    if (trace_look_up(trace, &number, "SELECT value FROM meta WHERE key = %Q AND typeof(value) = 'integer'", key) !=
            SQLITE_ROW ||
        number < 0 || number >= INPUTS_RANKS)
        return -1;
    return number;
}

/* The number behind "rank" in the name of a file: "rank-3.db", "x.rank12.db". -1: there is none. */
static int64_t
input_rank_of_name(const char *path)
{
    const char *name = strrchr(path, '/');
    int64_t rank = -1;

    for (name = name != NULL ? name + 1 : path; (name = strcasestr(name, "rank")) != NULL;) {
        char *end;
        long long number;

        name += strlen("rank");
        name += strchr("-_.=", *name) != NULL && *name != '\0';
        if (!isdigit((unsigned char)*name))
            continue;
        number = strtoll(name, &end, 10);
        if (number < INPUTS_RANKS)
            rank = number;
    }
    return rank;
}

/* What tells the trace from all others: its random number, or else where it is. NULL: no memory. */
static char *
input_trace(const struct trace *trace, const char *path)
{
    int64_t id = 0;
    char *text = NULL, *real;

    if (trace_look_up(trace, &id, "SELECT value FROM meta WHERE key = 'trace_id' AND typeof(value) = 'integer'") ==
            SQLITE_ROW &&
        id != 0)
        return asprintf(&text, "%016" PRIx64, (uint64_t)id) < 0 ? NULL : text;
    real = realpath(path, NULL);
    if (asprintf(&text, "file:%s", real != NULL ? real : path) < 0)
        text = NULL;
    free(real);
    return text;
}

/* Read what a trace says of itself. False: no memory. */
static bool
input_look(struct input *input)
{
    struct trace trace;

    if (trace_open(input->path, true, &trace) != COMMAND_FINE) {
        input_leave(input, "it cannot be read");
        return input->reason != NULL;
    }
    input->rank = input_number(&trace, "rank");
    if (input->rank < 0)
        input->rank = input_rank_of_name(input->path);
    input->world_size = input_number(&trace, "world_size");
    input->job = trace_meta(&trace, "job");
    input->trace = input_trace(&trace, input->path);
    trace_close(&trace);
    return input->trace != NULL;
}

int
inputs_look(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        struct input *input = &inputs->list[i];

        if (!input_look(input))
            return inputs_no_memory();
    }
    return COMMAND_FINE;
}

/* ---- which are taken --------------------------------------------------------------------------------------------- */

/* The job of which most traces are; of several the one that comes first. */
static const char *
inputs_common_job(const struct inputs *inputs)
{
    const char *found = NULL;
    size_t most = 0;

    for (size_t i = 0; i < inputs->count; i++) {
        const char *job = inputs->list[i].job;
        size_t count = 0;

        /* Those of one job mostly stand together: none is counted twice then. */
        if (job == NULL || (i > 0 && inputs->list[i - 1].job != NULL && strcmp(job, inputs->list[i - 1].job) == 0))
            continue;
        for (size_t j = 0; j < inputs->count; j++)
            count += inputs->list[j].job != NULL && strcmp(inputs->list[j].job, job) == 0;
        if (count > most)
            found = job;
        if (count > most)
            most = count;
    }
    return found;
}

static bool
input_is_open(const struct input *input)
{
    return input->reason == NULL && input->trace != NULL;
}

static int
inputs_choose_job(struct inputs *inputs, const struct trace *file)
{
    const char *job;

    inputs->job = file != NULL ? trace_meta(file, "job") : NULL;
    job = inputs->job != NULL ? inputs->job : inputs_common_job(inputs);
    if (inputs->job == NULL && job != NULL) {
        inputs->job = strdup(job);
        if (inputs->job == NULL)
            return inputs_no_memory();
    }
    for (size_t i = 0; i < inputs->count && inputs->job != NULL; i++) {
        struct input *input = &inputs->list[i];

        if (input_is_open(input) && input->job != NULL && strcmp(input->job, inputs->job) != 0)
            input_leave(input, "it is of the job %s, the others are of %s", input->job, inputs->job);
    }
    return COMMAND_FINE;
}

static int
inputs_compare_traces(const void *left, const void *right)
{
    const struct input *a = *(const struct input *const *)left, *b = *(const struct input *const *)right;
    int order = strcmp(a->trace, b->trace);

    return order != 0 ? order : (a > b) - (a < b);
}

static int
inputs_compare_ranks(const void *left, const void *right)
{
    const struct input *a = *(const struct input *const *)left, *b = *(const struct input *const *)right;

    if (a->rank != b->rank)
        return (a->rank > b->rank) - (a->rank < b->rank);
    if (a->is_in != b->is_in)
        return b->is_in - a->is_in;
    return (a > b) - (a < b);
}

/* The traces that are not left out, in an order. Returns their number. */
static size_t
inputs_sort(struct inputs *inputs, struct input **sorted, int (*compare)(const void *, const void *))
{
    size_t count = 0;

    for (size_t i = 0; i < inputs->count; i++) {
        if (input_is_open(&inputs->list[i]))
            sorted[count++] = &inputs->list[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare);
    return count;
}

static void
inputs_leave_same(struct inputs *inputs, struct input **sorted)
{
    size_t count = inputs_sort(inputs, sorted, inputs_compare_traces);
    const struct input *first = NULL;

    for (size_t i = 0; i < count; i++) {
        if (first != NULL && strcmp(first->trace, sorted[i]->trace) == 0)
            input_leave(sorted[i], "it is the same trace as %s, which comes first and stands for both", first->path);
        else
            first = sorted[i];
    }
}

/* Take over from the file which traces are in, with their ranks; and leave out whose rank another one has. */
struct inputs_file {
    struct input **sorted; /* borrows; by trace */
    size_t count;
};

static int
inputs_take_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct inputs_file *file = context;
    struct input wanted = { .trace = (char *)sqlite3_column_text(row, 1) };
    int64_t rank = sqlite3_column_int64(row, 0);
    size_t low = 0, high = file->count;

    (void)trace;
    if (wanted.trace == NULL || rank < 0 || rank >= INPUTS_RANKS)
        return COMMAND_FINE;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(file->sorted[middle]->trace, wanted.trace) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < file->count && strcmp(file->sorted[low]->trace, wanted.trace) == 0) {
        file->sorted[low]->rank = rank;
        file->sorted[low]->is_in = true;
        file->sorted[low]->is_in_whole = sqlite3_column_int64(row, 2) != 0;
        return COMMAND_FINE;
    }
    for (size_t i = 0; i < file->count; i++) {
        if (file->sorted[i]->rank == rank && input_is_open(file->sorted[i]))
            input_leave(file->sorted[i], "rank %" PRId64 " is in already, of %s", rank, sqlite3_column_text(row, 3));
    }
    return COMMAND_FINE;
}

static void
inputs_leave_ranks(struct inputs *inputs, struct input **sorted)
{
    size_t count = inputs_sort(inputs, sorted, inputs_compare_ranks);

    for (size_t i = 1; i < count; i++) {
        const struct input *first = sorted[i - 1];

        if (sorted[i]->rank < 0 || sorted[i]->rank != first->rank)
            continue;
        input_leave(sorted[i], "it is of rank %" PRId64 ", as %s", sorted[i]->rank, first->path);
        sorted[i] = sorted[i - 1];
    }
}

static int
inputs_compare_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int
inputs_note_rank(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    int64_t **at = context;

    (void)trace;
    *(*at)++ = sqlite3_column_int64(row, 0);
    return COMMAND_FINE;
}

/* Say which numbers were given: `first` to `last`, less those that others have. */
static void
inputs_say_numbers(const struct inputs *inputs, size_t count, int64_t first, int64_t last)
{
    char place[64] = "", end[32] = "";

    if (inputs->world_size > 0)
        snprintf(place, sizeof(place), ", behind the %" PRId64 " of the job", inputs->world_size);
    if (count > 1)
        snprintf(end, sizeof(end), " to %" PRId64, last);
    if (count > 0)
        message("tidemark merge: %zu trace%s no rank: numbered %" PRId64 "%s%s", count, count == 1 ? " says" : "s say",
                first, end, place);
}

/*
 * Number those that have no rank, by the first numbers that nobody has; where the size of the job is known, from that
 * on: a number below it would stand for a rank of which nobody knows whether it is that.
 */
static int
inputs_number(struct inputs *inputs, const struct trace *file)
{
    int64_t *ranks, *end, in_file = 0, next = inputs->world_size > 0 ? inputs->world_size : 0, first = 0;
    size_t given = 0;
    int status = file != NULL ? trace_integer(file, "SELECT count(*) FROM rank", &in_file) : COMMAND_FINE;

    if (status != COMMAND_FINE)
        return status;
    end = ranks = calloc(inputs->count + (size_t)in_file + 1, sizeof(*ranks));
    if (ranks == NULL)
        return inputs_no_memory();
    for (size_t i = 0; i < inputs->count; i++) {
        if (input_is_open(&inputs->list[i]) && inputs->list[i].rank >= 0)
            *end++ = inputs->list[i].rank;
    }
    if (file != NULL)
        status = trace_each(file, inputs_note_rank, &end, "SELECT rank FROM rank LIMIT %lld", (long long)in_file);
    qsort(ranks, (size_t)(end - ranks), sizeof(*ranks), inputs_compare_numbers);
    for (size_t i = 0, used = 0; i < inputs->count; i++) {
        struct input *input = &inputs->list[i];

        if (!input_is_open(input) || input->rank >= 0)
            continue;
        for (; used < (size_t)(end - ranks) && ranks[used] <= next; used++)
            next += ranks[used] == next;
        input->rank = next++;
        if (given++ == 0)
            first = input->rank;
    }
    free(ranks);
    inputs_say_numbers(inputs, given, first, next - 1);
    return status;
}

static int
inputs_read_file(struct inputs *inputs, struct input **sorted, const struct trace *file)
{
    struct inputs_file reading = { .sorted = sorted };
    int status;

    reading.count = inputs_sort(inputs, sorted, inputs_compare_traces);
    status = trace_each(file, inputs_take_row, &reading, "SELECT rank, trace, complete, path FROM rank ORDER BY rank");
    return status;
}

static void
inputs_choose_world_size(struct inputs *inputs, const struct trace *file)
{
    if (file != NULL)
        inputs->world_size = input_number(file, "world_size");
    for (size_t i = 0; i < inputs->count; i++) {
        if (input_is_open(&inputs->list[i]) && inputs->list[i].world_size > inputs->world_size)
            inputs->world_size = inputs->list[i].world_size;
    }
}

int
inputs_choose(struct inputs *inputs, const struct trace *file)
{
    struct input **sorted = calloc(inputs->count + 1, sizeof(*sorted));
    int status = sorted != NULL ? inputs_choose_job(inputs, file) : inputs_no_memory();

    if (status == COMMAND_FINE) {
        inputs_leave_same(inputs, sorted);
        status = file != NULL ? inputs_read_file(inputs, sorted, file) : COMMAND_FINE;
    }
    if (status == COMMAND_FINE) {
        inputs_leave_ranks(inputs, sorted);
        inputs_choose_world_size(inputs, file);
        status = inputs_number(inputs, file);
    }
    free(sorted);
    return status;
}
