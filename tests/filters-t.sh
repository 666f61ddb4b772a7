# Compares `summary` and `layers` with each filter with SQL over the same random trace.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
seed=${TEST_SEED:-$(date +%s)}
diag "TEST_SEED=$seed"

# A number below $2 for row `id` and a column $1, from the seed.
random() {
    echo "((((id * 7919 + $1 * 104729 + $seed) % 1000003) * ((id * 31 + $1) % 9973 + 17)) % 1000003) % $2"
}

# A log 1 over a pool 2 that allocates from a sim 4 through a log 3, and a log 5 over the sim. There are few different
# times, so that many events have the same one.
"$top_builddir/tests/make-trace" "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),
        (3, 4, 'log', ''), (4, NULL, 'sim', ''), (5, 4, 'log', '');
    INSERT INTO tag VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, NULL, 'c');
    INSERT INTO thread VALUES (2, 101, 'second');
    INSERT INTO stream VALUES (2, 16, 0), (3, 32, 1);
    INSERT INTO frame VALUES (1, 1, NULL, 'hot', NULL, NULL), (2, 2, NULL, 'cold', NULL, NULL);
    INSERT INTO callstack VALUES (1, 0, 1), (2, 0, 2);
    WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 400)
        INSERT INTO life SELECT id, iif($(random 1 5) < 3, 1, iif($(random 1 5) = 3, 3, 5)), 1 + $(random 2 5000),
        10 + id / 3, iif($(random 3 6) = 0, NULL, 10 + id / 3 + $(random 4 40)) FROM n;
    WITH RECURSIVE n(id) AS (SELECT 401 UNION ALL SELECT id + 1 FROM n WHERE id < 420)
        INSERT INTO refused SELECT id, iif($(random 1 2) = 0, 1, 5), 100 * (1 + $(random 2 50)), 150 + $(random 3 5)
        FROM n;
    UPDATE allocation AS x SET (tag_id, alloc_thread_id, alloc_stream_id, callstack_id, alloc_duration_ns,
        free_duration_ns) = (SELECT $(random 5 4), 1 + $(random 6 2), 1 + $(random 7 3), nullif($(random 8 3), 0),
        1 + $(random 9 50), iif(x.free_ns IS NULL, NULL, $(random 10 50)) FROM (SELECT x.allocation_id AS id));
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)
        SELECT allocation_id, 0, 'a', alloc_ns, allocation_id, 1, 0 FROM allocation WHERE status = 0
        UNION ALL SELECT allocation_id, 1, 'f', free_ns, 2 * allocation_id, 1, 0 FROM allocation
        WHERE free_ns IS NOT NULL;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (30, 4, 5, 100000), (70, 4, 5, 300000), (110, 4, 5, 200000), (140, 4, 5, 900000);" ||
    exit 99

# figures COLUMN FROM TO WHERE: the figures of each layer, or of all together, by SQL, one to a line.
figures() {
    "$tidemark" query --csv "$trace" "
    WITH life AS (SELECT layer_id, $1 AS of, size, status, max(alloc_ns, $2) AS began, alloc_ns < $2 AS clipped,
            iif(free_ns <= $3, free_ns, NULL) AS ended, alloc_duration_ns AS took, free_duration_ns AS freeing
            FROM allocation WHERE alloc_ns <= $3 AND (status = 0 OR alloc_ns >= $2)
            AND (free_ns IS NULL OR free_ns >= $2) AND ($4)),
        live AS (SELECT of, began AS ns, (SELECT sum(size) FROM life AS o WHERE o.of = life.of AND o.status = 0
            AND o.began <= life.began AND (o.ended IS NULL OR o.ended >= life.began)) AS bytes
            FROM life WHERE status = 0),
        span AS (SELECT min($3, max(max(alloc_ns, ifnull(free_ns, 0)))) AS til FROM allocation),
        top AS (SELECT of, max(bytes) AS bytes, min(ns) AS ns FROM live AS l
            WHERE bytes = (SELECT max(bytes) FROM live AS m WHERE m.of = l.of) GROUP BY of)
    SELECT of, sum(status = 0), sum(ended IS NOT NULL), sum(status != 0), sum(iif(status = 0, size, 0)),
        ifnull((SELECT bytes FROM top WHERE top.of = life.of), 0),
        ifnull((SELECT ns FROM top WHERE top.of = life.of), 0),
        sum(iif(status = 0 AND ended IS NULL, size, 0)), sum(status = 0 AND ended IS NULL),
        sum(iif(clipped, 0, took) + iif(ended IS NULL, 0, freeing)),
        sum(iif(status = 0, size * (ifnull(ended, til) - began), 0)) / (til - max(0, $2))
        FROM life, span GROUP BY of ORDER BY of" | sed 1d
}

