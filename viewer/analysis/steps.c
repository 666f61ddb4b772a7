/* Finds the steps of a program. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/analysis/steps.h"

/* Fewer steps show no growth. */
#define STEPS_LEAST 3

/* With more turns than this, the search gives up. */
#define SWINGS_MAX ((size_t)1 << 20)

/* The first moment of a high or a low. */
struct swings_turn {
    int64_t ns;
    uint64_t bytes;
};

/* Finds the highs and lows of a curve, fed one level at a time. All zeros is the initial state. */
struct swings {
    struct swings_turn *turns; /* owns; alternating highs and lows, a high first */
    size_t count;
    size_t capacity;
    struct swings_turn last; /* the highest or lowest level since the last turn */
    bool falling;            /* `last` is the lowest */
    bool failed;             /* no memory, or too many */
};

static void
swings_free(struct swings *self)
{
    free(self->turns);
    *self = (struct swings){ 0 };
}

static void
swings_add(struct swings *self)
{
    if (self->count >= SWINGS_MAX || !tidei_grow(&self->turns, &self->capacity, self->count, 1)) {
        self->failed = true;
        return;
    }
    self->turns[self->count++] = self->last;
    self->falling = !self->falling;
}

/* The level becomes `bytes`. A change of direction counts if it is at least `swing` bytes. */
static void
swings_level(struct swings *self, int64_t ns, uint64_t bytes, uint64_t swing)
{
    uint64_t low = self->falling ? self->last.bytes : bytes;
    uint64_t high = self->falling ? bytes : self->last.bytes;

    if (high > low && high - low >= swing && !self->failed)
        swings_add(self);
    else if (self->falling ? bytes >= self->last.bytes : bytes <= self->last.bytes)
        return;
    self->last = (struct swings_turn){ ns, bytes };
}

/* The unit that looks for a rhythm. */
struct rhythm {
    struct swings swings;
    uint64_t live_bytes;
    uint64_t peak_bytes;
};

/* The least bytes of a swing. */
static uint64_t
rhythm_swing(uint64_t peak_bytes)
{
    return peak_bytes / 4 + 1;
}

static int
rhythm_begin(void *context)
{
    struct rhythm *rhythm = context;

    swings_free(&rhythm->swings);
    rhythm->live_bytes = rhythm->peak_bytes = 0;
    return COMMAND_FINE;
}

static int
rhythm_alloc(void *context, const struct scan_life *life)
{
    struct rhythm *rhythm = context;

    if (life->status != 0 || life->size > (uint64_t)INT64_MAX - rhythm->live_bytes)
        return COMMAND_FINE;
    rhythm->live_bytes += life->size;
    if (rhythm->live_bytes > rhythm->peak_bytes)
        rhythm->peak_bytes = rhythm->live_bytes;
    /* The final peak is not known yet, so smaller swings are kept, too. */
    swings_level(&rhythm->swings, life->alloc_ns, rhythm->live_bytes, rhythm_swing(rhythm->peak_bytes));
    return COMMAND_FINE;
}

static int
rhythm_free(void *context, const struct scan_life *life)
{
    struct rhythm *rhythm = context;

    rhythm->live_bytes -= life->size < rhythm->live_bytes ? life->size : rhythm->live_bytes;
    swings_level(&rhythm->swings, life->free_ns, rhythm->live_bytes, rhythm_swing(rhythm->peak_bytes));
    return COMMAND_FINE;
}

static const struct scan_unit rhythm_unit = {
    .begin = rhythm_begin,
    .alloc = rhythm_alloc,
    .free = rhythm_free,
};

static int
steps_compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* Count the steps that last between half and twice the median step, and set it. Returns SIZE_MAX without memory. */
static size_t
steps_count_regular(const struct steps *steps, int64_t *median)
{
    size_t count = steps->count - 1;
    size_t regular = 0;
    int64_t middle;
    int64_t *lasted = calloc(count, sizeof(*lasted));

    if (lasted == NULL)
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        lasted[i] = steps->ends[i + 1] - steps->ends[i];
    qsort(lasted, count, sizeof(*lasted), steps_compare);
    middle = lasted[count / 2];
    for (size_t i = 0; i < count; i++)
        regular += lasted[i] >= middle - middle / 2 && lasted[i] / 2 <= middle;
    free(lasted);
    *median = middle;
    return regular;
}

