# Tests `tidemark report`: its options, and its data against a model that goes through the rows (tests/report-model.py).
# ROUNDS and SEED choose the random traces.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
data=$top_srcdir/tests/data

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# misused SENTENCE WORDS ARGUMENT...: the command exits with 2, prints nothing and says these words.
misused() {
    tap_wanted=$2
    tap_name=$1
    shift 2
    "$tidemark" report "$@" >"$scratch/out" 2>"$scratch/err"
    is "$? $(wc -c <"$scratch/out" | tr -d ' ') $(grep -c -e "$tap_wanted" "$scratch/err")" '2 0 1' "$tap_name"
}

# model WHAT TRACE [OPTION...]: "equal", or what differs. WHAT may be several words, with commas.
model() {
    timeout 250 python3 "$top_srcdir/tests/report-model.py" "$tidemark" "$@" 2>&1 | tail -n 12 | cut -c 1-600
}

# all_equal SENTENCE TRACE [OPTION...]: the model, the commands and the page agree.
all_equal() {
    tap_name=$1
    shift
    is "$(model model,commands,page "$@")" equal "$tap_name"
}

plan 58

trace=$scratch/t.db
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 4096, 10, 50), (2, 1, 100, 20, 60), (3, 1, 7, 30, NULL);"
page=$scratch/x.html

# Options.
misused 'without a trace it asks for one' 'which trace?' -o "$page"
misused 'more than two traces are refused' 'two traces at most' -o "$page" "$trace" "$trace" "$trace"
misused 'without -o it asks where the page is to go' 'where to? -o FILE' "$trace"
misused 'an unknown detail is refused with what there is' 'none of small|normal|full' --detail=large -o "$page" "$trace"
misused 'a mistyped detail is corrected' 'did you mean "small"' --detail=smal -o "$page" "$trace"
misused 'an empty name of a file is refused' 'FILE was expected' -o '' "$trace"
misused 'a trace is not overwritten' 'is a database: it is not overwritten' -o "$trace" "$trace"
misused 'a folder that is not there is an error' 'No such file or directory' -o "$scratch/none/x.html" "$trace"
misused 'an unknown layer is refused as by other commands' 'layer' --layer=99 -o "$page" "$trace"
misused 'a tag that the trace lacks is refused as by other commands' 'tag' --tag=none-such -o "$page" "$trace"
ok 'none of these has made a file' test ! -e "$page"
"$tidemark" report -o "$page" "$trace" >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/out" "$scratch/err")" '0 ' 'a page is written without words'
is "$(find "$scratch" -name 'x.html*' | wc -l | tr -d ' ')" 1 'nothing is left beside the page'
"$tidemark" report -o - "$trace" >"$scratch/out"
ok '-o - writes the same page to standard output' cmp "$page" "$scratch/out"
"$tidemark" report --json "$trace" >"$scratch/out"
"$tidemark" report --json -o "$scratch/x.json" "$trace"
ok '--json prints the data, or writes it to a file' cmp "$scratch/x.json" "$scratch/out"
cp "$page" "$scratch/before"
printf 'no trace' >"$scratch/not.db"
"$tidemark" report -o "$page" "$scratch/not.db" 2>"$scratch/err"
is "$? $(cmp "$page" "$scratch/before" && echo same)" '2 same' 'what is no trace leaves a page of before as it was'
"$tidemark" report -o /dev/full "$trace" 2>"$scratch/err"
is "$? $(grep -c 'cannot be written' "$scratch/err")" '2 1' 'a full disk is an error'
make_trace "$scratch/lost.db" "INSERT INTO life VALUES (1, 1, 4096, 10, 50); UPDATE meta SET value = 0 WHERE key = 'complete';
    INSERT INTO loss(reason, events) VALUES ('ring full', 5);"
"$tidemark" report -o "$scratch/lost.html" "$scratch/lost.db" 2>"$scratch/err"
is "$? $(grep -c 'id="tidemark"' "$scratch/lost.html") $(grep -c 'could not be recorded' "$scratch/err")" '3 1 1' \
    'an incomplete trace has a page, an exit status and a message'
has_words "$("$tidemark" report --json "$scratch/lost.db" 2>"$scratch/err")" '"complete":false,"ended":"killed","lost_events":5' \
    'its data says what was lost'
ok 'the page loads nothing: it has no address of the network' test "$(grep -c -e 'https\?://[^w]' -e ' src=' "$page")" -eq 0
has_words "$(cat "$page")" "default-src 'none'" 'the page has a policy that loads nothing'

