"""Tidemark: who holds the GPU memory of this program, and how high it went.

    import tidemark
    tidemark.trace("train.db").start()        # before the first CUDA tensor

records every allocation of PyTorch, CuPy and Numba into a trace, which the command `tidemark` explains. The package
is pure Python over libtidemark; importing it starts no CUDA and imports no framework. doc/python.md is its manual.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._library import ArgumentError, Error, LibraryError, OutOfMemoryError, UsageError, __version__
from ._memory import (Live, Record, Stats, allocate, free, live, peak, profile, reset_peak, stats, trim, used)
from ._tags import phase, tag
from ._use import mark, trace, use

if TYPE_CHECKING:
    from . import cupy, numba, torch

__all__ = [
    'ArgumentError', 'Error', 'LibraryError', 'Live', 'OutOfMemoryError', 'Record', 'Stats', 'UsageError',
    '__version__', 'allocate', 'cupy', 'free', 'live', 'mark', 'numba', 'peak', 'phase', 'profile', 'reset_peak',
    'stats', 'tag', 'torch', 'trace', 'trim', 'use', 'used'
]


def __getattr__(name: str) -> Any:
    if name in ('cupy', 'numba', 'torch'):
        return importlib.import_module(f'{__name__}.{name}')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def _make_public() -> None:
    """Let messages name classes as programs do."""
    for name in __all__:
        value = globals().get(name)
        if isinstance(value, type):
            value.__module__ = __name__


_make_public()
