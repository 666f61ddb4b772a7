# Tests `tidemark replay`: real traffic gives figures that were computed independently, and broken input is explained.
# What threads share is in tests/replay-threads-t.sh.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/replay.sh"

# broken SENTENCE LINE REASON: whether the input is refused with the line and the reason, and nothing is replayed.
broken() {
    replay --stack sim "$csv" >"$scratch/out"
    is "$? $(wc -c <"$scratch/out" | tr -d ' ') $(cat "$scratch/err")" "2 0 $csv:$2: $3" "$1"
}

plan 92

# data FILE ALLOCATIONS FREES TOTAL PEAK LEFT LEFT_BYTES: compare with the data's own description.
data() {
    json=$(replay --json --stack 'statistics | sim(capacity=80GiB)' "$data/$1.csv.gz")
    is "$(figures "$json" events allocations frees failures skipped_frees live_count live_bytes)" \
        "$(($2 + $3)) $2 $3 0 0 $6 $7 " "$1: the replay has the number of events, and what is live at the end"
    has_words "$json" "\"bytes\":{\"current\":$7,\"peak\":$5,\"total\":$4}" \
        "$1: the replay has the bytes live at the end, at the peak and in all"
}
data gpt_train 73528 73525 1013665151873 13844800200 3 68157440
data maskrcnn_infer 238381 238381 612103481034 3998912135 0 0
data multistream_sort 35998 35998 482675712218 560877059 0 0
data torch_generate 183210 183059 226526921864 1469327544 151 532362272

with_threads
awk '{ printf "%s\r\n", $0 }' "$csv" >"$scratch/crlf.csv"
is "$(figures "$(replay --json "$scratch/crlf.csv")" events peak)" '71996 560877059 ' \
    'replay reads lines that end in CRLF'
is "$(figures "$("$tidemark" replay --json - <"$csv")" events peak)" '71996 560877059 ' 'replay reads standard input'

rows '1,x,allocate,0x100,10,0x0' '1,,free,0x100,10,0x0' '1,9:9,allocate,200,20,0' '1,,deallocate,0x200,20,0'
is "$(figures "$(replay --json "$csv")" events allocations frees live_count)" '4 2 2 0 ' \
    'replay reads no times, addresses without 0x, and free for deallocate'
rows '1,,free,0x100,10,0x0' '1,,allocate,0x100,10,0x0' '1,,free,0x100,10,0x0' '1,,free,0x100,10,0x0'
is "$(figures "$(replay --json "$csv")" events allocations frees skipped_frees unknown_frees)" '4 1 1 2 2 ' \
    'replay counts and skips frees of unknown pointers'
rows '1,,allocate,0x100,10,0x0' '1,,allocate failure,0x0,999,0x0' '1,,allocate failure,(nil),999,0x0'
is "$(figures "$(replay --json "$csv")" events allocations recorded_failures live_count)" '3 1 2 1 ' \
    'replay counts and leaves out recorded failures'
rows '1,,allocate,0x100,600,0x0' '1,,allocate,0x200,500,0x0' '1,,free,0x200,500,0x0' '1,,free,0x100,600,0x0'
json=$(replay --json --stack 'limit(1000) | sim' "$csv")
is "$? $(figures "$json" allocations frees failures skipped_frees failed_frees)" '0 1 1 1 1 1 ' \
    'replay counts an allocation that the stack refuses, and skips its free'
has_words "$(cat "$scratch/err")" 'event 2: limit:' 'replay prints the first refusal'
rows '1,,allocate,0x100,10,0x0' '1,,allocate,0x100,20,0x0' '1,,free,0x100,20,0x0'
is "$(figures "$(replay --json "$csv")" allocations frees replaced live_count live_bytes)" '2 1 1 1 10 ' \
    'replay counts a pointer that is allocated again while live, and keeps the earlier block'
rows '1,,allocate,0x0,0,0x0' '1,,allocate,0x0,0,0x0' '1,,free,0x0,0,0x0' '1,,free,0x0,0,0x0' '1,,free,0x0,0,0x0'
is "$(figures "$(replay --json "$csv")" allocations frees replaced unknown_frees)" '2 2 0 1 ' \
    'replay gives allocations of 0 bytes the null pointer'
