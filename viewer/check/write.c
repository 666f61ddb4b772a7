/* Writes the results of `check` as TAP or JUnit XML. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/check/write.h"
#include "viewer/base/output.h"

#define CHECK_COMPLETE "the recording is complete"

/* In TAP "#" begins a directive. */
static int
write_tap_text(const char *text)
{
    char *clean = output_clean(text);

    if (clean == NULL)
        return -1;
    for (const char *c = clean; *c != '\0'; c++) {
        if (*c == '#')
            putchar('\\');
        putchar(*c);
    }
    free(clean);
    return 0;
}

static int
write_tap_result(const struct check_result *result, size_t number)
{
    char name[256], limit[64], seen[64];
    int status;

    printf("%s %zu - ", result->passed ? "ok" : "not ok", number);
    status = write_tap_text(budget_name(result->budget, name, sizeof(name)));
    printf(": %s of %s allowed\n", check_seen_words(result, seen, sizeof(seen)),
           check_limit_words(result, limit, sizeof(limit)));
    for (size_t i = 0; i < result->line_count && status == 0; i++) {
        char *clean = output_clean(result->lines[i]);

        if (clean == NULL)
            return -1;
        printf("#   %s\n", clean);
        free(clean);
    }
    return status;
}

/* Whether the end of the recording matters to who reads the results. */
static bool
write_says_end(const struct trace *trace)
{
    return trace->end == TRACE_KILLED || trace->end == TRACE_RUNNING;
}

int
check_write_tap(const struct trace *trace, const struct check_result *results, size_t count, const char *incomplete)
{
    int status = 0;

    printf("1..%zu\n", count + (incomplete != NULL));
    if (write_says_end(trace))
        printf("# ended: %s\n", trace_end_word(trace));
    for (size_t i = 0; i < count && status == 0; i++)
        status = write_tap_result(&results[i], i + 1);
    if (incomplete != NULL && status == 0)
        printf("not ok %zu - " CHECK_COMPLETE "\n#   %s\n", count + 1, incomplete);
    return status;
}

static int
write_xml_text(const char *text)
{
    char *clean = output_clean(text);

    if (clean == NULL)
        return -1;
    for (const char *c = clean; *c != '\0'; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", stdout);
            break;
        case '<':
            fputs("&lt;", stdout);
            break;
        case '>':
            fputs("&gt;", stdout);
            break;
        case '"':
            fputs("&quot;", stdout);
            break;
        default:
            putchar(*c);
            break;
        }
    }
    free(clean);
    return 0;
}

/* `  <testcase classname="tidemark" name="..."`, left open. */
static int
write_junit_begin(const char *name)
{
    fputs("  <testcase classname=\"tidemark\" name=\"", stdout);
    if (write_xml_text(name) != 0)
        return -1;
    putchar('"');
    return 0;
}

static int
write_junit_result(const struct check_result *result)
{
    char name[256], limit[64], seen[64];

    if (write_junit_begin(budget_name(result->budget, name, sizeof(name))) != 0)
        return -1;
    if (result->passed) {
        puts("/>");
        return 0;
    }
    printf(">\n    <failure message=\"%s of %s allowed\">\n", check_seen_words(result, seen, sizeof(seen)),
           check_limit_words(result, limit, sizeof(limit)));
    for (size_t i = 0; i < result->line_count; i++) {
        if (write_xml_text(result->lines[i]) != 0)
            return -1;
        putchar('\n');
    }
    puts("    </failure>\n  </testcase>");
    return 0;
}

int
check_write_junit(const struct trace *trace, const struct check_result *results, size_t count, const char *incomplete)
{
    size_t failed = incomplete != NULL;
    int status;

    for (size_t i = 0; i < count; i++)
        failed += !results[i].passed;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"", stdout);
    status = write_xml_text(trace->path);
    printf("\" tests=\"%zu\" failures=\"%zu\">\n", count + (incomplete != NULL), failed);
    if (write_says_end(trace))
        printf("  <properties>\n    <property name=\"ended\" value=\"%s\"/>\n  </properties>\n", trace_end_word(trace));
    for (size_t i = 0; i < count && status == 0; i++)
        status = write_junit_result(&results[i]);
    if (incomplete != NULL && status == 0 && (status = write_junit_begin(CHECK_COMPLETE)) == 0)
        printf(">\n    <failure message=\"%s\"/>\n  </testcase>\n", incomplete);
    puts("</testsuite>");
    return status;
}
