#!/bin/sh
# tidemark.cupy, tidemark.numba and the recipe for RMM, with a CuPy and a Numba of its own (tests/fake-arrays).
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
plan 15
PYTHONPATH=$PYTHONPATH:$top_srcdir/tests/fake-arrays

cat >"$scratch/common.py" <<'PY'
import gc, os, sqlite3, sys, warnings
import tidemark

def rows(path):
    database = sqlite3.connect(path)
    found = database.execute('SELECT size, free_ns IS NULL FROM allocation ORDER BY allocation_id').fetchall()
    database.close()
    return found
PY
PYTHONPATH=$PYTHONPATH:$scratch

program <<'PY'
from common import *
import cupy
before = cupy.cuda.get_allocator()
with tidemark.trace('cupy.db', limit='1MiB', stack='host'):
    x, nothing = cupy.empty(1000), cupy.empty(0)
    cupy.cuda.Stream(2).use()
    y = cupy.empty(3000)
    print(x.data.ptr != 0, nothing.data.ptr, y.data.mem.device_id)
    cupy.cuda.Stream(0).use()
    try:
        cupy.empty(2 << 20)
    except cupy.cuda.OutOfMemoryError as refusal:
        print(refusal)
    del y
print(cupy.cuda.get_allocator() is before, rows('cupy.db'))
del x
print(tidemark.stats().live_bytes)
cupy.cuda.set_allocator(tidemark.cupy.allocator)
with tidemark.use('fault(every=1) | host', mode='none'):
    try:
        cupy.empty(8)
    except MemoryError as refusal:
        print('refused')
PY
diag "$said"
is "$status" 0 'a program with CuPy runs to its end'
has_words "$said" 'True 0 0' 'arrays of CuPy come from the stack, and requests of 0 bytes do not'
has_words "$said" 'Out of memory allocating 2,097,152 bytes' 'a refusal is the OutOfMemoryError of CuPy'
has_words "$said" 'limit: 2 MiB request exceeds 1 MiB limit' 'and has the words of the layer'
has_words "$said" 'True [(1000, 1), (3000, 0), (2097152, 1)]' 'after the trace CuPy has the allocator of before'
has_words "$said" '
0
refused' 'what outlives its trace goes back, and the allocator can be set by hand'

program <<'PY'
from common import *

class Redirector:  # as that of numba-cuda: asks all finders
    def find_spec(self, name, path, target=None):
        if name == 'numba.cuda':
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target) if finder is not self else None
                if spec is not None:
                    return spec

sys.meta_path.insert(0, Redirector())
tidemark.trace('late.db', stack='host').start()
import cupy
from numba import cuda
x, y = cupy.empty(10), cuda.device_array(20)
del x, y
tidemark._use._tracing.stop()
print(rows('late.db'), cuda.driver._memory_manager.__module__)
PY
is "$said" '[(10, 0), (20, 0)] tidemark.numba' 'CuPy and Numba that are imported later follow'

program <<'PY'
from common import *
from numba import cuda
with tidemark.use('limit(1MiB) | host'):
    x = cuda.device_array(1000)
    nothing = cuda.device_array(0)
    print(bool(x.device_pointer.value), nothing.device_pointer.value, tidemark.stats().live_bytes)
    cuda.driver.manager.late.append(cuda.device_array(900 << 10))
    y = cuda.device_array(500 << 10)
    print('again', tidemark.stats().failures, tidemark.stats().live_bytes)
    try:
        cuda.device_array(2 << 20)
    except cuda.driver.CudaAPIError as refusal:
        print(refusal.code, refusal.msg)
    cuda.driver.manager.allocations.clear()  # as a reset of the context does
    del x, y
    print(tidemark.stats().live_bytes)
for call in (lambda: cuda.driver.manager.get_memory_info(), lambda: cuda.driver.manager.get_ipc_handle(None)):
    try:
        call()
    except NotImplementedError as failure:
        print('refused:', failure)
PY
diag "$said"
is "$status" 0 'a program with Numba runs to its end'
has_words "$said" 'True None 1000' 'arrays of Numba come from the stack'
has_words "$said" 'again 1 513000' 'a refusal frees what Numba has put off, and asks once more'
has_words "$said" '2 limit: 2 MiB request exceeds 1 MiB limit' 'a refusal is a CudaAPIError of CUDA_ERROR_OUT_OF_MEMORY'
has_words "$said" '
0
refused:' 'after a reset of the context the blocks go back all the same'

program <<'PY'
from common import *
from numba import cuda
cuda.driver._memory_manager = cuda.HostOnlyCUDAMemoryManager
cuda.HostOnlyCUDAMemoryManager.initialize, cuda.HostOnlyCUDAMemoryManager.interface_version = lambda self: None, 1
cuda.current_context()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    tidemark.use('host')
print(len(caught), caught[0].message)
PY
has_words "$said" '1 tidemark does not see the memory of Numba: Numba has used CUDA before' \
    'a Numba that has used CUDA goes on as it was, with a word that says what to do'

NUMBA_CUDA_MEMORY_MANAGER=tidemark.numba TIDEMARK_STACK='limit(64KiB) | host'
export NUMBA_CUDA_MEMORY_MANAGER TIDEMARK_STACK
program <<'PY'
from numba import cuda
import tidemark
x = cuda.device_array(5000)
print(tidemark.stats().live_bytes)
PY
is "$said" 5000 'NUMBA_CUDA_MEMORY_MANAGER=tidemark.numba needs no line in the program'

# The recipe of doc/python.md, with an RMM of its own.
mkdir "$scratch/rmm"
cat >"$scratch/rmm/__init__.py" <<'PY'
from . import mr
PY
cat >"$scratch/rmm/mr.py" <<'PY'
class CallbackMemoryResource:
    def __init__(self, allocate, deallocate):
        self.allocate, self.deallocate = allocate, deallocate


class Stream:
    def __init__(self, ptr):
        self.ptr = ptr

    def __cuda_stream__(self):
        return 0, self.ptr


def set_current_device_resource(resource):
    pointer = resource.allocate(700, Stream(0))
    resource.deallocate(pointer, 700, Stream(0))
PY
"$AWK" '/^```python$/ { text = ""; on = 1; next } /^```/ { if (on && text ~ /rmm\.mr/) printf "%s", text; on = 0 } on { text = text $0 "\n" }' \
    "$top_srcdir/doc/python.md" >"$scratch/recipe.py"
program <<'PY'
import pathlib
exec(pathlib.Path('recipe.py').read_text())
import tidemark
print(tidemark.stats().allocations, tidemark.stats().live_bytes, tidemark.stats().total_bytes)
PY
is "$said" '1 0 700' 'the recipe for RMM in doc/python.md allocates and frees'
done_testing
