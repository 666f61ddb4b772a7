# `tidemark completion`: what bash completes, and that every command and option is known to both shells.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

"$tidemark" completion bash >"$scratch/bash" || exit 99
"$tidemark" completion zsh >"$scratch/zsh" || exit 99
commands=$("$tidemark" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')

cat >"$scratch/ask" <<'EOF'
. "$1"
shift
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
# The line has no blanks around the "=" that breaks words.
COMP_LINE="$*"
COMP_LINE=${COMP_LINE// = /=} COMP_POINT=${#COMP_LINE}
_tidemark
echo "${COMPREPLY[*]}"
EOF

# complete WORD...: what bash offers for the last word of a command line, on one line.
complete() {
    bash "$scratch/ask" "$scratch/bash" "$@" 2>"$scratch/err"
}

plan 14

missing=
for command in $commands; do
    grep -q "^    $command)" "$scratch/bash" || missing="$missing $command"
    grep -q "^    $command)" "$scratch/zsh" || missing="$missing $command"
    # Each option of --help, as "--name".
    for option in $("$tidemark" "$command" --help | sed -n 's/^  \(-[a-z],\|   \) \(--[a-z-]*\).*/\2/p'); do
        test "$option" = --help && continue
        grep -q -e " $option[= ']" "$scratch/bash" || missing="$missing $command:$option"
        grep -q -e "$option[=[']" "$scratch/zsh" || missing="$missing $command:$option"
    done
done
is "$missing" '' 'both know every command and every option'
"$tidemark" completion fish >"$scratch/out" 2>"$scratch/err"
is "$? $(head -n 1 "$scratch/err")" '2 tidemark completion: no completion for this shell: bash and zsh have one' \
    'another shell has none'
"$tidemark" completion >"$scratch/out" 2>"$scratch/err"
is "$? $(head -n 1 "$scratch/err")" '2 tidemark completion: which shell: bash or zsh?' 'no shell is wrong use'

if command -v bash >/dev/null; then
    ok 'bash takes its own' bash -n "$scratch/bash"
    is "$(complete tidemark fra)" fragmentation 'a command is completed'
    is "$(complete tidemark leaks --sup)" --suppressions= 'an option is'
    is "$(complete tidemark peak --by = str)" stream 'a value is, behind a "=" that breaks words'
    is "$(complete tidemark peak --by=str)" stream 'or does not'
    is "$(complete tidemark replay --keep)" --keep-live 'so are options of commands that parse their own'
    is "$(complete tidemark check --no)" '--no-leaks --no-pager' 'all that fit are offered'
    is "$(cat "$scratch/err")" '' 'without a message'
    : >"$scratch/some.db"
    is "$(complete tidemark peak "$scratch/so")" "$scratch/some.db" 'files are completed'
    is "$(complete tidemark check --baseline="$scratch/so")" "$scratch/some.db" 'also as values'
else
    skip 10 'no bash here'
fi
if command -v zsh >/dev/null; then
    ok 'zsh takes its own' zsh -n "$scratch/zsh"
else
    skip 1 'no zsh here'
fi

done_testing
