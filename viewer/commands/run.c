/* `tidemark run`: runs a program, all of whose device memory is counted, recorded and limited. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <tidemark/message.h>
#include <tidemark/process.h>
#include <tidemark/stack.h>
#include <tidemark/version.h>

#include "src/run/names.h"
#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/run-program.h"
#include "viewer/commands/run-wait.h"

enum run_callstack { RUN_NO_CALLSTACK = -1, RUN_NATIVE, RUN_PYTHON, RUN_MIXED };
enum run_interpose { RUN_AUTO, RUN_AUDIT, RUN_PRELOAD };

struct run_options {
    const char *limit, *budget, *stack, *trace;
    int callstack; /* enum run_callstack */
    int interpose; /* enum run_interpose */
    bool fine, no_children, summary;
    struct option_list nvtx_domains;
};

#define AT(field) offsetof(struct run_options, field)

static const struct option_def run_options[] = {
    { "output", 'o', OPTION_TEXT, "TRACE",
      "record into this trace; %p is the process id, %h the host's\nname, %r the rank; else tidemark-%p.db", AT(trace),
      NULL, 0 },
    { "limit", 0, OPTION_TEXT, "SIZE",
      "what would take a device past this is refused as the driver\nrefuses: 8GiB, or 50% of the device", AT(limit),
      NULL, 0 },
    { "budget", 0, OPTION_TEXT, "NAME=SIZE", "the same, for all processes with this budget together", AT(budget), NULL,
      0 },
    { "stack", 0, OPTION_TEXT, "TEXT",
      "the layers above the driver's memory, such as 'log | statistics';\nwith a base, plain memory comes from it",
      AT(stack), NULL, 0 },
    { "callstack", 0, OPTION_CHOICE, "KIND", "record call stacks: native, python or mixed", AT(callstack),
      "native|python|mixed", 0 },
    { "fine", 0, OPTION_FLAG, NULL, "have frameworks ask the driver for each buffer, without a cache", AT(fine), NULL,
      0 },
    { "no-children", 0, OPTION_FLAG, NULL, "the program alone, without the processes that it starts", AT(no_children),
      NULL, 0 },
    { "nvtx-domain", 0, OPTION_LIST, "DOMAIN", "ranges of this NVTX domain are tags, too; *: of all domains",
      AT(nvtx_domains), NULL, 0 },
    { "summary", 0, OPTION_FLAG, NULL, "print the summary of what was recorded on standard error", AT(summary), NULL,
      0 },
    { "interpose", 0, OPTION_CHOICE, "WAY", "how the driver's functions are replaced: auto, audit or preload",
      AT(interpose), "auto|audit|preload", 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/* Where the objects lie. */
struct run_objects {
    char *library; /* libtidemark itself */
    char *audit;   /* NULL: none is used */
    char *preload;
    char *nvtx; /* NULL: this build has none */
};

/* More arguments of the log. */
static const char *
run_log(const struct run_options *options)
{
    static const char *const logs[] = { "callstack=32", "callstack=python", "callstack=mixed" };

    return options->callstack != RUN_NO_CALLSTACK ? logs[options->callstack] : NULL;
}

static int
run_no_memory(void)
{
    message("tidemark run: no memory");
    return COMMAND_WRONG;
}

/* Whether the account of a process can be set up so: the text of its stack above all. Nothing is made or asked. */
static int
run_check_account(const struct run_options *options)
{
    const struct tide_process_options account = {
        .struct_size = sizeof(account),
        .stack = options->stack,
        .trace = options->trace,
        .limit = options->limit,
        .budget = options->budget,
        .log = run_log(options),
    };

    if (tide_process_check(&account) == TIDE_OK)
        return COMMAND_FINE;
    return command_misused(&command_run, "%s", tide_error_text());
}

static int
run_check_limit(const char *text)
{
    uint64_t bytes;
    double share;

    if (strchr(text, '%') != NULL && parse_share(text, &share) && share > 0)
        return COMMAND_FINE;
    if (parse_size(text, &bytes) && bytes > 0)
        return COMMAND_FINE;
    return command_misused(&command_run,
                           "--limit: \"%s\" is neither a size, such as 8GiB, nor a share, such as "
                           "50%%",
                           text);
}

/*
 * Whether the budget can be used: a program whose account cannot be made would go on without one, and so without a
 * limit. It may be another user's, or have another size.
 */
static int
run_open_budget(const char *name, size_t length, uint64_t bytes)
{
    struct tide_resource *stack;
    char text[512];

    snprintf(text, sizeof(text), "limit(%" PRIu64 ", alignment=1, shared=\"%.*s\") | host", bytes, (int)length, name);
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        return command_misused(&command_run, "--budget: %s", tide_error_text());
    tide_resource_release(stack);
    return COMMAND_FINE;
}

/* NAME=SIZE: a name is a part of the name of a file. */
static int
run_check_budget(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    uint64_t bytes;

    if (length > 0 && text[0] != '.' && text[length] == '=' && parse_size(text + length + 1, &bytes) && bytes > 0)
        return run_open_budget(text, length, bytes);
    return command_misused(
        &command_run,
        "--budget: \"%s\" is not NAME=SIZE, such as shared=16GiB; a name has letters, digits, \".\", "
        "\"_\" and \"-\"",
        text);
}

/* The pattern of a trace's path. What is there already stays. */
static int
run_check_trace(const char *pattern)
{
    size_t length = strlen(pattern);

    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 2, '%')) {
        if (at[1] == '\0' || strchr("phr%", at[1]) == NULL)
            return command_misused(&command_run, "--output: %%%.1s in \"%s\" is none of %%p, %%h, %%r and %%%%", at + 1,
                                   pattern);
    }
    if (length == 0 || pattern[length - 1] == '/')
        return command_misused(&command_run, "--output: \"%s\" is no name of a file", pattern);
    if (strchr(pattern, '%') == NULL && access(pattern, F_OK) == 0)
        return command_misused(&command_run, "--output: %s exists; remove it, or name another: %%p is the process id",
                               pattern);
    return COMMAND_FINE;
}

