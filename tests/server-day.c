/* A day of a server; see server-day.h. */
#include "server-day.h"

#include <time.h>

#define KIB            UINT64_C(1024)
#define SEQUENCES_MOST 96
#define TOKENS_FIRST   256 /* the shortest prompt */
#define TOKENS_MORE    128 /* a block grows by so many */

uint64_t server_day_now_ms = 1000000;

/* The library's clock: this symbol is found before that of the C library. */
__attribute__((visibility("default"))) int
clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    *out = (struct timespec){ .tv_sec = (time_t)(server_day_now_ms / 1000),
                              .tv_nsec = (long)(server_day_now_ms % 1000) * 1000000 };
    return 0;
}

/* Sequences in each hour; between two the number goes in a straight line. */
static const uint8_t sequences_by_hour[] = { 10, 6,  4,  4,  4,  6,  12, 30, 60, 88, 96, 90, 70,
                                             84, 92, 90, 80, 60, 40, 44, 48, 36, 24, 16, 10 };

struct sequence {
    void *block; /* NULL: there is none */
    uint64_t bytes;
    uint64_t tokens, tokens_most;
    uint64_t token_bytes; /* of its model */
};

struct server {
    struct server_day *day;
    struct sequence sequences[SEQUENCES_MOST];
    uint64_t count, state, live_bytes;
};

static uint64_t
server_random(struct server *server, uint64_t below)
{
    server->state ^= server->state << 13;
    server->state ^= server->state >> 7;
    server->state ^= server->state << 17;
    return server->state % below;
}

static void
server_watch(struct server *server)
{
    struct server_day *day = server->day;

    if (day->peak_live_bytes < server->live_bytes)
        day->peak_live_bytes = server->live_bytes;
    if (day->watch != NULL)
        day->watch(day->context, server->live_bytes);
}

static void
block_free(struct server *server, void *block, uint64_t bytes)
{
    if (block == NULL)
        return;
    server->day->failures += tide_deallocate(server->day->stack, block, bytes, 256, 0) != TIDE_OK;
    server->live_bytes -= bytes;
    server_watch(server);
}

/* Have the sequence's tokens in a new block, into which the former one would be copied. */
static void
sequence_grow(struct server *server, struct sequence *sequence)
{
    uint64_t bytes = sequence->tokens * sequence->token_bytes, former_bytes = sequence->bytes;
    void *former = sequence->block;

    if (tide_allocate(server->day->stack, bytes, 256, 0, &sequence->block) == TIDE_OK) {
        server->live_bytes += bytes;
        sequence->bytes = bytes;
    } else {
        server->day->failures++;
        sequence->block = NULL;
    }
    server_watch(server);
    block_free(server, former, former_bytes);
}

static void
sequence_begin(struct server *server, uint64_t hour)
{
    struct sequence *sequence = &server->sequences[server->count++];

    *sequence = (struct sequence){ .tokens = TOKENS_FIRST + server_random(server, 8 * TOKENS_FIRST) };
    sequence->tokens_most = sequence->tokens + server_random(server, 16 * TOKENS_MORE);
    /* The model of the evening takes over from that of the morning, with other layers. */
    sequence->token_bytes = server_random(server, 24) < hour ? 24 * KIB + 512 * hour : 9 * KIB + 256 * hour;
    sequence_grow(server, sequence);
}

static void
sequence_end(struct server *server, size_t i)
{
    struct sequence ended = server->sequences[i];

    server->sequences[i] = server->sequences[--server->count];
    block_free(server, ended.block, ended.bytes);
}

/* How many sequences there are to be; a burst has a half more, twice an hour for two minutes. */
static uint64_t
server_target(uint64_t ms)
{
    uint64_t hour = ms / SERVER_DAY_HOUR_MS, within = ms % SERVER_DAY_HOUR_MS;
    uint64_t target = (sequences_by_hour[hour] * (SERVER_DAY_HOUR_MS - within) + sequences_by_hour[hour + 1] * within) /
                      SERVER_DAY_HOUR_MS;

    if (within % (SERVER_DAY_HOUR_MS / 2) < 2 * 60 * 1000)
        target += target / 2;
    return target < SEQUENCES_MOST ? target : SEQUENCES_MOST;
}

void
server_day_run(struct server_day *day)
{
    struct server server = { .day = day, .state = day->seed };
    uint64_t begin_ms = server_day_now_ms;

    day->failures = day->peak_live_bytes = 0;
    for (uint64_t i = 0; i < day->requests; i++) {
        uint64_t ms = i * SERVER_DAY_MS / day->requests, target = server_target(ms);
        size_t k;

        server_day_now_ms = begin_ms + ms;
        while (server.count > target)
            sequence_end(&server, server_random(&server, server.count));
        k = server.count != 0 ? server_random(&server, server.count) : 0;
        if (server.count != 0 && server.sequences[k].tokens >= server.sequences[k].tokens_most)
            sequence_end(&server, k);
        if (server.count < target) {
            sequence_begin(&server, ms / SERVER_DAY_HOUR_MS);
        } else {
            k = server_random(&server, server.count);
            server.sequences[k].tokens += TOKENS_MORE;
            sequence_grow(&server, &server.sequences[k]);
        }
    }
    while (server.count > 0)
        sequence_end(&server, server.count - 1);
}
