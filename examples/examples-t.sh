#!/bin/sh
# The example programs run and say what they are there to show.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

plan 8
unset TIDEMARK_STACK
own=$("$top_builddir/examples/own-resource")
is $? 0 'own-resource succeeds'
has_words "$own" 'refused: frame: 1048576 bytes requested, 1047576 bytes left' 'a full frame refuses in its own words'
has_words "$own" 'current 1048576 bytes, peak 1048576 bytes, 2 allocations' 'statistics count over it'

wrap=$("$top_builddir/examples/wrap")
is $? 0 'wrap succeeds with its default stack'
has_words "$wrap" 'memory comes from: statistics | limit(64MiB) | host' 'it says what its stack is'
has_words "$wrap" 'peak: 47185920 bytes in 12 allocations' 'it says how high its memory went'

wrap=$(TIDEMARK_STACK='statistics | limit(32MiB) | sim' "$top_builddir/examples/wrap")
is $? 1 'wrap fails where the stack of the environment has a lower limit'
has_words "$wrap" 'batch 256 does not fit: limit: ' 'it says which batch did not fit, and why'
done_testing
