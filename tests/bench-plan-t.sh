#!/bin/sh
# What bench/plan prints of a loop in RMM's CSV, and wrong use of its options. tests/plan-t tests the placements.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
bench=$top_builddir/bench/plan
test -x "$bench" || skip_all 'bench/plan is not built'
plan 19

# refused WORDS SENTENCE ARGUMENT...: exit status 2, and these words.
refused() {
    tap_words=$1 tap_says=$2
    shift 2
    said=$("$bench" "$@" 2>&1)
    status=$?
    is "$status" 2 "$tap_says is wrong use"
    has_words "$said" "$tap_words" "$tap_says: the error says why"
}

# A weight, and 40 steps of 40 blocks of 1 MiB, each of which is freed after the next one.
$AWK 'BEGIN {
    print "Thread,Time,Action,Pointer,Size,Stream"
    print "1,0,allocate,0x10,4194304,0"
    for (step = 0; step < 40; step++)
        for (i = 0; i < 40; i++) {
            n++
            printf "1,%d,allocate,0x%d,1048576,0\n", n, 1000 + n
            if (i > 0) printf "1,%d,free,0x%d,1048576,0\n", n, 999 + n
            if (i == 39) printf "1,%d,free,0x%d,1048576,0\n", n, 1000 + n
        }
}' >"$scratch/loop.csv"
said=$("$bench" --seconds=1 --seed=7 "$scratch/loop.csv" 2>&1)
is $? 0 'a loop is measured'
said=$(printf '%s\n' "$said" | tr -s ' ')
has_words "$said" 'seed 7' 'the seed is printed'
has_words "$said" 'bound: live at most 6.00 MiB 1.0000' 'the most that was live is the bound'
has_words "$said" 'best plan 6.00 MiB 1.0000 gap 0.00%' 'the best plan is printed with its gap'
has_words "$said" 'a loop of 40 blocks a step, beside 1 that stay (4.00 MiB)' 'the loop is found'
has_words "$said" 'one step alone' 'a step alone is measured'
refused 'seconds, from 0 to 86400' 'a time that is none' --seconds=x
refused 'must be a number' 'a negative number of rounds' --rounds=-1
refused 'FROM:TO, the first below the second' 'a step that ends before its begin' --step=7:7 "$scratch/loop.csv"
refused 'there is none' 'a step without an input' --step=1:7

# Buffers as minimalloc lists them; these need 10.
printf 'id,lower,upper,size\na,0,10,3\nb,0,5,5\nc,5,10,5\nd,2,8,2\n' >"$scratch/buffers.csv"
said=$("$bench" --seconds=1 "$scratch/buffers.csv" 2>&1 | tr -s ' ')
has_words "$said" 'buffers.csv: 4 buffers' 'a list of buffers is read'
has_words "$said" 'bound: live at most 0.00 MiB 1.0000' 'its bound is printed'
has_words "$said" 'best plan 0.00 MiB 1.0000 gap 0.00%' 'its best plan is printed with its gap'
printf 'buffer,start,end,size\n0,5,5,4\n' >"$scratch/buffers.csv"
refused 'buffers.csv:2: a buffer is expected: id,lower,upper,size' 'a buffer that ends where it begins' "$scratch/buffers.csv"
