#!/usr/bin/env python3
"""On a GPU: a job of several ranks under PyTorch, a trace a rank, merged: what was planted is named, to the byte.

    LD_LIBRARY_PATH=.../lib PYTHONPATH=.../python python3 python/tests/gpu_ranks.py [--out=DIR] [--tidemark=COMMAND]

DistributedDataParallel of GPT-2, a process a rank: over NCCL where there are as many GPUs as ranks, else over gloo with
all ranks on one GPU. Rank 1 keeps 64 MiB more from step 12 on, and rank 0 asks for more than its limit in step 13. The
job runs twice at the same time: natively, where PyTorch's own allocator counts, and with a trace of each rank. One line
for each check, PASS, FAIL or SKIP, with figures; the exit status is 1 where one fails. `--out` keeps the traces, the file
of the job and its page.
"""
import argparse
import concurrent.futures
import contextlib
import gc
import importlib.util
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

STEPS, SKEWED_STEP, REFUSED_STEP = 15, 12, 13
SKEWED_RANK, REFUSED_RANK = 1, 0
KEPT, REFUSED = 64 << 20, (1 << 44) + 12345
LIMIT = '1TiB'  # more than any of these programs takes, and less than what is to be refused
BATCH, LENGTH = 2, 256


# -- one rank ---------------------------------------------------------------------------------------------------------


class Planted:
    """What a rank does beside its training: it marks steps, keeps something, and asks for too much."""

    def __init__(self, traced):
        self.rank, self.kept, self.refusals = int(os.environ['RANK']), None, 0
        self.mark, self.tag = lambda text: None, lambda name: contextlib.nullcontext()
        if traced:
            import tidemark

            self.mark, self.tag = tidemark.mark, tidemark.tag

    def begin(self, step):
        import torch

        self.mark(f'step {step}')
        if step == SKEWED_STEP and self.rank == SKEWED_RANK:
            with self.tag('kept'):
                self.kept = torch.empty(KEPT, dtype=torch.uint8, device='cuda')
        if step == REFUSED_STEP and self.rank == REFUSED_RANK:
            try:
                torch.empty(REFUSED, dtype=torch.uint8, device='cuda')
            except RuntimeError:
                self.refusals += 1


def run_gpt2(planted, traced, backend):
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

    device = torch.device('cuda', int(os.environ['LOCAL_RANK']))
    torch.cuda.set_device(device)
    more = {'device_id': device} if backend == 'nccl' else {}
    torch.distributed.init_process_group(backend, **more)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).train()
    if traced:
        import tidemark

        tidemark.torch.tag_modules(model)
    model = DistributedDataParallel(model.cuda(), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.manual_seed(2 + planted.rank)
    ids, losses = torch.randint(50257, (STEPS, BATCH, LENGTH)), []
    gc.collect()
    gc.disable()  # else it frees at other moments in the one run than in the other
    for step in range(STEPS):
        planted.begin(step)
        batch = ids[step].cuda()
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss, batch
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return losses


def run_blocks(planted, traced, backend):
    """Blocks that come and go, without numbers: for a machine without a GPU."""
    import torch

    blocks = [torch.empty(1 << 20, dtype=torch.uint8, device='cuda') for _ in range(4)]
    for step in range(STEPS):
        planted.begin(step)
        passing = [torch.empty((1 << 20) + 512 * number, dtype=torch.uint8, device='cuda') for number in range(16)]
        del passing
    return [float(len(blocks))]


PROGRAMS = {'gpt2': run_gpt2, 'blocks': run_blocks}


def child(program, how, path, backend):
    """One rank; prints its results as the last line."""
    traced = how == 'traced'
    if traced:
        import tidemark

        tidemark.trace(path, limit=LIMIT, overwrite=True).start()
    planted = Planted(traced)
    answer = {'results': PROGRAMS[program](planted, traced, backend), 'refusals': planted.refusals}
    if not traced:
        import torch

        answer['peak'] = torch.cuda.memory_stats()['requested_bytes.all.peak']
    print(json.dumps(answer), flush=True)


# -- the job: run, merge, judge ---------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as listening:
        listening.bind(('127.0.0.1', 0))
        return listening.getsockname()[1]


def start_rank(options, how, rank, port, out, deadline):
    command = [sys.executable, os.path.abspath(__file__), '--child', options.program, how,
               os.path.join(out, 'rank-%r.db'), options.backend]
    shared = {'WORLD_SIZE': str(options.ranks), 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port),
              'RANK': str(rank), 'LOCAL_RANK': str(rank if options.backend == 'nccl' else 0),
              'GLOO_SOCKET_IFNAME': 'lo', 'NCCL_SOCKET_IFNAME': 'lo', 'TOKENIZERS_PARALLELISM': 'false'}
    done = subprocess.run(command, capture_output=True, text=True, timeout=max(1, deadline - time.monotonic()),
                          env={**os.environ, **shared})
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()
        with open(os.path.join(out, f'{how}-{rank}.err'), 'w', encoding='utf-8') as errors:
            errors.write(words)
        raise RuntimeError(f'{how} rank {rank} ended with {done.returncode}: {words[-600:]}')
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_job(options, out):
    """Both jobs, side by side: for each its ranks' answers."""
    deadline = time.monotonic() + options.seconds
    with concurrent.futures.ThreadPoolExecutor(2 * options.ranks) as pool:
        runs = {}
        for how in ('native', 'traced'):
            port = free_port()
            runs[how] = [pool.submit(start_rank, options, how, rank, port, out, deadline)
                         for rank in range(options.ranks)]
        return {how: [run.result() for run in list_of] for how, list_of in runs.items()}


