/* Draws the screen of `tidemark watch`. */
#include "config.h"

#ifdef HAVE_NCURSESW
#include <curses.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "src/resource/visible.h"
#include "viewer/base/output.h"
#include "viewer/watch/draw.h"

#define DRAW_CHART_MARGIN 10
#define DRAW_CHART_MOST   14 /* rows */
#define DRAW_COLUMNS_MOST 512
#define DRAW_TWO_TABLES   76 /* columns from which on layers and tags stand side by side */

/* Write a text into so many columns; what has no room is cut behind a whole character. */
static void
draw_put(int row, int column, int width, const char *text)
{
    mbstate_t state = { 0 };
    size_t left = strlen(text), taken = 0;
    int used = 0;

    if (row >= LINES || column >= COLS)
        return;
    width = width < COLS - column ? width : COLS - column;
    while (left > 0) {
        wchar_t character;
        size_t bytes = mbrtowc(&character, text + taken, left, &state);
        int columns = bytes > 0 && bytes <= left ? wcwidth(character) : 1;

        if (bytes == 0 || bytes > left) {
            bytes = 1;
            state = (mbstate_t){ 0 };
        }
        if (used + (columns > 0 ? columns : 0) > width)
            break;
        used += columns > 0 ? columns : 0;
        taken += bytes;
        left -= bytes;
    }
    mvaddnstr(row, column, text, (int)taken);
}

static void __attribute__((format(printf, 4, 5))) draw_format(int row, int column, int width, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    draw_put(row, column, width, text);
}

const char *
draw_sort_word(enum draw_sort sort)
{
    static const char *const words[DRAW_SORTS] = { "live bytes", "count", "peak", "rate", "name" };

    return words[sort];
}

const char *
draw_by_word(enum watch_by by)
{
    static const char *const words[WATCH_BYS] = { "TAG", "THREAD", "STREAM" };

    return words[by];
}

/* "00:12:44" */
static const char *
draw_clock(char *buffer, size_t size, uint64_t ns)
{
    uint64_t seconds = ns / 1000000000;

    snprintf(buffer, size, "%02llu:%02llu:%02llu", (unsigned long long)(seconds / 3600),
             (unsigned long long)(seconds / 60 % 60), (unsigned long long)(seconds % 60));
    return buffer;
}

/* "3 s", "12 min": how long ago. */
static const char *
draw_ago(char *buffer, size_t size, uint64_t ns)
{
    uint64_t seconds = ns / 1000000000;

    if (seconds < 120)
        snprintf(buffer, size, "%llu s ago", (unsigned long long)seconds);
    else if (seconds < 7200)
        snprintf(buffer, size, "%llu min ago", (unsigned long long)(seconds / 60));
    else
        snprintf(buffer, size, "%llu h ago", (unsigned long long)(seconds / 3600));
    return buffer;
}

/* A bar of a share, in eighths of a column where the locale has the signs. */
static void
draw_bar(int row, int column, int width, double share)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    bool ascii = output_is_ascii();
    int parts, full;

    share = share < 0 || isnan(share) ? 0 : share > 1 ? 1 : share;
    parts = (int)(share * width * 8 + 0.5);
    full = parts / 8;
    for (int i = 0; i < width; i++) {
        if (i < full)
            draw_put(row, column + i, 1, ascii ? "#" : "█");
        else if (i == full && parts % 8 != 0)
            draw_put(row, column + i, 1, ascii ? "+" : eighths[parts % 8]);
        else
            draw_put(row, column + i, 1, ascii ? " " : "·");
    }
}

