# Tests what commands say of reserved memory, over stacks of several shapes: each figure is of one stack and one kind of
# memory, exact or "at least", and the same in all commands.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db

# make_stack LAYERS SQL: a trace with these layers.
make_stack() {
    "$top_builddir/tests/make-trace" "$trace" "DELETE FROM layer;
        INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES $1; $2" || exit 99
}

ask() {
    "$tidemark" "$@" "$trace" 2>"$scratch/err"
}

# said COMMAND FIELDS: the members of the object, "NAME VALUE" each, in its order.
said() {
    ask "$1" --json | sed 's/"\(layers\|moments\|columns\|budgets\|waterfall\)":\[[^]]*\]//g' | sed 's/,"/\n"/g; s/[][{}]/\n/g' |
        sed -n "s/^\"\($2\)\":\(.\)/\1 \2/p" | tr '\n' ' '
}

# peaks: the peak of the reserved bytes that each command has, once if all have the same one.
peaks() {
    for command in summary fragmentation timeline; do
        said $command 'reserved_peak_bytes\|reserved_peak_is_exact'
        echo
    done | sort -u
}

plan 72

# Two GPUs, each with a stack of its own: 8000 of 12288 on GPU 0, 3000 of 4096 on GPU 1, where the base holds 65536.
two="(1, 2, 'log', '', 0), (2, 3, 'pool', '', 0), (3, 4, 'log', '', 0), (4, NULL, 'driver', '', 0),
    (5, 6, 'log', '', 1), (6, 7, 'pool', '', 1), (7, 8, 'log', '', 1), (8, NULL, 'driver', '', 1)"
lives="INSERT INTO life VALUES (1, 3, 12288, 10, NULL), (2, 1, 8000, 20, 60), (3, 7, 4096, 30, NULL),
    (4, 5, 3000, 40, NULL);"
make_stack "$two" "$lives INSERT INTO pool_sample VALUES (50, 8, 4096, 65536, 65536);"
seen=$(ask summary)
has_words "$(echo "$seen" | tr -s ' ')" 'peak 1 log, GPU 0: 7.81 KiB requested at 20 ns, in 1 allocation
peak reserved 1 log, GPU 0: 12 KiB, by its chunks' 'summary has the peak and what was reserved of the first GPU'
has_words "$(echo "$seen" | tr -s ' ')" 'peak 5 log, GPU 1: 2.93 KiB requested at 40 ns, in 1 allocation
peak reserved 5 log, GPU 1: 4 KiB, by its chunks
device 5 log, GPU 1: 64 KiB held by the base at most' 'summary has those of the second GPU'
is "$(ask summary --json | sed 's/"layers":\[[^]]*\]//; s/"memory":\[[^]]*\]//' | grep -o '"[a-z_]*_bytes":[0-9]')" '' \
    'summary adds up no bytes of two GPUs'
is "$(ask summary --json | sed 's/"layers":\[[^]]*\]//; s/"memory":\[[^]]*\]//' | grep -o '_bytes":null' | wc -l)" 9 \
    'summary --json of two GPUs has the fields that only one memory has values for'
is "$(said summary 'memory\|rounding_bytes\|pools_bytes\|base_bytes\|mean_live_bytes\|live_count')" \
    'rounding_bytes null pools_bytes null base_bytes null mean_live_bytes null live_count 1 memory "GPU 0" rounding_bytes 192 pools_bytes 4096 base_bytes 0 mean_live_bytes 5333 live_count 0 memory "GPU 1" rounding_bytes 72 pools_bytes 1024 base_bytes 0 mean_live_bytes 1000 live_count 1 ' \
    'summary --json has for each GPU what it has for one'
has_words "$(echo "$seen")" '5 log, GPU 1: 2.93 KiB in 1 allocation was never freed, 100.0% of the peak' \
    'the sentence on what was never freed is of one GPU'
for command in summary fragmentation timeline; do
    is "$(said $command 'memory\|memory_name\|device\|reserved_peak_bytes' | sed 's/memory "[^"]*GPU 0" *$//; s/ *$//')" \
        "$(test $command = fragmentation || echo 'reserved_peak_bytes null ')"'memory "GPU 0" device 0 reserved_peak_bytes 12288 memory "GPU 1" device 1 reserved_peak_bytes 4096'"$(
            test $command = fragmentation && echo ' memory_name "1 log, GPU 0" reserved_peak_bytes 12288')" \
        "$command --json has a row for each GPU" || ask $command --json
