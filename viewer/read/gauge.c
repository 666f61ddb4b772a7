/* Reads the gauge page of a running recording. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/trace/ring/ringfile.h"
#include "viewer/read/gauge.h"

#define GAUGE_TRIES      100 /* the writer writes once in a millisecond, and a copy takes microseconds */
#define GAUGE_STALE_NS   15000000u
#define GAUGE_BEGIN_NS   UINT64_C(1000000000) /* longer than a file takes to get its lock and its header */
#define GAUGE_RINGS_MOST 512u                 /* looked at, for what waits in them */
#define GAUGE_LOCK_BYTES ((off_t)1 << 62)

bool
gauge_open(const char *path, struct gauge_file *out)
{
    /* The ring file lies beside the file that a link leads to. */
    char *real = realpath(path, NULL);

    *out = (struct gauge_file){ .fd = -1, .trace = strdup(path) };
    if (asprintf(&out->rings, "%s%s", real != NULL ? real : path, TIDEI_RINGS_SUFFIX) < 0)
        out->rings = NULL;
    free(real);
    if (out->trace != NULL && out->rings != NULL)
        return true;
    gauge_close(out);
    return false;
}

void
gauge_close(struct gauge_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->trace);
    free(file->rings);
    *file = (struct gauge_file){ .fd = -1 };
}

/* Read exactly so many bytes. */
static bool
gauge_read(const struct gauge_file *file, void *out, size_t bytes, uint64_t offset)
{
    return pread(file->fd, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Whether the name is another file by now, or nobody's. */
static bool
gauge_is_replaced(const struct gauge_file *file)
{
    struct stat named;

    return lstat(file->rings, &named) == 0 && (named.st_ino != file->inode || named.st_dev != file->device);
}

static bool
gauge_is_gone(const struct gauge_file *file)
{
    struct stat info;

    return lstat(file->rings, &info) != 0 && errno == ENOENT;
}

/* Open the ring file. A file of others beside a trace is not read: see trace_check_beside. */
static enum gauge_state
gauge_open_rings(struct gauge_file *file)
{
    struct stat info, trace;
    int fd = open(file->rings, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);

    file->error = fd < 0 ? errno : 0;
    if (fd < 0)
        return file->error == ENOENT ? GAUGE_ENDED : GAUGE_REFUSED;
    if (fstat(fd, &info) != 0)
        file->error = errno;
    else if (!S_ISREG(info.st_mode))
        file->error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    else if (stat(file->trace, &trace) == 0 && info.st_uid != trace.st_uid && info.st_uid != geteuid() &&
             info.st_uid != 0)
        file->error = EPERM;
    if (file->error != 0) {
        close(fd);
        return GAUGE_REFUSED;
    }
    file->fd = fd;
    file->device = info.st_dev;
    file->inode = info.st_ino;
    return GAUGE_RECORDING;
}

static void
gauge_let_go(struct gauge_file *file)
{
    close(file->fd);
    file->fd = -1;
}

void
gauge_rest(struct gauge_file *file)
{
    if (file->fd >= 0)
        gauge_let_go(file);
}

/* What kind of file it is. A header without a magic is being written, by a process that lives. */
static enum gauge_state
gauge_check(struct gauge_file *file, struct tidei_ring_header *header)
{
    static const char none[sizeof(header->magic)];

    *header = (struct tidei_ring_header){ 0 };
    if (!gauge_read(file, header, sizeof(*header), 0) || memcmp(header->magic, none, sizeof(none)) == 0)
        return GAUGE_BEGINS;
    if (memcmp(header->magic, TIDEI_RING_MAGIC, sizeof(header->magic)) != 0)
        return GAUGE_UNKNOWN;
    file->format = header->format;
    file->pid = header->pid;
    file->trace_id = header->trace_id;
    if (header->format > TIDEI_RING_FORMAT)
        return GAUGE_NEWER;
    if (header->gauge_bytes == 0)
        return GAUGE_OLD;
    if (header->gauge_bytes != TIDEI_GAUGE_BYTES || header->ring_count > TIDEI_MAX_RINGS)
        return GAUGE_UNKNOWN;
    return header->ready == 0 ? GAUGE_BEGINS : GAUGE_RECORDING;
}

/* Whether the recording process has the file. Where the file system has no locks, its process id tells. */
static bool
gauge_is_held(const struct gauge_file *file)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = GAUGE_LOCK_BYTES };

    if (fcntl(file->fd, F_OFD_GETLK, &lock) == 0)
        return lock.l_type != F_UNLCK;
    return file->pid != 0 && (kill((pid_t)file->pid, 0) == 0 || errno != ESRCH);
}

/* The counts of a page from a file that anybody may have written are at most those of its lists. */
static bool
gauge_is_sound(const struct tidei_gauge *page)
{
    return page->layer_count <= TIDEI_GAUGE_LAYERS && page->pool_count <= TIDEI_GAUGE_POOLS &&
           page->tag_count <= TIDEI_GAUGE_TAGS;
}

