#!/bin/sh
# tidemark.torch with a torch of its own (tests/fake-torch), over the fake CUDA driver.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python.sh"
test -e "$fake_cuda/libcuda.so.1" || skip_all 'there is no fake CUDA driver'
plan 44
PYTHONPATH=$PYTHONPATH:$top_srcdir/tests/fake-torch
LD_LIBRARY_PATH=$fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# What the programs below begin with.
cat >"$scratch/common.py" <<'PY'
import gc, os, sqlite3, sys, warnings
import tidemark
warnings.filterwarnings('ignore', '.*nothing can be raised here')  # a process without C++

PATHS = '''WITH RECURSIVE path(tag_id, text) AS (
    SELECT tag_id, name FROM tag WHERE parent_tag_id IS NULL
    UNION ALL SELECT tag.tag_id, path.text || '/' || tag.name FROM tag JOIN path ON tag.parent_tag_id = path.tag_id)
    SELECT size, text, free_ns IS NULL FROM allocation LEFT JOIN path USING (tag_id) ORDER BY allocation_id'''

def rows(path, query=PATHS):
    database = sqlite3.connect(path)
    found = database.execute(query).fetchall()
    database.close()
    return found

def tags(path):
    return [(size, tag) for size, tag, _ in rows(path)]
PY
PYTHONPATH=$PYTHONPATH:$scratch

program <<'PY'
from common import *
import torch
with tidemark.trace('a.db', limit='1MiB', stack='cuda') as trace:
    x = torch.empty(1000)
    nothing = torch.empty(0)
    try:
        torch.empty(2 << 20)
    except RuntimeError as refusal:
        print(str(refusal)[:19])
    y = torch.empty(3000)
    del y
del x
with tidemark.trace('b.db', stack='cuda'):
    torch.empty(5000)
torch.empty(6000)
print([(size, live) for size, _, live in rows('a.db') if size < 1 << 20], tags('b.db'), tidemark.torch.is_pluggable())
print(sorted(torch.allocator.addresses) == sorted(name for name, _ in tidemark.torch._SETTERS), tidemark.stats().live_bytes)
PY
is "$status" 0 'a program in pluggable mode runs to its end'
has_words "$said" 'CUDA out of memory.' 'a refusal is the error of PyTorch that retry code looks for'
has_words "$said" '[(1000, 1), (3000, 0)] [(5000, None)] True' 'each tensor is in the trace of its time, and no request of 0 bytes'
has_words "$said" 'True 0' 'all functions that PyTorch takes are set, and what outlives its trace goes back'

program <<'PY'
from common import *
tidemark.trace('c.db', stack='cuda').start()
import torch
torch.empty(700)
tidemark.mark('end')
PY
is "$status $said" '0 ' 'a trace may begin before PyTorch is imported, and last to the end of the program'
is "$(cd "$scratch" && "$python" -c 'from common import *; print(tags("c.db"))')" '[(700, None)]' \
    'what is imported later allocates from the stack in use'

program <<'PY'
from common import *
import torch
held = torch.empty(10)
for mode in ('pluggable', 'auto', 'mempool'):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            with tidemark.trace(f'{mode}.db', limit='8MiB', mode=mode):
                x = torch.empty(3 << 20)
                y = torch.empty(100)
                try:
                    torch.empty(16 << 20)
                except torch.OutOfMemoryError as refusal:
                    print(mode, 'refused:', refusal)
                print(mode, torch.cuda.max_memory_allocated() > 3 << 20)
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin()
                captured = torch.empty(200)
                graph.capture_end()
                print(mode, 'routes in a capture', graph.routes, 'after', len(torch.routes))
        except tidemark.Error as failure:
            print(mode, type(failure).__name__, failure)
        print(mode, 'warnings', [str(w.message)[:60] for w in caught])
    if os.path.exists(f'{mode}.db'):
        x = y = captured = None
        gc.collect()
        torch.cuda.empty_cache()
        print(mode, [size for size, _, _ in rows(f'{mode}.db')], rows(f'{mode}.db', 'SELECT count(*) FROM mark'),
              len(torch.routes), 'capture_begin' in vars(torch.cuda.CUDAGraph),
              torch.cuda.CUDAGraph.capture_begin.__qualname__)
