#!/usr/bin/env python3
"""On a GPU: that unmodified programs run as before under `tidemark run`, and that the trace accounts for their memory.

    TIDEMARK=.../tidemark python3 python/tests/gpu_run.py [--out=DIR] [CASE...]

prints one line for each case, PASS, FAIL or SKIP, with figures; the exit status is 1 where one fails. A program runs
natively, under `tidemark run`, and under it with an empty phase: the same program, which allocates next to nothing. What
the summary cannot account for is the same in both, within 32 MiB: contexts and kernels. Where a case fails, the lines
below it are what the summaries of both say of the device. Each GPU has a lane of cases, since what is in use on a device
counts all processes. `--out` keeps the traces.

`steps` says what a training step takes under `tidemark run`, as a ratio to native in each of many short rounds: the
median, the middle half, and the same of a second native process. No time fails it. It takes up to 100 s, with no lane
beside it.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gpu_speed

MIB = 1 << 20
TIDEMARK = os.environ.get('TIDEMARK', 'tidemark')
UNACCOUNTED_MOST = 32 * MIB
STEPS_SECONDS = 95  # after which the case `steps` is ended; none of its rounds begins in the last fifth
STEPS_ROUNDS = 240

CUDA_PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#ifdef CUBLAS
#include <cublas_v2.h>
#endif
__global__ void fill(float *p, size_t n, float v)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = v + (float)(i % 7);
}
__global__ void sum(const float *p, size_t n, double *out)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += p[i];
    *out = s;
}
int main(int argc, char **argv)
{
    size_t n = argc > 1 && atoi(argv[1]) ? 256 : 4096, bytes = n * n * sizeof(float);
    float *a = nullptr, *b = nullptr, *c = nullptr;
    double *out = nullptr, answer = 0;
    int status = cudaMalloc(&a, bytes);
    if (status == 0)
        status = cudaMallocAsync(&b, bytes, 0);
    if (status == 0)
        status = cudaMallocManaged(&out, sizeof(double));
    if (status == 0)
        status = cudaMalloc(&c, bytes);
    if (status != 0) {
        printf("{\"results\": [], \"status\": %d}\n", status);
        return 0;
    }
    fill<<<64, 256>>>(a, n * n, 1);
    fill<<<64, 256>>>(b, n * n, 2);
    cudaMemset(c, 0, bytes);
#ifdef CUBLAS
    cublasHandle_t handle;
    const float one = 1, none = 0;
    cublasCreate(&handle);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 256, 256, 256, &one, a, (int)n, b, (int)n, &none, c, (int)n);
#endif
    sum<<<1, 1>>>(c, 4096, out);
    sum<<<1, 1>>>(a, 4096, out);
    cudaDeviceSynchronize();
    answer = *out;
    sum<<<1, 1>>>(c, 256, out);
    cudaDeviceSynchronize();
    printf("{\"results\": [%.9g, %.9g], \"status\": %d}\n", answer, *out, (int)cudaGetLastError());
    return 0;
}
"""


# -- the programs: each answers its results as a list of numbers; `empty` allocates next to nothing --------------------


def run_torch(empty):
    import torch

    torch.manual_seed(1)
    width = 64 if empty else 4096
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(3)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for step in range(3):
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(64 if empty else 256 << step, width, device='cuda')
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run_jax(empty):
    import jax
    import jax.numpy as jnp

    width = 64 if empty else 4096
    x = jax.random.normal(jax.random.PRNGKey(1), (width, width), dtype=jnp.float32)
    sums = []
    for step in range(3):
        x = jnp.tanh(x @ x / width) + step
        sums.append(float(x.sum()))
    return sums


def run_cupy(empty):
    import cupy

    n = 1 << (10 if empty else 24)
    x = cupy.arange(n, dtype=cupy.float32)
    y = cupy.sqrt(x) + cupy.sin(x)
    square = cupy.arange(256 * 256, dtype=cupy.float32).reshape(256, 256)
    return [float(y.sum()), float((square @ square).sum())]


