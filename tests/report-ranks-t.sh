# Tests the page of a job: its data equals brute force over the traces and what `tidemark ranks` says, what is missing or
# wrong is told, and the page passes its own test in headless Chromium.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
driver=$top_srcdir/tests/report-page.py
unset TIDEMARK_STACK
# shellcheck disable=SC2034 # for Chromium, which wants a home of its own
export HOME="$scratch"
test -n "$SQLITE3" || skip_all 'there is no sqlite3 command'
python3 -c 'import json' 2>/dev/null || skip_all 'there is no python3'

# make_rank FILE RANK [SQL]: a rank of 16 with 40 steps; rank 3 has more from step 12 on, rank 5 leaks. The clocks of hosts
# differ, and so do the lengths of buckets.
make_rank() {
    skew=0 leak=0
    test "$2" -eq 3 && skew=100000
    test "$2" -eq 5 && leak=64
    "$top_builddir/tests/make-trace" "$1" "
        INSERT INTO meta VALUES ('rank', $2), ('world_size', 16), ('job', 'nightly'), ('trace_id', 1000 + $2), ('ended', 'closed');
        UPDATE meta SET value = 'node-' || ($2 / 4) WHERE key = 'hostname';
        UPDATE meta SET value = value + $2 * 20000 WHERE key = 'start_unix_ns';
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

# report ARGUMENT...: the exit status; messages go to $scratch/err.
report() {
    "$tidemark" report "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

# ask EXPRESSION: of the data in $scratch/answer, as `page` in Python.
ask() {
    python3 -c 'import json, sys; page = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$scratch/answer" "$1" 2>&1
}

# page SENTENCE JOB [OPTION...]: the page of the job passes its own test, at the widths of $widths.
page() {
    page_sentence=$1
    shift
    if test -z "$browser"; then
        skip 1 'there is no Chromium'
        return
    fi
    rm -f "$scratch/page.html"
    "$tidemark" report -o "$scratch/page.html" "$@" 2>"$scratch/said"
    passes "$page_sentence"
}

# shown EXPRESSION: what it is in the page of $scratch/page.html.
shown() {
    timeout 100 python3 "$driver" value "$scratch/page.html" "$1"
}

browser=
if python3 "$driver" find >/dev/null; then . "$top_srcdir/tests/report-browser.sh"; fi

plan 69
folder=$scratch/traces
job=$scratch/job.db
mkdir "$folder"
for rank in 0 1 2 3 4 5 6 8 9 10 11 12 13 14 15; do make_rank "$folder/rank-$rank.db" $rank; done
make_rank "$folder/rank-7.db" 7 'INSERT INTO refused VALUES (9999, 1, 123456789, 15000500);'
"$tidemark" merge "$folder" -o "$job" || exit 99

# What the page says is what `ranks` says, and what the traces have.
is "$(report -o "$scratch/page.html" "$job") $(cat "$scratch/err")" '0 ' 'a job has a page, and nothing is said'
ok 'the page has a policy that allows nothing but itself' grep -q "default-src 'none'" "$scratch/page.html"
is "$(grep -ciE '(src|href)="?(https?:)?//' "$scratch/page.html")" 0 'the page names no other place'
is "$("$tidemark" report -o - "$job" | cmp - "$scratch/page.html" && echo same)" same '-o - writes the same page to standard output'
is "$(report --json "$job") $(cp "$scratch/out" "$scratch/answer"; ask 'page["of"]')" '0 job' '--json writes the data of the page'
"$tidemark" ranks --json --limit=1000000 "$job" >"$scratch/ranks"
is "$(ask 'page["reports"]["ranks"] == json.load(open(sys.argv[1].replace("answer", "ranks")))')" True \
    'the page has what `tidemark ranks --json` says'
is "$(python3 "$top_srcdir/tests/report-ranks-model.py" compare "$scratch/answer" "$folder"/*.db | grep -c 'cells are compared')" 1 \
    'each cell of the heat map is the most that the trace has in it, and unknown beside it'
is "$(ask '[page["memories"][0]["steps"]["cells"]["values"]["over"][3 * page["memories"][0]["steps"]["buckets"] + s] * page["memories"][0]["steps"]["unit_bytes"] for s in (11, 12, 40)]')" \
    '[0, 100000, 100000]' 'a planted skew is in the heat map over steps, to the byte, from its step on'
is "$(ask '[(f["rank"], f["ns"], f["size"], f["cause"]) for f in page["failures"]]')" "[(7, 15000500, 123456789, 'limit')]" \
    'a failure is in the page with its rank, its size and its cause'
is "$(ask '[r["trace"] for r in page["ranks"]][:2]')" "['traces/rank-0.db', 'traces/rank-1.db']" \
    'traces are named from the folder of the job on'
is "$(ask '[(g["name"], m["median_bytes"]) for m in [page["memories"][0]["groups"]] for g, m in zip(m, m) if g["name"] == "forward/activation"]')" \
    "[('forward/activation', 1000000)]" 'groups have the median beside them'
cp "$job" "$scratch/more.db"
"$SQLITE3" "$scratch/more.db" "INSERT INTO allocation_group VALUES (-5, 'tag', 'unused'); INSERT INTO group_median VALUES (1, -5, 16, 0, 0)"
report --json "$scratch/more.db" >/dev/null
cp "$scratch/out" "$scratch/answer"
is "$(ask '[sorted(set(m["shares"]["values"]["group"])) == list(range(len(m["groups"]))) for m in page["memories"]]')" '[True]' \
    'the page has the groups that ranks have shares of, and no others'
for detail in small normal full; do
    is "$(report --json --detail=$detail "$job") $(cp "$scratch/out" "$scratch/answer"; python3 "$top_srcdir/tests/report-ranks-model.py" \
        compare "$scratch/answer" "$folder"/*.db | grep -c compared)" '0 1' "the cells of --detail=$detail are exact"
done

# Random traces: clocks, lengths, gaps, steps.
for round in 1 2 3; do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    rm -rf "$scratch/random"
    mkdir "$scratch/random"
    python3 "$top_srcdir/tests/report-ranks-model.py" random "$tidemark" "$top_builddir/tests/make-trace" "$scratch/random" "$seed" \
        >"$scratch/said" 2>&1
    is "$?" 0 "the cells of random traces are those of brute force, round $round" || diag "$(cat "$scratch/said")"
    diag "seed $seed"
done

# Without names.
is "$(report --json --no-names "$job") $(grep -cE 'node-|nightly|activation|rank-[0-9]|parameters|saved' "$scratch/out")" '0 0' \
    '--no-names leaves out hosts, tags, traces and marks'
cp "$scratch/out" "$scratch/answer"
is "$(ask '[page["reports"]["ranks"]["highest_bytes"], page["reports"]["ranks"]["failed"][0]["cause"], page["memories"][0]["memory"]]')" \
    "[6102000, 'limit', 'sim']" 'figures and words of Tidemark stay without names'

# A tag that rank 2 has much of, and that the others have cut off: of its median only two ends are known. Of `lesser` all is known.
mkdir "$scratch/cut"
for rank in 0 1 2 3; do
    "$top_builddir/tests/make-trace" "$scratch/cut/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 4), ('trace_id', 6000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 4100) SELECT s FROM s;
        INSERT INTO tag SELECT s, NULL, 'other ' || s FROM n;
        INSERT INTO tag VALUES (5001, NULL, 'planted'), (5002, NULL, 'lesser');
        INSERT INTO life SELECT s, 1, 2000, s, NULL FROM n;
        INSERT INTO life VALUES (5001, 1, iif($rank = 2, 1000000, 500), 10000, NULL), (5002, 1, iif($rank = 2, 2900, 2800), 10001, NULL);
        UPDATE allocation SET tag_id = allocation_id;" || exit 99
done
"$tidemark" merge "$scratch/cut" -o "$scratch/cut.db" || exit 99
report --json --detail=small "$scratch/cut.db" >/dev/null
cp "$scratch/out" "$scratch/answer"
is "$(ask '[[(g["name"], b) for m in page["memories"] for r, i, b in zip(*m["shares"]["values"].values()) for g in [m["groups"][i]] if r == 2 and g["kind"] == "tag"][:2],
    sorted(tuple(g.values())[1:] for g in page["memories"][0]["groups"] if g["name"] in ("planted", "lesser"))]')" \
    "[[('planted', 1000000), ('lesser', 2900)], [('lesser', 2800, 2800, 2800), ('planted', None, 0, 2000)]]" \
    'a group of which two ends of the median are known is sorted by its certain difference'
page 'the page of a median with two ends passes its own test' "$scratch/cut.db"
if test -n "$browser"; then
    is "$(shown '[...byId("verdict").children].map((item) => item.textContent).find((text) => text.includes(" in ") && text.startsWith("Rank 2"))')" \
        'Rank 2: between +975 KiB and +977 KiB in planted' 'the verdict names the group that `tidemark ranks` names, with both ends of the difference'
    is "$(shown '[...byId("findings-body").querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent).slice(1, 5).join("|")).slice(1, 3).join()')" \
        'planted|977 KiB|0 B to 1.95 KiB|between +975 KiB and +977 KiB,lesser|2.83 KiB|2.73 KiB|+100 B' \
        'the findings have both ends of the median and of the difference'
    is "$(shown 'selectRank(2), setKind("tag"), drawAll(), byId("groups-body").querySelector("tbody tr").textContent')" \
        'planted977 KiB0 B to 1.95 KiBbetween +975 KiB and +977 KiB' 'the groups of the rank have both ends'
    is "$(shown '[[null, null], [-1, -1], [7, 7], [-1, 7], [3, 7]].map(([from_step_earliest, from_step_latest]) =>
        sinceWords({ from_step_earliest, from_step_latest })).join("|")')" \
        '| from the begin on| from step 7 on| from the begin or a step up to 7 on| from a step between 3 and 7 on' \
        'a difference begins in one step, or between two'
