"""What the library has to say outside of any call, such as a recording that a full disk has ended, as warnings."""
from __future__ import annotations

import atexit
import os
import select
import sys
import threading
import warnings
from typing import Optional

from ._library import library

_NOTE = b'0'  # a severity that is no warning

_lock = threading.RLock()
_read: Optional[int] = None  # the end of a pipe into which the library writes, from threads without Python's lock
_write: Optional[int] = None
_rest = b''


def listen() -> None:
    """Have messages become warnings, at once, to the end of the process. The thread for it sleeps till one comes."""
    global _read, _write
    with _lock:
        if _read is not None:
            return
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        _read, _write = read, write
        library().tide_bridge_messages(write)
        threading.Thread(target=_wait, args=(read,), name='tidemark-messages', daemon=True).start()


def _wait(read: int) -> None:
    poll = select.poll()
    poll.register(read, select.POLLIN)
    while True:
        poll.poll()
        try:
            say(1)
        except Warning:  # where warnings are errors: said is said, and the thread goes on
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]


def say(stacklevel: int) -> None:
    """Warn of what has come; of each message once."""
    global _rest
    with _lock:
        if _read is None:
            return
        said = _rest
        while True:
            try:
                said += os.read(_read, 65536)
            except BlockingIOError:
                break
        *lines, _rest = said.split(b'\n')
    for line in lines:
        severity, _, text = line.partition(b' ')
        if severity != _NOTE:
            warnings.warn(f'tidemark: {text.decode("utf-8", "replace")}', RuntimeWarning, stacklevel=stacklevel + 1)


def _at_exit() -> None:
    say(1)


def _after_fork() -> None:
    """The thread and the pipe are the parent's."""
    global _lock, _read, _write, _rest
    _lock = threading.RLock()
    if _read is not None and _write is not None:
        library().tide_bridge_messages(-1)
        os.close(_read)
        os.close(_write)
        _read, _write, _rest = None, None, b''


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