def run_numba(empty):
    import numpy

    numpy.row_stack = getattr(numpy, 'row_stack', numpy.vstack)  # numba-cuda 0.30 asks for it
    from numba import cuda

    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2

    n = 1 << (10 if empty else 24)
    arrays = [cuda.to_device(numpy.arange(n, dtype=numpy.float32)) for _ in range(3)]
    for array in arrays:
        double[(n + 255) // 256, 256](array)
    return [float(array.copy_to_host().sum()) for array in arrays]


def run_nccl(empty):
    import torch
    import torch.distributed as dist

    rank = int(os.environ['RANK'])
    torch.cuda.set_device(rank)
    dist.init_process_group('nccl')
    x = torch.full((256 if empty else 1 << 24,), float(rank + 1), device='cuda')
    dist.all_reduce(x)
    answer = float(x.sum().item())
    dist.destroy_process_group()
    return [answer]


def run_limit_torch(empty):
    """Tensors of 256 MiB until PyTorch says that there is no room; and a size chosen as servers choose it."""
    import torch

    free, total = torch.cuda.mem_get_info()
    held, refused = [], ''
    try:
        while len(held) < 64:
            held.append(torch.empty(256 * MIB, dtype=torch.uint8, device='cuda'))
    except torch.OutOfMemoryError as error:
        refused = str(error)[:60]
    count = len(held)
    del held
    torch.cuda.empty_cache()
    sized = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.9), dtype=torch.uint8, device='cuda')
    return [total, free, count, float(sized.numel()), float(refused.startswith('CUDA out of memory'))]


def run_limit_jax(empty):
    import jax.numpy as jnp

    held = []
    try:
        while len(held) < 64:
            held.append(jnp.zeros((64 * MIB,), dtype=jnp.float32).block_until_ready())
    except Exception as error:  # jaxlib's own class, whose name has changed between versions
        return [len(held), float('RESOURCE_EXHAUSTED' in str(error))]
    return [len(held), 0.0]


def run_profiler(empty):
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        x = torch.randn(1024, 1024, device='cuda')
        y = (x @ x).sum().item()
    kernels = sum(1 for event in profiler.events() if 'CUDA' in str(event.device_type))
    return [float(kernels > 0)] if y == y else []


def run_nvtx_torch(empty):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
    with torch.autograd.profiler.emit_nvtx():
        for step in range(40):
            torch.cuda.nvtx.range_push(f'step {step}')
            model(torch.randn(64 + step, 512, device='cuda')).square().mean().backward()
            torch.cuda.nvtx.range_pop()
    return [40.0]


def run_nvtx_cupy(empty):
    import cupy
    from cupyx.profiler import time_range

    kept = []
    for name, n in (('inputs', 22), ('weights', 24)):
        with time_range(name):
            kept.append(cupy.ones(1 << n, dtype=cupy.float32))
    return [float(sum(array.sum() for array in kept))]


def run_start(empty):
    import torch

    return [float(torch.ones(1, device='cuda').item())]


PROGRAMS = {name[4:]: program for name, program in list(globals().items()) if name.startswith('run_')}


# -- running them ------------------------------------------------------------------------------------------------------


def answer_of(done):
    """A program's own answer, behind which tools that run it may have printed lines of theirs."""
    for line in reversed(done.stdout.splitlines()):
        if line.startswith('{'):
            return json.loads(line)
    raise RuntimeError(f'no answer: {(done.stdout + done.stderr).strip()[-600:] or "nothing was printed"}')


def remove(trace):
    for left in (trace, trace + '-wal', trace + '-shm'):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)


class Lane:
    """A GPU, which one case has at a time, and the folder for what it makes."""

    def __init__(self, device, out):
        self.device, self.out = device, out

    def path(self, name):
        return os.path.join(self.out, name)

    def environment(self, **others):
        return {**os.environ, 'CUDA_VISIBLE_DEVICES': str(self.device), 'TOKENIZERS_PARALLELISM': 'false',
                'XLA_PYTHON_CLIENT_PREALLOCATE': 'false', **others}

    def start(self, command, options=None, trace='', **environment):
        """Run a command natively, or under `tidemark run` where there is a trace; its answer, and how long it took."""
        if trace:
            remove(trace)
            command = [TIDEMARK, 'run', '--output', trace, *(options or []), '--', *command]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=self.environment(**environment))
        taken = time.monotonic() - begin
        if done.returncode != 0:
            raise RuntimeError(f'{" ".join(command)[:200]} ended with {done.returncode}: '
                               f'{(done.stderr or done.stdout).strip()[-600:]}')
        return {**answer_of(done), 'seconds': taken, 'errors': done.stderr}


def child(name, empty=False):
    return [sys.executable, os.path.abspath(__file__), '--child', name, str(int(empty))]


def summary(trace):
    done = subprocess.run([TIDEMARK, 'summary', '--json', trace], capture_output=True, text=True, timeout=60)
    if not done.stdout:
        raise RuntimeError(f'summary of {trace}: {done.stderr.strip()[-300:]}')
    return json.loads(done.stdout)


