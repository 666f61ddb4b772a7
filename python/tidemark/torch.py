"""PyTorch: its memory from a stack, its modules as tags, and its statistics where its own allocator is off."""
from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import _memory
from ._library import UsageError, library
from ._use import Undo, check_mode, mark, use

_SETTERS = (
    ('set_init_fn', 'tide_torch_init'),
    ('set_reset_fn', 'tide_torch_reset'),
    ('set_memory_fraction_fn', 'tide_torch_fraction'),
    ('set_base_alloc_fn', 'tide_torch_base'),
    ('set_record_stream_fn', 'tide_torch_record_stream'),
    ('set_begin_allocate_to_pool', 'tide_torch_begin'),
    ('set_end_allocate_to_pool_fn', 'tide_torch_end'),
    ('set_release_pool', 'tide_torch_release'),
)

_lock = threading.RLock()
_kept: List[Any] = []  # allocators that PyTorch holds addresses of, to the end of the process
_pluggable = False
_native = False  # PyTorch's own allocator has begun, and cannot be exchanged any more


def _torch() -> Any:
    return importlib.import_module('torch')


def is_pluggable() -> bool:
    """Whether each tensor of this process comes from the stack in use."""
    return _pluggable


def is_native() -> bool:
    """Whether PyTorch's own allocator serves this process, so that only MemPool mode is left."""
    torch = sys.modules.get('torch')
    if torch is None or _pluggable:
        return False
    return _native or bool(getattr(getattr(torch, 'cuda', None), 'is_initialized', bool)())


def _allocator(alloc: str, free: str) -> Any:
    """A torch.cuda.memory._CUDAAllocator over two functions of the library."""
    torch, tide = _torch(), library()
    make = getattr(torch._C, '_cuda_customAllocator', None)
    wrapper = getattr(torch.cuda.memory, '_CUDAAllocator', None)
    if make is not None and wrapper is not None:
        allocator = wrapper(make(tide.address(alloc), tide.address(free)))
    elif hasattr(torch.cuda.memory, 'CUDAPluggableAllocator'):
        allocator = torch.cuda.memory.CUDAPluggableAllocator(tide.path, alloc, free)
    else:
        raise UsageError(f'PyTorch {torch.__version__} has no CUDAPluggableAllocator: 2.0 or later is needed')
    _kept.append(allocator)
    return allocator


def _has_cuda(torch: Any) -> bool:
    return hasattr(torch._C, '_cuda_customAllocator') or getattr(torch.version, 'cuda', None) is not None


def _plug() -> bool:
    """Exchange PyTorch's allocator; False where it is too late for that."""
    global _pluggable, _native
    torch, tide = _torch(), library()
    allocator = _allocator('tide_torch_alloc', 'tide_torch_free')
    raw = allocator.allocator() if hasattr(allocator, 'allocator') else allocator
    for setter, function in _SETTERS:
        if hasattr(raw, setter):
            getattr(raw, setter)(tide.address(function))
    if not hasattr(raw, 'set_record_stream_fn'):
        warnings.warn(f'PyTorch {torch.__version__} cannot tell an allocator of Tensor.record_stream(): tensors that '
                      'two streams use need a synchronisation before they are freed', stacklevel=4)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as failure:
        if 'already initialized' not in str(failure):
            raise
        _native = True
        return False
    _pluggable = True
    return True


_LATE = ('PyTorch has used CUDA before, and its allocator cannot be exchanged any more. Call it right after the '
         'imports, before the first CUDA tensor')
_PLUGGED = 'PyTorch allocates from the stack in use already (pluggable mode), which has no MemPool'


def install(mode: str = 'auto') -> Optional[Undo]:
    """Have PyTorch allocate from the stack in use (`tidemark.use` and `tidemark.trace` do that). In MemPool mode the
    answer ends it; pluggable mode lasts to the end of the process, whichever stack is in use, and answers None."""
    check_mode(mode)
    torch = _torch()
    with _lock:
        if mode == 'none' or (_pluggable and mode != 'mempool'):
            return None
        if not _has_cuda(torch):
            if mode == 'auto':
                return None
            raise UsageError(f'PyTorch {torch.__version__} was built without CUDA')
        if mode == 'mempool':
            if _pluggable:
                raise UsageError(_PLUGGED)
            return _route(torch)
        if not _native and _plug():
            return None
        if mode == 'pluggable':
            raise UsageError(f"{_LATE}, or choose mode='mempool'")
        warnings.warn(f"tidemark: {_LATE}. Going on in MemPool mode: from now on the stack gets the segments of "
                      "PyTorch's allocator, and not its tensors", stacklevel=4)
        undo = _route(torch)
        mark("torch: MemPool mode, since PyTorch's allocator had begun before; blocks are segments, not tensors")
        return undo


_install = install


