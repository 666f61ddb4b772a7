# Tests the JSON of all commands: it is complete, and doc/json.md describes every object and every field of it.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db
folder=$scratch/json
mkdir "$folder"

# keep COMMAND ARGUMENT...: the JSON of a command, for the comparison with doc/json.md.
kept=0
keep() {
    kept=$((kept + 1))
    keep_command=$1
    shift
    "$tidemark" "$keep_command" --json "$@" >"$folder/$keep_command.$kept.json" 2>"$scratch/err"
    test $? -le 3 && test -s "$folder/$keep_command.$kept.json" || {
        diag "tidemark $keep_command --json $*: $(cat "$scratch/err")"
        rm "$folder/$keep_command.$kept.json"
    }
}

plan 20

# 50 sizes, tags, threads and streams, each of some blocks; half of them stay live.
make_trace "$trace" "
    INSERT INTO tag WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 50)
        SELECT x, NULL, 'tag' || x FROM c;
    INSERT INTO thread SELECT tag_id + 1, 200 + tag_id, 'worker' FROM tag;
    INSERT INTO stream SELECT tag_id + 1, 4096 * tag_id, 0 FROM tag;
    INSERT INTO life SELECT tag_id, 1, 1000 * tag_id, 10 * tag_id, iif(tag_id % 2, NULL, 10 * tag_id + 5000) FROM tag;
    UPDATE allocation SET tag_id = allocation_id, alloc_thread_id = allocation_id + 1,
        alloc_stream_id = allocation_id + 1;
    INSERT INTO refused WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30)
        SELECT 100 + x, 1, 1000 * x, 600 + x FROM c;"
make_trace "$scratch/peaks.db" "INSERT INTO life VALUES (1, 1, 300, 10, 20), (2, 1, 200, 30, 40), (3, 1, 100, 50, 60);"
rows() {
    "$tidemark" "$@" "$trace" 2>/dev/null | tr '{' '\n' | grep -c "$row"
}
row='"name":"tag'
is "$(rows peak --by=tag --json) $(rows top --by=tag --json) $(rows leaks --by=tag --json)" '50 50 25' \
    'the JSON of peak, top and leaks has all groups'
is "$(rows peak --by=tag --format=jsonl) $(rows top --by=tag --format=jsonl)" '50 50' 'so have JSON lines'
row='^tag'
is "$("$tidemark" top --by=tag --format=csv "$trace" | grep -c '^tag')" 50 'so has CSV'
is "$("$tidemark" top --by=tag "$trace" | grep -c '^tag') $("$tidemark" top --by=tag --format=md "$trace" | grep -c '^| tag')" \
    '20 20' 'a table for people has 20 rows'
is "$("$tidemark" top --by=tag --limit=0 "$trace" | grep -c '^tag') $("$tidemark" top --by=tag --limit=30 "$trace" | grep -c '^tag')" \
    '50 30' 'a table for people has as many rows as --limit says, and all with 0'
row='^"allocation_id":1'
is "$(rows failures --json) $("$tidemark" failures --limit=3 --json "$trace" | grep -o '"rest":{"failures":{"count":[0-9]*')" \
    '30 "rest":{"failures":{"count":27' 'the JSON of failures has all, or says how many --limit left out'
has_words "$("$tidemark" peak --by=tag --limit=48 --json "$trace")" '"rest":{"groups":{"count":2,"bytes":3000}}' \
    'the JSON of peak says what --limit left out: two groups and their bytes'
has_words "$("$tidemark" peak --by=tag --limit=1 --prominence=0% --json "$scratch/peaks.db")" '"peaks":{"count":2,"bytes":null}' \
    'the JSON of peak says how many distinct peaks --limit left out'
"$top_builddir/tests/make-trace" "$scratch/fifty.db" "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n
    WHERE n < 50) INSERT INTO life SELECT n, 1, 1000 + n, 10 * n, 10 * n + 5 FROM n;" || exit 99
is "$("$tidemark" peak --json "$scratch/fifty.db" | grep -o '"prominence_bytes"' | wc -l)" 50 \
    'the JSON of peak has all distinct peaks'
