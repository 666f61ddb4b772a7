"""The Python package over host memory and simulated addresses: run by tests/python-package-t.sh."""
import asyncio
import contextlib
import ctypes
import gc
import io
import multiprocessing
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import threading
import warnings

from tap import diag, done_testing, is_, ok, plan, raises

import tidemark
from tidemark._library import library
from tidemark._use import compose, limit_text


# A thread makes the first call of all, which loads the library, while the process forks.
EARLY_FORK = '''
import os, signal, threading, tidemark
for step in range(20):
    held = threading.Event(), threading.Event()
    lock = tidemark._library._lock
    def hold():
        with lock:
            held[0].set()
            held[1].wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held[0].wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        tidemark.stats()
        os._exit(0)
    held[1].set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0
'''


# Threads that hold the interpreter's lock ask for the stack at once, which wants call stacks of Python.
FIRST_STACK = '''
import os, signal, sys, threading, tidemark
signal.alarm(20)
sys.setswitchinterval(1e-5)
use = tidemark.use('log(gil.db, overwrite=true, callstack=python) | sim(capacity=1GiB)')
gate = threading.Barrier(3)
def run():
    gate.wait()
    for step in range(300):
        tidemark.allocate(4096)
threads = [threading.Thread(target=run) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
use.end()
'''


# Interrupts at any moment of blocks and generators with tags: none leaves a tag, in the package or in the library.
INTERRUPTED = '''
import os, signal, sys, threading, time, tidemark
from tidemark._library import library
from tidemark._tags import current
tidemark.use('host')
# Python itself says on standard error that an interrupt came while an object was finalized.
sys.unraisablehook = lambda seen: seen.exc_type is KeyboardInterrupt or sys.__unraisablehook__(seen)
@tidemark.tag('generator')
def generate():
    with tidemark.tag('in'):
        yield 1
    yield 2
def work():
    with tidemark.tag('a'):
        pass
    with tidemark.tag('a'), tidemark.tag('b'):
        tidemark.free(tidemark.allocate(10))
    for _ in generate():
        pass
done = []
def interrupt():
    for _ in range(300):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(.002)
    done.append(True)
left = interrupts = 0
thread = threading.Thread(target=interrupt)
while not done:
    try:
        if not thread.ident:
            thread.start()
        while not done:
            work()
    except KeyboardInterrupt:
        interrupts += 1
    try:
        left += bool(current()) or library().tide_tag_depth() != 0
    except KeyboardInterrupt:
        pass
print(left, interrupts > 50, current(), library().tide_tag_depth())
'''


# A file that cannot grow beyond some size is as a full disk. What is said of it goes to stderr.
FULL_DISK = '''
import resource, sys, time, tidemark, warnings
warnings.simplefilter('always')
with tidemark.trace(sys.argv[1], stack='host', overwrite=True):
    tidemark.free(tidemark.allocate(1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
    for step in range(200000):
        tidemark.free(tidemark.allocate(100 + step))
    if len(sys.argv) > 2:
        time.sleep(3)
        print('still in it', file=sys.stderr)
print('goes on', file=sys.stderr)
'''


# A child of fork() that allocates before its parent does, from a stack that neither has made yet.
CHILD_FIRST = '''
import os, sys, tidemark
use = tidemark.trace('first.d/x.db', stack='host').start() if len(sys.argv) < 2 else tidemark.use()
pid = os.fork()
for step in range(20 if pid else 10):
    tidemark.free(tidemark.allocate(2000 if pid else 1000))
if pid:
    assert os.waitpid(pid, 0)[1] == 0
'''


def allocate(size, stream=0):
    pointer = ctypes.c_void_p()
    library().tide_bridge_allocate(0, size, stream, pointer)
    return pointer.value


def free(pointer, stream=0):
    library().tide_bridge_deallocate(pointer, stream)


def touch(size):
    free(allocate(size))


def rows(path, query):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


