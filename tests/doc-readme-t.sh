#!/bin/sh
# Tests README.md: its program builds and prints what it says, its stack is valid, and its queries run on a trace.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

# The first fenced block of a language.
block() {
    "$AWK" -v fence="\`\`\`$1" '$0 == fence && !seen { on = seen = 1; next } /^```/ { on = 0 } on' "$top_srcdir/README.md"
}

# The shell command after a prompt that begins with a word, and what README.md says it prints.
command_of() {
    sed -n "s/^    \$ \($1 .*\)/\1/p" "$top_srcdir/README.md"
}
output_of() {
    "$AWK" -v start="    \$ $1 " 'index($0, start) == 1 { on = 1; next } !/^    / { on = 0 } on { print substr($0, 5) }' \
        "$top_srcdir/README.md"
}

# The fenced screen of `tidemark COMMAND`: its prompt and what README.md says it prints.
screen_of() {
    "$AWK" -v start="\$ tidemark $1 " '!on && index($0 " ", start) == 1 && fence { on = 1 } /^```/ { fence = !fence; on = 0 } on' \
        "$top_srcdir/README.md"
}

plan 16
block c >"$scratch/example.c"
# shellcheck disable=SC2086 # flags are lists of words
ok 'the C example compiles without a warning' \
    ${CC:-cc} $CFLAGS -Wall -Wextra -Werror -I"$top_srcdir/include" -o "$scratch/example" "$scratch/example.c" \
    -L"$top_builddir/.libs" -Wl,-rpath,"$top_builddir/.libs" -ltidemark
unset TIDEMARK_STACK
seen=$(cd "$scratch" && ./example 2>&1)
is $? 0 'the C example runs'
is "$seen" "$(block text)" 'the C example prints what README.md says'

stack=$(block stack | sed 's/driver\(([^)]*)\)\{0,1\}$/host/; s/^log([^)]*)/log(demo.db)/')
ok 'the stack of README.md is valid, and records' \
    env -C "$scratch" TIDEMARK_STACK="$stack" "$top_builddir/examples/wrap"

if test -n "$SQLITE3" && test -x "$top_builddir/tidemark"; then
    tidemark() {
        "$top_builddir/tidemark" "$@"
    }
    sqlite3() {
        "$SQLITE3" "$@"
    }
    cd "$scratch" || exit 99
    tidemark replay --stack 'log(demo.db, overwrite=true) | sim' "$top_srcdir/tests/data/gpt_train.csv.gz" >/dev/null
    is "$(eval "$(command_of tidemark)")" "$(output_of tidemark)" 'tidemark query prints what README.md says'
    is "$(eval "$(command_of sqlite3)")" "$(output_of sqlite3)" 'sqlite3 prints what README.md says'
else
    skip 2 'this build has no command, or the machine no sqlite3'
fi

# Of a screen of failures: the time of a replay is another each time, and what a layer says is rounded in its own way.
timeless() {
    sed -e '/^first /s/ at [^ ]* [^ ]*$//' -e '/^its words /d' -e '/ has no words /d'
}

charmap=$(LC_ALL=C.UTF-8 locale charmap 2>/dev/null)
if test -x "$top_builddir/tidemark" && test "$charmap" = UTF-8; then
    cd "$scratch" || exit 99
    # A line of its own, so that the path of the data can be this checkout's.
    is "$(screen_of import)" '$ tidemark import tests/data/gpt_train.csv.gz train.db' \
        'README.md shows how the trace of the screens is made'
    "$top_builddir/tidemark" import "$top_srcdir/tests/data/gpt_train.csv.gz" train.db
    for name in summary peak fragmentation timeline; do
        command=$(screen_of $name | sed -n '1s/^$ //p')
        # shellcheck disable=SC2086 # a list of words
        seen=$(LC_ALL=C.UTF-8 "$top_builddir/"$command | sed 's/ *$//')
        is "$ $command
$seen" "$(screen_of $name)" "tidemark $name prints what README.md says"
    done
    commands=$(sed -n "s/^\$ tidemark \(replay --stack 'log(.*\) tests\/data\/gpt_train.csv.gz$/\1/p" "$top_srcdir/README.md")
    is "$(echo "$commands" | sed 's/.*log(\([a-z]*\).*/\1/' | tr '\n' ' ')" 'limit device full holes ' \
        'README.md shows how the traces of the failures are made'
    echo "$commands" | while read -r command; do
        eval "$top_builddir/tidemark $command $top_srcdir/tests/data/gpt_train.csv.gz" >/dev/null 2>&1
    done
    for name in limit device full holes; do
        is "$(LC_ALL=C.UTF-8 "$top_builddir/tidemark" failures --limit=3 $name.db | sed 's/ *$//' | timeless)" \
            "$(screen_of "failures --limit=3 $name.db" | sed 1d | timeless)" "tidemark failures explains $name.db as README.md says"
    done
else
    skip 10 'this build has no command, or the machine no UTF-8'
fi
done_testing
