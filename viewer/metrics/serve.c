/*
 * Answers GET /metrics over HTTP, in one thread: libmicrohttpd speaks HTTP, and this file bounds what clients may take.
 *
 * A client that is greedy or slow has a time limit for its whole request and answer; and where all places are taken,
 * the oldest client leaves, so that whoever comes next is answered even if thousands hold connections open.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "viewer/base/clock.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/parse.h"
#include "viewer/metrics/metrics.h"

const char *
metrics_parse_address(const char *text, char **host, char **port)
{
    static const char wrong[] = "write an address and a port, as 127.0.0.1:9455 or [::1]:9455";
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    uint64_t number;

    *host = *port = NULL;
    if (colon == NULL || colon == text || colon[1] == '\0' || colon[1 + strspn(colon + 1, "0123456789")] != '\0')
        return wrong;
    if (*begin == '[' && end[-1] == ']') {
        begin++;
        end--;
    } else if (memchr(begin, ':', (size_t)(end - begin)) != NULL) {
        return wrong; /* an address of IPv6 without brackets: its last part may be the port or not */
    }
    if (begin == end)
        return wrong;
    /* What parse_count refuses here has too many digits. */
    if (!parse_count(colon + 1, &number) || number > 65535)
        return "the port is out of range: 1 to 65535, or 0, which takes any";
    *host = strndup(begin, (size_t)(end - begin));
    *port = strdup(colon + 1);
    return NULL;
}

#ifdef HAVE_MICROHTTPD_H

#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVE_CLIENTS       128                   /* at once */
#define SERVE_PLACES        (2 * SERVE_CLIENTS)   /* of the library: those that leave still have one */
#define SERVE_CLIENT_NS     UINT64_C(10000000000) /* for a client's request and its answer */
#define SERVE_REQUEST_BYTES (16 * 1024)           /* a request's line and headers, at most */
#define SERVE_SHARED_NS     UINT64_C(250000000)   /* requests so near each other get the same answer */
#define SERVE_NAMES_NS      UINT64_C(50000000)    /* for names of new recordings, in a scrape and between two */
#define SERVE_REST_NS       UINT64_C(60000000000) /* after which files that nobody asks about are closed */
#define SERVE_FILES         40000                 /* descriptors that suffice */

/* The name since 0.9.29. It and what it needs would double the time that each other command takes to start. */
#define SERVE_LIBRARY "libmicrohttpd.so.12"

#define SERVE_EACH(CALL)                                                                                               \
    CALL(MHD_start_daemon)                                                                                             \
    CALL(MHD_stop_daemon)                                                                                              \
    CALL(MHD_run)                                                                                                      \
    CALL(MHD_get_timeout)                                                                                              \
    CALL(MHD_get_daemon_info)                                                                                          \
    CALL(MHD_get_connection_info)                                                                                      \
    CALL(MHD_lookup_connection_value)                                                                                  \
    CALL(MHD_create_response_from_buffer)                                                                              \
    CALL(MHD_add_response_header)                                                                                      \
    CALL(MHD_queue_response)                                                                                           \
    CALL(MHD_destroy_response)

#define SERVE_MEMBER(name) __typeof__(name) *name;
static struct {
    SERVE_EACH(SERVE_MEMBER)
} api;

struct serve_client {
    struct serve_client *next, *previous;
    int socket;
    uint64_t since_ns;
    bool leaves;
};

struct serve {
    struct metrics *metrics;
    struct MHD_Daemon *daemon;
    int signals;
    struct serve_client oldest_end, newest_end;    /* of the list of clients, by their age */
    size_t clients;                                /* that do not leave */
    bool names_wait;                               /* names are wanted that were not read in a scrape */
    uint64_t gathered_ns;                          /* 0: never */
    struct MHD_Response *answers[METRICS_FORMATS]; /* of that gathering; NULL: not asked for */
    struct MHD_Response *not_found, *not_allowed, *failed;
};

