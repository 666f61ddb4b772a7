/* What GPU tests of two processes share: the second process, and descriptors that go from one to the other. */
#ifndef TESTS_GPU_PROCESS_H
#define TESTS_GPU_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Start this program again, which inherits the descriptor `socket` and no other. -1 if that fails. */
pid_t gpu_process_start(int socket, char *const arguments[]);

bool gpu_send_descriptor(int socket, int fd);

/* Returns -1 if the other process has ended. */
int gpu_receive_descriptor(int socket);

/* Receive all the bytes. */
bool gpu_receive(int socket, void *data, size_t bytes);

#endif
