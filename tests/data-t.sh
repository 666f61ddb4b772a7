# Compares `peak`, `fragmentation`, `leaks` and `failures` of recorded traffic with figures that awk computes.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
data=$top_srcdir/tests/data

# The log of a workload as lines "a POINTER SIZE" and "f POINTER SIZE", with pointers as numbers.
cat >"$scratch/events.awk" <<'EOF'
function number(hex,  i, value) {
    value = 0
    for (i = 3; i <= length(hex); i++)
        value = 16 * value + index("0123456789abcdef", substr(hex, i, 1)) - 1
    return value
}
BEGIN { FS = "," }
$3 == "allocate" || $3 == "free" || $3 == "deallocate" {
    if (!($4 in known))
        known[$4] = sprintf("%.0f", number($4))
    print ($3 == "allocate" ? "a" : "f"), known[$4], $5
}
EOF

# The peak, the first allocation that reaches it, the number of live blocks then, and what is live at the end.
cat >"$scratch/peak.awk" <<'EOF'
$1 == "a" { id++; live[$2] = $3; bytes += $3; count++; if (bytes > most) { most = bytes; at = id; of = count } }
$1 == "f" && $2 in live { bytes -= live[$2]; count--; delete live[$2] }
END { printf "%.0f %d %d %.0f %d\n", most, at, of, bytes, count }
EOF

# The live blocks after allocation `at`, as lines "POINTER SIZE".
cat >"$scratch/live.awk" <<'EOF'
$1 == "a" { id++; live[$2] = $3 }
$1 == "f" { delete live[$2] }
id == at { exit }
END { for (pointer in live) print pointer, live[pointer] }
EOF

# Blocks in the order of addresses: bytes rounded up to 256, the pages of 2 MiB that hold them, and the holes in those.
cat >"$scratch/map.awk" <<'EOF'
function hole(bytes) {
    if (bytes > 0) { holes++; if (bytes > largest) largest = bytes }
}
BEGIN { page = 2097152; end = -1 }
$2 > 0 {
    size = int(($2 + 255) / 256) * 256
    from = int($1 / page) * page
    rounded += size
    if (end < 0 || from > chunk_end) {
        if (end >= 0) { hole(chunk_end - end); reserved += chunk_end - chunk }
        chunk = from
        hole($1 - from)
        chunks++
    } else {
        hole($1 - end)
    }
    end = $1 + size
    chunk_end = int((end + page - 1) / page) * page
}
END {
    hole(chunk_end - end)
    reserved += chunk_end - chunk
    printf "%.0f %.0f %.0f %.0f %d %d\n", rounded, reserved, reserved - rounded, largest, holes, chunks
}
EOF

# The size with the most bytes at the peak, its bytes and its count; then the peak without it.
top_size() {
    "$AWK" '{ bytes[$2] += $2; count[$2]++ } END { for (size in bytes) printf "%.0f %.0f %d\n", bytes[size], size, count[size] }' \
        "$scratch/live" | sort -k1,1nr -k2,2n | head -n 1
}

# The number of allocations that a limit refuses, the first of them, and the peak of those that it grants.
cat >"$scratch/limit.awk" <<'EOF'
$1 == "a" { id++; if (bytes + $3 > limit) { refused++; if (!first) first = id } else { live[$2] = $3; bytes += $3; if (bytes > most) most = bytes } }
$1 == "f" && $2 in live { bytes -= live[$2]; delete live[$2] }
END { printf "%d %d %.0f\n", refused, first, most }
EOF

# members FILE NAME...: the first number of each name in a JSON object.
members() {
    file=$1
    shift
    for name; do
        tr ',{}[]' '\n\n\n\n\n' <"$file" | sed -n "s/^\"$name\":\\([-0-9.]*\\)$/\\1/p" | head -n 1
    done | tr '\n' ' '
}

plan 17

for name in gpt_train maskrcnn_infer multistream_sort; do
    trace=$scratch/$name.db
    gzip -dc "$data/$name.csv.gz" | tr -d '\r' | "$AWK" -f "$scratch/events.awk" >"$scratch/events"
    "$AWK" -f "$scratch/peak.awk" "$scratch/events" >"$scratch/peak"
    read -r most at of left_bytes left_count <"$scratch/peak"
    "$AWK" -v at="$at" -f "$scratch/live.awk" "$scratch/events" | sort -n >"$scratch/live"
    "$tidemark" import "$data/$name.csv.gz" -o "$trace" 2>/dev/null || exit 99

    "$tidemark" peak --by=size --limit=1 --json "$trace" >"$scratch/json"
    is "$(members "$scratch/json" peak_bytes peak_allocation_id at_count)" "$most $at $of " \
        "$name: the peak, its allocation and its number of live blocks"
    read -r bytes size count <<EOF
$(top_size)
EOF
    "$AWK" -v size="$size" '$3 != size' "$scratch/events" | "$AWK" -f "$scratch/peak.awk" >"$scratch/without"
    read -r without rest <"$scratch/without"
    sed 's/.*"groups":\[//' "$scratch/json" >"$scratch/groups"
    is "$(members "$scratch/groups" at_bytes at_count peak_without_bytes)" "$bytes $count $without " \
        "$name: the size with the most bytes at the peak, and the peak without it"

    "$tidemark" fragmentation --json "$trace" >"$scratch/json"
    read -r rounded reserved free largest holes chunks <<EOF
$("$AWK" -f "$scratch/map.awk" "$scratch/live")
EOF
    sed 's/.*"moments":\[//' "$scratch/json" >"$scratch/moments"
    is "$(members "$scratch/moments" live_bytes rounded_bytes pages_bytes free_bytes largest_hole_bytes holes chunks)" \
        "$most $rounded $reserved $free $largest $holes $chunks " \
        "$name: the rounded and reserved bytes at the peak, and the holes"

    "$tidemark" leaks --json "$trace" >"$scratch/json"
    is "$(members "$scratch/json" live_bytes live_count)" "$left_bytes $left_count " \
        "$name: the bytes and blocks that are live at the end"

    limit=$((most / 2))
    "$tidemark" replay --stack "log($scratch/limit.db, overwrite=true) | limit($limit, alignment=1) | sim" "$data/$name.csv.gz" \
        >/dev/null 2>&1
    "$tidemark" failures --limit=1 --json "$scratch/limit.db" >"$scratch/json"
    "$tidemark" peak --json "$scratch/limit.db" >"$scratch/limited"
    is "$(members "$scratch/json" failures_count count allocation_id)$(members "$scratch/limited" peak_bytes)" \
        "$("$AWK" -v limit="$limit" -f "$scratch/limit.awk" "$scratch/events" | sed 's/^\([0-9]*\)/\1 \1/') " \
        "$name: what a limit of half the peak refuses, first and in all, and the peak below it"
done

"$tidemark" diff --json "$scratch/multistream_sort.db" "$scratch/gpt_train.db" >"$scratch/json"
is "$? $(members "$scratch/json" change)" '1 13283923141 ' 'diff has the difference of two peaks'
"$tidemark" check --max-peak=560877059 --no-leaks --max-allocations=35998 --max-failures=0 "$scratch/multistream_sort.db" \
    >"$scratch/out"
is $? 0 'budgets that a trace just meets pass'

done_testing
