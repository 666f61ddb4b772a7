/*
 * Tests recovery from ring files that were damaged or made up: recovery refuses them and changes nothing, or recovers
 * what there is. It never crashes or hangs, and the trace keeps its rows. RINGFILE_ROUNDS sets the number of damaged
 * copies, RINGFILE_FIRST the number of the first; the number of a copy determines its damage.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/trace/ring/ringfile.h"

#include "left-behind.h"
#include "sanitized.h"
#include "tap.h"

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Recover, and check what holds for any ring file. */
static bool
recover_any(const unsigned char *rings, size_t length, enum tide_status *status, struct tide_trace_recovery *found)
{
    struct tide_trace_recovery again = { TIDE_FIGURES(again) };
    bool good;

    left_lay_out(rings, length);
    *status = tide_trace_recover(left.trace_path, found);
    if (*status == TIDE_OK) {
        good = access(left.rings_path, F_OK) != 0 && left_keeps_what_it_had(false) &&
               tide_trace_recover(left.trace_path, &again) == TIDE_OK && again.state == TIDE_TRACE_CLOSED;
    } else {
        good = *status == TIDE_EFORMAT && left_is_untouched(rings, length) && left_keeps_what_it_had(true);
    }
    if (!good)
        diag("status %d: %s", *status, *status != TIDE_OK ? tide_error_text() : "");
    return good;
}

/* A copy of the ring file, to be changed. */
static unsigned char *
copy_rings(void)
{
    unsigned char *copy = malloc(left.rings.length);

    if (copy == NULL)
        abort();
    memcpy(copy, left.rings.bytes, left.rings.length);
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

/* A random offset in a used part: header, directory, a ring's header, its records, or a chunk. */
static size_t
somewhere(uint64_t *random)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)left.rings.bytes;
    size_t ring = directory_entry(left.rings.bytes, next_random(random) % header->ring_count);
    size_t chunk = directory_entry(left.rings.bytes, TIDEI_MAX_RINGS + next_random(random) % header->chunk_count);

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

/* Damage a copy in one of many ways. Returns its new length. */
static size_t
damage(unsigned char *rings, uint64_t *random)
{
    size_t offset = somewhere(random);

    switch (next_random(random) % 8) {
    case 0:
    case 1:
        rings[offset] ^= (unsigned char)(1u << next_random(random) % 8);
        return left.rings.length;
    case 2:
    case 3:
        put(rings, offset & ~(size_t)7, word_of_interest(random), 8);
        return left.rings.length;
    case 4:
        put(rings, offset & ~(size_t)3, word_of_interest(random), 4);
        return left.rings.length;
    case 5:
        for (size_t i = 0; i < 64 && offset + i < left.rings.length; i++)
            rings[offset + i] = (unsigned char)next_random(random);
        return left.rings.length;
    case 6:
        memset(rings + (offset & ~(size_t)63), next_random(random) % 2 == 0 ? 0 : 255, 64);
        return left.rings.length;
    default:
        return next_random(random) % left.rings.length;
    }
}

/* Recover one damaged copy, in a process of its own. */
static _Noreturn void
round_in_child(uint64_t number)
{
    uint64_t random = number * 0x9e3779b97f4a7c15u | 1;
    unsigned char *rings = copy_rings();
    size_t length = left.rings.length;
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
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
    /* Not _exit, so that the leak checker runs. */
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
    ok(failed == 0, "damaged copies of a ring file are refused or recovered, and the trace keeps its rows");
    ok(rounds < 100 || (taken_over > rounds / 10 && refused > rounds / 10),
       "some damaged copies are recovered, and some are refused");
}

/* A ring file with one changed value is refused with these words, and nothing is changed. */
static void
test_refused(size_t offset, uint64_t value, size_t bytes, const char *words, const char *sentence)
{
    unsigned char *rings = copy_rings();
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    enum tide_status status;

    put(rings, offset, value, bytes);
    ok(all_of(recover_any(rings, left.rings.length, &status, &found), status == TIDE_EFORMAT,
              strstr(tide_error_text(), words) != NULL),
       "%s", sentence);
    if (status != TIDE_EFORMAT || strstr(tide_error_text(), words) == NULL)
        diag("status %d, \"%s\", wanted in it \"%s\"", status, tide_error_text(), words);
    free(rings);
}

#define HEADER(field) offsetof(struct tidei_ring_header, field)

