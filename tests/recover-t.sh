# Tests `tidemark recover`, and every other command with the files that a killed program has left beside its trace.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

# recover ARGUMENT...: print its output and messages, and return its exit status.
recover() {
    "$tidemark" recover "$@" 2>&1
}

# answer COMMAND...: print its output, its messages and its exit status.
answer() {
    "$@" >"$scratch/said" 2>&1
    tap_status=$?
    echo "$(cat "$scratch/said") $tap_status"
}

# left NAME: make a folder with the files of the killed replay, and set $trace to its trace.
left() {
    mkdir "$scratch/$1"
    for tap_suffix in '' -wal -rings; do
        cp "$scratch/killed.db$tap_suffix" "$scratch/$1/t.db$tap_suffix"
    done
    trace=$scratch/$1/t.db
}

# byte FILE OFFSET OCTAL: overwrite one byte.
byte() {
    printf "\\$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

counts() {
    "$tidemark" query --csv "$1" 'SELECT count(*), count(free_ns), max(alloc_ns) FROM allocation' 2>/dev/null | tail -n 1
}

sums() {
    cksum "$1" "$1-wal" "$1-rings" 2>&1
}

# state FOLDER: all files, with their contents, owners and times.
state() {
    (cd "$1" && stat -c '%n %s %f %u %y' ./* && cksum ./* 2>&1)
}

# refused NAME WORDS: whether $trace is not recovered, its files stay, and it can be read.
refused() {
    tap_before=$(state "${trace%/*}")
    tap_seen=$(recover "$trace")
    is "$? $(state "${trace%/*}")" "2 $tap_before" "$1 is an error, and no file is changed"
    has_words "$tap_seen" "$2" "the message about $1 names the problem"
    tap_seen=$("$tidemark" summary "$trace" 2>&1)
    is $? 3 "the trace beside $1 can be read, and is incomplete"
    has_words "$tap_seen" 'what was left beside it is not taken in' \
        "a command on the trace beside $1 says that something was left"
}

plan 91

"$top_builddir/tests/make-trace" "$scratch/whole.db" || exit 99
is "$(answer recover "$scratch/whole.db")" "$scratch/whole.db: nothing was left: the trace is complete 0" \
    'recover has nothing to do for a complete trace'
is "$(recover --json "$scratch/whole.db")" '{"format_version":1,"state":"closed","pid":0,"records":0,"complete":true,"notes":[]}' \
    'recover --json has the state of a complete trace'
"$top_builddir/tests/make-trace" "$scratch/cut.db" "UPDATE meta SET value = 0 WHERE key = 'complete'" || exit 99
has_words "$(answer recover "$scratch/cut.db")" 'nothing was left: the trace is cut off, and nothing is there of what it lacks 0' \
    'recover leaves a trace without a ring file incomplete'
has_words "$(answer recover "$scratch/none.db")" 'No such file or directory 2' 'recover of a missing trace is an error'
echo 'no trace' >"$scratch/text"
has_words "$(answer recover "$scratch/text")" 'not an SQLite file 2' 'recover of a file that is no trace is an error'
recover >/dev/null
is $? 2 'recover without a trace is wrong use'
recover "$scratch/whole.db" "$scratch/cut.db" >/dev/null
is $? 2 'recover of two traces is wrong use'

printf 'Thread,Time,Action,Pointer,Size,Stream\n1,1,allocate,0x10,100,0\n1,2,free,0x10,100,0\n' >"$scratch/one.csv"

# A recording program that has made three allocations and waits.
live=$scratch/live.db
mkfifo "$scratch/in" "$scratch/out"
"$top_builddir/tests/recording" "$live" <"$scratch/in" >"$scratch/out" &
recording=$!
exec 3>"$scratch/in" 4<"$scratch/out"
read -r ready <&4
mkdir "$scratch/early"
has_words "$(answer recover --into="$scratch/early/c.db" "$live")$(ls "$scratch/early")" 'records there 2' \
    'recover --into of a trace that is being recorded is an error, and makes no file'
before=$(sums "$live")
seen=$(recover "$live")
has_words "$? $ready $seen" "0 ready $live: process " 'recover names the process that is recording'
has_words "$seen" ' still records: nothing was touched' 'recover does not touch a trace that is being recorded'
has_words "$(recover --json "$live")" '"state":"recording"' 'recover --json says that the trace is being recorded'
has_words "$(answer "$tidemark" summary "$live" | tr "\n" " ")" "in progress" \
    'summary says that the recording is in progress'
"$tidemark" query "$live" 'SELECT * FROM event' >/dev/null 2>&1
is $? 3 'query of a recording in progress exits with 3'
is "$(sums "$live")" "$before" 'no command has changed a byte of the trace, its WAL or its rings'
"$tidemark" replay --stack "log($live, overwrite=true) | sim" "$scratch/one.csv" >"$scratch/said" 2>&1
has_words "$? $(cat "$scratch/said")" "2 tidemark replay: stack text, column 1: log: $live: process " \
    'overwrite=true does not replace a trace that another process records'
mv "$live" "$scratch/moved.db"
"$tidemark" replay --stack "log($scratch/moved.db, overwrite=true) | sim" "$scratch/one.csv" >"$scratch/said" 2>&1
has_words "$? $(cat "$scratch/said")" "$scratch/moved.db: process $recording records there" \
    'overwrite=true does not replace a trace that was renamed while another process records it'
mv "$scratch/moved.db" "$live"
exec 3>&- 4<&-
wait "$recording"
is $? 0 'the recording program is not disturbed'
is "$(recover "$live")" "$live: nothing was left: the trace is complete" 'the trace is complete after the recording'
has_words "$("$tidemark" summary --json "$live")" '"allocations":4,"frees":2' \
    'the complete trace has the events after the commands'

# A replay that is killed halfway through a long input.
gzip -dc "$top_srcdir/tests/data/gpt_train.csv.gz" >"$scratch/once.csv"
{
    cat "$scratch/once.csv"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        sed 1d "$scratch/once.csv"
    done
} >"$scratch/long.csv"
killed=$scratch/killed.db
"$tidemark" replay --stack "log($killed, ring=4MiB) | sim" "$scratch/long.csv" >/dev/null 2>&1 &
replay=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    test -s "$killed-wal" && break
    sleep 0.3
done
sleep 0.1
kill -9 "$replay"
wait "$replay" 2>/dev/null
is $? 137 'a replay is killed while it records'
ok 'the killed replay leaves its ring file' test -s "$killed-rings"

left plain
seen=$(recover --json "$trace")
is $? 0 'recover takes over the ring file of the killed replay'
has_words "$seen" '"state":"recovered"' 'recover --json says that the trace was recovered'
has_words "$seen" '"complete":true' 'recover --json says that the trace is complete'
case $seen in
*'"records":0,'*) ok 'recover --json has the number of recovered records' false ;;
*) ok 'recover --json has the number of recovered records' true ;;
esac
is "$(ls "$scratch/plain")" t.db 'the recovery removes the ring file'
has_words "$(answer "$tidemark" summary --json "$trace")" '"complete":true,"unmatched_frees":0,"lost_events":0' \
    'summary finds nothing missing in the recovered trace'
wanted=$(counts "$trace")
if test -n "$SQLITE3"; then
    is "$("$SQLITE3" "$trace" 'PRAGMA integrity_check') $("$SQLITE3" "$trace" "SELECT value FROM meta WHERE key = 'ended'")" \
        'ok recovered' 'the recovered database passes the integrity check, and its meta says recovered'
    # The replay allocates in the order of its input: each row has the size in the input.
    "$SQLITE3" "$trace" 'SELECT size FROM allocation ORDER BY allocation_id' >"$scratch/sizes"
    "$AWK" -F, '$3 == "allocate" { print $5 }' "$scratch/long.csv" | head -n "$(wc -l <"$scratch/sizes")" |
        cmp - "$scratch/sizes" >"$scratch/differ" 2>&1
    is "$(cat "$scratch/differ")" '' 'the recovered allocations are the first ones of the input, without a gap'
else
    skip 2 'the machine has no sqlite3'
fi
is "$(recover "$trace")" "$trace: nothing was left: the trace is complete" 'a second recovery has nothing to do'

left waiting
before=$(sums "$trace")
"$tidemark" replay --stack "log($trace, overwrite=true) | sim" "$scratch/one.csv" >"$scratch/said" 2>&1
is "$? $(sums "$trace")" "2 $before" 'overwrite=true does not replace a trace that waits for its recovery'
has_words "$(cat "$scratch/said")" \
    "what process $replay recorded last, before it was killed, is still in $trace-rings; \`tidemark recover $trace\`" \
    'the refusal says which process left what where, and the way out'
recover "$trace" >/dev/null
"$tidemark" replay --stack "log($trace, overwrite=true) | sim" "$scratch/one.csv" >/dev/null 2>&1
is "$? $(counts "$trace" | cut -d, -f 1,2)" '0 1,1' 'overwrite=true replaces the trace once it is recovered'

left again
seen=$(recover "$trace")
has_words "$seen" "records of process $replay were taken over" \
    'recover says how many records of which process it took over'
is "$(counts "$trace")" "$wanted" 'the recovery of a copy of the files gives the same trace'

left summary
ok 'summary recovers the trace first, and is complete' "$tidemark" summary "$trace"
is "$(ls "$scratch/summary") $(counts "$trace")" "t.db $wanted" 'the trace that summary recovered has every event'
left query
is "$(counts "$trace") $(ls "$scratch/query")" "$wanted t.db" 'query recovers the trace first'
left replay
ok 'replay of the trace recovers it first' "$tidemark" replay --stack sim "$trace"
is "$(ls "$scratch/replay") $(counts "$trace")" "t.db $wanted" 'the trace that replay recovered has every event'

left many
for i in 1 2 3; do
    { recover "$trace" >/dev/null; echo $? >"$scratch/status$i"; } &
done
wait
is "$(cat "$scratch/status1" "$scratch/status2" "$scratch/status3" | tr '\n' ' ')" '0 0 0 ' \
    'three recoveries at once wait for each other, and succeed'
is "$(counts "$trace")" "$wanted" 'three recoveries at once add each record once'

# complete FILE: whether the file is a complete trace with everything, and alone.
complete() {
    is "$(counts "$1") $(cd "$scratch/into" && ls) $("$tidemark" query --csv "$1" \
        "SELECT value FROM meta WHERE key IN ('complete', 'ended') ORDER BY key" | tail -n 2 | tr '\n' ' ')" \
        "$wanted ${1##*/} 1 recovered " "$2"
    rm "$1"
}
left source
mkdir "$scratch/into"
copy=$scratch/into/c.db
before=$(sums "$trace"; ls "$scratch/source")
has_words "$(answer recover --into="$copy" "$trace")" "$trace is copied to $copy: " \
    'recover --into says what it has copied where'
is "$(sums "$trace"; ls "$scratch/source")" "$before" 'recover --into changes no byte of the trace, its WAL or its rings'
complete "$copy" 'recover --into makes a complete trace, and no other file'
has_words "$(recover --into "$copy" --json "$trace")" "\"into\":\"$copy\",\"state\":\"recovered\"" \
    'recover --into --json names the copy'
has_words "$(answer recover --into="$copy" "$trace")" "$copy: exists: it is not overwritten 2" \
    'recover --into overwrites no file'
rm "$copy"
has_words "$(answer recover --into="$scratch/nowhere/c.db" "$trace")" 'No such file or directory 2' \
    'recover --into a missing folder is an error'
has_words "$(answer recover --into="$copy" "$scratch/text")" 'not an SQLite file 2' \
    'recover --into of a file that is no trace is an error'
has_words "$(answer recover --into="$copy" "$scratch/none.db")" ' 2' 'recover --into of a missing trace is an error'
is "$(ls "$scratch/into")" '' 'recover --into leaves no file where it has failed'
recover --into="$copy" "$scratch/whole.db" >/dev/null
ok 'recover --into of a complete trace is a copy' cmp "$copy" "$scratch/whole.db"
rm "$copy"
(ulimit -f 1; answer recover "$trace") >"$scratch/full" 2>&1
has_words "$(cat "$scratch/full")" "\`tidemark recover --into=FILE $trace\` takes it in to another place" \
    'recover on a full disk names recover --into'
(ulimit -f 1; "$tidemark" summary "$trace" 2>&1 | cat) >"$scratch/full"
has_words "$(cat "$scratch/full")" "\`tidemark recover --into=FILE $trace\` takes it in to another place" \
    'summary on a full disk names recover --into'
recover --into="$copy" "$trace" >/dev/null
complete "$copy" 'recover --into takes over what a full disk has left'
# As a user who may not write there; root may write everywhere, and becomes another user for it.
chmod 755 "$scratch" && chmod 555 "$scratch/source" && chmod 444 "$scratch/source"/* && chmod 777 "$scratch/into"
nobody=
test "$(id -u)" -ne 0 || nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
if $nobody true 2>/dev/null && $nobody test -r "$top_builddir/tidemark"; then
    before=$(sums "$trace")
    has_words "$($nobody "$tidemark" summary "$trace" 2>&1)" "\`tidemark recover --into=FILE $trace\`" \
        'summary of a trace that may not be written names recover --into'
    $nobody "$tidemark" recover --into="$copy" "$trace" >"$scratch/said" 2>&1
    is "$? $(sums "$trace")" "0 $before" 'recover --into needs no right to write the trace'
    complete "$copy" 'recover --into takes over what may only be read'
else
    skip 3 'there is no other user to become'
fi
chmod 755 "$scratch/source"

left damaged
byte "$trace-rings" 3 130
refused 'a damaged ring file' 'no ring file of a trace'
left newer
byte "$trace-rings" 8 006
refused 'a ring file of a newer format' 'ring file of format 6, this version reads format 5'
left older
byte "$trace-rings" 8 001
has_words "$(answer recover "$trace") $(ls "$trace-rings" 2>&1)" 'No such file' 'a ring file of the format before is taken in'
left other
byte "$trace-rings" 16 177
byte "$trace-rings" 17 177
refused 'a ring file of another trace' 'belongs to another trace'
left cut
truncate -s 200000 "$trace-rings"
refused 'a ring file that was cut off' 'a segment lies outside of it, or it was cut off'
left head
truncate -s 5000 "$trace-rings"
refused 'a ring file that ends in its head' 'damaged ring file: it is cut off'
left garbled
rm "$trace-wal" && byte "$trace" 3 130
before=$(state "$scratch/garbled")
has_words "$(answer recover "$trace")" "$trace: file is not a database 2" 'recover names the trace where that is damaged'
is "$(state "$scratch/garbled")" "$before" 'a recovery into a damaged trace changes no file'
left exchanged
"$top_builddir/tests/make-trace" "$scratch/exchanged/new.db" "INSERT INTO meta VALUES ('trace_id', 5)" || exit 99
rm "$trace"* && mv "$scratch/exchanged/new.db" "$trace" && cp "$killed-rings" "$trace-rings"
before=$(state "$scratch/exchanged")
has_words "$(answer recover "$trace")" "$trace-rings: belongs to another trace than $trace 2" \
    'the ring file beside a trace that took the place of its own is of another trace'
is "$(state "$scratch/exchanged")" "$before" 'a recovery from the ring file of another trace changes no file'
left alone
rm "$trace" "$trace-wal"
gone="$trace: the trace is not there, and what is left in $trace-rings cannot be recovered without it: remove that file, too 2"
is "$(answer recover "$trace")" "$gone" 'recover says that a ring file alone cannot be recovered, and what to do'
is "$(answer recover --into="$scratch/alone/into.db" "$trace")" "$gone" 'recover --into says the same'
is "$(answer "$tidemark" summary "$trace")" "$gone" 'so does a command that reads the trace'
has_words "$(answer recover --into="$scratch/alone/into.db" "$scratch/none.db")" "none.db: No such file or directory 2" \
    'recover --into of a trace that is not there, and no ring file, says that it is not there'
left folder
rm "$trace-rings" && mkdir "$trace-rings"
has_words "$(answer recover "$trace")" 'Is a directory' 'a folder in place of the ring file is an error'
left permission
if test "$(id -u)" -eq 0; then
    skip 2 'root may do anything'
else
    chmod 0 "$trace-rings"
    has_words "$(answer recover "$trace")" 'Permission denied 2' 'a ring file that may not be read is an error'
    "$tidemark" summary "$trace" >/dev/null 2>&1
    is $? 3 'the trace beside an unreadable ring file can be read, and is incomplete'
fi
is "$("$tidemark" recover --into= "$scratch/whole.db" 2>&1 | head -n 1) $("$tidemark" export -o '' "$scratch/whole.db" 2>&1 | head -n 1)" \
    'tidemark recover: --into: FILE was expected, and not an empty text tidemark export: --output: FILE was expected, and not an empty text' \
    'an empty path, as of a variable that is not set, is wrong use that names the option'

done_testing
