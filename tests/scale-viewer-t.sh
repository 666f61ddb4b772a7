# Tests that every command reads a trace of 65,535 layers, 100,000 streams and 20,000 threads; of a tenth of the layers in
# a build with a sanitizer.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
stacks_count=$(fewer 13107 1310) # of five layers
pools_count=$(fewer 32767 3276) # each with its log
devices_count=$(fewer 32766 3276) # each with its limit or its log

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

numbers="
    CREATE TEMP TABLE number(n INTEGER PRIMARY KEY);
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000) INSERT INTO number SELECT n FROM n;
    DELETE FROM layer;
    INSERT INTO thread SELECT n, 1000 + n, 't' || n FROM number WHERE n BETWEEN 2 AND 20000;
    INSERT INTO stream SELECT n, n * 64, 0 FROM number WHERE n > 1;"
spread="
    UPDATE allocation SET alloc_thread_id = 1 + allocation_id % 20000, alloc_stream_id = allocation_id,
        free_thread_id = iif(free_ns IS NULL, NULL, 1 + allocation_id * 7 % 20000),
        free_stream_id = iif(free_ns IS NULL, NULL, 1 + allocation_id * 3 % 100000);"

# Stacks log | limit | pool | log | sim; number N of them allocates N bytes once more than the others.
stacks="
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config)
        SELECT n, iif(n % 5 = 0, NULL, n + 1), substr('sim  log  limitpool log  ', n % 5 * 5 + 1, 5), iif(n % 5 = 2,
            '1GiB', '') FROM number WHERE n <= 5 * $stacks_count;
    UPDATE layer SET kind = trim(kind);
    INSERT INTO life SELECT n, iif(n % 4 = 0, 4, 1) + 5 * (n % $stacks_count), n, 10 * n, iif(n % 50 = 0, NULL, 10 * n + 5000)
        FROM number;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes)
        SELECT n * 10, 5 * (1 + n % $stacks_count), 0, 4096 FROM number WHERE n <= 30000;"

# Stacks log | pool over one sim, whose pools say their chunks themselves.
pools="
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config)
        SELECT n, CASE WHEN n > 2 * $pools_count THEN NULL WHEN n % 2 = 1 THEN n + 1 ELSE 2 * $pools_count + 1 END,
            CASE WHEN n > 2 * $pools_count THEN 'sim' WHEN n % 2 = 1 THEN 'log' ELSE 'pool' END, ''
        FROM number WHERE n <= 2 * $pools_count + 1;
    INSERT INTO life SELECT n, iif(n % 3 = 0, 2, 1) + 2 * (n % $pools_count), n, 10 * n, iif(n % 50 = 0, NULL, 10 * n + 5000)
        FROM number;"

commands='summary
summary --json
layers
layers --layer=1
peak
leaks
top --by=stream
histogram
fragmentation
timeline
report --json
failures
check --max-peak=1TiB
diff
export --format=csv
export --format=jsonl
export --format=chrome
export --format=collapsed
export --format=speedscope
export --format=pprof
export --format=rmm
replay --stack=sim
query'

# fails: the commands that do not read the trace, with what they say.
fails() {
    echo "$commands" | while read -r command; do
        set -- "$trace"
        [ "$command" = diff ] && set -- "$trace" "$trace"
        [ "$command" = query ] && set -- "$trace" 'SELECT count(*) FROM layer'
        # shellcheck disable=SC2086 # words
        timeout 120 "$tidemark" $command "$@" >"$scratch/out" 2>"$scratch/err"
        status=$?
        [ $status -le 1 ] || echo "$command: $status $(head -n 1 "$scratch/err")"
    done
}

# most_mib COMMAND...: the most memory that it had.
most_mib() {
    python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)' "$@"
}

plan 14

make_trace "$trace" "$numbers $stacks $spread"
is "$(fails)" '' \
    "every command reads a trace of $stacks_count stacks of five layers, 100,000 streams and 20,000 threads"
"$tidemark" layers --only=layers --format=csv "$trace" >"$scratch/layers"
is "$(sed 1d "$scratch/layers" | wc -l)" $((5 * stacks_count)) 'layers lists all layers'
is "$(grep -c ',log,' "$scratch/layers")" $((2 * stacks_count)) 'layers lists each log of the stacks'
# A sanitizer takes memory of its own: 416 MiB where the command takes 222.
case " $CFLAGS" in
*-fsanitize*) most=800 ;;
*) most=300 ;;
esac
if command -v python3 >/dev/null; then
    mib=$(most_mib "$top_builddir/libtool" --mode=execute "$tidemark" report -o "$scratch/x.html" "$trace")
    is "$mib $((mib < most))" "$mib 1" "a report of $((5 * stacks_count)) layers takes less than $most MiB"
else
    skip 1 'there is no python3'
fi
is "$("$tidemark" check --max-peak=1TiB --json "$trace" | grep -o '"seen": *[0-9]*' | grep -o '[0-9]*')" \
    "$("$tidemark" query --csv "$trace" "
        SELECT max(bytes) FROM (SELECT sum(CASE kind WHEN 0 THEN size ELSE -size END) OVER (
                PARTITION BY layer_id ORDER BY ns, kind DESC, id) AS bytes
            FROM (SELECT allocation_id AS id, layer_id, size, alloc_ns AS ns, 0 AS kind FROM allocation
                UNION ALL SELECT allocation_id, layer_id, size, free_ns, 1 FROM allocation WHERE free_ns IS NOT NULL)
            WHERE layer_id % 5 = 1)" | sed 1d)" \
    "check finds the highest peak of $stacks_count memories, that of brute force"

