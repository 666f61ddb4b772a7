/* Tests where a log records to: its options, its path, and files that already exist there. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include "tap.h"
#include "trace.h"

static struct tide_resource *sim;

/* The status of creating a log with these options. A log that was made is released again. */
static enum tide_status
create(struct tide_log_options options)
{
    struct tide_resource *log = sim;
    enum tide_status status;

    options.struct_size = sizeof(options);
    status = tide_log_create(sim, &options, &log);
    if (status == TIDE_OK)
        tide_resource_release(log);
    else if (log != NULL)
        diag("*out is not NULL");
    return status;
}

static enum tide_status
create_at(const char *path)
{
    return create((struct tide_log_options){ .path = path });
}

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    fputs(text, file);
    fclose(file);
}

/* Whether the file holds exactly the text. */
static bool
holds(const char *path, const char *text)
{
    char seen[256] = "";
    FILE *file = fopen(path, "r");
    size_t length = file != NULL ? fread(seen, 1, sizeof(seen) - 1, file) : 0;

    if (file != NULL)
        fclose(file);
    return file != NULL && length == strlen(text) && strcmp(seen, text) == 0;
}

static void
test_options(void)
{
    const char *path = scratch("options.db");
    const struct {
        struct tide_log_options options;
        const char *words;
    } bad[] = {
        { { .path = path, .ring_bytes = 4095 }, "expected a power of two from 4KiB to 1GiB" },
        { { .path = path, .ring_bytes = 2048 }, "expected a power of two from 4KiB to 1GiB" },
        { { .path = path, .ring_bytes = 6144 }, "ring=6KiB is no power of two" },
        { { .path = path, .ring_bytes = (uint64_t)2 << 30 }, "ring=2GiB is too large" },
        { { .path = path, .backlog_bytes = 1000 }, "backlog=1000 is too small, expected a size from 1MiB to 16GiB" },
        { { .path = path, .backlog_bytes = (uint64_t)17 << 30 }, "backlog=17GiB is too large" },
        { { .path = path, .clock = (enum tide_clock)3 }, "clock=" },
        { { .path = path, .clock = (enum tide_clock) - 1 }, "clock=" },
        { { .path = path, .overflow = (enum tide_overflow)2 }, "overflow" },
        { { .path = "" }, "path is empty" },
        { { .path = "trace-%q.db" }, "%q is unknown, expected %p, %h, %r or %%" },
        { { .path = "trace.db%" }, "ends in %, expected %p, %h, %r or %%" },
        { { .path = "/tmp/" }, "is a directory" },
    };
    struct tide_resource *log = sim;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        is_i64(create(bad[i].options), TIDE_EINVAL, "log options that cannot be are refused");
        has_words(tide_error_text(), bad[i].words, "the refusal of the options says what was expected");
    }
    ok(tide_log_create(NULL, NULL, &log) == TIDE_EINVAL && log == NULL, "a log without an upstream is refused");
    is_u64(scratch_count("options"), 0, "refused options leave no file behind");
    is_i64(create((struct tide_log_options){ .path = path, .ring_bytes = 4096, .backlog_bytes = 1 << 20 }), TIDE_OK,
           "the smallest ring and backlog are accepted");
    is_i64(tide_stack_parse("log(x.db, ring=64KiB, clock=sundial) | sim", &log), TIDE_ESYNTAX,
           "stack text refuses an unknown clock");
    has_words(tide_error_text(), "auto, tsc or monotonic", "the refusal of an unknown clock names those there are");
}

static void
test_without_a_trace(void)
{
    struct tide_resource *log;

    ok(tide_log_create(sim, NULL, &log) == TIDE_OK, "a log without a path is created");
    give(log, take(log, 1), 1);
    is_i64(tide_log_flush(log), TIDE_EINVAL, "a log without a path cannot be flushed");
    has_words(tide_error_text(), "no trace: none above it has a path",
              "the refusal of a flush without a trace says why");
    is_i64(tide_log_flush(sim), TIDE_EINVAL, "a resource that is no log cannot be flushed");
    is_i64(tide_log_path(log, NULL, 0, NULL), TIDE_EINVAL, "a log without a path has no path of a trace");
    is_i64(tide_log_path(sim, NULL, 0, NULL), TIDE_EINVAL, "a resource that is no log has no path of a trace");
    tide_resource_release(log);
}

