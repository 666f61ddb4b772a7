# Tests `tidemark merge` and `tidemark ranks`: planted differences are named to the byte, and what is wrong with a trace
# is named and costs no other rank.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK
test -n "$SQLITE3" || skip_all 'there is no sqlite3 command'

# make_rank FILE RANK [SQL]: a rank of 16 with 40 steps, each of an activation and a workspace that both go again.
make_rank() {
    skew=0 leak=0
    test "$2" -eq 3 && skew=100000
    test "$2" -eq 5 && leak=64
    "$top_builddir/tests/make-trace" "$1" "
        INSERT INTO meta VALUES ('rank', $2), ('world_size', 16), ('job', 'nightly'), ('trace_id', 1000 + $2),
            ('ended', 'closed');
        INSERT INTO tag VALUES (1, NULL, 'parameters'), (2, NULL, 'forward'), (3, 2, 'activation'), (4, NULL, 'other');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 40) SELECT s FROM s;
        INSERT INTO mark SELECT s * 1000000, 1, 'mark', 'step ' || s, NULL FROM n;
        INSERT INTO mark VALUES (3500000, 1, 'mark', 'saved', NULL);
        INSERT INTO life VALUES (1, 1, 5000000, 10, NULL);
        INSERT INTO life SELECT s * 10, 1, 1000000 + iif(s >= 12, $skew, 0), s * 1000000 + 100, s * 1000000 + 900000 FROM n;
        INSERT INTO life SELECT s * 10 + 1, 1, 2000, s * 1000000 + 200, s * 1000000 + 300 FROM n;
        INSERT INTO life SELECT s * 10 + 2, 1, $leak, s * 1000000 + 400, NULL FROM n WHERE $leak > 0;
        UPDATE allocation SET tag_id = CASE WHEN allocation_id = 1 THEN 1 WHEN allocation_id % 10 = 0 THEN 3 ELSE 4 END;
        $3" || exit 99
}

