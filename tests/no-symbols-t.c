/* Tests that every command that opens a trace looks up names of call stacks, and with --no-symbols opens no module. */
#include "config.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/answers.h"
#include "tests/tap.h"
#include "tests/trace.h"

/* Each with the options of its own that it must have, before those of the test and the trace. */
static const char *const commands[] = {
    "check --no-leaks --json", "export",          "failures --json", "fragmentation --json", "histogram --json",
    "layers --json",           "leaks --json",    "peak --json",     "replay --json",        "summary --json",
    "recover --json",          "timeline --json", "top --json",
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char *path, *module;

/* A trace with a frame in a module whose file is there. */
static void
make(void)
{
    sqlite3 *db;
    char sql[8192], folder[4096];
    FILE *file = fopen(module, "w");

    if (file == NULL || fputs("no program", file) < 0 || fclose(file) != 0)
        exit(99);
    tide_resource_release(stack_of("log(%s) | sim", path));
    snprintf(sql, sizeof(sql),
             "INSERT INTO module VALUES (1, '%s/%s', '00ff', 4096, 4096);"
             "INSERT INTO frame(frame_id, address, module_id) VALUES (1, 4100, 1)",
             getcwd(folder, sizeof(folder)) != NULL ? folder : "", module);
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        exit(99);
    sqlite3_close(db);
}

/* Whether the file was opened while the command ran; *status is what it ended with. */
static bool
opens(const char *line, int *status)
{
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    struct answer answer;
    char events[4096];
    bool opened;

    inotify_add_watch(watch, module, IN_OPEN);
    answer_ask(&answer, "%s", line);
    *status = answer.status;
    answer_free(&answer);
    opened = read(watch, events, sizeof(events)) > 0;
    close(watch);
    return opened;
}

static void
test(const char *command, const char *trace, const char *rest)
{
    char with[512], without[512];
    int status[2];
    bool opened[2];

    snprintf(with, sizeof(with), "%s %s%s", command, trace, rest);
    snprintf(without, sizeof(without), "%s --no-symbols %s%s", command, trace, rest);
    opened[0] = opens(with, &status[0]);
    opened[1] = opens(without, &status[1]);
    ok(all_of(opened[0], !opened[1], status[0] == 0, status[1] == 0),
       "%s opens a module's file, and with --no-symbols it does not", command);
}

int
main(void)
{
    char both[512];

    plan(COMMANDS + 3);
    path = strdup(scratch("t.db"));
    module = strdup(scratch("module.so"));
    make();
    for (size_t i = 0; i < COMMANDS; i++)
        test(commands[i], path, "");
    test("query --json", path, " SELECT/**/1");
    snprintf(both, sizeof(both), "%s %s", path, path);
    test("diff --json", both, "");
    snprintf(both, sizeof(both), "check --json --baseline=%s --no-symbols %s", path, path);
    ok(!opens(both, &(int){ 0 }), "check with --no-symbols opens no file of a module of the baseline's either");
    return done();
}