# field NAME JSON
field() {
    echo "$2" | sed -n "s/.*\"$1\":\\([0-9]*\\)[,}].*/\\1/p"
}

# compare SENTENCE FROM TO WHERE LAYERS OUTERMOST BELOW [FILTER...]: compare both commands with the filters with SQL.
# The table has LAYERS, the total is of OUTERMOST, and the driver calls are of those and BELOW: lists for SQL.
compare() {
    sentence=$1 from=$2 to=$3 where=$4 layers=$5 outermost=$6 below=$7
    shift 7
    figures layer_id "$from" "$to" "($where) AND layer_id IN ($layers)" >"$scratch/wanted"
    "$tidemark" summary --only=layers --format=csv "$@" "$trace" | sed '1d;s/"//g' | sort |
        cut -d, -f 1,3-8,10,11 | grep -v ',0,0,0,0,0,0,0,0$' >"$scratch/seen"
    is "$(cat "$scratch/seen")" "$(cut -d, -f 1-9 "$scratch/wanted")" "$sentence: summary, the layers"
    "$tidemark" layers --only=layers --format=csv "$@" "$trace" | sed '1d;s/"//g' | sort |
        grep -v -e ',,,,,,' -e ',0,0,0,0,0,0,' | cut -d, -f 1,6-11,13 >"$scratch/seen"
    is "$(cat "$scratch/seen")" "$(cut -d, -f 1-6,8,10 "$scratch/wanted")" "$sentence: layers"
    total=$(figures 0 "$from" "$to" "($where) AND layer_id IN ($outermost)")
    json=$("$tidemark" summary --json "$@" "$trace" | sed 's/"layers":\[[^]]*\]//')
    calls=$("$tidemark" query --csv "$trace" "SELECT ifnull(sum(driver_call.duration_ns), 0), count(*)
        FROM driver_call JOIN allocation USING (allocation_id) WHERE ($where) AND layer_id IN ($below)
        AND iif(is_free, free_ns, alloc_ns) BETWEEN $from AND $to" | sed 1d)
    is "$(for name in failures peak_bytes peak_ns live_bytes live_count time_ns mean_live_bytes driver_ns \
        driver_calls; do
        field "$name" "$json"
    done | tr '\n' ',')" "$(echo "$total" | cut -d, -f 4,6-),$calls," "$sentence: the total"
}

plan 58

all=1,3,5 outer=1,5 end=9999
compare 'no filter' 0 $end 1 $all $outer $all
compare 'a tag' 0 $end 'tag_id IN (1, 2)' $all $outer $all --tag=a
compare 'no tag' 0 $end 'tag_id = 0' $all $outer $all --tag=none
compare 'a thread' 0 $end 'alloc_thread_id = 2' $all $outer $all --thread=second
compare 'a stream' 0 $end 'alloc_stream_id = 2' $all $outer $all --stream=2
compare 'a device' 0 $end 'alloc_stream_id = 3' $all $outer $all --device=1
compare 'a size' 0 $end 'size >= 2500' $all $outer $all --min-size=2500
largest=$("$tidemark" query --csv "$trace" \
    "SELECT max(size) FROM allocation WHERE status = 0 AND layer_id IN ($outer)" | sed 1d)
compare 'the largest size of the outermost logs' 0 $end "size >= $largest" $all $outer $all --min-size="$largest"
compare 'call stacks' 0 $end 'callstack_id = 1' $all $outer $all --callstack=hot
compare 'a time' 40 110 1 $all $outer $all --from=40 --to=110
compare 'the outermost log' 0 $end 1 1 1 1,3 --layer=1
compare 'an inner log' 0 $end 1 3 3 3 --layer=3
compare 'a log and the one below' 0 $end 1 1,3 1 1,3 --layer=3 --layer=1
compare 'many at once' 50 100 'tag_id = 2 AND alloc_thread_id = 1 AND size >= 1000' 1,5 1,5 $all --layer=1 --layer=5 \
    --from=50 --to=100 --tag=a/b --thread=1 --min-size=1000

