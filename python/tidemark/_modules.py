"""The modules of PyTorch models as tags: tidemark.torch.tag_modules.

Forward: the hooks that PyTorch calls around every module. Nothing is attached to a model, so that it can be copied and
pickled as before.

Backward: PyTorch's own backward hooks of modules wrap their outputs, which breaks in-place operations, and see no
outputs that are not plain tensors. So the nodes of the graph are told whose they are: the node that made a module's
output is the module's, the one that made its input is that of the module around it, unless it is another one's output.
A backward reaches them in the reverse order, on whatever thread, and each moves its thread's tags to its module. Where
call stacks of Python are recorded, it also lends the thread, which runs no Python code, that of the module's forward.

The optimizer: in its first step it makes the state of one parameter after the other, which tells whose it is. It reads
each state once it is made, as for a list that it then works on: what it allocates from there on is of no module.
"""
from __future__ import annotations

import collections
import functools
import importlib
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _tags
from ._library import library
from ._use import takes_python_stacks

Names = Tuple[bytes, ...]

_OWNED = 'tidemark'  # the key in a node's metadata
_OWN_FRAMES = 4  # from _Watch.own up to the hook that PyTorch calls
_DEEP = 4  # how far tensors are looked for in what a module takes and returns


class _Entered(NamedTuple):
    who: Any  # a module, or an optimizer
    names: Names
    before: _tags.Path  # the tags outside of it


class _State(threading.local):
    def __init__(self) -> None:
        self.entered: List[_Entered] = []
        self.outside: Optional[_tags.Path] = None  # in a backward: the tags outside of it
        self.is_lent = False  # the call stack of a forward


