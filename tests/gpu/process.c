/* Starts the second process of a GPU test, and passes descriptors. */
#include "tests/gpu/process.h"

#include <spawn.h>
#include <string.h>
#include <sys/socket.h>

extern char **environ;

pid_t
gpu_process_start(int socket, char *const arguments[])
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    posix_spawn_file_actions_init(&actions);
    /* Duplicate the descriptor onto itself: a duplicate is inherited, unlike all other descriptors. */
    posix_spawn_file_actions_adddup2(&actions, socket, socket);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

bool
gpu_send_descriptor(int socket, int fd)
{
    char control[CMSG_SPACE(sizeof(fd))] = { 0 };
    struct iovec part = { .iov_base = "f", .iov_len = 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int
gpu_receive_descriptor(int socket)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    char byte;
    struct iovec part = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    struct cmsghdr *header;
    int fd = -1;

    if (recvmsg(socket, &message, 0) != 1 || (header = CMSG_FIRSTHDR(&message)) == NULL)
        return -1;
    memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

bool
gpu_receive(int socket, void *data, size_t bytes)
{
    return recv(socket, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}
