"""How much is allocated: figures now, peaks of blocks of a program, what is live by tag, and a profile of functions."""
from __future__ import annotations

import ctypes
import dataclasses
import operator
import os
import sys
import threading
from typing import IO, Any, Callable, Dict, List, NamedTuple, Optional, Union, overload

from ._library import ArgumentError, Figures, LiveFunction, TIDE_EINVAL, UsageError, library, shown
from ._tags import Decorated, around


def current_device() -> int:
    """The CUDA ordinal that this process works on, without starting CUDA: that of PyTorch or CuPy where one has chosen
    it, else LOCAL_RANK as torchrun sets it, else 0."""
    torch = sys.modules.get('torch')
    cuda = getattr(torch, 'cuda', None)
    if cuda is not None and getattr(cuda, 'is_initialized', bool)():
        return int(cuda.current_device())
    rank = os.environ.get('LOCAL_RANK', '')
    return int(rank) if rank.isascii() and rank.isdigit() else 0


def device_number(device: Any) -> int:
    """The ordinal of what frameworks call a device: None, 1, "cuda:1", torch.device("cuda", 1), cupy.cuda.Device(1)."""
    if device is None:
        return current_device()
    if isinstance(device, str):
        kind, _, number = device.partition(':')
        if kind != 'cuda' or not (number.isdigit() or device == 'cuda'):
            raise ValueError(f'no CUDA device: {device!r}')
        return int(number) if number else current_device()
    if isinstance(device, int):
        if not 0 <= device < 1 << 31:
            raise ArgumentError(f'no CUDA device: {device}', TIDE_EINVAL, 'TIDE_EINVAL')
        return int(device)
    for name in ('index', 'id'):
        ordinal: Any = getattr(device, name, _missing)
        if ordinal is None:
            return current_device()
        if isinstance(ordinal, int):
            return ordinal
    raise TypeError(f'no CUDA device: {device!r}')


_missing = object()


class Stats(NamedTuple):
    """Figures of one device, over all stacks that served it in this process."""

    live_bytes: int  # as requested, like all but reserved_bytes
    peak_bytes: int  # the most that was live, since the start or reset_peak()
    total_bytes: int
    live_count: int
    allocations: int
    frees: int
    failures: int
    reserved_bytes: int  # what the stacks hold of the device, as far as they know


def stats(device: Any = None) -> Stats:
    """Figures of a device: what is live, the peak, the numbers of calls, and what the stack's base has reserved."""
    figures = Figures()
    library().tide_bridge_read(device_number(device), figures)
    return Stats(*(getattr(figures, name) for name in Stats._fields))


def used(device: Any = None) -> int:
    """The live bytes of a device."""
    return stats(device).live_bytes


def reset_peak(device: Any = None) -> None:
    """Let the peak that stats() tells begin again at what is live now."""
    library().tide_bridge_reset_peak(device_number(device))


def trim(device: Any = None) -> None:
    """Return what the stack of a device keeps for later requests, as torch.cuda.empty_cache() does."""
    library().tide_bridge_trim(device_number(device))


def _word(value: int, what: str) -> int:
    """A number that fits into a pointer: ctypes would cut off the rest, and take the address of a text."""
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise ArgumentError(f'no {what}: {number}', TIDE_EINVAL, 'TIDE_EINVAL')
    return number


def allocate(nbytes: int, stream: int = 0, device: Any = None) -> int:
    """Allocate from the stack in use, in the order of a stream (its handle): the address, 0 for 0 bytes. For libraries
    that take functions of Python as their allocator."""
    size, pointer = operator.index(nbytes), ctypes.c_void_p()
    if not 0 <= size < 1 << 63:
        raise ArgumentError(f'no size of an allocation: {size}', TIDE_EINVAL, 'TIDE_EINVAL')
    library().tide_bridge_allocate(device_number(device), size, _word(stream, 'handle of a stream'), pointer)
    return pointer.value or 0


def free(pointer: int, stream: int = 0) -> None:
    """Free what allocate() gave out, after the work that was submitted to the stream. 0 is fine."""
    library().tide_bridge_deallocate(_word(pointer, 'address'), _word(stream, 'handle of a stream'))


@dataclasses.dataclass(frozen=True)
class Live:
    """What is live of one tag: `tag` is the path of nested tags, "" what was allocated under none."""

    tag: str
    bytes: int
    count: int


def live(device: Any = None) -> List[Live]:
    """What is live on a device now, by tag, the most bytes first."""
    found: List[Live] = []

    def note(context: Any, path: Optional[bytes], size: int, count: int) -> None:
        found.append(Live((path or b'').decode('utf-8', 'replace'), size, count))

    library().tide_bridge_live(device_number(device), LiveFunction(note), None)
    return sorted(found, key=lambda entry: (-entry.bytes, entry.tag))


