#!/bin/sh
# bench/torch measures: here a torch of its own (tests/fake-torch) over the fake CUDA driver stands for PyTorch.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
command -v python3 >/dev/null || skip_all 'there is no python3'
library=$top_builddir/.libs/libtidemark.so
shim=$top_builddir/bench/torch/.libs/shim.so
fake=$top_builddir/tests/fake-cuda/.libs
test -e "$library" && test -e "$shim" || skip_all 'this build has no shared library'
test -e "$fake/libcuda.so.1" || skip_all 'there is no fake CUDA driver'
$NM -D "$library" 2>/dev/null | grep -q '__asan_init\|__tsan_init' && skip_all 'a sanitizer has to be in python3 itself'
plan 41

# measure ARGUMENT...: everything that it prints goes to $said, its status to $status.
measure() {
    said=$(cd "$scratch" && PYTHONPATH=$torch LD_LIBRARY_PATH=$fake python3 -B "$bench/measure.py" \
        --library="$library" --shim="$shim" --json="$scratch/out.json" --seed=1 "$@" 2>&1 </dev/null)
    status=$?
}

# refused WORDS SENTENCE ARGUMENT...: wrong use, with these words and no traceback.
refused() {
    tap_words=$1 tap_says=$2
    shift 2
    measure "$@"
    case $said in
    *Traceback*) status=traceback ;;
    esac
    is "$status" 2 "$tap_says is wrong use"
    has_words "$said" "$tap_words" "$tap_says: the error says why"
}

# found EXPRESSION: what Python makes of the runs in the JSON, by configuration.
found() {
    python3 -B - "$scratch/out.json" "$1" <<'PY'
import json, sys
whole = json.load(open(sys.argv[1]))
runs = {run['configuration']: run for run in whole['runs']}
print(eval(sys.argv[2]))
PY
}

top_srcdir=$(cd "$top_srcdir" && pwd)
bench=$top_srcdir/bench/torch
torch=$top_srcdir/tests/fake-torch
ok 'every file of bench/torch is Python' python3 -B -c '
import sys
for name in sys.argv[1:]:
    compile(open(name).read(), name, "exec")' "$bench"/*.py

measure --list
has_words "$said" '* gpt2 ' '--list says which workloads there are'
torch=$scratch
measure
is "$status $said" "0 bench-torch: skipped: ModuleNotFoundError: No module named 'torch'" \
    'a machine without PyTorch is skipped, with the reason'
torch=$top_srcdir/tests/fake-torch
FAKE_TORCH_NO_GPU=1
export FAKE_TORCH_NO_GPU
measure
is "$status $said" '0 bench-torch: skipped: PyTorch finds no GPU' 'a machine without a GPU is skipped, with the reason'
unset FAKE_TORCH_NO_GPU

refused "there is no 'gtp2'; there are gpt2, " 'a workload that is none' --workloads=gtp2
refused "invalid number from 1 value: '0'" 'a run of 0 steps' --steps=0
refused 'no stack records a {trace}' 'a prediction of nothing' --predict --stack='pool | driver'
refused 'invalid choice: ' 'an aim that is none' --recommend=fast
refused 'one --stack without a {trace}' 'a recommendation from a stack with a log' --recommend=both \
    --stack='log({trace}) | driver' --tidemark=/bin/true
refused '--warmup=5 leaves no step of blocks to time' 'a warm-up as long as the run' --workloads=blocks --steps=5

refused '--most-of-native: there is no native run' 'a share of a native run that is left out' --no-native \
    --most-of-native=1

# A workload of the test's own. A request of 0 bytes is one that the stack does not see.
cat >"$scratch/mine.py" <<'PY'
from workloads import workload

@workload('three', 'three blocks of 1 MiB', steps=6)
def three(random):
    import torch
    yield
    while True:
        held = [torch.empty(1 << 20, dtype=torch.uint8, device='cuda') for _ in range(3)]
        held.append(torch.empty(0, dtype=torch.uint8, device='cuda'))
        yield
        del held

def alone(sizes):
    import glob, os, torch
    assert not [name for name in glob.glob('alive-*') if os.path.exists('/proc/' + name[6:])], 'another process is there'
    open(f'alive-{os.getpid()}', 'w').close()
    yield
    while True:
        held = [torch.empty(size << 20, dtype=torch.uint8, device='cuda') for size in sizes]
        yield
        del held

@workload('four', 'large blocks of a process that is alone', steps=6)
def four(random):
    return alone((40, 3, 70))

@workload('five', 'small blocks of a process that is alone', steps=6)
def five(random):
    return alone((1, 1, 1))

@workload('late', 'takes a second to begin', steps=6)
def late(random):
    import time
    time.sleep(1.1)
    yield from three(random)
PY
measure --workloads=three --also="$scratch/mine.py" --warmup=2 --sampler=1 --stack='pool | driver' \
    --stack='log({trace}, cupti=off) | driver' --stack='limit(2MiB) | driver' --stack='pool | nowhere' --stack='pool | vmm'