@contextlib.contextmanager
def _on(torch: Any, device: int) -> Iterator[None]:
    """Work on a device that may have no context yet, and needs none for this."""
    exchange = getattr(torch.cuda, '_maybe_exchange_device', None)
    if exchange is None:
        with torch.cuda.device(device):
            yield
        return
    before = exchange(device)
    try:
        yield
    finally:
        exchange(before)


def _devices(torch: Any) -> List[int]:
    """The devices that this process works on: all that it sees, or its own where a launcher gives each process one.
    Without the means to name a device that has no context yet, the current one."""
    current = _memory.device_number(None)
    count = getattr(torch.cuda, 'device_count', int)()
    if os.environ.get('LOCAL_RANK') or not hasattr(torch.cuda, '_maybe_exchange_device'):
        return [current]
    return [current, *(device for device in range(count) if device != current)]


class _Route:
    """All that PyTorch allocates on some devices comes from a MemPool each, but in the capture of a CUDA graph, which
    has a pool of its own."""

    def __init__(self, torch: Any, devices: List[int]) -> None:
        self._torch = torch
        if not torch.cuda.is_initialized():
            torch.cuda.init()  # pools are of an allocator that has begun
        raw = _allocator('tide_torch_segment_alloc', 'tide_torch_segment_free').allocator()
        self._everywhere = hasattr(torch._C, '_cuda_beginAllocateToPool')
        self.pools: Dict[int, Any] = {}
        for device in devices if self._everywhere else devices[:1]:
            with _on(torch, device):
                self.pools[device] = torch.cuda.MemPool(raw)
        self._begun: List[int] = []
        self._context: Any = None
        self._captures: List[Tuple[str, Any]] = []

    def begin(self) -> None:
        for device, pool in self.pools.items():
            if self._everywhere:  # on all threads, since those of the backward allocate, too
                self._torch._C._cuda_beginAllocateToPool(device, pool.id)
                self._begun.append(device)
            else:
                self._context = self._torch.cuda.use_mem_pool(pool, device)
                self._context.__enter__()

    def pause(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)
            self._context = None
            return
        C = self._torch._C
        end = getattr(C, '_cuda_endAllocateToPool', None) or C._cuda_endAllocateCurrentStreamToPool
        while self._begun:
            device = self._begun.pop()
            end(device, self.pools[device].id)
            C._cuda_releasePool(device, self.pools[device].id)

    def watch_captures(self) -> None:
        graph = getattr(self._torch.cuda, 'CUDAGraph', None)
        if graph is None or not self._everywhere:
            return
        for name, before, after in (('capture_begin', self.pause, None), ('capture_end', None, self.begin)):
            self._captures.append((name, graph.__dict__.get(name)))
            setattr(graph, name, _between(getattr(graph, name), before, after))

    def unwatch_captures(self) -> None:
        for name, own in self._captures:
            if own is None:
                delattr(self._torch.cuda.CUDAGraph, name)
            else:
                setattr(self._torch.cuda.CUDAGraph, name, own)
        self._captures.clear()

    def end(self) -> None:
        self.unwatch_captures()
        self.pause()
        self.pools.clear()
        self._torch.cuda.empty_cache()  # now the segments that hold no tensor go back


