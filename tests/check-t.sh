# Tests `tidemark check`: programs that keep to a budget or break it, and each budget over traces made by hand.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

check() {
    "$tidemark" check "$@" 2>"$scratch/err"
}

# failures JSON: the words of each failed budget.
broken() {
    echo "$1" | tr '{' '\n' | sed -n 's/^"budget":"\([^"]*\)","passed":false.*/\1/p' | tr '\n' ' '
}

plan 63

# Two programs with one budget.
printf '# of the nightly job\n\nmax-peak 1MiB\nmax-peak = tag=work:1MiB\n  no-leaks\nmax-failures 0\n' >"$scratch/budget"
"$top_builddir/tests/spender" "$scratch/good.db" 100000 0 || exit 99
"$top_builddir/tests/spender" "$scratch/bad.db" 200000 1 || exit 99
check --budget="$scratch/budget" "$scratch/good.db" >"$scratch/out"
is "$? $(cat "$scratch/err")" '0 ' 'a program that keeps to its budget passes'
is "$(grep -c '^ok ' "$scratch/out")" 4 'each line of the budget is judged'
check --budget="$scratch/budget" "$scratch/bad.db" >"$scratch/out"
is "$? $(cat "$scratch/err")" '1 ' 'a program that breaks its budget is a finding'
is "$(grep -c '^FAILED' "$scratch/out")" 3 'only the lines of the budget that it breaks fail'
has_words "$(cat "$scratch/out")" 'the peak is 1.91 MiB, 929.1 KiB (90.7%) over the 1 MiB allowed' \
    'check says by how much the peak exceeds the budget'
has_words "$(cat "$scratch/out")" 'tag work has 1.91 MiB of it (100.0%); without it the peak is 0 B' \
    'check says which tag has how much of the peak'
has_words "$(cat "$scratch/out")" "tag work: 1 of its 10 allocations, 195.3 KiB, since" \
    'check says what is live at the end, and of which tag'
is "$(sed -n '/^no-leaks:/,$p' "$scratch/out" | grep -c '^  ')" 3 'check explains a failed line in at most five lines'
"$top_builddir/tests/spender" "$scratch/better.db" 100000 0 || exit 99
check --baseline="$scratch/good.db" "$scratch/better.db" >"$scratch/out"
is $? 0 'a program as good as its baseline passes'
check --baseline="$scratch/good.db" --tolerance=50% "$scratch/bad.db" >"$scratch/out"
is $? 1 'a program worse than its baseline is a finding'
has_words "$(cat "$scratch/out")" 'the peak is 1.91 MiB: 976.6 KiB more than the 976.6 KiB of the baseline, of which 50% are tolerated' \
    'check says by how much the peak exceeds the baseline'
has_words "$(cat "$scratch/out")" 'tag work: +976.6 KiB at the peak, from 976.6 KiB to 1.91 MiB' \
    'check says which tag has grown since the baseline'
check --baseline="$scratch/good.db" --tolerance=100% "$scratch/bad.db" >/dev/null
is $? 0 'a program worse than its baseline within the tolerance passes'

# Each budget at its limit, and one beyond it.
make_trace "$trace" "
    INSERT INTO tag VALUES (1, NULL, 'a'), (2, NULL, 'b');
    INSERT INTO life VALUES (1, 1, 3000, 10, 40), (2, 1, 1000, 20, 40), (3, 1, 500, 50, 60);
    INSERT INTO refused VALUES (4, 1, 9999, 70), (5, 1, 9999, 80);
    UPDATE allocation SET tag_id = allocation_id WHERE allocation_id < 3;
    INSERT INTO pool_sample VALUES (5, 2, 0, 0, 0), (30, 2, 4000, 5000, 5000), (50, 2, 500, 5000, 5000);"
check --max-peak=4000 --max-peak=tag=a:3000 --max-peak=layer=1:4000 --max-reserved=5000 --max-fragmentation=20% \
    --max-allocations=3 --max-allocations=tag=b:1 --max-failures=2 --no-leaks "$trace" >"$scratch/out"
is "$? $(cat "$scratch/err")" '0 ' 'a program exactly at every limit passes'
json=$(check --max-peak=3999 --max-peak=tag=a:2999 --max-peak=layer=1:3999 --max-reserved=4999 \
    --max-fragmentation=19.9% --max-allocations=2 --max-allocations=tag=b:0 --max-failures=1 --json "$trace")
