/*
 * The real driver's functions that the fake lacks: found by name and by address as there, not supported when called.
 * FAKE_CUDA_TELL=1 names each on stderr.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define UNDONE_NOT_SUPPORTED 801

/* Without cuda.h, which declares them with their parameters; a caller's arguments are left alone. */
struct fake_function {
    const char *name, *symbol;
    int version;
    bool per_thread;
    void (*address)(void);
    struct fake_function *next;
    int calls, number;
};

void fake_function_add(struct fake_function *function);

static int
undone_call(const char *symbol)
{
    if (getenv("FAKE_CUDA_TELL") != NULL)
        fprintf(stderr, "fake-cuda: %s is not supported\n", symbol);
    return UNDONE_NOT_SUPPORTED;
}

#define UNDONE(base, entry, since, own)                                                                                \
    int entry(void);                                                                                                   \
    __attribute__((visibility("default"))) int entry(void)                                                             \
    {                                                                                                                  \
        return undone_call(#entry);                                                                                    \
    }
#include "tests/fake-cuda/undone.def"
#undef UNDONE

#define UNDONE(base, entry, since, own)                                                                                \
    { .name = #base, .symbol = #entry, .version = (since), .per_thread = (own), .address = (void (*)(void))(entry) },

static struct fake_function undone[] = {
#include "tests/fake-cuda/undone.def"
};

__attribute__((constructor)) static void
undone_add(void)
{
    for (size_t i = 0; i < sizeof(undone) / sizeof(undone[0]); i++)
        fake_function_add(&undone[i]);
}
