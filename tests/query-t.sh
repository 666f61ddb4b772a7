# Tests `tidemark query`: its output for every type and format, and that it changes nothing.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

query() {
    "$tidemark" query "$@" 2>"$scratch/err"
}

# refused SENTENCE SQL: whether the exit status is 2, and no byte of the trace has changed.
refused() {
    query "$trace" "$2" >/dev/null
    is "$? $(cksum <"$trace")" "2 $sum" "$1"
}

plan 44

make_trace "$trace" "
    INSERT INTO life VALUES (1, 1, 100, 10, 50), (2, 1, 200, 20, NULL);"
sum=$(cksum <"$trace")
types="SELECT 9007199254740993 AS i, 0.1 AS r, 2.0 AS w, NULL AS n, x'00ff' AS b, 'a,\"b\"' AS t, '' AS e"

is "$(query --json "$trace" "$types")" '[
{"i":9007199254740993,"r":0.1,"w":2.0,"n":null,"b":"00ff","t":"a,\"b\"","e":""}
]' 'JSON has integers as integers, reals, null, text and blobs in hexadecimal'
is "$(query --csv "$trace" "$types")" 'i,r,w,n,b,t,e
9007199254740993,0.1,2.0,,00ff,"a,""b""",""' 'CSV quotes where it must, and tells an empty text from NULL'
is "$(query "$trace" 'SELECT size, kind FROM event')" 'size kind
 100 alloc
 200 alloc
 100 free' 'a table has a line for each row, and numbers to the right'
is "$(query --table "$trace" 'SELECT 1 AS a')" 'a
1' 'a table may be asked for by name'
is "$(query --json "$trace" 'SELECT 1 WHERE 0')" '[]' 'query --json prints an empty array for no rows'
is "$(query --csv "$trace" 'SELECT 1 AS a WHERE 0')" 'a' 'query --csv prints only the header for no rows'
is "$(query --json "$trace" 'SELECT 1 AS a, 2 AS a')" '[
{"a":1,"a:2":2}
]' 'two columns of one name stay apart in JSON'
is "$(query --json "$trace" "SELECT char(27, 10) || CAST(x'ff' AS TEXT) AS t")" "[
{\"t\":\"\\u001b\\u000a$(printf '\357\277\275')\"}
]" 'query --json escapes control characters and invalid UTF-8'
has_words "$(query "$trace" "SELECT char(27) || '[31m' AS t")" '\x1b[31m' 'query escapes control characters in a table'
is "$(query --csv "$trace" 'SELECT count(*) AS n FROM live')" 'n
1' 'views of the trace answer'
is "$(query --csv "$trace" "SELECT value FROM json_each('[7]')")" 'value
7' 'functions that return tables work'
is "$(query --csv "$trace" "SELECT name FROM pragma_table_info('layer') LIMIT 1")" 'name
layer_id' 'so do PRAGMAs that only tell'
is "$(query --csv "$trace" 'SELECT 1 AS a; -- that is all')" 'a
1' 'a comment may follow the statement'
is "$(query --csv "$trace" 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200000) SELECT x FROM c' |
    tail -n 1)" 200000 'query prints a large answer completely'

is "$(query --csv "$trace" 'SELECT * FROM usage')" 'layer_id,ns,kind,allocation_id,live_bytes,live_count
1,10,alloc,1,100,1
1,20,alloc,2,300,2
1,50,free,1,200,1' 'usage has the bytes and the count after each event'
is "$(query --csv "$trace" 'SELECT * FROM usage')" "$(query --csv "$trace" 'SELECT * FROM main.usage')" \
    'so has the view of the file, which main.usage names'
is "$(query --csv "$trace" 'SELECT name FROM sqlite_master WHERE name IN ("usage", "event")')" 'name
event
usage' 'the schema that a question sees is that of the file'

query "$trace" 'SELECT 1; SELECT 2' >/dev/null
is "$? $(cat "$scratch/err")" '2 tidemark query: one statement at a time; the second begins at column 11' \
    'query refuses a second statement'
query "$trace" 'SELECT missing FROM allocation' >/dev/null
is $? 2 'query exits with 2 after an error in the SQL'
has_words "$(cat "$scratch/err")" 'column 8: no such column: missing' 'query prints the reason of an error in the SQL'
query "$trace" ' -- nothing' >/dev/null
is $? 2 'query refuses SQL without a statement'
query "$trace" >/dev/null
is $? 2 'query without SQL is wrong use'

refused 'DELETE is refused' 'DELETE FROM allocation'
refused 'INSERT is refused' "INSERT INTO meta VALUES ('a', 1)"
refused 'UPDATE is refused' 'UPDATE allocation SET size = 0'
refused 'CREATE TABLE is refused' 'CREATE TABLE t(a)'
refused 'CREATE TEMP TABLE is refused' 'CREATE TEMP TABLE t(a)'
refused 'DROP is refused' 'DROP VIEW live'
refused 'INSERT into a view is refused' "INSERT INTO usage VALUES (1, 1, 'alloc', 1, 1, 1)"
refused 'INSERT into what stands before a view is refused' "INSERT INTO temp.event(ns) VALUES (1)"
refused 'DELETE from a view is refused' 'DELETE FROM event'
refused 'DROP of what stands before a view is refused' 'DROP TABLE temp.usage'
refused 'CREATE VIRTUAL TABLE is refused' 'CREATE VIRTUAL TABLE temp.u USING tidemark_usage'
refused 'ATTACH is refused' "ATTACH '$scratch/other.db' AS other"
refused 'VACUUM INTO is refused' "VACUUM INTO '$scratch/other.db'"
refused 'PRAGMA journal_mode is refused' 'PRAGMA journal_mode = delete'
refused 'PRAGMA query_only is refused' 'PRAGMA query_only = 0'
refused 'load_extension is refused' "SELECT load_extension('libm.so')"
refused 'BEGIN is refused' 'BEGIN IMMEDIATE'
ok 'refused statements make no file' test ! -e "$scratch/other.db"

make_trace "$trace" "
    DROP VIEW usage; CREATE VIEW usage AS SELECT 'its own' AS answer;
    PRAGMA writable_schema = ON;
    INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, 'CREATE VIRTUAL TABLE x USING tidemark_event');
    INSERT INTO sqlite_master VALUES ('view', 'y', 'y', 0, 'CREATE VIEW y AS SELECT count(*) AS n FROM event');"
is "$(query --csv "$trace" 'SELECT * FROM usage')" 'answer
its own' 'a view that the trace itself defines as another answers'
is "$(query --csv "$trace" 'SELECT * FROM y')" 'n
0' 'a view of the file reads the views of the file'
query "$trace" 'SELECT * FROM x' >/dev/null
is $? 2 'a table of the file cannot use what stands before the views'

make_trace "$trace" "UPDATE meta SET value = 0 WHERE key = 'complete'"
query --csv "$trace" 'SELECT 1 AS a' >"$scratch/out"
is "$? $(tail -n 1 "$scratch/out")" '3 1' 'query answers about a trace that was cut off, and exits with 3'

done_testing