rows '1,,allocate,0x100,10,0x0' '1,,free,0x100,11,0x0'
is "$(figures "$(replay --json "$csv")" frees size_differences)" '1 1 ' \
    'replay counts a free with another size, and frees the block'
rows
is "$(figures "$(replay --json "$csv")" events duration_ns)" '0 0 ' 'replay of a header without rows has no events'
printf '%s\n1,,allocate,0x100,10,0x0' "$header" >"$csv"
is "$(figures "$(replay --json "$csv")" events)" '1 ' 'replay reads a last line without its end'

has_words "$(replay "$csv")" 'statistics | sim' 'replay uses statistics over sim by default'
has_words "$(TIDEMARK_STACK='limit(1GiB) | sim' replay "$csv")" 'limit(1GiB) | sim' \
    'replay uses the stack of TIDEMARK_STACK'
replay --stack 'nothing | sim' "$csv" >/dev/null
is $? 2 'replay exits with 2 for an invalid stack'
has_words "$(cat "$scratch/err")" 'nothing' 'replay prints what is wrong with the stack'
replay --stack sim "$scratch" >/dev/null
is $? 2 'replay of a folder is an error'
replay --stack sim "$scratch/none" >/dev/null
is "$? $(cat "$scratch/err")" "2 $scratch/none: No such file or directory" 'replay of a missing file is an error'
replay --layer 1 --stack sim "$csv" >/dev/null
is $? 2 'replay --layer is for traces only'

rows '1,,allocate,0x100,10,0x0' '1,,allocate,0x100,10'
broken 'a row too short' 3 "5 columns, expected 6 ($header)"
rows '1,,allocate,0x100,10,0x0,7'
broken 'a row too long' 2 "7 columns, expected 6 ($header)"
rows '1,,allocate,0x10g,10,0x0'
broken 'a pointer that is none' 2 'column 4 (Pointer): expected a hexadecimal address, seen "0x10g"'
rows '1,,allocate,0x11112222333344445,10,0x0'
broken 'a pointer of 17 digits' 2 'column 4 (Pointer): expected a hexadecimal address, seen "0x11112222333344445"'
rows '1,,allocate,0x100,-10,0x0'
broken 'a negative size' 2 'column 5 (Size): expected a number of bytes, seen "-10"'
rows '1,,allocate,0x100,18446744073709551616,0x0'
broken 'a size of 2^64' 2 'column 5 (Size): expected a number of bytes, seen "18446744073709551616"'
rows '1,,realloc,0x100,10,0x0'
broken 'an action that is none' 2 \
    'column 3 (Action): expected allocate, allocate failure, free or deallocate, seen "realloc"'
rows 'main,,allocate,0x100,10,0x0'
broken 'a thread that is no number' 2 'column 1 (Thread): expected a number, seen "main"'
rows '1,,allocate,0x100,10,'
broken 'a stream that is missing' 2 'column 6 (Stream): expected a hexadecimal handle, seen ""'
rows '1,,allocate,0x100,10,0x0' '' '1,,free,0x100,10,0x0'
broken 'an empty line in the middle' 3 'the line is empty'
rows '1,,allocate,0x100,10,0x0' '' '' ''
is "$(figures "$(replay --json "$csv")" events)" '1 ' 'replay ignores empty lines at the end'
replay --stack "log($scratch/x%) | sim" "$csv" >/dev/null
has_words "$(cat "$scratch/err")" 'x% ends in %, expected %p, %h, %r or %%' 'replay names the % at the end of a path'
echo text >"$scratch/text"
replay --stack "log($scratch/text) | sim" "$csv" >/dev/null
has_words "$(cat "$scratch/err")" 'exists and is no trace' \
    'replay does not offer overwrite=true for a file that is no trace'
rows "1,,$(printf '\033')[31m,0x100,10,0x0"
broken 'control characters do not reach the terminal' 2 \
    'column 3 (Action): expected allocate, allocate failure, free or deallocate, seen "\x1b[31m"'