# merge ARGUMENT...: the exit status; messages go to $scratch/err.
merge() {
    "$tidemark" merge "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

ranks() {
    "$tidemark" ranks "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

# The exit status of `check` with a budget that all traces keep.
check_none() {
    "$tidemark" check --max-failures=0 "$1" >/dev/null 2>&1
    echo $?
}

# ask FILE SQL; answer SQL: of the JSON in $scratch/answer.
ask() {
    "$SQLITE3" -readonly "$1" "$2" 2>&1
}
answer() {
    "$SQLITE3" :memory: "CREATE TABLE answer AS SELECT CAST(readfile('$scratch/answer') AS TEXT) AS text; $1" 2>&1
}

# What a file says, whatever numbers its groups have.
contents() {
    for contents_columns in 'peak_group rank,memory_id,bytes,count,peak_without_bytes' 'group_median memory_id,ranks,peak_bytes' \
        'step_group rank,memory_id,step,peak_bytes,end_bytes' 'group_step_median memory_id,step,peak_bytes,end_bytes'; do
        ask "$1" "SELECT '${contents_columns% *}', kind, name, ${contents_columns#* } FROM ${contents_columns% *}
            JOIN allocation_group USING (group_id)"
    done | sort
    for contents_table in rank rank_memory usage_bucket step mark failure step_median meta; do
        ask "$1" "SELECT '$contents_table', * FROM $contents_table"
    done | sort
}

plan 98
folder=$scratch/traces
job=$scratch/job.db
mkdir "$folder"
for rank in 0 1 2 3 4 5 6 8 9 10 11 12 13 14 15; do make_rank "$folder/rank-$rank.db" $rank; done
make_rank "$folder/rank-7.db" 7 'INSERT INTO refused VALUES (9999, 1, 123456789, 15000500);'

is "$(merge "$folder" -o "$job") $(cat "$scratch/err")" '0 ' 'the traces of a folder are merged, and nothing is said'
is "$(ask "$job" 'SELECT count(*), min(rank), max(rank), sum(complete), sum(allocations) FROM rank')" '16|0|15|16|1336' \
    'all ranks are in, with all their allocations'
ok 'a small rank takes less than 64 KiB' test "$(wc -c <"$job")" -lt $((16 * 65536))
"$tidemark" ranks --json "$job" >"$scratch/answer" 2>"$scratch/err"
is "$? $(answer "SELECT json_extract(text, '\$.highest_rank'), json_extract(text, '\$.highest_bytes'),
    json_extract(text, '\$.median_bytes'), json_extract(text, '\$.lowest_bytes'), json_extract(text, '\$.step') FROM answer")" \
    '0 3|6102000|6002000|6002000|12' 'the highest, the median and the lowest peak are named to the byte'
is "$(answer "SELECT json_extract(value, '\$.name'), json_extract(value, '\$.over_median_bytes'), json_extract(value,
    '\$.from_step') FROM answer, json_each(text, '\$.groups') WHERE json_extract(value, '\$.kind') = 'tag' LIMIT 1")" \
    'forward/activation|100000|12' 'the excess is named to the byte, with its tag and the step from which on it is there'
is "$(answer "SELECT json_extract(value, '\$.rank'), json_extract(value, '\$.grown_bytes'), json_extract(value,
    '\$.group'), json_extract(value, '\$.group_bytes'), json_extract(value, '\$.median_bytes') FROM answer, json_each(text, '\$.growth')")" \
    "5|$((64 * 38))|other|$((64 * 38))|0" 'the only rank that grows is named to the byte, with the tag'
is "$(answer "SELECT json_extract(value, '\$.count'), json_extract(value, '\$.first_rank'), json_extract(value, '\$.size'),
    json_extract(value, '\$.cause'), json_extract(value, '\$.live_bytes') FROM answer, json_each(text, '\$.failed')")" \
    '1|7|123456789|limit|6000000' 'the failure is named with its rank, its size and its cause'
ranks "$job" >/dev/null
has_words "$(cat "$scratch/out")" 'Rank 3: 5.82 MiB, 1.67% over the median; +97.66 KiB in tag forward/activation, from step 12 on.' \
    'a sentence says which rank is out, by how much, in what and since when'
has_words "$(cat "$scratch/out")" 'Rank 5 alone grows: by 2.38 KiB from step 1 to step 39' 'a sentence says which rank alone grows'
has_words "$(cat "$scratch/out")" '1 allocation failed; the first, of rank 7' 'a sentence says which rank had failures'
is "$(ranks --max-skew=1% "$job") $(ranks --max-skew=2% "$job")" '1 0' \
    '--max-skew has exit status 1 where the highest peak is over the median by more, and 0 where it is not'
"$tidemark" ranks --rank=5 --json "$job" >"$scratch/answer"
is "$(answer "SELECT json_extract(text, '\$.rank'), json_extract(text, '\$.groups[0].name'), json_extract(text,
    '\$.groups[0].over_median_bytes') FROM answer")" "5|other|$((64 * 39))" '--rank explains another rank'
is "$(ask "$job" "SELECT count(*), min(text) FROM mark")" '16|saved' 'marks that are no steps are there, too'

# The schema on the page, and its queries.
"$AWK" '/^```sql/ { block++; next } /^```/ { block += 0.5 } block == 1' "$top_srcdir/doc/ranks.md" >"$scratch/documented.sql"
"$SQLITE3" "$scratch/documented.db" <"$scratch/documented.sql"
schema="SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"
ok 'the page has tables' test "$(ask "$scratch/documented.db" "$schema" | wc -l)" -gt 15
ask "$scratch/documented.db" "$schema" >"$scratch/documented"
ask "$job" "$schema" >"$scratch/seen"
ok 'the page has the schema of the file, to the letter' diff "$scratch/documented" "$scratch/seen"
"$AWK" '/^```sql/ { block++; next } /^```/ { on = 0; next } block > 1' "$top_srcdir/doc/ranks.md" | "$AWK" '/^--/ { on = 1 } on; /;$/ { on = 0 }' >"$scratch/queries.sql"
is "$("$SQLITE3" -readonly "$job" <"$scratch/queries.sql" | tail -n 3 | sort | tr '\n' ' ')" \
    'forward/activation|1100000 other|2000 parameters|5000000 ' 'the queries on the page answer'

# The peaks of two ranks lie in different phases: rank 0 has its own before the first step, rank 1 in step 3, in which it
# keeps what rank 0 does not have. What both have in each step is live at one of the two peaks alone.
for rank in 0 1; do
    "$top_builddir/tests/make-trace" "$scratch/phase-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 2), ('trace_id', 2000 + $rank), ('ended', 'closed');
        INSERT INTO tag VALUES (1, NULL, 'parameters'), (2, NULL, 'loading'), (3, NULL, 'optimizer'), (4, NULL, 'kept');
        INSERT INTO mark SELECT value * 1000000, 1, 'mark', 'step ' || value, NULL FROM json_each('[1, 2, 3, 4, 5, 6]');
        INSERT INTO life VALUES (1, 1, 5000000, 10, NULL), (2, 1, 900000, 20, 30);
        INSERT INTO life SELECT value * 10, 1, 850000, value * 1000000 + 100, value * 1000000 + 900000
            FROM json_each('[1, 2, 3, 4, 5, 6]');
        INSERT INTO life SELECT 35, 1, 100000, 3000050, NULL WHERE $rank = 1;
        UPDATE allocation SET tag_id = CASE allocation_id WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 35 THEN 4 ELSE 3 END;" || exit 99
done
merge "$scratch/phase-0.db" "$scratch/phase-1.db" -o "$scratch/phases.db" >/dev/null
ranks "$scratch/phases.db" >/dev/null
has_words "$(cat "$scratch/out")" '+97.66 KiB in tag kept, from step 3 on.' \
    'the sentence names what the rank has more in its steps, before what is only live in another phase'
"$tidemark" ranks --json "$scratch/phases.db" >"$scratch/answer"
is "$(answer "SELECT json_extract(value, '\$.name') FROM answer, json_each(text, '\$.groups') WHERE json_extract(value, '\$.named')")" \
    'kept' 'JSON marks the group that the sentence names'

# What is in stays as it is.
cp "$job" "$scratch/again.db"
"$SQLITE3" "$scratch/again.db" 'DELETE FROM usage_bucket WHERE rank = 1'
is "$(merge "$folder" -o "$scratch/again.db") $(ask "$scratch/again.db" 'SELECT count(*) FROM usage_bucket WHERE rank = 1')" \
    '0 0' 'a rank that is in is not read again'
contents "$job" >"$scratch/whole"
merge "$folder/rank-3.db" "$folder/rank-9.db" "$folder/rank-7.db" -o "$scratch/parts.db" >/dev/null
is "$(merge --jobs=3 "$folder" -o "$scratch/parts.db")" 0 'a merge goes on with the ranks that are not in'
sed "s|$scratch/parts|$job|" "$scratch/whole" >"$scratch/wanted"
contents "$scratch/parts.db" >"$scratch/seen"
ok 'a file made in parts has what one made at once has' diff "$scratch/wanted" "$scratch/seen"

# A kill in the middle, at whatever moment it comes.
"$tidemark" merge --jobs=1 "$folder" -o "$scratch/killed.db" >/dev/null 2>&1 &
merger=$!
waits=0
while test $waits -lt 500 && ! test "$(ask "$scratch/killed.db" 'SELECT count(*) FROM rank' 2>/dev/null | grep -c '^[2-9]$')" -eq 1; do
    waits=$((waits + 1))
    kill -0 $merger 2>/dev/null || break
done
kill -KILL $merger 2>/dev/null
wait $merger 2>/dev/null
is "$(merge "$folder" -o "$scratch/killed.db")" 0 'a merge that was killed goes on when it is run again'
contents "$scratch/killed.db" >"$scratch/seen"
ok 'a file whose merge was killed has what another has' diff "$scratch/wanted" "$scratch/seen"
"$SQLITE3" "$scratch/killed.db" "UPDATE meta SET value = 0 WHERE key = 'complete'"
is "$(ranks "$scratch/killed.db") $(grep -c 'did not come to its end' "$scratch/out")" '3 1' \
    'ranks says of a file whose merge was killed that there is more to come'

# What is wrong is named, and the rest is merged.
cp "$folder/rank-2.db" "$scratch/copy.db"
is "$(merge "$folder" "$scratch/copy.db" -o "$scratch/same.db") $(ask "$scratch/same.db" 'SELECT count(*) FROM rank')" '3 16' \
    'where a trace is there twice, the other ranks are merged, with exit status 3'
has_words "$(cat "$scratch/err")" "copy.db: it is the same trace as $folder/rank-2.db, which comes first and stands for both: left out" 'the trace that is there twice is named'
is "$(merge "$scratch/copy.db" "$folder" -o "$scratch/same-first.db") $(ask "$scratch/same-first.db" 'SELECT path FROM rank WHERE rank = 2')
$(cat "$scratch/err")" "3 $scratch/copy.db
$folder/rank-2.db: it is the same trace as $scratch/copy.db, which comes first and stands for both: left out" \
    'of two copies of a trace the first on the command line is merged, and the message names both'
mkdir "$scratch/twice"
for copy in rank-2 again rank-10; do cp "$folder/rank-2.db" "$scratch/twice/$copy.db"; done
is "$(merge "$scratch/twice" -o "$scratch/twice.db") $(ask "$scratch/twice.db" 'SELECT path FROM rank')
$(grep -o 'twice/[^ ]*: it is the same trace as .*' "$scratch/err")" "3 $scratch/twice/again.db
twice/rank-2.db: it is the same trace as $scratch/twice/again.db, which comes first and stands for both: left out
twice/rank-10.db: it is the same trace as $scratch/twice/again.db, which comes first and stands for both: left out" \
    'of copies in a folder the first by name is merged'
make_rank "$scratch/other-4.db" 4 "UPDATE meta SET value = 77 WHERE key = 'trace_id';"
is "$(merge "$folder" "$scratch/other-4.db" -o "$scratch/two.db") $(ask "$scratch/two.db" 'SELECT count(*) FROM rank')" '3 16' \
    'where two traces are of one rank, the other ranks are merged, with exit status 3'
has_words "$(cat "$scratch/err")" "other-4.db: it is of rank 4, as $folder/rank-4.db: left out" 'the second trace of a rank is named'
is "$(merge "$scratch/other-4.db" -o "$job") $(cat "$scratch/err")" \
    "3 $scratch/other-4.db: rank 4 is in already, of $folder/rank-4.db: left out" 'so is one of a rank that is in the file'
is "$(ask "$job" 'SELECT reason FROM left_out')" "rank 4 is in already, of $folder/rank-4.db" 'the file says what was left out'
make_rank "$scratch/alien.db" 0 "UPDATE meta SET value = 'weekly' WHERE key = 'job'; UPDATE meta SET value = 78 WHERE key = 'trace_id';"
is "$(merge "$scratch/alien.db" "$folder" -o "$scratch/jobs.db") $(ask "$scratch/jobs.db" "SELECT count(*) FROM rank WHERE job = 'nightly'")" \
    '3 16' 'of traces of two jobs those of the job with most traces are merged'
has_words "$(cat "$scratch/err")" 'alien.db: it is of the job weekly, the others are of nightly: left out' 'the trace of another job is named'
mkdir "$scratch/broken"
cp "$folder"/rank-*.db "$scratch/broken"
echo 'no trace' >"$scratch/broken/rank-6.db"
head -c 20000 "$folder/rank-8.db" >"$scratch/broken/rank-8.db"
is "$(merge "$scratch/broken" -o "$scratch/fewer.db") $(ask "$scratch/fewer.db" 'SELECT count(*) FROM rank')" '3 14' \
    'where two of the traces are broken, the others are merged, with exit status 3'
is "$(grep -c 'rank-[68].db: it cannot be read: left out' "$scratch/err")" 2 'each broken trace is named'
has_words "$(cat "$scratch/err")" 'of 16 ranks these are missing: 6, 8' 'the missing ranks are named'
is "$(ranks "$scratch/fewer.db") $(grep -c 'Of 16 ranks these are missing: 6, 8.' "$scratch/out")" '3 1' \
    'ranks names the missing ranks, with exit status 3'
make_rank "$scratch/late.db" 0 "UPDATE meta SET value = 0 WHERE key = 'complete'; DELETE FROM meta WHERE key = 'world_size';"
is "$(merge "$scratch/late.db" -o "$scratch/late-job.db") $(ask "$scratch/late-job.db" 'SELECT rank, complete FROM rank')" '3 0|0' \
    'an incomplete trace is merged as it is, with exit status 3'
"$SQLITE3" "$scratch/late.db" "UPDATE meta SET value = 1 WHERE key = 'complete'"
is "$(merge "$scratch/late.db" -o "$scratch/late-job.db") $(ask "$scratch/late-job.db" 'SELECT rank, complete FROM rank')" '0 0|1' \
    'an incomplete trace is read again, for it may have more'

# What cannot be read, and what is too short to tell what it is, may be a trace. What is certainly none is not mentioned.
mkdir "$scratch/odd" "$scratch/odd/folder.db"
for rank in 0 1 2; do make_rank "$scratch/odd/rank-$rank.db" $rank "UPDATE meta SET value = 3 WHERE key = 'world_size';"; done
"$SQLITE3" "$scratch/odd/foreign.db" 'CREATE TABLE t(x)'
echo 'no trace' >"$scratch/odd/notes.txt"
mkfifo "$scratch/odd/pipe.db"
is "$(merge "$scratch/odd" -o "$scratch/odd.db") $(cat "$scratch/err")" '0 ' 'what is in a folder and no trace is not mentioned'
rm "$scratch/odd/rank-1.db"
# Read behind foreign.db, so that nothing of a trace is left where its head is read to.
for bytes in 0 15 16 71; do
    head -c $bytes "$folder/rank-1.db" >"$scratch/odd/gone-rank-1.db"
    echo "$(merge "$scratch/odd" -o "$scratch/odd-$bytes.db") $(grep -c 'rank-1.db: it cannot be read: left out' "$scratch/err") $(
        grep -c 'of 3 ranks these are missing: 1$' "$scratch/err") $(check_none "$scratch/odd-$bytes.db")"
done >"$scratch/seen"
is "$(sort -u "$scratch/seen")" '3 1 1 3' 'a trace that is cut to a few bytes is named as left out, and check does not pass'
rm "$scratch/odd/gone-rank-1.db"
ln -s "$scratch/nowhere" "$scratch/odd/rank-1.db"
is "$(merge "$scratch/odd" -o "$scratch/odd-link.db") $(grep -c 'rank-1.db: it cannot be read: left out' "$scratch/err")" '3 1' \
    'so is a link that leads nowhere'
nobody=
test "$(id -u)" -ne 0 || nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
chmod 711 "$scratch"
if $nobody test -r "$tidemark" 2>/dev/null; then
    rm "$scratch/odd/rank-1.db"
    cp "$folder/rank-1.db" "$scratch/odd/rank-1.db"
    chmod 644 "$scratch/odd"/rank-[02].db
    chmod 000 "$scratch/odd/rank-1.db"
    mkdir "$scratch/odd-job"
    chmod 777 "$scratch/odd-job"
    is "$($nobody "$tidemark" merge "$scratch/odd" -o "$scratch/odd-job/job.db" 2>"$scratch/err"; echo $?) $(
        grep -c 'rank-1.db: Permission denied' "$scratch/err") $(grep -c 'rank-1.db: it cannot be read: left out' "$scratch/err") $(
        check_none "$scratch/odd-job/job.db")" '3 1 1 3' 'a trace of a folder that may not be read is named as left out, and check does not pass'