is $? 1 'a program one beyond every limit is a finding'
is "$(broken "$json")" 'max-peak max-peak tag=a max-peak layer=1 max-reserved max-fragmentation max-allocations max-allocations tag=b max-failures ' \
    'every limit that is exceeded by one fails'
has_words "$json" '"passed":false,"failed_count":8,' 'the object has the number of failed limits'
has_words "$json" '{"budget":"max-peak tag=a","passed":false,"unknown":false,"limit":2999,"seen":3000,"limit_share":null,"seen_share":null,' \
    'the object has each limit and its figure'
has_words "$json" '"limit_share":0.19' 'the object has limits that are shares'
has_words "$json" '2 allocations failed, 1 more than 1: limit 2' \
    'the object has the reason why an allocation limit failed'
has_words "$json" '3 allocations, 1 more than 2' 'the object has the reason why a count of allocations failed'
has_words "$json" 'of the 4.88 KiB reserved at most, 3.91 KiB were given out at most; 3.91 KiB were asked for' \
    'the object has the reason why the reserved bytes failed'
check --max-peak=3000 --to=15 "$trace" >/dev/null
is $? 0 'check takes filters of time'

# Blocks that are live at the end.
make_trace "$trace" "INSERT INTO tag VALUES (1, NULL, 'weights'); INSERT INTO life VALUES (1, 1, 300, 10, NULL);
    UPDATE allocation SET tag_id = 1;"
check --no-leaks "$trace" >"$scratch/out"
is "$? $(grep -c '1 allocation is live at the end, 300 B' "$scratch/out")" '1 1' 'a leak is a finding of check'
mkdir "$scratch/folder"
echo 'tag:weights' >"$scratch/folder/known"
printf 'no-leaks\nsuppressions known\n' >"$scratch/folder/budget"
check --budget="$scratch/folder/budget" "$trace" >/dev/null
is "$? $(cat "$scratch/err")" '0 ' 'a leak that a suppressions file beside the budget names is no finding'
check --no-leaks --suppressions="$scratch/folder/known" "$trace" >/dev/null
is $? 0 'a leak that --suppressions names is no finding'

# Fragmentation between two layers.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),
        (3, 4, 'log', ''), (4, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 3, 1048576, 10, NULL), (2, 1, 4096, 20, 50), (3, 1, 258048, 30, 40);
    UPDATE allocation SET address = 1048576 WHERE allocation_id = 1;
    UPDATE allocation SET address = 1048576 + 262144 WHERE allocation_id = 2;
    UPDATE allocation SET address = 1048576 + 524288 WHERE allocation_id = 3;"
check --max-fragmentation=75% "$trace" >/dev/null
is $? 0 'reserved bytes that were never given out pass up to the allowed share'
check --max-fragmentation=74% "$trace" >"$scratch/out"
is $? 1 'reserved bytes that were never given out fail beyond the allowed share'
has_words "$(cat "$scratch/out")" 'at the peak 768 KiB were free in 3 holes, the largest of 260 KiB' \
    'check names the holes at the peak'
has_words "$(cat "$scratch/out")" 'then a chunk with 768 KiB free of its 1 MiB was held by #2 4 KiB, #3 252 KiB' \
    'check names the blocks that hold a chunk'

# A GPU of which nothing was used says nothing of the other one.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0),
        (2, 3, 'pool', '', 0), (3, 4, 'log', '', 0), (4, NULL, 'driver', '', 0), (5, 6, 'log', '', 1),
        (6, 7, 'pool', '', 1), (7, 8, 'log', '', 1), (8, NULL, 'driver', '', 1);
    INSERT INTO life VALUES (1, 3, 1048576, 5, 90), (2, 1, 1024, 10, 20);"
check --max-fragmentation=10% "$trace" >"$scratch/out"
is "$? $(sed -n 2p "$scratch/out")" '1 FAILED max-fragmentation 10.0% 99.9%' \
    'fragmentation of one GPU is a finding where another GPU has nothing reserved'

# Sizes that would read the same.
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 6442450945, 10, 20), (2, 1, 12884901888, 30, 40);
    INSERT INTO pool_sample VALUES (15, 2, 6442450945, 6442450945, 6442450945);"
check --max-peak=6GiB --to=25 "$trace" >"$scratch/out"
is "$(sed -n 2p "$scratch/out" | tr -s ' ')" 'FAILED max-peak 6442450944 B 6442450945 B' \
    'check shows a peak and its limit in bytes where both would read 6 GiB'
