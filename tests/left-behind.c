/* A program that records and is killed, and the files that it leaves behind. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "src/trace/ring/ringfile.h"

#include "left-behind.h"
#include "tap.h"

#define THREADS 3

struct left left = { .folder = "left-XXXXXX" };

/* Make 40 allocations with a tag, and free every third. */
static void *
work(void *stack)
{
    static _Thread_local void *held[40];

    tide_tag_push("work");
    for (size_t i = 0; i < 40; i++) {
        if (tide_allocate(stack, 1000 + i, 256, i % 2, &held[i]) != TIDE_OK)
            abort();
    }
    for (size_t i = 0; i < 40; i += 3)
        tide_deallocate(stack, held[i], 1000 + i, 256, 0);
    tide_tag_pop();
    return NULL;
}

static void
work_on_threads(struct tide_resource *stack)
{
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, stack);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Record into the trace, the backlog and the rings, until this process is killed. */
static _Noreturn void
child(void)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = left.trace_path, .ring_bytes = 16384 };
    struct tide_resource *base, *stack;

    options.backlog_bytes = 1 << 20;
    if (tide_sim_create(NULL, &base) != TIDE_OK || tide_log_create(base, &options, &stack) != TIDE_OK)
        _exit(9);
    work_on_threads(stack);
    tide_mark("a mark whose text is so long that it takes more than one record to hold, which is 48 bytes");
    if (tide_log_flush(stack) != TIDE_OK)
        _exit(9);
    work_on_threads(stack);
    usleep(30000); /* for the merge; a transaction is due after half a second */
    tide_mark("between two halves of the work there is a mark of more than one record");
    work(stack);
    kill(getpid(), SIGKILL);
    abort();
}

static struct left_file
read_file(const char *path)
{
    struct left_file file = { NULL, 0 };
    FILE *stream = fopen(path, "rb");
    long length;

    if (stream == NULL)
        return file;
    fseek(stream, 0, SEEK_END);
    length = ftell(stream);
    rewind(stream);
    file.bytes = malloc((size_t)length + 1);
    if (file.bytes != NULL)
        file.length = fread(file.bytes, 1, (size_t)length, stream);
    fclose(stream);
    return file;
}

static void
write_file(const char *path, const unsigned char *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length)
        abort();
    close(fd);
}

