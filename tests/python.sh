# For tests of the Python package: finds an interpreter, and runs programs with the package and the built library.
# Source it after tests/tap.sh; it skips the whole test where something is missing.

# An interpreter that imports the named modules: $PYTHON, python3, that of the system.
find_python() {
    for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
        # shellcheck disable=SC2086 # a list of words
        "$python" -c "import sys, ctypes$1; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && return 0
    done
    return 1
}

find_python '' || skip_all 'there is no python3 of 3.9 or later with ctypes'
top_srcdir=$(cd "$top_srcdir" && pwd)
top_builddir=$(cd "$top_builddir" && pwd)
TIDEMARK_LIBRARY=$top_builddir/.libs/libtidemark.so.0
fake_cuda=$top_builddir/tests/fake-cuda/.libs
test -e "$TIDEMARK_LIBRARY" || skip_all 'this build has no shared library'
$NM -D "$TIDEMARK_LIBRARY" 2>/dev/null | grep -q '__asan_init\|__tsan_init' &&
    skip_all 'a sanitizer has to be in python3 itself'
PYTHONPATH=$top_srcdir/python:$top_srcdir/tests
PYTHONDONTWRITEBYTECODE=1
export TIDEMARK_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE
unset TIDEMARK_STACK LOCAL_RANK RANK

# program ARGUMENT...: run the Python program on stdin in $scratch; warnings are errors. All output goes to $said, the
# status to $status.
program() {
    said=$(cd "$scratch" && timeout 120 "$python" -W error - "$@" 2>&1)
    status=$?
}
