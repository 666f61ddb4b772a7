/*
 * Imports the SQLite export of Nsight Systems: the table CUDA_GPU_MEMORY_USAGE_EVENTS, which is there where the profile
 * was made with --cuda-memory-usage=true. Each process, device and kind of memory is a stack of its own; the calls of
 * the runtime and the driver that the events belong to are the threads and the driver calls of the trace.
 *
 * LIMITATIONS: an allocation that failed leaves no event. Memory of a graph that allocates has no call of its own.
 */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/import/import.h"
#include "viewer/base/file.h"
#include "viewer/base/progress.h"
#include "viewer/read/trace.h"

#define NSYS_EVENTS "CUDA_GPU_MEMORY_USAGE_EVENTS"
#define NSYS_CALLS  "CUPTI_ACTIVITY_KIND_RUNTIME"

/* CUDA's allocations are aligned to at least this. */
#define NSYS_ALIGNMENT 256

/* The most names of functions; some hundred functions of the API allocate or free. */
#define NSYS_NAMES_MAX 4096

/* A process's memory of one kind on one device. */
struct nsys_place {
    int64_t pid;
    int64_t device;
    int64_t kind;
    bool pooled;
    unsigned layer; /* of the import */
    int64_t base_id;
    int64_t used_bytes; /* of the pool, as last seen; -1: never */
    int64_t reserved_bytes;
    uint32_t next; /* 1 more than the index of an earlier one with the same hash; 0: none */
};

/* The call that an event belongs to. */
struct nsys_call {
    int64_t start_ns;
    int64_t end_ns;
    int64_t tid;
    int64_t name; /* of StringIds; -1: the call is not in the file */
    int64_t result;
};

struct nsys {
    struct import *import;
    struct trace file;
    struct nsys_place *places; /* owns */
    size_t place_count;
    size_t place_capacity;
    struct id_map place_numbers; /* owns; the index of the newest place of a hash */
    struct id_map call_numbers;  /* owns; by process and correlation */
    struct nsys_call *calls;     /* owns */
    size_t call_count;
    struct id_map name_numbers;  /* owns; by the id of the string */
    char *names[NSYS_NAMES_MAX]; /* owns */
    size_t name_count;
    int64_t first_ns; /* of the first event, where that is before the session's start */
    struct progress progress;
    uint64_t rows; /* of events that were read */
};

/* Columns of the events; what the export does not have is NULL. The first four are required. */
/* clang-format off */
#define NSYS_COLUMN_LIST(each) \
    each(START, start) \
    each(ADDRESS, address) \
    each(BYTES, bytes) \
    each(OPERATION, memoryOperationType) \
    each(PID, globalPid) \
    each(DEVICE, deviceId) \
    each(KIND, memKind) \
    each(CORRELATION, correlationId) \
    each(STREAM, streamId) \
    each(POOL, localMemoryPoolAddress) \
    each(POOL_SIZE, localMemoryPoolSize) \
    each(POOL_USED, localMemoryPoolUtilizedSize)
/* clang-format on */
#define NSYS_NUMBER(number, name) NSYS_##number,
#define NSYS_NAME(number, name)   #name,

enum { NSYS_COLUMN_LIST(NSYS_NUMBER) NSYS_COLUMNS };

static const char *const nsys_columns[] = { NSYS_COLUMN_LIST(NSYS_NAME) };

/* 73 years to either side of the session's start: sums and differences of two stay in range. */
static bool
nsys_is_time(int64_t ns)
{
    return ns > -(INT64_C(1) << 61) && ns < INT64_C(1) << 61;
}

