#!/bin/sh
# Tests that each mutation of tests/mutations still changes one line of the code.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
top_srcdir=$(cd "$top_srcdir" && pwd)
export top_srcdir

plan 2
sh "$top_srcdir/tests/mutate" --check >"$scratch/out" 2>&1
status=$?
sed 's/^/# /' "$scratch/out"
ok 'each mutation changes one line of its file' test "$status" -eq 0
listed=$(grep -c '	tests/' "$top_srcdir/tests/mutations")
ok 'there are mutations, and all of them were looked at' grep -q "^$listed mutations, " "$scratch/out"
