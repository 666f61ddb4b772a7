# Tests that `pool` reserves little more than the live bytes of real traffic at its peak.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

# reserved FILE LIVE PERCENT BASE: whether the highest reserved bytes are at most that percentage of the highest live
# bytes.
reserved() {
    reserved_peak=$("$tidemark" replay --json --stack "pool | statistics | $4" \
        "$top_srcdir/tests/data/$1.csv.gz" | tr ',{}' '\n\n\n' | sed -n 's/^"peak"://p' | head -n 1)
    echo "# $1: $reserved_peak bytes reserved, $2 live at the peak"
    [ "${reserved_peak:-0}" -ge "$2" ] && [ $((reserved_peak * 100)) -le $(($2 * $3)) ]
    is $? 0 "$1: at most $3 percent of the peak live bytes are reserved over $4"
}

plan 9
reserved gpt_train 13844800200 110 'sim(capacity=80GiB)'
reserved maskrcnn_infer 3998912135 110 'sim(capacity=80GiB)'
reserved multistream_sort 560877059 125 'sim(capacity=80GiB)'
reserved gpt_train 13844800200 102 'sim(model=vmm)'
reserved maskrcnn_infer 3998912135 104 'sim(model=vmm)'
reserved multistream_sort 560877059 120 'sim(model=vmm)'
reserved torch_generate 1469327544 104 'sim(model=vmm)'

# Blocks that lie in two chunks: the chunks that touch are one, and each block lies in a chunk.
trace=$scratch/pages.db
"$tidemark" replay --stack "log($trace) | pool | log | sim(model=vmm)" "$top_srcdir/tests/data/gpt_train.csv.gz" \
    >/dev/null
"$tidemark" fragmentation "$trace" >"$scratch/pages"
is "$(sed -n 's/^live in pool *\(.*\)$/\1/p' "$scratch/pages" | head -n 1)" '13844806656 B       +0 B' \
    'all blocks of a pool over pages lie in its chunks, though many lie in two'
is "$(sed -n 's/^utilisation *//p' "$scratch/pages" | head -n 1)" '98.7%' \
    'the utilisation of a pool over pages is that of its chunks'