/*
 * A program whose trace cannot be written goes on without its account, and so without a limit: where one was asked for,
 * it does not start. A folder whose name differs from process to process is not known here.
 */
static int
run_check_folder(const char *pattern)
{
    const char *slash = strrchr(pattern, '/');
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - pattern) + 1 : 2,
             slash != NULL ? pattern : "./");
    if (strchr(folder, '%') != NULL || access(folder, W_OK | X_OK) == 0)
        return COMMAND_FINE;
    return command_misused(&command_run, "--output: %s: %s: without a trace there is no limit", folder,
                           strerror(errno));
}

static int
run_check(const struct run_options *options)
{
    int status = COMMAND_FINE;

    if (options->limit != NULL && options->budget != NULL)
        return command_misused(&command_run, "--limit and --budget exclude each other");
    if (options->stack != NULL && options->callstack != RUN_NO_CALLSTACK)
        return command_misused(&command_run,
                               "--callstack is of the log that --stack replaces: --stack='log(callstack=%s)'",
                               options->callstack == RUN_NATIVE   ? "32"
                               : options->callstack == RUN_PYTHON ? "python"
                                                                  : "mixed");
    for (size_t i = 0; i < options->nvtx_domains.count; i++) {
        if (strchr(options->nvtx_domains.items[i], ',') != NULL)
            return command_misused(&command_run, "--nvtx-domain: one domain at a time, and without a comma");
    }
    if (options->limit != NULL)
        status = run_check_limit(options->limit);
    if (status == COMMAND_FINE && options->budget != NULL)
        status = run_check_budget(options->budget);
    if (status == COMMAND_FINE && options->trace != NULL)
        status = run_check_trace(options->trace);
    if (status == COMMAND_FINE && (options->limit != NULL || options->budget != NULL))
        status = run_check_folder(options->trace != NULL ? options->trace : ".");
    return status;
}

