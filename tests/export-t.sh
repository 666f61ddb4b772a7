# Tests `tidemark export`: the output of every format, real traffic imported and exported again, and outputs that fail.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
data=$top_srcdir/tests/data
trace=$scratch/t.db

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# export_to ARGUMENT...: the exit status; output and messages are in $scratch/out and $scratch/err.
export_to() {
    "$tidemark" export "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

# is_text SENTENCE ARGUMENT...: whether the export of the trace equals standard input, a here-document.
is_text() {
    cat >"$scratch/wanted"
    tap_words=$1
    shift
    ok "$tap_words" test "$(export_to "$@" "$trace")" = 0 -a ! -s "$scratch/err" -a -n "$(cmp "$scratch/out" "$scratch/wanted" && echo same)" ||
        diff "$scratch/wanted" "$scratch/out" | head -n 20 | sed 's/^/#   /'
}

plan 42

# Two allocations, one of which stays live, a failure between them, and a third under a tag without a name.
flaws="INSERT INTO life VALUES (1, 1, 1000, 10, 50), (2, 1, 2000, 20, NULL), (4, 1, 500, 40, 1500);
    INSERT INTO refused VALUES (3, 1, 9999, 30);
    INSERT INTO tag VALUES (1, NULL, 'train'), (2, 1, 'a,\"b\";' || char(27) || '[1m'), (3, NULL, '');
    UPDATE allocation SET tag_id = 2 WHERE allocation_id = 1;
    UPDATE allocation SET tag_id = 1 WHERE allocation_id = 2;
    UPDATE allocation SET tag_id = 3 WHERE allocation_id = 4;
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result) VALUES
        (1, 0, 'cuMemAllocAsync', 2, 7, 1, 0), (4, 1, 'cuMemFreeAsync', 1501, 8, 1, 2);
    INSERT INTO driver_call(function, is_free, start_ns, duration_ns, result) VALUES ('cudaMalloc', 0, 60, 5, 0);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (1500, 2, 500, 4096);
    INSERT INTO device_event(ns, kind, device, pool_address, pool_used_bytes, pool_bytes, pid, correlation) VALUES
        (12, 'allocation', 0, 512, 1000, 2048, 1, 1), (13, 'allocation', 0, NULL, NULL, NULL, 1, 2),
        (14, 'pool_trimmed', 0, 512, NULL, NULL, 1, 3);
    INSERT INTO mark VALUES (35, 1, 'mark', 'step \"1\"', NULL), (36, NULL, 'refused_free', NULL, 5);
    INSERT INTO unmatched_free VALUES (25, 1, 77, 8, 1, 1);
    UPDATE stream SET handle = 171; UPDATE meta SET value = 1700000000123456789 WHERE key = 'start_unix_ns'"
make_trace "$trace" "$flaws"

is_text 'csv: there is a row for each allocation' <<'EOF'
allocation_id,layer_id,layer,address,size,alignment,status,tag,callstack,alloc_ns,alloc_duration_ns,alloc_thread,alloc_stream,free_ns,free_duration_ns,free_thread,free_stream
1,1,log,69632,1000,256,TIDE_OK,"train/a,""b"";\x1b[1m",,10,10,100,171,50,10,100,171
2,1,log,135168,2000,256,TIDE_OK,train,,20,10,100,171,,,,
3,1,log,0,9999,256,TIDE_ELIMIT,,,30,10,100,171,,,,
4,1,log,266240,500,256,TIDE_OK,,,40,10,100,171,1500,10,100,171
EOF
is_text 'jsonl: there is an object for each allocation' --format=jsonl <<'EOF'
{"allocation_id":1,"layer_id":1,"layer":"log","address":69632,"size":1000,"alignment":256,"status":"TIDE_OK","tag":"train/a,\"b\";\u001b[1m","alloc_ns":10,"alloc_duration_ns":10,"alloc_thread":100,"alloc_stream":171,"free_ns":50,"free_duration_ns":10,"free_thread":100,"free_stream":171}
{"allocation_id":2,"layer_id":1,"layer":"log","address":135168,"size":2000,"alignment":256,"status":"TIDE_OK","tag":"train","alloc_ns":20,"alloc_duration_ns":10,"alloc_thread":100,"alloc_stream":171}
{"allocation_id":3,"layer_id":1,"layer":"log","address":0,"size":9999,"alignment":256,"status":"TIDE_ELIMIT","alloc_ns":30,"alloc_duration_ns":10,"alloc_thread":100,"alloc_stream":171}
{"allocation_id":4,"layer_id":1,"layer":"log","address":266240,"size":500,"alignment":256,"status":"TIDE_OK","alloc_ns":40,"alloc_duration_ns":10,"alloc_thread":100,"alloc_stream":171,"free_ns":1500,"free_duration_ns":10,"free_thread":100,"free_stream":171}
EOF
is_text 'rmm: events are in the order of time, with unmatched frees' -f rmm <<'EOF'
Thread,Time,Action,Pointer,Size,Stream
100,22:13:20:123456,allocate,0x11000,1000,0xab
100,22:13:20:123456,allocate,0x21000,2000,0xab
100,22:13:20:123456,free,0x4d,8,0xab
100,22:13:20:123456,allocate failure,0x0,9999,0xab
100,22:13:20:123456,allocate,0x41000,500,0xab
100,22:13:20:123456,free,0x11000,1000,0xab
100,22:13:20:123458,free,0x41000,500,0xab
EOF
is "$(export_to -f rmm --min-size=9 "$trace") $(grep -c ',free,' "$scratch/out")" '0 2' \
    'rmm: --min-size leaves unmatched frees out'
