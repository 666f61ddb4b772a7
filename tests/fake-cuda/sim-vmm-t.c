/* Tests that sim(model=vmm) counts the handles that the base `vmm` makes: the same requests go through both. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define BLOCKS 64u

struct pair {
    void *pointer;
    size_t bytes; /* 0: none */
};

static struct tide_resource *
base_of(struct tide_resource *stack)
{
    while (stack->upstream != NULL)
        stack = stack->upstream;
    return stack;
}

/* The same random requests for each stack of the same seed, of up to `most_bytes`. */
static bool
churn(struct tide_resource *stack, uint64_t seed, uint64_t most_bytes, int steps)
{
    struct pair blocks[BLOCKS] = { { 0 } };
    bool good = true;

    for (int i = 0; i < steps && good; i++) {
        struct pair *block = &blocks[next_random(&seed) % BLOCKS];
        size_t bytes = 1 + next_random(&seed) % (most_bytes >> (next_random(&seed) % 5));

        if (block->bytes != 0) {
            good = tide_deallocate(stack, block->pointer, block->bytes, 256, 0) == TIDE_OK;
            block->bytes = 0;
        } else {
            good = tide_allocate(stack, bytes, 256, 0, &block->pointer) == TIDE_OK;
            block->bytes = bytes;
        }
    }
    for (size_t i = 0; i < BLOCKS && good; i++) {
        if (blocks[i].bytes != 0)
            good = tide_deallocate(stack, blocks[i].pointer, blocks[i].bytes, 256, 0) == TIDE_OK;
    }
    return good;
}

static void
same(uint64_t said, uint64_t real, const char *above, const char *sentence)
{
    if (!ok(said == real, "\"%s\": %s", above, sentence))
        diag("%llu, and %llu", (unsigned long long)said, (unsigned long long)real);
}

/* Both have done the same, with `above` over them. */
static void
check(const char *above, uint64_t most_bytes)
{
    struct tide_vmm_figures real = { TIDE_FIGURES(real) };
    struct tide_sim_figures said = { TIDE_FIGURES(said) };
    struct tide_resource *stack = stack_of("%svmm", above), *model = stack_of("%ssim(model=vmm)", above);
    bool good = true;

    for (uint64_t seed = 1; seed <= 5; seed++)
        good = good && churn(stack, seed, most_bytes, 600) && churn(model, seed, most_bytes, 600);
    good = good && tide_vmm_read(base_of(stack), &real) == TIDE_OK && tide_sim_read(base_of(model), &said) == TIDE_OK;
    ok(all_of(good, said.grown > 0, said.mapped > said.grown),
       "\"%s\": requests are served, and handles are mapped anew", above);
    same(said.grown, real.created, above, "as many handles are created");
    same(said.returned, real.released, above, "as many handles are released");
    same(said.kept, real.kept, above, "as many requests take a block back as it was");
    same(said.grown_bytes - said.returned_bytes, real.reserved_bytes, above, "as much is held");
    tide_trim(base_of(stack), 0);
    tide_trim(base_of(model), 0);
    tide_vmm_read(base_of(stack), &real);
    tide_sim_read(base_of(model), &said);
    ok(all_of(said.returned == real.released, said.grown_bytes - said.returned_bytes == real.reserved_bytes),
       "\"%s\": a trim releases as many handles", above);
    tide_resource_release(stack);
    tide_resource_release(model);
}

int
main(void)
{
    static const char *const stacks[] = { "", "pool | ", "pool(cache=0, growth=8MiB) | ",
                                          "pool(release_threshold=0) | " };
    uint64_t most_bytes[] = { UINT64_C(64) << 20, UINT64_C(6) << 20 };
    struct tide_resource *probe;

    /* Work on freed memory counts as done. */
    setenv("FAKE_CUDA_EVENTS_LIE", "1", 1);
    setenv("FAKE_CUDA_MEMORY", "16G", 1);
    if (tide_stack_parse("vmm", &probe) != TIDE_OK)
        skip_all(tide_error_text());
    tide_resource_release(probe);
    plan(6 * 4 * 2);
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 2; j++)
            check(stacks[i], most_bytes[j]);
    }
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
