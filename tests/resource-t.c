/* Tests resource: an application's own layer over the public interface, argument checks, references. */
#include <pthread.h>

#include "contract.h"
#include "tap.h"
#include "upstream.h"

#define HOLDERS 8
#define HOLDS   20000

/* A layer that changes nothing. */
static void
through_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops through_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "through",
    .allocate = tide_pass_allocate,
    .deallocate = tide_pass_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = tide_pass_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = through_destroy,
};

static struct tide_resource *
through_create(struct tide_resource *upstream)
{
    struct tide_resource *self = calloc(1, sizeof(*self));

    if (self == NULL || tide_resource_init(self, &through_ops, upstream) != TIDE_OK)
        abort();
    return self;
}

static struct tide_resource *
contract_create(void *context)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *through = through_create(&upstream->base);

    (void)context;
    tide_resource_release(&upstream->base);
    return through;
}

static void
check_init(void)
{
    struct tide_resource untouched = { 0 };
    struct tide_resource self = { 0 };
    struct tide_resource_ops ops = through_ops;
    void *const empty = NULL;
    int refused = 0;

    ops.version = TIDE_RESOURCE_OPS_VERSION + 1;
    ok(tide_resource_init(&self, &ops, NULL) == TIDE_EUNSUPPORTED, "operations of a newer version are refused");
    has_words(tide_error_text(), "operations of version 2", "the refusal names the version");
    ops.version = 0;
    ok(tide_resource_init(&self, &ops, NULL) == TIDE_EUNSUPPORTED, "operations without a version are refused");
    for (size_t at = offsetof(struct tide_resource_ops, name); at < sizeof(ops); at += sizeof(empty)) {
        ops = through_ops;
        memcpy((char *)&ops + at, &empty, sizeof(empty));
        refused += tide_resource_init(&self, &ops, NULL) == TIDE_EINVAL;
    }
    is_i64(refused, 9, "an empty slot is refused, whichever it is");
    ok(all_of(tide_resource_init(NULL, &through_ops, NULL) == TIDE_EINVAL,
              tide_resource_init(&self, NULL, NULL) == TIDE_EINVAL),
       "a resource without a place, or without operations, is refused");
    ok(memcmp(&self, &untouched, sizeof(self)) == 0, "a refused resource is not written to");
}

static void
check_door(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *base = &upstream->base;
    uint64_t figure = 1;
    void *pointer = &pointer;

    ok(all_of(tide_allocate(NULL, 1, 1, 0, &pointer) == TIDE_EINVAL, pointer == NULL), "NULL allocates nothing");
    ok(tide_deallocate(NULL, NULL, 0, 1, 0) == TIDE_EINVAL, "NULL frees nothing");
    ok(tide_deallocate(base, NULL, 0, 3, 0) == TIDE_EINVAL, "a free with alignment 3 is refused");
    has_words(tide_error_text(), "upstream: alignment 3 is no power of two",
              "the refusal of an alignment names the layer");
    ok(tide_order(NULL, 0, 0) == TIDE_EINVAL, "NULL orders nothing");
    pointer = base;
    ok(all_of(tide_allocate(base, 1, 1, TIDE_STREAM_ALL, &pointer) == TIDE_EINVAL, pointer == NULL,
              tide_deallocate(base, base, 1, 1, TIDE_STREAM_ALL) == TIDE_EINVAL),
       "nothing is allocated or freed on all streams at once");
    ok(tide_order(base, 0, TIDE_STREAM_ALL) == TIDE_EINVAL, "all streams at once cannot be made to wait");
    is_string(tide_error_text(), "upstream: TIDE_STREAM_ALL cannot be made to wait",
              "the refusal to make all streams wait names the layer");
    ok(all_of(tide_query(NULL, TIDE_QUERY_CAPACITY, &figure) == TIDE_EINVAL, figure == 0), "NULL knows no figure");
    ok(tide_query(base, TIDE_QUERY_CAPACITY, NULL) == TIDE_EINVAL, "a query without a place for the figure is refused");
    ok(all_of(tide_query(base, TIDE_QUERY_CAPACITY, &figure) == TIDE_EUNSUPPORTED, figure == 0),
       "an unknown figure of a base is 0");
    is_string(tide_error_text(), "upstream: knows no capacity", "the refusal of an unknown figure names it");
    is_u64(upstream->allocate_calls + upstream->deallocate_calls + upstream->order_calls, 0,
           "refused calls do not reach the operations");
    is_string(tide_resource_name(NULL), "", "NULL has an empty name");
    tide_resource_release(NULL);
    ok(tide_resource_retain(NULL) == NULL, "NULL can be retained and released");
    tide_resource_release(base);
}