has_words "$("$tidemark" leaks --by=tag --limit=24 --json "$trace")" '"rest":{"groups":{"count":1,"bytes":1000}}' \
    'the JSON of leaks says what --limit left out'
has_words "$("$tidemark" top --by=size --limit=49 --sort=bytes --json "$trace")" '"rest":{"groups":{"count":1,"bytes":1000}}' \
    'the JSON of top says what --limit left out'
has_words "$("$tidemark" histogram --of=bytes --limit=49 --json "$trace")" '"rest":{"exact":{"count":1,"bytes":1000}}' \
    'the JSON of histogram says what --limit left out'
is "$("$tidemark" peak --by=tag --limit=48 --format=jsonl "$trace" | grep '"rest"')" \
    '{"table":"rest","of":"groups","count":2,"bytes":3000}' 'JSON lines have a line for what --limit left out'
is "$("$tidemark" top --by=tag --json "$trace" | grep -c '"rest"')" 0 'where nothing is left out there is no rest'
has_words "$("$tidemark" peak --by=thread --limit=1 --json "$trace")" '"name":"51 worker","callstack":null,"id":51' \
    'groups of threads have the ids of the threads beside their names'
has_words "$("$tidemark" top --by=stream --sort=bytes --limit=1 --json "$trace")" '"name":"51 (0x32000)","callstack":null,"id":51' \
    'groups of streams have the ids of the streams beside their names'
has_words "$("$tidemark" peak --blocks=1 --json "$trace")" '"thread_id":51,"thread":"51 worker","stream_id":51,"stream":"51 (0x32000)"' \
    'blocks have the ids of threads and streams beside their names'
for command in summary peak leaks top histogram layers failures fragmentation timeline; do keep $command "$trace"; done
keep peak --by=size --blocks=2 --limit=3 "$trace"
keep leaks --limit=2 --by=thread "$trace"

# Two frames, one of a known place; a pool over a recorded log, samples, GPUs, marks, driver calls.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0),
        (2, 3, 'limit', '8MiB', 0), (3, 4, 'pool', '', 0), (4, 5, 'log', '', 0), (5, NULL, 'driver', '', 0);
    INSERT OR REPLACE INTO meta VALUES ('devices', '[{\"device\":0,\"name\":\"A\",\"total_bytes\":1024},{\"device\":1,\"name\":\"B\",\"total_bytes\":null}]');
    INSERT INTO tag VALUES (1, NULL, 'step'), (2, 1, 'forward');
    INSERT INTO module VALUES (1, '/bin/x', 'ab', 4096, 4096);
    INSERT INTO frame VALUES (1, 4100, 1, 'take', '/src/a.c', 7), (2, 4200, 1, 'main', NULL, NULL);
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 2);
    INSERT INTO life VALUES (1, 4, 1048576, 10, NULL), (2, 1, 4096, 20, NULL), (3, 4, 1048576, 30, NULL),
        (4, 1, 600000, 40, 90), (5, 1, 4096, 45, NULL), (6, 1, 4096, 46, 48), (7, 1, 4096, 100, NULL),
        (8, 1, 4096, 120, NULL), (9, 1, 4096, 140, NULL), (20, 1, 4096, 150, NULL);
    INSERT INTO refused VALUES (10, 1, 700000, 50), (11, 1, 3000000, 51), (12, 1, 4096, 52);
    UPDATE allocation SET status = 3 WHERE allocation_id IN (10, 11);
    UPDATE allocation SET tag_id = 2, callstack_id = 1 WHERE layer_id = 1 AND allocation_id <> 20;
    UPDATE allocation SET address = 1048576 WHERE allocation_id = 1;
    UPDATE allocation SET address = 1048576 + 524288 WHERE allocation_id = 2;
    UPDATE allocation SET address = 4194304 WHERE allocation_id = 3;
    UPDATE allocation SET address = 4194304 WHERE allocation_id = 4;
    UPDATE allocation SET address = 4194304 + 700000 WHERE allocation_id = 5;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (60, 5, 2097152, 4194304);
    INSERT INTO mark VALUES (25, 1, 'mark', 'step 1', NULL), (99, 1, 'mark', 'step 2', NULL),
        (119, 1, 'mark', 'step 3', NULL), (139, 1, 'mark', 'step 4', NULL), (160, 1, 'mark', 'step 5', NULL);
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result) VALUES
        (1, 0, 'cuMemAllocFromPoolAsync', 5, 4, 1, 0), (2, 0, 'cuMemAllocFromPoolAsync', 15, 4, 1, 0);"
