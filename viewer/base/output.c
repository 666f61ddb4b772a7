/* Formats sizes and times for people, and shows long text through a pager. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/output.h"

const char *
output_percent(struct output_figure *figure, double share, int digits)
{
    double percent = 100 * share, least = 1;

    for (int i = 0; i < digits; i++)
        least *= 10;
    /* From here on "%g" writes powers of ten. */
    if (percent >= least - 1)
        snprintf(figure->text, sizeof(figure->text), "%.0f%%", percent);
    else
        snprintf(figure->text, sizeof(figure->text), "%.*g%%", digits, percent);
    return figure->text;
}

const char *
output_size(struct output_figure *figure, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    double value;

    while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
        unit++;
    value = (double)bytes / (double)(UINT64_C(1) << (10 * unit));
    if ((bytes & ((UINT64_C(1) << (10 * unit)) - 1)) == 0)
        snprintf(figure->text, sizeof(figure->text), "%" PRIu64 " %s", bytes >> (10 * unit), units[unit]);
    else
        snprintf(figure->text, sizeof(figure->text), "%.*f %s", value < 100 ? 2 : 1, value, units[unit]);
    return figure->text;
}

size_t
output_screen(void)
{
    struct winsize screen;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &screen) == 0 ? screen.ws_col : 0;
}

const char *
output_bytes(struct output_figure *figure, uint64_t bytes)
{
    snprintf(figure->text, sizeof(figure->text), "%" PRIu64 " B", bytes);
    return figure->text;
}

/* Whether two sizes read the same: "6 GiB" and "6.00 GiB" do. */
static bool
output_reads_same(const struct output_figure *a, const struct output_figure *b)
{
    char *a_unit, *b_unit;

    return strtod(a->text, &a_unit) == strtod(b->text, &b_unit) && strcmp(a_unit, b_unit) == 0;
}

const char *
output_size_beside(struct output_figure *figure, uint64_t bytes, uint64_t other)
{
    struct output_figure words;

    output_size(figure, bytes);
    output_size(&words, other);
    if (bytes != other && output_reads_same(figure, &words))
        return output_bytes(figure, bytes);
    return output_size(figure, bytes);
}

const char *
output_time(struct output_figure *figure, int64_t ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = (double)ns;
    size_t unit = 0;

    while (unit < 3 && value >= 1000) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(figure->text, sizeof(figure->text), "%" PRId64 " ns", ns);
    else
        snprintf(figure->text, sizeof(figure->text), "%.*f %s", value < 100 ? 2 : 1, value, units[unit]);
    return figure->text;
}

bool
output_is_ascii(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

int
output_finish(int status)
{
    static bool reported;

    if (reported)
        return COMMAND_WRONG;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        reported = true;
        message("tidemark: standard output cannot be written: %s", strerror(errno));
        return COMMAND_WRONG;
    }
    return status;
}

static bool
pager_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char file[4096];

    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");

        snprintf(file, sizeof(file), "%.*s/%s", (int)length, path, name);
        if (access(file, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

/* The command that shows text; NULL: the user wants none, or there is none. */
static const char *
pager_command(void)
{
    const char *command = getenv("TIDEMARK_PAGER");

    if (command == NULL)
        command = getenv("PAGER");
    if (command == NULL)
        command = pager_in_path("less") ? "less" : pager_in_path("more") ? "more" : "";
    return *command == '\0' || strcmp(command, "cat") == 0 ? NULL : command;
}

static bool
pager_fits(const char *text, size_t length)
{
    struct winsize screen;
    size_t lines = 0;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &screen) != 0 || screen.ws_row == 0)
        return true;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines < screen.ws_row;
}

void
output_page(const char *text, size_t length)
{
    const char *command = isatty(STDOUT_FILENO) && !pager_fits(text, length) ? pager_command() : NULL;
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct sigaction before;
    FILE *pipe;

    fflush(stdout);
    if (command == NULL) {
        fwrite(text, 1, length, stdout);
        return;
    }
    /* The options that git sets: pass colours on, and do not clear the screen. */
    setenv("LESS", "FRX", 0);
    /* A user who leaves the pager early closes the pipe. */
    sigaction(SIGPIPE, &ignore, &before);
    pipe = popen(command, "w");
    if (pipe != NULL)
        fwrite(text, 1, length, pipe);
    if (pipe == NULL || pclose(pipe) >> 8 == 127)
        fwrite(text, 1, length, stdout);
    sigaction(SIGPIPE, &before, NULL);
}
