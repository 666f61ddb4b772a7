/* Looks for a program in PATH and into its header: dynamic or static, of which machine, with which rights. */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "viewer/commands/run-program.h"

/* Scripts whose interpreter is a script: as many as Linux follows. */
#define PROGRAM_SCRIPTS 5

/* The first line of a script that Linux looks at. */
#define PROGRAM_LINE 256

#if defined __x86_64__
#define PROGRAM_MACHINE EM_X86_64
#elif defined __aarch64__
#define PROGRAM_MACHINE EM_AARCH64
#else
#define PROGRAM_MACHINE EM_NONE
#endif

static int program_check(struct run_program *self, const char *path, unsigned scripts);

__attribute__((format(printf, 3, 4))) static int
program_refuse(struct run_program *self, int status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(self->why, sizeof(self->why), format, arguments);
    va_end(arguments);
    return status;
}

static const char *
program_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* The name of the program, or of a script's interpreter, in PATH; a name with a slash is a path. Returns 0 or errno. */
static int
program_search(const char *name, char **out)
{
    const char *folders = getenv("PATH");
    int error = ENOENT;

    if (strchr(name, '/') != NULL || *name == '\0') {
        *out = strdup(name);
        return *out == NULL ? ENOMEM : access(name, X_OK) == 0 ? 0 : errno;
    }
    for (const char *folder = folders != NULL ? folders : "/bin:/usr/bin";; folder++) {
        size_t length = strcspn(folder, ":");
        struct stat info;
        char *path;

        if (asprintf(&path, "%.*s%s%s", (int)length, folder, length > 0 ? "/" : "./", name) < 0)
            return ENOMEM;
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
            if (access(path, X_OK) == 0) {
                *out = path;
                return 0;
            }
            error = EACCES;
        }
        free(path);
        folder += length;
        if (*folder == '\0')
            break;
    }
    *out = NULL;
    return error;
}

