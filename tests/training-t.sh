# Tests what `peak` says of a training step: what its memory is, told by tags and lifetimes, and of which module.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
seed=${TEST_SEED:-$(date +%s)}
diag "TEST_SEED=$seed"

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# kinds OPTION... TRACE: the kinds of memory that there are, with their bytes.
kinds() {
    "$tidemark" peak --format=csv --only=training "$@" 2>"$scratch/err" | sed 1d | cut -d, -f 1,2 | grep -v ',0$' | tr '\n' ' '
}

# modules OPTION... TRACE: each module with its bytes, those of activations, left over, gradients, parameters, workspace.
modules() {
    "$tidemark" peak --format=csv --only=modules "$@" 2>"$scratch/err" | sed 1d | sort | tr '\n' ' '
}

# Three steps of a model of two blocks and a head, a step each 1000 ns. Parameters and a batch are made before; the
# output of a step lives until the next one has another; a part of the backward runs the forward of a module again.
tags="
    INSERT INTO tag VALUES (1, 0, 'forward/net.h.0'), (2, 0, 'forward/net.h.0.attn'), (3, 0, 'forward/net.h.1'),
        (4, 0, 'forward/head'), (5, 0, 'backward/net.h.0'), (6, 0, 'backward/net.h.1'), (7, 5, 'forward/net.h.0.attn'),
        (8, 0, 'optimizer'), (9, 8, 'Adam'), (10, 0, 'load');
    CREATE TEMP TABLE tagged(id, size, tag, begin_ns, end_ns);
    CREATE TEMP TRIGGER tagged_insert AFTER INSERT ON tagged BEGIN
        INSERT INTO life VALUES (new.id, 1, new.size, new.begin_ns, new.end_ns);
        UPDATE allocation SET tag_id = new.tag WHERE allocation_id = new.id; END;"
setup="
    INSERT INTO tagged VALUES (1, 1000, 10, 10, NULL), (2, 64, 0, 20, 30), (3, 128, 0, 40, 1900);"
steps="
    WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 3),
        made(place, size, tag, at, gone) AS (VALUES (0, 100, 1, 10, 480), (1, 7, 2, 20, 25), (2, 200, 3, 30, 450),
            (3, 400, 4, 40, 1045), (4, 4, 0, 50, 900), (5, 11, 6, 400, 420), (6, 30, 6, 410, 950),
            (7, 20, 5, 430, 950), (8, 17, 7, 435, 439), (9, 13, 5, 440, 445), (10, 60, 9, 600, NULL), (11, 9, 8, 610, 620))
        INSERT INTO tagged SELECT 20 * s + place, size, tag, 1000 * s + at, 1000 * s + gone FROM s, made
            WHERE tag <> 9 OR s = 1 ORDER BY 1;"
make_trace "$trace" "$tags $setup $steps"

plan 27

is "$(kinds "$trace")" 'parameters,1000 optimizer states,60 activations,700 left over,400 ' \
    'the kinds of memory at the peak, where the output of the step before is still held'
is "$(modules "$trace")" 'head,800,400,400,0,0,0 net.h.0,100,100,0,0,0,0 net.h.1,200,200,0,0,0,0 ' \
    'of which module the memory at the peak is'
is "$(kinds --at=2440 "$trace")" \
    'parameters,1000 gradients,50 optimizer states,60 activations,700 workspace,13 other,4 ' \
    'in backward there are gradients, and what backward frees itself is workspace'
is "$(modules --at=2440 "$trace")" 'head,400,400,0,0,0,0 net.h.0,133,100,0,20,0,13 net.h.1,230,200,0,30,0,0 ' \
    'gradients and workspace are of the module whose backward made them'
is "$(kinds --at=2437 "$trace")" 'parameters,1000 gradients,50 optimizer states,60 activations,717 other,4 ' \
    'a forward inside of a backward makes activations again'
is "$(kinds --at=1022 "$trace")" 'parameters,1000 activations,100 workspace,7 other,128 ' \
    'what forward frees itself is workspace, and a batch of before the first step is no parameter'
is "$(kinds --at=2615 "$trace")" 'parameters,1000 gradients,50 optimizer states,60 activations,400 workspace,9 other,4 ' \
    'what the optimizer frees itself is workspace, and gradients live on in it'
