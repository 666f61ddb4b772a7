/* The HTML page of a report: its sources, which are built into the command, with data in them. */
#ifndef VIEWER_REPORT_PAGE_H
#define VIEWER_REPORT_PAGE_H

#include "viewer/report/block.h"

/* Write the page with the manifest and the blocks in it. */
void page_write(struct blocks *blocks, struct emit *out);

#endif
