"""Opens a page of tidemark report in headless Chromium, over its pipe: no port, no library.

usage: report-page.py selftest PAGE [WIDTH]            prints the page's own TAP, and what Chromium used as comments
       report-page.py shot PAGE PICTURE WIDTH HEIGHT [LINK] [light|dark]
       report-page.py print PAGE PDF
       report-page.py value PAGE EXPRESSION            prints what the expression is once the page is there
       report-page.py measure PAGE                     prints what opening it and 60 frames cost, as JSON
       report-page.py keyboard PAGE                    prints what the keyboard does not reach, or does nothing on
       report-page.py find                             prints the browser; 1: there is none
       report-page.py serve SOCKET                     keeps a browser for the others, until SIGTERM or its parent's end

With REPORT_PAGE_SOCKET=SOCKET, a page is opened in the browser that is kept there, in a profile of its own.
"""

import base64
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """A browser, and the pipe to it."""

    def __init__(self, width, height):
        self.folder = tempfile.mkdtemp()
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def place():
            # 3 and 4 may be among the pipes' own numbers
            high = [os.dup(fd) for fd in (to_browser, from_browser)]
            os.dup2(os.dup(high[0]), 3)
            os.dup2(high[1], 4)

        flags = ["--headless", "--remote-debugging-pipe", "--hide-scrollbars", "--disable-gpu", "--no-first-run",
                 "--disable-dev-shm-usage", "--user-data-dir=" + self.folder, f"--window-size={width},{height}"]
        if os.getuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen([browser(), *flags], preexec_fn=place, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 20)
            if not part:
                sys.exit("report-page.py: the browser has ended")
            self.buffer += part
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, parameters, session=None, heard=None):
        """The result of a command; what a page of this session says meanwhile is heard."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            answer = self.message()
            if heard and answer.get("sessionId") == session:
                heard(answer)
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"report-page.py: {method}: {answer['error']}")
                return answer["result"]

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)


kept = None


class Chromium:
    """A page, in the browser that is kept or in one of its own."""

    def __init__(self, width, height):
        self.browser = kept or Browser(width, height)
        self.said = []
        self.session = None
        self.context = self.browser.call("Target.createBrowserContext", {})["browserContextId"]
        target = self.browser.call("Target.createTarget", {"url": "about:blank", "browserContextId": self.context})
        session = self.browser.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        self.session = session["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def hear(self, answer):
        if answer.get("method") == "Runtime.exceptionThrown":
            details = answer["params"]["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description", details["text"]))
        if answer.get("method") == "Log.entryAdded":
            self.said.append(answer["params"]["entry"]["text"])

    def call(self, method, **parameters):
        return self.browser.call(method, parameters, self.session, self.hear)

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)["result"].get("value")

    def open(self, page, link=""):
        self.call("Page.navigate", url="file://" + os.path.abspath(page) + link)

    def wait(self, expression, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.value(expression):
                return True
            time.sleep(0.1)
        return False

    def renderer_mib(self, what="VmHWM"):
        """The most resident memory of a renderer, by a line of its status."""
        most = 0
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
                if b"--type=renderer" not in words or self.browser.folder.encode() not in words:
                    continue
                with open(f"/proc/{pid}/status", encoding="ascii") as file:
                    most = max([most] + [int(line.split()[1]) >> 10 for line in file if line.startswith(what)])
            except OSError:
                continue
        return most

    def processor_ms(self):
        """What the processes of the browser have taken of processors."""
        ticks = 0
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.browser.folder.encode() not in file.read():
                        continue
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    ticks += sum(int(word) for word in file.read().rsplit(")", 1)[1].split()[11:13])
            except OSError:
                continue
        return ticks * 1000 / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.browser.call("Target.disposeBrowserContext", {"browserContextId": self.context})
        if self.browser is not kept:
            self.browser.close()


READY = "document.documentElement.dataset.ready === 'yes' || !document.getElementById('word').hidden"


def selftest(page, width="1600"):
    chromium = Chromium(int(width), 1000)
    chromium.open(page, "#selftest")
    done = chromium.wait("document.documentElement.dataset.selftest || !document.getElementById('word').hidden", 120)
    print(chromium.value("document.getElementById('selftest').textContent"), end="")
    print("# word: " + (chromium.value("document.getElementById('word').textContent") or "none"))
    print(f"# renderer_mib {chromium.renderer_mib()}")
    for words in chromium.said:
        print("# said: " + words.replace("\n", "\n# "))
    passed = done and chromium.value("document.documentElement.dataset.selftest") == "passed" and not chromium.said
    chromium.close()
    return 0 if passed else 1


def shot(page, picture, width, height, link="", colours="light"):
    chromium = Chromium(int(width), int(height))
    chromium.call("Emulation.setDeviceMetricsOverride", width=int(width), height=int(height), deviceScaleFactor=1,
                  mobile=int(width) < 600)
    chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
    chromium.open(page, link)
    chromium.wait(READY, 60)
    time.sleep(0.3)
    data = chromium.call("Page.captureScreenshot", format="png")["data"]
    with open(picture, "wb") as file:
        file.write(base64.b64decode(data))
    wide = chromium.value("document.documentElement.scrollWidth")
    for words in chromium.said:
        print(words, file=sys.stderr)
    chromium.close()
    if wide > int(width):
        print(f"the page is {wide} pixels wide", file=sys.stderr)
    return 1 if chromium.said or wide > int(width) else 0


def paper(page, pdf):
    chromium = Chromium(1200, 1000)
    chromium.open(page)
    chromium.wait(READY, 60)
    data = chromium.call("Page.printToPDF", printBackground=True)["data"]
    with open(pdf, "wb") as file:
        file.write(base64.b64decode(data))
    chromium.close()
    return 0


def value(page, expression):
    chromium = Chromium(1600, 1000)
    chromium.open(page)
    chromium.wait(READY, 60)
    print(chromium.value(expression))
    chromium.close()
    return 0


def measure(page):
    """Opened as a reader would, at the peak; memory at rest, and after the frames."""
    chromium = Chromium(1600, 1000)
    chromium.open(page)
    if not chromium.wait(READY, 120):
        sys.exit("report-page.py: the page is not there after 120 s")
    time.sleep(1)
    figures = {"page_bytes": os.path.getsize(page), "open_mib": chromium.renderer_mib("VmRSS")}
    chromium.value("moved()")
    time.sleep(1)
    before = chromium.processor_ms()
    chromium.value("moved()")
    figures["processor_ms"] = (chromium.processor_ms() - before) / 60
    figures |= chromium.value("figures()")
    figures["moved_mib"] = chromium.renderer_mib("VmRSS")
    print(json.dumps(figures))
    chromium.close()
    return 0


# What a key does on a control, by what it changes: where the focus is put, the keys, and what must differ before and after.
WORKED = [
    ("#theme", "Enter", "document.documentElement.dataset.theme"), ("#theme", "Space", "document.documentElement.dataset.theme"),
    ("#help-open", "Enter", "byId('help').open"), (None, "Escape", "byId('help').open"),
    ("#verdict li:nth-child(2) a", "Enter", "view.tab"), ("#by", "ArrowDown", "view.by"), ("#axis-events", "Enter", "view.x"),
    ("#axis-time", "Space", "view.x"), ("#legend button", "Space", "view.hidden.size"), (None, "Space", "view.hidden.size"),
    ("#timeline-canvas", "ArrowUp", "view.to - view.from"), (None, "ArrowRight", "view.from"), (None, ".", "view.at"),
    ("#fit", "Enter", "view.from"), ("#timeline summary", "Enter", "byId('timeline').innerText.length"),
    ("#previous", "Enter", "view.at"), ("#next", "Space", "view.at"), ("#map-by", "ArrowDown", "view.colour"),
    ("#map summary", "Enter", "byId('map').innerText.length"), ("#search", "a", "view.search"), (None, "Escape", "view.search"),
    ("#icicle-canvas", "ArrowDown", "icicle.chosen?.name"), (None, "Enter", "icicle.focus?.name"),
    ("#icicle-up", "Enter", "icicle.focus?.name"), ("#icicle summary", "Enter", "byId('icicle').innerText.length"),
    ("#timeline-canvas", "s", "view.select?.join()"), (None, ".", "view.at"), (None, "s", "view.select?.join()"),
    ("#range-clear", "Enter", "view.select"), ("#tabs [tabindex='0']", "ArrowRight", "view.tab"),
    (None, "Home", "view.tab"), (None, "End", "view.tab"), ("#tabs [tabindex='0']", "ArrowLeft", "view.tab"),
    ("#verdict li a", "Enter", "view.tab"), (".panel:not([hidden]) tr:nth-child(2) a", "Enter", "view.at"),
]
KEY_CODES = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "Space": (32, " "), "End": (35, ""), "Home": (36, ""),
             "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, "")}


def keyboard(page):
    """Tab goes to every control, and the keys of each do what it is there for; the focus is nowhere lost."""
    chromium = Chromium(1600, 1000)
    chromium.open(page)
    chromium.wait(READY, 60)
    wrong = []

    def press(key):
        code, text = KEY_CODES.get(key, (ord(key[0].upper()), key))
        name = " " if key == "Space" else key
        for kind in ("keyDown", "keyUp"):
            chromium.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code,
                          code="Period" if key == "." else f"Key{key.upper()}" if len(key) == 1 else key,
                          **({"text": text} if text and kind == "keyDown" else {}))

    # Listed anew each time: a table that is drawn again has other controls in its place.
    chromium.value("""testControls = () => [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex]')].filter(
        (control) => control.tabIndex >= 0 && !control.disabled && control.checkVisibility()); reached = new Set(); 0""")
    for _ in range(chromium.value("testControls().length") * 2):
        press("Tab")
        if chromium.value("reached.add(document.activeElement) && testControls().every((control) => reached.has(control))"):
            break
    wrong += chromium.value("""testControls().filter((control) => !reached.has(control)).map((control) =>
        'Tab does not reach ' + control.tagName + ' ' + control.id + ' ' + control.textContent.slice(0, 40))""")
    for control, key, what in WORKED:
        if control:
            chromium.value(f"document.querySelector(`{control}`)?.focus()")
            if not chromium.value(f"document.activeElement.matches(`{control}`)"):
                wrong.append(f"{control} takes no focus")
                continue
        before = chromium.value(f"String({what})")
        press(key)
        chromium.value("new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame)).then(() => 1)")
        if not chromium.wait(f"String({what}) !== {json.dumps(before)}", 5):
            wrong.append(f"{control or 'then'}: {key} leaves {what} {before}")
        if chromium.value("document.activeElement === document.body") and key != "Escape":
            wrong.append(f"{control or 'then'}: {key} loses the focus")
    print("\n".join(wrong + chromium.said) or "everything")
    chromium.close()
    return 1 if wrong or chromium.said else 0


def find():
    if browser():
        print(browser())
    return 0 if browser() else 1


COMMANDS = {"selftest": selftest, "shot": shot, "print": paper, "value": value, "measure": measure,
            "keyboard": keyboard, "find": find}


class Ended(BaseException):
    """SIGTERM has come: no command takes it for a failure of its own."""


def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Ended


def run(words):
    """The status of a command, and what it prints."""
    global kept
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            status = COMMANDS[words[0]](*words[1:])
    except (Exception, SystemExit) as error:  # the next command gets a new browser
        said.write(f"{error}\n")
        status = 1
        with contextlib.suppress(Exception):
            kept.close()
        kept = Browser(1600, 1000)
    return status, said.getvalue()


def serve(path):
    """Run commands that come through a socket, one after another."""
    global kept
    parent = os.getppid()
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(1)
    kept = Browser(1600, 1000)
    signal.signal(signal.SIGTERM, end)
    try:
        listener.bind(path)
        listener.listen()
        while os.getppid() == parent:
            try:
                client, _ = listener.accept()
            except socket.timeout:
                continue
            with client, client.makefile("rw") as file, contextlib.suppress(BrokenPipeError):
                client.settimeout(None)
                file.write(json.dumps(run(json.loads(file.readline()))))
    except Ended:
        pass
    finally:
        kept.close()
    return 0


def ask(path, words):
    """Have a command run where a browser is kept."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    with client, client.makefile("rw") as file:
        file.write(json.dumps(words) + "\n")
        file.flush()
        status, said = json.loads(file.read())
    sys.stdout.write(said)
    return status


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "serve":
        sys.exit(serve(sys.argv[2]))
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    if os.environ.get("REPORT_PAGE_SOCKET") and sys.argv[1] != "find":
        sys.exit(ask(os.environ["REPORT_PAGE_SOCKET"], sys.argv[1:]))
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
