# Tests `tidemark check` on the file of a job: each rank has to keep to the budgets, and the one that does not is named.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK
test -n "$SQLITE3" || skip_all 'there is no sqlite3 command'

# make_rank FILE RANK [SQL]: a rank of 8 with 20 steps of an activation each. Rank 3 has 10% more of it from step 12 on,
# rank 5 leaks 64 bytes a step.
make_rank() {
    skew=0 leak=0
    test "$2" -eq 3 && skew=600000
    test "$2" -eq 5 && leak=64
    "$top_builddir/tests/make-trace" "$1" "
        INSERT INTO meta VALUES ('rank', $2), ('world_size', 8), ('job', 'nightly'), ('trace_id', 1000 + $2),
            ('ended', 'closed');
        INSERT INTO tag VALUES (1, NULL, 'parameters'), (2, NULL, 'activation'), (3, NULL, 'other');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 20) SELECT s FROM s;
        INSERT INTO mark SELECT s * 1000000, 1, 'mark', 'step ' || s, NULL FROM n;
        INSERT INTO life VALUES (1, 1, 5000000, 10, 30000000);
        INSERT INTO life SELECT s * 10, 1, 1000000 + iif(s >= 12, $skew, 0), s * 1000000 + 100, s * 1000000 + 900000 FROM n;
        INSERT INTO life SELECT s * 10 + 2, 1, $leak, s * 1000000 + 400, NULL FROM n WHERE $leak > 0;
        UPDATE allocation SET tag_id = CASE WHEN allocation_id = 1 THEN 1 WHEN allocation_id % 10 = 0 THEN 2 ELSE 3 END;
        $3" || exit 99
}

merge() {
    "$tidemark" merge "$@" >/dev/null 2>&1
}