static void
draw_head(const struct draw_state *state)
{
    const struct watch_process *process = state->process;
    char name[64], word[64], clock[16], host[64];

    tidei_visible_copy(process->base.names.hostname, host, sizeof(host));
    draw_format(0, 0, COLS, "%s  pid %u  %s  %s   %s, %llu lost%s", watch_process_name(process, name, sizeof(name)),
                process->base.file.pid, host, draw_clock(clock, sizeof(clock), process->base.look.now_ns),
                watch_process_state(process, word, sizeof(word)),
                (unsigned long long)(process->base.page.lost_allocations + process->base.page.lost_frees),
                state->is_frozen ? "  FROZEN" : "");
    if (COLS >= 60)
        draw_put(0, COLS - 12, 12, " [q]uit [?] ");
}

static void
draw_figures(const struct draw_state *state)
{
    const struct watch_process *process = state->process;
    const struct watch_sample *now = &process->now;
    struct output_figure live, peak, reserved, limit, rate, half, most;
    char ago[32] = "", allocations[16], frees[16];
    bool limited = process->base.names.limit_bytes != RUNNING_NO_LIMIT;
    uint64_t whole = limited ? process->base.names.limit_bytes : process->peak_bytes;

    if (process->peak_ns != 0 && process->base.look.now_ns > process->peak_ns)
        draw_ago(ago, sizeof(ago), process->base.look.now_ns - process->peak_ns);
    draw_format(1, 0, COLS, "live     %-10s", output_size(&live, now->live_bytes));
    if (COLS >= 60)
        draw_bar(1, 20, 20, whole != 0 ? (double)now->live_bytes / (double)whole : 0);
    draw_format(1, COLS >= 60 ? 41 : 20, COLS, "%s%s  %s %s %s", limited ? "of limit " : "of the peak",
                limited ? output_size(&limit, process->base.names.limit_bytes) : "",
                process->outermost > 1 ? "peaks" : "peak", output_size(&peak, process->peak_bytes), ago);
    draw_format(2, 0, COLS, "reserved %-10s", output_size(&reserved, now->reserved_bytes));
    if (now->reserved_bytes != 0 && now->live_bytes <= now->reserved_bytes)
        draw_format(2, 20, COLS, "utilisation %.0f%%  unused %.0f%%",
                    100 * (double)now->live_bytes / (double)now->reserved_bytes,
                    100 - 100 * (double)now->live_bytes / (double)now->reserved_bytes);
    draw_format(3, 0, COLS, "rate     %s alloc/s %s free/s %s/s failures %llu p50 %s p99 %s",
                watch_count(allocations, sizeof(allocations), process->allocation_rate),
                watch_count(frees, sizeof(frees), process->free_rate), output_size(&rate, (uint64_t)process->byte_rate),
                (unsigned long long)now->failures, output_time(&half, (int64_t)process->median_ns),
                output_time(&most, (int64_t)process->most_ns));
}

/* The columns of the picture: each has the most of its part of the time. */
struct draw_chart {
    uint64_t live[DRAW_COLUMNS_MOST], reserved[DRAW_COLUMNS_MOST];
    bool marked[DRAW_COLUMNS_MOST];
    uint64_t top;
    int columns; /* of dots */
};

static void
draw_fill_chart(struct draw_chart *chart, const struct watch_process *process)
{
    uint64_t end = process->now.ns;
    int last = chart->columns;

    for (size_t back = 0; back < process->count && last > 0; back++) {
        const struct watch_sample *sample = watch_sample_at(process, back);
        uint64_t age = end > sample->ns ? end - sample->ns : 0;
        int column = chart->columns - 1 - (int)(age * (uint64_t)chart->columns / WATCH_SPAN_NS);

        if (column < 0)
            column = 0;
        /* What was so stays so until the next sample. */
        for (int i = column; i < last || i == column; i++) {
            if (sample->live_bytes > chart->live[i])
                chart->live[i] = sample->live_bytes;
            if (sample->reserved_bytes > chart->reserved[i])
                chart->reserved[i] = sample->reserved_bytes;
        }
        chart->marked[column] |= sample->is_marked;
        last = column;
        if (age > WATCH_SPAN_NS)
            break;
    }
    for (int i = 0; i < chart->columns; i++) {
        chart->top = chart->live[i] > chart->top ? chart->live[i] : chart->top;
        chart->top = chart->reserved[i] > chart->top ? chart->reserved[i] : chart->top;
    }
}