else
    skip 4 'there is no Chromium'
fi

# What is missing or incomplete.
mkdir "$scratch/fewer"
cp "$folder"/rank-[0-5].db "$folder"/rank-8.db "$scratch/fewer"
make_rank "$scratch/fewer/rank-7.db" 7 "DELETE FROM allocation WHERE alloc_ns > 30000000; UPDATE meta SET value = 0 WHERE key = 'complete';
    INSERT INTO loss VALUES (1, 'overflow', 3);"
"$tidemark" merge "$scratch/fewer" -o "$scratch/fewer.db" 2>/dev/null
is "$(report --json "$scratch/fewer.db") $(cp "$scratch/out" "$scratch/answer"; cat "$scratch/err")" \
    "3 $scratch/fewer.db: ranks are missing or incomplete: the answer may be another with them" \
    'a job with missing ranks has a page, with exit status 3 and a word'
is "$(ask '[page["reports"]["ranks"]["missing"], [r["lost_events"] for r in page["ranks"] if not r["complete"]]]')" "['6, 9-15', [3]]" \
    'the page has the missing ranks and the losses of others'

# Two memories.
mkdir "$scratch/two"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/two/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 3), ('trace_id', 3000 + $rank), ('ended', 'closed');
        DELETE FROM layer;
        INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0), (2, NULL, 'driver', '', 0),
            (3, 4, 'log', '', NULL), (4, NULL, 'pinned', '', NULL);
        INSERT INTO life VALUES (1, 1, 1000 + $rank, 10, NULL), (2, 3, 7000 - $rank, 20, 40), (3, 1, 50, 30, 60);" || exit 99
