/*
 * Measures how long the `tidemark` command takes to read traces of 5,000,000 allocations, which this run makes. Each
 * command is compared with a C loop that steps through a SELECT of the same columns and only adds them up.
 *
 * Loop and command run in turn, each in a process of its own. A figure is the least processor time (user and system) of
 * all rounds, which a busy machine disturbs the least. Exports go to /dev/null.
 *
 * Usage: bench/viewer TIDEMARK [JSON-FILE [COMMAND...]]. Writes its traces (about 1.2 GiB, and as much again while the
 * second is made) into the current directory and removes them.
 *
 * bench/viewer --walls BEFORE NOW ALLOCATIONS [COMMAND...] compares two builds of the command on such traces of
 * ALLOCATIONS: loop, BEFORE and NOW in turns, wall times, all commands and the questions of doc/trace.md. It prints a
 * table in Markdown.
 *
 * bench/viewer --make TRACE ALLOCATIONS [LAYERS] makes a trace of the same traffic, of `log | LAYERS` (sim), and keeps
 * it.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "bench.h"

#define VIEWER_A           "bench-viewer-a.db"
#define VIEWER_B           "bench-viewer-b.db" /* another seed, and a driver call for each allocation and free */
#define VIEWER_ALLOCATIONS 5000000
#define VIEWER_SEED_A      UINT64_C(88172645463325252)
#define VIEWER_SEED_B      UINT64_C(77281726354544343)
#define VIEWER_LIVE        10000
#define VIEWER_SIZES       300
#define VIEWER_TAGS        24
#define VIEWER_ROUNDS      2
#define VIEWER_ARGUMENTS   6
#define VIEWER_CSV         "bench-viewer.csv" /* A as a log of RMM, for import */
#define VIEWER_IMPORTED    "bench-viewer-i.db"
#define VIEWER_QUESTIONS   32

/* The columns that a command reads, in the words of viewer/read/scan.h. */
#define VIEWER_COLUMNS   "allocation_id, alloc_ns, free_ns, layer_id, size, status"
#define VIEWER_ORIGIN    ", tag_id, callstack_id"
#define VIEWER_PLACE     ", alignment, address"
#define VIEWER_ALIGNMENT ", alignment"
#define VIEWER_CALLER    ", alloc_thread_id, alloc_stream_id"
#define VIEWER_FREER     ", free_thread_id, free_stream_id"
#define VIEWER_DURATION  ", alloc_duration_ns, free_duration_ns"

#define VIEWER_SELECT(columns) "SELECT " columns " FROM allocation ORDER BY allocation_id"
#define VIEWER_ROWS            VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER VIEWER_FREER VIEWER_DURATION

/* One query over a trace. */
struct viewer_loop {
    const char *trace;
    const char *sql;
};

static const struct viewer_case {
    struct viewer_loop loops[2]; /* the queries that the command makes; the second may be missing */
    const char *words[VIEWER_ARGUMENTS];
} cases[] = {
#define VIEWER_CASE(columns, ...)                                                                                      \
    {                                                                                                                  \
        { { VIEWER_A, VIEWER_SELECT(columns) } },                                                                      \
        {                                                                                                              \
            __VA_ARGS__, VIEWER_A                                                                                      \
        }                                                                                                              \
    }
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ALIGNMENT VIEWER_DURATION, "summary"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ALIGNMENT VIEWER_DURATION, "layers"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN, "peak", "--by=tag"),
    VIEWER_CASE(VIEWER_COLUMNS, "peak", "--by=size"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER, "fragmentation"),
    VIEWER_CASE(VIEWER_COLUMNS, "timeline"),
    VIEWER_CASE(VIEWER_COLUMNS, "histogram"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN VIEWER_DURATION, "top", "--by=tag"),
    { { { VIEWER_B, VIEWER_SELECT(VIEWER_COLUMNS VIEWER_ORIGIN VIEWER_DURATION) },
        { VIEWER_B, "SELECT allocation_id, duration_ns FROM driver_call" } },
      { "top", "--by=tag", "--sort=driver", VIEWER_B } },
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN, "leaks"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER, "failures"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN, "check", "--max-peak=1TiB"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER, "check", "--max-peak=1TiB",
                "--max-failures=0"),
    { { { VIEWER_A, VIEWER_SELECT(VIEWER_COLUMNS VIEWER_ORIGIN) },
        { VIEWER_B, VIEWER_SELECT(VIEWER_COLUMNS VIEWER_ORIGIN) } },
      { "diff", VIEWER_A, VIEWER_B } },
    { { { VIEWER_A, "SELECT count(*), sum(size) FROM allocation" } },
      { "query", VIEWER_A, "SELECT count(*), sum(size) FROM allocation" } },
    { { { VIEWER_A, "SELECT allocation_id, size FROM allocation" } },
      { "query", "--csv", VIEWER_A, "SELECT allocation_id, size FROM allocation" } },
    VIEWER_CASE(VIEWER_ROWS, "report", "-o", "/dev/null"),
    VIEWER_CASE(VIEWER_ROWS, "export", "--format=csv"),
    VIEWER_CASE(VIEWER_ROWS, "export", "--format=jsonl"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_PLACE VIEWER_CALLER VIEWER_FREER, "export", "--format=rmm"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER, "export", "--format=chrome"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER, "export", "--format=chrome", "--lifetimes"),
    { { { VIEWER_B, VIEWER_SELECT(VIEWER_COLUMNS VIEWER_PLACE VIEWER_ORIGIN VIEWER_CALLER) },
        { VIEWER_B,
          "SELECT allocation_id, start_ns, duration_ns, thread_id, length(function), result FROM driver_call" } },
      { "export", "--format=chrome", VIEWER_B } },
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN, "export", "--format=collapsed"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN, "export", "--format=speedscope"),
    VIEWER_CASE(VIEWER_COLUMNS VIEWER_ORIGIN, "export", "--format=pprof"),