static void
test_each_check(void)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)left.rings.bytes;
    uint64_t ring = directory_entry(left.rings.bytes, 0);
    unsigned filling = TIDEI_PUBLISHED_BUFFER(header->published);
    uint64_t epoch = header->buffers[filling].epoch;
    uint64_t nan = UINT64_C(0x7ff8000000000000);

    test_refused(0, 'X', 1, "no ring file of a trace", "a file of another kind is refused");
    test_refused(HEADER(format), TIDEI_RING_FORMAT + 1, 4, "format 6", "a file of a newer format is refused");
    test_refused(HEADER(trace_id), header->trace_id + 1, 8, "another trace", "a file of another trace is refused");
    test_refused(HEADER(ring_bytes), 8192, 8, "segments",
                 "a file with a ring size that does not fit its rings is refused");
    test_refused(HEADER(ring_count), TIDEI_MAX_RINGS + 1, 4, "number of its segments",
                 "a file with too many rings is refused");
    test_refused(HEADER(chunk_count), UINT32_MAX, 4, "number of its segments",
                 "a file with too many chunks is refused");
    test_refused(HEADER(lines[header->line].ns_per_tick), nan, 8, "rate",
                 "a file with a clock rate that is no number is refused");
    test_refused(HEADER(lines[header->line].base.ns), UINT64_MAX, 8, "time",
                 "a file with an impossible clock time is refused");
    test_refused(HEADER(lines[header->line].base.ns), ((uint64_t)1 << 62) + 1, 8, "time",
                 "a file with a clock time of which later times would not fit into 63 bits is refused");
    test_refused(HEADER(published), header->published + (1 << 20), 8, "fuller",
                 "a file with a filling buffer over its capacity is refused");
    test_refused(HEADER(buffers[1 - filling].count), (uint64_t)1 << 40, 8, "fuller",
                 "a file with a sealed buffer over its capacity is refused");
    test_refused(HEADER(buffers[filling].epoch), epoch + 1, 8, "follow",
                 "a file whose buffers do not follow each other is refused");
    test_refused(HEADER(ready), 0, 4, "ready", "a file that has rings and is not ready is refused");
    test_refused(TIDEI_PAGE + 8, ring, 8, "segments", "a file with two rings at one place is refused");
    test_refused(TIDEI_PAGE + 8 * TIDEI_MAX_RINGS, ring, 8, "segment",
                 "a file with a chunk at the place of a ring is refused");
    test_refused(TIDEI_PAGE, ring + 1, 8, "outside", "a file with a ring that does not begin at a page is refused");
    test_refused(TIDEI_PAGE, UINT64_MAX & ~(uint64_t)4095, 8, "outside",
                 "a file with a ring far beyond its end is refused");
    test_refused(ring, UINT64_MAX, 8, "more records", "a file with a ring over its capacity is refused");
    test_refused(ring + offsetof(struct tidei_ring, state), 7, 4, "impossible",
                 "a file with a ring in an unknown state is refused");
}

/* The first allocation that a ring still holds. */
static struct tidei_record *
pending_alloc(unsigned char *rings)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)rings;
    struct tidei_ring *ring = (struct tidei_ring *)(rings + directory_entry(rings, left_pending_ring()));
    uint64_t mask = header->ring_bytes / sizeof(struct tidei_record) - 1;

    for (uint64_t i = ring->tail; i < ring->head; i++) {
        struct tidei_record *record = &tidei_ring_records(ring)[i & mask];

        /* Every third is freed: see left-behind.c. */
        if (record->kind == TIDEI_RECORD_ALLOC && record->status == TIDE_OK && (record->size - 1000) % 3 != 0)
            return record;
    }
    abort();
}

/* Extreme values in a record whose file is otherwise right. */
static void
test_extreme_record(void)
{
    unsigned char *rings = copy_rings();
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    struct tidei_record *record = pending_alloc(rings);
    enum tide_status status;

    record->alignment_log2 = 63;
    tidei_record_seal(record, UINT64_MAX);
    ok(all_of(recover_any(rings, left.rings.length, &status, &found), status == TIDE_OK),
       "a record with an impossible alignment and duration is recovered");
    is_i64(left_number("SELECT min(alignment) FROM allocation") > 0, 1, "no recovered row has a negative alignment");
    is_i64(left_number("SELECT count(*) FROM allocation WHERE alloc_duration_ns < 0"), 0,
           "no recovered row has a negative duration");
    free(rings);
}

