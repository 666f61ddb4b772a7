# Tests `tidemark replay` of traffic of several threads and streams, with its tags, marks and times: what threads share.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/replay.sh"

plan 37

with_threads
json=$(replay --json "$csv")
is "$(figures "$json" events threads_count streams_count peak)" '71996 15 8 560877059 ' \
    'fifteen threads replay in the recorded order, with the same peak to the byte'
replay --stack "log($scratch/threads.db) | sim" "$csv" >/dev/null
is "$(query "$scratch/threads.db" "$peak_sql") $(query "$scratch/threads.db" 'SELECT count(DISTINCT alloc_thread_id) FROM allocation')" \
    '560877059,46,33660 15' 'fifteen threads leave the same peak at the same event in a trace'

# What a trace says of its events goes into the trace of its replay: tags, marks, call stacks, names of threads.
make_trace "$scratch/noted.db" "
    INSERT INTO tag VALUES (1, NULL, 'step'), (2, 1, 'for/ward'), (3, NULL, 'other');
    INSERT INTO thread VALUES (2, 200, 'worker'), (3, 201, '');
    INSERT INTO module VALUES (1, '/bin/x', 'ab', 4096, 4096);
    INSERT INTO frame VALUES (1, 4100, 1, 'take', '/src/a.c', 7), (2, 4200, 1, 'main', '', NULL),
        (3, 4300, 1, 'more', '', NULL);
    INSERT INTO callstack VALUES (4, 0, 1), (4, 1, 2), (7, 0, 3), (7, 1, 2);
    INSERT INTO life VALUES (1, 1, 100, 1000, 5000), (2, 1, 200, 2000, NULL), (3, 1, 300, 2000, 3000),
        (4, 1, 400, 4000, 4000), (5, 1, 500, 6000, 7000), (6, 1, 600, 6400, 8000);
    INSERT INTO refused VALUES (9, 1, 700, 6500);
    UPDATE allocation SET tag_id = 2, callstack_id = 4 WHERE allocation_id IN (1, 2);
    UPDATE allocation SET tag_id = 1 WHERE allocation_id = 3;
    UPDATE allocation SET callstack_id = 7 WHERE allocation_id = 4;
    UPDATE allocation SET alloc_thread_id = 2 WHERE allocation_id IN (3, 5);
    INSERT INTO mark VALUES (500, 1, 'mark', 'begin', NULL), (3500, 2, 'mark', 'middle', NULL),
        (3600, 2, 'trim', 'no', 3), (9000, NULL, 'mark', 'end', NULL);"

# noted TRACE: what it says of the allocations of layer 1, by their sizes.
noted() {
    query "$1" "WITH RECURSIVE path(tag_id, name) AS (SELECT tag_id, name FROM tag WHERE parent_tag_id IS NULL
            UNION ALL SELECT tag.tag_id, path.name || '|' || tag.name FROM tag JOIN path ON tag.parent_tag_id = path.tag_id)
        SELECT size, path.name, thread.name, (SELECT group_concat(function || ifnull(file, '') || ifnull(line, ''), '<')
            FROM callstack JOIN frame USING (frame_id) WHERE callstack.callstack_id = allocation.callstack_id) AS frames
        FROM allocation LEFT JOIN path USING (tag_id) JOIN thread ON thread_id = alloc_thread_id
        WHERE layer_id = $2 AND status = 0 ORDER BY size" | tr '\n' ' '
}
marks_sql="SELECT text, name FROM mark JOIN thread USING (thread_id) WHERE kind = 'mark' ORDER BY mark.rowid"
replay --keep-live --stack "log($scratch/kept.db) | pool | log | sim" "$scratch/noted.db" >/dev/null
is "$? $(cat "$scratch/err")" '0 ' 'a trace with tags, marks and call stacks is replayed into another trace'
is "$(noted "$scratch/kept.db" 1)" "$(noted "$scratch/noted.db" 1)" \
    'the trace of the replay has the tags, the call stacks with their frames, and the threads of each allocation'
