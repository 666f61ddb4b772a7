/*
 * Ring files that were damaged or made up: recovery refuses them and touches nothing, or takes over what there is;
 * it never crashes or hangs, and what the trace already had stays as it was.
 *
 * RINGFILE_ROUNDS sets the number of damaged copies, RINGFILE_FIRST the number of the first: each is what its number
 * makes it.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "trace/ringfile.h"

#include "tap.h"

#define THREADS 3

/* What a killed program has left: the ring file, the trace, its write-ahead log. */
struct file {
    unsigned char *bytes;
    size_t length;
};

static char folder[] = "ringfile-XXXXXX";
static struct file left_rings, left_trace, left_log;
static char trace_path[64], rings_path[80], log_path[80], index_path[80], base_path[64];

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* 40 allocations of which every third is freed, with a tag. */
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

/* Records into the trace, into the backlog and into its rings, and is killed. */
static _Noreturn void
child(void)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = trace_path, .ring_bytes = 16384 };
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

static struct file
read_file(const char *path)
{
    struct file file = { NULL, 0 };
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

/* The trace as it was left, with this ring file beside it. */
static void
lay_out(const unsigned char *rings, size_t length)
{
    unlink(index_path);
    unlink(rings_path);
    write_file(trace_path, left_trace.bytes, left_trace.length);
    write_file(log_path, left_log.bytes, left_log.length);
    if (rings != NULL)
        write_file(rings_path, rings, length);
}

/* The number that a query gives; -1 where it fails. */
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

/* Nothing that the trace had when it was left is missing or different. Live allocations may have been freed. */
static bool
keeps_what_it_had(bool untouched)
{
    static const char *const tables[] = { "status", "layer",       "layer_bin", "thread",         "stream",
                                          "tag",    "pool_sample", "mark",      "unmatched_free", "loss" };
    bool good = true;
    char sql[512];
    sqlite3 *db;

    if (sqlite3_open_v2(trace_path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return false;
    }
    snprintf(sql, sizeof(sql), "ATTACH '%s' AS base", base_path);
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

/* Whether the ring file is still what it was. */
static bool
rings_are(const unsigned char *bytes, size_t length)
{
    struct file now = read_file(rings_path);
    bool same = now.bytes != NULL && now.length == length && memcmp(now.bytes, bytes, length) == 0;

    free(now.bytes);
    return same;
}

/* Recover, and check whatever can be said of any ring file. */
static bool
recover_any(const unsigned char *rings, size_t length, enum tide_status *status, struct tide_trace_recovery *found)
{
    struct tide_trace_recovery again;
    bool good;

    lay_out(rings, length);
    *status = tide_trace_recover(trace_path, found);
    if (*status == TIDE_OK) {
        good = access(rings_path, F_OK) != 0 && keeps_what_it_had(false) &&
               tide_trace_recover(trace_path, &again) == TIDE_OK && again.state == TIDE_TRACE_CLOSED;
    } else {
        good = *status == TIDE_EFORMAT && rings_are(rings, length) && keeps_what_it_had(true);
    }
    if (!good)
        diag("status %d: %s", *status, *status != TIDE_OK ? tide_error_text() : "");
    return good;
}

/* A copy of the ring file, to be changed. */
static unsigned char *
copy_rings(void)
{
    unsigned char *copy = malloc(left_rings.length);

    if (copy == NULL)
        abort();
    memcpy(copy, left_rings.bytes, left_rings.length);
    return copy;
}

static uint64_t
directory_entry(const unsigned char *rings, size_t index)
{
    uint64_t offset;

    memcpy(&offset, rings + TIDEI_PAGE + index * sizeof(offset), sizeof(offset));
    return offset & ~(uint64_t)(TIDEI_PAGE - 1);
}

static void
put(unsigned char *rings, size_t offset, uint64_t value, size_t bytes)
{
    memcpy(rings + offset, &value, bytes);
}

/* An offset in what is in use: header, directory, a ring's header, its records, a chunk. */
static size_t
somewhere(uint64_t *random)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)left_rings.bytes;
    size_t ring = directory_entry(left_rings.bytes, next_random(random) % header->ring_count);
    size_t chunk = directory_entry(left_rings.bytes, TIDEI_MAX_RINGS + next_random(random) % header->chunk_count);

    switch (next_random(random) % 6) {
    case 0:
        return next_random(random) % sizeof(*header);
    case 1:
        return TIDEI_PAGE + next_random(random) % (8u * header->ring_count);
    case 2:
        return TIDEI_PAGE + 8 * TIDEI_MAX_RINGS + next_random(random) % (8u * header->chunk_count);
    case 3:
        return ring + next_random(random) % sizeof(struct tidei_ring);
    case 4:
        return ring + TIDEI_PAGE + next_random(random) % header->ring_bytes;
    default:
        return chunk + next_random(random) % (400 * sizeof(struct tidei_record));
    }
}

static uint64_t
word_of_interest(uint64_t *random)
{
    const uint64_t shift = next_random(random) % 64;

    switch (next_random(random) % 5) {
    case 0:
        return (uint64_t)1 << shift;
    case 1:
        return ((uint64_t)1 << shift) - 1;
    case 2:
        return ~((uint64_t)1 << shift);
    case 3:
        return TIDEI_RING_PREFIX_BYTES + TIDEI_PAGE * (next_random(random) % 600);
    default:
        return next_random(random);
    }
}

/* Damage a copy in one way of many; returns its new length. */
static size_t
damage(unsigned char *rings, uint64_t *random)
{
    size_t offset = somewhere(random);

    switch (next_random(random) % 8) {
    case 0:
    case 1:
        rings[offset] ^= (unsigned char)(1u << next_random(random) % 8);
        return left_rings.length;
    case 2:
    case 3:
        put(rings, offset & ~(size_t)7, word_of_interest(random), 8);
        return left_rings.length;
    case 4:
        put(rings, offset & ~(size_t)3, word_of_interest(random), 4);
        return left_rings.length;
    case 5:
        for (size_t i = 0; i < 64 && offset + i < left_rings.length; i++)
            rings[offset + i] = (unsigned char)next_random(random);
        return left_rings.length;
    case 6:
        memset(rings + (offset & ~(size_t)63), next_random(random) % 2 == 0 ? 0 : 255, 64);
        return left_rings.length;
    default:
        return next_random(random) % left_rings.length;
    }
}

/* One damaged copy, in a process of its own. */
static _Noreturn void
round_in_child(uint64_t number)
{
    uint64_t random = number * 0x9e3779b97f4a7c15u | 1;
    unsigned char *rings = copy_rings();
    size_t length = left_rings.length;
    struct tide_trace_recovery found;
    enum tide_status status;
    bool good;

    for (int i = 0; i < 4; i++)
        next_random(&random);
    for (uint64_t i = 0, times = 1 + next_random(&random) % 3; i < times; i++) {
        size_t cut = damage(rings, &random);

        length = cut < length ? cut : length;
    }
    alarm(60);
    good = recover_any(rings, length, &status, &found);
    free(rings);
    /* Not _exit: the leak checker has its say. */
    exit(good ? 10 + (status != TIDE_OK) : 1);
}

static void
test_rounds(uint64_t first, uint64_t rounds)
{
    uint64_t failed = 0, taken_over = 0, refused = 0;

    for (uint64_t i = first; i < first + rounds && failed < 5; i++) {
        pid_t pid;
        int status;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
            round_in_child(i);
        waitpid(pid, &status, 0);
        taken_over += WIFEXITED(status) && WEXITSTATUS(status) == 10;
        refused += WIFEXITED(status) && WEXITSTATUS(status) == 11;
        if (!WIFEXITED(status) || WEXITSTATUS(status) < 10 || WEXITSTATUS(status) > 11) {
            diag("copy %" PRIu64 ": %s %d", i, WIFSIGNALED(status) ? "signal" : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            failed++;
        }
    }
    diag("%" PRIu64 " damaged copies: %" PRIu64 " taken over, %" PRIu64 " refused", rounds, taken_over, refused);
    ok(failed == 0, "damaged copies are refused or taken over, and the trace keeps what it had");
    ok(rounds < 100 || (taken_over > rounds / 10 && refused > rounds / 10), "some are taken over, some are refused");
}

/* A ring file with one value changed is refused with these words, and nothing is touched. */
static void
test_refused(size_t offset, uint64_t value, size_t bytes, const char *words, const char *sentence)
{
    unsigned char *rings = copy_rings();
    struct tide_trace_recovery found;
    enum tide_status status;

    put(rings, offset, value, bytes);
    ok(recover_any(rings, left_rings.length, &status, &found) && status == TIDE_EFORMAT &&
           strstr(tide_error_text(), words) != NULL,
       "%s", sentence);
    if (status != TIDE_EFORMAT || strstr(tide_error_text(), words) == NULL)
        diag("status %d, \"%s\", wanted in it \"%s\"", status, tide_error_text(), words);
    free(rings);
}

#define HEADER(field) offsetof(struct tidei_ring_header, field)

static void
test_each_check(void)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)left_rings.bytes;
    uint64_t ring = directory_entry(left_rings.bytes, 0);
    unsigned filling = TIDEI_PUBLISHED_HALF(header->published);
    uint64_t epoch = header->halves[filling].epoch;
    uint64_t nan = UINT64_C(0x7ff8000000000000);

    test_refused(0, 'X', 1, "no ring file of a trace", "a file of another kind is refused");
    test_refused(HEADER(format), 2, 4, "format 2", "so is one of a newer format");
    test_refused(HEADER(trace_id), header->trace_id + 1, 8, "another trace", "so is one of another trace");
    test_refused(HEADER(ring_bytes), 8192, 8, "segments", "so is one with a ring size that is not its own");
    test_refused(HEADER(ring_count), TIDEI_MAX_RINGS + 1, 4, "number of its segments", "so are more rings than can be");
    test_refused(HEADER(chunk_count), UINT32_MAX, 4, "number of its segments", "so are more chunks than can be");
    test_refused(HEADER(ns_per_tick), nan, 8, "rate", "so is a clock whose rate is no number");
    test_refused(HEADER(last.ns), UINT64_MAX, 8, "time", "so is a clock of an impossible time");
    test_refused(HEADER(published), header->published + (1 << 20), 8, "fuller", "so is a half fuller than it can be");
    test_refused(HEADER(halves[1 - filling].count), (uint64_t)1 << 40, 8, "fuller", "so is a sealed half like that");
    test_refused(HEADER(halves[filling].epoch), epoch + 1, 8, "follow", "so are halves that do not follow each other");
    test_refused(HEADER(ready), 0, 4, "ready", "so is one that is not ready and has rings");
    test_refused(TIDEI_PAGE + 8, ring, 8, "segments", "so are two rings at one place");
    test_refused(TIDEI_PAGE + 8 * TIDEI_MAX_RINGS, ring, 8, "segment", "so is a chunk at the place of a ring");
    test_refused(TIDEI_PAGE, ring + 1, 8, "outside", "so is a ring that does not begin with a page");
    test_refused(TIDEI_PAGE, UINT64_MAX & ~(uint64_t)4095, 8, "outside", "so is a ring far beyond the end");
    test_refused(ring, UINT64_MAX, 8, "more records", "so is a ring with more records than it has room for");
    test_refused(ring + offsetof(struct tidei_ring, state), 7, 4, "impossible", "so is a ring in a state that is none");
}

