/* Makes small random traces, and the same lives in memory. */
#include "random-trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"
#include "tap.h"

#define ROUNDED(size) (((size) + 255) / 256 * 256)

/* The most chunks that the pool takes. */
#define CHUNKS_MAX 6

uint64_t
random_draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) % below;
}

uint64_t
random_trace_seed(void)
{
    const char *text = getenv("SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();

    diag("SEED=%" PRIu64, seed);
    return seed;
}

/* Whether [address, address + size) of a chunk is free of blocks that are live at `ns`. */
static bool
place_is_free(const struct random_trace *trace, int64_t address, int64_t size, int64_t ns)
{
    for (size_t i = 0; i < trace->count; i++) {
        const struct random_life *block = &trace->lives[i];

        if (block->layer == 1 && block->status == 0 && block->size > 0 &&
            (block->free_ns == RANDOM_NEVER || block->free_ns >= ns) && block->address < address + size &&
            address < block->address + ROUNDED(block->size))
            return false;
    }
    return true;
}

/* Place a block: at the first place in the first chunk, else in a new chunk. 0: there are no more chunks. */
static int64_t
pool_place(struct random_trace *trace, int64_t size, int64_t *chunks, size_t *chunk_count, int64_t ns)
{
    int64_t rounded = ROUNDED(size);
    struct random_life *chunk;

    for (size_t i = 0; i < *chunk_count; i++) {
        for (int64_t at = 0; at + rounded <= RANDOM_CHUNK; at += 256) {
            if (place_is_free(trace, chunks[i] + at, rounded, ns))
                return chunks[i] + at;
        }
    }
    if (*chunk_count == CHUNKS_MAX)
        return 0;
    chunk = &trace->lives[trace->count++];
    *chunk = (struct random_life){ .id = (int64_t)trace->count,
                                   .layer = 3,
                                   .address = (int64_t)(1 << 20) * (int64_t)(*chunk_count * 7 % 5 + 1),
                                   .size = RANDOM_CHUNK,
                                   .alignment = 256,
                                   .stream = 1,
                                   .thread = 1,
                                   .alloc_ns = ns,
                                   .free_ns = RANDOM_NEVER };
    /* No two chunks at one address. */
    for (size_t i = 0; i < *chunk_count; i++) {
        if (chunks[i] == chunk->address)
            chunk->address += (int64_t)(64 << 20) * (int64_t)(*chunk_count + 1);
    }
    chunks[(*chunk_count)++] = chunk->address;
    return chunk->address;
}

void
random_trace_make(struct random_trace *trace, uint64_t seed, size_t count)
{
    uint64_t state = seed * 2 + 88172645463325253u;
    int64_t chunks[CHUNKS_MAX];
    size_t chunk_count = 0;
    int64_t ns = 0;

    memset(trace, 0, sizeof(*trace));
    trace->seed = seed;
    for (size_t i = 0; i < count && trace->count + 2 <= RANDOM_LIVES; i++) {
        int64_t size = random_draw(&state, 12) == 0 ? 0 : (int64_t)random_draw(&state, 5000);
        int64_t address;
        struct random_life *life;

        ns += (int64_t)random_draw(&state, 3);
        address = size > 0 ? pool_place(trace, size, chunks, &chunk_count, ns) : 0;
        life = &trace->lives[trace->count++];
        *life = (struct random_life){ .id = (int64_t)trace->count,
                                      .layer = 1,
                                      .address = address,
                                      .size = size,
                                      .alignment = 256,
                                      .tag = (int64_t)random_draw(&state, RANDOM_TAGS + 1),
                                      .stream = 1 + (int64_t)random_draw(&state, RANDOM_STREAMS),
                                      .thread = 1 + (int64_t)random_draw(&state, RANDOM_THREADS),
                                      .alloc_ns = ns,
                                      .free_ns = RANDOM_NEVER };
        if (size > 0 && address == 0)
            life->status = 3;
        else if (random_draw(&state, 12) != 0)
            life->free_ns = ns + (int64_t)random_draw(&state, 40);
        if (ns > trace->end_ns)
            trace->end_ns = ns;
        if (life->free_ns > trace->end_ns)
            trace->end_ns = life->free_ns;
    }
}

static void
run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        printf("Bail out! %s\n", sqlite3_errmsg(db));
        exit(99);
    }
}