has_words "$(noted "$scratch/kept.db" 3)" ',step|for/ward,main,take/src/a.c7<main' \
    'a chunk below has the tag and the call stack of the allocation that it was taken for'
is "$(query "$scratch/kept.db" "$marks_sql" | tr '\n' ' ')" 'begin,main middle,worker end,main ' \
    'the trace of the replay has the marks, on their threads'
is "$(query "$scratch/kept.db" "SELECT count(*) FROM mark JOIN allocation ON ns > alloc_ns WHERE text = 'middle' AND layer_id = 1")" 3 \
    'a mark stands between the events that it stood between'
is "$(query "$scratch/kept.db" "SELECT count(*) FROM tag")" 2 \
    'the trace of the replay has the tags that were in use, and none that stands for a call stack'
replay --keep-live --stack "log($scratch/again.db, callstack=8) | sim" "$scratch/kept.db" >/dev/null
is "$(noted "$scratch/again.db" 1)" "$(noted "$scratch/noted.db" 1)" \
    'the call stacks of the input go before those that the log of the replay takes itself'
replay --keep-live --stack "limit(1GiB) | pool | log($scratch/low.db) | sim" "$scratch/noted.db" >/dev/null
has_words "$(query "$scratch/low.db" 'SELECT name, callstack_id FROM allocation LEFT JOIN tag USING (tag_id)')" 'for/ward,4' \
    'a log below a pool has the tags and the call stacks, too'

replay --keep-live --clock=recorded --stack "log($scratch/clock.db) | pool | log | sim" "$scratch/noted.db" >/dev/null
is "$? $(kept_times "$scratch/clock.db")" "0 $(kept_times "$scratch/noted.db")" 'with --clock=recorded the times are the recorded ones'
is "$(query "$scratch/clock.db" "SELECT ns, text FROM mark WHERE kind = 'mark' ORDER BY ns" | tr '\n' ' ')" \
    '500,begin 3500,middle 9000,end ' 'so are those of the marks'
is "$(query "$scratch/clock.db" "SELECT value FROM meta WHERE key = 'start_unix_ns'") $(query "$scratch/clock.db" \
    'SELECT count(*) FROM pool_sample WHERE ns > 9000') $(query "$scratch/clock.db" 'SELECT count(*) FROM allocation WHERE alloc_ns > 8000 OR free_ns > 9000')" \
    '1700000000000000000 0 0' 'the day, samples and lower layers have times of the recording'
replay --keep-live --clock=recorded --stack "limit(900, alignment=1) | log($scratch/refusals.db) | limit(550, alignment=1) | sim" "$scratch/noted.db" >/dev/null
is "$? $(query "$scratch/refusals.db" 'SELECT size, alloc_ns, status = 0 FROM allocation ORDER BY allocation_id' | tr '\n' ' ')" \
    '0 100,1000,1 200,2000,1 300,2000,0 400,4000,0 500,6000,0 600,6400,0 ' \
    'requests that the new stack refuses have their recorded times'
replay --keep-live --clock=recorded --stack "limit(900) | log($scratch/above.db) | limit(550, alignment=1) | sim" "$scratch/noted.db" >/dev/null
is "$? $(query "$scratch/above.db" 'SELECT size, alloc_ns, status = 0 FROM allocation ORDER BY allocation_id' | tr '\n' ' ')" \
    '0 100,1000,1 200,2000,1 500,6000,0 ' 'requests that a layer above the log refuses do not shift the times of others'
replay --clock=recorded --stack "pool | log($scratch/chunks.db) | sim" "$scratch/noted.db" >/dev/null
has_words "$? $(cat "$scratch/err")" 'no log sees every request as it is' \
    'where no log sees every request, --clock=recorded is an error that says so'
prlimit --fsize=2600000 "$tidemark" replay --clock=recorded --stack "log($scratch/small.db) | sim" "$scratch/noted.db" \
    >/dev/null 2>"$scratch/err"