has_words "$("$tidemark" peak --json "$trace")" '"name":null,"callstack":["take (/src/a.c:7)","main"],"id":1' \
    'a call stack is an array of its frames, the innermost first'
printf 'tag:none\n' >"$scratch/known"
for command in summary peak leaks top histogram layers failures fragmentation timeline; do keep $command "$trace"; done
keep summary --layer=1 "$trace"
keep layers --tag=step "$trace"
keep peak --by=class --blocks=9 --at=47ns "$trace"
keep leaks --suppressions="$scratch/known" --blocks=9 "$trace"
keep leaks --steps=none "$trace"
keep leaks --blocks=99 "$trace"
keep peak --blocks=99 --at=150ns "$trace"
make_trace "$scratch/training.db" "UPDATE layer SET kind = 'driver' WHERE layer_id = 2;
    INSERT INTO tag VALUES (1, 0, 'forward/net.h'), (2, 0, 'backward/net.h'), (3, 0, 'forward');
    INSERT INTO life VALUES (1, 1, 100, 10, 50), (2, 1, 200, 20, NULL), (3, 1, 400, 30, NULL);
    UPDATE allocation SET tag_id = allocation_id;
    INSERT INTO pool_sample(layer_id, ns, used_bytes, reserved_bytes) VALUES (2, 15, 0, 2000);"
keep peak --by=file "$scratch/training.db"
keep peak --by=tag --depth=1 --at=5 "$scratch/training.db"
keep diff --by=tag --depth=1 "$scratch/training.db" "$scratch/peaks.db"
for by in tag callstack size stream device layer; do
    keep top --by=$by "$trace"
    keep leaks --by=$by "$trace"
    keep peak --by=$by "$trace"
done
"$top_builddir/tests/make-trace" "$scratch/many.db" "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n
    WHERE n < 1002) INSERT INTO refused SELECT n, 1, 700, n FROM n; UPDATE allocation SET status = 3;" || exit 99
keep failures --limit=1 "$scratch/many.db"
keep fragmentation --at=15ns --limit=1 "$trace"
keep check --max-peak=1 --max-fragmentation=1% --no-leaks --max-failures=100 "$trace"
make_trace "$scratch/killed.db" "INSERT INTO life VALUES (1, 1, 100, 10, NULL);
    INSERT INTO meta VALUES ('ended', 'recovered');"
keep check --no-leaks "$scratch/killed.db"
keep recover "$trace"
keep stack 'limit(1) | host'
make_trace "$scratch/deep.db" "
    INSERT INTO tag WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 40)
        SELECT x, nullif(x - 1, 0), x || replace(printf('%100d', 0), ' ', 'a') FROM c;
    INSERT INTO life VALUES (1, 1, 100, 10, NULL); UPDATE allocation SET tag_id = 40;"
"$tidemark" check --no-leaks --json "$scratch/deep.db" >"$scratch/out" 2>&1
ok 'the reason of a budget that is not kept is there in full, however long the names are' \
    grep -q '"reason":".*/40a*0' "$scratch/out"
# What refused, and what would have sufficed: a limit of bytes, with its words; a limit of a number; a pool with samples;
# a pool with chunks over a limit that is too low, too; and a failure that a pool made good.
stack() {
    echo "DELETE FROM layer; INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), $1;"
}
make_trace "$scratch/limit.db" "$(stack "(2, 3, 'limit', '1KiB'), (3, NULL, 'sim', '')")
    INSERT INTO life VALUES (1, 1, 800, 10, NULL); INSERT INTO refused VALUES (2, 1, 600, 50);
    INSERT INTO refusal VALUES (2, 2, 'at most 1 KiB');"
