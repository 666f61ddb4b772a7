/* TAP for tests in C: a fixed plan, one sentence a test, a report of what differed. */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak: all files of a test program count together. */
__attribute__((weak)) struct {
    int planned;
    int run;
    int failed;
} tap;

/* How many tests will run. First call of a test program. */
static inline void
plan(int count)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap.planned = count;
    printf("1..%d\n", count);
}

/* Leave the whole program out, and say why. */
static inline _Noreturn void
skip_all(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    exit(0);
}

/* Leave `count` tests out, and say why. */
static inline void
skip(int count, const char *reason)
{
    for (int i = 0; i < count; i++)
        printf("ok %d # SKIP %s\n", ++tap.run, reason);
}

__attribute__((format(printf, 1, 2))) static inline void
diag(const char *format, ...)
{
    va_list arguments;

    fputs("# ", stdout);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

__attribute__((format(printf, 2, 3))) static inline bool
ok(bool passed, const char *format, ...)
{
    va_list arguments;

    if (!passed)
        tap.failed++;
    printf("%s %d - ", passed ? "ok" : "not ok", ++tap.run);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    return passed;
}

static inline bool
is_u64(uint64_t seen, uint64_t wanted, const char *sentence)
{
    bool passed = ok(seen == wanted, "%s", sentence);

    if (!passed)
        diag("seen %" PRIu64 ", wanted %" PRIu64, seen, wanted);
    return passed;
}

static inline bool
is_i64(int64_t seen, int64_t wanted, const char *sentence)
{
    bool passed = ok(seen == wanted, "%s", sentence);

    if (!passed)
        diag("seen %" PRId64 ", wanted %" PRId64, seen, wanted);
    return passed;
}

static inline bool
is_string(const char *seen, const char *wanted, const char *sentence)
{
    bool passed = ok(seen != NULL && strcmp(seen, wanted) == 0, "%s", sentence);

    if (!passed)
        diag("seen \"%s\", wanted \"%s\"", seen != NULL ? seen : "(null)", wanted);
    return passed;
}

/* The text holds the words. */
static inline bool
has_words(const char *seen, const char *words, const char *sentence)
{
    bool passed = ok(seen != NULL && strstr(seen, words) != NULL, "%s", sentence);

    if (!passed)
        diag("seen \"%s\", wanted in it \"%s\"", seen != NULL ? seen : "(null)", words);
    return passed;
}

/* Last call: the exit status of a test program. */
static inline int
done(void)
{
    if (tap.run != tap.planned)
        diag("%d tests were planned, %d have run", tap.planned, tap.run);
    return tap.failed != 0 || tap.run != tap.planned;
}

#endif
