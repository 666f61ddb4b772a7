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

plan 43

make_trace "$trace" "$two_chunks
    INSERT INTO refused VALUES (6, 1, 700000, 50), (7, 1, 3000000, 51), (8, 1, 4096, 52), (9, 1, 500000, 53);
    UPDATE allocation SET status = 3 WHERE allocation_id IN (6, 7, 9);"
json=$(ask failures --json "$trace")
is $? 0 'failures that are listed are no finding'
has_words "$json" '"source":"layers","failures_count":4,"failed_bytes":4204096,"causes":[{"cause":"limit","count":1},{"cause":"capacity","count":1},{"cause":"fragmentation","count":1},{"cause":"unused hole","count":1}]' \
    'failures has four causes: a limit, a full pool, no hole that is large enough, and an unused hole'
has_words "$json" '"allocation_id":6,"ns":50,"size":700000,"status":"TIDE_ECAPACITY","cause":"fragmentation","live_bytes":608192,"live_count":3,"reserved_bytes":2097152,"free_bytes":1488896,"largest_hole_bytes":524288' \
    'failures has the live, reserved and free bytes and the largest hole at a failure'
has_words "$json" '"pinned_by":"#2 4 KiB cache"' 'failures has the block in the emptiest chunk'
has_words "$(ask failures "$trace")" 'fragmentation 593.9 KiB    2 MiB 1.42 MiB' \
    'the table of failures has the fragmentation, the reserved and the free bytes'
has_words "$(ask failures --limit=1 "$trace")" 'These are the first 1 of 4.' \
    'failures --limit says how many failures it leaves out'
has_words "$(ask failures --to=50 --json "$trace")" '"failures_count":1' 'failures --to ignores later failures'

make_trace "$trace" "INSERT INTO refused VALUES (1, 1, 700, 50); UPDATE allocation SET status = 7;
    INSERT INTO pool_sample VALUES (40, 2, 1000, 2000);"
has_words "$(ask failures --json "$trace")" '"source":"samples","failures_count":1,"failed_bytes":700,"causes":[{"cause":"fragmentation","count":1}]' \
    'without a log below the pool, failures takes the free bytes from the pool sample before'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 700, 50, 60);"
has_words "$(ask failures "$trace")" 'No allocation failed.' 'failures says that no allocation failed'

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
has_words "$json" '"live_bytes":600,"live_count":6,"end_ns":69,"suppressed_bytes":0,"suppressed_count":0,"ended":"closed","groups":[{"name":"cache","bytes":600,"share":1,"count":6,"allocations":6,"oldest_ns":10}]' \
    'leaks has the live blocks by tag, the number of its allocations and the time of the oldest'
has_words "$json" '"steps_source":"rhythm","steps_count":4,"growth":[{"name":"cache","growth_bytes":400,"step_bytes":100,"first_bytes":100,"last_bytes":500,"rose":4,"fell":0}]' \
    'leaks takes the lows of the live bytes as ends of steps, over which a tag grows'
has_words "$json" '"notes":["tag cache grew in 4 of 4 steps, by 100 B a step."]' \
    'a note of leaks names the tag that grows'
has_words "$(ask leaks --steps=none --json "$trace")" '"steps_source":"none","steps_count":0' \
    'leaks --steps=none looks for no steps'
has_words "$(ask leaks --blocks=2 --json "$trace")" '"blocks":[{"allocation_id":1,"size":100,' \
    'leaks --blocks lists allocations'
has_words "$(ask leaks --to=55 --json "$trace")" '"live_bytes":9500,"live_count":6' \
    'leaks --to has what is live at that time'
has_words "$(ask leaks --tag=work "$trace")" 'Nothing is live at the end.' 'leaks says that nothing is live at the end'

make_trace "$trace" "$steps
    INSERT INTO mark VALUES (9, 1, 'mark', 'setup', NULL), (15, 1, 'mark', 'step 1', NULL), (30, 1, 'trim', 'step 8', 5),
        (35, 1, 'mark', 'step 2', NULL), (55, 1, 'mark', 'step 3', NULL), (65, 1, 'mark', 'step 4', NULL);"
has_words "$(ask leaks --by=tag --json "$trace")" '"steps_source":"marks","steps_text":"step ","steps_count":3,"growth":[{"name":"cache","growth_bytes":500,"step_bytes":166,"first_bytes":100,"last_bytes":600,"rose":3,"fell":0}]' \
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
has_words "$json" '"suppressions":[{"line":3,"pattern":"tag:cache","bytes":600,"count":6},{"line":4,"pattern":"size:9000","bytes":0,"count":0},' \
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
has_words "$json" '{"figure":"peak_bytes","a":1500,"b":1520,"change":20,"change_share":0.013333333333333334,"worse":true}' \
    'diff has the peaks of both traces'
has_words "$json" '{"figure":"live_bytes","a":0,"b":720,"change":720}' 'diff has other figures, which it does not judge'
has_words "$json" '"tags":[{"name":"a","change_bytes":-1000,"a_bytes":1000,"b_bytes":0,"a_count":1,"b_count":0},{"name":"c","change_bytes":720,"a_bytes":0,"b_bytes":720,"a_count":0,"b_count":1},{"name":"b","change_bytes":300,"a_bytes":500,"b_bytes":800,"a_count":1,"b_count":1}]' \
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
    ask leaks --json $filters "$trace" | sed 's/.*"live_bytes":\([0-9]*\),.*/\1/'
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
