/* The HTML pages of reports: their sources, which are built into the command, with data in them. */
#ifndef VIEWER_REPORT_PAGE_H
#define VIEWER_REPORT_PAGE_H

#include "viewer/report/block.h"

enum page_kind { PAGE_TRACE, PAGE_JOB, PAGE_KINDS };

/* Write the page with the manifest and the blocks in it. */
void page_write(enum page_kind kind, struct blocks *blocks, struct emit *out);

#endif