make_trace "$scratch/count.db" "$(stack "(2, 3, 'limit', 'count=1'), (3, NULL, 'sim', '')")
    INSERT INTO life VALUES (1, 1, 800, 10, NULL); INSERT INTO refused VALUES (2, 1, 600, 50);"
make_trace "$scratch/sampled.db" "$(stack "(2, 3, 'pool', 'maximum=8MiB'), (3, NULL, 'sim', '')")
    INSERT INTO life VALUES (1, 1, 800000, 10, NULL); INSERT INTO refused VALUES (2, 1, 8000000, 50);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (40, 2, 800000, 4194304);
    UPDATE allocation SET status = 3 WHERE allocation_id = 2;"
make_trace "$scratch/chunks.db" "$(stack "(2, 3, 'pool', 'maximum=4MiB'), (3, 4, 'log', ''), (4, 5, 'limit', '4500KiB'),
    (5, NULL, 'sim', '')")
    INSERT INTO life VALUES (1, 3, 2097152, 10, NULL), (2, 1, 4096, 20, NULL), (3, 3, 2097152, 30, NULL),
        (4, 1, 4096, 40, NULL);
    INSERT INTO refused VALUES (5, 1, 3000000, 50);
    UPDATE allocation SET address = 4194304 WHERE allocation_id = 1;
    UPDATE allocation SET address = 4194304 + 1000000 WHERE allocation_id = 2;
    UPDATE allocation SET address = 16777216 WHERE allocation_id = 3;
    UPDATE allocation SET address = 16777216 + 1000000 WHERE allocation_id = 4;
    UPDATE allocation SET status = 3 WHERE allocation_id = 5;"
make_trace "$scratch/good.db" "$(stack "(2, 3, 'pool', ''), (3, 4, 'log', ''), (4, 5, 'limit', '4MiB'), (5, NULL, 'sim', '')")
    INSERT INTO refused VALUES (1, 3, 8000000, 12);
    INSERT INTO life VALUES (2, 3, 2097152, 15, NULL), (3, 1, 4096, 20, NULL);
    UPDATE allocation SET alloc_duration_ns = iif(allocation_id = 3, 18, 1);"
for name in limit count sampled chunks good; do keep failures "$scratch/$name.db"; done
keep failures --layer=3 "$scratch/good.db"
for command in summary fragmentation timeline layers; do keep $command "$scratch/sampled.db"; done
# Memory of two devices.
make_trace "$scratch/two.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0),
        (2, NULL, 'driver', '', 0), (3, 4, 'log', '', 1), (4, NULL, 'driver', '', 1);
    INSERT INTO life VALUES (1, 1, 800, 10, NULL), (2, 3, 600, 20, NULL);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (15, 2, 800, 4096), (30, 4, 600, 4096);
    INSERT INTO layer_count VALUES (2, 'orders', 3);
    INSERT INTO device_sample VALUES (5, 0, 90000, 100000), (16, 0, 80000, 100000), (30, 1, 80000, 90000);"
for command in summary fragmentation timeline layers; do keep $command "$scratch/two.db"; done
# Memory of two kinds below one log: whose blocks are whose is not told.
make_trace "$scratch/mixed.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0),
        (2, 3, 'binning', '4096={pinned}', 0), (3, NULL, 'driver', '', 0), (4, NULL, 'pinned', '', NULL);
    INSERT INTO layer_bin VALUES (2, 4096, 4); INSERT INTO life VALUES (1, 1, 800, 10, NULL), (2, 1, 60000, 20, NULL);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (15, 3, 800, 4096);"