/* Bytes as dots above the bottom. A figure above 0 has one. */
static int
draw_dots(const struct draw_chart *chart, uint64_t bytes, int rows)
{
    int dots = chart->top != 0 ? (int)((double)bytes / (double)chart->top * rows * 4 + 0.5) : 0;

    return dots == 0 && bytes != 0 ? 1 : dots;
}

/* A cell of 2 x 4 dots: what is live is filled, what is reserved a line of every other dot. */
static void
draw_cell(const struct draw_chart *chart, int rows, int row, int cell, bool ascii, char text[8])
{
    static const unsigned char bits[2][4] = { { 0x40, 0x04, 0x02, 0x01 }, { 0x80, 0x20, 0x10, 0x08 } };
    unsigned pattern = 0;

    for (int side = 0; side < 2; side++) {
        int live = draw_dots(chart, chart->live[2 * cell + side], rows);
        int reserved = draw_dots(chart, chart->reserved[2 * cell + side], rows);

        for (int dot = 0; dot < 4; dot++) {
            int height = (rows - 1 - row) * 4 + dot;

            if (height < live || (side == 0 && reserved > live && height == reserved - 1))
                pattern |= bits[side][dot];
        }
    }
    if (pattern == 0)
        snprintf(text, 8, "%s", chart->marked[2 * cell] || chart->marked[2 * cell + 1] ? ascii ? "|" : "│" : " ");
    else if (ascii)
        snprintf(text, 8, "%s", (pattern & 0xc0) != 0 && (pattern & 0x09) == 0 ? ":" : "#");
    else
        snprintf(text, 8, "%c%c%c", 0xe2, 0xa0 | pattern >> 6, 0x80 | (pattern & 0x3f));
}

static void
draw_picture(const struct draw_state *state, int row, int rows)
{
    int cells = COLS - DRAW_CHART_MARGIN < DRAW_COLUMNS_MOST / 2 ? COLS - DRAW_CHART_MARGIN : DRAW_COLUMNS_MOST / 2;
    struct draw_chart chart = { .columns = 2 * cells };
    struct output_figure top;
    bool ascii = output_is_ascii();

    if (cells < 4)
        return;
    draw_fill_chart(&chart, state->process);
    draw_format(row, 0, DRAW_CHART_MARGIN - 1, "%9s", output_size(&top, chart.top));
    draw_format(row + rows - 1, 0, DRAW_CHART_MARGIN - 1, "%9s", rows > 1 ? "0" : "");
    for (int y = 0; y < rows; y++) {
        draw_put(row + y, DRAW_CHART_MARGIN - 1, 1, ascii ? "|" : "┤");
        for (int cell = 0; cell < cells; cell++) {
            char text[8];

            draw_cell(&chart, rows, y, cell, ascii, text);
            draw_put(row + y, DRAW_CHART_MARGIN + cell, 1, text);
        }
    }
}