static void
test_path(void)
{
    struct tide_resource *log = stack_of("log(%s) | log | sim", scratch("of-%%p.db"));
    char folder[PATH_MAX], wanted[2 * PATH_MAX], path[2 * PATH_MAX], part[4];
    size_t needed = 0;

    snprintf(wanted, sizeof(wanted), "%s/%s", getcwd(folder, sizeof(folder)), scratch("of-%ld.db", (long)getpid()));
    ok(all_of(tide_log_path(log, path, sizeof(path), &needed) == TIDE_OK, needed == strlen(wanted)),
       "a log says how long the path of its trace is");
    is_string(path, wanted, "the path of a trace is absolute, with the id of the process in place of %p");
    tide_log_path(log->upstream, path, sizeof(path), NULL);
    is_string(path, wanted, "a log that joined a trace says the same path");
    tide_log_path(log, part, sizeof(part), &needed);
    ok(all_of(strncmp(part, wanted, 3) == 0, part[3] == '\0', needed == strlen(wanted)),
       "a path that does not fit is cut, and its length is still told");
    is_i64(tide_log_path(log, NULL, 9, NULL), TIDE_EINVAL, "NULL in place of the path is refused");
    tide_resource_release(log);
}

static void
test_existing(void)
{
    const char *path = scratch("existing.db"), *text = scratch("notes.txt"), *rings = scratch("new.db-rings");
    struct tide_resource *log = stack_of("log(%s) | sim", path);

    give(log, take(log, 1), 1);
    tide_resource_release(log);
    is_i64(create_at(path), TIDE_EEXIST, "an existing trace is not overwritten");
    has_words(tide_error_text(), "overwrite=true replaces it", "the refusal of an existing trace names overwrite=true");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 1, "the trace that was refused keeps its allocation");
    is_i64(create((struct tide_log_options){ .path = path, .overwrite = true }), TIDE_OK,
           "overwrite=true replaces an existing trace");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 0, "the trace made with overwrite=true is empty");
    write_file(text, "not a trace, but somebody's notes, which are longer than the hundred bytes that SQLite's header"
                     " has in each of its files");
    is_i64(create((struct tide_log_options){ .path = text, .overwrite = true }), TIDE_EEXIST,
           "overwrite=true does not replace a file that is no trace");
    has_words(tide_error_text(), "is no trace", "the refusal says that the file is no trace");
    write_file(text, "short notes");
    is_i64(create((struct tide_log_options){ .path = text, .overwrite = true }), TIDE_EEXIST,
           "overwrite=true does not replace a short file that is no trace");
    ok(holds(text, "short notes"), "the short file keeps its text");
    write_file(rings, "somebody's notes about rings");
    is_i64(create_at(scratch("new.db")), TIDE_EEXIST, "a file with the ring file's name is not replaced");
    has_words(tide_error_text(), "is no ring file", "the refusal says that the file is no ring file");
    ok(holds(rings, "somebody's notes about rings"), "the file with the ring file's name keeps its text");
    unlink(rings);
    mkfifo(rings, 0600);
    is_i64(create_at(scratch("new.db")), TIDE_EEXIST, "a pipe with the ring file's name is not replaced");
    ok(access(rings, F_OK) == 0, "the pipe with the ring file's name is still there");
    unlink(rings);
    write_file(rings, "");
    is_i64(create_at(scratch("new.db")), TIDE_OK,
           "a ring file that a killed process has begun and not filled is replaced");
    is_u64(scratch_count("new.db"), 1, "the trace is made in place of the killed process's");
}

