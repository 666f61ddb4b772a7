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
    is "$(complete tidemark completion '')" 'bash zsh' 'a command that takes one of some words has those'
else
    skip 11 'there is no bash'
fi

# Zsh completes at a terminal alone: a shell of its own at a pseudo terminal says what it would offer.
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
    ok 'zsh takes its own' zsh -n "$scratch/zsh"
    is "$(complete_zsh 'tidemark fra')" fragmentation 'a command is completed'
    is "$(complete_zsh 'tidemark leaks --sup')" --suppressions 'an option is'
    is "$(complete_zsh 'tidemark peak --by=str')" stream 'a value is'
    is "$(complete_zsh 'tidemark replay --keep')" --keep-live 'so are options of commands that parse their own'
    is "$(complete_zsh 'tidemark check --no')" '--no-leaks --no-pager' 'all that fit are offered'
    : >"$scratch/some.db"
    is "$(complete_zsh "tidemark peak $scratch/so")" some.db 'files are completed'
    is "$(complete_zsh "tidemark check --baseline=$scratch/so")" some.db 'also as values'
    is "$(complete_zsh 'tidemark help fail')" failures 'what is helped with is a command'
    is "$(complete_zsh 'tidemark completion ')" 'bash zsh' 'a command that takes one of some words has those'
else
    skip 10 'there is no zsh'
fi

done_testing
