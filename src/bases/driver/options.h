/* The options of the base `driver`, as C and stack text give them. */
#ifndef TIDEI_BASES_DRIVER_OPTIONS_H
#define TIDEI_BASES_DRIVER_OPTIONS_H

#include <tidemark/driver.h>

#include "src/resource/kind.h"

extern const struct tidei_kind tidei_driver_kind;

/* In the order of the arguments in stack text. */
enum tidei_driver_option {
    TIDEI_DRIVER_DEVICE,
    TIDEI_DRIVER_RELEASE_THRESHOLD,
    TIDEI_DRIVER_MAXIMUM,
    TIDEI_DRIVER_DEFAULT,
    TIDEI_DRIVER_INITIAL,
    TIDEI_DRIVER_LOCATION,
    TIDEI_DRIVER_HOST_NUMA,
    TIDEI_DRIVER_HANDLE,
    TIDEI_DRIVER_REUSE_EVENT_DEPENDENCIES,
    TIDEI_DRIVER_REUSE_OPPORTUNISTIC,
    TIDEI_DRIVER_REUSE_INTERNAL_DEPENDENCIES,
    TIDEI_DRIVER_FALLBACK,
    TIDEI_DRIVER_OPTIONS,
};

/* Check, without a device, for options that contradict each other. *fault is the one at fault. Errors: TIDE_EINVAL. */
enum tide_status tidei_driver_options_check(void *options, size_t *fault);

#endif
