# Tests the page of `tidemark report` in headless Chromium, by the page's own test: every block is decoded and compared
# with the manifest, every view drawn, every key pressed; of recorded traffic and of traces with what is unusual.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
driver=$top_srcdir/tests/report-page.py
data=$top_srcdir/tests/data
# shellcheck disable=SC2034 # for Chromium, which wants a home of its own
export HOME="$scratch"

python3 -c 'import json, tempfile' 2>/dev/null || skip_all 'there is no python3'
python3 "$driver" find >/dev/null || skip_all 'there is no Chromium'

. "$top_srcdir/tests/report-browser.sh"

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# page SENTENCE TRACE [OPTION...]: the page of the trace passes its own test, at the widths of $widths.
page() {
    page_sentence=$1
    shift
    rm -f "$scratch/page.html"
    if ! "$tidemark" report -o "$scratch/page.html" "$@" >"$scratch/said" 2>&1 && ! test -s "$scratch/page.html"; then
        ok "$page_sentence" false
        diag "$(cat "$scratch/said")"
        return
    fi
    passes "$page_sentence"
}

# says WORDS SENTENCE: the page says the words, and no script of it fails otherwise.
says() {
    timeout 100 python3 "$driver" selftest "$scratch/broken.html" >"$scratch/tap-said" 2>&1
    has_words "$(grep '^# word' "$scratch/tap-said")" "$1" "$2" || grep -v '^ok' "$scratch/tap-said" | sed 's/^/#   /'
}

plan 36
trace=$scratch/t.db
widths='1600 360'

"$tidemark" replay --stack "log($trace, overwrite=true) | limit(16GiB) | pool | log | sim(capacity=80GiB)" \
    "$data/gpt_train.csv.gz" >/dev/null
page 'training, replayed through a pool, has a page that passes its own test' "$trace"
widths=1600
page 'the page of few details passes its own test' --detail=small "$trace"
page 'the page of all details passes its own test' --detail=full "$trace"
page 'the page without names passes its own test' --no-names "$trace"
page 'the page of a lower layer passes its own test' --layer=4 "$trace"
page 'the page of a part of the time passes its own test' --from=30% --to=60% "$trace"

cp "$scratch/page.html" "$scratch/first.html"
# All blocks: the first one is empty where nothing is in that part of the time.
sed 's/^\(<script type="application\/octet-stream" id="b[0-9]*">.\{40\}\).\{40\}/\1/' "$scratch/page.html" \
    >"$scratch/broken.html"
says 'The data of this page is damaged' 'a damaged block is told in a sentence'
sed 's/<!doctype html>/&<script>delete globalThis.DecompressionStream<\/script>/' "$scratch/page.html" >"$scratch/broken.html"
says 'This browser cannot inflate' 'a browser that cannot inflate is told so in a sentence'

"$tidemark" replay --stack "log($scratch/two.db, overwrite=true) | limit(16GiB) | sim(capacity=80GiB)" \
    "$data/gpt_train.csv.gz" >/dev/null
page 'two traces side by side have a page that passes its own test' "$trace" "$scratch/two.db"

widths='1600 360'
gzip -dc "$data/torch_gpt2_tags.db.gz" >"$trace"
page 'a training with tags has a page that passes its own test' "$trace"
is "$(timeout 200 python3 "$driver" keyboard "$scratch/page.html")" everything \
    'Tab goes to every control of the page, keys work each, and the focus is never lost'

widths=1600
"$tidemark" replay --stack "log($trace, overwrite=true) | pool | sim" "$data/multistream_sort.csv.gz" >/dev/null
page 'eight streams have a page that passes its own test' "$trace"

make_trace "$trace"
page 'a trace without a row has a page that passes its own test' "$trace"

make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, 10);"
page 'a trace of one instant has a page that passes its own test' "$trace"

make_trace "$trace" "INSERT INTO life VALUES (1, 1, 0, 10, 20), (2, 1, 0, 10, NULL);"
page 'a trace of empty allocations has a page that passes its own test' "$trace"

make_trace "$trace" "INSERT INTO refused VALUES (1, 1, 100, 10), (2, 1, -1, 20);"
page 'a trace of failures alone has a page that passes its own test' "$trace"

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 1000, 10, 500), (2, 1, 2000, 20, NULL), (3, 1, 500, 30, 40);
    INSERT INTO loss VALUES (1, 'overflow', 3), (NULL, 'disk', 4);
    UPDATE meta SET value = 0 WHERE key = 'complete';
    INSERT INTO mark VALUES (15, 1, 'mark', 'begin', NULL), (35, 1, 'mark', NULL, NULL);"
page 'a trace with losses and marks has a page that passes its own test' "$trace"

make_trace "$trace" "
    INSERT OR REPLACE INTO meta VALUES ('ended', 'killed');
    INSERT INTO life VALUES (1, 1, 1000, 10, NULL), (2, 1, 500, 15, 19), (3, 1, 2000, 20, NULL);"
