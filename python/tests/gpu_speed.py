#!/usr/bin/env python3
"""On a GPU: what it costs PyTorch to allocate through Tidemark, and which part of that costs.

    LD_LIBRARY_PATH=.../lib PYTHONPATH=.../python python3 python/tests/gpu_speed.py [--turns=5] [--workloads=gpt2,...]

Each configuration is a process that stays. All of a workload are measured in many short rounds, one after the other:

    native         PyTorch's own allocator
    untraced       the stack without a trace
    unsampled      with a trace that asks neither the pool nor the device what it holds
    traced         with a trace
    traced-python  torch.empty: with call stacks of Python in the trace
    history        torch.empty: natively, with PyTorch's own history of Python stacks

In a round all of them run on the same processors, which change from round to round. Else a process would stay for the
whole measurement where it first ran, maybe beside a thread that keeps the core busy: that makes it slower by up to 1.8,
in all of its turns. A loop of Python before and after each turn, the yardstick, says how fast the processor was. Rounds
count in which the yardsticks are within a tenth of each other.

The step of a workload is at most 1.03 of native's, the median of the rounds; torch.empty with a trace costs at most 150
ns more than natively; with call stacks of Python it adds at most half of what PyTorch's own history adds. The exit
status is 1 where one does not hold. No round begins later than --seconds after the start, beyond the first three.
"""
import argparse
import json
import os
import runpy
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

STACK = 'statistics | pool | vmm(fallback=driver)'
EMPTY_CALLS = 1000  # in each of the loops of a turn, the least of which counts
EMPTY_LOOPS = 5
ROUNDS = 6  # for each of --turns
ROUNDS_LEAST = 3
STEADY = 1.1  # the yardsticks of a round, the largest by the least
PARTS = ('native', 'untraced', 'unsampled', 'traced')


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


# What makes a step, and how many steps a turn has, after one that does not count.
WORKLOADS = {'gpt2': (gpt2, 2), 'resnet50': (resnet50, 4), 'generate': (generate, 1)}


def configurations(workload):
    return PARTS + ('traced-python', 'history') if workload == 'empty' else PARTS


def measure_steps(make, steps):
    import torch

    step = make()
    for _ in range(4):
        step()
    torch.cuda.synchronize()

    def turn():
        step()
        torch.cuda.synchronize()
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
        for _ in range(EMPTY_LOOPS):
            begin = time.perf_counter_ns()
            for _ in range(EMPTY_CALLS):
                call()
            best = min(best, (time.perf_counter_ns() - begin) / EMPTY_CALLS)
        return best

    outer()
    return outer


def yardstick():
    """How long this processor takes for always the same, in ns."""
    begin = time.perf_counter_ns()
    for _ in range(20000):
        pass
    return time.perf_counter_ns() - begin


def processors():
    """Those for what is measured, one of each core, and those for all other threads; none where there are few."""
    cores = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f'/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list') as siblings:
                cores.setdefault(siblings.read().strip(), []).append(cpu)
        except OSError:
            cores[str(cpu)] = [cpu]
    each = list(cores.values())
    half = len(each) // 2
    return ([core[0] for core in each[:half]], [cpu for core in each[half:] for cpu in core]) if half >= 2 else ([], [])