diag "$said"
is "$status" 1 'a run that failed makes the exit status 1'
is "$(found "[runs[name]['live_peak_bytes'] >> 20 for name in ('native', 'pool | driver')]")" '[3, 3]' \
    'the live peak of a stack is that of the native run'
is "$(found "len({run['turn'] for run in whole['runs']}), len(whole['runs'])")" '(1, 7)' \
    'a turn runs every configuration once'
is "$(found "runs['pool | driver']['driver_calls_step'], runs['log({trace}, cupti=off) | driver']['driver_calls_step']")" \
    '(0.0, 6.0)' 'what reaches the base is counted: nothing through a warm pool, every pair without one'
is "$(found "all(run['device_bytes'] >= run['live_peak_bytes'] for run in whole['runs'] if run['status'] == 'ok')")" True \
    'the device holds at least what is live'
is "$(found "runs['pool | vmm']['handles_step'], runs['pool | vmm']['steps'][0]['handles'] > 0")" '(0.0, True)' \
    'handles of physical pages are counted: some at first, and none from the third step on'
ok 'the sampler has looked at the device' test "$(found "min(run['samples'] for run in whole['runs'] \
    if run['status'] == 'ok') > 0")" = True
has_words "$(found "runs['limit(2MiB) | driver']['reason']")" 'limit: 1 MiB request exceeds 2 MiB limit' \
    'a refusal fails the run with the words of the layer'
has_words "$(found "runs['pool | nowhere']")" "'status': 'skipped'" \
    'a stack that cannot be made is skipped, and the others are measured'
has_words "$said" '| three | `pool \| driver` | 3 | ' 'the table has a row for each configuration'
for share in 1000 0; do
    measure --workloads=three --also="$scratch/mine.py" --warmup=2 --stack='pool | driver' --no-expandable \
        --most-of-native=$share
    test $share = 0 && wanted='1 FAIL' || wanted='0 PASS'
    is "$status ${wanted#* }" "$wanted" "the status says whether stacks have at most $share of the native memory"
    has_words "$said" "${wanted#* }: three, pool | driver: " "a line says whether a stack has at most $share of the native memory"
done
if test -x "$top_builddir/tidemark"; then
    measure --workloads=three --also="$scratch/mine.py" --warmup=2 --stack='log({trace}, cupti=off) | pool | driver' \
        --no-expandable --predict --tidemark="$top_builddir/tidemark"
    has_words "$said" '| three | `log({trace}, cupti=off) \| pool \| driver` | 32 | 32 | +0.0% |' \
        'a replay of the recorded traffic predicts what the base reserved'
    measure --workloads=three --also="$scratch/mine.py" --warmup=2 --stack='driver' --no-expandable --recommend=memory \
        --tidemark="$top_builddir/tidemark"
    diag "$said"
    is "$status" 0 'what is recommended for a workload is measured'
    has_words "$said" '| three | recorded | `driver` | 32 | 32 | +0.0% |' \
        'the recorded stack stands there with what was predicted and what it reserved'
    is "$(found "whole['recommended']['three']['stack'] in runs, runs[whole['recommended']['three']['stack']]['status']")" \
        "(True, 'ok')" 'the recommended stack has run'
    row=$(printf '%s\n' "$said" | grep '^| three | recommended | .* | [0-9.]* | [0-9.]* | [0-9.]* |$')
    has_words "$(printf '%s\n' "$row" | tr -d '\\')" "\`$(found "whole['recommended']['three']['stack']")\`" \
        'it stands beside it with the predicted and the measured time of a step'
    measure --workloads=five,four --also="$scratch/mine.py" --warmup=2 --stack='driver' --no-expandable \
        --recommend=memory --most-of-native=1000 --ahead=1 --tidemark="$top_builddir/tidemark"
    diag "$said"
    is "$status $(printf '%s\n' "$said" | sed -n 's/.*: recommended is //p' | sort -u | wc -l) $(printf '%s\n' "$said" |
        grep -c '^PASS: ')" '0 2 4' \
        'of two workloads each is judged by the stack that is recommended for it, and not by that of the other'
    is "$(printf '%s\n' "$said" | grep -c '^recording: .* MiB, ')" 2 'with --ahead=1 one process records at a time'
    measure --workloads=late --also="$scratch/mine.py" --warmup=2 --stack='driver' --no-expandable --recommend=memory \
        --time=1 --tidemark="$top_builddir/tidemark"
    has_words "$said" 'late is not recorded: --time=1 is over' 'the time bounds the recordings, too'
    measure --workloads=three --also="$scratch/mine.py" --warmup=2 --stack='pool | host' --no-expandable --recommend=both \
        --tidemark=/bin/false
    is "$status $(printf '%s\n' "$said" | grep -c '^nothing is recommended for three')" '1 1' \
        'a workload for which nothing is recommended is a failure, and is named'
else
    skip 9 'this build has no command'
fi
done_testing
