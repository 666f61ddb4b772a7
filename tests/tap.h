/* TAP for tests in C: a fixed plan, one sentence for each test, and a report of what differed. */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that all files of a test program share one count. */
__attribute__((weak)) struct {
    int planned;
    int run;
    int failed;
    const char *conditions; /* the source text of the latest all_of that was false */
    int false_one;          /* the index of its first false condition */
} tap;

/* How many tests will run. First call of a test program. */
static inline void
plan(int count)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap.planned = count;
    printf("1..%d\n", count);
}

/* Skip the whole program, with the reason. */
static inline _Noreturn void
skip_all(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    exit(0);
}

/* Skip `count` tests, with the reason. */
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

static inline bool
tap_holds(bool condition, const char *conditions, int number)
{
    if (!condition) {
        tap.conditions = conditions;
        tap.false_one = number;
    }
    return condition;
}

/*
 * Up to eight conditions in one test, combined as by &&: a failing ok(all_of(a, b), "...") prints the first false one.
 * For the steps of one fact; facts that can fail independently are separate tests.
 */
#define all_of(...)                                                                                                    \
    TAP_NINTH(__VA_ARGS__, TAP_8, TAP_7, TAP_6, TAP_5, TAP_4, TAP_3, TAP_2, TAP_1)(#__VA_ARGS__, __VA_ARGS__)
#define TAP_NINTH(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define TAP_1(text, a)                                tap_holds(a, text, 0)
#define TAP_2(text, a, b)                             (TAP_1(text, a) && tap_holds(b, text, 1))
#define TAP_3(text, a, b, c)                          (TAP_2(text, a, b) && tap_holds(c, text, 2))
#define TAP_4(text, a, b, c, d)                       (TAP_3(text, a, b, c) && tap_holds(d, text, 3))
#define TAP_5(text, a, b, c, d, e)                    (TAP_4(text, a, b, c, d) && tap_holds(e, text, 4))
#define TAP_6(text, a, b, c, d, e, f)                 (TAP_5(text, a, b, c, d, e) && tap_holds(f, text, 5))
#define TAP_7(text, a, b, c, d, e, f, g)              (TAP_6(text, a, b, c, d, e, f) && tap_holds(g, text, 6))
#define TAP_8(text, a, b, c, d, e, f, g, h)           (TAP_7(text, a, b, c, d, e, f, g) && tap_holds(h, text, 7))

/* Print the false one of the conditions, which are separated by commas. */
static inline void
tap_print_false(const char *conditions, int number)
{
    int depth = 0, length = 0;
    bool in_text = false;

    while (conditions[length] != '\0') {
        char c = conditions[length];

        if (in_text && c == '\\' && conditions[length + 1] != '\0')
            length++;
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && c == ',' && depth == 0) {
            if (number-- == 0)
                break;
            conditions += length + 1;
            length = 0;
            continue;
        } else if (!in_text)
            depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        length++;
    }
    diag("false: %.*s", length - (conditions[0] == ' '), conditions + (conditions[0] == ' '));
}

__attribute__((format(printf, 2, 3))) static inline bool
ok(bool passed, const char *format, ...)
{
    char sentence[400];
    va_list arguments;

    if (!passed)
        tap.failed++;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    printf("%s %d - %s\n", passed ? "ok" : "not ok", ++tap.run, sentence);
    if (!passed && tap.conditions != NULL)
        tap_print_false(tap.conditions, tap.false_one);
    tap.conditions = NULL;
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

/* One test: the text contains the words. */
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
