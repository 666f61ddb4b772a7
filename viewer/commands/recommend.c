/* `tidemark recommend`: tries stacks on recorded traffic, and says which is best, and how far from the possible. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/clock.h"
#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/base/shown.h"
#include "viewer/commands/commands.h"
#include "viewer/output/json.h"
#include "viewer/output/table.h"
#include "viewer/recommend/candidates.h"
#include "viewer/recommend/ranking.h"
#include "viewer/recommend/sweep.h"

#define RECOMMEND_CANDIDATES     84
#define RECOMMEND_CANDIDATES_MAX 1000

/* Rounds of stacks around the best of those before. */
#define RECOMMEND_ROUNDS 3

/*
 * Processes that replay alone each stack on which the answer depends, stacks of a round, and the rounds that have room
 * for others than today's stack and the recommended one.
 */
#define RECOMMEND_TIMES       4
#define RECOMMEND_SETTLE_MOST 8
#define RECOMMEND_SETTLES     4

/* In the order of RECOMMEND_BASES; each but the first is one of enum cost_base, plus 1. */
#define RECOMMEND_BASES "any|cuda|driver|vmm"

struct recommend_options {
    int base;
    int aim;                   /* enum ranking_aim */
    uint64_t capacity;         /* of the device; UINT64_MAX: any */
    uint64_t budget;           /* of what may be reserved; UINT64_MAX: any */
    uint64_t layer_id;         /* UINT64_MAX: the outermost log */
    uint64_t most;             /* candidates */
    const char *costs;         /* a file; NULL: the defaults */
    const char *output;        /* a file for the text; NULL: none */
    struct option_list stacks; /* further candidates */
    bool json;
};

struct recommend {
    const struct recommend_options *options;
    struct traffic *traffic; /* owns */
    size_t traffic_count;
    struct costs costs;
    struct candidates list;
    struct trial *trials; /* owns; one for each candidate */
    struct ranking ranking;
    uint64_t peak_bytes; /* the most of the inputs: no stack needs less */
    unsigned jobs;
    double seconds;
    bool now_is_recorded; /* else `now` is a default */
    char now_why[256];    /* why the recorded stack was not tried; "": it was, or there is none */
};

/* The default takes the place of the recorded stack: what tide_stack_default takes on a device that can do all. */
static int
recommend_add_default(struct recommend *run)
{
    int base = run->options->base > 0 ? run->options->base - 1 : COST_VMM;
    struct candidate *known;
    char text[32], why[256];

    snprintf(text, sizeof(text), "pool | %s", cost_base_names[base]);
    known = candidates_find(&run->list, text);
    if (known == NULL)
        return candidates_add_text(&run->list, text, true, why);
    known->is_now = true;
    return COMMAND_FINE;
}

/* Whether the stack is that of `tidemark run` over memory which the program has from the driver. */
static bool
recommend_is_of_run(const char *text)
{
    const char *base = strrchr(text, '|');

    base = base != NULL ? base + 1 : text;
    return strncmp(base + strspn(base, " "), "process(", strlen("process(")) == 0;
}

/* Add the recorded stack; where that cannot be tried, the default. */
static int
recommend_add_now(struct recommend *run)
{
    const char *text = NULL;
    int status = COMMAND_FINDING;

    for (size_t i = 0; i < run->traffic_count && text == NULL; i++)
        text = run->traffic[i].stack;
    if (text != NULL && recommend_is_of_run(text))
        snprintf(run->now_why, sizeof(run->now_why), "it is that of `tidemark run`, over the driver's own memory");
    else if (text != NULL)
        status = candidates_add_text(&run->list, text, true, run->now_why);
    run->now_is_recorded = status == COMMAND_FINE;
    if (status == COMMAND_FINDING)
        status = recommend_add_default(run);
    return status;
}