else
    skip 1 'there is no other user to become'
fi

# One of a thousand; fewer with sanitizers.
many=$(fewer 1000 100)
broken=$((many * 617 / 1000))
mkdir "$scratch/thousand"
"$top_builddir/tests/make-trace" "$scratch/one.db" "INSERT INTO meta VALUES ('rank', 0), ('world_size', $many), ('trace_id', 0),
    ('ended', 'closed'); INSERT INTO life VALUES (1, 1, 4096, 10, 20);" || exit 99
rank=0
while test $rank -lt $many; do
    cp "$scratch/one.db" "$scratch/thousand/rank-$rank.db"
    echo "ATTACH '$scratch/thousand/rank-$rank.db' AS t; PRAGMA t.synchronous = OFF; PRAGMA t.journal_mode = OFF;
        UPDATE t.meta SET value = $rank WHERE key = 'rank'; UPDATE t.meta SET value = 9000 + $rank WHERE key = 'trace_id'; DETACH t;"
    rank=$((rank + 1))
done | "$SQLITE3" :memory: >/dev/null
head -c 5000 "$scratch/one.db" >"$scratch/thousand/rank-$broken.db"
is "$(merge "$scratch/thousand" -o "$scratch/thousand.db") $(ask "$scratch/thousand.db" 'SELECT count(*), sum(allocations) FROM rank')" \
    "3 $((many - 1))|$((many - 1))" "where one of $many traces is broken, the others are merged, with exit status 3"
