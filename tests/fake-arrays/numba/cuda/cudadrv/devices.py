import types

_runtime = types.SimpleNamespace(gpus=types.SimpleNamespace(lst=[]))
