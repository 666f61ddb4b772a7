/* Draws bars with block characters or ASCII. */
#include "config.h"

#include <langinfo.h>
#include <string.h>

#include "viewer/output/drawing.h"

bool
drawing_is_ascii(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

const char *
drawing_bar(double share, size_t width, bool ascii, char *buffer)
{
    static const char *const parts[] = { "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
    size_t eighths = (size_t)(share * 8 * (double)width + 0.5);
    char *end = buffer;

    if (eighths > 8 * width)
        eighths = 8 * width;
    if (share > 0 && eighths == 0)
        eighths = 1;
    for (; eighths > 0; eighths -= eighths < 8 ? eighths : 8)
        end = stpcpy(end, ascii ? "#" : parts[eighths < 8 ? eighths - 1 : 7]);
    *end = '\0';
    return buffer;
}
