# Tests `tidemark import`: real traffic gives figures that were computed independently, and flaws are counted.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

data=$top_srcdir/tests/data
csv=$scratch/in.csv
trace=$scratch/t.db
header='Thread,Time,Action,Pointer,Size,Stream'

# import ARGUMENT...: print the exit status; messages go to $scratch/err.
import() {
    "$tidemark" import "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

query() {
    "$tidemark" query --csv "$trace" "$1" 2>/dev/null | tail -n +2 | tr -d '\r' | tr '\n' ' '
}

# rows ROW...: make an input of these rows under RMM's header.
rows() {
    printf '%s\n' "$header" "$@" >"$csv"
}

sums="SELECT count(*) FILTER (WHERE status = 0), count(free_ns), sum(size) FILTER (WHERE status = 0),
    (SELECT max(live_bytes) FROM usage), (SELECT count(*) FROM live), (SELECT count(*) FROM unmatched_free)
    FROM allocation"

plan 63

# data FILE ALLOCATIONS FREES TOTAL PEAK LEFT: compare with the data's own description.
data() {
    is "$(import "$data/$1.csv.gz" -o "$scratch/$1.db") $(cat "$scratch/err")" '0 ' \
        "$1: the import succeeds without a message"
    trace=$scratch/$1.db
    is "$(query "$sums")" "$2,$3,$4,$5,$6,0 " "$1: the imported trace has every figure"
}
data gpt_train 73528 73525 1013665151873 13844800200 3
is "$(query "SELECT key, value FROM meta WHERE key IN ('complete', 'ended', 'import_format', 'import_events',
    'import_guessed_times', 'start_unix_ns') ORDER BY key")" \
    'complete,1 ended,imported import_events,147053 import_format,rmm import_guessed_times,0 start_unix_ns,65509924939000 ' \
    'the meta of an imported trace has its source, and the time of day of the first event'
data maskrcnn_infer 238381 238381 612103481034 3998912135 0
data multistream_sort 35998 35998 482675712218 560877059 0
is "$(query 'SELECT count(*) FROM stream')" '8 ' 'the imported trace has the streams of the input'
is "$(query "SELECT count(*) FROM allocation a JOIN allocation b ON b.allocation_id = a.allocation_id + 1
    WHERE b.alloc_ns <= a.alloc_ns")" '0 ' 'times in the imported trace grow with every event'
trace=$scratch/t.db

gzip -dc "$data/multistream_sort.csv.gz" >"$scratch/plain.csv"
awk '{ printf "%s\r\n", $0 }' "$scratch/plain.csv" >"$csv"
is "$(import "$csv" "$trace") $(query "$sums")" '0 35998,35998,482675712218,560877059,0,0 ' \
    'lines of the input may end in CRLF, and the trace may come after the input'
is "$("$tidemark" import - --overwrite -o "$trace" <"$csv" 2>&1) $(query "$sums")" \
    ' 35998,35998,482675712218,560877059,0,0 ' 'import reads standard input'
awk -F, 'BEGIN { OFS = "," } NR > 1 { $2 = NR % 3 == 0 ? "" : NR % 3 == 1 ? "25:61:00.1" : "yesterday" } { print }' \
    "$scratch/plain.csv" >"$csv"
is "$(import --overwrite "$csv" "$trace") $(query "$sums")" '0 35998,35998,482675712218,560877059,0,0 ' \
    'without readable times the order of the lines is kept'
has_words "$(cat "$scratch/err")" '71996 times were missing' 'import says how many times were missing'
is "$(query "SELECT value FROM meta WHERE key = 'import_guessed_times'")" '71996 ' \
    'the meta of the imported trace has the number of missing times'

rows '1,10:00:00.1,allocate,0x1000,4611686018427379000,0x0' '1,10:00:00.2,free,0x1000,4611686018427379000,0x0' \
    '1,10:00:00.3,allocate,0x2000,1048576,0x0' '1,10:00:00.4,allocate failure,0x0,4611686018427379000,0x0'
is "$(import --overwrite "$csv" -o "$trace") $(query 'SELECT size, status FROM allocation ORDER BY 1')" \
    '3 1048576,0 4611686018427379000,3 ' 'a size that no device has is left out, unless it was refused, and spoils no other'
has_words "$(cat "$scratch/err")" 'event 1 asks for 4611686018427379000 bytes' 'the first such size is named'
awk -F, 'BEGIN { OFS = ":" } { print $5, $3, $4, "x" }' "$scratch/plain.csv" | tr : , >"$csv"
is "$(import --overwrite "$csv" "$trace") $(query "$sums")" '0 35998,35998,482675712218,560877059,0,0 ' \
    'columns may be in another order, and Thread, Time and Stream may be missing'

# A log that begins late: 3000 frees of blocks that were allocated before.
awk -F, 'BEGIN { OFS = "," } NR == 1 || NR > 20000 { print }' "$scratch/plain.csv" >"$csv"
awk -F, 'NR > 1 { if ($3 == "allocate") { n++; live[$4] = $5; now += $5; if (now > peak) peak = now }
    else if ($4 in live) { now -= live[$4]; delete live[$4]; f++ } else u++ }
    END { print n "," f "," peak "," n - f "," u }' "$csv" >"$scratch/wanted"
