#!/bin/sh
# Tests that each public header compiles by itself, strictly, as C and as C++, and that tidemark.h includes all.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

# compiles LANGUAGE STANDARD HEADER
compiles() {
    # shellcheck disable=SC2086 # CC may have arguments
    printf '#include <tidemark/%s>\nextern int declared;\n' "$3" |
        ${CC:-cc} -x "$1" -std="$2" -Wall -Wextra -Wpedantic -Werror -I"$top_srcdir/include" -fsyntax-only -
}

headers=$(cd "$top_srcdir/include/tidemark" && echo *.h)
# shellcheck disable=SC2086 # a list of words
set -- $headers
plan $(($# * 2 + 2))
for header; do
    ok "$header compiles as C11" compiles c c11 "$header"
    if echo 'int x;' | ${CC:-cc} -x c++ -std=c++11 -fsyntax-only - 2>/dev/null; then
        ok "$header compiles as C++11" compiles c++ c++11 "$header"
    else
        skip 1 'the compiler has no C++'
    fi
done
left_out=
for header; do
    test "$header" = tidemark.h || grep -qxF "#include <tidemark/$header>" "$top_srcdir/include/tidemark/tidemark.h" ||
        left_out="$left_out $header"
done
is "$left_out" '' 'tidemark.h includes all others'
unpadded() {
    echo '#include <tidemark/tidemark.h>' |
        ${CC:-cc} -x c -std=c11 -Wpadded -Werror -I"$top_srcdir/include" -fsyntax-only -
}
if test "$(getconf LONG_BIT)" = 64; then
    ok 'no public struct has padding' unpadded
else
    skip 1 'only where a pointer has 8 bytes'
fi
done_testing
