# Tests `tidemark completion`: what bash and zsh complete, and that both know every command and option.
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
# The line has no spaces around the "=" that breaks words.
COMP_LINE="$*"
COMP_LINE=${COMP_LINE// = /=} COMP_POINT=${#COMP_LINE}
_tidemark
echo "${COMPREPLY[*]}"
EOF

# complete WORD...: what bash offers for the last word of a command line, on one line.
complete() {
    bash "$scratch/ask" "$scratch/bash" "$@" 2>"$scratch/err"
}

plan 24

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
is "$missing" '' 'the completions of bash and zsh have every command and every option'
"$tidemark" completion fish >"$scratch/out" 2>"$scratch/err"
is "$? $(head -n 1 "$scratch/err")" '2 tidemark completion: no completion for this shell: bash and zsh have one' \
    'another shell than bash and zsh is wrong use'
"$tidemark" completion >"$scratch/out" 2>"$scratch/err"
is "$? $(head -n 1 "$scratch/err")" '2 tidemark completion: which shell: bash or zsh?' \
    'completion without a shell is wrong use'

if command -v bash >/dev/null; then
    ok 'bash accepts its completion' bash -n "$scratch/bash"
    is "$(complete tidemark fra)" fragmentation 'bash completes a command'
    is "$(complete tidemark leaks --sup)" --suppressions= 'bash completes an option'
    is "$(complete tidemark peak --by = str)" stream 'bash completes a value behind a "=" that breaks words'
    is "$(complete tidemark peak --by=str)" stream 'bash completes a value behind a "=" that does not break words'
    is "$(complete tidemark replay --keep)" --keep-live 'bash completes options of commands that parse their own'
    is "$(complete tidemark check --no)" '--no-leaks --no-symbols --no-pager' 'bash offers all options that fit'
    is "$(cat "$scratch/err")" '' 'bash prints no message'
    : >"$scratch/some.db"
    is "$(complete tidemark peak "$scratch/so")" "$scratch/some.db" 'bash completes files'
    is "$(complete tidemark check --baseline="$scratch/so")" "$scratch/some.db" 'bash completes files as values'
    is "$(complete tidemark completion '')" 'bash zsh' 'bash completes the words that a command takes'
else
    skip 11 'there is no bash'
fi

# Zsh completes only at a terminal: a shell at a pseudo terminal prints what it would offer.
cat >"$scratch/ask.zsh" <<'EOF'
zmodload zsh/zpty || exit 1
export offers=$1/offers
: >$offers
zpty shell zsh -f -i
zpty -w shell "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; setopt no_beep; PROMPT="
zpty -w shell 'compadd() {
    local -a fit
    [[ " $* " == *" -"[OAD]" "* ]] || { builtin compadd -O fit "$@"; print -rl -- $fit >>$offers; }
    builtin compadd "$@"
}
ask() { zle complete-word; exit }
zle -N ask; bindkey "^T" ask'
shift
zpty -n -w shell "$*"$'\x14'
while zpty -r shell output; do :; done
print -r -- ${(uf)"$(<$offers)"}
EOF

# complete_zsh LINE: what zsh offers for its last word, on one line.
complete_zsh() {
    timeout 60 zsh -f "$scratch/ask.zsh" "$scratch/functions" "$1" 2>&1
}

if command -v zsh >/dev/null && zsh -f -c 'zmodload zsh/zpty' 2>/dev/null; then
    mkdir "$scratch/functions"
    cp "$scratch/zsh" "$scratch/functions/_tidemark"
    ok 'zsh accepts its completion' zsh -n "$scratch/zsh"
    is "$(complete_zsh 'tidemark fra')" fragmentation 'zsh completes a command'
    is "$(complete_zsh 'tidemark leaks --sup')" --suppressions 'zsh completes an option'
    is "$(complete_zsh 'tidemark peak --by=str')" stream 'zsh completes a value'
    is "$(complete_zsh 'tidemark replay --keep')" --keep-live 'zsh completes options of commands that parse their own'
    is "$(complete_zsh 'tidemark check --no')" '--no-leaks --no-symbols --no-pager' 'zsh offers all options that fit'
    : >"$scratch/some.db"
    is "$(complete_zsh "tidemark peak $scratch/so")" some.db 'zsh completes files'
    is "$(complete_zsh "tidemark check --baseline=$scratch/so")" some.db 'zsh completes files as values'
    is "$(complete_zsh 'tidemark help fail')" failures 'zsh completes the commands behind help'
    is "$(complete_zsh 'tidemark completion ')" 'bash zsh' 'zsh completes the words that a command takes'
else
    skip 10 'there is no zsh'
fi

done_testing