is "$(import --overwrite "$csv" "$trace") $(query "SELECT count(*), count(free_ns), (SELECT max(live_bytes) FROM usage),
    (SELECT count(*) FROM live), (SELECT count(*) FROM unmatched_free) FROM allocation")" \
    "0 $(cat "$scratch/wanted") " 'frees of blocks that were never allocated are unmatched, and nothing else changes'
has_words "$(cat "$scratch/err")" 'frees of what was not live' 'import says how many frees were unmatched'

rows '1,23:59:59:999999,allocate,0x100,10,0x0' '1,00:00:00:000001,free,0x100,10,0x0' \
    '1,00:00:00:000001,allocate,0x100,20,0x0'
is "$(import --overwrite "$csv" "$trace") $(query 'SELECT alloc_ns, free_ns FROM allocation')" '0 0,2000 2001, ' \
    'times go on past midnight, and events of one time keep the order of the lines'
rows '1,1,allocate,0x100,10,0x0' '1,1,allocate failure,(nil),999,0x0' '1,1,free,0x100,11,0x0'
is "$(import --overwrite "$csv" "$trace") $(query 'SELECT size, status, free_ns FROM allocation')" '0 10,0,2 999,3, ' \
    'a failed allocation is a row'
is "$(query 'SELECT kind, value, text FROM mark')" 'size_mismatch,256,layer 1: freed as 11 bytes ' \
    'a free with another size is a mark'
rows '1,1,allocate,0x100,10,0x0' '1,1,allocate,0x100,20,0x0' '1,1,free,0x100,20,0x0'
is "$(import --overwrite "$csv" "$trace") $(query 'SELECT size, free_ns FROM allocation')" '3 10, 20,2 ' \
    'a block that is allocated again while live stays live, and import exits with 3'
is "$(query 'SELECT * FROM loss')" ',missing free,1 ' 'the missing free of that block is counted as lost'
rows '1,1,allocate,0x0,0,0x0' '1,1,allocate,0x0,0,0x0' '1,1,free,0x0,0,0x0' '1,1,free,0x0,0,0x0' '1,1,free,0x0,0,0x0'
is "$(import --overwrite "$csv" "$trace") $(query "$sums")" '0 2,2,0,0,0,1 ' \
    'allocations of 0 bytes share the null pointer'
rows '7,1,allocate,0x100,10,0xabc' '8,1,free,0x100,10,0xdef'
is "$(import --overwrite "$csv" "$trace") $(query 'SELECT os_tid FROM thread')$(query 'SELECT handle FROM stream')" \
    '0 7 8 2748 3567 ' 'the imported trace has the threads and streams of the input'
rows '1,1,allocate,0x100,10,0x0' '1,1,allocate,0x200' '' '1,1,alloc,0x100,10,0x0' '1,1,free,0x100,10,0x0'
is "$(import --overwrite "$csv" "$trace") $(query "$sums")" '3 1,1,10,10,0,0 ' \
    'unreadable rows are left out, and import exits with 3'
has_words "$(cat "$scratch/err")" "$csv:3: 4 columns, expected 6" 'a message names the first unreadable row'
is "$(query 'SELECT * FROM loss')$("$tidemark" summary "$trace" >/dev/null 2>&1; echo $?)" ',unreadable record,2 3' \
    'unreadable rows are counted as lost, so that every command exits with 3'
head -c 30000 "$data/multistream_sort.csv.gz" >"$csv"
is "$(import --overwrite "$csv" "$trace") $(query 'SELECT * FROM loss')" '3 ,input cut off,1 ' \
    'compressed data that is cut off is imported up to there'
rows
is "$(import --overwrite "$csv" "$trace") $(query "$sums")" '0 0,0,,,0,0 ' 'a header without rows is an empty trace'

