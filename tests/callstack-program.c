/*
 * A program with call stacks to look at: callstack-program STACK MODE [LIBRARY]. MODE is `end`, `kill` (SIGKILL at the
 * end, with all that it has allocated) or `fork` (a child allocates, too).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#define NOINLINE __attribute__((noinline))
#define STAY()   __asm__ volatile("" ::: "memory")
#define THREADS  4
#define DEPTHS   40

static struct tide_resource *memory;

NOINLINE void
program_take(size_t bytes)
{
    void *pointer;

    if (tide_allocate(memory, bytes, 256, 0, &pointer) != TIDE_OK) { /* line of the call */
        fprintf(stderr, "%s\n", tide_error_text());
        exit(1);
    }
    STAY();
}

NOINLINE void
program_step(void)
{
    program_take(1000);
    STAY();
}

static NOINLINE void
program_hidden(void)
{
    program_take(2000);
    STAY();
}

NOINLINE void
program_dig(unsigned depth)
{
    if (depth == 0)
        program_take(10);
    else
        program_dig(depth - 1);
    STAY();
}

static void *
program_thread(void *unused)
{
    (void)unused;
    for (unsigned depth = 0; depth < DEPTHS; depth++)
        program_dig(depth);
    return NULL;
}

static void
program_call_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    void (*call)(void (*)(void));

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    call = (void (*)(void (*)(void)))dlsym(library, "library_call");
    call(program_step);
}

int
main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    const char *mode = argc > 2 ? argv[2] : "end";

    if (argc < 2 || tide_stack_parse(argv[1], &memory) != TIDE_OK) {
        fprintf(stderr, "%s\n", tide_error_text());
        return 1;
    }
    program_step();
    program_hidden();
    if (argc > 3)
        program_call_library(argv[3]);
    if (strcmp(mode, "fork") == 0) {
        pid_t child = fork();

        if (child == 0) {
            program_step();
            program_hidden();
            tide_resource_release(memory);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, program_thread, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (strcmp(mode, "kill") == 0)
        raise(SIGKILL);
    tide_resource_release(memory);
    return 0;
}
