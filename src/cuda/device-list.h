/* The CUDA devices of this machine as one text, for those who keep what a program ran on. */
#ifndef TIDEI_CUDA_DEVICE_LIST_H
#define TIDEI_CUDA_DEVICE_LIST_H

#include <stddef.h>

/*
 * Write a JSON array with an object for each device, [{"device":0,"name":"NVIDIA H200","total_bytes":150109880320}],
 * and a NUL; "[]" without a driver. A device that does not answer has null for what it does not say; those for which
 * there is no room are left out. Starts the driver where that has not been. Sets the thread's error text.
 */
void tidei_device_list(char *text, size_t capacity);

#endif
