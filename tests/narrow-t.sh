# Tests the tables of every command on terminals of 80, 60 and 40 columns: no line is longer, and the column that the
# command is about stays.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
screen=$top_builddir/tests/screen
trace=$scratch/t.db
export LC_ALL=C NO_COLOR=1
"$screen" 80 true || skip_all 'there are no pseudo-terminals'

# Two logs around a limit and a pool, with tags, call stacks, driver calls, samples, failures, marks, and what grows;
# sizes and times are large, so that columns are wide.
"$top_builddir/tests/make-trace" "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''),
        (2, 3, 'limit', '12884901888, count=100000'), (3, 4, 'pool', 'initial=268435456, maximum=12884901888'),
        (4, 5, 'log', ''), (5, NULL, 'sim', '');
    INSERT INTO tag VALUES (1, NULL, 'training'), (2, 1, 'forward'), (3, 2, 'attention of the second layer'), (4, 1, 'b');
    INSERT INTO frame VALUES (1, 1, NULL, 'at::native::empty_cuda(c10::ArrayRef<long>)', '/src/aten/empty.cpp', 190),
        (2, 2, NULL, 'at::native::cat_cuda(at::Tensor)', '/src/aten/cat.cpp', 33), (3, 3, NULL, 'main', 'm.c', 7);
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 3), (2, 0, 2), (2, 1, 3);
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 40)
        INSERT INTO life SELECT 2 * n, 4, 268435456 + n, n * 1234567890, iif(n < 30, n * 1234567890 + 45678901234, NULL)
            FROM n
        UNION ALL SELECT 2 * n + 1, 1, 123456789 * (1 + n % 4) + n, n * 1234567890 + 1000,
            iif(n % 4 = 0, NULL, n * 1234567890 + 2345678901) FROM n;
    UPDATE allocation SET tag_id = 1 + allocation_id % 4, callstack_id = 1 + allocation_id / 2 % 2,
        address = iif(layer_id = 4, 4294967296 * allocation_id, 4294967296 * (allocation_id - 1) + 65536);
    INSERT INTO refused VALUES (100, 1, 12345678901, 60000000000), (101, 1, 1234567890, 61000000000);
    UPDATE allocation SET status = 6 WHERE allocation_id = 100;
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)
        SELECT allocation_id, 0, 'cuMemAllocAsync', alloc_ns, 1234567, 1, 0 FROM allocation WHERE status = 0;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (20000000000, 5, 1234567890, 12345678901);
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 12)
        INSERT INTO mark SELECT n * 4000000000, 1, 'mark', 'step ' || n, NULL FROM n;" || exit 99
"$top_builddir/tests/make-trace" "$scratch/other.db" "INSERT INTO life VALUES (1, 1, 12345678901, 1000, NULL);
    INSERT INTO pool_sample VALUES (2000, 2, 12345678901, 12345678901, 12345678901);" || exit 99
printf 'callstack:a name that nothing in the trace has|and another one\ntag:b\n' >"$scratch/known"

# narrow TITLES ARGUMENT...: on each terminal no line is longer, and each title is in a line. A test for each width.
narrow() {
    titles=$1
    shift
    for columns in 80 60 40; do
        "$screen" "$columns" "$tidemark" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
        status=$?
        longest=$("$AWK" -v columns="$columns" 'length($0) > columns' "$scratch/out" | head -n 3)
        missing=
        # What is left out is named below a table.
        sed '/^A wider terminal also shows:/,/^$/d' "$scratch/out" >"$scratch/shown"
        for title in $titles; do
            grep -q -w -e "$(echo "$title" | tr '_' ' ')" "$scratch/shown" || missing="$missing $title"
        done
        command=$*
        is "$longest|$missing|$(test "$status" -le 1 || echo "$status")" '||' \
            "$columns columns: ${command%%"$scratch"*}" || sed 's/^/# /' "$scratch/out" "$scratch/err"
    done
}

plan 108

narrow 'LAYER PEAK LIVE' summary "$trace"
narrow 'LAYER PEAK LIVE' layers "$trace"
for by in tag callstack function size class stream thread layer device; do
    narrow 'BYTES' peak --by=$by "$trace"
done
narrow 'ALLOCATION SIZE' peak --by=tag --blocks=5 "$trace"
narrow 'BYTES LIVE' leaks --by=tag "$trace"
narrow 'BYTES LIVE PATTERN' leaks --by=callstack --suppressions="$scratch/known" "$trace"
narrow 'GROWTH' leaks --by=tag --steps='step *' --only=growth "$trace"
narrow 'CHURN' top --by=tag "$trace"
narrow 'LIVE' top --by=callstack --sort=live "$trace"
narrow 'FAILURES' top --by=tag --sort=failures "$trace"
narrow 'IN_CALLS' top --by=tag --sort=time "$trace"
narrow 'IN_DRIVER' top --by=tag --sort=driver "$trace"
narrow 'SIZES COUNT BYTES' histogram "$trace"
narrow 'BYTES HOLE' failures "$trace"
narrow 'SIZE CAUSE LIVE' failures --all "$trace"
narrow 'RESERVED' fragmentation "$trace"
narrow 'live' timeline "$trace"
narrow 'A B CHANGE' diff --by=tag "$trace" "$scratch/other.db"
narrow 'CHANGE' diff --only=sizes "$trace" "$scratch/other.db"
narrow 'BUDGET LIMIT SEEN' check --max-peak=12345678901 "$trace"
narrow 'BUDGET LIMIT SEEN' check --max-peak='tag=training/forward/attention of the second layer:1' --max-failures=1 "$trace"
narrow 'BUDGET LIMIT SEEN' check --baseline="$scratch/other.db" "$trace"
"$top_builddir/tests/make-trace" "$scratch/gpus.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0),
        (2, NULL, 'driver', '', 0), (3, 4, 'log', '', 1), (4, NULL, 'driver', '', 1);
    INSERT INTO life VALUES (1, 1, 3000000, 10, NULL), (2, 3, 1000000, 15, NULL);" || exit 99
narrow 'A B' diff --by=tag "$scratch/gpus.db" "$scratch/other.db"
narrow 'LAYER' layers --layer=4 "$trace"
narrow 'LAYER PEAK_RESERVED PEAK' replay --stack 'statistics | limit(64GiB) | pool(initial=256MiB) | statistics | sim' "$trace"
narrow 'PEAK_RESERVED STACK' replay --stack 'statistics | limit(64GiB) | pool(initial=256MiB) | sim' --stack sim "$trace"
narrow 'layer bytes' query "$trace" 'SELECT *, layer_id AS layer, size AS bytes FROM allocation'
fake=$top_builddir/tests/fake-cuda/.libs
if test -e "$fake/libcuda.so.1"; then
    LD_LIBRARY_PATH=$fake
    FAKE_CUDA_DEVICES=2
    export LD_LIBRARY_PATH FAKE_CUDA_DEVICES
    narrow 'NAME MEMORY' devices
else
    skip 3 'there is no fake driver in this build, and so no devices'
fi
done_testing