done
"$tidemark" merge "$scratch/two" -o "$scratch/two.db" || exit 99
is "$(report --json "$scratch/two.db") $(cp "$scratch/out" "$scratch/answer"; ask 'len(page["memories"])')" '0 2' 'each memory has pictures of its own'
"$tidemark" ranks --json --limit=1000000 --memory="$(ask 'page["memories"][1]["memory"]')" "$scratch/two.db" >"$scratch/ranks"
is "$(ask 'page["reports"]["other_memories"] == [json.load(open(sys.argv[1].replace("answer", "ranks")))]')" True \
    'the page has what `tidemark ranks --memory` says of the others'
failed=$scratch/failed.db
cp "$scratch/two.db" "$failed"
"$SQLITE3" "$failed" "INSERT INTO failure SELECT 1, memory_id, 35, 5000 + memory_id, 'TIDE_ELIMIT', 'limit', '', 1050, NULL, NULL FROM memory;
    INSERT INTO failure VALUES (1, NULL, 36, 77, 'TIDE_ENOMEM', 'full', '', 0, NULL, NULL)"
report --json "$failed" >/dev/null
cp "$scratch/out" "$scratch/answer"
is "$(ask 'sorted([page["memories"][f["memory"]]["memory"] if f["memory"] is not None else "", f["size"]] for f in page["failures"])')" \
    "$("$SQLITE3" "$failed" "SELECT '[' || group_concat(json_array(name, size), ', ') || ']' FROM (SELECT coalesce(name, '') AS name, size
    FROM failure LEFT JOIN memory USING (memory_id) ORDER BY 1, 2)" | sed "s/\"/'/g; s/',/', /g")" 'a failure has the memory in which it was'