is "$(grep -c "rank-$broken.db: it cannot be read: left out" "$scratch/err") $(
    grep -c "of $many ranks these are missing: $broken\$" "$scratch/err")" '1 1' \
    "the one broken trace of $many is named, and so is its rank"
rm -r "$scratch/thousand"

# Traces that do not say their ranks.
for rank in 2 7; do make_rank "$scratch/gpu.rank$rank.db" $rank "DELETE FROM meta WHERE key IN ('rank', 'world_size');"; done
make_rank "$scratch/plain.db" 9 "DELETE FROM meta WHERE key IN ('rank', 'world_size');"
is "$(merge "$scratch/plain.db" "$scratch/gpu.rank7.db" "$scratch/gpu.rank2.db" -o "$scratch/named.db")
$(ask "$scratch/named.db" "SELECT rank, substr(path, length('$scratch/') + 1) FROM rank ORDER BY rank")" '0
0|plain.db
2|gpu.rank2.db
7|gpu.rank7.db' 'a rank is told by the name of its trace, or else gets a number that nobody has'
is "$(cat "$scratch/err")" 'tidemark merge: 1 trace says no rank: numbered 0' 'the number that was given is told'

# The same where the job says how many ranks it has: of 5, two are named, and two traces say none.
mkdir "$scratch/five"
for rank in 0 1 2; do
    make_rank "$scratch/five/rank-$rank.db" $rank "UPDATE meta SET value = 5 WHERE key = 'world_size';"
done
mv "$scratch/five/rank-1.db" "$scratch/late-1.db"
make_rank "$scratch/five/a.db" 11 "DELETE FROM meta WHERE key IN ('rank', 'world_size');"
make_rank "$scratch/five/b.db" 12 "DELETE FROM meta WHERE key IN ('rank', 'world_size');"
is "$(merge "$scratch/five" -o "$scratch/five.db") $(cat "$scratch/err")" \
    '3 tidemark merge: 2 traces say no rank: numbered 5 to 6, behind the 5 of the job
