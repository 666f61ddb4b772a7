/* fault: fails chosen allocations, so that a test can prove that its program survives them. */
#ifndef TIDEMARK_FAULT_H
#define TIDEMARK_FAULT_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which requests fail. Requests are numbered from 1. Only those count that are larger than above_bytes, and only from
 * the moment on at which after_bytes were handed out. Among the numbered requests `nth`, `every` and `probability`
 * each choose some. Where none of these three is given, every numbered request fails. At least one of nth, every,
 * probability, above_bytes and after_bytes must be given.
 */
struct tide_fault_options {
    size_t struct_size;   /* TIDE_OPTIONS */
    uint64_t nth;         /* fail the request of this number; 0: none */
    uint64_t every;       /* fail each request whose number is a multiple of this; 0: none */
    double probability;   /* fail each request with this chance, from 0 to 1, rounded to billionths; 0: none */
    uint64_t seed;        /* of the chance: with the same seed the same numbers fail */
    uint64_t above_bytes; /* 0: every size counts, also 0 bytes */
    uint64_t after_bytes; /* sum of all successful requests, also those freed since; 0: from the beginning */
    uint32_t status;      /* TIDE_ECAPACITY, TIDE_ELIMIT, TIDE_ENOMEM or TIDE_EDRIVER; 0: TIDE_ECAPACITY */
    uint32_t reserved;    /* 0 */
};

struct tide_fault_figures {
    size_t struct_size; /* TIDE_FIGURES */
    uint64_t counted;   /* requests that were numbered */
    uint64_t planted;   /* requests of these that were made to fail */
};

/*
 * Create a layer that fails chosen requests before they reach `upstream`. The error text says that the failure was
 * planted, for which request, and which option chose it:
 * "fault: planted failure of request 17 (4 KiB): chosen by nth".
 *
 * Holds a reference to `upstream`. `options` is required. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL; nothing chosen; a probability out of its range; a seed without a probability; another
 * status), TIDE_ENOMEM. Errors of its allocations: the status of the options.
 * Thread safety: any thread. Lock-free, with counters that all threads share. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fault_create(struct tide_resource *upstream, const struct tide_fault_options *options,
                                               struct tide_resource **out);

/*
 * Set both figures and the sum for after_bytes back to 0, and choose another `nth` (0: none). So a test goes through
 * every failure that its program can meet:
 *
 *     do {
 *         tide_fault_restart(fault, ++nth);
 *         run the program, which must survive
 *         tide_fault_read(fault, &figures);
 *     } while (figures.planted > 0);
 *
 * Errors: TIDE_EINVAL (not a fault resource).
 * Thread safety: any thread, while no allocation is under way. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fault_restart(struct tide_resource *fault, uint64_t nth);

/*
 * Read the figures of a fault resource. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a fault resource, NULL, struct_size). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fault_read(struct tide_resource *fault, struct tide_fault_figures *out);

#ifdef __cplusplus
}
#endif
#endif
