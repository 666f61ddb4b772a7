/* Writes the figures as text: families of samples, in OpenMetrics 1.0 or the text format of Prometheus. */
#include "config.h"

#include <string.h>

#include "viewer/metrics/metrics.h"

enum text_type { TEXT_GAUGE, TEXT_COUNTER, TEXT_HISTOGRAM, TEXT_INFO };

struct text_family;

struct text {
    const struct metrics *metrics;
    struct emit *out;
    enum metrics_format format;
    const struct text_family *family;
    size_t name_length;                      /* of the family */
    uint64_t middles[TIDEI_GAUGE_DURATIONS]; /* of the buckets of durations, twice, in ns */
};

/* A family: the samples of one name stand together. */
struct text_family {
    const char *name; /* without the ending of its type */
    const char *unit; /* with which the name ends; NULL: none */
    enum text_type type;
    const char *help;
    void (*recording)(struct text *text, const struct metrics_recording *recording); /* its samples; or */
    void (*own)(struct text *text);                                                  /* those of the command itself */
};

static const char *
text_ending(enum text_type type)
{
    static const char *const endings[] = {
        [TEXT_GAUGE] = "", [TEXT_COUNTER] = "_total", [TEXT_HISTOGRAM] = "", [TEXT_INFO] = "_info"
    };

    return endings[type];
}

/* The type's word. The format of Prometheus names families as their samples, and has no infos. */
static const char *
text_type_word(const struct text *text)
{
    static const char *const words[] = {
        [TEXT_GAUGE] = "gauge", [TEXT_COUNTER] = "counter", [TEXT_HISTOGRAM] = "histogram", [TEXT_INFO] = "info"
    };
    enum text_type type = text->family->type;

    return words[type == TEXT_INFO && text->format == METRICS_PROMETHEUS ? TEXT_GAUGE : type];
}

static void
text_head_line(struct text *text, const char *what, const char *value)
{
    const struct text_family *family = text->family;

    emit_string(text->out, what);
    emit_string(text->out, family->name);
    if (text->format == METRICS_PROMETHEUS)
        emit_string(text->out, text_ending(family->type));
    emit_bytes(text->out, " ", 1);
    emit_string(text->out, value);
    emit_bytes(text->out, "\n", 1);
}

static void
text_head(struct text *text)
{
    text_head_line(text, "# TYPE ", text_type_word(text));
    if (text->family->unit != NULL && text->format == METRICS_OPENMETRICS)
        text_head_line(text, "# UNIT ", text->family->unit);
    text_head_line(text, "# HELP ", text->family->help);
}

static void
text_span(struct text *text, const struct metrics_recording *recording, struct metrics_span span)
{
    emit_bytes(text->out, recording->text + span.begin, span.length);
}

/* The name and the labels that every sample of a recording has; what follows begins with a comma. */
static void
text_begin(struct text *text, const char *ending, const struct metrics_recording *recording)
{
    emit_bytes(text->out, text->family->name, text->name_length);
    emit_string(text->out, ending);
    emit_bytes(text->out, "{", 1);
    text_span(text, recording, recording->labels);
}

static void
text_end(struct text *text, uint64_t value)
{
    emit_bytes(text->out, "} ", 2);
    emit_unsigned(text->out, value);
    emit_bytes(text->out, "\n", 1);
}

/* Nanoseconds as seconds, with all digits. */
static void
text_seconds(struct text *text, uint64_t ns)
{
    uint64_t rest = ns % 1000000000u;
    char decimals[10] = ".000000000";

    for (size_t i = sizeof(decimals) - 1; rest != 0; rest /= 10)
        decimals[i--] = (char)('0' + rest % 10);
    emit_unsigned(text->out, ns / 1000000000u);
    emit_bytes(text->out, decimals, sizeof(decimals));
}

static void
text_end_seconds(struct text *text, uint64_t ns)
{
    emit_bytes(text->out, "} ", 2);
    text_seconds(text, ns);
    emit_bytes(text->out, "\n", 1);
}