/* What a recovered trace says: rows, frees, unmatched frees and unreadable records. */
static void
figures_of(int64_t figures[4])
{
    figures[0] = left_number("SELECT count(*) FROM allocation");
    figures[1] = left_number("SELECT count(free_ns) FROM allocation");
    figures[2] = left_number("SELECT count(*) FROM unmatched_free");
    figures[3] = left_number("SELECT total(events) FROM loss WHERE reason = 'unreadable record'");
}

/* The first record of a kind in the half of the backlog that was filling; of an allocation, one that is never freed. */
static struct tidei_record *
backlog_record(unsigned char *rings, enum tidei_record_kind kind)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)rings;
    const struct tidei_ring_directory *directory = (const struct tidei_ring_directory *)(rings + TIDEI_PAGE);
    uint64_t published = atomic_load(&header->published);

    for (uint32_t chunk = 0; chunk < header->chunk_count; chunk++) {
        struct tidei_record *records = (struct tidei_record *)(rings + (directory->chunks[chunk] & ~(uint64_t)1));

        if ((directory->chunks[chunk] & 1) != TIDEI_PUBLISHED_BUFFER(published))
            continue;
        for (uint64_t i = 0; i < TIDEI_PUBLISHED_COUNT(published) && i < TIDEI_CHUNK_RECORDS; i++) {
            if (records[i].kind == kind && (kind != TIDEI_RECORD_ALLOC || (records[i].size - 1000) % 3 != 0))
                return &records[i];
        }
    }
    abort();
}

/* A record of which bits flip, every `step`th: how many rows of allocations are gone then. */
struct flipped {
    const char *what;
    struct tidei_record *record;
    unsigned step;
    int64_t rows;
};

#define FLIPPED_TESTS 3

/*
 * The record is dropped and counted, and nothing else changes. `call_span` of an event without a call holds nothing; of
 * a text, every bit counts.
 */
static void
test_flipped(unsigned char *rings, const struct flipped *flipped)
{
    struct tidei_record *record = flipped->record;
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    bool is_text = record->kind == TIDEI_RECORD_TEXT;
    unsigned wrong = 0, unnoticed = 0, unused = 0, expected = 0;
    int64_t whole[4], now[4];
    enum tide_status status;

    recover_any(rings, left.rings.length, &status, &found);
    figures_of(whole);
    for (unsigned bit = 0; bit < 8 * sizeof(*record); bit += flipped->step) {
        bool empty = !is_text && bit / 8 >= offsetof(struct tidei_record, call_span) && record->call_function == 0;

        ((unsigned char *)record)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (!recover_any(rings, left.rings.length, &status, &found) || status != TIDE_OK)
            wrong++;
        ((unsigned char *)record)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        figures_of(now);
        expected += !is_text && bit / 8 >= offsetof(struct tidei_record, call_span);
        unused += empty;
        unnoticed += !empty && (now[3] != 1 || left_number("SELECT value FROM meta WHERE key = 'complete'") != 0);
        wrong += now[0] != whole[0] - (empty ? 0 : flipped->rows) || now[1] != whole[1] || now[2] != whole[2];
    }
    ok(unnoticed == 0, "%s with a flipped bit is counted as unreadable, and the trace is not complete", flipped->what);
    ok(wrong == 0, "%s with a flipped bit is left out, and no other row is another", flipped->what);
    ok(unused == expected, "of %s only the bits of a field that holds nothing may flip unnoticed", flipped->what);
}

