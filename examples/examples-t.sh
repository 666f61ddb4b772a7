#!/bin/sh
# The example programs run and say what they are there to show.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

plan 16
unset TIDEMARK_STACK
own=$("$top_builddir/examples/own-resource")
is $? 0 'own-resource succeeds'
has_words "$own" 'refused: frame: 1048576 bytes requested, 1047576 bytes left' \
    'own-resource prints the refusal of its full frame'
has_words "$own" 'current 1048576 bytes, peak 1048576 bytes, 2 allocations' \
    'own-resource prints the statistics over its frame'

wrap=$("$top_builddir/examples/wrap")
is $? 0 'wrap succeeds with its default stack'
has_words "$wrap" 'memory comes from: statistics | limit(64MiB) | host' 'wrap prints its stack'
has_words "$wrap" 'peak: 47185920 bytes in 12 allocations' 'wrap prints its peak'

wrap=$(TIDEMARK_STACK='statistics | limit(32MiB) | sim' "$top_builddir/examples/wrap")
is $? 1 'wrap fails where the stack of the environment has a lower limit'
has_words "$wrap" 'batch 256 does not fit: limit: ' 'wrap prints which batch did not fit, and why'
# Those of CUDA run on the fake driver of the tests where there is one, else on what the machine has.
builddir=$(cd "$top_builddir" && pwd)
if test -e "$builddir/tests/fake-cuda/.libs/libcuda.so.1"; then
    LD_LIBRARY_PATH=$builddir/tests/fake-cuda/.libs
    export LD_LIBRARY_PATH
fi
streams=$("$builddir/examples/streams" 2>&1)
streams_status=$?
if test $streams_status -eq 77; then
    has_words "$streams" 'no GPU on this machine' 'streams says that there is no GPU'
    skip 7 'no GPU'
    done_testing
fi
is $streams_status 0 'streams succeeds'
has_words "$streams" 'handed over: the reader saw 7' 'streams prints what a stream read that another has handed over'
has_words "$streams" 'lent: the reader saw 8' 'streams prints what a stream read that another has lent'

share=$(cd "$scratch" && "$builddir/examples/share" 2>&1)
is $? 0 'share succeeds' || diag "$share"
has_words "$share" 'reader: 4194304 bytes, the first word is 7' \
    'share prints what another process read in the shared memory'
if test -n "$SQLITE3"; then
    question='SELECT count(*), sum(size), sum(free_ns IS NULL), min(address <> 0) FROM allocation'
    is "$("$SQLITE3" "$scratch/share-maker.db" "$question")" '1|4194304|0|1' \
        'the trace of the sharing process has the allocation'
    is "$("$SQLITE3" "$scratch/share-reader.db" "$question")" '1|4194304|0|1' \
        'the trace of the other process has the allocation'
    is "$("$SQLITE3" "$scratch/share-reader.db" "SELECT kind FROM layer WHERE upstream_layer_id IS NULL")" \
        driver_import 'the base of the trace of the other process is driver_import'
else
    skip 3 'no sqlite3'
fi
done_testing