is "$(kinds --at=3990 "$trace")" 'parameters,1000 optimizer states,60 activations,400 ' \
    'after the last pass its step goes on'

# passes MOMENT: the step and the pass there, in JSON and for people.
passes() {
    "$tidemark" peak --json --at="$1" "$trace" | sed -n 's/.*"step":\([^,]*\),"pass":\([^,]*\),.*/\1 \2/p'
    "$tidemark" peak --at="$1" "$trace" | sed -n 's/^in  *//p'
}
is "$(passes 2440 | tr '\n' ' ')$(passes 15)" '2 "backward" backward of step 2 null null' \
    'the step and the pass of the moment are told'
"$tidemark" peak "$trace" >"$scratch/out"
is "$(sed -n '/^MEMORY/,/^$/p' "$scratch/out" | grep -c .) $(sed -n '/^MODULE/,/^$/p' "$scratch/out" | grep -c .)" '8 4' \
    'people get a table of the kinds and one of the modules'
ok 'the training comes first' test "$(grep -n '^MEMORY' "$scratch/out" | cut -d: -f 1)" -lt \
    "$(grep -n '^TAG ' "$scratch/out" | cut -d: -f 1)"

# Parameters by a tag: then nothing else is told to be some.
make_trace "$scratch/tagged.db" "$tags INSERT INTO tag VALUES (20, 0, 'parameters/net.h.0'), (21, 0, 'parameters/net.h.1');
    INSERT INTO tagged VALUES (1, 700, 20, 10, NULL), (2, 300, 21, 20, NULL), (3, 128, 0, 40, NULL); $steps"
is "$(kinds --at=2440 "$scratch/tagged.db")" \
    'parameters,1000 gradients,50 optimizer states,60 activations,700 workspace,13 other,132 ' \
    'where parameters have a tag, nothing else is taken for some'
is "$(modules --at=2440 --depth=1 "$scratch/tagged.db")" 'head,400,400,0,0,0,0 net,1363,300,0,50,1000,13 ' \
    '--depth sums up modules, with the parameters that are tagged'
is "$(modules --at=2437 --depth=9 "$trace")" \
    'head,400,400,0,0,0,0 net.h.0,120,100,0,20,0,0 net.h.0.attn,17,17,0,0,0,0 net.h.1,230,200,0,30,0,0 ' \
    'a depth beyond that of all modules has each by itself'

# The forward that is run again on the thread of the backward, which has no tag of the backward there.
make_trace "$scratch/thread.db" "$tags $setup $steps INSERT INTO thread VALUES (2, 101, 'autograd');
    UPDATE allocation SET alloc_thread_id = 2 WHERE tag_id IN (5, 6, 7);
    UPDATE allocation SET tag_id = 2 WHERE tag_id = 7;"
is "$(kinds --at=2437 "$scratch/thread.db")|$(kinds --at=2615 "$scratch/thread.db")" \
    "$(kinds --at=2437 "$trace")|$(kinds --at=2615 "$trace")" \
    'a forward on the thread of the backward does not begin a step'

# An optimizer that runs the model itself, as LBFGS does, and tags nested in those of an epoch.
make_trace "$scratch/inside.db" "$(echo "$tags" | sed "s/, 0, 'forward/, 8, 'forward/g; s/, 0, 'backward/, 8, 'backward/g
    s/(8, 0, 'optimizer')/(8, 11, 'optimizer'), (11, 0, 'epoch 1')/") $setup $steps"
is "$(kinds --at=2440 "$scratch/inside.db")" "$(kinds --at=2440 "$trace")" \
    'passes inside of the optimizer, or of other tags, are passes'

# A trace that ends in its first forward, as one that ran out of memory.
make_trace "$scratch/short.db" "$tags $setup
    INSERT INTO tagged VALUES (4, 100, 1, 1010, NULL), (5, 7, 2, 1020, 1025), (6, 5000, 4, 1030, NULL);
    DELETE FROM allocation WHERE allocation_id = 3;"
is "$(kinds "$scratch/short.db")" 'parameters,1000 activations,5100 ' \
    'where the trace ends in the first forward, what it has not freed are activations'

# Steps without an allocation of the optimizer: the backward ends with its last allocation.
make_trace "$scratch/sgd.db" "$tags $setup $steps
    DELETE FROM allocation WHERE tag_id IN (8, 9);"