has_words "$(cat "$scratch/out")" 'the peak is 6442450945 B, 1 B over the 6442450944 B allowed' \
    'the reason why a peak failed has exact sizes where both would read 6 GiB'
check --max-reserved=6GiB --to=25 "$trace" >"$scratch/out"
has_words "$(cat "$scratch/out")" '6442450945 B were reserved, 1 B over the 6442450944 B allowed' \
    'the reason why reserved memory failed has exact sizes where both would read 6 GiB'

# What groups are by.
make_trace "$trace" "
    INSERT INTO frame VALUES (1, 1, NULL, 'take', 'a.c', 7), (2, 2, NULL, 'take', 'a.c', 9), (3, 3, NULL, 'main', 'm.c', 1),
        (4, 4, NULL, 'wrap', 'w.c', 1);
    INSERT INTO callstack VALUES (1, 0, 4), (1, 1, 1), (1, 2, 3), (2, 0, 4), (2, 1, 2), (2, 2, 3);
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL);
    UPDATE allocation SET callstack_id = allocation_id;"
check --no-leaks "$trace" >"$scratch/out"
is "$(grep -c '^  call stack wrap .w.c:1. < take' "$scratch/out")" 2 'check tells call stacks of two lines apart'
check --no-leaks --by=function "$trace" >"$scratch/out"
has_words "$(cat "$scratch/out")" 'call stack wrap (w.c) < take (a.c) < ...: 2 of its 2 allocations' \
    'with --by=function check names call stacks without their lines'
check --no-leaks --by=function --skip=wrap "$trace" >"$scratch/out"
has_words "$(cat "$scratch/out")" 'call stack take (a.c) < main (m.c): 2 of its 2 allocations' \
    'with --skip check leaves frames out'
check --max-peak=1 --frames=1 "$trace" >"$scratch/out"
has_words "$(cat "$scratch/out")" 'call stack wrap (w.c:1) has 300 B of it (100.0%)' \
    'with --frames only so many frames count for check'
check --baseline="$trace" --by=size "$trace" >/dev/null
is $? 0 'check takes --by with a baseline'
check --max-reserved=1GiB --by=size "$trace" >/dev/null
is "$? $(head -n 1 "$scratch/err")" \
    '2 tidemark check: --by is for --max-peak, --max-allocations, --no-leaks and --baseline' \
    '--by is wrong use where no budget has groups'
check --no-leaks --by=size --frames=2 "$trace" >/dev/null
is "$? $(head -n 1 "$scratch/err")" '2 tidemark check: --frames is for groups by callstack or function' \
    '--frames is wrong use where groups are not of call stacks'
check --no-leaks --skip=nothing "$trace" >/dev/null
is "$? $(cut -d: -f 2 "$scratch/err")" '2  no frame of a call stack fits "nothing"' \
    '--skip with a pattern that no frame fits is an error of check'

# TAP and JUnit.
make_trace "$trace" "INSERT INTO tag VALUES (1, NULL, 'a<b&#' || char(27) || 'c');
    INSERT INTO life VALUES (1, 1, 3000, 10, NULL); UPDATE allocation SET tag_id = 1;"
check --tap --max-peak=3000 --no-leaks "$trace" >"$scratch/out"
is "$? $(sed -n 1,3p "$scratch/out" | tr '\n' '|')" \
    '1 1..2|ok 1 - max-peak: 2.93 KiB of 2.93 KiB allowed|not ok 2 - no-leaks: 1 of 0 allowed|' '--tap prints TAP'
has_words "$(cat "$scratch/out")" '#   tag a<b&#\x1bc: 1 of its 1 allocations' \
    '--tap prints the reasons as comments, escaped'
check --tap --max-peak='tag=a*:1' "$trace" >"$scratch/out"
has_words "$(cat "$scratch/out")" 'not ok 1 - max-peak tag=a*: 2.93 KiB of 1 B allowed' \
    '--tap names the tags of a limit'
check --junit --max-peak=3000 --no-leaks "$trace" >"$scratch/out"
is "$? $(sed -n 2,3p "$scratch/out" | tr '\n' '|')" \
    "1 <testsuite name=\"$trace\" tests=\"2\" failures=\"1\">|  <testcase classname=\"tidemark\" name=\"max-peak\"/>|" \
    '--junit prints XML'
has_words "$(cat "$scratch/out")" 'tag a&lt;b&amp;#\x1bc: 1 of its' '--junit prints the reasons, escaped'
if command -v xmllint >/dev/null; then
    ok '--junit prints well-formed XML' xmllint --noout "$scratch/out"