PATHS = '''WITH RECURSIVE path(tag_id, text) AS (
    SELECT tag_id, name FROM tag WHERE parent_tag_id IS NULL
    UNION ALL SELECT tag.tag_id, path.text || '/' || tag.name FROM tag JOIN path ON tag.parent_tag_id = path.tag_id)
    SELECT size, text FROM allocation LEFT JOIN path USING (tag_id) ORDER BY size'''


def tags_of(path):
    """Under which tag each size was allocated."""
    return dict(rows(path, PATHS))


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def child(text, **environment):
    """What a Python program of its own says, and its status."""
    done = subprocess.run([sys.executable, '-W', 'error', '-c', text], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})
    return done.returncode, (done.stdout + done.stderr).strip()


def test_library():
    is_(child('import tidemark, sys, pathlib; print([m for m in ("torch", "cupy", "numba", "tidemark._modules") if m in '
              'sys.modules], *(name in pathlib.Path("/proc/self/maps").read_text() for name in ("libcuda", "libtidemark")))')[1], '[] False False', 'import tidemark loads no framework, no driver and not even its library')
    status, said = child('import tidemark; tidemark.stats()', TIDEMARK_LIBRARY='/nowhere/libtidemark.so.0')
    ok(status == 1 and 'tidemark.LibraryError' in said and '/nowhere/libtidemark.so.0' in said,
       'a library that is not there is an error that names it')
    status, said = child('import tidemark\ntry: tidemark.stats()\nexcept ImportError as e: print(e)',
                         TIDEMARK_LIBRARY=ctypes.util.find_library('c'))
    ok(status == 0 and 'is no Tidemark' in said, 'another library under that name is an error')
    status, said = child('import tidemark\nfrom tidemark import _library\n_library.__version__ = "7.1.0"\n'
                         'try: tidemark.stats()\nexcept tidemark.Error as e: print(e)')
    ok(status == 0 and 'is Tidemark 0.1' in said and 'this package is 7.1.0' in said,
       'a library of another version is an error that names both')
    failure = pickle.loads(pickle.dumps(tidemark.OutOfMemoryError('text', 4, 'TIDE_ELIMIT')))
    is_((str(failure), failure.status, failure.status_name), ('text', 4, 'TIDE_ELIMIT'), 'errors can be pickled')
    with open(os.path.join(os.path.dirname(tidemark.__file__), 'py.typed')) as marker:
        is_(marker.read(), '', 'the package is marked as typed')


def test_errors():
    raises(ValueError, "limit", lambda: tidemark.use('limit('), 'wrong stack text is a ValueError')
    failure = raises(tidemark.Error, 'column', lambda: tidemark.use('limit(4x) | host'),
                     'wrong stack text raises the words of the library')
    is_(failure.status_name, 'TIDE_ESYNTAX', 'an error says which status it is')
    raises(TypeError, 'int', lambda: tidemark.use(7), 'stack text that is no text is a TypeError')
    raises(ValueError, 'NUL', lambda: tidemark.use('host\0'), 'a NUL in stack text is a ValueError')
    raises(ValueError, "'auto'", lambda: tidemark.use('host', mode='both'), 'a mode that is none names those that are')
    with tidemark.use('limit(1MiB) | host'):
        failure = raises(MemoryError, 'limit: 2 MiB request exceeds 1 MiB limit', lambda: allocate(2 << 20),
                         'what a limit refuses is a MemoryError with the words of the layer')
        ok(isinstance(failure, tidemark.OutOfMemoryError), 'and that is a tidemark.OutOfMemoryError')
        raises(tidemark.Error, '', lambda: free(4096), 'a free of a foreign address is an error')
        is_(allocate(0), None, 'a request of 0 bytes is no address and no error')
        raises(ValueError, 'no address', lambda: tidemark.free(1 << 64), 'a number that is no address is a ValueError')
        raises(TypeError, '', lambda: tidemark.free('x'), 'a text in place of an address is a TypeError')
        raises(ValueError, 'handle', lambda: tidemark.allocate(8, stream=-1), 'a stream below 0 is a ValueError')
    raises(ValueError, 'above 0', lambda: tidemark.trace('zero.db', limit='0 GiB'), 'a limit of 0 is a ValueError')
    before = tidemark.stats()
    with tidemark.use('fault(every=1) | host'):
        raises(MemoryError, '', lambda: allocate(16), 'a stack that refuses everything raises')
    is_(tidemark.stats().live_bytes, before.live_bytes, 'refusals leave nothing behind')


