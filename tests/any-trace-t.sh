# Tests every command that reads a trace with incomplete and unusual traces.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# Commands that read no trace, or are not tested here. All others in the command's list are tested.
others='devices import merge metrics ranks recover completion stack run watch'

commands=$("$tidemark" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')

leaks=--no-leaks

# run COMMAND TRACE [OPTION...]: run the command with the further arguments that it needs.
run() {
    tap_command=$1
    tap_trace=$2
    shift 2
    case $tap_command in
    check) set -- --max-peak=1TiB $leaks --max-allocations=1000000000 --max-failures=1000000 --to=1min "$@" "$tap_trace" ;;
    diff) set -- --tolerance=0 "$@" "$tap_trace" "$tap_trace" ;;
    recommend) set -- --candidates=2 "$@" "$tap_trace" ;;
    report) set -- --json "$@" "$tap_trace" ;;
    query) set -- "$@" "$tap_trace" 'SELECT count(*), max(name), max(config) FROM allocation, tag, layer' ;;
    *) set -- "$@" "$tap_trace" ;;
    esac
    "$tidemark" "$tap_command" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
}

# each SENTENCE TRACE STATUS [WORDS]: every command exits with that status, prints something, and has a message with the
# words; without words, no message.
each() {
    failed=
    for command in $commands; do
        case " $others " in *" $command "*) continue ;; esac
        run "$command" "$2"
        status=$?
        test "$status" -eq "$3" && { test "$3" -eq 2 || test -s "$scratch/out"; } &&
            if test -n "$4"; then grep -q "$4" "$scratch/err"; else test ! -s "$scratch/err"; fi && continue
        failed="$failed $command"
        diag "$command: $status: $(head -n 3 "$scratch/err")"
    done
    is "$failed" '' "$1"
}

plan 19

# An allocation at each of two layers, a tag, a stream, a sample and a mark.
whole="
    INSERT INTO tag VALUES (1, NULL, 'a');
    INSERT INTO life VALUES (1, 1, 4096, 10, 50), (2, 1, 100, 20, 60);
    UPDATE allocation SET tag_id = 1;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (15, 2, 4096, 8192);
    INSERT INTO mark VALUES (30, 1, 'mark', 'here', NULL);"
trace=$scratch/t.db

ok 'the command lists its commands' test "$(echo "$commands" | grep -c -x -e check -e diff -e failures -e fragmentation \
    -e leaks -e peak -e summary -e query -e export)" -eq 9
make_trace "$trace" "$whole"
each 'a whole trace is fine' "$trace" 0 ''
make_trace "$trace" ''
# Where nothing was allocated, there is nothing to recommend: that is an error of its own.
others="$others recommend"
each 'an empty trace is fine' "$trace" 0 ''
others=${others% recommend}

make_trace "$trace" "$whole UPDATE meta SET value = 0 WHERE key = 'complete'"
each 'every command answers about a trace that was cut off, and exits with 3' "$trace" 3 'the recording was cut off'
make_trace "$trace" "$whole INSERT INTO loss VALUES (1, 'overflow', 3), (NULL, 'disk', 4)"
each 'every command answers about a trace with losses, and exits with 3' "$trace" 3 '7 events could not be recorded'
make_trace "$trace" "$whole INSERT INTO loss VALUES (1, 'a reason of a later version', 1)"
each 'a loss for an unknown reason is a loss' "$trace" 3 '1 events could not be recorded'

make_trace "$trace" "$whole
    CREATE TABLE device_state(a, b); INSERT INTO device_state VALUES (1, 2);
    ALTER TABLE allocation ADD COLUMN color TEXT; ALTER TABLE layer ADD COLUMN weight INTEGER;
    INSERT INTO meta VALUES ('flavour', 'sweet'); INSERT INTO mark VALUES (31, 1, 'kind of a later version', NULL, 7);"
