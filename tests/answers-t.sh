# Tests `tidemark failures`, `leaks` and `diff` over traces made by hand.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

# ask COMMAND...: print the command's output on one line; its messages go to err.
ask() {
    "$tidemark" "$@" 2>"$scratch/err"
}

# A pool with chunks of 1 MiB at 1 MiB and at 4 MiB: a block of 4 KiB in the middle of the first, many in the second.
two_chunks="
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),
        (3, 4, 'log', ''), (4, NULL, 'sim', '');
    INSERT INTO tag VALUES (1, NULL, 'cache');
    INSERT INTO life VALUES (1, 3, 1048576, 10, NULL), (2, 1, 4096, 20, NULL), (3, 3, 1048576, 30, NULL),
        (4, 1, 600000, 40, NULL), (5, 1, 4096, 45, NULL);
    UPDATE allocation SET address = 1048576 WHERE allocation_id = 1;
    UPDATE allocation SET address = 1048576 + 524288, tag_id = 1 WHERE allocation_id = 2;
    UPDATE allocation SET address = 4194304 WHERE allocation_id = 3;
    UPDATE allocation SET address = 4194304 WHERE allocation_id = 4;
    UPDATE allocation SET address = 4194304 + 1048576 - 4096 WHERE allocation_id = 5;"

plan 79

make_trace "$trace" "$two_chunks
    INSERT INTO refused VALUES (6, 1, 700000, 50), (7, 1, 3000000, 51), (8, 1, 4096, 52), (9, 1, 500000, 53);
    UPDATE allocation SET status = 3 WHERE allocation_id IN (6, 7, 9);"
json=$(ask failures --json "$trace")
is $? 0 'failures that are listed are no finding'
has_words "$json" '"source":"chunks","failures_count":4,"failed_bytes":4204096,"allocations":3,"made_good_count":0,"cause":"fragmentation"' \
    'failures counts what failed, and has the cause of the first'
has_words "$json" '"causes":[{"cause":"limit","count":1},{"cause":"capacity","count":1},{"cause":"fragmentation","count":1},{"cause":"unused hole","count":1}]' \
    'failures has four causes: a limit, a full pool, no hole that is large enough, and an unused hole'
has_words "$json" '"refused_causes":[{"layer_id":1,"refused_by_layer_id":2,"refused_by":"layer 2 pool","cause":"capacity","count":1},{' \
    'failures counts the failures by the layer that refused and the cause'
has_words "$(ask failures "$trace" | tr -s ' ')" 'layer 2 pool unused hole 1' \
    'the screen of failures has the counts where not all follow from the first'
has_words "$(ask failures "$trace")" '2 more failed at the same layer afterwards, 2 for another cause.' \
    'failures does not say of another cause that it follows from the first'
has_words "$json" '"allocation_id":6,"ns":50,"size":700000,"status":"TIDE_ECAPACITY","cause":"fragmentation","live_bytes":608192,"live_count":3,"reserved_bytes":2097152,"free_bytes":1488896,"largest_hole_bytes":524288' \
    'failures has the live, reserved and free bytes and the largest hole at a failure'
has_words "$json" '"pinned_by":"#2 4 KiB cache"' 'failures has the block in the emptiest chunk'
has_words "$(ask failures --all "$trace")" 'fragmentation 593.9 KiB    2 MiB 1.42 MiB' \
    'the table of failures has the fragmentation, the reserved and the free bytes'
has_words "$(ask failures --all --limit=1 "$trace")" 'These are the first 1 of 4.' \
    'failures --limit says how many failures it leaves out'
has_words "$(ask failures --to=50 --json "$trace")" '"failures_count":1' 'failures --to ignores later failures'

# What is live at the last failure of the list is found behind it, where rows are not in the order of time.
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, NULL), (3, 1, 20, 5, 60); INSERT INTO refused VALUES (2, 1, 700, 50);"
has_words "$(ask failures --json "$trace")" '"live_bytes":120,"live_count":2' \
    'a failure is looked at with the rows behind it that are earlier'
make_trace "$trace" "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 1500)
    INSERT INTO refused SELECT n, 1, 700, n FROM n; UPDATE allocation SET status = 3; INSERT INTO life VALUES (1501, 1, 1, 1600, NULL);"
