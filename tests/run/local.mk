# What tests/run-t.sh runs: programs that reach the driver in all ways, and a stand-in for libtidemark that says which
# functions they reached. They need the fake driver to link with.
EXTRA_DIST += tests/run/reach.h tests/run/versioned.map
if RUN
if FAKE_CUDA
run_test_driver = tests/fake-cuda/libcuda.la

check_LTLIBRARIES += tests/run/libstand-in.la
tests_run_libstand_in_la_SOURCES = tests/run/stand-in.c
tests_run_libstand_in_la_LDFLAGS = -module -avoid-version -rpath /nonexistent

# One that is linked with the driver, and is opened by programs.
check_LTLIBRARIES += tests/run/libmodule.la
tests_run_libmodule_la_SOURCES = tests/run/module.c
tests_run_libmodule_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/run
tests_run_libmodule_la_LDFLAGS = -module -avoid-version -rpath /nonexistent
tests_run_libmodule_la_LIBADD = $(run_test_driver) -ldl

check_LTLIBRARIES += tests/run/libother.la
tests_run_libother_la_SOURCES = tests/run/other.c
tests_run_libother_la_LDFLAGS = -module -avoid-version -rpath /nonexistent
tests_run_libother_la_LIBADD = -ldl

check_LTLIBRARIES += tests/run/libauditor.la
tests_run_libauditor_la_SOURCES = tests/run/auditor.c
tests_run_libauditor_la_LDFLAGS = -module -avoid-version -rpath /nonexistent

check_LTLIBRARIES += tests/run/versioned/libcuda.la
tests_run_versioned_libcuda_la_SOURCES = tests/run/versioned.c
tests_run_versioned_libcuda_la_LDFLAGS = -version-info 1:0:0 -rpath /nonexistent \
	-Wl,--version-script=$(top_srcdir)/tests/run/versioned.map

check_LTLIBRARIES += tests/run/libtools.la
tests_run_libtools_la_SOURCES = tests/run/tool.c
tests_run_libtools_la_CPPFLAGS = $(AM_CPPFLAGS)
tests_run_libtools_la_LDFLAGS = -avoid-version -rpath /nonexistent
tests_run_libtools_la_LIBADD = -ldl

# Without libtool's wrapper scripts, which are programs of their own.
check_PROGRAMS += tests/run/reach
tests_run_reach_SOURCES = tests/run/reach.c
tests_run_reach_LDFLAGS = -no-install
tests_run_reach_LDADD = -ldl

check_PROGRAMS += tests/run/checklist
tests_run_checklist_SOURCES = tests/run/checklist.c
tests_run_checklist_LDFLAGS = -no-install
tests_run_checklist_LDADD = $(run_test_driver)

check_PROGRAMS += tests/run/linked
tests_run_linked_SOURCES = tests/run/linked.c
tests_run_linked_CPPFLAGS = $(AM_CPPFLAGS)
tests_run_linked_LDFLAGS = -no-install -Wl,-z,lazy
tests_run_linked_LDADD = $(run_test_driver) tests/run/libtools.la -ldl

check_PROGRAMS += tests/run/linked-now
tests_run_linked_now_SOURCES = tests/run/linked.c
tests_run_linked_now_CPPFLAGS = $(AM_CPPFLAGS)
tests_run_linked_now_LDFLAGS = -no-install -Wl,-z,now
tests_run_linked_now_LDADD = $(run_test_driver) tests/run/libtools.la -ldl

check_PROGRAMS += tests/run/linked-no-plt
tests_run_linked_no_plt_SOURCES = tests/run/linked.c
tests_run_linked_no_plt_CFLAGS = $(AM_CFLAGS) -fno-plt
tests_run_linked_no_plt_LDFLAGS = -no-install
tests_run_linked_no_plt_LDADD = $(run_test_driver) tests/run/libtools.la -ldl

# Its relocations are in one segment with its code, as on aarch64 and with older linkers.
check_PROGRAMS += tests/run/linked-together
tests_run_linked_together_SOURCES = tests/run/linked.c
tests_run_linked_together_CFLAGS = $(AM_CFLAGS) -fno-plt
tests_run_linked_together_LDFLAGS = -no-install -Wl,-z,noseparate-code
tests_run_linked_together_LDADD = $(run_test_driver) tests/run/libtools.la -ldl

# No PIE: loaded where it was linked to be.
check_PROGRAMS += tests/run/linked-fixed
tests_run_linked_fixed_SOURCES = tests/run/linked.c
tests_run_linked_fixed_CPPFLAGS = $(AM_CPPFLAGS) -DLINKED_WITHOUT_DATA
tests_run_linked_fixed_CFLAGS = $(AM_CFLAGS) -fno-plt -fno-pie
tests_run_linked_fixed_LDFLAGS = -no-install -no-pie
tests_run_linked_fixed_LDADD = $(run_test_driver) tests/run/libtools.la -ldl
endif
endif
