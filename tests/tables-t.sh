# What `timeline` prints, of traces made by hand.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

# ask COMMAND...: what it prints; its messages are in err.
ask() {
    "$tidemark" "$@" 2>"$scratch/err"
}

plan 6

# 800 bytes from 0 to 40 of 80 ns, 400 more from 20 on, one that fails; 1600 reserved from 20 on; a limit of 2 KiB.
make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'limit', '2KiB, count=7'),
        (3, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 1, 800, 0, 40), (2, 1, 400, 20, 80);
    INSERT INTO refused VALUES (3, 1, 70, 50);
    INSERT INTO mark VALUES (60, 1, 'mark', 'here', NULL), (61, 1, 'refused_free', 'not a mark', NULL);
    INSERT INTO pool_sample VALUES (20, 3, 1200, 1600);"
LC_ALL=C ask timeline --width=20 --height=4 "$trace" >"$scratch/seen"
is "$(sed '1,/^$/d' "$scratch/seen")" '     2 KiB |--------
           |  :::```
     1 KiB |::###```
           |########
       0 B +--------
            0 ns 80 ns
                 x
                  ^
            # live  ` reserved  - limit 2 KiB  x failed  ^ mark' \
    'the drawing has what is live, reserved, the limit, failures and marks'
is "$(ask timeline --width=4 --only=columns --format=csv "$trace")" 'ns,most_bytes,least_bytes,end_bytes,reserved_bytes,allocations,frees,failures,marks
0,800,0,800,0,1,0,0,0
20,1200,800,1200,1600,1,0,0,0
40,1200,400,400,1600,0,1,1,0
60,400,0,0,1600,0,1,0,1' 'programs get the columns'
has_words "$(ask timeline --json --width=2 "$trace")" \
    '"begin_ns":0,"end_ns":80,"peak_bytes":1200,"peak_ns":20,"reserved_peak_bytes":1600,"reserved_source":"samples","limit_bytes":2048' \
    'and what the whole of it is'
make_trace "$trace"
has_words "$(LC_ALL=C ask timeline "$trace")" '0 ns 1 ns' 'a trace without an event has a timeline, too'
ask timeline --width=100 --height=0 --ascii "$trace" >/dev/null
is $? 0 'a height of 0 is a row'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 10, 0, 1000000);"
ask timeline --height=1000000000 --width=1000000000 --format=csv "$trace" >"$scratch/seen"
is "$? $(wc -l <"$scratch/seen")" '0 100001' 'a width of any size is bounded'

done_testing