check() {
    "$tidemark" check "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

plan 66
folder=$scratch/traces
job=$scratch/job.db
mkdir "$folder"
for rank in 0 1 2 3 4 5 6; do make_rank "$folder/rank-$rank.db" $rank; done
make_rank "$folder/rank-7.db" 7 'INSERT INTO refused VALUES (9999, 1, 123456789, 15000500);'
merge "$folder" -o "$job" || exit 99
memory=$("$SQLITE3" -readonly "$job" 'SELECT name FROM memory')

# Each budget at its limit, and one beyond it.
is "$(check --max-peak=6600000 --max-allocations=41 --max-failures=1 --max-skew=10% --max-growth=1152 "$job") $(cat "$scratch/err")" \
    '0 ' 'a job exactly at every limit passes'
is "$(check --max-peak=6599999 "$job")" 1 'a job of which one rank has a peak of a byte too many is a finding'
has_words "$(cat "$scratch/out")" "rank 3, $memory: the peak is 6600000 B, 1 B over the 6599999 B allowed" \
    'check names the rank whose peak is too high, and by how much'
has_words "$(cat "$scratch/out")" 'tag parameters has 4.77 MiB of it (75.8%); without it the peak is 1.53 MiB' \
    'check says what the rank has at its peak'
has_words "$(cat "$scratch/out")" "more: tidemark ranks --rank=3 $job" 'check names the command that says more of the rank'
is "$(check --max-peak=5999999 "$job") $(grep '8 ranks have more' "$scratch/out")" '1   8 ranks have more than is allowed: 3, 5, 0, 1, 2, 4, 6, 7' \
    'check names all ranks whose peaks are too high, the worst first'
is "$(check --max-skew=9.9% "$job")" 1 'a job with a higher skew than is allowed is a finding'
has_words "$(cat "$scratch/out")" "rank 3, $memory: the peak is 6.29 MiB, 10% over the median of 5.72 MiB" \
    'check names the rank that is furthest over the median'
has_words "$(cat "$scratch/out")" 'tag activation: 585.9 KiB more than the median, from step 12 on' \
    'check says in which group that rank has more than the median, and since which step'
is "$(check --max-growth=1K "$job")" 1 'a job with a rank that grows beyond the median is a finding'
has_words "$(cat "$scratch/out")" "rank 5, $memory: it grows by 1.12 KiB more than the median from step 1 to 19, 128 B (12.5%) over the 1 KiB allowed" \
    'check names the rank that grows, by how much and in which steps'
has_words "$(cat "$scratch/out")" 'tag other has 1.12 KiB of it' 'check says in which group that rank grows'
is "$(check --max-allocations=40 "$job")" 1 'a job of which one rank makes too many allocations is a finding'
has_words "$(cat "$scratch/out")" 'rank 5: 41 allocations, 1 more than 40' 'check names the rank with too many allocations'
is "$(check --max-failures=0 "$job") $(grep -c 'rank 7: 1 allocation failed, 1 more than 0' "$scratch/out")" '1 1' \
    'check names the rank with too many failures'
has_words "$(cat "$scratch/out")" 'the first for the cause limit, one of 1, is of 117.7 MiB after 15' 'check says why its allocation failed'
is "$(check --no-leaks "$job") $(grep -c "rank 5, $memory: 1.25 KiB are live at the end" "$scratch/out")" '1 1' \
    'a job of which one rank has live memory at the end is a finding, and the rank is named'
has_words "$(tr -s ' ' <"$scratch/out")" 'no-leaks 0 B 1.25 KiB' 'what is live at the end of a job is a size, and not a number of allocations'
is "$(check --max-reserved=1GiB "$job") $(grep -c 'UNKNOWN  *max-reserved' "$scratch/out")" '3 1' \
    'what was reserved is unknown where the traces do not tell it'
is "$(check --max-peak="memory=$memory:6600000" --max-peak="memory=$memory:6599999" "$job") $(grep -c '^FAILED' "$scratch/out")" '1 1' \
    'a budget may be for one memory'

# Eight ranks that have grown once, by more, hide none that grows in each step.
cp "$job" "$scratch/once.db"
for rank in 8 9 10 11 12 13 14 15 16 17 18 19 20 21; do
    for table in rank rank_memory step; do
        echo "CREATE TEMP TABLE one AS SELECT * FROM $table WHERE rank = 0; UPDATE one SET rank = $rank;
            INSERT INTO $table SELECT * FROM one; DROP TABLE one;"
    done
done | "$SQLITE3" "$scratch/once.db"
"$SQLITE3" "$scratch/once.db" "UPDATE rank_memory SET grown_bytes = 3000000 WHERE rank BETWEEN 8 AND 15;
    UPDATE step SET end_bytes = end_bytes + 3000000 WHERE rank BETWEEN 8 AND 15 AND step >= 10;
    UPDATE step_median SET ranks = 22, ended_ranks = 22; UPDATE meta SET value = 22 WHERE key = 'world_size'"
is "$(check --max-growth=1K "$scratch/once.db") $(grep -c 'rank 5, .*: it grows by 1.12 KiB more' "$scratch/out")" '1 1' \
    'a rank that grows in each step is found beside eight that have grown once and by more'

# Failures in two memories of a rank, for two causes.
mkdir "$scratch/two"
for rank in 0 1; do
    "$top_builddir/tests/make-trace" "$scratch/two/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 2), ('trace_id', 5000 + $rank), ('ended', 'closed');
        DELETE FROM layer;
        INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', NULL), (2, 3, 'limit', '1GiB', NULL),
            (3, NULL, 'driver', '', 0), (4, 5, 'log', '', NULL), (5, 6, 'fault', 'nth=3', NULL), (6, NULL, 'host', '', NULL);
        INSERT INTO life VALUES (1, 1, 1000, 10, NULL), (2, 4, 500, 20, NULL);
        INSERT INTO refused SELECT 10 + n, 1, 2000000000, 100 + n FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) WHERE $rank = 1;
        INSERT INTO refused SELECT 20 + n, 4, 300, 50 + n FROM (SELECT 1 AS n UNION SELECT 2) WHERE $rank = 1;" || exit 99