has_words "$(ask failures "$trace" | tr -s ' ')" 'not looked at 500' 'failures says how many were not looked at, of which layer'
is "$(ask failures --json "$trace" | grep -o '"cause":null,"count":500') $(ask check --max-failures=1499 --max-allocations=1501 "$trace" |
    grep -c ^ok)" '"cause":null,"count":500 1' 'the JSON of failures has those without a cause, and check counts on behind the list'
make_trace "$trace" "INSERT INTO refused VALUES (1, 1, 700, 50); UPDATE allocation SET status = 7;
    UPDATE layer SET kind = 'driver' WHERE layer_id = 2; INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (40, 2, 1000, 2000);"
has_words "$(ask failures --json "$trace")" '"causes":[{"cause":"fragmentation","count":1}]' \
    'without a log below the pool, failures takes the free bytes from the pool sample before'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 700, 50, 60);"
has_words "$(ask failures "$trace")" 'No allocation failed.' 'failures says that no allocation failed'

# Two stacks: log 1 | limit 2 (1000 B, budget b) | log 3 | sim 4, and log 11 | limit 12 (the same) | sim 13.
two_stacks="DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''),
        (2, 3, 'limit', '1000, alignment=1, budget=\"b, c\"'), (3, 4, 'log', ''), (4, NULL, 'sim', 'capacity=5000'),
        (11, 12, 'log', ''), (12, 13, 'limit', 'count=9, limit=1000, alignment=1, budget=\"b, c\"'), (13, NULL, 'sim', '');"
make_trace "$trace" "$two_stacks
    INSERT INTO life VALUES (1, 3, 300, 10, NULL), (2, 1, 300, 11, NULL), (3, 11, 250, 20, NULL);
    INSERT INTO refused VALUES (4, 11, 600, 30), (5, 11, 601, 31), (6, 1, 700, 40);
    INSERT INTO refusal(allocation_id, layer_id, text) VALUES (4, 12, 'limit: 600 B request exceeds 1000 B limit (550 B in use)'), (5, 99, NULL), (6, NULL, 'limit: no');"
json=$(ask failures --json "$trace")
has_words "$json" '"refused_by":"layer 12 limit(count=9, limit=1000, alignment=1, budget=\"b, c\")","text":"limit: 600 B request exceeds 1000 B limit (550 B in use)"' \
    'failures names the layer that refused, and has its words'
has_words "$json" '"in_use_bytes":550,"live_bytes":250,"live_count":1,"reserved_bytes":null,"free_bytes":null,"left_bytes":450,"room_bytes":450,"largest_hole_bytes":null,"sample_ns":null,"sufficient":"limit(1150)","sufficient_with":null,"sufficient_bytes":1150,"sufficient_count":null,"sufficient_without_holes_bytes":null' \
    'limits of one budget share what is in use, and the live bytes are those of the stack alone'
has_words "$json" '"refused":[{"layer_id":11,"refused_by_layer_id":12,"refused_by":"layer 12 limit(count=9, limit=1000, alignment=1, budget=\"b, c\")","made_good_by_layer_id":null,"made_good_by":null,"count":2,"bytes":1201,"first_ns":30,"first_allocation_id":4},{"layer_id":1,"refused_by_layer_id":2,' \
    'what follows from the first failure is counted with it, and what another stack refused apart'
has_words "$(ask failures "$trace")" '1 more failed at the same layer afterwards.' 'failures folds what follows into a count'

# figures LAYER: what failures says of the pool of a layer.
figures() {
    ask failures --layer="$1" --json "$trace" |
        sed 's/.*"cause":"\([^"]*\)","live_bytes.*"reserved_bytes":\([0-9]*\),"free_bytes":\([0-9]*\),.*/\1 \2 \3/'
}

# Two pools over one log: log 1 | pool 2 | log 5 | sim 6, and log 3 | pool 4 | log 5. The second chunk is of pool 4.
make_trace "$trace" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 5, 'pool', ''),
        (3, 4, 'log', ''), (4, 5, 'pool', ''), (5, 6, 'log', ''), (6, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 5, 1048576, 10, NULL), (2, 1, 600064, 20, NULL), (3, 5, 1048576, 30, NULL),
        (4, 3, 4096, 40, NULL);
    UPDATE allocation SET address = 1048576 WHERE allocation_id IN (1, 2);
    UPDATE allocation SET address = 4194304 WHERE allocation_id IN (3, 4);
    INSERT INTO refused VALUES (5, 1, 700000, 50); UPDATE allocation SET status = 3 WHERE allocation_id = 5;"