for command in summary fragmentation timeline layers; do keep $command "$scratch/mixed.db"; done
# Of an unmodified program.
make_trace "$scratch/process.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0),
        (2, NULL, 'process', 'kind=plain, device=0', 0), (3, 4, 'log', '', NULL),
        (4, NULL, 'process', 'kind=pinned, device=0', NULL), (5, 6, 'log', '', 1),
        (6, NULL, 'process', 'kind=plain, device=1', 1);
    INSERT INTO life VALUES (1, 1, 800, 10, NULL), (2, 3, 60000, 20, NULL), (3, 5, 700, 25, NULL);
    INSERT INTO layer_count VALUES (2, 'found_bytes', 3000);
    INSERT INTO device_sample VALUES (30, 0, 5000, 10000);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (15, 2, 800, 800), (22, 4, 60000, 60000),
        (26, 6, 700, 700);"
for command in summary fragmentation timeline layers; do keep $command "$scratch/process.db"; done
keep peak --by=kind "$scratch/process.db"
make_trace "$scratch/nothing.db" "INSERT INTO life VALUES (1, 1, 0, 10, 20);"
for command in peak leaks top histogram; do keep $command "$scratch/nothing.db"; done
keep fragmentation --at=15ns "$scratch/nothing.db"
make_trace "$scratch/imported.db" "INSERT INTO life VALUES (1, 1, 10, 1, 5);
    UPDATE allocation SET alloc_duration_ns = 0, free_duration_ns = 0;
    INSERT OR REPLACE INTO meta VALUES ('clock', 'imported');"
for command in summary top layers; do keep $command "$scratch/imported.db"; done
make_trace "$scratch/empty.db"
for command in summary peak leaks top histogram layers failures fragmentation timeline recover; do
    keep $command "$scratch/empty.db"
done
keep leaks --by=tag "$scratch/empty.db"
keep diff "$trace" "$scratch/empty.db"
keep diff "$scratch/two.db" "$scratch/two.db"
keep diff "$scratch/empty.db" "$trace"
for by in class stream thread layer device kind; do keep diff --by=$by "$scratch/empty.db" "$trace"; done
keep diff --by=size --limit=1 "$scratch/empty.db" "$trace"
keep replay --stack 'pool | sim' "$trace"
keep replay --stop-at-failure --stack 'limit(1KiB) | sim' "$trace"
keep replay --stack 'pool | sim' --stack 'sim' "$trace"
keep replay --stack 'statistics | limit(1KiB) | sim' "$trace"
keep replay --stack 'guard | host' "$trace"
keep replay --stack 'fallback({limit(1KiB) | sim}) | sim' "$trace"
keep replay --time-scale=0.001 --stack 'pool | sim' "$trace"
for rank in 0 1 2; do
    make_trace "$scratch/rank-$rank.db" "INSERT INTO meta VALUES ('world_size', 3), ('job', 'a'), ('trace_id', 7 + $rank);
        INSERT INTO tag VALUES (1, NULL, 'step');
        INSERT INTO mark WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 6)
            SELECT s * 1000, 1, 'mark', 'step ' || s, NULL FROM s;
        INSERT INTO life WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 6)
            SELECT s, 1, 100 + $rank, s * 1000 + 10, iif($rank = 1, NULL, s * 1000 + 90) FROM s;
        INSERT INTO refused VALUES (99, 1, 4096, 2500);
        INSERT INTO refusal SELECT 99, 1, 'sim: full' WHERE $rank = 1;
        INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (15, 2, 4096, 8192);
        UPDATE allocation SET tag_id = 1 WHERE $rank > 0;"
