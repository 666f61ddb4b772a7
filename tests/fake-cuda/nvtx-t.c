/*
 * Tests of which memory pools tell chunks to a tool that listens to NVTX: on the fake driver, with the tool of
 * tests/nvtx-tool.c.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/nvtx-tool.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define BYTES 1000

static struct nvtx_tool *tool;
static char warned[512];
static int warnings;

static void
hear(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    if (severity != TIDE_WARNING)
        return;
    warnings++;
    snprintf(warned, sizeof(warned), "%s", text);
}

static bool
tool_load(void)
{
    void *library = dlopen(NVTX_TOOL, RTLD_NOW);
    struct nvtx_tool *(*get)(void);

    setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1);
    if (library == NULL) {
        diag("%s", dlerror());
        return false;
    }
    *(void **)&get = dlsym(library, "nvtx_tool");
    tool = get();
    tool->answer = NVTX_TOOL_LISTENS;
    return true;
}

/* How many heaps and regions the tool is told of a block of a stack; -1: the stack fails. */
static void
use(const char *text, int *heaps, int *regions)
{
    uint64_t heaps_before = tool->heaps_told, regions_before = tool->regions_told;
    struct tide_resource *stack = NULL;
    void *block = NULL;
    bool right = tide_stack_parse(text, &stack) == TIDE_OK && tide_allocate(stack, BYTES, 256, 0, &block) == TIDE_OK &&
                 tide_deallocate(stack, block, BYTES, 256, 0) == TIDE_OK;

    if (!right)
        diag("%s: %s", text, tide_error_text());
    tide_resource_release(stack);
    *heaps = right ? (int)(tool->heaps_told - heaps_before) : -1;
    *regions = right ? (int)(tool->regions_told - regions_before) : -1;
}

int
main(void)
{
    static const char *const silent[] = { "pool | driver", "pool | vmm", "arena | vmm", "fixed(64KiB) | driver" };
    int heaps, regions;
    char text[64];

    if (!tool_load())
        skip_all("no NVTX: its headers are not there");
    plan(10);
    tide_message_sink_set(hear, NULL);
    use("pool | cuda", &heaps, &regions);
    ok(all_of(heaps == 1, regions == 1), "a chunk of plain memory is told, and its block");
    use("pool | sim", &heaps, &regions);
    ok(all_of(heaps == 1, regions == 1), "a chunk that is no memory of the driver is told: the tool decides");
    is_i64(warnings, 0, "no warning is given for these");
    for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
        use(silent[i], &heaps, &regions);
        ok(all_of(heaps == 0, regions == 0), "%s: nothing is told of memory that the checker does not take", silent[i]);
    }
    ok(all_of(warnings == 1, strstr(warned, "base cuda") != NULL), "one warning names the base that can be checked");
    ok(all_of(tide_stack_default(0, text, sizeof(text), NULL) == TIDE_OK, strcmp(text, "pool | cuda") == 0),
       "where a tool listens the default stack is one that it can check");
    is_i64(tide_stack_default(99, text, sizeof(text), NULL), TIDE_EINVAL, "and a device that is not there is refused");
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