class _Watch:
    """All models that are watched, and the hooks, which are there as long as one is."""

    def __init__(self) -> None:
        self.models: Dict[object, Tuple[Any, bytes]] = {}
        self.names: 'weakref.WeakKeyDictionary[Any, Names]' = weakref.WeakKeyDictionary()
        self.strangers: 'weakref.WeakSet[Any]' = weakref.WeakSet()
        self.state = _State()
        self.lock = threading.RLock()
        self.undo: List[Callable[[], Any]] = []
        self.engine: Any = None

    # Names.

    def refresh(self) -> None:
        """Take the names anew: a model may have other modules than before."""
        with self.lock:
            names: 'weakref.WeakKeyDictionary[Any, Names]' = weakref.WeakKeyDictionary()
            for reference, name in self.models.values():
                model = reference()
                if model is not None:
                    _name_modules(model, name, names)
            self.names = names
            self.strangers.clear()

    def names_of(self, module: Any) -> Optional[Names]:
        found = self.names.get(module)
        if found is None and self.state.entered and module not in self.strangers:
            self.refresh()  # it came into the model, or is no part of it
            found = self.names.get(module)
            if found is None:
                self.strangers.add(module)
        return found

    # Entering and leaving, by depth: what an exception has left open ends with what is around it.

    def enter(self, who: Any, word: bytes, names: Names) -> None:
        state = self.state
        if len(names) == 1 and any(entered.who is who for entered in state.entered):
            self.leave_all()  # a model does not call itself: its last forward has not ended
        now, entered = _tags.current(), state.entered
        around = entered[-1].names if entered else ()
        if around and names[:len(around)] == around:
            path = now + names[len(around):]
        else:
            outside = state.outside if state.outside is not None else entered[0].before if entered else now
            path = outside + (word,) + names
        entered.append(_Entered(who, names, now))
        _tags.move_to(path)

    def leave(self, who: Any) -> None:
        entered = self.state.entered
        for place in range(len(entered) - 1, -1, -1):
            if entered[place].who is who:
                _tags.move_to(entered[place].before)
                del entered[place:]
                return

    def leave_all(self) -> None:
        entered = self.state.entered
        if entered:
            _tags.move_to(entered[0].before)
            entered.clear()

    # Forward.

    def forward_begins(self, module: Any, inputs: Any) -> None:
        names = self.names_of(module)
        if names is None:
            return
        entered = self.state.entered
        if entered and entered[-1].names:
            self.own(inputs, entered[-1].names)
        self.enter(module, b'forward', names)

    def forward_ends(self, module: Any, output: Any) -> None:
        names = self.names.get(module)
        if names is not None:
            self.own(output, names)
            self.leave(module)

    # Backward.

    def own(self, value: Any, names: Names) -> None:
        """Have the nodes that made these tensors say, when a backward reaches them, that they are of `names`."""
        callstack: Optional[int] = None
        for tensor in _tensors(value, _DEEP):
            node = tensor.grad_fn
            if node is None:
                continue
            metadata = getattr(node, 'metadata', None)
            if metadata is not None:
                if _OWNED in metadata:
                    continue
                metadata[_OWNED] = True
            if callstack is None:
                callstack = library().tide_callstack_python(_OWN_FRAMES) if takes_python_stacks() else 0
            register = getattr(node, 'register_prehook', None) or tensor.register_hook
            register(functools.partial(_reached, names, callstack))

    def backward_reaches(self, names: Names, callstack: int) -> None:
        state = self.state
        if callstack or state.is_lent:
            state.is_lent = callstack != 0
            library().tide_callstack_lend(callstack)
        if state.outside is None:
            state.outside = _tags.current()
            self.when_backward_ends()
        _tags.move_to(state.outside + (b'backward',) + names)

    def when_backward_ends(self) -> None:
        try:
            self.engine.queue_callback(self.backward_ends)
        except (AttributeError, RuntimeError):  # another engine; the thread's tags stay until its next backward
            pass

    def backward_ends(self) -> None:
        state = self.state
        if state.is_lent:
            state.is_lent = False
            library().tide_callstack_lend(0)
        if state.outside is not None:
            _tags.move_to(state.outside)
            state.outside = None

    # Parameters and optimizers.

    def apply(self, original: Callable[..., Any], module: Any, arguments: Any, named: Any) -> Any:
        names = self.names.get(module)
        if names is None:
            return original(module, *arguments, **named)
        before = _tags.current()
        outside = before[:before.index(b'parameters')] if b'parameters' in before else before
        _tags.move_to(outside + (b'parameters',) + names)
        try:
            return original(module, *arguments, **named)
        finally:
            _tags.move_to(before)

    def step_begins(self, optimizer: Any) -> None:
        self.backward_ends()
        self.enter(optimizer, b'optimizer', ())
        if type(getattr(optimizer, 'state', None)) is _FirstStates:  # its first step has failed
            optimizer.state = optimizer.state.plain()
        if type(getattr(optimizer, 'state', None)) is collections.defaultdict and not optimizer.state:
            inside = _tags.current()
            owners: Dict[int, Names] = {}
            for module, names in list(self.names.items()):
                for parameter in getattr(module, '_parameters', {}).values():
                    owners.setdefault(id(parameter), names)  # of several that share it the first

            def tell(parameter: Any) -> None:
                if _tags.current()[:len(inside)] == inside:  # else the step is over, by an exception
                    _tags.move_to(inside + (() if parameter is None else owners.get(id(parameter), ())))

            optimizer.state = _FirstStates(tell)

    def step_ends(self, optimizer: Any) -> None:
        if type(getattr(optimizer, 'state', None)) is _FirstStates:
            optimizer.state = optimizer.state.plain()
        self.leave(optimizer)


class _FirstState(dict):  # type: ignore[type-arg]
    """The state of one parameter in the first step. Optimizers fill it and then read it, which tells that it is made."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self._tell = tell

    def __getitem__(self, key: str) -> Any:
        self._tell()
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._tell()
        return super().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._tell()
        return super().setdefault(key, default)

    def __reduce__(self) -> Tuple[Any, ...]:
        return dict, (dict(self),)


class _FirstStates(dict):  # type: ignore[type-arg]
    """The state of an optimizer in its first step, which tells whose state is about to be made, and None after that."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        super().__init__()
        self._tell = tell

    def __missing__(self, parameter: Any) -> Dict[str, Any]:
        self._tell(parameter)
        made = _FirstState(lambda: self._tell(None))
        self[parameter] = made
        return made

    def plain(self) -> 'collections.defaultdict[Any, Dict[str, Any]]':
        """What the optimizer has once the step is over."""
        return collections.defaultdict(dict, {parameter: dict(state) if type(state) is _FirstState else state
                                              for parameter, state in self.items()})

    def __reduce__(self) -> Tuple[Any, ...]:
        return collections.defaultdict, (dict, dict(self))


def _name_modules(model: Any, name: bytes, names: 'weakref.WeakKeyDictionary[Any, Names]') -> None:
    """Give each module a tag for every module that its path goes through; lists of modules have none, since they run
    nothing: h.3 and attn of "h.3.attn"."""
    paths: Dict[str, Names] = {}
    for path, module in model.named_modules():
        if not path:
            paths[path] = (name,)
        elif type(module).__name__ in ('ModuleList', 'ModuleDict'):
            continue
        else:
            parent = path.rpartition('.')[0]
            while parent and parent not in paths:
                parent = parent.rpartition('.')[0]
            rest = path[len(parent) + 1:] if parent else path
            paths[path] = paths[parent] + (_tags.tag_bytes(rest),)
        names[module] = paths[path]