each 'unknown tables and columns are reported, and do no harm' "$trace" 0 \
    'it has what this tidemark does not know: column layer.weight, column allocation.color, table device_state'
is "$(grep -c 'does not know' "$scratch/err")" 1 'once'

make_trace "$trace" "$whole DROP VIEW event; DROP VIEW live; DROP VIEW failure; DROP VIEW usage; DROP TABLE mark;
    DROP TABLE driver_call;"
each 'tables that an older recorder did not have are not missed' "$trace" 0 ''

escape=$(printf '\033')
make_trace "$trace" "$whole
    UPDATE tag SET name = 'a' || char(27) || '[31m' || char(10) || 'b'; UPDATE thread SET name = 't' || char(27);
    UPDATE layer SET config = char(27) || ']0;gotcha'; UPDATE mark SET text = char(27) || 'c';
    UPDATE meta SET value = char(27) || ']0;gotcha' WHERE key IN ('command', 'stack', 'hostname');
    INSERT INTO refused VALUES (3, 1, 100, 30); INSERT INTO life VALUES (4, 1, 77, 35, NULL);
    UPDATE allocation SET tag_id = 1;"
failed=
for command in $commands; do
    case " $others replay " in *" $command "*) continue ;; esac
    for option in '' --json --format=csv --format=jsonl --format=md --by=thread --max-peak=tag=a*:1 --blocks=5; do
        run "$command" "$trace" $option
        ! grep -q "$escape" "$scratch/out" "$scratch/err" || failed="$failed $command $option"
    done
done
is "$failed" '' 'no control character of the file reaches the terminal'

make_trace "$trace" "$whole UPDATE allocation SET size = 'big' WHERE allocation_id = 2"
saved=$commands
commands=$(echo "$commands" | grep -v -x -e query)
each 'a size that is text is an error, and no command crashes' "$trace" 2 "$trace: allocation 2: size is no integer"
head -c 9000 "$trace" >"$scratch/half.db"
commands=$saved
each 'half of a trace is an error, and no command crashes' "$scratch/half.db" 2 'damaged or cut short'

# A recording program that has made three allocations and waits.
live=$scratch/live.db
mkfifo "$scratch/in" "$scratch/said"
"$top_builddir/tests/recording" "$live" <"$scratch/in" >"$scratch/said" &
recording=$!
exec 3>"$scratch/in" 4<"$scratch/said"
read -r ready <&4
each "a trace that is being recorded is answered as it is ($ready)" "$live" 3 'the recording is in progress (process '
exec 3>&- 4<&-
wait "$recording"
"$tidemark" leaks "$live" >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" '0 ' 'the trace of the recording is whole once the program has ended'

# A program that is killed at the same point.
killed=$scratch/killed.db
"$top_builddir/tests/recording" "$killed" <"$scratch/in" >"$scratch/said" &
recording=$!
exec 3>"$scratch/in" 4<"$scratch/said"
read -r ready <&4
kill -9 "$recording"
wait "$recording" 2>/dev/null
exec 3>&- 4<&-
mkdir "$scratch/left"
cp "$killed"* "$scratch/left"
ok 'a killed program leaves its rings' test -e "$killed-rings"
"$tidemark" leaks "$killed" >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" "0 $killed: taken over what process $recording had left: 0 records" \
    'the first command recovers what the killed program left, and says so'
has_words "$(cat "$scratch/out")" 'The program was killed: what is live was in use.' \
    'leaks says that the killed program had no chance to free'
leaks=
each 'after the recovery every command finds a whole trace' "$killed" 0 ''
failed=
for command in $commands; do
    case " $others " in *" $command "*) continue ;; esac
    cp "$scratch/left"/* "$scratch"
    run "$command" "$killed"
    test "$? $(grep -c 'taken over what process' "$scratch/err")" = '0 1' || failed="$failed $command"
done
is "$failed" '' 'whichever command comes first recovers the trace'

done_testing