is "$(figures 1)" 'capacity 1048576 448512' \
    'a chunk of another pool over the same log below is not free in the pool that failed'

# Two logs over one pool: log 1 | pool 3 | log 4 | sim 5, and log 2 | pool 3. The blocks are of log 2.
make_trace "$trace" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 3, 'log', ''), (2, 3, 'log', ''),
        (3, 4, 'pool', ''), (4, 5, 'log', ''), (5, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 4, 1048576, 10, NULL), (2, 2, 1000192, 20, NULL);
    UPDATE allocation SET address = 1048576;
    INSERT INTO refused VALUES (3, 1, 700000, 50); UPDATE allocation SET status = 3 WHERE allocation_id = 3;"
is "$(figures 1)" 'capacity 1048576 48384' 'what another log has of the pool that failed is not free in it'

# A log in a bin: log 1 | binning 2 (4 KiB: log 3 | pool 4) | pool 5 | log 6 | sim 7. The second chunk is of pool 5.
make_trace "$trace" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 5, 'binning', ''),
        (3, 4, 'log', ''), (4, 6, 'pool', ''), (5, 6, 'pool', ''), (6, 7, 'log', ''), (7, NULL, 'sim', '');
    INSERT INTO layer_bin VALUES (2, 4096, 3);
    INSERT INTO life VALUES (1, 6, 8192, 10, NULL), (2, 3, 4096, 20, NULL), (3, 1, 4096, 21, NULL),
        (4, 6, 1048576, 30, NULL), (5, 1, 8192, 40, NULL);
    UPDATE allocation SET address = 1048576 WHERE allocation_id <= 3;
    UPDATE allocation SET address = 4194304 WHERE allocation_id > 3;
    INSERT INTO refused VALUES (6, 3, 4096, 50); UPDATE allocation SET status = 3 WHERE allocation_id = 6;"
is "$(figures 3)" 'unused hole 8192 4096' 'of a bin that failed only its own chunks count, and each block in them once'

# A table without the key of the schema: a failure has two rows, and a row is of no failure.
make_trace "$trace" "DROP TABLE refusal; CREATE TABLE refusal(allocation_id INTEGER, layer_id INTEGER, text TEXT);
    INSERT INTO refused VALUES (1, 1, 10, 20), (2, 1, 10, 30);
    DELETE FROM layer; INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''),
        (2, 3, 'fault', 'nth=1'), (3, 1, 'limit', 'limit=x, count=0'), (4, 4, 'pool', 'maximum=\"{');
    INSERT INTO layer_bin VALUES (3, 5, 3), (2, -1, 77), (9, 9, 9);
    INSERT INTO refusal(allocation_id, layer_id, text) VALUES (1, NULL, 'fault: planted ' || char(27) || '[31m'), ('x', 'y', 5), (2, 4, NULL), (2, 2, 'again');"
ask failures "$trace" >"$scratch/out"
is "$? $(grep -c 'cause       planted' "$scratch/out") $(grep -c "$(printf '\033')" "$scratch/out")" '0 1 0' \
    'failures takes layers in a circle and refusals that cannot be, and tells a planted failure by its words'

# Calls of thread 1: a retry (2) under log 1 asks log 3 twice, from 100 to 140; the request of 200 to 240 fails for good.
retried="DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'retry', ''),
        (3, 4, 'log', ''), (4, 5, 'limit', '64'), (5, NULL, 'sim', '');
    INSERT INTO thread VALUES (2, 101, 'other');
    INSERT INTO refused VALUES (1, 3, 500, 110), (5, 3, 600, 220), (6, 1, 600, 240), (7, 3, 700, 250);
    INSERT INTO life VALUES (2, 1, 8, 115, NULL), (3, 3, 500, 130, NULL), (4, 1, 500, 140, NULL), (8, 1, 700, 260, NULL);
    UPDATE allocation SET alloc_duration_ns = 40 WHERE allocation_id IN (4, 6);
    UPDATE allocation SET alloc_thread_id = 2 WHERE allocation_id IN (2, 8);"
make_trace "$trace" "$retried"
has_words "$(ask failures --json "$trace")" '"made_good":[{"layer_id":3,"refused_by_layer_id":4,"refused_by":"layer 4 limit(64)","made_good_by_layer_id":2,"made_good_by":"layer 2 retry","count":1,"bytes":500,"first_ns":110,"first_allocation_id":1}],"refused":[{"layer_id":1,"refused_by_layer_id":4,"refused_by":"layer 4 limit(64)","made_good_by_layer_id":null,"made_good_by":null,"count":1,"bytes":600,' \
    'failures tells what a retry made good from what failed for good, by the call of the same thread around it'
