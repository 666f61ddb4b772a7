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
static const char *const cost_call_names[COST_CALLS] = { "allocate", "free", "grow" };

/*
 * cuMemAlloc: medians of 2 MiB to 1 GiB; with cuMemFree 67.5 us a pair. The driver's pool: 780 ns a pair at one thread,
 * and 1,390 us where it grows by a GiB. vmm: cuMemCreate, cuMemMap and cuMemSetAccess, and cuMemUnmap.
 */
const struct costs costs_default = {
    .device = "NVIDIA H200",
    .of = {
        [COST_CUDA] = { { 47000, 130, 0 }, { 20500, 0, 0 }, { 0, 0, 0 } },
        [COST_DRIVER] = { { 390, 0, 0 }, { 390, 0, 0 }, { 0, 1360, 0 } },
        [COST_VMM] = { { 28700, 40, 0 }, { 14000, 11, 0 }, { 0, 0, 0 } },
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

            if (length == first + 1 + second && memcmp(name, cost_base_names[*base], first) == 0 &&
                name[first] == '.' && memcmp(name + first + 1, cost_call_names[*call], second) == 0)
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
            if (!reader.has[base][call]) {
                message("%s: %s.%s is missing", path, cost_base_names[base], cost_call_names[call]);
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

            emit_format(out, "%s.%s %.0f %.3f %.3f\n", cost_base_names[base], cost_call_names[call], cost->ns,
                        cost->ns_per_mib, cost->spread);
        }
    }
}

double
costs_of(const struct cost *cost, uint64_t calls, double bytes)
{
    return cost->ns * (double)calls + cost->ns_per_mib * bytes / (1 << 20);
}