done
"$tidemark" merge "$scratch/rank-0.db" "$scratch/rank-1.db" "$scratch/rank-2.db" -o "$scratch/job.db" 2>"$scratch/err"
keep ranks "$scratch/job.db"
keep ranks --limit=1 "$scratch/job.db"
keep ranks --rank=0 "$scratch/job.db"
keep check --max-peak=1 --max-skew=1% --max-growth=1 --no-leaks "$scratch/job.db"
keep ranks --by=function "$scratch/job.db"
make_trace "$scratch/alone.db" "DELETE FROM meta WHERE key = 'hostname'; INSERT INTO life VALUES (1, 1, 0, 10, 20);"
"$tidemark" merge "$scratch/alone.db" -o "$scratch/lone.db" 2>"$scratch/err"
keep ranks "$scratch/lone.db"
"$tidemark" merge "$scratch/peaks.db" -o "$scratch/still.db" 2>"$scratch/err"
keep ranks "$scratch/still.db"
rm "$scratch/rank-2.db"
cp "$scratch/rank-1.db" "$scratch/copy.db"
"$tidemark" merge "$scratch/rank-0.db" "$scratch/rank-1.db" "$scratch/copy.db" -o "$scratch/part.db" 2>"$scratch/err"
keep ranks "$scratch/part.db"
# Ranks of which the file has only the largest groups.
mkdir "$scratch/cut"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/cut/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('trace_id', 7000 + $rank);
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < iif($rank = 2, 9, 4096))
            SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 'large ' || s FROM n;
        INSERT INTO tag VALUES (5001, NULL, 'small'), (5002, NULL, 'other');
        INSERT INTO life SELECT s, 1, 2000, s, NULL FROM n;
        INSERT INTO life VALUES (5001, 1, 500, 10000, NULL), (5002, 1, iif($rank = 0, 400, 3000), 10001, NULL);
        UPDATE allocation SET tag_id = allocation_id;" || exit 99
done
"$tidemark" merge "$scratch/cut" -o "$scratch/cut.db" 2>/dev/null
keep ranks --rank=0 --limit=10000 "$scratch/cut.db"
keep ranks --rank=2 --limit=10000 "$scratch/cut.db"
# A memory in which most ranks have nothing.
mkdir "$scratch/most"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/most/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('trace_id', 8000 + $rank);
        INSERT INTO life VALUES (1, 1, iif($rank = 0, 5000, 0), 10, 20);" || exit 99
done
"$tidemark" merge "$scratch/most" -o "$scratch/most.db" 2>/dev/null
keep ranks "$scratch/most.db"
cp "$scratch/job.db" "$scratch/nowhere.db"
"$SQLITE3" "$scratch/nowhere.db" 'UPDATE failure SET memory_id = NULL'
keep ranks "$scratch/nowhere.db"
keep recommend --candidates=6 "$trace"
keep recommend --candidates=6 --capacity=1KiB "$trace" "$trace"
keep recommend --candidates=6 --stack 'pool | limit(1KiB) | cuda' "$trace"
keep recommend --candidates=6 --capacity=1KiB --stack 'pool(initial=1MiB) | cuda' "$top_srcdir/tests/data/torch_generate.csv.gz"
# A program that records, its page once more without a command line and names, and one that was cut off.
mkfifo "$scratch/ready"
"$top_builddir/tests/slowly" "$scratch/running.db" 60 >"$scratch/ready" &
read -r ready <"$scratch/ready"
keep watch --count=1 "$scratch/running.db"
mkdir "$scratch/bare"
cp "$scratch/running.db-rings" "$scratch/bare/running.db-rings"
keep watch --count=1 "$scratch/bare"
head -c 170000 "$scratch/running.db-rings" >"$scratch/bare/running.db-rings"
keep watch --count=1 "$scratch/bare"
kill -9 $!
keep devices
fake=$top_builddir/tests/fake-cuda/.libs
if test -e "$fake/libcuda.so.1"; then
    LD_LIBRARY_PATH=$fake
    FAKE_CUDA_DEVICES=2
    FAKE_CUDA_MEMORY=1G
    export LD_LIBRARY_PATH FAKE_CUDA_DEVICES FAKE_CUDA_MEMORY
    keep devices
    FAKE_CUDA_FAIL=cuDeviceGetName:46:2
    export FAKE_CUDA_FAIL
    keep devices
fi
if ! test -e "$fake/libcuda.so.1"; then
    skip 1 'there is no fake driver in this build, and so no devices'
elif python3 -c 'import json' 2>/dev/null; then
    is "$(python3 "$top_srcdir/tests/json-fields.py" "$top_srcdir/doc/json.md" "$folder" 2>&1)" agrees \
        'doc/json.md describes every field of every command with its type, and no other'
else
    skip 1 'there is no python3'
fi

done_testing
