/* Reaches the driver in the way that its argument names, and prints what it answers. */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reach.h"

static void *driver;

static void *
by_handle(const char *name)
{
    return dlsym(driver, name);
}

static void *
by_default(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static void *
by_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void *
by_version(const char *name)
{
    return dlvsym(driver, name, "libcuda.so.1");
}

static struct reached
reach(void *(*find)(const char *))
{
    return (struct reached){ find("cuInit"),          find("cuDevicePrimaryCtxRetain"),
                             find("cuCtxSetCurrent"), find("cuMemAlloc_v2"),
                             find("cuMemFree_v2"),    find("cuMemGetInfo_v2") };
}

typedef CUresult address_v1(const char *, void **, int, cuuint64_t);
typedef CUresult address_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static int address_version;

/* By cuGetProcAddress of either version, which is itself found by the first. */
static void *
by_address(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult how = 99;
    void *found = NULL;
    CUresult result;

    if (address_version == 1) {
        address_v1 *first = dlsym(driver, "cuGetProcAddress");

        result = first(name, &found, version, flags);
    } else if (address_version == 2) {
        address_v2 *second = dlsym(driver, "cuGetProcAddress_v2");

        result = second(name, &found, version, flags, &how);
    } else {
        address_v2 *second = dlsym(driver, "cuGetProcAddress_v2"), *third;

        second("cuGetProcAddress", (void **)&third, 12000, 0, NULL);
        result = third(name, &found, version, flags, NULL);
    }
    if (result != CUDA_SUCCESS || found == NULL)
        printf("%s %d %llu: %d %d\n", name, version, (unsigned long long)flags, result, how);
    return found;
}

static int
use_addresses(cuuint64_t flags, const char *how)
{
    const struct reached cuda = {
        by_address("cuInit", 2000, flags),          by_address("cuDevicePrimaryCtxRetain", 7000, flags),
        by_address("cuCtxSetCurrent", 4000, flags), by_address("cuMemAlloc", 3020, flags),
        by_address("cuMemFree", 3020, flags),       by_address("cuMemGetInfo", 3020, flags),
    };
    CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream) = by_address("cuMemAllocAsync", 11020, flags);
    CUresult (*free_async)(CUdeviceptr, CUstream) = by_address("cuMemFreeAsync", 11020, flags);
    CUdeviceptr pointer = 0;

    if (reach_use(&cuda, how) != 0 || alloc_async == NULL || free_async == NULL)
        return 1;
    printf("async %d", alloc_async(&pointer, 4096, NULL));
    printf(" %d\n", free_async(pointer, NULL));
    return 0;
}

/* What is not found: versions before a function's, names that are none, NULL. */
static int
use_wrong_addresses(void)
{
    address_v1 *first = dlsym(driver, "cuGetProcAddress");
    address_v2 *second = dlsym(driver, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult how = 99;
    void *found = NULL;

    by_address("cuMemAllocAsync", 10000, 0);
    by_address("cuMemCreate", 5000, 0);
    by_address("", 0, 0);
    by_address("cuNoSuchFunction", 13000, 0);
    by_address("cuMemAlloc", 3020, 7);
    printf("%d", first("cuMemAlloc", NULL, 3020, 0));
    printf(" %d", second("cuMemAlloc", NULL, 3020, 0, &how));
    printf(" %d", second(NULL, &found, 3020, 0, &how));
    printf(" %d", second("cuMemAllocAsync", &found, 10000, 0, NULL));
    printf(" %d\n", found == NULL);
    return 0;
}

static int
use_module(const char *path, const char *function, int flags, const char *how)
{
    void *module = dlopen(path, RTLD_LAZY | flags);
    int (*use)(const char *);

    if (module == NULL) {
        puts(dlerror());
        return 1;
    }
    use = dlsym(module, function);
    return use(how);
}

/* What a library above CUDA has under names like the driver's is its own. */
static int
use_names(const char *path)
{
    void *module = dlopen(path, RTLD_LAZY);
    int (*create)(void **) = dlsym(module, "cudnnCreate");
    int (*allocator)(int) = dlsym(module, "cuMemAllocator");
    void *handle;

    printf("%d", create(&handle));
    printf(" %d", allocator(1));
    printf(" %d\n", dlsym(module, "cuMemAlloc") != NULL);
    return 0;
}

/* Before the driver is loaded, its functions are nowhere. */
static int
use_nothing(void)
{
    dlerror();
    printf("%d", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL);
    printf(" %d", dlerror() != NULL);
    printf(" %d", dlsym(RTLD_NEXT, "cuGetProcAddress") != NULL);
    printf(" %d\n", dlsym(RTLD_DEFAULT, "malloc") != NULL);
    return 0;
}

/* Whether this process has loaded what records, and how many threads it has. */
static int
show_process(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    DIR *tasks = opendir("/proc/self/task");
    int loaded = 0, threads = -2;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        loaded |= strstr(line, "libtidemark.so") != NULL || strstr(line, "stand-in") != NULL ||
                  strstr(line, "libsqlite3") != NULL;
    while (tasks != NULL && readdir(tasks) != NULL)
        threads++;
    printf("loaded %d threads %d\n", loaded, threads);
    return 0;
}

static int
use_quietly(void)
{
    const struct reached cuda = reach(by_handle);
    size_t free_bytes, total_bytes;

    if (!reach_begin(&cuda))
        return 1;
    printf("%d", cuda.info(&free_bytes, &total_bytes));
    printf(" %d", cuda.free(0));
    printf(" %d\n", cuda.free(4096));
    return show_process();
}

static struct reached all;

static void *
allocate(void *argument)
{
    CUdeviceptr pointer = 0;

    if (!reach_begin(&all) || all.alloc(&pointer, 4096) != CUDA_SUCCESS || all.free(pointer) != CUDA_SUCCESS)
        return argument;
    return NULL;
}

/* All of them start at one time. */
static int
use_threads(int count)
{
    pthread_t threads[64];
    int failed = 0;

    all = reach(by_handle);
    if (!reach_begin(&all))
        return 1;
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, allocate, &all);
    for (int i = 0; i < count; i++) {
        void *result;

        pthread_join(threads[i], &result);
        failed += result != NULL;
    }
    printf("failed %d\n", failed);
    return failed != 0;
}

