#!/usr/bin/env python3
"""On a GPU: that programs of PyTorch, CuPy and Numba run as before through Tidemark, and that the trace has it all.

    LD_LIBRARY_PATH=.../lib PYTHONPATH=.../python python3 python/tests/gpu_torch.py [--out=DIR] [CASE...]

prints one line for each case, PASS, FAIL or SKIP, with figures; the exit status is 1 where one fails. Each program runs
twice natively and once through a stack, in processes of their own, several at a time. `--out` keeps the traces; that of
GPT-2 is the one of doc/python.md.
"""
import argparse
import concurrent.futures
import contextlib
import gc
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

GPT2_BATCH, GPT2_LENGTH = 8, 512
KEPT = []  # the folder of --out
FIRST_BATCH = 16  # needs more than 8 GiB


# -- the programs: each answers its results as a list of numbers ------------------------------------------------------


def train(model, loss_of, optimizer, batches):
    losses = []
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def gpt2_model():
    import torch
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def gpt2_batches(batch, steps):
    import torch

    torch.manual_seed(2)
    ids = torch.randint(50257, (steps, batch, GPT2_LENGTH))
    return ((ids[step].cuda(),) for step in range(steps))


def gpt2_loss(model, ids):
    return model(input_ids=ids, labels=ids, use_cache=False).loss


def run_gpt2(prepare=lambda model: None, batch=GPT2_BATCH, steps=4):
    import torch

    model = gpt2_model().train()
    prepare(model)
    model.cuda()
    return train(model, gpt2_loss, torch.optim.AdamW(model.parameters(), lr=1e-4), gpt2_batches(batch, steps))


def run_resnet50(prepare=lambda model: None):
    import torch
    from torchvision.models.resnet import resnet50

    torch.manual_seed(1)
    model = resnet50(weights=None).train()
    prepare(model)
    model.cuda()
    images, labels = torch.randn(3, 16, 3, 224, 224), torch.randint(1000, (3, 16))
    batches = ((images[step].cuda(), labels[step].cuda()) for step in range(3))
    return train(model, lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y),
                 torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), batches)


def run_generate(prepare=lambda model: None):
    import torch

    model = gpt2_model().eval()
    prepare(model)
    model.cuda()
    torch.manual_seed(3)
    ids = torch.randint(50257, (4, 64)).cuda()
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False,
                             pad_token_id=50256)
    return [float(out.sum().item()), float(out[:, -1].sum().item())]


def run_compile(prepare=lambda model: None):
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    prepare(model)
    model.cuda()
    compiled = torch.compile(model)
    x = torch.randn(6, 64, 256)
    return train(compiled, lambda model, x: model(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1),
                 ((x[step].cuda(),) for step in range(6)))


def run_graph(prepare=lambda model: None):
    """A whole training step as a CUDA graph, with live data outside, and garbage collected while it is captured."""
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 64)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.zeros(128, 512, device='cuda'), torch.zeros(128, 64, device='cuda')
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    outside = [torch.full((1 << 18,), 7.0, device='cuda') for _ in range(8)]
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = torch.nn.functional.mse_loss(model(x), y)
        outside.pop()
        loss.backward()
        gc.collect()
        optimizer.step()
    inputs, targets, losses = torch.randn(5, 128, 512), torch.randn(5, 128, 64), []
    for step in range(5):
        x.copy_(inputs[step])
        y.copy_(targets[step])
        churn = [torch.full((1 << 18,), float(step), device='cuda') for _ in range(16)]  # overwrites what is not kept
        graph.replay()
        losses.append(loss.item())
        del churn
    intact = all(bool((block == 7.0).all()) for block in outside)
    graph.reset()
    return losses + [float(intact)]


def run_cupy():
    import cupy

    cupy.random.seed(1)
    x = cupy.arange(1 << 20, dtype=cupy.float64)
    total, stream = 0.0, cupy.cuda.Stream(non_blocking=True)
    for turn in range(20):
        y = (x * turn).reshape(1024, 1024)
        total += float((y @ y.T)[0, 0].get())
    with stream:
        z = x[::2] + 1
        stream.synchronize()
        total += float(z.sum().get())
    del x, y, z
    return [total]


