/* Tests one pool shared by two processes: both write its memory, free it, and trace it. */
#include "tests/gpu/lock.h"
#include "tests/gpu/work.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/parts.h"
#include "tests/gpu/process.h"
#include "tests/gpu/summary.h"
#include "tests/find.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define IMPORTER    "importer"
#define BLOCKS      3
#define BLOCK_BYTES (41 * MIB + 4096)

static const size_t share_bytes[BLOCKS] = { MIB, 4096, 40 * MIB };

/* The exporting process sends an offer after the descriptor; the importing one sends an answer. */
struct offer {
    struct tide_driver_pointer pointers[BLOCKS];
};

struct answer {
    bool imported;          /* the pool and all pointers */
    bool freed;             /* all of them */
    uint32_t wrong;         /* words that differed from what the other process left */
    uint64_t used_bytes;    /* the imported base's figure while all blocks were allocated */
    enum tide_status plain; /* the status of an allocation from the imported pool */
    enum tide_status bad;   /* the status of importing an invalid pointer */
    char text[160];         /* of the last error */
};

/* The stack of the importing process. NULL, with an error text, if the descriptor is no pool. */
static struct tide_resource *
import_stack(int fd, const char *trace, enum tide_cupti cupti)
{
    struct tide_driver_import_options options = { TIDE_OPTIONS(options) };
    struct tide_log_options log_options = { TIDE_OPTIONS(log_options), .path = trace, .cupti = cupti };
    struct tide_resource *base = NULL;
    struct tide_resource *counted = NULL;
    struct tide_resource *stack = NULL;

    if (tide_driver_import(fd, &options, &base) == TIDE_OK && tide_statistics_create(base, NULL, &counted) == TIDE_OK)
        tide_log_create(counted, &log_options, &stack);
    tide_resource_release(counted);
    tide_resource_release(base);
    return stack;
}

/* Each block arrives filled with 10 plus its number; this process adds 100. */
static void
import_blocks(struct gpu_work *work, struct tide_resource *stack, const struct offer *offer, struct answer *answer)
{
    struct tide_driver_pointer none = offer->pointers[0];
    void *blocks[BLOCKS] = { NULL };
    void *plain = NULL;

    answer->imported = true;
    for (uint32_t i = 0; i < BLOCKS && answer->imported; i++) {
        const uint32_t words = (uint32_t)(share_bytes[i] / sizeof(uint32_t));

        answer->imported =
            tide_driver_pointer_import(stack, &offer->pointers[i], (tide_stream)work->first, &blocks[i]) == TIDE_OK;
        if (!answer->imported)
            break;
        answer->wrong += gpu_count_wrong(&work->kernels, work->first, blocks[i], words, 10 + i);
        gpu_add(&work->kernels, work->first, blocks[i], words, 100);
    }
    answer->used_bytes = gpu_figure(stack, TIDE_QUERY_BYTES_USED);
    answer->plain = tide_allocate(stack, MIB, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->first, &plain);
    memset(none.data, 0xa5, sizeof(none.data));
    answer->bad = tide_driver_pointer_import(stack, &none, (tide_stream)work->first, &plain);
    answer->freed = gpu.stream_synchronize(work->first) == CUDA_SUCCESS && answer->imported;
    for (uint32_t i = 0; i < BLOCKS && answer->freed; i++)
        answer->freed = tide_deallocate(stack, blocks[i], share_bytes[i], TIDE_DEFAULT_ALIGNMENT,
                                        (tide_stream)work->first) == TIDE_OK;
    gpu.stream_synchronize(work->first);
}

/* The importing process. It prints nothing: its answer has the results. */
static int
import_main(int socket, const char *trace, enum tide_cupti cupti)
{
    struct answer answer = { .wrong = 0 };
    struct gpu_work work = { 0 };
    struct tide_resource *stack = NULL;
    struct offer offer;
    int fd;

    alarm(gpu_part_seconds());
    fd = gpu_receive_descriptor(socket);
    if (fd < 0 || !gpu_receive(socket, &offer, sizeof(offer)) || gpu_open() != NULL || !gpu_work_open(&work, 0))
        return 1;
    stack = import_stack(fd, trace, cupti);
    close(fd);
    if (stack != NULL)
        import_blocks(&work, stack, &offer, &answer);
    snprintf(answer.text, sizeof(answer.text), "%s", tide_error_text());
    tide_resource_release(stack);
    gpu_work_close(&work);
    return send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer) ? 0 : 1;
}