done
is "$(ask timeline | grep -c 'GPU [01]:')" 2 'timeline has a drawing for each GPU'
has_words "$(ask fragmentation --memory=2)" 'memory         5 log, GPU 1' 'fragmentation is of the memory that was asked for'
ask fragmentation --memory=3 >/dev/null
is "$? $(cat "$scratch/err")" "2 $trace: it has 2 kinds of memory, no 3" 'a kind of memory that there is not is an error'
ask check --max-reserved=65536 >/dev/null
is $? 0 'check adds up no GPUs, and passes where each keeps to the budget'
seen=$(ask check --max-reserved=65535)
is $? 1 'check judges what the base holds, where that is more'
has_words "$seen" '5 log, GPU 1: 65536 B were reserved by the base, 1 B over the 65535 B allowed' \
    'check names the GPU that breaks the budget'
"$tidemark" merge "$trace" -o "$scratch/job.db" >/dev/null 2>&1
is "$("$tidemark" check --max-reserved=65536 "$scratch/job.db" >/dev/null 2>&1; echo $?) $(
    "$tidemark" check --max-reserved=65535 "$scratch/job.db" >/dev/null 2>&1; echo $?)" '0 1' \
    'check of a job judges what the base of a rank holds, where that is more'
ask check --max-fragmentation=34% >/dev/null
is $? 0 'check judges the fragmentation of the worst GPU, and passes up to its share'

# Device memory and pinned memory below one log.
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'fallback', '', NULL), (3, NULL, 'driver', '', 0), (4, NULL, 'pinned', '', NULL)" \
    "INSERT INTO layer_bin VALUES (2, 9223372036854775807, 4); INSERT INTO life VALUES (1, 1, 5000, 10, NULL), (2, 1, 3000, 20, NULL);
    INSERT INTO pool_sample VALUES (30, 3, 5000, 8192, 8192), (30, 4, 3000, 3072, 3072);"
is "$(said summary 'memory\|reserved_peak_bytes')" \
    'reserved_peak_bytes null memory "pinned + GPU 0" reserved_peak_bytes null memory "pinned" reserved_peak_bytes 3072 memory "GPU 0" reserved_peak_bytes 8192 ' \
    'summary does not add up device memory and pinned memory'
ask check --max-reserved=8192 >/dev/null
is $? 0 'check does not add up device memory and pinned memory'
ask check --max-reserved=8191 >/dev/null
is $? 1 'check judges the kind of memory that has the most reserved'

# The same traffic with a log below the pool, and with the pool's own chunks.
traffic="(1, ?, 8192, 5, 90), (2, 1, 3000, 10, 50), (3, ?, 4096, 20, NULL), (4, 1, 4000, 30, NULL)"
places="UPDATE allocation SET address = CASE allocation_id WHEN 1 THEN 65536 WHEN 2 THEN 65536 WHEN 3 THEN 131072 ELSE 131072 END;"
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'pool', '', NULL), (3, 4, 'log', '', NULL), (4, NULL, 'sim', '', NULL)" \
    "INSERT INTO life VALUES $(echo "$traffic" | tr '?' 3); $places"
ask fragmentation | sed 1d >"$scratch/lower"
ask layers --format=csv | cut -d, -f 7-15 | sed -n '2p;4p' >"$scratch/layers-lower"
peaks >"$scratch/peaks-lower"
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'pool', '', NULL), (3, NULL, 'sim', '', NULL)" \
    "INSERT INTO life VALUES $(echo "$traffic" | tr '?' 2); $places"
is "$(ask fragmentation | sed 1d)" "$(cat "$scratch/lower")" \
    'fragmentation of a pool that says its chunks itself is that with a log below it'
is "$(ask layers --format=csv | cut -d, -f 7-15 | sed -n '2p;3p')" "$(cat "$scratch/layers-lower")" \
    'layers has the same figures for both, and what was passed on'
