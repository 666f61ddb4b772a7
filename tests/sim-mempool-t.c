/*
 * Tests `sim(model=driver)` against what a pool of the driver of an H200 did: the same requests have the same places,
 * and reserve as much behind each call. The sequences are in tests/data/driver-pool.txt.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "src/resource/await.h"
#include "tap.h"

#define UNIT (UINT64_C(32) << 20)
#define STEP UINT64_C(512)

/* The most blocks of a sequence that live. */
#define BLOCKS 256

struct block {
    void *pointer;
    uint64_t place, bytes;
};

/* A sequence that is being replayed. */
struct sequence {
    struct tide_resource *sim;
    char name[128];
    struct block blocks[BLOCKS];
    size_t count;
    uintptr_t base; /* the address of the first block; 0: none yet */
    int calls;
    bool wrong; /* said */
};

static tide_stream
stream_of(uint64_t number)
{
    return (tide_stream)(number + 1);
}

static void
differs(struct sequence *sequence, const char *what, uint64_t is, uint64_t should)
{
    if (!sequence->wrong)
        diag("%s, call %d: %s is %" PRIu64 ", and was %" PRIu64, sequence->name, sequence->calls, what, is, should);
    sequence->wrong = true;
}

static void
check_reserved(struct sequence *sequence, uint64_t units)
{
    uint64_t reserved = UINT64_MAX;

    tide_query(sequence->sim, TIDE_QUERY_BYTES_RESERVED, &reserved);
    if (reserved != units * UNIT)
        differs(sequence, "what is reserved, in units,", reserved / UNIT, units);
}

static void
replay_allocation(struct sequence *sequence, uint64_t steps, uint64_t stream, uint64_t place, uint64_t units)
{
    struct block *block = &sequence->blocks[sequence->count];
    uint64_t is;

    if (sequence->count == BLOCKS ||
        tide_allocate(sequence->sim, steps * STEP, 256, stream_of(stream), &block->pointer) != TIDE_OK) {
        differs(sequence, "the number of allocations", sequence->count, sequence->count + 1);
        return;
    }
    if (sequence->base == 0)
        sequence->base = (uintptr_t)block->pointer;
    is = ((uintptr_t)block->pointer - sequence->base) / STEP;
    if (is != place)
        differs(sequence, "the place of the block", is, place);
    block->place = place;
    block->bytes = steps * STEP;
    sequence->count++;
    check_reserved(sequence, units);
}

static void
replay_free(struct sequence *sequence, uint64_t place, uint64_t stream)
{
    size_t i = 0;

    while (i < sequence->count && sequence->blocks[i].place != place)
        i++;
    if (i == sequence->count || tide_deallocate(sequence->sim, sequence->blocks[i].pointer, sequence->blocks[i].bytes,
                                                256, stream_of(stream)) != TIDE_OK) {
        differs(sequence, "a block that is freed", place, 0);
        return;
    }
    sequence->blocks[i] = sequence->blocks[--sequence->count];
}

/* The host waits for a stream, as a pool has it do. */
static void
replay_wait(struct sequence *sequence, uint64_t stream, uint64_t units)
{
    tide_stream streams[] = { stream_of(stream) };
    struct tidei_await await = { .streams = streams, .count = 1, .most_ns = 1 };

    tidei_await_wish(&await);
    tide_trim(sequence->sim, UINT64_MAX);
    tidei_await_wish(NULL);
    check_reserved(sequence, units);
}

static void
replay_line(struct sequence *sequence, const char *line)
{
    uint64_t values[4] = { 0 };

    if (sequence->wrong)
        return;
    sequence->calls++;
    sscanf(line + 1, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &values[0], &values[1], &values[2], &values[3]);
    if (line[0] == 'a')
        replay_allocation(sequence, values[0], values[1], values[2], values[3]);
    else if (line[0] == 'f')
        replay_free(sequence, values[0], values[1]);
    else if (line[0] == 'e')
        tide_order(sequence->sim, stream_of(values[0]), stream_of(values[1]));
    else if (line[0] == 's')
        replay_wait(sequence, values[0], values[1]);
    else {
        tide_order(sequence->sim, TIDE_STREAM_ALL, 0);
        check_reserved(sequence, values[0]);
    }
}

static void
begin(struct sequence *sequence, const char *name)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };

    *sequence = (struct sequence){ .calls = 0 };
    snprintf(sequence->name, sizeof(sequence->name), "%.*s", (int)strcspn(name, "\n"), name);
    if (tide_sim_create(&options, &sequence->sim) != TIDE_OK)
        abort();
}

/* End a sequence; 1 if all of it was as on the device. */
static int
end(struct sequence *sequence)
{
    if (sequence->sim == NULL)
        return 0;
    tide_resource_release(sequence->sim);
    return !sequence->wrong && sequence->calls > 0;
}

static FILE *
open_data(void)
{
    const char *top = getenv("top_srcdir");
    char path[4096];

    snprintf(path, sizeof(path), "%s/tests/data/driver-pool.txt", top != NULL ? top : ".");
    return fopen(path, "r");
}

int
main(void)
{
    static struct sequence sequence;
    FILE *data = open_data();
    int count = 0, same = 0;
    char line[256];

    plan(1);
    while (data != NULL && fgets(line, sizeof(line), data) != NULL) {
        if (line[0] == '#')
            continue;
        if (strncmp(line, "sequence ", 9) == 0) {
            same += end(&sequence);
            begin(&sequence, line + 9);
            count++;
        } else
            replay_line(&sequence, line);
    }
    same += end(&sequence);
    if (data != NULL)
        fclose(data);
    ok(count == 81 && same == count, "%d of %d sequences have the places and the units that a device gave them", same,
       count);
    return done();
}
