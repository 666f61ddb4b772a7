#!/bin/sh
# Tests doc/trace.md: it has the recorder's schema, describes each column and key, and its queries are right.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

doc=$top_srcdir/doc/trace.md

# block NUMBER: the fenced block of SQL with that number, from 1.
block() {
    "$AWK" -v number="$1" '/^```sql$/ { on = ++seen == number; next } /^```/ { on = 0 } on' "$doc"
}

blocks() {
    grep -c '^```sql$' "$doc"
}

schema_of() {
    "$SQLITE3" -readonly "$1" "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid"
}

# The columns of the database, as "table column TYPE".
columns_of() {
    "$SQLITE3" -readonly -separator ' ' "$1" "SELECT m.name, c.name, iif(c.type = '', 'any', c.type)
        FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'" | sort
}

# The columns on the page: the rows of the first table under each heading "### `table`".
columns_documented() {
    "$AWK" -F' *[|] *' '
        /^### / { table = /^### `/ ? substr($0, 6, length($0) - 6) : ""; rows = 0 }
        /^## / { table = "" }
        table != "" && /^[|] column [|]/ { rows = 1 }
        !/^[|]/ { rows = 0 }
        rows && $2 ~ /^`/ { gsub(/`/, "", $2); print table, $2, $3 }' "$doc" | sort
}

# The keys of meta on the page; stack.N stands for stack.2 and so on.
keys_documented() {
    "$AWK" -F' *[|] *' '/^[|] key [|]/ { on = 1 } !/^[|]/ { on = 0 } on && $2 ~ /^`/ { gsub(/`/, "", $2); print $2 }' \
        "$doc" | sort
}

# answer NUMBER: the result of a query on the trace made by hand.
answer() {
    block "$1" >"$scratch/query.sql"
    "$SQLITE3" -readonly "$scratch/hand.db" <"$scratch/query.sql" 2>&1
}

test -n "$SQLITE3" || skip_all 'there is no sqlite3 command'
test -x "$top_builddir/tests/make-trace" || skip_all 'this build has no command'

plan 19
trace=$scratch/trace.db
block 1 >"$scratch/documented.sql"
ok 'the schema on the page makes a database' "$SQLITE3" -bail "$scratch/documented.db" ".read $scratch/documented.sql"
RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=nightly TIDEMARK_STACK="log($trace) | host" "$top_builddir/examples/wrap" >/dev/null 2>&1
ok 'the recorder makes a trace' test -s "$trace"
schema_of "$scratch/documented.db" >"$scratch/documented"
schema_of "$trace" >"$scratch/recorded"
ok 'the page has the schema that the recorder creates, to the letter' diff "$scratch/documented" "$scratch/recorded"
ok 'the database of the recorder has a schema' grep -q '^table|allocation|' "$scratch/documented"
columns_documented >"$scratch/documented"
columns_of "$trace" >"$scratch/recorded"
ok 'the page says what each column holds, with its type, and knows no other' \
    diff "$scratch/documented" "$scratch/recorded"
keys_documented >"$scratch/documented"
"$SQLITE3" -readonly "$trace" 'SELECT key FROM meta' | sort >"$scratch/recorded"
is "$(comm -13 "$scratch/documented" "$scratch/recorded")" '' 'the page says what each key of meta holds'
is "$(comm -23 "$scratch/documented" "$scratch/recorded" | tr '\n' ' ')" 'assumed_frees cupti exit_recovered failure import_events import_format import_guessed_times import_source stack.N ' \
    'the page lists no other key of meta, but for special cases'

"$top_builddir/tests/make-trace" "$scratch/hand.db" "
    INSERT INTO status VALUES (0, 'TIDE_OK', ''), (4, 'TIDE_ELIMIT', '');
    INSERT INTO stream VALUES (2, 255, 0);
    INSERT INTO tag VALUES (1, NULL, 'step'), (2, 1, 'forward'), (3, 2, 'forward');
    INSERT INTO life VALUES (1, 1, 100, 1000000, 4000000), (2, 1, 300, 2000000, NULL), (3, 1, 300, 2000000, 2000000),
        (4, 1, 50, 3000000, NULL), (5, 3, 7, 3000000, 3000500);
    INSERT INTO refused VALUES (6, 1, 9000, 3500000);
    UPDATE allocation SET tag_id = 3 WHERE allocation_id IN (2, 3);
    UPDATE allocation SET free_stream_id = 2, free_duration_ns = 77 WHERE allocation_id = 3;
    INSERT INTO pool_sample(ns, layer_id, used_bytes, reserved_bytes) VALUES (5, 2, 10, 64), (6, 2, 30, 128), (7, 2, 20, 64);
    UPDATE layer SET device = 1 WHERE layer_id IN (2, 3);
    INSERT INTO device_sample VALUES (4, 1, 900, 1000), (7, 1, 700, 1000), (8, 1, 800, 1000);
    INSERT INTO module VALUES (1, '/a/program', '00', 4096, 8192);
    INSERT INTO frame VALUES (1, 5000, 1, 'leaf', 'a.c', 3), (2, 6000, 1, 'main', 'a.c', 9), (3, 7000, NULL, NULL, NULL, NULL);
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 2), (2, 0, 3), (2, 1, 2);
    UPDATE allocation SET callstack_id = iif(allocation_id = 2, 2, 1);
    INSERT INTO mark VALUES (1500000000, 1, 'mark', 'epoch 1', NULL), (1, 1, 'refused_free', '', 5);" || exit 99
is "$(answer 2)" "$(printf '1|700|2000000|3\n3|7|3000000|1')" \
    'the query of the peak of each layer counts what is freed at its time'
is "$(answer 3)" "$(printf '2|300|3|2000000\n3|300|3|2000000\n1|100||1000000')" \
    'the query of what stood at the peak gives its rows'
is "$(answer 4)" "$(printf 'step/forward/forward|1|300\n(none)|1|50')" \
    'the query of what was never freed gives its rows, by tag'
is "$(answer 5)" '3500000|1|9000|TIDE_ELIMIT|450' 'the query of failures gives its rows'
is "$(answer 6 | head -n 2)" "$(printf 'free|77|1|300|2000000\nalloc|10|1|100|1000000')" \
    'the query of the slowest calls gives its rows'
is "$(answer 7)" "$(printf '1|100\n2|700\n3|450\n4|350')" 'the query of memory over time gives its rows'
is "$(answer 8)" '0x0|0xff|1|300' 'the query of frees on another stream gives its rows'
is "$(answer 9)" "$(printf '300|2|1|0.0\n100|1|1|3000.0\n50|1|0|')" 'the query of sizes and lifetimes gives its rows'
is "$(answer 10)" '2|128|30|6' 'the query of what the pool held at the most gives its row'
is "$(answer 11)" '1|300|1000|7|64' 'the query of what a device had in use gives its row, with what the bases held'
is "$(answer 12) $(blocks)" '2023-11-14 22:13:21.500|epoch 1 13' 'the query of marks gives them with the time of day'
is "$(answer 13)" "$(printf '|||1|300\nleaf|a.c|3|1|50')" \
    'the query of what was never freed, by place in the code, gives its rows, and is the last query'
done_testing
