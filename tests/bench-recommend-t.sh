#!/bin/sh
# bench/recommend.py compares predictions with a device: here the fake CUDA driver stands for one, and a command that
# does not answer, or ends, for one that is broken.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
command -v python3 >/dev/null || skip_all 'there is no python3'
tidemark=${TIDEMARK:-$top_builddir/tidemark}
fake=$top_builddir/tests/fake-cuda/.libs
bench=$top_srcdir/bench/recommend.py
test -x "$tidemark" || skip_all 'this build has no command'
test -e "$fake/libcuda.so.1" || skip_all 'there is no fake CUDA driver'
plan 36

fail=
# bench ARGUMENT...: what it prints goes to $said, its messages to $scratch/err, its status to $status.
bench() {
    said=$(LD_LIBRARY_PATH=$fake FAKE_CUDA_MEMORY=2G FAKE_CUDA_FAIL=$fail timeout 120 python3 -B "$bench" "$@" 2>"$scratch/err" </dev/null)
    status=$?
}

# refused WORDS SENTENCE ARGUMENT...: wrong use, with these words and no traceback.
refused() {
    tap_words=$1 tap_says=$2
    shift 2
    bench "$@"
    is "$status $(grep -c Traceback "$scratch/err")" '2 0' "$tap_says is wrong use"
    has_words "$(cat "$scratch/err")" "$tap_words" "$tap_says: the error says why"
}

# Blocks of 3 MiB and more, each of which is freed after the next three.
loop() {
    $AWK -v name="$1" 'BEGIN {
        print "Thread,Time,Action,Pointer,Size,Stream"
        for (i = 0; i < 60; i++) {
            size[i] = 3145728 + i % 5 * 700000
            printf "1,00:00:%02d.%06d,allocate,0x%d,%d,0\n", i / 10, i % 10 * 100000, 1000 + i, size[i]
            if (i > 2) printf "1,00:00:%02d.%06d,free,0x%d,%d,0\n", i / 10, i % 10 * 100000 + 1, 997 + i, size[i - 3]
        }
    }' >"$scratch/$1.csv"
}
loop one
loop two

bench --bases=cuda,driver --each=2 --turns=2 --json="$scratch/out.json" "$tidemark" "$scratch/one.csv" "$scratch/two.csv"
test "$status" -le 1
is $? 0 'two inputs are compared with a device'
is "$(printf '%s\n' "$said" | grep -c '^| one | .*|$') $(printf '%s\n' "$said" | grep -c '^| two | ')" '8 8' \
    'the table has a row for the best and the worst two over each base'
has_words "$said" 'PASS one, cuda: reserved as predicted, to the byte: 4 of 4' 'over cuda memory is as predicted, to the byte'
has_words "$said" 'PASS two, driver: reserved as predicted, to the byte: 4 of 4' 'so it is over driver'
is "$(printf '%s\n' "$said" | grep -c '^\(PASS\|FAIL\) one: time within a fifth of what was predicted: [0-9]* of 8$')" 1 \
    'the claim for times has a line'
is "$(printf '%s\n' "$said" | grep -c '^\(PASS\|FAIL\) one: order by time, tau at least 0.8: tau [-0-9.]*')" 1 \
    'the claim for the order has a line'
is "$(python3 -B -c 'import json, sys
stacks = json.load(open(sys.argv[1]))["stacks"]
print(len(stacks), all(stack["bytes"] > 0 and stack["ns"] == min(stack["times"]) > 0 for stack in stacks))' "$scratch/out.json")" \
    '16 True' 'the JSON has what was measured of each stack'
is "$(python3 -B -c 'import json, sys
print({len(stack["times"]) for stack in json.load(open(sys.argv[1]))["stacks"]})' "$scratch/out.json")" '{8}' \
    'four short stacks are each replayed four times within a process, in each of two turns'
is "$(printf '%s\n' "$said" | grep -c '^     one: the second least time of a stack is [0-9]*% above the least in the median, [0-9]*% at most')" 1 \
    'a line says how far the turns are apart'
is "$(printf '%s\n' "$said" | grep -c '^     two: the second turn is within a fifth of the first one for [0-8] of 8: ')" 1 \
    'a line says how many stacks took the same time in both turns'
is "$(PYTHONPATH=$top_srcdir/bench python3 -B -c 'from types import SimpleNamespace as stack
from recommend import with_short_again
short, long = stack(said_ns=5e6), stack(said_ns=5e9)
def counts(*stacks):
    again = with_short_again(list(stacks))
    return sum(one is short for one in again), sum(one is long for one in again)
