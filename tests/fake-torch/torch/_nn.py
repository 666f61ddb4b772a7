"""Modules with PyTorch's global hooks, a graph whose backward runs on a thread of its own, and an optimizer."""
import collections
import sys
import threading
import types

hooks = {name: [] for name in ('pre', 'post', 'step_pre', 'step_post')}


class Handle:
    def __init__(self, kind, entry):
        self.kind, self.entry = kind, entry
        hooks[kind].append(entry)

    def remove(self):
        hooks[self.kind].remove(self.entry)


class Node:
    """What made a tensor: in a backward it allocates as much as the tensor has, for the gradient of its input."""

    def __init__(self, parents, size, module):
        self.parents, self.size, self.module = parents, size, module
        self.metadata, self.prehooks = {}, []

    def register_prehook(self, hook):
        self.prehooks.append(hook)

    def run(self, torch, seen):
        if self in seen:
            return
        seen.append(self)
        for hook in self.prehooks:
            hook((None,))
        self.gradient = torch.Tensor(self.size)
        for parameter in getattr(self.module, '_parameters', {}).values():
            parameter.grad = torch.Tensor(parameter.size)
        for parent in self.parents:
            if parent.grad_fn is not None:
                parent.grad_fn.run(torch, seen)


class Engine:
    callbacks = None

    def queue_callback(self, function):
        if self.callbacks is None:
            raise RuntimeError('Final callbacks can only be installed during backward pass.')
        self.callbacks.append(function)

    def run(self, torch, tensor):
        self.callbacks, self.failure = [], None
        thread = threading.Thread(target=self.work, args=(torch, tensor))
        thread.start()
        thread.join()
        self.callbacks = None
        if self.failure is not None:
            raise self.failure

    def work(self, torch, tensor):
        try:
            self.first = torch.Tensor(1)  # the gradient of the loss, before any node runs
            tensor.grad_fn.run(torch, [])
            for function in self.callbacks:
                function()
        except BaseException as failure:
            self.failure = failure


engine = Engine()


def backward(tensor):
    import torch
    engine.run(torch, tensor)


class Parameter:
    def __init__(self, size):
        self.size, self.grad, self.data = size, None, None


class Module:
    def __init__(self):
        self._modules, self._parameters = {}, {}

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._modules[name] = value
        object.__setattr__(self, name, value)

    def parameter(self, name, size):
        self._parameters[name] = Parameter(size)

    def named_modules(self, seen=None, prefix=''):
        seen = set() if seen is None else seen
        if id(self) not in seen:
            seen.add(id(self))
            yield prefix, self
            for name, module in self._modules.items():
                yield from module.named_modules(seen, f'{prefix}.{name}' if prefix else name)

    def parameters(self):
        return [parameter for _, module in self.named_modules() for parameter in module._parameters.values()]

    def _apply(self, function):
        for module in self._modules.values():
            module._apply(function)
        for parameter in self._parameters.values():
            parameter.data = function(parameter)
        return self

    def cuda(self):
        import torch
        return self._apply(lambda parameter: torch.Tensor(parameter.size))

    def __call__(self, *inputs):
        for hook, _ in list(hooks['pre']):
            hook(self, inputs)
        called = []
        try:
            output = self.forward(*inputs)
            for entry in list(hooks['post']):
                called.append(entry)
                entry[0](self, inputs, output)
            return output
        except BaseException:
            for entry in list(hooks['post']):
                if entry[1] and entry not in called:
                    entry[0](self, inputs, None)
            raise


class ModuleList(Module):
    def __init__(self, modules):
        super().__init__()
        for place, module in enumerate(modules):
            self._modules[str(place)] = module

    def __iter__(self):
        return iter(self._modules.values())


class Linear(Module):
    """One tensor out, as large as what it is made with; one parameter of that size."""

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.parameter('weight', size)

    def forward(self, x):
        import torch
        if x is None:
            raise ValueError('no input')
        return torch.Tensor(self.size, (x,), self)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups, self.state = [{'params': list(parameters)}], collections.defaultdict(dict)

    def step(self):
        import torch
        for hook, _ in list(hooks['step_pre']):
            hook(self, (), {})
        moments = []
        for parameter in self.param_groups[0]['params']:
            state = self.state[parameter]
            if not state:
                state['moment'] = torch.Tensor(parameter.size)
            moments.append(state['moment'])
        self.scratch = torch.Tensor(16)
        for hook, _ in list(hooks['step_post']):
            hook(self, (), {})


def register(name, **functions):
    """A module that is only imported, as torch.optim.optimizer."""
    module = sys.modules[f'torch.{name}'] = types.ModuleType(f'torch.{name}')
    vars(module).update(functions)


register('nn')
register('nn.modules')
register('nn.modules.module', register_module_forward_pre_hook=lambda hook: Handle('pre', (hook, False)),
         register_module_forward_hook=lambda hook, always_call=False: Handle('post', (hook, always_call)))
register('optim')
register('optim.optimizer', register_optimizer_step_pre_hook=lambda hook: Handle('step_pre', (hook, False)),
         register_optimizer_step_post_hook=lambda hook: Handle('step_post', (hook, False)))
nn = types.SimpleNamespace(Module=Module, Linear=Linear, ModuleList=ModuleList)
optim = types.SimpleNamespace(Optimizer=Optimizer)
autograd = types.SimpleNamespace(backward=backward, Variable=types.SimpleNamespace(_execution_engine=engine))
compiler = types.SimpleNamespace(is_compiling=lambda: False)
