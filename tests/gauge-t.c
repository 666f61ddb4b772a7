/*
 * Tests the gauge page of the ring file: its figures equal those of a model at every flush, and those of the trace; a
 * copy is never torn; and it is there after a kill. GAUGE_SEED sets the seed of the random runs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "trace.h"
#include "src/trace/events/gauges.h"

#define PATH_BYTES 4096

/* The gauge page of a trace, as another process sees it. False: there is none. */
static bool
read_gauge(const char *path, struct tidei_gauge *out)
{
    struct tidei_gauge_pages *pages;
    struct tidei_ring_header header;
    char rings[PATH_BYTES];
    int fd;

    snprintf(rings, sizeof(rings), "%s-rings", path);
    fd = open(rings, O_RDONLY);
    if (fd < 0 || pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        header.gauge_bytes != TIDEI_GAUGE_BYTES)
        return false;
    pages = mmap(NULL, TIDEI_GAUGE_BYTES, PROT_READ, MAP_SHARED, fd, TIDEI_RING_PREFIX_BYTES);
    close(fd);
    if (pages == MAP_FAILED)
        return false;
    while (!tidei_gauge_read_memory(pages, out))
        ;
    munmap(pages, TIDEI_GAUGE_BYTES);
    return true;
}

/* The layer's figures; zeros where the page has none. */
static struct tidei_gauge_layer
layer_of(const struct tidei_gauge *gauge, uint64_t id)
{
    for (uint32_t i = 0; i < gauge->layer_count; i++) {
        if (gauge->layers[i].layer_id == id)
            return gauge->layers[i];
    }
    return (struct tidei_gauge_layer){ .layer_id = id };
}

static bool
same_layer(const struct tidei_gauge_layer *found, const struct tidei_gauge_layer *model)
{
    bool same = found->live_bytes == model->live_bytes && found->live_count == model->live_count &&
                found->peak_bytes == model->peak_bytes && found->allocations == model->allocations &&
                found->frees == model->frees && found->failures == model->failures &&
                found->total_bytes == model->total_bytes;

    if (!same)
        diag("layer %llu: live %llu in %llu, peak %llu, %llu allocated, %llu freed, %llu failed, %llu in all; the "
             "model: %llu in %llu, %llu, %llu, %llu, %llu, %llu",
             (unsigned long long)found->layer_id, (unsigned long long)found->live_bytes,
             (unsigned long long)found->live_count, (unsigned long long)found->peak_bytes,
             (unsigned long long)found->allocations, (unsigned long long)found->frees,
             (unsigned long long)found->failures, (unsigned long long)found->total_bytes,
             (unsigned long long)model->live_bytes, (unsigned long long)model->live_count,
             (unsigned long long)model->peak_bytes, (unsigned long long)model->allocations,
             (unsigned long long)model->frees, (unsigned long long)model->failures,
             (unsigned long long)model->total_bytes);
    return same;
}

/* The random program: what lives, and what its tags have. */
#define MODEL_LIVES 200
#define MODEL_TAGS  6

struct model {
    struct tidei_gauge_layer layer;
    struct {
        void *pointer;
        size_t bytes;
        unsigned tag;
    } lives[MODEL_LIVES];
    uint64_t tag_bytes[MODEL_TAGS], tag_counts[MODEL_TAGS]; /* the last is of no tag */
    uint64_t seed;
};

