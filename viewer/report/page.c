/* The HTML pages of reports: their sources, with data in them. */
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
static const unsigned char job_html[] = {
#include "viewer/report/job-html.inc"
};
static const unsigned char job_css[] = {
#include "viewer/report/job-css.inc"
};
static const unsigned char job_js[] = {
#include "viewer/report/job-js.inc"
};

struct page_part {
    const unsigned char *bytes;
    size_t count;
};

#define PAGE_PART(array)                                                                                               \
    {                                                                                                                  \
        (array), sizeof(array)                                                                                         \
    }

static const struct page {
    struct page_part html, css, js;
} pages[PAGE_KINDS] = {
    [PAGE_TRACE] = { PAGE_PART(page_html), PAGE_PART(page_css), PAGE_PART(page_js) },
    [PAGE_JOB] = { PAGE_PART(job_html), PAGE_PART(job_css), PAGE_PART(job_js) },
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
page_write(enum page_kind kind, struct blocks *blocks, struct emit *out)
{
    const struct page *page = &pages[kind];
    const char *html = (const char *)page->html.bytes;

    for (size_t at = 0; at < page->html.count;) {
        const char *line = html + at;
        const char *stop = memchr(line, '\n', page->html.count - at);
        size_t length = stop != NULL ? (size_t)(stop - line) + 1 : page->html.count - at;

        if (page_is(line, length, PAGE_CSS))
            emit_bytes(out, page->css.bytes, page->css.count);
        else if (page_is(line, length, PAGE_DATA))
            blocks_write(blocks, out);
        else if (page_is(line, length, PAGE_JS))
            emit_bytes(out, page->js.bytes, page->js.count);
        else
            emit_bytes(out, line, length);
        at += length;
    }
}