python3 -c 'import sqlite3, zlib' 2>/dev/null || {
    skip 36 'there is no python3 with sqlite3'
    done_testing
}

# The bytes of a page.

# fitted TRACE: its page in $scratch/page.html; prints whether that has at most 3 MB, and what is left out.
fitted() {
    "$tidemark" report -o "$scratch/page.html" "$1" && "$tidemark" report --json -o "$scratch/page.json" "$1"
    bytes=$(wc -c <"$scratch/page.html" | tr -d ' ')
    test "$bytes" -le 3000000 && echo 'at most 3 MB' || echo "$bytes bytes"
    python3 -c 'import json, re, sys
text = open(sys.argv[1]).read()
page = json.loads(re.search("id=\"tidemark\">(.*?)</script>", text, re.S).group(1))["left_out"]
print(re.sub(r"\d\d+", "N", " ".join(page)) if page == json.load(open(sys.argv[2]))["left_out"] else "not the data of the page")' \
        "$scratch/page.html" "$scratch/page.json"
}

numbers="CREATE TEMP TABLE number(n INTEGER PRIMARY KEY); WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n
    WHERE n < 100000) INSERT INTO number SELECT n FROM n;"
make_trace "$scratch/deep.db" "$numbers
    INSERT INTO frame SELECT n, 16 * n, NULL, hex(randomblob(10)), '/' || hex(randomblob(4)), n FROM number WHERE n <= 20000;
    INSERT INTO callstack SELECT s.n, p.n - 1, 1 + abs(random() % 20000) FROM number s, number p WHERE s.n <= 500 AND p.n <= 2000;
    INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, callstack_id, alloc_ns,
        alloc_duration_ns, alloc_thread_id, alloc_stream_id)
        SELECT n, 1, 65536 * n, 4096 + n, 256, 0, n, 1000 * n, 10, 1, 1 FROM number WHERE n <= 500;"
seen=$(fitted "$scratch/deep.db")
has_words "$seen" 'at most 3 MB' 'a trace with few allocations and deep call stacks has a page of at most 3 MB'
is "$(printf '%s\n' "$seen" | tail -n 1 |
    sed 's/The answer of `tidemark \(peak\|top\|leaks\)` is left out: it has N bytes\. //g')" "$(printf '%s %s' \
    'The page is kept within 3 MB, which takes some of its detail: --detail=full has more.' \
    'Of N call stacks only the innermost N frames are listed.')" 'it lacks the outermost frames, and nothing else'
make_trace "$scratch/less.db" "$numbers
    INSERT INTO meta SELECT 'chosen-' || n, replace(hex(zeroblob(490)), '0', '<') FROM number WHERE n <= 900;"
is "$(fitted "$scratch/less.db")" "$(printf '%s\n%s' 'at most 3 MB' \
    'The page is kept within 3 MB, which takes some of its detail: --detail=full has more. N names are cut off behind N bytes.')" \
    'so has one with long texts of characters that a page escapes'
make_trace "$scratch/wide.db" "$numbers
    INSERT INTO stream SELECT n, random(), 0 FROM number WHERE n BETWEEN 2 AND 10000;
    INSERT INTO frame SELECT n, 16 * n, NULL, hex(randomblob(24)), '/' || hex(randomblob(8)), n FROM number WHERE n <= 20000;
    INSERT INTO callstack SELECT n, 0, n FROM number WHERE n <= 20000;
    INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, callstack_id, alloc_ns, alloc_duration_ns,
        alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id)
        SELECT n, 1, abs(random() % 1000000000000), 1 + abs(random() % 1000000000), 256, 0, 1 + abs(random() % 20000),
            1000000 * n + abs(random() % 1000000), 10, 1, 1 + abs(random() % 10000),
            1000000 * n + 1000000 + abs(random() % 10000000000), 10, 1, 1 FROM number;"
seen=$(fitted "$scratch/wide.db" | sed 's/ The page is kept.*N instants are left out,/ N instants are left out,/; s/ N names.*//')
is "$seen" "$(printf '%s\n%s' 'at most 3 MB' \
    'At the instants only the N largest allocations are listed; the sums are those of all. N instants are left out, because the page would be too large.')" \
    'instants that are left out for the size of the page are said to be'

make_trace "$scratch/notes.db" "$numbers
    INSERT INTO layer SELECT 2 * n + 1, 2 * n + 2, 'log', '', NULL FROM number WHERE n <= 2000;
    INSERT INTO layer SELECT 2 * n + 2, NULL, 'sim', '', NULL FROM number WHERE n <= 2000;
    INSERT INTO life SELECT n, 2 * n + 1, 4096, 10 * n, NULL FROM number WHERE n <= 2000;"