/* False after a message. */
static bool
serve_load(void)
{
    void *library = dlopen(SERVE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;

#define SERVE_LOAD(name) all = all && (api.name = (__typeof__(api.name))dlsym(library, #name)) != NULL;
    SERVE_EACH(SERVE_LOAD)
    if (!all)
        message("tidemark metrics: --listen needs libmicrohttpd: %s", dlerror());
    return all;
}

static void
serve_dismiss(struct serve *serve, struct serve_client *client)
{
    if (client->leaves)
        return;
    client->leaves = true;
    serve->clients--;
    shutdown(client->socket, SHUT_RDWR);
}

/* The first in the list who stays; NULL: none does. */
static struct serve_client *
serve_oldest(struct serve *serve)
{
    struct serve_client *client = serve->oldest_end.next;

    while (client != &serve->newest_end && client->leaves)
        client = client->next;
    return client != &serve->newest_end ? client : NULL;
}

/* A connection begins or ends. One without memory for its entry is shut at once. */
static void
serve_connection(void *context, struct MHD_Connection *connection, void **own, enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info = api.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct serve *serve = context;
    struct serve_client *client = *own;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED && client != NULL) {
        client->previous->next = client->next;
        client->next->previous = client->previous;
        serve->clients -= !client->leaves;
        free(client);
        *own = NULL;
    }
    if (code != MHD_CONNECTION_NOTIFY_STARTED || info == NULL)
        return;
    client = calloc(1, sizeof(*client));
    if (client == NULL) {
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    *client = (struct serve_client){ .next = &serve->newest_end,
                                     .previous = serve->newest_end.previous,
                                     .socket = info->connect_fd,
                                     .since_ns = (uint64_t)clock_now_ns() };
    client->previous->next = client->next->previous = client;
    *own = client;
    if (++serve->clients > SERVE_CLIENTS)
        serve_dismiss(serve, serve_oldest(serve));
}

static struct MHD_Response *
serve_make(void *text, size_t length, enum MHD_ResponseMemoryMode mode, const char *type)
{
    struct MHD_Response *response = api.MHD_create_response_from_buffer(length, text, mode);

    if (response == NULL)
        return NULL;
    api.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    /* A request a connection: idle ones would hold places. */
    api.MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return response;
}

static struct MHD_Response *
serve_make_text(const char *text)
{
    return serve_make((void *)(uintptr_t)text, strlen(text), MHD_RESPMEM_PERSISTENT, "text/plain; charset=utf-8");
}

static void
serve_release(struct MHD_Response **response)
{
    if (*response != NULL)
        api.MHD_destroy_response(*response);
    *response = NULL;
}

/* The recordings as they are now, or were a moment ago. */
static bool
serve_gather(struct serve *serve)
{
    uint64_t now = (uint64_t)clock_now_ns();

    if (serve->gathered_ns != 0 && now - serve->gathered_ns < SERVE_SHARED_NS)
        return true;
    for (size_t i = 0; i < METRICS_FORMATS; i++)
        serve_release(&serve->answers[i]);
    serve->gathered_ns = 0;
    if (metrics_find(serve->metrics, false) != COMMAND_FINE ||
        metrics_gather(serve->metrics, SERVE_NAMES_NS) != COMMAND_FINE)
        return false;
    serve->gathered_ns = now;
    serve->names_wait = serve->metrics->absent[METRICS_WAITING] != 0;
    return true;
}

/* The answer in this format; NULL: no memory. */
static struct MHD_Response *
serve_answer(struct serve *serve, enum metrics_format format)
{
    struct emit out;

    if (!serve_gather(serve))
        return NULL;
    if (serve->answers[format] == NULL && emit_open_memory(&out) == COMMAND_FINE) {
        metrics_write(serve->metrics, format, &out);
        if (!out.failed) {
            serve->answers[format] =
                serve_make(out.buffer, out.used, MHD_RESPMEM_MUST_FREE, metrics_media_type(format));
            out.buffer = serve->answers[format] != NULL ? NULL : out.buffer;
        }
        emit_close(&out, COMMAND_WRONG);
    }
    return serve->answers[format];
}

/* A weight such as "0.25", in thousandths. */
static int
serve_weight(const char *text)
{
    int weight = text[0] == '1' ? 1000 : 0;
    const char *digit = text[0] == '0' && text[1] == '.' ? text + 2 : "";

    for (int unit = 100; unit > 0 && *digit >= '0' && *digit <= '9'; unit /= 10)
        weight += unit * (*digit++ - '0');
    return weight;
}

/* The weight, in thousandths, that an Accept header gives to a media type; 0: it does not name it. */
static int
serve_weigh(const char *accept, const char *type)
{
    size_t length = strlen(type);
    int most = 0;

    while (*accept != '\0') {
        const char *at = accept + strspn(accept, " \t"), *end = accept + strcspn(accept, ",");

        /* The end of the text counts as one of these characters. */
        if (strncasecmp(at, type, length) == 0 && strchr("; \t,", at[length]) != NULL) {
            int weight = 1000;

            while ((at = strpbrk(at, ";,")) != NULL && *at == ';') {
                at += 1 + strspn(at + 1, " \t");
                if (strncasecmp(at, "q=", 2) == 0)
                    weight = serve_weight(at + 2);
            }
            most = weight > most ? weight : most;
        }
        accept = end + (*end == ',');
    }
    return most;
}

/* Who does not ask for OpenMetrics, or would rather have plain text, gets what everybody reads. */
static enum metrics_format
serve_format(struct MHD_Connection *connection)
{
    const char *accept = api.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    int weight = accept != NULL ? serve_weigh(accept, "application/openmetrics-text") : 0;

    return weight > 0 && weight >= serve_weigh(accept, "text/plain") ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}

/* The path of a request. Clients of a proxy ask for all of an address, "http://host:9455/metrics" (RFC 9112, 3.2.2). */
static const char *
serve_path(const char *target)
{
    static const char scheme[] = "http://";
    const char *path = target;

    if (strncasecmp(target, scheme, sizeof(scheme) - 1) == 0)
        path = strchr(target + sizeof(scheme) - 1, '/');
    return path != NULL ? path : "/";
}

static enum MHD_Result
serve_request(void *context, struct MHD_Connection *connection, const char *path, const char *method,
              const char *version, const char *body, size_t *body_bytes, void **own)
{
    struct serve *serve = context;
    struct MHD_Response *response;

    (void)version;
    (void)body;
    (void)body_bytes;
    (void)own;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return api.MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, serve->not_allowed);
    if (strcmp(serve_path(path), "/metrics") != 0)
        return api.MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, serve->not_found);
    response = serve_answer(serve, serve_format(connection));
    return response != NULL ? api.MHD_queue_response(connection, MHD_HTTP_OK, response)
                            : api.MHD_queue_response(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, serve->failed);
}

