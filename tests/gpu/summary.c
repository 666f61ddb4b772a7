/* Runs the `tidemark summary` that was built beside the tests. */
#include "tests/gpu/summary.h"

#include <stdbool.h>
#include <unistd.h>

#include "tests/tap.h"

/* The number after "key": in `json`; UINT64_MAX if there is none. */
static uint64_t
summary_figure(const char *json, const char *key)
{
    char quoted[64];
    const char *at;

    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    at = strstr(json, quoted);
    return at != NULL ? strtoull(at + strlen(quoted), NULL, 10) : UINT64_MAX;
}

static bool
summary_layer_is(const char *json, const struct gpu_summary *wanted)
{
    return summary_figure(json, "allocations") == wanted->allocations &&
           summary_figure(json, "frees") == wanted->frees && summary_figure(json, "failures") == wanted->failures &&
           summary_figure(json, "total_bytes") == wanted->total_bytes &&
           summary_figure(json, "peak_bytes") == wanted->peak_bytes &&
           summary_figure(json, "live_bytes") == wanted->live_bytes;
}

/* Run the command. Returns its exit status, with its output in `json`. */
static int
summary_run(const char *command, const char *trace, char *json, size_t bytes)
{
    char line[512];
    size_t length;
    FILE *pipe;

    snprintf(line, sizeof(line), "%s summary --json %s", command, trace);
    pipe = popen(line, "r");
    if (pipe == NULL)
        return -1;
    length = fread(json, 1, bytes - 1, pipe);
    json[length] = '\0';
    return pclose(pipe);
}

void
gpu_summary_is(const char *trace, const struct gpu_summary *wanted, unsigned layers, const char *sentence)
{
    const char *folder = getenv("top_builddir");
    const char *layer;
    unsigned found = 0;
    char command[256];
    char json[8192];
    bool right;

    snprintf(command, sizeof(command), "%s/tidemark", folder != NULL ? folder : ".");
    if (access(command, X_OK) != 0) {
        skip(1, "the command has not been built");
        return;
    }
    right = summary_run(command, trace, json, sizeof(json)) == 0 && strstr(json, "\"complete\":true") != NULL;
    for (layer = strstr(json, "\"layer_id\":"); layer != NULL; layer = strstr(layer + 1, "\"layer_id\":")) {
        right = found < layers && summary_layer_is(layer, &wanted[found]) && right;
        found++;
    }
    if (!ok(all_of(right, found == layers), "%s", sentence))
        diag("%s", json);
}
