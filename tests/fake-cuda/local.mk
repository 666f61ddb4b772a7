# A libcuda.so.1 and a libcupti.so.13 for tests, by the names that programs load; never installed, nor linked. The
# runpath is one that is not there: libtool makes shared libraries only of what it believes to be installed.
if FAKE_CUDA
check_LTLIBRARIES += tests/fake-cuda/libcuda.la
tests_fake_cuda_libcuda_la_SOURCES = \
	tests/fake-cuda/array.c \
	tests/fake-cuda/attribute.c \
	tests/fake-cuda/call.c \
	tests/fake-cuda/capture.c \
	tests/fake-cuda/capture.h \
	tests/fake-cuda/context.c \
	tests/fake-cuda/copy.c \
	tests/fake-cuda/count.c \
	tests/fake-cuda/device.c \
	tests/fake-cuda/driver.c \
	tests/fake-cuda/event.c \
	tests/fake-cuda/fake.h \
	tests/fake-cuda/graph-memory.c \
	tests/fake-cuda/graph-node.c \
	tests/fake-cuda/graph.c \
	tests/fake-cuda/graph.h \
	tests/fake-cuda/green.c \
	tests/fake-cuda/ipc.c \
	tests/fake-cuda/kernel.c \
	tests/fake-cuda/managed.c \
	tests/fake-cuda/memory.c \
	tests/fake-cuda/memory.h \
	tests/fake-cuda/old.c \
	tests/fake-cuda/pinned.c \
	tests/fake-cuda/pool-attribute.c \
	tests/fake-cuda/pool-blocks.c \
	tests/fake-cuda/pool.c \
	tests/fake-cuda/proc.c \
	tests/fake-cuda/share.c \
	tests/fake-cuda/stream.c \
	tests/fake-cuda/tracer.h \
	tests/fake-cuda/undone.c \
	tests/fake-cuda/undone.def \
	tests/fake-cuda/virtual.c
tests_fake_cuda_libcuda_la_LIBADD = -ldl
tests_fake_cuda_libcuda_la_LDFLAGS = -version-info 1:0:0 -rpath /nonexistent -pthread

check_LTLIBRARIES += tests/fake-cuda/libcupti.la
tests_fake_cuda_libcupti_la_SOURCES = \
	tests/fake-cuda/cupti-buffer.c \
	tests/fake-cuda/cupti-callback.c \
	tests/fake-cuda/cupti-numbers.c \
	tests/fake-cuda/cupti-record.c \
	tests/fake-cuda/cupti.c \
	tests/fake-cuda/cupti.h \
	tests/fake-cuda/tracer.h
tests_fake_cuda_libcupti_la_LDFLAGS = -version-info 13:0:0 -rpath /nonexistent -pthread
tests_fake_cuda_libcupti_la_LIBADD = -ldl

check_PROGRAMS += tests/fake-cuda/absent-t
tests_fake_cuda_absent_t_SOURCES = tests/fake-cuda/absent-t.c
tests_fake_cuda_absent_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_absent_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/absent-t

account_test = tests/fake-cuda/account.c tests/fake-cuda/account.h
check_PROGRAMS += tests/fake-cuda/account-t
tests_fake_cuda_account_t_SOURCES = tests/fake-cuda/account-t.c $(account_test)
tests_fake_cuda_account_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_account_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_account_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/account-t

check_PROGRAMS += tests/fake-cuda/small-stack-t
tests_fake_cuda_small_stack_t_SOURCES = tests/fake-cuda/small-stack-t.c $(account_test)
tests_fake_cuda_small_stack_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_small_stack_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_small_stack_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/small-stack-t

check_PROGRAMS += tests/fake-cuda/account-contexts-t
tests_fake_cuda_account_contexts_t_SOURCES = tests/fake-cuda/account-contexts-t.c $(account_test) \
	tests/point.c tests/point.h
tests_fake_cuda_account_contexts_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_account_contexts_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_account_contexts_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/account-contexts-t

check_PROGRAMS += tests/fake-cuda/account-ends-t
tests_fake_cuda_account_ends_t_SOURCES = tests/fake-cuda/account-ends-t.c $(account_test) tests/point.c
tests_fake_cuda_account_ends_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_account_ends_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_account_ends_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/account-ends-t
THREADED_TESTS += tests/fake-cuda/account-ends-t

check_PROGRAMS += tests/fake-cuda/account-random-t
tests_fake_cuda_account_random_t_SOURCES = tests/fake-cuda/account-random-t.c $(account_test)
tests_fake_cuda_account_random_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_account_random_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_account_random_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/account-random-t
THREADED_TESTS += tests/fake-cuda/account-random-t