def test_use():
    outer = tidemark.use('host')
    block = allocate(100)
    inner = tidemark.use('limit(1KiB) | host')
    raises(MemoryError, 'limit', lambda: allocate(2000), 'the use that began last serves')
    raises(tidemark.UsageError, 'limit(1KiB)', outer.end, 'an outer use cannot end before the inner one')
    inner.end()
    inner.end()
    free(allocate(2000))
    ok(True, 'after its end the use around it serves, and a second end does nothing')
    outer.end()
    free(block)
    is_(tidemark.stats().live_bytes, 0, 'a block outlives its use, and goes back afterwards')
    status, said = child('import tidemark\nimport ctypes\nfrom tidemark._library import library\nwith tidemark.use():\n'
                         '    library().tide_bridge_allocate(0, 9000, 0, ctypes.c_void_p())',
                         TIDEMARK_STACK='limit(1KiB) | host')
    ok('limit: 9000 B' in said or 'exceeds 1 KiB limit' in said, 'use() without a text is the stack of TIDEMARK_STACK')


def test_trace():
    for path in ('plain.db', 'with a "quote" and \\ and | bars.db', 'ü-\udcff.db'):
        with tidemark.trace(path, stack='host') as trace:
            free(allocate(100))
        is_(rows(os.fsencode(path), 'SELECT size FROM allocation'), [(100,)],
            f'a trace is written to {ascii(path)}, and complete at the end of the block')
    raises(tidemark.Error, 'exists', tidemark.trace('plain.db', stack='host').start,
           'a trace that exists is not replaced')
    with tidemark.trace('plain.db', stack='host', overwrite=True):
        free(allocate(200))
    is_(rows('plain.db', 'SELECT size FROM allocation'), [(200,)], 'with overwrite=True it is replaced')
    raises(tidemark.Error, 'no folder', tidemark.trace('nowhere/x.db', stack='host').start,
           'a folder that is not there is an error at the start')
    with tidemark.trace('first.db', stack='host'):
        raises(tidemark.UsageError, 'first.db', tidemark.trace('second.db', stack='host').start,
               'a second trace at the same time is an error that names the first')
        free(allocate(300))
    is_(len(rows('first.db', 'SELECT * FROM allocation')), 1, 'and the first one goes on')
    with tidemark.trace('limited.db', limit='1 KiB', stack='host'):
        raises(MemoryError, 'limit', lambda: allocate(2000), 'limit= refuses what exceeds it')
    is_(rows('limited.db', 'SELECT count(*) FROM failure'), [(1,)], 'and the refusal is in the trace')
    for wrong in ('4 gigs', '', '-1', 0, -5, True, 2.5, '1GiB) | host', None.__class__):
        raises(ValueError, 'limit=', lambda: tidemark.trace('x.db', limit=wrong, stack='host'),
               f'limit={wrong!r} is a ValueError')
    is_([limit_text('4GiB'), limit_text(' 4 GB '), limit_text('50%'), limit_text(7)], ['4GiB', '4GB', '50%', '7'],
        'limits are sizes, shares and bytes')
    is_(compose('x.db', '1GiB', 'host', {'cupti': 'off', 'overwrite': True, 'callstack': None})[0],
        'log("x.db", cupti="off", overwrite="true") | limit(1GiB) | host', 'a trace is stack text')
    with tidemark.trace('text.db', stack='host') as trace:
        free(allocate(10))
    ok('cupti="off"' in trace.text, 'a trace leaves CUPTI to profilers of the program')
    raises(ValueError, "tidemark.trace(): log: argument 'nonsense'",
           tidemark.trace('x.db', stack='host', nonsense=1).start, 'an option that the layer log has not is an error')
    for path in ('x.db', 'größe \udcff.db'):
        raises(ValueError, 'stack text, column 7: limit', tidemark.trace(path, stack='limit(4x) | host').start,
               f'the column of an error is that of the text that the program has given, also beside {ascii(path)}')
    with tidemark.trace('share.db', stack='host', limit='50%', overwrite=True):
        failure = raises(ValueError, 'limit=: limit', lambda: allocate(1), 'an error of limit= names that')
    ok('column' not in str(failure), 'and no column of a text that the program has not written')
    for wrong in ({'stack': 5}, {'overwrite': 'yes'}, {'callstack': True}, {'callstack': 3.5}, {'callstack': ['python']}):
        raises(TypeError, f'{[*wrong][0]}= is', lambda: tidemark.trace('x.db', **wrong), f'{wrong} is a TypeError')
    raises(tidemark.Error, 'the folder /proc cannot be written', tidemark.trace('/proc/x.db', stack='host').start,
           'a folder that takes no files is the reason that is given')
    raises(tidemark.Error, 'name too long', tidemark.trace('x' * 300, stack='host').start,
           'a name that is too long is an error at the start')
    ok(not os.path.exists('x.db'), 'no trace is left behind by wrong arguments')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        with tidemark.trace('empty.db', stack='host'):
            pass
        unused = tidemark.trace('never.db', stack='host')
        del unused
        gc.collect()
    is_([('nothing was allocated' in str(w.message), 'never started' in str(w.message)) for w in caught],
        [(True, False), (False, True)], 'a trace without allocations and one that never started say so')

    @tidemark.trace('decorated.db', stack='host')
    def work():
        free(allocate(400))

    work()
    is_(rows('decorated.db', 'SELECT size FROM allocation'), [(400,)], 'a trace is a decorator, too')
    kept = []
    with tidemark.trace('kept.db', stack='host'):
        kept.append(allocate(500))
    is_(rows('kept.db', 'SELECT size, free_ns FROM allocation'), [(500, None)],
        'a block that is live at the end is live in the trace')
    free(kept.pop())
    status, said = child('import tidemark, ctypes\nfrom tidemark._library import library\n'
                         'tidemark.trace("exit.db", stack="host").start()\n'
                         'library().tide_bridge_allocate(0, 600, 0, ctypes.c_void_p())')
    is_((status, said, rows('exit.db', 'SELECT size FROM allocation')), (0, '', [(600,)]),
        'a trace that is never stopped is complete when the program has ended')