json=$(ask failures --layer=3 --json "$trace")
has_words "$json" '"failures_count":2,"failed_bytes":1300,"allocations":1,"made_good_count":1,"cause":"limit","tag":null,"callstack":null,"refused_by"' \
    'failures --layer leaves out of its count what a layer above made good'
has_words "$(ask failures "$trace")" 'made good   1 below, of which the program saw nothing' 'the table says what was made good'

make_trace "$trace" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'retry', ''),
        (3, 5, 'fallback', ''), (4, 5, 'limit', '64'), (5, 6, 'pool', 'maximum=64'), (6, NULL, 'sim', 'capacity=1000');
    INSERT INTO layer_bin VALUES (3, 9223372036854775807, 4);
    INSERT INTO refused VALUES (1, 1, 500, 110), (2, 1, 500, 111);
    INSERT INTO refusal(allocation_id, layer_id, text) VALUES (1, NULL, 'retry: fallback: limit: no; then sim: no (asked 3 times)');"
has_words "$(ask failures --json "$trace")" '"refused_by":"layer 6 sim(capacity=1000)","text":"retry' \
    'behind a retry and a fallback, the last words name the layer that refused'

make_trace "$trace" "DELETE FROM layer; INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', NULL),
    (2, NULL, 'driver', '', 1), (11, 12, 'log', '', NULL), (12, NULL, 'driver', '', 0);
    INSERT INTO meta VALUES ('devices', '[{\"device\":0,\"name\":\"a\",\"total_bytes\":1000},{\"device\":1,\"name\":\"b\",\"total_bytes\":4000}]');
    INSERT INTO life VALUES (1, 1, 3000, 10, NULL), (2, 11, 900, 11, NULL);
    INSERT INTO refused VALUES (3, 11, 200, 20); UPDATE allocation SET status = 3 WHERE allocation_id = 3;"
has_words "$(ask failures --json "$trace")" '"cause":"device full","tag":null,"callstack":null,"refused_by":"layer 12 driver of device 0"' \
    'a full device is full, whatever another device has left'
has_words "$(ask failures "$trace")" '900 B of the memory of the device of 1000 B was in use, and 200 B more was needed' 'failures names the device and its memory'

make_trace "$trace" "DELETE FROM layer; INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', NULL),
    (2, NULL, 'vmm', 'maximum=8MiB', 0);
    INSERT INTO life VALUES (1, 1, 5000000, 10, NULL);
    INSERT INTO refused VALUES (2, 1, 3000000, 20); UPDATE allocation SET status = 3 WHERE allocation_id = 2;"
has_words "$(ask failures "$trace")" '6 MiB of the maximum of 8 MiB was in use' 'failures counts requests to vmm in whole pages'
has_words "$(ask failures "$trace")" 'vmm(maximum=10240KiB) would have sufficed' \
    'failures names the maximum of vmm that would have sufficed'

# Six steps: 100 bytes of tag cache stay after each, and tag work is freed.
steps="
    INSERT INTO tag VALUES (1, NULL, 'cache'), (2, NULL, 'work');
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 9000, 11, 19), (3, 1, 100, 20, NULL), (4, 1, 9000, 21, 29),
        (5, 1, 100, 30, NULL), (6, 1, 9000, 31, 39), (7, 1, 100, 40, NULL), (8, 1, 9000, 41, 49),
        (9, 1, 100, 50, NULL), (10, 1, 9000, 51, 59), (11, 1, 100, 60, NULL), (12, 1, 9000, 61, 69);
    UPDATE allocation SET tag_id = 2 - allocation_id % 2;"
make_trace "$trace" "$steps"
json=$(ask leaks --json "$trace")
is $? 0 'blocks that are live at the end are no finding of leaks'
has_words "$json" '"live_bytes":600,"live_count":6,"end_ns":69,"suppressed_bytes":0,"suppressed_count":0,"ended":"closed","groups":[{"name":"cache","callstack":null,"id":1,"size":null,"live_bytes":600,"live_share":1,"live_count":6,"allocations":6,"oldest_ns":10}]' \
    'leaks has the live blocks by tag, the number of its allocations and the time of the oldest'