/* Read a whole copy: pread() and not a mapping, which would be a signal where the file is cut off. */
static bool
gauge_read_page(const struct gauge_file *file, struct gauge_look *out)
{
    const uint64_t base = TIDEI_RING_PREFIX_BYTES;
    uint64_t known = out->sequence, before, after = 0;

    out->sequence = 0;
    for (int i = 0; i < GAUGE_TRIES; i++) {
        uint64_t copy;

        if (!gauge_read(file, &before, sizeof(before), base) || before == 0)
            return false;
        if (before == known) {
            out->sequence = known;
            return true;
        }
        known = 0; /* what is in `out` does not stay */
        copy = base + offsetof(struct tidei_gauge_pages, copies) + (before & 1) * TIDEI_GAUGE_COPY_BYTES;
        atomic_thread_fence(memory_order_acquire);
        if (!gauge_read(file, &out->page, sizeof(out->page), copy))
            return false;
        atomic_thread_fence(memory_order_acquire);
        if (!gauge_read(file, &after, sizeof(after), base))
            return false;
        if (before != after)
            continue;
        if (!gauge_is_sound(&out->page))
            return false;
        out->sequence = before;
        return out->is_new = true;
    }
    return false;
}

/* Whether records wait in the rings, or are being written. */
static bool
gauge_has_waiting(const struct gauge_file *file, const struct tidei_ring_header *header)
{
    uint64_t offsets[GAUGE_RINGS_MOST];
    uint32_t count = header->ring_count < GAUGE_RINGS_MOST ? header->ring_count : GAUGE_RINGS_MOST;

    if (count != 0 && !gauge_read(file, offsets, count * sizeof(*offsets), TIDEI_PAGE))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct tidei_ring ring;

        if (gauge_read(file, &ring, sizeof(ring), offsets[i]) && (ring.head != ring.tail || ring.open != 0))
            return true;
    }
    return count < header->ring_count;
}

/* How far behind the page is: where nothing has happened since, it is not written. */
static void
gauge_set_times(const struct gauge_file *file, const struct tidei_ring_header *header, struct gauge_look *look)
{
    uint64_t now = tidei_monotonic_ns();

    look->now_ns = now > header->start_ns ? now - header->start_ns : 0;
    look->behind_ns = 0;
    if (look->state == GAUGE_RECORDING && look->now_ns > look->page.merged_ns &&
        (look->now_ns - look->page.merged_ns < GAUGE_STALE_NS || gauge_has_waiting(file, header)))
        look->behind_ns = look->now_ns - look->page.merged_ns;
}

/* The state of a file with a page. */
static enum gauge_state
gauge_process_state(struct gauge_file *file, const struct tidei_ring_header *header)
{
    uint32_t bytes = header->failure_bytes;
    bool held = gauge_is_held(file);

    if (header->exited != 0 || (!held && gauge_is_gone(file)))
        return GAUGE_ENDED;
    if (!held)
        return GAUGE_KILLED;
    if (bytes == 0)
        return GAUGE_RECORDING;
    if (bytes >= sizeof(file->failure))
        bytes = sizeof(file->failure) - 1;
    memcpy(file->failure, header->failure, bytes);
    file->failure[bytes] = '\0';
    return GAUGE_FAILED;
}

/* The state of a file without a header that nobody has: one that was just made, or one that was left so. */
static enum gauge_state
gauge_beginning_state(struct gauge_file *file)
{
    uint64_t now = tidei_monotonic_ns();

    if (gauge_is_gone(file))
        return GAUGE_ENDED;
    if (file->begins_ns == 0)
        file->begins_ns = now;
    return now - file->begins_ns < GAUGE_BEGIN_NS ? GAUGE_BEGINS : GAUGE_UNKNOWN;
}

void
gauge_look(struct gauge_file *file, struct gauge_look *out)
{
    uint64_t trace_id = file->trace_id;
    struct tidei_ring_header header;
    bool is_opened;

    /* A name that is gone: what is open still has the last word of the recording. */
    if (file->fd >= 0 && !file->is_named && gauge_is_replaced(file))
        gauge_let_go(file);
    file->is_named = out->has_page = out->is_new = false;
    is_opened = file->fd < 0;
    out->state = is_opened ? gauge_open_rings(file) : GAUGE_RECORDING;
    if (file->fd < 0)
        return;
    out->state = gauge_check(file, &header);
    if (is_opened || file->trace_id != trace_id)
        out->sequence = 0;
    if (out->state == GAUGE_RECORDING)
        out->state = gauge_process_state(file, &header);
    else if (out->state == GAUGE_BEGINS && !gauge_is_held(file))
        out->state = gauge_beginning_state(file);
    if (out->state == GAUGE_RECORDING || out->state == GAUGE_ENDED || out->state == GAUGE_KILLED ||
        out->state == GAUGE_FAILED) {
        out->has_page = header.ready != 0 && gauge_read_page(file, out);
        if (out->has_page)
            gauge_set_times(file, &header, out);
    }
    if (out->state != GAUGE_RECORDING && out->state != GAUGE_FAILED && out->state != GAUGE_KILLED)
        gauge_let_go(file);
}

const char *
gauge_refusal(const struct gauge_file *file)
{
    switch (file->error) {
    case EISDIR:
        return "it is a folder";
    case EINVAL:
        return "it is no regular file";
    case ELOOP:
        return "it is a symbolic link, which is not followed";
    case EPERM:
        return "it belongs to another user than the trace";
    default:
        return strerror(file->error);
    }
}

const char *
gauge_state_word(enum gauge_state state)
{
    static const char *const words[] = {
        [GAUGE_RECORDING] = "recording",  [GAUGE_BEGINS] = "begins",   [GAUGE_ENDED] = "ended",
        [GAUGE_KILLED] = "killed",        [GAUGE_FAILED] = "failed",   [GAUGE_OLD] = "older recorder",
        [GAUGE_NEWER] = "newer recorder", [GAUGE_UNKNOWN] = "damaged", [GAUGE_REFUSED] = "unreadable",
    };

    return words[state];
}