/* Find the lows again, with the swing of the final peak. */
static int
steps_from_swings(const struct view *view, const struct rhythm *rhythm, struct steps *out)
{
    struct swings wide = { 0 };

    for (size_t i = 0; i < rhythm->swings.count; i++)
        swings_level(&wide, rhythm->swings.turns[i].ns, rhythm->swings.turns[i].bytes,
                     rhythm_swing(rhythm->peak_bytes));
    /* The last level may complete a swing, too. */
    swings_level(&wide, rhythm->swings.last.ns, rhythm->swings.last.bytes, rhythm_swing(rhythm->peak_bytes));
    out->ends = calloc(wide.count + 1, sizeof(*out->ends));
    if (out->ends == NULL) {
        swings_free(&wide);
        return trace_broken(&view->trace, "no memory for its steps");
    }
    for (size_t i = 1; i < wide.count; i += 2)
        out->ends[out->count++] = wide.turns[i].ns;
    swings_free(&wide);
    return COMMAND_FINE;
}

/* Judge the lows that were found: they are the steps, or `out->lack` says why not. */
static int
steps_judge(const struct view *view, const struct rhythm *rhythm, struct steps *out)
{
    struct output_figure figure;
    int64_t median = 0;
    size_t regular;

    if (rhythm->swings.failed) {
        snprintf(out->lack, sizeof(out->lack), "what is live turns more than %zu times", SWINGS_MAX);
        return COMMAND_FINE;
    }
    if (out->count <= STEPS_LEAST) {
        snprintf(out->lack, sizeof(out->lack),
                 "what is live has %zu low%s between rises by a quarter of its peak, %s; %d steps take %d", out->count,
                 out->count == 1 ? "" : "s", output_size(&figure, rhythm->peak_bytes), STEPS_LEAST, STEPS_LEAST + 1);
        return COMMAND_FINE;
    }
    regular = steps_count_regular(out, &median);
    if (regular == SIZE_MAX)
        return trace_broken(&view->trace, "no memory for its steps");
    if (regular * 4 >= (out->count - 1) * 3)
        out->source = STEPS_RHYTHM;
    else
        snprintf(
            out->lack, sizeof(out->lack),
            "only %zu of %zu times between lows are between half and twice the median, %s; it takes three quarters",
            regular, out->count - 1, output_time(&figure, median));
    return COMMAND_FINE;
}

static int
steps_from_rhythm(struct view *view, struct steps *out)
{
    struct rhythm rhythm = { 0 };
    struct scan_pass pass = { &rhythm_unit, &rhythm };
    int status = view_scan(view, &pass, 1);

    if (status == COMMAND_FINE && !rhythm.swings.failed)
        status = steps_from_swings(view, &rhythm, out);
    if (status == COMMAND_FINE)
        status = steps_judge(view, &rhythm, out);
    swings_free(&rhythm.swings);
    return status;
}

/* The text that most marks share, without trailing numbers. */
static int
steps_common_text(const struct view *view, char **out)
{
    static const char sql[] = "SELECT rtrim(text, '0123456789') AS word FROM mark"
                              " WHERE kind = 'mark' AND typeof(text) = 'text' AND ns BETWEEN ? AND ?"
                              " GROUP BY word HAVING count(*) > ? ORDER BY count(*) DESC, word LIMIT 1";
    sqlite3_stmt *statement = NULL;
    int code;

    *out = NULL;
    if (sqlite3_prepare_v2(view->trace.db, sql, -1, &statement, NULL) != SQLITE_OK)
        return trace_failed(&view->trace);
    sqlite3_bind_int64(statement, 1, view->filter.from_ns);
    sqlite3_bind_int64(statement, 2, view->filter.to_ns);
    sqlite3_bind_int64(statement, 3, STEPS_LEAST);
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *out = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? COMMAND_FINE : trace_failed(&view->trace);
}

