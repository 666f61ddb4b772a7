/* The CUDA devices of this machine as text, for records of the machine that a program ran on. */
#ifndef TIDEI_CUDA_DEVICE_LIST_H
#define TIDEI_CUDA_DEVICE_LIST_H

#include <stddef.h>

/*
 * Write a NUL-terminated JSON array with an object for each device, [{"device":0,"name":"NVIDIA
 * H200","total_bytes":150109880320}], or "[]" without a driver. A value that the device does not report is null;
 * devices for which there is no room are left out. Starts the driver if needed. Sets the thread's error text.
 */
void tidei_device_list(char *text, size_t capacity);

#endif
