"""use() and trace(): which stack serves this process, and which frameworks are told to allocate there."""
from __future__ import annotations

import ctypes
import errno
import importlib
import importlib.abc
import os
import re
import sys
import threading
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _library, _messages
from ._library import (ArgumentError, Error, TIDE_EEXIST, TIDE_EINVAL, TIDE_EIO, UsageError, library, text_bytes)
from ._memory import current_device, stats
from ._tags import Decorated, around

MODES = ('auto', 'pluggable', 'mempool', 'none')

Undo = Callable[[], None]

# The module that a program imports, and the one here that leads its allocations into the stack in use.
_FRAMEWORKS = {'torch': 'tidemark.torch', 'cupy': 'tidemark.cupy', 'numba.cuda': 'tidemark.numba'}

# What tide_stack_default says, without asking the device: CUDA must not start before the program starts it.
DEFAULT_STACK = 'pool | vmm(fallback=driver)'

_lock = threading.RLock()
_uses: List['use'] = []
_starting: Optional['use'] = None


def check_mode(mode: str) -> str:
    if mode not in MODES:
        raise ArgumentError(f"mode={mode!r}: there are {', '.join(repr(word) for word in MODES)}", TIDE_EINVAL,
                            'TIDE_EINVAL')
    return mode


def _stack_bytes(text: str) -> bytes:
    return text_bytes(text, 'stack text', 'surrogateescape')  # as paths have what is no UTF-8


