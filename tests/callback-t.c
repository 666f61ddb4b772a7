/* Tests adaptors/callback.c. */
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"
#include "upstream.h"

/* An application's functions over a base, with answers that the test may set instead. */
struct application {
    struct tide_resource *base;
    enum tide_status status;
    void *answer; /* what allocate returns instead of memory */
    void *freed;
    tide_stream earlier, later;
    int destroyed;
};

static enum tide_status
application_allocate(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct application *application = context;

    if (application->status != TIDE_OK) {
        *out = application; /* a value that the caller must not see */
        return tide_error_set(application->status, "application: no more");
    }
    if (application->answer != NULL) {
        *out = application->answer == context ? NULL : application->answer;
        return TIDE_OK;
    }
    return tide_allocate(application->base, bytes, alignment, stream, out);
}

static enum tide_status
application_deallocate(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct application *application = context;

    if (application->status != TIDE_OK)
        return tide_error_set(application->status, "application: not this");
    if (application->answer != NULL) {
        application->freed = pointer;
        return TIDE_OK;
    }
    return tide_deallocate(application->base, pointer, bytes, alignment, stream);
}

static enum tide_status
application_order(void *context, tide_stream earlier, tide_stream later)
{
    struct application *application = context;

    application->earlier = earlier;
    application->later = later;
    return application->status;
}

static void
application_destroy(void *context)
{
    ((struct application *)context)->destroyed++;
}

static struct tide_resource *
make(struct tide_callback_options options, struct application *application)
{
    struct tide_resource *callback;

    options.struct_size = sizeof(options);
    options.allocate = application_allocate;
    options.deallocate = application_deallocate;
    options.context = application;
    return tide_callback_create(&options, &callback) == TIDE_OK ? callback : NULL;
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t seen;

    return tide_query(resource, what, &seen) == TIDE_OK ? seen : UINT64_MAX;
}

#define CALL_TESTS 15

static void
check_calls(void)
{
    struct upstream *upstream = upstream_create();
    struct application application = { .base = &upstream->base };
    struct tide_resource *callback = make((struct tide_callback_options){ 0 }, &application);
    void *pointer, *other = &other;

    ok(all_of(tide_allocate(callback, 100, 64, 3, &pointer) == TIDE_OK, upstream->last_bytes == 100,
              upstream->last_alignment == 64, upstream->last_stream == 3),
       "the function gets the size, alignment and stream of the request");
    is_u64(figure(callback, TIDE_QUERY_BYTES_USED), 100, "the bytes used are those that the function reports");
    application.status = TIDE_ECAPACITY;
    ok(all_of(tide_allocate(callback, 100, 64, 3, &other) == TIDE_ECAPACITY, other == NULL),
       "a failure of the allocating function is passed on, with NULL");
    is_string(tide_error_text(), "application: no more", "the failure of an allocation has the function's words");
    ok(tide_deallocate(callback, pointer, 100, 64, 4) == TIDE_ECAPACITY,
       "a failure of the freeing function is passed on");
    is_u64(figure(callback, TIDE_QUERY_BYTES_USED), 100, "a failed free leaves the bytes used unchanged");
    application.status = TIDE_OK;
    ok(all_of(tide_deallocate(callback, pointer, 100, 64, 4) == TIDE_OK, upstream->last_stream == 4,
              upstream->live_count == 0, figure(callback, TIDE_QUERY_BYTES_USED) == 0),
       "a free after a failed one succeeds");
    ok(all_of(tide_allocate(callback, SIZE_MAX, 1, 0, &pointer) == TIDE_EOVERFLOW,
              tide_allocate(callback, (size_t)PTRDIFF_MAX + 1, 1, 0, &pointer) == TIDE_EOVERFLOW,
              upstream->allocate_calls == 1),
       "a size over the address space is refused without a call");
    ok(all_of(tide_allocate(callback, 0, 1, 0, &pointer) == TIDE_OK, pointer == NULL, upstream->allocate_calls == 1),
       "0 bytes are allocated without a call");
    ok(all_of(tide_deallocate(callback, NULL, 5, 1, 0) == TIDE_EPOINTER,
              tide_deallocate(callback, &other, 0, 1, 0) == 8),
       "NULL with a size and a pointer with 0 bytes are refused, and NULL with 0 bytes is accepted");
    application.answer = &application;
    ok(all_of(tide_allocate(callback, 100, 64, 3, &pointer) == TIDE_EUPSTREAM, pointer == NULL),
       "a function that returns NULL with success fails the request");
    has_words(tide_error_text(), "returned NULL, and no failure, for 100 B",
              "the error for NULL with success names the request");
    application.answer = (void *)0x7020;
    ok(all_of(tide_allocate(callback, 100, 64, 3, &pointer) == TIDE_EUPSTREAM, pointer == NULL,
              application.freed == (void *)0x7020, figure(callback, TIDE_QUERY_BYTES_USED) == 0),
       "memory that the function has misaligned goes back and the request fails");
    is_string(tide_error_text(), "callback: the function returned 0x7020, expected a multiple of 64",
              "the error for misaligned memory names the address");
    ok(all_of(tide_allocate(callback, 100, 32, 3, &pointer) == TIDE_OK, pointer == (void *)0x7020),
       "the same address serves a request for a smaller alignment");
    tide_resource_release(callback);
    tide_resource_release(&upstream->base);
}

