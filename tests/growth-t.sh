# Tests which groups `leaks` says grow from step to step: those that rise steadily, however rarely.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
seed=${TEST_SEED:-$(date +%s)}
diag "TEST_SEED=$seed"

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# grown [OPTION...]: the tags that grow, with the steps in which they rose and fell, in the order of their names.
grown() {
    "$tidemark" leaks --by=tag --limit=0 --only=growth --format=csv "$@" "$trace" | sed 1d | cut -d, -f 1,5,9,10 | sort
}

# 200 steps of 1000 ns; a call of rise(TAG, STEP) leaves 100 bytes more behind in this step.
steps="
    CREATE TEMP TABLE rise(tag, step);
    CREATE TEMP TABLE fall(tag, rose, step);
    CREATE TEMP TABLE number(n);
    WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 200) INSERT INTO number SELECT n FROM n;
    INSERT INTO mark SELECT n * 1000 + 999, 1, 'mark', 'step ' || n, NULL FROM number;"
lives="
    INSERT INTO life SELECT row_number() OVER (ORDER BY step, tag), 1, 100, step * 1000 + tag,
        (SELECT fall.step * 1000 + 999 - fall.tag FROM fall WHERE fall.tag = rise.tag AND rose = rise.step)
        FROM rise ORDER BY step, tag;
    UPDATE allocation SET tag_id = (SELECT tag FROM (SELECT row_number() OVER (ORDER BY step, tag) AS id, tag FROM rise)
        WHERE id = allocation_id);
    INSERT INTO tag SELECT DISTINCT tag, NULL, printf('%03d', tag) FROM rise;"

# wanted: by brute force over the ends of the steps, which tags hold more at the end, rose twice as often as they fell,
# and rose in an eighth of the steps, or three times and in each third.
wanted() {
    "$tidemark" query --csv "$trace" "
        WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 200),
        at AS (SELECT tag_id, n, (SELECT ifnull(sum(size), 0) FROM allocation AS o WHERE o.tag_id = tag.tag_id
                AND alloc_ns <= n * 1000 + 999 AND (free_ns IS NULL OR free_ns > n * 1000 + 999)) AS bytes
            FROM tag, n),
        change AS (SELECT tag_id, n, bytes - lag(bytes) OVER (PARTITION BY tag_id ORDER BY n) AS bytes FROM at),
        sums AS (SELECT tag_id, sum(bytes) AS grew, sum(bytes > 0) AS rose, sum(bytes < 0) AS fell,
            sum(bytes > 0 AND n BETWEEN 1 AND 67) > 0 AND sum(bytes > 0 AND n BETWEEN 68 AND 134) > 0
            AND sum(bytes > 0 AND n BETWEEN 135 AND 200) > 0 AS thirds FROM change WHERE n > 0 GROUP BY tag_id)
        SELECT name, grew, rose, fell FROM sums JOIN tag USING (tag_id)
        WHERE grew > 0 AND rose >= 2 * fell AND (rose >= 2 AND rose >= 25 OR rose >= 3 AND thirds) ORDER BY name" | sed 1d
}

plan 13

# Tag N rises in every Nth step, from a step below N on that the seed chooses.
make_trace "$trace" "$steps
    INSERT INTO rise SELECT p.n, s.n FROM number AS p, number AS s
        WHERE p.n BETWEEN 1 AND 50 AND s.n % p.n = ($seed * 7919 + p.n * 104729) % p.n; $lives"
grown >"$scratch/seen"
is "$(wc -l <"$scratch/seen")" 50 'a rise in every Nth of 200 steps is found for each N from 1 to 50'
is "$(cat "$scratch/seen")" "$(wanted)" 'the rises of all periods are those of brute force'
has_words "$("$tidemark" leaks --by=tag --tag=040 "$trace")" 'of 200 steps, in about one of 40, by 100 B each time.' \
    'a sentence says how often a group rises that rises rarely'
has_words "$("$tidemark" leaks --by=tag --tag=001 "$trace")" 'tag 001 grew in 200 of 200 steps, by 100 B a step.' \
    'a sentence says how much a group rises that rises in each step'

# What the first steps take, what two steps take, what comes and goes, and what falls as often as it rises.
make_trace "$trace" "$steps
    INSERT INTO rise SELECT 1, n FROM number WHERE n BETWEEN 1 AND 20;
    INSERT INTO rise VALUES (2, 50), (2, 150);
    INSERT INTO rise SELECT 3, n FROM number WHERE n % 2 = 1;
    INSERT INTO fall SELECT 3, n, n + 1 FROM number WHERE n % 2 = 1 AND n < 190;
    INSERT INTO rise SELECT 4, n FROM number WHERE n % 60 = 7; $lives"
is "$(grown)" '004,400,4,0' \
    'what only the first steps take, what two of many steps take, and what comes and goes does not grow'
is "$(grown)" "$(wanted)" 'what does not grow is that of brute force'

# Random rises and falls.
make_trace "$trace" "$steps
    INSERT INTO rise SELECT t.n, s.n FROM number AS t, number AS s WHERE t.n BETWEEN 1 AND 60
        AND (((t.n * 7919 + s.n * 104729 + $seed) % 1000003) * (s.n * 31 + t.n + 17)) % 1009 < 3 + t.n * t.n / 8;
    INSERT INTO fall SELECT tag, step, min(200, step + 1 + (step * 7 + tag) % 9) FROM rise
        WHERE (step * 31 + tag * 17 + $seed) % 5 = 0; $lives"
is "$(grown)" "$(wanted)" 'random rises and falls grow where they do by brute force'

# Without a rhythm.
why() {
    "$tidemark" leaks --steps=rhythm "$@" "$trace" | grep '^No steps'
}
has_words "$(why)" 'No steps by rhythm: what is live has 0 lows between rises by a quarter of its peak,' \
    'where what is live only rises, --steps=rhythm says so'
is "$("$tidemark" leaks --json --steps=rhythm "$trace" | grep -c '"steps_source":"none","steps_text":null,"steps_count":0.*"No steps by rhythm')" 1 \
    'the object has the sentence, too'
is "$("$tidemark" leaks --steps=none "$trace" | grep -c 'No steps')" 0 'who asks for no steps hears nothing of a rhythm'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 0, 10), (2, 1, 100, 20, 30), (3, 1, 100, 40, 50),
    (4, 1, 100, 60, 70)"
is "$(why)" 'No steps by rhythm: what is live has 3 lows between rises by a quarter of its peak, 100 B; 3 steps take 4.' \
    'with a low too few, --steps=rhythm says how many it found'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 0, 10), (2, 1, 100, 20, 30), (3, 1, 100, 40, 50),
    (4, 1, 100, 1060, 1070), (5, 1, 100, 31060, 31070), (6, 1, 100, 931060, 931070)"
is "$(why)" 'No steps by rhythm: only 1 of 4 times between lows are between half and twice the median, 1.02 us; it takes three quarters.' \
    'with irregular lows, --steps=rhythm says how irregular they are'
make_trace "$trace" ""
has_words "$(why)" 'No steps by rhythm: what is live has 0 lows' 'a trace without allocations has no rhythm'
done_testing