/* The text that a table has for an id, to be freed; NULL: it has none. */
static char *
nsys_text(const struct nsys *nsys, const char *table, const char *column, int64_t id)
{
    char sql[128];
    sqlite3_stmt *statement = NULL;
    char *text = NULL;

    snprintf(sql, sizeof(sql), "id %s", column);
    if (!trace_has(&nsys->file, table, sql))
        return NULL;
    snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE id = %" PRId64 " LIMIT 1", column, table, id);
    if (sqlite3_prepare_v2(nsys->file.db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
        text = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return text;
}

/*
 * The name of a place's base: its label in the export, or the one that exports are known to have. Where this library
 * has a base like it, that base's name.
 */
static void
nsys_base_kind(const struct nsys *nsys, const struct nsys_place *place, char *out, size_t size)
{
    static const char *const known[] = { "Pageable", "Pinned",        "Device",        "Array",
                                         "Managed",  "Device Static", "Managed Static" };
    bool is_known = place->kind >= 0 && (size_t)place->kind < sizeof(known) / sizeof(known[0]);
    char *label = nsys_text(nsys, "ENUM_CUDA_MEM_KIND", "label", place->kind);
    size_t length = 0;

    for (const char *letter = label != NULL ? label
                              : is_known    ? known[place->kind]
                                            : "unknown";
         *letter != '\0' && length + 1 < size; letter++)
        out[length++] = isalnum((unsigned char)*letter) ? (char)tolower((unsigned char)*letter) : '_';
    out[length] = '\0';
    free(label);
    if (strcmp(out, "device") == 0)
        snprintf(out, size, "%s", place->pooled ? "driver" : "cuda");
    if (length == 0)
        snprintf(out, size, "unknown");
}

static uint64_t
nsys_hash_place(const struct nsys_place *place)
{
    uint64_t hash = (uint64_t)place->pid;

    hash = hash * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)place->device;
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)place->kind;
    return hash * 2 + place->pooled;
}

/* Add a place; its number is then the newest of its hash. False: no memory. */
static bool
nsys_note_place(struct nsys *nsys, const struct nsys_place *place)
{
    uint64_t hash = nsys_hash_place(place);
    uint32_t earlier = 0;

    if (!tidei_grow(&nsys->places, &nsys->place_capacity, nsys->place_count, 1))
        return false;
    if (id_map_take(&nsys->place_numbers, hash, &earlier))
        earlier++;
    nsys->places[nsys->place_count] = *place;
    nsys->places[nsys->place_count].next = earlier;
    return id_map_add(&nsys->place_numbers, hash, (uint32_t)nsys->place_count++);
}

static int
nsys_add_place(struct nsys *nsys, struct nsys_place *place)
{
    char kinds[64] = "log ";
    char config[64];
    int status;

    nsys_base_kind(nsys, place, kinds + 4, sizeof(kinds) - 4);
    snprintf(config, sizeof(config), "pid=%" PRId64, place->pid >> 24 & 0xffffff);
    status = import_layers(nsys->import, kinds, config, place->device >= 0 ? place->device : -1, NSYS_ALIGNMENT,
                           &place->layer);
    place->base_id = nsys->import->layer_ids;
    place->used_bytes = -1;
    if (status == COMMAND_FINE && !nsys_note_place(nsys, place))
        status = trace_broken(&nsys->file, "no memory for its processes and devices");
    return status;
}

static struct nsys_place *
nsys_find_place(struct nsys *nsys, const struct nsys_place *wanted)
{
    const uint32_t *newest = id_map_find(&nsys->place_numbers, nsys_hash_place(wanted));

    for (uint32_t i = newest != NULL ? *newest + 1 : 0; i != 0; i = nsys->places[i - 1].next) {
        struct nsys_place *place = &nsys->places[i - 1];

        if (place->pid == wanted->pid && place->device == wanted->device && place->kind == wanted->kind &&
            place->pooled == wanted->pooled)
            return place;
    }
    return NULL;
}

/*
 * The place of an event. A free may not name its pool: it belongs to the place where its address is live. NULL: a
 * message was printed.
 */
static struct nsys_place *
nsys_place(struct nsys *nsys, sqlite3_stmt *row, bool is_free)
{
    struct nsys_place wanted = {
        .pid = sqlite3_column_int64(row, NSYS_PID),
        .device = sqlite3_column_type(row, NSYS_DEVICE) != SQLITE_NULL ? sqlite3_column_int64(row, NSYS_DEVICE) : -1,
        .kind = sqlite3_column_type(row, NSYS_KIND) != SQLITE_NULL ? sqlite3_column_int64(row, NSYS_KIND) : 2,
        .pooled = sqlite3_column_int64(row, NSYS_POOL) != 0,
    };
    struct nsys_place *place = nsys_find_place(nsys, &wanted);
    uint64_t address = (uint64_t)sqlite3_column_int64(row, NSYS_ADDRESS);

    if (is_free && (place == NULL || !import_is_live(nsys->import, place->layer, address))) {
        struct nsys_place otherwise = wanted;
        struct nsys_place *other;

        otherwise.pooled = !wanted.pooled;
        other = nsys_find_place(nsys, &otherwise);
        if (other != NULL && (place == NULL || import_is_live(nsys->import, other->layer, address)))
            return other;
    }
    if (place == NULL && nsys_add_place(nsys, &wanted) == COMMAND_FINE)
        place = &nsys->places[nsys->place_count - 1];
    return place;
}