static useconds_t module_pause;

static void *
open_module(void *path)
{
    usleep(module_pause);
    return dlopen(path, RTLD_NOW);
}

/* One thread allocates first of all while another does in a constructor, with the linker's lock. */
static int
use_constructor(char *path, bool late)
{
    pthread_t thread;

    all = reach(by_handle);
    if (!reach_begin(&all))
        return 1;
    setenv("RUN_CONSTRUCTOR", "1", 1);
    module_pause = late ? 100000 : 0;
    pthread_create(&thread, NULL, open_module, path);
    usleep(late ? 0 : 100000);
    printf("%d\n", allocate(&all) != NULL);
    pthread_join(thread, NULL);
    return 0;
}

/* A child that has not touched CUDA may begin with it; so may the parent, then. */
static int
use_fork(void)
{
    int status;
    pid_t child;
    const struct reached cuda = reach(by_handle);

    fflush(stdout);
    child = fork();
    if (child == 0) {
        reach_use(&cuda, "child");
        exit(0);
    }
    waitpid(child, &status, 0);
    return reach_use(&cuda, "parent");
}

/* Calls before cuInit() get the driver's own answer, which is that it is not initialized. */
static int
use_early(void)
{
    const struct reached cuda = reach(by_handle);
    size_t free_bytes, total_bytes;
    CUdeviceptr pointer = 0;

    printf("before: %d", cuda.alloc(&pointer, 1 << 20));
    printf(" %d", cuda.info(&free_bytes, &total_bytes));
    printf(" %d\n", cuda.free(4096));
    return reach_use(&cuda, "after");
}

static void
exit_by_signal(int number)
{
    (void)number;
    exit(0);
}

static void *
allocate_for_ever(void *context)
{
    CUdeviceptr pointer;

    all.set(context);
    while (all.alloc(&pointer, 4096) == CUDA_SUCCESS && all.free(pointer) == CUDA_SUCCESS)
        usleep(100);
    return NULL;
}

/* Each of them ends the process, or lets main return. */
static void
end_process(CUcontext context, const char *end)
{
    bool (*wait)(const char *, int) = by_handle("fake_cuda_wait");
    pthread_t thread;

    if (strcmp(end, "exit") == 0)
        exit(0);
    if (strcmp(end, "threads") == 0) {
        pthread_create(&thread, NULL, allocate_for_ever, context);
        usleep(20000);
        exit(0);
    }
    if (strcmp(end, "thread") == 0) /* the process ends with its last thread, which is not of the program */
        pthread_exit(NULL);
    if (strcmp(end, "signal") == 0) {
        signal(SIGALRM, exit_by_signal);
        ualarm(20000, 0);
        pause();
    }
    if (strcmp(end, "fork") == 0) { /* the child has the handlers of its parent */
        if (fork() != 0)
            waitpid(-1, NULL, 0);
        exit(0);
    }
    if (strcmp(end, "hang") == 0 && wait("cuMemGetInfo", 600))
        exit(0);
    if (strcmp(end, "again") == 0 && wait("cuMemGetInfo", 600)) { /* exit() is interrupted, and called again */
        signal(SIGALRM, exit_by_signal);
        ualarm(100000, 0);
        exit(0);
    }
}