is "$(export_to -f rmm --tag=train "$trace") $(grep -c ',free,0x4d,' "$scratch/out")" '0 0' \
    'rmm: --tag leaves unmatched frees out'
chrome_head='{"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","pid":4194305,"ts":0.000,"tid":0,"name":"process_name","args":{"name":"make-trace"}},
{"ph":"M","pid":4194305,"ts":0.000,"tid":100,"name":"thread_name","args":{"name":"main"}},'
is_text 'chrome: there are counters, the failure, calls of the driver, samples and marks' -f chrome <<EOF
$chrome_head
{"ph":"C","pid":4194305,"ts":0.010,"name":"layer 1 log","args":{"live_bytes":1000}},
{"ph":"C","pid":4194305,"ts":0.020,"name":"layer 1 log","args":{"live_bytes":3000}},
{"ph":"i","pid":4194305,"ts":0.030,"s":"t","tid":100,"name":"TIDE_ELIMIT","args":{"bytes":9999}},
{"ph":"C","pid":4194305,"ts":0.040,"name":"layer 1 log","args":{"live_bytes":3500}},
{"ph":"C","pid":4194305,"ts":0.050,"name":"layer 1 log","args":{"live_bytes":2500}},
{"ph":"C","pid":4194305,"ts":1.500,"name":"layer 1 log","args":{"live_bytes":2000}},
{"ph":"X","pid":4194305,"ts":0.002,"cat":"driver","tid":100,"name":"cuMemAllocAsync","dur":0.007,"args":{"result":0,"allocation_id":1}},
{"ph":"X","pid":4194305,"ts":1.501,"cat":"driver","tid":100,"name":"cuMemFreeAsync","dur":0.008,"args":{"result":2,"allocation_id":4}},
{"ph":"b","pid":4194305,"ts":0.060,"cat":"driver","tid":0,"name":"cudaMalloc","id":1,"args":{"result":0}},
{"ph":"e","pid":4194305,"ts":0.065,"cat":"driver","tid":0,"name":"cudaMalloc","id":1},
{"ph":"C","pid":4194305,"ts":1.500,"name":"pool of layer 2 sim","args":{"used_bytes":500,"reserved_bytes":4096}},
{"ph":"C","pid":4194305,"ts":0.012,"name":"pool 0x200 of device 0","args":{"used_bytes":1000,"reserved_bytes":2048}},
{"ph":"i","pid":4194305,"ts":0.014,"s":"p","tid":0,"cat":"pool_trimmed","name":"pool 0x200 of device 0"},
{"ph":"i","pid":4194305,"ts":0.035,"s":"p","tid":100,"cat":"mark","name":"step \"1\""},
{"ph":"i","pid":4194305,"ts":0.036,"s":"p","tid":0,"cat":"refused_free","name":"refused_free"}
]}
EOF
is_text 'chrome: --lifetimes adds lifetimes, and the filters hold for calls and marks' \
    -f chrome --lifetimes --tag=train/* --to=33ns <<EOF
$chrome_head
{"ph":"C","pid":4194305,"ts":0.010,"name":"layer 1 log","args":{"live_bytes":1000}},
{"ph":"b","pid":4194305,"ts":0.010,"cat":"allocation","id":1,"tid":100,"name":"train/a,\"b\";\u001b[1m","args":{"bytes":1000,"address":"0x11000","layer_id":1}},
{"ph":"X","pid":4194305,"ts":0.002,"cat":"driver","tid":100,"name":"cuMemAllocAsync","dur":0.007,"args":{"result":0,"allocation_id":1}},
{"ph":"C","pid":4194305,"ts":0.012,"name":"pool 0x200 of device 0","args":{"used_bytes":1000,"reserved_bytes":2048}},
{"ph":"i","pid":4194305,"ts":0.014,"s":"p","tid":0,"cat":"pool_trimmed","name":"pool 0x200 of device 0"}
]}
EOF
is "$(export_to -f chrome --lifetimes "$trace") $(grep -c '"ph":"e".*"allocation"' "$scratch/out")" '0 2' \
    'chrome: a lifetime ends with its free'
is_text 'collapsed: the text has tags at the peak' -f collapsed <<'EOF'
train;a,"b",\x1b[1m 1000
train 2000
(unnamed) 500
EOF
is_text 'collapsed: the text has what was live at the end' -f collapsed --weight=live <<'EOF'
train 2000
EOF
is_text 'collapsed: the text has what was allocated up to a time' -f collapsed -w allocated --to=15ns <<'EOF'
train;a,"b",\x1b[1m 1000
EOF
version=$("$tidemark" --version | cut -d ' ' -f 2)
is_text 'speedscope: there is a profile for each weight' -f speedscope <<EOF
{"\$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"tidemark $version","activeProfileIndex":0,
"shared":{"frames":[
{"name":"train"},
{"name":"a,\"b\";\u001b[1m"},
{"name":"(unnamed)"}]},
"profiles":[
{"type":"sampled","name":"live at the peak","unit":"bytes","startValue":0,"endValue":3500,"samples":[[0,1],[0],[2]],"weights":[1000,2000,500]},
{"type":"sampled","name":"live at the end","unit":"bytes","startValue":0,"endValue":2000,"samples":[[0]],"weights":[2000]},
{"type":"sampled","name":"allocated","unit":"bytes","startValue":0,"endValue":3500,"samples":[[0,1],[0],[2]],"weights":[1000,2000,500]}]}
EOF

# pprof, read by an independent decoder.
cat >"$scratch/pprof.py" <<'EOF'
import gzip, sys

def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            length = varint()
            assert at + length <= len(data)
            yield key >> 3, data[at:at + length]
            at += length
        else:
            sys.exit('wire type %d' % (key & 7))

def packed(data):
    return [value for _, value in fields(b''.join(b'\x08' + bytes(part) for part in split(data)))]

def split(data):
    part = []
    for byte in data:
        part.append(byte)
        if byte < 128:
            yield part
            part = []

profile = {}
for number, value in fields(gzip.open(sys.argv[1]).read()):
    profile.setdefault(number, []).append(value)
strings = [text.decode() for text in profile[6]]
assert strings[0] == ''
functions = {}
for message in profile.get(5, []):
    function = dict(fields(message))
    functions[function[1]] = (strings[function[2]], strings[function[4]])
locations = {}
for message in profile.get(4, []):
    location = dict(fields(message))
    line = dict(fields(location[4]))
    locations[location[1]] = functions[line[1]] + (line[2],)
print(' '.join('%s/%s' % tuple(strings[value] for _, value in fields(message)) for message in profile[1]))
for message in profile.get(2, []):
    sample = dict(fields(message))
    stack = [locations[number] for number in packed(sample[1])]
    print(';'.join(ascii('%s@%s:%d' % frame)[1:-1] for frame in stack), *packed(sample[2]))
print(profile[9], profile[10], strings[profile[14][0]])
EOF
pprof() {
    python3 "$scratch/pprof.py" "$scratch/out"
}
if python3 -c 'import gzip' 2>/dev/null; then
    is "$(export_to -f pprof "$trace") $(pprof)" \
        '0 peak_objects/count peak_space/bytes inuse_objects/count inuse_space/bytes alloc_objects/count alloc_space/bytes
a,"b";\\x1b[1m@:0;train@:0 1 1000 0 0 1 1000
train@:0 1 2000 1 2000 1 2000
(unnamed)@:0 1 500 0 0 1 500
[1700000000123456789] [1500] peak_space' 'pprof: another decoder reads every weight, the innermost frame first'
else
    skip 1 'there is no python3'
fi

# Call stacks, two layers, and neither tags nor call stacks.
make_trace "$scratch/stacks.db" "INSERT INTO life VALUES (1, 1, 100, 10, 50), (2, 1, 40, 20, NULL), (3, 1, 7, 30, NULL);
    INSERT INTO module VALUES (1, '/usr/lib/lib.so', '', 32, 100);
    INSERT INTO frame VALUES (1, 16, NULL, 'main', 'a b;c.c', 9), (2, 40, 1, 'work', '', 0), (3, 48, 1, NULL, NULL, NULL);
    INSERT INTO callstack VALUES (1, 1, 1), (1, 0, 2), (2, 0, 3), (2, 1, 1);
    INSERT INTO tag VALUES (1, NULL, 'tag');
    UPDATE allocation SET callstack_id = allocation_id, tag_id = 1; UPDATE allocation SET callstack_id = 9 WHERE size = 7"
is "$(export_to -f collapsed "$scratch/stacks.db") $(cat "$scratch/out")" '0 main (a b,c.c:9);work 100
main (a b,c.c:9);lib.so+0x10 40
(unknown) 7' 'call stacks come before tags, the outermost frame first'
is "$(export_to -f jsonl --limit=1 "$scratch/stacks.db")" 2 'export has no option for the number of rows'
is "$(export_to -f csv "$scratch/stacks.db") $(sed -n 2p "$scratch/out" | cut -d , -f 9)" '0 "work < main (a b;c.c:9)"' \
    'csv: a row has its call stack'
make_trace "$scratch/layers.db" "INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (3, 2, 'log', '');
    INSERT INTO life VALUES (1, 1, 5, 1, NULL), (2, 3, 0, 2, NULL), (3, 3, 4096, 3, NULL), (4, 1, 7, 4, NULL)"
is "$(export_to -f collapsed "$scratch/layers.db") $(cat "$scratch/out")" '0 1 log;4 B to 8 B 12
3 log;4 KiB to 8 KiB 4096' 'without tags and call stacks there are classes of sizes; of several layers each is a frame'
is "$(export_to -f chrome "$scratch/layers.db") $(grep -c '"layer 3 log"' "$scratch/out")" '0 2' \
    'chrome: each layer has its counter'
is "$(export_to --layer=3 "$scratch/layers.db") $(wc -l <"$scratch/out")" '0 3' 'csv: filters hold'
make_trace "$scratch/empty.db"
formats=$("$tidemark" export --help | sed -n '/--help  /,$s/^  \([a-z][a-z]*\)  .*/\1/p')
failed=
for format in $formats; do
    test "$(export_to -f "$format" "$scratch/empty.db") $(cat "$scratch/err")" = '0 ' || failed="$failed $format"
    test "$format" != chrome || cp "$scratch/out" "$scratch/empty.json"