class _Loader(importlib.abc.Loader):
    """Loads a framework as its own loader does, and then leads it into the stack in use."""

    def __init__(self, name: str, inner: Any) -> None:
        self._name, self._inner = name, inner

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        with _lock:
            if not _uses:
                return
            try:
                _uses[-1]._install(self._name)
            except Exception as failure:  # an import must not fail for it
                warnings.warn(f'tidemark does not see the memory of {self._name}: {failure}', stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Notices the import of a framework while a stack is in use."""

    def __init__(self) -> None:
        self._busy = threading.local()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in _FRAMEWORKS or not _uses or getattr(self._busy, 'name', None):
            return None
        self._busy.name = name  # other finders may ask all finders in turn, as that of numba-cuda does
        try:
            spec = self._find(name, path, target)
        finally:
            self._busy.name = None
        if spec is not None and hasattr(spec.loader, 'exec_module'):
            spec.loader = _Loader(name, spec.loader)
        return spec

    def _find(self, name: str, path: Any, target: Any) -> Any:
        for finder in list(sys.meta_path):
            find = getattr(finder, 'find_spec', None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                return spec
        return None


_finder = _Finder()


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, '__spec__', None)
    return module is not None and not getattr(spec, '_initializing', False)


class use:
    """Have PyTorch, CuPy and Numba allocate from a stack, described by its text: ``tidemark.use("limit(8GiB) | pool |
    vmm")``. Without a text it is that of the environment variable TIDEMARK_STACK, else the stack that takes the least
    of the device.

    It holds from the call to ``end()``, or to the end of a ``with`` block over it, or to the end of the program.
    Frameworks that are imported later follow when they are. `mode` is how PyTorch is led there: "pluggable" (each
    tensor comes from the stack, PyTorch's own allocator and its statistics are off; only before the first CUDA tensor),
    "mempool" (PyTorch's allocator gets its segments from the stack), "auto" (pluggable where it still can be), or
    "none" (no framework is touched).
    """

    # Where in a text that is put together the limit and the program's own text begin; None: all of it is that.
    columns: Optional[Tuple[int, int]] = None

    def __init__(self, text: Optional[str] = None, *, mode: str = 'auto') -> None:
        self._undo: Dict[str, Undo] = {}
        self._alive = False
        self._is_made = False
        self.mode = check_mode(mode)
        self.text = text
        if text is None and not os.environ.get('TIDEMARK_STACK') and _serves_segments(mode):
            self.text = 'cuda'
        self._begin()

    def _begin(self) -> None:
        global _starting
        with _lock:
            _starting = self
            try:
                library().tide_bridge_use(None if self.text is None else _stack_bytes(self.text))
            finally:
                _starting = None
            self._alive = True
            _uses.append(self)
            try:
                if self.mode != 'none' and _finder not in sys.meta_path:
                    sys.meta_path.insert(0, _finder)
                for name in _FRAMEWORKS:
                    if _is_imported(name):
                        self._install(name)
            except BaseException:
                self.end()
                raise

    def _install(self, name: str) -> None:
        if self.mode == 'none' or name in self._undo:
            return
        if any(name in outer._undo for outer in _uses if outer is not self):
            return  # it allocates there already, whichever stack is in use
        undo = importlib.import_module(_FRAMEWORKS[name])._install(self.mode)
        if undo is not None:
            self._undo[name] = undo

    def _make(self) -> None:
        """Make the stack now, if it records: a mark has its place in a trace that is there."""
        if self._is_made or 'log' not in (self.text or os.environ.get('TIDEMARK_STACK') or ''):
            return
        self._is_made = True
        stack = ctypes.c_void_p()
        try:
            library().tide_bridge_stack(current_device(), stack)
        except Error:
            return  # the first allocation will say it
        library().tide_resource_release(stack)

    def end(self) -> None:
        """Go back to the stack that was in use before; traces of this one are complete when it returns."""
        with _lock:
            if not self._alive:
                return
            if _uses[-1] is not self:
                raise UsageError(f'end what was begun later first: {_uses[-1]!r}')
            for undo in reversed(list(self._undo.values())):
                undo()
            self._undo.clear()
            self._alive = False
            _uses.pop()
            if not _uses and _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
            library().tide_bridge_end()

    def __enter__(self) -> 'use':
        return self

    def __exit__(self, *exception: Any) -> None:
        self.end()

    def __repr__(self) -> str:
        return f'tidemark.use({self.text!r})'


def takes_python_stacks() -> bool:
    """Whether allocations are noted with frames of Python; a path may have the word, too."""
    return bool(_uses) and 'python' in (_uses[-1].text or os.environ.get('TIDEMARK_STACK') or '')


def count_of_uses() -> int:
    """How many uses are open."""
    return len(_uses)


def end_uses_above(count: int) -> List[str]:
    """End the uses and the trace that were begun when `count` of them were open already; answers what they are."""
    ended: List[str] = []
    with _lock:
        while len(_uses) > count:
            latest = _uses[-1]
            ended.append(repr(latest))
            if _tracing is not None and _tracing._use is latest:
                _tracing.stop()
            else:
                latest.end()
    return ended


def mark(text: str) -> None:
    """Put a point in time with a text, such as "epoch 3", into the trace that is recorded now, if any. The first one
    starts CUDA, where no tensor has."""
    encoded = text_bytes(text, 'the text of a mark')
    with _lock:
        if _uses:
            _uses[-1]._make()
    library().tide_mark(encoded)


def _serves_segments(mode: str) -> bool:
    """Whether PyTorch's own allocator stays, above the stack."""
    if mode == 'auto' and 'torch' in sys.modules:
        return bool(importlib.import_module('tidemark.torch').is_native())
    return mode == 'mempool'


def default_text(mode: str) -> str:
    """The stack of this process where nobody chooses one."""
    for used in reversed(_uses):
        if used.text:
            return used.text
    return os.environ.get('TIDEMARK_STACK') or ('cuda' if _serves_segments(mode) else DEFAULT_STACK)


_SIZE = re.compile(r'(\d+(?:\.\d+)?)\s*([KMGTPE]i?B|B|%)?', re.ASCII)


def limit_text(limit: Union[int, str]) -> str:
    """A size or a share as stack text has it: 4294967296, "4GiB", "4 GB" (GB is 1000^3), "50%"."""
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return str(limit)
    match = _SIZE.fullmatch(limit.strip()) if isinstance(limit, str) else None
    if match is None or float(match.group(1)) == 0:
        raise ArgumentError(f'limit={limit!r}: expected a number of bytes above 0, or a size such as "4GiB"',
                            TIDE_EINVAL, 'TIDE_EINVAL')
    return match.group(1) + (match.group(2) or '')


def quoted(text: str) -> str:
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


def compose(path: str, limit: Union[int, str, None], stack: str, options: Dict[str, Any]) -> Tuple[str, Tuple[int, int]]:
    """The text of a stack that records into `path`; the columns at which its limit and `stack` begin, from 0."""
    words = [quoted(path)]
    for key, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = 'true' if value else 'false'
        words.append(f'{key}={quoted(str(value))}')
    log = f'log({", ".join(words)}) | '
    limited = log + (f'limit({limit_text(limit)}) | ' if limit is not None else '')
    return limited + stack, (_columns(log), _columns(limited))


def _columns(text: str) -> int:
    """As the library counts them: the bytes that begin a character of UTF-8."""
    return sum(byte & 0xc0 != 0x80 for byte in text.encode('utf-8', 'surrogateescape'))


_COLUMN = re.compile('stack text, column ([1-9][0-9]*)')


def _explain(text: str) -> str:
    """The words of the library for what the program has given: its columns are those of a text that is put together."""
    found, used = _COLUMN.search(text), _starting or (_uses[-1] if _uses else None)
    if found is None or used is None or used.columns is None:
        return text
    column, (limit, stack) = int(found.group(1)), used.columns
    place = f'stack text, column {column - stack}' if column > stack else 'limit=' if column > limit else 'tidemark.trace()'
    return text[:found.start()] + place + text[found.end():]


_library.explain = _explain


def _check_path(path: str, overwrite: bool) -> None:
    """Say now what would else come with the first allocation, amid the program."""
    folder = os.path.dirname(path) or '.'
    if '%' not in folder and not os.path.isdir(folder):
        raise Error(f'log: {path}: there is no folder {folder}', TIDE_EIO, 'TIDE_EIO')
    if '%' not in folder:
        _check_folder(folder, path)
    if '%' in path:
        return
    try:
        os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as failure:
        raise Error(f'log: {path}: {failure.strerror}', TIDE_EIO, 'TIDE_EIO') from None
    if not overwrite:
        raise Error(f'log: {path} exists already: choose another path, or overwrite=True', TIDE_EEXIST, 'TIDE_EEXIST')


def _check_folder(folder: str, path: str) -> None:
    """What a folder says of its rights is not all: that of /proc can be written by root, and takes no file."""
    probe = os.path.join(folder, f'.tidemark-{os.getpid()}-{os.urandom(8).hex()}')
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.unlink(probe)
    except OSError as failure:
        reason = 'it takes no new files' if failure.errno == errno.ENOENT else failure.strerror
        raise Error(f'log: {path}: the folder {folder} cannot be written: {reason}', TIDE_EIO, 'TIDE_EIO') from None


def _check_types(stack: Any, overwrite: Any, callstack: Any) -> None:
    if stack is not None and not isinstance(stack, str):
        raise TypeError(f'stack= is stack text, a str, not {type(stack).__name__}')
    if not isinstance(overwrite, bool):
        raise TypeError(f'overwrite= is True or False, not {overwrite!r}')
    if callstack is not None and (isinstance(callstack, bool) or not isinstance(callstack, (int, str))):
        raise TypeError(f'callstack= is "python", "mixed" or a number of frames, not {callstack!r}')


_tracing: Optional['trace'] = None


class trace:
    """Record what is allocated into a trace: ``with tidemark.trace("x.db"):``, or ``tidemark.trace("x.db").start()``
    to the end of the program. ``tidemark peak x.db`` then says what stood at the peak.

    `limit` refuses what would take a device past it, as "4GiB", "50%" or bytes. `stack` is what serves the allocations,
    as stack text; without it the stack that is in use, and in MemPool mode cuMemAlloc. `mode` is that of use().
    `callstack` records who called: "python", "mixed", or a number of native frames. Other options of the layer `log`
    are named as in stack text: ``overwrite=True``, ``cupti="calls"`` (PyTorch's profiler then works no more).
    """

    def __init__(self, path: Union[str, 'os.PathLike[str]'], limit: Union[int, str, None] = None,
                 stack: Optional[str] = None, mode: str = 'auto', *, callstack: Union[int, str, None] = None,
                 overwrite: bool = False, cupti: str = 'off', **options: Any) -> None:
        self._use: Optional[use] = None
        self._started = True  # until all of it is right
        self.path = os.fsdecode(os.fspath(path))
        self.limit = limit
        self.stack = stack
        self.mode = check_mode(mode)
        self.options: Dict[str, Any] = {'cupti': cupti, 'overwrite': True if overwrite else None,
                                        'callstack': callstack, **options}
        text_bytes(self.path, 'the path of a trace')
        self.text = ''
        _check_types(stack, overwrite, callstack)
        compose(self.path, limit, stack or '', self.options)
        self._started = False

    def start(self) -> 'trace':
        """Begin to record. Errors of the path and of the text come now."""
        global _tracing
        self._started = True
        with _lock:
            if _tracing is not None:
                raise UsageError(f'{_tracing.path} is being recorded: a process records one trace at a time; end that '
                                 'one first')
            _check_path(self.path, bool(self.options['overwrite']))
            self.text, columns = compose(self.path, self.limit, self.stack or default_text(self.mode), self.options)
            self._allocations = stats_of_all()
            _messages.listen()
            self._use = _traced(self.text, self.mode, columns)
            _tracing = self
        return self

    def stop(self) -> None:
        """End the recording: the trace is complete when it returns."""
        global _tracing
        with _lock:
            if self._use is None:
                return
            self._use.end()
            self._use = None
            _tracing = None
        _messages.say(3)
        if stats_of_all() == self._allocations:
            warnings.warn(f'nothing was allocated through Tidemark while {self.path} was recorded, so it was not '
                          'written', stacklevel=3)

    def __enter__(self) -> 'trace':
        return self.start()

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def __call__(self, function: Decorated) -> Decorated:
        self._started = True
        options = {**self.options, 'overwrite': bool(self.options['overwrite'])}
        return around(function, lambda: trace(self.path, self.limit, self.stack, self.mode, **options))

    def __del__(self) -> None:
        if not getattr(self, '_started', True):
            warnings.warn(f'tidemark.trace({self.path!r}) was never started: use it with `with`, or call its start()',
                          ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f'tidemark.trace({self.path!r})'


class _traced(use):
    """The use of a trace, whose text is put together."""

    def __init__(self, text: str, mode: str, columns: Tuple[int, int]) -> None:
        self.columns = columns
        super().__init__(text, mode=mode)


def stats_of_all() -> int:
    """How many allocations were asked for, on the devices that this process uses."""
    figures = [stats(device) for device in range(64)]
    return sum(each.allocations + each.failures for each in figures)


def _after_fork() -> None:
    global _lock, _tracing
    _lock = threading.RLock()
    _tracing = None  # it records into a trace of its own, if at all, and may begin another one


os.register_at_fork(after_in_child=_after_fork)

