/*
 * Reads and writes files of costs: lines "version 3" and "device NAME", and for each call a line "BASE.CALL NS
 * NS_PER_MIB SPREAD", in any order. "#" begins a comment. The first version had no line of its own, and no waits, and
 * neither it nor the second had units of `driver` that are mapped elsewhere.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/message.h"
#include "viewer/recommend/costs.h"

const char *const cost_base_names[COST_BASES] = { "cuda", "driver", "vmm" };
const char *const cost_call_names[COST_CALLS] = { "allocate", "free",  "grow", "return", "fresh",
                                                  "map",      "unmap", "trim", "order",  "wait" };

/*
 * An NVIDIA H200, driver 580.159, with a context current. What the driver's calls took in replays of five traces over
 * each base: their means by size, as far as nothing was being cleared, and what small ones took of a base. Those of
 * orders, of mappings, of `driver`, and of requests and frees that `vmm` serves itself are the ones with which most of
 * 358 replays, of four runs, took what was predicted. Nothing waits: one machine cleared what went back at 2.4 us/MiB,
 * and growth waited for that, up to 1.05 ms; but in all later runs none was seen to wait. See bench/README.md.
 */
const struct costs costs_default = {
    .device = "NVIDIA H200",
    .of = {
        [COST_CUDA] = {
            [COST_ALLOCATE] = { 1800, 0, 0 },
            [COST_FREE] = { 2500, 0, 0 },
            [COST_GROW] = { 44000, 90, 0 },
            [COST_RETURN] = { 39000, 370, 0 },
            [COST_ORDER] = { 460, 0, 0 },
        },
        [COST_DRIVER] = {
            [COST_ALLOCATE] = { 750, 0, 0 },
            [COST_FREE] = { 700, 0, 0 },
            [COST_GROW] = { 0, 1300, 0 },
            [COST_RETURN] = { 5000, 1200, 0 },
            [COST_MAP] = { 43000, 0, 0 },
            [COST_TRIM] = { 80, 0, 0 },
            [COST_ORDER] = { 600, 0, 0 },
        },
        [COST_VMM] = {
            [COST_ALLOCATE] = { 200, 0, 0 },
            [COST_FREE] = { 600, 0, 0 },
            [COST_GROW] = { 12500, 170, 0 },
            [COST_RETURN] = { 17000, 470, 0 },
            [COST_MAP] = { 30000, 0, 0 },
            [COST_UNMAP] = { 20000, 0, 0 },
            [COST_ORDER] = { 460, 0, 0 },
        },
    },
};

/* Of the files that are written, and the one before, which is read, too. */
#define COSTS_VERSION        "3"
#define COSTS_VERSION_BEFORE "2"

/* A unit of a pool of the driver. */
#define COSTS_UNIT_MIB 32

/* While a file is read. */
struct costs_reader {
    const char *path;
    struct costs *out;
    bool has_version; /* of its own */
    bool is_latest;
    bool has_device;
    bool has[COST_BASES][COST_CALLS];
};

static int
costs_wrong(const struct costs_reader *reader, size_t number, const char *why)
{
    message("%s:%zu: %s", reader->path, number, why);
    return COMMAND_WRONG;
}

/* The most of a number: a call that takes longer than a quarter of an hour is none. */
#define COSTS_MOST 1e12

/* Read a number from 0 to COSTS_MOST, and skip it. */
static bool
costs_number(char **line, double *out)
{
    char *end;

    errno = 0;
    *out = strtod(*line, &end);
    if (end == *line || errno != 0 || !isfinite(*out) || *out < 0 || *out > COSTS_MOST || strchr(" \t", *end) == NULL)
        return false;
    *line = end;
    return true;
}

/* Find the cost that `name` stands for; false: there is none. */
static bool
costs_find(const char *name, size_t length, int *base, int *call)
{
    for (*base = 0; *base < COST_BASES; (*base)++) {
        for (*call = 0; *call < COST_CALLS; (*call)++) {
            size_t first = strlen(cost_base_names[*base]), second = strlen(cost_call_names[*call]);

            if (cost_has((enum cost_base) * base, (enum cost_call) * call) && length == first + 1 + second &&
                memcmp(name, cost_base_names[*base], first) == 0 && name[first] == '.' &&
                memcmp(name + first + 1, cost_call_names[*call], second) == 0)
                return true;
        }
    }
    return false;
}

/* The line with the version, behind its word. */
static int
costs_version(struct costs_reader *reader, const char *rest, size_t number)
{
    if (reader->has_version)
        return costs_wrong(reader, number, "a second version");
    rest += strspn(rest, " \t");
    reader->is_latest = strcmp(rest, COSTS_VERSION) == 0;
    if (!reader->is_latest && strcmp(rest, COSTS_VERSION_BEFORE) != 0)
        return costs_wrong(reader, number,
                           "version " COSTS_VERSION " or " COSTS_VERSION_BEFORE
                           " is expected; `tidemark devices --measure` writes it");
    reader->has_version = true;
    return COMMAND_FINE;
}