static void
model_allocate(struct model *model, struct tide_resource *stack, size_t place)
{
    unsigned tag = (unsigned)(next_random(&model->seed) % MODEL_TAGS);
    size_t bytes = next_random(&model->seed) % 5 == 0 ? 0 : next_random(&model->seed) % 100000;
    bool fails = next_random(&model->seed) % 20 == 0;
    char name[16];

    if (bytes == 0)
        tag = MODEL_TAGS - 1; /* allocations of no bytes have one address: nobody can tell which is freed */
    snprintf(name, sizeof(name), "tag %u", tag);
    if (tag < MODEL_TAGS - 1)
        tide_tag_push(name);
    if (fails) {
        model->layer.failures +=
            tide_allocate(stack, (size_t)1 << 40, TIDE_DEFAULT_ALIGNMENT, 0, &model->lives[place].pointer) != TIDE_OK;
    } else {
        model->lives[place].pointer = take(stack, bytes);
        model->lives[place].bytes = bytes;
        model->lives[place].tag = tag + 1;
        model->tag_bytes[tag] += bytes;
        model->tag_counts[tag] += bytes != 0;
        model->layer.live_bytes += bytes;
        model->layer.live_count += bytes != 0;
        model->layer.allocations++;
        model->layer.total_bytes += bytes;
        if (model->layer.live_bytes > model->layer.peak_bytes)
            model->layer.peak_bytes = model->layer.live_bytes;
    }
    if (tag < MODEL_TAGS - 1)
        tide_tag_pop();
}

static void
model_step(struct model *model, struct tide_resource *stack)
{
    size_t place = next_random(&model->seed) % MODEL_LIVES;

    if (model->lives[place].tag == 0) {
        model_allocate(model, stack, place);
        return;
    }
    give(stack, model->lives[place].pointer, model->lives[place].bytes);
    model->tag_bytes[model->lives[place].tag - 1] -= model->lives[place].bytes;
    model->tag_counts[model->lives[place].tag - 1] -= model->lives[place].bytes != 0;
    model->layer.live_bytes -= model->lives[place].bytes;
    model->layer.live_count -= model->lives[place].bytes != 0;
    model->layer.frees++;
    model->lives[place].tag = 0;
}

/* Whether the page has the model's tags: those with live allocations, most bytes first. */
static bool
has_tags(const struct tidei_gauge *gauge, const struct model *model, const char *path)
{
    uint64_t most = UINT64_MAX;
    uint32_t count = 0, found = 0;
    bool good = true;

    for (unsigned tag = 0; tag < MODEL_TAGS; tag++) {
        int64_t id = tag < MODEL_TAGS - 1
                         ? sql_number(path, "SELECT coalesce(max(tag_id), -1) FROM tag WHERE name = 'tag %u'", tag)
                         : 0;

        count += model->tag_counts[tag] != 0;
        for (uint32_t i = 0; i < gauge->tag_count; i++)
            found += gauge->tags[i].tag_id == id && gauge->tags[i].layer_id == model->layer.layer_id &&
                     gauge->tags[i].live_bytes == model->tag_bytes[tag] &&
                     gauge->tags[i].live_count == model->tag_counts[tag];
    }
    for (uint32_t i = 0; i < gauge->tag_count; i++) {
        good = good && gauge->tags[i].live_bytes <= most;
        most = gauge->tags[i].live_bytes;
    }
    return all_of(good, gauge->tag_count == count, found == count, gauge->tags_left_out == 0);
}

/* The figures that the trace itself gives at its end. */
static struct tidei_gauge_layer
layer_of_trace(const char *path, const char *order)
{
    return (struct tidei_gauge_layer){
        .layer_id = 1,
        .live_bytes = (uint64_t)sql_number(path, "SELECT coalesce(sum(size), 0) FROM live WHERE layer_id = 1"),
        .live_count = (uint64_t)sql_number(path, "SELECT count(*) FROM live WHERE layer_id = 1 AND size > 0"),
        .peak_bytes = (uint64_t)sql_number(
            path,
            "SELECT max(n) FROM (SELECT sum(d) OVER (ORDER BY ns, k %s ROWS UNBOUNDED PRECEDING) AS n FROM "
            "(SELECT alloc_ns AS ns, 1 AS k, size AS d FROM allocation WHERE status = 0 AND layer_id = 1 UNION ALL "
            "SELECT free_ns, 0, -size FROM allocation WHERE free_ns IS NOT NULL AND status = 0 AND layer_id = 1))",
            order),
        .allocations = (uint64_t)sql_number(path, "SELECT count(*) FROM allocation WHERE status = 0 AND layer_id = 1"),
        .frees = (uint64_t)sql_number(
            path, "SELECT count(*) FROM allocation WHERE status = 0 AND free_ns IS NOT NULL AND layer_id = 1"),
        .failures = (uint64_t)sql_number(path, "SELECT count(*) FROM allocation WHERE status <> 0 AND layer_id = 1"),
        .total_bytes = (uint64_t)sql_number(
            path, "SELECT coalesce(sum(size), 0) FROM allocation WHERE status = 0 AND layer_id = 1")
    };
}

