/* A helper program: spender TRACE BYTES COUNT allocates BYTES ten times under a tag and frees all but COUNT of them. */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#define SPENDER_TIMES 10

static int
spender_fail(void)
{
    fprintf(stderr, "spender: %s\n", tide_error_text());
    return 1;
}

int
main(int argc, char **argv)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = argc == 4 ? argv[1] : "" };
    size_t bytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    size_t kept = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    struct tide_resource *sim = NULL;
    struct tide_resource *log = NULL;
    void *pointers[SPENDER_TIMES];

    if (tide_sim_create(NULL, &sim) != TIDE_OK || tide_log_create(sim, &options, &log) != TIDE_OK ||
        tide_tag_push("work") != TIDE_OK)
        return spender_fail();
    for (size_t i = 0; i < SPENDER_TIMES; i++) {
        if (tide_allocate(log, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &pointers[i]) != TIDE_OK)
            return spender_fail();
    }
    for (size_t i = kept; i < SPENDER_TIMES; i++) {
        if (tide_deallocate(log, pointers[i], bytes, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK)
            return spender_fail();
    }
    tide_tag_pop();
    tide_resource_release(log);
    tide_resource_release(sim);
    return 0;
}
