#!/bin/sh
# Tests that every stack in doc/stack-text.md can be made, and that its description makes it again.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

# Stacks over CUDA are made over sim, since there may be no GPU.
sed -n '/^```stack$/,/^```$/p' "$top_srcdir/doc/stack-text.md" | grep -v '^```' |
    sed -E 's/(driver|vmm|cuda|managed|pinned)(\([^)]*\))?(\}|$)/sim(capacity=80GiB)\3/g' >"$scratch/stacks"

# described TEXT: the description of the stack that the text makes.
described() {
    (cd "$scratch" && rm -f ./*.db* && TIDEMARK_STACK=$1 "$top_builddir/examples/wrap") |
        sed -n 's/^memory comes from: //p'
}

stacks=$(grep -c . "$scratch/stacks")
plan $((stacks * 2 + 2))
ok 'doc/stack-text.md has stacks' test "$stacks" -gt 10
while read -r stack; do
    first=$(described "$stack" 2>"$scratch/error")
    ok "the stack can be made: $stack" test -n "$first" || diag "$(cat "$scratch/error")"
    is "$(described "$first" 2>/dev/null)" "$first" "the description makes the same stack: $first"
done <"$scratch/stacks"

wrong=$(TIDEMARK_STACK='statistics | limit(-4) | host' "$top_builddir/examples/wrap" 2>&1)
ok 'doc/stack-text.md has the message of its example of a mistake' grep -qxF "$wrong" "$top_srcdir/doc/stack-text.md"
done_testing