"$tidemark" report --json -o "$scratch/notes.json" "$scratch/notes.db"
is "$(python3 -c 'import json, sys
data = json.load(open(sys.argv[1]))
listed, all = len(data["verdict"]), len(data["reports"]["summary"]["notes"])
said = "%d notes of the summary are not listed: they came after the first 65536 bytes." % (all - listed)
print(0 < listed < all, said in data["left_out"])' "$scratch/notes.json")" 'True True' \
    'it says how many notes of the summary are not listed'

# The data.
all_equal 'of a small trace every bucket, series, cell and instant is as in the model' "$trace"
make_trace "$scratch/empty.db"
all_equal 'so is that of an empty trace' "$scratch/empty.db"
make_trace "$scratch/one.db" "INSERT INTO life VALUES (1, 1, 4096, 10, 10);"
all_equal 'so is that of one instant' "$scratch/one.db"
make_trace "$scratch/refused.db" "INSERT INTO refused VALUES (1, 1, 4096, 5), (2, 1, 10, 9);"
all_equal 'so is that of failures alone' "$scratch/refused.db"
make_trace "$scratch/zero.db" "INSERT INTO life VALUES (1, 1, 0, 5, 9), (2, 1, 0, 5, NULL);"
all_equal 'so is that of allocations of 0 bytes' "$scratch/zero.db"
make_trace "$scratch/huge.db" "INSERT INTO life VALUES (1, 1, 2305843009213693951, -4611686018427387000, 4611686018427387000),
    (2, 1, 1, 0, NULL), (3, 1, 4096, 4611686018427387000, NULL);"
is "$(model page "$scratch/huge.db")" equal 'times and sizes at the ends of their ranges make a page'

seed=${SEED:-$(date +%s)}
differ=
rounds=0
while test "$rounds" -lt "${ROUNDS:-6}"; do
    make_trace "$scratch/random.db"
    model random "$scratch/random.db" $((seed + rounds))
    seen=$(model model,commands,page "$scratch/random.db")
    test "$seen" = equal || differ="$differ seed $((seed + rounds)): $seen"
    rounds=$((rounds + 1))
done
diag "seed $seed"
is "$differ" '' 'of random traces it is as in the model, as the commands say, and the same in the page'
end=$("$tidemark" report --json "$scratch/random.db" | grep -o '"end_ns":[0-9]*' | head -n 1 | cut -d: -f2)
# Halfway between the first allocation, which need not be at the beginning, nor be one that counts, and the end.
first=$(${SQLITE3:-sqlite3} "$scratch/random.db" 'SELECT alloc_ns FROM allocation ORDER BY allocation_id LIMIT 1')
test "$end" -gt "$first" || end=$first
halfway=$(((first + end) / 2))
is "$(model model,commands "$scratch/random.db" "--to=${halfway}ns")" equal \
    'so is that of a trace up to a moment'
gunzip -c "$data/torch_gpt2_tags.db.gz" >"$scratch/tags.db"
all_equal 'so is that of a part of real traffic, cut off at both ends' "$scratch/tags.db" --from=400000000ns --to=900000000ns
all_equal 'so is that of all of it' "$scratch/tags.db"
"$tidemark" import "$data/multistream_sort.csv.gz" -o "$scratch/streams.db" 2>/dev/null
all_equal 'so is that of a real trace whose events are more than the buckets' "$scratch/streams.db" --detail=small

# What is reserved goes on to the last free, long after the last allocation.
make_trace "$scratch/late.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', NULL), (2, NULL, 'driver', '', 0);
    INSERT INTO life VALUES (1, 1, 4096, 10, 5000), (2, 1, 100, 20, 40);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (10, 2, 0, 4096), (4000, 2, 0, 8192);"
is "$("$tidemark" report --json "$scratch/late.db" | python3 -c 'import json, sys
values = json.load(sys.stdin)["reserved"][0]["columns"]["values"]
print(values["ns"][-1] > 4900, values["bytes"][-1])')" 'True 8192' 'what is reserved is there up to the last free'

# More allocations live than a page takes.
make_trace "$scratch/many.db" "INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c
    WHERE x < 100000) SELECT x, 1, 100 + x % 7 * (x % 5 = 0), 10 * x, 10 * x + 900000 FROM c;"
is "$(model model,page "$scratch/many.db" --detail=small)" equal \
    'where too many are live the largest are kept, and a sample of those of the least size'
