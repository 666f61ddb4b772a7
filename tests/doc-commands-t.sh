#!/bin/sh
# Tests that each command has its page, its entry in tidemark(1) and its line in README.md's table, and that each format
# of `tidemark export` and `tidemark import` is described.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

commands=$("$tidemark" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
table=$("$AWK" '/^\| command \| \|$/ { on = 1 } /^$/ { on = 0 } on' "$top_srcdir/README.md")

# formats COMMAND: the formats that its --help lists, after its options.
formats() {
    "$tidemark" "$1" --help | sed -n '/--help  /,$s/^  \([a-z][a-z]*\)  .*/\1/p'
}

# undescribed COMMAND: the formats for which its page has no paragraph.
undescribed() {
    for format in $(formats "$1"); do
        grep -qxF ".It Cm $format" "$top_srcdir/doc/tidemark-$1.1" || printf ' %s' "$format"
    done
}

plan 8
ok 'README.md names commands' test "$(echo "$commands" | grep -c -x -e check -e top)" -eq 2
page='' built='' listed='' short=''
for command in $commands; do
    test -s "$top_srcdir/doc/tidemark-$command.1" || page="$page $command"
    grep -q "doc/tidemark-$command\.1" "$top_srcdir/doc/local.mk" || built="$built $command"
    grep -qxF ".It Cm $command" "$top_srcdir/doc/tidemark.1" || listed="$listed $command"
    # "completion" is for shells, and only in tidemark(1).
    test "$command" = completion || echo "$table" | grep -q "^|[^|]*[ \`]$command\`" || short="$short $command"
done
is "$page" '' 'each command has its page'
is "$built" '' 'doc/local.mk installs the page of each command'
is "$listed" '' 'each command is in the list of tidemark(1)'
is "$short" '' "each command is in README.md's table"
ok 'the command has formats' \
    test "$(formats export | grep -c -x -e csv -e pprof)$(formats import | grep -c -x rmm)" = 21
is "$(undescribed export)" '' 'each format of an export is described'
is "$(undescribed import)" '' 'each format of an import is described'
done_testing