tidemark merge: of 5 ranks these are missing: 1, 3-4' 'traces without a rank do not stand for missing ranks, and their numbers are told'
is "$(ask "$scratch/five.db" "SELECT rank, substr(path, length('$scratch/five/') + 1) FROM rank ORDER BY rank" | tr '\n' ' ')" \
    '0|rank-0.db 2|rank-2.db 5|a.db 6|b.db ' 'traces without a rank get the numbers behind those of the job'
is "$(ranks "$scratch/five.db") $(grep -c '2 ranks have numbers behind the 5 of the job: ' "$scratch/out") $(
    grep -c 'Of 5 ranks these are missing: 1, 3-4.' "$scratch/out")" '3 1 1' 'ranks says whose numbers were given'
"$tidemark" ranks --json "$scratch/five.db" >"$scratch/answer" 2>/dev/null
is "$(answer "SELECT json_extract(text, '\$.ranks'), json_extract(text, '\$.world_size'), json_extract(text, '\$.missing'),
    json_extract(text, '\$.beyond_count') FROM answer")" '4|5|1, 3-4|2' 'the JSON counts the ranks whose numbers were given'
make_rank "$scratch/c.db" 13 "DELETE FROM meta WHERE key IN ('rank', 'world_size');"
is "$(merge "$scratch/c.db" "$scratch/late-1.db" -o "$scratch/five.db") $(cat "$scratch/err")
$(ask "$scratch/five.db" "SELECT group_concat(rank) FROM (SELECT rank FROM rank ORDER BY rank)")" \
    '3 tidemark merge: 1 trace says no rank: numbered 7, behind the 5 of the job
tidemark merge: of 5 ranks these are missing: 3-4
0,1,2,5,6,7' 'a rank that was missing takes its number in a further merge, and those that were given stay'
make_rank "$scratch/d.db" 14 "DELETE FROM meta WHERE key IN ('rank', 'world_size');"
is "$(merge "$scratch/d.db" -o "$scratch/five.db") $(cat "$scratch/err")" \
    '3 tidemark merge: 1 trace says no rank: numbered 8, behind the 5 of the job
tidemark merge: of 5 ranks these are missing: 3-4' 'the file says how many ranks the job has where no further trace does'

# What cannot be.
cp "$folder/rank-1.db" "$scratch/kept.db"
is "$(merge "$folder" -o "$scratch/kept.db") $(cat "$scratch/err")" \
    "2 $scratch/kept.db: it exists and is no file of a job: it is not overwritten" 'a trace is not overwritten'
: >"$scratch/made.db"
is "$(merge "$folder" -o "$scratch/made.db") $(ask "$scratch/made.db" 'SELECT count(*) FROM rank')" '0 16' 'an empty file counts as new'
ok 'the trace is as it was' cmp "$folder/rank-1.db" "$scratch/kept.db"
is "$(merge "$folder") $(merge -o "$job") $(merge --jobs=0 "$folder" -o "$job") $(merge --jobs=x "$folder" -o "$job") $(merge --jobs)" \
    '2 2 2 2 2' 'missing and wrong arguments of merge are wrong use'
is "$(merge "$scratch/none.db" -o "$scratch/empty.db") $(test -e "$scratch/empty.db" && echo made)" '2 ' \
    'where no trace can be read, no file is made'
is "$(ranks) $(ranks "$scratch/none.db") $(ranks --rank=99 "$job") $(ranks --memory=none "$job") $(ranks --max-skew=5 "$job") $(ranks --by=color "$job")" \
    '2 2 2 2 2 2' 'missing and wrong arguments of ranks are wrong use'
is "$(ranks "$folder/rank-1.db") $(cat "$scratch/err")" \
    "2 $folder/rank-1.db: it is no file of a job; \`tidemark merge\` makes one of the traces of its ranks" \
    'ranks says what makes a file of a job of a trace'
if command -v flock >/dev/null; then
    is "$(flock "$job-lock" "$tidemark" merge "$folder" -o "$job" 2>&1; echo $?)" "$job: another \`tidemark merge\` writes into it
2" 'two merges do not write into one file'
else
    skip 1 'there is no flock command'
fi
mkdir "$scratch/nothing"
is "$(merge "$scratch/nothing" -o "$scratch/empty.db") $(grep -c 'nothing: it has no traces' "$scratch/err")" '2 1' \
    'a folder without traces is named'

# Groups that were cut off are not groups of 0 bytes.
mkdir "$scratch/cut"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/cut/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 3), ('trace_id', 2000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < iif($rank = 2, 150, 4096))
            SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 'large ' || s FROM n;
        INSERT INTO tag VALUES (5001, NULL, 'small'), (5002, NULL, 'planted');
        INSERT INTO life SELECT s, 1, 2000, s, NULL FROM n;
        INSERT INTO life VALUES (5001, 1, 500, 10000, NULL);
        INSERT INTO life SELECT 5002, 1, 3000 + 70 * $rank, 10001, NULL WHERE $rank > 0;
        UPDATE allocation SET tag_id = allocation_id;" || exit 99
done
is "$(merge "$scratch/cut" -o "$scratch/cut.db") $(ask "$scratch/cut.db" 'SELECT * FROM group_cut ORDER BY rank' | tr '\n' ' ')" \
    '0 0|1|tag|500|0 1|1|tag|2000|0 ' 'the file says of which ranks groups were cut off, and the most that any of them has'
"$tidemark" ranks --rank=2 --limit=10000 --json "$scratch/cut.db" >"$scratch/answer"
is "$(answer "SELECT json_extract(value, '\$.bytes'), json_extract(value, '\$.median_bytes'), json_extract(value,
    '\$.over_median_bytes'), json_extract(value, '\$.median_least_bytes'), json_extract(value, '\$.median_most_bytes')
    FROM answer, json_each(text, '\$.groups') WHERE json_extract(value, '\$.name') = 'small'")" \
    '500|||0|500' 'the median of a group that most ranks have cut off has two ends, and the difference is not one figure'
