/*
 * Reads and writes files of costs: a line "device NAME", and for each call a line "BASE.CALL NS NS_PER_MIB SPREAD",
 * in any order. "#" begins a comment.
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
                                                  "map",      "unmap", "trim", "order" };

/*
 * An NVIDIA H200, driver 580.159. Measured alone, as medians: cuMemAlloc that takes pages, 31 us and 54 ns/MiB; growth
 * of the driver's pool, 1.4 us/MiB; cuMemCreate 8 us; cuMemMap and cuMemSetAccess 22 us a handle; cuMemRelease 16 us
 * and 290 ns/MiB. The others are what these leave of the times of 90 replays, six stacks over each base for five
 * traces, by least squares: the same calls take longer among other live memory than again and again for one block. See
 * bench/README.md.
 */
const struct costs costs_default = {
    .device = "NVIDIA H200",
    .of = {
        [COST_CUDA] = {
            [COST_ALLOCATE] = { 2800, 0, 0 },
            [COST_FREE] = { 2800, 0, 0 },
            [COST_GROW] = { 28500, 54, 0 },
            [COST_RETURN] = { 37000, 700, 0 },
            [COST_FRESH] = { 0, 40, 0 },
            [COST_ORDER] = { 400, 0, 0 },
        },
        [COST_DRIVER] = {
            [COST_ALLOCATE] = { 1850, 0, 0 },
            [COST_FREE] = { 1850, 0, 0 },
            [COST_GROW] = { 0, 1400, 0 },
            [COST_RETURN] = { 0, 480, 0 },
            [COST_ORDER] = { 400, 0, 0 },
        },
        [COST_VMM] = {
            [COST_ALLOCATE] = { 1300, 0, 0 },
            [COST_FREE] = { 1300, 0, 0 },
            [COST_GROW] = { 8400, 0, 0 },
            [COST_RETURN] = { 16000, 290, 0 },
            [COST_FRESH] = { 0, 280, 0 },
            [COST_MAP] = { 22000, 0, 0 },
            [COST_UNMAP] = { 29700, 0, 0 },
            [COST_ORDER] = { 400, 0, 0 },
        },
    },
};

/* While a file is read. */
struct costs_reader {
    const char *path;
    struct costs *out;
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

static int
costs_line(void *context, char *line, size_t number)
{
    struct costs_reader *reader = context;
    size_t length = strcspn(line, " \t");
    char *rest = line + length;
    struct cost cost;
    int base, call;

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
            if (cost_has((enum cost_base)base, (enum cost_call)call) && !reader.has[base][call]) {
                message("%s: %s.%s is missing; where an earlier version wrote the file, measure again", path,
                        cost_base_names[base], cost_call_names[call]);
                return COMMAND_WRONG;
            }
        }
    }
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
        "# is from that in the median, as a share.\n");
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
    bool is_mapping = call == COST_MAP || call == COST_UNMAP;

    return (!is_mapping || base == COST_VMM) && (call != COST_TRIM || base == COST_DRIVER);
}

double
costs_of(const struct cost *cost, const struct cost_amount *amount)
{
    return cost->ns * (double)amount->count + cost->ns_per_mib * amount->bytes / (1 << 20);
}
