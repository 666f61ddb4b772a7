# Tests what all commands take for live: what a killed program had is not leaked, and requests of 0 bytes hold nothing.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# said COMMAND...: print what the command prints, and its exit status.
said() {
    "$tidemark" "$@" >"$scratch/said" 2>/dev/null
    tap_status=$?
    echo "$(cat "$scratch/said") $tap_status"
}

plan 41

# Five requests of 0 bytes that are never freed and one that is, beside one block that is live and one that was.
empty=$scratch/empty.db
make_trace "$empty" "
    INSERT INTO life VALUES (1, 1, 0, 5, NULL), (2, 1, 0, 6, NULL), (3, 1, 100, 10, NULL), (4, 1, 0, 12, NULL),
        (5, 1, 200, 20, 50), (6, 1, 0, 30, 40), (7, 1, 0, 60, NULL), (8, 1, 0, 70, NULL);
    UPDATE allocation SET address = 0 WHERE size = 0;"
has_words "$(said summary --json "$empty")" '"allocations":8,"frees":2,"failures":0,"total_bytes":300,"peak_bytes":300,"peak_ns":20,"peak_count":2,"live_bytes":100,"live_count":1' \
    'summary counts requests of 0 bytes as allocations, and never as live'
has_words "$(said leaks --json --blocks=9 "$empty")" '"live_bytes":100,"live_count":1' 'leaks leaves out requests of 0 bytes'
is "$("$tidemark" leaks --json --blocks=9 "$empty" | grep -o '"allocation_id":[0-9]*')" '"allocation_id":3' \
    'the blocks of leaks are without requests of 0 bytes'
has_words "$(said top --json "$empty")" '"live_count":1' 'top counts no request of 0 bytes as live'
has_words "$(said peak --json "$empty")" '"at_count":2' 'peak counts no request of 0 bytes'
is "$("$tidemark" peak --json --at=70ns "$empty" | grep -o '"at_count":[0-9]*' | head -n 1)" '"at_count":1' \
    'peak --at counts no request of 0 bytes'
has_words "$(said histogram --json "$empty")" '"live_count":1' 'histogram counts no request of 0 bytes as live'
has_words "$(said diff --json "$empty" "$empty")" '"figure":"live_count","a":1,"b":1' 'diff counts no request of 0 bytes as live'
has_words "$("$tidemark" export -f speedscope "$empty" | tr -d '\n')" '"exporter"' 'speedscope takes requests of 0 bytes'
is "$("$tidemark" export -f chrome --lifetimes "$empty" | grep -c '"ph":"b"')" 2 \
    'a trace of chrome has no lifetime without bytes'
is "$("$tidemark" export -f jsonl "$empty" | grep -c '"size":0')" 6 'the rows of requests of 0 bytes are exported'
is "$("$tidemark" query --csv "$empty" 'SELECT count(*) FROM allocation WHERE size = 0' | tail -n 1)" 6 \
    'the rows of requests of 0 bytes stay in the trace'
make_trace "$scratch/only.db" "INSERT INTO life VALUES (1, 1, 0, 5, NULL), (2, 1, 100, 6, 7), (3, 1, 0, 8, NULL);
    UPDATE allocation SET address = 0 WHERE size = 0;"
is "$(said check --no-leaks "$scratch/only.db" | tail -n 1 | grep -o '.$')" 0 'check --no-leaks passes where only 0 bytes are live'
has_words "$(said leaks "$scratch/only.db")" 'Nothing is live at the end.' 'leaks finds nothing where only 0 bytes are live'
"$tidemark" replay --json --keep-live --stack sim "$scratch/only.db" >"$scratch/said"
is "$(grep -o '"left_count":[0-9]*\|"live_count":[0-9]*' "$scratch/said" | head -n 1 | grep -o '[0-9]*$')" 0 \
    'replay leaves nothing live where only 0 bytes are'
printf 'Thread,Time,Action,Pointer,Size,Stream\n1,1,allocate,0x0,0,0\n1,2,allocate,0x0,0,0\n1,3,allocate,0x0,0,0\n' >"$scratch/nothing.csv"
is "$("$tidemark" import -o "$scratch/nothing.db" "$scratch/nothing.csv" 2>&1 | grep 'frees are missing'
    said summary "$scratch/nothing.db" | tail -n 1 | grep -o '.$')" 0 \
    'import misses no free of requests of 0 bytes'

# The same recording, ended in four ways.
lives="INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, 50);"
ended() {
    make_trace "$scratch/$1.db" "$lives INSERT INTO meta VALUES ('ended', '$2');"
}
ended closed closed
ended exit exit
ended killed recovered
ended imported imported
killed=$scratch/killed.db
for way in closed:closed exit:closed killed:killed imported:imported; do
    trace=$scratch/${way%:*}.db
    has_words "$(said summary --json "$trace")" "\"ended\":\"${way#*:}\"" "summary --json says that $way ended as ${way#*:}"
    has_words "$(said layers --json "$trace")" "\"ended\":\"${way#*:}\"" "layers --json says that $way ended as ${way#*:}"
done
has_words "$(said summary "$killed")" 'complete; the program was killed' 'summary says that the program was killed'
has_words "$(said summary "$killed")" '100 B in 1 allocation was live when it was killed' \
    'summary does not call leaked what a killed program had'
has_words "$(said summary "$scratch/closed.db")" '100 B in 1 allocation was never freed' \
    'summary says of a program that ended what it never freed'
has_words "$(said layers "$killed")" 'ended' 'layers says that the program was killed'
has_words "$(said leaks "$killed")" 'live when it was killed' 'leaks says that the program was killed'
has_words "$("$tidemark" export -f speedscope "$killed")" 'live when it was killed' 'speedscope says it, too'
has_words "$("$tidemark" export -f speedscope "$scratch/closed.db")" 'live at the end' \
    'speedscope says of a program that ended what is live at the end'
seen=$(said check --json --no-leaks "$killed")
has_words "$seen" '"passed":false,"failed_count":0,"unknown_count":1,"ended":"killed"' 'check --no-leaks cannot judge a killed program'
has_words "$seen" '"passed":false,"unknown":true' 'check --json says which budget is unknown'
is "${seen##* }" 3 'check --no-leaks of a killed program exits with 3'
has_words "$(said check --no-leaks "$killed")" 'UNKNOWN' 'the report of check says that it is unknown'
has_words "$(said check --tap --no-leaks "$killed")" '# ended: killed
not ok 1' 'what is unknown is not ok in TAP'
has_words "$(said check --junit --no-leaks "$killed")" '<property name="ended" value="killed"/>' \
    'JUnit has how the recording ended as a property'
seen=$(said check --even-killed --no-leaks "$killed")
is "${seen##* }" 1 'check --even-killed judges a killed program'
seen=$(said check --no-leaks "$scratch/closed.db")
is "${seen##* }" 1 'check --no-leaks judges a program that ended'
seen=$(said check --no-leaks --max-peak=1 "$killed")
is "${seen##* }" 1 'a budget that fails counts more than one that is unknown'
seen=$(said check --even-killed --max-peak=1GiB "$killed")
is "${seen##* }" 2 'check --even-killed without --no-leaks is wrong use'
done_testing
