/* The HTML page of a report: its sources, with data in them. */
#include "config.h"

#include <string.h>

#include "viewer/report/page.h"

static const unsigned char page_html[] = {
#include "viewer/report/page-html.inc"
};
static const unsigned char page_css[] = {
#include "viewer/report/page-css.inc"
};
static const unsigned char page_js[] = {
#include "viewer/report/page-js.inc"
};

/* The lines of page.html, without blanks, that something else stands for. */
#define PAGE_CSS  "<!-- tidemark: css -->"
#define PAGE_DATA "<!-- tidemark: data -->"
#define PAGE_JS   "<!-- tidemark: js -->"

/* Whether the line is `wanted`, but for blanks around it. */
static bool
page_is(const char *line, size_t length, const char *wanted)
{
    while (length > 0 && (line[0] == ' ' || line[0] == '\t')) {
        line++;
        length--;
    }
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\n' || line[length - 1] == '\r'))
        length--;
    return length == strlen(wanted) && memcmp(line, wanted, length) == 0;
}

void
page_write(struct blocks *blocks, struct emit *out)
{
    for (size_t at = 0; at < sizeof(page_html);) {
        const char *line = (const char *)page_html + at;
        const char *stop = memchr(line, '\n', sizeof(page_html) - at);
        size_t length = stop != NULL ? (size_t)(stop - line) + 1 : sizeof(page_html) - at;

        if (page_is(line, length, PAGE_CSS))
            emit_bytes(out, page_css, sizeof(page_css));
        else if (page_is(line, length, PAGE_DATA))
            blocks_write(blocks, out);
        else if (page_is(line, length, PAGE_JS))
            emit_bytes(out, page_js, sizeof(page_js));
        else
            emit_bytes(out, line, length);
        at += length;
    }
}