/* Write a sample of a pool where its figures have changed. */
static int
nsys_sample(struct nsys *nsys, sqlite3_stmt *row, struct nsys_place *place)
{
    int64_t reserved = sqlite3_column_int64(row, NSYS_POOL_SIZE);
    int64_t used = sqlite3_column_int64(row, NSYS_POOL_USED);

    if (!place->pooled || sqlite3_column_type(row, NSYS_POOL_SIZE) != SQLITE_INTEGER || used < 0 || reserved < 0 ||
        (used == place->used_bytes && reserved == place->reserved_bytes))
        return COMMAND_FINE;
    place->used_bytes = used;
    place->reserved_bytes = reserved;
    return import_row(nsys->import, pool_sample, TIDEI_NUMBER(nsys->import->last_ns), TIDEI_NUMBER(place->base_id),
                      TIDEI_NUMBER(used), TIDEI_NUMBER(reserved));
}

/* The process is in the upper bits of both ids, the correlation has 32. */
static uint64_t
nsys_call_key(int64_t global_id, int64_t correlation)
{
    return (uint64_t)(global_id >> 24) << 32 | (uint32_t)correlation;
}

static const struct nsys_call *
nsys_call(const struct nsys *nsys, sqlite3_stmt *row)
{
    const uint32_t *number =
        id_map_find(&nsys->call_numbers,
                    nsys_call_key(sqlite3_column_int64(row, NSYS_PID), sqlite3_column_int64(row, NSYS_CORRELATION)));

    return number != NULL && nsys->calls[*number].name >= 0 ? &nsys->calls[*number] : NULL;
}

/* A name without the version that follows it, "_v3020"; "" for an unknown one. */
static const char *
nsys_name(struct nsys *nsys, int64_t id)
{
    const uint32_t *number = id_map_find(&nsys->name_numbers, (uint64_t)id);
    char *name, *version;

    if (number != NULL)
        return nsys->names[*number] != NULL ? nsys->names[*number] : "";
    if (nsys->name_count == NSYS_NAMES_MAX ||
        !id_map_add(&nsys->name_numbers, (uint64_t)id, (uint32_t)nsys->name_count))
        return "";
    name = nsys_text(nsys, "StringIds", "value", id);
    nsys->names[nsys->name_count++] = name;
    version = name != NULL ? strstr(name, "_v") : NULL;
    if (version != NULL && strspn(version + 2, "0123456789") == strlen(version + 2))
        *version = '\0';
    return name != NULL ? name : "";
}

static int
nsys_write_call(struct nsys *nsys, const struct nsys_call *call, bool is_free)
{
    int64_t allocation_id = nsys->import->allocation_id;
    int64_t thread_id;

    if (call == NULL || allocation_id == 0)
        return COMMAND_FINE;
    thread_id = import_thread(nsys->import, (uint64_t)call->tid);
    if (thread_id == 0)
        return COMMAND_WRONG;
    return import_row(nsys->import, driver_call, TIDEI_NUMBER(allocation_id), TIDEI_NUMBER(is_free),
                      TIDEI_TEXT(nsys_name(nsys, call->name)), TIDEI_NUMBER(call->start_ns - nsys->first_ns),
                      TIDEI_NUMBER(call->end_ns - call->start_ns), TIDEI_NUMBER(thread_id), TIDEI_NUMBER(call->result));
}