#undef VIEWER_CASE
};

/* Commands that are compared with those of another build alone. */
static const struct viewer_case others[] = {
    { { { VIEWER_A, VIEWER_SELECT(VIEWER_ROWS) } }, { "replay", "--stack=sim", VIEWER_A } },
    { { { VIEWER_A, VIEWER_SELECT(VIEWER_ROWS) } }, { "import", "--overwrite", VIEWER_CSV, VIEWER_IMPORTED } },
    { { { VIEWER_A, "SELECT value FROM meta WHERE key = 'complete'" } }, { "recover", VIEWER_A } },
    { { { VIEWER_A, VIEWER_SELECT(VIEWER_ROWS) } }, { "query", "--csv", VIEWER_A, "SELECT * FROM event" } },
    { { { VIEWER_A, VIEWER_SELECT(VIEWER_COLUMNS) } }, { "query", "--csv", VIEWER_A, "SELECT * FROM usage" } },
};

/* The cost of a process. */
struct viewer_cost {
    double wall_seconds;
    double seconds; /* user and system */
    double resident_bytes;
};

static uint64_t
viewer_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* A size: most are of a few fixed sizes, as in a program, and every tenth is random. */
static size_t
viewer_size(uint64_t *state, const size_t *sizes)
{
    return viewer_random(state) % 10 == 0 ? 1 + viewer_random(state) % 1000000
                                          : sizes[viewer_random(state) % VIEWER_SIZES];
}

/* Make a trace of random allocations, each freed at random among the live ones, under tags that change. */
static void
viewer_make_trace(const char *path, uint64_t random, unsigned long allocations, const char *layers)
{
    static struct {
        void *pointer;
        size_t bytes;
    } blocks[VIEWER_LIVE];
    size_t sizes[VIEWER_SIZES];
    struct tide_resource *stack;
    char text[512];

    memset(blocks, 0, sizeof(blocks));
    snprintf(text, sizeof(text), "log(%s, overwrite=true) | %s", path, layers);
    for (size_t i = 0; i < VIEWER_SIZES; i++)
        sizes[i] = (1 + viewer_random(&random) % 256) << (4 + viewer_random(&random) % 16);
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        bench_fail("stack");
    for (unsigned long i = 0; i < allocations; i++) {
        unsigned k = (unsigned)(viewer_random(&random) % VIEWER_LIVE);
        char tag[16];

        if (i % 64 == 0) {
            snprintf(tag, sizeof(tag), "part %u", (unsigned)(viewer_random(&random) % VIEWER_TAGS));
            if (i > 0)
                tide_tag_pop();
            tide_tag_push(tag);
        }
        if (blocks[k].pointer != NULL && tide_deallocate(stack, blocks[k].pointer, blocks[k].bytes, 256, 0) != TIDE_OK)
            bench_fail("deallocate");
        blocks[k].bytes = viewer_size(&random, sizes);
        if (tide_allocate(stack, blocks[k].bytes, 256, 0, &blocks[k].pointer) != TIDE_OK)
            bench_fail("allocate");
    }
    tide_tag_pop();
    tide_resource_release(stack);
}