static int
costs_line(void *context, char *line, size_t number)
{
    struct costs_reader *reader = context;
    size_t length = strcspn(line, " \t");
    char *rest = line + length;
    struct cost cost;
    int base, call;

    if (length == 7 && memcmp(line, "version", 7) == 0)
        return costs_version(reader, rest, number);
    if (length == 6 && memcmp(line, "device", 6) == 0) {
        rest += strspn(rest, " \t");
        if (reader->has_device)
            return costs_wrong(reader, number, "a second device");
        if (*rest == '\0')
            return costs_wrong(reader, number, "device: the name is missing");
        reader->has_device = true;
        snprintf(reader->out->device, sizeof(reader->out->device), "%s", rest);
        return COMMAND_FINE;
    }
    if (!costs_find(line, length, &base, &call))
        return costs_wrong(reader, number, "no cost has this name; `tidemark devices --measure` writes such a file");
    if (reader->has[base][call])
        return costs_wrong(reader, number, "this cost was there before");
    if (!costs_number(&rest, &cost.ns) || !costs_number(&rest, &cost.ns_per_mib) ||
        !costs_number(&rest, &cost.spread) || *rest != '\0')
        return costs_wrong(reader, number,
                           "three numbers from 0 to 1e12 are expected: ns, ns for a MiB, and the spread");
    reader->has[base][call] = true;
    reader->out->of[base][call] = cost;
    return COMMAND_FINE;
}

/* Whether files of an earlier version may lack the cost. */
static bool
costs_may_lack(const struct costs_reader *reader, int base, int call)
{
    return (!reader->has_version && call == COST_WAIT) ||
           (!reader->is_latest && base == COST_DRIVER && call == COST_MAP);
}

int
costs_read(const char *path, struct costs *out)
{
    struct costs_reader reader = { .path = path, .out = out };
    int status;

    *out = (struct costs){ 0 };
    status = file_each_line(path, costs_line, &reader);
    if (status != COMMAND_FINE)
        return status;
    for (int base = 0; base < COST_BASES; base++) {
        for (int call = 0; call < COST_CALLS; call++) {
            if (cost_has((enum cost_base)base, (enum cost_call)call) && !reader.has[base][call] &&
                !costs_may_lack(&reader, base, call)) {
                message("%s: %s.%s is missing; where an earlier version wrote the file, measure again", path,
                        cost_base_names[base], cost_call_names[call]);
                return COMMAND_WRONG;
            }
        }
    }
    /* A unit that moves takes about as long as one of the device. */
    if (!reader.has[COST_DRIVER][COST_MAP])
        out->of[COST_DRIVER][COST_MAP].ns =
            out->of[COST_DRIVER][COST_GROW].ns + COSTS_UNIT_MIB * out->of[COST_DRIVER][COST_GROW].ns_per_mib;
    if (reader.has_device)
        return COMMAND_FINE;
    message("%s: the line with the device is missing", path);
    return COMMAND_WRONG;
}

void
costs_write(struct emit *out, const struct costs *costs)
{
    emit_string(
        out,
        "# What calls of the driver cost, for `tidemark recommend --costs`: ns, ns for each MiB, and how far a call\n"
        "# is from that in the median, as a share.\n"
        "version " COSTS_VERSION "\n");
    emit_format(out, "device %s\n", costs->device);
    for (int base = 0; base < COST_BASES; base++) {
        for (int call = 0; call < COST_CALLS; call++) {
            const struct cost *cost = &costs->of[base][call];

            if (!cost_has((enum cost_base)base, (enum cost_call)call))
                continue;
            emit_format(out, "%s.%s %.0f %.3f %.3f\n", cost_base_names[base], cost_call_names[call], cost->ns,
                        cost->ns_per_mib, cost->spread);
        }
    }
}

bool
cost_has(enum cost_base base, enum cost_call call)
{
    switch (call) {
    case COST_MAP:
        return base == COST_DRIVER || base == COST_VMM;
    case COST_UNMAP:
        return base == COST_VMM;
    case COST_TRIM:
        return base == COST_DRIVER;
    default:
        return true;
    }
}

double
costs_of(const struct costs *costs, enum cost_base base, enum cost_call call, const struct cost_amount *amount)
{
    const struct cost *cost = &costs->of[base][call];
    double ns = call != COST_WAIT ? cost->ns * (double)amount->count : 0;

    return ns + cost->ns_per_mib * amount->bytes / (1 << 20);
}
