/* Bases that do almost nothing. The stream is the number of the thread, 0 to 15. */
#ifndef BENCH_NOTHING_H
#define BENCH_NOTHING_H

#include <tidemark/tidemark.h>

/* Returns the same address for every request of a thread. Has one reference. Ends the process on failure. */
struct tide_resource *bench_nothing(void);

/* Like bench_nothing, but every request gets a new address. */
struct tide_resource *bench_addresses(void);

/* Like bench_nothing, but a thread gets its freed addresses again, the latest first, as from an allocator. */
struct tide_resource *bench_reusing(void);

#endif
