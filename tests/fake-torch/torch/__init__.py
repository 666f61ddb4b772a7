"""As much of PyTorch as bench/torch's workload `blocks` and the tests of the package need, over the fake CUDA driver.

The names, the order of calls that they allow and the words of their errors are PyTorch's; a tensor has a size and a
graph, and no numbers. FAKE_TORCH_VERSION=old is one without the private names of torch._C and without MemPool.
"""
import contextlib
import ctypes
import os
import types

__version__ = '0-fake'
version = types.SimpleNamespace(cuda='0')
uint8 = 'uint8'
old = os.environ.get('FAKE_TORCH_VERSION') == 'old'
driver = ctypes.CDLL('libcuda.so.1')
live, peak, calls = 0, 0, 0
initialized = False

ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
SEGMENT = 2 << 20

if driver.cuInit(0) == 0 and os.environ.get('FAKE_TORCH_NO_GPU') is None:
    devices = int(os.environ.get('FAKE_CUDA_DEVICES', '1'))
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
else:
    devices = 0


class OutOfMemoryError(RuntimeError):
    pass


class Pluggable:
    """torch._C._CUDAPluggableAllocator: two addresses, and setters that take one each."""

    def __init__(self, alloc, free):
        self.alloc, self.free = ALLOC(alloc), FREE(free)
        self.addresses = {}

    def take(self, size, device=0):
        pointer = self.alloc(size, 0, None)
        if size and not pointer:  # in a process with C++ it is thrown by the function itself
            raise RuntimeError('CUDA out of memory. (fake)')
        return pointer, lambda: self.free(pointer, size, 0, None)


def setter(name):
    def set_address(self, address):
        self.addresses[name] = address

    return set_address


for setting in ('set_init_fn', 'set_reset_fn', 'set_memory_fraction_fn', 'set_base_alloc_fn', 'set_record_stream_fn',
                'set_begin_allocate_to_pool', 'set_end_allocate_to_pool_fn', 'set_release_pool'):
    setattr(Pluggable, setting, setter(setting))


class Native:
    """PyTorch's own allocator: one driver call a tensor outside of pools, segments of 2 MiB that are kept in them."""

    def take(self, size, device=0):
        for pool in routes:
            if pool.device == device:
                return pool.take(size)
        pointer = ctypes.c_uint64()
        if size and driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)):
            raise OutOfMemoryError('CUDA out of memory. (fake)')
        return pointer.value, lambda: size and driver.cuMemFree_v2(pointer)


