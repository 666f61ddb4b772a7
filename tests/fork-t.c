/* Tests src/sync/fork.h: fork hooks run in the order of their places, in whatever order they were set. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/sync/fork.h"
#include "tap.h"

/*
 * Which hooks ran, in order: for each the letter of its kind and the letter of its place. Room for a fork in a child.
 */
static char ran[2 * 2 * 2 * TIDEI_FORK_PLACES + 1];

static void
note(char what, int place)
{
    size_t length = strlen(ran);

    ran[length] = what;
    ran[length + 1] = (char)('a' + place);
    ran[length + 2] = '\0';
}

#define HOOK(place)                                                                                                    \
    static void prepare_##place(void)                                                                                  \
    {                                                                                                                  \
        note('p', place);                                                                                              \
    }                                                                                                                  \
    static void parent_##place(void)                                                                                   \
    {                                                                                                                  \
        note('u', place);                                                                                              \
    }                                                                                                                  \
    static void child_##place(void)                                                                                    \
    {                                                                                                                  \
        note('c', place);                                                                                              \
    }                                                                                                                  \
    static const struct tidei_fork_hook hook_##place = { prepare_##place, parent_##place, child_##place }

HOOK(TIDEI_FORK_RECOVERY);
HOOK(TIDEI_FORK_TAGS);
HOOK(TIDEI_FORK_LOCKS);
HOOK(TIDEI_FORK_SINK);

/* A place with nothing to do before fork() and in the parent. */
static const struct tidei_fork_hook hook_barrier = { .child = child_TIDEI_FORK_RECOVERY };

static void
set_hooks(void)
{
    tidei_fork_hook_set(TIDEI_FORK_SINK, &hook_TIDEI_FORK_SINK);
    tidei_fork_hook_set(TIDEI_FORK_TAGS, &hook_TIDEI_FORK_TAGS);
    tidei_fork_hook_set(TIDEI_FORK_BARRIER, &hook_barrier);
    tidei_fork_hook_set(TIDEI_FORK_LOCKS, &hook_TIDEI_FORK_LOCKS);
    tidei_fork_hook_set(TIDEI_FORK_RECOVERY, &hook_TIDEI_FORK_RECOVERY);
    tidei_fork_hook_set(TIDEI_FORK_RECOVERY, &hook_TIDEI_FORK_LOCKS); /* it stays the first one */
}

/* The expected text for the hooks `what` at the places, such as "abc". */
static const char *
expected(const char *places, char what, const char *behind)
{
    static char text[sizeof(ran)];
    size_t length = 0;

    text[0] = '\0';
    for (const char *place = places; *place != '\0'; place++, length += 2) {
        text[length] = 'p';
        text[length + 1] = *place;
    }
    for (const char *place = behind; *place != '\0'; place++, length += 2) {
        text[length] = what;
        text[length + 1] = *place;
    }
    text[length] = '\0';
    return text;
}

static int
status_of(pid_t child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int
main(void)
{
    const char in_order[] = { 'a' + TIDEI_FORK_RECOVERY, 'a' + TIDEI_FORK_TAGS, 'a' + TIDEI_FORK_LOCKS,
                              'a' + TIDEI_FORK_SINK, '\0' };
    const char reverse[] = { 'a' + TIDEI_FORK_SINK, 'a' + TIDEI_FORK_LOCKS, 'a' + TIDEI_FORK_TAGS,
                             'a' + TIDEI_FORK_RECOVERY, '\0' };
    const char in_child[] = { 'a' + TIDEI_FORK_RECOVERY, 'a' + TIDEI_FORK_SINK,     'a' + TIDEI_FORK_LOCKS,
                              'a' + TIDEI_FORK_TAGS,     'a' + TIDEI_FORK_RECOVERY, '\0' };
    pid_t child;

    plan(5);
    alarm(60);
    child = fork();
    if (child == 0)
        _exit(tidei_fork_generation() == 1 ? 0 : 1);
    is_i64(status_of(child), 0, "the handlers of fork() are installed before the first hook is set");
    set_hooks();
    is_u64(tidei_fork_generation(), 0, "the first process is no forked child");
    child = fork();
    if (child == 0) {
        if (strcmp(ran, expected(in_order, 'c', in_child)) != 0)
            _exit(1);
        if (tidei_fork_generation() != 1)
            _exit(2);
        /* The hook table is empty again. */
        tidei_fork_hook_set(TIDEI_FORK_SLOTS, &hook_barrier);
        child = fork();
        if (child == 0)
            _exit(tidei_fork_generation() == 2 ? 0 : 3);
        _exit(status_of(child));
    }
    is_i64(status_of(child), 0, "in a child, and in a child of the child, hooks run in the reverse order");
    is_string(ran, expected(in_order, 'u', reverse),
              "in the parent hooks run in the order of their places before fork, and in reverse after it");
    is_u64(tidei_fork_generation(), 0, "fork leaves the parent's generation unchanged");
    return done();
}
