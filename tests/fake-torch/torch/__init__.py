"""As much of PyTorch as bench/torch's workload `blocks` needs, over the fake CUDA driver: tests/bench-torch-t.sh."""
import ctypes
import os
import types

__version__ = '0-fake'
version = types.SimpleNamespace(cuda='0')
uint8 = 'uint8'
driver = ctypes.CDLL('libcuda.so.1')
allocator = None
live, peak, calls = 0, 0, 0

if driver.cuInit(0) == 0 and os.environ.get('FAKE_TORCH_NO_GPU') is None:
    devices = 1
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
else:
    devices = 0


class Tensor:
    def __init__(self, size):
        global live, peak, calls
        self.size, self.pointer = size, ctypes.c_uint64()
        if allocator:
            self.pointer.value = allocator.alloc(size, 0, None) or 0
        elif size and driver.cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(size)):
            raise MemoryError('CUDA out of memory.')
        live, calls = live + size, calls + 1
        peak = max(peak, live)

    def __del__(self):
        global live
        if allocator:
            allocator.free(self.pointer.value, self.size, 0, None)
        elif self.size:
            driver.cuMemFree_v2(self.pointer)
        live -= self.size


def empty(size, dtype, device):
    assert (dtype, device) == (uint8, 'cuda')
    return Tensor(size)


def manual_seed(seed):
    pass


def set_float32_matmul_precision(precision):
    assert precision == 'high'


class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.alloc, self.free = getattr(library, alloc), getattr(library, free)
        self.alloc.argtypes, self.alloc.restype = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None


def change_current_allocator(chosen):
    global allocator
    allocator = chosen


def mem_get_info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value


def memory_stats():
    return {'requested_bytes.all.peak': peak, 'allocation.all.allocated': calls, 'reserved_bytes.all.current': live,
            'reserved_bytes.all.peak': peak, 'num_device_alloc': calls, 'num_device_free': 0}


def memory_snapshot():
    return [{'is_expandable': 'expandable_segments:True' in os.environ.get('PYTORCH_CUDA_ALLOC_CONF', '')}]


cuda = types.SimpleNamespace(
    is_available=lambda: devices > 0, get_device_name=lambda device: 'fake', synchronize=lambda: None,
    mem_get_info=mem_get_info, memory_stats=memory_stats, memory_snapshot=memory_snapshot,
    memory=types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator,
                                 change_current_allocator=change_current_allocator))
