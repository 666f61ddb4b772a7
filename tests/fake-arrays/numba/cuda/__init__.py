import importlib
import os
import types
import weakref

from .cudadrv import driver


class HostOnlyCUDAMemoryManager:
    def __init__(self, *args, context, **kwargs):
        self.context, self.allocations, self.late = context, {}, []

    def _attempt_allocation(self, allocator):
        try:
            return allocator()
        except driver.CudaAPIError as failure:
            if failure.code != 2:
                raise
            self.late.clear()  # the frees that were put off
            return allocator()


class MemoryPointer:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.context, self.device_pointer, self.size = context, pointer, size
        if finalizer is not None:
            self._finalizer = weakref.finalize(self, finalizer)


def set_memory_manager(manager):
    if driver.manager is not None:
        raise RuntimeError('a context is there already')
    driver._memory_manager = manager


def current_context():
    if driver.manager is None:
        name = os.environ.get('NUMBA_CUDA_MEMORY_MANAGER', 'default')
        if driver._memory_manager is None and name != 'default':
            set_memory_manager(importlib.import_module(name)._numba_memory_manager)
        driver.manager = driver._memory_manager(context=types.SimpleNamespace(device=types.SimpleNamespace(id=0)))
        driver.manager.initialize()
        assert driver.manager.interface_version == 1
        from .cudadrv import devices
        devices._runtime.gpus.lst = [types.SimpleNamespace(primary_context=driver.manager.context)]
    return driver.manager


def device_array(nbytes):
    return current_context().memalloc(nbytes)
