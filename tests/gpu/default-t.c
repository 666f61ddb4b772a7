/* Tests the stack of a program that chooses none, and on the fake driver what devices that lack something get. */
#include "tests/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"

#ifdef HAVE_CUDA_H

static const char *
text_of(int device)
{
    static char text[64];

    if (tide_stack_default(device, text, sizeof(text), NULL) != TIDE_OK)
        diag("%s", tide_error_text());
    return text;
}

/* The fake driver looks at its environment whenever it is asked. */
static void
test_lacking(void)
{
    const char *path = getenv("LD_LIBRARY_PATH");

    if (path == NULL || strstr(path, "fake-cuda") == NULL) {
        skip(3, "needs the fake driver");
        return;
    }
    setenv("FAKE_CUDA_NO_VMM", "1", 1);
    is_string(text_of(0), "pool | driver", "a device without virtual memory calls gets the driver's pool");
    setenv("FAKE_CUDA_NO_POOLS", "1", 1);
    is_string(text_of(0), "pool | cuda", "a device without memory pools as well gets cuMemAlloc");
    unsetenv("FAKE_CUDA_NO_VMM");
    is_string(text_of(0), "pool | vmm", "virtual memory calls need no memory pools");
    unsetenv("FAKE_CUDA_NO_POOLS");
}

static void
test_text(void)
{
    uint64_t has = 0;
    char text[64] = "left";
    char full[256] = "";
    size_t needed = 9;

    tide_device_query(0, TIDE_QUERY_VIRTUAL_MEMORY, &has);
    is_string(text_of(0), has != 0 ? "pool | vmm" : "pool | driver", "the default stack is what the device has");
    ok(tide_stack_check(text_of(0), full, sizeof(full), NULL) == TIDE_OK, "the default stack is a stack's text");
    ok(tide_stack_default(0, text, 5, &needed) == TIDE_OK && strcmp(text, "pool") == 0 && needed == strlen(text_of(0)),
       "a text that is too long for the buffer is cut, and its length is told");
    ok(tide_stack_default(0, NULL, 0, &needed) == TIDE_OK && needed == strlen(text_of(0)),
       "the length alone can be asked");
    ok(tide_stack_default(0, NULL, 8, NULL) == TIDE_EINVAL, "NULL in place of the buffer is refused");
    ok(all_of(tide_stack_default(1000, text, sizeof(text), &needed) == TIDE_EINVAL, text[0] == '\0', needed == 0),
       "a device that does not exist is refused, with no text");
    has_words(tide_error_text(), "no device 1000", "the refusal names the device");
    if (tide_device_query(1, TIDE_QUERY_VIRTUAL_MEMORY, &has) == TIDE_OK)
        is_string(text_of(1), has != 0 ? "pool | vmm(device=1)" : "pool | driver(device=1)",
                  "another device is named in the text");
    else
        skip(1, "needs two devices");
}

static void
test_environment(void)
{
    struct tide_resource *stack = NULL;
    char described[64] = "";
    void *block = NULL;

    unsetenv("TIDEMARK_STACK");
    if (tide_stack_from_environment(NULL, &stack) != TIDE_OK)
        diag("%s", tide_error_text());
    tide_describe(stack, described, sizeof(described), NULL);
    is_string(described, text_of(0), "a program without a text of its own gets the default stack");
    ok(tide_allocate(stack, 1 << 20, TIDE_DEFAULT_ALIGNMENT, 0, &block) == TIDE_OK &&
           tide_deallocate(stack, block, 1 << 20, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK,
       "the default stack gives memory");
    tide_resource_release(stack);
    setenv("TIDEMARK_STACK", "limit(1MiB) | host", 1);
    tide_stack_from_environment(NULL, &stack);
    tide_describe(stack, described, sizeof(described), NULL);
    is_string(described, "limit(1MiB) | host", "the user's text wins over the default stack");
    tide_resource_release(stack);
}

int
main(void)
{
    const char *reason = gpu_open();

    if (reason != NULL)
        skip_all(reason);
    plan(14);
    gpu_diag();
    test_lacking();
    test_text();
    test_environment();
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