def run_numba():
    import numpy

    numpy.row_stack = getattr(numpy, 'row_stack', numpy.vstack)  # numba-cuda 0.30 asks for it
    from numba import cuda

    @cuda.jit
    def add(a, b, out):
        place = cuda.grid(1)
        if place < out.size:
            out[place] = a[place] + b[place]

    total = 0.0
    for turn in range(10):
        a = cuda.to_device(numpy.arange(1 << 16, dtype=numpy.float32))
        b, out = cuda.to_device(numpy.full(1 << 16, turn, numpy.float32)), cuda.device_array(1 << 16, numpy.float32)
        add[256, 256](a, b, out)
        total += float(out.copy_to_host().sum(dtype=numpy.float64))
    return [total]


def run_ddp(prepare=lambda model: None):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    rank = int(os.environ['RANK'])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group('nccl', device_id=torch.device('cuda', rank))
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
    prepare(model)
    model = DistributedDataParallel(model.cuda(), device_ids=[rank])
    torch.manual_seed(2 + rank)
    x = torch.randn(5, 64, 512)
    losses = train(model, lambda model, x: model(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1),
                   ((x[step].cuda(),) for step in range(5)))
    torch.distributed.destroy_process_group()
    return losses


def run_limit(traced, batch):
    """Retry code of accelerate over a limit; without the trace the batch that it has found, from the start."""
    if not traced:
        return {'batch': batch, 'results': run_gpt2(batch=batch, steps=3)}
    import torch
    from accelerate.utils import find_executable_batch_size

    refused = []

    @find_executable_batch_size(starting_batch_size=FIRST_BATCH)
    def attempt(batch_size):
        try:
            return batch_size, run_gpt2(batch=batch_size, steps=3)
        except RuntimeError as failure:
            refused.append(str(failure)[:200])
            raise

    batch, results = attempt()
    torch.cuda.synchronize()
    return {'batch': batch, 'results': results, 'refused': refused}


def run_mempool(path):
    """Segments: what the stack has given out is what PyTorch says that it has reserved, and a refusal is PyTorch's."""
    import tidemark
    import torch

    torch.cuda.init()
    late = torch.zeros(1, device='cuda')
    del late
    torch.cuda.empty_cache()
    native = torch.cuda.memory_reserved()
    agree = []
    with tidemark.trace(path, limit='6GiB', mode='mempool', overwrite=True):
        model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            model(torch.randn(512 << step, 2048, device='cuda')).square().mean().backward()
            optimizer.step()
            agree.append((tidemark.stats().live_bytes, torch.cuda.memory_reserved() - native))
        try:
            torch.empty(8 << 30, dtype=torch.uint8, device='cuda')
            refused = 'not refused'
        except torch.OutOfMemoryError:
            refused = 'OutOfMemoryError'
        model(torch.randn(64, 2048, device='cuda'))
        del model, optimizer
        if hasattr(torch._C, '_cuda_clearCublasWorkspaces'):
            torch._C._cuda_clearCublasWorkspaces()  # else they stay in the pool
    gc.collect()
    torch.cuda.empty_cache()
    return {'agree': agree, 'refused': refused, 'left': tidemark.stats().live_bytes}


PROGRAMS = {'gpt2': run_gpt2, 'resnet50': run_resnet50, 'generate': run_generate, 'compile': run_compile,
            'graph': run_graph, 'cupy': run_cupy, 'numba': run_numba, 'ddp': run_ddp}
COUNTED = ('gpt2', 'resnet50', 'generate')  # the native allocator does the same calls


def native_figures():
    torch = sys.modules.get('torch')
    if torch is None:
        return {}
    stats = torch.cuda.memory_stats()
    return {'allocations': stats['allocation.all.allocated'], 'requested_peak': stats['requested_bytes.all.peak'],
            'rounded_peak': stats['allocated_bytes.all.peak']}