def account_of(trace):
    """What the trace says of the device: tracked, used, unaccounted, in bytes; and its kinds as words."""
    answer = summary(trace)
    devices = [device for device in answer['account'] if device['tracked_bytes'] or device['used_bytes']]
    with contextlib.closing(sqlite3.connect(trace)) as database:
        kinds = database.execute('''SELECT layer.kind || ' ' || layer.config, count(*), sum(size) FROM allocation
            JOIN layer USING (layer_id) WHERE status = 0 GROUP BY 1 ORDER BY 3 DESC''').fetchall()
        lost = database.execute('SELECT coalesce(sum(events), 0) FROM loss').fetchone()[0]
    words = ', '.join(f'{count} x {kind[:40]} {size} B' for kind, count, size in kinds)
    return devices[0] if devices else None, words, lost


def account_words(trace):
    """The lines of its summary about the device, and how far the samples reach."""
    done = subprocess.run([TIDEMARK, 'summary', trace], capture_output=True, text=True, timeout=60)
    lines = [' '.join(line.split()) for line in done.stdout.splitlines()
             if line.startswith(('tracked', 'device used', 'unaccounted', 'as of', 'not tracked', 'host'))]
    return ''.join(f'\n    {os.path.basename(trace)}: {line}' for line in lines or [done.stderr.strip()[-300:]])


def tags_of(trace):
    with contextlib.closing(sqlite3.connect(trace)) as database:
        return [name for name, in database.execute('SELECT name FROM tag')]


def spread(one, other):
    return max((abs(a - b) / max(abs(a), 1e-9) for a, b in zip(one, other)), default=0.0)


# -- the cases: run, compare, one line each ----------------------------------------------------------------------------


def both_summaries(lane, case):
    return account_words(lane.path(f'{case}.db')) + account_words(lane.path(f'{case}-empty.db'))


def same_program(lane, case, command, empty_command, **environment):
    """Natively, under `tidemark run`, and under it with an empty phase."""
    native = lane.start(command, **environment)
    traced = lane.start(command, trace=lane.path(f'{case}.db'), **environment)
    lane.start(empty_command, trace=lane.path(f'{case}-empty.db'), **environment)
    off = spread(native['results'], traced['results'])
    full, words, lost = account_of(lane.path(f'{case}.db'))
    empty, _, _ = account_of(lane.path(f'{case}-empty.db'))
    ok = off <= 1e-4 and len(native['results']) == len(traced['results']) and lost == 0 and full is not None
    said = [f'results off by {off:.1e}', words or 'no rows', f'{lost} lost']
    if full is None or full['used_bytes'] is None or empty is None or empty['used_bytes'] is None:
        return False, '; '.join([*said, f'no device used: {full}, {empty}']) + both_summaries(lane, case)
    ok = ok and full['tracked_bytes'] + full['unaccounted_bytes'] == full['used_bytes']
    apart = full['unaccounted_bytes'] - empty['unaccounted_bytes']
    ok = ok and abs(apart) <= UNACCOUNTED_MOST
    said.append(f'tracked {full["tracked_bytes"] / MIB:.1f} + unaccounted {full["unaccounted_bytes"] / MIB:.1f} = used '
                f'{full["used_bytes"] / MIB:.1f} MiB, {apart / MIB:+.1f} MiB beside an empty phase')
    return ok, '; '.join(said) + ('' if ok else both_summaries(lane, case))


def python_case(name, **environment):
    return lambda lane, case: same_program(lane, case, child(name), child(name, True), **environment)


def compiled_case(*flags):
    def case_compiled(lane, case):
        compiler = shutil.which('nvcc')
        if compiler is None:
            return None, 'there is no nvcc'
        source, program = lane.path(f'{case}.cu'), lane.path(case)
        with open(source, 'w') as file:
            file.write(CUDA_PROGRAM)
        subprocess.run([compiler, '-o', program, source, *flags], check=True, capture_output=True, timeout=140)
        ok, words = same_program(lane, case, [program, '0'], [program, '1'])
        limited = lane.start([program, '0'], ['--limit=100MiB'], lane.path(f'{case}-limit.db'))
        return ok and limited['status'] == 2, f'{words}; with a limit of 100 MiB it gets {limited["status"]}'

    return case_compiled