printf 'Thread,Time,Action\n1,,allocate\n' >"$csv"
broken 'another header' 1 "neither a trace nor allocator traffic: expected the header $header"
: >"$csv"
broken 'an empty file' 1 "the file is empty, expected the header $header"
{ echo "$header"; head -c 300000 /dev/zero | tr '\0' 'x'; } >"$csv"
broken 'a line without end' 2 'the line is longer than 262144 bytes'
head -c 30000 "$data/multistream_sort.csv.gz" >"$csv"
replay --stack sim "$csv" >/dev/null
has_words "$? $(cat "$scratch/err")" 'the compressed data ends too early' \
    'replay reports compressed data that is cut off'
{ head -c $(($(wc -c <"$data/multistream_sort.csv.gz") - 8)) "$data/multistream_sort.csv.gz"; echo '8 bytes'; } >"$csv"
replay --stack sim "$csv" >/dev/null
has_words "$? $(cat "$scratch/err")" 'the compressed data is damaged' 'replay reports compressed data that is damaged'

sum_sql='SELECT count(*), count(free_ns), sum(size), total(size) FILTER (WHERE free_ns IS NULL) FROM allocation'

# recorded FILE ALLOCATIONS FREES TOTAL PEAK COUNT EVENT LEFT LEFT_BYTES
recorded() {
    trace=$scratch/$1.db
    replay --keep-live --stack "log($trace) | sim(capacity=80GiB)" "$data/$1.csv.gz" >/dev/null
    is "$? $(cat "$scratch/err")" '0 ' "$1: a log layer records the replay"
    is "$(figures "$("$tidemark" summary --json "$trace")" complete unmatched_frees lost_events allocations frees \
        failures total_bytes peak_bytes peak_count live_bytes live_count)" "true 0 0 $2 $3 0 $4 $5 $6 $9 $8 " \
        "$1: the summary of the trace has every figure"
    is "$(query "$trace" "$sum_sql")" "$2,$3,$4,$9" "$1: the trace of the replay has the same sums in plain SQL"
    is "$(query "$trace" "$peak_sql")" "$5,$6,$7" \
        "$1: the trace of the replay has the same peak, at its event, in plain SQL"
    replay --keep-live --stack "log($trace.again) | sim" "$trace" >/dev/null
    is "$(query "$trace.again" "$sum_sql") $(query "$trace.again" "$peak_sql")" "$2,$3,$4,$9 $5,$6,$7" \
        "$1: the replay of that trace gives the same trace"
}
recorded gpt_train 73528 73525 1013665151873 13844800200 716 45086 3 68157440
recorded maskrcnn_infer 238381 238381 612103481034 3998912135 382 441900 0 0
recorded multistream_sort 35998 35998 482675712218 560877059 46 33660 0 0

is "$(query "$trace" 'SELECT count(*) FROM stream')" 8 'the trace of a replay has the streams of the input'
replay --stack "log($trace) | sim" "$scratch/crlf.csv" >/dev/null
is $? 2 'replay does not overwrite an existing trace'
make_trace "$scratch/other.db" "PRAGMA application_id = 0; INSERT INTO life VALUES (1, 1, 100, 10, 50);"
cp "$scratch/other.db" "$scratch/other.copy"
replay --stack "log($scratch/other.db, overwrite=true) | sim" "$scratch/crlf.csv" >/dev/null
is $? 2 "replay with overwrite=true does not overwrite the SQLite file of another program"
ok 'the SQLite file of the other program is unchanged' cmp "$scratch/other.db" "$scratch/other.copy"
replay --stack "log($trace, overwrite=true) | sim" "$scratch/crlf.csv" >/dev/null
is $? 0 'replay with overwrite=true overwrites a trace'

# keeps STACK WORDS: whether a replay of $trace through the stack is refused and leaves the trace as it is.
keeps() {
    tap_before=$(cksum "$trace"; ls -i "$trace")
    replay --stack "$1" "$trace" >/dev/null
    tap_status=$?
    is "$tap_status $(cksum "$trace"; ls -i "$trace")" "2 $tap_before" "replay does not replace its own input: $2"
}
ln "$trace" "$scratch/linked.db"
ln -s "$trace" "$scratch/symbolic.db"
ln "$trace" "$scratch/beside.db-replaced"
"$tidemark" replay --stack "log($scratch/beside.db) | sim" "$scratch/crlf.csv" >/dev/null 2>&1
keeps "log($trace, overwrite=true) | sim" 'by its own name'
has_words "$(cat "$scratch/err")" 'this process reads it, and does not replace what it reads' \
    'replay says why it does not replace its input'