/* Say where it listens: port 0 is any. */
static void
serve_say(int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
        getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        message(strchr(host, ':') != NULL ? "tidemark metrics: listening on http://[%s]:%s/metrics"
                                          : "tidemark metrics: listening on http://%s:%s/metrics",
                host, port);
}

/* A socket that listens there; -1 with errno. */
static int
serve_listen_at(const struct addrinfo *info)
{
    int one = 1, error, listener = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(listener, info->ai_addr, info->ai_addrlen) == 0 && listen(listener, SOMAXCONN) == 0)
        return listener;
    error = errno;
    if (listener >= 0)
        close(listener);
    errno = error;
    return -1;
}

/* The same for an address as it was given. -1 after a message. */
static int
serve_listen(const char *address)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    char *host, *port;
    const char *wrong = metrics_parse_address(address, &host, &port);
    struct addrinfo *infos = NULL;
    int listener = -1, code;

    if (wrong != NULL) {
        message("tidemark metrics: --listen=%s: %s", address, wrong);
        return -1;
    }
    code = host != NULL && port != NULL ? getaddrinfo(host, port, &hints, &infos) : EAI_MEMORY;
    for (const struct addrinfo *info = infos; code == 0 && info != NULL && listener < 0; info = info->ai_next)
        listener = serve_listen_at(info);
    if (code != 0)
        message("tidemark metrics: --listen=%s: %s", address, gai_strerror(code));
    else if (listener < 0 && errno == EADDRINUSE)
        message("tidemark metrics: --listen=%s: another program listens there", address);
    else if (listener < 0)
        message("tidemark metrics: --listen=%s: %s", address, strerror(errno));
    if (infos != NULL)
        freeaddrinfo(infos);
    free(host);
    free(port);
    return listener;
}

/* Those whose time is up leave. Returns when the next one's is, in ns from now. */
static uint64_t
serve_dismiss_slow(struct serve *serve)
{
    uint64_t now = (uint64_t)clock_now_ns();

    for (struct serve_client *client; (client = serve_oldest(serve)) != NULL;) {
        if (now - client->since_ns < SERVE_CLIENT_NS)
            return SERVE_CLIENT_NS - (now - client->since_ns);
        serve_dismiss(serve, client);
    }
    return UINT64_MAX;
}

/* How long nothing is to be done, in ms, unless something comes. */
static int
serve_wait(struct serve *serve)
{
    uint64_t wait_ms = serve_dismiss_slow(serve) / 1000000;
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    if (api.MHD_get_timeout(serve->daemon, &timeout_ms) == MHD_YES && timeout_ms < wait_ms)
        wait_ms = timeout_ms;
    if (wait_ms >= SERVE_REST_NS / 1000000)
        wait_ms = SERVE_REST_NS / 1000000;
    return serve->names_wait ? 0 : (int)wait_ms + (wait_ms != 0);
}

