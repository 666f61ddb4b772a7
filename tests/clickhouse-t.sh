# Tests doc/clickhouse: the tables, the loading and the questions run in ClickHouse, and answer what `tidemark ranks` does.
# `./bootstrap --ci` installs ClickHouse as a library in .chdb; CHDB names another folder with node_modules/chdb.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK
test -n "$SQLITE3" || skip_all 'there is no sqlite3 command'
command -v node >/dev/null || skip_all 'there is no node'
export CHDB="${CHDB:-$(realpath "$top_srcdir")/.chdb}"
test -d "$CHDB/node_modules/chdb" ||
    skip_all 'there is no ClickHouse: `./bootstrap --ci` installs chdb where npm reaches it, or CHDB names a folder with node_modules/chdb'
sql=$top_srcdir/doc/clickhouse

# make_rank RANK: of 9 with 20 random steps, of which rank 3 marks each, and the others every second one. Rank 3 has 10% more
# of a tag from step 12 on, rank 5 leaks, rank 7 has 130 failures of one time and size. Times are the same now and then,
# and some lives have none.
seed=$(date +%s)
echo "# seed $seed"
make_rank() {
    "$top_builddir/tests/make-trace" "$scratch/traces/rank-$1.db" "
        INSERT INTO meta VALUES ('rank', $1), ('world_size', 9), ('job', 'nightly'), ('trace_id', 1000 + $1), ('ended', 'closed');
        INSERT INTO tag VALUES (1, NULL, 'model'), (2, 1, 'weights'), (3, 1, 'activation'), (4, NULL, 'other');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 2000) SELECT s FROM s;
        INSERT INTO mark SELECT s * 1000, 1, 'mark', 'step ' || s, NULL FROM n
            WHERE s <= 20 AND ($1 = 3 OR s % 2 = 0);
        INSERT INTO life VALUES (1, 1, 20000000, 10, NULL);
        INSERT INTO life SELECT s + 1, 1, 1000 + (s * 7919 + $1 * 104729 + $seed) % 5000, 1000 + 10 * (s - 1) - s % 2 * 5,
            iif($1 = 5 AND s % 100 = 7, NULL, 1000 + 10 * (s - 1) + (s * 31 + $seed) % 8 * 10) FROM n;
        INSERT INTO refused SELECT 3000 + s, 1, 123456789, 22000 FROM n WHERE $1 = 7 AND s <= 130;
        UPDATE allocation SET tag_id = CASE WHEN allocation_id = 1 THEN 2 WHEN allocation_id % 3 THEN 3 ELSE 4 END;
        UPDATE allocation SET size = size + 1000000 WHERE $1 = 3 AND tag_id = 3 AND allocation_id > 1102;" || exit 99
}

# part FROM: the rows of the question of this number, one to a line.
part() {
    "$AWK" -v wanted="$1" 'BEGIN { part = 1 } /^--$/ { part++; next } part == wanted && NF' "$scratch/answers"
}

plan 20
mkdir "$scratch/traces"
for rank in 0 1 2 3 4 5 6 7 8; do make_rank $rank; done
job=$scratch/job.db
"$tidemark" merge "$scratch/traces" -o "$job" || exit 99
memory=$("$SQLITE3" -readonly "$job" 'SELECT name FROM memory')
set -- "$scratch/store" "$sql/tables.sql" run=night-1 "job_file=$job" "$sql/load-job.sql"
for rank in 0 1 2 3 4 5 6 7 8; do set -- "$@" "rank=$rank" "trace=$scratch/traces/rank-$rank.db" "$sql/load-trace.sql"; done
set -- "$@" "memory=$memory" "$sql/questions.sql"
node "$top_srcdir/tests/clickhouse.js" "$@" >"$scratch/answers" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" '0 ' 'the tables, the loading and the questions run in ClickHouse'
is "$(grep -c '^--$' "$scratch/answers")" "$(grep -c ';$' "$sql/questions.sql")" 'each question has an answer'
"$tidemark" ranks --by=tag --json "$job" >"$scratch/json"
answer() {
    "$SQLITE3" :memory: "WITH answer AS (SELECT CAST(readfile('$scratch/json') AS TEXT) AS t) $1"
}
is "$(part 1)" "$(answer "SELECT '[' || json_extract(t, '\$.highest_rank') || ', ' || json_extract(t, '\$.highest_bytes') || ', ' ||
    json_extract(t, '\$.median_bytes') || ', ' || json_extract(t, '\$.lowest_bytes') || ']' FROM answer")" \
    'the highest, the median and the lowest peak are those of ranks'