static void
test_each_bit(void)
{
    unsigned char *rings = copy_rings();
    const struct flipped all[] = {
        { "a record in a ring", pending_alloc(rings), 1, 1 },
        { "a record in the backlog", backlog_record(rings, TIDEI_RECORD_ALLOC), 5, 1 },
        { "a text in the backlog", backlog_record(rings, TIDEI_RECORD_TEXT), 5, 0 },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        test_flipped(rings, &all[i]);
    free(rings);
}

/* A ring file of this trace from an earlier moment, or from a later one. */
static void
test_other_moment(void)
{
    unsigned char *rings = copy_rings();
    struct tidei_ring_header *header = (struct tidei_ring_header *)rings;
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    enum tide_status status;

    header->buffers[0].epoch += 10;
    header->buffers[1].epoch += 10;
    ok(all_of(recover_any(rings, left.rings.length, &status, &found), status == TIDE_EFORMAT,
              strstr(tide_error_text(), "another moment") != NULL),
       "a ring file from a later moment than the trace is refused");
    free(rings);
}

/* Files that are no ring files. */
static void
test_no_files(void)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    static const unsigned char zeros[TIDEI_RING_PREFIX_BYTES];
    enum tide_status status;

    ok(all_of(recover_any(zeros, 0, &status, &found), status == TIDE_OK, found.state == TIDE_TRACE_CLOSED),
       "an empty ring file, of a process killed while it made it, is removed");
    ok(all_of(recover_any(zeros, sizeof(zeros), &status, &found), status == TIDE_OK, found.state == TIDE_TRACE_CLOSED),
       "a ring file without a header is removed");
    ok(all_of(recover_any(left.rings.bytes, 5000, &status, &found), status == TIDE_EFORMAT),
       "a ring file that is cut short is refused");
    left_lay_out(NULL, 0);
    ok(all_of(mkfifo(left.rings_path, 0600) == 0, tide_trace_recover(left.trace_path, &found) == TIDE_EFORMAT,
              left_keeps_what_it_had(true)),
       "a pipe in place of the ring file is refused, and not waited for");
    unlink(left.rings_path);
    ok(all_of(symlink("/dev/null", left.rings_path) == 0, tide_trace_recover(left.trace_path, &found) == TIDE_EIO),
       "a symbolic link in place of the ring file is not followed");
    unlink(left.rings_path);
}

static void
test_sound(uint64_t *events)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    enum tide_status status;

    ok(all_of(recover_any(left.rings.bytes, left.rings.length, &status, &found), status == TIDE_OK,
              found.state == TIDE_TRACE_RECOVERED, found.events >= 200),
       "an undamaged ring file is recovered, and the trace keeps its rows");
    *events = found.events;
}

/* Returns NULL if the recovery succeeds. */
static void *
recover_on_thread(void *found)
{
    if (tide_trace_recover(left.trace_path, found) == TIDE_OK)
        return NULL;
    diag("%s", tide_error_text());
    return found;
}

/* POSIX locks do not exclude the threads of one process from each other. */
static void
test_threads(uint64_t events)
{
    struct tide_trace_recovery found[4] = {
        { TIDE_FIGURES(found[0]) }, { TIDE_FIGURES(found[0]) }, { TIDE_FIGURES(found[0]) }, { TIDE_FIGURES(found[0]) }
    };
    pthread_t threads[4];
    bool good = true;
    uint64_t sum = 0;
    int64_t rows;

    left_lay_out(left.rings.bytes, left.rings.length);
    tide_trace_recover(left.trace_path, &found[0]);
    rows = left_number("SELECT count(*) + count(free_ns) FROM allocation");
    left_lay_out(left.rings.bytes, left.rings.length);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, recover_on_thread, &found[i]);
    for (size_t i = 0; i < 4; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        good = good && failed == NULL;
        sum += found[i].events;
    }
    ok(all_of(good, sum == events, left_number("SELECT count(*) + count(free_ns) FROM allocation") == rows,
              left_keeps_what_it_had(false)),
       "four threads that recover at once add each record once");
}

/* The last record but one of a ring with records. */
static struct tidei_record *
pending_record(unsigned char *rings)
{
    const struct tidei_ring_header *header = (const struct tidei_ring_header *)rings;
    uint64_t at = directory_entry(rings, left_pending_ring());
    const struct tidei_ring *ring = (const struct tidei_ring *)(rings + at);

    return (struct tidei_record *)(rings + at + TIDEI_PAGE) +
           (ring->head - 2) % (header->ring_bytes / sizeof(struct tidei_record));
}

/* An unreadable record is counted, and the records around it are kept. */
static void
test_unreadable_record(uint64_t events)
{
    unsigned char *rings = copy_rings();
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    enum tide_status status;

    pending_record(rings)->kind = 200;
    ok(all_of(recover_any(rings, left.rings.length, &status, &found), status == TIDE_OK, found.events == events),
       "a ring file with an unreadable record is recovered");
    ok(left_number("SELECT sum(events) FROM loss WHERE reason = 'unreadable record'") == 1,
       "the table of losses counts the unreadable record");
    free(rings);
}

