# Tests `tidemark recommend`: what it says holds when it is done, and it is never worse than what is there.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

header='Thread,Time,Action,Pointer,Size,Stream'
data=$top_srcdir/tests/data
found=$scratch/found.json

# recommend ARGUMENT...: the exit status; the answer goes to $scratch/out, messages to $scratch/err.
recommend() {
    "$tidemark" recommend "$@" >"$scratch/out" 2>"$scratch/err"
    echo $?
}

# replay_reserved STACK INPUT: what the bases have reserved at most, in a replay of the input through the stack.
replay_reserved() {
    "$tidemark" replay --json --stack "$1" "$2" >"$scratch/replayed" 2>/dev/null
    ${SQLITE3:-sqlite3} :memory: "SELECT sum(json_extract(value, '\$.reserved_peak_bytes'))
        FROM json_each(CAST(readfile('$scratch/replayed') AS TEXT), '\$.layers')
        WHERE json_extract(value, '\$.kind') = 'sim'"
}

# ask SQL: of the stacks of $found, with their numbers; `found` is the whole answer.
ask() {
    ${SQLITE3:-sqlite3} :memory: "
        CREATE TABLE found AS SELECT CAST(readfile('$found') AS TEXT) AS answer;
        CREATE VIEW stack AS SELECT key AS number, json_extract(value, '\$.stack') AS text,
            json_extract(value, '\$.model') AS model, json_extract(value, '\$.best') AS best,
            json_extract(value, '\$.failures') AS failures, json_extract(value, '\$.error') AS error,
            json_extract(value, '\$.reserved_peak_bytes') AS reserved, json_extract(value, '\$.ns') AS ns,
            json_extract(value, '\$.most_ns') AS most, json_extract(value, '\$.replays') AS replays
            FROM found, json_each(answer, '\$.stacks');
        $1"
}

plan 85

# How many stacks are tried of real traffic, where the number is not what is tested.
tries=--candidates=$(fewer 20 8)

# What is printed is so. The models are deterministic, so the figures are the same to the byte.
least=$(fewer 40 12)
sweep=$(fewer '' --candidates=12)
for input in gpt_train multistream_sort; do
    # shellcheck disable=SC2086 # an option, or none
    "$tidemark" recommend $sweep --json "$data/$input.csv.gz" >"$found" 2>"$scratch/err"
    is "$(ask "SELECT count(*) >= $least, count(error), sum(failures) FROM stack")" '1|0|0' \
        "$input: at least $least stacks are tried, and serve all requests"
    ask "SELECT reserved || ' ' || model FROM stack WHERE best OR number = (SELECT json_extract(answer, '\$.now') FROM
        found)" >"$scratch/front"
    wrong=0
    while read -r reserved model; do
        again=$(replay_reserved "$model" "$data/$input.csv.gz")
        test "$again" = "$reserved" || { wrong=$((wrong + 1)) && diag "$model: $reserved, replayed $again"; }
    done <"$scratch/front"
    is "$wrong of $(test -s "$scratch/front" && echo some)" '0 of some' \
        "$input: a replay of each of the best stacks has its bases reserve the same, to the byte"
    is "$(ask "SELECT count(*) FROM stack a JOIN stack b ON b.reserved <= a.reserved AND (b.most < a.ns
        OR b.best AND b.reserved < a.reserved AND b.ns <= a.most) WHERE a.best")" 0 \
        "$input: none of the best is worse in both than another, or as fast within the spread with more memory than one of them"
    is "$(ask "SELECT count(*) FROM stack WHERE NOT best AND number NOT IN (SELECT a.number FROM stack a JOIN stack b
        ON b.best AND b.reserved <= a.reserved AND b.ns <= a.most)")" 0 \
        "$input: each of the others has no less memory than one of the best, and within the spread no less time"
    is "$(ask "SELECT min(reserved) >= (SELECT json_extract(answer, '\$.peak_bytes') FROM found) FROM stack")" 1 \
        "$input: no stack has less than the bound"
    test $input != gpt_train ||
        is "$(ask "SELECT min((json_extract(value, '\$.most_ns') - json_extract(value, '\$.driver_ns'))
            / json_extract(value, '\$.own_ns')) <= 3 FROM found, json_each(answer, '\$.stacks')")" 1 \
            "$input: the usual span of times is not so wide that it says nothing"