# Most stay: an instant has 5,000 of 35,000, and all instants together not many more.
make_trace "$scratch/steady.db" "INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c
    WHERE x < 60000) SELECT x, 1, iif(x <= 35000, 100 + x * 7919 % 35023, 50), 10 * x, iif(x <= 35000, NULL, 10 * x + 9)
    FROM c;"
"$tidemark" report --json --detail=small "$scratch/steady.db" >"$scratch/out"
is "$(model model "$scratch/steady.db" --detail=small) $(grep -c 'instants are left out' "$scratch/out") $(
    grep -o 'only the [0-9]* largest allocations are listed' "$scratch/out")" \
    'equal 0 only the 5000 largest allocations are listed' 'of each instant there are the 5,000 largest allocations'
# Small ones at first and large ones later: what is large among the first is small among all.
make_trace "$scratch/grows.db" "INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c
    WHERE x < 100000) SELECT x, 1, iif(x <= 50000, 1 + x * 7919 % 50000, 1000000 + x * 104729 % 50000), 10 * x,
    iif(x <= 50000, 500000 + x % 100, 2000000) FROM c;"
is "$(model model "$scratch/grows.db" --detail=small) $("$tidemark" report --json --detail=small "$scratch/grows.db" |
    python3 -c 'import json, sys
data = json.load(sys.stdin)
values = data["anchors"]["values"]
least = list(zip(values["ns"], values["least_bytes"]))
print(min(1000 < one < 50001 for ns, one in least if 300000 < ns < 500000),
      min(one > 1000000 for ns, one in least if 800000 < ns))')" \
    'equal True True' 'each instant has a least size of its own'
make_trace "$scratch/turns.db" "INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c
    WHERE x < 100000) SELECT x, 1, 100 + x * 7919 % 100003, 10 * x, 10 * x + 90000 FROM c;"
is "$(model model,page "$scratch/turns.db" --detail=small)" equal \
    'where the largest of all instants are too many, there are fewer instants, and fewer of the largest'
"$tidemark" report --json --detail=small "$scratch/turns.db" >"$scratch/out"
is "$(grep -c 'instants are left out' "$scratch/out") $(grep -o 'only the [0-9]* largest allocations are listed' "$scratch/out")" \
    '1 only the 1250 largest allocations are listed' 'the data says what was left out'

# Many stacks, streams and threads.
make_trace "$scratch/wide.db" "CREATE TEMP TABLE number(n INTEGER PRIMARY KEY);
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000) INSERT INTO number SELECT n FROM n;
    DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config)
        SELECT n, iif(n % 2 = 1, n + 1, NULL), iif(n % 2 = 1, 'log', 'sim'), '' FROM number WHERE n <= 200;
    INSERT INTO stream SELECT n, n * 64, 0 FROM number WHERE n > 1;
    INSERT INTO thread SELECT n, 1000 + n, 't' || n FROM number WHERE n BETWEEN 2 AND 3000;
    INSERT INTO life SELECT n, 1 + 2 * (n % 100), n, 10 * n, iif(n % 50 = 0, NULL, 10 * n + 5000) FROM number;
    UPDATE allocation SET alloc_stream_id = allocation_id, alloc_thread_id = 1 + allocation_id % 3000;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) SELECT 10 * n, 2 * n, 0, 4096 * n FROM number
        WHERE n <= 100;"
all_equal 'of 10,000 streams, 3,000 threads and 100 stacks it is as in the model' "$scratch/wide.db"
"$tidemark" report --json "$scratch/wide.db" >"$scratch/out"
is "$(grep -o '"limit_bytes":[0-9a-z]*,"peak_bytes":[0-9]*,"peak_is_exact"' "$scratch/out" | wc -l | tr -d ' ')" 64 \
    'of 100 memories 64 are listed'
has_words "$(cat "$scratch/out")" 'Of 100 memories the 64 with the most reserved are drawn.' 'it says so'