make_trace "$trace" "$numbers $pools $spread"
commands=$(echo "$commands" | grep -v 'export\|query\|histogram\|json\|top\|peak$')
is "$(fails)" '' \
    "every command reads a trace of $pools_count stacks over one base, whose pools say their chunks themselves"
is "$("$tidemark" layers --only=layers --format=csv "$trace" | sed 1d | wc -l)" $((2 * pools_count + 1)) \
    'layers lists all layers over one base'

# A log over as many bins of one layer as there can be, each with a limit and a base on a device of its own; and as many
# logs, each over the memory of its own device, all in one stack.
make_trace "$trace" "$numbers
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device)
        SELECT n, CASE WHEN n = 1 THEN 2 WHEN n = 2 THEN 4 WHEN n % 2 = 1 THEN n + 1 END,
            CASE WHEN n = 1 THEN 'log' WHEN n = 2 THEN 'binning' WHEN n % 2 = 1 THEN 'limit' ELSE 'cuda' END,
            iif(n % 2 = 1 AND n > 1, (1000000 - n) || '', ''), iif(n % 2 = 0 AND n > 2, n, NULL)
        FROM number WHERE n <= 2 * $devices_count + 2;
    INSERT INTO layer_bin SELECT 2, n, n FROM number WHERE n % 2 = 1 AND n BETWEEN 3 AND 2 * $devices_count + 1;
    INSERT INTO life SELECT n, 1, n, 10 * n, 10 * n + 5000 FROM number WHERE n <= 1000;"
is "$(fails)" '' \
    "every command reads a trace of $devices_count bins with limits, each over memory of its own device"
make_trace "$trace" "$numbers
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device)
        SELECT n, iif(n % 2 = 1, n + 1, NULL), iif(n % 2 = 1, 'log', 'cuda'), '', iif(n % 2 = 0, n, NULL)
        FROM number WHERE n <= 2 * $devices_count;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (2 * $devices_count + 1, 1, 'binning', '');
    INSERT INTO layer_bin SELECT 2 * $devices_count + 1, n, n FROM number
        WHERE n % 2 = 1 AND n BETWEEN 3 AND 2 * $devices_count - 1;
    INSERT INTO life SELECT n, 1 + 2 * (n % $devices_count), n, 10 * n, 10 * n + 5000 FROM number;"
is "$(fails)" '' \
    "every command reads a trace of one stack with $devices_count logs, each over memory of its own device"
is "$("$tidemark" diff --json "$trace" "$trace" | grep -o '"figure":"peak_bytes"' | wc -l)" $((devices_count + 1)) \
    'diff compares each of so many memories by itself'

# Pools whose own rows have all ended before the time that is looked at: the base says what is reserved then.
sources() {
    make_trace "$trace" "$numbers
        INSERT INTO layer(layer_id, upstream_layer_id, kind, config) SELECT n, iif(n % 3 = 0, NULL, n + 1),
            substr('sim log pool', n % 3 * 4 + 1, 4), '' FROM number WHERE n <= 3 * $1;
        UPDATE layer SET kind = trim(kind);
        INSERT INTO life SELECT n, 3 * n - 1, 4096, n, 2000 FROM number WHERE n <= $1;
        INSERT INTO life SELECT 1000 + n, 3 * n - 2, 64, 5000 + n, NULL FROM number WHERE n <= $1;
        INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) SELECT 4000, 3 * n, 64, 8192 FROM number
            WHERE n <= $1;"
    "$tidemark" summary --from=3us --json "$trace" | grep -o '"reserved_source":"[a-z]*"' | sort -u | tr '\n' ' '
}
is "$(sources 20)|$(sources 200)" '"reserved_source":"samples" |"reserved_source":"samples" ' \
    'rows of before the selected time say nothing of what is reserved in it, however many pools there are'

# 20,000 threads over the life of a trace, of which each has two events.
make_trace "$trace" "$numbers INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''),
        (2, NULL, 'sim', '');
    INSERT INTO life SELECT n, 1, n, 10 * n, 10 * n + 5 FROM number WHERE n <= 20000;
    UPDATE allocation SET alloc_thread_id = allocation_id, free_thread_id = allocation_id;"
is "$("$tidemark" replay --stack=sim --json "$trace" 2>&1 | grep -o '"frees":[0-9]*\|"threads_count":[0-9]*' | tr '\n' ' ')" \
    '"frees":20000 "threads_count":20000 ' 'a replay has a thread for each of 20,000'

# A way down is bounded, since walks are recursive; more layers than a record can number are no trace's.
make_trace "$trace" "$numbers
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) SELECT n, nullif(n + 1, 65536), 'log', ''
        FROM number WHERE n <= 65535;"
has_words "$("$tidemark" summary "$trace" 2>&1)" 'more layers on one way down than can be taken in (4096)' \
    'a stack of 65,535 layers on one way down is refused in words'
make_trace "$trace" "$numbers
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) SELECT n, NULL, 'sim', '' FROM number
        WHERE n <= 65536;"
has_words "$("$tidemark" summary "$trace" 2>&1)" 'more layers than can be taken in (65535)' \
    'a trace of 65,536 layers is refused in words'
done_testing