/* The recorded layers, then what bases and suballocators say. */
static void
draw_layers(const struct draw_state *state, int row, int rows, int width)
{
    const struct watch_process *process = state->process;
    const struct tidei_gauge *page = &process->base.page;
    struct output_figure live, peak;
    int line = row + 1;

    attron(A_BOLD);
    draw_format(row, 0, width, "%-14s %10s %5s %10s  %s", "LAYER", "LIVE", "COUNT", "PEAK", "FAILED");
    attroff(A_BOLD);
    for (size_t i = 0; i < page->layer_count && line < row + rows; i++, line++) {
        const struct tidei_gauge_layer *layer = &page->layers[i];
        const struct running_layer *known = running_layer(&process->base, (uint32_t)layer->layer_id);
        char name[64], count[16];

        snprintf(name, sizeof(name), "%llu", (unsigned long long)layer->layer_id);
        draw_format(line, 0, width, "%-14.14s %10s %5s %10s  %6llu", known != NULL ? known->name : name,
                    output_size(&live, layer->live_bytes), watch_count(count, sizeof(count), (double)layer->live_count),
                    output_size(&peak, layer->peak_bytes), (unsigned long long)layer->failures);
    }
    for (size_t i = 0; i < page->pool_count && line < row + rows; i++, line++) {
        const struct tidei_gauge_pool *pool = &page->pools[i];
        const struct running_layer *known = running_layer(&process->base, (uint32_t)pool->layer_id);
        char name[64];

        snprintf(name, sizeof(name), "%llu %s", (unsigned long long)pool->layer_id, known != NULL ? known->kind : "");
        draw_format(line, 0, width, "%-14.14s %10s %5s %10s", name, output_size(&live, pool->used_bytes), "of",
                    output_size(&peak, pool->reserved_bytes));
    }
    if (page->layers_left_out != 0 && line < row + rows)
        draw_format(line, 0, width, "and %u more layers", page->layers_left_out);
}

/* A row of the right table. */
struct draw_row {
    char name[RUNNING_NAME_BYTES];
    uint64_t bytes, count;
};

static int
draw_by_bytes(const void *left, const void *right)
{
    const struct draw_row *a = left, *b = right;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

static int
draw_by_count(const void *left, const void *right)
{
    const struct draw_row *a = left, *b = right;

    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->name, b->name);
}

static int
draw_by_name(const void *left, const void *right)
{
    return strcmp(((const struct draw_row *)left)->name, ((const struct draw_row *)right)->name);
}

/* The tags of the page that the main layer has, or the groups of the live set that was asked for. */
static size_t
draw_rows(const struct draw_state *state, struct draw_row *rows, size_t most)
{
    const struct watch_process *process = state->process;
    uint32_t layer = watch_main_layer(process);
    char buffer[RUNNING_NAME_BYTES];
    size_t count = 0;

    for (size_t i = 0; state->lives != NULL && i < state->lives->group_count && count < most; i++, count++) {
        rows[count].bytes = state->lives->groups[i].bytes;
        rows[count].count = state->lives->groups[i].count;
        memcpy(rows[count].name, state->lives->groups[i].name, sizeof(rows[count].name));
    }
    for (size_t i = 0; state->lives == NULL && i < process->base.page.tag_count && count < most; i++) {
        const struct tidei_gauge_tag *tag = &process->base.page.tags[i];

        if (tag->layer_id != layer)
            continue;
        rows[count].bytes = tag->live_bytes;
        rows[count].count = tag->live_count;
        snprintf(rows[count].name, sizeof(rows[count].name), "%s",
                 running_tag_name(&process->base, tag->tag_id, buffer, sizeof(buffer)));
        count++;
    }
    qsort(rows, count, sizeof(*rows),
          state->sort == DRAW_BY_COUNT  ? draw_by_count
          : state->sort == DRAW_BY_NAME ? draw_by_name
                                        : draw_by_bytes);
    return count;
}

/* All that the groups are shares of. The tags of the page are of a moment before that of the layers. */
static uint64_t
draw_whole(const struct draw_state *state)
{
    const struct tidei_gauge *page = &state->process->base.page;
    uint32_t layer = watch_main_layer(state->process);
    uint64_t bytes = 0;

    if (state->lives != NULL)
        return state->lives->bytes;
    for (size_t i = 0; i < page->tag_count; i++)
        bytes += page->tags[i].layer_id == layer ? page->tags[i].live_bytes : 0;
    return bytes;
}

