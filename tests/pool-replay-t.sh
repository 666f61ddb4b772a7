# Tests that `pool` reserves little more than the live bytes of real traffic at its peak.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

# reserved FILE LIVE PERCENT: whether the highest reserved bytes are at most that percentage of the highest live bytes.
reserved() {
    reserved_peak=$("$tidemark" replay --json --stack 'pool | statistics | sim(capacity=80GiB)' \
        "$top_srcdir/tests/data/$1.csv.gz" | tr ',{}' '\n\n\n' | sed -n 's/^"peak"://p' | head -n 1)
    echo "# $1: $reserved_peak bytes reserved, $2 live at the peak"
    [ "${reserved_peak:-0}" -ge "$2" ] && [ $((reserved_peak * 100)) -le $(($2 * $3)) ]
    is $? 0 "$1: at most $3 percent of the peak live bytes are reserved"
}

plan 3
reserved gpt_train 13844800200 110
reserved maskrcnn_infer 3998912135 110
reserved multistream_sort 560877059 125