page 'the trace of a killed program has a page that passes its own test' "$trace"

make_trace "$trace" "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
    INSERT INTO tag SELECT i, iif(i > 20, 1 + i % 20, NULL), 'part ' || i FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
    INSERT INTO life SELECT i, 1, 1000 * (1 + i % 77), 1000 * i, 1000 * (i + 1 + i % 300) FROM n;
    UPDATE allocation SET tag_id = 1 + allocation_id % 200;"
page '200 tags have a page that passes its own test' "$trace"

# Names, times, sizes and addresses that hardly compress: 7.5 MB if all of them were there.
make_trace "$trace" "
    CREATE TEMP TABLE number(n INTEGER PRIMARY KEY);
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 200000) INSERT INTO number SELECT n FROM n;
    INSERT INTO stream SELECT n, random(), 0 FROM number WHERE n BETWEEN 2 AND 10000;
    INSERT INTO thread SELECT n, 1000 + n, hex(randomblob(8)) FROM number WHERE n BETWEEN 2 AND 1000;
    INSERT INTO tag SELECT n, NULL, hex(randomblob(24)) FROM number WHERE n <= 200;
    INSERT INTO frame SELECT n, 16 * n, NULL, hex(randomblob(24)), '/' || hex(randomblob(8)), n FROM number WHERE n <= 20000;
    INSERT INTO callstack SELECT n, 0, n FROM number WHERE n <= 20000;
    INSERT INTO callstack SELECT n, 1, 1 + abs(random() % 20000) FROM number WHERE n <= 20000;
    INSERT INTO mark SELECT 1000000 * n, 1, 'mark', hex(randomblob(400)), NULL FROM number WHERE n <= 3000;
    INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, tag_id, callstack_id, alloc_ns,
        alloc_duration_ns, alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id)
        SELECT n, 1, abs(random() % 1000000000000), 1 + abs(random() % 1000000000), 256, 0, 1 + abs(random() % 200),
            1 + abs(random() % 20000), 1000000 * n + abs(random() % 1000000), 10, 1 + abs(random() % 1000),
            1 + abs(random() % 10000), 1000000 * n + 1000000 + abs(random() % 60000000000), 10, 1, 1 FROM number;"
page 'a trace made to have a large page has one that passes its own test' "$trace"
bytes=$(wc -c <"$scratch/page.html")
is "$((bytes > 1000000 && bytes <= 3000000))" 1 'that page has at most 3 MB'
diag "it has $bytes bytes"
is "$(python3 -c 'import json, re, sys
text = open(sys.argv[1]).read()
said = " ".join(json.loads(re.search("id=\"tidemark\">(.*?)</script>", text, re.S).group(1))["left_out"])
print(*(bool(re.search(wanted, said)) for wanted in ("within 3 MB", r"[1-9]\d* names are cut off behind \d+ bytes",
    r"only the \d+ largest allocations are listed", "instants are left out", "The timelines have buckets of")))' \
    "$scratch/page.html")" 'True True True True True' 'that page says what it lacks, and how many names are cut off'

# The innermost of 3 frames is f1, f2 or f3; every fourth allocation has no call stack, every third no tag. Tag 3 has
# failures alone.
make_trace "$scratch/frames.db" "
    INSERT INTO tag VALUES (1, NULL, 'one'), (2, NULL, 'two'), (3, NULL, 'three');
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
    INSERT INTO frame SELECT i, 16 * i, NULL, 'f' || i, '/a.c', i FROM n;
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 4), (2, 0, 2), (2, 1, 4), (3, 0, 3), (3, 1, 4), (4, 0, 1), (4, 1, 5);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
    INSERT INTO life SELECT i, 1, 1000 * (1 + i % 77), 1000 * i, iif(i % 2, 1000 * (i + 1 + i % 300), NULL) FROM n;
    INSERT INTO refused VALUES (601, 1, 5, 300000);
    UPDATE allocation SET tag_id = nullif(allocation_id % 3, 0), callstack_id = nullif(allocation_id % 5, 0);
    UPDATE allocation SET tag_id = 3 WHERE status <> 0;"
page 'allocations without a tag beside tags, and several innermost frames, have a page that passes its own test' "$scratch/frames.db"
page 'so has that trace without names' --no-names "$scratch/frames.db"
page 'so has that trace beside another, without names' --no-names "$scratch/frames.db" "$scratch/two.db"
for part in tag frame; do
    is "$("$tidemark" report -o "$scratch/page.html" "$scratch/frames.db" &&
        python3 "$driver" value "$scratch/page.html" "setGrouping('$part'); drawAll(); liveSet(data.anchors.ns.indexOf(
            data.manifest.peak.ns)).then(({ groups }) => groups.every((group) => group.count > 0) + ' ' + groups.length + ' ' +
            (groups.reduce((sum, group) => sum + group.bytes, 0) === data.manifest.peak.bytes))")" \
        "true $(test $part = tag && echo 3 || echo 4) true" "at the peak each $part has its allocations"