keeps "log($scratch/linked.db, overwrite=true) | sim" 'by a hard link'
keeps "log($scratch/symbolic.db, overwrite=true) | sim" 'by a symbolic link'
keeps "log($scratch/other-again.db) | log($scratch/../${scratch##*/}/${trace##*/}, overwrite=true) | sim" \
    'by another path, below another log'
keeps "log($scratch/beside.db, overwrite=true) | sim" 'as the replaced trace of another'
TIDEMARK_STACK="log($trace, overwrite=true) | sim" "$tidemark" replay "$trace" >/dev/null 2>"$scratch/err"
has_words "$? $(cat "$scratch/err")" '2 tidemark replay: ' 'replay does not replace its input by TIDEMARK_STACK'
replay --stack "log($scratch/%%p.db) | sim" "$scratch/crlf.csv" >/dev/null
sh -c "cp '$scratch/%p.db' '$scratch/'\$\$.db
    exec '$tidemark' replay --stack 'log($scratch/%p.db, overwrite=true) | sim' '$scratch/'\$\$.db" \
    >/dev/null 2>"$scratch/err"
has_words "$? $(cat "$scratch/err")" 'does not replace what it reads' 'replay does not replace its input by %p'
replay --stack "log($scratch/linked.db.new, overwrite=true) | sim" "$trace" >/dev/null
is $? 0 'replay records another trace beside its input'

"$tidemark" replay --stack "log($scratch/closed.db) | sim" "$scratch/crlf.csv" >&- 2>"$scratch/err"
is "$?" 2 'replay with a closed standard output exits with 2'
has_words "$("$tidemark" summary --json "$scratch/closed.db")" '"complete":true' \
    'the trace of the replay with a closed standard output is whole'
is "$("$tidemark" query --csv "$trace" 'SELECT * FROM allocation' 2>&1 >/dev/full | wc -l)" 1 \
    'a full disk causes one message of query'

make_trace "$csv" "
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (3, 1, 'log', ''); INSERT INTO unmatched_free VALUES (1, 3, 1, 1, 1, 1);
    INSERT INTO life VALUES (1, 3, 100, 10, 50), (2, 1, 200, 20, NULL), (3, 3, 300, 30, NULL), (4, 1, 1, 30, 40);
    INSERT INTO refused VALUES (5, 3, -1, 70);"
is "$(figures "$(replay --json "$csv")" events allocations frees live_bytes recorded_failures unknown_frees peak)" \
    '5 2 1 300 1 1 400 ' 'replay of a trace takes its outermost log layer'
is "$(figures "$(replay --json --layer 1 "$csv")" events allocations frees live_bytes)" '3 2 1 200 ' \
    'replay --layer takes that log layer'
replay --layer 2 "$csv" >/dev/null
is $? 2 'replay --layer refuses a layer that is no log'
is "$(figures "$(replay --json --stack 'limit(18446744073709551614) | sim' "$csv")" failures)" '0 ' \
    'a limit of 2^64 - 2 bytes, the number for no limit in options, is a limit in stack text'
replay --layer 0 "$csv" >/dev/null
is $? 2 'replay --layer 0 is wrong use'
make_trace "$csv" "UPDATE meta SET value = 0 WHERE key = 'complete';
    INSERT INTO life VALUES (1, 1, 100, 10, 50);"
json=$(replay --json "$csv")
is "$? $(figures "$json" events)" '3 2 ' \
    'a trace that was cut off is replayed as far as it goes, and replay exits with 3'

"$tidemark" import "$data/gpt_train.csv.gz" -o "$scratch/train.db" >/dev/null 2>&1
replay --keep-live --clock=recorded --stack "log($scratch/train2.db) | pool | log | sim" "$scratch/train.db" >/dev/null
is "$? $(kept_times "$scratch/train2.db" | cksum)" "0 $(kept_times "$scratch/train.db" | cksum)" \
    'gpt_train: all 147,053 times are the recorded ones'