# A failed import leaves no file.
echo 'Thread,Time,Action' >"$csv"
is "$(import "$csv" "$scratch/no.db") $(cat "$scratch/err")" \
    "2 $csv:1: neither a trace nor allocator traffic: expected the header $header" \
    'a file with another header is refused'
rows 'a' 'b'
is "$(import "$csv" "$scratch/no.db")" 2 'a file without a readable row is refused'
is "$(import "$scratch/none" "$scratch/no.db") $(cat "$scratch/err")" \
    "2 $scratch/none: No such file or directory" 'a missing file is refused'
is "$(import "$scratch" "$scratch/no.db")" 2 'a folder is refused'
is "$(ls "$scratch" | grep -c 'no.db')" 0 'a refused import leaves no trace'

# Existing files in place of the trace.
is "$(import "$scratch/plain.csv" "$trace") $(cat "$scratch/err")" "2 $trace: exists; --overwrite replaces it" \
    'an existing trace is not replaced without --overwrite'
echo text >"$scratch/text"
is "$(import --overwrite "$scratch/plain.csv" "$scratch/text") $(cat "$scratch/err")" \
    "2 $scratch/text: exists and is no trace: it is not overwritten" \
    'an existing file that is no trace is not replaced with --overwrite'
: >"$scratch/new.db-wal"
is "$(import "$scratch/plain.csv" "$scratch/new.db")" 2 \
    'a trace with the ring file of another one beside it is not made'
is "$(import "$scratch/plain.csv" "$scratch/none/t.db")" 2 'a trace in a missing folder is an error'
is "$(import)$(import "$csv")$(import a b c)$(import --from x "$csv" "$trace")" 2222 'wrong use of import exits with 2'
rm -f "$scratch/full.db"
rows '1,1,allocate,0x100,10,0x0'
printf '\033]0;x,1,a,0,0,0\n' >>"$csv"
import --overwrite "$csv" "$trace" >/dev/null
is "$(grep -c "$(printf '\033')" "$scratch/err")" 0 'control characters of the input do not reach the terminal'

# PyTorch. The history begins after some allocations and maps, of which one block is freed in it.
is "$(import --overwrite "$data/pytorch.json" "$trace") $(cat "$scratch/err")" '0 ' 'a PyTorch snapshot is imported'
is "$(query 'SELECT layer_id, address, size, status, alloc_ns, free_ns FROM allocation ORDER BY 1, 2, alloc_ns')" \
    '1,0,999999,3,10000, 1,1048576,400,0,2, 1,1049088,500,0,4000, 1,1050000,300,0,0,4 1,20971520,1000,0,6000,7000 3,1048576,2097152,0,1, 3,20971520,20971520,0,5000,9000 3,20971520,4194304,0,9001, 3,29360128,12582912,0,9002, 5,9437184,64,0,3000, 7,9437184,2097152,0,2000, 7,11534336,2097152,0,3, ' \
    'blocks from before the snapshot live from its begin, unmapped parts are cut out, and a failure is a row'
is "$(query 'SELECT kind, upstream_layer_id, device FROM layer')" \
    'log,2,0 pytorch,3,0 log,4,0 cuda,,0 log,6,1 pytorch,7,1 log,8,1 cuda,,1 ' \
    'each device of a PyTorch snapshot has a stack of its own'
is "$(query 'SELECT parent_tag_id, name FROM tag')" \
    ',<module> (/a/main.py:9) 1,init (/a/model.py:3) 1,forward (/a/model.py:12) 1,forward (/a/model.py:13) ' \
    'stacks of a PyTorch snapshot are tags, the outermost frame first'
is "$(query "SELECT value FROM meta WHERE key = 'start_unix_ns'")" '1700000000000001000 ' \
    'a trace of a PyTorch snapshot has the time of day'
is "$(query 'SELECT ns, text FROM mark')" '10000,device 0 is out of memory: 12345 bytes are free 11000,snapshot ' \
    'a failure and the snapshot itself are marks'
gzip -c "$data/pytorch.json" >"$scratch/torch.json.gz"
is "$(import --overwrite "$scratch/torch.json.gz" "$trace") $(query 'SELECT count(*) FROM allocation')" '0 12 ' \
    'a PyTorch snapshot may be compressed'
head -c 1800 "$data/pytorch.json" >"$scratch/cut.json"
is "$(import --overwrite "$scratch/cut.json" "$trace") $(query 'SELECT reason FROM loss')" '3 input cut off ' \
    'a PyTorch snapshot that is cut off is imported up to there'