"$tidemark" ranks --rank=1 --limit=10000 --json "$scratch/cut.db" >"$scratch/answer"
is "$(answer "SELECT json_extract(value, '\$.median_bytes'), json_extract(value, '\$.over_median_bytes') FROM answer,
    json_each(text, '\$.groups') WHERE json_extract(value, '\$.name') = 'planted'")" \
    '3070|0' 'where both ends of a median are the same it is exact, though a rank has cut off the group'

# A tag that one rank has much of, and that the others have cut off: all of their other tags have 2,000 bytes.
mkdir "$scratch/few"
for rank in 0 1 2 3; do
    "$top_builddir/tests/make-trace" "$scratch/few/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 4), ('trace_id', 6000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 4100) SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 'other ' || s FROM n;
        INSERT INTO tag VALUES (5001, NULL, 'planted');
        INSERT INTO life SELECT s, 1, 2000, s, NULL FROM n;
        INSERT INTO life VALUES (5001, 1, iif($rank = 2, 1000000, 500), 10000, NULL);
        UPDATE allocation SET tag_id = allocation_id;" || exit 99
done
merge "$scratch/few" -o "$scratch/few.db" >/dev/null
"$tidemark" ranks --json "$scratch/few.db" >"$scratch/answer"
is "$(answer "SELECT json_extract(value, '\$.name'), json_extract(value, '\$.bytes'), json_extract(value, '\$.over_median_bytes'),
    json_extract(value, '\$.over_median_least_bytes'), json_extract(value, '\$.over_median_most_bytes') FROM answer,
    json_each(text, '\$.groups') WHERE json_extract(value, '\$.kind') = 'tag' LIMIT 1")" 'planted|1000000||998000|1000000' \
    'a group of which one rank has much is named, though all others have cut it off'
ranks "$scratch/few.db" >/dev/null
has_words "$(cat "$scratch/out")" 'between +974.6 KiB and +976.6 KiB in tag planted' 'the sentence has both ends of the difference'
is "$(answer "SELECT count(*) > 4000, json_extract(text, '\$.rest') FROM answer, json_each(text, '\$.groups')")" '1|' \
    'without a limit all groups are in the JSON'
"$tidemark" ranks --limit=10 --json "$scratch/few.db" >"$scratch/answer"
is "$(answer "SELECT json_array_length(text, '\$.groups'), json_extract(text, '\$.rest.groups.count') > 4000 FROM answer")" '10|1' \
    'a limit of the groups says how many it leaves out'

# As many tags as a model with a tag for each module has, of two ranks: one that a single rank has is named.
mkdir "$scratch/modules"
for rank in 0 1; do
    "$top_builddir/tests/make-trace" "$scratch/modules/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 2), ('trace_id', 5000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 300) SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 'module ' || s FROM n;
        INSERT INTO tag VALUES (301, NULL, 'kept');
        INSERT INTO mark SELECT s * 1000000, 1, 'mark', 'step ' || s, NULL FROM n WHERE s <= 10;
        INSERT INTO life SELECT s, 1, 6144 + s, s, NULL FROM n;
        INSERT INTO life SELECT 301, 1, 67108864, 7000500, NULL WHERE $rank = 1;
        UPDATE allocation SET tag_id = allocation_id;" || exit 99
done
merge "$scratch/modules" -o "$scratch/modules.db" >/dev/null
"$tidemark" ranks --json "$scratch/modules.db" >"$scratch/answer"
is "$(answer "SELECT json_extract(text, '\$.rank'), json_extract(value, '\$.name'), json_extract(value, '\$.median_bytes'),
    json_extract(value, '\$.over_median_bytes'), json_extract(value, '\$.from_step') FROM answer, json_each(text, '\$.groups')
    WHERE json_extract(value, '\$.kind') = 'tag' LIMIT 1")" '1|kept|0|67108864|7' 'of 301 tags the one that a single rank has is named to the byte, with its step'
is "$(ask "$scratch/modules.db" 'SELECT count(*) FROM group_cut')" 0 'none of so many tags is cut off'

# Likewise in steps, where they have too many changes.
mkdir "$scratch/dropped"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/dropped/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 3), ('trace_id', 4000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 150) SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 'large ' || s FROM n;
        INSERT INTO tag VALUES (151, NULL, 'small');
        INSERT INTO mark SELECT s * 1000000, 1, 'mark', 'step ' || s, NULL FROM n WHERE s <= 120;
        INSERT INTO life SELECT s.s * 1000 + t.s, 1, 2000 + 10 * (s.s % 2), s.s * 1000000 + t.s, s.s * 1000000 + 900000
            FROM n AS s, n AS t WHERE s.s <= 120 AND t.s <= iif($rank = 2, 10, 150);
        INSERT INTO life VALUES (151, 1, 500, 10, NULL);
        INSERT INTO life SELECT 999151, 1, 400, 60000000 + 1000, NULL WHERE $rank = 2;
        UPDATE allocation SET tag_id = allocation_id % 1000;" || exit 99
done
merge "$scratch/dropped" -o "$scratch/dropped.db" >/dev/null
"$tidemark" ranks --rank=2 --limit=1000 --json "$scratch/dropped.db" >"$scratch/answer"
is "$(answer "SELECT json_extract(value, '\$.over_median_bytes'), json_extract(value, '\$.from_step') FROM answer,
    json_each(text, '\$.groups') WHERE json_extract(value, '\$.name') = 'small'") $(ask "$scratch/dropped.db" \
    'SELECT group_concat(rank) FROM group_cut WHERE step_bytes = 2010')" '400| 0,1' \
    'there is no step of a difference in a group whose steps most ranks have cut off'

# More steps than the file has room for, all of odd numbers.
"$top_builddir/tests/make-trace" "$scratch/odd.db" "
    INSERT INTO meta VALUES ('rank', 0), ('trace_id', 3000), ('ended', 'closed');
    CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 2 FROM s WHERE s < 9999) SELECT s FROM s;
    INSERT INTO mark SELECT s * 1000, 1, 'mark', 'step ' || s, NULL FROM n;
    INSERT INTO life VALUES (1, 1, 100, 10, NULL);" || exit 99