/* A ring file that is of this trace, but of an earlier moment, or of a later one. */
static void
test_other_moment(void)
{
    unsigned char *rings = copy_rings();
    struct tidei_ring_header *header = (struct tidei_ring_header *)rings;
    struct tide_trace_recovery found;
    enum tide_status status;

    header->halves[0].epoch += 10;
    header->halves[1].epoch += 10;
    ok(recover_any(rings, left_rings.length, &status, &found) && status == TIDE_EFORMAT &&
           strstr(tide_error_text(), "another moment") != NULL,
       "a ring file of a later moment than the trace is refused: something between the two is missing");
    free(rings);
}

/* What is no ring file at all. */
static void
test_no_files(void)
{
    struct tide_trace_recovery found;
    static const unsigned char zeros[TIDEI_RING_PREFIX_BYTES];
    enum tide_status status;

    ok(recover_any(zeros, 0, &status, &found) && status == TIDE_OK && found.state == TIDE_TRACE_CLOSED,
       "an empty file was killed while it was made: it is removed");
    ok(recover_any(zeros, sizeof(zeros), &status, &found) && status == TIDE_OK && found.state == TIDE_TRACE_CLOSED,
       "so is one that has no header yet");
    ok(recover_any(left_rings.bytes, 5000, &status, &found) && status == TIDE_EFORMAT, "a file cut short is refused");
    lay_out(NULL, 0);
    ok(mkfifo(rings_path, 0600) == 0 && tide_trace_recover(trace_path, &found) == TIDE_EFORMAT &&
           keeps_what_it_had(true),
       "a pipe is refused, and not waited for");
    unlink(rings_path);
    ok(symlink("/dev/null", rings_path) == 0 && tide_trace_recover(trace_path, &found) == TIDE_EIO,
       "a symbolic link is not followed");
    unlink(rings_path);
}

