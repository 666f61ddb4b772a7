/* Which stack a program gets that chooses none. */
#include <tidemark/driver.h>
#include <tidemark/stack.h>
#include <tidemark/text.h>

#include "src/nvtx/blocks.h"
#include "src/resource/kind.h"
#include "src/resource/resource.h"
#include "src/sync/inside.h"

/* The bases over device memory, the best first; `needs` is what the device must have for it, 0: nothing. */
static const struct {
    const char *kind;
    enum tide_query needs;
} default_bases[] = {
    { "vmm", TIDE_QUERY_VIRTUAL_MEMORY },
    { "driver", TIDE_QUERY_POOLS },
    { "cuda", 0 },
};

enum tide_status
tide_stack_default(int device, char *text, size_t capacity, size_t *needed)
{
    TIDEI_INSIDE(NULL);
    struct tide_text out = { .data = text, .capacity = capacity };
    enum tide_status status = TIDE_OK;
    uint64_t has = 0, total_bytes;
    size_t i = 0;

    if (needed != NULL)
        *needed = 0;
    if (text == NULL && capacity > 0)
        return tide_error_set(TIDE_EINVAL, "default stack: NULL in place of the buffer");
    if (capacity > 0)
        text[0] = '\0';
    /* A checker that listens to blocks takes them in memory of `cuda` alone, which is there to be checked, not fast. */
    if (tidei_nvtx_wanted(TIDE_NVTX_AUTO)) {
        i = TIDEI_COUNT_OF(default_bases) - 1;
        status = tide_device_query(device, TIDE_QUERY_DEVICE_TOTAL, &total_bytes);
    }
    for (; status == TIDE_OK && has == 0; i++) {
        has = default_bases[i].needs == 0;
        if (has == 0)
            status = tide_device_query(device, default_bases[i].needs, &has);
    }
    if (status != TIDE_OK)
        return status;
    tide_text_format(&out, "pool | %s", default_bases[i - 1].kind);
    if (device != 0)
        tide_text_format(&out, "(device=%d)", device);
    if (needed != NULL)
        *needed = out.length;
    return TIDE_OK;
}