done
is "$failed" '' 'every format exports an empty trace'
is "$(wc -l <"$scratch/empty.json")" 4 'chrome: the only events of an empty trace are names'

# Real traffic: the export of an imported log equals the log, byte for byte.
for name in gpt_train maskrcnn_infer multistream_sort; do
    "$tidemark" import "$data/$name.csv.gz" -o "$scratch/$name.db"
    gzip -dc "$data/$name.csv.gz" >"$scratch/original.csv"
    "$tidemark" export -f rmm "$scratch/$name.db" -o "$scratch/again.csv"
    ok "$name: the export of what was imported from a log of RMM equals the log" \
        cmp "$scratch/original.csv" "$scratch/again.csv"
done
trace=$scratch/maskrcnn_infer.db
if python3 -c 'import json' 2>/dev/null; then
    cat >"$scratch/sums.py" <<'EOF'
import csv, json, sys
lives = [json.loads(line) for line in open(sys.argv[1])]
events = [(life['alloc_ns'], 0, life['size']) for life in lives] + \
    [(life['free_ns'], 1, -life['size']) for life in lives if 'free_ns' in life]
live = peak = 0
for event in sorted(events):
    live += event[2]
    peak = max(peak, live)
rows = list(csv.DictReader(open(sys.argv[2])))
assert all(str(life[key]) == row[key] for life, row in zip(lives, rows) for key in ('size', 'address', 'alloc_ns'))
counters = [event['args']['live_bytes'] for event in json.load(open(sys.argv[3]))['traceEvents'] if event['ph'] == 'C']
print(len(lives), len(rows), sum(life['size'] for life in lives), peak, max(counters), counters[-1])
for profile in json.load(open(sys.argv[4]))['profiles']:
    print(profile['endValue'], sum(profile['weights']), end=' ')
