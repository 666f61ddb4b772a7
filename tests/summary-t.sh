# Tests `tidemark summary`: the figures of traces made by hand.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

summary() {
    "$tidemark" summary "$@" 2>"$scratch/err"
}

plan 39

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 100, 10, 50), (2, 1, 200, 20, NULL), (3, 1, 300, 30, 40), (4, 1, 0, 60, 60);
    INSERT INTO refused VALUES (5, 1, -1, 70);
    INSERT INTO unmatched_free VALUES (1, 1, 1, 1, 1, 1), (2, 1, 1, 1, 1, 1);
    INSERT INTO loss VALUES (1, 'overflow', 3), (NULL, 'disk', 4);"
is "$(summary --json "$trace")" '{"format_version":1,"of":null,"complete":true,"unmatched_frees":2,"lost_events":7,"misuses":0,"layers":[{"layer_id":1,"kind":"log","allocations":4,"frees":3,"failures":1,"total_bytes":600,"peak_bytes":600,"peak_ns":30,"peak_count":3,"live_bytes":200,"live_count":1,"reserved_bytes":null,"reserved_peak_bytes":null,"reserved_peak_is_exact":null}],"in_progress":false,"ended":"closed","duration_ns":70,"peak_bytes":600,"peak_ns":30,"peak_count":3,"reserved_peak_bytes":null,"reserved_peak_is_exact":null,"reserved_source":null,"device_peak_bytes":null,"device_peak_is_exact":null,"rounding_bytes":424,"pools_bytes":null,"base_bytes":null,"limit_bytes":null,"mean_live_bytes":242,"live_bytes":200,"live_count":1,"failures":1,"time_ns":80,"driver_ns":null,"driver_calls":null,"memory":[{"memory":"sim","stack":1,"device":null,"peak_bytes":600,"peak_ns":30,"live_bytes":200,"reserved_bytes":null,"reserved_sample_ns":null,"reserved_peak_bytes":null,"reserved_peak_is_exact":null,"reserved_source":null,"device_peak_bytes":null,"device_peak_is_exact":null,"utilisation":null,"peak_count":3,"rounding_bytes":424,"pools_bytes":null,"base_bytes":null,"limit_bytes":null,"mean_live_bytes":242,"live_count":1,"allocations":4,"failures":1}],"device_use":[],"devices":[],"account":[],"account_kinds":[],"notes":["1 allocation failed, the first one of 16.00 EiB at 70 ns; `tidemark failures` says why.","200 B in 1 allocation was never freed, 33.3% of the peak; `tidemark leaks` says whose.","On average 242 B was live, 40% of the peak, which was brief; `tidemark peak` says what stood there."]}' \
    'summary --json has every figure in one object, and a failure is no allocation'
summary "$trace" >/dev/null
is "$? $(cat "$scratch/err")" "3 $trace: 7 events could not be recorded: the answer is without them" \
    'summary of a trace with losses exits with 3, and says why'
has_words "$(summary "$trace")" '600 B 30 ns' 'the table has the peak and its time'
has_words "$(summary "$trace")" 'complete' 'the table says that the trace is complete'

make_trace "$trace" "
    UPDATE layer SET device = 1 WHERE layer_id = 1;
    INSERT OR REPLACE INTO meta VALUES ('devices', '[{\"device\":0,\"name\":\"NVIDIA A\",\"total_bytes\":1024},{\"device\":1,\"name\":\"NVIDIA B\",\"total_bytes\":150109880320},{\"device\":2,\"name\":null}, 7]');
    INSERT INTO life VALUES (1, 1, 100, 10, 20);"
is "$(summary "$trace" | grep GPU)" 'GPU         1: NVIDIA B, 139.8 GiB' 'the GPU of a layer is named'
has_words "$(summary --json "$trace")" '"devices":[{"device":0,"name":"NVIDIA A","total_bytes":1024},{"device":1,"name":"NVIDIA B","total_bytes":150109880320}]' \
    'summary --json has all devices whose names are known'
make_trace "$trace" "
    INSERT OR REPLACE INTO meta VALUES ('devices', '[{');
    UPDATE layer SET device = 0;
    INSERT INTO life VALUES (1, 1, 100, 10, 20);"
is "$(summary "$trace" | grep -c GPU) $(summary --json "$trace" | grep -c '"devices":\[\]')" '0 1' \
    'summary leaves out a list of devices that is no list'

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 100, 10, 20);
    INSERT INTO unmatched_free VALUES (30, 1, 1, 1, 1, 1);
    INSERT INTO misuse(ns, kind, address, size, alignment, thread_id) VALUES (30, 'double_free', 1, 100, 256, 1),
        (40, 'unknown_pointer', 2, 100, 256, 1);"