/* What is to be done where nobody asks for anything. */
static void
serve_idle(struct serve *serve)
{
    serve->names_wait = serve->names_wait && metrics_read_names(serve->metrics, SERVE_NAMES_NS);
    if (serve->gathered_ns == 0 || (uint64_t)clock_now_ns() - serve->gathered_ns < SERVE_REST_NS)
        return;
    metrics_rest(serve->metrics);
    serve->gathered_ns = 0;
}

/* Until a signal comes. False after a message. */
static bool
serve_loop(struct serve *serve)
{
    const union MHD_DaemonInfo *info = api.MHD_get_daemon_info(serve->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd waited[] = { { .fd = serve->signals, .events = POLLIN },
                               { .fd = info != NULL ? info->epoll_fd : -1, .events = POLLIN } };

    while (waited[1].fd >= 0) {
        if (poll(waited, 2, serve_wait(serve)) < 0 && errno != EINTR)
            break;
        if (waited[0].revents != 0)
            return true;
        if (api.MHD_run(serve->daemon) != MHD_YES)
            break;
        serve_idle(serve);
    }
    message("tidemark metrics: the server has failed: %s", strerror(errno));
    return false;
}

/* The signals that end it come by a descriptor. -1: there are none left. */
static int
serve_block_signals(void)
{
    sigset_t ends;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A descriptor a client and a recording: the usual bound of 1,024 is the soft one. Clients go before files. */
static void
serve_raise_limit(struct metrics *metrics)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur < SERVE_FILES) {
        files.rlim_cur = files.rlim_max < SERVE_FILES ? files.rlim_max : SERVE_FILES;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    metrics->open_most = files.rlim_cur > 4 * SERVE_PLACES ? files.rlim_cur - 2 * SERVE_PLACES : 0;
}

static bool
serve_start(struct serve *serve, int listener)
{
    serve->not_found = serve_make_text("there is /metrics alone\n");
    serve->not_allowed = serve_make_text("GET and HEAD alone\n");
    serve->failed = serve_make_text("the recordings could not be read\n");
    if (serve->not_found == NULL || serve->not_allowed == NULL || serve->failed == NULL)
        return false;
    api.MHD_add_response_header(serve->not_allowed, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    serve->daemon =
        api.MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, serve_request, serve, MHD_OPTION_LISTEN_SOCKET, listener,
                             MHD_OPTION_NOTIFY_CONNECTION, serve_connection, serve, MHD_OPTION_CONNECTION_LIMIT,
                             (unsigned)SERVE_PLACES, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVE_REQUEST_BYTES,
                             MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    return serve->daemon != NULL;
}

int
metrics_serve(struct metrics *metrics, const char *address)
{
    struct serve serve = { .metrics = metrics };
    int listener = serve_load() ? serve_listen(address) : -1, status = COMMAND_WRONG;

    if (listener < 0)
        return COMMAND_WRONG;
    serve.oldest_end.next = &serve.newest_end;
    serve.newest_end.previous = &serve.oldest_end;
    serve_raise_limit(metrics);
    serve.signals = serve_block_signals();
    if (serve.signals >= 0 && metrics_gather(metrics, METRICS_NO_BOUND) == COMMAND_FINE &&
        serve_start(&serve, listener)) {
        serve_say(listener);
        status = serve_loop(&serve) ? COMMAND_FINE : COMMAND_WRONG;
    } else {
        message("tidemark metrics: the server cannot be started: %s", strerror(errno));
    }
    if (serve.daemon != NULL)
        api.MHD_stop_daemon(serve.daemon); /* closes the listener */
    else
        close(listener);
    for (size_t i = 0; i < METRICS_FORMATS; i++)
        serve_release(&serve.answers[i]);
    serve_release(&serve.not_found);
    serve_release(&serve.not_allowed);
    serve_release(&serve.failed);
    if (serve.signals >= 0)
        close(serve.signals);
    return status;
}

#else

int
metrics_serve(struct metrics *metrics, const char *address)
{
    (void)metrics;
    (void)address;
    message(
        "tidemark metrics: this tidemark was built without libmicrohttpd, and cannot listen; --textfile=FILE writes a "
        "file for the textfile collector of node_exporter");
    return COMMAND_WRONG;
}

#endif
