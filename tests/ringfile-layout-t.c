/* Tests that the tables of the ring file's layout in doc/trace.md match the offsets and sizes in the code exactly. */
#include "config.h"

#include "src/trace/ring/ringfile.h"

#include "tap.h"

struct field {
    const char *name;
    size_t offset;
    size_t bytes;
};

#define FIELD(type, name)                                                                                              \
    {                                                                                                                  \
#name, offsetof(struct type, name), sizeof(((struct type *)NULL)->name)                                        \
    }

static const struct field header_fields[] = {
    FIELD(tidei_ring_header, magic),         FIELD(tidei_ring_header, format),
    FIELD(tidei_ring_header, pid),           FIELD(tidei_ring_header, trace_id),
    FIELD(tidei_ring_header, ring_bytes),    FIELD(tidei_ring_header, start_ns),
    FIELD(tidei_ring_header, tsc),           FIELD(tidei_ring_header, ready),
    FIELD(tidei_ring_header, first),         FIELD(tidei_ring_header, lines),
    FIELD(tidei_ring_header, buffers),       FIELD(tidei_ring_header, published),
    FIELD(tidei_ring_header, ring_count),    FIELD(tidei_ring_header, chunk_count),
    FIELD(tidei_ring_header, lost),          FIELD(tidei_ring_header, line),
    FIELD(tidei_ring_header, exited),        FIELD(tidei_ring_header, shift),
    FIELD(tidei_ring_header, shift_before),  FIELD(tidei_ring_header, apart_ticks),
    FIELD(tidei_ring_header, owner),         FIELD(tidei_ring_header, lost_more),
    FIELD(tidei_ring_header, failure_bytes), FIELD(tidei_ring_header, failure),
    FIELD(tidei_ring_header, gauge_bytes),   FIELD(tidei_ring_header, lost_passed),
};

static const struct field gauge_fields[] = {
    FIELD(tidei_gauge, written_ns),      FIELD(tidei_gauge, merged_ns),      FIELD(tidei_gauge, tags_ns),
    FIELD(tidei_gauge, epoch_ns),        FIELD(tidei_gauge, marks),          FIELD(tidei_gauge, lost_allocations),
    FIELD(tidei_gauge, lost_frees),      FIELD(tidei_gauge, late),           FIELD(tidei_gauge, layer_count),
    FIELD(tidei_gauge, layers_left_out), FIELD(tidei_gauge, pool_count),     FIELD(tidei_gauge, pools_left_out),
    FIELD(tidei_gauge, tag_count),       FIELD(tidei_gauge, tags_left_out),  FIELD(tidei_gauge, tags_left_bytes),
    FIELD(tidei_gauge, layers),          FIELD(tidei_gauge, pools),          FIELD(tidei_gauge, tags),
    FIELD(tidei_gauge, alloc_durations), FIELD(tidei_gauge, free_durations),
};

static const struct field gauge_layer_fields[] = {
    FIELD(tidei_gauge_layer, layer_id),   FIELD(tidei_gauge_layer, live_bytes), FIELD(tidei_gauge_layer, live_count),
    FIELD(tidei_gauge_layer, peak_bytes), FIELD(tidei_gauge_layer, peak_ns),    FIELD(tidei_gauge_layer, allocations),
    FIELD(tidei_gauge_layer, frees),      FIELD(tidei_gauge_layer, failures),   FIELD(tidei_gauge_layer, total_bytes),
};

static const struct field gauge_pool_fields[] = {
    FIELD(tidei_gauge_pool, layer_id),
    FIELD(tidei_gauge_pool, used_bytes),
    FIELD(tidei_gauge_pool, reserved_bytes),
    FIELD(tidei_gauge_pool, reserved_high_bytes),
};

static const struct field gauge_tag_fields[] = {
    FIELD(tidei_gauge_tag, layer_id),
    FIELD(tidei_gauge_tag, tag_id),
    FIELD(tidei_gauge_tag, live_bytes),
    FIELD(tidei_gauge_tag, live_count),
};

static const struct field directory_fields[] = {
    FIELD(tidei_ring_directory, rings),
    FIELD(tidei_ring_directory, chunks),
};

static const struct field ring_fields[] = {
    FIELD(tidei_ring, head),           FIELD(tidei_ring, open),
    FIELD(tidei_ring, waits),          FIELD(tidei_ring, longest_wait_ns),
    FIELD(tidei_ring, dropped_allocs), FIELD(tidei_ring, dropped_frees),
    FIELD(tidei_ring, dropped_marks),  FIELD(tidei_ring, told),
    FIELD(tidei_ring, tail),           FIELD(tidei_ring, next_publish),
    FIELD(tidei_ring, next_tail),      FIELD(tidei_ring, state),
    FIELD(tidei_ring, thread_id),
};