done

# Each aim: of the best, no stack has surely less of it than the recommended one, which has the least memory of these. So
# neither has the default, whose place it may take.
aimed() {
    "$tidemark" recommend --for="$1" --candidates="$(fewer 30 8)" --json "$2" >"$found" 2>"$scratch/err"
    objective=$(echo "memory:reserved time:ns both:(reserved*(program+ns))" | tr ' ' '\n' | sed -n "s/^$1://p")
    most=$(echo "$objective" | sed 's/ns/most/')
    ask "WITH aim AS (SELECT *, $objective AS objective, $most AS objective_most FROM stack, (SELECT sum(json_extract(value, '\$.duration_ns')) AS program
        FROM found, json_each(answer, '\$.inputs')) WHERE failures = 0 AND error IS NULL)
        SELECT reserved = (SELECT min(reserved) FROM aim WHERE best AND objective <= (SELECT min(objective_most) FROM aim))
            AND best AND objective <= (SELECT min(objective_most) FROM aim),
        objective <= (SELECT min(objective_most) FROM aim WHERE text IN ('pool | cuda', 'pool | driver', 'pool | vmm'))
        FROM aim, found WHERE number = json_extract(answer, '\$.recommended')"
}
for turn in memory:gpt_train time:gpt_train both:gpt_train both:multistream_sort both:torch_generate; do
    is "$(aimed "${turn%:*}" "$data/${turn#*:}.csv.gz")" '1|1' \
        "${turn#*:}: --for=${turn%:*} recommends the stack with the least, no worse than a default one"
done
is "$(recommend --base=cuda "$tries" "$data/gpt_train.csv.gz") $(grep -c '| vmm\|| driver' "$scratch/out")" '0 0' \
    'with --base=cuda there is no stack over another base'
has_words "$(cat "$scratch/out")" "TIDEMARK_STACK='" 'the text of the stack is printed as a setting'
text=$(sed -n "s/^TIDEMARK_STACK='\(.*\)'\$/\1/p" "$scratch/out")
"$tidemark" stack "$text" >"$scratch/full" 2>"$scratch/err"
is "$?" 0 'the text is a stack'
recommend --base=cuda "$tries" --output "$scratch/stack.txt" "$data/gpt_train.csv.gz" >/dev/null
"$tidemark" stack "$(cat "$scratch/stack.txt")" >/dev/null 2>&1
is "$?" 0 '--output writes a text that is a stack'

# Bounds.
"$tidemark" recommend --candidates=1 --json "$data/gpt_train.csv.gz" >"$found"
peak=$(ask "SELECT json_extract(answer, '\$.peak_bytes') FROM found")
is "$(recommend --capacity=$((peak - 1)) "$tries" "$data/gpt_train.csv.gz")" 1 \
    'a capacity below what is live at the peak has exit status 1'
has_words "$(cat "$scratch/err")" 'no stack serves all requests within the capacity; 12.89 GiB were live' \
    'and says what would do'
is "$(recommend --budget=$((peak / 2)) "$tries" "$data/gpt_train.csv.gz")" 1 \
    'a budget that no stack keeps has exit status 1'
has_words "$(cat "$scratch/err")" 'no stack stays within the budget; the least of those tried reserves' \
    'and says the least that was reserved'
# shellcheck disable=SC2086 # an option, or none
"$tidemark" recommend $sweep --for=time --budget=13.05GiB --json "$data/gpt_train.csv.gz" >"$found" 2>"$scratch/err"
is "$(ask "SELECT reserved <= 13.05 * 1073741824 FROM stack, found WHERE number = json_extract(answer, '\$.recommended')")" 1 \
    'the recommended stack keeps the budget'

# The recorded stack.
trace=$scratch/t.db
make_trace "$trace" "
    INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)
        SELECT x, 1, 3000000 + x % 7 * 500000, 10 * x, 10 * x + 95 FROM c;
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log(\"a | cuda {.db\", cupti=off) | binning(4KiB..64MiB) | cuda(device=0) as base');"
# Where a call of cuda takes a second, and others nothing, no noise of the machine matters.
printf 'device slow\n' >"$scratch/slow"
for base in cuda driver vmm; do
    for call in allocate free grow return fresh order; do
        echo "$base.$call $(test $base = cuda && echo 1e9 || echo 0) 0 0" >>"$scratch/slow"
    done
done
printf '%s 0 0 0\n' driver.trim vmm.map vmm.unmap >>"$scratch/slow"
is "$(recommend --candidates=20 --costs="$scratch/slow" "$trace")" 1 'a recorded stack that is worse in both has exit status 1'
"$tidemark" recommend --candidates=20 --json "$trace" >"$found" 2>"$scratch/err"
is "$(ask "SELECT model FROM stack, found WHERE number = json_extract(answer, '\$.now')")" \
    'statistics | binning(4KiB..64MiB) | statistics | sim(model=cuda)' \
    'the recorded stack is tried over a model of its base, without its log'
is "$(ask "SELECT sum(json_extract(value, '\$.own_ns') > 0) = count(*) FROM found, json_each(answer, '\$.stacks')")" 1 \
    'the own time of each stack is measured, also of a replay that is shorter than a tick of the machine'
make_trace "$scratch/host.db" "
    INSERT INTO life VALUES (1, 1, 100, 10, 20);
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log(x.db) | pool | host');"
recommend --candidates=20 "$scratch/host.db" >"$scratch/status"
has_words "$(cat "$scratch/out")" 'the recorded stack was not tried: it has no base of device memory' \
    'a recorded stack over host memory is not compared, and the answer says so'
is "$(cat "$scratch/status")" 0 'one allocation is enough for an answer'
make_trace "$scratch/run.db" "
    INSERT INTO life VALUES (1, 1, 100, 10, 20);
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log(x.db, cupti=off) | process(kind=plain, device=0)');"
recommend --candidates=20 "$scratch/run.db" >/dev/null
has_words "$(cat "$scratch/out")" \
    "the recorded stack was not tried: it is that of \`tidemark run\`, over the driver's own memory" \
    'of a trace of tidemark run the answer says that it has no stack to be tried'

# now_of STACK: what becomes of a recorded stack.
now_of() {
    make_trace "$scratch/now.db" "INSERT INTO life VALUES (1, 1, 3000000, 10, 20), (2, 1, 3000000, 15, 30);
        INSERT OR REPLACE INTO meta VALUES ('stack', '$1');"
    recommend --candidates=6 "$scratch/now.db" >"$scratch/status"
    echo "$(cat "$scratch/status") $(cat "$scratch/out" "$scratch/err")"
}
has_words "$(now_of 'log(x.db) | pool | driver(maximum=1GiB)')" \
    'the recorded stack was not tried: its base has arguments that are not modelled' \
    'a recorded stack whose base has a maximum is not compared'
has_words "$(now_of 'log(x.db) | fallback({host}) | pool | cuda')" \
    'the recorded stack was not tried: it has memory that is not modelled' 'nor is one that has host memory beside'
has_words "$(now_of 'log(x.db) | pool(initial=1MiB, maximum=1MiB) | limit(1KiB) | cuda')" \
    'the recorded stack was not tried: ' 'nor is one that cannot be made'
is "$(cat "$scratch/status")" 0 'and that is no finding'
has_words "$(now_of 'log(x.db) | limit(1MiB) | pool | cuda')" 'refused' \
    'a recorded stack that refuses what was served is shown with its refusals'
is "$(cat "$scratch/status")" 1 'and that is a finding'
has_words "$(now_of 'log(x.db) | pool(alignment=512) | cuda')" 'refused' \
    'so is one with an alignment that its base would refuse'
has_words "$(now_of 'log(x.db) | pool | vmm(device=1, fallback = driver)')" ' log(x.db) | pool | vmm(device=1, fallback = driver)' \
    'a recorded stack that names a base for devices without pages is compared'
has_words "$(now_of 'log(x.db) | pool | vmm(fallback=driver, maximum=1GiB)')" \
    'the recorded stack was not tried: its base has arguments that are not modelled' 'but not one that names a maximum, too'
# What a recorded stack names outside of the process is somebody's: nothing of it is opened, made or removed.
: >"$scratch/budget"
said=$(now_of "log(x.db) | limit(1GiB, shared = $scratch/budget, alignment=512) as all | pool | cuda")
is "$(wc -c <"$scratch/budget") $(echo "$said" | grep -c 'was not tried')" '0 0' \
    'a recorded stack with a shared budget is compared, and the file of that budget is left as it is'
"$tidemark" recommend --candidates=1 --json --stack "limit(64MiB, shared=$scratch/budget) | cuda" "$scratch/now.db" >"$found" 2>&1
is "$(ask "SELECT group_concat(model, '; ') FROM stack WHERE text LIKE '%shared%'") $(wc -c <"$scratch/budget")" \
    "statistics | limit(1GiB, budget = $scratch/budget, alignment=512) as all | pool | statistics | sim(model=cuda);\
 limit(64MiB, budget=$scratch/budget) | statistics | sim(model=cuda) 0" \
    'in its place there is a budget of its own, also in a stack that is given'
now_of "log(x.db) |$(printf '\v')log($scratch/inner.db) | pool | cuda" >/dev/null
ok 'a log behind any blank records no trace' test ! -e "$scratch/inner.db"
has_words "$(now_of "\"log\"($scratch/inner.db) | pool | cuda") $(test ! -e "$scratch/inner.db" && echo 'no trace')" \
    'the recorded stack was not tried: it has the name of a layer in quotes' 'a layer with its name in quotes is not made'
