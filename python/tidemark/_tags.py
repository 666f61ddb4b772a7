"""Tags and phases: what a program says of itself in its traces."""
from __future__ import annotations

import contextvars
import functools
import inspect
import os
import threading
import weakref
from typing import Any, Callable, List, Optional, Tuple, TypeVar, Union, cast

from ._library import ArgumentError, TIDE_EINVAL, library, text_bytes

Path = Tuple[bytes, ...]
Decorated = TypeVar('Decorated', bound=Callable[..., Any])

_path: contextvars.ContextVar[Path] = contextvars.ContextVar('tidemark_tags', default=())


class _Owner(weakref.ref):  # type: ignore[type-arg]
    """What brings the end of a tag: a tag in a `with`, or a decorated generator."""

    has_ended = False  # as it should; a task that was begun before keeps the tag


class _Name(bytes):
    """The name of a tag that has an owner.

    An interrupt (Ctrl-C) can come when a `with` block has ended and its `__exit__` has not begun. Then nobody brings
    the end of the tag. Its owner is dropped with the exception, and the tag is taken away: `_lost`.
    """

    owner: _Owner

    @classmethod
    def of(cls, name: bytes, owner: Any) -> '_Name':
        made = cls(name)
        made.owner = _Owner(owner, _lost)
        return made


def _is_stray(name: bytes) -> bool:
    return isinstance(name, _Name) and not name.owner.has_ended and name.owner() is None


_strays = False  # there was a lost tag


def _lost(owner: _Owner) -> None:
    """An owner is no more."""
    global _strays
    if not owner.has_ended:
        _strays = True  # it may be that of another thread or task, which takes it away at its next tag
        move_to(current())


class _Thread(threading.local):
    # What the library has of this thread's tags, by this module. In a list, what it has at least: an exception came
    # between a call of the library and the note of it.
    pushed: Union[Path, List[Path]] = ()
    around = 0  # how many tags were there before: of C code that has called Python


_thread = _Thread()


def current() -> Path:
    """The tags of this context, the outermost first."""
    path = _path.get()
    if _strays and any(_is_stray(name) for name in path):
        path = tuple(name for name in path if not _is_stray(name))
    return path


def _recover(pushed: Path) -> Path:
    """Bring the library to what it has at least."""
    tide = library()
    more = tide.tide_tag_depth() - _thread.around - len(pushed)
    for _ in range(more):
        tide.tide_tag_pop()
    return pushed[:len(pushed) + more] if more < 0 else pushed


def move_to(path: Path) -> None:
    """Make `path` the tags of this context and of this thread in the library.

    Pops and pushes what differs, so that whatever was left behind by an exception, or by another task of the same
    thread, goes with it.
    """
    _path.set(path)
    thread = _thread
    pushed = thread.pushed
    if isinstance(pushed, list):
        pushed = thread.pushed = _recover(pushed[0])
    if pushed == path:
        return
    tide = library()
    if not pushed:
        thread.around = tide.tide_tag_depth()
    common = len(pushed)
    if path[:common] != pushed:  # not just a tag more
        common = len(path)
        if pushed[:common] != path:  # nor one less
            common = 0
            while pushed[common] == path[common]:
                common += 1
    thread.pushed = [path[:common]]
    for _ in range(len(pushed) - common):
        tide.tide_tag_pop()
    for name in path[common:]:
        tide.tide_tag_push(name)
    thread.pushed = path


def move_back(path: Path) -> None:
    """move_to() while an exception is on its way: what interrupts it is not told, too."""
    for _ in range(100):
        try:
            move_to(path)
            return
        except KeyboardInterrupt:
            continue


def tag_bytes(name: str) -> bytes:
    """The name of a tag for C. Nothing can be found under an empty one."""
    encoded = text_bytes(name, 'the name of a tag')
    if not encoded:
        raise ArgumentError('the name of a tag is empty', TIDE_EINVAL, 'TIDE_EINVAL')
    return encoded


class _Steps:
    """Runs a generator, or what a coroutine awaits, each step of it under its tags, which end while it waits."""

    def __init__(self, name: bytes) -> None:
        self._first = _Name.of(name, self)
        self._mine: Path = (self._first,)

    def _step(self, function: Any, *arguments: Any) -> Any:
        outer = current()
        try:
            move_to(outer + self._mine)
            result = function(*arguments)
            now = current()
            if now[:len(outer)] == outer:
                self._mine = now[len(outer):]  # tags that began in this step and go on after it
            move_to(outer)
            return result
        except BaseException:
            move_back(outer)
            raise

    def run(self, generator: Any) -> Any:
        """What `yield from generator` does."""
        function, arguments = next, (generator,)  # type: Any, Tuple[Any, ...]
        while True:
            try:
                yielded = self._step(function, *arguments)
            except StopIteration as end:
                self._first.owner.has_ended = True
                return end.value
            try:
                sent = yield yielded
            except GeneratorExit:
                if hasattr(generator, 'close'):
                    self._step(generator.close)
                self._first.owner.has_ended = True
                raise
            except BaseException as thrown:  # is thrown to where the generator waits
                if not hasattr(generator, 'throw'):
                    raise
                function, arguments = generator.throw, (thrown,)
            else:
                function, arguments = (next, (generator,)) if sent is None else (generator.send, (sent,))


