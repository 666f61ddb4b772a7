/*
 * A helper program: `gauge-pages FOLDER COUNT TAGS [TRACE]` makes ring files of so many running recordings, rank-0.db
 * and so on, and holds their locks until it is killed or its standard input ends. It prints "ready". Each has a log
 * layer 1, a base 2, and tags. With TRACE, a copy of that trace lies beside each, with its rank. A line "N" on standard
 * input has all of them go on to N frees; "kill K" lets go of the recording K as a kill does, "end K" as an end;
 * "again K" has another one begin in its place, which has no page until the next "N". Each line is answered by "done".
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "src/trace/ring/gauge.h"
#include "src/trace/ring/ringfile.h"

#define PAGES_PATH 4096

struct recording {
    int fd;
    char path[PAGES_PATH];
    struct tidei_ring_header *header;
    struct tidei_gauge_pages *pages;
};

static const char *folder;
static unsigned tag_count;

static void
fail(const char *what)
{
    fprintf(stderr, "gauge-pages: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* What the recording `rank` has after so many calls. */
static void
write_page(struct recording *recording, unsigned rank, uint64_t calls)
{
    struct tidei_gauge page = { .layer_count = 1, .pool_count = 1, .tag_count = tag_count };
    uint64_t live = ((uint64_t)rank + 1) << 20;

    page.merged_ns = page.tags_ns = page.written_ns = tidei_monotonic_ns() - recording->header->start_ns;
    page.layers[0] = (struct tidei_gauge_layer){ .layer_id = 1,
                                                 .live_bytes = live,
                                                 .live_count = rank + 1,
                                                 .peak_bytes = 2 * live,
                                                 .allocations = calls + rank + 1,
                                                 .frees = calls,
                                                 .failures = rank % 2,
                                                 .total_bytes = 4 * live };
    page.pools[0] = (struct tidei_gauge_pool){ 2, live, 3 * live, 0 };
    for (unsigned i = 0; i < tag_count; i++)
        page.tags[i] = (struct tidei_gauge_tag){ 1, i + 1, live / (i + 1), 1 };
    for (unsigned i = 0; i < TIDEI_GAUGE_DURATIONS; i++)
        page.alloc_durations[i] = page.free_durations[i] = i;
    page.lost_frees = rank;
    tidei_gauge_write(recording->pages, &page);
    recording->header->ready = 1;
}

static void
begin_again(struct recording *recording)
{
    recording->header->ready = 0;
    recording->header->pid += 100000;
    recording->header->trace_id += 104729;
}

static void
copy_trace(const char *from, const char *to, unsigned rank)
{
    static char bytes[1 << 20];
    int source = open(from, O_RDONLY), target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t count;
    sqlite3 *db = NULL;
    char sql[128];

    while (source >= 0 && target >= 0 && (count = read(source, bytes, sizeof(bytes))) > 0) {
        if (write(target, bytes, (size_t)count) != count)
            fail(to);
    }
    if (source < 0 || target < 0)
        fail(to);
    close(source);
    close(target);
    snprintf(sql, sizeof(sql),
             "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; "
             "INSERT OR REPLACE INTO meta VALUES ('rank', '%u')",
             rank);
    if (sqlite3_open(to, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fprintf(stderr, "gauge-pages: %s: %s\n", to, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void
begin(struct recording *recording, unsigned rank, const char *trace)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    size_t bytes = TIDEI_RING_PREFIX_BYTES + TIDEI_GAUGE_BYTES;
    char name[PAGES_PATH];
    char *map;

    snprintf(name, sizeof(name), "%s/rank-%u.db", folder, rank);
    if (trace != NULL)
        copy_trace(trace, name, rank);
    snprintf(recording->path, sizeof(recording->path), "%s/rank-%u.db-rings", folder, rank);
    recording->fd = open(recording->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (recording->fd < 0 || ftruncate(recording->fd, (off_t)bytes) != 0 ||
        fcntl(recording->fd, F_OFD_SETLK, &lock) != 0)
        fail(recording->path);
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, recording->fd, 0);
    if (map == MAP_FAILED)
        fail("mmap");
    recording->header = (struct tidei_ring_header *)(void *)map;
    recording->pages = (struct tidei_gauge_pages *)(void *)(map + TIDEI_RING_PREFIX_BYTES);
    *recording->header = (struct tidei_ring_header){ .format = TIDEI_RING_FORMAT,
                                                     .pid = 100000 + rank,
                                                     .trace_id = 7919 + rank,
                                                     .ring_bytes = 4096,
                                                     .start_ns = tidei_monotonic_ns() - 1000000000,
                                                     .gauge_bytes = TIDEI_GAUGE_BYTES };
    memcpy(recording->header->magic, TIDEI_RING_MAGIC, sizeof(recording->header->magic));
    write_page(recording, rank, 0);
}

static void
let_go(struct recording *recording, bool ended)
{
    if (ended)
        unlink(recording->path);
    munmap(recording->header, TIDEI_RING_PREFIX_BYTES + TIDEI_GAUGE_BYTES);
    recording->header = NULL;
    close(recording->fd);
}

int
main(int argc, char **argv)
{
    struct rlimit files;
    struct recording *recordings;
    unsigned count, place;
    uint64_t calls;
    char line[64];

    if (argc < 4) {
        fputs("usage: gauge-pages FOLDER COUNT TAGS [TRACE]\n", stderr);
        return 2;
    }
    folder = argv[1];
    count = (unsigned)atoi(argv[2]);
    tag_count = (unsigned)atoi(argv[3]);
    if (tag_count > TIDEI_GAUGE_TAGS)
        return 2;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    recordings = calloc(count, sizeof(*recordings));
    if (recordings == NULL)
        fail("calloc");
    for (unsigned i = 0; i < count; i++)
        begin(&recordings[i], i, argc > 4 ? argv[4] : NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "kill %u", &place) == 1 && place < count && recordings[place].header != NULL) {
            let_go(&recordings[place], false);
        } else if (sscanf(line, "end %u", &place) == 1 && place < count && recordings[place].header != NULL) {
            let_go(&recordings[place], true);
        } else if (sscanf(line, "again %u", &place) == 1 && place < count && recordings[place].header != NULL) {
            begin_again(&recordings[place]);
        } else {
            calls = strtoull(line, NULL, 10);
            for (unsigned i = 0; i < count; i++) {
                if (recordings[i].header != NULL)
                    write_page(&recordings[i], i, calls);
            }
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