has_words "$(summary "$trace")" '1 free of pointers that were not live
misused     2 calls that `track` refused, in the table misuse' 'frees that fit nothing and calls that were refused are told'
has_words "$(summary --json "$trace")" '"unmatched_frees":1,"lost_events":0,"misuses":2' \
    'summary --json counts unmatched frees and misuse'

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 100, 10, 20), (2, 1, 100, 20, 30), (3, 1, 100, 30, 30), (4, 1, 100, 30, NULL);"
has_words "$(summary --json "$trace")" '"peak_bytes":300,"peak_ns":30,"peak_count":3' \
    'summary counts allocations before the frees of the same nanosecond'

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 10, 30, 50), (2, 1, 20, 10, 40), (3, 1, 30, 20, NULL);"
has_words "$(summary --json "$trace")" '"peak_bytes":60,"peak_ns":30,"peak_count":3,"live_bytes":30,"live_count":1' \
    'summary sorts rows that are out of order, and counts each once'

make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, NULL, 'driver', ''), (2, 1, 'log', ''), (3, 2, 'limit', ''), (4, 3, 'log', ''),
        (5, 1, 'log', ''), (6, 4, 'binning', ''), (7, 6, 'log', ''), (8, 4, 'fixed', ''), (9, 8, 'log', '');
    INSERT INTO layer_bin VALUES (6, 4096, 9);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (1, 1, 10, 4000), (2, 1, 10, 9000), (3, 1, 10, 2000);
    INSERT INTO life VALUES (1, 4, 7, 10, 20), (2, 2, 8, 11, NULL), (3, 77, 9, 12, NULL);"
json=$(summary --json "$trace")
is "$(echo "$json" | tr '{' '\n' | sed -n 's/^"layer_id":\([0-9]*\).*/\1/p' | tr '\n' ' ')" '5 7 9 4 2 77 ' \
    'summary lists log layers from the outermost in, those of bins before the ones below, and an unknown layer last'
has_words "$json" '"layer_id":4,"kind":"log","allocations":1,"frees":1,"failures":0,"total_bytes":7,"peak_bytes":7,"peak_ns":10,"peak_count":1,"live_bytes":0,"live_count":0,"reserved_bytes":2000,"reserved_peak_bytes":9000' \
    'a layer has the last and the highest reserved bytes of the pool below it'
has_words "$(summary "$trace")" 'RESERVED' 'the table of layers has the reserved bytes if there are any'

has_words "$(summary "$trace" | grep '^4 log')" '8.79 KiB' \
    'the table of layers has the highest reserved bytes if the peak is not higher'
make_trace "$trace" "INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (1, 2, 10, 9000); INSERT INTO life VALUES (1, 1, 20000, 10, 20);"
has_words "$(summary "$trace" | grep '^1 log')" 'at least 19.53 KiB' \
    'what was live is the least that was reserved, in the table, where the samples are below it'
has_words "$(summary --json "$trace")" '"reserved_peak_bytes":20000,"reserved_peak_is_exact":false' \
    'the object has what was live as the least that was reserved, and says that this is not exact'
has_words "$(summary "$trace")" 'at least 19.53 KiB: so much was live, and no sample was higher' \
    'summary says that no sample of the pools fell on the peak'

# A pool between two logs: at the peak 3000 bytes are requested and 4096 held; later 8192; the base holds 10000.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'limit', '3100B'),
        (3, 4, 'pool', ''), (4, 5, 'log', ''), (5, NULL, 'driver', '');
    INSERT INTO life VALUES (1, 4, 4096, 10, 90), (2, 1, 3000, 20, 50), (3, 4, 4096, 60, 90), (4, 1, 1000, 70, 80);
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)
        VALUES (1, 0, 'cuMemAllocFromPoolAsync', 5, 4, 1, 0), (3, 0, 'cuMemAllocFromPoolAsync', 52, 5, 1, 0);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (65, 5, 8192, 10000);"
seen=$(summary "$trace")
has_words "$(echo "$seen" | tr -s ' ')" 'peak 2.93 KiB requested at 20 ns, in 1 allocation
peak reserved 8 KiB, by its chunks
device at least 9.77 KiB held by the base at most
difference 72 B rounding, 1 KiB free in pools, 4 KiB more at other times
at the end nothing live
failed 0 of 2 allocations
in calls 40 ns, of which 9 ns in 2 calls of the driver' 'the verdict says where the difference went, and the time'
has_words "$seen" "8 KiB reserved for 2.93 KiB requested is 173% more; \`tidemark fragmentation\` says what holds it." \
    'a note of summary says how much more is reserved than requested'
