# `tidemark import` of PyTorch's snapshot.pickle: the same trace as of the JSON, and nothing is executed.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

json=$top_srcdir/tests/data/pytorch.json
trace=$scratch/t.db
python=$(command -v python3) || skip_all 'there is no python3'

# import ARGUMENT...: the exit status and the messages.
import() {
    "$tidemark" import "$@" >"$scratch/out" 2>"$scratch/err"
    echo "$? $(cat "$scratch/err")"
}

# rows: all that an import of the snapshot makes.
rows() {
    for table in layer tag allocation mark unmatched_free loss; do
        "$tidemark" query --csv "$trace" "SELECT * FROM $table"
    done
}

# pickled NAME EXPRESSION: a pickle of what a Python expression makes of `snapshot`, with protocol $protocol.
pickled() {
    "$python" - "$json" "$scratch/$1" "${protocol:-4}" "$2" <<'PYTHON'
import collections, json, pickle, sys
snapshot = json.load(open(sys.argv[1]))
pickle.dump(eval(sys.argv[4]), open(sys.argv[2], "wb"), int(sys.argv[3]))
PYTHON
}

# bytes NAME ESCAPES: a file of these bytes, as printf writes them.
bytes() {
    # shellcheck disable=SC2059 # the bytes are the format
    printf "$2" >"$scratch/$1"
}

# refused NAME: what the import says of the file, without its name.
refused() {
    import "$scratch/$1" "$scratch/no.db" | sed "s|$scratch/||"
}

plan 20
import --overwrite "$json" "$trace" >/dev/null
rows >"$scratch/expected"
for protocol in 2 3 4 5; do
    pickled "p$protocol.pickle" snapshot
    is "$(import --overwrite "$scratch/p$protocol.pickle" "$trace")" '0 ' "a pickle of protocol $protocol is imported"
    rows >"$scratch/seen"
    ok "its trace is that of the JSON, with protocol $protocol" cmp "$scratch/expected" "$scratch/seen"
done
protocol=4
gzip "$scratch/p5.pickle"
import --overwrite "$scratch/p5.pickle.gz" "$trace" >/dev/null
rows >"$scratch/seen"
ok 'a compressed pickle is imported' cmp "$scratch/expected" "$scratch/seen"

# Numbers at the bounds of what a pickle has operations for.
pickled numbers.pickle '{"segments": [], "device_traces": [[{"action": "alloc", "addr": a, "size": 1, "stream": s}
    for a, s in ((255, 0), (256, -1), (65535, 1), (65536, 2), (2**31 - 1, 3), (2**31, 4), (2**63 - 1, 5), (2**63, 6),
    (2**64 - 1, 7))]]}'
import --overwrite "$scratch/numbers.pickle" "$trace" >/dev/null
is "$("$tidemark" query --csv "$trace" "SELECT printf('%x', address) FROM allocation" | tail -n +2 | tr -d '\r' | tr '\n' ' ')" \
    'ff 100 ffff 10000 7fffffff 80000000 7fffffffffffffff 8000000000000000 ffffffffffffffff ' \
    'addresses of one to eight bytes are read'

pickled object.pickle 'collections.OrderedDict(snapshot)'
has_words "$(refused object.pickle)" 'it holds more than dict, list, tuple, str, int, float, bool and None' \
    'a pickle with an object of a class is refused'
bytes call.pickle '\200\002cos\nsystem\nX\007\000\000\000touch xq\000\205R.'
has_words "$(refused call.pickle)" '2 call.pickle: offset 2, operation 0x63: it holds more than' \
    'a pickle that calls a function is refused at the name of the function'
ok 'the function is not called' test ! -e x

head -c 900 "$scratch/p4.pickle" >"$scratch/cut.pickle"
has_words "$(refused cut.pickle)" 'the pickle ends in the middle' 'a pickle that was cut is refused'
bytes no-value.pickle '\200\004]a.'
has_words "$(refused no-value.pickle)" 'damaged: a value is missing on its stack' 'a pickle without a value to append is refused'
bytes no-mark.pickle '\200\004]e.'
has_words "$(refused no-mark.pickle)" 'damaged: a mark is missing' 'a pickle without a mark is refused'
bytes memo.pickle '\200\004]q\005.'
has_words "$(refused memo.pickle)" 'damaged: a number of its memo is left out' 'a pickle with a hole in its memo is refused'
bytes text.pickle '\200\004X\377\377\377\177'
has_words "$(refused text.pickle)" 'a text is longer than 1 MiB' 'a text that claims 2 GiB is refused'
bytes within.pickle '\200\004]\224h\000a.'
has_words "$(refused within.pickle)" 'no memory snapshot' 'a list that contains itself is refused'
"$python" - "$scratch/laughs.pickle" <<'PYTHON'
import pickle, sys
values = []
for i in range(100):
    values = [values, values]
pickle.dump({"segments": [], "device_traces": [[{"action": "alloc", "frames": values}]], "x": values}, open(sys.argv[1], "wb"), 4)
PYTHON
has_words "$(refused laughs.pickle)" '3 tidemark import: 1 records could not be read' \
    'lists that share lists a hundred deep are skipped'
done_testing