has_words "$json" '"steps_source":"rhythm","steps_text":null,"steps_count":4,"growth":[{"name":"cache","callstack":null,"id":1,"size":null,"growth_bytes":400,"step_bytes":100,"first_bytes":100,"last_bytes":500,"rose":4,"fell":0}]' \
    'leaks takes the lows of the live bytes as ends of steps, over which a tag grows'
has_words "$json" '"notes":["tag cache grew in 4 of 4 steps, by 100 B a step."]' \
    'a note of leaks names the tag that grows'
has_words "$(ask leaks --steps=none --json "$trace")" '"steps_source":"none","steps_text":null,"steps_count":0,"growth":[]' \
    'leaks --steps=none looks for no steps'
has_words "$(ask leaks --blocks=2 --json "$trace")" '"blocks":[{"allocation_id":1,"size":100,' \
    'leaks --blocks lists allocations'
has_words "$(ask leaks --to=55 --json "$trace")" '"live_bytes":9500,"live_count":6' \
    'leaks --to has what is live at that time'
has_words "$(ask leaks --tag=work "$trace")" 'Nothing is live at the end.' 'leaks says that nothing is live at the end'

make_trace "$trace" "$steps
    INSERT INTO mark VALUES (9, 1, 'mark', 'setup', NULL), (15, 1, 'mark', 'step 1', NULL), (30, 1, 'trim', 'step 8', 5),
        (35, 1, 'mark', 'step 2', NULL), (55, 1, 'mark', 'step 3', NULL), (65, 1, 'mark', 'step 4', NULL);"
has_words "$(ask leaks --by=tag --json "$trace")" '"steps_source":"marks","steps_text":"step ","steps_count":3,"growth":[{"name":"cache","callstack":null,"id":1,"size":null,"growth_bytes":500,"step_bytes":166,"first_bytes":100,"last_bytes":600,"rose":3,"fell":0}]' \
    'leaks takes marks that differ only in numbers as ends of steps'
has_words "$(ask leaks --steps='step [13]' --json "$trace")" '"steps_text":"step [13]","steps_count":1' \
    'leaks --steps takes marks of a text as ends of steps'
has_words "$(ask leaks --steps=rhythm --json "$trace")" '"steps_source":"rhythm"' \
    'leaks --steps=rhythm takes the lows although there are marks'
ask leaks --steps=nothing "$trace" >/dev/null
is "$? $(cat "$scratch/err")" "2 $trace: 0 marks have this text: steps take two" \
    'leaks --steps with a text of no mark is an error'

printf '# known\n\n  tag:cache\t\nsize:9000\nthread:no*\ncallstack:a|b\n' >"$scratch/known"
json=$(ask leaks --suppressions="$scratch/known" --json "$trace")
has_words "$json" '"live_bytes":0,"live_count":0,"end_ns":69,"suppressed_bytes":600,"suppressed_count":6,"ended":"closed","groups":[]' \
    'leaks leaves out and counts what a file of suppressions names'
has_words "$json" '"suppressions":[{"line":3,"pattern":"tag:cache","suppressed_bytes":600,"suppressed_count":6},{"line":4,"pattern":"size:9000","suppressed_bytes":0,"suppressed_count":0},' \
    'leaks counts suppressed blocks by line of the file, lines without a match included'
echo 'tags:cache' >"$scratch/known"
ask leaks --suppressions="$scratch/known" "$trace" >/dev/null
is "$? $(cat "$scratch/err")" "2 $scratch/known:1: tag:, callstack:, thread: or size: was expected: \"tags:cache\"" \
    'a line of the suppressions without a pattern is an error'
echo 'callstack:(' >"$scratch/known"
ask leaks --suppressions="$scratch/known" "$trace" >/dev/null
is "$? $(cat "$scratch/err")" "2 $scratch/known:1: no regular expression: \"callstack:(\"" \
    'an invalid regular expression in the suppressions is an error'
ask leaks --suppressions="$scratch/none" "$trace" >/dev/null
is "$? $(cat "$scratch/err")" "2 $scratch/none: No such file or directory" 'a missing file of suppressions is an error'

make_trace "$trace" "UPDATE meta SET value = 0 WHERE key = 'complete'; INSERT INTO life VALUES (1, 1, 100, 10, NULL);"
has_words "$(ask leaks "$trace")" 'The recording did not come to its end: what is live may be in use.' \
    'leaks says of a recording that did not end that live blocks may be in use'

