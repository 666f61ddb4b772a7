#!/bin/sh
# `make install` puts the Python package where its Python finds it, and pytest its plugin.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
pythondir=$(sed -n 's/^pythondir = //p' "$top_builddir/Makefile")
case $pythondir in
'${prefix}'*) ;;
*) skip_all 'the Python package lies outside of the prefix, or is not installed' ;;
esac
plan 9
prefix=$scratch/prefix

# make_package VERB: the part of `make install` that is the package's, so that no other test's meets it; tests/install-t.sh
# runs the whole.
make_package() {
    env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL make -C "$top_builddir" "$1-pythonpackageDATA" \
        "$1-pythoninfoDATA" "$1-nodist_pythoninfoDATA" prefix="$prefix" DESTDIR=
}

ok 'make install puts the package in place' make_package install
mkdir -p "$prefix/lib" "$prefix/bin"
cp "$TIDEMARK_LIBRARY" "$prefix/lib/libtidemark.so.0"
test ! -x "$top_builddir/.libs/tidemark" || cp "$top_builddir/.libs/tidemark" "$prefix/bin/tidemark"
package=$prefix${pythondir#'${prefix}'}
is "$(cd "$package/tidemark" && echo *)" "$(cd "$top_srcdir/python/tidemark" && ls | grep -v __pycache__ | tr '\n' ' ' | sed 's/ $//')" \
    'every file of the package is installed'
unset TIDEMARK_LIBRARY
PYTHONPATH=$package
program <<'PY'
import tidemark
from tidemark._library import library
with tidemark.use('host'):
    print(tidemark.stats().live_bytes, library().path)
PY
case $package in
"$prefix"/lib/*/*)
    is "$said" "0 $prefix/lib/libtidemark.so.0" 'the installed package finds its library without a word'
    ;;
*) skip 1 'the package does not lie in the lib of the library' ;;
esac
PY_VERSION=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("tidemark"))')
is "$PY_VERSION" "$(sed -n 's/^PACKAGE_VERSION = //p' "$top_builddir/Makefile")" \
    'the version of the installed package is that of the library'
is "$("$python" -c 'import tidemark; print(tidemark.__version__)')" "$PY_VERSION" 'the package says the same version'
if test -x "$prefix/bin/tidemark"; then
    is "$(PATH=/usr/bin:/bin LD_LIBRARY_PATH=$prefix/lib "$python" -m tidemark --version | cut -d' ' -f1)" tidemark \
        'python -m tidemark runs the command'
else
    skip 1 'this build has no command'
fi
is "$("$python" - "$top_srcdir/python/pyproject.toml" "$top_srcdir/python/entry_points.txt" <<'PY'
import re, sys
project, points = (open(path).read() for path in sys.argv[1:])
seen = re.search(r'entry-points\.(\S+)\]\n(\S+) = "(.*)"', project).groups()
print(seen == re.fullmatch(r'\[(\S+)\]\n(\S+) = (.*)\n', points).groups())
PY
)" True 'pip and make install register the same plugin'
if find_python ', pytest'; then
    printf 'def test_one():\n    pass\n' >"$scratch/test_one.py"
    has_words "$(cd "$scratch" && "$python" -m pytest -p no:cacheprovider --tidemark-stack=host --tidemark test_one.py 2>&1)" \
        'no test allocated GPU memory' 'pytest finds the plugin by itself' || true
else
    skip 1 'there is no pytest'
fi
make_package uninstall >/dev/null 2>&1
is "$(find "$package" -type f ! -name '*.pyc' | wc -l)" 0 'make uninstall takes the package away'
done_testing
