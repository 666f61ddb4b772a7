/*
 * A helper program: records three allocations and a free into the given trace, prints "ready", and makes two more calls
 * at the end of its input.
 */
#include <stdio.h>

#include <tidemark/tidemark.h>

static int
recording_fail(void)
{
    fprintf(stderr, "recording: %s\n", tide_error_text());
    return 1;
}

int
main(int argc, char **argv)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = argc == 2 ? argv[1] : "" };
    struct tide_resource *sim = NULL;
    struct tide_resource *log = NULL;
    void *pointers[4];

    if (tide_sim_create(NULL, &sim) != TIDE_OK || tide_log_create(sim, &options, &log) != TIDE_OK)
        return recording_fail();
    for (size_t i = 0; i < 3; i++) {
        if (tide_allocate(log, 100 * (i + 1), TIDE_DEFAULT_ALIGNMENT, 0, &pointers[i]) != TIDE_OK)
            return recording_fail();
    }
    if (tide_deallocate(log, pointers[0], 100, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK || tide_log_flush(log) != TIDE_OK)
        return recording_fail();
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    if (tide_allocate(log, 400, TIDE_DEFAULT_ALIGNMENT, 0, &pointers[3]) != TIDE_OK ||
        tide_deallocate(log, pointers[1], 200, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK)
        return recording_fail();
    tide_resource_release(log);
    tide_resource_release(sim);
    return 0;
}