static bool
export_blocks(struct gpu_work *work, struct tide_resource *stack, void **blocks, int socket)
{
    struct tide_resource *driver = find_layer(stack, "driver");
    struct offer offer;
    bool done;
    int fd = -1;

    memset(&offer, 0, sizeof(offer));
    done = tide_driver_export(driver, &fd) == TIDE_OK;
    for (uint32_t i = 0; i < BLOCKS && done; i++)
        done =
            gpu_allocates(stack, share_bytes[i], work->first, &blocks[i]) &&
            gpu_fill(&work->kernels, work->first, blocks[i], (uint32_t)(share_bytes[i] / sizeof(uint32_t)), 10 + i) &&
            tide_driver_pointer_export(driver, blocks[i], share_bytes[i], &offer.pointers[i]) == TIDE_OK;
    done = done && gpu.stream_synchronize(work->first) == CUDA_SUCCESS && gpu_send_descriptor(socket, fd) &&
           send(socket, &offer, sizeof(offer), MSG_NOSIGNAL) == sizeof(offer);
    if (!done)
        diag("%s", tide_error_text());
    if (fd >= 0)
        close(fd);
    /* So that the other process waits no longer. */
    shutdown(socket, SHUT_WR);
    return done;
}

/* Start the importing process with its end of the socket. -1 if that fails. */
static pid_t
import_start(int socket, const char *trace, const char *cupti)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", socket);
    return gpu_process_start(
        socket, (char *[]){ IMPORTER, IMPORTER, number, (char *)(uintptr_t)trace, (char *)(uintptr_t)cupti, NULL });
}

#define SHARE_TESTS 16

static void
test_share(struct gpu_work *work, const char *cupti)
{
    const char *exported = scratch("exported.db");
    const char *imported = scratch("imported.db");
    struct tide_resource *stack =
        gpu_stack("log(%s, cupti=%s) | statistics | driver(handle=posix_fd)", exported, cupti);
    const struct gpu_summary here = { BLOCKS, BLOCKS, 0, BLOCK_BYTES, BLOCK_BYTES, 0 };
    const struct gpu_summary there = { BLOCKS, BLOCKS, 2, BLOCK_BYTES, BLOCK_BYTES, 0 };
    struct answer answer = { .wrong = 1 };
    void *blocks[BLOCKS] = { NULL };
    uint32_t wrong = 0;
    bool freed = true;
    int sockets[2] = { -1, -1 };
    int status = 1;
    pid_t child = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0)
        child = import_start(sockets[1], imported, cupti);
    close(sockets[1]);
    ok(all_of(child > 0, stack != NULL, export_blocks(work, stack, blocks, sockets[0])),
       "a process exports its pool and three blocks");
    ok(all_of(gpu_receive(sockets[0], &answer, sizeof(answer)), waitpid(child, &status, 0) == child, status == 0),
       "the importing process answers, and exits with 0");
    if (!ok(answer.imported, "the other process has imported the pool and the blocks"))
        diag("%s", answer.text);
    is_u64(answer.wrong, 0, "kernels of the other process have read what was written here");
    is_u64(answer.used_bytes, BLOCK_BYTES, "the other process's figures were those of the blocks");
    is_i64(answer.plain, TIDE_EUNSUPPORTED, "the other process could not allocate from the imported pool");
    ok(answer.bad != TIDE_OK, "the other process could not import an invalid pointer");
    diag("%s: %s", tide_status_name(answer.bad), answer.text);
    ok(answer.freed, "the other process has freed the blocks");
    for (uint32_t i = 0; i < BLOCKS; i++)
        wrong += blocks[i] == NULL || gpu_count_wrong(&work->kernels, work->first, blocks[i],
                                                      (uint32_t)(share_bytes[i] / sizeof(uint32_t)), 110 + i) != 0;
    is_u64(wrong, 0, "every block holds what kernels of the other process added");
    for (uint32_t i = 0; i < BLOCKS; i++)
        freed = gpu_frees(stack, blocks[i], share_bytes[i], work->first) && freed;
    ok(freed, "the exported blocks are freed");
    gpu.stream_synchronize(work->first);
    is_u64(gpu_figure(stack, TIDE_QUERY_BYTES_USED), 0, "the figures say that none of the blocks is left");
    tide_resource_release(stack);
    ok(all_of(trace_is_whole(exported), trace_is_whole(imported)), "the traces of both processes are whole");
    is_i64(sql_number(imported, "SELECT count(*) FROM allocation WHERE status = 0 AND free_ns IS NOT NULL"), BLOCKS,
           "the importing process's trace has the blocks, with their frees");
    is_i64(sql_number(imported, "SELECT count(*) FROM failure"), 2, "the importing process's trace has both failures");
    gpu_summary_is(exported, &here, 1, "the summary of the pool's own trace is right");
    gpu_summary_is(imported, &there, 1, "the summary of the imported pool's trace is right");
    close(sockets[0]);
}

#define BAD_TESTS 8