static int
nsys_event(struct nsys *nsys, sqlite3_stmt *row)
{
    int64_t operation = sqlite3_column_int64(row, NSYS_OPERATION);
    const struct nsys_call *call = nsys_call(nsys, row);
    struct nsys_place *place = nsys_place(nsys, row, operation == 1);
    struct import_event event = {
        .address = (uint64_t)sqlite3_column_int64(row, NSYS_ADDRESS),
        .size = (uint64_t)sqlite3_column_int64(row, NSYS_BYTES),
        .thread = call != NULL ? (uint64_t)call->tid : 0,
        .stream = (uint64_t)sqlite3_column_int64(row, NSYS_STREAM),
        .duration_ns = call != NULL ? call->end_ns - call->start_ns : 0,
    };
    int status;

    if (place == NULL)
        return COMMAND_WRONG;
    event.layer = place->layer;
    import_time(nsys->import, sqlite3_column_type(row, NSYS_START) == SQLITE_INTEGER,
                sqlite3_column_int64(row, NSYS_START) - nsys->first_ns);
    status = operation == 1 ? import_free(nsys->import, &event) : import_alloc(nsys->import, &event);
    if (status == COMMAND_FINE)
        status = nsys_write_call(nsys, call, operation == 1);
    return status == COMMAND_FINE ? nsys_sample(nsys, row, place) : status;
}

/* Whether a row has all that an event needs, in the right types. */
static bool
nsys_is_event(sqlite3_stmt *row)
{
    int64_t operation = sqlite3_column_int64(row, NSYS_OPERATION);

    return sqlite3_column_type(row, NSYS_ADDRESS) == SQLITE_INTEGER &&
           sqlite3_column_type(row, NSYS_BYTES) == SQLITE_INTEGER && sqlite3_column_int64(row, NSYS_BYTES) >= 0 &&
           sqlite3_column_type(row, NSYS_OPERATION) == SQLITE_INTEGER && (operation == 0 || operation == 1) &&
           nsys_is_time(sqlite3_column_int64(row, NSYS_START));
}

/* Give each row of `sql` to a function, until that returns another than COMMAND_FINE. */
static int
nsys_rows(struct nsys *nsys, const char *sql, int (*take)(struct nsys *nsys, sqlite3_stmt *row))
{
    sqlite3_stmt *row = NULL;
    int status = COMMAND_FINE;
    int code = sqlite3_prepare_v2(nsys->file.db, sql, -1, &row, NULL);

    while (code == SQLITE_OK && status == COMMAND_FINE && sqlite3_step(row) == SQLITE_ROW)
        status = take(nsys, row);
    code = sqlite3_finalize(row);
    return code == SQLITE_OK ? status : trace_failed(&nsys->file);
}

static int
nsys_take_event(struct nsys *nsys, sqlite3_stmt *row)
{
    if (++nsys->rows % 4096 == 0)
        progress_update(&nsys->progress, nsys->rows, 0);
    if (nsys_is_event(row))
        return nsys_event(nsys, row);
    nsys->import->unreadable++;
    return COMMAND_FINE;
}

static int
nsys_events(struct nsys *nsys)
{
    char sql[512] = "SELECT ";
    int status;

    for (int i = 0; i < NSYS_COLUMNS; i++) {
        strcat(sql, i > 0 ? ", " : "");
        strcat(sql, trace_has(&nsys->file, NSYS_EVENTS, nsys_columns[i]) ? nsys_columns[i] : "NULL");
    }
    strcat(sql, " FROM " NSYS_EVENTS " ORDER BY start, rowid");
    progress_begin(&nsys->progress, "importing");
    status = nsys_rows(nsys, sql, nsys_take_event);
    progress_end(&nsys->progress);
    return status;
}

/* Ask for the call that an event names. Columns: globalPid, correlationId. */
static int
nsys_want_call(struct nsys *nsys, sqlite3_stmt *row)
{
    uint64_t key = nsys_call_key(sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));

    if (sqlite3_column_int64(row, 1) == 0 || id_map_find(&nsys->call_numbers, key) != NULL)
        return COMMAND_FINE;
    if (nsys->call_count == UINT32_MAX || !id_map_add(&nsys->call_numbers, key, (uint32_t)nsys->call_count++))
        return trace_broken(&nsys->file, "no memory for its calls");
    return COMMAND_FINE;
}

