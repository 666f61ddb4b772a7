/* A line for each process, as vmstat prints them, and an object of JSON. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/resource/visible.h"
#include "viewer/base/output.h"
#include "viewer/output/json.h"
#include "viewer/watch/watch.h"

#define PLAIN_HEAD_EVERY 20

const char *
watch_process_name(const struct watch_process *process, char *buffer, size_t size)
{
    const char *trace = strrchr(process->base.file.trace, '/');
    size_t length = strcspn(process->base.names.command, " "), begin = 0;
    char name[RUNNING_NAME_BYTES];

    for (size_t i = 0; i < length; i++) {
        if (process->base.names.command[i] == '/')
            begin = i + 1;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(length - begin), process->base.names.command + begin);
    tidei_visible_copy(name[0] != '\0' ? name : trace != NULL ? trace + 1 : process->base.file.trace, buffer, size);
    return buffer;
}

const char *
watch_process_state(const struct watch_process *process, char *buffer, size_t size)
{
    const struct gauge_look *look = &process->base.look;
    struct output_figure behind;

    if (look->state == GAUGE_RECORDING && look->behind_ns > 20000000)
        snprintf(buffer, size, "%s behind", output_time(&behind, (int64_t)look->behind_ns));
    else
        snprintf(buffer, size, "%s", gauge_state_word(look->state));
    return buffer;
}

const char *
watch_count(char *buffer, size_t size, double count)
{
    static const char units[] = " kMGT";
    size_t unit = 0;

    for (; count >= 9999.5 && unit + 1 < sizeof(units) - 1; unit++)
        count /= 1000;
    if (unit == 0)
        snprintf(buffer, size, "%.0f", count);
    else
        snprintf(buffer, size, "%.*f%c", count < 99.95 ? 1 : 0, count, units[unit]);
    return buffer;
}

/* The moment of the look, as the clock on the wall says. */
static void
plain_time(char *buffer, size_t size)
{
    time_t now = time(NULL);
    struct tm local;

    if (localtime_r(&now, &local) == NULL || strftime(buffer, size, "%H:%M:%S", &local) == 0)
        snprintf(buffer, size, "?");
}

static void
plain_line(const struct watch_process *process, const char *when)
{
    const struct tidei_gauge *page = &process->base.page;
    struct output_figure live, peak, reserved;
    char name[64], state[64], allocations[16], frees[16];

    watch_process_name(process, name, sizeof(name));
    watch_process_state(process, state, sizeof(state));
    if (!process->base.was_seen) {
        printf("%-8s %-16.16s %7u %10s %8s %10s %10s %8s %8s %6s %6s %s\n", when, name, process->base.file.pid, "-",
               "-", "-", "-", "-", "-", "-", "-", state);
        return;
    }
    printf("%-8s %-16.16s %7u %10s %8llu %10s %10s %8s %8s %6llu %6llu %s\n", when, name, process->base.file.pid,
           output_size(&live, process->now.live_bytes), (unsigned long long)process->now.live_count,
           output_size(&peak, process->peak_bytes), output_size(&reserved, process->now.reserved_bytes),
           watch_count(allocations, sizeof(allocations), process->allocation_rate),
           watch_count(frees, sizeof(frees), process->free_rate), (unsigned long long)process->now.failures,
           (unsigned long long)(page->lost_allocations + page->lost_frees), state);
}

void
watch_print_plain(const struct watch *watch, uint64_t line)
{
    uint64_t every = watch->found.list_count < PLAIN_HEAD_EVERY
                         ? PLAIN_HEAD_EVERY / (watch->found.list_count + !watch->found.list_count)
                         : 1;
    char when[16];

    plain_time(when, sizeof(when));
    if (line % every == 0)
        printf("%-8s %-16s %7s %10s %8s %10s %10s %8s %8s %6s %6s %s\n", "TIME", "PROGRAM", "PID", "LIVE", "COUNT",
               "PEAK", "RESERVED", "ALLOC/S", "FREE/S", "FAILED", "LOST", "STATE");
    for (size_t i = 0; i < watch->found.list_count; i++)
        plain_line(watch_at(watch, i), when);
    fflush(stdout);
}

