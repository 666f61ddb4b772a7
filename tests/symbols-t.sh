#!/bin/sh
# Tests that the library exports what the public headers declare, and nothing else.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

# A declaration may span lines: the name is before the first parenthesis after TIDE_EXPORT.
declared() {
    cat "$top_srcdir"/include/tidemark/*.h | tr '\n' ' ' | sed 's/TIDE_EXPORT/\n&/g' |
        sed -n 's/^TIDE_EXPORT [^(;]*[ *]\(tide_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort
}

exported() {
    $NM -D --defined-only "$library" | "$AWK" '$2 != "A" { sub(/@.*/, "", $NF); print $NF }' | LC_ALL=C sort
}

# The exported symbols without a version.
unversioned() {
    readelf -W --dyn-syms "$library" | "$AWK" '$7 ~ /^[0-9]+$/ && $8 !~ /@@TIDEMARK_[0-9.]+$/ { print $8 }'
}

library=$top_builddir/.libs/libtidemark.so
test -f "$library" || skip_all "there is no shared library in $top_builddir/.libs"

plan 5
declared >"$scratch/declared"
exported >"$scratch/exported"
ok 'the headers declare functions' test -s "$scratch/declared"
ok 'the library exports what the headers declare, and nothing else' diff "$scratch/declared" "$scratch/exported"
is "$($NM -D --undefined-only "$library" | "$AWK" '$NF ~ /^getenv(@|$)/ { print $NF }')" '' \
    'the library reads the environment with secure_getenv alone'
if test "${SYMBOL_VERSIONS:-yes}" = yes && command -v readelf >/dev/null; then
    ok 'the library has a symbol of version TIDEMARK_0.1' \
        sh -c "readelf -W --dyn-syms '$library' | grep -q 'tide_allocate@@TIDEMARK_0.1\$'"
    is "$(unversioned)" '' 'every exported symbol has a version of the interface'
else
    skip 2 'no symbol versions with this linker, or no readelf'
fi
done_testing