is "$(peaks)" 'reserved_peak_bytes 12288 reserved_peak_is_exact true reserved_peak_bytes 12288 reserved_peak_is_exact true ' \
    'summary, fragmentation and timeline have the same most reserved'
is "$(peaks)" "$(cat "$scratch/peaks-lower")" 'the log below the pool gives the same most reserved'
ask check --max-reserved=12288 --max-fragmentation=42% >/dev/null
is $? 0 'check judges a pool by its own chunks, and passes at the limit'
ask check --max-reserved=12287 --max-fragmentation=41% >"$scratch/out"
is "$? $(grep -c ^FAILED "$scratch/out")" '1 2' 'check judges a pool by its own chunks, and fails beyond the limit'

# A bin with a log of its own: of 1000 requests ten pass it, and its pool takes a chunk from the log below.
make_stack "(1, 2, 'log', '', NULL), (2, 5, 'binning', '', NULL), (3, 4, 'log', '', NULL), (4, 5, 'pool', '', NULL),
    (5, 6, 'log', '', NULL), (6, NULL, 'sim', '', NULL)" "INSERT INTO layer_bin VALUES (2, 256, 3);
    WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
    INSERT INTO life SELECT 3 * n + 3, 1, iif(n % 100 = 0, 256, 4096), 10 * n, 10 * n + 5 FROM n;
    INSERT INTO life SELECT allocation_id - 1, 3, 256, alloc_ns, free_ns FROM allocation WHERE size = 256;
    INSERT INTO life SELECT allocation_id - 2, 5, 4096, alloc_ns, free_ns FROM allocation WHERE size = 4096 AND layer_id = 1;
    INSERT INTO life VALUES (1, 5, 65536, 9, NULL);"
is "$(ask layers --format=csv | tr -d '"' | cut -d, -f 1,6,12,14 | sed -n '2p;4p')" '1,1000,,
3,10,,' 'layers has no share and no own time of a log whose requests reach the log below on two ways' || ask layers --format=csv
is "$(peaks | sed 's/ reserved_peak_is_exact.*//')" 'reserved_peak_bytes 69632' \
    'what a bin holds and what passes beside it add up'
is "$(said fragmentation utilisation | tr ' ' '\n' | sed -n 2p | cut -c 1-4)" '0.05' 'the utilisation of a stack with bins is below 1'

# Samples: without high-water marks they can miss a peak, and so say the least that was reserved.
make_stack "(1, 2, 'log', '', 0), (2, NULL, 'driver', '', 0)" "INSERT INTO life VALUES (1, 1, 8000, 10, 20);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (5, 2, 0, 5000), (30, 2, 0, 5500);"
is "$(peaks)" 'reserved_peak_bytes 8000 reserved_peak_is_exact false reserved_peak_bytes 8000 reserved_peak_is_exact false ' \
    'what was live was reserved, though no sample says so'
is "$(ask summary | grep -c 'at least 7.81 KiB') $(ask fragmentation | grep -c 'at least 7.81 KiB') $(
    ask timeline | grep -c 'at least 7.81 KiB')" '2 1 1' 'summary, fragmentation and timeline say that it is the least'
ask check --max-reserved=6000 >/dev/null
is $? 1 'a budget below what was live fails'
ask check --max-reserved=8000 >"$scratch/out"
is "$? $(grep -c '^UNKNOWN' "$scratch/out")" '3 1' 'a budget that samples cannot judge is unknown'
is "$(ask check --max-reserved=8000 --tap | head -n 2 | tail -n 1)" \
    'not ok 1 - max-reserved: unknown, at least 7.81 KiB of 7.81 KiB allowed' 'TAP has an unknown budget as failed'
has_words "$(ask fragmentation --at=25 --format=csv)" 'there,25,0,0,0,,5000,0,' 'reserved at a moment is what the sample before it says'
has_words "$(ask fragmentation --at=25)" 'by a sample older than the moment' 'fragmentation says that the sample is older'
is "$(ask fragmentation --at=15 | tr -s ' ' | sed -n 's/^reserved //p')" '8 KiB -1.99 MiB at least that: the last sample says less' \
    'in fragmentation the base holds no less than what is live, whatever an older sample says'
