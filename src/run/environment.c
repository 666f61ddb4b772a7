/*
 * What `tidemark run` has said in the environment. It is copied when the process starts, since programs clear their
 * environment, or write other texts over it. A process that --no-children leaves out takes it out of its environment,
 * so that its own children begin without.
 */
#include "src/run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_PREFIX "TIDEMARK_RUN_"

static const char *const environment_names[RUN_OPTION_COUNT] = {
    [RUN_LIBRARY] = ENVIRONMENT_PREFIX "LIBRARY", [RUN_STACK] = ENVIRONMENT_PREFIX "STACK",
    [RUN_TRACE] = ENVIRONMENT_PREFIX "TRACE",     [RUN_LIMIT] = ENVIRONMENT_PREFIX "LIMIT",
    [RUN_BUDGET] = ENVIRONMENT_PREFIX "BUDGET",   [RUN_LOG] = ENVIRONMENT_PREFIX "LOG",
    [RUN_LIST] = ENVIRONMENT_PREFIX "LIST",       [RUN_ONLY] = ENVIRONMENT_PREFIX "ONLY",
};

/* Written once, when the process starts, before it has a second thread. */
static char environment_text[16384];
static const char *environment_values[RUN_OPTION_COUNT];
static bool environment_read;

extern char **environ;

/* The option of an entry "NAME=VALUE" of the environment, and its value; RUN_OPTION_COUNT: another entry. */
static unsigned
environment_option(const char *entry, const char **value)
{
    size_t length = strcspn(entry, "=");
    unsigned option = 0;

    while (option < RUN_OPTION_COUNT && (strncmp(entry, environment_names[option], length) != 0 ||
                                         environment_names[option][length] != '\0' || entry[length] != '='))
        option++;
    *value = entry + length + (entry[length] == '=');
    return option;
}

static void
environment_copy(void)
{
    size_t used = 0;
    bool fits = true;

    environment_read = true;
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *value;
        size_t length;
        unsigned option;

        if (strncmp(*entry, ENVIRONMENT_PREFIX, sizeof(ENVIRONMENT_PREFIX) - 1) != 0)
            continue;
        option = environment_option(*entry, &value);
        length = strlen(value) + 1;
        if (option == RUN_OPTION_COUNT || length == 1)
            continue;
        fits = fits && length <= sizeof(environment_text) - used;
        if (!fits)
            continue;
        environment_values[option] = memcpy(environment_text + used, value, length);
        used += length;
    }
    /* Without a library nothing is recorded: better than under other options than those that were given. */
    if (!fits) {
        tidei_run_say("tidemark: nothing is recorded: the options are longer than %zu bytes", sizeof(environment_text));
        environment_values[RUN_LIBRARY] = NULL;
    }
}

const char *
tidei_run_option(enum tidei_run_option option)
{
    /* A constructor of another object may come first. */
    if (!environment_read)
        environment_copy();
    return environment_values[option];
}

bool
tidei_run_is_on(void)
{
    const char *only = tidei_run_option(RUN_ONLY);

    return tidei_run_option(RUN_LIBRARY) != NULL && (only == NULL || strtol(only, NULL, 10) == (long)getpid());
}

/* Whether a word of LD_AUDIT, LD_PRELOAD or NVTX_INJECTION64_PATH is an object of Tidemark's. */
static bool
environment_is_own(const char *word, size_t length)
{
    static const char *const own[] = { TIDEI_RUN_AUDIT, TIDEI_RUN_PRELOAD, TIDEI_RUN_DLSYM, TIDEI_RUN_NVTX };
    const char *slash = memrchr(word, '/', length);
    const char *name = slash != NULL ? slash + 1 : word;

    length -= (size_t)(name - word);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strlen(own[i]) == length && strncmp(name, own[i], length) == 0)
            return true;
    }
    return false;
}

/* Take our objects out of a list, in its place. Returns whether it is empty then. */
static bool
environment_take_out(char *list)
{
    char *out = list;

    for (char *word = list; *word != '\0';) {
        size_t length = strcspn(word, ": ");
        size_t whole = length + (word[length] != '\0');

        if (length > 0 && !environment_is_own(word, length)) {
            memmove(out, word, whole);
            out += whole;
        }
        word += whole;
    }
    while (out > list && (out[-1] == ':' || out[-1] == ' '))
        out--;
    *out = '\0';
    return out == list;
}

/* Without setenv() and unsetenv(), which allocate: the C library of the process may not be set up yet. */
static void
environment_clean(void)
{
    static const char *const lists[] = { "LD_AUDIT=", "LD_PRELOAD=", "NVTX_INJECTION64_PATH=" };
    char **out = environ;

    for (char **entry = environ; *entry != NULL; entry++) {
        bool keep = strncmp(*entry, ENVIRONMENT_PREFIX, sizeof(ENVIRONMENT_PREFIX) - 1) != 0;

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
            if (strncmp(*entry, lists[i], strlen(lists[i])) == 0)
                keep = !environment_take_out(*entry + strlen(lists[i]));
        }
        if (keep)
            *out++ = *entry;
    }
    *out = NULL;
}

__attribute__((constructor)) static void
environment_begin(void)
{
    if (tidei_run_option(RUN_ONLY) != NULL && !tidei_run_is_on() && environ != NULL)
        environment_clean();
}

void
tidei_run_say(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof(line) - 1)
        length = (int)sizeof(line) - 2;
    line[length++] = '\n';
    /* In one call, so that lines of several processes do not mix. Where it fails there is nobody to tell. */
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}
