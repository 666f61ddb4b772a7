# Tests files that are no trace, or a damaged or hostile one: every command says what is wrong and exits with 2.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

trace=$scratch/t.db

# bad SENTENCE WORDS [PATH]: `summary` exits 2 with a message of one line that has the path and the words.
bad() {
    "$tidemark" summary --json "${3:-$trace}" >"$scratch/out" 2>"$scratch/err"
    tap_status=$?
    has_words "$tap_status $(wc -l <"$scratch/err" | tr -d ' ') $(wc -c <"$scratch/out" | tr -d ' ') $(cat "$scratch/err")" \
        "$2" "$1" && case "$tap_status $(cat "$scratch/err")" in "2 ${3:-$trace}: "*) return 0 ;; esac
    diag "exit status $tap_status: $(cat "$scratch/err")"
    return 1
}

# bad_sql SENTENCE WORDS SQL: the same for a trace that the SQL has changed.
bad_sql() {
    make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, 50); $3"
    bad "$1" "$2"
}

plan 42

bad 'a file that is not there' '2 1 0 '"$scratch/none.db: No such file" "$scratch/none.db"
bad 'a folder' 'Is a directory' "$scratch"
: >"$trace"
bad 'an empty file' 'no trace: the file is empty'
echo 'Thread,Time,Action,Pointer,Size,Stream' >"$trace"
bad 'a text file' 'no trace: not an SQLite file'
printf 'SQLite format 3\0' >"$trace"
bad 'only the first bytes of an SQLite file' 'damaged or cut short'
{ printf 'SQLite format 3\0'; head -c 8000 /dev/zero; } >"$trace"
bad 'the first bytes, then zeros' 'damaged or cut short'

make_trace "$trace" "
    INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000)
        SELECT x, 1, x, x * 10, x * 10 + 35 FROM c;"
size=$(wc -c <"$trace")
cp "$trace" "$scratch/whole.db"
head -c $((size / 2)) "$scratch/whole.db" >"$trace"
bad 'half of a trace' 'damaged or cut short'
head -c $((size - 1)) "$scratch/whole.db" >"$trace"
bad 'a trace that lacks its last byte' 'damaged or cut short'

# A checkpoint that met a full disk may have written a part of a page; the write-ahead log still has all of it.
if test -n "$SQLITE3"; then
    cp "$scratch/whole.db" "$trace"
    printf '%s\n' 'PRAGMA journal_mode = wal;' '.dbconfig no_ckpt_on_close on' '.filectrl persist_wal 1' \
        'UPDATE allocation SET size = size + 1;' | "$SQLITE3" "$trace" >/dev/null
    head -c 5000 /dev/zero >>"$trace"
    ok 'a part of a page at the end is no damage while a write-ahead log lies beside' \
        sh -c 'test -s "$2-wal" && "$1" summary "$2"' - "$tidemark" "$trace"
    rm -f "$trace-wal" "$trace-shm"
else
    skip 1 'there is no sqlite3'
fi
head -c 100 "$scratch/whole.db" >"$trace"
bad 'a trace that is only its header' 'damaged or cut short'
{ head -c 4096 "$scratch/whole.db"; head -c $((size - 4096)) /dev/zero | tr '\0' '\252'; } >"$trace"
bad 'a trace whose pages are rubbish' 'damaged or cut short'

bad_sql 'an SQLite file of another program' "another program's" 'PRAGMA application_id = 7'
bad_sql 'a trace of a newer format' 'trace format 2 is newer than format 1' \
    "UPDATE meta SET value = 2 WHERE key = 'format_version'"
bad_sql 'a trace without a format' 'format_version' "DELETE FROM meta WHERE key = 'format_version'"
bad_sql 'a trace whose format is a word' 'format_version' "UPDATE meta SET value = 'new' WHERE key = 'format_version'"
for table in meta layer allocation loss; do
    bad_sql "a trace without the table $table" "the table $table is missing" \
        "DROP VIEW event; DROP VIEW live; DROP VIEW failure; DROP VIEW usage; DROP TRIGGER life_insert; DROP TRIGGER refused_insert; DROP TABLE $table"
done
bad_sql 'a trace without a column' 'the table loss has no column events' \
    "DROP TABLE loss; CREATE TABLE loss(thread_id, reason)"
bad_sql 'a trace with a view in place of a table' 'allocation is no ordinary table' \
    "DROP TRIGGER life_insert; DROP TRIGGER refused_insert; DROP VIEW event; DROP VIEW live; DROP VIEW failure; DROP VIEW usage;
    ALTER TABLE allocation RENAME TO hidden; CREATE VIEW allocation AS SELECT * FROM hidden"
bad_sql 'a trace with a computed column' 'the column events of the table loss is computed' \
    "DROP TABLE loss; CREATE TABLE loss(thread_id, reason, events AS (length(zeroblob(9))))"