class MemPool:
    count = 0

    def __init__(self, allocator=None):
        MemPool.count += 1
        self.id, self.allocator, self.free, self.device = (0, MemPool.count), allocator, [], current
        pools.append(self)

    def take(self, size):
        whole = -(-size // SEGMENT) * SEGMENT
        fit = [segment for segment in self.free if segment[1] >= whole]
        if fit:
            self.free.remove(fit[0])
            return fit[0][0], lambda: self.back(*fit[0])
        pointer = self.allocator.alloc(whole, self.device, None)
        if whole and not pointer:
            raise OutOfMemoryError('CUDA out of memory. (fake)')
        return pointer, lambda: self.back(pointer, whole)

    def back(self, pointer, whole):
        self.free.append((pointer, whole))

    def empty(self):
        for pointer, whole in self.free:
            self.allocator.free(pointer, whole, self.device, None)
        self.free.clear()


allocator, pools, routes = Native(), [], []


class Tensor:
    def __init__(self, size, parents=(), module=None, device=0):
        global live, peak, calls, initialized
        initialized = True
        self.size, self.grad_fn, self.grad, self.device = size, None, None, 'cuda'
        self.pointer, self.give_back = allocator.take(size, device)
        live, calls = live + size, calls + 1
        peak = max(peak, live)
        if parents:
            from . import _nn
            self.grad_fn = _nn.Node(parents, size, module)

    def data_ptr(self):
        return self.pointer

    def backward(self):
        autograd.backward(self)

    def __del__(self):
        global live
        if hasattr(self, 'give_back'):
            self.give_back()
            live -= self.size


def empty(size, dtype=uint8, device='cuda'):
    assert (dtype, device[:4]) == (uint8, 'cuda')
    return Tensor(size, device=int(device[5:] or 0))


zeros = empty
device = str


def manual_seed(seed):
    pass


def set_float32_matmul_precision(precision):
    assert precision == 'high'


class _CUDAAllocator:
    def __init__(self, allocator):
        self._allocator = allocator

    def allocator(self):
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        super().__init__(Pluggable(*(ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                                     for name in (alloc, free))))


def change_current_allocator(chosen):
    global allocator
    if initialized:
        raise RuntimeError("Can't swap an already initialized allocator")
    allocator = chosen._allocator


def mem_get_info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value


def native(function):
    def checked(*arguments):
        if not isinstance(allocator, Native):
            raise RuntimeError(f'CUDAPluggableAllocator does not yet support getDeviceStats ({function.__name__})')
        return function(*arguments)

    return checked


@native
def memory_stats(device=None):
    return {'requested_bytes.all.peak': peak, 'allocation.all.allocated': calls, 'reserved_bytes.all.current': live,
            'reserved_bytes.all.peak': peak, 'num_device_alloc': calls, 'num_device_free': 0}


@native
def max_memory_allocated(device=None):
    return peak


@native
def reset_peak_memory_stats(device=None):
    global peak
    peak = live


def memory_snapshot():
    return [{'is_expandable': 'expandable_segments:True' in os.environ.get('PYTORCH_CUDA_ALLOC_CONF', '')}]


def init():
    global initialized
    initialized = True


def empty_cache():
    for pool in pools:
        pool.empty()


current = 0


def exchange(device):
    global current
    before, current = current, device
    return before


def route(device, pool_id):
    assert any((pool.id, pool.device) == (pool_id, device) for pool in pools), 'a pool is of one device'
    assert not any(pool.id == pool_id for pool in routes), 'beginAllocateToPool: already recording to mempool_id'
    routes.append([pool for pool in pools if pool.id == pool_id][0])


def unroute(device, pool_id):
    routes[:] = [pool for pool in routes if pool.id != pool_id]


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    route(0, pool.id)
    try:
        yield
    finally:
        unroute(0, pool.id)


class CUDAGraph:
    def capture_begin(self):
        self.routes = len(routes)

    def capture_end(self):
        pass


_C = types.SimpleNamespace()
memory = types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator,
                               change_current_allocator=change_current_allocator, memory_stats=memory_stats,
                               max_memory_allocated=max_memory_allocated,
                               reset_peak_memory_stats=reset_peak_memory_stats,
                               _record_memory_history=lambda **options: None)
cuda = types.SimpleNamespace(
    is_available=lambda: devices > 0, get_device_name=lambda device: 'fake', synchronize=lambda: None,
    is_initialized=lambda: initialized, current_device=lambda: current, device_count=lambda: devices,
    device=lambda device: contextlib.nullcontext(), init=init, empty_cache=empty_cache, CUDAGraph=CUDAGraph, mem_get_info=mem_get_info, memory_stats=memory_stats,
    memory_snapshot=memory_snapshot, max_memory_allocated=max_memory_allocated,
    reset_peak_memory_stats=reset_peak_memory_stats, memory=memory)
if not old:
    memory._CUDAAllocator = _CUDAAllocator
    cuda.MemPool, cuda.use_mem_pool = MemPool, use_mem_pool
    cuda._maybe_exchange_device = exchange
    _C._cuda_customAllocator = Pluggable
    _C._cuda_beginAllocateToPool, _C._cuda_endAllocateToPool = route, unroute
    _C._cuda_releasePool = lambda device, pool_id: None

from . import _nn  # noqa: E402

nn, optim, autograd, compiler = _nn.nn, _nn.optim, _nn.autograd, _nn.compiler