elif command -v python3 >/dev/null; then
    ok '--junit prints well-formed XML' \
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$scratch/out"
else
    skip 1 'no xmllint and no python3 here'
fi
make_trace "$trace" "UPDATE meta SET value = 0 WHERE key = 'complete';"
check --tap --max-peak=1 "$trace" >"$scratch/out"
is "$? $(tail -n 2 "$scratch/out" | tr '\n' '|')" '3 not ok 2 - the recording is complete|#   it was cut off|' \
    'with --tap an incomplete trace is one more failed test'
check --junit --max-peak=1 "$trace" >"$scratch/out"
is "$? $(grep -c 'tests="2" failures="1"' "$scratch/out")" '3 1' \
    'with --junit an incomplete trace is one more failed test'
check --max-peak=1 "$trace" >/dev/null
is $? 3 'an incomplete trace gives exit status 3'
check --baseline="$trace" "$scratch/good.db" >/dev/null
is $? 3 'an incomplete baseline gives exit status 3'
cp "$scratch/good.db" "$scratch/cut.db"
"$SQLITE3" "$scratch/cut.db" "UPDATE meta SET value = 0 WHERE key = 'complete'" || exit 99
check --tap --baseline="$scratch/cut.db" "$scratch/good.db" >"$scratch/out"
is "$? $(head -n 1 "$scratch/out") $(grep '^not ok' "$scratch/out")" '3 1..2 not ok 2 - the recording of the baseline is complete' \
    'with --tap an incomplete baseline is one more failed test'
check --junit --baseline="$scratch/cut.db" "$scratch/good.db" >"$scratch/out"
is "$? $(grep -c 'tests="2" failures="1"' "$scratch/out") $(grep -c '<failure' "$scratch/out")" '3 1 1' \
    'with --junit an incomplete baseline is one more failed test'

# More budgets than one pass over the trace serves: each says what it says alone.
rows() {
    check "$@" --json "$scratch/bad.db" | tr '{' '\n' | sed -n 's/^\("budget":[^}]*\)}.*/\1/p'
}
set -- --max-failures=0 --no-leaks
for n in 1 5 9 10 19 20; do
    set -- "$@" --max-peak=${n}00KiB --max-peak=tag=work:${n}00KiB --max-allocations=$n
done
for budget; do
    rows "$budget"
done | sort >"$scratch/alone"
rows "$@" | sort >"$scratch/together"
is "$(wc -l <"$scratch/together") $(cmp "$scratch/alone" "$scratch/together")" '20 ' \
    'twenty budgets together say what each says alone'

# Wrong use.
check "$trace" >/dev/null
is "$? $(head -n 1 "$scratch/err")" '2 tidemark check: which budget? --max-peak=4GiB, say, or --no-leaks' \
    'check without a budget is wrong use'
check --max-peak=lots "$trace" >/dev/null
is "$? $(head -n 1 "$scratch/err")" '2 tidemark check: --max-peak: a size was expected, as 4GiB' \
    'a budget that is no size is wrong use'
check --max-failures=tag=a:3 "$trace" >/dev/null
is "$? $(head -n 1 "$scratch/err")" '2 tidemark check: --max-failures: no tag was expected' \
    'a tag for a budget that takes none is wrong use'
check --max-peak=layer=7:1GiB "$scratch/good.db" >/dev/null
is "$? $(cat "$scratch/err")" "2 $scratch/good.db: no layer that records \"7\"" \
    'a budget for a layer that does not exist is an error'
printf 'no-leaks\nmax-peek 4GiB\n' >"$scratch/budget"
check --budget="$scratch/budget" "$trace" >/dev/null
is "$? $(sed 's/: a budget.*//' "$scratch/err")" "2 $scratch/budget:2" \
    'an unknown word in a budget file is an error, with its line'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 3000, 10, NULL);"
check --max-reserved=1GiB --max-fragmentation=10% --max-peak=3000 "$trace" >"$scratch/out"
is "$? $(grep -c '^UNKNOWN' "$scratch/out") $(grep -c '^ok' "$scratch/out")" '3 2 1' \
    'a budget for reserved memory of which the trace says nothing is unknown, and gives exit status 3'
has_words "$(cat "$scratch/out")" 'sim: no log below the pool, no chunks of it and no samples say what was reserved' \
    'check says why a budget is unknown'
check --max-reserved=2999 "$trace" >/dev/null
is $? 1 'a budget for reserved memory below what was live is a finding, whatever the trace says of reserved memory'

done_testing