# Reserved bytes are those within the time, and only if no filter selects some requests of a log.
reserved() {
    "$tidemark" summary --json "$@" "$trace" | tr ',' '\n' |
        sed -n 's/.*"\(reserved[a-z_]*\|pools_bytes\|base_bytes\)":\("[a-z]*"\|[0-9][0-9]*\).*/\1 \2/p' | sort -u |
        tr '\n' ','
}
has_words "$(reserved --from=40 --to=120)" \
    'reserved_bytes 200000,reserved_peak_bytes 300000,' 'filters of time apply to samples'
is "$(reserved --tag=a)$(reserved --min-size=1)$(reserved --thread=1)" '' \
    'with filters of tag, size or thread there are no reserved bytes'
is "$("$tidemark" layers --format=csv "$trace" | grep -c ',900000,0$') $(
    "$tidemark" layers --format=csv --to=120 "$trace" | grep -c ',300000,0$') $(
    "$tidemark" layers --format=csv --tag=a "$trace" | grep -c '00000,0$')" '1 1 0' \
        'with filters of tag, size or thread layers has no reserved bytes'
is "$(reserved --layer=1 --layer=5)" "$(reserved)" \
    'naming the outermost logs as layers gives the same reserved bytes as naming none'
passed() {
    "$tidemark" layers --format=csv --only=layers "$@" "$trace" | sed -n 's/"//g;/^1,/p' | cut -d, -f 12,14
}
is "$(passed --layer=1)" "$(passed)" 'bytes passed on to the log below are counted although that log is not selected'
is "$(passed --tag=a) $(passed --to=100)" ', ,' 'bytes passed on are left out with filters that select some requests'

has_words "$("$tidemark" summary --tag=a --layer=1 "$trace")" 'of          layer 1 log, tag a' \
    'summary prints its filters'
has_words "$("$tidemark" layers --tag=a "$trace")" 'layer 1 log + layer 3 log + layer 5 log, tag a' \
    'layers prints its filters'
for command in summary layers; do "$tidemark" $command --json "$trace"; done >"$scratch/out"
is "$(grep -c '"of":null' "$scratch/out")" 2 'without a filter the object has no description of filters'
has_words "$("$tidemark" summary --min-size=1GiB "$trace")" 'The filters take no allocation.' \
    'summary says that the filters match no allocation'
has_words "$("$tidemark" summary --to=100 --json "$trace")" 'live at the end of that time' \
    'summary --to says that live blocks are live at the end of that time'
has_words "$("$tidemark" summary --to=100 --json "$trace")" "$(grep -o '"duration_ns":[0-9]*' "$scratch/out")" \
    'summary --to has the duration of the whole recording'
"$tidemark" summary --layer=1 --layer=5 --layer=3 --json "$trace" | sed 's/"of":"[^"]*",/"of":null,/' >"$scratch/seen"
"$tidemark" summary --json "$trace" >"$scratch/wanted"
ok 'naming all layers is the same as naming none' cmp "$scratch/seen" "$scratch/wanted"

# At the begin of the time a block of 3000 bytes is in a chunk of 4096, and a later chunk of 8192 is free.
"$top_builddir/tests/make-trace" "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),
        (3, 4, 'log', ''), (4, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 3, 4096, 10, 90), (2, 1, 3000, 20, 80), (3, 3, 8192, 30, 90), (4, 77, 5, 31, 95);"
has_words "$("$tidemark" summary --json --from=50 "$trace")" '"peak_ns":50,"peak_count":1,"reserved_peak_bytes":12288' \
    'the peak of a part of the time may be at its begin'
has_words "$("$tidemark" summary --json --from=50 "$trace")" '"pools_bytes":9216,"base_bytes":0' \
    'summary --from has the bytes that were free in pools at the begin'
has_words "$("$tidemark" summary --json --layer=77 "$trace")" '"peak_bytes":5,"peak_ns":31,"peak_count":1' \
    'a layer with allocations that is no log can be named'

done_testing