static void
test_sound(uint64_t *events)
{
    struct tide_trace_recovery found;
    enum tide_status status;

    ok(recover_any(left_rings.bytes, left_rings.length, &status, &found) && status == TIDE_OK &&
           found.state == TIDE_TRACE_RECOVERED && found.events >= 200,
       "what was left is taken over, and the trace keeps what it had");
    *events = found.events;
}

/* A record that is none is counted, and those around it are kept. */
static void
test_unreadable_record(uint64_t events)
{
    unsigned char *rings = copy_rings();
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)rings;
    struct tide_trace_recovery found;
    enum tide_status status;
    sqlite3 *db = NULL;
    uint64_t offset = 0;

    for (uint32_t i = 0; i < header->ring_count && offset == 0; i++) {
        uint64_t at = directory_entry(rings, i);
        const struct tidei_ring *ring = (const struct tidei_ring *)(rings + at);

        if (ring->head > ring->tail + 5)
            offset = at + TIDEI_PAGE + (ring->head - 2) % (header->ring_bytes / 64) * 64;
    }
    rings[offset + offsetof(struct tidei_record, kind)] = 200;
    ok(offset != 0 && recover_any(rings, left_rings.length, &status, &found) && status == TIDE_OK &&
           found.events == events,
       "a ring file with a record that is none is taken over");
    sqlite3_open_v2(trace_path, &db, SQLITE_OPEN_READONLY, NULL);
    ok(number_of(db, "SELECT sum(events) FROM loss WHERE reason = 'unreadable record'") == 1,
       "and the table of losses counts that record");
    sqlite3_close(db);
    free(rings);
}

