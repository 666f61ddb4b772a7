# Tests the output of `timeline`, `histogram` and `top` for traces made by hand.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

# ask COMMAND...: print the command's output; its messages go to err.
ask() {
    "$tidemark" "$@" 2>"$scratch/err"
}

plan 25

# 800 bytes from 0 to 40 of 80 ns, 400 more from 20 on, one that fails; 1600 reserved from 20 on; a limit of 2 KiB.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'limit', '2KiB, count=7'),
        (3, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 1, 800, 0, 40), (2, 1, 400, 20, 80);
    INSERT INTO refused VALUES (3, 1, 70, 50);
    INSERT INTO mark VALUES (60, 1, 'mark', 'here', NULL), (61, 1, 'refused_free', 'not a mark', NULL);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (20, 3, 1200, 1600);"
LC_ALL=C ask timeline --width=20 --height=4 "$trace" >"$scratch/seen"
is "$(sed '1,/^$/d' "$scratch/seen")" '     2 KiB |--------
           |  :::```
     1 KiB |::###```
           |########
       0 B +--------
            0 ns 80 ns
                 x
                  ^
            # live  ` reserved, at samples  - limit 2 KiB  x failed  ^ mark' \
    'the drawing has what is live, reserved, the limit, failures and marks'
is "$(ask timeline --width=4 --only=columns --format=csv "$trace")" 'ns,most_bytes,least_bytes,end_bytes,reserved_bytes,allocations,frees,failures,marks,memory
0,800,0,800,0,1,0,0,0,
20,1200,800,1200,1600,1,0,0,0,
40,1200,400,400,1600,0,1,1,0,
60,400,0,0,1600,0,1,0,1,' 'programs get the columns'
has_words "$(ask timeline --json --width=2 "$trace")" \
    '"begin_ns":0,"end_ns":80,"peak_bytes":1200,"peak_ns":20,"reserved_peak_bytes":1600,"reserved_peak_is_exact":false,"reserved_source":"samples","limit_bytes":2048' \
    'the object of timeline has the totals of the whole time'
make_trace "$trace"
has_words "$(LC_ALL=C ask timeline "$trace")" '0 ns 1 ns' 'timeline of a trace without an event draws a line'
ask timeline --width=100 --height=0 --ascii "$trace" >/dev/null
is $? 0 'timeline with a height of 0 draws one row'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 10, 0, 1000000);"
ask timeline --height=1000000000 --width=1000000000 --only=columns --format=csv "$trace" >"$scratch/seen"
is "$? $(wc -l <"$scratch/seen")" '0 100001' 'timeline with a very large width is bounded'

# Three allocations of 100 bytes, one of which stays live, and one of 5000 with a tag and a driver call.
make_trace "$trace" "
    INSERT INTO tag VALUES (1, NULL, 'big');
    INSERT INTO life VALUES (1, 1, 100, 0, 5), (2, 1, 100, 10, 60), (3, 1, 5000, 20, 40), (4, 1, 100, 50, NULL);
    INSERT INTO refused VALUES (5, 1, 70, 100);
    UPDATE allocation SET tag_id = 1 WHERE allocation_id = 3;
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)
        VALUES (3, 0, 'cuMemAllocAsync', 15, 4, 1, 0), (3, 1, 'cuMemFreeAsync', 41, 3, 1, 0);"
is "$(LC_ALL=C ask histogram --only=lifetimes "$trace" | tr -s ' ' | sed 's, *$,,')" 'Lifetimes
LIVED COUNT BYTES BYTE-SECONDS
1 ns to 10 ns 1 25.0% 100 B 1.9% 0.5% ##########
10 ns to 100 ns 2 50.0% 4.98 KiB 96.2% 95.0% ####################
to the end 1 25.0% 100 B 1.9% 4.5% ##########' 'lifetimes, with what is live at the end'
is "$(ask histogram --of=bytes --only=exact --format=csv "$trace" | cut -d, -f1,2,4,8)" 'size,allocations,total_bytes,mean_life_ns
5000,1,5000,20
100,3,300,27' 'exact sizes, in the order that was asked for'
has_words "$(ask histogram --json "$trace")" '"lifetimes_events":[{"from_events":0,"allocations":2,' \
    'histogram has lifetimes in events'
is "$(ask top --by=tag --sort=driver --format=csv --only=groups "$trace" | cut -d, -f 1,5-7,9,11,12,16,18,20)" \
    'name,allocations,frees,failures,total_bytes,peak_bytes,live_bytes,time_ns,driver_ns,driver_calls
big,1,1,0,5000,5000,0,20,7,2
(none),3,2,1,300,200,100,60,0,0' 'groups with the most time in the driver first'
# What a trace was imported from need not say how long calls took.
"$top_builddir/tests/make-trace" "$scratch/imported.db" "INSERT INTO life VALUES (1, 1, 10, 1, 5);
    UPDATE allocation SET alloc_duration_ns = 0, free_duration_ns = 0; INSERT OR REPLACE INTO meta VALUES ('clock', 'imported');" || exit 99