static void
test_links(void)
{
    const char *path = scratch("link.db"), *rings = scratch("link.db-rings"), *target = scratch("target.txt");
    struct stat info;

    write_file(target, "precious");
    if (symlink("target.txt", path) != 0)
        abort();
    is_i64(create((struct tide_log_options){ .path = path, .overwrite = true }), TIDE_EEXIST,
           "a symbolic link in place of the trace is not followed");
    ok(holds(target, "precious"), "the target of the symbolic link is unchanged");
    unlink(path);
    if (symlink("nowhere.txt", path) != 0)
        abort();
    is_i64(create((struct tide_log_options){ .path = path, .overwrite = true }), TIDE_EEXIST,
           "a symbolic link to nowhere in place of the trace is not followed");
    ok(access(scratch("nowhere.txt"), F_OK) != 0, "no file is made where the symbolic link to nowhere points");
    unlink(path);
    if (symlink("target.txt", rings) != 0)
        abort();
    ok(create_at(path) != TIDE_OK, "a symbolic link in place of the ring file is not followed");
    ok(holds(target, "precious") && lstat(rings, &info) == 0,
       "the symbolic link in place of the ring file, and its target, are unchanged");
    ok(access(path, F_OK) != 0, "no trace is made beside the symbolic link");
    unlink(rings);
}

/* Record, and exit without ending the trace. */
static int
leave(void *path)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct tide_resource *log;

    if (tide_log_create(sim, &options, &log) != TIDE_OK)
        return 1;
    for (int i = 0; i < 7; i++)
        take(log, 10);
    return 0;
}

static int
create_as_nobody(void *path)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    return create_at(path) == TIDE_EIO && strstr(tide_error_text(), "Permission denied") != NULL ? 0 : 1;
}

static void
test_unwritable(void)
{
    int status;

    is_i64(create_at(scratch("no-such-folder/t.db")), TIDE_EIO, "a trace in a missing folder is refused");
    has_words(tide_error_text(), "No such file or directory", "the failure names the missing folder");
    mkdir(scratch("shut"), 0555);
    status = in_child(create_as_nobody, (void *)scratch("shut/t.db"));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(1, "needs root, to become somebody else");
    else
        ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a trace in a folder without write permission is refused");
    rmdir(scratch("shut"));
}

static void
test_modes(void)
{
    const char *path = scratch("modes.db"), *rings = scratch("modes.db-rings");
    mode_t before = umask(0);
    struct tide_resource *log = stack_of("log(%s) | sim", path);
    struct stat info = { 0 };

    umask(before);
    stat(rings, &info);
    is_u64(info.st_mode & 07777, 0600, "only the owner may read and write the ring file");
    tide_resource_release(log);
    stat(path, &info);
    is_u64(info.st_mode & 07777, 0600, "only the owner may read and write the trace");
    ok(all_of(create((struct tide_log_options){ .path = scratch("m.db"), .mode = 0577 }) == TIDE_EINVAL,
              create((struct tide_log_options){ .path = scratch("m.db"), .mode = 0700 }) == TIDE_EINVAL,
              create((struct tide_log_options){ .path = scratch("m.db"), .mode = 0610 }) == TIDE_EINVAL,
              create((struct tide_log_options){ .path = scratch("m.db"), .mode = 0666 }) == TIDE_OK),
       "the mode of a trace lets the owner read and write it, and nobody execute it");
}

static void
test_again_in_this_process(void)
{
    const char *path = scratch("again.db");
    struct tide_resource *log = stack_of("log(%s, ring=8KiB) | sim", path);

    is_i64(create((struct tide_log_options){ .path = path, .ring_bytes = 8192 }), TIDE_OK,
           "a second log with the same path and options joins the trace");
    is_i64(create((struct tide_log_options){ .path = path, .ring_bytes = 4096 }), TIDE_EINVAL,
           "a second log with the same path and other options is refused");
    is_i64(create((struct tide_log_options){ .path = path, .mode = 0640 }), TIDE_EINVAL,
           "a second log with the same path and other permissions is refused");
    has_words(tide_error_text(), "already open in this process with other options",
              "the refusal says that the trace is open with other options");
    give(log, take(log, 9), 9);
    is_i64(tide_log_flush(log), TIDE_OK, "the trace goes on after the refusal");
    tide_resource_release(log);
    ok(trace_is_whole(path), "the trace that went on is whole");
}

/* The only file in the folder whose name begins with `prefix` is `name`. */
static void
test_name(const char *pattern, const char *name)
{
    is_i64(create_at(scratch("%s", pattern)), TIDE_OK, "a path with a pattern is accepted");
    ok(access(scratch("%s", name), F_OK) == 0, "%s is %s", pattern, name);
}

