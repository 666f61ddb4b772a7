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

/* CUPTI's number of a function of the driver, by its symbol, and back; -1, NULL: it has none. */
int fake_cupti_number(const char *symbol);
const char *fake_cupti_symbol(CUpti_CallbackId number);

/* Load the driver and hear of its calls; false where it is none of ours. */
bool fake_cupti_listen(void);
bool fake_cupti_has_context(void);

/* By FAKE_CUPTI_VERSION: records are as long as that version has them. */
uint32_t fake_cupti_version(void);
size_t fake_cupti_record_bytes(CUpti_ActivityKind kind);
uint64_t fake_cupti_now(void);

/* Put a record into the tool's buffer; counted as dropped where there is no room. */
void fake_cupti_put(const void *record, size_t bytes);

/* The subscriber's function; NULL: there is none any more. */
void fake_cupti_set_callback(CUpti_CallbackFunc function, void *userdata);

/* Whether a call is followed, and the call of the function itself. */
bool fake_cupti_calls_back(int number);
void fake_cupti_call_back(int number, CUpti_ApiCallbackSite site, uint32_t correlation, int *result);

/* The table that the driver gets. */
extern const struct fake_tracer fake_cupti_tracer;

#endif
