/*
 * A helper program: `pairs TRACE JOURNAL SECONDS THREADS [ARGUMENTS]` allocates and frees for some seconds, recorded
 * into the trace by a log with these arguments. The journal, a file of one 64-bit number for each thread, says how many
 * pairs have returned, whatever ends the program.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#define PAIRS_THREADS 64

static struct {
    struct tide_resource *stack;
    _Atomic uint64_t *journal;
    time_t until;
} pairs;

static void *
pairs_work(void *argument)
{
    _Atomic uint64_t *returned = argument;
    const struct timespec pause = { 0, 20000 };
    void *pointers[64];

    while (time(NULL) < pairs.until) {
        for (size_t i = 0; i < 64; i++) {
            if (tide_allocate(pairs.stack, 64 + i, TIDE_DEFAULT_ALIGNMENT, 0, &pointers[i]) != TIDE_OK)
                abort();
        }
        for (size_t i = 0; i < 64; i++) {
            tide_deallocate(pairs.stack, pointers[i], 64 + i, TIDE_DEFAULT_ALIGNMENT, 0);
            atomic_fetch_add(returned, 1);
        }
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static int
pairs_fail(const char *what)
{
    fprintf(stderr, "pairs: %s: %s\n", what, tide_error_text());
    return 1;
}

int
main(int argc, char **argv)
{
    unsigned threads = argc >= 5 ? (unsigned)atoi(argv[4]) : 0;
    pthread_t started[PAIRS_THREADS];
    char text[8192];
    int journal;

    if (threads < 1 || threads > PAIRS_THREADS)
        return pairs_fail("usage: pairs TRACE JOURNAL SECONDS THREADS [ARGUMENTS]");
    journal = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (journal < 0 || posix_fallocate(journal, 0, sizeof(uint64_t) * PAIRS_THREADS) != 0)
        return pairs_fail(argv[2]);
    pairs.journal = mmap(NULL, sizeof(uint64_t) * PAIRS_THREADS, PROT_READ | PROT_WRITE, MAP_SHARED, journal, 0);
    snprintf(text, sizeof(text), "log(%s%s%s) | sim", argv[1], argc > 5 ? ", " : "", argc > 5 ? argv[5] : "");
    if (pairs.journal == MAP_FAILED || tide_stack_parse(text, &pairs.stack) != TIDE_OK)
        return pairs_fail(text);
    puts("ready");
    fflush(stdout);
    pairs.until = time(NULL) + atoi(argv[3]);
    for (unsigned i = 0; i < threads; i++)
        pthread_create(&started[i], NULL, pairs_work, &pairs.journal[i]);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    tide_resource_release(pairs.stack);
    return 0;
}
