"""Allocates through libtidemark from Python code of many kinds, and notes the frames that Python itself reports.

Usage: python-stacks.py LIBRARY STACK NOTES WHAT [NUMBER...]. tests/python-stacks-t.sh compares NOTES with the trace. Each
line of both is the size of an allocation and its frames, the innermost first.
"""

import ctypes
import gc
import os
import sys
import threading

held = ctypes.PyDLL(sys.argv[1])  # its calls keep the GIL
given = ctypes.CDLL(sys.argv[1])  # its calls give it away, as most of PyTorch's operations do
for library in (held, given):
    library.tide_allocate.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_void_p),
    ]
    library.tide_deallocate.argtypes = [ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_size_t]
    library.tide_resource_release.argtypes = [ctypes.c_void_p]
    library.tide_error_text.restype = ctypes.c_char_p
SINK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
sink = SINK(lambda context, severity, text: print("said:", text.decode(), file=sys.stderr))
stack = ctypes.c_void_p()


def open_stack(text):
    if given.tide_stack_parse(text.encode(), ctypes.byref(stack)) != 0:
        sys.exit(given.tide_error_text().decode())


notes = []
MOST = 128


def shown(text):
    """A name as the trace has it: what is no UTF-8 is escaped, and what is too long is cut."""
    parts, length = [], 0
    for character in text:
        if length > 1017:
            break
        part = "\\x00" if character == "\0" else character
        length += len(part.encode("utf-8", "backslashreplace"))
        parts.append(part)
    return "".join(parts).encode("utf-8", "backslashreplace").decode()


def note(size):
    frame, frames = sys._getframe(1), []
    while frame is not None and len(frames) < MOST:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append(f"{shown(name) or '?'} ({shown(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    notes.append(f"{size} " + " < ".join(frames))
    return size


def take(size, library=given):
    block = ctypes.c_void_p()
    assert library.tide_allocate(stack, note(size), 256, 0, ctypes.byref(block)) == 0
    assert library.tide_deallocate(stack, block, size, 256, 0) == 0


def inner(size, library=given):
    take(size, library)


def outer(size, library=given):
    inner(size, library)


def twice():
    inner(1000); inner(1001)
    inner(1002)


def recurse(depth, size):
    if depth == 0:
        take(size)
    else:
        recurse(depth - 1, size)


def generate(size):
    yield 1
    take(size)
    yield 2


class Layer:
    def __call__(self, size):
        return self.forward(size)

    def forward(self, size):
        take(size)

    def __del__(self):
        inner(2090)


def sort_key(size):
    take(size)
    return size


def dying(times):
    """Code objects that are made, run and freed: another one comes to the address of the one before."""
    for i in range(times):
        names = {"take": take}
        exec(compile(f"{chr(10) * (i % 7)}def made_{i}():\n take({100000 + i})\nmade_{i}()", f"<made {i}>", "exec"), names)
        del names


def renamed(code, name):
    return code.replace(co_name=name, **({"co_qualname": name} if hasattr(code, "co_qualname") else {}))


def odd():
    """Names that are no UTF-8, or would break what prints them."""
    code = compile("take(2100)", "odd \ud800\x1b[31m.py", "exec")
    exec(renamed(code, "a\0b\t\"<c>\"; drop table frame; '"), {"take": take})
    exec(compile("take(2101)", "x" * 5000, "exec"), {"take": take})
    code = compile("take(2102)", "gr\u00fc\u00dfe/\u65e5\u672c/\U0001f600.py", "exec")
    exec(renamed(code, "\u65e5"), {"take": take})
    exec(renamed(compile("\n\ntake(21030)", "", "exec"), ""), {"take": take})


def basic():
    outer(1100)
    outer(1101, held)
    twice()
    recurse(10, 1200)
    recurse(200, 1201)
    for _ in generate(1300):
        pass
    Layer()(1400)
    [take(size) for size in (1500,)]
    (lambda size: take(size))(1501)
    sorted([1502, 1503], key=sort_key)
    threads = [threading.Thread(target=outer, args=(1600 + i,), name=f"t{i}") for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    odd()


def raising():
    """An exception that is being handled stays what it is."""
    try:
        raise KeyError("kept")
    except KeyError as error:
        outer(1700, held)
        assert sys.exc_info()[1] is error


def hammer(seconds):
    import time

    end = time.monotonic() + seconds

    def work(number):
        while time.monotonic() < end:
            exec(compile(f"def f{number}():\n take({200000 + number})\nf{number}()", f"<work {number}>", "exec"), {"take": take})
            outer(300000 + number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def daemon():
    """Threads that allocate while the interpreter ends."""

    def work():
        while True:
            outer(1800)

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(50):
        outer(1801)


def forked():
    outer(1900)
    pid = os.fork()
    if pid == 0:
        outer(1901)
        given.tide_resource_release(stack)
        os._exit(0)
    os.waitpid(pid, 0)
    outer(1902)


def same(times):
    """The same source again and again, in new code objects."""
    for _ in range(times):
        exec(compile("def made():\n take(100)\nmade()", "<made>", "exec"), {"take": take})


class Knot:
    """Garbage that allocates when the collector finds it."""

    def __init__(self):
        self.me = self

    def __del__(self):
        outer(2400)


def unbegun():
    """The collector runs while a function is called that has not begun: its variables are made first."""

    def cells():
        a = b = c = d = 1
        return lambda: (a, b, c, d)

    gc.set_threshold(1, 1, 1)
    for _ in range(200):
        Knot()
        cells()
    gc.set_threshold(700, 10, 10)


def between():
    """Python code that C code calls, which Python code called: the C library sorts."""
    compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def compare(left, right):
        outer(2200)
        return left[0] - right[0]

    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, 4, compare_type(compare))


def report():
    """The text of a report of the layer `track`."""
    block = ctypes.c_void_p()
    given.tide_allocate(stack, 2300, 256, 0, ctypes.byref(block))
    text = ctypes.create_string_buffer(8192)
    given.tide_track_report_text.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
    given.tide_track_report_text(stack, 5, text, len(text), None)
    print(text.value.decode())
    given.tide_deallocate(stack, block, 2300, 256, 0)


def returned():
    """References to code objects while the program runs, and at its end."""
    import atexit
    import weakref

    def count():
        return [sys.getrefcount(code) + weakref.getweakrefcount(code) for code in codes]

    def compare():
        more = [after - before for after, before in zip(count(), before)]
        print(more[0] - more[2], more[1] - more[2])

    codes = [inner.__code__, outer.__code__, odd.__code__]  # the last one is not recorded
    before = count()
    atexit.register(compare)
    open_stack(sys.argv[2])  # after that: what is registered last is called first
    outer(2500, held)
    outer(2501)


def killed():
    for i in range(100):
        outer(2000 + i)
    with open(sys.argv[3], "w") as file:
        file.write("".join(line + "\n" for line in notes))
    os.kill(os.getpid(), 9)


def main():
    given.tide_message_sink_set(sink, None)
    what = sys.argv[4]
    if what != "returned":
        open_stack(sys.argv[2])
    globals()[what](*[int(word) for word in sys.argv[5:]])
    if what != "daemon":
        given.tide_resource_release(stack)
    with open(sys.argv[3], "a") as file:
        file.write("".join(line + "\n" for line in notes))


main()
