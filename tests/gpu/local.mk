# Tests that only a GPU makes more of than a skip. They link what they need of the driver at run time.
gpu_test = tests/gpu/gpu.c tests/gpu/gpu.h tests/gpu/kernels.c tests/gpu/kernels.h

check_PROGRAMS += tests/gpu/driver-t
tests_gpu_driver_t_SOURCES = tests/gpu/driver-t.c $(gpu_test) $(contract_test)
tests_gpu_driver_t_LDADD = libtidemark.la -ldl
TESTS += tests/gpu/driver-t
GPU_TESTS += tests/gpu/driver-t

check_PROGRAMS += tests/gpu/stack-t
tests_gpu_stack_t_SOURCES = tests/gpu/stack-t.c $(gpu_test) $(adaptor_test)
tests_gpu_stack_t_LDADD = libtidemark.la -ldl
TESTS += tests/gpu/stack-t
GPU_TESTS += tests/gpu/stack-t

EXTRA_DIST += tests/gpu/README.md tests/gpu/run