make_stack "(1, 2, 'log', '', 0), (2, NULL, 'driver', '', 0)" "INSERT INTO life VALUES (1, 1, 8000, 10, 20);
    INSERT INTO pool_sample VALUES (5, 2, 0, 5000, 5000), (30, 2, 0, 5500, 9000), (50, 2, 0, 0, 9000);"
is "$(peaks | sed 's/ reserved_peak_bytes 9000.*//')" 'reserved_peak_bytes 9000 reserved_peak_is_exact true' \
    'the high-water mark is the most that was reserved'
is "$(for to in 20 30 60; do "$tidemark" summary --to=$to --json "$trace" | grep -o '"reserved_peak_is_exact":[a-z]*' | tail -n 1; done |
    tr '\n' ' ')" \
    '"reserved_peak_is_exact":false "reserved_peak_is_exact":true "reserved_peak_is_exact":true ' \
    'a high-water mark tells the peak up to a moment if it did not rise behind it'

# Imports have no times of calls.
make_stack "(1, 2, 'log', '', NULL), (2, NULL, 'rmm', '', NULL)" "INSERT INTO life VALUES (1, 1, 3000, 10, 20);
    UPDATE allocation SET alloc_duration_ns = 0, free_duration_ns = 0;
    INSERT OR REPLACE INTO meta VALUES ('clock', 'imported');"
is "$(ask summary | sed -n 's/^in calls *//p') $(ask summary | grep -c 'The calls took') $(ask layers | grep -c ' 0 ns')" \
    '- 0 0' 'times of calls that were not recorded are -, and no sentence is made of them'

# What is unknown of one stack, or may be more than a sample saw.
make_stack "(1, 2, 'log', '', 0), (2, 3, 'pool', '', 0), (3, 4, 'log', '', 0), (4, NULL, 'driver', '', 0),
    (5, 6, 'log', '', 1), (6, NULL, 'driver', '', 1)" "INSERT INTO life VALUES (1, 3, 12288, 10, NULL),
    (2, 1, 8000, 20, 60), (4, 5, 3000, 40, NULL);"
ask check --max-fragmentation=10% >/dev/null
is $? 1 'a stack of which nothing is known hides no other one that breaks --max-fragmentation'
ask check --max-fragmentation=40% >/dev/null
is $? 3 'a stack of which nothing is known leaves --max-fragmentation unknown where all others keep to it'
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'fallback', '', NULL), (3, NULL, 'driver', '', 0), (4, NULL, 'pinned', '', NULL)" \
    "INSERT INTO layer_bin VALUES (2, 9223372036854775807, 4); INSERT INTO life VALUES (1, 1, 5000, 10, NULL);
    INSERT INTO pool_sample VALUES (30, 3, 5000, 800000, 800000), (30, 4, 3000, 3072, 3072);"
ask check --max-fragmentation=10% >"$scratch/out"
is "$?" 3 'whether blocks in two kinds of memory keep to --max-fragmentation is unknown'
has_words "$(cat "$scratch/out")" 'pinned + GPU 0: the trace does not tell how much of each of them was used' \
    'check says why that is unknown'
make_stack "$two" "$lives INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (50, 8, 4096, 65536);"
ask check --max-reserved=65536 >"$scratch/out"
is "$?" 3 'what the base held at least, by samples, keeps to no budget' || cat "$scratch/out"
ask check --max-reserved=65535 >/dev/null
is $? 1 'what the base held at least breaks a smaller budget'
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'binning', '', NULL), (3, 5, 'log', '', NULL), (4, 3, 'pool', '', NULL),
    (5, NULL, 'sim', '', NULL)" "INSERT INTO layer_bin VALUES (2, 256, 4);
    INSERT INTO life VALUES (1, 3, 65536, 9, NULL), (2, 1, 256, 10, NULL), (3, 3, 4096, 19, NULL), (4, 1, 4096, 20, NULL);"
is "$(ask layers --json | grep -o '"kind":"pool".*' | grep -o '"reserved_peak_bytes":[0-9a-z]*' | head -n 1)" \
    '"reserved_peak_bytes":null' 'what passes beside a pool into the log below is not what the pool holds'