ok 'and records no trace' test ! -e "$scratch/inner.db"
now_of "log(\"x''; touch $scratch/pwned; echo ''\") | cuda" >/dev/null
make_trace "$scratch/quoted.db" "INSERT INTO life VALUES (1, 1, 3000000, 10, 20);
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log(\"x''; touch $scratch/pwned; echo ''\") | cuda');"
recommend --candidates=1 "$scratch/quoted.db" >/dev/null
grep '^TIDEMARK_STACK=' "$scratch/out" >"$scratch/setting"
(unset TIDEMARK_STACK; . "$scratch/setting"; test ! -e "$scratch/pwned" &&
    test "$TIDEMARK_STACK" = "log(\"x'; touch $scratch/pwned; echo '\") | cuda")
is "$?" 0 'quotes in a recorded stack stay quotes for the shell'
"$tidemark" recommend --base=vmm --for=time --candidates=8 --json "$trace" >"$found" 2>"$scratch/err"
is "$(ask "SELECT text LIKE '%vmm' FROM stack, found WHERE number = json_extract(answer, '\$.recommended')")" 1 \
    'the recorded stack is not recommended where another base is asked for'
is "$(recommend --capacity=2GiB --candidates=1 --stack 'fallback({pool | cuda}) | pool | cuda' "$data/torch_generate.csv.gz" |
    cat) $(grep -c refused "$scratch/out")" '0 0' 'the capacity is that of all bases together'