static int
steps_read_marks(const struct view *view, const char *pattern, const char *text, struct steps *out)
{
    static const char sql[] = "SELECT ns, substr(text, length(rtrim(text, '0123456789')) + 1) FROM mark WHERE kind = "
                              "'mark' AND typeof(text) = 'text' AND typeof(ns) ="
                              " 'integer' AND ns BETWEEN ?1 AND ?2 AND CASE WHEN ?3 IS NULL THEN"
                              " rtrim(text, '0123456789') = ?4 ELSE text GLOB ?3 END ORDER BY ns, rowid";
    sqlite3_stmt *statement = NULL;
    size_t capacity = 0, numbers = 0;
    int code;

    if (sqlite3_prepare_v2(view->trace.db, sql, -1, &statement, NULL) != SQLITE_OK)
        return trace_failed(&view->trace);
    sqlite3_bind_int64(statement, 1, view->filter.from_ns);
    sqlite3_bind_int64(statement, 2, view->filter.to_ns);
    sqlite3_bind_text(statement, 3, pattern, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 4, text, -1, SQLITE_STATIC);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *digits = (const char *)sqlite3_column_text(statement, 1);

        if (!tidei_grow(&out->ends, &capacity, out->count, 1) || !tidei_grow(&out->numbers, &numbers, out->count, 1))
            break;
        out->ends[out->count] = sqlite3_column_int64(statement, 0);
        out->numbers[out->count++] =
            digits != NULL && digits[0] != '\0' && strlen(digits) < 19 ? strtoll(digits, NULL, 10) : -1;
    }
    sqlite3_finalize(statement);
    if (code == SQLITE_ROW)
        return trace_broken(&view->trace, "no memory for its steps");
    return code == SQLITE_DONE ? COMMAND_FINE : trace_failed(&view->trace);
}

static int
steps_from_marks(const struct view *view, const char *pattern, struct steps *out)
{
    int status = pattern == NULL ? steps_common_text(view, &out->text) : COMMAND_FINE;

    if (status != COMMAND_FINE || (pattern == NULL && out->text == NULL))
        return status;
    if (pattern != NULL) {
        out->text = strdup(pattern);
        if (out->text == NULL)
            return trace_broken(&view->trace, "no memory for its steps");
    }
    status = steps_read_marks(view, pattern, out->text, out);
    if (out->count > 1)
        out->source = STEPS_MARKS;
    return status;
}

int
steps_find(struct view *view, const char *pattern, struct steps *out)
{
    bool has_marks = trace_has(&view->trace, "mark", "ns kind text");
    int status = COMMAND_FINE;

    memset(out, 0, sizeof(*out));
    if (pattern != NULL && strcmp(pattern, STEPS_OFF) == 0)
        return COMMAND_FINE;
    if (pattern != NULL && strcmp(pattern, STEPS_RHYTHM_ALONE) == 0) {
        pattern = NULL;
        has_marks = false;
    }
    if (pattern != NULL && !has_marks)
        return trace_broken(&view->trace, "it has no marks");
    if (has_marks)
        status = steps_from_marks(view, pattern, out);
    if (status == COMMAND_FINE && pattern != NULL && out->count < 2)
        status = trace_broken(&view->trace, "%zu mark%s this text: steps take two", out->count,
                              out->count == 1 ? " has" : "s have");
    if (status == COMMAND_FINE && out->source == STEPS_NONE)
        status = steps_from_rhythm(view, out);
    if (status != COMMAND_FINE)
        steps_free(out);
    else if (out->source == STEPS_NONE)
        out->count = 0;
    return status;
}

int
steps_find_marks(struct view *view, const char *pattern, struct steps *out)
{
    int status = COMMAND_FINE;

    *out = (struct steps){ .source = STEPS_NONE };
    if (trace_has(&view->trace, "mark", "ns kind text"))
        status = steps_from_marks(view, pattern, out);
    if (status != COMMAND_FINE)
        steps_free(out);
    else if (out->source == STEPS_NONE)
        out->count = 0;
    return status;
}

void
steps_free(struct steps *steps)
{
    free(steps->ends);
    free(steps->numbers);
    free(steps->text);
    *steps = (struct steps){ 0 };
}