# A job of 1,024 ranks without anything in common, made by hand.
large=$scratch/large.db
cp "$job" "$large"
"$SQLITE3" "$large" "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; PRAGMA cache_size = -200000; BEGIN;
    DELETE FROM usage_bucket; DELETE FROM step; DELETE FROM step_group; DELETE FROM rank; DELETE FROM rank_memory; DELETE FROM peak_group;
    DELETE FROM mark; DELETE FROM failure; DELETE FROM left_out; UPDATE meta SET value = 1024 WHERE key = 'world_size';
    CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 1023) SELECT n FROM n;
    INSERT INTO rank SELECT n, 'trace ' || n, 'rank-' || n || '.db', 'large', 'node-' || (n / 8), n, n % 8, 1700000000000000000, 0, 1073741823, 1,
        'closed', 0, 1, 0, 0, 1, NULL, NULL FROM n;
    INSERT INTO usage_bucket SELECT rank, 1, (1700000000000000000 >> 20) + n, 60000000000 + abs(random() % 20000000000), 0, 0, NULL, NULL, NULL,
        1, 0, 0 FROM rank, n;
    INSERT INTO rank_memory SELECT rank, 1, NULL, (SELECT max(most_bytes) FROM usage_bucket AS u WHERE u.rank = rank.rank), 0, 1, 5, 0, NULL, NULL,
        NULL, 1, 0, 0, 1, 20, 0, NULL, NULL, 0, 0 FROM rank; COMMIT;" >/dev/null
is "$(report -o "$scratch/large.html" "$large") $(cat "$scratch/err")" '0 ' 'a job of 1,024 ranks has a page'
ok 'the page of 1,024 ranks and 1,024 buckets of noise has at most 3 MB' test "$(wc -c <"$scratch/large.html")" -le 3000000
is "$(report --json "$large") $(cp "$scratch/out" "$scratch/answer"; ask 'page["memories"][0]["time"]["cells"]["rows"] >= 1024 * 1024')" '0 True' \
    'it has at least 1,024 x 1,024 cells'
has_words "$(ask 'page["left_out"]')" 'rounded up to multiples of' 'the page says to what its figures are rounded'

# What cannot be.

cp "$job" "$scratch/empty.db"
"$SQLITE3" "$scratch/empty.db" 'DELETE FROM rank; DELETE FROM rank_memory; DELETE FROM usage_bucket;'
is "$(report -o "$scratch/none.html" "$scratch/empty.db") $(cat "$scratch/err") $(test -e "$scratch/none.html" && echo made)" \
    "2 $scratch/empty.db: nothing was allocated on any rank " 'a job without ranks is told, and no page is made'