done

make_trace "$trace" "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO frame SELECT i, 16 * i, NULL, 'f', '/a.c', i FROM n;
    INSERT INTO callstack SELECT 1, frame_id - 1, frame_id FROM frame;
    INSERT INTO life VALUES (1, 1, 4096, 10, 50), (2, 1, 100, 20, NULL);
    UPDATE allocation SET callstack_id = 1;"
page 'a call stack of 20,000 frames has a page that passes its own test' "$trace"
is "$(python3 "$driver" value "$scratch/page.html" "setTab('peak'); drawAll(); String([...document.querySelectorAll('#panels ol')].map(
    (list) => list.children.length + ' ' + list.lastChild.textContent))")" '65 and 19,936 more,65 and 19,936 more,65 and 19,936 more' \
    'of a call stack of 20,000 frames the innermost are shown, and how many more there are'

make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'limit', '1GiB'),
        (3, 4, 'log', ''), (4, 5, 'pool', ''), (5, 6, 'log', ''), (6, NULL, 'sim', '');
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
    INSERT INTO life SELECT i, 1 + 2 * (i % 3), 1000 * (1 + i % 77), 1000 * i, 1000 * (i + 1 + i % 300) FROM n;"
page 'logs between five layers have a page that passes its own test' "$trace"

make_trace "$trace" "
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', 0), (2, NULL, 'driver', '', 0),
        (3, 4, 'log', '', 1), (4, NULL, 'driver', '', 1);
    INSERT OR REPLACE INTO meta VALUES ('devices', '[{\"device\":0,\"name\":\"NVIDIA A\",\"total_bytes\":1073741824},{\"device\":1,\"name\":\"NVIDIA B\",\"total_bytes\":1073741824}]');
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
    INSERT INTO life SELECT i, 1 + 2 * (i % 2), 1000 * (1 + i % 77), 1000 * i, 1000 * (i + 1 + i % 300) FROM n;"
page 'two devices have a page that passes its own test' "$trace"

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 1000, 500, 400), (2, 1, 2000, 300, 100), (3, 1, 500, 200, 900);"
page 'times that run backwards have a page that passes its own test' "$trace"

widths='1600 360'
hostile='</script><script>document.title="broken"</script><img src=x onerror=document.title=1>'
make_trace "$trace" "
    INSERT INTO tag VALUES (1, NULL, '$hostile'), (2, NULL, char(0, 7, 27, 8238) || '\"''&lt;<!--'), (3, 1, CAST(x'fffe80ff41' AS TEXT));
    INSERT INTO tag VALUES (4, NULL, replace(hex(zeroblob(524288)), '0', 'a'));
    UPDATE thread SET name = '$hostile';
    INSERT INTO mark VALUES (15, 1, '$hostile', '$hostile', NULL);
    INSERT OR REPLACE INTO meta VALUES ('command', '$hostile'), ('hostname', ']]><!--<script>'), ('stack', '$hostile');
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90)
    INSERT INTO life SELECT i, 1, 1000 * (1 + i % 77), 1000 * i, NULL FROM n;
    UPDATE allocation SET tag_id = 1 + allocation_id % 4;"
page 'names that are markup, control characters, no UTF-8 and a mebibyte long have a page that passes its own test' "$trace"
has_words "$(python3 "$driver" value "$scratch/page.html" 'document.title + document.querySelectorAll("main script").length')" 't.db · Tidemark0' \
    'no name of a trace runs as a script'

"$tidemark" report -o "$scratch/page.html" "$data/no-such.db" 2>/dev/null
"$tidemark" report -o "$scratch/page.html" "$trace"
is "$(python3 "$driver" value "$scratch/page.html" 'performance.getEntriesByType("resource").length')" 0 'the page loads nothing'

# A browser that is kept, with a command that does not end.
REPORT_PAGE_SOCKET="$scratch/busy"
python3 "$driver" serve "$REPORT_PAGE_SOCKET" 2>/dev/null &
busy=$!
tries=0
until test -S "$REPORT_PAGE_SOCKET" || test $tries = 600 || ! kill -0 $busy; do
    tries=$((tries + 1))
    sleep 0.1
done
python3 "$driver" value "$scratch/page.html" 'new Promise(() => {})' >/dev/null 2>&1 &
sleep 2
kill $busy
tries=0
while kill -0 $busy 2>/dev/null && test $tries -lt 300; do
    tries=$((tries + 1))
    sleep 0.1
done
ok 'the kept browser ends on SIGTERM in the middle of a command' test $tries -lt 300
kill -9 $busy 2>/dev/null
done_testing