static int
recommend_add_given(struct recommend *run)
{
    const struct option_list *stacks = &run->options->stacks;

    for (size_t i = 0; i < stacks->count; i++) {
        struct candidate *known = candidates_find(&run->list, stacks->items[i]);
        char why[256];
        int status = known == NULL ? candidates_add_text(&run->list, stacks->items[i], false, why) : COMMAND_FINE;

        if (status == COMMAND_FINE)
            (known != NULL ? known : &run->list.items[run->list.count - 1])->is_given = true;
        if (status == COMMAND_FINDING) {
            message("tidemark recommend: --stack: %s", why);
            status = COMMAND_WRONG;
        }
        if (status != COMMAND_FINE)
            return status;
    }
    return COMMAND_FINE;
}

static struct ranking_rule
recommend_rule(const struct recommend *run)
{
    uint64_t budget = run->options->budget, capacity = run->options->capacity;
    struct ranking_rule rule = { (enum ranking_aim)run->options->aim, budget < capacity ? budget : capacity, 0 };

    for (size_t i = 0; i < run->traffic_count; i++)
        rule.program_ns += (double)run->traffic[i].input.duration_ns;
    return rule;
}

static int
recommend_rank(struct recommend *run)
{
    struct ranking_rule rule = recommend_rule(run);

    ranking_free(&run->ranking);
    return ranking_make(&run->list, run->trials, &rule, &run->ranking) ? COMMAND_FINE : COMMAND_WRONG;
}

/* Try what was added from `first` on. */
static int
recommend_try(struct recommend *run, size_t first)
{
    struct trial *grown = realloc(run->trials, (run->list.count + 1) * sizeof(*grown));
    int status;

    if (grown == NULL) {
        message("tidemark recommend: no memory for the results");
        return COMMAND_WRONG;
    }
    run->trials = grown;
    memset(&grown[first], 0, (run->list.count - first) * sizeof(*grown));
    status = sweep_run(&run->list, first, run->traffic, run->traffic_count, &run->costs, run->jobs, run->trials);
    return status == COMMAND_FINE ? recommend_rank(run) : status;
}

/* Where the recorded stack could not be made over models, or its replay came to no end, the default takes its place. */
static int
recommend_check_now(struct recommend *run)
{
    size_t now = run->ranking.now, count = run->list.count;
    int status;

    if (now == SIZE_MAX || !run->now_is_recorded || run->trials[now].error[0] == '\0')
        return COMMAND_FINE;
    snprintf(run->now_why, sizeof(run->now_why), "%s", run->trials[now].error);
    run->now_is_recorded = run->list.items[now].is_now = false;
    status = recommend_add_default(run);
    if (status != COMMAND_FINE)
        return status;
    return run->list.count > count ? recommend_try(run, count) : recommend_rank(run);
}

/* Try the coarse choice, then what lies around the best. */
static int
recommend_search(struct recommend *run)
{
    uint64_t most = run->options->most;
    int status = recommend_try(run, 0);

    if (status == COMMAND_FINE)
        status = recommend_check_now(run);

    for (int round = 0; status == COMMAND_FINE && round < RECOMMEND_ROUNDS && run->list.count < most; round++) {
        size_t first = run->list.count;
        int added = candidates_refine(&run->list, run->ranking.is_best, (size_t)most - first);

        if (added == 0)
            break;
        status = added > 0 ? recommend_try(run, first) : COMMAND_WRONG;
    }
    return status;
}

static bool
recommend_is_answer(const struct recommend *run, size_t number)
{
    return number == run->ranking.now || number == run->ranking.recommended;
}

/*
 * Whether a stack is to be replayed once more: the answer depends on its time, and few of its replays were alone. Of
 * long traffic that is today's stack and the recommended one.
 */
static bool
recommend_is_open(const struct recommend *run, const struct ranking_rule *rule, size_t number)
{
    const struct trial *trial = &run->trials[number];

    if (trial->error[0] != '\0' || trial->again_failed || (trial->is_alone && trial->time_count >= RECOMMEND_TIMES))
        return false;
    return recommend_is_answer(run, number) ||
           (trial->is_alone && ranking_contends(&run->list, run->trials, rule, &run->ranking, number));
}

/* Replay a stack once more, where it is open. SIZE_MAX: there is none. Adds to *again. */
static int
recommend_again(struct recommend *run, const struct ranking_rule *rule, size_t number, size_t *again)
{
    if (number == SIZE_MAX || !recommend_is_open(run, rule, number))
        return COMMAND_FINE;
    ++*again;
    return sweep_again(&run->list, number, run->traffic, run->traffic_count, &run->costs, &run->trials[number]);
}

