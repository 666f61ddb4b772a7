# GPU tests: on the fake driver in `make check`, on the real one in `make check-gpu`. They load the driver's functions
# at run time.

# What they share, compiled once. The linker takes of it what a test uses.
check_LTLIBRARIES += tests/gpu/libgpu.la
tests_gpu_libgpu_la_SOURCES = \
	tests/gpu/gpu.c tests/gpu/gpu.h \
	tests/gpu/kernels.c tests/gpu/kernels.h \
	tests/gpu/lock.c tests/gpu/lock.h \
	tests/gpu/parts.c tests/gpu/parts.h \
	tests/gpu/process.c tests/gpu/process.h \
	tests/gpu/summary.c tests/gpu/summary.h \
	tests/gpu/work.c tests/gpu/work.h
gpu_helpers = tests/gpu/libgpu.la

check_PROGRAMS += tests/gpu/bad-input-t
tests_gpu_bad_input_t_SOURCES = tests/gpu/bad-input-t.c
tests_gpu_bad_input_t_CFLAGS = $(trace_test_cflags)
tests_gpu_bad_input_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/bad-input-t
GPU_TESTS += tests/gpu/bad-input-t

check_PROGRAMS += tests/gpu/bases-t
tests_gpu_bases_t_SOURCES = tests/gpu/bases-t.c
tests_gpu_bases_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la -ldl
TESTS += tests/gpu/bases-t
GPU_TESTS += tests/gpu/bases-t

check_PROGRAMS += tests/gpu/bridge-t
tests_gpu_bridge_t_SOURCES = tests/gpu/bridge-t.c
tests_gpu_bridge_t_CFLAGS = $(trace_test_cflags)
tests_gpu_bridge_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/bridge-t
GPU_TESTS += tests/gpu/bridge-t

check_PROGRAMS += tests/gpu/calls-t
tests_gpu_calls_t_SOURCES = tests/gpu/calls-t.c
tests_gpu_calls_t_CFLAGS = $(trace_test_cflags)
tests_gpu_calls_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/calls-t
GPU_TESTS += tests/gpu/calls-t

check_PROGRAMS += tests/gpu-lock-t
tests_gpu_lock_t_SOURCES = tests/gpu-lock-t.c
tests_gpu_lock_t_LDADD = $(gpu_helpers)
TESTS += tests/gpu-lock-t

check_PROGRAMS += tests/gpu/default-t
tests_gpu_default_t_SOURCES = tests/gpu/default-t.c
tests_gpu_default_t_LDADD = $(gpu_helpers) libtidemark.la -ldl
TESTS += tests/gpu/default-t
GPU_TESTS += tests/gpu/default-t

# Test the driver itself.
EXTRA_DIST += tests/gpu/call.h
check_PROGRAMS += tests/gpu/conduct-t
tests_gpu_conduct_t_SOURCES = tests/gpu/conduct-t.c
tests_gpu_conduct_t_LDADD = $(gpu_helpers) -ldl
TESTS += tests/gpu/conduct-t
GPU_TESTS += tests/gpu/conduct-t

check_PROGRAMS += tests/gpu/conduct-functions-t
tests_gpu_conduct_functions_t_SOURCES = tests/gpu/conduct-functions-t.c
tests_gpu_conduct_functions_t_LDADD = $(gpu_helpers) -ldl
TESTS += tests/gpu/conduct-functions-t
GPU_TESTS += tests/gpu/conduct-functions-t

check_PROGRAMS += tests/gpu/conduct-cupti-t
tests_gpu_conduct_cupti_t_SOURCES = tests/gpu/conduct-cupti-t.c
tests_gpu_conduct_cupti_t_LDADD = $(gpu_helpers) -ldl
TESTS += tests/gpu/conduct-cupti-t
GPU_TESTS += tests/gpu/conduct-cupti-t

check_PROGRAMS += tests/gpu/base-options-t
tests_gpu_base_options_t_SOURCES = tests/gpu/base-options-t.c
tests_gpu_base_options_t_LDADD = $(gpu_helpers) libtidemark.la -ldl
TESTS += tests/gpu/base-options-t
GPU_TESTS += tests/gpu/base-options-t

check_PROGRAMS += tests/gpu/cupti-t
tests_gpu_cupti_t_SOURCES = tests/gpu/cupti-t.c
tests_gpu_cupti_t_CFLAGS = $(trace_test_cflags)
tests_gpu_cupti_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/cupti-t
GPU_TESTS += tests/gpu/cupti-t
THREADED_TESTS += tests/gpu/cupti-t

check_PROGRAMS += tests/gpu/driver-t
tests_gpu_driver_t_SOURCES = tests/gpu/driver-t.c
tests_gpu_driver_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la -ldl
TESTS += tests/gpu/driver-t
GPU_TESTS += tests/gpu/driver-t