# What ranks says of tags, as the question lists it: each figure has two ends.
tags() {
    answer "SELECT '[\"' || json_extract(value, '\$.name') || '\", ' || coalesce(json_extract(value, '\$.bytes'), 0) || ', ' ||
        json_extract(value, '\$.most_bytes') || ', ' || json_extract(value, '\$.median_least_bytes') || ', ' ||
        json_extract(value, '\$.median_most_bytes') || ', ' || json_extract(value, '\$.over_median_least_bytes') || ', ' ||
        json_extract(value, '\$.over_median_most_bytes') || ']' FROM answer, json_each(t, '\$.groups')
        WHERE json_extract(value, '\$.kind') = 'tag'
        ORDER BY json_extract(value, '\$.over_median_least_bytes') DESC, json_extract(value, '\$.name')"
}
is "$(part 2 | sed 's/\\//g')" "$(tags)" 'the difference by tag is that of ranks, to the byte'
is "$(part 3)" '[3, 12]' 'the rank that is out is found with the step from which on it is, where the others do not mark each step'
is "$(part 4 | head -n 1)" "$("$SQLITE3" -readonly "$job" "SELECT '[' || rank || ', ' || grown_bytes || ']' FROM rank_memory ORDER BY grown_bytes DESC LIMIT 1")" \
    'the rank that has grown most is found, to the byte'
is "$(part 5)" '["limit", 100, 1, 7, 123456789, 130]' 'failures are found with their cause, rank and size, and how many there are in all'
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=night-1 "SELECT groupUniqArray(memory) FROM tidemark.failure FINAL WHERE run = 'night-1'" \
    >"$scratch/memories" 2>&1
is "$(head -n 1 "$scratch/memories")" "[[\"$memory\"]]" 'failures have the memory in which they were'
is "$(part 8)" "$("$SQLITE3" -readonly "$job" "SELECT '[' || rank || ', 1, ' || peak_bytes || ']' FROM rank_memory ORDER BY rank")" \
    'the exact peaks of all ranks from all allocations are those of the job, to the byte'

node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=night-1 "SELECT rank, peak_bytes, peak_ns, allocations, live_end_bytes
    FROM tidemark.layer_peak FINAL WHERE run = 'night-1' ORDER BY rank" >"$scratch/answers" 2>"$scratch/err"
is "$(part 1) $(cat "$scratch/err")" "$("$SQLITE3" -readonly "$job" "SELECT '[' || rank || ', ' || peak_bytes || ', ' || peak_ns || ', ' ||
    allocations || ', ' || live_end_bytes || ']' FROM rank_memory ORDER BY rank") " \
    'the rollup of all allocations has the peaks, their moments, the counts and the ends of the job'

# Loading again replaces, and the store goes on from process to process.
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=night-1 "job_file=$job" "$sql/load-job.sql" rank=2 "trace=$scratch/traces/rank-2.db" \
    "$sql/load-trace.sql" "SELECT sum(allocations), (SELECT count() FROM tidemark.allocation FINAL), (SELECT max(live_bytes) FROM tidemark.live WHERE rank = 2),
    (SELECT peak_bytes FROM tidemark.layer_peak FINAL WHERE rank = 2) FROM tidemark.rank FINAL" >"$scratch/answers" 2>"$scratch/err"
is "$(part 1) $(cat "$scratch/err")" "[$("$SQLITE3" -readonly "$job" "SELECT sum(allocations), 130 + 9 * 2001, (SELECT peak_bytes FROM
    rank_memory WHERE rank = 2), (SELECT peak_bytes FROM rank_memory WHERE rank = 2) FROM rank" | sed 's/|/, /g')] " \
    'what is loaded again replaces what was there'

# What a run has no more goes with its next load: here of the job of one rank, and of a trace of one allocation.
"$top_builddir/tests/make-trace" "$scratch/small.db" "INSERT INTO life VALUES (1, 1, 4096, 20, 50);" || exit 99
"$tidemark" merge "$scratch/small.db" -o "$scratch/small-job.db" || exit 99
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=again "job_file=$job" "$sql/load-job.sql" rank=0 "trace=$scratch/traces/rank-0.db" \
    "$sql/load-trace.sql" "job_file=$scratch/small-job.db" "$sql/load-job.sql" "trace=$scratch/small.db" "$sql/load-trace.sql" \
    "SELECT (SELECT count() FROM tidemark.rank FINAL WHERE run = 'again'), (SELECT count() FROM tidemark.rank_memory FINAL WHERE run = 'again'),
    (SELECT count() FROM tidemark.step FINAL WHERE run = 'again'), (SELECT count() FROM tidemark.failure FINAL WHERE run = 'again'),
    (SELECT count() FROM tidemark.allocation FINAL WHERE run = 'again'), (SELECT peak_bytes FROM tidemark.layer_peak FINAL WHERE run = 'again')" \
    >"$scratch/answers" 2>"$scratch/err"
is "$(part 1) $(cat "$scratch/err")" '[1, 1, 1, 0, 1, 4096] ' 'of what was loaded before under the name of a run nothing stays'