has_words "$? $(cat "$scratch/err")" 'has the times of the replay: 12 events of it could not be recorded' \
    'where events of the replay were lost, --clock=recorded is an error that says so'
replay --clock=recorded --stack sim "$scratch/noted.db" >/dev/null
has_words "$? $(cat "$scratch/err")" '2 tidemark replay: --clock=recorded: the stack has no log' \
    '--clock=recorded without a log is an error'
rows '1,,allocate,0x100,10,0x0'
replay --clock=recorded --stack "log($scratch/none.db) | sim" "$csv" >/dev/null
is "$? $(cat "$scratch/err")" "2 $csv: no trace, and --clock=recorded is for traces" '--clock=recorded is for traces only'

json=$(replay --json --stop-at-failure --stack 'limit(550) | sim' "$scratch/noted.db")
is "$? $(figures "$json" allocations failures stopped_at live_bytes)" '1 2 1 3 300 ' \
    '--stop-at-failure stops at the first allocation that is refused, with status 1'
replay --stop-at-failure --clock=recorded --stack "log($scratch/stopped.db) | limit(550) | sim" "$scratch/noted.db" >/dev/null
is "$? $(query "$scratch/stopped.db" 'SELECT size, alloc_ns, free_ns FROM allocation ORDER BY allocation_id' | tr '\n' ' ')" \
    '1 100,1000,2000 200,2000,2000 300,2000, ' 'what was live when the replay stopped is freed at that time'
replay --stop-at-failure --stack 'limit(1GiB) | sim' "$scratch/noted.db" >/dev/null
is $? 0 '--stop-at-failure without a failure changes nothing'

# Recorded handles of streams belong to another process. The fake driver takes each for an address, as the real one.
rows '1,,allocate,0x100,1048576,0' '1,,allocate,0x200,2097152,140001' '1,,free,0x200,2097152,140001' \
    '1,,allocate,0x300,2097152,150001' '2,,free,0x300,2097152,140001' '1,,free,0x100,1048576,1' \
    '2,,allocate,0x100,1000,2'
fake=$top_builddir/tests/fake-cuda/.libs
if test -e "$fake/libcuda.so.1"; then
    seen=
    for stack in cuda driver managed pinned 'pool | cuda' 'pool | driver' 'arena | cuda' 'monotonic | driver' \
        'fallback({pinned}) | cuda(device=1)' 'guard | cuda' "log($scratch/own.db) | pool | log | cuda"; do
        json=$(LD_LIBRARY_PATH=$fake FAKE_CUDA_DEVICES=2 replay --json --keep-live --stack "$stack" "$csv")
        seen="$seen$? $(figures "$json" allocations frees free_failures streams_count live_bytes)"
    done
    is "$seen" "$(printf '%.s0 4 3 0 5 1000 ' 1 2 3 4 5 6 7 8 9 10 11)" \
        'over bases with streams a replay has a stream of its own for each recorded one'
    is "$(query "$scratch/own.db" "SELECT count(*), sum(handle = 0), sum(handle IN (1, 2, 1310721, 1376257)) FROM stream")" '5,1,0' \
        'the recorded stream 0 stays 0, and no other handle reaches the driver'
    printf '%s\n' Thread,Time,Action,Pointer,Size,Stream 1,,allocate,0x100,4294967296,0 1,,free,0x100,4294967296,0 >"$scratch/large.csv"
    begin=$(date +%s%N)
    LD_LIBRARY_PATH=$fake FAKE_CUDA_MEMORY=8G replay --stack cuda --stack cuda --stack cuda --stack cuda --stack cuda \
        --stack cuda --stack cuda --stack cuda --stack cuda --stack cuda --stack cuda "$scratch/large.csv" >/dev/null
    status=$?
    is "$status $(test $(($(date +%s%N) - begin)) -ge 122000000; echo $?)" '0 0' \
        'between stacks that are compared the device has 3 us for each MiB to clear their memory'
    LD_LIBRARY_PATH=$fake FAKE_CUDA_FAIL=cuStreamCreate:2:2 replay --stack cuda "$csv" >/dev/null
    has_words "$? $(cat "$scratch/err")" '2 tidemark replay: no streams on the device: cuStreamCreate: CUDA error 2' \
        'a driver that makes no stream is an error that says so'
