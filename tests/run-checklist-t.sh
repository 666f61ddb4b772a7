#!/bin/sh
# Runs tests/run/checklist.c, which is a test, by `tidemark run` under a limit, on the fake driver.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
top_builddir=$(cd "$top_builddir" && pwd)
checklist=$top_builddir/tests/run/checklist
test -x "$checklist" && test -e "$top_builddir/.libs/libtidemark-run.so" ||
    skip_all 'this build has no objects for tidemark run, or no fake driver'
unset TIDEMARK_STACK TIDEMARK_LIBRARY LD_AUDIT LD_PRELOAD NVTX_INJECTION64_PATH
LD_LIBRARY_PATH=$top_builddir/tests/fake-cuda/.libs:$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
tidemark=$top_builddir/.libs/tidemark
test -x "$tidemark" || tidemark=$top_builddir/tidemark
"$tidemark" run -o "$scratch/t.db" --limit 64MiB --interpose="${INTERPOSE:-auto}" -- "$checklist"