/*
 * The path of an object: where libtidemark lies (uninstalled), in the folder beside it, or where it was installed.
 * NULL: it is in none of these. TIDEMARK_LIBRARY names another libtidemark for the program, as for the Python package.
 */
static char *
run_find_object(const char *library, const char *name)
{
    const char *slash = library != NULL ? strrchr(library, '/') : NULL;
    const int folder = slash != NULL ? (int)(slash - library) : 0;
    char *path = NULL;

    for (int i = 0; i < 3; i++) {
        int length = i == 0   ? asprintf(&path, "%.*s/%s", folder, library, name)
                     : i == 1 ? asprintf(&path, "%.*s/tidemark/%s", folder, library, name)
                              : asprintf(&path, "%s/%s", PKGLIBDIR, name);

        if (length < 0)
            return NULL;
        if (access(path, R_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

/* The libtidemark that this command has loaded. */
static char *
run_find_library(void)
{
    union {
        const char *(*function)(void);
        void *address;
    } version = { .function = tide_version };
    Dl_info info;

    return dladdr(version.address, &info) != 0 && info.dli_fname != NULL ? realpath(info.dli_fname, NULL) : NULL;
}

/* Whether the dynamic linker reports all that an auditor needs to see: glibc from 2.35 on. */
static bool
run_has_audit(void)
{
#ifdef __GLIBC__
    unsigned major, minor;

    return sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor) == 2 && (major > 2 || minor >= 35);
#else
    return false;
#endif
}

static int
run_find_objects(enum run_interpose interpose, struct run_objects *out)
{
    bool audit = interpose == RUN_AUDIT || (interpose == RUN_AUTO && run_has_audit());
    const char *named = getenv("TIDEMARK_LIBRARY");
    char *library = run_find_library();

    *out = (struct run_objects){ .library = named != NULL && *named != '\0' ? realpath(named, NULL) : library };
    if (out->library == NULL) {
        message("tidemark run: %s: %s", named != NULL ? named : "libtidemark", strerror(errno));
        return COMMAND_WRONG;
    }
    out->preload = run_find_object(library, audit ? TIDEI_RUN_PRELOAD : TIDEI_RUN_DLSYM);
    out->nvtx = run_find_object(library, TIDEI_RUN_NVTX);
    if (audit)
        out->audit = run_find_object(library, TIDEI_RUN_AUDIT);
    if (library != out->library)
        free(library);
    if (out->preload == NULL || (audit && out->audit == NULL)) {
        message("tidemark run: %s is neither beside libtidemark nor in %s; `./configure` says whether it is built",
                out->preload == NULL ? (audit ? TIDEI_RUN_PRELOAD : TIDEI_RUN_DLSYM) : TIDEI_RUN_AUDIT, PKGLIBDIR);
        return COMMAND_WRONG;
    }
    /* The linker takes these for the ends of paths. */
    if (strpbrk(out->preload, ": ;") != NULL || (audit && strpbrk(out->audit, ": ;") != NULL)) {
        message("tidemark run: %s: the dynamic linker takes no path with a blank, a colon or a semicolon",
                out->preload);
        return COMMAND_WRONG;
    }
    return COMMAND_FINE;
}

static void
run_free_objects(struct run_objects *objects)
{
    free(objects->library);
    free(objects->audit);
    free(objects->preload);
    free(objects->nvtx);
}

/* Whether a list of paths has `path`. */
static bool
run_has_path(const char *list, const char *path)
{
    size_t length = strlen(path);

    for (const char *at = strstr(list, path); at != NULL; at = strstr(at + 1, path)) {
        if ((at == list || strchr(": ", at[-1]) != NULL) && strchr(": ", at[length]) != NULL)
            return true;
    }
    return false;
}

/*
 * Add an object to those that a variable of the linker names. A preloaded one goes behind them: a sanitizer wants to be
 * the first. The auditor goes before them: where an auditor has no la_symbind64, glibc 2.36 asks none of those behind
 * it about what dlsym() finds.
 */
static bool
run_add(const char *variable, const char *path, bool first)
{
    const char *before = getenv(variable);
    char *list;
    bool done;

    if (before == NULL || before[0] == '\0')
        return setenv(variable, path, 1) == 0;
    if (run_has_path(before, path))
        return true;
    if (asprintf(&list, "%s:%s", first ? path : before, first ? before : path) < 0)
        return false;
    done = setenv(variable, list, 1) == 0;
    free(list);
    return done;
}

/* Set the variable, or take it away for NULL: it may be that of a `tidemark run` around this one. */
static bool
run_set(const char *variable, const char *value)
{
    return (value != NULL ? setenv(variable, value, 1) : unsetenv(variable)) == 0;
}

/* The trace's pattern with the working directory before it: the program may go elsewhere. */
static bool
run_set_trace(const char *pattern)
{
    char *folder = NULL, *path;
    char escaped[2 * PATH_MAX + 1];
    size_t length = 0;
    bool done;

    if (pattern[0] == '/')
        return run_set("TIDEMARK_RUN_TRACE", pattern);
    folder = getcwd(NULL, 0);
    for (const char *at = folder; at != NULL && *at != '\0' && length < sizeof(escaped) - 2; at++) {
        if (*at == '%')
            escaped[length++] = '%';
        escaped[length++] = *at;
    }
    escaped[length] = '\0';
    if (folder == NULL || asprintf(&path, "%s/%s", strcmp(escaped, "/") == 0 ? "" : escaped, pattern) < 0) {
        free(folder);
        return false;
    }
    done = run_set("TIDEMARK_RUN_TRACE", path);
    free(folder);
    free(path);
    return done;
}

/* What has frameworks ask the driver for each buffer. What the user has set stays. */
static bool
run_set_fine(void)
{
    static const struct {
        const char *name, *value;
    } variables[] = {
        { "PYTORCH_NO_CUDA_MEMORY_CACHING", "1" },
        { "XLA_PYTHON_CLIENT_ALLOCATOR", "platform" },
        { "TF_GPU_ALLOCATOR", "cuda_malloc_async" },
        { "NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT", "0" },
    };

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *before = getenv(variables[i].name);

        if (before != NULL && strcmp(before, variables[i].value) != 0)
            message("tidemark run: --fine leaves %s=%s as it is", variables[i].name, before);
        else if (setenv(variables[i].name, variables[i].value, 1) != 0)
            return false;
    }
    return true;
}

/* The injection of NVTX, unless another tool has it. */
static bool
run_set_nvtx(const struct run_options *options, const struct run_objects *objects)
{
    char domains[1024] = "";

    for (size_t i = 0; i < options->nvtx_domains.count; i++) {
        size_t length = strlen(domains);

        snprintf(domains + length, sizeof(domains) - length, "%s%s", length > 0 ? "," : "",
                 options->nvtx_domains.items[i]);
    }
    if (objects->nvtx != NULL && setenv("NVTX_INJECTION64_PATH", objects->nvtx, 0) != 0)
        return false;
    return run_set("TIDEMARK_RUN_NVTX_DOMAINS", domains[0] != '\0' ? domains : NULL);
}

static bool
run_set_environment(const struct run_options *options, const struct run_objects *objects)
{
    return run_set("TIDEMARK_RUN_LIBRARY", objects->library) && run_set("TIDEMARK_RUN_STACK", options->stack) &&
           run_set("TIDEMARK_RUN_LIMIT", options->limit) && run_set("TIDEMARK_RUN_BUDGET", options->budget) &&
           run_set("TIDEMARK_RUN_LOG", run_log(options)) && run_set("TIDEMARK_RUN_ONLY", NULL) &&
           run_set_trace(options->trace != NULL ? options->trace : "tidemark-%p.db") &&
           run_set_nvtx(options, objects) && (objects->audit == NULL || run_add("LD_AUDIT", objects->audit, true)) &&
           run_add("LD_PRELOAD", objects->preload, false) && (!options->fine || run_set_fine());
}

/* Close what main() has put in the places of closed standard descriptors: the program finds them as they were. */
static void
run_give_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int flags = fcntl(fd, F_GETFL);

        if (flags >= 0 && flags & O_PATH)
            close(fd);
    }
}