def _between(function: Callable[..., Any], before: Optional[Callable[[], None]],
             after: Optional[Callable[[], None]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before()
        try:
            return function(*arguments, **named)
        finally:
            if after is not None:
                after()

    return wrapped


def _route(torch: Any, device: Any = None) -> Undo:
    if not hasattr(torch.cuda, 'MemPool'):
        raise UsageError(f'PyTorch {torch.__version__} has no torch.cuda.MemPool: 2.5 or later is needed')
    route = _Route(torch, _devices(torch) if device is None else [_memory.device_number(device)])
    try:
        route.begin()
    except BaseException:
        route.pause()
        raise
    route.watch_captures()
    return route.end


class pool:
    """MemPool mode for a block: ``with tidemark.torch.pool("limit(4GiB) | cuda"):``. The segments of PyTorch's own
    allocator come from the stack, so its statistics stay, and what a limit refuses is a torch.OutOfMemoryError. On all
    devices that the process works on, unless `device` names one; each has a stack of its own."""

    def __init__(self, text: Optional[str] = 'cuda', device: Any = None) -> None:
        self._text, self._device = text, device
        self._use: Optional[use] = None
        self._undo: Optional[Undo] = None

    def __enter__(self) -> 'pool':
        self._use = use(self._text, mode='none')
        try:
            if _pluggable:
                raise UsageError(_PLUGGED)
            self._undo = _route(_torch(), self._device)
        except BaseException:
            self._use.end()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._undo is not None:
            self._undo()
        if self._use is not None:
            self._use.end()


# -- statistics -------------------------------------------------------------------------------------------------------


def _statistics(device: Any = None) -> Dict[str, int]:
    """As torch.cuda.memory_stats(), as far as the stack knows it."""
    seen = _memory.stats(device)
    flat: Dict[str, int] = {'num_ooms': seen.failures, 'num_alloc_retries': 0, 'num_device_alloc': 0,
                            'num_device_free': 0}
    freed = seen.total_bytes - seen.live_bytes
    for name in ('allocated_bytes', 'requested_bytes', 'active_bytes'):
        _spread(flat, name, seen.live_bytes, seen.peak_bytes, seen.total_bytes, freed)
    reserved = max(seen.reserved_bytes, seen.live_bytes)
    _spread(flat, 'reserved_bytes', reserved, max(reserved, seen.peak_bytes), reserved, 0)
    for name in ('allocation', 'active'):
        _spread(flat, name, seen.live_count, seen.live_count, seen.allocations, seen.frees)
    return dict(sorted(flat.items()))


def _spread(flat: Dict[str, int], name: str, current: int, peak: int, allocated: int, freed: int) -> None:
    for part, value in (('current', current), ('peak', peak), ('allocated', allocated), ('freed', freed)):
        flat[f'{name}.all.{part}'] = value


def _summary(device: Any = None, abbreviated: bool = False) -> str:
    seen = _memory.stats(device)
    rows = [('live', seen.live_bytes), ('peak', seen.peak_bytes), ('allocated', seen.total_bytes),
            ('reserved', seen.reserved_bytes)]
    return ''.join(f'{name:<10}{_memory.size_text(size):>12}\n' for name, size in rows) + (
        f'{seen.live_count} live of {seen.allocations} allocations, {seen.failures} refused\n')


def _statistic(name: str) -> Callable[..., int]:
    def read(device: Any = None) -> int:
        return _statistics(device)[name]

    return read


_STATISTICS: Dict[str, Callable[..., Any]] = {
    'memory_allocated': _statistic('allocated_bytes.all.current'),
    'max_memory_allocated': _statistic('allocated_bytes.all.peak'),
    'memory_reserved': _statistic('reserved_bytes.all.current'),
    'max_memory_reserved': _statistic('reserved_bytes.all.peak'),
    'memory_cached': _statistic('reserved_bytes.all.current'),
    'max_memory_cached': _statistic('reserved_bytes.all.peak'),
    'reset_peak_memory_stats': lambda device=None: _memory.reset_peak(device),
    'reset_max_memory_allocated': lambda device=None: _memory.reset_peak(device),
    'reset_max_memory_cached': lambda device=None: _memory.reset_peak(device),
    'memory_stats': _statistics,
    'memory_summary': _summary,
}


class Handle:
    """Undoes what made it, by remove() or as a `with` block."""

    def __init__(self, *undo: Undo) -> None:
        self._undo = list(undo)

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> 'Handle':
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def _replace(owner: Any, name: str, value: Any) -> Undo:
    """Set an attribute that is there; answers what puts it back, unless somebody else has replaced it since."""
    old = getattr(owner, name)
    setattr(owner, name, value)

    def undo() -> None:
        if getattr(owner, name) is value:
            setattr(owner, name, old)

    return undo


def patch_stats() -> Handle:
    """Let torch.cuda.max_memory_allocated() and the like answer from the stack, for programs that log them: in
    pluggable mode PyTorch's own raise an error. Sizes are as requested, where PyTorch counts multiples of 512 bytes."""
    torch = _torch()
    undo: List[Undo] = []
    for name, function in _STATISTICS.items():
        for owner in (torch.cuda.memory, torch.cuda):
            if hasattr(owner, name):
                undo.append(_replace(owner, name, functools.wraps(getattr(owner, name))(_whenever(name, function))))
    return Handle(*undo)


def _whenever(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    memory = _torch().cuda.memory
    own = getattr(memory, name, None)

    def answer(*arguments: Any, **named: Any) -> Any:
        if _pluggable or own is None:
            return function(*arguments, **named)
        return own(*arguments, **named)  # PyTorch's allocator is on, and knows better

    return answer


# -- modules as tags --------------------------------------------------------------------------------------------------


def tag_modules(model: Any, name: Optional[str] = None) -> Handle:
    """Name what a model allocates by its modules, with tags: ``forward/GPT/h.3/attn``, ``backward/GPT/h.3/attn``,
    ``parameters/GPT/h.3/attn`` where the model moves to the device afterwards (so call this before ``model.cuda()``),
    and ``optimizer/GPT/h.3/attn`` for what an optimizer keeps for its parameters; what else it allocates is
    ``optimizer``.

    `name` stands for the model, else its class. Nothing is attached to the model: it can be copied, pickled and
    changed. What is compiled by torch.compile is not looked into. The answer's ``remove()`` ends it.
    """
    from . import _modules

    return Handle(_modules.watch(_torch(), model, name))
