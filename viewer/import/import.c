/*
 * Pairs the events of another program's recording, writes them as a trace, and puts the trace in its place when it is
 * complete.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/tables/grow.h"
#include "src/trace/database/schema.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/import/import.h"
#include "viewer/read/layer-graph.h"

/* 146 years: later times are no times, and sums of two have room. */
#define IMPORT_NS_MOST (INT64_C(1) << 62)

/* A larger request is damage, unless it failed. */
#define IMPORT_SIZE_MOST (UINT64_C(1) << 50)

/* The most that reserved_too_much (viewer/analysis/reserved.c) lets through; no alignment of an import is larger. */
#define IMPORT_BYTES_MOST ((UINT64_C(1) << 62) - 1)
#define IMPORT_PAGE_BYTES UINT64_C(4096)

/* One row of `allocation`; ids that are 0 are NULL in the trace. */
struct import_life {
    uint32_t next_free; /* of a slot that is free: the next one + 1; 0: none */
    int64_t allocation_id;
    int64_t layer_id;
    uint64_t address;
    uint64_t size;
    uint64_t alignment;
    int status;
    int64_t tag_id;
    int64_t alloc_ns;
    int64_t alloc_duration_ns;
    int64_t alloc_thread_id;
    int64_t alloc_stream_id;
    bool freed;
    int64_t free_ns;
    int64_t free_duration_ns;
    int64_t free_thread_id;
    int64_t free_stream_id;
};

/* Files of SQLite and of the recorder that would be read as parts of the new trace. */
static const char *const import_companions[] = { "-wal", "-journal", "-rings" };

static int
import_failed(const struct import *import)
{
    message("%s: cannot be written: %s", import->path, import->db != NULL ? sqlite3_errmsg(import->db) : "no memory");
    return COMMAND_WRONG;
}

static int
import_refused(const char *path, const char *why)
{
    message("%s: %s", path, why);
    return COMMAND_WRONG;
}