def test_tags():
    with tidemark.trace('tags.db', stack='host'):
        with tidemark.tag('outer'):
            touch(1000)
            with tidemark.tag('inner'):
                touch(1001)
            try:
                with tidemark.tag('raises'):
                    raise KeyError
            except KeyError:
                touch(1002)
            in_thread(lambda: touch(1003))
        touch(1004)

        @tidemark.tag('function')
        def function(depth):
            touch(1005 + depth)
            if depth < 2:
                function(depth + 1)

        function(0)

        @tidemark.tag('steps')
        def steps():
            touch(1010)
            with tidemark.tag('within'):
                yield 1
                touch(1011)
            got = yield 2
            touch(got)

        generator = steps()
        with tidemark.tag('consumer'):
            next(generator)
            touch(1012)
        next(generator)
        touch(1013)
        with contextlib.suppress(StopIteration):
            generator.send(1014)
        with tidemark.tag('a\nb\udcff'):
            touch(1015)
        same = tidemark.tag('again')
        with same, same:
            touch(1016)

        def undecorated():
            with tidemark.tag('generator'):
                yield

        generator = undecorated()
        next(generator)
        with tidemark.tag('across'):
            generator.close()
            touch(1017)
        touch(1018)
    seen = tags_of('tags.db')
    is_([seen[size] for size in range(1000, 1005)], ['outer', 'outer/inner', 'outer', None, None],
        'tags nest, end with their block and with an exception, and are of their thread')
    is_([seen[size] for size in (1005, 1006, 1007)], ['function', 'function/function', 'function/function/function'],
        'a tag is a decorator, also of a function that calls itself')
    is_([seen[size] for size in range(1010, 1015)],
        ['consumer/steps', 'steps/within', 'consumer', None, 'steps'],
        'a decorated generator has its tag while it runs, and only then')
    is_([seen[1015], seen[1016]], ['a\nb\\udcff', 'again/again'],
        'a name that is no UTF-8 is escaped, and one tag can be entered twice')
    is_([seen[1017], seen[1018]], ['across', None], 'a block that ends inside another takes its own tag alone away')
    interrupted = [child(INTERRUPTED) for turn in range(2)]
    is_(interrupted, [(0, '0 True () 0')] * 2, 'no interrupt leaves a tag, whenever it comes')

    class Methods:
        @tidemark.tag('method')
        @staticmethod
        def static(size):
            touch(size)

        @tidemark.tag('method')
        @classmethod
        def of_class(cls, size):
            touch(size)
            return cls

        @tidemark.tag('method')
        @staticmethod
        def steps(size):
            touch(size)
            yield size

    with tidemark.trace('methods.db', stack='host'):
        Methods.static(1100)
        Methods().static(1101)
        is_(Methods.of_class(1102), Methods, 'a class method with a tag gets its class')
        list(Methods.steps(1103))
    is_(tags_of('methods.db'), dict.fromkeys(range(1100, 1104), 'method'), 'static and class methods can have a tag')
    for wrong in (5, property(len), Methods):
        raises(TypeError, 'decorates functions', lambda: tidemark.tag('x')(wrong), f'a tag on {type(wrong).__name__} is a '
               'TypeError')
    with tidemark.trace('inherited.db', stack='host'):
        async def later():
            await asyncio.sleep(0)
            with tidemark.tag('step'):
                touch(1200)

        async def begin():
            with tidemark.tag('begun in'):
                running = asyncio.ensure_future(later())
            gc.collect()
            await running

        asyncio.run(begin())
    is_(tags_of('inherited.db'), {1200: 'begun in/step'}, 'a task keeps the tags that it was begun under')
    raises(ValueError, 'empty', lambda: tidemark.tag(''), 'a tag without a name is a ValueError')
    raises(ValueError, 'NUL', lambda: tidemark.tag('a\0b'), 'a tag with a NUL is a ValueError')
    raises(TypeError, 'bytes', lambda: tidemark.tag(b'a'), 'a tag that is no str is a TypeError')

    async def asynchronous():
        yield

    raises(TypeError, 'asynchronous generator', lambda: tidemark.tag('x')(asynchronous),
           'an asynchronous generator cannot be decorated, and the error says what to do')


