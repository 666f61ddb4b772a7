/*
 * A helper program: `slowly TRACE SECONDS [STACK]` allocates and frees with some tags, a call each millisecond, for so
 * long or until it is killed. It prints "ready" once the first calls are in the trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#define SLOWLY_LIVES 40

static struct {
    void *pointer;
    size_t bytes;
} lives[SLOWLY_LIVES];

static void
slowly_call(struct tide_resource *stack, unsigned step)
{
    static const char *const tags[] = { "forward", "backward", "optimizer" };
    unsigned place = step * 7 % SLOWLY_LIVES;

    if (lives[place].bytes != 0) {
        tide_deallocate(stack, lives[place].pointer, lives[place].bytes, TIDE_DEFAULT_ALIGNMENT, 0);
        lives[place].bytes = 0;
        return;
    }
    lives[place].bytes = (size_t)(1 + step % 13) << 20;
    tide_tag_push(tags[step % 3]);
    tide_tag_push("layer\033[31m");
    if (tide_allocate(stack, lives[place].bytes, TIDE_DEFAULT_ALIGNMENT, 0, &lives[place].pointer) != TIDE_OK)
        lives[place].bytes = 0;
    tide_tag_pop();
    tide_tag_pop();
}

int
main(int argc, char **argv)
{
    const struct timespec pause = { 0, 1000000 };
    struct tide_resource *stack = NULL;
    char text[4400];
    time_t until;

    snprintf(text, sizeof(text), "log(%s) | %s", argc > 1 ? argv[1] : "",
             argc > 3 ? argv[3] : "limit(1GiB) | pool | sim");
    if (argc < 3 || tide_stack_parse(text, &stack) != TIDE_OK) {
        fprintf(stderr, "slowly: %s\n", argc < 3 ? "usage: slowly TRACE SECONDS [STACK]" : tide_error_text());
        return 1;
    }
    until = time(NULL) + atoi(argv[2]);
    for (unsigned step = 0; time(NULL) < until; step++) {
        slowly_call(stack, step);
        nanosleep(&pause, NULL);
        if (step == 100) {
            tide_log_flush(stack);
            puts("ready");
            fflush(stdout);
        }
    }
    tide_resource_release(stack);
    return 0;
}