class _Block:
    """Counters of a block that is open on a device, with what they were before they had to be set anew."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.begin_bytes: Optional[int] = None
        self.live_bytes = self.peak_bytes = self.total_bytes = self.allocations = 0

    def add(self, figures: Figures) -> None:
        if self.begin_bytes is None:
            self.begin_bytes = figures.begin_bytes
        self.peak_bytes = max(self.peak_bytes, figures.begin_bytes - self.begin_bytes + figures.peak_bytes)
        self.live_bytes = figures.live_bytes - self.begin_bytes
        self.total_bytes += figures.total_bytes
        self.allocations += figures.allocations


_blocks_lock = threading.Lock()
_blocks: Dict[int, List[_Block]] = {}  # by device, the innermost last, as the library has their counters


def _open(device: int) -> _Block:
    with _blocks_lock:
        library().tide_bridge_push(device)
        block = _Block(device)
        _blocks.setdefault(device, []).append(block)
        return block


def _close(block: _Block) -> None:
    """End a block. Where others have begun after it and not ended, as threads and tasks do, theirs end first and begin
    again; what is allocated in between, for some microseconds, is not theirs."""
    with _blocks_lock:
        opened = _blocks.get(block.device, [])
        if block not in opened:
            return
        figures = Figures()
        inner: List[_Block] = []
        while True:
            library().tide_bridge_pop(block.device, figures)
            ended = opened.pop()
            ended.add(figures)
            if ended is block:
                break
            inner.append(ended)
        for again in reversed(inner):
            library().tide_bridge_push(block.device)
            opened.append(again)


class peak:
    """The peak of a block: ``with tidemark.peak() as p:``, then ``p.bytes`` above what was live when it began.

    After the block `bytes` is its peak, `count` the number of its allocations, `total` their bytes, and `left` how much
    more is live than before; below 0 where it freed more than it allocated. What other threads allocate meanwhile
    counts, too.
    """

    bytes = 0
    count = 0
    total = 0
    left = 0

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._block: Optional[_Block] = None

    def __enter__(self) -> 'peak':
        if self._block is not None:
            raise UsageError('this tidemark.peak() has begun already: make another one')
        self._block = _open(device_number(self._device))
        return self

    def __exit__(self, *exception: Any) -> None:
        block, self._block = self._block, None
        if block is None:
            return
        _close(block)
        self.bytes, self.count = block.peak_bytes, block.allocations
        self.total, self.left = block.total_bytes, block.live_bytes


class Record(NamedTuple):
    """A row of a profile: a function or a block, over all its calls. Bytes; `peak` is the highest of one call."""

    name: str
    calls: int
    peak: int
    total: int
    allocations: int


_records_lock = threading.Lock()
_records: Dict[str, Record] = {}


class _Profiled:
    def __init__(self, name: str, device: Any) -> None:
        self._name, self._peak = name, peak(device)

    def __enter__(self) -> '_Profiled':
        self._peak.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._peak.__exit__()
        seen = self._peak
        with _records_lock:
            old = _records.get(self._name, Record(self._name, 0, 0, 0, 0))
            _records[self._name] = Record(self._name, old.calls + 1, max(old.peak, seen.bytes), old.total + seen.total,
                                          old.allocations + seen.count)


class _Profile:
    """Account functions and blocks: ``@tidemark.profile``, ``@tidemark.profile("name")``, and
    ``with tidemark.profile("block"):``. The table is ``tidemark.profile.report()``.

    The peak of a function is that above what was live at its call; an inner one counts in the outer one, too.
    """

    @overload
    def __call__(self, function: Decorated) -> Decorated: ...

    @overload
    def __call__(self, function: Optional[str] = None, *, name: Optional[str] = None,
                 device: Any = None) -> 'NamedProfile': ...

    def __call__(self, function: Union[Callable[..., Any], str, None] = None, *, name: Optional[str] = None,
                 device: Any = None) -> Any:
        if callable(function):
            return NamedProfile(name, device)(function)
        if function is not None and not isinstance(function, str):
            raise TypeError(f'tidemark.profile takes a function or a name, not {type(function).__name__}')
        return NamedProfile(function or name, device)

    def records(self) -> List[Record]:
        """The rows of the table, the highest peak first."""
        with _records_lock:
            return sorted(_records.values(), key=lambda record: (-record.peak, record.name))

    def reset(self) -> None:
        with _records_lock:
            _records.clear()

    def report(self, file: Optional[IO[str]] = None) -> str:
        """The table as text; also written to `file` where one is given."""
        rows = [('PEAK', 'TOTAL', 'ALLOCATIONS', 'CALLS', 'FUNCTION')]
        rows += [(size_text(record.peak), size_text(record.total), str(record.allocations), str(record.calls),
                  shown(record.name)) for record in self.records()]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        text = ''.join(' '.join(cell.rjust(width) for cell, width in zip(row, widths)) + f' {row[4]}\n' for row in rows)
        if file is not None:
            file.write(text)
        return text


class NamedProfile:
    """A profile under a name: a context manager and a decorator."""

    def __init__(self, name: Optional[str], device: Any) -> None:
        self._name, self._device = name, device
        self._open: List[_Profiled] = []

    def __enter__(self) -> None:
        if self._name is None:
            raise TypeError('a block has no name of its own: with tidemark.profile("name"):')
        self._open.append(_Profiled(self._name, self._device).__enter__())

    def __exit__(self, *exception: Any) -> None:
        self._open.pop().__exit__()

    def __call__(self, function: Decorated) -> Decorated:
        module = getattr(function, '__module__', None) or '?'
        name = self._name or f'{module}.{getattr(function, "__qualname__", repr(function))}'
        return around(function, lambda: _Profiled(name, self._device))


profile = _Profile()


def size_text(size: int) -> str:
    """As the command writes sizes: 12.89 GiB, 64 MiB, 512 B."""
    amount, units = float(size), ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']
    while abs(amount) >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    digits = f'{amount:.0f}' if amount == int(amount) else f'{amount:.2f}'
    return f'{digits} {units[0]}'


def _after_fork() -> None:
    global _blocks_lock, _records_lock
    _blocks_lock, _records_lock = threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