head -c 30000 "$job" >"$scratch/cut.db"
is "$(report -o "$scratch/none.html" "$scratch/cut.db") $(test -s "$scratch/err" && echo said) $(test -e "$scratch/none.html" && echo made)" \
    '2 said ' 'a job that is cut off is told, and no page is made'
wrong=0
for column in 'usage_bucket most_bytes' 'usage_bucket bucket' 'step peak_bytes' 'rank start_unix_ns' 'rank last_ns' 'rank_memory bucket_shift' \
    'rank_memory peak_bytes' 'peak_group bytes' 'failure size' 'mark ns'; do
    for value in "'text'" '-5' '9223372036854775807' "x'00'"; do
        cp "$job" "$scratch/wrong.db"
        "$SQLITE3" "$scratch/wrong.db" "PRAGMA ignore_check_constraints = 1; UPDATE OR IGNORE ${column% *} SET ${column#* } = $value
            WHERE rowid = (SELECT min(rowid) FROM ${column% *})" 2>/dev/null ||
            "$SQLITE3" "$scratch/wrong.db" "UPDATE OR IGNORE ${column% *} SET ${column#* } = $value WHERE rank = 3 AND ${column#* } =
            (SELECT max(${column#* }) FROM ${column% *} WHERE rank = 3)"
        status=$(report -o "$scratch/wrong.html" "$scratch/wrong.db")
        test "$status" -le 3 && { test "$status" != 2 || test -s "$scratch/err"; } && continue
        wrong=$((wrong + 1))
        diag "$column $value: $status $(cat "$scratch/err")"
    done
done
is "$wrong" 0 'figures that cannot be are told in words or do no harm, whatever they are'
cp "$job" "$scratch/wrong.db"
"$SQLITE3" "$scratch/wrong.db" "UPDATE usage_bucket SET most_bytes = 'text' WHERE rank = 3"
is "$(report -o "$scratch/wrong.html" "$scratch/wrong.db") $(cat "$scratch/err")" "2 $scratch/wrong.db: it has figures that cannot be, of rank 3 in the table usage_bucket" \
    'text where numbers belong is told'
is "$(report -o "$scratch/x.html" "$job" "$job") $(report -o "$scratch/x.html" "$folder/rank-1.db" "$job") $(report -o "$scratch/x.html" --layer=1 "$job") $(report \
    -o "$scratch/x.html" --from=10% "$job") $(report -o "$scratch/x.html" --tag=a "$job") $(report "$job") $(report -o "$job" "$job")" '2 2 2 2 2 2 2' \
    'two files, filters, and no place to write to are wrong use of a job'
has_words "$(report -o "$scratch/x.html" --layer=1 "$job"; cat "$scratch/err")" 'is the file of a job: it has no allocations to select' \
    'a filter of a job is told'
ok 'the job is as it was' "$SQLITE3" "$job" 'SELECT 1 FROM rank'

# The page itself.
widths='1600 360'
page 'the page of a job passes its own test, wide and on a phone' "$job"
widths=1600
if test -n "$browser"; then
    is "$(shown '[job.ranks.length, view.rank, byId("verdict").querySelectorAll(".bad").length].join()')" '16,3,1' \
        'the page begins with the outlier, and has the failure in red'
    is "$(shown 'readLink("#rank=7&t=0.0151405s").then(() => { drawAll(); return [view.rank, view.at, byId("reading").textContent].join("|"); })')" \
        '7|15140500|rank 7, node-1, 15.14 ms, 5.72 MiB at most, median 5.72 MiB, +1.95 KiB, 1 failure' 'a link selects a rank and a moment, and the page says what is there'
else
    skip 2 'there is no Chromium'
fi
if test -n "$browser"; then
    is "$(shown '["-a.db", "- b.db", "c/d.db", "it'"'"'s"].map(quoted).join("|")')" "./-a.db|'./- b.db'|c/d.db|'it'\\''s'" \
        'the command for the trace of a rank takes no name for an option'
else
    skip 1 'there is no Chromium'
fi
page 'the page without names passes its own test' --no-names "$job"
page 'the page of missing and incomplete ranks passes its own test' "$scratch/fewer.db"
if test -n "$browser"; then
    is "$(shown '[...byId("verdict").querySelectorAll(".bad")].map((item) => item.textContent).join()')" '8 ranks missing: 6, 9-15,1 rank incomplete' \
        'what is missing or incomplete is in red'
    is "$(shown '[...byId("ranks-body").querySelectorAll("tr.lacks")].length')" 9 'missing and incomplete ranks are rows that say so'
else
    skip 2 'there is no Chromium'
fi
page 'the page of two memories passes its own test' "$scratch/two.db"
if test -n "$browser"; then
    "$tidemark" report -o "$scratch/page.html" "$failed"
    is "$(shown 'setMemory(1).then(() => { selectRank(1); drawAll(); return [failuresHere().length, byId("one-body").textContent.split("limit").length - 1,
        byId("one-body").textContent.includes("another memory")].join(); })')" '1,1,true' 'a failure is shown where its memory is, and nowhere else'
    "$SQLITE3" "$failed" "UPDATE rank_memory SET failures = 5 + memory_id WHERE rank = 1; UPDATE rank SET failures = 14 WHERE rank = 1"
    "$tidemark" report -o "$scratch/page.html" "$failed"
    failures_of='RANK_COLUMNS.find(([title]) => title === "failures")[1](sortedLines().find((line) => line.rank === 1))'
    is "$(shown "[$failures_of, byId('one-body').textContent.includes('of 14 in all memories')].join()") $(shown "setMemory(1).then(() => { selectRank(1); drawAll();
        return [$failures_of, /failures7 of 14 in all memories/.test(byId('one-body').textContent)].join(); })")" \
        '6,false 7,true' 'the table and the rank have the failures of the memory that is shown'