check_PROGRAMS += tests/gpu/graph-t
tests_gpu_graph_t_SOURCES = tests/gpu/graph-t.c
tests_gpu_graph_t_CFLAGS = $(trace_test_cflags)
tests_gpu_graph_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/graph-t
GPU_TESTS += tests/gpu/graph-t

check_PROGRAMS += tests/gpu/guard-t
tests_gpu_guard_t_SOURCES = tests/gpu/guard-t.c
tests_gpu_guard_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la -ldl
TESTS += tests/gpu/guard-t
GPU_TESTS += tests/gpu/guard-t

check_PROGRAMS += tests/gpu/kernel-t
tests_gpu_kernel_t_SOURCES = tests/gpu/kernel-t.c
tests_gpu_kernel_t_LDADD = $(gpu_helpers) libtidemark.la -ldl
TESTS += tests/gpu/kernel-t
GPU_TESTS += tests/gpu/kernel-t

check_PROGRAMS += tests/gpu/many-calls-t
tests_gpu_many_calls_t_SOURCES = tests/gpu/many-calls-t.c
tests_gpu_many_calls_t_CFLAGS = $(trace_test_cflags)
tests_gpu_many_calls_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/many-calls-t
GPU_TESTS += tests/gpu/many-calls-t

check_PROGRAMS += tests/gpu/nvtx-t
tests_gpu_nvtx_t_SOURCES = tests/gpu/nvtx-t.c
tests_gpu_nvtx_t_LDADD = $(gpu_helpers) libtidemark.la -ldl
TESTS += tests/gpu/nvtx-t
GPU_TESTS += tests/gpu/nvtx-t

check_PROGRAMS += tests/gpu/peer-t
tests_gpu_peer_t_SOURCES = tests/gpu/peer-t.c
tests_gpu_peer_t_CFLAGS = $(trace_test_cflags)
tests_gpu_peer_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/peer-t
GPU_TESTS += tests/gpu/peer-t

check_PROGRAMS += tests/gpu/pool-t
tests_gpu_pool_t_SOURCES = tests/gpu/pool-t.c
tests_gpu_pool_t_LDADD = $(gpu_helpers) libtidemark.la -ldl
TESTS += tests/gpu/pool-t
GPU_TESTS += tests/gpu/pool-t

check_PROGRAMS += tests/gpu/race-t
tests_gpu_race_t_SOURCES = tests/gpu/race-t.c
tests_gpu_race_t_LDADD = $(gpu_helpers) libtidemark-test.la -ldl
TESTS += tests/gpu/race-t
GPU_TESTS += tests/gpu/race-t

check_PROGRAMS += tests/gpu/samples-t
tests_gpu_samples_t_SOURCES = tests/gpu/samples-t.c
tests_gpu_samples_t_CFLAGS = $(trace_test_cflags)
tests_gpu_samples_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/samples-t
GPU_TESTS += tests/gpu/samples-t

check_PROGRAMS += tests/gpu/share-t
tests_gpu_share_t_SOURCES = tests/gpu/share-t.c
tests_gpu_share_t_CFLAGS = $(trace_test_cflags)
tests_gpu_share_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/share-t
GPU_TESTS += tests/gpu/share-t

check_PROGRAMS += tests/gpu/stack-t
tests_gpu_stack_t_SOURCES = tests/gpu/stack-t.c
tests_gpu_stack_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la -ldl
TESTS += tests/gpu/stack-t
GPU_TESTS += tests/gpu/stack-t

check_PROGRAMS += tests/gpu/stream-t
tests_gpu_stream_t_SOURCES = tests/gpu/stream-t.c
tests_gpu_stream_t_LDADD = $(gpu_helpers) libtidemark.la -ldl
TESTS += tests/gpu/stream-t
GPU_TESTS += tests/gpu/stream-t

check_PROGRAMS += tests/gpu/traces-t
tests_gpu_traces_t_SOURCES = tests/gpu/traces-t.c
tests_gpu_traces_t_CFLAGS = $(trace_test_cflags)
tests_gpu_traces_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/gpu/traces-t
GPU_TESTS += tests/gpu/traces-t

check_PROGRAMS += tests/gpu/vmm-t
tests_gpu_vmm_t_SOURCES = tests/gpu/vmm-t.c
tests_gpu_vmm_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark-test.la -ldl
TESTS += tests/gpu/vmm-t
GPU_TESTS += tests/gpu/vmm-t

# On the fake driver every stream is a thread.
THREADED_TESTS += $(GPU_TESTS)

EXTRA_DIST += tests/gpu/README.md tests/gpu/run