/* The time of the last change, in a text. */
static void
time_of(const char *path, char text[64])
{
    struct stat info;

    snprintf(text, 64, "none");
    if (stat(path, &info) == 0)
        snprintf(text, 64, "%lld.%09ld", (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

static char laid_out[3][64];

static void
times_of_all(char times[3][64])
{
    time_of(left.trace_path, times[0]);
    time_of(left.log_path, times[1]);
    time_of(left.rings_path, times[2]);
}

void
left_lay_out(const unsigned char *rings, size_t length)
{
    unlink(left.index_path);
    unlink(left.rings_path);
    write_file(left.trace_path, left.trace.bytes, left.trace.length);
    write_file(left.log_path, left.log.bytes, left.log.length);
    if (rings != NULL)
        write_file(left.rings_path, rings, length);
    times_of_all(laid_out);
}

/* The number that a query returns; -1 if it fails. */
static int64_t
number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t value = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        diag("%s: %s", sql, sqlite3_errmsg(db));
        return -1;
    }
    if (sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

bool
left_keeps_what_it_had(bool untouched)
{
    static const char *const tables[] = { "status",      "layer", "layer_bin",      "thread", "stream",       "tag",
                                          "pool_sample", "mark",  "unmatched_free", "loss",   "device_sample" };
    bool good = true;
    char sql[512];
    sqlite3 *db;

    if (sqlite3_open_v2(left.trace_path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return false;
    }
    snprintf(sql, sizeof(sql), "ATTACH '%s' AS base", left.base_path);
    good = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
    good = good && number_of(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1;
    for (size_t i = 0; good && i < sizeof(tables) / sizeof(tables[0]); i++) {
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM (SELECT * FROM base.%s EXCEPT SELECT * FROM main.%s)",
                 tables[i], tables[i]);
        good = number_of(db, sql) == 0;
    }
    good = good && number_of(db, "SELECT count(*) FROM (SELECT * FROM base.allocation WHERE free_ns IS NOT NULL"
                                 " EXCEPT SELECT * FROM main.allocation)") == 0;
#define LIVE                                                                                                           \
    "allocation_id, layer_id, address, size, alignment, status, tag_id, alloc_ns, alloc_duration_ns,"                  \
    " alloc_thread_id, alloc_stream_id"
    good = good && number_of(db, "SELECT count(*) FROM (SELECT " LIVE " FROM base.allocation"
                                 " EXCEPT SELECT " LIVE " FROM main.allocation)") == 0;
    good = good && number_of(db, "SELECT count(*) FROM (SELECT * FROM base.meta WHERE value <> '' AND key NOT IN"
                                 " ('complete', 'epoch', 'epoch_records') EXCEPT SELECT * FROM main.meta)") == 0;
    if (untouched)
        good = good && number_of(db, "SELECT count(*) FROM (SELECT * FROM main.allocation"
                                     " EXCEPT SELECT * FROM base.allocation)") == 0;
    good = good && number_of(db, "SELECT count(*) FROM allocation WHERE alloc_ns < 0 OR free_ns < alloc_ns") == 0;
    sqlite3_close(db);
    return good;
}

bool
left_rings_are(const unsigned char *bytes, size_t length)
{
    struct left_file now = read_file(left.rings_path);
    bool same = now.bytes != NULL && now.length == length && memcmp(now.bytes, bytes, length) == 0;

    free(now.bytes);
    return same;
}

static bool
is_as_left(const char *path, const struct left_file *file)
{
    struct left_file now = read_file(path);
    bool same = now.bytes != NULL && now.length == file->length && memcmp(now.bytes, file->bytes, file->length) == 0;

    free(now.bytes);
    return same;
}

bool
left_is_untouched(const unsigned char *bytes, size_t length)
{
    char now[3][64] = { "", "", "" };

    times_of_all(now);
    return left_rings_are(bytes, length) && is_as_left(left.trace_path, &left.trace) &&
           is_as_left(left.log_path, &left.log) && access(left.index_path, F_OK) != 0 &&
           strcmp(now[0], laid_out[0]) == 0 && strcmp(now[1], laid_out[1]) == 0 && strcmp(now[2], laid_out[2]) == 0;
}

int64_t
left_number(const char *sql)
{
    sqlite3 *db = NULL;
    int64_t number = -1;

    if (sqlite3_open_v2(left.trace_path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK)
        number = number_of(db, sql);
    sqlite3_close(db);
    return number;
}

uint32_t
left_pending_ring(void)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)left.rings.bytes;
    const struct tidei_ring_directory *directory = (const struct tidei_ring_directory *)(left.rings.bytes + TIDEI_PAGE);

    for (uint32_t i = 0; i < header->ring_count; i++) {
        const struct tidei_ring *ring = (const struct tidei_ring *)(left.rings.bytes + directory->rings[i]);

        if (ring->head > ring->tail + 5)
            return i;
    }
    return UINT32_MAX;
}

static void
free_files(void)
{
    free(left.rings.bytes);
    free(left.trace.bytes);
    free(left.log.bytes);
}

/* Run the program once, and kill it. */
static bool
kill_one(void)
{
    pid_t pid;
    int status;

    unlink(left.trace_path);
    unlink(left.rings_path);
    unlink(left.log_path);
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child();
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        return false;
    free_files();
    left.rings = read_file(left.rings_path);
    left.trace = read_file(left.trace_path);
    left.log = read_file(left.log_path);
    return left.rings.length >= TIDEI_RING_PREFIX_BYTES && left.trace.bytes != NULL && left.log.bytes != NULL;
}

bool
leave_behind(void)
{
    bool killed;
    int status;
    sqlite3 *db;
    char sql[128];

    if (mkdtemp(left.folder) == NULL)
        return false;
    snprintf(left.trace_path, sizeof(left.trace_path), "%s/t.db", left.folder);
    snprintf(left.base_path, sizeof(left.base_path), "%s/base.db", left.folder);
    snprintf(left.rings_path, sizeof(left.rings_path), "%s-rings", left.trace_path);
    snprintf(left.log_path, sizeof(left.log_path), "%s-wal", left.trace_path);
    snprintf(left.index_path, sizeof(left.index_path), "%s-shm", left.trace_path);
    /* On a busy machine the recorder may have emptied all rings before the kill. */
    for (int tries = 0; tries < 50; tries++) {
        killed = kill_one();
        if (!killed || left_pending_ring() != UINT32_MAX)
            break;
    }
    if (!killed || left_pending_ring() == UINT32_MAX)
        return false;
    /* Keep a copy of the trace for comparisons. */
    left_lay_out(NULL, 0);
    if (sqlite3_open(left.trace_path, &db) != SQLITE_OK)
        return false;
    snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", left.base_path);
    status = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return status == SQLITE_OK;
}

void
left_remove(void)
{
    free_files();
    unlink(left.trace_path);
    unlink(left.rings_path);
    unlink(left.log_path);
    unlink(left.index_path);
    unlink(left.base_path);
    rmdir(left.folder);
}