# Rows that are still to come, or never will.
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'pool', '', NULL), (3, 4, 'log', '', NULL), (4, NULL, 'sim', '', NULL)" \
    "INSERT INTO life VALUES $(echo "$traffic" | tr '?' 3); $places UPDATE meta SET value = 0 WHERE key = 'complete';"
is "$(peaks)" 'reserved_peak_bytes 12288 reserved_peak_is_exact false reserved_peak_bytes 12288 reserved_peak_is_exact false ' \
    'the chunks of a trace that was cut off say the least that was reserved'
is "$(ask layers --json | grep -o '"kind":"pool".*' | grep -o '"reserved_peak_is_exact":[a-z]*' | head -n 1)" \
    '"reserved_peak_is_exact":false' 'layers says so of the pool'

# Until a pool says its first chunk, samples of the base are all there is.
make_stack "(1, 2, 'log', '', NULL), (2, 3, 'pool', '', NULL), (3, NULL, 'sim', '', NULL)" \
    "INSERT INTO life VALUES (1, 2, 8192, 50, 90), (2, 1, 3000, 60, 80);
    INSERT INTO pool_sample VALUES (10, 3, 0, 65536, 65536), (70, 3, 8192, 65536, 65536);"
is "$(ask timeline --width=3 --format=csv | tr -d '"' | cut -d, -f 1,5 | tail -n 3 | tr '\n' ' ')" '0,0 30,8192 60,8192 ' \
    'the columns before the first chunk of a pool hold no bytes of the base' || ask timeline --width=3 --format=csv

ask fragmentation --memory=0 >/dev/null
is "$? $(head -n 1 "$scratch/err")" '2 tidemark fragmentation: --memory: kinds of memory are numbered from 1' \
    'fragmentation refuses the memory of number 0'
ask fragmentation --memory=2000000 >/dev/null
is "$? $(sed "s,$trace,,;s/it has [0-9]* kinds* of/it has N kinds of/" "$scratch/err")" \
    '2 : it has N kinds of memory, no 2000000' 'fragmentation says that the trace has not as many kinds of memory'
# The limit is of a bin, and of none of what the bin does not take.
make_stack "(1, 2, 'log', '', NULL), (2, 4, 'binning', '4096={limit(1MiB) | fixed}', NULL), (3, 4, 'limit', '1048576', NULL),
    (4, NULL, 'sim', '', NULL)" "INSERT INTO layer_bin VALUES (2, 4096, 3);
    INSERT INTO life VALUES (1, 1, 1073741824, 5, 90), (2, 1, 1024, 10, 20);"
is "$(ask summary | grep -c 'came within')" 0 'summary does not measure the peak by a limit of a bin that it exceeds'

# A limit on one of several ways of the requests bounds them not.
limit_of() {
    make_stack "$1" "$2 INSERT INTO life VALUES (1, 1, 900, 10, NULL), (2, 1, 50, 20, NULL);"
    echo "$(ask summary --json | grep -o '"limit_bytes":[0-9a-z]*' | sort -u) $(
        ask timeline --json | grep -o '"limit_bytes":[0-9a-z]*') $(ask timeline | grep -c ' limit ')"
}
bins="INSERT INTO layer_bin VALUES (2, 100, 3);"
is "$(limit_of "(1, 2, 'log', '', NULL), (2, 4, 'binning', '', NULL), (3, 4, 'limit', '1000B', NULL),
    (4, NULL, 'sim', '', NULL)" "$bins")" '"limit_bytes":null "limit_bytes":null 0' 'the limit of one bin is none of all requests'
is "$(limit_of "(1, 2, 'log', '', NULL), (2, 4, 'fallback', '', NULL), (3, 4, 'limit', '1000B', NULL),
    (4, NULL, 'sim', '', NULL)" "INSERT INTO layer_bin VALUES (2, 9223372036854775807, 3);")" \
    '"limit_bytes":null "limit_bytes":null 0' 'the limit of the first choice of a fallback is none of all requests'
is "$(limit_of "(1, 2, 'log', '', NULL), (2, 3, 'binning', '', NULL), (3, 4, 'limit', 'count=9, limit=1000', NULL),
    (4, NULL, 'sim', '', NULL)" "$bins")" '"limit_bytes":1000 "limit_bytes":1000 1' \
    'a limit that all ways pass bounds them, wherever its bound stands among its arguments'