static void
plain_json_layers(struct json *json, const struct watch_process *process)
{
    json_key(json, "layers");
    json_begin(json, '[');
    for (size_t i = 0; i < process->base.page.layer_count; i++) {
        const struct tidei_gauge_layer *layer = &process->base.page.layers[i];

        json_begin(json, '{');
        json_put_unsigned(json, "layer_id", layer->layer_id);
        json_put_unsigned(json, "live_bytes", layer->live_bytes);
        json_put_unsigned(json, "live_count", layer->live_count);
        json_put_unsigned(json, "peak_bytes", layer->peak_bytes);
        json_put_unsigned(json, "peak_ns", layer->peak_ns);
        json_put_unsigned(json, "allocations", layer->allocations);
        json_put_unsigned(json, "frees", layer->frees);
        json_put_unsigned(json, "failures", layer->failures);
        json_put_unsigned(json, "total_bytes", layer->total_bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_key(json, "pools");
    json_begin(json, '[');
    for (size_t i = 0; i < process->base.page.pool_count; i++) {
        const struct tidei_gauge_pool *pool = &process->base.page.pools[i];

        json_begin(json, '{');
        json_put_unsigned(json, "layer_id", pool->layer_id);
        json_put_unsigned(json, "used_bytes", pool->used_bytes);
        json_put_unsigned(json, "reserved_bytes", pool->reserved_bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void
plain_json_tags(struct json *json, const struct watch_process *process)
{
    json_key(json, "tags");
    json_begin(json, '[');
    for (size_t i = 0; i < process->base.page.tag_count; i++) {
        const struct tidei_gauge_tag *tag = &process->base.page.tags[i];
        const struct running_tag *known = running_tag(&process->base, tag->tag_id);

        json_begin(json, '{');
        json_put_unsigned(json, "layer_id", tag->layer_id);
        json_key(json, "tag");
        if (known != NULL)
            json_text(json, known->name);
        else
            json_word(json, "null");
        json_put_unsigned(json, "tag_id", tag->tag_id);
        json_put_unsigned(json, "live_bytes", tag->live_bytes);
        json_put_unsigned(json, "live_count", tag->live_count);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void
plain_json_process(struct json *json, const struct watch_process *process)
{
    const struct tidei_gauge *page = &process->base.page;

    json_begin(json, '{');
    json_put_text(json, "trace", process->base.file.trace);
    json_put_text(json, "state", gauge_state_word(process->base.look.state));
    json_put_unsigned(json, "pid", process->base.file.pid);
    json_key(json, "command");
    if (process->base.names.command[0] != '\0')
        json_text(json, process->base.names.command);
    else
        json_word(json, "null");
    json_key(json, "at_ns");
    if (process->base.was_seen)
        json_unsigned(json, page->merged_ns);
    else
        json_word(json, "null");
    json_put_unsigned(json, "tags_ns", page->tags_ns);
    json_put_unsigned(json, "behind_ns", process->base.look.behind_ns);
    json_put_unsigned(json, "lost_events", page->lost_allocations + page->lost_frees);
    json_put_unsigned(json, "marks", page->marks);
    json_put_unsigned(json, "layers_left_out", page->layers_left_out);
    json_put_unsigned(json, "tags_left_out", page->tags_left_out);
    plain_json_layers(json, process);
    plain_json_tags(json, process);
    json_end(json, '}');
}

bool
watch_print_json(const struct watch *watch)
{
    struct emit out;
    struct json json = { .out = &out };

    if (emit_open(&out, NULL, false) != 0)
        return false;
    json_begin(&json, '{');
    json_put_unsigned(&json, "format_version", 1);
    json_key(&json, "processes");
    json_begin(&json, '[');
    for (size_t i = 0; i < watch->found.list_count; i++)
        plain_json_process(&json, watch_at(watch, i));
    json_end(&json, ']');
    json_end(&json, '}');
    emit_string(&out, "\n");
    return emit_close(&out, 0) == 0;
}
