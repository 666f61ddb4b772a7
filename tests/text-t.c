/* Tests text: bounded buffers, words and sizes that parse back, sizes for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/resource/resource.h"
#include "tap.h"

static const struct {
    uint64_t bytes;
    const char *stack_text;
    const char *for_people;
} sizes[] = {
    { 0, "0", "0 B" },
    { 1, "1", "1 B" },
    { 1000, "1000", "1000 B" },
    { 1023, "1023", "1023 B" },
    { 1024, "1KiB", "1 KiB" },
    { 1025, "1025", "1.00 KiB" },
    { 1536, "1536", "1.50 KiB" },
    { UINT64_C(64) << 20, "64MiB", "64 MiB" },
    { UINT64_C(1536) << 20, "1536MiB", "1.50 GiB" },
    { UINT64_C(80) << 30, "80GiB", "80 GiB" },
    { (UINT64_C(80) << 30) - 1, "85899345919", "80.00 GiB" },
    { UINT64_C(1) << 60, "1EiB", "1 EiB" },
    { UINT64_MAX, "18446744073709551615", "16.00 EiB" },
};

static const struct {
    const char *word;
    const char *stack_text;
} words[] = {
    { "trace.db", "trace.db" },
    { "/data/%p-%h.db", "/data/%p-%h.db" },
    { "256", "256" },
    { "overwrite", "\"overwrite\"" }, /* would read as a flag */
    { "", "\"\"" },
    { "a b", "\"a b\"" },
    { "a,b", "\"a,b\"" },
    { "a|b", "\"a|b\"" },
    { "{a}", "\"{a}\"" },
    { "a=b", "\"a=b\"" },
    { "x\ty", "\"x\ty\"" },
    { "say \"ah\"", "\"say \\\"ah\\\"\"" },
    { "C:\\x", "C:\\x" },
    { "C:\\x y", "\"C:\\\\x y\"" },
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void
check_bounds(void)
{
    char data[8] = "xxxxxxx";
    struct tide_text text = { .data = data, .capacity = 5 };
    struct tide_text none = { 0 };

    tide_text_format(&text, "%s", "abc");
    is_string(data, "abc", "text that fits is there");
    tide_text_format(&text, "%d", 4567);
    is_string(data, "abc4", "text that does not fit is cut, and ends in a NUL");
    is_u64(text.length, 7, "the length counts the whole text");
    ok(data[5] == 'x', "nothing is written past the capacity");
    tide_text_format(&text, "more");
    ok(all_of(text.length == 11, strcmp(data, "abc4") == 0),
       "text that is added after the cut adds to the length only");
    tide_text_word(&none, "a b");
    is_u64(none.length, 5, "without a buffer text adds to the length only");
}

static void
check_size_buffers(void)
{
    const char *first = tidei_size_text(1);
    const char *second = tidei_size_text(2);
    const char *third = tidei_size_text(3);

    ok(all_of(strcmp(first, "1 B") == 0, strcmp(second, "2 B") == 0, strcmp(third, "3 B") == 0),
       "several sizes can stand in one message");
}

static bool
prints_as_printf(uint64_t bytes)
{
    static const char units[] = "BKMGTPE";
    unsigned unit = 0;
    char expected[40];

    while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
        unit++;
    if ((bytes & ((UINT64_C(1) << (10 * unit)) - 1)) == 0)
        snprintf(expected, sizeof(expected), "%" PRIu64 " %c%s", bytes >> (10 * unit), units[unit], unit ? "iB" : "");
    else
        snprintf(expected, sizeof(expected), "%.2f %ciB", (double)bytes / (double)(UINT64_C(1) << (10 * unit)),
                 units[unit]);
    if (strcmp(tidei_size_text(bytes), expected) == 0)
        return true;
    diag("%" PRIu64 " B: %s, expected %s", bytes, tidei_size_text(bytes), expected);
    return false;
}

/* Numbers of eighths, whose third decimal is a 5 behind which nothing comes, and their neighbours. */
static bool
eighths_print_as_printf(void)
{
    for (unsigned shift = 10; shift <= 60; shift += 10) {
        for (uint64_t eighths = 8; eighths < 128; eighths++) {
            uint64_t bytes = eighths << (shift - 3), beside = shift <= 40; /* beyond, a double has no neighbours */

            if (!prints_as_printf(bytes - beside) || !prints_as_printf(bytes) || !prints_as_printf(bytes + beside))
                return false;
        }
    }
    return true;
}

static bool
random_sizes_print_as_printf(void)
{
    uint64_t seed = (uint64_t)time(NULL);

    diag("seed %" PRIu64, seed);
    for (unsigned i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (!prints_as_printf(seed >> (i % 64)))
            return false;
    }
    return true;
}

int
main(void)
{
    plan(2 * (int)COUNT_OF(sizes) + (int)COUNT_OF(words) + 9);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char data[32];
        struct tide_text text = { .data = data, .capacity = sizeof(data) };

        tide_text_size(&text, sizes[i].bytes);
        is_string(data, sizes[i].stack_text, "a size as stack text is exact");
        is_string(tidei_size_text(sizes[i].bytes), sizes[i].for_people, "a size for people has at most two decimals");
    }
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        char data[32];
        struct tide_text text = { .data = data, .capacity = sizeof(data) };

        tide_text_word(&text, words[i].word);
        is_string(data, words[i].stack_text, "a word is quoted if it needs to be");
    }
    check_bounds();
    check_size_buffers();
    ok(eighths_print_as_printf(), "sizes between two hundredths of a unit are rounded as printf rounds them");
    ok(random_sizes_print_as_printf(), "random sizes are rounded as printf rounds them");
    return done();
}