# Names.
make_trace "$scratch/names.db" "INSERT INTO tag VALUES (1, NULL, '</script><script>alert(1)</script>'),
    (2, NULL, char(27) || '[31m' || char(0x202e) || CAST(x'ff80' AS TEXT)), (3, NULL, replace(hex(zeroblob(524288)), '00', 'xy'));
    INSERT INTO thread VALUES (7, 107, '<!-- secret-thread');
    INSERT INTO frame VALUES (1, 16, NULL, 'secret_function', '/secret/file.c', 3);
    INSERT INTO callstack VALUES (1, 0, 1);
    UPDATE meta SET value = 'secret-program --key' WHERE key = 'command';
    UPDATE meta SET value = 'secret-host' WHERE key = 'hostname';
    INSERT INTO mark VALUES (12, 1, 'mark', 'secret-mark', NULL);
    INSERT INTO life VALUES (1, 1, 4096, 10, 50), (2, 1, 100, 20, 60), (3, 1, 7, 30, NULL), (4, 1, 9, 31, NULL);
    INSERT INTO refused VALUES (5, 1, 5, 40);
    UPDATE allocation SET tag_id = allocation_id % 4, alloc_thread_id = 7, callstack_id = 1;
    UPDATE tag SET name = 'secret-tag' WHERE tag_id = 2;"
all_equal 'names that are markup, not UTF-8 or a mebibyte long stand in the data as text' "$scratch/names.db"
"$tidemark" report -o "$page" "$scratch/names.db"
is "$(grep -c 'alert(1)</script>' "$page")" 0 'no name ends the element that it is in'
is "$(wc -c <"$page" | awk '{ print $1 < 300000 ? "short" : $1 }')" short 'a name of a mebibyte is cut'
"$tidemark" report --json "$scratch/names.db" >"$scratch/out"
is "$(grep -o 'secret-[a-z]*' "$scratch/out" | sort -u | tr '\n' ' ')" 'secret-host secret-mark secret-program secret-tag secret-thread ' \
    'names are in the data'
"$tidemark" report --json --no-names "$scratch/names.db" >"$scratch/out"
is "$(grep -o -e 'secret[a-z_.-]*' -e alert -e xyxy -e names.db "$scratch/out" | sort -u | tr '\n' ' ')" '' \
    '--no-names leaves out all of them, in the answers of the commands, too'
# A program's own kinds of layers, below a log of each stack.
make_trace "$scratch/kinds.db" "DELETE FROM layer;
    INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES (1, 2, 'log', '', NULL),
        (2, NULL, 'secret-base', '', NULL), (3, 4, 'log', '', NULL), (4, NULL, 'pinned', '', NULL);
    INSERT INTO life VALUES (1, 1, 4096, 10, 50), (2, 3, 100, 20, NULL);
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (10, 2, 0, 4096), (10, 4, 0, 4096);"
"$tidemark" report --json --no-names "$scratch/kinds.db" "$scratch/kinds.db" >"$scratch/out"
is "$(grep -c secret "$scratch/out") $(grep -o '"name":"memory [0-9]*"' "$scratch/out" | sort -u) $(
    grep -o '"\(name\|memory\)":"[0-9]* log, [a-z]*"' "$scratch/out" | sort -u | tr '\n' ' ')" \
    '0 "name":"memory 1" "memory":"3 log, pinned" "name":"3 log, pinned" ' \
    "--no-names leaves out a program's own kinds of layers, and keeps the kinds that there are"
is "$(grep -o '"figure":[^,]*' "$scratch/out" | sort -u | tr '\n' ' ')" '"figure":"allocations" "figure":"duration_ns" "figure":"failures" "figure":"live_bytes" "figure":"live_count" "figure":"peak_bytes" "figure":"reserved_peak_bytes" "figure":"total_bytes" ' \
    '--no-names keeps the words for the figures of two traces'
"$tidemark" report --json --no-names "$scratch/tags.db" >"$scratch/out"
seen=
for word in '"kind":"activations"' '"what":"made in forward for backward"' '"step":"requested"' '"moment":"peak"' '"pass":"'; do
    seen="$seen$(grep -o "$word" "$scratch/out" | sort -u | wc -l | tr -d ' ')"
done
is "$seen" 11111 '--no-names keeps the words for parts of the memory, steps, moments and passes'
is "$(model page "$scratch/names.db" --no-names)" equal '--no-names makes a page of the same data'

# Two traces.
is "$(model page "$trace $scratch/names.db")" equal 'a page of two traces has the data of both'
is "$("$tidemark" report --json "$trace" "$scratch/names.db" | python3 -c 'import json, sys
data = json.load(sys.stdin)
print(json.dumps(data["diff"]))')" "$("$tidemark" diff --json --limit=1000 "$trace" "$scratch/names.db" | python3 -c '
import json, sys
print(json.dumps(json.load(sys.stdin)))')" 'with two traces it has what diff says'
is "$("$tidemark" report --json "$trace" "$scratch/names.db" | python3 -c 'import json, sys
data = json.load(sys.stdin)
print(data["second"]["events"], data["events"], "second" in data["second"])')" '6 5 False' 'the second trace stands in the first'

done_testing
