#!/usr/bin/env python3
"""On a GPU: what it costs PyTorch to allocate through Tidemark.

    LD_LIBRARY_PATH=.../lib PYTHONPATH=.../python python3 python/tests/gpu_speed.py [--turns=5] [--workloads=gpt2,...]

Each configuration is a process that stays; they take turns, so that none is measured beside another. The step of a
workload is at most 1.03 of native's, the median of the turns; torch.empty with a trace costs at most 150 ns more than
natively; with call stacks of Python it adds at most half of what PyTorch's own history adds. The exit status is 1 where
one does not hold.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STACK = 'statistics | pool | vmm(fallback=driver)'
EMPTY_ROUNDS = 20000


def gpt2():
    import torch
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).train().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(50257, (8, 512), device='cuda')

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()

    return step


def resnet50():
    import torch
    from torchvision.models.resnet import resnet50 as make

    model = make(weights=None).train().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(32, 3, 224, 224, device='cuda'), torch.randint(1000, (32,), device='cuda')

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def generate():
    """Sixteen tokens: small kernels and many allocations, so that the host decides."""
    import torch
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).eval().cuda()
    start = torch.randint(50257, (8, 128), device='cuda')

    def step():
        ids, past = start, None
        with torch.inference_mode():
            for _ in range(16):
                out = model.transformer(input_ids=ids, past_key_values=past, use_cache=True)
                past = out.past_key_values
                ids = model.lm_head(out.last_hidden_state[:, -1:]).argmax(-1)

    return step


WORKLOADS = {'gpt2': (gpt2, 8), 'resnet50': (resnet50, 10), 'generate': (generate, 3)}


def measure_steps(make, steps):
    import torch

    step = make()
    for _ in range(4):
        step()
    torch.cuda.synchronize()

    def turn():
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / steps

    return turn


def measure_empty():
    import torch

    empty, device = torch.empty, torch.device('cuda')

    def call():
        empty(1024, device=device)

    def outer():  # some frames, as a program has them
        return inner()

    def inner():
        best = float('inf')
        for _ in range(5):
            begin = time.perf_counter_ns()
            for _ in range(EMPTY_ROUNDS // 5):
                call()
            best = min(best, (time.perf_counter_ns() - begin) / (EMPTY_ROUNDS // 5))
        return best

    outer()
    return outer


def child(workload, how, path):
    """Prepare, say so, and answer each line on stdin with one measurement."""
    if how.startswith('traced'):
        import tidemark

        tidemark.trace(path, stack=STACK, callstack='python' if how == 'traced-python' else None).start()
    import torch

    torch.manual_seed(1)
    if how == 'history':
        torch.zeros(1, device='cuda')
        torch.cuda.memory._record_memory_history(stacks='python', context='alloc', max_entries=1 << 20)
    turn = measure_empty() if workload == 'empty' else measure_steps(*WORKLOADS[workload])
    print('ready', flush=True)
    for _ in sys.stdin:
        print(json.dumps(turn()), flush=True)


class Child:
    def __init__(self, workload, how, folder):
        self.how = how
        self.errors = open(os.path.join(folder, f'{workload}-{how}.txt'), 'w+')
        path = os.path.join(folder, f'{workload}-{how}.db')
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), '--child', workload, how, path],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.seen = []

    def line(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                self.errors.seek(0)
                raise RuntimeError(f'{self.how}: {self.errors.read().strip()[-300:]}')
            if line.strip() == 'ready' or line[:1].isdigit():
                return line

    def turn(self):
        self.process.stdin.write('go\n')
        self.process.stdin.flush()
        self.seen.append(float(self.line()))

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.errors.close()


def prepared(children):
    """Those that can run, once all of them are prepared; the others are named."""
    alive = []
    for one in children:
        try:
            one.line()
            alive.append(one)
        except RuntimeError as failure:
            print(f'SKIP {failure}', flush=True)
    return alive


def take_turns(alive, turns):
    """Measurements of each, in turns."""
    for number in range(turns):
        for one in alive[::1 if number % 2 else -1]:
            one.turn()
    for one in alive:
        one.end()
    return {one.how: one.seen for one in alive}


def judge(name, ok, words):
    print(f"{'PASS' if ok else 'FAIL'} {name}: {words}", flush=True)
    return ok


def judge_steps(name, seen):
    if len(seen) < 2:
        return judge(name, False, 'not measured')
    native, traced = (statistics.median(seen[how]) for how in ('native', 'traced'))
    ratio = statistics.median(b / a for a, b in zip(seen['native'], seen['traced']))
    return judge(name, ratio <= 1.03, f'native {native:.2f} ms a step, traced {traced:.2f}, {ratio:.3f} of it '
                 f'(turns {", ".join(f"{b / a:.3f}" for a, b in zip(seen["native"], seen["traced"]))})')


def judge_empty(seen):
    least = {how: min(times) for how, times in seen.items()}
    words = ', '.join(f'{how} {time:.0f} ns' for how, time in least.items())
    if not {'native', 'traced'} <= set(least):
        return judge('torch.empty', False, words)
    added = least['traced'] - least['native']
    ok = judge('torch.empty', added <= 150, f'{words}; traced adds {added:.0f} ns')
    if {'traced-python', 'history'} <= set(least):
        ours, theirs = least['traced-python'] - least['native'], least['history'] - least['native']
        ok &= judge('call stacks of Python', ours <= theirs / 2,
                    f"adds {ours:.0f} ns, PyTorch's history {theirs:.0f} ns")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--workloads', default='empty,gpt2,resnet50,generate', help='all unless given')
    options = parser.parse_args()
    names = options.workloads.split(',')
    wrong = [name for name in names if name != 'empty' and name not in WORKLOADS]
    if wrong or options.turns < 1:
        parser.error(f'there is no workload {wrong[0]!r}' if wrong else '--turns: expected 1 or more')
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        hows = {name: ['native', 'traced'] + ['traced-python', 'history'] * (name == 'empty') for name in names}
        everyone = {name: [Child(name, how, folder) for how in hows[name]] for name in names}  # all prepare at once
        everyone = {name: prepared(children) for name, children in everyone.items()}
        for name in names:
            seen = take_turns(everyone[name], options.turns)
            ok &= judge_empty(seen) if name == 'empty' else judge_steps(name, seen)
    return not ok


if __name__ == '__main__':
    if sys.argv[1:2] == ['--child']:
        sys.exit(child(*sys.argv[2:5]))
    sys.exit(main())
