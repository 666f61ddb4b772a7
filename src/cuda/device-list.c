/* The CUDA devices of this machine as text. */
#include "src/cuda/device-list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/driver.h>
#include <tidemark/text.h>

/* Drivers have put only ASCII into names so far; other characters would have to be valid UTF-8 here. */
static void
list_name(struct tide_text *text, const char *name)
{
    tide_text_format(text, "\"");
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            tide_text_format(text, "\\%c", *c);
        else
            tide_text_format(text, "%c", *c < ' ' || *c > '~' ? '?' : *c);
    }
    tide_text_format(text, "\"");
}

static void
list_device(struct tide_text *text, int device)
{
    char name[256];
    uint64_t total_bytes;

    tide_text_format(text, "%s{\"device\":%d,\"name\":", device > 0 ? "," : "", device);
    if (tide_device_name(device, name, sizeof(name)) == TIDE_OK)
        list_name(text, name);
    else
        tide_text_format(text, "null");
    if (tide_device_query(device, TIDE_QUERY_DEVICE_TOTAL, &total_bytes) == TIDE_OK)
        tide_text_format(text, ",\"total_bytes\":%" PRIu64 "}", total_bytes);
    else
        tide_text_format(text, ",\"total_bytes\":null}");
}

void
tidei_device_list(char *out, size_t capacity)
{
    struct tide_text text = { .data = out, .capacity = capacity };
    int count;

    if (tide_device_count(&count, NULL) != TIDE_OK)
        count = 0;
    tide_text_format(&text, "[");
    for (int i = 0; i < count; i++) {
        char data[512] = "";
        struct tide_text device = { .data = data, .capacity = sizeof(data) };

        list_device(&device, i);
        if (device.length >= sizeof(data) || text.length + device.length + sizeof("]") > capacity)
            break;
        tide_text_format(&text, "%s", data);
    }
    tide_text_format(&text, "]");
}
