/* The cursor of the virtual tables of events: it takes the rows of a question from where the plan says. */
#ifndef VIEWER_READ_EVENT_CURSOR_H
#define VIEWER_READ_EVENT_CURSOR_H

#include <sqlite3.h>

/* The methods of a table's cursor, as SQLite defines them. */
int event_cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out);
int event_cursor_close(sqlite3_vtab_cursor *base);
int event_cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc, sqlite3_value **values);
int event_cursor_next(sqlite3_vtab_cursor *base);
int event_cursor_eof(sqlite3_vtab_cursor *base);
int event_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column);
int event_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out);

#endif