/*
 * Replay those again that may be recommended, and today's. One after the other, so that what disturbs the machine for a
 * while is not in all replays of one stack. Today's and the recommended one are first in each round. The others have
 * the room that is left, in the first rounds. The end is where both of the answer were replayed often enough.
 */
static int
recommend_settle(struct recommend *run)
{
    struct ranking_rule rule = recommend_rule(run);
    int status = COMMAND_FINE;
    size_t again = 1;

    for (int round = 0; status == COMMAND_FINE && again > 0; round++) {
        size_t now = run->ranking.now, best = run->ranking.recommended, most = 0;

        if (round < RECOMMEND_SETTLES)
            most = RECOMMEND_SETTLE_MOST;
        again = 0;
        status = recommend_again(run, &rule, now, &again);
        if (status == COMMAND_FINE && best != now)
            status = recommend_again(run, &rule, best, &again);
        for (size_t i = 0; status == COMMAND_FINE && i < run->list.count && again < most; i++) {
            if (!recommend_is_answer(run, i))
                status = recommend_again(run, &rule, i, &again);
        }
        if (status == COMMAND_FINE && again > 0)
            status = recommend_rank(run);
    }
    return status;
}

static const struct trial *
recommend_trial(const struct recommend *run, size_t number)
{
    return number != SIZE_MAX ? &run->trials[number] : NULL;
}

/* How much more than the least is reserved, as a share. */
static double
recommend_over(const struct recommend *run, const struct trial *trial)
{
    return run->peak_bytes > 0 ? (double)trial->reserved_bytes / (double)run->peak_bytes - 1 : 0;
}

static const char *
recommend_note(const struct recommend *run, size_t number)
{
    if (number == run->ranking.recommended && number == run->ranking.now)
        return run->now_is_recorded ? "recommended, now" : "recommended, default";
    if (number == run->ranking.recommended)
        return "recommended";
    return number == run->ranking.now ? (run->now_is_recorded ? "now" : "default") : "";
}

/* The candidates that are shown, the least memory first: the front, today's, and those given. Returns how many. */
static size_t
recommend_shown(struct recommend *run, size_t *shown)
{
    size_t count = 0;

    for (size_t i = 0; i < run->list.count; i++) {
        if (run->ranking.is_best[i] || i == run->ranking.now || run->list.items[i].is_given)
            shown[count++] = i;
    }
    qsort_r(shown, count, sizeof(*shown), ranking_compare, run->trials);
    return count;
}

static void
recommend_row(struct table *table, const struct recommend *run, size_t number)
{
    const struct trial *trial = &run->trials[number];
    struct output_figure figure;
    char text[48];

    char *stack = shown_copy(run->list.items[number].text);

    table_row(table);
    table_cell(table, 4, recommend_note(run, number));
    table_cell(table, 5, stack);
    free(stack);
    if (trial->error[0] != '\0') {
        table_cell(table, 4, trial->error);
        return;
    }
    table_cell(table, 0, output_size(&figure, trial->reserved_bytes));
    snprintf(text, sizeof(text), "%.1f%%", 100 * recommend_over(run, trial));
    table_cell(table, 1, trial->failures == 0 ? text : ""); /* it did not have all that was live */
    snprintf(text, sizeof(text), "%" PRIu64, trial->calls);
    table_cell(table, 2, text);
    table_cell(table, 3, output_time(&figure, (int64_t)trial->ns));
    snprintf(text, sizeof(text), "%" PRIu64 " refused", trial->failures);
    if (trial->failures > 0)
        table_cell(table, 4, text);
}