/* Columns: globalTid, correlationId, start, end, nameId, returnValue. */
static int
nsys_read_call(struct nsys *nsys, sqlite3_stmt *row)
{
    const uint32_t *number =
        id_map_find(&nsys->call_numbers, nsys_call_key(sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)));
    struct nsys_call call = {
        .start_ns = sqlite3_column_int64(row, 2),
        .end_ns = sqlite3_column_int64(row, 3),
        .tid = sqlite3_column_int64(row, 0) & 0xffffff,
        .name = sqlite3_column_int64(row, 4),
        .result = sqlite3_column_int64(row, 5),
    };

    if (number != NULL && nsys->calls[*number].name < 0 && call.start_ns >= nsys->first_ns &&
        nsys_is_time(call.end_ns) && call.end_ns >= call.start_ns && call.name >= 0)
        nsys->calls[*number] = call;
    return COMMAND_FINE;
}

/* Read the calls that the events belong to, where the export has them. */
static int
nsys_calls(struct nsys *nsys)
{
    int status;

    if (!trace_has(&nsys->file, NSYS_EVENTS, "correlationId globalPid") ||
        !trace_has(&nsys->file, NSYS_CALLS, "globalTid correlationId start end nameId returnValue"))
        return COMMAND_FINE;
    status = nsys_rows(nsys, "SELECT globalPid, correlationId FROM " NSYS_EVENTS, nsys_want_call);
    if (status != COMMAND_FINE)
        return status;
    nsys->calls = calloc(nsys->call_count + 1, sizeof(*nsys->calls));
    if (nsys->calls == NULL)
        return trace_broken(&nsys->file, "no memory for its calls");
    for (size_t i = 0; i < nsys->call_count; i++)
        nsys->calls[i].name = -1;
    return nsys_rows(nsys, "SELECT globalTid, correlationId, start, end, nameId, returnValue FROM " NSYS_CALLS,
                     nsys_read_call);
}

/* When the session began; 0 where the export does not say. */
static uint64_t
nsys_start_unix_ns(const struct nsys *nsys)
{
    int64_t ns = 0;

    if (!trace_has(&nsys->file, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs") ||
        trace_integer(&nsys->file, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", &ns) != COMMAND_FINE)
        return 0;
    ns = ns > 0 && ns < INT64_C(1) << 62 ? ns + nsys->first_ns : 0;
    return ns > 0 ? (uint64_t)ns : 0;
}

static int
nsys_check(struct nsys *nsys)
{
    if (!trace_has(&nsys->file, NSYS_EVENTS, ""))
        return trace_broken(&nsys->file, "no memory events of Nsight Systems: the table " NSYS_EVENTS
                                         " is missing (profile with --cuda-memory-usage=true)");
    for (int i = 0; i <= NSYS_OPERATION; i++) {
        if (!trace_has(&nsys->file, NSYS_EVENTS, nsys_columns[i]))
            return trace_broken(&nsys->file, "the table " NSYS_EVENTS " has no column %s", nsys_columns[i]);
    }
    return trace_integer(&nsys->file, "SELECT min(start) FROM " NSYS_EVENTS " WHERE start < 0", &nsys->first_ns);
}

static int
nsys_import(struct nsys *nsys, const char *path)
{
    int status = trace_open_other(path, &nsys->file);

    if (status != COMMAND_FINE)
        return status;
    status = nsys_check(nsys);
    if (status == COMMAND_FINE && nsys->first_ns < -(INT64_C(1) << 61))
        nsys->first_ns = 0;
    if (status == COMMAND_FINE)
        status = nsys_calls(nsys);
    if (status == COMMAND_FINE)
        status = nsys_events(nsys);
    return status;
}

static int
nsys_run(struct import *import, const char *path, uint64_t *start_unix_ns)
{
    struct nsys *nsys = calloc(1, sizeof(*nsys));
    int status;

    if (nsys == NULL) {
        message("%s: no memory", path);
        return COMMAND_WRONG;
    }
    nsys->import = import;
    status = nsys_import(nsys, path);
    if (status == COMMAND_FINE)
        *start_unix_ns = nsys_start_unix_ns(nsys);
    trace_close(&nsys->file);
    free(nsys->places);
    id_map_free(&nsys->place_numbers);
    id_map_free(&nsys->call_numbers);
    id_map_free(&nsys->name_numbers);
    free(nsys->calls);
    for (size_t i = 0; i < nsys->name_count; i++)
        free(nsys->names[i]);
    free(nsys);
    return status;
}

const struct import_format import_nsys = {
    .name = "nsys",
    .purpose = "Nsight Systems' SQLite export, recorded with --cuda-memory-usage=true",
    .recognise = file_is_sqlite,
    .run = nsys_run,
};
