#!/bin/sh
# The pytest plugin, over host memory.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
find_python ', pytest' || skip_all 'there is no pytest (Debian: python3-pytest)'
plan 38
TIDEMARK_STACK=host
export TIDEMARK_STACK

# suite ARGUMENT...: run pytest on $scratch/suite with the plugin.
suite() {
    said=$(cd "$scratch/suite" && COLUMNS=150 timeout 120 "$python" -W error -m pytest -p tidemark.pytest_plugin \
        -p no:cacheprovider -c pytest.ini --rootdir=. "$@" 2>&1)
    status=$?
}

mkdir "$scratch/suite"
printf '[pytest]\naddopts = --strict-markers\n' >"$scratch/suite/pytest.ini"
cat >"$scratch/suite/memory.py" <<'PY'
import ctypes
from tidemark._library import library

def allocate(size):
    pointer = ctypes.c_void_p()
    library().tide_bridge_allocate(0, size, 0, pointer)
    return pointer.value

def free(pointer):
    library().tide_bridge_deallocate(pointer, 0)
PY
cat >"$scratch/suite/test_few.py" <<'PY'
import pytest
from memory import allocate, free

def test_none():
    pass

def test_small():
    free(allocate(1000))

@pytest.mark.parametrize('size', ['3 MiB/x', 'ü'])
def test_big(size):
    a, b = allocate(3 << 20), allocate(1 << 20)
    free(a)
    free(b)
PY
suite
is "$status" 0 'a suite without markers and options passes as before'
case $said in
*tidemark*) ok 'nothing is said without --tidemark' false ;;
*) ok 'nothing is said without --tidemark' true ;;
esac
suite --tidemark
diag "$said"
has_words "$said" 'tidemark: highest peaks of GPU memory' '--tidemark has a summary'
has_words "$said" ' 4 MiB  test_few.py::test_big[3 MiB/x]  (2 allocations)' 'the summary has the highest peaks first'
has_words "$said" '1000 B  test_few.py::test_small  (1 allocations)' 'the summary has each test that allocated'
suite --tidemark --most-allocations=1
has_words "$said" '2 more tests allocated' '--most-allocations says how many there are to be'
suite --tidemark --most-allocations=-1
is "$status" 4 'a wrong number is wrong use'
suite --tidemark-stack='limit(' --tidemark
is "$status" 4 'wrong stack text is wrong use'
has_words "$said" 'column' 'and the error has the words of the library'
TIDEMARK_LIBRARY=/nowhere/lib.so suite --tidemark
is "$status" 4 'a library that is not there is wrong use with --tidemark'
TIDEMARK_LIBRARY=/nowhere/lib.so suite -k none
is "$status" 0 'without --tidemark a library that is not there is not missed'

suite --tidemark-trace=traces --junitxml=out.xml
is "$(ls "$scratch/suite/traces" | LC_ALL=C sort | tr '\n' ' ')" \
    'test_few.py-test_big[-xfc].db test_few.py-test_big[3-MiB-x].db test_few.py-test_small.db ' \
    '--tidemark-trace records a trace of each test that allocates'

is "$(cd "$scratch/suite" && "$SQLITE3" 'traces/test_few.py-test_small.db' 'SELECT size FROM allocation')" 1000 \
    'the trace of a test has its allocations'
has_words "$said" 'traces/test_few.py-test_small.db' 'the summary names the traces'
has_words "$(cat "$scratch/suite/out.xml")" 'name="gpu_peak_bytes" value="4194304"' 'the peaks are in the JUnit file, too'

cat >"$scratch/suite/test_few.py" <<'PY'
import pytest
from memory import allocate, free

KEPT = []

@pytest.mark.limit_gpu_memory('1 MB')
def test_within():
    free(allocate(1 << 20))

@pytest.mark.limit_gpu_memory('1 MB')
def test_above():
    free(allocate((1 << 20) + 1))

@pytest.mark.limit_gpu_memory('1 MB', enforce=True)
def test_enforced():
    import tidemark
    with pytest.raises(tidemark.OutOfMemoryError):
        allocate((1 << 20) + 1)
    free(allocate(1 << 20))

