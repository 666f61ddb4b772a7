/*
 * Tests faults of single pages: a page of the ring file for which a disk that copies on write has no room. The kernel's
 * signal is sent by the test, with the address of the page.
 */
#include "config.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"
#include "src/sync/fault.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/session.h"
#include "trace.h"

#define STACK "log(%s, ring=64KiB, backlog=2MiB, overwrite=true) | sim"
#define PAIRS 200
#define AFTER 300

/* Send this thread the signal of an access to `address`, as if the page stayed without room. */
static void
fault_at(const void *address)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    info.si_signo = SIGBUS;
    info.si_code = BUS_ADRERR;
    info.si_addr = (void *)(uintptr_t)address;
    atomic_store(&tidei_test_fault, 1);
    syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGBUS, &info);
    atomic_store(&tidei_test_fault, 0);
}

static void
pairs(struct tide_resource *stack, int count)
{
    for (int i = 0; i < count; i++)
        give(stack, take(stack, 64), 64);
}

/* Send faults at all pages of a mapping. */
static void
fault_at_all(const void *begin, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += TIDEI_PAGE)
        fault_at((const char *)begin + at);
}

static struct tidei_ringfile *
ring_file(void)
{
    return tidei_sessions.first->file;
}

#define KEPT_TESTS 5

/* All pages lose the file while the events are in them and nowhere else. */
static void
test_kept(void)
{
    char path[256], rings[512];
    struct tide_resource *stack;
    struct tidei_ringfile *file;
    struct heard heard = { 0 };

    snprintf(path, sizeof(path), "%s", scratch("kept.db"));
    snprintf(rings, sizeof(rings), "%s-rings", path);
    hear(&heard);
    stack = stack_of(STACK, path);
    pairs(stack, PAIRS);
    file = ring_file();
    fault_at_all(file->header, TIDEI_RING_PREFIX_BYTES);
    fault_at_all(file->rings[0], TIDEI_PAGE + file->ring_bytes);
    for (int buffer = 0; buffer < 2; buffer++)
        fault_at_all(file->chunks[buffer][0], TIDEI_CHUNK_BYTES);
    is_i64(access(rings, F_OK), -1, "a ring file that its memory does not reach any more has no name to recover from");
    is_i64(tide_log_flush(stack), TIDE_EIO, "a recording ends whose memory does not reach the ring file any more");
    pairs(stack, AFTER);
    tide_resource_release(stack);
    ok(all_of(hear_count(&heard) == 1, strstr(heard.text, "no space to write a page again") != NULL),
       "the message sink is told once, and why");
    ok(all_of(trace_is_sound(path),
              sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns IS NOT NULL") == PAIRS),
       "pages that find no room keep what is in them: nothing before that is lost");
    ok(all_of(sql_number(path, "SELECT value FROM meta WHERE key = 'complete'") == 0,
              sql_number(path, "SELECT sum(events) FROM loss") == 2 * AFTER),
       "what follows is counted as lost, and the trace is not complete");
    hear(NULL);
}

#define TABLE_TESTS 4

/* More ranges than one block of the table has, from two owners. */
static void
test_table(void)
{
    enum { RANGES = 600 };
    struct tidei_fault_owner one = { 0 }, other = { 0 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, RANGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool added = memory != MAP_FAILED, found = true;

    for (size_t i = 0; added && i < RANGES; i++)
        added = tidei_fault_add(i % 2 == 0 ? &one : &other, memory + i * page, page, i * page);
    for (size_t i = 0; added && i < RANGES; i++)
        found = found && tidei_fault_has(i % 2 == 0 ? &one : &other, memory + i * page) &&
                !tidei_fault_has(i % 2 == 0 ? &other : &one, memory + i * page);
    ok(all_of(added, found), "the table of ranges grows, and knows whose a range is");
    memset(memory, 1, RANGES * page);
    fault_at(memory + 501 * page + 8);
    ok(all_of(tidei_fault_state(&one) == TIDEI_FAULT_NONE, tidei_fault_state(&other) == TIDEI_FAULT_LOST),
       "a fault is told to the owner of its page, and to no other");
    ok(all_of(memory[501 * page] == 0, memory[500 * page] == 1, memory[502 * page] == 1),
       "a page without a file becomes zeros, and no other page does");
    tidei_fault_remove(&one, memory);
    tidei_fault_remove(&other, NULL);
    ok(all_of(!tidei_fault_has(&one, memory), tidei_fault_has(&one, memory + 2 * page),
              !tidei_fault_has(&other, memory + 599 * page)),
       "one range of an owner is removed, or all are");
    tidei_fault_remove(&one, NULL);
    munmap(memory, RANGES * page);
}

static volatile sig_atomic_t own_calls;

static void
own_handler(int number)
{
    (void)number;
    own_calls++;
}

static void
install_own(const char *label)
{
    if (strcmp(label, "fault.before-install") != 0)
        return;
    atomic_store(&tidei_test_point, NULL);
    signal(SIGBUS, own_handler);
}

/* The program installs a handler at the moment at which the library does. */
static int
install_at_once(void *argument)
{
    struct tide_resource *stack;
    char *memory;

    atomic_store(&tidei_test_point, install_own);
    stack = stack_of(STACK, (const char *)argument);
    pairs(stack, 1);
    memory = (char *)ring_file()->header;
    raise(SIGBUS);
    fault_at(memory);
    tide_resource_release(stack);
    return own_calls == 1 ? 0 : 1;
}

#define INSTALL_TESTS 1

static void
test_install(void)
{
    char path[256];

    snprintf(path, sizeof(path), "%s", scratch("install.db"));
    ok(in_child(install_at_once, path) == 0,
       "a handler that the program installs while the library does gets the signals that are its own, and no others");
}

int
main(void)
{
    plan(INSTALL_TESTS + KEPT_TESTS + TABLE_TESTS);
    test_install();
    test_kept();
    test_table();
    return done();
}
