/* The result of a budget: its figures, and the lines that explain it. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/check/result.h"

void
check_say(struct check_result *out, const char *format, ...)
{
    va_list arguments;
    char *line = NULL;

    va_start(arguments, format);
    if (out->line_count < CHECK_LINES && vasprintf(&line, format, arguments) >= 0)
        out->lines[out->line_count++] = line;
    va_end(arguments);
}

const char *
check_over(const struct check_result *result, char *buffer, size_t size)
{
    double over_share = result->limit > 0 ? (double)(result->seen - result->limit) / (double)result->limit : 0;
    struct output_figure over, limit;
    char share[32] = "";

    if (over_share >= 0.0005)
        snprintf(share, sizeof(share), " (%.1f%%)", 100 * over_share);
    snprintf(buffer, size, "%s%s over the %s allowed", output_size(&over, result->seen - result->limit), share,
             output_size_beside(&limit, result->limit, result->seen));
    return buffer;
}

int
check_measured(struct check_result *out, uint64_t seen)
{
    out->seen = seen;
    out->passed = seen <= out->limit;
    return COMMAND_FINE;
}

void
check_free(struct check_result *result)
{
    for (size_t i = 0; i < result->line_count; i++)
        free(result->lines[i]);
    result->line_count = 0;
}

bool
check_is_share(const struct check_result *result)
{
    return result->budget->kind == BUDGET_FRAGMENTATION || result->budget->kind == BUDGET_SKEW;
}

static const char *
check_words(const struct check_result *result, uint64_t number, uint64_t other, double share, char *buffer, size_t size)
{
    struct output_figure figure;
    enum budget_kind kind = result->budget->kind;

    /* The file of a job has the bytes that leak, and not how many allocations they are. */
    if (kind == BUDGET_LEAKS && result->is_of_job)
        kind = BUDGET_PEAK;
    switch (kind) {
    case BUDGET_PEAK:
    case BUDGET_RESERVED:
    case BUDGET_BASELINE:
    case BUDGET_GROWTH:
        snprintf(buffer, size, "%s", output_size_beside(&figure, number, other));
        break;
    case BUDGET_FRAGMENTATION:
    case BUDGET_SKEW:
        snprintf(buffer, size, "%.1f%%", 100 * share);
        break;
    default:
        snprintf(buffer, size, "%" PRIu64, number);
        break;
    }
    return buffer;
}

const char *
check_limit_words(const struct check_result *result, char *buffer, size_t size)
{
    return check_words(result, result->limit, result->seen_unknown ? result->limit : result->seen,
                       result->budget->share, buffer, size);
}

const char *
check_seen_words(const struct check_result *result, char *buffer, size_t size)
{
    if (result->seen_unknown)
        return "-";
    return check_words(result, result->seen, result->limit, result->seen_share, buffer, size);
}

const char *
check_word(const struct check_result *result)
{
    return result->passed ? "ok" : result->unknown ? "UNKNOWN" : "FAILED";
}