is "$(merge "$scratch/odd.db" -o "$scratch/odd-job.db") $(ask "$scratch/odd-job.db" 'SELECT count(*), max(step) FROM step')" \
    '0 2501|9997' 'of more steps than there is room for several are one, whatever numbers they have'

# Ranks whose memory has another name.
mkdir "$scratch/kinds"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/kinds/rank-$rank.db" "INSERT INTO meta VALUES ('rank', $rank), ('world_size', 3), ('trace_id', 60 + $rank),
        ('ended', 'closed'); UPDATE layer SET kind = 'host' WHERE layer_id = 2 AND $rank = 1;
        INSERT INTO life VALUES (1, 1, 1000, 10, NULL), (2, 1, 500 - $rank, 20, 30);" || exit 99
done
is "$(merge "$scratch/kinds" -o "$scratch/kinds.db") $(ranks "$scratch/kinds.db")
$(grep '^Of ' "$scratch/out")" '0 0
Of 3 ranks 2 have a memory of the name sim: the others are left out here.' 'ranks says how many ranks have the memory that is told of'
is "$(ranks --rank=1 "$scratch/kinds.db") $(cat "$scratch/err")" "2 $scratch/kinds.db: rank 1 has no memory of the name sim" \
    'a rank that is in the file and has no such memory is not told to be missing'
is "$(ranks --rank=1 --memory=host "$scratch/kinds.db")
$(grep '^Of ' "$scratch/out")" '0
Of 3 ranks 1 has a memory of the name host: the others are left out here.' 'a rank is explained in the memory that it has'

# A peak that is ten thousand times the median.
mkdir "$scratch/large"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/large/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 3), ('trace_id', 7500 + $rank), ('ended', 'closed');
        INSERT INTO life VALUES (1, 1, iif($rank = 2, 10045000, 1000), 10, NULL);" || exit 99
done
merge "$scratch/large" -o "$scratch/large.db" >/dev/null
ranks --max-skew=5% "$scratch/large.db" >/dev/null
is "$(grep -c -e 'Rank 2: 9.58 MiB, 1004400% over the median' -e 'is over the median by 1004400%, more than the 5%' "$scratch/out")" 2 \
    'a share of many digits is written in plain digits'

# Ranks that do not mark the same steps. make_marks FOLDER SQL BYTES: four ranks with 40 steps, of which a rank marks s as
# step `n` of the rows of SQL, which knows rank and s. Rank 0 keeps 1000 bytes more in each, the others BYTES.
make_marks() {
    mkdir "$1"
    for rank in 0 1 2 3; do
        "$top_builddir/tests/make-trace" "$1/rank-$rank.db" "
            INSERT INTO meta VALUES ('rank', $rank), ('world_size', 4), ('trace_id', 7000 + $rank), ('ended', 'closed');
            INSERT INTO tag VALUES (1, NULL, 'weights'), (2, NULL, 'losses');
            CREATE TEMP TABLE s AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 40)
                SELECT s, $rank AS rank FROM s;
            INSERT INTO mark SELECT s * 1000, 1, 'mark', 'step ' || n, NULL FROM ($2);
            INSERT INTO life VALUES (1, 1, 100000, 10, NULL);
            INSERT INTO life SELECT 1 + s, 1, iif(rank = 0, 1000, $3), s * 1000 + 600, NULL FROM s WHERE rank = 0 OR $3 > 0;
            UPDATE allocation SET tag_id = iif(allocation_id = 1, 1, 2);" || exit 99
    done
    merge "$1" -o "$1.db" >/dev/null
}
growths() {
    "$tidemark" ranks --json "$1" >"$scratch/answer"
    answer "SELECT json_extract(value, '\$.rank'), json_extract(value, '\$.first_step'), json_extract(value, '\$.last_step'),
        json_extract(value, '\$.grown_bytes'), json_extract(value, '\$.step_bytes'), json_extract(value, '\$.median_bytes'),
        json_extract(value, '\$.group'), json_extract(value, '\$.group_bytes') FROM answer, json_each(text, '\$.growth')"
    answer "SELECT json_extract(text, '\$.growth_unknown') FROM answer"
}
check_growth() {
    "$tidemark" check --max-growth="$1" "$2" >"$scratch/out" 2>"$scratch/err"
    echo $?
}
finer='SELECT *, s AS n FROM s WHERE rank = 0 OR s % 5 = 0'
make_marks "$scratch/finer" "$finer" 0
is "$(growths "$scratch/finer.db") $(check_growth 1000 "$scratch/finer.db") $(check_growth 35000 "$scratch/finer.db")" \
    '0|4|39|35000|1000|0|losses|35000
0 1 0' 'a rank that marks each step and leaks is found beside ranks that mark every fifth step'
is "$(ask "$scratch/finer.db" 'SELECT step, ranks, peak_bytes, end_bytes, ended_ranks, ended_bytes FROM step_median WHERE step IN (4, 7, 9)' | tr '\n' ' ')" \
    '4|4|100000|100000|4|100000 7|4|100000|100000|1|107000 9|4|100000|100000|4|100000 ' \
    'a rank counts in the steps that it does not mark, and not at their ends'
make_marks "$scratch/alike" "$finer" 1000
is "$(growths "$scratch/alike.db") $(check_growth 0 "$scratch/alike.db")" '0 0' \
    'a rank that marks each step and grows as all others do is no finding'
make_marks "$scratch/alone" 'SELECT *, 4 * s + rank AS n FROM s' 0
is "$(growths "$scratch/alone.db") $(check_growth 1000 "$scratch/alone.db") $(
    grep -c 'unknown: too few steps of 1 of 4 ranks, the first of them 0, end where those of most ranks do, in sim' "$scratch/out")" '1 3 1' \
    'whether a rank grows more than others is unknown where none has a step in common with it'