else
    skip 2 'there is no Chromium'
fi
# Where every tenth step is marked, ten steps lie between two marks.
mkdir "$scratch/stride"
for rank in 0 1 2; do
    "$top_builddir/tests/make-trace" "$scratch/stride/rank-$rank.db" "
        INSERT INTO meta VALUES ('rank', $rank), ('world_size', 3), ('trace_id', 5000 + $rank), ('ended', 'closed');
        CREATE TEMP TABLE n AS WITH RECURSIVE s(s) AS (SELECT 10 UNION ALL SELECT s + 10 FROM s WHERE s < 100) SELECT s FROM s;
        INSERT INTO mark SELECT s * 1000, 1, 'mark', 'step ' || s, NULL FROM n;
        INSERT INTO life VALUES (1, 1, 100000, 10, NULL);
        INSERT INTO life SELECT s, 1, 640, s * 1000 + 1, NULL FROM n WHERE $rank = 1;" || exit 99
done
"$tidemark" merge "$scratch/stride" -o "$scratch/stride.db" || exit 99
report --json "$scratch/stride.db" >/dev/null
cp "$scratch/out" "$scratch/answer"
is "$(ask '[[(row["rank"], row["grown_bytes"], row["step_bytes"]) for row in page["reports"]["ranks"][table] if row["rank"] == 1] for table in ("by_rank", "growth")]')" \
    '[[(1, 5120, 64)], [(1, 5120, 64)]]' 'growth a step is for each step by its number, in the table of ranks as in that of growth'
if test -n "$browser"; then
    "$tidemark" report -o "$scratch/page.html" "$scratch/stride.db"
    is "$(shown 'selectRank(1), drawAll(), [byId("ranks-body"), byId("one-body"), byId("findings-body")].map((body) => body.textContent.split("+64 B").length - 1).join()')" \
        '1,1,1' 'the table of ranks, the rank and the findings of a page have the same growth a step'
else
    skip 1 'there is no Chromium'