done
merge "$scratch/two" -o "$scratch/two.db"
two() {
    "$tidemark" ranks --json "$@" "$scratch/two.db" >"$scratch/out" 2>"$scratch/err"
    "$SQLITE3" :memory: "SELECT json_extract(t, '\$.failures'), (SELECT group_concat(json_extract(value, '\$.memory') || ' ' ||
        json_extract(value, '\$.count') || ' ' || json_extract(value, '\$.size'), ', ') FROM json_each(t, '\$.failed')) FROM
        (SELECT CAST(readfile('$scratch/out') AS TEXT) AS t)"
}
"$SQLITE3" -readonly "$scratch/two.db" 'SELECT name FROM memory ORDER BY name DESC' >"$scratch/names"
host=$(sed -n 1p "$scratch/names") device=$(sed -n 2p "$scratch/names")
is "$(two)" "5|$device 3 2000000000, $host 2 300" 'ranks has the failures of all memories, each with its memory'
is "$(two --memory="$host")" "2|$host 2 300" 'ranks --memory has the failures of that memory alone'
is "$(two --memory="$device")" "3|$device 3 2000000000" 'so it is with another memory'
is "$(check --max-failures="memory=$host:0" "$scratch/two.db") $(grep -c 'the first for the cause .*, one of 2, is of 300 B' "$scratch/out") $(
    grep -c 'the first for the cause' "$scratch/out")" '1 1 1' 'check explains the failures of a memory by those of that memory alone'
is "$(check --max-failures=3 "$scratch/two.db") $(grep -c 'the first for the cause' "$scratch/out")" '1 2' \
    'check explains failures of all memories by the causes in all of them'

# A file of budgets, JSON and the forms of test runners.
printf 'max-skew 1%%\nmax-growth 0\nmax-peak 1GiB\n' >"$scratch/budget"
is "$(check --budget="$scratch/budget" --json "$job")" 1 'a file of budgets has those of ranks, too'
is "$("$SQLITE3" :memory: "SELECT json_extract(t, '\$.failed_count'), json_extract(t, '\$.ended'), json_extract(t, '\$.budgets[0].limit_share'),
    json_extract(t, '\$.budgets[0].seen_share'), json_extract(t, '\$.budgets[1].seen'), json_extract(t, '\$.budgets[2].seen') FROM
    (SELECT CAST(readfile('$scratch/out') AS TEXT) AS t)")" '2||0.01|0.1|1152|6600000' 'JSON has the figures of each budget'
is "$(check --tap --budget="$scratch/budget" "$job") $(grep -v '^#' "$scratch/out" | tr '\n' '|')" \
    '1 1..3|not ok 1 - max-skew: 10.0% of 1.0% allowed|not ok 2 - max-growth: 1.12 KiB of 0 B allowed|ok 3 - max-peak: 6.29 MiB of 1 GiB allowed|' \
    '--tap has a test for each budget of a job'
is "$(check --junit --budget="$scratch/budget" "$job") $(grep -c 'tests="3" failures="2"' "$scratch/out")" '1 1' \
    '--junit has a test for each budget of a job'
is "$(check --max-peak=1 --by=class "$job") $(grep -c 'class .* has .* of it' "$scratch/out")" '1 2' '--by says what groups are by'

# Against the job of before.
mkdir "$scratch/before"
for rank in 0 1 2 3 4 5 6 7; do make_rank "$scratch/before/rank-$rank.db" $rank 'UPDATE allocation SET size = min(size, 1000000) WHERE tag_id = 2;'; done
merge "$scratch/before" -o "$scratch/before.db" || exit 99
is "$(check --baseline="$job" "$scratch/before.db") $(cat "$scratch/err")" '0 ' 'a job with lower peaks than its baseline passes'
is "$(check --baseline="$scratch/before.db" "$job")" 1 'a job with a higher peak than its baseline is a finding'
has_words "$(cat "$scratch/out")" "$memory: the highest peak is 6.29 MiB: 584.7 KiB more than the 5.72 MiB of the baseline, of which 0% are tolerated" \
    'check says by how much the highest peak exceeds that of the baseline'
has_words "$(cat "$scratch/out")" 'tag activation: +585.9 KiB at the peak, from 976.6 KiB to 1.53 MiB' \
    'check says in which group the highest rank has more than that of the baseline'
is "$(check --baseline="$scratch/before.db" --tolerance=10% "$job")" 0 'a job within the tolerance passes'
is "$(check --baseline="$folder/rank-0.db" "$job") $(grep -c 'it is no file of a job' "$scratch/err")" '2 1' \
    'a trace is no baseline of a job'

# What is missing, or not known.
rm "$folder/rank-2.db"
merge "$folder" -o "$scratch/fewer.db"
is "$(check --max-peak=1GiB "$scratch/fewer.db") $(cat "$scratch/err")" "3 $scratch/fewer.db: ranks are missing: 2" \
    'a job of which a rank is missing does not pass, and the rank is named'
