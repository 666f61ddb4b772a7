"""Numba: its device arrays from the stack in use.

``NUMBA_CUDA_MEMORY_MANAGER=tidemark.numba python script.py``, or ``numba.cuda.set_memory_manager(
tidemark.numba.MemoryManager)`` before the first use of the device, which ``tidemark.use()`` and ``tidemark.trace()`` do
where numba.cuda is imported. Host memory stays Numba's. Importing this module imports numba.cuda.
"""
from __future__ import annotations

import ctypes
import importlib
import warnings
from typing import Any, Callable, Dict, Optional

from ._library import CUDA_ERROR_OUT_OF_MEMORY, OutOfMemoryError, UsageError, library
from ._use import Undo, check_mode

cuda: Any = importlib.import_module('numba.cuda')
_driver: Any = importlib.import_module('numba.cuda.cudadrv.driver')


def _device_pointer(address: int) -> Any:
    """An address in the type that this Numba takes: of cuda-bindings where it uses them."""
    if getattr(_driver, 'USE_NV_BINDING', True):
        for name in ('cuda.bindings.driver', 'cuda.cuda'):
            try:
                return importlib.import_module(name).CUdeviceptr(address)
            except ImportError:
                continue
    return ctypes.c_void_p(address)


def _finalizer(address: int, allocations: Dict[int, int]) -> Callable[[], None]:
    free = library().tide_bridge_deallocate

    def finalize() -> None:
        # A reset of the context has emptied the table, but not taken the block back.
        allocations.pop(address, None)
        free(address, 0)

    return finalize


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """Numba's interface of external memory managers over the stack in use. Memory is that of the default stream."""

    def initialize(self) -> None:
        """Nothing to do: stacks are made with the first allocation."""

    def memalloc(self, size: int) -> Any:
        device = self.context.device.id
        pointer = ctypes.c_void_p()

        def allocate() -> None:
            try:
                library().tide_bridge_allocate(device, size, 0, pointer)
            except OutOfMemoryError as refusal:
                raise _driver.CudaAPIError(CUDA_ERROR_OUT_OF_MEMORY, str(refusal)) from refusal

        attempt = getattr(self, '_attempt_allocation', None)
        if attempt is None:
            allocate()
        else:
            attempt(allocate)  # once more after the frees that Numba has put off
        address = pointer.value or 0
        finalizer = None
        if address:
            self.allocations[address] = size
            finalizer = _finalizer(address, self.allocations)
        return cuda.MemoryPointer(self.context, _device_pointer(address), size, finalizer=finalizer)

    def get_ipc_handle(self, memory: Any) -> Any:
        raise NotImplementedError('memory from a stack of Tidemark cannot be shared with other processes by Numba')

    def get_memory_info(self) -> Any:
        raise NotImplementedError('a stack may hold memory that the device does not count as free: tidemark.stats()')

    @property
    def interface_version(self) -> int:
        return 1


_numba_memory_manager = MemoryManager


def _has_context() -> bool:
    devices = importlib.import_module('numba.cuda.cudadrv.devices')
    contexts = getattr(getattr(devices, '_runtime', None), 'gpus', None)
    started = getattr(contexts, 'lst', ()) if contexts is not None else ()
    return any(getattr(gpu, '_gpu', gpu) and getattr(gpu, 'primary_context', None) for gpu in started)


def install(mode: str = 'auto') -> Optional[Undo]:
    """Make Numba allocate from the stack in use, to the end of the process. `mode` is PyTorch's."""
    check_mode(mode)
    manager = getattr(_driver, '_memory_manager', None)
    if manager is MemoryManager:
        return None
    if manager is not None and _has_context():
        late = 'Numba has used CUDA before: import tidemark and begin its use before, or set ' \
               'NUMBA_CUDA_MEMORY_MANAGER=tidemark.numba'
        if mode == 'auto':
            warnings.warn(f'tidemark does not see the memory of Numba: {late}', stacklevel=4)
            return None
        raise UsageError(late)
    cuda.set_memory_manager(MemoryManager)
    return None


_install = install
