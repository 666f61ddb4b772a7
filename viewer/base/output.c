/* Formats text, sizes and times for people, and shows long text through a pager. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"

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

size_t
output_character(const char *character, size_t length, bool *is_utf8)
{
    const unsigned char *text = (const unsigned char *)character;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t bytes = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
    uint32_t code;

    *is_utf8 = false;
    if (bytes == 0 || bytes > length)
        return 0;
    code = bytes == 1 ? text[0] : text[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *is_utf8 = true;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ? 0 : bytes;
}

void
output_text(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        bool is_utf8;
        size_t count = output_character(text + i, length - i, &is_utf8);

        if (count == 0)
            fprintf(out, "\\x%02x", (unsigned char)text[i++]);
        for (; count > 0; count--)
            putc(text[i++], out);
    }
}

char *
output_clean(const char *text)
{
    size_t length;
    char *clean = NULL;
    FILE *out = open_memstream(&clean, &length);

    if (out == NULL)
        return NULL;
    output_text(out, text, strlen(text));
    if (fclose(out) == 0)
        return clean;
    free(clean);
    return NULL;
}

int
output_finish(int status)
{
    static bool reported;

    if (reported)
        return COMMAND_WRONG;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        reported = true;
        fprintf(stderr, "tidemark: standard output cannot be written: %s\n", strerror(errno));
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
