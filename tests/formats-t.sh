# Tests that the output of `tidemark export` is valid by the rules of other tools' formats, whatever the trace holds.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
data=$top_srcdir/tests/data

python3 -c 'import gzip, json' 2>/dev/null || skip_all 'there is no python3'

# check FORMAT OPTIONS TRACE: print what is wrong with the export, or "valid".
check() {
    # shellcheck disable=SC2086 # options are words
    "$tidemark" export -f "$1" $2 "$3" -o "$scratch/out" 2>&1
    python3 "$top_srcdir/tests/formats.py" "$1" "$scratch/out" 2>&1 | tail -n 12
}

# check_all TRACE WORDS: check the exports in every format of other tools.
check_all() {
    for format in chrome collapsed speedscope pprof; do
        is "$(check $format '' "$1")" valid "$format: $2"
    done
    is "$(check chrome '--lifetimes --from=10% --to=60%' "$1")" valid "chrome: a part of $2 with its lifetimes"
}

plan 31

# Nested calls, calls of unknown threads, equal times, and names that need escapes.
"$top_builddir/tests/make-trace" "$scratch/odd.db" "
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (3, 2, 'log', '\"\\');
    INSERT INTO thread VALUES (7, 4294967295, 'a' || char(10) || '\"'), (8, 108, char(27) || '[31m');
    INSERT INTO tag VALUES (1, NULL, ';'), (2, 1, ''), (3, 2, char(233) || '/' || char(0x1f600)), (4, 1, ' ');
    INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 400)
        SELECT x, 1 + 2 * (x % 2), x * 7919 % 5000, x / 3 * 10, iif(x % 7 = 0, NULL, x / 3 * 10 + x * 31 % 200) FROM c;
    UPDATE allocation SET tag_id = allocation_id % 5, alloc_thread_id = 6 + allocation_id % 3,
        status = iif(allocation_id % 11 = 0, 4, 0), free_ns = iif(allocation_id % 11 = 0, NULL, free_ns);
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)
        SELECT allocation_id, 0, 'cuMemAllocAsync', 400 * allocation_id, 300, 7, 0 FROM allocation
        UNION ALL SELECT allocation_id, 0, 'inner', 400 * allocation_id + 100, 200, 7, 0 FROM allocation
        UNION ALL SELECT NULL, 1, 'of nobody', 90 * allocation_id, 200, NULL, 0 FROM allocation;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (5, 2, 500, 4096), (9, 2, 400, 4096);
    INSERT INTO mark VALUES (35, 7, 'mark', 'step ' || char(9), NULL), (36, NULL, 'trim', NULL, 5)"
check_all "$scratch/odd.db" 'a trace of oddities'
"$top_builddir/tests/make-trace" "$scratch/empty.db"
check_all "$scratch/empty.db" 'a trace of nothing'
"$top_builddir/tests/callstack-program" "log($scratch/stacks.db, callstack=64) | sim" end
check_all "$scratch/stacks.db" 'call stacks'
"$tidemark" import "$data/pytorch.json" -o "$scratch/torch.db" 2>/dev/null
check_all "$scratch/torch.db" "PyTorch's snapshot"
if test -n "$SQLITE3"; then
    "$SQLITE3" "$scratch/nsys.sqlite" <"$data/nsys.sql"
    "$tidemark" import "$scratch/nsys.sqlite" -o "$scratch/nsys.db" 2>/dev/null
    check_all "$scratch/nsys.db" "Nsight Systems' export"
else
    skip 5 'there is no sqlite3'
fi
"$tidemark" import "$data/multistream_sort.csv.gz" -o "$scratch/rmm.db"
check_all "$scratch/rmm.db" 'real traffic'

# The rules find an error: a slice that overlaps another one.
printf '{"displayTimeUnit":"ns","traceEvents":[%s,%s]}' \
    '{"ph":"X","pid":1,"tid":1,"ts":1,"dur":5,"name":"a"}' '{"ph":"X","pid":1,"tid":1,"ts":3,"dur":5,"name":"b"}' \
    >"$scratch/out"
has_words "$(python3 "$top_srcdir/tests/formats.py" chrome "$scratch/out")" 'slices overlap' 'slices that overlap are found'

done_testing