has_words "$(cat "$scratch/err")" "$scratch/cut.json:" 'a message names the line where the snapshot is cut off'
for text in '{}' '{"device_traces": 7}' '[1,' '{"a" 1}' '{"a": tru}' '{"a": "\u00"}' '[[[' '{"segments":[{]}'; do
    echo "$text" >"$scratch/bad.json"
    import "$scratch/bad.json" "$scratch/no.db"
done | tr -d '\n' >"$scratch/seen"
is "$(cat "$scratch/seen")" 22222222 'JSON that is no snapshot, and text that is no JSON, are refused'
{ head -c 100000 /dev/zero | tr '\0' '['; } >"$scratch/bad.json"
is "$(import "$scratch/bad.json" "$scratch/no.db") $(cat "$scratch/err")" \
    "2 $scratch/bad.json:1: the JSON is nested too deep" 'JSON that is nested too deep is refused'
is "$(import --from nsys "$data/pytorch.json" "$scratch/no.db") $(cat "$scratch/err")" \
    "2 $data/pytorch.json: no trace: not an SQLite file" '--from refuses a file of another format'

# Nsight Systems.
if test -z "$SQLITE3"; then
    skip 9 'there is no sqlite3 command'
    done_testing
fi
nsys=$scratch/report.sqlite
"$SQLITE3" "$nsys" <"$data/nsys.sql"
is "$(import --overwrite "$nsys" "$trace") $(cat "$scratch/err")" \
    '0 tidemark import: 1 frees of what was not live are in the table unmatched_free' \
    "an export of Nsight Systems is imported"
is "$(query 'SELECT layer_id, address, size, alloc_ns, alloc_duration_ns, free_ns, handle FROM allocation
    JOIN stream ON stream_id = alloc_stream_id')" \
    '1,4096,1000,1000,200,4000,0 3,1048576,2000,2000,100,5000,7 5,8192,500,3000,0,,0 ' \
    'events of Nsight Systems are allocations in the order of time'
is "$(query "SELECT kind, device FROM layer WHERE kind <> 'log'")" 'cuda,0 driver,0 pinned,0 ' \
    'each kind of memory of Nsight Systems has a stack of its own'
is "$(query 'SELECT allocation_id, is_free, function, start_ns, duration_ns FROM driver_call')" \
    '1,0,cudaMalloc,900,200 2,0,cudaMallocAsync,1950,100 1,1,cudaFree,3900,200 ' \
    'calls of Nsight Systems belong to their allocations'
is "$(query 'SELECT ns, layer_id, used_bytes, reserved_bytes FROM pool_sample')" '2000,4,2000,33554432 5000,4,0,33554432 ' \
    'the pool of Nsight Systems has samples'
"$SQLITE3" "$nsys" 'ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS RENAME TO hidden;
    CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS SELECT * FROM hidden'
is "$(import --overwrite "$nsys" "$trace")" 2 'a view in place of the table of Nsight Systems is refused'
"$SQLITE3" "$nsys" 'DROP VIEW CUDA_GPU_MEMORY_USAGE_EVENTS; CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start, address,
    bytes, memoryOperationType); INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (5, 16, 32, 0), (3, 1, 2, 7), (9, 16, 32, 1),
    (1, 2, -3, 0), (4, x'"''"', 5, 0)'
is "$(import --overwrite "$nsys" "$trace") $(query 'SELECT size, alloc_ns, free_ns FROM allocation')$(query 'SELECT events FROM loss')" \
    '3 32,5,9 3 ' 'four columns of Nsight Systems are enough, and rows of wrong types are left out'

# More devices than any machine has, each with an allocation.
rm -f "$nsys"
"$SQLITE3" "$nsys" 'CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start, globalPid, deviceId, address, bytes, memKind,
        memoryOperationType);
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
        INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT n, 0, n, 4096, n, 2, 0 FROM n;
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
        INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT 30000 + n, 0, n, 4096, n, 2, 1 FROM n;'
is "$(import --overwrite "$nsys" "$trace") $(query "SELECT count(*), count(DISTINCT layer_id), min(free_ns - alloc_ns),
    max(free_ns - alloc_ns) FROM allocation")" '0 20000,20000,30000,30000 ' 'an import has as many devices as the input says'
"$SQLITE3" "$nsys" 'UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET globalPid = start << 24 WHERE start < 30000;
    INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT start + 60000, globalPid + (1 << 50), deviceId, address, bytes, memKind,
        memoryOperationType FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE start < 30000'
is "$(import --overwrite "$nsys" "$trace") $(tail -n 1 "$scratch/err")" \
    '2 tidemark import: more devices and kinds of memory than a trace of 65535 layers can have' \
    'an import with more devices than a trace can have is refused in words'

done_testing
