/* The plan of a question to a virtual table of events: made when SQLite prepares the question, read when it runs. */
#ifndef VIEWER_READ_EVENT_PLAN_H
#define VIEWER_READ_EVENT_PLAN_H

#include "viewer/read/event-table.h"

/* A condition of a question whose value is one that the copy has. */
struct condition {
    char relation;
    int column;
    sqlite3_value *value;
};

/* The table's xBestIndex: write the plan into `info`. */
int event_plan_make(sqlite3_vtab *base, sqlite3_index_info *info);

/* The conditions of a plan whose values are integers, or texts for the kind. The others are left to SQLite. */
int event_plan_conditions(const struct events_kind *kind, const char *plan, sqlite3_value **values,
                          struct condition *out);

/* Write the conditions and the order of a plan for the first few rows as SQL. */
void event_plan_top_sql(const struct events_kind *kind, const char *text, char *out, size_t size);

/* The names of the columns, separated by commas. */
void event_plan_names(const struct events_kind *kind, char *out, size_t size);

/* Append a column to a list. */
void event_plan_list(char *list, size_t size, const char *name, const char *direction);

/* Write the columns of the index that serves a question: those that equal a value, then the order of the rows. */
void event_plan_order(const struct events_kind *kind, int plan, unsigned equal, char *out, size_t size);

#endif
