/* Asks `tidemark summary` about the trace of a GPU test. */
#ifndef TESTS_GPU_SUMMARY_H
#define TESTS_GPU_SUMMARY_H

#include <stdint.h>

/* The expected figures of one `log` layer, under the names in the command's output. */
struct gpu_summary {
    uint64_t allocations;
    uint64_t frees;
    uint64_t failures;
    uint64_t total_bytes;
    uint64_t peak_bytes;
    uint64_t live_bytes;
};

/*
 * One test: the command says that the trace is complete and has exactly these layers, in the order in which it lists
 * them. Skipped if the command has not been built.
 */
void gpu_summary_is(const char *trace, const struct gpu_summary *wanted, unsigned layers, const char *sentence);

#endif