static void
test_random(void)
{
    const char *path = scratch("random.db");
    struct tide_resource *stack = stack_of("log(%s) | limit(1GiB) | sim", path);
    struct model *model = calloc(1, sizeof(*model));
    struct tidei_gauge_layer found, trace;
    struct tidei_gauge gauge;
    bool layers = true, tags = true;
    int64_t peak_ns;

    model->seed = random_seed("GAUGE_SEED");
    model->layer.layer_id = 1;
    for (int flush = 0; flush < 60; flush++) {
        uint64_t steps = next_random(&model->seed) % 400;

        for (uint64_t i = 0; i < steps; i++)
            model_step(model, stack);
        if (flush == 30)
            tide_mark("half");
        tide_log_flush(stack);
        layers = layers && read_gauge(path, &gauge);
        found = layer_of(&gauge, 1);
        layers = layers && same_layer(&found, &model->layer);
        tags = tags && has_tags(&gauge, model, path);
    }
    ok(layers, "at every flush a layer has what the program has: live, peak, allocations, frees, failures, bytes");
    ok(tags, "at every flush the tags have what the program's tags have, the largest first");
    trace = layer_of_trace(path, "");
    ok(same_layer(&found, &trace), "the layer's figures are those of the trace");
    peak_ns = sql_number(path, "SELECT ns FROM (SELECT alloc_ns AS ns, sum(d) OVER (ORDER BY at ROWS UNBOUNDED "
                               "PRECEDING) AS n FROM (SELECT alloc_ns, alloc_ns AS at, size AS d FROM allocation WHERE "
                               "status = 0 UNION ALL SELECT NULL, free_ns, -size FROM allocation WHERE free_ns IS NOT "
                               "NULL AND status = 0)) WHERE ns IS NOT NULL ORDER BY n DESC, ns LIMIT 1");
    if (peak_ns != (int64_t)found.peak_ns)
        diag("the page says %llu ns, the trace %lld", (unsigned long long)found.peak_ns, (long long)peak_ns);
    ok((int64_t)found.peak_ns - peak_ns <= 2 && peak_ns - (int64_t)found.peak_ns <= 2,
       "the peak's time is that of the trace");
    is_u64(gauge.marks, 1, "marks are counted");
    ok(gauge.lost_allocations == 0 && gauge.lost_frees == 0 && gauge.layers_left_out == 0,
       "nothing is lost or left out where nothing was");
    ok(gauge.pool_count == 1 && gauge.pools[0].used_bytes == found.live_bytes, "the base's used bytes are there");
    trace.allocations = trace.frees = 0;
    for (unsigned i = 0; i < TIDEI_GAUGE_DURATIONS; i++) {
        trace.allocations += gauge.alloc_durations[i];
        trace.frees += gauge.free_durations[i];
    }
    ok(trace.allocations == found.allocations + found.failures && trace.frees == found.frees,
       "each call counts once among the durations");
    tide_resource_release(stack);
    free(model);
}

struct worker {
    struct tide_resource *stack;
    uint64_t seed;
};

static void *
worker_run(void *argument)
{
    struct worker *worker = argument;
    size_t bytes[50] = { 0 };
    void *pointers[50];

    for (int i = 0; i < 20000; i++) {
        size_t place = next_random(&worker->seed) % 50;

        if (bytes[place] != 0) {
            give(worker->stack, pointers[place], bytes[place]);
            bytes[place] = 0;
        } else {
            bytes[place] = 1 + next_random(&worker->seed) % 1000000;
            pointers[place] = take(worker->stack, bytes[place]);
        }
    }
    return NULL;
}

