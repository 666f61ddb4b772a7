/* Writes call stacks, the modules that they lead through, and misuse that names them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/tables/grow.h"
#include "src/trace/database/database.h"

bool
tidei_stacks_add_module(struct tidei_database *database, uint32_t id, uint64_t base, uint64_t size)
{
    struct tidei_database_modules *modules = &database->modules;

    if (!tidei_grow(&modules->items, &modules->capacity, modules->count, 1))
        return false;
    modules->items[modules->count++] = (struct tidei_database_module){ id, base, size };
    return true;
}

/* The module of an address, of several the one that was loaded last; 0: none. */
static uint32_t
stacks_module_of(const struct tidei_database *database, uint64_t address)
{
    for (size_t i = database->modules.count; i-- > 0;) {
        const struct tidei_database_module *module = &database->modules.items[i];

        if (address - module->base < module->size)
            return module->id;
    }
    return 0;
}

enum tide_status
tidei_stacks_module(struct tidei_database *database, const struct tidei_record *record, const char *text, size_t length)
{
    size_t path = strlen(text);

    if (!tidei_stacks_add_module(database, (uint32_t)record->address, record->stream, record->size))
        database->no_memory = true;
    sqlite3_bind_int64(database->module, 1, (int64_t)record->address);
    sqlite3_bind_text(database->module, 2, text, (int)path, SQLITE_STATIC);
    sqlite3_bind_text(database->module, 3, path < length ? text + path + 1 : "", -1, SQLITE_STATIC);
    sqlite3_bind_int64(database->module, 4, (int64_t)record->stream);
    sqlite3_bind_int64(database->module, 5, (int64_t)record->size);
    return tidei_database_run(database, database->module, "module");
}

/* One frame: its row where it has none, and its place in the call stack. */
static enum tide_status
stacks_frame(struct tidei_database *database, int64_t callstack_id, size_t position, uint64_t address)
{
    uint32_t module_id = stacks_module_of(database, address);
    sqlite3_stmt *const statements[] = { database->frame, database->callstack };
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]) && status == TIDE_OK; i++) {
        sqlite3_bind_int64(statements[i], 1, (int64_t)address);
        if (module_id != 0)
            sqlite3_bind_int64(statements[i], 2, module_id);
        if (statements[i] == database->callstack) {
            sqlite3_bind_int64(statements[i], 3, callstack_id);
            sqlite3_bind_int64(statements[i], 4, (int64_t)position);
        }
        status = tidei_database_run(database, statements[i], "callstack");
    }
    return status;
}

enum tide_status
tidei_stacks_callstack(struct tidei_database *database, const struct tidei_record *record, const char *text,
                       size_t length)
{
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; status == TIDE_OK && (i + 1) * sizeof(uint64_t) <= length; i++) {
        uint64_t address;

        memcpy(&address, text + i * sizeof(address), sizeof(address));
        status = stacks_frame(database, (int64_t)record->address, i, address);
    }
    return status;
}

static const char *
stacks_misuse_name(uint32_t kind)
{
    switch ((enum tidei_misuse_kind)kind) {
    case TIDEI_MISUSE_DOUBLE_FREE:
        return "double_free";
    case TIDEI_MISUSE_WRONG_SIZE:
        return "wrong_size";
    case TIDEI_MISUSE_WRONG_ALIGNMENT:
        return "wrong_alignment";
    case TIDEI_MISUSE_GIVEN_TWICE:
        return "given_twice";
    case TIDEI_MISUSE_UNKNOWN_POINTER:
        break;
    }
    return "unknown_pointer";
}

enum tide_status
tidei_stacks_misuse(struct tidei_database *database, const struct tidei_record *record, const char *text, size_t length)
{
    struct tidei_misuse misuse;

    if (length != sizeof(misuse)) {
        database->unreadable++; /* a damaged file */
        return TIDE_OK;
    }
    memcpy(&misuse, text, sizeof(misuse));
    sqlite3_bind_int64(database->misuse, 1, (int64_t)tidei_timeline_ns(&database->timeline, record->ticks));
    sqlite3_bind_text(database->misuse, 2, stacks_misuse_name(misuse.kind), -1, SQLITE_STATIC);
    sqlite3_bind_int64(database->misuse, 3, (int64_t)record->address);
    sqlite3_bind_int64(database->misuse, 4, (int64_t)record->size);
    sqlite3_bind_int64(database->misuse, 5, (int64_t)((uint64_t)1 << (record->alignment_log2 & 63)));
    sqlite3_bind_int64(database->misuse, 6, record->thread);
    sqlite3_bind_int64(database->misuse, 7, record->callstack);
    if (misuse.alloc_os_tid != 0) {
        sqlite3_bind_int64(database->misuse, 8, (int64_t)misuse.size);
        sqlite3_bind_int64(database->misuse, 9, (int64_t)((uint64_t)1 << (misuse.alignment_log2 & 63)));
    }
    sqlite3_bind_int64(database->misuse, 10, misuse.alloc_os_tid);
    sqlite3_bind_int64(database->misuse, 11, misuse.alloc_callstack);
    sqlite3_bind_int64(database->misuse, 12, misuse.free_os_tid);
    sqlite3_bind_int64(database->misuse, 13, misuse.free_callstack);
    return tidei_database_run(database, database->misuse, "misuse");
}