/* Whether the system runs it with rights that its caller does not have, and so without LD_AUDIT and LD_PRELOAD. */
static bool
program_is_secure(const char *path, int fd, const struct stat *info)
{
    bool group = info->st_mode & S_ISGID && info->st_mode & S_IXGRP;
    struct statvfs system;

    if (fstatvfs(fd, &system) == 0 && system.f_flag & ST_NOSUID)
        return false;
    if ((info->st_mode & S_ISUID && info->st_uid != getuid()) || (group && info->st_gid != getgid()))
        return true;
    return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* The path of the dynamic linker that the program asks for: an empty text where there is none. False: unreadable. */
static bool
program_linker(int fd, const Elf64_Ehdr *header, char *out, size_t size)
{
    out[0] = '\0';
    for (unsigned i = 0; i < header->e_phnum; i++) {
        off_t place = (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize);
        Elf64_Phdr segment;
        ssize_t length;

        if (pread(fd, &segment, sizeof(segment), place) != (ssize_t)sizeof(segment))
            return false;
        if (segment.p_type != PT_INTERP)
            continue;
        length = pread(fd, out, segment.p_filesz < size ? segment.p_filesz : size - 1, (off_t)segment.p_offset);
        out[length > 0 ? length : 0] = '\0';
        return length > 0;
    }
    return true;
}

static int
program_check_elf(struct run_program *self, const char *path, int fd, const Elf64_Ehdr *header)
{
    const char *name = program_base_name(path);
    char linker[256];

    if (header->e_ident[EI_CLASS] != ELFCLASS64)
        return program_refuse(self, RUN_PROGRAM_CANNOT,
                              "%s is a 32-bit program, and Tidemark's objects are of 64 bits: it cannot be recorded",
                              path);
    if (PROGRAM_MACHINE != EM_NONE && header->e_machine != PROGRAM_MACHINE)
        return program_refuse(self, RUN_PROGRAM_CANNOT, "%s is a program for another processor (ELF machine %u)", path,
                              (unsigned)header->e_machine);
    if (!program_linker(fd, header, linker, sizeof(linker)))
        return program_refuse(self, RUN_PROGRAM_CANNOT, "%s: its ELF header cannot be read", path);
    /* The dynamic linker may be called as a program, with the program as its argument. */
    if (linker[0] == '\0' && strncmp(name, "ld-", 3) != 0 && strncmp(name, "ld.so", 5) != 0)
        return program_refuse(self, RUN_PROGRAM_CANNOT,
                              "%s is linked statically: nothing can be loaded into it, and it cannot be recorded",
                              path);
#ifdef __GLIBC__
    if (strstr(linker, "ld-musl") != NULL)
        return program_refuse(self, RUN_PROGRAM_CANNOT,
                              "%s is a program for musl, and this Tidemark for glibc: it cannot be recorded", path);
#endif
    return 0;
}

/* The program that env(1) starts: its first argument that is neither an option nor a variable. */
static int
program_check_env(struct run_program *self, char *words, unsigned scripts)
{
    char *rest = NULL, *path = NULL;
    int status = 0;

    for (char *word = strtok_r(words, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
        if (word[0] == '-' || strchr(word, '=') != NULL)
            continue;
        /* What env does not find it reports itself. */
        if (program_search(word, &path) == 0)
            status = program_check(self, path, scripts + 1);
        free(path);
        break;
    }
    return status;
}

/* `line` is the first one of a script, behind "#!". */
static int
program_check_script(struct run_program *self, const char *path, char *line, unsigned scripts)
{
    char *interpreter, *end;
    int status;

    line[strcspn(line, "\n")] = '\0';
    interpreter = line + strspn(line, " \t");
    end = interpreter + strcspn(interpreter, " \t");
    if (*end != '\0')
        *end++ = '\0';
    if (scripts == PROGRAM_SCRIPTS)
        return program_refuse(self, RUN_PROGRAM_CANNOT, "%s: scripts interpret scripts, more than %d deep", path,
                              PROGRAM_SCRIPTS);
    if (access(interpreter, X_OK) != 0)
        return program_refuse(self, RUN_PROGRAM_CANNOT, "%s: its interpreter %s: %s", path, interpreter,
                              strerror(errno));
    status = program_check(self, interpreter, scripts + 1);
    if (status == 0 && strcmp(program_base_name(interpreter), "env") == 0)
        status = program_check_env(self, end, scripts);
    return status;
}

static int
program_check_open(struct run_program *self, const char *path, int fd, unsigned scripts)
{
    union {
        Elf64_Ehdr elf;
        char line[PROGRAM_LINE + 1];
    } start = { .line = "" };
    struct stat info;
    ssize_t length;

    if (fstat(fd, &info) != 0 || S_ISDIR(info.st_mode))
        return program_refuse(self, RUN_PROGRAM_CANNOT, "%s is a directory", path);
    length = pread(fd, start.line, PROGRAM_LINE, 0);
    /* The kernel does not heed these bits of scripts. */
    if (length > 2 && strncmp(start.line, "#!", 2) == 0)
        return program_check_script(self, path, start.line + 2, scripts);
    if (program_is_secure(path, fd, &info))
        return program_refuse(self, RUN_PROGRAM_CANNOT,
                              "%s runs with other rights than yours (setuid, setgid or capabilities): nothing can be "
                              "loaded into it, and it cannot be recorded",
                              path);
    if (length >= (ssize_t)sizeof(start.elf) && memcmp(start.elf.e_ident, ELFMAG, SELFMAG) == 0)
        return program_check_elf(self, path, fd, &start.elf);
    /* What is no ELF file either is a script of sh, as for all shells. */
    return 0;
}

static int
program_check(struct run_program *self, const char *path, unsigned scripts)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int status;

    /* A program may be run and not read: then nothing is known of it. */
    if (fd < 0)
        return 0;
    status = program_check_open(self, path, fd, scripts);
    close(fd);
    return status;
}

int
run_program_find(const char *name, struct run_program *out)
{
    int error;

    *out = (struct run_program){ 0 };
    error = program_search(name, &out->path);
    if (error == ENOENT || error == ENOTDIR)
        return program_refuse(out, RUN_PROGRAM_NONE, "%s: no such program", name);
    if (error != 0)
        return program_refuse(out, RUN_PROGRAM_CANNOT, "%s: %s", name, strerror(error));
    return program_check(out, out->path, 0);
}
