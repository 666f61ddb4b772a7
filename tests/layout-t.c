/* Tests the layout of tables on a screen, and of call stacks in tables. */
#include "tests/tap.h"

#include <string.h>

#include "viewer/output/report-item.h"
#include "viewer/base/callstack-text.h"

static const struct report_column columns[] = {
    { "name", "NAME", REPORT_STACK }, { "hidden", NULL, REPORT_COUNT },   { "bytes", "BYTES", REPORT_SIZE },
    { "share", "", REPORT_SHARE },    { "count", "COUNT", REPORT_COUNT }, { "nothing", "NOTHING", REPORT_COUNT },
};

/* A table of one row with the given name. */
static void
make_table(struct report *report, const char *name)
{
    static const struct report_options options = { .format = REPORT_TABLE };

    report_begin(report, &options, "test");
    report_table(report, "table", NULL, columns, 6);
    report_spare(report, "count no_such_column share");
    REPORT_ROW(report, cell_text(name), cell_unsigned(1), cell_unsigned(4096), cell_share(1, 2), cell_unsigned(7),
               cell_none());
}

/* The column titles as printed, in order, with the width of a name that is broken into lines. */
static const char *
layout_text(const char *name, size_t screen)
{
    static char text[128];
    struct report_layout layout;
    struct report report;
    size_t length = 0;

    make_table(&report, name);
    layout = report_layout_make(&report.items[0], screen);
    for (size_t i = 0; i < layout.count; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s ", columns[layout.columns[i]].name);
    snprintf(text + length, sizeof(text) - length, "%zu%s%s", layout.name_width, layout.left_out[3] ? " -share" : "",
             layout.left_out[4] ? " -count" : "");
    report_end(&report);
    return text;
}

static void
is_short(const char *text, size_t frames, const char *wanted, const char *words)
{
    char *made = stack_text_short(text, frames);

    is_string(made != NULL ? made : "no memory", wanted, words);
    free(made);
}

static void
is_wrapped(const char *text, size_t width, size_t lines, const char *wanted, const char *words)
{
    char *made = stack_text_wrap(text, width, lines);

    is_string(made != NULL ? made : "no memory", wanted, words);
    free(made);
}

int
main(void)
{
    static const char forty_one[] = "12345678901234567890123456789012345678901";
    static const char hundred[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    plan(23);
    is_string(layout_text("short", 0), "name bytes share count 0", "the name column of short names stands first");
    is_string(layout_text(forty_one + 1, 0), "name bytes share count 0",
              "the name column of names of 40 letters stands first");
    is_string(layout_text(forty_one, 0), "bytes share count name 0",
              "the name column of longer names stands last, whole");
    /* 5 + 5 + 5 + 5 and the spaces between them. */
    is_string(layout_text("short", 23), "name bytes share count 0",
              "on a terminal that fits exactly all columns are shown");
    is_string(layout_text("short", 22), "name bytes share 0 -count",
              "on a narrower terminal a spare column is left out");
    is_string(layout_text("short", 10), "name bytes 0 -share -count",
              "on a very narrow terminal columns that are not spare stay");
    is_string(layout_text(hundred, 200), "bytes share count name 182", "a long name has the rest of the line");
    is_string(layout_text(hundred, 70), "bytes share count name 52",
              "with 52 letters left for the name no column is left out");
    is_string(layout_text(hundred, 69), "bytes share name 57 -count",
              "with fewer than 52 letters left for the name a spare column is left out");
    is_string(layout_text(hundred, 20), "bytes name 14 -share -count",
              "on a very narrow terminal a long name has what is left");
    is_string(layout_text(hundred, 10), "bytes name 12 -share -count", "a long name has at least 12 letters");
    is_string(layout_text(forty_one + 1, 30), "name bytes 24 -share -count",
              "a name of 40 letters is wrapped at its place where the terminal is narrower than it");

    is_short("f (/a/b.c:1) < main (/a/c.c:22)", 9, "f (b.c:1) < main (c.c:22)",
             "a short call stack has file names without folders");
    is_short("operator()(int) (/a/b.cc:1) < g (b.c:2) < lib.so+0x10", 9,
             "operator()(int) (b.cc:1) < g (b.c:2) < lib.so+0x10", "a short call stack keeps all but the folders");
    is_short("f < g < g < g < h < g", 9, "f < g (3 times) < h < g",
             "a short call stack has repeated frames once, with their number");
    is_short("f < g < g < h < i", 3, "f < g (2 times) < h < ...",
             "a short call stack has the innermost of many frames");
    is_short("f < g < g", 2, "f < g (2 times)", "a short call stack without left out frames has no dots");
    is_short("", 2, "", "an empty call stack stays empty");

    is_wrapped("f (b.c:1) < main (c.c:22)", 80, 4, "f (b.c:1) < main (c.c:22)", "a text that fits is one line");
    is_wrapped("f (b.c:1) < g (b.c:2) < main (c.c:22)", 22, 4, "f (b.c:1) < g (b.c:2)\n< main (c.c:22)",
               "lines are broken before frames");
    is_wrapped("one two three four five six", 9, 2, "one two\nthree ...",
               "the last line of a text that is too long ends in dots");
    is_wrapped("abcdefghijkl", 5, 4, "abcde\nfghij\nkl", "a text without blanks is cut anywhere");
    is_wrapped("a\303\244\303\244\303\244", 4, 4, "a\303\244\n\303\244\303\244", "a multibyte letter is not cut");
    return done();
}