is "$(limit_of "(1, 2, 'log', '', NULL), (2, 3, 'limit', 'count=9', NULL), (3, 4, 'limit', 'budget=\"a, limit=7\", limit=1200', NULL),
    (4, NULL, 'sim', '', NULL)" '')" '"limit_bytes":1200 "limit_bytes":1200 1' \
    'a limit of allocations bounds no bytes, and a comma in quotes parts no arguments'
is "$(limit_of "(1, 3, 'log', '', NULL), (2, 4, 'log', '', NULL), (3, 4, 'limit', '1000B', NULL),
    (4, NULL, 'sim', '', NULL)" '')" '"limit_bytes":null "limit_bytes":null 0' \
    'a limit below one of two logs of one memory is none of both'

# Each GPU has to keep to --max-peak by itself.
make_stack "$two" "$lives"
ask check --max-peak=8000 >/dev/null
is $? 0 'check --max-peak adds up no GPUs, and passes where the peak of each keeps to it'
ask check --max-peak=7999 >"$scratch/out"
is $? 1 'check --max-peak fails where one GPU exceeds it'
has_words "$(cat "$scratch/out")" '1 log, GPU 0: the peak is 8000 B, 1 B over the 7999 B allowed' \
    'check names the GPU whose peak is over the budget'
has_words "$(cat "$scratch/out")" 'tidemark peak --layer=1 ' 'check says with which command to look at that GPU alone'
ask check --max-peak=2999 --json | grep -o '"seen":[0-9]*' >"$scratch/out"
is "$(cat "$scratch/out")" '"seen":8000' 'check judges the GPU with the highest peak'
ask check --max-peak=layer=5:3000 --max-peak=layer=1:7999 >"$scratch/out"
is "$? $(grep -c '^FAILED' "$scratch/out")" '1 1' 'a budget of one layer is of that alone'
make_stack "$two" "$lives INSERT INTO tag VALUES (1, NULL, 'a'); UPDATE allocation SET tag_id = 1 WHERE layer_id IN (1, 5);"
ask check --max-peak=tag=a:8000 >/dev/null
is $? 0 'a budget of a tag is judged on each GPU by itself'

# A baseline by which what was reserved cannot be judged.
base=$scratch/base.db
pool="(1, 2, 'log', '', 0), (2, NULL, 'driver', '', 0)"
lived="INSERT INTO life VALUES (1, 1, 2000, 10, 20); INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes, reserved_high_bytes)"
# against A B: the exit status of B with A as its baseline, where samples are of these bytes and marks.
against() {
    make_stack "$pool" "$lived VALUES (15, 2, 2000, $1);"
    mv "$trace" "$base"
    make_stack "$pool" "$lived VALUES (15, 2, 2000, $2);"
    ask check --baseline="$base" >"$scratch/out"
    echo $?
}
is "$(against '5000, 5000' '5000, 5000') $(against '5000, 5000' '5001, 5001')" '0 1' \
    'a baseline judges what was reserved where both know the most'
is "$(against '5000, 5000' '5000, NULL')" 3 'whether samples alone keep to the most that a baseline had reserved is unknown'
has_words "$(cat "$scratch/out")" 'reserved: at least 4.88 KiB by this trace, which can miss a peak' \
    'check says why it cannot judge by the baseline'
is "$(against '5000, 5000' '5001, NULL')" 1 'samples above the most that a baseline had reserved are a finding'
is "$(against '5000, NULL' '5001, 5001') $(against '5000, NULL' '5000, 5000')" '3 0' \
    'a baseline that says the least alone is kept to below that, and unknown above it'
make_stack "$pool" "INSERT INTO life VALUES (1, 1, 2000, 10, 20);"
ask check --baseline="$base" >/dev/null
is $? 3 'a trace that says nothing of what was reserved is unknown beside a baseline that does'
cp "$trace" "$base"
ask check --baseline="$base" >/dev/null
is $? 0 'peaks alone are judged where neither trace says what was reserved'

done_testing
