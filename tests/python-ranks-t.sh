#!/bin/sh
# python/tests/gpu_ranks.py runs and judges a job: here blocks of tests/fake-torch over the fake CUDA driver.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
test -e "$fake_cuda/libcuda.so.1" || skip_all 'there is no fake CUDA driver'
TIDEMARK=${TIDEMARK:-$top_builddir/tidemark}
test -x "$TIDEMARK" || skip_all 'this build has no command'
plan 7
PYTHONPATH=$PYTHONPATH:$top_srcdir/tests/fake-torch
export TIDEMARK

# ranks ARGUMENT...: everything that it prints goes to $said, its status to $status.
ranks() {
    said=$(cd "$scratch" && LD_LIBRARY_PATH=$fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 200 "$python" \
        "$top_srcdir/python/tests/gpu_ranks.py" "$@" 2>&1 </dev/null)
    status=$?
}

ranks --program=blocks --out=job --ranks=3
is "$status $(echo "$said" | "$AWK" '{ print $1, $2 }' | tr '\n' ' ')" \
    '0 PASS job PASS run PASS merge PASS ranks PASS peaks PASS skew PASS failure PASS report ' \
    'the peaks of a job are those that torch counts, and what is planted is named to the byte' || diag "$said"
has_words "$said" '67108864 bytes of the tag kept over the median, from step 12 on' 'the planted skew is told with its step'
has_words "$said" "(0, 17592186056761, 1, 'limit')" 'the planted refusal is told with its rank, size and cause'

# What is planted elsewhere, or not at all, fails.
sed -e 's/rank == SKEWED_RANK:$/rank == 2:/' "$top_srcdir/python/tests/gpu_ranks.py" >"$scratch/moved.py"
said=$(cd "$scratch" && LD_LIBRARY_PATH=$fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 200 "$python" moved.py --program=blocks \
    --ranks=3 2>&1)
is "$? $(echo "$said" | "$AWK" '$1 == "FAIL" { print $2 }' | tr '\n' ' ')" '1 skew report ' \
    'a skew of another rank than the planted one fails' || diag "$said"

FAKE_TORCH_NO_GPU=1 ranks --program=blocks
is "$status $said" '0 SKIP job: there is no GPU' 'without a GPU the job is skipped, with the reason'
FAKE_TORCH_NO_GPU=1 ranks
is "$status $(echo "$said" | grep -c '^SKIP job: there is no ')" '0 1' 'without a GPU or the libraries of GPT-2 its job is skipped, with the reason'
ranks --ranks=1
has_words "$status $said" 'a job has two ranks at least' 'one rank is no job'
done_testing