static const struct field record_fields[] = {
    FIELD(tidei_record, ticks),        FIELD(tidei_record, duration_check), FIELD(tidei_record, address),
    FIELD(tidei_record, size),         FIELD(tidei_record, stream),         FIELD(tidei_record, tag),
    FIELD(tidei_record, callstack),    FIELD(tidei_record, layer),          FIELD(tidei_record, kind),
    FIELD(tidei_record, status),       FIELD(tidei_record, alignment_log2), FIELD(tidei_record, call_function),
    FIELD(tidei_record, text_records), FIELD(tidei_record, thread),         FIELD(tidei_record, call_span),
};

static const struct field text_fields[] = {
    FIELD(tidei_text_record, text),   FIELD(tidei_text_record, length), FIELD(tidei_text_record, kind),
    FIELD(tidei_text_record, part),   FIELD(tidei_text_record, layer),  FIELD(tidei_text_record, reserved),
    FIELD(tidei_text_record, thread), FIELD(tidei_text_record, check),
};

/* The rows of the table whose first column is called `title` are the fields, each at its offset. */
static void
is_documented(const char *page, const char *title, const struct field *fields, size_t count)
{
    char head[64], line[1024] = "", name[64];
    size_t row = 0, offset, bytes;
    bool on = false, good = true;
    FILE *file = fopen(page, "r");

    snprintf(head, sizeof(head), "| %s | offset | bytes |", title);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, head, strlen(head)) == 0)
            on = true;
        else if (line[0] != '|')
            on = false;
        if (!on || sscanf(line, "| `%63[^`]` | %zu | %zu |", name, &offset, &bytes) != 3)
            continue;
        if (row >= count || strcmp(fields[row].name, name) != 0 || fields[row].offset != offset ||
            fields[row].bytes != bytes) {
            diag("%s: the page has %s at %zu, %zu bytes", title, name, offset, bytes);
            if (row < count)
                diag("the code has %s at %zu, %zu bytes", fields[row].name, fields[row].offset, fields[row].bytes);
            good = false;
        }
        row++;
    }
    if (file != NULL)
        fclose(file);
    ok(all_of(good, row == count), "the page has the %zu fields of the %s, each at its place", count, title);
}

int
main(void)
{
    const char *folder = getenv("top_srcdir");
    char page[4096];

    snprintf(page, sizeof(page), "%s/doc/trace.md", folder != NULL ? folder : ".");
    plan(11);
    is_documented(page, "header", header_fields, sizeof(header_fields) / sizeof(*header_fields));
    is_documented(page, "gauge", gauge_fields, sizeof(gauge_fields) / sizeof(*gauge_fields));
    is_documented(page, "gauge layer", gauge_layer_fields, sizeof(gauge_layer_fields) / sizeof(*gauge_layer_fields));
    is_documented(page, "gauge pool", gauge_pool_fields, sizeof(gauge_pool_fields) / sizeof(*gauge_pool_fields));
    is_documented(page, "gauge tag", gauge_tag_fields, sizeof(gauge_tag_fields) / sizeof(*gauge_tag_fields));
    is_documented(page, "directory", directory_fields, sizeof(directory_fields) / sizeof(*directory_fields));
    is_documented(page, "ring", ring_fields, sizeof(ring_fields) / sizeof(*ring_fields));
    is_documented(page, "record", record_fields, sizeof(record_fields) / sizeof(*record_fields));
    is_documented(page, "text record", text_fields, sizeof(text_fields) / sizeof(*text_fields));
    ok(all_of(TIDEI_PAGE == 4096, TIDEI_RING_PREFIX_BYTES == 167936, TIDEI_GAUGE_BYTES == 28672,
              TIDEI_GAUGE_COPY_BYTES == 12288, offsetof(struct tidei_gauge_pages, copies) == 4096),
       "the gauge page begins at 167936, and its copies are those of the page");
    ok(all_of(TIDEI_CHUNK_BYTES == 1048576, TIDEI_CHUNK_RECORDS == 16384, TIDEI_MAX_RINGS == 4096,
              TIDEI_MAX_CHUNKS == 16384, TIDEI_RING_FORMAT == 5),
       "chunks, the most rings and chunks, and the format are those of the page");
    return done();
}
