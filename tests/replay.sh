# What the tests of `tidemark replay` share. Source it after tests/tap.sh.
# shellcheck disable=SC2034,SC2154 # used and set there
tidemark=${TIDEMARK:-$top_builddir/tidemark}
data=$top_srcdir/tests/data
csv=$scratch/in.csv
header='Thread,Time,Action,Pointer,Size,Stream'
unset TIDEMARK_STACK

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

replay() {
    "$tidemark" replay "$@" 2>"$scratch/err"
}

# figures JSON KEY...: the first value of each key, in one line.
figures() {
    figures_json=$1
    shift
    for figures_key; do
        printf '%s ' "$(printf '%s\n' "$figures_json" | tr ',{}' '\n\n\n' | sed -n "s/^\"$figures_key\"://p" | head -n 1)"
    done
}

# rows ROW...: make an input of these rows.
rows() {
    printf '%s\n' "$header" "$@" >"$csv"
}

query() {
    "$tidemark" query --csv "$@" 2>&1 | tail -n +2 | sed 's/\.0$//'
}

# The bytes and blocks at the peak, and the number of the event that reaches it, from the table `allocation` alone.
peak_sql="WITH e AS (SELECT alloc_ns AS ns, 0 AS is_free, allocation_id AS id, size AS change FROM allocation
        WHERE status = 0
        UNION ALL SELECT free_ns, 1, allocation_id, -size FROM allocation WHERE free_ns IS NOT NULL),
    r AS (SELECT sum(change) OVER w AS bytes, sum(iif(is_free, -1, 1)) OVER w AS count, row_number() OVER w AS number
        FROM e WINDOW w AS (ORDER BY ns, is_free, id ROWS UNBOUNDED PRECEDING))
    SELECT bytes, count, number FROM r ORDER BY bytes DESC, number LIMIT 1"

# kept_times TRACE: all times of layer 1.
kept_times() {
    query "$1" "SELECT size, alloc_ns, free_ns FROM allocation WHERE layer_id = 1 AND status = 0 ORDER BY allocation_id"
}

# with_threads: the traffic of multistream_sort as that of fifteen threads, in $csv.
with_threads() {
    gzip -dc "$data/multistream_sort.csv.gz" |
        awk -F, 'BEGIN { OFS = "," } NR > 1 { $1 = int(NR / 7) % 5 * 1000 + NR % 3 } { print }' >"$csv"
}
