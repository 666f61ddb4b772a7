# Tests what the command refuses: shares above the whole, times outside of the recording, filters that nothing passes,
# options of no command, and input that needs no import.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db

# refused WORDS SENTENCE ARGUMENT...: the command ends with exit status 2, prints nothing and says these words.
refused() {
    words=$1 sentence=$2
    shift 2
    "$tidemark" "$@" >"$scratch/out" 2>"$scratch/err"
    is "$? $(wc -c <"$scratch/out") $(head -n 1 "$scratch/err")" "2 0 $words" "$sentence"
}

# fine SENTENCE ARGUMENT...: the command has an answer.
fine() {
    sentence=$1
    shift
    "$tidemark" "$@" >"$scratch/out" 2>"$scratch/err"
    is "$? $(cat "$scratch/err")" '0 ' "$sentence"
}

# 8 ms from the first allocation, after 1 ms, to the last free.
"$top_builddir/tests/make-trace" "$trace" "
    INSERT INTO frame VALUES (1, 1, NULL, 'hot', 'a.c', 1);
    INSERT INTO callstack VALUES (1, 0, 1);
    INSERT INTO mark VALUES (500000, 1, 'mark', 'begin', NULL);
    INSERT INTO life VALUES (1, 1, 100, 1000000, 8000000), (2, 1, 50, 2000000, 3000000);
    UPDATE allocation SET callstack_id = 1;" || exit 99

plan 41

refused 'tidemark check: --tolerance: 5 is 500%, more than the whole: write 5%' \
    'a tolerance of 5 is refused with what was meant' check --tolerance=5 --baseline="$trace" "$trace"
refused 'tidemark diff: --tolerance: 2.5 is 250%, more than the whole: write 2.5%' \
    'a tolerance of 2.5 of diff is refused with what was meant' diff --tolerance=2.5 "$trace" "$trace"
refused 'tidemark check: --max-fragmentation: 20 is 2000%, more than the whole: write 20%' \
    'a bound of 20 is refused with what was meant' check --max-fragmentation=20 "$trace"
refused 'tidemark check: --max-fragmentation: 150% is more than the whole: a share is 100% at most' \
    'a bound of 150% is refused' check --max-fragmentation=150% "$trace"
refused 'tidemark check: --max-fragmentation: 300 is 30000%, more than the whole: a share is 100% at most' \
    'a share that makes no sense as a percentage either is refused without advice' check --max-fragmentation=300 "$trace"
refused 'tidemark check: --max-fragmentation: "much" is not a share, such as 2% or 0.02' \
    'a bound that is no number is refused' check --max-fragmentation=much "$trace"
refused 'tidemark peak: --within: 1.01 is 101%, more than the whole: write 1.01%' \
    'a share just above the whole is refused' peak --within=1.01 "$trace"
fine 'a share of 100% is taken' peak --within=100% "$trace"
fine 'a share of 1 is taken' peak --within=1 "$trace"
printf 'max-peak 1GiB\ntolerance 5\n' >"$scratch/budget"
refused "$scratch/budget:2: 5 is 500%, more than the whole: write 5%" \
    'a tolerance of 5 in a file of budgets is refused, with its line' check --budget="$scratch/budget" "$trace"

for command in summary peak top leaks histogram timeline failures fragmentation layers; do
    refused "$trace: --from: 3600.0 s lies behind the end of the recording, at 8.00 ms" \
        "$command refuses a begin behind the end" $command --from=1h "$trace"
done
refused "$trace: --from: 8.00 ms lies behind the end of the recording, at 8.00 ms" \
    'a begin 1 ns behind the end is refused' peak --from=8000001 "$trace"
fine 'a begin at the end is taken' peak --from=8ms "$trace"
refused "$trace: --to: 100 ns lies before the first allocation, at 1.00 ms" \
    'an end before the first allocation is refused' peak --to=100ns "$trace"
refused "$trace: --to: 1000.0 us lies before the first allocation, at 1.00 ms" \
    'an end 1 ns before the first allocation is refused' peak --to=999999 "$trace"
fine 'an end at the first allocation is taken' peak --to=1ms "$trace"
fine 'an end behind the end is taken' peak --to=1h "$trace"
fine 'a mark before the first allocation is taken as an end' peak --to=mark:begin "$trace"
refused "$trace: --at: 3600.0 s lies behind the end of the recording, at 8.00 ms" \
    'a moment behind the end is refused' peak --at=1h "$trace"

refused "$trace: --at: 3600.0 s lies behind the end of the recording, at 8.00 ms" \
    'a moment behind the end is refused by fragmentation' fragmentation --at=1h "$trace"

# A trace that was cut off has no end: it is the last event, whatever its kind.
"$top_builddir/tests/make-trace" "$scratch/cut.db" "INSERT INTO life VALUES (1, 1, 100, 10, 20);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (30, 2, 0, 5000);" || exit 99
fine 'a moment at the last sample is taken' fragmentation --at=30ns "$scratch/cut.db"
refused "$scratch/cut.db: --at: 31 ns lies behind the end of the recording, at 30 ns" \
    'a moment 1 ns behind the last sample is refused' fragmentation --at=31ns "$scratch/cut.db"
"$top_builddir/tests/make-trace" "$scratch/cut.db" "INSERT INTO life VALUES (1, 1, 100, 10, 20);
    INSERT INTO mark VALUES (40, 1, 'mark', 'over', NULL);" || exit 99
fine 'a moment at the last mark is taken' peak --at=40ns "$scratch/cut.db"
refused "$scratch/cut.db: --at: 41 ns lies behind the end of the recording, at 40 ns" \
    'a moment 1 ns behind the last mark is refused' peak --at=41ns "$scratch/cut.db"

refused "$trace: no call stack with a frame that matches \"nothing\"" \
    'a pattern that no frame matches is refused' peak --callstack=nothing "$trace"
fine 'a pattern that a frame matches is taken' peak --callstack='^h.t' "$trace"

usage='Usage: tidemark COMMAND [OPTIONS] ...; an option of a command stands behind the command'
refused 'tidemark: there is no option --nosuch' 'an option without a command is refused as one of a command is' --nosuch
is "$(tail -n 1 "$scratch/err")" "$usage" 'an option without a command is refused with the usage line'
refused 'tidemark: there is no option --versoin; did you mean --version?' 'a mistyped option is corrected' --versoin
refused 'tidemark: there is no option -x' 'a letter that is no option is refused' -x

"$tidemark" import "$trace" "$scratch/new.db" >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/err") $(ls "$scratch"/new.db* 2>/dev/null)" \
    "2 $trace: it is a trace of Tidemark already and needs no import: \`tidemark summary $trace\` reads it " \
    'a trace as the input of import is refused with what reads it'
ln -s "$trace" "$scratch/link.db"
refused "$scratch/link.db: it is a trace of Tidemark already and needs no import: \`tidemark summary $scratch/link.db\` reads it" \
    'a link to a trace is refused whatever format is named' import --from=rmm "$scratch/link.db" -o "$scratch/new.db"
mkfifo "$scratch/pipe"
"$top_builddir/tests/recording" "$scratch/live.db" <"$scratch/pipe" >"$scratch/ready" &
exec 3>"$scratch/pipe"
until test -s "$scratch/ready"; do
    sleep 0.01
done
refused "$scratch/live.db: it is a trace of Tidemark already and needs no import: \`tidemark summary $scratch/live.db\` reads it" \
    'a trace that is being recorded is refused as the input of import' import "$scratch/live.db" -o "$scratch/new.db"
exec 3>&-
wait
done_testing