# Of traffic without a recorded stack, as a measured time has a say in whether such a stack is worse.
is "$(env --ignore-signal=CHLD "$tidemark" recommend --candidates=3 "$data/gpt_train.csv.gz" >"$scratch/out" 2>&1; echo $?) \
$(grep -c '^tried  [0-9]* stacks in ' "$scratch/out")" '0 1' 'children are waited for where SIGCHLD is ignored'

# The exit status is of the recorded stack alone, and 1 where it is worse in both.
make_trace "$scratch/even.db" "
    INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200)
        SELECT x, 1, 2097152, 10 * x, 10 * x + 95 FROM c;
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log(x.db) | cuda');"
is "$(recommend --candidates=20 --costs="$scratch/slow" "$scratch/even.db") $(grep -c 'now  *log' "$scratch/out")" '0 1' \
    'a recorded stack that takes far longer, and has no more memory than the bound, is no finding'
printf '%s\n1,00:00:00.000001,allocate,0x10,3000000,0\n' "$header" >"$scratch/plain.csv"
is "$(recommend --candidates=20 --costs="$scratch/slow" "$scratch/plain.csv") $(grep -c 'default' "$scratch/out")" '0 2' \
    'a default that is worse is no finding where no stack was recorded'
"$tidemark" recommend --candidates=20 --json "$scratch/plain.csv" >"$found"
is "$(ask "SELECT text, json_extract(answer, '\$.now_is_recorded') FROM stack, found WHERE number = json_extract(answer, '\$.now')")" \
    'pool | vmm|0' 'the default is what a program without a stack gets of a device that can do all'