static void
write_life(sqlite3_stmt *insert, const struct random_life *life)
{
    const int64_t values[] = {
        life->id,       life->layer, life->address, life->size,   life->alignment, life->status, life->tag,
        life->alloc_ns, 5,           life->thread,  life->stream,
    };

    for (int i = 0; i < 11; i++)
        sqlite3_bind_int64(insert, i + 1, values[i]);
    if (life->tag == 0)
        sqlite3_bind_null(insert, 7);
    for (int i = 12; i <= 15; i++)
        sqlite3_bind_null(insert, i);
    if (life->free_ns != RANDOM_NEVER) {
        sqlite3_bind_int64(insert, 12, life->free_ns);
        sqlite3_bind_int64(insert, 13, 5);
        sqlite3_bind_int64(insert, 14, life->thread);
        sqlite3_bind_int64(insert, 15, life->stream);
    }
    sqlite3_step(insert);
    sqlite3_reset(insert);
}

void
random_trace_write(const struct random_trace *trace, const char *path)
{
    sqlite3_stmt *insert = NULL;
    char pragma[64];
    sqlite3 *db;

    unlink(path);
    if (sqlite3_open(path, &db) != SQLITE_OK)
        exit(99);
    snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", TIDEI_TRACE_APPLICATION_ID);
    run(db, pragma);
    run(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
    run(db, tidei_trace_schema);
    run(db, "INSERT INTO meta VALUES ('format_version', 1), ('start_unix_ns', 1700000000000000000), ('complete', 1),"
            "    ('pid', 4194305), ('hostname', 'elsewhere'), ('command', 'random'), ('ended', 'closed');"
            "INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),"
            "    (3, 4, 'log', ''), (4, NULL, 'sim', '');"
            "INSERT INTO thread VALUES (1, 100, 'main'), (2, 101, '');"
            "INSERT INTO stream VALUES (1, 0, 0), (2, 16, 0), (3, 32, 1);"
            "INSERT INTO tag VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, NULL, 'd'), (5, 4, 'e')");
    run(db, "BEGIN");
    sqlite3_prepare_v2(db,
                       "INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, tag_id,"
                       " alloc_ns, alloc_duration_ns, alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns,"
                       " free_thread_id, free_stream_id) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                       -1, &insert, NULL);
    for (size_t i = 0; i < trace->count; i++)
        write_life(insert, &trace->lives[i]);
    sqlite3_finalize(insert);
    run(db, "COMMIT");
    sqlite3_close(db);
}

bool
random_trace_is_live(const struct random_life *life, const struct random_life *event, bool is_free)
{
    if (life->size == 0)
        return false;
    int64_t ns = is_free ? event->free_ns : event->alloc_ns;
    bool begun = is_free ? life->alloc_ns <= ns : life->id <= event->id;
    bool ended = life->free_ns != RANDOM_NEVER &&
                 (life->free_ns < ns || (is_free && life->free_ns == ns && life->id <= event->id));

    return life->status == 0 && begun && !ended;
}

#define UNITS (RANDOM_CHUNK / 256)

static void
map_hole(struct random_map *map, int64_t bytes, int64_t request)
{
    if (bytes == 0)
        return;
    map->holes++;
    map->largest = bytes > map->largest ? bytes : map->largest;
    map->unusable += bytes < request ? bytes : 0;
}

static void
map_chunk(const struct random_trace *trace, const struct random_life *chunk, const bool *live, int64_t request,
          struct random_map *map)
{
    bool used[UNITS] = { false };
    bool any = false;
    int64_t hole = 0;

    for (size_t i = 0; i < trace->count; i++) {
        const struct random_life *block = &trace->lives[i];

        for (int64_t at = 0; block->layer == 1 && live[i] && at < block->size; at += 256) {
            int64_t place = block->address + at - chunk->address;

            if (place >= 0 && place < RANDOM_CHUNK)
                any = used[place / 256] = true;
        }
    }
    map->chunks++;
    map->reserved += RANDOM_CHUNK;
    map->empty += any ? 0 : RANDOM_CHUNK;
    for (int unit = 0; unit < UNITS; unit++) {
        map->inside += used[unit] ? 256 : 0;
        if (used[unit])
            map_hole(map, hole, request);
        hole = used[unit] ? 0 : hole + 256;
    }
    map_hole(map, hole, request);
}

void
random_trace_map(const struct random_trace *trace, const bool *live, int64_t request, struct random_map *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < trace->count; i++) {
        const struct random_life *life = &trace->lives[i];

        if (!live[i])
            continue;
        if (life->layer == 3) {
            map_chunk(trace, life, live, request, out);
        } else if (life->size > 0) {
            out->blocks++;
            out->requested += life->size;
            out->rounded += ROUNDED(life->size);
        }
    }
}
