/* The screen of `tidemark watch`: looks, keys, and what they start. */
#include "config.h"

#include "viewer/base/exit-status.h"
#include "viewer/watch/watch.h"

#ifdef HAVE_NCURSESW
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "viewer/base/clock.h"
#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/watch/draw.h"

#define SCREEN_ESCAPE 27

/* Curses may go on waiting for a key after a signal. */
#define SCREEN_WAIT_NS UINT64_C(500000000)

extern char **environ;

struct screen {
    struct watch *watch; /* borrows */
    struct draw_state state;
    struct watch_lives lives;
    uint64_t interval_ns;
    uint64_t next_ns; /* of the next look */
    uint64_t looks, looks_most;
    bool is_reading;  /* `lives` has further parts */
    pid_t report;     /* the process that writes a report; 0: there is none */
    int report_words; /* what that says */
    char report_name[128];
};

/* A signal asks to leave. Without a handler of its own a program of curses ends with an error status. */
static volatile sig_atomic_t screen_is_left;

static void
screen_leave(int number)
{
    (void)number;
    screen_is_left = 1;
}

bool
watch_has_screen(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static struct watch_process *
screen_process(const struct screen *screen)
{
    for (size_t i = 0; i < screen->watch->found.list_count; i++) {
        if (watch_at(screen->watch, i) == screen->state.process)
            return watch_at(screen->watch, i);
    }
    return NULL;
}

/* Say something at the bottom. */
#define screen_say(screen, ...) snprintf((screen)->state.message, sizeof((screen)->state.message), __VA_ARGS__)

static void
screen_forget_lives(struct screen *screen)
{
    watch_lives_free(&screen->lives);
    screen->state.lives = NULL;
    screen->state.is_at_peak = screen->is_reading = false;
}

/* Ask for the live set of a moment. */
static void
screen_ask_lives(struct screen *screen, uint64_t at_ns, bool at_peak)
{
    const struct watch_process *process = screen->state.process;

    watch_lives_begin(&screen->lives, at_ns, screen->state.by, watch_main_layer(process));
    screen->state.lives = &screen->lives;
    screen->state.is_at_peak = at_peak;
    screen->is_reading = true;
}

/* `p`: the live set at the peak; again: back to the tags. */
static void
screen_peak(struct screen *screen)
{
    const struct watch_process *process = screen->state.process;

    if (process == NULL || !process->base.was_seen)
        return;
    if (screen->state.is_at_peak) {
        screen_forget_lives(screen);
        screen->state.by = WATCH_BY_TAG;
        return;
    }
    if (process->outermost != 1)
        screen_say(screen, "several stacks have a peak each: `tidemark peak` shows them");
    else if (process->base.page.tags_ns < process->peak_ns)
        screen_say(screen, "the peak is less than a second old and not in the trace yet: try again");
    else
        screen_ask_lives(screen, process->peak_ns, true);
}

/* `l`: the next grouping. The page has the tags of this moment; the others are read from the trace. */
static void
screen_by(struct screen *screen)
{
    const struct watch_process *process = screen->state.process;
    bool at_peak = screen->state.is_at_peak;

    if (process == NULL || !process->base.was_seen)
        return;
    screen->state.by = (screen->state.by + 1) % WATCH_BYS;
    if (at_peak)
        screen_ask_lives(screen, process->peak_ns, true);
    else if (screen->state.by == WATCH_BY_TAG)
        screen_forget_lives(screen);
    else
        screen_ask_lives(screen, process->base.page.tags_ns, false);
}

/* A mark at the latest sample. */
static void
screen_mark(struct screen *screen)
{
    struct watch_process *process = screen_process(screen);

    if (process != NULL && process->count != 0) {
        process->samples[(process->first + process->count - 1) % WATCH_SAMPLES].is_marked = true;
        screen_say(screen, "marked");
    }
}

/* `w`: have `tidemark report` write a page, beside this one. */
static void
screen_report(struct screen *screen)
{
    const struct watch_process *process = screen->state.process;
    char *arguments[6] = { "tidemark", "report", NULL, "-o", screen->report_name, NULL };
    posix_spawn_file_actions_t files;
    char name[64];
    int words[2];

    if (process == NULL || screen->report != 0 || pipe2(words, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    watch_process_name(process, name, sizeof(name));
    for (char *at = name; *at != '\0'; at++)
        *at = strchr("/ \t\\", *at) != NULL ? '_' : *at;
    snprintf(screen->report_name, sizeof(screen->report_name), "%s-%u-%lld.html", name, process->base.file.pid,
             (long long)time(NULL));
    arguments[2] = process->base.file.trace;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, words[1], STDERR_FILENO);
    if (posix_spawn(&screen->report, "/proc/self/exe", &files, NULL, arguments, environ) != 0)
        screen->report = 0;
    posix_spawn_file_actions_destroy(&files);
    close(words[1]);
    screen->report_words = words[0];
    screen_say(screen, screen->report != 0 ? "writing %s..." : "no process for %s", screen->report_name);
    if (screen->report == 0)
        close(words[0]);
}

/* Whether the report is written by now. */
static void
screen_look_at_report(struct screen *screen)
{
    char words[200];
    ssize_t length;
    int status;

    if (screen->report == 0 || waitpid(screen->report, &status, WNOHANG) == 0)
        return;
    length = read(screen->report_words, words, sizeof(words) - 1);
    words[length > 0 ? length : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    close(screen->report_words);
    screen->report = 0;
    if (access(screen->report_name, F_OK) == 0)
        screen_say(screen, "written: %s", screen->report_name);
    else
        screen_say(screen, "no report: %s", words[0] != '\0' ? words : "tidemark report says nothing");
}

/* Go to the selected process, or back to all. */
static void
screen_enter(struct screen *screen, bool enter)
{
    static size_t places[WATCH_PROCESSES];

    if (screen->watch->found.list_count == 0 ||
        (!enter && screen->watch->found.list_count == 1 && !screen->watch->found.finds_more))
        return;
    draw_order(&screen->state, places);
    screen_forget_lives(screen);
    screen->state.by = WATCH_BY_TAG;
    screen->state.process = enter ? watch_at(screen->watch, places[screen->state.selected]) : NULL;
}

static void
screen_move(struct screen *screen, int key)
{
    size_t last = screen->watch->found.list_count != 0 ? screen->watch->found.list_count - 1 : 0;

    if (key == KEY_UP && screen->state.selected > 0)
        screen->state.selected--;
    if (key == KEY_DOWN && screen->state.selected < last)
        screen->state.selected++;
    if (key == KEY_HOME)
        screen->state.selected = 0;
    if (key == KEY_END)
        screen->state.selected = last;
}

static void
screen_sort(struct screen *screen)
{
    static const enum draw_sort after_of_one[DRAW_SORTS] = {
        [DRAW_BY_LIVE] = DRAW_BY_COUNT, [DRAW_BY_COUNT] = DRAW_BY_NAME
    };

    screen->state.sort =
        screen->state.process != NULL ? after_of_one[screen->state.sort] : (screen->state.sort + 1) % DRAW_SORTS;
    screen_say(screen, "by %s", draw_sort_word(screen->state.sort));
}

/* False: leave. */
static bool
screen_key(struct screen *screen, int key)
{
    if (key == ERR || key == KEY_RESIZE)
        return true;
    screen->state.message[0] = '\0';
    if (screen->state.has_help) {
        screen->state.has_help = false;
        return key != 'q';
    }
    switch (key) {
    case 'q':
        return false;
    case '?':
    case 'h':
        screen->state.has_help = true;
        return true;
    case 'f':
        screen->state.is_frozen = !screen->state.is_frozen;
        return true;
    case 'p':
        screen_peak(screen);
        return true;
    case 'l':
        screen_by(screen);
        return true;
    case 's':
        screen_sort(screen);
        return true;
    case ' ':
        screen_mark(screen);
        return true;
    case 'w':
        screen_report(screen);
        return true;
    case '\n':
    case KEY_ENTER:
    case KEY_RIGHT:
        screen_enter(screen, true);
        return true;
    case SCREEN_ESCAPE:
    case KEY_LEFT:
        screen_enter(screen, false);
        return true;
    default:
        screen_move(screen, key);
        return true;
    }
}

/* Look, where it is time to. False: all is over, or it was the last look. */
static bool
screen_look(struct screen *screen)
{
    uint64_t now = (uint64_t)clock_now_ns();

    if (now < screen->next_ns)
        return true;
    screen->next_ns =
        now - screen->next_ns < screen->interval_ns ? screen->next_ns + screen->interval_ns : now + screen->interval_ns;
    screen_look_at_report(screen);
    if (screen->state.is_frozen)
        return true;
    if (screen->looks % 10 == 0)
        watch_find(screen->watch, false);
    watch_look(screen->watch);
    screen->looks++;
    /* What is over stays to be seen as long as the screen is. */
    if (screen->watch->found.list_count != 0 && watch_is_over(screen->watch) && screen->state.message[0] == '\0' &&
        screen->report == 0)
        screen_say(screen, "%s: q leaves", gauge_state_word(watch_at(screen->watch, 0)->base.look.state));
    return screen->looks_most == 0 || screen->looks < screen->looks_most;
}

/* How long to wait for a key: until the next look at most, and not at all while a live set is read. */
static int
screen_wait_ms(const struct screen *screen)
{
    uint64_t now = (uint64_t)clock_now_ns();

    if (screen->is_reading || now >= screen->next_ns)
        return 0;
    return screen->next_ns - now < SCREEN_WAIT_NS ? (int)((screen->next_ns - now) / 1000000) + 1
                                                  : (int)(SCREEN_WAIT_NS / 1000000);
}

static void
screen_run(struct screen *screen)
{
    bool goes_on = true;

    while (goes_on) {
        goes_on = screen_look(screen);
        draw_screen(&screen->state);
        if (!goes_on)
            break;
        timeout(screen_wait_ms(screen));
        goes_on = screen_key(screen, getch()) && !screen_is_left;
        if (screen->is_reading)
            screen->is_reading = watch_lives_read(&screen->lives, screen->state.process);
    }
}

/* Messages would stand on the screen: none are shown while it is there. Returns where they went; -1: nowhere. */
static int
screen_silence(void)
{
    int before = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (before >= 0 && nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    if (nowhere >= 0)
        close(nowhere);
    return before;
}

int
watch_screen(struct watch *watch, uint64_t interval_ns, uint64_t ticks)
{
    struct screen screen = { .watch = watch, .interval_ns = interval_ns, .looks_most = ticks };
    const struct sigaction leave = { .sa_handler = screen_leave };
    SCREEN *terminal;
    int before;

    /* Before newterm, which sets handlers where there are none. */
    sigaction(SIGINT, &leave, NULL);
    sigaction(SIGTERM, &leave, NULL);
    terminal = newterm(NULL, stdout, stdin);
    if (terminal == NULL) {
        message("tidemark watch: the terminal %s is not known here; --plain needs none", getenv("TERM"));
        return COMMAND_WRONG;
    }
    before = screen_silence();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    screen.state.watch = watch;
    screen.state.process = watch->found.list_count == 1 && !watch->found.finds_more ? watch_at(watch, 0) : NULL;
    screen.next_ns = (uint64_t)clock_now_ns();
    screen_run(&screen);
    watch_lives_free(&screen.lives);
    endwin();
    delscreen(terminal);
    if (before >= 0) {
        dup2(before, STDERR_FILENO);
        close(before);
    }
    if (screen.report != 0)
        close(screen.report_words);
    return COMMAND_FINE;
}

#else

bool
watch_has_screen(void)
{
    return false;
}

int
watch_screen(struct watch *watch, uint64_t interval_ns, uint64_t ticks)
{
    (void)watch, (void)interval_ns, (void)ticks;
    return COMMAND_WRONG;
}

#endif
