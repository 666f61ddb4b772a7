/* Writes the library's messages into a file descriptor. */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <tidemark/bridge.h>
#include <tidemark/message.h>

static void
messages_write(void *context, enum tide_severity severity, const char *text)
{
    char line[TIDE_ERROR_TEXT_BYTES + 8];
    int bytes = snprintf(line, sizeof(line), "%d %s\n", (int)severity, text);

    /* At once: a pipe takes a line of this length as a whole, or not at all. */
    if (bytes > 0 && write((int)(intptr_t)context, line, (size_t)bytes) < 0)
        return;
}

void
tide_bridge_messages(int descriptor)
{
    tide_message_sink_set(descriptor >= 0 ? messages_write : NULL, (void *)(intptr_t)descriptor);
}