static void
test_names(void)
{
    char host[256] = "", name[512];

    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "n-%ld-%s.db", (long)getpid(), host);
    test_name("n-%p-%h.db", name);
    test_name("a%%b.db", "a%b.db");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMI_RANK");
    unsetenv("SLURM_PROCID");
    test_name("rank-%r.db", "rank-0.db");
    setenv("SLURM_PROCID", "3", 1);
    test_name("rank-%r.db", "rank-3.db");
    setenv("PMI_RANK", "2", 1);
    test_name("rank-%r.db", "rank-2.db");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    test_name("rank-%r.db", "rank-1.db");
    setenv("OMPI_COMM_WORLD_RANK", "../../x", 1);
    unlink(scratch("rank-2.db"));
    test_name("rank-%r.db", "rank-2.db");
    setenv("RANK", "5", 1);
    unlink(scratch("rank-2.db"));
    test_name("rank-%r.db", "rank-2.db");
    setenv("WORLD_SIZE", "8", 1);
    test_name("rank-%r.db", "rank-5.db");
}

static const char *const identity_variables[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "TORCHELASTIC_RUN_ID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "PMIX_NAMESPACE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_JOBID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_JOB_ID",
};

/* With these variables ("A=1 B=2") a trace says `wanted`: rank, world size, local rank, job. */
static void
test_identity(const char *variables, const char *wanted, const char *what)
{
    const char *path = scratch("identity.db");
    char copy[256], *rest = NULL;

    for (size_t i = 0; i < sizeof(identity_variables) / sizeof(identity_variables[0]); i++)
        unsetenv(identity_variables[i]);
    snprintf(copy, sizeof(copy), "%s", variables);
    for (char *one = strtok_r(copy, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(one, '=');

        *value = '\0';
        setenv(one, value + 1, 1);
    }
    unlink(path);
    create_at(path);
    is_string(sql_text(path, "SELECT coalesce(group_concat(key || '=' || value, ' '), 'none') FROM"
                             " (SELECT * FROM meta WHERE key IN ('rank', 'world_size', 'local_rank', 'job')"
                             " ORDER BY key)"),
              wanted, what);
}

static void
test_identities(void)
{
    test_identity("", "none", "a process that nothing has numbered has no rank in its trace");
    test_identity("RANK=5 WORLD_SIZE=16 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none SLURM_PROCID=0 SLURM_NTASKS=2"
                  " SLURM_JOB_ID=77",
                  "job=77 local_rank=1 rank=5 world_size=16",
                  "a rank of torchrun in a task of Slurm is that of torchrun, in the job of Slurm");
    test_identity("RANK=5 WORLD_SIZE=16 TORCHELASTIC_RUN_ID=nightly", "job=nightly rank=5 world_size=16",
                  "a job that torchrun names has that name");
    test_identity("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=2 SLURM_JOB_ID=78",
                  "job=78 local_rank=2 rank=3 world_size=4", "a task of Slurm has its rank in the trace");
    test_identity("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0"
                  " PMIX_NAMESPACE=prte-a-1@1",
                  "job=prte-a-1@1 local_rank=0 rank=2 world_size=4", "a process of Open MPI has its rank in the trace");
    test_identity("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1", "local_rank=1 rank=1 world_size=2",
                  "a process of PMI has its rank in the trace");
    test_identity("RANK=x1 WORLD_SIZE=16 SLURM_JOB_ID=79", "none", "a text that is no number is no rank");
    test_identity("RANK=99999999999999999999 WORLD_SIZE=2", "none", "a number that no job has is no rank");
    test_identity("", "none", "without the variables there is no rank again");
}

/* Stacks that cannot be built, over a log that can. */
static const char *const unbuildable[] = {
    "log(%1$s) | log(%2$s%3$s) | sim",
    "fixed(1GiB, preallocate=100) | log(%2$s%3$s) | sim(capacity=1GiB)",
    "log(%1$s) | binning(1KiB={log(%2$s%3$s)}) | sim",
    "log(%1$s) | binning(1KiB={log(%2$s%3$s)}) | log | sim",
};

static enum tide_status
build(const char *format, const char *top, const char *lower, const char *options)
{
    struct tide_resource *stack = sim;
    enum tide_status status;
    char text[512];

    snprintf(text, sizeof(text), format, top, lower, options);
    status = tide_stack_parse(text, &stack);
    if (status == TIDE_OK)
        tide_resource_release(stack);
    else if (stack != NULL)
        diag("*out is not NULL");
    return status;
}

static void
test_unbuildable(void)
{
    const char *there = scratch("there.db"), *lower = scratch("lower.db");
    unsigned left = 0, other = 0, changed = 0;

    is_i64(create_at(there), TIDE_OK, "a trace is created to be kept or replaced");
    for (size_t i = 0; i < sizeof(unbuildable) / sizeof(unbuildable[0]); i++) {
        enum tide_status status = build(unbuildable[i], there, lower, "");

        other += status != (i == 1 ? TIDE_ECAPACITY : TIDE_EEXIST);
        left += scratch_count("lower.db");
    }
    is_u64(other, 0, "stacks that cannot be built are refused");
    is_u64(left, 0, "a stack that cannot be built leaves no trace of its lower log");
    tide_resource_release(stack_of("log(%s) | limit(1KiB) | log | sim", lower));
    for (size_t i = 0; i < sizeof(unbuildable) / sizeof(unbuildable[0]); i++) {
        build(unbuildable[i], there, lower, ", overwrite=true");
        changed += !trace_is_whole(lower) || sql_number(lower, "SELECT count(*) FROM layer") != 4;
        left += scratch_count("lower.db") - 1;
    }
    is_u64(changed, 0, "a stack that cannot be built keeps the trace that overwrite=true was to replace");
    is_u64(left, 0, "a stack that cannot be built leaves no file beside that trace");
    is_i64(build("log(%1$s/x.db, overwrite=true) | log(%2$s, overwrite=true) | sim", scratch("nowhere"), lower, ""),
           TIDE_EIO, "a stack whose other trace is in a missing folder is refused");
    is_i64(sql_number(lower, "SELECT count(*) FROM layer"), 4,
           "the trace that the refused stack was to replace keeps its layers");
    tide_resource_release(stack_of("fixed(1KiB, preallocate=3) | log(%s, overwrite=true) | sim", lower));
    is_i64(sql_number(lower, "SELECT count(*) FROM allocation"), 3, "a stack that can be built replaces the trace");
    ok(trace_is_whole(lower) && scratch_count("lower.db") == 1,
       "the new trace is whole and has what was allocated meanwhile");
}

/* What a killed process has left beside a trace stays with it. */
static void
test_unbuildable_over_left(void)
{
    const char *path = scratch("left.db");
    int status = in_child(leave, (void *)path);
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };

    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process records and exits without ending its trace");
    is_i64(build("log(%1$s) | log(%2$s, overwrite=true) | sim", scratch("there.db"), path, ""), TIDE_EBUSY,
           "overwrite=true does not replace a trace that waits for its recovery");
    has_words(tide_error_text(), "`tidemark recover ",
              "the refusal of such a trace names the command that recovers it");
    ok(tide_trace_recover(path, &found) == TIDE_OK && found.state == TIDE_TRACE_RECOVERED,
       "the unended trace is recovered after that");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 7,
           "the recovered trace has the records that only the ring file had");
    ok(trace_is_sound(path) && scratch_count("left.db") == 1, "the recovered trace is sound");
    status = in_child(leave, (void *)path);
    is_i64(WEXITSTATUS(status), 1, "a file with the name of the replaced trace is there, and stays");
    write_file(scratch("left.db-replaced"), "notes");
    is_i64(create((struct tide_log_options){ .path = path, .overwrite = true }), TIDE_EEXIST,
           "a file with the name of the replaced trace is not overwritten");
    ok(holds(scratch("left.db-replaced"), "notes") && trace_is_sound(path),
       "the file with the name of the replaced trace, and the trace, are unchanged");
    unlink(scratch("left.db-replaced"));
}

