#!/bin/sh
# python/tests/gpu_speed.py measures and judges: here a torch of its own (tests/fake-torch) over the fake CUDA driver.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
test -e "$fake_cuda/libcuda.so.1" || skip_all 'there is no fake CUDA driver'
plan 26
PYTHONPATH=$PYTHONPATH:$top_srcdir/tests/fake-torch:$top_srcdir/python/tests
LD_LIBRARY_PATH=$fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# speed ARGUMENT...: everything that it prints goes to $said, its status to $status.
speed() {
    said=$(cd "$scratch" && timeout 200 "$python" "$top_srcdir/python/tests/gpu_speed.py" "$@" 2>&1 </dev/null)
    status=$?
}

# refused WORDS SENTENCE ARGUMENT...: wrong use, with these words and no traceback.
refused() {
    tap_words=$1 tap_says=$2
    shift 2
    speed "$@"
    case $said in
    *Traceback*) status=traceback ;;
    esac
    is "$status" 2 "$tap_says is wrong use"
    has_words "$said" "$tap_words" "$tap_says: the error says why"
}

cat >"$scratch/also.py" <<'PY'
def small():
    import torch

    return lambda: [torch.empty(1000 * n, device=torch.device('cuda')) for n in range(1, 9)]


def broken():
    import os
    import tidemark

    seen = []

    def step():
        seen.append(1)
        if len(seen) > 6 and tidemark._use.count_of_uses() != 0:
            raise RuntimeError('this step is broken')

    return step


WORKLOADS = {'small': (small, 2), 'broken': (broken, 2)}
PY

speed --turns=1 --workloads=empty,small --also=also.py --json=out.json
case $status in
0 | 1) passed=1 ;;
*) passed=0 ;;
esac
is "$passed" 1 'whether a bar is met is the status of a measurement'
has_words "$said" ' torch.empty: native ' 'torch.empty is judged'
has_words "$said" ' call stacks of Python: adds ' 'call stacks of Python are judged'
has_words "$said" ' small: native ' 'the step of a workload is judged, also of one from a file'
has_words "$said" 'small: adds, in ms: the stack ' 'what the stack adds to a step is said'
has_words "$said" '; recording ' 'what recording adds to that is said'
has_words "$said" '; samples of pool and device ' 'what sampling adds to that is said'
has_words "$said" "small: yardstick of native's: native 1.000, untraced " 'how fast the processors were is said'
found=$("$python" - "$scratch/out.json" <<'PY'
import json, sys
seen = json.load(open(sys.argv[1]))
parts = {'native', 'untraced', 'unsampled', 'traced'}
print([len(rounds) for rounds in seen.values()], all(set(one) == parts for one in seen['small']),
      all(set(one) == parts | {'traced-python', 'history'} for one in seen['empty']))
PY
)
is "$found" '[6, 6] True True' 'the JSON has all configurations of each round'

speed --turns=1 --workloads=broken --also=also.py
is "$status" 1 'a workload that fails amid its turns is a failure'
has_words "$said" 'this step is broken' 'the last words of a process that failed are kept'
has_words "$said" 'FAIL broken: not measured' 'a workload that failed is not measured'

refused "there is no workload 'gpt9'" 'an unknown workload' --workloads=empty,gpt9
refused '--turns: expected 1 or more' 'no turn at all' --turns=0
refused '--seconds: expected more than 0' 'no time at all' --seconds=0
echo 'raise ValueError("no workloads here")' >"$scratch/bad.py"
refused '--also: bad.py: ValueError: no workloads here' 'a file of workloads that fails' --also=bad.py
refused '--also: none.py' 'a file of workloads that is not there' --also=none.py

program <<'PY'
import gpu_speed as speed

def rounds(ratio, stick=1.0, count=9):
    return [{'native': {'value': 100.0, 'yardstick': 10.0}, 'traced': {'value': 100.0 * ratio, 'yardstick': 10.0 * stick}}
            for _ in range(count)]

print('bound', speed.judge_steps('a', rounds(1.03)), speed.judge_steps('a', rounds(1.031)))
print('slow', speed.judge_steps('a', rounds(1.0) + rounds(1.8, stick=1.8, count=15)))
print('all', speed.judge_steps('a', rounds(1.0, count=1) + rounds(1.8, stick=1.8, count=8)))
where = [speed.places(number, [0, 2, 4, 6], [8, 9]) for number in range(4)]
print('places', [(one['main'], one['backward']) for one in where], speed.places(1, [], []))
PY
has_words "$said" 'bound True False' 'a step may take 1.03 of the native one, and no more'
has_words "$said" 'slow True' 'a round in which a process had a slower processor does not count'
has_words "$said" 'all False' 'where hardly any processor was as fast as the others all rounds count'
has_words "$said" 'places [([0], [4]), ([2], [6]), ([4], [0]), ([6], [2])] {}' \
    'each round has two processors that no other thread has, the next round others'
