/* The schema of a trace, format 1. */
#ifndef TIDEI_TRACE_DATABASE_SCHEMA_H
#define TIDEI_TRACE_DATABASE_SCHEMA_H

#define TIDEI_TRACE_FORMAT 1

/* PRAGMA application_id of a trace: "TIDE". */
#define TIDEI_TRACE_APPLICATION_ID 0x54494445

/* SQL that creates all tables and views. */
extern const char tidei_trace_schema[];

#endif