torch.empty(1 << 20)
print('live', tidemark.stats().live_bytes)
PY
is "$status" 0 'a program that is too late for pluggable mode runs to its end'
has_words "$said" "pluggable UsageError PyTorch has used CUDA before" 'mode="pluggable" is an error after the first CUDA tensor'
has_words "$said" "or choose mode='mempool'" 'the error says what to do'
has_words "$said" "auto warnings ['tidemark: PyTorch has used CUDA before" 'mode="auto" goes on in MemPool mode with a word'
has_words "$said" "mempool warnings []" 'mode="mempool" has nothing to warn of'
has_words "$said" 'mempool refused: CUDA out of memory.' 'in MemPool mode a refusal is a torch.OutOfMemoryError'
has_words "$said" 'mempool True' 'in MemPool mode the statistics of PyTorch work'
has_words "$said" 'routes in a capture 0 after 1' 'the capture of a graph keeps the pool that it has'
has_words "$said" 'auto [4194304, 2097152, 16777216] [(1,)] 0' 'the trace has segments and the failure, and a mark that says so'
has_words "$said" 'True CUDAGraph.capture_begin' 'nothing of PyTorch stays replaced'
has_words "$said" 'live 0' 'all segments have gone back'

# devices: MemPool mode on two devices.
devices() {
    program <<'PY'
from common import *
import torch
torch.cuda.init()
with tidemark.trace(os.environ.get('LOCAL_RANK', 'all') + '.db', mode='mempool') as trace:
    tensors = [torch.empty(100, device=f'cuda:{device}') for device in (0, 1)]
    print([(tidemark.stats(device).live_bytes, tidemark.stats(device).live_count) for device in (0, 1)], len(torch.routes),
          torch.cuda.current_device())
    del tensors
    gc.collect()
    torch.cuda.empty_cache()
print(rows(trace.path, 'SELECT device, sum(size) FROM allocation JOIN stream ON stream_id = alloc_stream_id GROUP BY device'),
      len(torch.routes))
PY
}
FAKE_CUDA_DEVICES=2
export FAKE_CUDA_DEVICES
devices
is "$said" '[(2097152, 1), (2097152, 1)] 2 0
[(0, 2097152), (1, 2097152)] 0' 'MemPool mode serves all visible devices, and a trace has them all'
LOCAL_RANK=0
export LOCAL_RANK
devices
is "$said" '[(2097152, 1), (0, 0)] 1 0
[(0, 2097152)] 0' 'where a launcher gives each process a device, MemPool mode leaves the others alone'
unset FAKE_CUDA_DEVICES LOCAL_RANK
program <<'PY'
from common import *
import torch
torch.cuda.init()
route = torch._C._cuda_beginAllocateToPool
def refuse(device, pool):
    raise RuntimeError('no pool')
torch._C._cuda_beginAllocateToPool = refuse
try:
    tidemark.use('cuda', mode='mempool')
except RuntimeError as failure:
    print(failure, len(torch.routes), tidemark._use.count_of_uses())
PY
is "$said" 'no pool 0 0' 'a pool that cannot be begun leaves no use behind'

program <<'PY'
from common import *
import torch
torch.cuda.init()
for make in (lambda: tidemark.use(), lambda: tidemark.trace('base.db').start()._use, lambda: tidemark.use(mode='none')):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with make() as used:
            print(used.text)
