/* Tests that a program with little static TLS left can open the library, as an interpreter's plugin does. */
#include "config.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "sanitized.h"
#include "tap.h"

#define STATIC_TLS_MOST 64
#define PAIRS           1000

/* The functions of the library that the test calls. */
static struct {
    enum tide_status (*create)(const char *text, struct tide_resource **out);
    enum tide_status (*allocate)(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream,
                                 void **out);
    enum tide_status (*deallocate)(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment,
                                   tide_stream stream);
    void (*release)(struct tide_resource *resource);
    const char *(*error_text)(void);
} library;

static struct tide_resource *stack;
static pthread_barrier_t barrier;

static int
see_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    if (strstr(info->dlpi_name, "libtidemark.so") == NULL)
        return 0;
    *(uint64_t *)context = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(uint64_t *)context = info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static bool
find(void *handle)
{
    *(void **)&library.create = dlsym(handle, "tide_stack_parse");
    *(void **)&library.allocate = dlsym(handle, "tide_allocate");
    *(void **)&library.deallocate = dlsym(handle, "tide_deallocate");
    *(void **)&library.release = dlsym(handle, "tide_resource_release");
    *(void **)&library.error_text = dlsym(handle, "tide_error_text");
    return library.create != NULL && library.allocate != NULL && library.deallocate != NULL &&
           library.release != NULL && library.error_text != NULL;
}

/* Allocate and free in pairs. Returns how many pairs succeeded. */
static uint64_t
run_pairs(void)
{
    uint64_t done = 0;

    for (int i = 0; i < PAIRS; i++) {
        void *pointer;

        done += library.allocate(stack, 4096, TIDE_DEFAULT_ALIGNMENT, 0, &pointer) == TIDE_OK &&
                library.deallocate(stack, pointer, 4096, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK;
    }
    return done;
}

/* A thread that starts before the library is loaded, and waits for the stack. */
static void *
run_thread(void *context)
{
    pthread_barrier_wait(&barrier);
    *(uint64_t *)context = run_pairs();
    return NULL;
}

#define OPEN_TESTS 8

static void
check_open(void)
{
    uint64_t tls_bytes = UINT64_MAX, of_thread = 0;
    void *taken, *handle, *pointer;
    pthread_t thread;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, run_thread, &of_thread);
    taken = dlopen(DLOPEN_BUILD "/tests/.libs/libstatic-tls.so", RTLD_NOW);
    if (!ok(taken != NULL, "a library that takes 1.5 KiB of static TLS is loaded"))
        diag("%s", dlerror());
    handle = dlopen(DLOPEN_BUILD "/.libs/libtidemark.so", RTLD_NOW);
    if (!ok(handle != NULL, "libtidemark is loaded after a library that takes most of the static TLS"))
        diag("%s", dlerror());
    if (handle == NULL || !find(handle)) {
        diag("the library cannot be used");
        exit(1);
    }
    dl_iterate_phdr(see_object, &tls_bytes);
    ok(tls_bytes <= STATIC_TLS_MOST, "the library takes at most 64 bytes of static TLS (%" PRIu64 ")", tls_bytes);
    is_i64(library.create("statistics | limit(1GiB) | pool | sim", &stack), TIDE_OK,
           "the loaded library makes a stack");
    is_u64(run_pairs(), PAIRS, "the main thread allocates and frees");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    is_u64(of_thread, PAIRS, "a thread that was started before the library was loaded allocates and frees");
    is_i64(library.allocate(stack, (size_t)2 << 30, TIDE_DEFAULT_ALIGNMENT, 0, &pointer), TIDE_ELIMIT,
           "a request past the limit is refused");
    ok(strstr(library.error_text(), "limit") != NULL, "the error text names the limit");
    library.release(stack);
    pthread_barrier_destroy(&barrier);
}

int
main(void)
{
    if (SANITIZED)
        skip_all("a sanitizer takes static TLS of its own");
    plan(OPEN_TESTS);
    alarm(60);
    check_open();
    return done();
}