other=$scratch/u.db
make_trace "$trace" "INSERT INTO tag VALUES (1, NULL, 'a'), (2, NULL, 'b');
    INSERT INTO life VALUES (1, 1, 1000, 10, 50), (2, 1, 500, 20, 50); UPDATE allocation SET tag_id = allocation_id;"
make_trace "$other" "INSERT INTO tag VALUES (1, NULL, 'b'), (2, NULL, 'c');
    INSERT INTO life VALUES (1, 1, 800, 10, 60), (2, 1, 720, 20, NULL); UPDATE allocation SET tag_id = allocation_id;"
json=$(ask diff --json --by=tag "$trace" "$other")
is $? 1 'a higher peak is a finding of diff'
has_words "$json" '{"figure":"peak_bytes","a":1500,"b":1520,"change":20,"change_share":0.013333333333333334,"worse":true,"memory":null}' \
    'diff has the peaks of both traces'
has_words "$json" '{"figure":"live_bytes","a":0,"b":720,"change":720,"change_share":null,"worse":null,"memory":null}' 'diff has other figures, which it does not judge'
has_words "$json" '"tags":[{"name":"a","callstack":null,"size":null,"change_bytes":-1000,"a_bytes":1000,"b_bytes":0,"a_count":1,"b_count":0},{"name":"c","callstack":null,"size":null,"change_bytes":720,"a_bytes":0,"b_bytes":720,"a_count":0,"b_count":1},{"name":"b","callstack":null,"size":null,"change_bytes":300,"a_bytes":500,"b_bytes":800,"a_count":1,"b_count":1}]' \
    'diff aligns tags by their names, the greatest change first'
has_words "$json" '"The peak is 20 B higher; tag c has 720 B more at it."' \
    'a note of diff names the tag with the greatest change at the peak'
has_words "$json" '"B is worse than A: peak +20 B."' 'a note of diff says which figure is worse'
words=$(ask diff --tolerance=2% "$trace" "$other")
is $? 0 'a change within --tolerance is no finding of diff'
has_words "$words" 'B is no worse than A, with a tolerance of 2%.' 'diff says that the change is within the tolerance'
ask diff "$other" "$trace" >/dev/null
is $? 0 'a lower peak is no finding of diff'
has_words "$(ask diff "$trace" "$other")" 'SIZE' 'without --by diff also aligns groups by size'
# Two GPUs: together the peak is lower, on GPU 1 it is higher; and the program was killed.
gpus="DELETE FROM layer; INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES
    (1, 2, 'log', '', 0), (2, NULL, 'driver', '', 0), (3, 4, 'log', '', 1), (4, NULL, 'driver', '', 1);"
make_trace "$scratch/gpus-a.db" "$gpus INSERT INTO life VALUES (1, 1, 3000000, 10, 20), (2, 3, 1000000, 15, NULL);"
make_trace "$scratch/gpus-b.db" "$gpus INSERT INTO life VALUES (1, 1, 1000000, 10, 20), (2, 3, 2000000, 15, NULL);
    INSERT INTO meta VALUES ('ended', 'recovered');"
json=$(ask diff --json "$scratch/gpus-a.db" "$scratch/gpus-b.db")
is $? 1 'a higher peak of one GPU is a finding of diff, although that of both together is lower'
has_words "$json" '{"figure":"peak_bytes","a":4000000,"b":3000000,"change":-1000000,"change_share":-0.25,"worse":null,"memory":null},{"figure":"peak_bytes","a":3000000,"b":1000000,"change":-2000000,"change_share":-0.66666666666666663,"worse":false,"memory":"1 log, GPU 0"},{"figure":"peak_bytes","a":1000000,"b":2000000,"change":1000000,"change_share":1,"worse":true,"memory":"3 log, GPU 1"}' \
    'diff has the peak of each GPU, and judges no sum of them'
has_words "$json" '{"figure":"live_bytes","a":1000000,"b":2000000,"change":1000000,"change_share":1,"worse":null,"memory":"3 log, GPU 1"}' \
    'diff has what is live of each GPU'
words=$(ask diff "$scratch/gpus-a.db" "$scratch/gpus-b.db")
has_words "$words" 'B is worse than A: peak (3 log, GPU 1) +976.6 KiB.' 'diff says which GPU is worse'
has_words "$words" 'Live in the end: of A it is what was live at the end, of B what was live when it was killed.' \
    'diff says how each program ended where that is not the same'