/* A program without "#!" is a script of sh, as for all shells. */
static void
run_become_shell(const char *path, char **arguments, int count)
{
    char **words = calloc((size_t)count + 2, sizeof(*words));

    if (words == NULL)
        return;
    words[0] = "sh";
    words[1] = (char *)path;
    for (int i = 1; i < count; i++)
        words[i + 1] = arguments[i];
    execv("/bin/sh", words);
    free(words);
}

/* Become the program. Returns an exit status after a message. */
static int
run_become(const struct invocation *call, const char *path)
{
    const struct run_options *options = (const struct run_options *)call->own;
    char id[24];
    int error;

    snprintf(id, sizeof(id), "%ld", (long)getpid());
    if (options->no_children && !run_set("TIDEMARK_RUN_ONLY", id))
        return run_no_memory();
    run_give_descriptors();
    execv(path, call->arguments);
    error = errno;
    if (error == ENOEXEC)
        run_become_shell(path, call->arguments, call->count);
    message("tidemark run: %s: %s", path, strerror(error));
    return error == ENOENT ? RUN_PROGRAM_NONE : RUN_PROGRAM_CANNOT;
}

/* Whether a trace without a whole path has a place: the working directory may have been removed. */
static int
run_check_working(const struct run_options *options)
{
    const char *trace = options->trace != NULL ? options->trace : "tidemark-%p.db";
    char *folder = trace[0] != '/' ? getcwd(NULL, 0) : NULL;

    if (trace[0] != '/' && folder == NULL) {
        message("tidemark run: %s: the working directory: %s", trace, strerror(errno));
        return COMMAND_WRONG;
    }
    free(folder);
    return COMMAND_FINE;
}