def _tensors(value: Any, deep: int) -> List[Any]:
    if hasattr(value, 'grad_fn'):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [tensor for part in value for tensor in _tensors(part, deep - 1)] if deep else []


_watch = _Watch()
_warned = False


def _harmless(function: Callable[..., Any], *arguments: Any) -> None:
    """Call what runs in a hook: no program fails for its tags."""
    global _warned
    try:
        function(*arguments)
    except Exception as failure:
        if not _warned:
            _warned = True
            warnings.warn(f'tidemark.torch.tag_modules: {failure!r}; some tags are wrong or missing', stacklevel=2)


def _reached(names: Names, callstack: int, *gradients: Any) -> None:
    _harmless(_watch.backward_reaches, names, callstack)


def _hooks(torch: Any) -> List[Callable[[], Any]]:
    """Install what calls _watch. Answers what removes it."""
    compiler = getattr(torch, 'compiler', None)
    is_compiling: Callable[[], bool] = getattr(compiler, 'is_compiling', None) or bool

    def before_forward(module: Any, inputs: Any) -> None:
        if not is_compiling():
            _harmless(_watch.forward_begins, module, inputs)

    def after_forward(module: Any, inputs: Any, output: Any) -> None:
        if not is_compiling():
            _harmless(_watch.forward_ends, module, output)

    def before_step(optimizer: Any, arguments: Any, named: Any) -> None:
        if not is_compiling():
            _harmless(_watch.step_begins, optimizer)

    def after_step(optimizer: Any, arguments: Any, named: Any) -> None:
        if not is_compiling():
            _harmless(_watch.step_ends, optimizer)

    # torch.optim deletes the name of its module.
    module, optimizer = (importlib.import_module(f'torch.{name}') for name in ('nn.modules.module', 'optim.optimizer'))
    handles = [module.register_module_forward_pre_hook(before_forward)]
    try:
        handles.append(module.register_module_forward_hook(after_forward, always_call=True))
    except TypeError:  # before PyTorch 2.1: what an exception leaves open ends with the next forward
        handles.append(module.register_module_forward_hook(after_forward))
    if hasattr(optimizer, 'register_optimizer_step_pre_hook'):
        handles.append(optimizer.register_optimizer_step_pre_hook(before_step))
        handles.append(optimizer.register_optimizer_step_post_hook(after_step))
    return [handle.remove for handle in handles]


def _wrappers(torch: Any) -> List[Callable[[], Any]]:
    from .torch import _replace

    apply, backward = torch.nn.Module._apply, torch.autograd.backward

    @functools.wraps(apply)
    def tagged_apply(module: Any, *arguments: Any, **named: Any) -> Any:
        return _watch.apply(apply, module, arguments, named)

    @functools.wraps(backward)
    def phased_backward(*arguments: Any, **named: Any) -> Any:
        try:
            with _tags.phase('backward'):  # for threads that have no tag until they reach a module
                return backward(*arguments, **named)
        finally:
            _watch.backward_ends()

    return [_replace(torch.nn.Module, '_apply', tagged_apply), _replace(torch.autograd, 'backward', phased_backward)]


def watch(torch: Any, model: Any, name: Optional[str]) -> Callable[[], None]:
    """Begin to tag what a model does; answers what ends it."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f'tag_modules takes a torch.nn.Module, not {type(model).__name__}')
    while type(model).__name__ in ('DistributedDataParallel', 'DataParallel', 'OptimizedModule'):
        model = model._orig_mod if hasattr(model, '_orig_mod') else model.module
    key = object()
    with _watch.lock:
        _watch.models[key] = (weakref.ref(model), _tags.tag_bytes(name or type(model).__name__))
        _watch.refresh()
        if not _watch.undo:
            _watch.engine = getattr(getattr(torch.autograd, 'Variable', None), '_execution_engine', None)
            _watch.undo = _hooks(torch) + _wrappers(torch)

    def end() -> None:
        with _watch.lock:
            _watch.models.pop(key, None)
            _watch.refresh()
            if not _watch.models:
                _watch.leave_all()
                while _watch.undo:
                    _watch.undo.pop()()

    return end