# Of 4,300 tags the first six ranks list 4,096 each, the last one has 3,000. What is cut has two ends. Of 43 tags rank 2
# has much, and the others next to nothing, so that most do not list them.
mkdir "$scratch/cut"
for rank in 0 1 2 3 4 5 6; do
    "$top_builddir/tests/make-trace" "$scratch/cut/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 7), ('job', 'cut'), ('trace_id', 2000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < iif($rank = 6, 3000, 4300)) SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 't' || s FROM n;
        INSERT INTO life SELECT s, 1, 256 * (1 + (s * 7919 + $rank * s / 5 + $seed) % 997), 1000 + s, NULL FROM n;
        UPDATE allocation SET tag_id = allocation_id, size = iif(allocation_id % 100, size, iif($rank = 2, 300000, 1));" || exit 99
done
"$tidemark" merge "$scratch/cut" -o "$scratch/cut.db" || exit 99
is "$("$SQLITE3" -readonly "$scratch/cut.db" "SELECT count(*) FROM group_cut WHERE kind = 'tag' AND peak_bytes > 0")" 6 'six ranks have more tags than the file lists'
"$tidemark" ranks --by=tag --json "$scratch/cut.db" >"$scratch/json"
sed -n '/^WITH/,/;$/p' "$sql/questions.sql" | sed 's/ LIMIT 20;/;/' >"$scratch/tags.sql"
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=cut "job_file=$scratch/cut.db" "$sql/load-job.sql" "memory=$memory" "$scratch/tags.sql" \
    "job_file=$scratch/small-job.db" "$sql/load-job.sql" "SELECT count() FROM tidemark.group_cut FINAL WHERE run = 'cut'" >"$scratch/answers" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" '0 ' 'a job with tags that are cut is loaded and asked'
tags >"$scratch/tags"
part 1 >"$scratch/seen"
ok 'the ends of the differences by tag are those of ranks, to the byte, where tags are cut' cmp "$scratch/seen" "$scratch/tags"
is "$("$AWK" -F '[],[]+' '{ own += $3 < $4; median += $5 < $6; exact += $3 == $4 && $5 == $6; certain += $7 > 0 && $7 < $8 }
    END { print (own > 0), (median > 0), (exact > 0), (certain > 0) }' "$scratch/seen")" '1 1 1 1' \
    'of the rank with the highest peak, of medians and of differences that are certain some have two ends, and some tags have one'
is "$(part 2)" '[0]' 'a job that is loaded again without cuts has none'

# Parquet.
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=night-1 "parquet=$scratch/all.parquet" "$sql/parquet.sql" \
    "SELECT count(), sum(size), uniqExact(rank) FROM file('$scratch/all.parquet')" >"$scratch/answers" 2>"$scratch/err"
is "$(head -c 4 "$scratch/all.parquet") $(part 1)" "PAR1 [$(for rank in 0 1 2 3 4 5 6 7 8; do
    "$SQLITE3" -readonly "$scratch/traces/rank-$rank.db" 'SELECT count(*), sum(size) FROM allocation'; done |
    "$AWK" -F '|' '{ count += $1; sum += $2 } END { printf "%d, %.0f, 9", count, sum }')]" 'all allocations are in a Parquet file'

# Of two logs, one above the other, the outer one counts.
"$top_builddir/tests/make-trace" "$scratch/nested.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''), (3, 4, 'log', ''), (4, NULL, 'sim', '');
    INSERT INTO life VALUES (1, 3, 1048576, 10, NULL), (2, 1, 4096, 20, 50);
    UPDATE allocation SET alloc_duration_ns = 5000000000;" || exit 99
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=nested rank=0 "trace=$scratch/nested.db" "$sql/load-trace.sql" \
    "SELECT groupArray(layer_id), sum(size), max(alloc_duration_ns) FROM tidemark.allocation FINAL WHERE run = 'nested'" >"$scratch/answers" 2>"$scratch/err"
is "$(part 1) $(cat "$scratch/err")" '[[1], 4096, 5000000000] ' 'of nested logs the outermost has what the program asked for, and what took 5 s took as long'

# Times beyond the half of what 64 bits hold stand behind the others.
"$top_builddir/tests/make-trace" "$scratch/late.db" "INSERT INTO life VALUES (1, 1, 512, 10, 20), (2, 1, 1000, 15, NULL),
    (3, 1, 4096, 4611686018427387904, 9223372036854775806), (4, 1, 8192, 9223372036854775806, NULL);" || exit 99
node "$top_srcdir/tests/clickhouse.js" "$scratch/store" run=late rank=0 "trace=$scratch/late.db" "$sql/load-trace.sql" \
    "SELECT peak_bytes, toString(peak_ns), live_end_bytes FROM tidemark.layer_peak FINAL WHERE run = 'late'" >"$scratch/answers" 2>"$scratch/err"
is "$(part 1) $(cat "$scratch/err")" '[13288, "9223372036854775806", 9192] ' 'a peak at the latest time that a trace can have is found'
done_testing
