/* Writes the results of `check` as TAP or JUnit XML. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/check/check.h"
#include "viewer/base/shown.h"

#define CHECK_COMPLETE        "the recording is complete"
#define CHECK_BASELINE        "the recording of the baseline is complete"
#define CHECK_BASELINE_REASON "what is compared with it may be too low"

/* The text to print for a character. A list of them ends with the character 0. */
struct write_escape {
    char character;
    const char *text;
};

static const struct write_escape tap_escapes[] = { { '#', "\\#" }, { 0, NULL } }; /* "#" begins a directive */
static const struct write_escape comment_escapes[] = { { 0, NULL } };
static const struct write_escape xml_escapes[] = {
    { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { 0, NULL },
};

static int
write_text(const char *text, const struct write_escape *escapes)
{
    char *clean = shown_copy(text);

    if (clean == NULL)
        return -1;
    for (const char *c = clean; *c != '\0'; c++) {
        const struct write_escape *escape = escapes;

        while (escape->character != '\0' && escape->character != *c)
            escape++;
        if (escape->character != '\0')
            fputs(escape->text, stdout);
        else
            putchar(*c);
    }
    free(clean);
    return 0;
}

static size_t
lacks_count(const struct check_lacks *lacks)
{
    return (size_t)(lacks->recording != NULL) + lacks->baseline;
}

/* The figure of a budget, with a word before it where the trace does not tell all. Returns `buffer`. */
static const char *
write_seen(const struct check_result *result, char *buffer, size_t size)
{
    bool is_whole = result->budget->kind == BUDGET_LEAKS || result->budget->kind == BUDGET_BASELINE;
    char seen[64];
    const char *words = check_seen_words(result, seen, sizeof(seen));

    if (!result->unknown)
        snprintf(buffer, size, "%s", words);
    else if (result->seen_unknown)
        snprintf(buffer, size, "unknown");
    else
        snprintf(buffer, size, "unknown, %s%s", is_whole ? "" : "at least ", words);
    return buffer;
}

static int
write_tap_result(const struct check_result *result, size_t number)
{
    char name[256], limit[64], seen[96];
    int status;

    printf("%s %zu - ", result->passed ? "ok" : "not ok", number);
    status = write_text(budget_name(result->budget, name, sizeof(name)), tap_escapes);
    printf(": %s of %s allowed\n", write_seen(result, seen, sizeof(seen)),
           check_limit_words(result, limit, sizeof(limit)));
    for (size_t i = 0; i < result->line_count && status == 0; i++) {
        fputs("#   ", stdout);
        status = write_text(result->lines[i], comment_escapes);
        putchar('\n');
    }
    return status;
}

int
check_write_tap(const struct trace *trace, const struct check_result *results, size_t count,
                const struct check_lacks *lacks)
{
    int status = 0;

    printf("1..%zu\n", count + lacks_count(lacks));
    if (trace_is_cut(trace))
        printf("# ended: %s\n", trace_end_word(trace));
    for (size_t i = 0; i < count && status == 0; i++)
        status = write_tap_result(&results[i], i + 1);
    if (lacks->recording != NULL && status == 0)
        printf("not ok %zu - " CHECK_COMPLETE "\n#   %s\n", count + 1, lacks->recording);
    if (lacks->baseline && status == 0)
        printf("not ok %zu - " CHECK_BASELINE "\n#   " CHECK_BASELINE_REASON "\n", count + lacks_count(lacks));
    return status;
}

/* `  <testcase classname="tidemark" name="..."`, left open. */
static int
write_junit_begin(const char *name)
{
    fputs("  <testcase classname=\"tidemark\" name=\"", stdout);
    if (write_text(name, xml_escapes) != 0)
        return -1;
    putchar('"');
    return 0;
}

static int
write_junit_result(const struct check_result *result)
{
    char name[256], limit[64], seen[96];

    if (write_junit_begin(budget_name(result->budget, name, sizeof(name))) != 0)
        return -1;
    if (result->passed) {
        puts("/>");
        return 0;
    }
    printf(">\n    <failure message=\"%s of %s allowed\">\n", write_seen(result, seen, sizeof(seen)),
           check_limit_words(result, limit, sizeof(limit)));
    for (size_t i = 0; i < result->line_count; i++) {
        if (write_text(result->lines[i], xml_escapes) != 0)
            return -1;
        putchar('\n');
    }
    puts("    </failure>\n  </testcase>");
    return 0;
}

static int
write_junit_lack(const char *name, const char *why)
{
    if (write_junit_begin(name) != 0)
        return -1;
    printf(">\n    <failure message=\"%s\"/>\n  </testcase>\n", why);
    return 0;
}

int
check_write_junit(const struct trace *trace, const struct check_result *results, size_t count,
                  const struct check_lacks *lacks)
{
    size_t failed = lacks_count(lacks);
    int status;

    for (size_t i = 0; i < count; i++)
        failed += !results[i].passed;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"", stdout);
    status = write_text(trace->path, xml_escapes);
    printf("\" tests=\"%zu\" failures=\"%zu\">\n", count + lacks_count(lacks), failed);
    if (trace_is_cut(trace))
        printf("  <properties>\n    <property name=\"ended\" value=\"%s\"/>\n  </properties>\n", trace_end_word(trace));
    for (size_t i = 0; i < count && status == 0; i++)
        status = write_junit_result(&results[i]);
    if (lacks->recording != NULL && status == 0)
        status = write_junit_lack(CHECK_COMPLETE, lacks->recording);
    if (lacks->baseline && status == 0)
        status = write_junit_lack(CHECK_BASELINE, CHECK_BASELINE_REASON);
    puts("</testsuite>");
    return status;
}
