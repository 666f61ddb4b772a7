"""libtidemark by ctypes: where it is found, its functions with their types, and its failures as exceptions."""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

__version__ = '0.1.0'

SONAME = 'libtidemark.so.0'

# enum tide_status of <tidemark/status.h>.
TIDE_OK = 0
TIDE_EINVAL = 1
TIDE_ENOMEM = 2
TIDE_ECAPACITY = 3
TIDE_ELIMIT = 4
TIDE_EDRIVER = 7
TIDE_ESYNTAX = 10
TIDE_EEXIST = 11
TIDE_EIO = 12

CUDA_ERROR_OUT_OF_MEMORY = 2


class Error(Exception):
    """What the library refused, in its own words. `status` is the number of its enum tide_status, 0 where the refusal
    is the package's own; `status_name` is that in words, such as "TIDE_ELIMIT"."""

    def __init__(self, text: str, status: int = TIDE_OK, status_name: str = '') -> None:
        super().__init__(text)
        self.status = status
        self.status_name = status_name

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (*self.args, self.status, self.status_name)


class OutOfMemoryError(Error, MemoryError):
    """A limit, or a device without memory, refused an allocation."""


class ArgumentError(Error, ValueError):
    """Wrong stack text, a size that is none, a name with a NUL in it: what the caller has to change."""


class LibraryError(Error, ImportError):
    """libtidemark is not there, is another version than this package, or lacks a function."""


class UsageError(Error, RuntimeError):
    """Right calls in a wrong order, such as two traces at once."""


class Figures(ctypes.Structure):
    """struct tide_bridge_figures."""

    NAMES = ('live_bytes', 'peak_bytes', 'live_count', 'allocations', 'frees', 'failures', 'reserved_bytes',
             'total_bytes', 'begin_bytes')
    _fields_ = [('struct_size', ctypes.c_size_t), *((name, ctypes.c_uint64) for name in NAMES)]

    def __init__(self) -> None:
        super().__init__(struct_size=ctypes.sizeof(Figures))


class Block(ctypes.Structure):
    """struct tide_bridge_block."""

    _fields_ = [('struct_size', ctypes.c_size_t), ('base', ctypes.c_void_p), ('bytes', ctypes.c_uint64),
                ('stream', ctypes.c_size_t), ('stream_count', ctypes.c_uint64), ('device', ctypes.c_int),
                ('captured', ctypes.c_uint32)]

    def __init__(self) -> None:
        super().__init__(struct_size=ctypes.sizeof(Block))


LiveFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)

_status = ctypes.c_int
_text = ctypes.c_char_p
_pointer = ctypes.c_void_p
_size = ctypes.c_size_t
_stream = ctypes.c_size_t  # tide_stream is uintptr_t

# Functions that return an enum tide_status: a call that fails raises.
_CHECKED: Dict[str, List[Any]] = {
    'tide_bridge_use': [_text],
    'tide_bridge_end': [],
    'tide_bridge_stack': [ctypes.c_int, ctypes.POINTER(_pointer)],
    'tide_bridge_allocate': [ctypes.c_int, _size, _stream, ctypes.POINTER(_pointer)],
    'tide_bridge_deallocate': [_pointer, _stream],
    'tide_bridge_record_stream': [_pointer, _stream],
    'tide_bridge_find': [_pointer, ctypes.POINTER(Block)],
    'tide_bridge_read': [ctypes.c_int, ctypes.POINTER(Figures)],
    'tide_bridge_reset_peak': [ctypes.c_int],
    'tide_bridge_push': [ctypes.c_int],
    'tide_bridge_pop': [ctypes.c_int, ctypes.POINTER(Figures)],
    'tide_bridge_live': [ctypes.c_int, LiveFunction, _pointer],
    'tide_bridge_trim': [ctypes.c_int],
    'tide_bridge_fraction': [ctypes.c_int, ctypes.c_double],
    'tide_tag_push': [_text],
    'tide_tag_ambient': [_text],
    'tide_callstack_lend': [ctypes.c_uint32],
    'tide_mark': [_text],
    'tide_stack_check': [_text, _pointer, _size, ctypes.POINTER(_size)],
    'tide_stack_default': [ctypes.c_int, _pointer, _size, ctypes.POINTER(_size)],
    'tide_describe': [_pointer, _pointer, _size, ctypes.POINTER(_size)],
}

_OTHERS: Dict[str, Tuple[Any, List[Any]]] = {
    'tide_version': (_text, []),
    'tide_version_number': (ctypes.c_uint32, []),
    'tide_error_text': (_text, []),
    'tide_error_driver': (ctypes.c_int, []),
    'tide_status_name': (_text, [ctypes.c_int]),
    'tide_tag_pop': (None, []),
    'tide_tag_depth': (_size, []),
    'tide_callstack_python': (ctypes.c_uint32, [ctypes.c_uint32]),
    'tide_bridge_messages': (None, [ctypes.c_int]),
    'tide_resource_release': (None, [_pointer]),
}