# More stacks than are replayed in one round have as much memory as the recommended one, and are before it.
make_trace "$scratch/many.db" "
    INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000)
        SELECT x, 1, 20971520, 10 * x, NULL FROM c;
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log | cuda');"
"$tidemark" recommend --for=memory --json "$scratch/many.db" >"$found" 2>"$scratch/err"
is "$(ask "SELECT count(*), min(replays) >= 4 FROM stack, found WHERE number IN (json_extract(answer, '\$.recommended'),
        json_extract(answer, '\$.now'))") $(ask "SELECT count(*) > 8 FROM stack a, found JOIN stack b
        ON b.number = json_extract(answer, '\$.recommended') AND a.reserved = b.reserved")" '2|1 1' \
    'the recommended stack and the recorded one are replayed alone, however many others may be recommended'

# What is given is shown.
recommend --candidates=1 --stack 'limit(10) | cuda' --stack 'limit(1GiB) | pool(growth=1GiB) | cuda' --stack 'pool | vmm' \
    "$scratch/plain.csv" >/dev/null
is "$(grep -cE ' (limit\(1GiB\) \| pool\(growth=1GiB\) \| cuda|limit\(10\) \| cuda|pool \| vmm)$' "$scratch/out")" 3 \
    'each stack that is given has a line, also where others are better'
is "$(grep -c '%.*1 refused' "$scratch/out") $(grep -c '1 refused.*limit(10)' "$scratch/out")" '0 1' \
    'a stack that refused requests has no share over the bound'
is "$(recommend --candidates=1 "$scratch/plain.csv") $(grep -c ', 1 event, \|^tried  1 stack in ' "$scratch/out")" '0 2' \
    'one event and one stack are counted in the singular'
for bound in capacity budget; do
    is "$(recommend --$bound=0 "$trace") $(grep -c "^tidemark recommend: --$bound: from 1 byte\$" "$scratch/err")" '2 1' \
        "a $bound of nothing is wrong use"
done
printf '%s\n' "$header" '1,00:00:00.000001,allocate,0x10,9223372036854775807,0' \
    '1,00:00:00.000002,allocate,0x20,9223372036854775807,0' >"$scratch/huge.csv"
is "$(recommend --candidates=1 --capacity=1GiB "$scratch/huge.csv") $(grep -c 'so about 16.00 EiB would do' "$scratch/err")" '1 1' \
    'what would do for all of an address space is no less than that'
make_trace "$scratch/over.db" "INSERT INTO life VALUES (1, 1, 3000000, 10, 20), (2, 1, 3000000, 15, 30);
    INSERT OR REPLACE INTO meta VALUES ('stack', 'log(x.db) | pool(growth=64MiB) | cuda');"
# With these costs no noise of the machine makes it slower than others.
is "$(recommend --candidates=8 --base=cuda --costs="$scratch/slow" "$scratch/over.db") $(recommend --candidates=8 \
    --base=cuda --costs="$scratch/slow" --budget=16MiB "$scratch/over.db")" '0 1' \
    'a recorded stack that is over the budget is a finding'

# What a base has the driver do: each cost in turn is a second, and all others are nothing.
# spent COST STACK: the calls of the stack that the cost counts, and the time of all of them in s, for $scratch/calls.csv.
printf '%s\n' "$header" '1,00:00:00.000001,allocate,0x10,1000000,0' '1,00:00:00.000002,allocate,0x20,1000000,0' \
    '1,00:00:00.000003,free,0x20,1000000,0' '1,00:00:00.000004,allocate,0x30,5000000,0' \
    '1,00:00:00.000005,free,0x30,5000000,0' '1,00:00:00.000006,allocate,0x40,5000000,0' >"$scratch/calls.csv"