static void
recommend_heading(struct emit *out, const struct recommend *run)
{
    struct output_figure figure;
    uint64_t events = 0, streams = 0;

    for (size_t i = 0; i < run->traffic_count; i++) {
        events += run->traffic[i].input.event_count;
        streams = run->traffic[i].peaks_by_stream > streams ? run->traffic[i].peaks_by_stream : streams;
    }
    emit_string(out, "of     ");
    emit_text(out, run->traffic[0].path, strlen(run->traffic[0].path));
    if (run->traffic_count > 1)
        emit_format(out, " and %zu more", run->traffic_count - 1);
    emit_format(out, ", %" PRIu64 " event%s, peak live %s (no placement needs less)\n", events, events == 1 ? "" : "s",
                output_size(&figure, run->peak_bytes));
    if (streams > run->peak_bytes)
        emit_format(out, "       without reuse between streams it would be %s\n", output_size(&figure, streams));
    emit_format(out, "tried  %zu stack%s in %.1f s, %u at a time; costs of calls: ", run->list.count,
                run->list.count == 1 ? "" : "s", run->seconds, run->jobs);
    emit_text(out, run->costs.device, strlen(run->costs.device));
    emit_string(out, "\n");
    if (run->now_why[0] == '\0')
        return;
    emit_string(out, "       the recorded stack was not tried: ");
    emit_text(out, run->now_why, strlen(run->now_why));
    emit_string(out, "\n");
}

/* Why the recommended stack, beside today's. */
static void
recommend_why(struct emit *out, const struct recommend *run)
{
    const struct trial *best = recommend_trial(run, run->ranking.recommended);
    const struct trial *now = recommend_trial(run, run->ranking.now);
    const char *today = run->now_is_recorded ? "the recorded stack" : "the default";
    const struct ranking_time *times = run->ranking.times;
    double memory, time, calls;

    emit_string(out, "Why: ");
    if (best == now) {
        emit_string(out, "of what was tried nothing is better than ");
        emit_format(out, "%s.", today);
    } else if (now == NULL || now->error[0] != '\0' || now->failures > 0) {
        emit_format(out, "%s does not serve all requests within these bounds.", today);
    } else {
        memory = 100 * ((double)best->reserved_bytes / (double)(now->reserved_bytes + (now->reserved_bytes == 0)) - 1);
        time = best->ns > 0 ? now->ns / best->ns : 1;
        calls = (double)now->calls / ((double)best->calls > 0 ? (double)best->calls : 1);
        emit_format(out, "%.1f%% %s memory than %s, ", memory < 0 ? -memory : memory, memory < 0 ? "less" : "more",
                    today);
        if (ranking_is_same_time(&times[run->ranking.recommended], &times[run->ranking.now]))
            emit_string(out, "the same time within what replays of one stack differ by");
        else
            emit_format(out, "%.3g of its time", time > 0 ? 1 / time : 1);
        if (calls > 1.05)
            emit_format(out, ", and %.3g times fewer calls of the driver", calls);
        emit_string(out, ".");
    }
    emit_format(out, " It has %.1f%% more reserved than was live at the peak.\n", 100 * recommend_over(run, best));
    emit_string(out, "Times are at least: where a free waits for the device, as cuMemFree does, no replay shows it.\n");
}

/* The text as a setting for a shell. It may come from a trace of anyone. */
static void
recommend_setting(struct emit *out, const char *text)
{
    emit_string(out, "TIDEMARK_STACK='");
    while (*text != '\0') {
        size_t length = strcspn(text, "'");

        emit_text(out, text, length);
        text += length;
        if (*text == '\'') {
            emit_string(out, "'\\''");
            text++;
        }
    }
    emit_string(out, "'\n");
}

static int
recommend_print(struct recommend *run, struct emit *out)
{
    size_t *shown = calloc(run->list.count + 1, sizeof(*shown)), count;
    struct output_figure figure;
    struct table table;

    if (shown == NULL) {
        message("tidemark recommend: no memory for the table");
        return COMMAND_WRONG;
    }
    recommend_heading(out, run);
    table_begin(&table, false);
    table_columns(&table, ">RESERVED >OVER >CALLS >TIME NOTE STACK");
    count = recommend_shown(run, shown);
    for (size_t i = 0; i < count; i++)
        recommend_row(&table, run, shown[i]);
    free(shown);
    table_row(&table);
    table_cell(&table, 0, output_size(&figure, run->peak_bytes));
    table_cell(&table, 1, "0.0%");
    table_cell(&table, 4, "the bound");
    if (!table_end_whole(&table, out)) {
        message("tidemark recommend: no memory for the table");
        return COMMAND_WRONG;
    }
    if (run->ranking.recommended == SIZE_MAX)
        return COMMAND_FINE;
    recommend_setting(out, run->list.items[run->ranking.recommended].text);
    recommend_why(out, run);
    return COMMAND_FINE;
}