def test_tasks():
    async def task(name, size):
        with tidemark.tag(name):
            await asyncio.sleep(0)
            with tidemark.tag('step'):
                touch(size)
            await asyncio.sleep(0)

    @tidemark.tag('decorated')
    async def decorated(size):
        for turn in range(3):
            touch(size + turn)
            with tidemark.tag('within'):
                await asyncio.sleep(0)
                touch(size + 10 + turn)
        return size

    async def failing():
        @tidemark.tag('failing')
        async def inner():
            try:
                await asyncio.sleep(10)
            finally:
                touch(2300)

        running = asyncio.ensure_future(inner())
        await asyncio.sleep(0)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    async def main():
        results = await asyncio.gather(task('a', 2000), task('b', 2001), decorated(2100), decorated(2200))
        await failing()
        touch(2400)
        return results

    with tidemark.trace('tasks.db', stack='host'):
        results = asyncio.run(main())
        touch(2401)
    seen = tags_of('tasks.db')
    is_([seen[2000], seen[2001]], ['a/step', 'b/step'], 'tasks of asyncio that take turns have a nesting each')
    is_([seen[size] for size in (2100, 2112, 2201, 2212)],
        ['decorated', 'decorated/within'] * 2, 'a decorated coroutine has its tags whenever it runs')
    is_((results, seen[2300]), ([None, None, 2100, 2200], 'failing'),
        'a decorated coroutine returns what it returns, and is cancelled as it would be')
    is_([seen[2400], seen[2401]], [None, None], 'tasks leave no tag behind')