@pytest.mark.limit_gpu_memory('1 MB', enforce=True)
def test_refused():
    allocate(2 << 20)

@pytest.mark.limit_gpu_leaks('1 KB')
def test_leaks():
    KEPT.append(allocate(5000))

@pytest.mark.limit_gpu_leaks('1 KB')
def test_little():
    KEPT.append(allocate(500))
    free(allocate(5000))

@pytest.mark.limit_gpu_leaks(0)
def test_gives_back():
    free(KEPT.pop())

@pytest.mark.limit_gpu_memory('1 parsec')
def test_wrong():
    pass

@pytest.mark.limit_gpu_memory('1 MB', enfroce=True)
def test_typo():
    pass

@pytest.mark.limit_gpu_memory('1 MB')
class TestClass:
    def test_method(self):
        free(allocate(2 << 20))

@pytest.mark.limit_gpu_memory('1 B')
def test_fails_anyway():
    allocate(2)
    assert False
PY
suite -rA
diag "$said"
is "$status" 1 'a suite with tests past their limits fails'
for passed in within enforced little gives_back; do
    has_words "$said" "PASSED test_few.py::test_$passed" "test_$passed passes"
done
for failed in above refused leaks wrong typo fails_anyway; do
    case $said in
    *"FAILED test_few.py::test_$failed"* | *"ERROR test_few.py::test_$failed"*) ok "test_$failed fails" true ;;
    *) ok "test_$failed fails" false ;;
    esac
done
has_words "$said" 'FAILED test_few.py::TestClass::test_method' 'a marker of a class holds for its methods'
has_words "$said" 'the test was limited to 1 MiB of GPU memory, and its peak was 1.00 MiB, 1 B more' \
    'a test past its limit says by how much'
has_words "$said" 'left 4.88 KiB' 'a test that leaks says how much'
has_words "$said" 'limit: 2 MiB request exceeds 1 MiB limit' 'a test that is refused has the words of the layer'
TIDEMARK_LIBRARY=/nowhere/lib.so suite -k within
has_words "$said" 'cannot be measured' 'a limit that cannot be measured fails its test'
suite --tidemark-trace=again -k 'enforced or above'
is "$(ls "$scratch/suite/again" | wc -l)" 2 'limits and traces go together'

if find_python ', pytest, xdist'; then
    suite --tidemark-trace=spread -n 2 -k 'within or above or little'
    diag "$said"
    is "$(printf '%s\n' "$said" | grep -c 'spread/test_few.py-test_[a-z]*.gw[01].db$')" 3 \
        'with xdist the summary has the tests of all workers'
    is "$(ls "$scratch/suite/spread" | grep -c 'gw[01].db')" 3 'with xdist each worker records the tests that it runs'
else
    skip 2 'there is no xdist (Debian: python3-pytest-xdist)'
fi
rm -f "$scratch"/suite/test_*.py
cat >"$scratch/suite/test_open.py" <<'PY'
import tidemark
from memory import allocate, free

def test_opens():
    tidemark.use('host')
    tidemark.trace('left.db', stack='host').start()
    free(allocate(10))
    assert False

def test_next():
    free(allocate(20))
PY
suite --tidemark
diag "$said"
has_words "$said" 'the test has left tidemark.use(' 'a use that a test leaves open is ended, and named'
case $said in
*UsageError* | *INTERNALERROR*) ok 'a use that a test leaves open ends the run as others do' false ;;
*) ok 'a use that a test leaves open ends the run as others do' test "$status" = 1 ;;
esac
suite --tidemark-trace=a%zb -k next
diag "$said"
is "$(ls "$scratch/suite/a%zb")" test_open.py-test_next.db 'a percent sign in the name of a folder of traces is itself'
rm -f "$scratch"/suite/test_*.py
cat >"$scratch/suite/test_expected.py" <<'PY'
import pytest
from memory import allocate, free

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_gpu_memory('1 B')
def test_over():
    free(allocate(10))
PY
suite
diag "$said"
has_words "$status $said" '1 xfailed' 'a limit that is exceeded is a failure that xfail may expect'
done_testing