static void
draw_groups(const struct draw_state *state, int row, int rows, int column)
{
    static struct draw_row list[TIDEI_GAUGE_TAGS];
    size_t count = draw_rows(state, list, TIDEI_GAUGE_TAGS);
    int width = COLS - column, figures = width < 44 ? 17 : 25, room = width - figures > 8 ? width - figures : 8;
    uint64_t whole = draw_whole(state);
    struct output_figure live;
    char title[64];

    snprintf(title, sizeof(title), "%s%s", draw_by_word(state->by),
             state->lives == NULL ? ""
             : state->is_at_peak  ? " at the peak"
                                  : " when asked");
    attron(A_BOLD);
    draw_format(row, column, width, width < 44 ? "%-*.*s %10s %5s" : "%-*.*s %10s %5s %7s", room, room, title, "LIVE",
                "SHARE", "COUNT");
    attroff(A_BOLD);
    if (state->lives != NULL && !state->lives->is_done) {
        draw_put(row + 1, column, width,
                 state->lives->has_failed ? "the trace cannot be read" : "reading the trace...");
        return;
    }
    for (size_t i = 0; i < count && (int)i + 1 < rows; i++) {
        int line = row + 1 + (int)i;
        char figure[16];

        draw_put(line, column, room, list[i].name);
        draw_format(line, column + room, width - room, " %10s %4.0f%%", output_size(&live, list[i].bytes),
                    whole != 0 ? 100 * (double)list[i].bytes / (double)whole : 0);
        if (width >= 44)
            draw_format(line, column + room + 17, 8, " %7s",
                        watch_count(figure, sizeof(figure), (double)list[i].count));
    }
}

static void
draw_one(const struct draw_state *state)
{
    int rows = LINES - 5, chart = rows / 2;

    draw_head(state);
    if (!state->process->base.was_seen) {
        draw_put(2, 0, COLS, "no figures yet");
        return;
    }
    draw_figures(state);
    chart = chart > DRAW_CHART_MOST ? DRAW_CHART_MOST : chart;
    if (chart > 0)
        draw_picture(state, 4, chart);
    rows -= chart;
    if (rows < 2)
        return;
    if (COLS >= DRAW_TWO_TABLES && state->lives == NULL) {
        draw_layers(state, 4 + chart, rows, COLS < 100 ? 42 : 50);
        draw_groups(state, 4 + chart, rows, COLS < 100 ? 45 : 54);
    } else {
        draw_groups(state, 4 + chart, rows, 0);
    }
}

/* For draw_order: qsort has no context. */
static const struct draw_state *draw_sorted;

static int
draw_compare(const void *left, const void *right)
{
    const size_t *places[2] = { left, right };
    const struct watch_process *one = watch_at(draw_sorted->watch, *places[0]);
    const struct watch_process *other = watch_at(draw_sorted->watch, *places[1]);
    char name[64], others[64];
    double difference = 0;

    if (draw_sorted->sort == DRAW_BY_LIVE)
        difference = (double)other->now.live_bytes - (double)one->now.live_bytes;
    else if (draw_sorted->sort == DRAW_BY_COUNT)
        difference = (double)other->now.live_count - (double)one->now.live_count;
    else if (draw_sorted->sort == DRAW_BY_PEAK)
        difference = (double)other->peak_bytes - (double)one->peak_bytes;
    else if (draw_sorted->sort == DRAW_BY_RATE)
        difference = other->allocation_rate - one->allocation_rate;
    else
        difference =
            strcmp(watch_process_name(one, name, sizeof(name)), watch_process_name(other, others, sizeof(others)));
    if (difference != 0)
        return difference > 0 ? 1 : -1;
    return (*places[0] > *places[1]) - (*places[0] < *places[1]);
}

void
draw_order(const struct draw_state *state, size_t *places)
{
    for (size_t i = 0; i < state->watch->found.list_count; i++)
        places[i] = i;
    draw_sorted = state;
    qsort(places, state->watch->found.list_count, sizeof(*places), draw_compare);
}