/* Add CUPTI's driver calls to a trace: one for each allocation and each free, in their order. */
static void
viewer_add_calls(void)
{
    static const char sql[] =
        "INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)"
        " SELECT allocation_id, 0, 'cuMemAllocFromPoolAsync', alloc_ns AS ns, 700 + allocation_id % 64, 1, 0"
        " FROM allocation UNION ALL SELECT allocation_id, 1, 'cuMemFreeAsync', free_ns, 400, 1, 0"
        " FROM allocation WHERE free_ns IS NOT NULL ORDER BY ns";
    sqlite3 *db;

    if (sqlite3_open(VIEWER_B, &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA temp_store_directory = '.'", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_fail("driver calls");
    sqlite3_close(db);
}

/* Run the loop that commands are compared with. Its sum is printed, so that the compiler keeps the loop. */
static void
viewer_loop(const struct viewer_loop *loop)
{
    sqlite3_stmt *statement = NULL;
    uint64_t sum = 0;
    sqlite3 *db;
    int count;

    if (sqlite3_open_v2(loop->trace, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, loop->sql, -1, &statement, NULL) != SQLITE_OK)
        bench_fail("sqlite");
    count = sqlite3_column_count(statement);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < count; i++)
            sum += (uint64_t)sqlite3_column_int64(statement, i);
    }
    printf("%llu\n", (unsigned long long)sum);
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void
viewer_exec(const char *tidemark, const struct viewer_case *each)
{
    char *argv[VIEWER_ARGUMENTS + 2] = { (char *)tidemark };

    for (int i = 0; i < VIEWER_ARGUMENTS; i++)
        argv[1 + i] = (char *)each->words[i];
    execv(tidemark, argv);
    perror(tidemark);
    _exit(127);
}

/* Run the loop (tidemark NULL) or the command in a process of its own. */
static struct viewer_cost
viewer_run(const char *tidemark, const struct viewer_case *each)
{
    struct timespec begin, end;
    struct rusage usage;
    int status;
    pid_t pid;

    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
            _exit(127);
        if (tidemark != NULL)
            viewer_exec(tidemark, each);
        for (size_t i = 0; i < 2 && each->loops[i].sql != NULL; i++)
            viewer_loop(&each->loops[i]);
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) || WEXITSTATUS(status) > 1)
        bench_fail(each->words[0]);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (struct viewer_cost){
        .wall_seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9,
        .seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
        .resident_bytes = (double)usage.ru_maxrss * 1024,
    };
}

/* The command and its options. */
static void
viewer_name(const struct viewer_case *each, char *out, size_t size)
{
    size_t length = 0;

    for (int i = 0; i < VIEWER_ARGUMENTS && each->words[i] != NULL; i++) {
        const char *word = each->words[i];

        word = strcmp(word, VIEWER_A) == 0 ? "A" : strcmp(word, VIEWER_B) == 0 ? "B" : word;
        if (length < size - 1)
            length += (size_t)snprintf(out + length, size - length, "%s%s", i > 0 ? " " : "", word);
    }
}

static void
viewer_measure(const char *tidemark, const struct viewer_case *each)
{
    struct viewer_cost loop = { .seconds = 1e9 };
    struct viewer_cost command = { .seconds = 1e9 };
    char name[128] = "";

    for (int round = 0; round < VIEWER_ROUNDS; round++) {
        struct viewer_cost one = viewer_run(NULL, each);
        struct viewer_cost other = viewer_run(tidemark, each);

        loop = one.seconds < loop.seconds ? one : loop;
        command.seconds = other.seconds < command.seconds ? other.seconds : command.seconds;
        if (other.resident_bytes > command.resident_bytes)
            command.resident_bytes = other.resident_bytes;
    }
    viewer_name(each, name, sizeof(name));
    bench_report(name, 1, command.seconds * 1000, "ms", loop.seconds * 1000, "a loop over the same columns");
    bench_report("  most resident memory", 1, command.resident_bytes / 1048576, "MiB", 0, NULL);
}

/* Whether a command was asked for; without arguments all are. */
static bool
viewer_wants(const struct viewer_case *each, char **commands, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(commands[i], each->words[0]) == 0)
            return true;
    }
    return count <= 0;
}

/* Keep the least of both costs, and the most memory. */
static void
viewer_least(struct viewer_cost *least, struct viewer_cost one)
{
    if (one.wall_seconds < least->wall_seconds)
        least->wall_seconds = one.wall_seconds;
    if (one.seconds < least->seconds)
        least->seconds = one.seconds;
    if (one.resident_bytes > least->resident_bytes)
        least->resident_bytes = one.resident_bytes;
}

/* Compare two builds by one command: a row of the table. */
static void
viewer_compare(const char *before, const char *now, const struct viewer_case *each, const char *name)
{
    const char *const builds[] = { NULL, before, now };
    struct viewer_cost least[3];

    for (size_t i = 0; i < 3; i++)
        least[i] = (struct viewer_cost){ .wall_seconds = 1e9, .seconds = 1e9 };
    for (int round = 0; round < VIEWER_ROUNDS; round++) {
        for (size_t i = 0; i < 3; i++)
            viewer_least(&least[i], viewer_run(builds[i], each));
    }
    printf("| %s |", name);
    for (size_t i = 0; i < 3; i++)
        printf(" %.2f (%.2f) |", least[i].wall_seconds, least[i].seconds);
    printf(" %.2f | %.0f | %.0f |\n", least[2].wall_seconds / least[1].wall_seconds, least[1].resident_bytes / 1048576,
           least[2].resident_bytes / 1048576);
    fflush(stdout);
}