print(counts(short, long), counts(long), counts(*[short] * 12), counts(*[long] * 15, short))')" '(15, 1) (0, 1) (12, 0) (1, 15)' \
    'a long stack is not replayed again, and no process gets more than 16'

# The order: 1 where it is the same, -1 where it is turned round.
is "$(PYTHONPATH=$top_srcdir/bench python3 -B -c 'from recommend import tau
print(tau([(1, 5), (2, 6), (3, 9)]), tau([(1, 9), (2, 6), (3, 5)]), tau([(1, 5), (2, 9), (3, 6)]), tau([(1, 5)]))
print(tau([(1, 5), (1.01, 4), (3, 9)], 1.1))')" '1.0 -1.0 0.3333333333333333 None
1.0' "Kendall's tau of two orders, and without those that are predicted to take as long"

# Costs.
bench --bases=cuda --each=1 --turns=1 --measure="$scratch/costs" "$tidemark" "$scratch/one.csv"
has_words "$(cat "$scratch/costs")" 'device Fake GPU' 'the device is measured first where that is asked for'
bench --bases=cuda --each=1 --turns=1 --costs="$scratch/costs" "$tidemark" "$scratch/one.csv"
has_words "$said" 'PASS one, cuda: reserved' 'the costs that were measured can be given'
echo 'nothing' >"$scratch/wrong"
bench --costs="$scratch/wrong" "$tidemark" "$scratch/one.csv"
is "$status" 1 'a file of costs that is wrong is a failure'
has_words "$said" "FAIL one: recommend: $scratch/wrong:1: no cost has this name" 'which is said in the words of the command'

# What goes wrong.
bench "$tidemark" "$scratch/nowhere.csv" "$scratch/one.csv" --each=1
has_words "$said" 'FAIL nowhere: recommend: ' 'an input that is not there has a line'
fail=cuMemAlloc:2
bench --bases=cuda --each=1 --turns=1 "$tidemark" "$scratch/one.csv"
is "$status" 1 'a stack that refuses requests on the device is a failure'
has_words "$said" 'refused: event ' 'and its row says the first of them'
fail=
said=$(LD_LIBRARY_PATH=$fake FAKE_CUDA_DEVICES=0 python3 -B "$bench" "$tidemark" "$scratch/one.csv" 2>/dev/null)
is "$? $(printf '%s\n' "$said" | grep -c '^bench-recommend: skipped: ')" '0 1' 'a machine without a device is skipped, with the reason'

# Commands that hang or end, each only in replays through cuda.
broken() {
    cat >"$scratch/$1" <<SH
#!/bin/sh
case "\$*" in
replay*'| cuda'*) $2 ;;
esac
exec "$tidemark" "\$@"
SH
    chmod +x "$scratch/$1"
}
broken hangs 'exec sleep 60'
broken crashes 'kill -11 $$'
begin=$(date +%s)
bench --bases=cuda --each=1 --turns=1 --time=8 "$scratch/hangs" "$scratch/one.csv"
is "$status $(test $(($(date +%s) - begin)) -lt 40 && echo bounded)" '3 bounded' 'a replay that hangs is ended, and leaves its claims open'
has_words "$said" '2 of 2 not measured' 'which say how much was not measured'
bench --bases=cuda --each=1 --turns=1 "$scratch/crashes" "$scratch/one.csv"
is "$status" 1 'a replay that crashes is a failure'
has_words "$said" 'ended by signal 11' 'and each row says so'

broken tires "test ! -e '$scratch/tired' || export FAKE_CUDA_FAIL=cuMemAlloc:2; : >'$scratch/tired'"
bench --bases=cuda --each=1 --turns=2 "$scratch/tires" "$scratch/one.csv"
is "$status $(printf '%s\n' "$said" | grep -c '^| one .* refused: event ')" '1 2' \
    'a stack that refuses requests in its second turn alone is a failure, and its row says so'
has_words "$said" 'FAIL one, cuda: reserved as predicted, to the byte: 0 of 2' 'what it had in the first turn does not count'

refused "there is no 'rocm'; there are cuda, driver, vmm" 'a base that is none' --bases=rocm "$tidemark" "$scratch/one.csv"
refused '--each=9: a number from 1 to 8' 'more stacks than a replay takes' --each=9 "$tidemark" "$scratch/one.csv"
refused '--time=soon: a number from 1' 'a time that is none' --time=soon "$tidemark" "$scratch/one.csv"
refused '--costs and --measure exclude each other' 'two kinds of costs' --costs=a --measure=b "$tidemark" "$scratch/one.csv"
refused 'of what? Name traces or CSV files' 'no input' "$tidemark"