spent() {
    sed "s/^\(.*\) [^ ]* 0 0\$/\1 0 0 0/; s/^$1 .*/$1 1e9 0 0/" "$scratch/slow" >"$scratch/one-cost"
    "$tidemark" recommend --costs="$scratch/one-cost" --candidates=1 --stack "$2" --json "$scratch/calls.csv" >"$found" 2>/dev/null
    ask "SELECT (SELECT sum(json_extract(value, '\$.count')) FROM json_each(answer, '\$.stacks[' || number || '].driver')
        WHERE json_extract(value, '\$.call') = '${1#*.}'), round(json_extract(answer, '\$.stacks[' || number || '].driver_ns') / 1e9, 3)
        FROM stack, found WHERE text = '$2'"
}
is "$(spent cuda.grow cuda) $(spent cuda.return cuda) $(spent cuda.free cuda)" '3|3.0 1|1.0 2|2.0' \
    'two requests of cuda that share a page take one of the device, and what is freed whole goes back'
is "$(spent vmm.grow vmm) $(spent vmm.map vmm) $(spent vmm.allocate vmm)" '3|3.0 4|4.0 4|4.0' \
    'a block that vmm takes back as it is costs no handle, and one that it makes of a freed one has two mapped'
is "$(spent driver.grow driver) $(spent driver.allocate driver)" '1|1.0 4|4.0' 'requests of driver share a unit'
sed 's/ [^ ]* 0 0$/ 0 1e6 0/' "$scratch/slow" | sed '/^cuda.fresh/!s/1e6/0/' >"$scratch/one-cost"
"$tidemark" recommend --costs="$scratch/one-cost" --candidates=1 --stack cuda --json "$scratch/calls.csv" >"$found"
is "$(ask "SELECT json_extract(answer, '\$.stacks[' || number || '].driver_ns') FROM stack, found WHERE text = 'cuda'")" 8000000 \
    'memory is fresh once'

# What went back is cleared, and growth waits for that, for a while. A growth of 1 ms, and 100 us for each MiB.
printf '%s\n' "$header" '1,00:00:00.000001,allocate,0x10,67108864,0' '1,00:00:00.000002,free,0x10,67108864,0' \
    '1,00:00:00.000003,allocate,0x20,67108864,0' '1,00:00:00.000004,free,0x20,67108864,0' >"$scratch/again.csv"
# waits BASE MOST: how often growth waits at most MOST ns, and for how many ms.
waits() {
    { echo version 2 && sed "s/ [^ ]* 0 0\$/ 0 0 0/; s/^$1.grow .*/$1.grow 1e6 0 0/" "$scratch/slow" &&
        printf '%s.wait %s 1e5 0\n' cuda "$2" driver "$2" vmm "$2"; } >"$scratch/wait-cost"
    "$tidemark" recommend --costs="$scratch/wait-cost" --candidates=1 --stack "$3" --json "$scratch/again.csv" >"$found" 2>/dev/null
    ask "SELECT json_extract(value, '\$.count'), round(json_extract(value, '\$.ns') / 1e6, 1) FROM stack, found,
        json_each(answer, '\$.stacks[' || number || '].driver') WHERE text = '$3' AND json_extract(value, '\$.call') = 'wait'"
}
is "$(waits cuda 1e9 cuda) $(waits cuda 4e6 cuda) $(waits cuda 0 cuda)" '1|5.7 1|3.3 0|0.0' \
    'growth waits until what went back is cleared, or for the longest time, and does two thirds of its own meanwhile'
is "$(waits cuda 1e9 'pool | cuda') $(waits vmm 1e9 vmm)" '0|0.0 0|0.0' 'a stack that keeps what is free does not wait'