static int
run_run(struct invocation *call)
{
    const struct run_options *options = (const struct run_options *)call->own;
    struct run_objects objects = { 0 };
    struct run_program program = { 0 };
    int status;

    if (call->count == 0)
        return command_misused(call->command, "which program?");
    status = run_check(options);
    if (status == COMMAND_FINE)
        status = run_find_objects((enum run_interpose)options->interpose, &objects);
    if (status == COMMAND_FINE)
        status = run_check_account(options);
    if (status == COMMAND_FINE) {
        status = run_program_find(call->arguments[0], &program);
        if (status != 0)
            message("tidemark run: %s", program.why);
    }
    if (status == COMMAND_FINE)
        status = run_check_working(options);
    if (status == COMMAND_FINE && !run_set_environment(options, &objects))
        status = run_no_memory();
    if (status == COMMAND_FINE)
        status = options->summary ? run_wait() : RUN_WAIT_CHILD;
    if (status == RUN_WAIT_CHILD)
        status = run_become(call, program.path);
    run_free_objects(&objects);
    free(program.path);
    return status;
}

const struct command command_run = {
    .name = "run",
    .arguments = "[OPTIONS] [--] PROGRAM [ARGUMENT...]",
    .purpose = "Run a program, and count, record and limit all its device memory",
    .help = "\n"
            "The program is any that uses CUDA, unmodified, and so are the processes that it starts. A\n"
            "process that never allocates device memory makes no trace. tidemark-run(1) says what is\n"
            "counted. Exit status: the program's; 2 wrong use; 126 where the program cannot be run with\n"
            "Tidemark (static, setuid, 32-bit), 127 where there is none.\n",
    .wanted = &(const struct command_arguments){ .count = -1 },
    .options = run_options,
    COMMAND_OWN(struct run_options, .callstack = RUN_NO_CALLSTACK),
    .is_wrapper = true,
    .run = run_run,
};