fi
"$tidemark" merge "$folder/rank-3.db" -o "$scratch/one.db" 2>/dev/null
page 'the page of one rank passes its own test' "$scratch/one.db"
mkdir "$scratch/apart"
cp "$folder/rank-0.db" "$scratch/apart"
make_rank "$scratch/apart/rank-1.db" 1 "UPDATE meta SET value = value + 200000000000000 WHERE key = 'start_unix_ns';"
"$tidemark" merge "$scratch/apart" -o "$scratch/apart.db" 2>/dev/null
is "$(report --json "$scratch/apart.db"; grep -o 'Rank 1 begins 2 days after rank 0' "$scratch/out"; report --json "$job"
    grep -c 'days after' "$scratch/out")" '3
Rank 1 begins 2 days after rank 0
0
0' 'ranks that begin more than a day apart are told'
page 'the page of ranks with a gap between them passes its own test' "$scratch/apart.db"
if test -n "$browser"; then
    is "$(shown 'setSpot(axis().begin + (axis().end - axis().begin) / 2), drawAll(), byId("one-canvas").getAttribute("aria-label").split(", ").slice(-1)[0]')" \
        'nothing is recorded of any rank' 'where nothing is known of any rank there is no median'
else
    skip 1 'there is no Chromium'
fi
make_rank "$scratch/apart/rank-1.db" 1 "UPDATE meta SET value = 0 WHERE key = 'start_unix_ns'; INSERT INTO refused VALUES (9999, 1, 12345, 15000500);"
make_rank "$scratch/apart/rank-0.db" 0 "INSERT INTO refused VALUES (9999, 1, 54321, 14000500);"
"$tidemark" merge "$scratch/apart" -o "$scratch/startless.db" 2>/dev/null
report --json "$scratch/startless.db" >/dev/null
cp "$scratch/out" "$scratch/answer"
is "$(ask '[[r["start_known"] for r in page["ranks"]], [-page["memories"][0]["time"]["width"] < r["start_ns"] <= 0 for r in page["ranks"]],
    page["memories"][0]["time"]["begin"] + page["memories"][0]["time"]["buckets"] * page["memories"][0]["time"]["width"] < 50 * 10**6]')