else
    skip 4 'there is no fake driver in this build'
fi
replay --stack "log($scratch/numbers.db) | sim" "$csv" >/dev/null
is "$(query "$scratch/numbers.db" 'SELECT group_concat(handle) FROM (SELECT handle FROM stream ORDER BY 1)')" \
    '"0,1,2,1310721,1376257"' 'over bases without streams the recorded numbers stay'

# Recorded gaps. tests/replay-pace-t has a clock of its own; here time passes, and no figure of it decides.
rows '1,10:00:00:000000,allocate,0x100,100,0x0' '2,10:00:00.100000,allocate,0x200,300,0x0' \
    '1,10:00:00:500000,free,0x100,100,0x0' '1,10:00:01:000000,free,0x200,300,0x0'
json=$(replay --json --time-scale=0.05 "$csv")
is "$? $(figures "$json" events allocations time_scale live_mean_bytes reserved_mean_bytes | sed 's/0.0500*[0-9]/0.05/')" \
    '0 4 2 0.05 320 320 ' 'replay --time-scale says the means over the recorded time'
has_words "$(echo "$json" | grep -c '"waited_ns":[0-9][0-9]*,"late_median_ns":[0-9][0-9]*,"late_p99_ns":[0-9][0-9]*,"late_most_ns":[0-9]')" 1 \
    'and how long it waited, and how late events began'
is "$(figures "$(replay --json --time-scale=0 "$csv")" time_scale waited_ns late_p99_ns live_mean_bytes)" \
    'null null null null ' 'replay --time-scale=0 keeps no gaps, as without the option'
replay --time-scale=0.001 --stack 'pool | sim' --stack sim "$csv" >"$scratch/out"
is "$? $(sed 's/began .*most/.../' "$scratch/out" | sed -n 2,5p | tr '\n' '/')" \
    '0 mean    320 B live, 4 MiB reserved over time: pool | sim/late    events ...: pool | sim/mean    320 B live, 320 B reserved over time: sim/late    events ...: sim/' \
    'of several stacks each has its means and its lateness'
seen=
for scale in -1 1001 1e3 nan inf 0.1s 1,5 ' ' ''; do
    replay --time-scale="$scale" "$csv" >/dev/null
    seen="$seen$?$(grep -c -e "--time-scale: .*\(is no number from 0 to 1000, such as 0.1\|and not an empty text\)" "$scratch/err") "
done
is "$seen" '21 21 21 21 21 21 21 21 21 ' 'replay --time-scale of no number, below 0 or above 1000 is wrong use that says so'
replay --time-scale "$csv" >/dev/null
is $? 2 'replay --time-scale without a number is wrong use'
rows '1,10:00:00:000000,allocate,0x100,10,0x0' '1,,free,0x100,10,0x0'
is "$(figures "$(replay --json "$csv")" events)" '2 ' 'a row without a time is read where no gaps are asked for'
replay --time-scale=0.1 "$csv" >"$scratch/out"
is "$? $(cat "$scratch/out" "$scratch/err")" \
    "2 $csv:3: column 2 (Time): expected a time of day such as 12:34:56.789012, for --time-scale" \
    'with --time-scale it is an error that says so'
replay --keep-live --time-scale=1000 --clock=recorded --stack "log($scratch/paced.db) | pool(decay=10) | log | sim" \
    "$scratch/noted.db" >/dev/null
is "$? $(kept_times "$scratch/paced.db")" "0 $(kept_times "$scratch/noted.db")" \
    'the gaps of a trace are kept with its marks, tags and threads, and its new trace may have the recorded times'

replay --stack sim --stop-at-failure=yes "$csv" >/dev/null
is $? 2 '--stop-at-failure takes no value'

done_testing