def child(case, how, path, batch):
    """One run of a program; prints its results as the last line."""
    traced = how == 'traced'
    if case == 'mempool':
        print(json.dumps(run_mempool(path)))
        return
    prepare = []
    if traced:
        import tidemark

        trace = tidemark.trace(path, limit='8GiB' if case == 'limit' else None, overwrite=True)
        trace.start()
        prepare = [tidemark.torch.tag_modules] if case in ('gpt2', 'resnet50', 'generate', 'compile', 'ddp') else []
    if case == 'limit':
        answer = run_limit(traced, batch)
    else:
        answer = {'results': PROGRAMS[case](*prepare)}
    if traced:
        import tidemark

        gc.collect()
        answer['figures'] = tidemark.stats()._asdict()
    elif case in COUNTED:
        answer['figures'] = native_figures()
    print(json.dumps(answer), flush=True)


# -- the cases: run, compare, one line each ---------------------------------------------------------------------------


def start(case, how, path='', batch=0, **environment):
    command = [sys.executable, os.path.abspath(__file__), '--child', case, how, path, str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140,
                          env={**os.environ, 'TOKENIZERS_PARALLELISM': 'false', **environment})
    if done.returncode != 0:
        words, rank = (done.stderr or done.stdout).strip(), environment.get('RANK', '')
        with open(os.path.join(KEPT[0] if KEPT else tempfile.gettempdir(), f'{case}-{how}{rank}.err'), 'w') as errors:
            errors.write(words)
        raise RuntimeError(f'{how} run {rank} ended with {done.returncode}, see {errors.name}: {words[-600:]}')
    return json.loads(done.stdout.strip().splitlines()[-1])


def spread(one, other):
    return max((abs(a - b) / max(abs(a), 1e-9) for a, b in zip(one, other)), default=0.0)


def read_trace(path):
    """What the top layer of a trace gave out, not the chunks of its pool: size, alloc_ns, free_ns or None, tag path."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        tags = {row[0]: row[1:] for row in database.execute('SELECT tag_id, parent_tag_id, name FROM tag')}
        found = database.execute('''SELECT size, alloc_ns, free_ns, tag_id FROM allocation WHERE status = 0 AND layer_id
            NOT IN (SELECT upstream_layer_id FROM layer WHERE upstream_layer_id IS NOT NULL)''').fetchall()
        lost = database.execute('SELECT coalesce(sum(events), 0) FROM loss').fetchone()[0]
        lost += database.execute("SELECT count(*) FROM meta WHERE key = 'complete' AND value != 1").fetchone()[0]

    def path_of(tag):
        names = []
        while tag in tags:
            tag, name = tags[tag]
            names.append(name)
        return '/'.join(reversed(names))

    return [(size, begin, end, path_of(tag)) for size, begin, end, tag in found], lost


def peak_of(rows):
    """The peak of live bytes, and what was live then."""
    events = [(begin, 1, row) for row in rows for begin in (row[1],)]
    events += [(row[2], 0, row) for row in rows if row[2] is not None]
    live, most, moment = 0, 0, 0
    for at, begins, row in sorted(events, key=lambda event: event[:2]):
        live += row[0] if begins else -row[0]
        if live > most:
            most, moment = live, at
    return most, [row for row in rows if row[1] <= moment and (row[2] is None or row[2] > moment)]


def compare_counts(traced, native, rows):
    """Against what PyTorch's own allocator says of the same program."""
    figures, words = native['figures'], []
    count, (peak, held) = sum(1 for row in rows if row[0]), peak_of(rows)
    ok = count == figures['allocations'] and peak == figures['requested_peak']
    # PyTorch's blocks are its requests in multiples of 512 bytes, and whole where less than 1 MiB would be left over.
    rounding = figures['rounded_peak'] - peak
    ok = ok and 0 <= rounding <= (1 << 20) * len(held) and traced['figures']['peak_bytes'] == peak
    words.append(f'{count} allocations (native {figures["allocations"]}), peak {peak} '
                 f'(native {figures["requested_peak"]}, rounded {figures["rounded_peak"]})')
    return ok, words


def tagged_share(rows, model):
    _, held = peak_of(rows)
    whole = sum(row[0] for row in held)
    return sum(row[0] for row in held if model in row[3].split('/')) / max(whole, 1)