class _Awaited:
    def __init__(self, coroutine: Any, name: bytes) -> None:
        self._coroutine, self._name = coroutine, name

    def __await__(self) -> Any:
        return _Steps(self._name).run(self._coroutine.__await__())


def around(function: Decorated, make: Callable[[], Any]) -> Decorated:
    """The function inside the context that `make` makes for each call of it."""
    wrapped: Any
    if isinstance(function, (staticmethod, classmethod)):
        return cast(Decorated, type(function)(around(function.__func__, make)))
    if not callable(function) or isinstance(function, type):
        raise TypeError(f'tidemark decorates functions, not {function!r}')
    if inspect.isasyncgenfunction(function):
        raise TypeError(f'{function.__qualname__} is an asynchronous generator, which cannot be decorated: '
                        'use `with` inside of it')
    if inspect.iscoroutinefunction(function):

        async def wrapped(*arguments: Any, **named: Any) -> Any:
            with make():
                return await function(*arguments, **named)
    elif inspect.isgeneratorfunction(function):

        def wrapped(*arguments: Any, **named: Any) -> Any:
            with make():
                return (yield from function(*arguments, **named))
    else:

        def wrapped(*arguments: Any, **named: Any) -> Any:
            with make():
                return function(*arguments, **named)
    return cast(Decorated, functools.wraps(function)(wrapped))


def _tagged(function: Decorated, name: bytes) -> Optional[Decorated]:
    """A coroutine or generator function whose tag ends while it waits; None for others."""
    wrapped: Any
    if isinstance(function, (staticmethod, classmethod)):
        inner = _tagged(function.__func__, name)
        return cast(Decorated, type(function)(inner)) if inner is not None else None
    if inspect.iscoroutinefunction(function):

        async def wrapped(*arguments: Any, **named: Any) -> Any:
            return await _Awaited(function(*arguments, **named), name)
    elif inspect.isgeneratorfunction(function):

        def wrapped(*arguments: Any, **named: Any) -> Any:
            return (yield from _Steps(name).run(function(*arguments, **named)))
    else:
        return None
    return cast(Decorated, functools.wraps(function)(wrapped))


class tag:
    """Name what is allocated: ``with tidemark.tag("attention"):``, or ``@tidemark.tag("attention")``.

    Tags nest. Each thread has its own, and so has each task of asyncio: no tag is left behind, in whatever order tasks
    take turns. Since the library knows threads and not tasks, what a task allocates right after an ``await`` inside the
    block may be noted under the tag of the task that ran in between, until the next tag begins or ends. A decorated
    ``async def`` (or generator) has no such gap: its tag ends whenever it waits, and begins again when it goes on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._bytes = tag_bytes(name)

    def __enter__(self) -> 'tag':
        before = current()
        try:
            move_to(before + (_Name.of(self._bytes, self),))
            return self
        except BaseException:
            move_back(before)
            raise

    def __exit__(self, *exception: Any) -> None:
        path = current()
        for place in range(len(path) - 1, -1, -1):  # its own, wherever another task or generator has put it
            name = path[place]
            if isinstance(name, _Name) and name.owner() is self:
                rest = path[:place] + path[place + 1:]
                try:
                    move_to(rest)
                except BaseException:
                    move_back(rest)
                    raise
                finally:
                    name.owner.has_ended = True
                return

    def __call__(self, function: Decorated) -> Decorated:
        return _tagged(function, self._bytes) or around(function, lambda: tag(self.name))


_ambient_lock = threading.Lock()
_ambient: List[Tuple[object, bytes]] = []


def _ambient_change(change: Callable[[], Any]) -> None:
    with _ambient_lock:
        change()
        library().tide_tag_ambient(_ambient[-1][1] if _ambient else None)


class phase:
    """Name what threads without a tag of their own allocate: ``with tidemark.phase("warm-up"):``.

    A phase holds for the whole process, for instance for the threads on which PyTorch runs a backward. Of several the
    one that began last counts. Also a decorator; ``begin()`` and ``end()`` do it without a block.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._bytes = tag_bytes(name)
        self._keys: List[object] = []

    def begin(self) -> 'phase':
        key = object()
        self._keys.append(key)
        try:
            _ambient_change(lambda: _ambient.append((key, self._bytes)))
        except BaseException:
            self._forget(key)
            raise
        return self

    def end(self) -> None:
        if not self._keys:
            return
        key = self._keys[-1]
        _ambient_change(lambda: self._forget(key))

    def _forget(self, key: object) -> None:
        self._keys.remove(key)
        _ambient[:] = [entry for entry in _ambient if entry[0] is not key]

    def __enter__(self) -> 'phase':
        return self.begin()

    def __exit__(self, *exception: Any) -> None:
        self.end()

    def __call__(self, function: Decorated) -> Decorated:
        return around(function, lambda: phase(self.name))


def _after_fork() -> None:
    global _ambient_lock
    _ambient_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)

__all__ = ['tag', 'phase']