# What frameworks call by address, with the types of CUDAPluggableAllocator; never called from here.
_ADDRESSES = ('tide_torch_alloc', 'tide_torch_free', 'tide_torch_init', 'tide_torch_reset', 'tide_torch_fraction',
              'tide_torch_base', 'tide_torch_record_stream', 'tide_torch_begin', 'tide_torch_end', 'tide_torch_release',
              'tide_torch_segment_alloc', 'tide_torch_segment_free')

# These hold the interpreter's lock, so that frames of the caller are kept when they are first seen.
_HOLDING = ('tide_bridge_allocate', 'tide_bridge_deallocate', 'tide_callstack_python', 'tide_callstack_lend')


def _candidates() -> List[str]:
    named = os.environ.get('TIDEMARK_LIBRARY')
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    # Beside this file, as in a wheel; where `make install` puts it, with this file in lib/pythonX.Y/site-packages.
    beside = [os.path.join(here, SONAME), os.path.join(prefix, SONAME)]
    return [path for path in beside if os.path.exists(path)] + [SONAME]


def _open() -> Tuple[str, ctypes.CDLL]:
    reasons = []
    for path in _candidates():
        try:
            return path, ctypes.CDLL(path)
        except (OSError, ValueError) as failure:
            reasons.append(str(failure))
    raise LibraryError(f'the library of Tidemark cannot be loaded: {"; ".join(reasons)}. Install it with `make '
                       f'install` and `ldconfig`, or set TIDEMARK_LIBRARY to the path of {SONAME}')


class Library:
    """The loaded library. Its functions are attributes; those that fail raise Error or a class of it."""

    def __init__(self) -> None:
        self.path, self._handle = _open()
        self._holding = ctypes.PyDLL(self.path)
        try:
            for name, (result, arguments) in _OTHERS.items():
                self._bind(self._holding if name in _HOLDING else self._handle, name, result, arguments)
            self._match_versions()
            for name, arguments in _CHECKED.items():
                handle = self._holding if name in _HOLDING else self._handle
                self._bind(handle, name, _status, arguments).errcheck = self._check
            self._addresses = {name: ctypes.cast(getattr(self._handle, name), ctypes.c_void_p).value or 0
                               for name in _ADDRESSES}
        except AttributeError as failure:
            raise LibraryError(f'{self.path} is no Tidemark {__version__}: {failure}') from None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # says to type checkers that the others are functions of C

    def _bind(self, handle: ctypes.CDLL, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        function = getattr(handle, name)
        function.restype, function.argtypes = result, arguments
        setattr(self, name, function)
        return function

    def _match_versions(self) -> None:
        wanted = [int(part) for part in __version__.split('.')[:2]]
        number = self.tide_version_number()
        if [number >> 16, number >> 8 & 0xff] != wanted:
            raise LibraryError(f'{self.path} is Tidemark {self.tide_version().decode()}, and this package is '
                               f'{__version__}: install both from one version')

    def _check(self, status: int, function: Any, arguments: Any) -> int:
        if status != TIDE_OK:
            raise self.failure(status)
        return status

    def failure(self, status: int) -> Error:
        """The exception for what the calling thread's last call has returned."""
        text = self.tide_error_text().decode('utf-8', 'replace')
        name = self.tide_status_name(status).decode()
        driver = status == TIDE_EDRIVER and self.tide_error_driver() == CUDA_ERROR_OUT_OF_MEMORY
        kind = Error
        if driver or status in (TIDE_ENOMEM, TIDE_ECAPACITY, TIDE_ELIMIT):
            kind = OutOfMemoryError
        elif status in (TIDE_EINVAL, TIDE_ESYNTAX):
            kind = ArgumentError
        return kind(explain(text) or name, status, name)

    def address(self, name: str) -> int:
        """Where a function lies that a framework calls."""
        return self._addresses[name]


def _same(text: str) -> str:
    return text


# What makes the words of the library those of this package: _use.py has it count columns in the text of the program.
explain: Callable[[str], str] = _same

_lock = threading.RLock()
_library: Optional[Library] = None


def library() -> Library:
    """The library, which is loaded at the first call."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = Library()
    return _library


def text_bytes(text: str, what: str, errors: str = 'backslashreplace') -> bytes:
    """A text for C: UTF-8, and what is none escaped; a NUL would end it too early."""
    if not isinstance(text, str):
        raise TypeError(f'{what} is a str, not {type(text).__name__}')
    if '\0' in text:
        raise ArgumentError(f'{what} has a NUL character in it', TIDE_EINVAL, 'TIDE_EINVAL')
    return text.encode('utf-8', errors)


def shown(text: str) -> str:
    """A text for a terminal: what shows nothing, or turns text around, is escaped."""
    return ''.join(sign if sign.isprintable() else sign.encode('unicode_escape').decode() for sign in text)


def filled_text(function: Any, *arguments: Any) -> str:
    """What one of the functions writes that take room for a text, and say how much they need."""
    room = ctypes.create_string_buffer(4096)
    needed = ctypes.c_size_t()
    function(*arguments, room, len(room), ctypes.byref(needed))
    if needed.value >= len(room):
        room = ctypes.create_string_buffer(needed.value + 1)
        function(*arguments, room, len(room), ctypes.byref(needed))
    return room.value.decode('utf-8', 'replace')


def _after_fork() -> None:
    """Another thread may have held the lock, which does not exist in the child."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