def case_program(case, out, pool):
    path = os.path.join(out, f'{case}.db')
    runs = [pool.submit(start, case, how, path if how == 'traced' else '') for how in ('native', 'native', 'traced')]
    first, second, traced = (run.result() for run in runs)
    noise, off = spread(first['results'], second['results']), spread(first['results'], traced['results'])
    rows, lost = read_trace(path)
    ok = off <= max(2 * noise, 1e-5) and len(rows) > 0 and lost == 0
    words = [f'results off by {off:.1e}, natively by {noise:.1e}', f'{len(rows)} rows, {lost} lost']
    if case == 'graph':
        ok = ok and traced['results'][-1] == 1.0
    if case in COUNTED:
        agree, more = compare_counts(traced, first, rows)
        ok, words = ok and agree, words + more
    if case == 'gpt2':
        share = tagged_share(rows, 'GPT2LMHeadModel')
        ok = ok and share >= 0.95
        words.append(f'{share:.1%} of the peak carry a module')
    return ok, '; '.join(words)


def case_ddp(out, pool):
    import torch

    if torch.cuda.device_count() < 2:
        return None, 'there are not two GPUs'
    answers = {}
    for number, how in enumerate(('native', 'traced')):
        shared = {'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(29511 + number)}
        runs = [pool.submit(start, 'ddp', how, os.path.join(out, 'ddp-%r.db') if how == 'traced' else '',
                            RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(2)]
        answers[how] = [run.result()['results'] for run in runs]
    off = max(spread(native, traced) for native, traced in zip(answers['native'], answers['traced']))
    rows = [len(read_trace(os.path.join(out, f'ddp-{rank}.db'))[0]) for rank in range(2)]
    return off <= 1e-5 and min(rows) > 0, f'results of two ranks off by {off:.1e}; {rows[0]} and {rows[1]} rows'


def case_limit(out, pool):
    traced = start('limit', 'traced', os.path.join(out, 'limit.db'))
    native = start('limit', 'native', batch=traced['batch'])
    off, refused = spread(native['results'], traced['results']), traced['refused']
    ok = traced['batch'] < FIRST_BATCH and off <= 1e-3 and bool(refused)
    ok = ok and all(text.startswith('CUDA out of memory.') for text in refused)
    return ok, (f'batch {traced["batch"]} of {FIRST_BATCH} after {len(refused)} refusals, losses off by {off:.1e} from '
                f'those of that batch from the start; "{refused[0] if refused else ""}"')


def case_mempool(out, pool):
    answer = start('mempool', 'traced', os.path.join(out, 'mempool.db'))
    rows, _ = read_trace(os.path.join(out, 'mempool.db'))
    equal = all(ours == torchs for ours, torchs in answer['agree'])
    ok = equal and answer['refused'] == 'OutOfMemoryError' and answer['left'] == 0
    return ok, (f"reserved {answer['agree']} (ours, PyTorch's); a refusal is {answer['refused']}; "
                f"{answer['left']} B left; {len(rows)} segments")


def main():
    cases = {name: (lambda out, pool, name=name: case_program(name, out, pool)) for name in PROGRAMS if name != 'ddp'}
    cases.update(limit=case_limit, mempool=case_mempool, ddp=case_ddp)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', help='keep the traces in this folder')
    parser.add_argument('--at-once', type=int, default=6, help='processes at a time (6)')
    parser.add_argument('cases', nargs='*', metavar='CASE', help=f'of {", ".join(cases)}; all unless given')
    options = parser.parse_args()
    wrong = [name for name in options.cases if name not in cases]
    if wrong:
        parser.error(f'there is no case {wrong[0]!r}')
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(options.at_once) as pool, \
            concurrent.futures.ThreadPoolExecutor(len(cases)) as judges:
        out = options.out or scratch
        os.makedirs(out, exist_ok=True)
        KEPT.append(out)
        began = time.monotonic()
        running = {judges.submit(cases[name], out, pool): name for name in options.cases or cases}
        for judged in concurrent.futures.as_completed(running):
            try:
                ok, words = judged.result()
            except Exception as failure:
                ok, words = False, f'{type(failure).__name__}: {failure}'
            failed += ok is False
            word = 'SKIP' if ok is None else 'PASS' if ok else 'FAIL'
            print(f'{word} {running[judged]} ({time.monotonic() - began:.0f} s): {words}', flush=True)
    return failed > 0


if __name__ == '__main__':
    if sys.argv[1:2] == ['--child']:
        sys.exit(child(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])))
    sys.exit(main())
