#!/bin/sh
# Tests that `make install prefix=...` installs into a prefix unknown to configure, and that the files name it.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

prefix=$scratch/prefix
at_configure=$(sed -n 's/^prefix = //p' "$top_builddir/Makefile")
for folder in bindir libdir includedir datadir datarootdir mandir; do
    case $(sed -n "s/^$folder = //p" "$top_builddir/Makefile") in
    '${prefix}'* | '${exec_prefix}'* | '${datarootdir}'*) ;;
    *) skip_all "$folder does not lie in the prefix" ;;
    esac
done

# installed NAME...: whether each is an installed file that is not empty.
installed() {
    for file; do
        test -s "$prefix/$file" || { echo "# no $file"; return 1; }
    done
}

pkg_config=${PKG_CONFIG:-pkg-config}
plan 15

# A separate make, without the variables of the one that runs this test.
ok 'make install prefix=... succeeds' env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
    make -C "$top_builddir" install prefix="$prefix" DESTDIR=
ok 'the library lies in the prefix' installed lib/libtidemark.so
headers=$(cd "$top_srcdir" && echo include/tidemark/*.h)
# shellcheck disable=SC2086 # a list of words
ok 'make install puts all headers into the prefix' installed $headers
manuals=$(cd "$top_srcdir/doc" && for page in *.1; do echo "share/man/man1/$page"; done)
if test -x "$top_builddir/tidemark"; then
    # shellcheck disable=SC2086 # a list of words
    ok 'make install puts all manual pages into the prefix' installed $manuals
    if test -e "$top_builddir/viewer/completion/tidemark"; then
        ok 'make install puts the completions into the prefix' \
            installed share/bash-completion/completions/tidemark share/zsh/site-functions/_tidemark
    else
        skip 1 'a cross build has no completions'
    fi
    is "$(LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/tidemark" --version | cut -d' ' -f1)" tidemark \
        'the command runs from the prefix'
else
    ok 'without the command its pages are not installed' test ! -e "$prefix/share/man/man1/tidemark.1"
    skip 2 'this build has no command'
fi
if test -e "$top_builddir/.libs/libtidemark-run.so" && test -x "$top_builddir/tidemark"; then
    ok 'the objects that are loaded into programs are installed' \
        installed lib/tidemark/libtidemark-audit.so lib/tidemark/libtidemark-run.so lib/tidemark/libtidemark-dlsym.so
    is "$(LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/tidemark" run -- env | sed -n 's/^LD_PRELOAD=//p')" \
        "$(cd "$prefix" && pwd -P)/lib/tidemark/libtidemark-run.so" 'the installed command finds them beside its library'
else
    skip 2 'this build has no objects for tidemark run'
fi
if test -e "$top_builddir/doc/tidemark-stack.7" || test -e "$top_srcdir/doc/tidemark-stack.7"; then
    ok 'the references are installed as manual pages' installed share/man/man7/tidemark-stack.7 share/man/man5/tidemark-trace.5
else
    skip 1 'there is no lowdown, so the references were not made manual pages'
fi
pc=$prefix/lib/pkgconfig/tidemark.pc
is "$(sed -n 's/^prefix=//p' "$pc")" "$prefix" 'tidemark.pc names the prefix'
case $prefix/ in
"$at_configure"/*) skip 1 'the prefix of configure is a part of this one' ;;
*) ok 'no line of tidemark.pc names the prefix of configure' sh -c '! grep -F "$1" "$2"' sh "$at_configure" "$pc" ;;
esac

if command -v "$pkg_config" >/dev/null; then
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig "$pkg_config" --cflags --libs tidemark)
    "$AWK" '$0 == "```c" && !seen { on = seen = 1; next } /^```/ { on = 0 } on' "$top_srcdir/README.md" >"$scratch/example.c"
    # shellcheck disable=SC2086 # flags are lists of words
    ok 'the example of README.md compiles with the flags of pkg-config' \
        ${CC:-cc} $CFLAGS -o "$scratch/example" "$scratch/example.c" $flags
    unset TIDEMARK_STACK
    seen=$(cd "$scratch" && LD_LIBRARY_PATH=$prefix/lib ./example 2>&1)
    is $? 0 'the example of README.md runs with the installed library'
    # shellcheck disable=SC2086 # flags are lists of words
    ok 'the installed example of a budget test compiles outside the tree' \
        ${CC:-cc} $CFLAGS -o "$scratch/budget-t" "$prefix/share/doc/tidemark/examples/budget-t.c" $flags
    is "$(cd "$scratch" && LD_LIBRARY_PATH=$prefix/lib ./budget-t | grep -c '^ok')" 7 'the installed budget test passes'
else
    skip 4 'there is no pkg-config'
fi
done_testing
