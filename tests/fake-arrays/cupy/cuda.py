import types


class Stream:
    def __init__(self, ptr=0):
        self.ptr = ptr

    def use(self):
        global stream
        stream = self


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f'Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes)')


def own_malloc(nbytes):
    return MemoryPointer(UnownedMemory(1, nbytes, None, 0), 0)


def get_allocator():
    return current_allocator


def set_allocator(allocator):
    global current_allocator
    current_allocator = allocator or own_malloc


def get_current_stream():
    return stream


current_allocator, stream = own_malloc, Stream()
runtime = types.SimpleNamespace(getDevice=lambda: 0)
memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