def case_limit_torch(lane, case):
    traced = lane.start(child('limit_torch'), ['--limit=4GiB'], lane.path(f'{case}.db'))
    total, free, count, sized, refused = traced['results']
    ok = total == 4 << 30 and free <= total and 10 <= count <= 16 and refused == 1.0 and sized <= total
    return ok, f'total {total / MIB:.0f}, free {free / MIB:.0f} MiB; {count:.0f} x 256 MiB fit, then OutOfMemoryError; ' \
               f'90% of what is free is {sized / MIB:.0f} MiB'


def case_limit_jax(lane, case):
    traced = lane.start(child('limit_jax'), ['--limit=4GiB'], lane.path(f'{case}.db'))
    count, exhausted = traced['results']
    return exhausted == 1.0 and count <= 16, f'{count:.0f} x 256 MiB fit, then RESOURCE_EXHAUSTED: {exhausted == 1.0}'


def case_profiler(lane, case):
    traced = lane.start(child('profiler'), trace=lane.path(f'{case}.db'))
    _, words, lost = account_of(lane.path(f'{case}.db'))
    return traced['results'] == [1.0] and words != '' and lost == 0, f'the profiler has kernels; {words}'


def nvtx_case(name, wanted, fine):
    def case_nvtx(lane, case):
        lane.start(child(name), ['--fine'] if fine else [], lane.path(f'{case}.db'))
        tags = tags_of(lane.path(f'{case}.db'))
        missing = [tag for tag in wanted if tag not in tags]
        return not missing and len(tags) <= 2048, f'{len(tags)} tags, {missing or "none"} missing; first {tags[:6]}'

    return case_nvtx


def turns(lane, case, name, count, of):
    """Natively and under `tidemark run` in turns: the medians."""
    native, traced = [], []
    for turn in range(count):
        native.append(of(lane.start(child(name))))
        traced.append(of(lane.start(child(name), trace=lane.path(f'{case}-{turn}.db'))))
    return statistics.median(native), statistics.median(traced)


def case_start(lane, case):
    native, traced = turns(lane, case, 'start', 5, lambda answer: answer['seconds'])
    return True, f'{native:.2f} s natively, {traced:.2f} s under tidemark run: {traced / native:.3f}, medians of five turns'


def calls_within(trace, begin_unix_ns, end_unix_ns):
    """How many allocations and frees the trace has between two moments, and how many events it lost in all."""
    summary(trace)  # which completes the trace of a process that was killed
    with contextlib.closing(sqlite3.connect(trace)) as database:
        start = int(database.execute("SELECT value FROM meta WHERE key = 'start_unix_ns'").fetchone()[0])
        between = {'begin': begin_unix_ns - start, 'end': end_unix_ns - start}
        calls = database.execute('''SELECT coalesce(sum(alloc_ns BETWEEN :begin AND :end), 0),
            coalesce(sum(free_ns BETWEEN :begin AND :end), 0) FROM allocation''', between).fetchone()
        return (*calls, database.execute('SELECT coalesce(sum(events), 0) FROM loss').fetchone()[0])


def case_steps(lane, case, workload='gpt2', also='', most=STEPS_ROUNDS):
    """Training steps, in short rounds on processors that change: gpu_speed.py says how. `again` is native once more, so
    that its ratio says what the measurement itself can tell apart."""
    begin, trace = time.monotonic(), lane.path(f'{case}.db')
    remove(trace)
    commands = {'native': (), 'again': (), 'run': (TIDEMARK, 'run', '--output', trace, '--')}
    children = [gpu_speed.Child(workload, how, lane.out, also, before, lane.environment())
                for how, before in commands.items()]
    late = threading.Timer(STEPS_SECONDS, lambda: [one.process.kill() for one in children])
    late.start()
    try:
        alive = gpu_speed.prepared(children)
        if len(alive) < len(children):
            return False, 'not measured'
        rounds = gpu_speed.take_turns(alive, most, begin + STEPS_SECONDS * 0.8)
    finally:
        for one in children:
            one.close()
        for one in children:
            one.end()
        late.cancel()
    if not rounds:
        return False, 'not measured'
    allocated, freed, lost = calls_within(trace, rounds[0]['run']['unix_ns'][0], rounds[-1]['run']['unix_ns'][1])
    steps = len(rounds) * (gpu_speed.workloads(also)[workload][1] + 1)  # with the one of each turn that does not count
    counted = gpu_speed.steady(case, rounds)
    native = gpu_speed.values(counted, 'native')
    ratios = {how: gpu_speed.spread([b / a for a, b in zip(native, gpu_speed.values(counted, how))], '.4f')
              for how in ('run', 'again')}
    return lost == 0, (f'{statistics.median(native):.2f} ms a step natively; under tidemark run {ratios["run"]} of it, '
                       f'natively again {ratios["again"]}, in {len(counted)} of {len(rounds)} rounds; driver calls seen '
                       f'a step: {allocated / steps:.2f} that allocate, {freed / steps:.2f} that free, of {steps} '
                       f'steps; {lost} lost')