bad_sql 'a trace with a size that is text' 'allocation 1: size is no integer' "UPDATE allocation SET size = 'big'"
bad_sql 'a trace with a time that is a real number' 'allocation 1: alloc_ns is no integer' \
    'UPDATE allocation SET alloc_ns = 1.5'
bad_sql 'a trace with a free time that is a blob' 'allocation 1: free_ns is no integer' \
    "UPDATE allocation SET free_ns = x'00'"
bad_sql 'a trace with a negative size' 'allocation 1: size is negative' 'UPDATE allocation SET size = -5'
bad_sql 'a trace with a time before the first possible one' 'allocation 1: its time is out of range' \
    'UPDATE allocation SET alloc_ns = -4611686018427387905'
bad_sql 'a trace with a time after the last possible one' 'allocation 1: its time is out of range' \
    'UPDATE allocation SET free_ns = 4611686018427387905'
bad_sql 'a trace with sizes that overflow' 'more than 2^63 bytes' \
    "INSERT INTO life VALUES (2, 1, 9223372036854775800, 20, NULL), (3, 1, 500, 30, NULL)"
bad_sql 'a trace with a long tag name that many paths repeat' 'longer names of tags than can be taken in' \
    "INSERT INTO tag VALUES (1, NULL, printf('%.*c', 20000000, 'x'));
    INSERT INTO tag WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM c WHERE x < 200) SELECT x, 1, 'a' FROM c"
bad_sql 'a trace with too many layers' 'more layers' \
    "INSERT INTO layer(layer_id, upstream_layer_id, kind, config) WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 70000)
        SELECT x, x + 1, 'log', '' FROM c"

make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, 50);
    UPDATE layer SET upstream_layer_id = 1 WHERE layer_id = 2; INSERT INTO layer_bin VALUES (2, 1, 2), (1, 5, 99);"
ok 'layers in a circle do not hang the command' "$tidemark" summary "$trace"
# The order of layers is computed once: computed for each pair of layers, these took more than half a minute.
make_trace "$trace" "DELETE FROM layer; INSERT INTO layer(layer_id, upstream_layer_id, kind, config)
    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1000)
        SELECT x, iif(x < 1000, x + 1, NULL), 'log', '' FROM c;
    INSERT INTO life VALUES (1, 1, 100, 10, 50), (2, 2, 100, 20, 40);"
"$tidemark" layers --format=csv "$trace" >"$scratch/out" 2>&1
is "$? $(grep -c ',log,' "$scratch/out") $(sed -n 's/^1000,,log,"",\([0-9]*\),.*/\1/p' "$scratch/out")" '0 1000 999' \
    'a thousand nested logs are listed from the outermost in'
has_words "$("$tidemark" summary --json "$trace")" '"peak_bytes":100,"peak_ns":10,"peak_count":1' \
    'of a thousand nested logs only the outermost counts in the total'
make_trace "$trace" "INSERT INTO life WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 50000)
    SELECT x, 1 + x % 20000, 8, x, x + 1 FROM c"
"$tidemark" summary --format=csv --only=layers "$trace" >"$scratch/out"
is "$? $(wc -l <"$scratch/out" | tr -d ' ')" '0 20001' 'layers that the file does not list are found by their ids'
make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, 50); ALTER TABLE allocation ADD COLUMN color TEXT;
    CREATE TABLE extra(a); CREATE VIEW trap AS SELECT load_extension('x'); DROP TRIGGER life_insert;
    CREATE TRIGGER allocation_trap AFTER INSERT ON allocation BEGIN DELETE FROM meta; END;"
ok 'extra tables, columns, views and triggers do no harm' "$tidemark" summary "$trace"
"$tidemark" query "$trace" 'SELECT * FROM trap' >/dev/null 2>&1
is $? 2 'a query of a view that calls load_extension is refused'
make_trace "$trace" "UPDATE meta SET value = char(27) || ']0;gotcha' WHERE key = 'command'"
has_words "$("$tidemark" summary "$trace")" '\x1b]0;gotcha' 'control characters of the file do not reach the terminal'

make_trace "$trace" "INSERT INTO life VALUES (1, 1, 100, 10, 50)"
for ending in journal wal shm; do
    mkfifo "$trace-$ending"
    bad "a pipe that stands beside it as -$ending" 'is no regular file'
    rm "$trace-$ending"
done

make_trace "$scratch/it#is 50%?.db" 'PRAGMA journal_mode = wal'
if test "$(id -u)" -eq 0; then
    skip 1 'root writes to read-only folders'
else
    mkdir "$scratch/fixed" && mv "$scratch/it#is 50%?.db" "$scratch/fixed" && chmod a-w "$scratch/fixed"
    ok 'a trace in WAL mode in a folder that takes no files can be read' \
        "$tidemark" summary "$scratch/fixed/it#is 50%?.db"
    chmod u+w "$scratch/fixed"
fi

done_testing