/* A second record that defines what the trace has already changes nothing. */
static void
test_second_definition(uint8_t kind, const char *what)
{
    unsigned char *rings = copy_rings();
    struct tidei_record *record = pending_record(rings);
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    enum tide_status status;

    record->kind = kind;
    record->address = 1;
    record->size = 77;
    ok(all_of(recover_any(rings, left.rings.length, &status, &found), status == TIDE_OK),
       "a second definition of the first %s changes nothing", what);
    free(rings);
}

/* The bytes that a file takes on the disk. */
static int64_t
bytes_on_disk(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (int64_t)info.st_blocks * 512 : -1;
}

#define SPARSE_RINGS 900

/* Make the ring file one of almost 1 TiB with a few pages: rings of 1 GiB, which say that they are `full` or empty. */
static bool
lay_out_sparse(bool full)
{
    const uint64_t ring_bytes = (uint64_t)1 << 30;
    unsigned char *prefix = copy_rings();
    struct tidei_ring_header *header = (struct tidei_ring_header *)prefix;
    struct tidei_ring_directory *directory = (struct tidei_ring_directory *)(prefix + TIDEI_PAGE);
    uint64_t end = TIDEI_RING_PREFIX_BYTES;
    int fd = open(left.rings_path, O_RDWR | O_TRUNC);
    bool good = fd >= 0;

    header->ring_bytes = ring_bytes;
    header->gauge_bytes = 0;
    header->ring_count = SPARSE_RINGS;
    header->buffers[0].count = header->buffers[1].count = 0;
    header->published &= ~(uint64_t)0xfffffff;
    for (uint32_t i = 0; good && i < SPARSE_RINGS; i++) {
        struct tidei_ring ring = { .head = full ? ring_bytes / sizeof(struct tidei_record) : 0 };

        directory->rings[i] = end;
        good = pwrite(fd, &ring, sizeof(ring), (off_t)end) == (ssize_t)sizeof(ring);
        end += TIDEI_PAGE + ring_bytes;
    }
    for (uint32_t i = 0; i < header->chunk_count; i++) {
        directory->chunks[i] = end | (directory->chunks[i] & 1);
        end += TIDEI_CHUNK_BYTES;
    }
    good = good && pwrite(fd, prefix, TIDEI_RING_PREFIX_BYTES, 0) == (ssize_t)TIDEI_RING_PREFIX_BYTES &&
           ftruncate(fd, (off_t)end) == 0;
    close(fd);
    free(prefix);
    return good;
}

/* Time and room are bounded by what is on the disk: these would take hours, and terabytes. */
static void
test_sparse(void)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    int64_t before;

    left_lay_out(left.rings.bytes, left.rings.length);
    if (!lay_out_sparse(true)) {
        skip(2, "the file system has no files of 1 TiB");
        return;
    }
    before = bytes_on_disk(left.rings_path);
    ok(all_of(tide_trace_recover(left.trace_path, &found) == TIDE_EFORMAT,
              strstr(tide_error_text(), "it says that it holds 15099494400 records, and has") != NULL,
              bytes_on_disk(left.rings_path) == before),
       "a sparse ring file that says it is full of records is refused, and takes no more room");
    diag("%s", tide_error_text());
    left_lay_out(left.rings.bytes, left.rings.length);
    lay_out_sparse(false);
    tide_trace_recover(left.trace_path, &found);
    ok(bytes_on_disk(left.rings_path) <= before + ((int64_t)8 << 20),
       "a sparse ring file without records takes no more room than recovery writes");
    unlink(left.rings_path);
}

int
main(void)
{
    const char *rounds = getenv("RINGFILE_ROUNDS"), *first = getenv("RINGFILE_FIRST");
    uint64_t events = 0;

    alarm(600);
    plan(41 + 3 * FLIPPED_TESTS);
    if (!ok(leave_behind(), "a program that records is killed and leaves its files"))
        return done();
    test_sound(&events);
    test_threads(events);
    test_unreadable_record(events);
    test_second_definition(TIDEI_RECORD_LAYER, "layer");
    test_second_definition(TIDEI_RECORD_THREAD, "thread");
    test_second_definition(TIDEI_RECORD_TAG, "tag");
    test_second_definition(TIDEI_RECORD_STACK, "stack");
    test_each_check();
    test_other_moment();
    test_extreme_record();
    test_each_bit();
    test_rounds(first != NULL ? strtoull(first, NULL, 10) : 1,
                rounds != NULL ? strtoull(rounds, NULL, 10) : FEWER(250, 100));
    test_no_files();
    test_sparse();
    left_remove();
    return done();
}