ranks "$scratch/alone.db" >/dev/null
has_words "$(cat "$scratch/out")" 'Of rank 0 it is not known whether it grows more than the median: too few of its steps end where those of most ranks do.' \
    'ranks says of which rank that is not known'
make_marks "$scratch/short" 'SELECT *, s AS n FROM s WHERE rank = 0 OR s <= 10' 0
is "$(growths "$scratch/short.db") $(check_growth 1000 "$scratch/short.db")" '1 3' \
    'so it is where most ranks end before the half of its steps'

# More memories than the file takes of a rank.
"$top_builddir/tests/make-trace" "$scratch/many.db" "
    INSERT INTO meta VALUES ('rank', 0), ('trace_id', 3100), ('ended', 'closed');
    DELETE FROM layer;
    CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 2 FROM s WHERE s < 33) SELECT s FROM s;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) SELECT s, s + 1, 'log', '' FROM n;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) SELECT s + 1, NULL, 'sim', '' FROM n;
    INSERT INTO life SELECT s, s, 1000 * s, s, NULL FROM n;" || exit 99
is "$(merge "$scratch/many.db" -o "$scratch/many-job.db") $(ask "$scratch/many-job.db" 'SELECT complete FROM rank') $(ranks "$scratch/many-job.db")" \
    '3 0 3' 'a rank of which not all memories are in is incomplete'

# The marks of steps are the same for all ranks of a file.
is "$(merge --steps='step *' "$folder/rank-1.db" -o "$scratch/pattern.db") $(merge --steps='other*' "$folder" -o "$scratch/pattern.db") $(
    cat "$scratch/err")" "3 2 $scratch/pattern.db: its ranks have steps by --steps='step *', not by --steps='other*': merge into a new file" \
    'another pattern of steps than that of the file is refused'
is "$(merge "$folder" -o "$scratch/pattern.db") $(ask "$scratch/pattern.db" 'SELECT count(*) FROM rank')
$(merge --steps='step *' "$folder" -o "$job")" '0 16
2' 'a merge takes the pattern of the file, and a file without one gets none'
is "$(merge --steps='Step*' "$folder" -o "$scratch/unmatched.db") $(cat "$scratch/err")" \
    '3 tidemark merge: no mark matches "Step*"; the file has 656 marks' 'a pattern of steps that no mark matches is told'
make_rank "$scratch/capital.db" 0 "UPDATE mark SET text = 'S' || substr(text, 2); DELETE FROM meta WHERE key = 'world_size';"
make_rank "$scratch/small-s.db" 1 "DELETE FROM meta WHERE key = 'world_size';"
is "$(merge --steps='step *' "$scratch/capital.db" "$scratch/small-s.db" -o "$scratch/mixed.db") $(cat "$scratch/err")" \
    "3 $scratch/capital.db: no mark matches \"step *\"; it has 41 marks" 'a trace of which no mark matches the pattern is named'
is "$(ls "$scratch" | grep -c -e '-lock$')" "$(test -e "$job-lock" && echo 1 || echo 0)" 'no merge leaves a file with its lock'

# A file of another version.
cp "$job" "$scratch/other.db"
"$SQLITE3" "$scratch/other.db" "UPDATE meta SET value = 4 WHERE key = 'format_version'"
is "$(ranks "$scratch/other.db") $(cat "$scratch/err")" \
    "2 $scratch/other.db: its format is 4, and this version reads 5: merge its traces again into a new file" \
    'a job of an earlier format is refused with what to do'
"$SQLITE3" "$scratch/other.db" "UPDATE meta SET value = 6 WHERE key = 'format_version'"
is "$(ranks "$scratch/other.db") $(cat "$scratch/err")" "2 $scratch/other.db: its format is 6, and this version reads 5" \
    'a job of a later format is refused'

# Figures that cannot be.
cp "$job" "$scratch/hostile.db"
"$SQLITE3" "$scratch/hostile.db" 'UPDATE rank_memory SET peak_bytes = -9223372036854775807 WHERE rank = 4'
is "$(ranks "$scratch/hostile.db") $(cat "$scratch/err")" "2 $scratch/hostile.db: it has figures that cannot be, of rank 4 in the table rank_memory" \
    'ranks refuses figures that cannot be'
for column in kind name; do
    cp "$job" "$scratch/hostile.db"
    "$SQLITE3" "$scratch/hostile.db" "CREATE TABLE g AS SELECT * FROM allocation_group; DROP TABLE allocation_group;
        ALTER TABLE g RENAME TO allocation_group; UPDATE allocation_group SET $column = NULL"
    "$tidemark" report -o "$scratch/hostile.html" "$scratch/hostile.db" >"$scratch/out" 2>"$scratch/said"
    is "$? $(ranks "$scratch/hostile.db") $(cat "$scratch/err" "$scratch/said" | sort -u)" \
        "2 2 $scratch/hostile.db: a group of allocations has no kind or no name" "ranks and report refuse groups without a $column"
done

# A file that cannot grow: what is in stays, and the next merge goes on.
most=$(($(wc -c <"$job") * 3 / 4))
full=$(trap '' XFSZ; prlimit --fsize=$most "$tidemark" merge --jobs=1 "$folder" -o "$scratch/full.db" >/dev/null 2>&1; echo $?)
is "$full $(ask "$scratch/full.db" 'PRAGMA integrity_check')" '2 ok' 'where the file cannot grow, merge ends with an error and leaves a sound file'
is "$(merge "$folder" -o "$scratch/full.db")" 0 'a merge goes on once there is room'
contents "$scratch/full.db" >"$scratch/seen"
ok 'a file that could not grow has what another has in the end' diff "$scratch/wanted" "$scratch/seen"
done_testing
