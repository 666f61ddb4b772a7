/* Writes call stacks, the modules and lines that they lead through, and misuse that names them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "src/trace/database/common-rows.h"

bool
tidei_callstacks_add_module(struct tidei_database *database, uint32_t id, uint64_t base, uint64_t size)
{
    if (!tidei_grow(&database->modules, &database->module_capacity, database->module_count, 1))
        return false;
    database->modules[database->module_count++] = (struct tidei_database_module){ id, base, size };
    return true;
}

/* The module of an address, the one loaded last if there are several; 0: none. */
static uint32_t
callstacks_module_of(const struct tidei_database *database, uint64_t address)
{
    for (size_t i = database->module_count; i-- > 0;) {
        const struct tidei_database_module *module = &database->modules[i];

        if (address - module->base < module->size)
            return module->id;
    }
    return 0;
}

void
tidei_callstacks_module(struct tidei_database *database, const struct tidei_record *record, const char *text,
                        size_t length)
{
    size_t path = strlen(text);

    if (!tidei_callstacks_add_module(database, (uint32_t)record->address, record->stream, record->size))
        database->no_memory = true;
    tidei_database_insert(database, module, TIDEI_NUMBER(record->address), TIDEI_TEXT_OF(text, path),
                          TIDEI_TEXT(path < length ? text + path + 1 : ""), TIDEI_NUMBER(record->stream),
                          TIDEI_NUMBER(record->size));
}

void
tidei_callstacks_source(struct tidei_database *database, const struct tidei_record *record, const char *text,
                        size_t length)
{
    size_t function = strlen(text);

    /* As a frame: the frames of call stacks have the number negated in place of an address. */
    sqlite3_bind_int64(database->frame, 1, (int64_t)-record->address);
    sqlite3_bind_text(database->frame, 3, text, (int)function, SQLITE_STATIC);
    sqlite3_bind_text(database->frame, 4, function < length ? text + function + 1 : "", -1, SQLITE_STATIC);
    if (record->size != 0)
        sqlite3_bind_int64(database->frame, 5, (int64_t)record->size);
    tidei_database_run(database, database->frame, "frame");
}

/* One frame: its row where it has none, and its place in the call stack. */
static void
callstacks_frame(struct tidei_database *database, int64_t callstack_id, size_t position, uint64_t address)
{
    uint32_t module_id = callstacks_module_of(database, address);
    sqlite3_stmt *const statements[] = { database->frame, database->callstack };

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        sqlite3_bind_int64(statements[i], 1, (int64_t)address);
        if (module_id != 0)
            sqlite3_bind_int64(statements[i], 2, module_id);
        if (statements[i] == database->callstack) {
            sqlite3_bind_int64(statements[i], 3, callstack_id);
            sqlite3_bind_int64(statements[i], 4, (int64_t)position);
        }
        tidei_database_run(database, statements[i], "callstack");
    }
}

void
tidei_callstacks_stack(struct tidei_database *database, const struct tidei_record *record, const char *text,
                       size_t length)
{
    for (size_t i = 0; (i + 1) * sizeof(uint64_t) <= length; i++) {
        uint64_t address;

        memcpy(&address, text + i * sizeof(address), sizeof(address));
        callstacks_frame(database, (int64_t)record->address, i, address);
    }
}

static const char *const callstacks_misuses[] = {
    [TIDEI_MISUSE_UNKNOWN_POINTER] = "unknown_pointer", [TIDEI_MISUSE_DOUBLE_FREE] = "double_free",
    [TIDEI_MISUSE_WRONG_SIZE] = "wrong_size",           [TIDEI_MISUSE_WRONG_ALIGNMENT] = "wrong_alignment",
    [TIDEI_MISUSE_GIVEN_TWICE] = "given_twice",
};

#define CALLSTACKS_MISUSES (sizeof(callstacks_misuses) / sizeof(callstacks_misuses[0]))

static int64_t
callstacks_alignment(unsigned log2)
{
    return (int64_t)((uint64_t)1 << (log2 & 63));
}

void
tidei_callstacks_misuse(struct tidei_database *database, const struct tidei_record *record, const char *text,
                        size_t length)
{
    struct tidei_misuse misuse;
    bool known;

    if (length != sizeof(misuse)) {
        database->unreadable++; /* a damaged file */
        return;
    }
    memcpy(&misuse, text, sizeof(misuse));
    known = misuse.alloc_os_tid != 0;
    tidei_database_insert(
        database, misuse, TIDEI_NUMBER(tidei_timeline_ns(&database->timeline, record->ticks)),
        TIDEI_TEXT(callstacks_misuses[misuse.kind < CALLSTACKS_MISUSES ? misuse.kind : TIDEI_MISUSE_UNKNOWN_POINTER]),
        TIDEI_NUMBER(record->address), TIDEI_NUMBER(record->size),
        TIDEI_NUMBER(callstacks_alignment(record->alignment_log2)), TIDEI_NUMBER(record->thread),
        TIDEI_ID(record->callstack), TIDEI_NUMBER_IF(known, misuse.size),
        TIDEI_NUMBER_IF(known, callstacks_alignment(misuse.alignment_log2)), TIDEI_ID(misuse.alloc_os_tid),
        TIDEI_ID(misuse.alloc_callstack), TIDEI_ID(misuse.free_os_tid), TIDEI_ID(misuse.free_callstack));
}
