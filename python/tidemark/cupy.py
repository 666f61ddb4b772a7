"""CuPy: its arrays from the stack in use.

``tidemark.use()`` and ``tidemark.trace()`` install this allocator where CuPy is imported. By hand, as with other
allocators of CuPy: ``cupy.cuda.set_allocator(tidemark.cupy.allocator)``. CuPy's own pool is then out of the way: have a
`pool` in the stack.
"""
from __future__ import annotations

import ctypes
import importlib
from typing import Any, Optional

from ._library import Error, OutOfMemoryError, library
from ._use import Undo


def _cupy() -> Any:
    return importlib.import_module('cupy')


class _Owner:
    """Frees a block with the last array that uses it, in the order of the stream that it was allocated on."""

    __slots__ = ('pointer', 'stream', '_free')

    def __init__(self, pointer: int, stream: int, free: Any) -> None:
        self.pointer, self.stream, self._free = pointer, stream, free

    def __del__(self) -> None:
        try:
            self._free(self.pointer, self.stream)
        except Error:
            if self.stream:  # destroyed with its Stream object, so its work is done or waited for by the default stream
                self._free(self.pointer, 0)


def allocator(nbytes: int) -> Any:
    """Allocate for CuPy: a cupy.cuda.MemoryPointer to `nbytes` bytes of the current device, on the current stream."""
    cuda = _cupy().cuda
    tide = library()
    device, stream = cuda.runtime.getDevice(), cuda.get_current_stream().ptr
    pointer = ctypes.c_void_p()
    try:
        tide.tide_bridge_allocate(device, nbytes, stream, pointer)
    except OutOfMemoryError as refusal:
        raise _out_of_memory(nbytes, device, refusal) from refusal
    address = pointer.value or 0
    owner = _Owner(address, stream, tide.tide_bridge_deallocate) if address else None
    return cuda.MemoryPointer(cuda.UnownedMemory(address, nbytes, owner, device), 0)


def _out_of_memory(nbytes: int, device: int, refusal: Exception) -> BaseException:
    from ._memory import stats

    kind = getattr(_cupy().cuda.memory, 'OutOfMemoryError', None)
    if kind is None:
        return refusal
    raised: BaseException = kind(nbytes, stats(device).live_bytes)
    raised.args = (f'{raised} ({refusal})',)
    return raised


def install(mode: str = 'auto') -> Optional[Undo]:
    """Make CuPy allocate from the stack in use; the answer puts back the allocator of before. `mode` is PyTorch's."""
    cuda = _cupy().cuda
    get = getattr(cuda, 'get_allocator', None)
    before = get() if get is not None else _cupy().get_default_memory_pool().malloc
    cuda.set_allocator(allocator)

    def undo() -> None:
        cuda.set_allocator(before)

    return undo


_install = install