is "$(kinds --at=2440 "$scratch/sgd.db")" 'parameters,1000 gradients,63 activations,700 other,4 ' \
    'without an optimizer a backward ends with its last allocation'

# What is reserved at the moment.
make_trace "$scratch/waste.db" "$tags $setup $steps
    UPDATE layer SET kind = 'driver' WHERE layer_id = 2;
    INSERT INTO pool_sample(layer_id, ns, used_bytes, reserved_bytes) VALUES (2, 1, 0, 2000), (2, 2400, 2000, 4096);"
has_words "$("$tidemark" peak --format=csv --only=training --at=2440 "$scratch/waste.db" | tail -n 1)" 'waste,2269,,,' \
    'what is reserved and not live is waste'
is "$("$tidemark" peak --format=csv --only=training --at=2440 --tag=forward "$scratch/waste.db" | grep -c waste)" 0 \
    'of some allocations alone nothing is waste'
is "$(kinds --at=2440 --tag=forward "$trace")" 'activations,700 ' 'filters apply to the training, too'
is "$(kinds --at=2040 --from=2025 --to=2200 "$trace")" "$(kinds "$trace")" \
    'a part of the time has at its moments what the whole has'

# Traces of other programs.
make_trace "$scratch/forward.db" "INSERT INTO tag VALUES (1, 0, 'forward/net');
    INSERT INTO life VALUES (1, 1, 100, 10, NULL); UPDATE allocation SET tag_id = 1;"
has_words "$("$tidemark" peak --json "$scratch/forward.db")" '"training":[]' \
    'a trace with tags of forward alone is none of a training'
is "$("$tidemark" peak "$scratch/forward.db" | grep -c MEMORY)" 0 'people see no tables of a training that is not there'
make_trace "$scratch/empty.db" "$tags"
is "$(kinds "$scratch/empty.db")$?" 0 'a trace with tags and without allocations has no training'

# Many modules: they are summed up until a table has room for them.
make_trace "$scratch/many.db" "
    WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 239)
        INSERT INTO tag SELECT n + 1, 0, 'forward/net.h.' || (n / 20) || '.m' || (n % 20 / 5) || '.w' || (n % 5) FROM n;
    INSERT INTO tag VALUES (241, 0, 'forward/head'), (242, 0, 'backward/head');
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 243)
        INSERT INTO life SELECT n, 1, n, n, NULL FROM n;
    UPDATE allocation SET tag_id = allocation_id % 243;"
is "$(modules "$scratch/many.db" | tr ' ' '\n' | cut -d, -f 1,2 | head -n 3 | tr '\n' ' ')$(modules "$scratch/many.db" | wc -w)" \
    'head,483 net.h.0,210 net.h.1,610 13' 'modules are summed up as deep as there are no more than twenty'

# Random lives and tags: kinds and modules add up to what is live, at any moment.
make_trace "$trace" "${tags%%CREATE*}
    INSERT INTO thread VALUES (2, 101, 'autograd');
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
        INSERT INTO life SELECT n, 1, 1 + (n * 104729 + $seed) % 5000, n,
            iif((n * 31 + $seed) % 9 = 0, NULL, n + 1 + (n * 7919 + $seed) % 400) FROM n;
    UPDATE allocation SET alloc_thread_id = 1 + (allocation_id + $seed) % 2,
        tag_id = iif(allocation_id < 20, 0, 1 + (allocation_id / 40 * 3 + allocation_id * 17 % 3 + $seed) % 10);"
bad=0
for at in 5 30 333 1000 1777 2500 3000; do
    "$tidemark" peak --json --at=$at "$trace" >"$scratch/out"
    live=$(sed 's/"training".*//; s/.*"at_bytes":\([0-9]*\).*/\1/' "$scratch/out")
    sum=$("$tidemark" peak --format=csv --only=training --at=$at "$trace" | "$AWK" -F, 'NR > 1 { sum += $2 } END { print sum }')
    parts=$("$tidemark" peak --format=csv --only=modules --at=$at "$trace" |
        "$AWK" -F, 'NR > 1 && $2 != $3 + $4 + $5 + $6 + $7 { bad++ } END { print bad + 0 }')
    test "$live" = "$sum" && test "$parts" = 0 || bad=$at
done
is $bad 0 'the kinds of random lives add up to what is live, and those of each module to its bytes'
done_testing
