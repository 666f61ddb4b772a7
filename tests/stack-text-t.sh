# `tidemark stack` and `tidemark help LAYER`.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

# answer ARGUMENT...: what the command prints, its messages, and its exit status.
answer() {
    "$tidemark" "$@" >"$scratch/said" 2>&1
    tap_status=$?
    echo "$(cat "$scratch/said") $tap_status"
}

# section LAYER ARGUMENT: whether the help of the layer has the argument of its table.
section() {
    "$tidemark" help "$1" | grep -qF -- "  $2"
}

plan 18
is "$(answer stack 'statistics | limit(4GiB) as gpu | pool | host')" 'statistics(tags=false)
| limit(4GiB, alignment=256) as gpu
| pool(growth=2MiB, alignment=256, cache=64MiB, nvtx=auto)
| host 0' 'a right text is printed in full, a layer a line'
full=$("$tidemark" stack 'log(t.db) | pool | driver')
is "$("$tidemark" stack "$full")" "$full" 'the full text is right, and full'
ok 'no trace is created' test ! -e t.db
is "$(TIDEMARK_STACK='limit(1) | sim' answer stack)" 'limit(1, alignment=256)
| sim(granularity=1, model=plain) 0' 'without a text it is that of TIDEMARK_STACK'
is "$(answer stack | head -n 1)" 'tidemark stack: which text? TIDEMARK_STACK is not set' 'without either it is asked for'
is "$(TIDEMARK_STACK='limit(-1) | sim' answer stack)" \
    "tidemark stack: TIDEMARK_STACK: stack text, column 7: limit: argument 'limit': '-1' is negative, expected a size such as 4GiB, or a share such as 25% 2" \
    'a wrong text of TIDEMARK_STACK says where it comes from'
is "$(answer stack 'pool(growth=1x) | host' | sed 's/,.* / ... /')" 'tidemark stack: stack text ... 2' \
    'a wrong text fails with status 2'
is "$(answer stack limit host | head -n 1)" \
    'tidemark stack: one text at a time; put it in quotes, because it has blanks and bars' 'two texts are refused'
is "$(answer stack --json 'limit(1) | host')" \
    '{"format_version":1,"text":"limit(1) | host","full":"limit(1, alignment=256)\u000a| host","notes":[]} 0' 'the JSON has both texts'
is "$(answer stack "log(\"a$(printf '\033')b.db\") | host" | head -n 1 | cut -c 1-20)" 'log("a\x1bb.db", ove' \
    'a control character in a path does not reach the terminal'

layers=$(sed -n 's/^KIND(\(.*\))$/\1/p' "$top_builddir/adaptors/kinds.inc")
lacking=''
for layer in $layers; do
    "$tidemark" help "$layer" >"$scratch/help" || lacking="$lacking $layer"
    "$AWK" -v name="### $layer" '$0 == name { on = 1; next } /^#/ { on = 0 } on && /^\| `/ { print $2 }' \
        "$top_srcdir/doc/stack-text.md" | tr -d '`,' >"$scratch/arguments"
    while read -r argument; do
        section "$layer" "$argument" || lacking="$lacking $layer:$argument"
    done <"$scratch/arguments"
done
is "$lacking" '' 'each layer has its help, and each argument is in it'
is "$(for layer in $layers; do "$tidemark" help "$layer" | sed '/^    /d' | "$AWK" 'length > 80'; done)" '' \
    'the help of a layer is at most 80 columns wide, examples excepted'
is "$("$tidemark" help pool | grep -c '[`[]')" 1 'the marks of the document are not in the help'
is "$(answer help poool)" 'tidemark: there is no command or layer "poool"; did you mean "pool"? 2' \
    'a layer that does not exist is refused with the nearest name'
is "$(answer help limit pool)$(answer help log --json)" 'tidemark help: one command or layer at a time 2tidemark help: one command or layer at a time 2' \
    'help refuses what stands behind the layer'
is "$(answer help summary | head -n 1 | cut -d' ' -f 1-3)" 'Usage: tidemark summary' 'the help of a command is as before'
if test -s "$top_builddir/doc/tidemark-stack.7" || test -s "$top_srcdir/doc/tidemark-stack.7"; then
    page() {
        if test -s "$top_builddir/doc/$1"; then cat "$top_builddir/doc/$1"; else cat "$top_srcdir/doc/$1"; fi
    }
    is "$(page tidemark-stack.7 | grep -c -x -e '\.TH.*' -e '\.SH NAME' -e 'tidemark-stack \\- .*')" 3 \
        'tidemark-stack(7) has a title and a name that apropos finds'
    is "$(page tidemark-trace.5 | grep -c -x -e '\.TH.*' -e '\.SH NAME' -e 'tidemark-trace \\- .*')" 3 \
        'tidemark-trace(5) has a title and a name that apropos finds'
else
    skip 2 'there is no lowdown, so the references were not made manual pages'
fi
done_testing