#define FIGURE_TESTS 6

static void
check_figures(void)
{
    struct application application = { 0 };
    struct tide_resource *callback = make((struct tide_callback_options){ 0 }, &application);

    ok(all_of(figure(callback, TIDE_QUERY_HOST_ACCESS) == 0, figure(callback, TIDE_QUERY_STREAM_ORDERED) == 0,
              figure(callback, TIDE_QUERY_DEVICE) == UINT64_MAX, tide_order(callback, 1, 2) == TIDE_OK),
       "by default host access, device and stream order are unknown, and an order succeeds");
    tide_resource_release(callback);
    callback = make(
        (struct tide_callback_options){
            .host_access = true, .stream_ordered = true, .on_device = true, .device = 2, .order = application_order },
        &application);
    ok(all_of(figure(callback, TIDE_QUERY_HOST_ACCESS) == 1, figure(callback, TIDE_QUERY_STREAM_ORDERED) == 1,
              figure(callback, TIDE_QUERY_DEVICE) == 2),
       "host access, stream order and device are those of the options");
    ok(all_of(tide_order(callback, 1, 2) == TIDE_OK, application.earlier == 1, application.later == 2),
       "an order of two streams calls the application's function");
    application.status = TIDE_EDRIVER;
    ok(tide_order(callback, 1, 2) == TIDE_EDRIVER, "ordering streams fails where the application's function fails");
    tide_resource_release(callback);
    callback = make((struct tide_callback_options){ .destroy = application_destroy }, &application);
    tide_resource_release(tide_resource_retain(callback));
    ok(application.destroyed == 0, "the destroy function is not called while a reference is left");
    tide_resource_release(callback);
    ok(application.destroyed == 1, "the destroy function is called with the last reference");
}

#define BAD_TESTS 4

static void
check_bad_input(void)
{
    struct tide_callback_options options = { TIDE_OPTIONS(options), .allocate = application_allocate };
    struct application application = { 0 };
    struct tide_resource *callback = (struct tide_resource *)&application;

    ok(all_of(tide_callback_create(&options, &callback) == TIDE_EINVAL, callback == NULL),
       "options with only the allocating function are refused");
    options.allocate = NULL;
    options.deallocate = application_deallocate;
    ok(all_of(tide_callback_create(&options, &callback) == TIDE_EINVAL,
              tide_callback_create(NULL, &callback) == TIDE_EINVAL,
              tide_callback_create(&options, NULL) == TIDE_EINVAL),
       "options with only the freeing function, NULL options and NULL in place of the result are refused");
    ok(make((struct tide_callback_options){ .stream_ordered = true }, &application) == NULL,
       "stream order without an ordering function is refused");
    ok(make((struct tide_callback_options){ .on_device = true, .device = -1 }, &application) == NULL,
       "a device below 0 is refused");
}

static struct tide_resource *
create(void *context)
{
    return make((struct tide_callback_options){ 0 }, context);
}

int
main(void)
{
    struct upstream *upstream = upstream_create();
    struct application application = { .base = &upstream->base };
    const struct contract contract = {
        .name = "callback", .create = create, .context = &application, .largest_bytes = 1 << 20, .knows_pointers = true
    };

    plan(CONTRACT_TESTS + CALL_TESTS + FIGURE_TESTS + BAD_TESTS + 1);
    contract_check(&contract);
    is_u64(upstream->live_count, 0, "all memory went back to the application");
    tide_resource_release(&upstream->base);
    check_calls();
    check_figures();
    check_bad_input();
    return done();
}
