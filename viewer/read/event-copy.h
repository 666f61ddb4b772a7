/* A copy of a virtual table of events in a temporary database, for questions that read the table again and again. */
#ifndef VIEWER_READ_EVENT_COPY_H
#define VIEWER_READ_EVENT_COPY_H

#include "viewer/read/event-plan.h"

/* Whether to ask the copy, which is made where that is worth it, or where it alone has the order that is wanted. */
int event_copy_wanted(struct events_table *table, int plan, bool *wanted);

/* Ask the copy: *rows is a statement that it answers. */
int event_copy_ask(struct events_table *table, int plan, const struct condition *list, int count, struct kept *rows);

/* Keep the reason why there is no copy, such as a full disk, unless it is that of the trace. Returns `code`. */
int event_copy_failed(struct events_table *table, sqlite3 *copy, int code);

#endif
