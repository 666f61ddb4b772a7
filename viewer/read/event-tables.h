/*
 * `usage` and `event` for SQL, fast: virtual tables that stand before the views of these names.
 *
 * They have the columns and values of the views. SQLite makes the views by sorting all events; the tables read the rows
 * of `allocation` once, in order. `event` without ORDER BY is in the order of time, `usage` by layer and then by time,
 * as the views are. A question that begins to read a table again and again, as a join or a subquery may, gets a copy of
 * it in a temporary database, with an index for what it asks; SQLite keeps 64 MiB of that in memory. The views
 * themselves are main.usage and main.event. A trace with values that no recorder writes is answered by its views.
 */
#ifndef VIEWER_READ_EVENT_TABLES_H
#define VIEWER_READ_EVENT_TABLES_H

#include "viewer/read/trace.h"

/*
 * Put the tables before those views of `trace` that are as the recorder makes them. Where that is impossible, the views
 * answer. Call this before an authorizer is set.
 */
void event_tables_add(const struct trace *trace);

#endif