/* The program that was killed; false where it was not. */
static bool
leave_behind(void)
{
    pid_t pid;
    int status;
    sqlite3 *db;
    char sql[128];

    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child();
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        return false;
    left_rings = read_file(rings_path);
    left_trace = read_file(trace_path);
    left_log = read_file(log_path);
    if (left_rings.length < TIDEI_RING_PREFIX_BYTES || left_trace.bytes == NULL || left_log.bytes == NULL)
        return false;
    /* What the trace had, to be compared with. */
    lay_out(NULL, 0);
    if (sqlite3_open(trace_path, &db) != SQLITE_OK)
        return false;
    snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", base_path);
    status = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return status == SQLITE_OK;
}

int
main(void)
{
    const char *rounds = getenv("RINGFILE_ROUNDS"), *first = getenv("RINGFILE_FIRST");
    uint64_t events = 0;

    plan(30);
    if (mkdtemp(folder) == NULL)
        return 2;
    snprintf(trace_path, sizeof(trace_path), "%s/t.db", folder);
    snprintf(rings_path, sizeof(rings_path), "%s-rings", trace_path);
    snprintf(log_path, sizeof(log_path), "%s-wal", trace_path);
    snprintf(index_path, sizeof(index_path), "%s-shm", trace_path);
    snprintf(base_path, sizeof(base_path), "%s/base.db", folder);
    if (!ok(leave_behind(), "a program that records is killed and leaves its files"))
        return done();
    test_sound(&events);
    test_unreadable_record(events);
    test_each_check();
    test_other_moment();
    test_rounds(first != NULL ? strtoull(first, NULL, 10) : 1, rounds != NULL ? strtoull(rounds, NULL, 10) : 250);
    test_no_files();
    free(left_rings.bytes);
    free(left_trace.bytes);
    free(left_log.bytes);
    unlink(trace_path);
    unlink(rings_path);
    unlink(log_path);
    unlink(index_path);
    unlink(base_path);
    rmdir(folder);
    return done();
}