/* Memory of a second device, and more of the first. */
static bool
allocate_on_two(CUcontext first)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice) = by_handle("cuCtxCreate_v2");
    CUdeviceptr pointer = 0;
    CUcontext second;

    return create(&second, 0, 1) == CUDA_SUCCESS && all.alloc(&pointer, 4 << 20) == CUDA_SUCCESS &&
           usleep(1500000) == 0 && all.alloc(&pointer, 8 << 20) == CUDA_SUCCESS && all.set(first) == CUDA_SUCCESS &&
           all.alloc(&pointer, 8 << 20) == CUDA_SUCCESS;
}

/* In a context of its own it keeps 4 MiB, and later 8 MiB more, and then ends in the way that is named. */
static int
use_end(const char *end)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice) = by_handle("cuCtxCreate_v2");
    CUdeviceptr pointer = 0;
    CUcontext context;

    all = reach(by_handle);
    if (all.init(0) != CUDA_SUCCESS || create(&context, 0, 0) != CUDA_SUCCESS)
        return 1;
    printf("%d", all.alloc(&pointer, 4 << 20));
    usleep(1500000);
    printf(" %d\n", all.alloc(&pointer, 8 << 20));
    fflush(stdout);
    if (strcmp(end, "return") == 0)
        return 0;
    if (strcmp(end, "devices") == 0)
        return allocate_on_two(context) ? 0 : 1;
    end_process(context, end);
    if (strcmp(end, "exit") == 0)
        exit(0);
    usleep(1500000); /* what has not changed for a second is in the trace, whatever the end */
    if (strcmp(end, "term") == 0)
        raise(SIGTERM);
    _exit(0);
}

static int
use(int argc, char **argv)
{
    const char *way = argv[1];
    struct reached cuda;

    if (strcmp(way, "nothing") == 0)
        return use_nothing();
    driver = dlopen("libcuda.so.1", strcmp(way, "default") == 0 ? RTLD_LAZY | RTLD_GLOBAL : RTLD_LAZY);
    if (driver == NULL)
        return 3;
    if (strcmp(way, "handle") == 0 || strcmp(way, "default") == 0 || strcmp(way, "version") == 0 ||
        strcmp(way, "next") == 0) {
        cuda = reach(way[0] == 'h' ? by_handle : way[0] == 'd' ? by_default : way[0] == 'n' ? by_next : by_version);
        return reach_use(&cuda, way);
    }
    if (strcmp(way, "address") == 0 && argc > 3) {
        address_version = atoi(argv[2]);
        return use_addresses((cuuint64_t)atoi(argv[3]), way);
    }
    if (strcmp(way, "wrong") == 0 && argc > 2) {
        address_version = atoi(argv[2]);
        return use_wrong_addresses();
    }
    if (strcmp(way, "plt") == 0)
        return use_module(argv[2], "module_use", 0, way);
    if (strcmp(way, "deepbind") == 0)
        return use_module(argv[2], "module_use", RTLD_DEEPBIND, way) +
               use_module(argv[2], "module_default", RTLD_DEEPBIND, way);
    if (strcmp(way, "names") == 0)
        return use_names(argv[2]);
    if (strcmp(way, "quiet") == 0)
        return use_quietly();
    if (strcmp(way, "early") == 0)
        return use_early();
    if (strcmp(way, "end") == 0)
        return use_end(argv[2]);
    if (strcmp(way, "threads") == 0)
        return use_threads(16);
    if (strcmp(way, "constructor") == 0)
        return use_constructor(argv[2], argc > 3);
    if (strcmp(way, "fork") == 0)
        return use_fork();
    if (strcmp(way, "cleared") == 0) {
        char calls[4096];

        snprintf(calls, sizeof(calls), "%s", getenv("RUN_CALLS") != NULL ? getenv("RUN_CALLS") : "");
        clearenv();
        setenv("RUN_CALLS", calls, 1);
        cuda = reach(by_handle);
        return reach_use(&cuda, way);
    }
    if (strcmp(way, "exec") == 0) {
        cuda = reach(by_handle);
        reach_use(&cuda, way);
        fflush(stdout);
        execl("/proc/self/exe", argv[0], "handle", NULL);
    }
    if (strcmp(way, "die") == 0) {
        cuda = reach(by_handle);
        reach_use(&cuda, way);
        fflush(stdout);
        raise(atoi(argv[2]));
    }
    return 2;
}

int
main(int argc, char **argv)
{
    return argc > 1 ? use(argc, argv) : 2;
}
