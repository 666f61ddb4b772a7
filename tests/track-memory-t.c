/* Tests adaptors/track/track.c and adaptors/track/table.c when the host has no memory. */
#include <pthread.h>
#include <sys/resource.h>

#include "src/resource/resource.h"
#include "sanitized.h"
#include "tap.h"
#include "track-blocks.h"
#include "trace.h"

/* Make malloc fail from now on. Returns what has to be freed to make it work again. */
static void *
use_up_memory(struct rlimit *before)
{
    void **last = NULL, **more;
    struct rlimit none;

    getrlimit(RLIMIT_AS, before);
    none = (struct rlimit){ 0, before->rlim_max };
    setrlimit(RLIMIT_AS, &none);
    for (size_t bytes = 1 << 20; bytes >= sizeof(void *); bytes /= 2) {
        while ((more = malloc(bytes)) != NULL) {
            *more = last;
            last = more;
        }
    }
    return last;
}

static void
give_memory_back(void *last, const struct rlimit *before)
{
    while (last != NULL) {
        void *next = *(void **)last;

        free(last);
        last = next;
    }
    setrlimit(RLIMIT_AS, before);
}

struct late {
    struct tidei_track_table *table;
    pthread_barrier_t barrier;
    bool right;
};

/* A thread whose first call comes when there is no memory for its data. */
static void *
late_run(void *argument)
{
    struct late *late = argument;
    struct rlimit before;
    void *all;

    pthread_barrier_wait(&late->barrier);
    all = use_up_memory(&before); /* the memory that malloc kept for threads */
    late->right = put_block(late->table, even(1), 8) == TIDEI_TRACK_FINE &&
                  take_block(late->table, even(1), 8) == TIDEI_TRACK_FINE;
    give_memory_back(all, &before);
    return NULL;
}

static int
memory_run(void *argument)
{
    struct late late = { .table = argument };
    struct rlimit before;
    bool right;
    void *all;
    pthread_t thread;

    pthread_barrier_init(&late.barrier, NULL, 2);
    pthread_create(&thread, NULL, late_run, &late);
    put_block(late.table, colliding(0), 8);
    put_block(late.table, colliding(1), 8);
    all = use_up_memory(&before);
    right = put_block(late.table, colliding(2), 8) == TIDEI_TRACK_NO_MEMORY &&
            put_block(late.table, even(2), 8) == TIDEI_TRACK_FINE;
    pthread_barrier_wait(&late.barrier);
    pthread_join(thread, NULL);
    give_memory_back(all, &before);
    return right && late.right && put_block(late.table, colliding(2), 8) == TIDEI_TRACK_FINE && listed(late.table) == 4
               ? 0
               : 1;
}

#define MEMORY_TESTS 1

static void
check_memory(void)
{
    struct tidei_track_table *table = table_of();

    if (SANITIZED)
        skip(MEMORY_TESTS, "a sanitizer ends a process without memory");
    else
        is_i64(in_child(memory_run, table), 0,
               "without host memory the table refuses blocks that it has no place for, and no others");
    tidei_track_table_destroy(table);
}

/* A base that refuses every free, and lets another thread make a call before it returns. */
struct refuser {
    struct tide_resource base;
    struct tide_resource *track;
    uint64_t next;
    bool comes_between;
};

static enum tide_status
refuser_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)bytes;
    (void)alignment;
    (void)stream;
    *out = (void *)(uintptr_t)colliding(((struct refuser *)self)->next++);
    return TIDE_OK;
}

static enum tide_status
refuser_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct refuser *refuser = (struct refuser *)self;

    (void)alignment;
    (void)stream;
    if (refuser->comes_between && tide_allocate(refuser->track, bytes, 1, 0, &pointer) != TIDE_OK)
        return TIDE_EINVAL;
    return tide_error_set(TIDE_EDRIVER, "refuser: no");
}

static void
refuser_destroy(struct tide_resource *self)
{
    (void)self;
}

static const struct tide_resource_ops refuser_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "refuser",
    .allocate = refuser_allocate,
    .deallocate = refuser_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = refuser_destroy,
};

/* The call in between gets the place of the block whose free is refused. */
static int
lost_run(void *argument)
{
    struct refuser *refuser = argument;
    struct heard heard = { .errors = 0 };
    struct rlimit before;
    void *pointers[2], *all;
    enum tide_status status, again;

    hear(&heard);
    tide_allocate(refuser->track, 4096, 1, 0, &pointers[0]);
    tide_allocate(refuser->track, 4096, 1, 0, &pointers[1]);
    again = tide_deallocate(refuser->track, pointers[0], 4096, 1, 0);
    if (again != TIDE_EDRIVER || heard.errors != 0)
        return 1;
    refuser->comes_between = true;
    all = use_up_memory(&before);
    status = tide_deallocate(refuser->track, pointers[0], 4096, 1, 0);
    give_memory_back(all, &before);
    return status == TIDE_EDRIVER && strcmp(tide_error_text(), "refuser: no") == 0 && heard.errors == 1 &&
                   strncmp(heard.text, "track: no host memory to note that 0x", 37) == 0 &&
                   strstr(heard.text, " (4 KiB), which could not be freed, is outstanding") != NULL
               ? 0
               : 1;
}

#define LOST_TESTS 1

static void
check_lost(void)
{
    struct refuser refuser = { .next = 0 };

    if (tide_resource_init(&refuser.base, &refuser_ops, NULL) != TIDE_OK ||
        tide_track_create(&refuser.base, NULL, &refuser.track) != TIDE_OK)
        abort();
    if (SANITIZED)
        skip(LOST_TESTS, "a sanitizer ends a process without memory");
    else
        is_i64(in_child(lost_run, &refuser), 0,
               "a block that upstream does not take back, and that the table has no place for, is reported");
    tide_resource_release(refuser.track);
    tide_resource_release(&refuser.base);
}

int
main(void)
{
    plan(MEMORY_TESTS + LOST_TESTS);
    check_memory();
    check_lost();
    return done();
}