/* Threads allocate while others free. Where two calls share a nanosecond, the trace does not tell which was first. */
static void
test_threads(void)
{
    const char *path = scratch("threads.db");
    struct tide_resource *stack = stack_of("log(%s) | pool | sim", path);
    struct tidei_gauge_layer found, least, most;
    struct worker workers[4];
    pthread_t threads[4];
    struct tidei_gauge gauge;
    bool there;

    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){ stack, random_seed("GAUGE_SEED") + i };
        pthread_create(&threads[i], NULL, worker_run, &workers[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    tide_log_flush(stack);
    there = read_gauge(path, &gauge);
    found = layer_of(&gauge, 1);
    least = layer_of_trace(path, "");
    most = layer_of_trace(path, "DESC");
    ok(there && found.peak_bytes >= least.peak_bytes && found.peak_bytes <= most.peak_bytes,
       "with four threads the peak is the trace's");
    most.peak_bytes = found.peak_bytes;
    ok(same_layer(&found, &most), "with four threads all other figures are the trace's");
    tide_resource_release(stack);
}

/* Handmade records, of ticks that are nanoseconds. */
#define MADE 16000

static struct tidei_ringfile *file;
static struct tidei_pair *pair;
static struct tidei_gauges *gauges;
static struct tidei_sampler *sampler;
static struct tidei_timeline timeline;
static uint64_t made;

static void
made_begin(void)
{
    file = calloc(1, sizeof(*file));
    file->chunks[0][0] = calloc(TIDEI_CHUNK_RECORDS, sizeof(struct tidei_record));
    file->chunks[1][0] = calloc(TIDEI_CHUNK_RECORDS, sizeof(struct tidei_record));
    file->header = calloc(1, sizeof(*file->header));
    file->gauge = calloc(1, sizeof(*file->gauge));
    file->header->lines[0].ns_per_tick = file->header->lines[1].ns_per_tick = 1;
    pair = tidei_pair_new(file);
    sampler = tidei_sampler_new();
    gauges = tidei_gauges_new(file, sampler, &timeline);
    made = 0;
}

static void
made_end(void)
{
    tidei_gauges_free(gauges);
    tidei_sampler_free(sampler);
    tidei_pair_free(pair);
    free(file->chunks[0][0]);
    free(file->chunks[1][0]);
    free(file->gauge);
    free(file->header);
    free(file);
}

static void
put_in(unsigned buffer, enum tidei_record_kind kind, uint16_t layer, uint64_t address, uint64_t size, uint64_t begin,
       uint64_t end)
{
    *tidei_buffer_record(file, buffer, made++) = (struct tidei_record){ .ticks = end,
                                                                        .duration_check = end - begin,
                                                                        .address = address,
                                                                        .size = size,
                                                                        .layer = layer,
                                                                        .kind = (uint8_t)kind,
                                                                        .tag = 7,
                                                                        .thread = 1 };
}

static void
put(enum tidei_record_kind kind, uint64_t address, uint64_t size, uint64_t begin, uint64_t end)
{
    put_in(0, kind, 1, address, size, begin, end);
}

/* What the recorder does with a slice. */
static void
made_pair(uint64_t from, uint64_t to, bool all)
{
    tidei_pair_run(pair, 0, from, to);
    tidei_gauges_paired(gauges, pair, from, to, all);
    tidei_pair_forget_closed(pair);
    for (size_t i = 0; i < pair->succeeded.count; i++) {
        pair->live[pair->succeeded.items[i]].until_ns = 1;
        pair->live[pair->succeeded.items[i]].next_row = 0;
    }
    for (size_t row = 0; row < pair->row_count; row++) {
        const struct tidei_record *record = tidei_buffer_record(file, 0, pair->rows[row].alloc);
        struct tidei_live live = { .id = pair->first_id + row,
                                   .ticks = record->ticks,
                                   .address = record->address,
                                   .size = record->size,
                                   .tag = record->tag,
                                   .layer = record->layer,
                                   .early = pair->rows[row].early,
                                   .until_ns = pair->rows[row].next != 0 };

        if (record->status == TIDE_OK && (pair->rows[row].free == TIDEI_NO_FREE || pair->rows[row].early != 0))
            tidei_pair_keep(pair, &live, row);
    }
}

static struct tidei_gauge_layer
made_layer(struct tidei_gauge *gauge)
{
    while (!tidei_gauge_read_memory(file->gauge, gauge))
        ;
    return layer_of(gauge, 1);
}

/* The most that was live at once: a life is from its allocation's return to its free's begin. */
static uint64_t
model_peak(const uint64_t (*lives)[3], size_t count)
{
    uint64_t peak = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t live = 0;

        for (size_t j = 0; j < count; j++)
            live += lives[j][0] <= lives[i][0] && lives[i][0] < lives[j][1] ? lives[j][2] : 0;
        peak = live > peak ? live : peak;
    }
    return peak;
}