/* Descriptors that are no pool, and pools that cannot be exported. */
static void
test_bad(struct gpu_work *work)
{
    struct tide_resource *plain = gpu_stack("driver");
    struct tide_resource *imported = plain;
    struct tide_driver_pointer pointer;
    void *block = NULL;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fd = 99;

    ok(all_of(tide_driver_import(null, NULL, &imported) != TIDE_OK, imported == NULL),
       "the import of a descriptor that is no pool is refused");
    has_words(tide_error_text(), "CUDA_ERROR_", "the refused import has the driver's error");
    diag("%s", tide_error_text());
    ok(all_of(tide_driver_import(-1, NULL, &imported) != TIDE_OK, imported == NULL),
       "the import of the descriptor -1 is refused");
    diag("%s", tide_error_text());
    ok(all_of(tide_driver_export(plain, &fd) == TIDE_EINVAL, fd == -1), "a pool without a handle is not exported");
    diag("%s", tide_error_text());
    gpu_allocates(plain, MIB, work->first, &block);
    ok(tide_driver_pointer_export(plain, block, MIB, &pointer) != TIDE_OK,
       "memory of a pool without a handle is not exported");
    diag("%s", tide_error_text());
    gpu_frees(plain, block, MIB, work->first);
    tide_resource_release(plain);
    plain = gpu_stack("driver(handle=posix_fd)");
    ok(tide_driver_pointer_export(plain, &fd, sizeof(fd), &pointer) == TIDE_EPOINTER,
       "the export of host memory is refused");
    diag("%s", tide_error_text());
    ok(all_of(tide_driver_export(plain, &fd) == TIDE_OK, fd >= 0), "a pool with a handle is exported");
    ok(all_of(gpu_allocates(plain, MIB, work->first, &block), gpu_frees(plain, block, MIB, work->first)),
       "an exported pool allocates and frees");
    close(fd);
    close(null);
    tide_resource_release(plain);
}

#define ADAPTORS_TESTS 4

/* Layers with memory of their own cannot stand over an imported pool. */
static void
test_adaptors(struct gpu_work *work)
{
    struct tide_resource *driver = gpu_stack("driver(handle=posix_fd)");
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = MIB };
    struct tide_resource *imported = NULL;
    struct tide_resource *fixed = NULL;
    struct tide_driver_pointer pointer;
    void *block = NULL;
    void *other = &gpu;
    int fd = -1;

    ok(all_of(tide_driver_export(driver, &fd) == TIDE_OK, gpu_allocates(driver, 4096, work->first, &block),
              tide_driver_pointer_export(driver, block, 4096, &pointer) == TIDE_OK,
              tide_driver_import(fd, NULL, &imported) == TIDE_OK,
              tide_fixed_create(imported, &options, &fixed) == TIDE_OK),
       "a process imports a pool of its own");
    ok(all_of(tide_driver_pointer_import(fixed, &pointer, (tide_stream)work->first, &other) == TIDE_EUNSUPPORTED,
              other == NULL),
       "a layer with blocks of its own does not import a pointer");
    diag("%s", tide_error_text());
    ok(all_of(tide_deallocate(imported, block, 4096, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->first) == TIDE_EPOINTER,
              gpu_figure(imported, TIDE_QUERY_BYTES_USED) == 0),
       "the imported pool refuses the free of a block that was not imported, and no figure wraps");
    diag("%s", tide_error_text());
    ok(gpu_frees(driver, block, 4096, work->first), "a block that was not imported is freed where it was allocated");
    tide_resource_release(fixed);
    tide_resource_release(imported);
    tide_resource_release(driver);
    close(fd);
}

static void
share_untimed(struct gpu_work *work)
{
    gpu_diag();
    test_share(work, "off");
}

static void
share_timed(struct gpu_work *work)
{
    test_share(work, "calls");
}

/* Run a test if the device's pools can be shared. */
static void
part(void (*test)(struct gpu_work *work), int tests)
{
    uint64_t ipc = 0;

    if (tide_device_query(0, TIDE_QUERY_IPC, &ipc) == TIDE_OK && ipc == 0)
        skip(tests, "this device's pools cannot be shared");
    else
        gpu_with_work(test, tests);
}

static void
part_share(void)
{
    part(share_untimed, SHARE_TESTS);
}

static void
part_share_timed(void)
{
    part(share_timed, SHARE_TESTS);
}

static void
part_bad(void)
{
    part(test_bad, BAD_TESTS);
}

static void
part_adaptors(void)
{
    part(test_adaptors, ADAPTORS_TESTS);
}

static const struct gpu_part parts[] = {
    { "share", SHARE_TESTS, part_share },
    { "share-timed", SHARE_TESTS, part_share_timed },
    { "bad", BAD_TESTS, part_bad },
    { "adaptors", ADAPTORS_TESTS, part_adaptors },
};

int
main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], IMPORTER) == 0)
        return import_main(atoi(argv[2]), argv[3], strcmp(argv[4], "off") == 0 ? TIDE_CUPTI_OFF : TIDE_CUPTI_CALLS);
    gpu_skip_sanitized("compute-sanitizer follows no memory from one process to another");
    gpu_lock(true);
    return gpu_parts_main(argc, argv, parts, sizeof(parts) / sizeof(parts[0]));
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