/* Tag names as in a training loop: each name is one tag, however many there are. */
static void
test_many_tags(void)
{
    const char *path = scratch("tags.db");
    struct tide_resource *log = stack_of("log(%s) | sim", path);
    char name[32];

    tide_tag_push("many");
    for (int i = 0; i < 4000; i++) {
        snprintf(name, sizeof(name), "step %d", i % 2000);
        tide_tag_push(name);
        tide_tag_push("inner");
        give(log, take(log, (size_t)(i % 2000)), (size_t)(i % 2000));
        tide_tag_pop();
        tide_tag_pop();
    }
    tide_tag_pop();
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT count(*) FROM tag WHERE name LIKE 'step %%'"), 2000, "two thousand names are tags");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation JOIN tag i USING (tag_id)"
                            " JOIN tag s ON s.tag_id = i.parent_tag_id JOIN tag m ON m.tag_id = s.parent_tag_id"
                            " WHERE i.name = 'inner' AND s.name = 'step ' || size AND m.name = 'many'"),
           4000, "each allocation has its own tag, also when the names come a second time");
}

/* The errno of the replaced flock, for a file system without locks. */
static int lock_error;

__attribute__((visibility("default"))) int
fcntl(int fd, int command, ...)
{
    va_list arguments;
    void *argument;

    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    if ((command == F_SETLK || command == F_OFD_SETLK) && lock_error != 0) {
        errno = lock_error;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

static void
test_no_locks(void)
{
    const char *path = scratch("locks.db");

    lock_error = ENOLCK;
    is_i64(create_at(path), TIDE_EIO, "a trace is refused if files cannot be locked");
    has_words(tide_error_text(), strerror(ENOLCK), "the refusal has the system's error");
    lock_error = 0;
    is_u64(scratch_count("locks.db"), 0, "the refused trace leaves no file behind");
}

/* The errno of the replaced renameat2 and link, for a file system that has neither a rename that spares nor links. */
static int rename_error, link_error;

__attribute__((visibility("default"))) int
renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (rename_error != 0) {
        errno = rename_error;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

__attribute__((visibility("default"))) int
link(const char *from, const char *to)
{
    if (link_error != 0) {
        errno = link_error;
        return -1;
    }
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* Make a trace, refuse to make it again, replace it, and fail to replace it. */
static bool
can_be_made(const char *path)
{
    bool made = create_at(path) == TIDE_OK && create_at(path) == TIDE_EEXIST &&
                create((struct tide_log_options){ .path = path, .overwrite = true }) == TIDE_OK;

    build("log(%1$s, overwrite=true) | log(%2$s) | sim", path, scratch("there.db"), "");
    return made && trace_is_whole(path) && scratch_count(strrchr(path, '/') + 1) == 1;
}

static void
test_poor_file_systems(void)
{
    rename_error = EINVAL;
    ok(can_be_made(scratch("spares.db")), "traces are made and replaced where no rename spares what is there");
    link_error = EPERM;
    ok(can_be_made(scratch("links.db")), "traces are made and replaced where there are no links either");
    rename_error = 0;
    ok(can_be_made(scratch("renames.db")), "traces are made and replaced where there are no links");
    link_error = 0;
}

/* A successful call leaves the text of the last failure alone. */
static void
test_error_text(void)
{
    struct tide_resource *log;

    tide_error_set(TIDE_EINVAL, "the last failure");
    log = stack_of("log(%s) | log | sim", scratch("text.db"));
    is_string(tide_error_text(), "the last failure", "creating a log leaves the error text unchanged");
    give(log, take(log, 1), 1);
    tide_log_flush(log);
    tide_resource_release(log);
    is_string(tide_error_text(), "the last failure", "destroying a log leaves the error text unchanged");
}

int
main(void)
{
    plan(132);
    tide_sim_create(NULL, &sim);
    test_options();
    test_without_a_trace();
    test_path();
    test_existing();
    test_links();
    test_unwritable();
    test_modes();
    test_again_in_this_process();
    test_names();
    test_identities();
    test_unbuildable();
    test_unbuildable_over_left();
    test_many_tags();
    test_no_locks();
    test_poor_file_systems();
    test_error_text();
    tide_resource_release(sim);
    return done();
}