def test_phase():
    with tidemark.trace('phase.db', stack='host'):
        with tidemark.phase('warm-up'):
            in_thread(lambda: touch(3000))
            with tidemark.tag('own'):
                touch(3001)
            first, second = tidemark.phase('first').begin(), tidemark.phase('second').begin()
            touch(3002)
            first.end()
            touch(3003)
            second.end()
            second.end()
            touch(3004)
        touch(3005)
        tidemark.mark('epoch 3')
    seen = tags_of('phase.db')
    is_([seen[3000], seen[3001]], ['warm-up', 'own'], 'threads without a tag of their own have the phase')
    is_([seen[size] for size in range(3002, 3006)], ['second', 'second', 'warm-up', None],
        'of several phases the last one counts, in whatever order they end')
    is_(rows('phase.db', 'SELECT text FROM mark'), [('epoch 3',)], 'a mark is in the trace')
    raises(ValueError, 'NUL', lambda: tidemark.mark('a\0'), 'a mark with a NUL is a ValueError')


def begun_twice():
    with tidemark.peak() as peak:
        peak.__enter__()


def test_figures():
    with tidemark.use('host'):
        before = tidemark.stats()
        held = allocate(1000)
        with tidemark.peak() as outer:
            free(held)
            with tidemark.peak() as inner:
                blocks = [allocate(100) for _ in range(5)]
                for block in blocks:
                    free(block)
            held = allocate(700)
        is_((outer.bytes, outer.left, outer.count, outer.total), (0, -300, 6, 1200),
            'a peak counts from what was live before, and what is freed of that')
        is_((inner.bytes, inner.left, inner.count, inner.total), (500, 0, 5, 500), 'peaks nest')
        first, second = tidemark.peak(), tidemark.peak()
        first.__enter__()
        one = allocate(50)
        second.__enter__()
        two = allocate(70)
        first.__exit__(None, None, None)
        free(two)
        free(one)
        second.__exit__(None, None, None)
        is_((first.bytes, first.left), (120, 120), 'of two that cross each other the first is whole')
        is_((second.bytes, second.left, second.total), (70, -50, 70), 'and so is the second')
        raises(tidemark.UsageError, 'begun already', begun_twice,
               'a peak that has begun cannot begin again')
        with tidemark.tag('x'):
            tagged = allocate(300)
        is_([(entry.tag, entry.bytes, entry.count) for entry in tidemark.live()], [('', 700, 1), ('x', 300, 1)],
            'live() has what is live by tag, the most first')
        after = tidemark.stats('cuda:0')
        is_((after.live_bytes - before.live_bytes, tidemark.used()), (1000, 1000), 'stats() and used() tell what is live')
        tidemark.reset_peak()
        is_(tidemark.stats().peak_bytes, 1000, 'reset_peak() lets the peak begin again')
        free(tagged)
        free(held)
        tidemark.trim()
        for wrong, kind in (('cpu', ValueError), ('cuda:x', ValueError), (1.5, TypeError), (99, tidemark.Error),
                            (-1, tidemark.Error)):
            raises(kind, '', lambda: tidemark.stats(wrong), f'stats({wrong!r}) is a {kind.__name__}')


