"""
metrics-clients.py WHAT PORT...: clients of `tidemark metrics --listen`, those that behave badly among them. Prints what
they found, on one line.
"""
import resource
import socket
import sys
import time

PLAIN = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(port, host="127.0.0.1"):
    return socket.create_connection((host, port), timeout=30)


def answer(client):
    """All that comes until the end; what a reset leaves, too."""
    text = b""
    try:
        while part := client.recv(1 << 16):
            text += part
    except ConnectionError:
        pass
    return text


def status(text):
    return text.split(b" ", 2)[1].decode() if text.startswith(b"HTTP/1.") else "none"


def ask(port, request, host="127.0.0.1"):
    with connect(port, host) as client:
        try:
            client.sendall(request)
        except ConnectionError:
            pass
        return answer(client)


def requests(port):
    """The status of requests, one after another."""
    first = [
        PLAIN,
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metricsx HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"GET http://x:9455/metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET HTTP://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    return " ".join(status(ask(port, request)) for request in first)


def junk(port):
    """Nothing that is no HTTP gets figures, or ends the server."""
    inputs = [
        b"\0" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 300,
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"\r\n" * 5000,
        b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"X-Y: z\r\n" * 20000 + b"\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\nHost: x\r\n\r\n",
    ]
    served = 0
    for text in inputs:
        with connect(port) as client:
            try:
                client.sendall(text)
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            served += b"tidemark_up" in answer(client)
    return f"{served} {status(ask(port, PLAIN))}"


def types(port):
    """The media types of what is asked for, and whether the end is there."""
    found = []
    wanted = (b"", b"Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n", b"Accept: text/html\r\n",
              b"Accept: text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2\r\n",
              b"Accept: application/openmetrics-text;q=0\r\n", b"Accept: text/plain; q=0.25 , Application/OpenMetrics-Text ;q=0.3\r\n",
              b"Accept: application/openmetrics-text-2\r\n", b"Accept: application/openmetrics-text;q=,;q,,;\r\n")
    for accept in wanted:
        head, _, body = ask(port, PLAIN[:-2] + accept + b"\r\n").partition(b"\r\n\r\n")
        kind = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-type:")][0].split()[1]
        found.append(kind.decode().rstrip(";") + ("+" if body.endswith(b"# EOF\n") else "-"))
    return " ".join(found)


def many(port, count):
    """So many connections that say nothing; scrapes meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = int(count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 100), hard))
    kept, good, refused = [], 0, 0
    for i in range(wanted):
        try:
            kept.append(connect(port))
            if i % 3 == 0:
                kept[-1].sendall(b"GET /metrics HTTP/1.1\r\n")
        except OSError:
            refused += 1
        if i % (wanted // 10) == wanted // 20:
            good += status(ask(port, PLAIN)) == "200"
    good += status(ask(port, PLAIN)) == "200"
    return f"{good} of 11 scrapes, {refused} refused"


def slow(port):
    """A client that sends a byte now and then is sent away; so is one that does not read."""
    begin = time.monotonic()
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", port))
    deaf.sendall(PLAIN)
    ended = None
    with connect(port) as client:
        try:
            for byte in PLAIN * 100:
                client.sendall(bytes([byte]))
                time.sleep(0.2)
                if time.monotonic() - begin > 20:
                    break
        except OSError:
            ended = time.monotonic() - begin
    deaf.settimeout(5)
    answer(deaf)
    return f"{'sent away' if ended is not None and 5 < ended < 20 else ended} {status(ask(port, PLAIN))}"


def greedy(port, count):
    """Scrapes as fast as they go: all are answered."""
    good = sum(status(ask(port, PLAIN)) == "200" for _ in range(int(count)))
    return f"{good}"


def scrape(port, count):
    """Milliseconds of a scrape: the least of several that are not shared, and bytes."""
    least, size = 1e9, 0
    for _ in range(int(count)):
        time.sleep(0.3)
        begin = time.monotonic()
        size = len(ask(port, PLAIN))
        least = min(least, time.monotonic() - begin)
    return f"{least * 1000:.1f} ms, {size} bytes"


def sixth(port):
    return status(ask(port, PLAIN, "::1"))


what, port, *rest = sys.argv[1:]
print(globals()[what](int(port), *rest))