/* A sample of a recording without further labels. */
static void
text_one(struct text *text, const struct metrics_recording *recording, uint64_t value)
{
    text_begin(text, text_ending(text->family->type), recording);
    text_end(text, value);
}

/* A sample with the labels of a layer, a pool or a tag. */
static void
text_of(struct text *text, const struct metrics_recording *recording, struct metrics_span labels, uint64_t value)
{
    text_begin(text, text_ending(text->family->type), recording);
    text_span(text, recording, labels);
    text_end(text, value);
}

/* A sample with a label that needs no escape: ,name="value". */
static void
text_with(struct text *text, const struct metrics_recording *recording, const char *label, uint64_t value)
{
    text_begin(text, text_ending(text->family->type), recording);
    emit_string(text->out, label);
    text_end(text, value);
}

static bool
text_is_up(const struct metrics_recording *recording)
{
    return recording->base.look.state == GAUGE_RECORDING;
}

static void
text_up(struct text *text, const struct metrics_recording *recording)
{
    text_one(text, recording, text_is_up(recording));
}

static void
text_info(struct text *text, const struct metrics_recording *recording)
{
    text_begin(text, text_ending(TEXT_INFO), recording);
    text_span(text, recording, recording->info);
    text_end(text, 1);
}

/* How long ago the figures held; false: the clock was set back to 0 since, by a start of the machine. */
static bool
text_age(const struct metrics_recording *recording, uint64_t *age_ns)
{
    const struct gauge_look *look = &recording->base.look;
    bool known = recording->has_figures && look->now_ns >= look->page.merged_ns;

    *age_ns = !known ? 0 : text_is_up(recording) ? look->behind_ns : look->now_ns - look->page.merged_ns;
    return known;
}

static void
text_dead(struct text *text, const struct metrics_recording *recording)
{
    uint64_t age_ns;

    if (text_is_up(recording) || !text_age(recording, &age_ns))
        return;
    text_begin(text, "", recording);
    text_end_seconds(text, age_ns);
}

static void
text_updated(struct text *text, const struct metrics_recording *recording)
{
    uint64_t age_ns;

    if (!text_age(recording, &age_ns) || age_ns > text->metrics->now_unix_ns)
        return;
    text_begin(text, "", recording);
    text_end_seconds(text, text->metrics->now_unix_ns - age_ns);
}

static void
text_started(struct text *text, const struct metrics_recording *recording)
{
    if (recording->base.names.start_unix_ns == 0)
        return;
    text_begin(text, "", recording);
    text_end_seconds(text, recording->base.names.start_unix_ns);
}

static void
text_limit(struct text *text, const struct metrics_recording *recording)
{
    if (recording->base.names.limit_bytes != RUNNING_NO_LIMIT)
        text_one(text, recording, recording->base.names.limit_bytes);
}