is "$(check --tap --max-peak=1GiB "$scratch/fewer.db") $(tail -n 2 "$scratch/out" | tr '\n' '|')" \
    '3 not ok 2 - the recording is complete|#   ranks are missing: 2|' 'with --tap a job of which a rank is missing is one more failed test'
is "$(check --tap --baseline="$scratch/fewer.db" --tolerance=90% "$job") $(grep '^not ok' "$scratch/out")" \
    '3 not ok 2 - the recording of the baseline is complete' 'with --tap a baseline of which a rank is missing is one more failed test'
mkdir "$scratch/killed"
for rank in 0 1; do make_rank "$scratch/killed/rank-$rank.db" $rank "UPDATE meta SET value = 2 WHERE key = 'world_size';
    UPDATE meta SET value = 'recovered' WHERE key = 'ended' AND $rank = 1; UPDATE allocation SET free_ns = NULL WHERE tag_id = 1 AND $rank = 1;"; done
merge "$scratch/killed" -o "$scratch/killed.db"
is "$(check --no-leaks "$scratch/killed.db") $(grep -c "unknown: rank 1, .* did not come to its end" "$scratch/out")" '3 1' \
    'whether a rank that was killed has leaks is unknown'
has_words "$(tr -s ' ' <"$scratch/out")" 'UNKNOWN no-leaks 0 B 4.77 MiB' 'what is live at the end of a rank that was killed is shown'
is "$(check --tap --no-leaks "$scratch/killed.db") $(grep '^not ok' "$scratch/out")" '3 not ok 1 - no-leaks: unknown, 4.77 MiB of 0 B allowed' \
    'so it is with --tap'
is "$(check --no-leaks --even-killed "$scratch/killed.db") $(grep -c "rank 1, .*: 4.77 MiB are live" "$scratch/out")" '1 1' \
    '--even-killed judges a rank that was killed, too'
mkdir "$scratch/plain"
"$top_builddir/tests/make-trace" "$scratch/plain/rank-0.db" "INSERT INTO life VALUES (1, 1, 100, 10, NULL);" || exit 99
merge "$scratch/plain" -o "$scratch/plain.db"
is "$(check --max-growth=1 "$scratch/plain.db") $(grep -c 'unknown: no rank has four whole steps' "$scratch/out")" '3 1' \
    'growth is unknown where the traces have no steps'
is "$("$tidemark" check --json --max-growth=1 "$scratch/plain.db" | grep -o '"seen":[^,]*')" '"seen":null' 'growth that is unknown is null in JSON, and not 0'
# change SQL: a copy of the job with changes.
change() {
    cp "$job" "$scratch/changed.db"
    "$SQLITE3" "$scratch/changed.db" "$1"
}
change "INSERT INTO memory VALUES (77, 'another'); UPDATE rank_memory SET memory_id = 77 WHERE rank = 3;"
is "$(check --max-skew="memory=$memory:50%" "$scratch/changed.db") $(grep -c 'unknown: only 7 of 8 ranks have a memory of the name' "$scratch/out")" \
    '3 1' 'the skew is unknown where a rank has the memory under another name'
has_words "$(tr -s ' ' <"$scratch/out")" "UNKNOWN max-skew memory=$memory 50.0% -" 'a skew that is unknown is no figure in the table'
is "$(check --json --max-skew="memory=$memory:50%" "$scratch/changed.db") $(grep -o '"seen_share":[^,]*' "$scratch/out")" '3 "seen_share":null' \
    'a skew that is unknown is null in JSON, and not 0'
is "$("$tidemark" ranks --memory="$memory" --max-skew=50% "$scratch/changed.db" 2>&1 >/dev/null; echo $?)" \
    "$scratch/changed.db: the skew is unknown: only 7 of 8 ranks have a memory of the name $memory
3" 'ranks --max-skew says so, too'
is "$(check --max-growth="memory=$memory:1M" "$scratch/changed.db") $(grep -c 'unknown: only 7 of 8 ranks have four whole steps' "$scratch/out")" \
    '3 1' 'growth is unknown where a rank has the memory under another name'
change 'UPDATE rank_memory SET peak_bytes = 0 WHERE rank <> 3'
is "$(check --max-skew=50% "$scratch/changed.db") $(grep -c 'unknown: the median is 0 B, and rank 3 has more' "$scratch/out")" '3 1' \
    'the skew is unknown where the median is 0 and the highest peak is not'
