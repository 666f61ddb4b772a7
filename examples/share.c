/*
 * Share a pool with another process, with the allocations traced in both:
 *
 *     ./share
 *     tidemark summary share-maker.db
 *     tidemark summary share-reader.db
 *
 * The maker hands over the pool once, as a file descriptor, and each allocation as a few bytes of data. It frees what
 * the reader has freed.
 */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "examples/cuda-calls.h"

#define WORDS ((size_t)1 << 20)
#define BYTES (WORDS * sizeof(uint32_t))

/* The message of a descriptor: it is sent beside some data, here one byte. */
union share_control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

static bool
send_descriptor(int socket, int fd)
{
    union share_control control = { .space = { 0 } };
    char byte = 'p';
    struct iovec data = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)
    };
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);

    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    return sendmsg(socket, &message, 0) == 1;
}

static int
receive_descriptor(int socket)
{
    union share_control control = { .space = { 0 } };
    char byte;
    struct iovec data = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)
    };
    int fd = -1;

    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static int
failed(const char *who)
{
    fprintf(stderr, "share: %s: %s\n", who, tide_error_text());
    return 1;
}

/* The other process: import the pool and one allocation, read it, and free it. */
static enum tide_status
read_shared(struct cuda_calls *cuda, struct tide_resource *memory, const struct tide_driver_pointer *shared)
{
    uint32_t word = 0;
    void *pointer;
    enum tide_status status = tide_driver_pointer_import(memory, shared, 0, &pointer);

    if (status != TIDE_OK)
        return status;
    cuda->copy_to_host_async(&word, (uint64_t)(uintptr_t)pointer, sizeof(word), NULL);
    cuda->stream_synchronize(NULL);
    printf("reader: %zu bytes, the first word is %u\n", (size_t)shared->bytes, word);
    return tide_deallocate(memory, pointer, (size_t)shared->bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

static int
reader(int socket)
{
    struct tide_log_options log = { TIDE_OPTIONS(log), .path = "share-reader.db", .overwrite = true };
    struct tide_resource *pool = NULL;
    struct tide_resource *memory = NULL;
    struct tide_driver_pointer shared;
    struct cuda_calls cuda;
    int fd = receive_descriptor(socket);
    int result = 0;

    if (fd < 0 || !cuda_calls_open(&cuda))
        return 1; /* the maker has printed why */
    if (tide_driver_import(fd, NULL, &pool) != TIDE_OK || tide_log_create(pool, &log, &memory) != TIDE_OK ||
        read(socket, &shared, sizeof(shared)) != sizeof(shared) || read_shared(&cuda, memory, &shared) != TIDE_OK)
        result = failed("reader");
    close(fd);
    tide_resource_release(memory);
    tide_resource_release(pool);
    return result;
}

static enum tide_status
make_shared(struct cuda_calls *cuda, struct tide_resource *memory, int socket)
{
    /* The pool itself, below any layers. */
    struct tide_resource *driver;
    struct tide_driver_pointer shared;
    void *pointer = NULL;
    char done;
    int fd;
    enum tide_status status = tide_stack_find(memory, "driver", &driver);

    if (status == TIDE_OK)
        status = tide_driver_export(driver, &fd);

    if (status == TIDE_OK) {
        send_descriptor(socket, fd);
        close(fd);
        status = tide_allocate(memory, BYTES, TIDE_DEFAULT_ALIGNMENT, 0, &pointer);
    }
    if (status == TIDE_OK) {
        cuda->memset_async((uint64_t)(uintptr_t)pointer, 7, WORDS, NULL);
        cuda->stream_synchronize(NULL); /* the reader knows nothing of this process's streams */
        status = tide_driver_pointer_export(driver, pointer, BYTES, &shared);
    }
    if (status == TIDE_OK && write(socket, &shared, sizeof(shared)) == sizeof(shared)) {
        printf("maker: handed over %zu bytes\n", BYTES);
        fflush(stdout);
        if (read(socket, &done, 1) < 0) /* ends when the reader does */
            status = tide_error_set(TIDE_EIO, "the reader cannot be heard");
    }
    if (pointer != NULL) {
        enum tide_status freed = tide_deallocate(memory, pointer, BYTES, TIDE_DEFAULT_ALIGNMENT, 0);

        status = status == TIDE_OK ? freed : status;
    }
    return status;
}

static int
maker(int socket)
{
    struct tide_resource *memory = NULL;
    struct cuda_calls cuda;
    int result = 0;

    if (!cuda_calls_open(&cuda)) {
        printf("share: no GPU on this machine\n");
        return 77; /* test harnesses take 77 as skipped */
    }
    if (tide_stack_parse("log(share-maker.db, overwrite=true) | driver(handle=posix_fd)", &memory) != TIDE_OK ||
        make_shared(&cuda, memory, socket) != TIDE_OK)
        result = failed("maker");
    tide_resource_release(memory);
    return result;
}

/* Start both processes first: CUDA does not work in a child of a process that has used it. */
int
main(void)
{
    int sockets[2];
    int status = 1;
    int result;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || (child = fork()) < 0)
        return 1;
    if (child == 0) {
        close(sockets[0]);
        return reader(sockets[1]);
    }
    close(sockets[1]);
    result = maker(sockets[0]);
    close(sockets[0]);
    waitpid(child, &status, 0);
    return result != 0 ? result : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