/* text_NAME: a figure of each layer, or of each pool. */
#define TEXT_EACH(name, list, field)                                                                                   \
    static void text_##name(struct text *text, const struct metrics_recording *recording)                              \
    {                                                                                                                  \
        const struct tidei_gauge *page = &recording->base.page;                                                        \
                                                                                                                       \
        for (size_t i = 0; recording->has_figures && i < page->list##_count; i++)                                      \
            text_of(text, recording, recording->list##s[i], page->list##s[i].field);                                   \
    }

TEXT_EACH(live_bytes, layer, live_bytes)
TEXT_EACH(live_count, layer, live_count)
TEXT_EACH(peak_bytes, layer, peak_bytes)
TEXT_EACH(allocations, layer, allocations)
TEXT_EACH(frees, layer, frees)
TEXT_EACH(failures, layer, failures)
TEXT_EACH(total_bytes, layer, total_bytes)
TEXT_EACH(used, pool, used_bytes)
TEXT_EACH(reserved, pool, reserved_bytes)

static void
text_reserved_high(struct text *text, const struct metrics_recording *recording)
{
    const struct tidei_gauge *page = &recording->base.page;

    for (size_t i = 0; recording->has_figures && i < page->pool_count; i++) {
        if (page->pools[i].reserved_high_bytes != 0)
            text_of(text, recording, recording->pools[i], page->pools[i].reserved_high_bytes);
    }
}

static void
text_tag(struct text *text, const struct metrics_recording *recording, const struct metrics_tag *tag, uint64_t value)
{
    text_begin(text, "", recording);
    text_span(text, recording, tag->layer);
    text_span(text, recording, tag->tag);
    text_end(text, value);
}

static void
text_tag_bytes(struct text *text, const struct metrics_recording *recording)
{
    for (size_t i = 0; recording->has_figures && i < recording->tag_count; i++)
        text_tag(text, recording, &recording->tags[i], recording->tags[i].live_bytes);
}

static void
text_tag_count(struct text *text, const struct metrics_recording *recording)
{
    for (size_t i = 0; recording->has_figures && i < recording->tag_count; i++)
        text_tag(text, recording, &recording->tags[i], recording->tags[i].live_count);
}

static void
text_lost(struct text *text, const struct metrics_recording *recording)
{
    if (!recording->has_figures)
        return;
    text_with(text, recording, ",event=\"allocation\"", recording->base.page.lost_allocations);
    text_with(text, recording, ",event=\"free\"", recording->base.page.lost_frees);
}

static void
text_marks(struct text *text, const struct metrics_recording *recording)
{
    if (recording->has_figures)
        text_one(text, recording, recording->base.page.marks);
}

/* What there is none of is not told: most recordings have room for all. */
static void
text_left_out(struct text *text, const struct metrics_recording *recording)
{
    const struct tidei_gauge *page = &recording->base.page;
    uint64_t tags = (uint64_t)page->tags_left_out + page->tag_count - recording->tag_count;

    if (!recording->has_figures)
        return;
    if (page->layers_left_out != 0)
        text_with(text, recording, ",what=\"layers\"", page->layers_left_out);
    if (page->pools_left_out != 0)
        text_with(text, recording, ",what=\"pools\"", page->pools_left_out);
    if (tags != 0)
        text_with(text, recording, ",what=\"tags\"", tags);
}

/* Bounds of the histogram: powers of 4 ns, each the begin of a bucket of the page. */
static const struct {
    unsigned bucket;
    const char *label; /* of OpenMetrics: the number in its canonical form */
} text_bounds[] = {
#define TEXT_BOUND(log2, seconds)                                                                                      \
    {                                                                                                                  \
        4 * ((log2)-1), ",le=\"" seconds "\""                                                                          \
    }
    TEXT_BOUND(8, "2.56e-07"),     TEXT_BOUND(10, "1.024e-06"),   TEXT_BOUND(12, "4.096e-06"),
    TEXT_BOUND(14, "1.6384e-05"),  TEXT_BOUND(16, "6.5536e-05"),  TEXT_BOUND(18, "0.000262144"),
    TEXT_BOUND(20, "0.001048576"), TEXT_BOUND(22, "0.004194304"), TEXT_BOUND(24, "0.016777216"),
    TEXT_BOUND(26, "0.067108864"), TEXT_BOUND(28, "0.268435456"), TEXT_BOUND(30, "1.073741824"),
    TEXT_BOUND(32, "4.294967296"),
#undef TEXT_BOUND
};

#define TEXT_BOUNDS (sizeof(text_bounds) / sizeof(text_bounds[0]))

static void
text_histogram_sample(struct text *text, const struct metrics_recording *recording, const char *ending,
                      const char *operation, const char *bound)
{
    text_begin(text, ending, recording);
    emit_string(text->out, operation);
    emit_string(text->out, bound);
}

/* The page counts calls and does not sum them: the sum is that of the middles of its buckets. */
static void
text_histogram(struct text *text, const struct metrics_recording *recording, const char *operation,
               const uint64_t *durations)
{
    uint64_t calls = 0, twice_ns = 0;
    unsigned bucket = 0;

    for (size_t i = 0; i <= TEXT_BOUNDS; i++) {
        unsigned end = i < TEXT_BOUNDS ? text_bounds[i].bucket : TIDEI_GAUGE_DURATIONS;

        for (; bucket < end; bucket++) {
            calls += durations[bucket];
            twice_ns += durations[bucket] * text->middles[bucket];
        }
        text_histogram_sample(text, recording, "_bucket", operation,
                              i < TEXT_BOUNDS ? text_bounds[i].label : ",le=\"+Inf\"");
        text_end(text, calls);
    }
    text_histogram_sample(text, recording, "_count", operation, "");
    text_end(text, calls);
    text_histogram_sample(text, recording, "_sum", operation, "");
    text_end_seconds(text, twice_ns / 2);
}

static void
text_calls(struct text *text, const struct metrics_recording *recording)
{
    if (!recording->has_figures || text->metrics->no_durations)
        return;
    text_histogram(text, recording, ",op=\"allocate\"", recording->base.page.alloc_durations);
    text_histogram(text, recording, ",op=\"free\"", recording->base.page.free_durations);
}

static void
text_own(struct text *text, const char *label, uint64_t value)
{
    emit_string(text->out, text->family->name);
    emit_bytes(text->out, "{", 1);
    emit_string(text->out, label);
    text_end(text, value);
}

static void
text_own_recordings(struct text *text)
{
    uint64_t up = 0;

    for (size_t i = 0; i < text->metrics->found.list_count; i++) {
        const struct metrics_recording *recording = metrics_at(text->metrics, i);

        up += recording->is_shown && text_is_up(recording);
    }
    text_own(text, "up=\"yes\"", up);
    text_own(text, "up=\"no\"", text->metrics->shown - up);
}

static void
text_own_absent(struct text *text)
{
    static const char *const labels[METRICS_ABSENCES] = { [METRICS_TWICE] = "reason=\"twice\"",
                                                          [METRICS_WAITING] = "reason=\"names not read yet\"",
                                                          [METRICS_OVER] = "reason=\"too many\"" };

    for (size_t i = 0; i < METRICS_ABSENCES; i++)
        text_own(text, labels[i], text->metrics->absent[i]);
}

/* A folder that is named twice is one series. */
static bool
text_is_again(const struct running_list *found, int place)
{
    for (int i = 0; i < place; i++) {
        if (found->folders[i].is_folder && strcmp(found->arguments[i], found->arguments[place]) == 0)
            return true;
    }
    return false;
}

static void
text_own_folders(struct text *text)
{
    const struct running_list *found = &text->metrics->found;

    for (int i = 0; i < found->count; i++) {
        if (!found->folders[i].is_folder || text_is_again(found, i))
            continue;
        emit_string(text->out, text->family->name);
        emit_string(text->out, "{folder=\"");
        metrics_put_label_text(text->out, found->arguments[i]);
        emit_bytes(text->out, "\"", 1);
        text_end(text, found->folders[i].error == 0);
    }
}

static void
text_own_gather(struct text *text)
{
    emit_string(text->out, text->family->name);
    emit_bytes(text->out, " ", 1);
    text_seconds(text, text->metrics->gather_ns);
    emit_bytes(text->out, "\n", 1);
}

/* doc/metrics.md has the same names; tests/metrics-t.sh compares them. */
static const struct text_family text_families[] = {
    { "tidemark_up", NULL, TEXT_GAUGE, "1: the recording goes on; 0: killed, failed, or its figures cannot be read",
      text_up, NULL },
    { "tidemark_recording", NULL, TEXT_INFO, "What is known of the recording", text_info, NULL },
    { "tidemark_dead_seconds", "seconds", TEXT_GAUGE,
      "How long ago a recording that was killed or has failed last had news", text_dead, NULL },
    { "tidemark_updated_timestamp_seconds", "seconds", TEXT_GAUGE, "The figures of the recording are of this moment",
      text_updated, NULL },
    { "tidemark_start_timestamp_seconds", "seconds", TEXT_GAUGE, "When the recording has begun", text_started, NULL },
    { "tidemark_limit_bytes", "bytes", TEXT_GAUGE, "The least of the limits of the stack", text_limit, NULL },
    { "tidemark_live_bytes", "bytes", TEXT_GAUGE, "Bytes of live allocations", text_live_bytes, NULL },
    { "tidemark_live_allocations", NULL, TEXT_GAUGE, "Allocations that are live", text_live_count, NULL },
    { "tidemark_peak_bytes", "bytes", TEXT_GAUGE, "The most bytes that were live at once", text_peak_bytes, NULL },
    { "tidemark_allocations", NULL, TEXT_COUNTER, "Allocations that succeeded", text_allocations, NULL },
    { "tidemark_frees", NULL, TEXT_COUNTER, "Frees of allocations", text_frees, NULL },
    { "tidemark_failures", NULL, TEXT_COUNTER, "Allocations that failed", text_failures, NULL },
    { "tidemark_allocated_bytes", "bytes", TEXT_COUNTER, "Bytes of all allocations", text_total_bytes, NULL },
    { "tidemark_used_bytes", "bytes", TEXT_GAUGE, "Bytes in use, as the base or suballocator says", text_used, NULL },
    { "tidemark_reserved_bytes", "bytes", TEXT_GAUGE, "Bytes that the base or suballocator holds", text_reserved,
      NULL },
    { "tidemark_reserved_peak_bytes", "bytes", TEXT_GAUGE, "The most bytes that the base or suballocator has held",
      text_reserved_high, NULL },
    { "tidemark_tag_live_bytes", "bytes", TEXT_GAUGE, "Bytes of live allocations of the largest tags", text_tag_bytes,
      NULL },
    { "tidemark_tag_live_allocations", NULL, TEXT_GAUGE, "Live allocations of the largest tags", text_tag_count, NULL },
    { "tidemark_lost_events", NULL, TEXT_COUNTER, "Events that could not be recorded", text_lost, NULL },
    { "tidemark_marks", NULL, TEXT_COUNTER, "Marks", text_marks, NULL },
    { "tidemark_left_out", NULL, TEXT_GAUGE, "Layers, pools and tags that are not among these samples", text_left_out,
      NULL },
    { "tidemark_call_seconds", "seconds", TEXT_HISTOGRAM,
      "Calls by duration; the sum is that of the middles of 128 buckets", text_calls, NULL },
    { "tidemark_metrics_recordings", NULL, TEXT_GAUGE, "Recordings among these samples", NULL, text_own_recordings },
    { "tidemark_metrics_absent_recordings", NULL, TEXT_GAUGE, "Recordings that are not among these samples", NULL,
      text_own_absent },
    { "tidemark_metrics_folder_readable", NULL, TEXT_GAUGE,
      "1: the folder was looked through; 0: it cannot be read, and new recordings in it are not seen", NULL,
      text_own_folders },
    { "tidemark_metrics_gather_seconds", "seconds", TEXT_GAUGE, "How long it took to look at the recordings", NULL,
      text_own_gather },
};

const char *
metrics_media_type(enum metrics_format format)
{
    return format == METRICS_PROMETHEUS ? "text/plain; version=0.0.4; charset=utf-8"
                                        : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

static void
text_find_middles(struct text *text)
{
    for (unsigned i = 0; i < TIDEI_GAUGE_DURATIONS; i++) {
        uint64_t begin_ns = tidei_gauge_bucket_ns(i);
        uint64_t end_ns = i + 1 < TIDEI_GAUGE_DURATIONS ? tidei_gauge_bucket_ns(i + 1) : begin_ns + 1;

        text->middles[i] = begin_ns + end_ns - 1;
    }
}

void
metrics_write(const struct metrics *metrics, enum metrics_format format, struct emit *out)
{
    struct text text = { .metrics = metrics, .out = out, .format = format };

    text_find_middles(&text);
    for (size_t i = 0; i < sizeof(text_families) / sizeof(text_families[0]); i++) {
        text.family = &text_families[i];
        text.name_length = strlen(text.family->name);
        text_head(&text);
        if (text.family->own != NULL)
            text.family->own(&text);
        for (size_t k = 0; text.family->recording != NULL && k < metrics->found.list_count; k++) {
            if (metrics_at(metrics, k)->is_shown)
                text.family->recording(&text, metrics_at(metrics, k));
        }
    }
    if (format == METRICS_OPENMETRICS)
        emit_string(out, "# EOF\n");
}