bool
import_is_trace(const char *path, bool follow)
{
    unsigned char header[72];
    bool is_trace = false;
    int fd;

    if (!file_is_sqlite(path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return false;
    if (pread(fd, header, sizeof(header), 0) == (ssize_t)sizeof(header))
        is_trace = ((uint32_t)header[68] << 24 | (uint32_t)header[69] << 16 | (uint32_t)header[70] << 8 | header[71]) ==
                   TIDEI_TRACE_APPLICATION_ID;
    close(fd);
    return is_trace;
}

static int
import_check(const char *path, bool overwrite)
{
    struct stat info;
    char *beside = NULL;

    for (size_t i = 0; i < sizeof(import_companions) / sizeof(import_companions[0]); i++) {
        bool taken;

        if (asprintf(&beside, "%s%s", path, import_companions[i]) < 0)
            return import_refused(path, "no memory");
        taken = lstat(beside, &info) == 0;
        if (taken)
            message("%s: %s stands beside it: a trace that is being recorded, or was left behind", path, beside);
        free(beside);
        if (taken)
            return COMMAND_WRONG;
    }
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? COMMAND_FINE : import_refused(path, strerror(errno));
    if (!S_ISREG(info.st_mode) || !import_is_trace(path, false))
        return import_refused(path, "exists and is no trace: it is not overwritten");
    return overwrite ? COMMAND_FINE : import_refused(path, "exists; --overwrite replaces it");
}

/* The file that becomes the trace: made here, so that SQLite never opens one that somebody else has put there. */
static int
import_make_file(struct import *import, const char *path)
{
    import->path = strdup(path);
    if (import->path == NULL)
        return import_refused(path, "no memory");
    return temporary_open(&import->temporary, path, "import", 0600) ? COMMAND_FINE
                                                                    : import_refused(path, strerror(errno));
}

/* Without a journal: what fails is removed as a whole. One transaction, of which SQLite keeps 32 MiB in memory. */
static int
import_make_schema(struct import *import)
{
    char pragmas[256];

    snprintf(pragmas, sizeof(pragmas),
             "PRAGMA page_size = 16384; PRAGMA application_id = %d; PRAGMA journal_mode = OFF;"
             "PRAGMA synchronous = OFF; PRAGMA cache_size = -32768; PRAGMA locking_mode = EXCLUSIVE; BEGIN",
             TIDEI_TRACE_APPLICATION_ID);
    if (sqlite3_open_v2(import->temporary.path, &import->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(import->db, pragmas, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(import->db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK ||
        tidei_inserts_prepare(&import->inserts, import->db, false) != SQLITE_OK ||
        tidei_insert_statuses(import->db) != SQLITE_OK)
        return import_failed(import);
    return COMMAND_FINE;
}

static int
import_no_memory(void)
{
    message("tidemark import: no memory for what is live");
    return COMMAND_WRONG;
}

int
import_begin(struct import *import, const char *path, bool overwrite)
{
    int status = import_check(path, overwrite);

    *import = (struct import){ .overwrite = overwrite, .last_ns = -1, .temporary = { .file = -1 } };
    tidei_map_draw_key(&import->live.by_address);
    if (status == COMMAND_FINE)
        status = import_make_file(import, path);
    if (status == COMMAND_FINE)
        status = import_make_schema(import);
    if (status != COMMAND_FINE)
        import_abandon(import);
    return status;
}

void
import_abandon(struct import *import)
{
    tidei_inserts_finalize(&import->inserts);
    sqlite3_close(import->db);
    temporary_close(&import->temporary);
    free(import->path);
    for (unsigned i = 0; i < import->layer_count; i++)
        id_map_free(&import->layers[i].streams);
    free(import->layers);
    tidei_lives_free(&import->live);
    free(import->lives);
    id_map_free(&import->threads);
}

int
import_inserted(const struct import *import, int code)
{
    return code == SQLITE_OK ? COMMAND_FINE : import_failed(import);
}

/* Write one row of `layer`. Events may name a log. */
static int
import_add_layer(struct import *import, const char *kind, const char *config, bool is_base, int64_t device,
                 uint64_t alignment)
{
    int64_t id = ++import->layer_ids;

    if (id > TRACE_LAYERS_MAX) {
        message("tidemark import: more devices and kinds of memory than a trace of %d layers can have",
                TRACE_LAYERS_MAX);
        return COMMAND_WRONG;
    }
    if (strcmp(kind, "log") == 0) {
        if (!tidei_grow(&import->layers, &import->layer_capacity, import->layer_count, 1))
            return import_no_memory();
        import->layers[import->layer_count++] =
            (struct import_layer){ .layer_id = id, .device = device, .alignment = alignment };
    }
    return import_row(import, layer, TIDEI_NUMBER(id), TIDEI_NUMBER_IF(!is_base, id + 1), TIDEI_TEXT(kind),
                      TIDEI_TEXT(config), TIDEI_NUMBER_IF(device >= 0, device));
}

int
import_layers(struct import *import, const char *kinds, const char *config, int64_t device, uint64_t alignment,
              unsigned *first)
{
    int status = COMMAND_FINE;
    char kind[64];
    int length;

    *first = import->layer_count;
    for (; status == COMMAND_FINE && sscanf(kinds, " %63s%n", kind, &length) == 1; kinds += length) {
        bool is_base = kinds[length] == '\0';

        status = import_add_layer(import, kind, is_base ? config : "", is_base, device, alignment);
    }
    return status;
}

void
import_time(struct import *import, bool known, int64_t ns)
{
    if (!known || ns < import->latest_ns || ns >= IMPORT_NS_MOST)
        import->guessed++;
    else
        import->latest_ns = ns;
    import->last_ns = import->last_ns >= import->latest_ns ? import->last_ns + 1 : import->latest_ns;
}

/* The id of what is new in a map. 0: a message was printed. */
static int64_t
import_new_id(struct id_map *map, uint64_t key, int64_t *last_id)
{
    if (*last_id < UINT32_MAX && id_map_add(map, key, (uint32_t)*last_id + 1))
        return ++*last_id;
    import_no_memory();
    return 0;
}

int64_t
import_thread(struct import *import, uint64_t thread)
{
    const uint32_t *known = id_map_find(&import->threads, thread);
    int64_t id = known != NULL ? *known : import_new_id(&import->threads, thread, &import->thread_ids);

    if (known != NULL || id == 0)
        return id;
    return import_row(import, thread, TIDEI_NUMBER(id), TIDEI_NUMBER(thread), TIDEI_TEXT("")) == COMMAND_FINE ? id : 0;
}

static int64_t
import_stream(struct import *import, struct import_layer *layer, uint64_t handle)
{
    const uint32_t *known = id_map_find(&layer->streams, handle);
    int64_t id = known != NULL ? *known : import_new_id(&layer->streams, handle, &import->stream_ids);

    if (known != NULL || id == 0)
        return id;
    return import_row(import, stream, TIDEI_NUMBER(id), TIDEI_NUMBER(handle),
                      TIDEI_NUMBER_IF(layer->device >= 0, layer->device)) == COMMAND_FINE
               ? id
               : 0;
}

int64_t
import_tag(struct import *import, int64_t parent, const char *name)
{
    int64_t id = ++import->tag_ids;

    return import_row(import, tag, TIDEI_NUMBER(id), TIDEI_ID(parent), TIDEI_TEXT(name)) == COMMAND_FINE ? id : 0;
}

static int
import_write_life(struct import *import, const struct import_life *life)
{
    return import_row(
        import, allocation, TIDEI_NUMBER(life->allocation_id), TIDEI_NUMBER(life->layer_id),
        TIDEI_NUMBER(life->address), TIDEI_NUMBER(life->size), TIDEI_NUMBER(life->alignment),
        TIDEI_NUMBER(life->status), TIDEI_ID(life->tag_id), TIDEI_NULL, TIDEI_NUMBER(life->alloc_ns),
        TIDEI_NUMBER(life->alloc_duration_ns), TIDEI_NUMBER(life->alloc_thread_id), TIDEI_NUMBER(life->alloc_stream_id),
        TIDEI_NUMBER_IF(life->freed, life->free_ns), TIDEI_NUMBER_IF(life->freed, life->free_duration_ns),
        TIDEI_NUMBER_IF(life->freed, life->free_thread_id), TIDEI_NUMBER_IF(life->freed, life->free_stream_id));
}

/*
 * Whether a device could have the size, and the sizes of all allocations, with this one, add up to what commands can
 * count; alignment and pages round sizes up.
 */
static bool
import_adds_up(struct import *import, uint64_t size)
{
    uint64_t rounded = size <= IMPORT_SIZE_MOST ? (size | (IMPORT_PAGE_BYTES - 1)) + 1 : 0;

    if (rounded == 0 || rounded > IMPORT_BYTES_MOST - import->bytes)
        return false;
    import->bytes += rounded;
    return true;
}

/* An allocation of a size that cannot be true. The first is named. */
static int
import_alloc_unreadable(struct import *import, uint64_t size)
{
    if (!import->has_huge)
        message("tidemark import: event %" PRIu64 " asks for %" PRIu64 " bytes, which no device has",
                import->events + 1, size);
    import->has_huge = true;
    import->allocation_id = 0;
    import->events++;
    import->unreadable++;
    return COMMAND_FINE;
}

/* A row for an allocation that happens now. False after a message. */
static bool
import_new_life(struct import *import, const struct import_event *event, struct import_life *life)
{
    struct import_layer *layer = &import->layers[event->layer];

    import->events++;
    import->allocation_id = ++import->allocation_ids;
    *life = (struct import_life){
        .allocation_id = import->allocation_id,
        .layer_id = layer->layer_id,
        .address = event->address,
        .size = event->size,
        .alignment = layer->alignment,
        .tag_id = event->tag_id,
        .alloc_ns = import->last_ns,
        .alloc_duration_ns = event->duration_ns,
        .alloc_thread_id = import_thread(import, event->thread),
        .alloc_stream_id = import_stream(import, layer, event->stream),
    };
    return life->alloc_thread_id != 0 && life->alloc_stream_id != 0;
}

/* Keep a life until its end. UINT32_MAX: no memory. */
static uint32_t
import_keep(struct import *import, const struct import_life *life)
{
    uint32_t slot = (uint32_t)import->slot_count;

    if (import->first_free != 0) {
        slot = import->first_free - 1;
        import->first_free = import->lives[slot].next_free;
    } else if (import->slot_count < UINT32_MAX - 1 &&
               tidei_grow(&import->lives, &import->slot_capacity, import->slot_count, 1)) {
        import->slot_count++;
    } else {
        return UINT32_MAX;
    }
    import->lives[slot] = *life;
    return slot;
}

/* Write a life that has ended, or whose free is missing, and free its slot. */
static int
import_end_life(struct import *import, uint32_t slot)
{
    int status = import_write_life(import, &import->lives[slot]);

    import->lives[slot].allocation_id = 0;
    import->lives[slot].next_free = import->first_free;
    import->first_free = slot + 1;
    return status;
}

int
import_alloc(struct import *import, const struct import_event *event)
{
    struct import_life life;
    uint32_t slot, earlier;

    if (!import_adds_up(import, event->size))
        return import_alloc_unreadable(import, event->size);
    if (!import_new_life(import, event, &life))
        return COMMAND_WRONG;
    slot = import_keep(import, &life);
    if (slot == UINT32_MAX ||
        !tidei_lives_replace(&import->live, event->address, (uint16_t)event->layer, slot + 1, &earlier))
        return import_no_memory();
    if (earlier == 0)
        return COMMAND_FINE;
    /* Its free is missing, and so is the time of that: it stays live. What had 0 bytes needs no free. */
    import->replaced += import->lives[earlier - 1].size != 0;
    return import_end_life(import, earlier - 1);
}

int
import_failure(struct import *import, const struct import_event *event)
{
    struct import_life life;

    if (event->size > INT64_MAX)
        return import_alloc_unreadable(import, event->size);
    if (!import_new_life(import, event, &life))
        return COMMAND_WRONG;
    life.status = TIDE_ECAPACITY;
    life.address = 0;
    return import_write_life(import, &life);
}

static int
import_unmatched(struct import *import, const struct import_event *event, int64_t thread_id, int64_t stream_id)
{
    import->unmatched++;
    return import_row(import, unmatched_free, TIDEI_NUMBER(import->last_ns),
                      TIDEI_NUMBER(import->layers[event->layer].layer_id), TIDEI_NUMBER(event->address),
                      TIDEI_NUMBER(event->size != IMPORT_SIZE_UNKNOWN ? event->size : 0), TIDEI_NUMBER(thread_id),
                      TIDEI_NUMBER(stream_id));
}

static int
import_mismatch(struct import *import, const struct import_event *event, int64_t thread_id)
{
    char text[96];

    import->mismatched++;
    snprintf(text, sizeof(text), "layer %" PRId64 ": freed as %" PRIu64 " bytes", import->layers[event->layer].layer_id,
             event->size);
    return import_row(import, mark, TIDEI_NUMBER(import->last_ns), TIDEI_NUMBER(thread_id), TIDEI_TEXT("size_mismatch"),
                      TIDEI_TEXT(text), TIDEI_NUMBER(event->address));
}

int
import_free(struct import *import, const struct import_event *event)
{
    struct import_layer *layer = &import->layers[event->layer];
    int64_t thread_id = import_thread(import, event->thread);
    int64_t stream_id = import_stream(import, layer, event->stream);
    struct import_life *life;
    uint32_t number;
    int status = COMMAND_FINE;

    import->events++;
    import->allocation_id = 0;
    if (thread_id == 0 || stream_id == 0)
        return COMMAND_WRONG;
    number = tidei_lives_take(&import->live, event->address, (uint16_t)event->layer, NULL, NULL);
    if (number == 0)
        return import_unmatched(import, event, thread_id, stream_id);
    life = &import->lives[number - 1];
    if (event->size != IMPORT_SIZE_UNKNOWN && event->size != life->size)
        status = import_mismatch(import, event, thread_id);
    life->freed = true;
    life->free_ns = import->last_ns;
    life->free_duration_ns = event->duration_ns;
    life->free_thread_id = thread_id;
    life->free_stream_id = stream_id;
    import->allocation_id = life->allocation_id;
    return status == COMMAND_FINE ? import_end_life(import, number - 1) : status;
}

bool
import_is_live(const struct import *import, unsigned layer, uint64_t address)
{
    return tidei_lives_has(&import->live, address, (uint16_t)layer);
}

/* Write the lives that the input ends with. */
static int
import_write_live(struct import *import)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; status == COMMAND_FINE && i < import->slot_count; i++) {
        if (import->lives[i].allocation_id != 0)
            status = import_write_life(import, &import->lives[i]);
    }
    return status;
}

/* Say what was skipped or guessed, and write what the trace lacks into the table `loss`. */
static int
import_write_losses(struct import *import)
{
    const struct {
        uint64_t count;
        const char *reason; /* in the table; NULL: the trace lacks nothing for it */
        const char *words;
    } losses[] = {
        { import->replaced, "missing free",
          "addresses were allocated again while they were live: their frees are missing, and what had them before "
          "stays live" },
        { import->unreadable, "unreadable record", "records could not be read" },
        { import->cut_off, "input cut off", "input that ends in the middle" },
        { import->unmatched, NULL, "frees of what was not live are in the table unmatched_free" },
        { import->mismatched, NULL, "frees named another size than their allocation, and are marks" },
        { import->guessed, NULL, "times were missing, unreadable or went back: they are those of the events before" },
    };
    int status = COMMAND_FINE;

    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        if (losses[i].count == 0)
            continue;
        message("tidemark import: %" PRIu64 " %s", losses[i].count, losses[i].words);
        if (losses[i].reason != NULL && status == COMMAND_FINE)
            status = import_row(import, loss, TIDEI_NULL, TIDEI_TEXT(losses[i].reason), TIDEI_NUMBER(losses[i].count));
    }
    return status;
}

static int
import_write_meta(struct import *import, const char *from, const char *source, uint64_t start_unix_ns)
{
    char versions[128];
    const struct {
        const char *key;
        const char *text; /* NULL: a number */
        int64_t number;
    } rows[] = {
        { "format_version", NULL, TIDEI_TRACE_FORMAT },
        { "start_unix_ns", NULL, (int64_t)start_unix_ns },
        { "complete", NULL, 1 },
        { "pid", NULL, 0 },
        { "end_ns", NULL, import->last_ns > 0 ? import->last_ns : 0 },
        { "import_events", NULL, (int64_t)import->events },
        { "import_guessed_times", NULL, (int64_t)import->guessed },
        { "hostname", "", 0 },
        { "command", "", 0 },
        { "devices", "", 0 },
        { "stack", "", 0 },
        { "clock", "imported", 0 },
        { "ended", "imported", 0 },
        { "import_format", from, 0 },
        { "import_source", source, 0 },
        { "versions", versions, 0 },
    };
    int status = COMMAND_FINE;

    snprintf(versions, sizeof(versions), "tidemark %s, sqlite %s", tide_version(), sqlite3_libversion());
    for (size_t i = 0; status == COMMAND_FINE && i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tidei_value number = TIDEI_NUMBER(rows[i].number), text = TIDEI_TEXT(rows[i].text);

        status = import_row(import, meta, TIDEI_TEXT(rows[i].key), rows[i].text != NULL ? text : number);
    }
    return status;
}

/* Rename the trace to its path. A file that was put there meanwhile is replaced only with `overwrite`. */
static int
import_publish(struct import *import)
{
    return temporary_publish(&import->temporary, import->path, import->overwrite)
               ? COMMAND_FINE
               : import_refused(import->path, strerror(errno));
}

/* Complete the trace and rename it to its path. */
static int
import_complete(struct import *import)
{
    tidei_inserts_finalize(&import->inserts);
    if (sqlite3_exec(import->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK || sqlite3_close(import->db) != SQLITE_OK)
        return import_failed(import);
    import->db = NULL;
    return import_publish(import);
}

int
import_finish(struct import *import, const char *from, const char *source, uint64_t start_unix_ns)
{
    bool lossless = import->replaced == 0 && import->unreadable == 0 && import->cut_off == 0;
    int status = import_write_live(import);

    if (status == COMMAND_FINE)
        status = import_write_losses(import);
    if (status == COMMAND_FINE)
        status = import_write_meta(import, from, source, start_unix_ns);
    if (status == COMMAND_FINE)
        status = import_complete(import);
    import_abandon(import);
    return status != COMMAND_FINE || lossless ? status : COMMAND_INCOMPLETE;
}