has_words "$seen" 'The peak came within 100 B of the limit of 3.03 KiB.' \
    'a note of summary says that a limit was nearly reached'
is "$("$tidemark" layers --format=csv "$trace" | sed -n 2,6p | tr -d '"' | cut -d, -f 1-3,5,6,9-17 | sed 's/,*$//')" \
    '1,2,log,0,2,4000,3000,0,1,40,0
2,3,limit,1
3,4,pool,2,,,,,,,,,8192,1
4,5,log,3,2,8192,8192,0,,40
5,,driver,4,,,,,,,,8192,10000,0' 'layers have their depth, what they passed on and their own time' ||
    "$tidemark" layers --format=csv "$trace"
has_words "$("$tidemark" layers "$trace")" '  2 limit(3100B)' 'the table of layers shows which layer is below which'
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),
        (3, 4, 'log', ''), (4, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 3, 20000, 1, 5), (2, 3, 4096, 10, 90), (3, 1, 3000, 20, 50);"
has_words "$(summary --json "$trace")" \
    '"reserved_peak_bytes":20000,"reserved_peak_is_exact":true,"reserved_source":"layers","device_peak_bytes":null,"device_peak_is_exact":null,"rounding_bytes":72,"pools_bytes":1024,"base_bytes":15904' \
    'bytes that the lowest log held before the peak do not count as free in pools at the peak'
make_trace "$trace"
has_words "$(summary "$trace")" 'No allocation was recorded.' 'summary says that no allocation was recorded'

make_trace "$trace" "UPDATE meta SET value = 0 WHERE key = 'complete'; INSERT INTO life VALUES (1, 1, 5, 10, NULL);"
json=$(summary --json "$trace")
is $? 3 'summary of a recording that was cut off prints the figures, and exits with 3'
has_words "$json" '"complete":false' 'the object says that the recording was cut off'
has_words "$(cat "$scratch/err")" 'cut off' 'a message says that the recording was cut off'
make_trace "$trace" "UPDATE meta SET value = 0 WHERE key = 'complete'; INSERT INTO life VALUES (1, 1, 5, 10, NULL);
    INSERT INTO meta VALUES ('failure', 'the disk ' || char(27) || ' is full');"
has_words "$(summary "$trace")" ', incomplete' 'summary of a trace of which the recorder says why it lacks something calls it incomplete'
has_words "$(cat "$scratch/err")" 'the trace is incomplete: the disk \x1b is full' \
    'a message has the reason, with control characters escaped'

# A recording program that has made three allocations and waits.
mkfifo "$scratch/in" "$scratch/out"
"$top_builddir/tests/recording" "$scratch/live.db" <"$scratch/in" >"$scratch/out" &
recording=$!
exec 3>"$scratch/in" 4<"$scratch/out"
read -r ready <&4
json=$(summary --json "$scratch/live.db")
is "$? $ready" '3 ready' 'summary of a recording in progress prints the figures, and exits with 3'
has_words "$json" '"allocations":3,"frees":1,"failures":0,"total_bytes":600' \
    'summary of a recording in progress has the flushed events'
has_words "$json$(cat "$scratch/err")" '"in_progress":true' 'the object says that the recording is in progress'
has_words "$(cat "$scratch/err")" 'in progress (process ' \
    'a message says that the recording is in progress, and by which process'
exec 3>&- 4<&-
wait "$recording"
json=$(summary --json "$scratch/live.db")
is "$? $(cat "$scratch/err")" '0 ' 'the same trace is complete once the recording has ended'
has_words "$json" '"allocations":4,"frees":2' 'the same trace has the last events'

summary "$trace" "$trace" >/dev/null
is $? 2 'summary of two traces is wrong use'
summary >/dev/null
is $? 2 'summary without a trace is wrong use'

# A limit of the first of two resources is none of the whole.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'fallback', ''),
        (3, NULL, 'host', ''), (4, 5, 'limit', '1000B'), (5, NULL, 'sim', '');
    INSERT INTO layer_bin VALUES (2, 9223372036854775807, 4); INSERT INTO life VALUES (1, 1, 900, 10, 50), (2, 1, 2000, 20, 50);"
is "$(summary "$trace" | grep -c 'came within')" 0 'a limit below the peak is none that the peak came near'

done_testing
