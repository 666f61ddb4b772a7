/*
 * Imports random recordings of other programs, and compares what the commands say of them with brute force: RMM's CSV,
 * which has nothing of what was reserved, and PyTorch's snapshots, whose segments are chunks. The history of a snapshot
 * may begin in the midst. What an input does not have is null, and no budget of it is kept.
 *
 * ROUNDS sets the number of imports, SEED the first seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answers.h"
#include "random-trace.h"
#include "tap.h"

#define ROUNDS  150
#define EVENTS  200
#define DEVICES 3
#define PIECES  64
#define BLOCKS  64
#define INPUT   "imported-random-t.in"
#define TRACE   "imported-random-t.db"
#define PAGE    (INT64_C(2) << 20)

struct range {
    int64_t address, size; /* size 0: none */
};

/* One device of a snapshot, or the whole of a CSV: what is there, and the figures since the history began. */
struct memory {
    struct range blocks[BLOCKS], pieces[PIECES];
    int64_t next; /* address */
    int64_t live, rounded, reserved, peak, rounded_peak, reserved_peak;
    int64_t allocations, frees, failures, segments, skipped;
    bool is_known; /* it is in the input */
    bool is_split; /* a mapping was unmapped in parts: their rows are no requests */
    char *history; /* owns */
    size_t history_size;
    FILE *out;
};

static struct memory memories[DEVICES];
static uint64_t state, seed, checks;
static int64_t lost, unmatched, now;
static bool is_torch;
static unsigned seen_torch, seen_cut;

static int64_t
rounded(int64_t size)
{
    int64_t alignment = is_torch ? 512 : 256;

    return (size + alignment - 1) / alignment * alignment;
}

static void
count(struct memory *memory, int64_t size, int64_t reserved)
{
    memory->live += size;
    memory->rounded += size < 0 ? -rounded(-size) : rounded(size);
    memory->reserved += reserved;
    memory->peak = memory->live > memory->peak ? memory->live : memory->peak;
    memory->rounded_peak = memory->rounded > memory->rounded_peak ? memory->rounded : memory->rounded_peak;
    memory->reserved_peak = memory->reserved > memory->reserved_peak ? memory->reserved : memory->reserved_peak;
}

/* The history begins here: what is there by now was there before. */
static void
begin_history(struct memory *memory)
{
    memory->peak = memory->live;
    memory->rounded_peak = memory->rounded;
    memory->reserved_peak = memory->reserved;
    memory->allocations = memory->frees = memory->failures = memory->segments = 0;
    memory->is_split = false;
    for (size_t i = 0; i < BLOCKS; i++)
        memory->allocations += memory->blocks[i].size > 0;
    for (size_t i = 0; i < PIECES; i++)
        memory->segments += memory->pieces[i].size > 0;
    fclose(memory->out);
    free(memory->history);
    memory->out = open_memstream(&memory->history, &memory->history_size);
    seen_cut += memory->allocations > 0;
}

/* ---- PyTorch ---------------------------------------------------------------------------------------------------- */

static void
torch_event(struct memory *memory, const char *action, int64_t address, int64_t size)
{
    now += (int64_t)random_draw(&state, 3);
    fprintf(memory->out,
            "%s{\"action\":\"%s\",\"addr\":%" PRId64 ",\"size\":%" PRId64 ",\"stream\":0,\"time_us\":%" PRId64
            ",\"frames\":[]}",
            ftell(memory->out) > 0 ? ",\n" : "", action, address, size, 1700000000000000 + now);
}

static void
torch_segment(struct memory *memory)
{
    struct range *piece = &memory->pieces[random_draw(&state, PIECES / 4)];
    int64_t part;

    if (piece->size == 0) {
        *piece = (struct range){ memory->next, PAGE * (int64_t)(1 + random_draw(&state, 4)) };
        memory->next += 16 * PAGE;
        memory->segments++;
        count(memory, 0, piece->size);
        torch_event(memory, random_draw(&state, 2) == 0 ? "segment_alloc" : "segment_map", piece->address, piece->size);
        return;
    }
    part = random_draw(&state, 3) == 0 && piece->size > PAGE ? PAGE : piece->size;
    memory->is_split = memory->is_split || part < piece->size;
    torch_event(memory, part < piece->size ? "segment_unmap" : "segment_free", piece->address, part);
    count(memory, 0, -part);
    piece->address += part;
    piece->size -= part;
}