check_PROGRAMS += tests/fake-cuda/account-redirected-t
tests_fake_cuda_account_redirected_t_SOURCES = tests/fake-cuda/account-random-t.c $(account_test)
tests_fake_cuda_account_redirected_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS -DACCOUNT_REDIRECTED
tests_fake_cuda_account_redirected_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_account_redirected_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/account-redirected-t
THREADED_TESTS += tests/fake-cuda/account-redirected-t

check_PROGRAMS += tests/fake-cuda/faults-t
tests_fake_cuda_faults_t_SOURCES = tests/fake-cuda/faults-t.c
tests_fake_cuda_faults_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_faults_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/faults-t

check_LTLIBRARIES += tests/fake-cuda/libinjected.la
tests_fake_cuda_libinjected_la_SOURCES = tests/fake-cuda/injected.c tests/fake-cuda/injected.h tests/gpu/call.h
tests_fake_cuda_libinjected_la_LDFLAGS = -module -avoid-version -shared -rpath /nonexistent
tests_fake_cuda_libinjected_la_LIBADD = -ldl
check_PROGRAMS += tests/fake-cuda/injection-t
tests_fake_cuda_injection_t_SOURCES = tests/fake-cuda/injection-t.c tests/gpu/call.h
tests_fake_cuda_injection_t_CPPFLAGS = $(AM_CPPFLAGS) -DINJECTION_BUILD='"$(abs_top_builddir)"'
tests_fake_cuda_injection_t_LDADD = -ldl
TESTS += tests/fake-cuda/injection-t
TESTS += tests/fake-cuda/runtime-t.sh

check_PROGRAMS += tests/fake-cuda/nvtx-t
tests_fake_cuda_nvtx_t_SOURCES = tests/fake-cuda/nvtx-t.c tests/nvtx-tool.h
tests_fake_cuda_nvtx_t_CPPFLAGS = $(AM_CPPFLAGS) -DNVTX_TOOL='"$(abs_top_builddir)/tests/.libs/nvtx-tool.so"'
tests_fake_cuda_nvtx_t_LDADD = libtidemark.la -ldl
EXTRA_tests_fake_cuda_nvtx_t_DEPENDENCIES = tests/nvtx-tool.la
TESTS += tests/fake-cuda/nvtx-t

check_PROGRAMS += tests/fake-cuda/missing-t
tests_fake_cuda_missing_t_SOURCES = tests/fake-cuda/missing-t.c
tests_fake_cuda_missing_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_fake_cuda_missing_t_LDADD = libtidemark-test.la -ldl
TESTS += tests/fake-cuda/missing-t

check_PROGRAMS += tests/fake-cuda/fork-t
tests_fake_cuda_fork_t_SOURCES = tests/fake-cuda/fork-t.c
tests_fake_cuda_fork_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_fork_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_fork_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/fork-t

check_PROGRAMS += tests/fake-cuda/step-t
tests_fake_cuda_step_t_SOURCES = tests/fake-cuda/step-t.c
tests_fake_cuda_step_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_step_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_step_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/step-t

check_PROGRAMS += tests/fake-cuda/pool-waits-t
tests_fake_cuda_pool_waits_t_SOURCES = tests/fake-cuda/pool-waits-t.c tests/point.c tests/point.h
tests_fake_cuda_pool_waits_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fake_cuda_pool_waits_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_pool_waits_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/pool-waits-t
THREADED_TESTS += tests/fake-cuda/pool-waits-t

check_PROGRAMS += tests/fake-cuda/sim-vmm-t
tests_fake_cuda_sim_vmm_t_SOURCES = tests/fake-cuda/sim-vmm-t.c
tests_fake_cuda_sim_vmm_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_sim_vmm_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/fake-cuda/sim-vmm-t

check_PROGRAMS += tests/fake-cuda/vmm-random-t
tests_fake_cuda_vmm_random_t_SOURCES = tests/fake-cuda/vmm-random-t.c
tests_fake_cuda_vmm_random_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_vmm_random_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/vmm-random-t
THREADED_TESTS += tests/fake-cuda/vmm-random-t

check_PROGRAMS += tests/fake-cuda/vmm-t
tests_fake_cuda_vmm_t_SOURCES = tests/fake-cuda/vmm-t.c
tests_fake_cuda_vmm_t_CFLAGS = $(trace_test_cflags)
tests_fake_cuda_vmm_t_LDADD = $(gpu_helpers) $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/fake-cuda/vmm-t
endif

EXTRA_DIST += tests/fake-cuda/README.md tests/fake-cuda/run tests/fake-cuda/runtime-t.sh
