/* What the files of the fake CUPTI share. */
#ifndef TESTS_FAKE_CUDA_CUPTI_H
#define TESTS_FAKE_CUDA_CUPTI_H

#include "config.h"

#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fake-cuda/tracer.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

/* CUPTI's number of a driver function by its symbol, and the symbol by the number; -1 and NULL if there is none. */
int fake_cupti_number(const char *symbol);
const char *fake_cupti_symbol(CUpti_CallbackId number);

/* Load the driver and trace its calls. False if it is not the fake one. */
bool fake_cupti_listen(void);
bool fake_cupti_has_context(void);

/* FAKE_CUPTI_VERSION sets the version: records have the size of that version. */
uint32_t fake_cupti_version(void);
size_t fake_cupti_record_bytes(CUpti_ActivityKind kind);
uint64_t fake_cupti_now(void);

/* Put a record into the tool's buffer. If there is no room, it is counted as dropped. */
void fake_cupti_put(const void *record, size_t bytes);

/* Set the subscriber's function; NULL: there is no subscriber any more. */
void fake_cupti_set_callback(CUpti_CallbackFunc function, void *userdata);

/* Whether a call has callbacks; and call the subscriber's function. */
bool fake_cupti_calls_back(int number);
void fake_cupti_call_back(int number, CUpti_ApiCallbackSite site, uint32_t correlation, int *result);

/* The tracer that the driver gets. */
extern const struct fake_tracer fake_cupti_tracer;

#endif