EOF
    for format in jsonl csv chrome speedscope; do
        "$tidemark" export -f "$format" "$trace" -o "$scratch/$format"
    done
    is "$(python3 "$scratch/sums.py" "$scratch/jsonl" "$scratch/csv" "$scratch/chrome" "$scratch/speedscope")" \
        '238381 238381 612103481034 3998912135 3998912135 0
3998912135 3998912135 0 0 612103481034 612103481034 ' 'every figure of real traffic is in jsonl, csv, chrome and speedscope'
    export_to -f pprof "$trace" >/dev/null
    is "$(pprof | awk 'NF > 6 { for (i = 0; i < 6; i++) sum[i] += $(NF - 5 + i) }
        END { printf "%.0f %.0f %.0f %.0f", sum[1], sum[2], sum[4], sum[5] }')" '3998912135 0 238381 612103481034' 'and in pprof'
else
    skip 2 'there is no python3'
fi

# Rows out of order: a part of the output may be written before that is noticed.
trace=$scratch/mixed.db
make_trace "$trace" "INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
    SELECT x, 1, 1, CASE x WHEN 20000 THEN 5 ELSE 10 * x END, NULL FROM c"
is "$(export_to -f rmm "$trace") $(cat "$scratch/err")" '2 tidemark: standard output cannot be written: the rows of the trace do not stand in the order of time; -o FILE can take them' \
    'rows out of order cannot be exported to standard output'
