/* Writes a report in the table format. */
#ifndef VIEWER_OUTPUT_REPORT_TABLE_H
#define VIEWER_OUTPUT_REPORT_TABLE_H

#include "viewer/output/emit.h"
#include "viewer/output/report-item.h"

/* False: no memory. */
bool report_write_table(const struct report *report, struct emit *out);

#endif
