/* A base that does nothing: what is measured over it is the layers alone. */
#ifndef BENCH_NOTHING_H
#define BENCH_NOTHING_H

#include <tidemark/tidemark.h>

/* A new one, with one reference. Hands out one address for each stream, always the same. */
struct tide_resource *bench_nothing(void);

#endif