static void
torch_block(struct memory *memory)
{
    struct range *block = &memory->blocks[random_draw(&state, BLOCKS)];

    if (random_draw(&state, 30) == 0) {
        memory->failures++;
        torch_event(memory, "oom", 0, 1 + (int64_t)random_draw(&state, 1 << 20));
    } else if (block->size == 0) {
        *block = (struct range){ memory->next, 1 + (int64_t)random_draw(&state, 100000) };
        memory->next += 16 * PAGE;
        memory->allocations++;
        count(memory, block->size, 0);
        torch_event(memory, "alloc", block->address, block->size);
    } else {
        memory->frees++;
        count(memory, -block->size, 0);
        torch_event(memory, "free_requested", block->address, block->size);
        torch_event(memory, "free_completed", block->address, block->size);
        block->size = 0;
    }
}

static void
torch_write(void)
{
    FILE *out = fopen(INPUT, "w");
    bool any = false;

    fprintf(out, "{\"segments\":[");
    for (int64_t device = 0; device < DEVICES; device++) {
        const struct memory *memory = &memories[device];

        for (size_t i = 0; i < PIECES; i++) {
            if (memory->pieces[i].size == 0)
                continue;
            fprintf(out,
                    "%s{\"device\":%" PRId64 ",\"address\":%" PRId64 ",\"total_size\":%" PRId64
                    ",\"stream\":0,\"blocks\":[]}",
                    any ? ",\n" : "", device, memory->pieces[i].address, memory->pieces[i].size);
            any = true;
        }
        /* The blocks lie where they like: a segment of no bytes has them. */
        for (size_t i = 0; i < BLOCKS; i++) {
            const struct range *block = &memory->blocks[i];

            if (block->size == 0)
                continue;
            fprintf(out,
                    "%s{\"device\":%" PRId64 ",\"address\":%" PRId64 ",\"total_size\":0,\"stream\":0,\"blocks\":["
                    "{\"address\":%" PRId64 ",\"size\":%" PRId64 ",\"requested_size\":%" PRId64
                    ",\"state\":\"active_allocated\",\"frames\":[]}]}",
                    any ? ",\n" : "", device, block->address, block->address, rounded(block->size), block->size);
            any = true;
        }
    }
    fprintf(out, "],\n\"device_traces\":[");
    for (int device = 0; device < DEVICES; device++) {
        fflush(memories[device].out);
        fprintf(out, "%s[%s]", device > 0 ? ",\n" : "", memories[device].history);
    }
    fprintf(out, "]}\n");
    fclose(out);
}

static void
torch_make(void)
{
    uint64_t devices = 1 + random_draw(&state, DEVICES);
    uint64_t events = 1 + random_draw(&state, EVENTS);
    uint64_t cut = random_draw(&state, 2) == 0 ? random_draw(&state, events) : events;

    for (uint64_t i = 0; i < events; i++) {
        struct memory *memory = &memories[random_draw(&state, devices)];

        /* The history of each device has a length of its own. */
        for (size_t j = 0; i == cut && j < DEVICES; j++)
            begin_history(&memories[j]);
        if (random_draw(&state, 5) == 0)
            torch_segment(memory);
        else
            torch_block(memory);
    }
    torch_write();
}

/* ---- RMM -------------------------------------------------------------------------------------------------------- */

static void
rmm_event(FILE *out, const char *action, int64_t address, int64_t size)
{
    now += 1 + (int64_t)random_draw(&state, 900);
    fprintf(out, "1,10:%02d:%02d.%06d,%s,0x%" PRIx64 ",%" PRId64 ",0x0\n", (int)(now / 60000000 % 60),
            (int)(now / 1000000 % 60), (int)(now % 1000000), action, (uint64_t)address, size);
}

static void
rmm_make(void)
{
    struct memory *memory = &memories[0];
    FILE *out = fopen(INPUT, "w");
    uint64_t events = 1 + random_draw(&state, EVENTS);

    fprintf(out, "Thread,Time,Action,Pointer,Size,Stream\n");
    for (uint64_t i = 0; i < events; i++) {
        struct range *block = &memory->blocks[random_draw(&state, BLOCKS)];
        bool was_live = block->size > 0;

        if (random_draw(&state, 40) == 0) {
            memory->failures++;
            rmm_event(out, "allocate failure", 0, 1 + (int64_t)random_draw(&state, 1 << 20));
        } else if (random_draw(&state, 60) == 0) {
            unmatched++;
            rmm_event(out, "free", INT64_C(1) << 40, 100);
        } else if (!was_live || random_draw(&state, 60) == 0) {
            /* A free is missing, and the block stays live to the end. */
            lost += was_live;
            if (!was_live)
                block->address = memory->next += 4096 * 256;
            block->size = 1 + (int64_t)random_draw(&state, 100000);
            memory->allocations++;
            count(memory, block->size, 0);
            rmm_event(out, "allocate", block->address, block->size);
        } else {
            memory->frees++;
            count(memory, -block->size, 0);
            rmm_event(out, "free", block->address, block->size);
            block->size = 0;
        }
    }
    fclose(out);
}