# Several stacks.
rows '1,,allocate,0x100,10,0x0'
replay --stack 'pool | sim' --stack 'limit(1GiB) | sim' --stack 'log("a | {sim.db") | sim' --stop-at-failure \
    "$data/gpt_train.csv.gz" >"$scratch/out"
rm -f 'a | {sim.db'
is "$(sed -n '/PEAK LIVE/,$p' "$scratch/out" | sed 's/  *[0-9.]* ns  */ /; s/  */ /g; s/^ //')" 'PEAK LIVE PEAK RESERVED FAILURES CHUNKS CALLS AN EVENT STACK
12.89 GiB 13.11 GiB 0 3329 6166 pool | sim
1003.8 MiB 1003.8 MiB 1 158 159 limit(1GiB) | sim
12.89 GiB 12.89 GiB 0 73528 147053 log("a | {sim.db") | sim' 'several stacks stand side by side'
json=$(replay --json --stack 'pool | sim' --stack sim "$csv")
is "$(echo "$json" | grep -c '^\[{.*},{.*}\]$') $(echo "$json" | grep -o '"stack":"[^"]*"' | tr '\n' ' ')" \
    '1 "stack":"pool | sim" "stack":"sim" ' 'the JSON of several stacks is an array of their objects'
printf '%s\n' Thread,Time,Action,Pointer,Size,Stream 1,1,allocate,0x1000,1000,0x0 1,2,free,0x1000,1000,0x0 \
    1,3,allocate,0x2000,100000,0x0 1,4,free,0x2000,100000,0x0 >"$scratch/bases.csv"
is "$(replay --json --stack 'fallback({limit(2KiB) | sim}) | sim' --stack sim "$scratch/bases.csv" |
    grep -o '"reserved_peak_bytes":[0-9a-z]*,"chunks"' | tr '\n' ' ')" \
    '"reserved_peak_bytes":null,"chunks" "reserved_peak_bytes":100000,"chunks" ' \
    'the most that two bases held, at different times, is not added up'
is "$(replay --json --stack 'pool(growth=64KiB, release_threshold=0) | pool(growth=64MiB) | sim' "$scratch/bases.csv" |
    grep -o '"reserved_peak_bytes":[0-9a-z]*,"chunks"')" '"reserved_peak_bytes":67108864,"chunks"' \
    'what was reserved is what the base had, not what a pool had of another one'
replay --stack "log($scratch/first.db) | sim" --stack 'nothing | sim' "$csv" >"$scratch/out"
is "$? $(wc -c <"$scratch/out") $(ls "$scratch/first.db" 2>/dev/null)" '2 0 ' \
    'a mistake in one of several stacks is found before anything is replayed'
# A replay that was killed leaves tags that stand for call stacks; so does one that lives and is not done.
unfinished() {
    make_trace "$scratch/unfinished.db" "
        DELETE FROM meta WHERE key = 'pid'; INSERT INTO meta VALUES ('pid', $1);
        INSERT INTO tag VALUES (1, NULL, 'step'), (2, 1, char(31) || 'callstack 4'), (3, NULL, char(31) || 'callstack 7'),
            (4, 1, 'callstack 4');
        INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL), (3, 1, 300, 30, NULL), (4, 1, 400, 40, NULL);
        UPDATE allocation SET tag_id = allocation_id;"
}
tags_sql='SELECT group_concat(ifnull(tag_id, 0)), (SELECT count(*) FROM tag) FROM (SELECT tag_id FROM allocation ORDER BY allocation_id)'
unfinished "$(sh -c 'echo $$')"
is "$("$tidemark" leaks --by=tag "$scratch/unfinished.db" | awk '/%/ { print $1, $2 }' | tr '\n' ' ')$(
    query "$scratch/unfinished.db" "$tags_sql")" 'step/callstack 4 step 300 (none) 300 "1,1,0,4",2' \
    'where a replay was killed, what it has noted under a call stack has the tag around it'
unfinished $$
is "$(query "$scratch/unfinished.db" "$tags_sql")" '"1,2,3,4",4' 'the trace of a replay that is not done is left to it'

done_testing