/* Frees that take long: others allocate meanwhile. All is compared after each drain of some records. */
static void
test_overlaps(void)
{
    uint64_t seed = random_seed("GAUGE_SEED"), (*lives)[3] = calloc(MADE, sizeof(*lives)), now = 1000, drained = 0;
    size_t count = 0;
    bool peaks = true;
    struct tidei_gauge gauge;

    made_begin();
    while (made < 2000) {
        bool grows = (made / 300) % 2 == 0;

        now += next_random(&seed) % 3;
        if (count == 0 || next_random(&seed) % 10 < (grows ? 7 : 3)) {
            lives[count][0] = now;
            lives[count][1] = UINT64_MAX;
            lives[count][2] = 1 + next_random(&seed) % 1000;
            put(TIDEI_RECORD_ALLOC, 0x1000 * (count + 1), lives[count][2], now, now);
            count++;
        } else {
            size_t place = next_random(&seed) % count;
            uint64_t begin = lives[place][0] + next_random(&seed) % (now - lives[place][0] + 1);

            if (lives[place][1] != UINT64_MAX)
                continue;
            if (next_random(&seed) % 4 != 0)
                begin = begin + 50 > now ? begin : now - 50;
            lives[place][1] = begin;
            put(TIDEI_RECORD_FREE, 0x1000 * (place + 1), lives[place][2], begin, now);
        }
        if (next_random(&seed) % 40 == 0) {
            tidei_gauges_merged(gauges, 0, drained, made, now + 1, 0);
            drained = made;
            peaks = peaks && made_layer(&gauge).peak_bytes == model_peak(lives, count);
        }
    }
    tidei_gauges_merged(gauges, 0, drained, made, now + 1, 0);
    ok(peaks, "after each drain the peak is the model's, where a life ends with the begin of a long free");
    for (uint64_t from = 0; from < made; from += 100)
        made_pair(from, from + 100 < made ? from + 100 : made, from + 100 >= made);
    ok(made_layer(&gauge).peak_bytes == model_peak(lives, count) && gauge.tag_count == 1 &&
           gauge.tags[0].live_bytes == made_layer(&gauge).live_bytes,
       "pairing in slices changes nothing of it, and its tag has what the layer has");
    made_end();
    free(lives);
}