/* ---- the comparison --------------------------------------------------------------------------------------------- */

static bool
same(const struct answer *answer, const char *what, int64_t seen, int64_t by_force)
{
    checks++;
    if (seen != by_force)
        diag("SEED=%" PRIu64 ": tidemark %s: %s is %" PRId64 ", by brute force %" PRId64, seed, answer->line, what,
             seen, by_force);
    return seen == by_force;
}

static bool
check_memory(const struct answer *answer, int row, const struct memory *memory)
{
    double used =
        memory->reserved_peak > memory->rounded_peak ? (double)memory->rounded_peak / (double)memory->reserved_peak : 1;
    int64_t reserved_peak = memory->reserved_peak > memory->peak ? memory->reserved_peak : memory->peak;
    double seen = answer_share(answer, "memory[%d].utilisation", row);
    bool is_exact = memory->reserved_peak >= memory->peak && lost == 0;
    const struct {
        const char *name;
        int64_t figure;
    } fields[] = {
        { "peak_bytes", memory->peak },
        { "live_bytes", memory->live },
        { "reserved_bytes", is_torch ? memory->reserved : ANSWER_NULL },
        { "reserved_peak_bytes", is_torch ? reserved_peak : ANSWER_NULL },
        { "reserved_peak_is_exact", is_torch ? is_exact : ANSWER_NULL },
        { "reserved_sample_ns", ANSWER_NULL },
        { "device_peak_bytes", ANSWER_NULL },
    };
    bool good = true;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        good = same(answer, fields[i].name, answer_number(answer, "memory[%d].%s", row, fields[i].name),
                    fields[i].figure) &&
               good;
    if (!is_torch || reserved_peak == 0)
        used = -1;
    else if (memory->reserved_peak < memory->peak)
        used = memory->rounded_peak < reserved_peak ? (double)memory->rounded_peak / (double)reserved_peak : 1;
    return same(answer, "the utilisation, in millionths", (int64_t)(seen * 1e6 + 0.5), (int64_t)(used * 1e6 + 0.5)) &&
           good;
}

static bool
check_command(const char *command, int known)
{
    struct answer answer;
    bool good;
    int row = 0;

    answer_ask(&answer, "%s --json %s", command, TRACE);
    good = same(&answer, "the exit status", answer.status, lost > 0 ? 3 : 0) &&
           same(&answer, "the kinds of memory", answer_length(&answer, "memory"), known);
    for (int i = 0; i < DEVICES; i++) {
        if (memories[i].is_known)
            good = check_memory(&answer, row++, &memories[i]) && good;
    }
    answer_free(&answer);
    return good;
}

/* No times, as none were recorded; and attempts on both sides of what was passed on. */
static bool
check_layers(void)
{
    struct answer answer;
    bool good = true;
    int row = 0;

    answer_ask(&answer, "layers --json %s", TRACE);
    for (int i = 0; i < DEVICES; i++) {
        const struct memory *memory = &memories[i];
        int64_t requests = memory->allocations + memory->failures;
        double share = answer_share(&answer, "layers[%d].passed_share", row);
        double wanted = is_torch && requests > 0 ? (double)memory->segments / (double)requests : -1;

        if (!memory->is_known)
            continue;
        good =
            same(&answer, "allocations", answer_number(&answer, "layers[%d].allocations", row), memory->allocations) &&
            same(&answer, "frees", answer_number(&answer, "layers[%d].frees", row), memory->frees) &&
            same(&answer, "failures", answer_number(&answer, "layers[%d].failures", row), memory->failures) &&
            same(&answer, "the time in calls", answer_number(&answer, "layers[%d].time_ns", row), ANSWER_NULL) &&
            same(&answer, "the own time", answer_number(&answer, "layers[%d].own_time_ns", row), ANSWER_NULL) && good;
        if (!memory->is_split)
            good = same(&answer, "passed on, in millionths", (int64_t)(share * 1e6 + 0.5),
                        (int64_t)(wanted * 1e6 + 0.5)) &&
                   good;
        row += is_torch ? 4 : 2;
    }
    answer_free(&answer);
    answer_ask(&answer, "layers %s", TRACE);
    good = same(&answer, "times of 0 ns", strstr(answer.json, " 0 ns") != NULL, 0) && good;
    answer_free(&answer);
    return good;
}