def test_profile():
    with tidemark.use('host'):
        @tidemark.profile
        def outer():
            block = allocate(1000)
            inner()
            free(block)

        @tidemark.profile(name='inner')
        def inner():
            free(allocate(3 << 20))

        with tidemark.profile('a\x1b[31m\nb\u202e'):
            pass
        is_(tidemark.profile.report().splitlines()[1].split()[-1], 'a\\x1b[31m\\nb\\u202e',
            'no name in a report reaches the terminal as a control')
        tidemark.profile.reset()
        outer()
        outer()
        with tidemark.profile('block'):
            free(allocate(10))
        records = {record.name: record for record in tidemark.profile.records()}
        top = records.pop('__main__.test_profile.<locals>.outer')
        is_((top.calls, top.peak, top.total, top.allocations), (2, 1000 + (3 << 20), 2 * (1000 + (3 << 20)), 4),
            'a profile of a function has its calls, the peak of one, and the sums')
        is_({name: (record.calls, record.peak) for name, record in records.items()},
            {'inner': (2, 3 << 20), 'block': (1, 10)}, 'functions and blocks can be given a name')
        file = io.StringIO()
        text = tidemark.profile.report(file)
        is_(text, file.getvalue(), 'a report goes to a file, too')
        is_(text.splitlines()[2:], ['   3 MiB    6 MiB           2     2 inner', '    10 B     10 B           1     1 block'],
            'the table has the highest peak first')
        raises(TypeError, 'name', lambda: tidemark.profile().__enter__(), 'a block without a name is a TypeError')
        raises(TypeError, 'int', lambda: tidemark.profile(3), 'a profile of a number is a TypeError')
        tidemark.profile.reset()
        is_(tidemark.profile.records(), [], 'reset() empties the table')

        @tidemark.profile
        async def coroutine():
            block = allocate(40)
            await asyncio.sleep(0)
            free(block)

        asyncio.run(coroutine())
        is_(tidemark.profile.records()[0].peak, 40, 'a coroutine is accounted to its end')
        tidemark.profile.reset()


def spawned(path):
    with tidemark.trace(path, stack='host'), tidemark.tag('spawned'):
        free(allocate(4001))


def test_processes():
    with tidemark.trace('parent-%p.db', stack='host'):
        with tidemark.tag('parent'), tidemark.phase('phase'), tidemark.peak():
            free(allocate(4000))
            pid = os.fork()
            if pid == 0:
                try:
                    with tidemark.tag('child'), tidemark.peak() as p:
                        free(allocate(4002))
                    with tidemark.trace('forked.db', stack='host'):
                        free(allocate(4003))
                    os._exit(p.bytes != 4002)
                except BaseException as failure:
                    print('#', failure, flush=True)
                    os._exit(2)
            is_(os.waitpid(pid, 0)[1], 0, 'a forked process goes on with tags and peaks')
    is_(rows(f'parent-{os.getpid()}.db', 'SELECT size FROM allocation'), [(4000,)],
        'the trace of the process that forked has its own allocations')
    is_(rows('forked.db', 'SELECT size FROM allocation'), [(4003,)], 'a forked process can begin a trace of its own')
    process = multiprocessing.get_context('spawn').Process(target=spawned, args=('spawned.db',))
    process.start()
    process.join(60)
    is_((process.exitcode, tags_of('spawned.db')), (0, {4001: 'spawned'}), 'a spawned process can record, too')
    os.mkdir('first.d')
    for turn, text in (('a trace', None), ('TIDEMARK_STACK', 'log(first.d/x.db, overwrite=true) | host')):
        status, said = child(CHILD_FIRST.replace('len(sys.argv) < 2', str(text is None)), TIDEMARK_STACK=text or '')
        names = sorted(os.listdir('first.d'))
        is_((status, said, [rows(f'first.d/{name}', 'SELECT DISTINCT size, count(*) FROM allocation') for name in names]),
            (0, '', [[(1000, 10)], [(2000, 20)]]), f'of {turn} a child that allocates first takes no name from its parent')
        ok(bool(re.fullmatch(r'x-\d+\.db', names[0])) and names[1] == 'x.db', 'its own has the process in the name')
        for name in names:
            os.unlink(f'first.d/{name}')
    forked_early = subprocess.run([sys.executable, '-c', EARLY_FORK], timeout=60)
    is_(forked_early.returncode, 0, 'a child of fork() beside the first call of another thread goes on')
    process = multiprocessing.get_context('fork').Process(target=lambda: [free(allocate(10)) for _ in range(10)])
    with tidemark.use('host'):
        process.start()
        process.join(60)
    is_(process.exitcode, 0, 'a forked worker ends as it would')


