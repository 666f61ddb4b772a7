/* Tests src/sync/thread.h: one object for each thread, and the behaviour if a thread can have none. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/log.h>
#include <tidemark/message.h>
#include <tidemark/stack.h>
#include <tidemark/tag.h>

#include "sanitized.h"
#include "src/resource/resource.h"
#include "src/sync/slots.h"
#include "src/sync/thread.h"
#include "tap.h"

#define KEYS_MOST 4096
#define TRACE     "thread-t.db"

static pthread_key_t keys[KEYS_MOST];
static size_t key_count;

/* Use up all keys of the process. */
static void
keys_use_up(void)
{
    while (key_count < KEYS_MOST && pthread_key_create(&keys[key_count], NULL) == 0)
        key_count++;
}

static void
keys_give_back(void)
{
    while (key_count > 0)
        pthread_key_delete(keys[--key_count]);
}

/* Run `child` in a process of its own, in which no thread has had an object. Returns its exit status, or -1. */
static int
apart(int (*child)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        alarm(60);
        _exit(child());
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
child_errors(void)
{
    keys_use_up();
    if (strcmp(tide_error_text(), "") != 0)
        return 1;
    if (tidei_thread_get() != NULL || tidei_thread->number != 0)
        return 2;
    if (tide_error_set(TIDE_ELIMIT, "a text") != TIDE_ELIMIT)
        return 3;
    if (strstr(tide_error_text(), "no host memory") == NULL || tide_error_driver() != 0)
        return 4;
    keys_give_back();
    tide_error_set(TIDE_ELIMIT, "a text");
    return strcmp(tide_error_text(), "a text") == 0 ? 0 : 5;
}

static int
child_slots(void)
{
    struct tidei_slots slots;
    struct tidei_slot *slot;

    keys_use_up();
    tidei_slots_init(&slots, sizeof(struct tidei_slot), NULL);
    if (tidei_slot_enter(&slots) != NULL)
        return 1;
    keys_give_back();
    slot = tidei_slot_enter(&slots);
    if (slot == NULL)
        return 2;
    tidei_slot_leave(slot);
    tidei_slots_fini(&slots);
    return 0;
}

static int
child_tags(void)
{
    keys_use_up();
    tide_tag_pop();
    if (tide_tag_push("step") != TIDE_ENOMEM)
        return 1;
    keys_give_back();
    return tide_tag_push("step") == TIDE_OK ? 0 : 2;
}

static void
hear(void *context, enum tide_severity severity, const char *text)
{
    (void)severity;
    (void)text;
    ++*(_Atomic unsigned *)context;
}

/* Use every layer that keeps something for each thread, on a thread that can have no object. */
static int
child_stack(void)
{
    _Atomic unsigned heard = 0;
    struct tide_resource *stack;
    void *pointers[100];
    uint64_t used;

    keys_use_up();
    tide_message_sink_set(hear, &heard);
    if (tide_stack_parse("log(" TRACE ", overwrite) | statistics | limit(1MiB) | track | fixed(4KiB) | pool | sim",
                         &stack) != TIDE_OK)
        return 1;
    for (int i = 0; i < 100; i++) {
        if (tide_allocate(stack, 4096, TIDE_DEFAULT_ALIGNMENT, 0, &pointers[i]) != TIDE_OK)
            return 2;
    }
    if (tide_query(stack, TIDE_QUERY_BYTES_USED, &used) != TIDE_OK || used != 100 * 4096)
        return 3;
    for (int i = 0; i < 100; i++) {
        if (tide_deallocate(stack, pointers[i], 4096, TIDE_DEFAULT_ALIGNMENT, 0) != TIDE_OK)
            return 4;
    }
    tide_resource_release(stack);
    return 0;
}

#define ANSWER_TESTS 4

static void
check_answers(void)
{
    if (SANITIZED_THREAD) {
        skip(ANSWER_TESTS, "ThreadSanitizer needs keys of its own");
        return;
    }
    is_i64(apart(child_errors), 0, "without a key an error has its status, and a text that says why there is no other");
    is_i64(apart(child_slots), 0, "without a key a thread has no slot, and gets one once there is a key");
    is_i64(apart(child_tags), 0, "without a key a tag is refused, and accepted once there is a key");
    is_i64(apart(child_stack), 0, "without a key a stack of every layer allocates and frees");
    remove(TRACE);
}

/* What threads report when they end. */
static struct {
    uint64_t number;
    unsigned calls;
    bool again; /* a thread that went on after its end had a new object */
} told;

static void
end_slots(struct tidei_thread *thread)
{
    told.number = thread->number;
    told.calls++;
}

static void
end_tags(struct tidei_thread *thread)
{
    if (told.calls == 0)
        told.number = thread->number;
}

/* The program's own destructor, which may run before or after the library's. */
static void
program_ends(void *context)
{
    uint64_t before = *(uint64_t *)context;

    told.again = tidei_thread_get() != NULL && tidei_thread->number >= before;
}

static pthread_key_t program_key;

static void *
run_thread(void *context)
{
    uint64_t *number = context;

    *number = tidei_thread->number;
    if (*number == 0 && tidei_thread_get() != NULL)
        *number = tidei_thread_get()->number;
    pthread_setspecific(program_key, number);
    return NULL;
}

static void
start_and_join(uint64_t *number)
{
    pthread_t thread;

    pthread_create(&thread, NULL, run_thread, number);
    pthread_join(thread, NULL);
}

#define OBJECT_TESTS 8

static void
check_object(void)
{
    const struct tidei_thread *mine;
    uint64_t first, second;

    is_u64(tidei_thread->number, 0, "a thread has no object until it needs one");
    mine = tidei_thread_get();
    ok(mine != NULL && mine->number != 0, "a thread gets an object of its own when it needs one");
    ok(tidei_thread_get() == mine && tidei_thread == mine, "the thread keeps its object");
    pthread_key_create(&program_key, program_ends);
    tidei_thread_at_end(TIDEI_THREAD_END_TAGS, end_tags);
    tidei_thread_at_end(TIDEI_THREAD_END_SLOTS, end_slots);
    start_and_join(&first);
    ok(first != 0 && first != mine->number, "another thread has another number");
    ok(told.calls >= 1 && told.number >= first, "a thread that ends calls its hooks");
    ok(told.again, "a thread that uses the library after its hooks gets an object again");
    start_and_join(&second);
    ok(second > first, "no thread number is given out twice");
    is_u64(tidei_thread_os_id(), (uint64_t)getpid(), "the main thread has the process's number");
}

static int
child_os_id(void)
{
    return tidei_thread_os_id() == (uint32_t)getpid() ? 0 : 1;
}

#define FORK_TESTS 1

int
main(void)
{
    plan(ANSWER_TESTS + OBJECT_TESTS + FORK_TESTS);
    alarm(200);
    check_answers();
    check_object();
    is_i64(apart(child_os_id), 0, "the main thread of a child of fork() has the child's number");
    return done();
}