is "$("$tidemark" ranks --json "$scratch/changed.db" | grep -c '"skew_share":null') $("$tidemark" ranks "$scratch/changed.db" |
    grep -c 'highest over median  *unknown, as the median is 0 B')" '1 1' 'ranks says that the skew is unknown there, and not 0'
change 'UPDATE rank_memory SET whole_steps = 3 WHERE rank = 6'
is "$(check --max-growth=1M "$scratch/changed.db") $(check --max-growth=1K "$scratch/changed.db")" '3 1' \
    'growth is unknown where one rank has too few steps, unless another rank grows too much'

# Wrong use.
is "$(check --max-skew=1% "$folder/rank-0.db") $(head -n 1 "$scratch/err")" \
    "2 tidemark check: max-skew is for the file of a job, which \`tidemark merge\` makes: $folder/rank-0.db is none" \
    'a budget of ranks is wrong use with a trace'
is "$(check --max-skew=1% "$folder/none.db") $(cat "$scratch/err")" "2 $folder/none.db: No such file or directory" \
    'a budget of ranks of a file that is not there is told so'
is "$(check --max-skew=5 "$job") $(check --max-skew "$job") $(check --max-growth=x "$job") $(check --max-peak=memory=none:1 "$job") $(
    check --max-skew=tag=a:1% "$job") $(check --max-peak=memory=1 "$job")" '2 2 2 2 2 2' 'missing and wrong values are errors'
is "$(check --max-peak=1 --baseline="$job" "$folder/rank-0.db") $(cat "$scratch/err")" \
    "2 $job: it is the file of a job, and no trace: \`tidemark ranks\`, \`report\` and \`check\` read it" \
    'a job is no baseline of a trace, and the message says what reads it'
is "$(check --max-fragmentation=1% "$job") $(cat "$scratch/err")" \
    "2 $job: the file of a job cannot tell max-fragmentation: check the traces of its ranks" \
    'a budget of which the file of a job says nothing is an error'
is "$(check --max-peak=tag=activation:1 "$job") $(check --max-peak=layer=1:1 "$job") $(check --no-leaks --suppressions="$scratch/budget" "$job") $(
    check --max-peak=1 --from=1s "$job") $(check --max-peak=1 --by=thread "$job")" '2 2 2 2 2' \
    'scopes, suppressions, filters and groups that the file of a job does not have are errors'
change 'DELETE FROM rank; DELETE FROM rank_memory'
is "$(check --max-peak=1GiB "$scratch/changed.db") $(cat "$scratch/err")" "2 $scratch/changed.db: it has no ranks" 'check refuses a job without ranks'
is "$(check --baseline="$scratch/changed.db" "$job") $(cat "$scratch/err")" "2 $scratch/changed.db: it has no ranks" \
    'check refuses a baseline without ranks'
change 'DELETE FROM rank_memory WHERE rank = 3'
is "$(check --max-peak=1GiB "$scratch/changed.db") $(cat "$scratch/err")" "2 $scratch/changed.db: it has figures that cannot be" \
    'check refuses a job in which a rank does not have the memory that its sums are of'
change "UPDATE rank_memory SET peak_bytes = 'abc' WHERE rank = 3"
is "$(check --max-peak=1GiB "$scratch/changed.db") $(check --max-skew=1% "$scratch/changed.db") $(check --baseline="$scratch/changed.db" "$job")" \
    '2 2 2' 'check refuses text in place of a number'
change "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'name TEXT NOT NULL UNIQUE', 'name TEXT UNIQUE')
    WHERE name = 'memory'; PRAGMA writable_schema = RESET; UPDATE memory SET name = NULL;"
is "$(check --max-peak=1 "$scratch/changed.db") $(head -n 1 "$scratch/out" | grep -c BUDGET)" '1 1' 'check reads a job whose memory has no name'
"$SQLITE3" "$job" 'UPDATE rank_memory SET peak_bytes = -9223372036854775807 WHERE rank = 4'
is "$(check --max-peak=1GiB "$job") $(cat "$scratch/err")" "2 $job: it has figures that cannot be" 'check refuses figures that cannot be'
done_testing