/* What only the pairing knows. */
static void
test_odd(void)
{
    struct tidei_gauge_layer layer;
    struct tidei_gauge gauge;

    made_begin();
    put(TIDEI_RECORD_ALLOC, 0x1000, 100, 10, 11);
    put(TIDEI_RECORD_FREE, 0x9000, 500, 20, 21);   /* of nothing */
    put(TIDEI_RECORD_ALLOC, 0x2000, 1000, 30, 31); /* the peak */
    put(TIDEI_RECORD_FREE, 0x2000, 999, 40, 41);   /* with another size */
    put(TIDEI_RECORD_ALLOC, 0x3000, 10, 50, 51);
    put(TIDEI_RECORD_ALLOC, 0x3000, 20, 60, 61); /* again, and the first was never freed */
    tidei_gauges_merged(gauges, 0, 0, made, 100, 0);
    made_pair(0, 4, false);
    made_pair(4, made, true);
    layer = made_layer(&gauge);
    is_u64(layer.live_bytes, 120, "frees of nothing or of another size, and lives without a free, are set right");
    is_u64(layer.live_count, 2, "frees of nothing or of another size leave the number of live allocations right");
    is_u64(layer.peak_bytes, 1100, "frees of nothing or of another size leave the peak right");
    is_u64(layer.frees, 2, "a free of nothing ends nothing");
    ok(gauge.tag_count == 1 && gauge.tags[0].live_bytes == 120,
       "frees of nothing or of another size leave the tags right");
    put(TIDEI_RECORD_ALLOC, 0x3000, 30, 70, 71); /* ends that of the slice before */
    put(TIDEI_RECORD_FREE, 0x3000, 30, 80, 81);
    put(TIDEI_RECORD_FREE, 0x3000, 20, 82, 83); /* late, of a life that has ended */
    tidei_gauges_merged(gauges, 0, 6, made, 200, 0);
    made_pair(6, made, true);
    is_u64(made_layer(&gauge).live_bytes, 100, "a free that comes late ends nothing twice");
    is_u64(gauge.tags[0].live_bytes, 100, "a free that comes late ends nothing twice in the tags");
    made_end();

    made_begin();
    put(TIDEI_RECORD_FREE, 0x9000, 500, 20, 21);
    tidei_gauges_merged(gauges, 0, 0, made, 30, 0);
    made = 0;
    put_in(1, TIDEI_RECORD_ALLOC, 1, 0x1000, 700, 40, 41);
    tidei_gauges_merged(gauges, 1, 0, made, 50, 0);
    made_pair(0, 1, true);
    layer = made_layer(&gauge);
    ok(layer.live_bytes == 700 && layer.peak_bytes == 700 && layer.live_count == 1,
       "what was merged meanwhile counts again where something was set right");
    made_end();
}

/* More layers and tags than the page has room for. */
static void
test_many(void)
{
    struct tidei_gauge gauge;
    bool largest = true;
    uint64_t bytes = 0;

    made_begin();
    for (uint16_t i = 1; i <= 200; i++) {
        put_in(0, TIDEI_RECORD_ALLOC, i, 0x1000, i * UINT64_C(100), i, i);
        tidei_buffer_record(file, 0, made - 1)->tag = i;
    }
    tidei_gauges_merged(gauges, 0, 0, made, 300, 0);
    made_pair(0, made, true);
    made_layer(&gauge);
    ok(gauge.layer_count == TIDEI_GAUGE_LAYERS && gauge.layers_left_out == 200 - TIDEI_GAUGE_LAYERS,
       "the page says how many layers have no room");
    ok(gauge.tag_count == TIDEI_GAUGE_TAGS && gauge.tags_left_out == 200 - TIDEI_GAUGE_TAGS,
       "the page says how many tags have no room");
    for (uint32_t i = 0; i < TIDEI_GAUGE_LAYERS; i++)
        largest = largest && gauge.layers[i].layer_id == 200 - TIDEI_GAUGE_LAYERS + i + 1;
    for (uint32_t i = 0; i < TIDEI_GAUGE_TAGS; i++)
        largest = largest && gauge.tags[i].tag_id == 200 - i;
    ok(largest, "those with the most live bytes have room");
    for (uint64_t i = 1; i <= 200 - TIDEI_GAUGE_TAGS; i++)
        bytes += i * 100;
    is_u64(gauge.tags_left_bytes, bytes, "what the other tags have is said in one number");
    made_end();
}