def tidemark(options, *arguments):
    """The exit status and what the command prints; its messages go to stderr."""
    done = subprocess.run([options.tidemark, *arguments], stdout=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stdout


def judge_results(answers, paths):
    pairs = [pair for native, traced in zip(answers['native'], answers['traced'])
             for pair in zip(native['results'], traced['results'])]
    off = max(abs(one - other) / max(abs(one), 1e-9) for one, other in pairs)
    refusals = [[answer['refusals'] for answer in answers[how]] for how in ('native', 'traced')]
    rows, lost = [], 0
    for path in paths:
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows.append(database.execute('SELECT count(*) FROM allocation').fetchone()[0])
            lost += database.execute('SELECT coalesce(sum(events), 0) FROM loss').fetchone()[0]
    ok = off <= 1e-3 and lost == 0 and min(rows) > 0 and refusals[0] == refusals[1] and sum(refusals[1]) == 1
    return ok, f'results off by {off:.1e}; rows of the ranks {rows}, {lost} lost; refusals {refusals[1]}'


def judge_merge(options, paths, job):
    began = time.monotonic()
    status, _ = tidemark(options, 'merge', *paths, '-o', job)
    if status != 0:
        return False, f'merge ended with {status}'
    with contextlib.closing(sqlite3.connect(job)) as database:
        ranks, complete = database.execute('SELECT count(*), min(complete) FROM rank').fetchone()
        world = database.execute("SELECT value FROM meta WHERE key = 'world_size'").fetchone()
    ok = ranks == options.ranks and complete == 1 and world == (options.ranks,)
    return ok, f'{ranks} ranks of {world[0] if world else "?"} in {time.monotonic() - began:.1f} s, ' \
        f'{os.path.getsize(job)} bytes, {"all" if complete == 1 else "not all"} complete'


def judge_peaks(answers, said):
    merged = {row['rank']: row['peak_bytes'] for row in said['by_rank']}
    counted = {rank: answer['peak'] for rank, answer in enumerate(answers['native'])}
    return merged == counted, f"{said['memory']}: merged {merged}, PyTorch's own count {counted}"


def judge_skew(said):
    own = [group for group in said['groups'] if group['kind'] == 'tag' and group['name'] == 'kept']
    group = own[0] if own else {}
    seen = (said['highest_rank'], group.get('over_median_bytes'), group.get('from_step'))
    return seen == (SKEWED_RANK, KEPT, SKEWED_STEP), \
        f'rank {seen[0]}, {seen[1]} bytes of the tag kept over the median, from step {seen[2]} on (planted: ' \
        f'{SKEWED_RANK}, {KEPT}, {SKEWED_STEP}); {said["highest_bytes"] - said["median_bytes"]} bytes in all'


def judge_failure(said):
    failed = [(row['first_rank'], row['size'], row['count'], row['cause']) for row in said['failed']]
    return failed == [(REFUSED_RANK, REFUSED, 1, 'limit')], \
        f"rank, size, count, cause: {failed} (planted: {REFUSED_RANK}, {REFUSED}, 1, limit)"


def judge_report(options, job, page):
    """The page is made, and its picture over steps has what rank 1 keeps, from its step on."""
    began = time.monotonic()
    status, _ = tidemark(options, 'report', '-o', page, job)
    seconds, (again, text) = time.monotonic() - began, tidemark(options, 'report', '--json', job)
    if status != 0 or again != 0:
        return False, f'report ended with {status} and {again}'
    memory = json.loads(text)['memories'][0]
    axis, row = memory['steps'], memory['rows']['values']['rank'].index(SKEWED_RANK)
    over = axis['cells']['values']['over'][row * axis['buckets']:(row + 1) * axis['buckets']]
    place = SKEWED_STEP - memory['first_step'] + 1
    seen = [cell * axis['unit_bytes'] for cell in (over[place - 1], over[place], over[-1])]
    ok = all(abs(cell - wanted) < axis['unit_bytes'] for cell, wanted in zip(seen, (0, KEPT, KEPT)))
    return ok, f'{os.path.getsize(page)} bytes in {seconds:.1f} s; rank {SKEWED_RANK} over the median before, in and ' \
        f'long after step {SKEWED_STEP}: {seen}'


def lacking(options):
    """Why the job cannot run here; None: it can."""
    for module in ('torch', 'transformers') if options.program == 'gpt2' else ('torch',):
        if importlib.util.find_spec(module) is None:
            return f'there is no {module}'
    import torch

    if not torch.cuda.is_available():
        return 'there is no GPU'
    options.backend = 'nccl' if torch.cuda.device_count() >= options.ranks else 'gloo'
    return None


def judge_all(options, out, say):
    say('job', lambda: (True, f'{options.ranks} ranks of {options.program} over {options.backend}, {STEPS} steps'))
    answers, said = {}, {}
    paths = [os.path.join(out, f'rank-{rank}.db') for rank in range(options.ranks)]
    job = os.path.join(out, 'job.db')

    def run():
        answers.update(run_job(options, out))
        return judge_results(answers, paths)

    def ask():
        status, text = tidemark(options, 'ranks', '--json', '--limit=1000000', job)
        said.update(json.loads(text))
        return status == 0, f'ended with {status}; memories {[row["memory"] for row in said["memories"]]}'

    # What follows needs what is before it.
    return say('run', run) and say('merge', lambda: judge_merge(options, paths, job)) and say('ranks', ask) and all([
        say('peaks', lambda: judge_peaks(answers, said)), say('skew', lambda: judge_skew(said)),
        say('failure', lambda: judge_failure(said)),
        say('report', lambda: judge_report(options, job, os.path.join(out, 'job.html')))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', help='keep the traces, the file of the job and its page in this folder')
    parser.add_argument('--ranks', type=int, default=2, help='processes (2)')
    parser.add_argument('--seconds', type=float, default=75, help='how long the job may take (75)')
    parser.add_argument('--program', choices=PROGRAMS, default='gpt2', help='blocks needs no more than allocations')
    parser.add_argument('--tidemark', default=os.environ.get('TIDEMARK', 'tidemark'), help='the command')
    options = parser.parse_args()
    if options.ranks < 2:
        parser.error('a job has two ranks at least')
    lack = lacking(options)
    if lack is not None:
        print(f'SKIP job: {lack}')
        return 0
    began = time.monotonic()

    def say(name, judge):
        try:
            ok, words = judge()
        except Exception as failure:
            ok, words = False, f'{type(failure).__name__}: {failure}'
        print(f'{"PASS" if ok else "FAIL"} {name} ({time.monotonic() - began:.0f} s): {words}', flush=True)
        return ok

    with tempfile.TemporaryDirectory() as scratch:
        out = options.out or scratch
        os.makedirs(out, exist_ok=True)
        return 0 if judge_all(options, out, say) else 1


if __name__ == '__main__':
    if sys.argv[1:2] == ['--child']:
        sys.exit(child(*sys.argv[2:6]))
    sys.exit(main())