def case_sanitizer(lane, case):
    tool = shutil.which('compute-sanitizer')
    if tool is None:
        return None, 'there is no compute-sanitizer'
    traced = lane.start([tool, '--print-limit=1', *child('cupy', True)], trace=lane.path(f'{case}-%p.db'))
    return len(traced['results']) == 2, f'results {traced["results"]}'


def case_nccl(lane, case):
    import torch

    if torch.cuda.device_count() < 2:
        return None, 'there are not two GPUs'
    answers = {}
    for number, traced in enumerate((False, True)):
        shared = {'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(29531 + number),
                  'CUDA_VISIBLE_DEVICES': '0,1'}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(lane.start, child('nccl'), None, lane.path(f'{case}-{rank}.db') if traced else '',
                                RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(2)]
        answers[traced] = [run.result()['results'] for run in runs]
    words = '; '.join(account_of(lane.path(f'{case}-{rank}.db'))[1] for rank in range(2))
    return answers[False] == answers[True] and words != '; ', f'sums {answers[True]}; {words}'


CASES = {
    'torch': python_case('torch'),
    'torch-no-cache': python_case('torch', PYTORCH_NO_CUDA_MEMORY_CACHING='1'),
    'torch-expandable': python_case('torch', PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'),
    'torch-async': python_case('torch', PYTORCH_CUDA_ALLOC_CONF='backend:cudaMallocAsync'),
    'jax': python_case('jax'),
    'jax-platform': python_case('jax', XLA_PYTHON_CLIENT_ALLOCATOR='platform'),
    'jax-async': python_case('jax', XLA_PYTHON_CLIENT_ALLOCATOR='cuda_async'),
    'cupy': python_case('cupy'),
    'numba': python_case('numba'),
    'cudart-shared': compiled_case('-cudart=shared'),
    'cudart-static': compiled_case('-cudart=static'),
    'cublas': compiled_case('-DCUBLAS', '-lcublas'),
    'limit-torch': case_limit_torch,
    'limit-jax': case_limit_jax,
    'profiler': case_profiler,
    'nvtx-torch': nvtx_case('nvtx_torch', [], True),
    'nvtx-cupy': nvtx_case('nvtx_cupy', ['inputs', 'weights'], False),
    'start': case_start,
    'sanitizer': case_sanitizer,
}
ALONE = {'nccl': case_nccl, 'steps': case_steps}  # no lane is beside them: they need more than one GPU, or are timed


def attempt(case, run, lane):
    try:
        ok, words = run(lane, case)
    except Exception as error:  # one case that fails is no reason to leave out the others
        ok, words = False, f'{type(error).__name__}: {error}'
    print(f'{"SKIP" if ok is None else "PASS" if ok else "FAIL"} {case}: {words}', flush=True)
    return ok is not False


def lanes_run(cases, out):
    import torch

    lanes, left = [Lane(device, out) for device in range(max(torch.cuda.device_count(), 1))], queue.SimpleQueue()
    for case in cases:
        if case in CASES:
            left.put(case)

    def work(lane):
        good = True
        while True:
            try:
                case = left.get_nowait()
            except queue.Empty:
                return good
            good = attempt(case, CASES[case], lane) and good

    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        good = all(list(pool.map(work, lanes)))
    for case in cases:
        if case in ALONE:
            good = attempt(case, ALONE[case], lanes[0]) and good
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out')
    parser.add_argument('--child', nargs=2, help=argparse.SUPPRESS)
    parser.add_argument('cases', nargs='*', metavar='CASE')
    given = parser.parse_args()
    if given.child:
        print(json.dumps({'results': PROGRAMS[given.child[0]](given.child[1] == '1')}), flush=True)
        return 0
    known = [*CASES, *ALONE]
    unknown = [case for case in given.cases if case not in known]
    if unknown:
        parser.error(f'unknown case {unknown[0]}; there are {", ".join(known)}')
    with tempfile.TemporaryDirectory() as scratch:
        if given.out:
            os.makedirs(given.out, exist_ok=True)
        return 0 if lanes_run(given.cases or known, given.out or scratch) else 1


if __name__ == '__main__':
    sys.exit(main())