PY
is "$said" "cuda
log(\"base.db\", cupti=\"off\") | cuda
None" 'where PyTorch has begun, segments come from the base cuda unless a stack is given'

program <<'PY'
from common import *
import torch
with tidemark.torch.pool('limit(4MiB) | cuda'):
    x = torch.empty(3 << 20)
    print(tidemark.stats().live_bytes >> 20)
    del x
print(tidemark.stats().live_bytes, torch.allocator.__class__.__name__)
with tidemark.use('host', mode='none'):
    torch.empty(100)
print(tidemark.stats().allocations)
PY
is "$said" "4
0 Native
1" 'a pool gives its segments back at its end, and mode="none" leaves PyTorch alone'

FAKE_TORCH_VERSION=old
export FAKE_TORCH_VERSION
program <<'PY'
from common import *
import torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    with tidemark.trace('old.db', stack='cuda'):
        torch.empty(900)
print(tags('old.db'), len(caught))
PY
is "$said" '[(900, None)] 0' 'a PyTorch without the private names takes the public class'
program <<'PY'
from common import *
import torch
torch.empty(1)
try:
    tidemark.use('cuda', mode='mempool')
except tidemark.UsageError as failure:
    print(failure)
print(len(tidemark._use._uses))
PY
is "$said" "PyTorch 0-fake has no torch.cuda.MemPool: 2.5 or later is needed
0" 'without MemPool there is an error, and no use is left behind'
unset FAKE_TORCH_VERSION

# Statistics.
program <<'PY'
from common import *
import torch
with tidemark.torch.patch_stats():
    print('native', torch.cuda.max_memory_allocated())
with tidemark.use('cuda'):
    x = torch.empty(1000)
    try:
        torch.cuda.max_memory_allocated()
    except RuntimeError as failure:
        print(str(failure)[:46])
    with tidemark.torch.patch_stats():
        y = torch.empty(500)
        del y
        print(torch.cuda.max_memory_allocated(), torch.cuda.memory.max_memory_allocated('cuda:0'),
              torch.cuda.memory_stats()['allocated_bytes.all.current'], torch.cuda.memory_stats()['num_ooms'])
        torch.cuda.reset_peak_memory_stats()
        print(torch.cuda.max_memory_allocated())
    try:
        torch.cuda.max_memory_allocated()
    except RuntimeError as failure:
        print('as before')
PY
is "$said" "native 0
CUDAPluggableAllocator does not yet support ge
1500 1500 1000 0
1000
as before" 'patch_stats() answers from the stack where PyTorch cannot, and ends with its block'

# Modules. The gradient of a Linear's node is as large as the module, and so are its weight, gradient and state.
cat >"$scratch/model.py" <<'PY'
import torch
nn = torch.nn

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.attn, self.mlp = nn.Linear(size), nn.Linear(size + 1)

    def forward(self, x):
        return self.mlp(self.attn(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Linear(1000)
        self.h = nn.ModuleList([Block(2000), Block(3000)])
        self.head = nn.Linear(4000)

    def forward(self, x):
        x = self.wte(x)
        for block in self.h:
            x = block(x)
        return {'logits': self.head(x)}
PY
program <<'PY'
from common import *
import copy, pickle
from model import *
net = Net()
with tidemark.trace('net.db', stack='cuda') as trace, tidemark.torch.tag_modules(net) as handle:
    net.cuda()
    tidemark.mark('step')
    optimizer = torch.optim.Optimizer(net.parameters())
    for step in range(2):
        with tidemark.tag('step'):
            loss = net(torch.empty(10))['logits']
            loss.backward()
            optimizer.step()
    copies = pickle.loads(pickle.dumps(Net())), type(optimizer.state).__name__, {type(s) for s in optimizer.state.values()}
    torch.empty(77)
found = tags('net.db')
print('parameters', sorted({(s, t) for s, t in found if t and t.startswith('parameters')}))
first = [(s, t[5:]) for s, t in found if t and t.startswith('step/')]
print('forward', [e for e in first if e[1].startswith('forward')][:6])
backward = [(s, t) for s, t in found if t and t.startswith('backward')]
print('backward', backward[:11])
print('optimizer', [e for e in first if e[1].startswith('optimizer')])
print('other', sorted({(s, t) for s, t in found if not t or not t.split('/')[0] in ('parameters', 'step', 'backward')},
                      key=str), copies[1], copies[2])
print('hooks', sum(len(kind) for kind in torch._nn.hooks.values()), torch.autograd.backward.__name__)
del net, optimizer, loss
PY
is "$status" 0 'a program with tagged modules runs to its end'
has_words "$said" "parameters [(1000, 'parameters/Net/wte'), (2000, 'parameters/Net/h.0/attn'), (2001, 'parameters/Net/h.0/mlp'), (3000, 'parameters/Net/h.1/attn'), (3001, 'parameters/Net/h.1/mlp'), (4000, 'parameters/Net/head')]" \
    'parameters are named by their module as the model moves to the device'
has_words "$said" "forward [(1000, 'forward/Net/wte'), (2000, 'forward/Net/h.0/attn'), (2001, 'forward/Net/h.0/mlp'), (3000, 'forward/Net/h.1/attn'), (3001, 'forward/Net/h.1/mlp'), (4000, 'forward/Net/head')]" \
    'what a forward allocates is named by its module, inside the tags of the program'
has_words "$said" "backward [(1, 'backward'), (4000, 'backward/Net/head'), (4000, 'backward/Net/head'), (3001, 'backward/Net/h.1/mlp')" \
    'what a backward allocates on its own thread is named by its module, and before the first by the phase'
has_words "$said" "(1000, 'optimizer/Net/wte'), (2000, 'optimizer/Net/h.0/attn')" \
    'the state of a parameter is named by its module'
has_words "$said" "(4000, 'optimizer/Net/head'), (16, 'optimizer'), (16, 'optimizer')]" \
    'the rest of a step is the optimizer'"'"'s, in the first step, too'
has_words "$said" "other [(77, None)] defaultdict {<class 'dict'>}" 'outside of the model nothing is named, and the optimizer has its own kind of state'
has_words "$said" 'hooks 0 backward' 'at its end all hooks are gone'

program <<'PY'
from common import *
import ctypes
from model import *
from tidemark._library import library
FRAME = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
tide, lent, net = library(), [], Net()
lend = tide.tide_callstack_lend
tide.tide_callstack_lend = lambda number: (lent.append(number), lend(number))
frames = ctypes.CDLL(tide.path).tide_callstack_frames
def functions(number):
    found = []
    def note(context, frame):
        found.append(ctypes.cast(frame + 32, ctypes.POINTER(ctypes.c_char_p))[0].decode().split('.')[-1])
    frames(number, FRAME(note), None)
    return found
def step():
    with tidemark.tag('step'):
        net(torch.empty(10))['logits'].backward()
with tidemark.trace('lent.db', stack='cuda', callstack='python'), tidemark.torch.tag_modules(net):
    step()
print(functions(lent[0])[:2], [functions(number)[-2:] for number in lent[:1]], lent[-1], len(set(lent)) > 3)
lent.clear()
with tidemark.trace('plain.db', stack='cuda'), tidemark.torch.tag_modules(net):
    step()
print(lent)
PY
is "$said" "['__call__', 'forward'] [['step', '<module>']] 0 True
[]" 'the thread of a backward is lent the call stack of its module in the forward, where such are taken' || diag "$said"
program <<'PY'
import tidemark
from tidemark._library import library
tidemark.use('host')
print(library().tide_callstack_python(0))
try:
    library().tide_callstack_lend(7)
except ValueError as failure:
    print(failure)
PY
is "$said" '0
call stacks: no call stack has the number 7' 'without call stacks of Python there is none to lend'

program <<'PY'
from common import *
from model import *
net = Block(500)
net.mlp._parameters = net.attn._parameters
with tidemark.trace('tied.db', stack='cuda'), tidemark.torch.tag_modules(net, 'tied'):
    optimizer = torch.optim.Optimizer(net.attn._parameters.values())
    optimizer.step()
print(tags('tied.db'))
PY
is "$said" "[(500, 'optimizer/tied/attn'), (16, 'optimizer')]" 'of modules that share a parameter the first one has it'

program <<'PY'
from common import *
from model import *

class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(100), nn.Linear(200)
        self.fails = True

    def forward(self, x):
        x = self.a(x)
        try:
            self.b(None if self.fails else x)
        except ValueError:
            if self.fails == 'out':
                raise
        y = torch.empty(31)
        return self.b(x)

class Callback(Exception):
    pass

net = Wrong()
stranger = nn.Linear(500)
with tidemark.trace('wrong.db', stack='cuda'), tidemark.torch.tag_modules(net, name='the net'):
    net(torch.empty(10))
    torch.empty(32)
    net.fails = 'out'
    try:
        net(torch.empty(10))
    except ValueError:
        torch.empty(33)
    net.fails = True
    net.b = nn.Linear(300)           # changed under the hooks
    net.c = nn.Linear(400)
    net.forward = lambda x: [stranger(net.c(net.b(x))), torch.empty(34)][0]
    out = net(torch.empty(10))
    node = out.grad_fn
    node.register_prehook(lambda gradients: 1 / 0)
    try:
        out.backward()
    except ZeroDivisionError:
        torch.empty(35)
    net(torch.empty(11))
    stranger(torch.empty(12))
    torch.empty(36)
    del out, node
    sub = net.a
    del net
    gc.collect()
    sub(torch.empty(13))
print({size: tag for size, tag in tags('wrong.db') if size not in (10, 100, 200)})
PY
is "$status" 0 'exceptions in modules and in hooks reach the program, and nothing else happens'
has_words "$said" "31: 'forward/the net'" 'an exception inside a module ends its tag'
has_words "$said" '32: None' 'after the forward nothing is named'
has_words "$said" '33: None' 'an exception out of the model ends all its tags'
has_words "$said" "300: 'forward/the net/b'" 'a module that was exchanged has its name'
has_words "$said" "400: 'forward/the net/c'" 'so has one that was added'
has_words "$said" "35: None" 'an exception in a backward leaves no tag behind'
has_words "$said" "36: None" 'a module of nobody'"'"'s model is not named'
done_testing