static void
test_buckets(void)
{
    bool good = true;

    for (unsigned i = 0; i < TIDEI_GAUGE_DURATIONS; i++)
        good = good && tidei_gauge_bucket(tidei_gauge_bucket_ns(i)) == i &&
               (i == 0 || tidei_gauge_bucket(tidei_gauge_bucket_ns(i) - 1) == i - 1);
    ok(good && tidei_gauge_bucket(UINT64_MAX) == TIDEI_GAUGE_DURATIONS - 1,
       "each bucket of durations begins where the one before ends");
}

/* A writer that never stops, and a reader. */
static struct tidei_gauge_pages shared;
static _Atomic bool stop;

static void *
write_always(void *argument)
{
    struct tidei_gauge *gauge = argument;

    for (uint64_t n = 1; !atomic_load(&stop); n++) {
        gauge->written_ns = gauge->merged_ns = gauge->free_durations[TIDEI_GAUGE_DURATIONS - 1] = n;
        for (unsigned i = 0; i < TIDEI_GAUGE_LAYERS; i++)
            gauge->layers[i].live_bytes = n;
        tidei_gauge_write(&shared, gauge);
    }
    return NULL;
}

static void
test_torn(void)
{
    static struct tidei_gauge written, read;
    pthread_t thread;
    unsigned whole = 0;
    bool good = true;

    pthread_create(&thread, NULL, write_always, &written);
    while (whole < 2000) {
        if (!tidei_gauge_read_memory(&shared, &read))
            continue;
        whole++;
        good = good && read.written_ns == read.merged_ns &&
               read.written_ns == read.free_durations[TIDEI_GAUGE_DURATIONS - 1];
        for (unsigned i = 0; i < TIDEI_GAUGE_LAYERS; i++)
            good = good && read.layers[i].live_bytes == read.written_ns;
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    ok(good, "a copy that is read while others are written is whole");
}

/* The sizes of the child's allocations follow from their numbers; every other one is freed at once. */
static int
record_until_killed(void *path)
{
    struct tide_resource *stack = stack_of("log(%s) | sim", (const char *)path);

    for (size_t i = 1;; i++) {
        void *pointer = take(stack, i % 1000 + 1);

        if (i % 2 == 0)
            give(stack, pointer, i % 1000 + 1);
    }
    return 0;
}

/* After a kill: the page is that of the first allocations and frees, and not more than the trace has. */
static void
test_killed(void)
{
    bool whole = true, behind = true;
    struct tidei_gauge gauge;

    if (!CHILDREN_MAY_RECORD) {
        skip(2, "ThreadSanitizer does not support a child that records");
        return;
    }
    for (int round = 0; round < 12; round++) {
        struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
        char path[PATH_BYTES];
        struct tidei_gauge_layer layer;
        uint64_t live = 0, trace;
        pid_t child;

        snprintf(path, sizeof(path), "%s", scratch("killed-%d.db", round));
        child = fork();
        if (child == 0)
            _exit(record_until_killed(path));
        while (!read_gauge(path, &gauge) || layer_of(&gauge, 1).allocations == 0)
            usleep(1000);
        usleep((useconds_t)round * 7000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        whole = whole && read_gauge(path, &gauge);
        layer = layer_of(&gauge, 1);
        for (uint64_t i = 1; i <= layer.allocations; i++)
            live += i % 2 != 0 || i / 2 > layer.frees ? i % 1000 + 1 : 0;
        whole = whole && live == layer.live_bytes && layer.live_count == layer.allocations - layer.frees;
        tide_trace_recover(path, &recovery);
        trace = (uint64_t)sql_number(path, "SELECT count(*) FROM allocation");
        behind = behind && trace >= layer.allocations;
    }
    ok(whole, "after a kill the page is there, and whole");
    ok(behind, "after a kill the trace has all that the page had counted");
}

int
main(void)
{
    plan(28);
    test_buckets();
    test_overlaps();
    test_odd();
    test_many();
    test_torn();
    test_random();
    test_threads();
    test_killed();
    return done();
}
