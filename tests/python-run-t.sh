#!/bin/sh
# What python/tests/gpu_run.py says of training steps under `tidemark run`: here a torch of its own (tests/fake-torch)
# over the fake CUDA driver.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
test -e "$fake_cuda/libcuda.so.1" && test -e "$top_builddir/.libs/libtidemark-run.so" ||
    skip_all 'this build has no objects for tidemark run, or no fake driver'
unset LD_AUDIT LD_PRELOAD
PYTHONPATH=$PYTHONPATH:$top_srcdir/tests/fake-torch:$top_srcdir/python/tests
LD_LIBRARY_PATH=$fake_cuda:$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
TIDEMARK=$top_builddir/.libs/tidemark
test -x "$TIDEMARK" || TIDEMARK=$top_builddir/tidemark
export LD_LIBRARY_PATH TIDEMARK
plan 8

cat >"$scratch/also.py" <<'PY'
def make(each, before=0):
    def small():
        import torch

        kept = [torch.empty(4096, device=torch.device('cuda')) for _ in range(before)]
        return lambda: [torch.empty(1000 * n, device=torch.device('cuda')) for n in range(1, each + 1)] and kept

    return small


def broken():
    seen = []

    def step():
        seen.append(1)
        if len(seen) > 12:
            raise RuntimeError('this step is broken')

    return step


WORKLOADS = {'small': (make(8), 2), 'quiet': (make(0, 8), 3), 'broken': (broken, 2)}
PY

# steps WORKLOAD: what the case says goes to $said.
steps() {
    said=$(cd "$scratch" && timeout 100 "$python" - "$1" 2>&1 <<'PY'
import sys
import gpu_run
print(*gpu_run.case_steps(gpu_run.Lane(0, '.'), 'steps', sys.argv[1], 'also.py', 6))
PY
    )
}

steps small
has_words "$said" 'True ' 'no time is a failure'
has_words "$said" ' 8.00 that allocate, 8.00 that free, of 18 steps; 0 lost' \
    'the calls that the wrappers saw a step are counted, also those of the step that begins a turn'
has_words "$said" ' of 6 rounds' 'the rounds are counted'
has_words "$said" 'under tidemark run ' 'the ratio of the rounds is said'
has_words "$said" 'natively again ' 'what the measurement itself can tell apart is said'
steps quiet
has_words "$said" ' 0.00 that allocate, 0.00 that free, of 24 steps; 0 lost' 'what came before the turns does not count'
steps broken
has_words "$said" 'False not measured' 'a workload that fails amid its turns is a failure'
has_words "$said" 'this step is broken' 'the last words of a process that failed are kept'