/* What the bases of a stack had the driver do, and what that costs. */
static void
recommend_json_driver(struct json *json, const struct recommend *run, size_t number)
{
    enum cost_base base = run->list.items[number].base;
    const struct trial *trial = &run->trials[number];

    json_key(json, "driver");
    json_begin(json, '[');
    for (int call = 0; call < COST_CALLS; call++) {
        const struct cost_amount *amount = &trial->amounts[call];

        if (!cost_has(base, (enum cost_call)call))
            continue;
        json_begin(json, '{');
        json_put_text(json, "call", cost_call_names[call]);
        json_put_unsigned(json, "count", amount->count);
        json_put_real(json, "bytes", amount->bytes);
        json_put_real(json, "ns", costs_of(&run->costs, base, (enum cost_call)call, amount));
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void
recommend_json_trial(struct json *json, const struct recommend *run, size_t number)
{
    const struct candidate *candidate = &run->list.items[number];
    const struct trial *trial = &run->trials[number];

    json_line(json);
    json_begin(json, '{');
    json_put_text(json, "stack", candidate->text);
    json_put_text(json, "model", candidate->model);
    json_put_text(json, "base", cost_base_names[candidate->base]);
    json_key(json, "error");
    if (trial->error[0] != '\0')
        json_text(json, trial->error);
    else
        json_word(json, "null");
    json_put_unsigned(json, "failures", trial->failures);
    json_put_unsigned(json, "reserved_peak_bytes", trial->reserved_bytes);
    json_put_unsigned(json, "calls", trial->calls);
    json_put_real(json, "driver_ns", trial->driver_ns);
    recommend_json_driver(json, run, number);
    json_put_real(json, "own_ns", trial->own_ns);
    json_put_real(json, "ns", trial->ns);
    json_put_real(json, "most_ns", run->ranking.times[number].most_ns);
    json_put_unsigned(json, "replays", trial->time_count);
    json_key(json, "best");
    json_flag(json, run->ranking.is_best[number]);
    json_end(json, '}');
}

static void
recommend_json_number(struct json *json, size_t number)
{
    if (number == SIZE_MAX)
        json_word(json, "null");
    else
        json_unsigned(json, number);
}

static void
recommend_json(const struct recommend *run, struct emit *out)
{
    struct json json = { .out = out };

    json_begin(&json, '{');
    json_put_unsigned(&json, "format_version", 1);
    json_key(&json, "inputs");
    json_begin(&json, '[');
    for (size_t i = 0; i < run->traffic_count; i++) {
        const struct traffic *traffic = &run->traffic[i];

        json_begin(&json, '{');
        json_put_text(&json, "path", traffic->path);
        json_put_unsigned(&json, "events", traffic->input.event_count);
        json_put_unsigned(&json, "allocations", traffic->allocations);
        json_put_signed(&json, "duration_ns", traffic->input.duration_ns);
        json_put_unsigned(&json, "peak_bytes", traffic->peak_bytes);
        json_put_unsigned(&json, "peaks_by_stream_bytes", traffic->peaks_by_stream);
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_put_unsigned(&json, "peak_bytes", run->peak_bytes);
    json_put_text(&json, "costs", run->costs.device);
    json_key(&json, "now_refused");
    if (run->now_why[0] != '\0')
        json_text(&json, run->now_why);
    else
        json_word(&json, "null");
    json_key(&json, "now");
    recommend_json_number(&json, run->ranking.now);
    json_key(&json, "now_is_recorded");
    json_flag(&json, run->now_is_recorded);
    json_key(&json, "now_is_worse");
    json_flag(&json, run->ranking.now_is_worse);
    json_key(&json, "recommended");
    recommend_json_number(&json, run->ranking.recommended);
    json_key(&json, "stacks");
    json_begin(&json, '[');
    for (size_t i = 0; i < run->list.count; i++)
        recommend_json_trial(&json, run, i);
    emit_string(out, "\n]}\n");
}

/* Write the text alone. */
static int
recommend_write_text(const struct recommend *run)
{
    struct emit out;
    int status = emit_open(&out, run->options->output, false);

    if (status != COMMAND_FINE)
        return status;
    emit_format(&out, "%s\n", run->list.items[run->ranking.recommended].text);
    return emit_close(&out, COMMAND_FINE);
}

/* What a stack with the least memory would need, where none is within the bounds. */
static int
recommend_nothing(const struct recommend *run)
{
    struct output_figure live, least;
    uint64_t reserved = UINT64_MAX, peak = run->peak_bytes;

    for (size_t i = 0; i < run->list.count; i++) {
        const struct trial *trial = &run->trials[i];

        if (trial->error[0] == '\0' && trial->failures == 0 && trial->reserved_bytes < reserved)
            reserved = trial->reserved_bytes;
    }
    if (reserved != UINT64_MAX && run->options->budget != UINT64_MAX)
        message(
            "tidemark recommend: no stack stays within the budget; the least of those tried reserves %s, and %s were"
            " live",
            output_size(&least, reserved), output_size(&live, peak));
    else
        message("tidemark recommend: no stack serves all requests%s; %s were live at the peak, so about %s would do",
                run->options->capacity != UINT64_MAX ? " within the capacity" : "", output_size(&live, peak),
                output_size(&least, peak < UINT64_MAX - peak / 32 ? peak + peak / 32 : UINT64_MAX));
    return COMMAND_FINDING;
}

static int
recommend_answer(struct recommend *run)
{
    struct emit out;
    int status = emit_open(&out, NULL, false);

    if (status != COMMAND_FINE)
        return status;
    if (run->options->json)
        recommend_json(run, &out);
    else
        status = recommend_print(run, &out);
    status = emit_close(&out, status);
    if (status == COMMAND_FINE && run->ranking.recommended == SIZE_MAX)
        return recommend_nothing(run);
    if (status == COMMAND_FINE && run->options->output != NULL)
        status = recommend_write_text(run);
    return status == COMMAND_FINE && run->now_is_recorded && run->ranking.now_is_worse ? COMMAND_FINDING : status;
}

static int
recommend_read(struct recommend *run, char **paths, size_t count)
{
    const struct recommend_options *options = run->options;
    int status = options->costs != NULL ? costs_read(options->costs, &run->costs) : COMMAND_FINE;

    run->traffic = calloc(count, sizeof(*run->traffic));
    if (run->traffic == NULL) {
        message("tidemark recommend: no memory for the inputs");
        return COMMAND_WRONG;
    }
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        struct traffic *traffic = &run->traffic[i];

        status = traffic_read(paths[i], options->layer_id != UINT64_MAX ? (int64_t)options->layer_id : 0, traffic);
        if (status != COMMAND_FINE)
            break;
        run->traffic_count++;
        if (traffic->peak_bytes > run->peak_bytes)
            run->peak_bytes = traffic->peak_bytes;
    }
    return status;
}

static int
recommend_run_on(struct recommend *run)
{
    int64_t begin = clock_now_ns();
    int status = recommend_add_now(run);

    if (status == COMMAND_FINE)
        status = recommend_add_given(run);
    if (status == COMMAND_FINE &&
        !candidates_begin(&run->list, (size_t)run->options->most, run->traffic, run->traffic_count))
        status = COMMAND_WRONG;
    if (status == COMMAND_FINE)
        status = recommend_search(run);
    if (status == COMMAND_FINE)
        status = recommend_settle(run);
    run->seconds = (double)(clock_now_ns() - begin) / 1e9;
    return status == COMMAND_FINE ? recommend_answer(run) : status;
}

static bool
recommend_is_incomplete(const struct recommend *run)
{
    for (size_t i = 0; i < run->traffic_count; i++) {
        if (run->traffic[i].input.incomplete)
            return true;
    }
    return false;
}

static int
recommend_command(struct invocation *call)
{
    const struct recommend_options *options = (const struct recommend_options *)call->own;
    struct recommend run = { .options = options, .costs = costs_default };
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int status;

    if (call->count == 0)
        return command_misused(call->command, "of what? Name traces or CSV files");
    if (options->layer_id != UINT64_MAX && (options->layer_id == 0 || options->layer_id > INT64_MAX))
        return command_misused(call->command, "--layer: layers are numbered from 1");
    if (options->capacity == 0 || options->budget == 0)
        return command_misused(call->command, "--%s: from 1 byte", options->capacity == 0 ? "capacity" : "budget");
    if (options->most == 0 || options->most > RECOMMEND_CANDIDATES_MAX)
        return command_misused(call->command, "--candidates: from 1 to %d", RECOMMEND_CANDIDATES_MAX);
    run.jobs = processors > 1 ? (unsigned)processors : 1;
    run.list.device_capacity = options->capacity != UINT64_MAX ? options->capacity : 0;
    for (int base = 0; base < COST_BASES; base++)
        run.list.bases[base] = options->base == 0 || options->base == base + 1;
    status = recommend_read(&run, call->arguments, (size_t)call->count);
    if (status == COMMAND_FINE)
        status = recommend_run_on(&run);
    if (status == COMMAND_FINE && recommend_is_incomplete(&run))
        status = COMMAND_INCOMPLETE;
    for (size_t i = 0; i < run.traffic_count; i++)
        traffic_free(&run.traffic[i]);
    free(run.traffic);
    free(run.trials);
    ranking_free(&run.ranking);
    candidates_free(&run.list);
    return status;
}

#define AT(field) offsetof(struct recommend_options, field)

static const struct option_def recommend_defs[] = {
    { "base", 0, OPTION_CHOICE, "BASE", "the base of the stacks: cuda, driver, vmm, or any; any", AT(base),
      RECOMMEND_BASES, 0 },
    { "for", 0, OPTION_CHOICE, "AIM",
      "what matters: memory, time, or both, which is memory\ntimes the run time of the program; both", AT(aim),
      RANKING_AIMS, 0 },
    { "capacity", 0, OPTION_SIZE, "SIZE", "of the device: what does not fit is refused", AT(capacity), NULL, 0 },
    { "budget", 0, OPTION_SIZE, "SIZE", "the most that the stack may have reserved", AT(budget), NULL, 0 },
    { "costs", 0, OPTION_TEXT, "FILE", "costs of calls, as `tidemark devices --measure` writes\nthem; else an H200's",
      AT(costs), NULL, 0 },
    { "stack", 's', OPTION_LIST, "TEXT", "a further stack to try; may be repeated", AT(stacks), NULL, 0 },
    { "candidates", 0, OPTION_COUNT, "N", "stop at N stacks; 84", AT(most), NULL, 0 },
    { "layer", 'l', OPTION_COUNT, "N", "of traces: the log layer; else the outermost", AT(layer_id), NULL, 0 },
    { "output", 'o', OPTION_TEXT, "FILE", "write the text of the recommended stack to FILE, too", AT(output), NULL, 0 },
    { "json", 'j', OPTION_FLAG, NULL, "print one JSON object, with all that was tried", AT(json), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

const struct command command_recommend = {
    .name = "recommend",
    .arguments = "[OPTIONS] INPUT...",
    .purpose = "Try stacks on recorded traffic, and say which is best",
    .help = "\nINPUT is a trace or RMM's CSV, as for `tidemark replay`; of several, the stack is the best for all.\n"
            "Stacks are tried over models of memory: no device is needed. Exit status 1: the recorded stack\n"
            "refuses requests, is over a bound, or is worse than the recommended one in both memory and time;\n"
            "or no stack is within the bounds.\n",
    .wanted = &(const struct command_arguments){ -1, NULL, NULL },
    .options = recommend_defs,
    COMMAND_OWN(struct recommend_options, .capacity = UINT64_MAX, .budget = UINT64_MAX, .layer_id = UINT64_MAX,
                .most = RECOMMEND_CANDIDATES),
    .run = recommend_command,
};
