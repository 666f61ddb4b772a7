#!/bin/sh
# The Python package over host memory and simulated addresses: tests/python-package.py.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
export top_srcdir
cd "$scratch" && timeout 300 "$python" -W error "$top_srcdir/tests/python-package.py"
