/* The GPUs that a trace says its program had. */
#ifndef VIEWER_READ_DEVICES_H
#define VIEWER_READ_DEVICES_H

#include "viewer/read/view.h"

/* People get those that a layer is on; programs, by devices_report_table, get all. */
void devices_report_lines(struct view *view);
void devices_report_table(struct view *view);

#endif