is "$(export_to -f rmm "$trace" -o "$scratch/mixed.csv") $(sed -n 2p "$scratch/mixed.csv")" \
    '0 100,22:13:20:000000,allocate,0x4e201000,1,0x0' 'rows out of order are exported to a file in order'

# Outputs.
trace=$scratch/t.db
echo old >"$scratch/there"
is "$(export_to "$trace" -o "$scratch/there") $(wc -l <"$scratch/there") $(cat "$scratch/out")" '0 5 ' \
    'an existing file is replaced'
cp "$trace" "$scratch/other.db"
is "$(export_to "$trace" -o "$scratch/other.db") $(cat "$scratch/err")" \
    "2 $scratch/other.db: is a database: it is not overwritten" 'an existing database is not replaced'
is "$(export_to "$trace" -o "$trace")" 2 'the exported trace itself is not replaced'
is "$(export_to "$trace" -o "$scratch") $(cat "$scratch/err")" "2 $scratch: Is a directory" 'a folder is not replaced'
is "$(export_to "$trace" -o "$scratch/none/x") $(cat "$scratch/err")" "2 $scratch/none/x: No such file or directory" \
    'a file in a missing folder is an error'
ln -s "$scratch/there" "$scratch/link"
is "$(export_to -f rmm "$trace" -o "$scratch/link") $(test -L "$scratch/link" && wc -l <"$scratch/there")" '0 8' \
    'an export to a symbolic link writes the file behind it'
is "$(export_to "$trace" -o /dev/stdout) $(wc -l <"$scratch/out")" '0 5' 'an export to a device writes to it'
if test -c /dev/full; then
    is "$("$tidemark" export "$trace" 2>&1 >/dev/full; echo $?)" 'tidemark: standard output cannot be written: No space left on device
2' 'a full disk is an error'
else
    skip 1 'there is no /dev/full'
fi
make_trace "$scratch/broken.db" "INSERT INTO life VALUES (1, 1, 5, 1, NULL), (2, 1, 6, 2, NULL);
    UPDATE allocation SET size = 'x' WHERE allocation_id = 2"
echo old >"$scratch/there"
is "$(export_to "$scratch/broken.db" -o "$scratch/there") $(cat "$scratch/there") $(cat "$scratch/err")" \
    "2 old $scratch/broken.db: allocation 2: size is no integer" 'a failed export keeps the existing file'
is "$(ls "$scratch" | grep -c -e '-export')" 0 'a failed export leaves no file beside it'
make_trace "$scratch/huge.db" "INSERT INTO life VALUES (1, 1, 9223372036854775800, 1, NULL), (2, 1, 100, 2, NULL)"
is "$(export_to -f chrome "$scratch/huge.db")$(export_to -f pprof "$scratch/huge.db")$(export_to "$scratch/huge.db")" 220 \
    'sizes that overflow are refused by the formats that add them up'

# Wrong use, and an incomplete trace.
# shellcheck disable=SC2086 # a list of words
is "$(export_to -f jason "$trace") $(head -n 1 "$scratch/err")" \
    "2 tidemark export: --format: \"jason\" is none of $(echo $formats | tr ' ' '|'); did you mean \"jsonl\"?" \
    'an unknown format is wrong use'
is "$(export_to)$(export_to a b)$(export_to "$scratch/none")" 222 \
    'export without a trace, with two traces and with a missing one exits with 2'
make_trace "$scratch/lost.db" "INSERT INTO loss VALUES (1, 'dropped free', 3)"
is "$(export_to "$scratch/lost.db") $(wc -l <"$scratch/out")" '3 1' \
    'the export of a trace with lost events exits with 3'

done_testing