# Several inputs.
"$tidemark" recommend "$tries" --json "$data/gpt_train.csv.gz" "$trace" >"$found" 2>"$scratch/err"
is "$(ask "SELECT json_array_length(answer, '\$.inputs'), json_extract(answer, '\$.peak_bytes') = $peak FROM found")" '2|1' \
    'several inputs are tried together, and the bound is that of the largest'

# Bad input.
printf '%s\n' "$header" >"$scratch/empty.csv"
is "$(recommend "$scratch/empty.csv") $(cat "$scratch/err")" \
    "2 $scratch/empty.csv: no allocation succeeded, so there is nothing to recommend a stack for" 'empty traffic is refused'
printf '%s\n' "$header" '1,00:00:00.000001,allocate failure,0x0,100,0' >"$scratch/failed.csv"
is "$(recommend "$scratch/failed.csv") $(cat "$scratch/err")" \
    "2 $scratch/failed.csv: no allocation succeeded, so there is nothing to recommend a stack for" 'so is traffic of failures alone'
is "$(recommend)" 2 'without an input it is misused'
is "$(recommend --stack 'pool | nothing' "$trace")" 2 'a stack to try that is none is an error'
wrong=0
for text in 'vmm(fallback=nonsense)' 'vmm(fallback=)' 'vmm(device=xyz)' 'vmm(device=0,)' 'log(garbage!!, x=) | cuda' \
    'log | pool | cuda' 'pool | vmm as ' 'nonsense('; do
    why=$("$tidemark" stack "$text" 2>&1)
    test "$(recommend --candidates=1 --stack "$text" "$trace") $(cat "$scratch/err")" = \
        "2 tidemark recommend: --stack: ${why#tidemark stack: }" ||
        { wrong=$((wrong + 1)) && diag "$text: $(cat "$scratch/err")"; }
done
is "$wrong" 0 'a stack to try that no program takes is refused with the words and the column of `tidemark stack`'
costs=$scratch/costs
printf 'device X\ncuda.allocate 1 2\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs:2: three numbers from 0 to 1e12 are expected: ns, ns for a MiB, and the spread" 'a cost with two numbers is refused'
printf 'device X\ncuda.allocate 1e300 2 0\n' >"$costs"
is "$(recommend --costs="$costs" "$trace")" 2 'a cost beyond all measure is refused'
printf 'device X\ncuda.fly 1 2 0\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs:2: no cost has this name; \`tidemark devices --measure\` writes such a file" 'a cost of another name is refused'
printf 'device X\ncuda.allocate 1 2 0\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs: cuda.free is missing; where an earlier version wrote the file, measure again" \
    'a missing cost is named, and what a file of an earlier version needs'
printf 'device X\ncuda.map 1 2 0\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs:2: no cost has this name; \`tidemark devices --measure\` writes such a file" \
    'a cost of what a base does not do is refused'
is "$(recommend --costs="$scratch/none" "$trace") $(grep -c "$scratch/none: " "$scratch/err")" '2 1' 'a file of costs that is not there is an error'
printf 'device X\ncuda.allocate 1 2 0\ncuda.allocate 1 2 0\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" "2 $costs:3: this cost was there before" 'a cost that is there twice is refused'
printf 'version 4\ndevice X\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs:1: version 3 or 2 is expected; \`tidemark devices --measure\` writes it" 'costs of a later version are refused'
printf 'version 2\nversion 2\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" "2 $costs:2: a second version" 'so is a second version'
{ echo version 2 && cat "$scratch/slow"; } >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs: cuda.wait is missing; where an earlier version wrote the file, measure again" \
    'a file that says its version has all costs of that version'
{ echo version 3 && cat "$scratch/slow" && printf '%s 0 0 0\n' cuda.wait driver.wait vmm.wait; } >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" \
    "2 $costs: driver.map is missing; where an earlier version wrote the file, measure again" \
    'units of a pool of the driver that move have a cost in files of the latest version'
printf 'device X\ndevice Y\n' >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" "2 $costs:2: a second device" 'so is a second device'
sed 1d "$scratch/slow" >"$costs"
is "$(recommend --costs="$costs" "$trace") $(cat "$scratch/err")" "2 $costs: the line with the device is missing" 'costs of no device are refused'
done_testing