def manual_mistakes():
    """Programs of doc/python.md that do not compile, and names in them that the package has not."""
    with open(os.path.join(os.environ['top_srcdir'], 'doc', 'python.md')) as manual:
        blocks = [block.split('\n', 1)[1] for block in manual.read().split('```') if block[:6] == 'python']
    wrong = [] if len(blocks) > 5 else ['there are few programs']
    for block in blocks:
        try:
            compile('\n'.join(line for line in block.split('\n') if line[:8] != '@pytest.'), 'doc/python.md', 'exec')
        except SyntaxError as failure:
            wrong.append(f'{failure}: {block}')
        wrong += [name for name in re.findall(r'\btidemark\.(\w+)', block) if name not in tidemark.__all__]
    return wrong


def test_manual():
    is_(manual_mistakes(), [], 'every program of doc/python.md compiles, with names that the package has')
    public = {name: getattr(tidemark, name) for name in tidemark.__all__ if name not in ('cupy', 'numba')}
    is_([name for name, value in public.items() if not getattr(value, '__doc__', None)], [],
        'every public name says what it is')


def test_full_disk():
    tidemark_command = os.path.join(os.path.dirname(os.path.dirname(os.environ['TIDEMARK_LIBRARY'])), 'tidemark')
    for arguments, order in ((['full.db', 'wait'], 'while the program runs'), (['full-2.db'], 'by the end of the block')):
        done = subprocess.run([sys.executable, '-c', FULL_DISK, *arguments], capture_output=True, text=True, timeout=60)
        said = done.stderr.splitlines()
        told = [line for line in said if 'RuntimeWarning: tidemark: log: ' in line and 'full' in line]
        is_((done.returncode, len(told), said[-1]), (0, 1, 'goes on'),
            f'a recording that a full disk ends is said once, with the reason, {order}')
        if len(arguments) > 1:
            ok(said.index(told[0]) < said.index('still in it'), 'and it does not wait for the end')
    seen = subprocess.run([tidemark_command, 'summary', 'full.db'], capture_output=True, text=True, timeout=60)
    ok('incomplete; the recording failed, the program went on: log: ' in seen.stdout and 'killed' not in seen.stdout,
       'the summary of it names the reason, and no kill') or diag(seen.stdout)


def test_threads():
    made = [subprocess.run([sys.executable, '-c', FIRST_STACK], timeout=60).returncode for _ in range(4)]
    is_(made, [0] * 4, 'threads that hold the GIL make a stack with call stacks of Python together')
    failures = []

    def work(number):
        try:
            for turn in range(200):
                with tidemark.tag(f'thread {number}'), tidemark.peak(), tidemark.profile(f'work {number}'):
                    free(allocate(64 + turn))
        except BaseException as failure:
            failures.append(failure)

    with tidemark.use('pool | host'):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    is_((failures, tidemark.stats().live_bytes >= 0), ([], True), 'threads measure and tag at the same time')
    is_({record.name: record.calls for record in tidemark.profile.records()},
        {f'work {number}': 200 for number in range(4)}, 'and no call is missing in the profile')
    tidemark.profile.reset()


if __name__ == '__main__':
    import ctypes.util
    diag(f'Python {sys.version.split()[0]}')
    plan(131)
    for test in (test_library, test_errors, test_use, test_trace, test_tags, test_tasks, test_phase, test_figures,
                 test_profile, test_processes, test_full_disk, test_manual, test_threads):
        test()
    done_testing()