/* A question of doc/trace.md. */
struct viewer_question {
    char title[128];
    char sql[2048];
};

/* Read the questions: each is a line that ends in a colon, and the SQL that follows. Returns their number. */
static size_t
viewer_read_questions(struct viewer_question *questions)
{
    FILE *page = fopen(BENCH_TRACE_PAGE, "r");
    char line[512], title[128] = "";
    bool within = false, inside = false;
    size_t count = 0;

    while (page != NULL && count < VIEWER_QUESTIONS && fgets(line, sizeof(line), page) != NULL) {
        struct viewer_question *question = &questions[count];

        if (strncmp(line, "## ", 3) == 0) {
            within = strcmp(line, "## Questions\n") == 0;
        } else if (inside && strncmp(line, "```", 3) == 0) {
            inside = false;
            count++;
        } else if (inside) {
            strncat(question->sql, line, sizeof(question->sql) - strlen(question->sql) - 1);
        } else if (within && strcmp(line, "```sql\n") == 0) {
            inside = true;
            *question = (struct viewer_question){ .sql = "" };
            snprintf(question->title, sizeof(question->title), "%s", title);
        } else if (line[0] != '\n') {
            line[strcspn(line, ":\n")] = '\0';
            snprintf(title, sizeof(title), "%.127s", line);
        }
    }
    if (page != NULL)
        fclose(page);
    return count;
}

/* Compare two builds by all commands, or by those that were asked for. */
static void
viewer_walls(const char *before, const char *now, char **commands, int count)
{
    static struct viewer_question questions[VIEWER_QUESTIONS];
    const struct viewer_case csv = { .words = { "export", "--format=rmm", VIEWER_A, "-o", VIEWER_CSV } };
    size_t question_count = viewer_read_questions(questions);
    char name[160];

    viewer_run(now, &csv);
    printf("| wall s (processor s) | floor | before | now | of before | MiB before | MiB now |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) + sizeof(others) / sizeof(others[0]); i++) {
        const struct viewer_case *each =
            i < sizeof(cases) / sizeof(cases[0]) ? &cases[i] : &others[i - sizeof(cases) / sizeof(cases[0])];
        char words[128] = "";

        if (!viewer_wants(each, commands, count))
            continue;
        viewer_name(each, words, sizeof(words));
        snprintf(name, sizeof(name), "`%s`", words);
        viewer_compare(before, now, each, name);
    }
    for (size_t i = 0; i < question_count; i++) {
        const struct viewer_case each = { { { VIEWER_A, VIEWER_SELECT(VIEWER_COLUMNS) } },
                                          { "query", "--csv", VIEWER_A, questions[i].sql } };

        if (viewer_wants(&each, commands, count))
            viewer_compare(before, now, &each, questions[i].title);
    }
    unlink(VIEWER_CSV);
    unlink(VIEWER_IMPORTED);
}

static void
viewer_make_traces(unsigned long allocations)
{
    viewer_make_trace(VIEWER_A, VIEWER_SEED_A, allocations, "sim");
    viewer_make_trace(VIEWER_B, VIEWER_SEED_B, allocations, "sim");
    viewer_add_calls();
}

static int
viewer_misused(void)
{
    fputs("usage: viewer TIDEMARK [JSON-FILE [COMMAND...]]\n"
          "       viewer --walls BEFORE NOW ALLOCATIONS [COMMAND...]\n"
          "       viewer --make TRACE ALLOCATIONS [LAYERS]\n",
          stderr);
    return 2;
}

int
main(int argc, char **argv)
{
    bool walls = argc > 1 && strcmp(argv[1], "--walls") == 0;

    if (argc < 2 || (walls && argc < 5))
        return viewer_misused();
    if (strcmp(argv[1], "--make") == 0) {
        if (argc != 4 && argc != 5)
            return viewer_misused();
        viewer_make_trace(argv[2], VIEWER_SEED_A, strtoul(argv[3], NULL, 10), argc == 5 ? argv[4] : "sim");
        return 0;
    }
    viewer_make_traces(walls ? strtoul(argv[4], NULL, 10) : VIEWER_ALLOCATIONS);
    if (walls) {
        viewer_walls(argv[2], argv[3], argv + 5, argc - 5);
    } else {
        bench_begin("viewer");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            if (viewer_wants(&cases[i], argv + 3, argc - 3))
                viewer_measure(argv[1], &cases[i]);
        }
        bench_end(argc > 2 ? argv[2] : NULL);
    }
    unlink(VIEWER_A);
    unlink(VIEWER_B);
    return 0;
}
