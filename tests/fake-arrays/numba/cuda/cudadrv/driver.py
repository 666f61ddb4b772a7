USE_NV_BINDING = False
_memory_manager = None
manager = None


class CudaAPIError(Exception):
    def __init__(self, code, msg):
        super().__init__(code, msg)
        self.code, self.msg = code, msg
