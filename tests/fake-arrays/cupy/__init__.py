"""As much of CuPy as tests/python-frameworks-t.sh needs: arrays that are blocks, on one device."""
from . import cuda


class ndarray:
    def __init__(self, nbytes):
        self.data = cuda.current_allocator(nbytes)


def empty(nbytes):
    return ndarray(nbytes)