has_words "$(ask diff "$scratch/gpus-b.db" "$scratch/gpus-b.db")" 'live when it was killed (3 log, GPU 1)' \
    'diff calls what two killed programs had live by how they ended'
ask diff "$scratch/gpus-a.db" "$scratch/gpus-a.db" >/dev/null
is $? 0 'diff of a trace of two GPUs with itself is no finding'
words=$(ask check --baseline="$scratch/gpus-a.db" "$scratch/gpus-b.db")
is $? 1 'check fails where one GPU is worse than that of the baseline'
has_words "$words" '3 log, GPU 1: the peak is 1.91 MiB: 976.6 KiB more than the 976.6 KiB of the baseline' \
    'check says which GPU is worse than that of the baseline'
has_words "$(ask peak "$scratch/gpus-a.db")" 'This is of 2 kinds of memory together: `tidemark summary` has the peak of each, and --layer looks at those of one log.' \
    'peak says that it is of two GPUs together'
is "$(ask peak --layer=3 "$scratch/gpus-a.db" | grep -c together)" 0 'peak of the log of one GPU does not'
# The peaks are the same; what is reserved is a byte more than 6 GiB.
for bytes in 6442450944 6442450945; do
    make_trace "$scratch/$bytes.db" "INSERT INTO life VALUES (1, 1, 3000, 10, 20);
        INSERT INTO pool_sample VALUES (15, 2, 3000, $bytes, $bytes);"
done
is "$(ask check --baseline="$scratch/6442450944.db" "$scratch/6442450945.db" | sed -n 2p | tr -s ' ' | cut -d ' ' -f 1,4-)" \
    'FAILED 6442450944 B 6442450945 B' 'check shows the reserved bytes where these fail beside a baseline, not the peak'
ask check --baseline="$scratch/6442450945.db" "$scratch/6442450944.db" >/dev/null
is $? 0 'check passes where less is reserved than in the baseline'
make_trace "$other" "UPDATE meta SET value = 0 WHERE key = 'complete';"
ask diff "$other" "$trace" >/dev/null
is "$? $(grep -c 'cut off' "$scratch/err")" '3 1' 'diff exits with 3 if trace A is incomplete'
ask diff "$trace" "$other" >/dev/null
is "$? $(grep -c 'cut off' "$scratch/err")" '3 1' 'diff exits with 3 if trace B is incomplete'

# Three allocations: on stream 1 of device 0, on stream 2 of device 0, on stream 3 of device 1.
make_trace "$trace" "INSERT INTO stream VALUES (2, 16, 0), (3, 32, 1);
    INSERT INTO life VALUES (1, 1, 1, 10, NULL), (2, 1, 20, 11, NULL), (3, 1, 300, 12, NULL);
    UPDATE allocation SET alloc_stream_id = allocation_id"
for filters in '--device=0' '--device=0 --stream=1' '--stream=1 --device=1' \
    '--device=0 --device=1 --stream=2 --stream=3'; do
    # shellcheck disable=SC2086 # a list of words
    ask leaks --json $filters "$trace" | sed 's/.*"live_bytes":\([0-9]*\),"live_count":[0-9]*,"end_ns".*/\1/'
done >"$scratch/out"
is "$(tr '\n' ' ' <"$scratch/out")" '21 1 0 320 ' \
    '--stream and --device must both match, and repeated ones widen the choice'

# One allocation that reaches over both edges, one within, and their driver calls.
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, 90), (2, 1, 100, 40, 50);
    UPDATE allocation SET alloc_duration_ns = 1000 * allocation_id, free_duration_ns = 100 * allocation_id;
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)
        VALUES (1, 0, 'a', 0, 1, 1, 0), (1, 1, 'f', 90, 2, 1, 0), (2, 0, 'a', 39, 4, 1, 0), (2, 1, 'f', 50, 8, 1, 0)"
has_words "$(ask top --json "$trace")" '"time_ns":3300,"time_share":1,"driver_ns":15,"driver_share":1,"driver_calls":4' \
    'top counts the time of all calls'
has_words "$(ask top --from=30 --to=60 --json "$trace")" \
    '"allocations":2,"frees":1,' 'top with a part of the time counts calls that reach over its edges'
has_words "$(ask top --from=30 --to=60 --json "$trace")" \
    '"time_ns":2200,"time_share":1,"driver_ns":12,"driver_share":1,"driver_calls":2' \
    'top with a part of the time leaves out calls beyond its edges'

done_testing