static bool
check_verdict(int64_t bytes)
{
    int verdict = 0;
    struct answer answer;
    bool good;

    for (int i = 0; i < DEVICES; i++) {
        const struct memory *memory = &memories[i];
        bool is_exact = is_torch && memory->reserved_peak >= memory->peak && lost == 0;

        if ((is_torch && memory->reserved_peak > bytes) || memory->peak > bytes)
            verdict = 1;
        else if (!is_exact && memory->peak > 0 && verdict == 0)
            verdict = 3;
    }
    answer_ask(&answer, "check --json --max-reserved=%" PRId64 " %s", bytes, TRACE);
    good = same(&answer, "the exit status", answer.status, lost > 0 ? 3 : verdict) &&
           same(&answer, "failed budgets", answer_number(&answer, "failed_count"), verdict == 1) &&
           same(&answer, "unknown budgets", answer_number(&answer, "unknown_count"), verdict == 3);
    answer_free(&answer);
    return good;
}

static bool
check_gates(void)
{
    const struct memory *memory = &memories[random_draw(&state, DEVICES)];
    int64_t bytes = memory->reserved_peak > memory->peak ? memory->reserved_peak : memory->peak;
    struct answer answer;
    int64_t live = 0, failures = 0;
    bool good = true;

    for (int64_t more = -1; more <= 1; more++)
        good = (bytes + more <= 0 || check_verdict(bytes + more)) && good;
    for (int i = 0; i < DEVICES; i++) {
        live += memories[i].live;
        failures += memories[i].failures;
    }
    answer_ask(&answer, "check --json --no-leaks --max-failures=%" PRId64 " %s", failures, TRACE);
    good = same(&answer, "the exit status", answer.status, lost > 0 ? 3 : live > 0) &&
           same(&answer, "no leaks", answer_number(&answer, "budgets[1].passed"), live == 0) &&
           same(&answer, "failures", answer_number(&answer, "budgets[0].seen"), failures) && good;
    answer_free(&answer);
    return good;
}

static bool
check_import(void)
{
    struct answer answer;
    int known = 0;
    bool good;

    for (int i = 0; i < DEVICES; i++) {
        const struct memory *memory = &memories[i];

        memories[i].is_known = memory->allocations + memory->failures + memory->frees + memory->segments > 0;
        known += memories[i].is_known;
    }
    if (known == 0)
        return true; /* the history has nothing */
    answer_ask(&answer, "import --overwrite --from=%s %s %s", is_torch ? "pytorch" : "rmm", INPUT, TRACE);
    good = same(&answer, "the exit status", answer.status, lost > 0 ? 3 : 0);
    answer_free(&answer);
    answer_ask(&answer, "summary --json %s", TRACE);
    good = same(&answer, "it was imported", strcmp(answer_text(&answer, "ended"), "imported"), 0) &&
           same(&answer, "unmatched frees", answer_number(&answer, "unmatched_frees"), unmatched) &&
           same(&answer, "the time in calls", answer_number(&answer, "time_ns"), ANSWER_NULL) && good;
    answer_free(&answer);
    return check_command("summary", known) && check_command("fragmentation", known) &&
           check_command("timeline", known) && check_layers() && check_gates() && good;
}

static bool
check_round(void)
{
    bool good;

    memset(memories, 0, sizeof(memories));
    lost = unmatched = now = 0;
    is_torch = random_draw(&state, 3) > 0;
    seen_torch += is_torch;
    for (int i = 0; i < DEVICES; i++) {
        memories[i].next = (i + 1) * (INT64_C(1) << 40);
        memories[i].out = open_memstream(&memories[i].history, &memories[i].history_size);
    }
    if (is_torch)
        torch_make();
    else
        rmm_make();
    good = check_import();
    for (int i = 0; i < DEVICES; i++) {
        fclose(memories[i].out);
        free(memories[i].history);
    }
    return good;
}

int
main(void)
{
    uint64_t first = random_trace_seed();
    uint64_t rounds = getenv("ROUNDS") != NULL ? strtoull(getenv("ROUNDS"), NULL, 10) : ROUNDS;
    unsigned wrong = 0;

    plan(2);
    for (uint64_t i = 0; i < rounds && wrong < 5; i++) {
        seed = first + i;
        state = seed * 2 + 88172645463325253u;
        wrong += !check_round();
    }
    diag("%" PRIu64 " imports, %u of snapshots; %u histories began in the midst; %" PRIu64 " checks", rounds,
         seen_torch, seen_cut, checks);
    is_u64(wrong, 0, "all commands say of imports what brute force says, and nothing that the input does not have");
    ok(rounds < 50 || all_of(seen_torch > 0, seen_cut > 0, seen_torch < rounds),
       "CSV and snapshots were imported, and some histories began in the midst");
    if (wrong == 0) {
        unlink(INPUT);
        unlink(TRACE);
    }
    return done();
}
