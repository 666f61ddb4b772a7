/* Bases that do next to nothing; the stream is the number of the thread, from 0 to 15. */
#ifndef BENCH_NOTHING_H
#define BENCH_NOTHING_H

#include <tidemark/tidemark.h>

/* Gives every thread the same address again and again; with one reference. Ends the process where it cannot be made. */
struct tide_resource *bench_nothing(void);

/* The same, but that no two requests get the same address. */
struct tide_resource *bench_addresses(void);

/* The same, but that a thread gets those again that it gave back, the latest first, as from an allocator. */
struct tide_resource *bench_reusing(void);

#endif