def places(number, measured, rest):
    """Where the threads of a round run; nothing: anywhere."""
    if not measured:
        return {}
    return {'main': [measured[number % len(measured)]],
            'backward': [measured[(number + len(measured) // 2) % len(measured)]], 'rest': rest}


def move(where):
    """Have the threads of this process run there."""
    for task in os.listdir('/proc/self/task') if where else ():
        try:
            with open(f'/proc/self/task/{task}/comm') as comm:
                is_backward = comm.read().startswith('pt_autograd')
            part = 'main' if int(task) == os.getpid() else 'backward' if is_backward else 'rest'
            os.sched_setaffinity(int(task), where[part])
        except OSError:  # it has ended, or the system has no such call
            pass


def begin_trace(how, path):
    import tidemark

    if how == 'untraced':
        tidemark.use(STACK)
        return
    options = {'callstack': 'python'} if how == 'traced-python' else {'samples': 'off'} if how == 'unsampled' else {}
    tidemark.trace(path, stack=STACK, **options).start()


def child(workload, how, path, also):
    """Prepare, say so, and answer each line on stdin with one measurement, and with when it began and ended."""
    if how in PARTS[1:] or how == 'traced-python':
        begin_trace(how, path)
    import torch

    torch.manual_seed(1)
    if how == 'history':
        torch.zeros(1, device='cuda')
        torch.cuda.memory._record_memory_history(stacks='python', context='alloc', max_entries=1 << 20)
    turn = measure_empty() if workload == 'empty' else measure_steps(*workloads(also)[workload])
    print('ready', flush=True)
    for line in sys.stdin:
        move(json.loads(line))
        begin, before, value = time.time_ns(), yardstick(), turn()
        print(json.dumps({'value': value, 'yardstick': (before + yardstick()) / 2, 'unix_ns': [begin, time.time_ns()]}),
              flush=True)


def workloads(also):
    return {**WORKLOADS, **(runpy.run_path(also)['WORKLOADS'] if also else {})}


class Child:
    """A process that measures. `before` is the command that runs it, if any."""

    def __init__(self, workload, how, folder, also, before=(), environment=None):
        self.name, self.how = f'{workload}, {how}', how
        self.errors = open(os.path.join(folder, f'{workload}-{how}.txt'), 'w+')
        self.path = os.path.join(folder, f'{workload}-{how}.db')
        arguments = [*before, sys.executable, os.path.abspath(__file__), '--child', workload, how, self.path, also]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=environment)

    def line(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                self.errors.seek(0)
                raise RuntimeError(f'{self.name}: {self.errors.read().strip()[-300:]}')
            if line.strip() == 'ready' or line[:1] == '{':
                return line

    def turn(self, where):
        try:
            self.process.stdin.write(json.dumps(where) + '\n')
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words come below
        return json.loads(self.line())

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def end(self):
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def waits(self):
        """How often a thread of it waited for the trace's writer; None without a trace that has ended."""
        if not os.path.exists(self.path):
            return None
        database = sqlite3.connect(self.path)
        try:
            found = database.execute("SELECT value FROM meta WHERE key = 'ring_waits'").fetchone()
            return found and int(found[0])
        except sqlite3.Error:
            return None
        finally:
            database.close()


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


def take_turns(alive, most, until):
    """What each measured in each round."""
    measured, rest = processors()
    rounds = []
    while len(rounds) < most and (len(rounds) < ROUNDS_LEAST or time.monotonic() < until):
        first, where = len(rounds) % len(alive), places(len(rounds), measured, rest)
        order = (alive[first:] + alive[:first])[::1 if len(rounds) // len(alive) % 2 else -1]
        try:
            seen = {one.how: one.turn(where) for one in order}
        except RuntimeError as failure:
            print(f'SKIP {failure}', flush=True)
            return []
        rounds.append({one.how: seen[one.how] for one in alive})
    return rounds


def is_steady(one):
    sticks = [seen['yardstick'] for seen in one.values()]
    return max(sticks) <= STEADY * min(sticks)


def steady(name, rounds):
    """The rounds that count: those in which all had an equally fast processor."""
    kept = [one for one in rounds if is_steady(one)]
    if len(kept) < max(ROUNDS_LEAST, len(rounds) / 3):
        print(f'     {name}: the processors were not equally fast in {len(rounds) - len(kept)} of {len(rounds)} rounds: '
              'all of them count', flush=True)
        return rounds
    return kept


def values(rounds, how):
    return [one[how]['value'] for one in rounds]


def spread(numbers, form):
    """The median, and between which two the middle half and all of them lie."""
    low, _, high = statistics.quantiles(numbers, n=4, method='inclusive')
    return (f'{statistics.median(numbers):{form}} (half {low:{form}} to {high:{form}}, all {min(numbers):{form}} to '
            f'{max(numbers):{form}})')


def judge(name, ok, words):
    print(f"{'PASS' if ok else 'FAIL'} {name}: {words}", flush=True)
    return ok


def say_sticks(name, rounds):
    """How fast the processors of each configuration were: a difference here is the machine's and not the code's."""
    medians = {how: statistics.median(one[how]['yardstick'] for one in rounds) for how in rounds[0]}
    base = medians.get('native', 1)
    words = ', '.join(f'{how} {stick / base:.3f}' for how, stick in medians.items())
    print(f"     {name}: yardstick of native's: {words}; {len(rounds)} rounds", flush=True)


def say_parts(name, rounds, form, unit):
    """What each part adds to the one before."""
    names = {'untraced': 'the stack', 'unsampled': 'recording', 'traced': 'samples of pool and device',
             'traced-python': 'call stacks of Python'}
    before, parts = 'native', []
    for how, part in names.items():
        if how in rounds[0] and before in rounds[0]:
            added = [b - a for a, b in zip(values(rounds, before), values(rounds, how))]
            parts.append(f'{part} {spread(added, form)}')
            before = how
    print(f"     {name}: adds, in {unit}: {'; '.join(parts)}", flush=True)


def judge_steps(name, rounds):
    if not rounds or not {'native', 'traced'} <= set(rounds[0]):
        return judge(name, False, 'not measured')
    rounds = steady(name, rounds)
    native = values(rounds, 'native')
    ratios = {how: [b / a for a, b in zip(native, values(rounds, how))] for how in rounds[0] if how != 'native'}
    ok = judge(name, statistics.median(ratios['traced']) <= 1.03,
               f"native {statistics.median(native):.2f} ms a step, traced {spread(ratios['traced'], '.3f')} of it")
    for how in ('untraced', 'unsampled'):
        if how in ratios:
            print(f"     {name}: {how} {spread(ratios[how], '.3f')}", flush=True)
    say_parts(name, rounds, '+.2f', 'ms')
    say_sticks(name, rounds)
    return ok


def judge_empty(name, rounds):
    if not rounds or not {'native', 'traced'} <= set(rounds[0]):
        return judge('torch.empty', False, 'not measured')
    rounds = steady('torch.empty', rounds)
    native = values(rounds, 'native')
    added = {how: [b - a for a, b in zip(native, values(rounds, how))] for how in rounds[0]}
    words = ', '.join(f'{how} {statistics.median(values(rounds, how)):.0f} ns' for how in rounds[0])
    ok = judge('torch.empty', statistics.median(added['traced']) <= 150,
               f"{words}; traced adds {spread(added['traced'], '.0f')}")
    if {'traced-python', 'history'} <= set(added):
        ours, theirs = statistics.median(added['traced-python']), statistics.median(added['history'])
        ok &= judge('call stacks of Python', ours <= theirs / 2,
                    f"adds {spread(added['traced-python'], '.0f')} ns, PyTorch's history "
                    f"{spread(added['history'], '.0f')}")
    else:
        ok = judge('call stacks of Python', False, 'not measured')
    say_parts('torch.empty', rounds, '+.0f', 'ns')
    say_sticks('torch.empty', rounds)
    return ok


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--turns', type=int, default=5, help=f'{ROUNDS} rounds each, 5 unless given')
    parser.add_argument('--seconds', type=float, default=85, help='no round begins later, 85 unless given')
    parser.add_argument('--workloads', default='empty,gpt2,resnet50,generate', help='all unless given')
    parser.add_argument('--also', default='', metavar='FILE',
                        help='a Python file with further WORKLOADS, by name what makes a step and how many a turn has')
    parser.add_argument('--json', metavar='FILE', help='write all measurements there, by workload and round')
    options = parser.parse_args()
    try:
        known = workloads(options.also)
    except Exception as failure:  # it is a program
        parser.error(f'--also: {options.also}: {type(failure).__name__}: {failure}')
    wrong = [name for name in options.workloads.split(',') if name != 'empty' and name not in known]
    if wrong:
        parser.error(f'there is no workload {wrong[0]!r}')
    if options.turns < 1:
        parser.error('--turns: expected 1 or more')
    if not options.seconds > 0:
        parser.error('--seconds: expected more than 0')
    return options


def main():
    begin = time.monotonic()
    options = arguments()
    names = list(dict.fromkeys(options.workloads.split(',')))
    ok, seen = True, {}
    with tempfile.TemporaryDirectory() as folder:
        everyone = {name: [Child(name, how, folder, options.also) for how in configurations(name)]
                    for name in names}  # all prepare at once
        alive = {name: prepared(children) for name, children in everyone.items()}
        print(f'     prepared in {time.monotonic() - begin:.0f} s', flush=True)
        for left, name in enumerate(names):
            now = time.monotonic()
            share = (begin + options.seconds - now) / (len(names) - left)
            seen[name] = take_turns(alive[name], ROUNDS * options.turns, now + share) if alive[name] else []
            ok &= (judge_empty if name == 'empty' else judge_steps)(name, seen[name])
        # Only now, since the end of a process is work beside which nothing is measured.
        children = [one for several in everyone.values() for one in several]
        for one in children:
            one.close()
        for one in children:
            one.end()
            if one.waits():
                print(f'     {one.name}: threads waited {one.waits()} times for the writer of the trace', flush=True)
    if options.json:
        with open(options.json, 'w') as out:
            json.dump(seen, out)
    return not ok


if __name__ == '__main__':
    if sys.argv[1:2] == ['--child']:
        sys.exit(child(*sys.argv[2:6]))
    sys.exit(main())
