# What `failures` answers about traces made by hand.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

# ask COMMAND...: what it prints, on one line; its messages are in err.
ask() {
    "$tidemark" "$@" 2>"$scratch/err"
}

# A pool's chunks of 1 MiB at 1 MiB and at 4 MiB; blocks of 4 KiB in the middle of the first and all over the second.
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

plan 9

make_trace "$trace" "$two_chunks
    INSERT INTO refused VALUES (6, 1, 700000, 50), (7, 1, 3000000, 51), (8, 1, 4096, 52), (9, 1, 500000, 53);
    UPDATE allocation SET status = 3 WHERE allocation_id IN (6, 7, 9);"
json=$(ask failures --json "$trace")
is $? 0 'failures are told, and no finding'
has_words "$json" '"source":"layers","failures_count":4,"failed_bytes":4204096,"causes":[{"cause":"limit","count":1},{"cause":"capacity","count":1},{"cause":"fragmentation","count":1},{"cause":"unused hole","count":1}]' \
    'a limit, too little, no hole that is large enough, and one that the pool did not take are told apart'
has_words "$json" '"allocation_id":6,"ns":50,"size":700000,"status":"TIDE_ECAPACITY","cause":"fragmentation","live_bytes":608192,"live_count":3,"reserved_bytes":2097152,"free_bytes":1488896,"largest_hole_bytes":524288' \
    'with what was live, reserved and free, and the largest hole'
has_words "$json" '"pinned_by":"#2 4 KiB cache"' 'and the block that stands in the emptiest chunk'
has_words "$(ask failures "$trace")" 'fragmentation 593.9 KiB    2 MiB 1.42 MiB' 'the table has them, too'
has_words "$(ask failures --limit=1 "$trace")" 'These are the first 1 of 4.' '--limit says what it leaves out'
has_words "$(ask failures --to=50 --json "$trace")" '"failures_count":1' '--to ends the time that is looked at'

make_trace "$trace" "INSERT INTO refused VALUES (1, 1, 700, 50); UPDATE allocation SET status = 7;
    INSERT INTO pool_sample VALUES (40, 2, 1000, 2000);"
has_words "$(ask failures --json "$trace")" '"source":"samples","failures_count":1,"failed_bytes":700,"causes":[{"cause":"fragmentation","count":1}]' \
    'without a log below, the pool sample before says how much was free'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 700, 50, 60);"
has_words "$(ask failures "$trace")" 'No allocation failed.' 'and where nothing failed it says so'

done_testing