static void
draw_line(const struct watch_process *process, int row, uint64_t most)
{
    struct output_figure live, peak, reserved;
    char name[64], word[64], rate[16];

    watch_process_name(process, name, sizeof(name));
    watch_process_state(process, word, sizeof(word));
    if (COLS < 76) {
        draw_format(row, 0, COLS, "%7u %-10.10s %10s %s", process->base.file.pid, name,
                    output_size(&live, process->now.live_bytes), word);
        return;
    }
    draw_format(row, 0, COLS, "%7u %-14.14s %10s %10s %10s %8s %5llu %-14.14s", process->base.file.pid, name,
                output_size(&live, process->now.live_bytes), output_size(&peak, process->peak_bytes),
                output_size(&reserved, process->now.reserved_bytes),
                watch_count(rate, sizeof(rate), process->allocation_rate), (unsigned long long)process->now.failures,
                word);
    if (COLS >= 100)
        draw_bar(row, 87, COLS - 88 < 60 ? COLS - 88 : 60,
                 most != 0 ? (double)process->now.live_bytes / (double)most : 0);
}

/* All processes, a line each. The selected one is always on the screen. */
static void
draw_all(const struct draw_state *state)
{
    static size_t places[WATCH_PROCESSES];
    size_t count = state->watch->found.list_count, running = 0, room = LINES > 3 ? (size_t)LINES - 3 : 1, first;
    struct output_figure live;
    uint64_t sum = 0, most = 0;

    draw_order(state, places);
    for (size_t i = 0; i < count; i++) {
        if (!watch_at(state->watch, i)->base.is_over) {
            running++;
            sum += watch_at(state->watch, i)->now.live_bytes;
        }
        most = watch_at(state->watch, i)->peak_bytes > most ? watch_at(state->watch, i)->peak_bytes : most;
    }
    draw_format(0, 0, COLS, "%zu recording%s, %s live, by %s%s", running, running == 1 ? "" : "s",
                output_size(&live, sum), draw_sort_word(state->sort), state->is_frozen ? "  FROZEN" : "");
    if (COLS >= 60)
        draw_put(0, COLS - 12, 12, " [q]uit [?] ");
    attron(A_BOLD);
    if (COLS < 76)
        draw_format(1, 0, COLS, "%7s %-10s %10s %s", "PID", "PROGRAM", "LIVE", "STATE");
    else
        draw_format(1, 0, COLS, "%7s %-14s %10s %10s %10s %8s %5s %s", "PID", "PROGRAM", "LIVE", "PEAK", "RESERVED",
                    "ALLOC/S", "FAIL", "STATE");
    attroff(A_BOLD);
    first = state->selected >= room ? state->selected - room + 1 : 0;
    for (size_t i = first; i < count && i - first < room; i++) {
        if (i == state->selected)
            attron(A_REVERSE);
        draw_line(watch_at(state->watch, places[i]), 2 + (int)(i - first), most);
        attroff(A_REVERSE);
    }
}

static void
draw_help(void)
{
    static const char *const lines[] = {
        "q      leave",
        "f      freeze the picture, and go on",
        "p      what was live at the peak so far",
        "l      by tag, thread, stream",
        "s      sort by the next column",
        "space  a mark into the picture",
        "w      write a report (HTML) of the trace",
        "up, down, Enter, Esc: choose a process of several, and back",
        "",
        "dots: live; single dots above: reserved; the last minute",
    };

    for (int i = 0; i < (int)(sizeof(lines) / sizeof(*lines)); i++)
        draw_put(i, 0, COLS, lines[i]);
}

void
draw_screen(const struct draw_state *state)
{
    erase();
    if (state->has_help)
        draw_help();
    else if (state->process != NULL)
        draw_one(state);
    else
        draw_all(state);
    if (state->message[0] != '\0') {
        attron(A_REVERSE);
        draw_put(LINES - 1, 0, COLS, state->message);
        attroff(A_REVERSE);
    }
    refresh();
}
#endif
