"""One run of bench/torch: a workload in one configuration, in a process of its own. measure.py starts it.

It imports and prepares, prints a line, and waits for a line before it touches the device; so several may prepare
themselves while none is measured. Then it runs, and prints its result as one line of JSON.
"""
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import random
import statistics
import sys
import time


class Figures(ctypes.Structure):
    """struct bench_figures of shim.c."""

    NAMES = ('live_bytes', 'peak_bytes', 'allocations', 'empty', 'refused', 'base_allocations', 'base_deallocations',
             'handles', 'waits', 'base_reserved', 'base_reserved_high')
    _fields_ = [(name, ctypes.c_uint64) for name in NAMES]


def load_shim(library, path):
    """The shim, over the library that was built with it, wherever another one may be installed."""
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    shim = ctypes.CDLL(path)
    shim.bench_open.argtypes, shim.bench_open.restype = [ctypes.c_char_p], ctypes.c_char_p
    shim.bench_read.argtypes, shim.bench_read.restype = [ctypes.POINTER(Figures)], None
    shim.bench_sample.argtypes, shim.bench_sample.restype = [ctypes.c_int, ctypes.c_uint], ctypes.c_char_p
    shim.bench_sample_end.argtypes = [ctypes.POINTER(ctypes.c_uint64)]
    shim.bench_sample_end.restype = ctypes.c_uint64
    shim.bench_close.argtypes, shim.bench_close.restype = [], None
    return shim


class Skip(Exception):
    """The configuration cannot run here, for the reason given."""


class Native:
    """PyTorch's own allocator, as the environment sets it."""

    def __init__(self, torch):
        self.torch = torch

    def read(self):
        stats = self.torch.cuda.memory_stats()
        return {
            'peak_bytes': stats['requested_bytes.all.peak'],
            'allocations': stats['allocation.all.allocated'],
            'reserved': stats['reserved_bytes.all.current'],
            'reserved_high': stats['reserved_bytes.all.peak'],
            'driver_calls': stats.get('num_device_alloc', 0) + stats.get('num_device_free', 0),
        }

    def notes(self, wants_expandable):
        expandable = any(segment.get('is_expandable') for segment in self.torch.cuda.memory_snapshot())
        return [] if expandable == wants_expandable else ['expandable segments are ' + ('off', 'on')[expandable]]

    def close(self):
        pass


class Stack:
    """A stack in the place of PyTorch's allocator."""

    def __init__(self, torch, shim, path, text):
        self.shim = shim
        refused = shim.bench_open(text.encode())
        if refused:
            raise Skip(refused.decode())
        allocator = torch.cuda.memory.CUDAPluggableAllocator(path, 'bench_alloc', 'bench_free')
        torch.cuda.memory.change_current_allocator(allocator)

    def read(self):
        figures = Figures()
        self.shim.bench_read(ctypes.byref(figures))
        pages = {'handles': figures.handles} if figures.handles else {}
        return {
            'peak_bytes': figures.peak_bytes,
            'allocations': figures.allocations,
            'reserved': figures.base_reserved,
            'reserved_high': figures.base_reserved_high,
            'driver_calls': figures.base_allocations + figures.base_deallocations,
            'waits': figures.waits,
            **pages,
        }

    def notes(self, wants_expandable):
        return []

    def close(self):
        self.shim.bench_close()


def run_steps(torch, allocator, program, count):
    """A row for each step: its time, and what stood afterwards."""
    rows = []
    for _ in range(count):
        start = time.perf_counter()
        next(program)
        torch.cuda.synchronize()
        milliseconds = (time.perf_counter() - start) * 1000
        free, total = torch.cuda.mem_get_info()
        rows.append({'ms': milliseconds, 'device_bytes': total - free, **allocator.read()})
    return rows


def per_step(rows, name, after):
    """What a counter grew by in each step, in the mean from step `after` on."""
    return (rows[-1][name] - rows[after - 1][name]) / (len(rows) - after)


def summarize(rows, warmup):
    most = max(rows, key=lambda row: row['device_bytes'])
    outside = most['device_bytes'] - most['reserved']
    # What was held within a step and given back before its end is not in any row.
    device = max(most['device_bytes'], rows[-1]['reserved_high'] + outside)
    after = [row['ms'] for row in rows[warmup:]]
    return {
        'ms_step': statistics.median(after),
        'ms_step_mean': statistics.fmean(after),
        'device_bytes': device,
        'outside_bytes': outside,
        'live_peak_bytes': rows[-1]['peak_bytes'],
        'reserved_peak_bytes': rows[-1]['reserved_high'],
        'allocations_step': per_step(rows, 'allocations', warmup),
        'driver_calls': rows[-1]['driver_calls'],
        'driver_calls_step': per_step(rows, 'driver_calls', min(2, warmup)),
        'handles_step': per_step(rows, 'handles', min(2, warmup)) if 'handles' in rows[0] else None,
        'waits': rows[-1].get('waits'),
    }


def run(torch, spec, program, shim):
    allocator = Stack(torch, shim, spec['shim'], spec['stack']) if spec['stack'] else Native(torch)
    if spec['sampler_us']:
        refused = shim.bench_sample(0, spec['sampler_us'])
        if refused:
            raise Skip('--sampler: ' + refused.decode())
    rows = run_steps(torch, allocator, program, spec['steps'])
    samples = ctypes.c_uint64()
    sampled = shim.bench_sample_end(ctypes.byref(samples))
    result = summarize(rows, spec['warmup'])
    result.update(status='ok', notes=allocator.notes(spec['expandable']), steps=rows, samples=samples.value)
    result['device_bytes'] = max(result['device_bytes'], sampled)
    program.close()
    gc.collect()
    torch.cuda.synchronize()
    allocator.close()
    return result


def prepare(spec):
    if spec['also']:
        specification = importlib.util.spec_from_file_location('also', spec['also'])
        specification.loader.exec_module(importlib.util.module_from_spec(specification))
    chosen = importlib.import_module('workloads').REGISTRY[spec['workload']]
    for module in chosen.imports:
        importlib.import_module(module)
    torch = importlib.import_module('torch')
    torch.manual_seed(spec['shapes'])
    torch.set_float32_matmul_precision('high')
    program = chosen.make(random.Random(spec['shapes']))
    next(program)
    return torch, program


def main():
    # What libraries print goes to the messages.
    out = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)
    spec = json.loads(sys.argv[1])
    try:
        shim = load_shim(spec['library'], spec['shim'])
        torch, program = prepare(spec)
        print('ready', file=out)
        if sys.stdin.readline() != 'go\n':
            return 1
        result = run(torch, spec, program, shim)
    except Skip as skip:
        result = {'status': 'skipped', 'reason': str(skip)}
    except Exception as error:  # whatever a workload raises is its result
        words = str(error).strip().splitlines() or ['']
        result = {'status': 'failed', 'reason': f'{type(error).__name__}: {words[0]}'}
    print(json.dumps(result), file=out)
    out.flush()
    # PyTorch's own teardown has nothing more to say, and may free into a stack that is gone.
    os._exit(0)


if __name__ == '__main__':
    sys.exit(main())