is "$(ask top --sort=time "$scratch/imported.db" | grep -c '0 ns')|$(ask top --sort=time "$scratch/imported.db" | tail -n 1)" \
    '0|The trace does not say how long the calls took.' 'top has no 0 ns for calls whose time was not recorded'
has_words "$(ask top --json "$scratch/imported.db")" '"time_ns":null,"time_share":null' \
    'the time in calls is null where it was not recorded'
# Driver calls long after their allocation, before it, of an unknown allocation, and of two whose ids end alike.
make_trace "$scratch/late.db" "
    INSERT INTO life VALUES (1, 1, 10, 1, 5), (2, 1, 20, 2, NULL), (262145, 1, 30, 3, NULL), (524289, 1, 40, 4, 9);
    INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, result) VALUES
        (524289, 0, 'f', 4, 1000, 0), (1, 1, 'f', 5, 1, 0), (262145, 0, 'f', 3, 100, 0), (7, 0, 'f', 6, 9, 0),
        (524289, 1, 'f', 9, 2000, 0), (2, 0, 'f', 2, 10, 0), (1, 1, 'f', 5, 3, 0), (NULL, 0, 'f', 6, 9, 0)"
is "$(ask top --by=size --sort=driver --format=csv --only=groups "$scratch/late.db" | cut -d, -f 4,18,20 | tr '\n' ' ')" \
    'size,driver_ns,driver_calls 40,3000,2 30,100,1 20,10,1 10,4,2 ' \
    'top adds calls that come in any order to their allocations'
has_words "$(ask top --limit=1 --by=size "$trace")" '2 more groups have 1 allocations.' \
    'top --limit says how many groups it leaves out'
ask top --sort=chrun "$trace"
has_words "$(cat "$scratch/err")" 'did you mean "churn"?' 'an unknown figure is an error'

# Sizes that differ and would read the same are shown in bytes. The two of 12.89 GiB are 6,456 bytes apart, and around
# 12 GiB are two that read "12.00 GiB".
exact=$scratch/exact.db
make_trace "$exact" "INSERT INTO life VALUES (1, 1, 13844800200, 10, 11), (2, 1, 13844806656, 20, 21),
    (3, 1, 13844800200, 30, 31), (4, 1, 12884901888, 40, 41), (5, 1, 12884901889, 50, 51), (6, 1, 12884901887, 60, 61),
    (7, 1, 5000, 70, 71);"
# sizes COMMAND...: the first column of a table with a title of two lines at most.
sizes() {
    "$tidemark" "$@" "$exact" | sed -n '/SIZE/,$s/^ *\([0-9.]* [KMG]*i*B\) .*/\1/p' | sort -u | tr '\n' ','
}
all='12 GiB,12884901887 B,12884901889 B,13844800200 B,13844806656 B,4.88 KiB,'
is "$(sizes top --by=size --only=groups)" "$all" 'top shows sizes in bytes that would read the same'
is "$(sizes histogram --only=exact)" "$all" 'histogram shows sizes in bytes that would read the same'
is "$(sizes top --by=size --only=groups --min-size=13844800201)" '12.89 GiB,' \
    'a size that no other reads the same as is shown as ever'
is "$("$tidemark" top --by=size --only=groups --format=md "$exact" | grep -c '^| 138448[0-9]* B')" 2 \
    'Markdown has such sizes in bytes, too'
has_words "$("$tidemark" top --by=size --json "$exact")" '"id":null,"size":13844806656,"allocations":1,' \
    'programs get the size of a group by sizes'
make_trace "$scratch/more.db" "INSERT INTO life VALUES (1, 1, 13844806656, 10, NULL), (2, 1, 13844800200, 20, NULL);"
make_trace "$exact" "INSERT INTO life VALUES (1, 1, 13844800200, 10, NULL), (2, 1, 13844806656, 20, NULL);"
is "$(sizes peak --by=size --only=groups)$(sizes leaks --by=size --only=groups)" \
    '13844800200 B,13844806656 B,13844800200 B,13844806656 B,' \
    'peak and leaks show sizes in bytes that would read the same'
has_words "$("$tidemark" peak --by=size "$exact")" 'Without size 13844806656 B' \
    'a sentence names such a size in bytes'
make_trace "$exact" "INSERT INTO life VALUES (1, 1, 13844800200, 10, NULL);"
make_trace "$scratch/more.db" "INSERT INTO life VALUES (1, 1, 13844806656, 10, NULL);"
has_words "$("$tidemark" diff "$exact" "$scratch/more.db" | tr -s ' ')" 'peak 13844800200 B 13844806656 B +6.30 KiB' \
    'diff shows figures in bytes that would read the same'
has_words "$("$tidemark" diff --by=size --only=sizes "$exact" "$scratch/more.db" | tr -s ' ' | sort | tr '\n' '|')" \
    '13844800200 B -12.89 GiB' 'diff shows sizes in bytes that would read the same'
has_words "$("$tidemark" check --max-peak=13844800200 "$scratch/more.db" | tr -s ' ')" \
    'FAILED max-peak 13844800200 B 13844806656 B' 'check shows a bound and what exceeds it in bytes'

done_testing
