/* fault: make chosen allocations fail, so that tests can prove what a program does then. */
#ifndef TIDEMARK_FAULT_H
#define TIDEMARK_FAULT_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Requests of more than above_bytes, once after_bytes have been handed out, are counted, from 1. Of these the nth
 * fails, each every-th, and each by chance with `probability`; where none of the three is given, all of them. At least
 * one of the five must be given.
 */
struct tide_fault_options {
    size_t struct_size;
    uint64_t nth;         /* 0: none */
    uint64_t every;       /* 1: each one; 0: none */
    double probability;   /* from 0 to 1, rounded to billionths; 0: none */
    uint64_t seed;        /* of the chance: the same requests fail each time that it is the same */
    uint64_t above_bytes; /* 0: every size, also 0 bytes */
    uint64_t after_bytes; /* of all successful requests added up, also those freed since; 0: from the beginning */
    uint32_t status;      /* TIDE_ECAPACITY, TIDE_ELIMIT, TIDE_ENOMEM or TIDE_EDRIVER; TIDE_OK: TIDE_ECAPACITY */
    uint32_t reserved;    /* 0 */
};

struct tide_fault_figures {
    size_t struct_size;
    uint64_t counted; /* requests that could have been chosen */
    uint64_t planted; /* requests that have been failed */
};

/*
 * Fail chosen requests before they reach `upstream`. tide_error_text() says that the failure was planted, of which
 * request, and why that one: "fault: planted failure of request 17 (4 KiB): chosen by nth".
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, nothing chosen, a probability that is none, a seed without one, another status),
 * TIDE_ENOMEM. Its allocations: the status of the options.
 * Thread safety: any thread; lock-free, with counters that all threads share. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fault_create(struct tide_resource *upstream, const struct tide_fault_options *options,
                                               struct tide_resource **out);

/*
 * Begin both counts and the bytes handed out again at 0, with another `nth` (0: none). So a test goes through all
 * failures that its program can meet:
 *
 *     do {
 *         tide_fault_restart(fault, ++nth);
 *         run the program, which must survive
 *         tide_fault_read(fault, &figures);
 *     } while (figures.planted > 0);
 *
 * Errors: TIDE_EINVAL (not a fault). Thread safety: any thread; call it while no allocation is under way. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fault_restart(struct tide_resource *fault, uint64_t nth);

/* Errors: TIDE_EINVAL (not a fault, NULL); then *out has zeros. Thread safety: any thread. Since 0.1. */
TIDE_EXPORT enum tide_status tide_fault_read(struct tide_resource *fault, struct tide_fault_figures *out);

#ifdef __cplusplus
}
#endif
#endif