$(python3 "$top_srcdir/tests/report-ranks-model.py" compare "$scratch/answer" "$scratch"/apart/*.db | grep -c compared)" \
    '[[True, False], [True, True], True]
1' 'a rank of which it is not known when it began is placed with the others, and its cells are exact'
is "$(ask '[page["reports"]["ranks"]["starts_unknown"], [f["first_rank"] for f in page["reports"]["ranks"]["failed"]], page["verdict"][-1]]')" \
    "[1, [0], 'It is not known when the trace of rank 1 began: it counts as begun with the first of the others.']" \
    'such a rank is named, and its failures are not the first because of that'
page 'the page of a rank without a start passes its own test' "$scratch/startless.db"
if test -n "$browser"; then
    is "$(shown 'selectRank(1), drawAll(), byId("one-body").textContent.includes("It is not known when this trace began")')" True \
        'the page says of a rank that it is not known when it began'
else
    skip 1 'there is no Chromium'
fi
page 'the page of 1,024 ranks passes its own test' "$large"
"$SQLITE3" "$large" "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; WITH n(n) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9))
    INSERT INTO failure SELECT rank, 1, n, 10, 'TIDE_ELIMIT', 'limit', '', 0, NULL, NULL FROM rank, n;
    INSERT INTO mark SELECT rank, ns, 'x' FROM failure WHERE ns > 1 OR rank = 7; DELETE FROM usage_bucket WHERE bucket % 64 <> 0;" >/dev/null
report --json "$large" >/dev/null
cp "$scratch/out" "$scratch/answer"
is "$(ask '[len(page["failures"]), len(page["marks"]), page["left_out"]]')" \
    "[4096, 8192, ['Of 9216 failures 4096 are listed: the first ones of each rank.', 'Of 8193 marks 8192 are listed: the first ones of each rank.']]" \
    'failures and marks of many ranks that are not listed are told, also where no rank has many'
"$SQLITE3" "$large" "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;
    WITH n AS (WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 511) SELECT n FROM n)
    INSERT INTO step SELECT rank, 1, n, n, n + 1, 1, 60000000000 + abs(random() % 20000000000), n, 0, NULL, 1, 1 FROM rank, n WHERE rank < 128;" >/dev/null
is "$(report --json --detail=small "$large") $(grep -o 'over [a-z]* of memory 1 are rounded up to multiples of' "$scratch/out")" \
    '0 over steps of memory 1 are rounded up to multiples of' 'the page says that figures over steps are rounded'

# The grids of 16 memories over time and over steps, 512 x 2,048 cells each: one is held at a time.
wide=$scratch/wide.db
cp "$job" "$wide"
"$SQLITE3" "$wide" "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; BEGIN;
    DELETE FROM usage_bucket; DELETE FROM step; DELETE FROM step_group; DELETE FROM rank; DELETE FROM rank_memory; DELETE FROM peak_group;
    DELETE FROM mark; DELETE FROM failure; DELETE FROM memory; UPDATE meta SET value = 512 WHERE key = 'world_size';
    CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 511) SELECT n FROM n;
    INSERT INTO memory SELECT n + 1, 'memory ' || n FROM n WHERE n < 16;
    INSERT INTO rank SELECT n, 'trace ' || n, 'rank-' || n || '.db', 'wide', NULL, n, 0, 1700000000000000000, 0, 2147483647, 1,
        'closed', 0, 1, 0, 0, 1, NULL, NULL FROM n;
    CREATE TEMP TABLE ends AS SELECT rank, memory_id, place FROM rank, memory, (SELECT 0 AS place UNION ALL SELECT 2047);
    INSERT INTO usage_bucket SELECT rank, memory_id, (1700000000000000000 >> 20) + place, 4096, 0, 4096, NULL, NULL, NULL, 1, 0, 0 FROM ends;
    INSERT INTO step SELECT rank, memory_id, place, place, place + 1, 1, 4096, place, 0, NULL, 1, 1 FROM ends;
    INSERT INTO rank_memory SELECT rank, memory_id, NULL, 4096, 0, 1, 0, 0, NULL, NULL, NULL, 1, 0, 0, 1, 20, 0, NULL, NULL, 0, 0
        FROM rank, memory; COMMIT;" >/dev/null
case " $CFLAGS" in
*-fsanitize*) most=400 ;;
*) most=100 ;;
esac
# AddressSanitizer keeps 256 MiB of what was freed, unless told otherwise.
mib=$(ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=16 python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)' "$tidemark" report -o "$scratch/wide.html" "$wide" 2>&1)
is "$mib $((mib < most))" "$mib 1" "the page of 16 memories of 512 ranks takes less than $most MiB to make"

hostile='</script><script>document.title="broken"</script><img src=x onerror=document.title=1>'
mkdir "$scratch/hostile"
for rank in 0 1; do
    make_rank "$scratch/hostile/rank-$rank.db" $rank "
        UPDATE tag SET name = '$hostile' WHERE tag_id = 1; UPDATE tag SET name = char(7, 27, 8238) || '\"''&lt;<!--' WHERE tag_id = 4;
        UPDATE meta SET value = '$hostile' WHERE key IN ('job', 'hostname', 'command');
        INSERT INTO mark VALUES (15, 1, 'mark', '$hostile', NULL); INSERT INTO refused VALUES (9999, 1, 123456789, 15000500);"
done
"$tidemark" merge "$scratch/hostile" -o "$scratch/hostile.db" 2>/dev/null
page 'names that are markup and control characters have a page that passes its own test' "$scratch/hostile.db"
if test -n "$browser"; then
    has_words "$(shown 'document.title + document.querySelectorAll("main script, main img").length')" 'Tidemark0' 'no name of a job runs as a script'
else
    skip 1 'there is no Chromium'
fi
done_testing
