/* Tells whether the process that records into a ring file lives. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/trace/ring/owner.h"

/* What /proc says of a process. */
struct owner_process {
    long pid;
    char state;
    long threads;
    uint64_t start_ticks;
};

/* Read a small file of /proc as text. Without stdio, which may not be used while another thread forks. */
static bool
owner_read(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return false;
    length = read(fd, text, capacity - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Read /proc/WHO/stat (proc(5)). The name of the program may hold anything, a parenthesis too. */
static bool
owner_process(const char *who, struct owner_process *out)
{
    char path[64], text[1024];
    const char *rest;

    snprintf(path, sizeof(path), "/proc/%s/stat", who);
    if (!owner_read(path, text, sizeof(text)) || (rest = strrchr(text, ')')) == NULL)
        return false;
    return sscanf(text, "%ld", &out->pid) == 1 &&
           sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %" SCNu64,
                  &out->state, &out->threads, &out->start_ticks) == 3;
}

/* A number for this boot of this machine; 0: not known. */
static uint64_t
owner_boot(void)
{
    char text[64];
    uint64_t number = 0;

    if (!owner_read("/proc/sys/kernel/random/boot_id", text, sizeof(text)))
        return 0;
    /* FNV-1a */
    for (const char *at = text; *at != '\0'; at++)
        number = (number ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return number;
}

/* The namespace of process ids, where /proc is that of this namespace; else 0. */
static uint64_t
owner_namespace(struct owner_process *self)
{
    struct stat info;

    if (!owner_process("self", self) || self->pid != (long)getpid() || stat("/proc/self/ns/pid", &info) != 0)
        return 0;
    return info.st_ino;
}

void
tidei_owner_set(struct tidei_owner *owner, int fd)
{
    struct owner_process self;
    struct stat info;

    memset(owner, 0, sizeof(*owner));
    if (fstat(fd, &info) != 0)
        return;
    owner->boot = owner_boot();
    owner->pid_namespace = owner_namespace(&self);
    owner->start_ticks = owner->pid_namespace != 0 ? self.start_ticks : 0;
    owner->device = info.st_dev;
    owner->inode = info.st_ino;
}

enum tidei_owner_state
tidei_owner_look(const struct tidei_owner *owner, uint32_t pid, int fd)
{
    struct owner_process self, process;
    struct stat info;
    char who[16];

    if (owner->start_ticks == 0 || owner->boot == 0 || pid == 0 || pid > INT32_MAX || fstat(fd, &info) != 0 ||
        owner->device != info.st_dev || owner->inode != info.st_ino || owner->boot != owner_boot() ||
        owner->pid_namespace != owner_namespace(&self))
        return TIDEI_OWNER_UNKNOWN;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return TIDEI_OWNER_DEAD;
    snprintf(who, sizeof(who), "%" PRIu32, pid);
    if (!owner_process(who, &process))
        return TIDEI_OWNER_UNKNOWN; /* /proc may hide the processes of others */
    if (process.start_ticks != owner->start_ticks)
        return TIDEI_OWNER_DEAD;
    /* A program whose first thread has ended goes on with the others. */
    if ((process.state == 'Z' || process.state == 'X') && process.threads <= 1)
        return TIDEI_OWNER_DEAD;
    return TIDEI_OWNER_LIVES;
}