static enum tide_status
leaves_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    (void)self;
    (void)what;
    *out = 4711;
    return TIDE_EIO;
}

/* An application's resource whose query fails, and leaves a figure behind. */
static void
check_careless(void)
{
    struct tide_resource_ops ops = through_ops;
    struct upstream *upstream = upstream_create();
    struct tide_resource *top = through_create(&upstream->base);
    uint64_t figure = 1;

    ops.query = leaves_query;
    top->ops = &ops;
    ok(all_of(tide_query(top, TIDE_QUERY_BYTES_USED, &figure) == TIDE_EIO, figure == 0),
       "a figure is 0 if its query fails, whatever the operation wrote there");
    tide_resource_release(top);
    tide_resource_release(&upstream->base);
}

static void
check_pass(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *top = through_create(&upstream->base);
    struct tide_upstream edge;
    uint64_t figure;
    void *pointer;

    ok(all_of(tide_allocate(top, 300, 64, 7, &pointer) == TIDE_OK, upstream->last_bytes == 300,
              upstream->last_alignment == 64, upstream->last_stream == 7),
       "a request passes through with its size, alignment and stream");
    ok(all_of(tide_query(top, TIDE_QUERY_BYTES_USED, &figure) == TIDE_OK, figure == 300), "a query passes through");
    ok(all_of(tide_order(top, 3, 4) == TIDE_OK, upstream->last_earlier == 3, upstream->last_later == 4),
       "an order of two streams passes through");
    ok(all_of(tide_trim(top, 4096) == TIDE_OK, upstream->trim_calls == 1, upstream->last_keep_bytes == 4096),
       "a trim passes through");
    ok(all_of(tide_deallocate(top, pointer, 300, 64, 9) == TIDE_OK, upstream->live_count == 0,
              upstream->last_stream == 9),
       "a free passes through with its size, alignment and stream");
    tide_error_set(TIDE_EIO, "an error from before");
    ok(all_of(tide_pass_upstream_at(top, 0, &edge) == TIDE_OK, edge.resource == &upstream->base,
              edge.limit_bytes == UINT64_MAX),
       "the edge to the upstream serves all sizes");
    ok(all_of(tide_pass_upstream_at(top, 1, &edge) == TIDE_EINVAL, edge.resource == NULL,
              tide_base_upstream_at(edge.resource, 0, &edge) == TIDE_EINVAL),
       "past the last edge there is no upstream");
    is_string(tide_error_text(), "an error from before", "asking past the last edge leaves the error text unchanged");
    upstream->fail_allocate = 1;
    upstream->fail_status = TIDE_EDRIVER;
    ok(all_of(tide_allocate(top, 1, 1, 0, &pointer) == TIDE_EDRIVER, pointer == NULL), "a failure passes through");
    tide_resource_release(top);
    tide_resource_release(&upstream->base);
}

static void
check_references(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *top = through_create(&upstream->base);
    bool destroyed = false;

    upstream->destroyed = &destroyed;
    tide_resource_release(&upstream->base);
    ok(!destroyed, "a layer holds a reference to its upstream");
    ok(tide_resource_retain(top) == top, "retaining returns the resource");
    tide_resource_release(top);
    ok(!destroyed, "a second reference keeps the stack alive");
    tide_resource_release(top);
    ok(destroyed, "the stack is destroyed with the last reference to its top");
}

static void *
hold(void *context)
{
    struct tide_resource *resource = context;

    for (int i = 0; i < HOLDS; i++)
        tide_resource_release(tide_resource_retain(resource));
    tide_resource_release(resource);
    return NULL;
}

static void
check_holders(void)
{
    struct upstream *upstream = upstream_create();
    pthread_t threads[HOLDERS];
    bool destroyed = false;

    upstream->destroyed = &destroyed;
    for (int i = 0; i < HOLDERS; i++)
        pthread_create(&threads[i], NULL, hold, tide_resource_retain(&upstream->base));
    tide_resource_release(&upstream->base);
    for (int i = 0; i < HOLDERS; i++)
        pthread_join(threads[i], NULL);
    ok(destroyed, "threads that retain and release a stack destroy it once");
}

int
main(void)
{
    const struct contract contract = {
        .name = "through", .create = contract_create, .largest_bytes = 1 << 20, .knows_pointers = true
    };

    plan(CONTRACT_TESTS + 6 + 15 + 9 + 1 + 4 + 1);
    contract_check(&contract);
    check_init();
    check_door();
    check_pass();
    check_careless();
    check_references();
    check_holders();
    return done();
}
