# A test in C: check_PROGRAMS, its _SOURCES and _LDADD, TESTS. A script: dist_check_SCRIPTS and TESTS, under `if
# COMMAND` where it runs the command. One that starts threads also goes into THREADED_TESTS, one that a GPU makes
# more of into GPU_TESTS.
EXTRA_DIST += tests/thread-sanitizer.supp \
	tests/anew.h \
	tests/draw.h \
	tests/abi.c \
	tests/data/README.md \
	tests/data/driver-pool.txt \
	tests/data/gpt_train.csv.gz \
	tests/data/maskrcnn_infer.csv.gz \
	tests/data/multistream_sort.csv.gz \
	tests/data/nsys.sql \
	tests/data/pytorch.json \
	tests/data/torch_generate.csv.gz \
	tests/data/torch_gpt2_tags.db.gz \
	tests/mutate \
	tests/mutations \
	tests/tap.h \
	tests/tap.sh

# What takes longest comes first, so that no processor waits for it at the end.
if COMMAND
long_command_tests = \
	tests/metrics-serve-t.sh \
	tests/report-page-t.sh \
	tests/scale-viewer-t.sh \
	tests/report-t.sh \
	tests/recommend-t.sh \
	tests/report-ranks-t.sh \
	tests/run-account-t.sh \
	tests/replay-t.sh \
	tests/replay-threads-t.sh \
	tests/temporary-t.sh \
	tests/recover-t.sh
dist_check_SCRIPTS += $(long_command_tests)
TESTS += $(long_command_tests) tests/fuzz/corpus-t
endif
TESTS += tests/kill-t tests/ringfile-t tests/limit-shared-t tests/claim-t tests/torture-t

house_tests = \
	tests/abi-t.sh \
	tests/bridge-raise-t.sh \
	tests/doc-python-t.sh \
	tests/doc-readme-t.sh \
	tests/doc-stack-text-t.sh \
	tests/headers-t.sh \
	tests/install-t.sh \
	tests/layers-t.sh \
	tests/schema-t.sh \
	tests/symbols-t.sh
dist_check_SCRIPTS += $(house_tests)
TESTS += $(house_tests)

# What many tests share, compiled once. The linker takes of it what a test uses.
check_LTLIBRARIES += tests/libhelpers.la
tests_libhelpers_la_SOURCES = tests/contract.c tests/gate.c tests/trace.c tests/upstream.c
if COMMAND
tests_libhelpers_la_SOURCES += tests/random-trace.c
endif
tests_libhelpers_la_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) $(COMMAND_CFLAGS)
test_helpers = tests/libhelpers.la

if COMMAND
# Not a test: runs a command on a terminal of some columns.
check_PROGRAMS += tests/screen
tests_screen_SOURCES = tests/screen.c

# Not a test: the command without libtool's wrapper script, which takes 13 ms of a processor at each start where the
# command takes 7.
check_PROGRAMS += tests/command/tidemark
tests_command_tidemark_SOURCES =
tests_command_tidemark_LDFLAGS = -no-install
tests_command_tidemark_LDADD = $(tidemark_OBJECTS) $(tidemark_LDADD)
# Of LDADD automake takes libraries alone.
EXTRA_tests_command_tidemark_DEPENDENCIES = $(tidemark_OBJECTS)

# Not tests: make the traces of those below.
check_PROGRAMS += tests/make-trace
tests_make_trace_SOURCES = tests/make-trace.c src/trace/database/schema.c
tests_make_trace_CPPFLAGS = $(AM_CPPFLAGS)
tests_make_trace_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_make_trace_LDADD = $(SQLITE_LIBS)

check_PROGRAMS += tests/id-map-t
tests_id_map_t_SOURCES = tests/id-map-t.c
tests_id_map_t_LDADD = libviewer.la
TESTS += tests/id-map-t

check_PROGRAMS += tests/plan-t
tests_plan_t_SOURCES = tests/plan-t.c bench/plan-flow.c bench/plan-flow.h bench/plan-beam.c bench/plan-beam.h \
	bench/plan-place.c bench/plan-place.h bench/bench.c bench/bench.h
tests_plan_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_plan_t_CFLAGS = $(AM_CFLAGS) -pthread
tests_plan_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)
TESTS += tests/plan-t

check_PROGRAMS += tests/ranking-t
tests_ranking_t_SOURCES = tests/ranking-t.c
tests_ranking_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)
TESTS += tests/ranking-t

check_PROGRAMS += tests/processor-t
tests_processor_t_SOURCES = tests/processor-t.c
tests_processor_t_LDADD = libviewer.la
TESTS += tests/processor-t

check_PROGRAMS += tests/sweep-t
tests_sweep_t_SOURCES = tests/sweep-t.c
tests_sweep_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)
TESTS += tests/sweep-t

check_PROGRAMS += tests/layout-t
tests_layout_t_SOURCES = tests/layout-t.c
tests_layout_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)
TESTS += tests/layout-t

# Its symbols take the place of the clock's in the library.
check_PROGRAMS += tests/replay-pace-t
tests_replay_pace_t_SOURCES = tests/replay-pace-t.c
tests_replay_pace_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)
TESTS += tests/replay-pace-t

check_PROGRAMS += tests/spender
tests_spender_SOURCES = tests/spender.c
tests_spender_LDADD = libtidemark.la
check_PROGRAMS += tests/python-embed
tests_python_embed_SOURCES = tests/python-embed.c
tests_python_embed_LDADD = libtidemark.la -ldl

# Without libtool's wrapper script, since the test looks at the name of the running file.
check_PROGRAMS += tests/callstack-program
tests_callstack_program_SOURCES = tests/callstack-program.c
tests_callstack_program_CFLAGS = $(AM_CFLAGS) -g -fno-omit-frame-pointer -pthread
tests_callstack_program_LDFLAGS = -no-install -Wl,--build-id
tests_callstack_program_LDADD = libtidemark.la -ldl

# Without libtool's wrapper script, since the test kills it.
check_PROGRAMS += tests/pairs
tests_pairs_SOURCES = tests/pairs.c
tests_pairs_LDFLAGS = -no-install
tests_pairs_LDADD = libtidemark.la

# Without libtool's wrapper script, since the test kills it.
check_PROGRAMS += tests/slowly
tests_slowly_SOURCES = tests/slowly.c
tests_slowly_LDFLAGS = -no-install
tests_slowly_LDADD = libtidemark.la

# The same.
check_PROGRAMS += tests/gauge-pages
tests_gauge_pages_SOURCES = tests/gauge-pages.c
tests_gauge_pages_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_gauge_pages_LDFLAGS = -no-install
tests_gauge_pages_LDADD = $(SQLITE_LIBS)

check_PROGRAMS += tests/recording
tests_recording_SOURCES = tests/recording.c
tests_recording_LDADD = libtidemark.la

check_PROGRAMS += tests/scan-t
tests_scan_t_SOURCES = tests/scan-t.c
tests_scan_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_scan_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_scan_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS)
TESTS += tests/scan-t

check_PROGRAMS += tests/table-rows-t
tests_table_rows_t_SOURCES = tests/table-rows-t.c
tests_table_rows_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_table_rows_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_table_rows_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS)
TESTS += tests/table-rows-t

# Compare analyses with brute force, over random traces.
EXTRA_DIST += tests/random-trace.h
random_trace_cppflags = $(AM_CPPFLAGS)
random_trace_cflags = $(AM_CFLAGS) $(SQLITE_CFLAGS) $(COMMAND_CFLAGS)
random_trace_ldadd = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)

# Run commands in the test's process, for their JSON.
EXTRA_DIST += tests/answers.h
check_LTLIBRARIES += tests/libanswers.la
tests_libanswers_la_SOURCES = tests/answers.c $(tidemark_SOURCES)
tests_libanswers_la_CPPFLAGS = $(tidemark_CPPFLAGS) -Dmain=tidemark_main
tests_libanswers_la_CFLAGS = $(tidemark_CFLAGS)
answers_ldadd = tests/libanswers.la $(tidemark_LDADD)

check_PROGRAMS += tests/no-symbols-t
tests_no_symbols_t_SOURCES = tests/no-symbols-t.c
tests_no_symbols_t_CFLAGS = $(trace_test_cflags)
tests_no_symbols_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/no-symbols-t

check_PROGRAMS += tests/event-tables-t
tests_event_tables_t_SOURCES = tests/event-tables-t.c
tests_event_tables_t_CPPFLAGS = $(random_trace_cppflags)
tests_event_tables_t_CFLAGS = $(random_trace_cflags)
tests_event_tables_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/event-tables-t

check_PROGRAMS += tests/fragment-t
tests_fragment_t_SOURCES = tests/fragment-t.c
tests_fragment_t_CPPFLAGS = $(random_trace_cppflags)
tests_fragment_t_CFLAGS = $(random_trace_cflags)
tests_fragment_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/fragment-t

check_PROGRAMS += tests/diff-t
tests_diff_t_SOURCES = tests/diff-t.c
tests_diff_t_CPPFLAGS = $(random_trace_cppflags)
tests_diff_t_CFLAGS = $(random_trace_cflags)
tests_diff_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/diff-t

check_PROGRAMS += tests/failures-t
tests_failures_t_SOURCES = tests/failures-t.c
tests_failures_t_CPPFLAGS = $(random_trace_cppflags)
tests_failures_t_CFLAGS = $(random_trace_cflags)
tests_failures_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/failures-t

check_PROGRAMS += tests/leaks-t
tests_leaks_t_SOURCES = tests/leaks-t.c
tests_leaks_t_CPPFLAGS = $(random_trace_cppflags)
tests_leaks_t_CFLAGS = $(random_trace_cflags)
tests_leaks_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/leaks-t

check_PROGRAMS += tests/tally-t
tests_tally_t_SOURCES = tests/tally-t.c
tests_tally_t_CPPFLAGS = $(random_trace_cppflags)
tests_tally_t_CFLAGS = $(random_trace_cflags)
tests_tally_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/tally-t

check_PROGRAMS += tests/layer-graph-t
tests_layer_graph_t_SOURCES = tests/layer-graph-t.c
tests_layer_graph_t_CPPFLAGS = $(random_trace_cppflags)
tests_layer_graph_t_CFLAGS = $(random_trace_cflags)
tests_layer_graph_t_LDADD = $(test_helpers) libviewer.la libtidemark-test.la $(SQLITE_LIBS) $(COMMAND_LIBS)
TESTS += tests/layer-graph-t

check_PROGRAMS += tests/reserved-random-t
tests_reserved_random_t_SOURCES = tests/reserved-random-t.c
tests_reserved_random_t_CPPFLAGS = $(random_trace_cppflags)
tests_reserved_random_t_CFLAGS = $(random_trace_cflags)
tests_reserved_random_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/reserved-random-t

check_PROGRAMS += tests/reserved-killed-t
tests_reserved_killed_t_SOURCES = tests/reserved-killed-t.c
tests_reserved_killed_t_CPPFLAGS = $(random_trace_cppflags)
tests_reserved_killed_t_CFLAGS = $(random_trace_cflags)
tests_reserved_killed_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/reserved-killed-t

check_PROGRAMS += tests/imported-random-t
tests_imported_random_t_SOURCES = tests/imported-random-t.c
tests_imported_random_t_CPPFLAGS = $(random_trace_cppflags)
tests_imported_random_t_CFLAGS = $(random_trace_cflags)
tests_imported_random_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/imported-random-t

# Many more random traces than `make check` has; ROUNDS sets their number, and each test prints its seed.
agree_tests = tests/reserved-random-t tests/reserved-killed-t tests/imported-random-t tests/failures-t
agree: $(agree_tests)
	for test in $(agree_tests); do ROUNDS=$${ROUNDS:-5000} $$test || exit 1; done

check_PROGRAMS += tests/rollup-t
tests_rollup_t_SOURCES = tests/rollup-t.c
tests_rollup_t_CPPFLAGS = $(random_trace_cppflags)
tests_rollup_t_CFLAGS = $(random_trace_cflags)
tests_rollup_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/rollup-t
check_PROGRAMS += tests/ranks-cut-t
tests_ranks_cut_t_SOURCES = tests/ranks-cut-t.c
tests_ranks_cut_t_CPPFLAGS = $(random_trace_cppflags)
tests_ranks_cut_t_CFLAGS = $(random_trace_cflags)
tests_ranks_cut_t_LDADD = $(test_helpers) $(answers_ldadd)
TESTS += tests/ranks-cut-t

check_PROGRAMS += tests/fit-t
tests_fit_t_SOURCES = tests/fit-t.c
tests_fit_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_fit_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_fit_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS)
TESTS += tests/fit-t

check_PROGRAMS += tests/scan-lanes-t
tests_scan_lanes_t_SOURCES = tests/scan-lanes-t.c
tests_scan_lanes_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_scan_lanes_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_scan_lanes_t_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS)
TESTS += tests/scan-lanes-t
THREADED_TESTS += tests/scan-lanes-t

check_PROGRAMS += tests/joint-t
tests_joint_t_SOURCES = tests/joint-t.c
tests_joint_t_CPPFLAGS = $(random_trace_cppflags)
tests_joint_t_CFLAGS = $(random_trace_cflags)
tests_joint_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/joint-t
THREADED_TESTS += tests/joint-t

check_PROGRAMS += tests/timeline-t
tests_timeline_t_SOURCES = tests/timeline-t.c
tests_timeline_t_CPPFLAGS = $(random_trace_cppflags)
tests_timeline_t_CFLAGS = $(random_trace_cflags)
tests_timeline_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/timeline-t

check_PROGRAMS += tests/peak-t
tests_peak_t_SOURCES = tests/peak-t.c
tests_peak_t_CPPFLAGS = $(random_trace_cppflags)
tests_peak_t_CFLAGS = $(random_trace_cflags)
tests_peak_t_LDADD = $(test_helpers) $(random_trace_ldadd)
TESTS += tests/peak-t

command_tests = \
	tests/bench-plan-t.sh \
	tests/bench-recommend-t.sh \
	tests/answers-t.sh \
	tests/any-trace-t.sh \
	tests/bad-trace-t.sh \
	tests/check-job-t.sh \
	tests/check-t.sh \
	tests/clickhouse-t.sh \
	tests/completion-t.sh \
	tests/data-t.sh \
	tests/callstacks-t.sh \
	tests/device-use-t.sh \
	tests/devices-t.sh \
	tests/doc-commands-t.sh \
	tests/export-t.sh \
	tests/filters-t.sh \
	tests/formats-t.sh \
	tests/grouping-t.sh \
	tests/tags-t.sh \
	tests/training-t.sh \
	tests/growth-t.sh \
	tests/import-t.sh \
	tests/json-t.sh \
	tests/narrow-t.sh \
	tests/pickle-t.sh \
	tests/python-stacks-t.sh \
	tests/live-t.sh \
	tests/metrics-t.sh \
	tests/pool-replay-t.sh \
	tests/query-t.sh \
	tests/ranks-t.sh \
	tests/shared-folder-t.sh \
	tests/refusals-t.sh \
	tests/stack-text-t.sh \
	tests/mutations-t.sh \
	tests/page-strip-t.sh \
	tests/report-corpus-t.sh \
	tests/reserved-t.sh \
	tests/run-checklist-t.sh \
	tests/run-t.sh \
	tests/shown-t.sh \
	tests/summary-t.sh \
	tests/tables-t.sh \
	tests/watch-t.sh
dist_check_SCRIPTS += $(command_tests)
TESTS += $(command_tests)

# The pages of all traces that fuzzing has found, not of a few of them.
.PHONY: check-pages
check-pages:
	REPORT_CORPUS=all $(MAKE) $(AM_MAKEFLAGS) check TESTS=tests/report-corpus-t.sh \
		check_PROGRAMS="tests/fuzz/corpus-t tests/command/tidemark"

EXTRA_DIST += tests/clickhouse.js
EXTRA_DIST += tests/metrics.py tests/metrics-clients.py tests/metrics-rules-test.yml
EXTRA_DIST += tests/formats.py tests/json-fields.py tests/python-stacks.py tests/report-browser.sh tests/report-model.py \
	tests/report-page.py tests/report-ranks-model.py
EXTRA_DIST += tests/replay.sh
THREADED_TESTS += tests/replay-threads-t.sh
endif

.PHONY: agree
dist_check_SCRIPTS += tests/bench-torch-t.sh
TESTS += tests/bench-torch-t.sh
EXTRA_DIST += tests/fake-torch/torch/__init__.py tests/fake-torch/torch/_nn.py

# The Python package.
EXTRA_DIST += \
	tests/fake-arrays/cupy/__init__.py \
	tests/fake-arrays/cupy/cuda.py \
	tests/fake-arrays/numba/__init__.py \
	tests/fake-arrays/numba/cuda/__init__.py \
	tests/fake-arrays/numba/cuda/cudadrv/__init__.py \
	tests/fake-arrays/numba/cuda/cudadrv/devices.py \
	tests/fake-arrays/numba/cuda/cudadrv/driver.py \
	tests/python-package.py \
	tests/python.sh \
	tests/tap.py
python_tests = \
	tests/python-frameworks-t.sh \
	tests/python-install-t.sh \
	tests/python-package-t.sh \
	tests/python-pytest-t.sh \
	tests/python-ranks-t.sh \
	tests/python-run-t.sh \
	tests/python-speed-t.sh \
	tests/python-torch-t.sh
dist_check_SCRIPTS += $(python_tests)
TESTS += $(python_tests)

include tests/fuzz/local.mk

EXTRA_DIST += \
	tests/contract.h \
	tests/find.h \
	tests/limit-used.h \
	tests/upstream.h

# For every test of a resource.

check_PROGRAMS += tests/contract-t
tests_contract_t_SOURCES = tests/contract-t.c
tests_contract_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/contract-t
THREADED_TESTS += tests/contract-t

check_PROGRAMS += tests/kinds-t
tests_kinds_t_SOURCES = tests/kinds-t.c
tests_kinds_t_LDADD = libtidemark-test.la
TESTS += tests/kinds-t

check_PROGRAMS += tests/contract-all-t
tests_contract_all_t_SOURCES = tests/contract-all-t.c
tests_contract_all_t_CFLAGS = $(trace_test_cflags)
tests_contract_all_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/contract-all-t
THREADED_TESTS += tests/contract-all-t

check_PROGRAMS += tests/status-t
tests_status_t_SOURCES = tests/status-t.c
tests_status_t_LDADD = libtidemark.la
TESTS += tests/status-t

check_PROGRAMS += tests/version-t
tests_version_t_SOURCES = tests/version-t.c
tests_version_t_LDADD = libtidemark.la
TESTS += tests/version-t

check_PROGRAMS += tests/visible-t
tests_visible_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_visible_t_SOURCES = tests/visible-t.c src/resource/visible.c
TESTS += tests/visible-t

# Of the static library: a set-uid program does not find a shared one in a folder that its user cannot read.
check_PROGRAMS += tests/secure-t
tests_secure_t_SOURCES = tests/secure-t.c
tests_secure_t_LDADD = libtidemark-test.la
TESTS += tests/secure-t

check_PROGRAMS += tests/text-t
tests_text_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_text_t_SOURCES = tests/text-t.c src/resource/text.c src/resource/visible.c src/sync/fork.c src/sync/thread.c
TESTS += tests/text-t

check_PROGRAMS += tests/message-t
tests_message_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_message_t_SOURCES = tests/message-t.c src/resource/message.c src/resource/visible.c src/sync/fork.c src/sync/thread.c
TESTS += tests/message-t
THREADED_TESTS += tests/message-t

check_PROGRAMS += tests/resource-t
tests_resource_t_SOURCES = tests/resource-t.c
tests_resource_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/resource-t
THREADED_TESTS += tests/resource-t

check_PROGRAMS += tests/host-t
tests_host_t_SOURCES = tests/host-t.c
tests_host_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/host-t
THREADED_TESTS += tests/host-t

check_PROGRAMS += tests/sim-t
tests_sim_t_SOURCES = tests/sim-t.c
tests_sim_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/sim-t
THREADED_TESTS += tests/sim-t

check_PROGRAMS += tests/sim-mempool-t
tests_sim_mempool_t_SOURCES = tests/sim-mempool-t.c
tests_sim_mempool_t_LDADD = $(test_helpers) libtidemark-test.la
TESTS += tests/sim-mempool-t

# Replaces adaptors/kinds.c.
check_PROGRAMS += tests/stack-t
tests_stack_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_stack_t_SOURCES = tests/stack-t.c src/stack/build.c \
	src/stack/error.c src/stack/layers.c src/stack/lex.c src/stack/parse.c \
	src/stack/value.c src/resource/calls.c src/resource/interrupted.c src/resource/kind.c src/resource/message.c \
	src/resource/resource.c src/resource/visible.c src/resource/text.c src/sync/fork.c src/sync/thread.c
tests_stack_t_LDADD = $(test_helpers)
TESTS += tests/stack-t

check_PROGRAMS += tests/stack-mistakes-t
tests_stack_mistakes_t_LDADD = libtidemark.la
TESTS += tests/stack-mistakes-t

check_PROGRAMS += tests/stack-check-t
tests_stack_check_t_SOURCES = tests/stack-check-t.c tests/random-stack.c
tests_stack_check_t_LDADD = $(test_helpers) libtidemark-test.la
TESTS += tests/stack-check-t

# Replaces src/cuda/driver-load.c by a driver of its own, so that it needs neither a GPU nor the library.
check_PROGRAMS += tests/driver-t
tests_driver_t_SOURCES = \
	src/cuda/device-query.c \
	src/cuda/device.c \
	src/bases/none.c \
	src/bases/driver/pool.c \
	src/bases/driver/share.c \
	src/cuda/driver-table.c \
	src/bases/driver/driver.c \
	src/cuda/marks.c \
	src/tables/blocks.c \
	src/bases/unpooled.c \
	src/sync/barrier.c \
	src/sync/fork.c \
	src/sync/lock.c \
	src/resource/kind.c \
	src/sync/thread.c \
	src/resource/message.c src/resource/visible.c \
	src/resource/calls.c \
	src/resource/interrupted.c \
	src/resource/resource.c \
	src/resource/status.c \
	src/resource/text.c \
	tests/driver-fake.h \
	tests/driver-t.c
tests_driver_t_CPPFLAGS = $(AM_CPPFLAGS)
TESTS += tests/driver-t

check_PROGRAMS += tests/driver-load-t
tests_driver_load_t_SOURCES = tests/driver-load-t.c
tests_driver_load_t_LDADD = libtidemark.la -ldl
TESTS += tests/driver-load-t

# For the tests of the adaptors.
EXTRA_DIST += \
	tests/bases.h \
	tests/gate.h \
	tests/texts.h


check_PROGRAMS += tests/statistics-t
tests_statistics_t_SOURCES = tests/statistics-t.c
tests_statistics_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/statistics-t
THREADED_TESTS += tests/statistics-t

check_PROGRAMS += tests/limit-shared-t
tests_limit_shared_t_SOURCES = tests/limit-shared-t.c tests/point.c
tests_limit_shared_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_limit_shared_t_LDADD = $(test_helpers) libtidemark-test.la
THREADED_TESTS += tests/limit-shared-t

check_PROGRAMS += tests/limit-t
tests_limit_t_SOURCES = tests/limit-t.c
tests_limit_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/limit-t
THREADED_TESTS += tests/limit-t

check_PROGRAMS += tests/second-thread-t
tests_second_thread_t_SOURCES = tests/second-thread-t.c
tests_second_thread_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/second-thread-t
THREADED_TESTS += tests/second-thread-t

check_PROGRAMS += tests/fixed-t
tests_fixed_t_SOURCES = tests/fixed-t.c
tests_fixed_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/fixed-t
THREADED_TESTS += tests/fixed-t

check_PROGRAMS += tests/fixed-shards-t
tests_fixed_shards_t_SOURCES = tests/fixed-shards-t.c
tests_fixed_shards_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/fixed-shards-t
THREADED_TESTS += tests/fixed-shards-t

check_PROGRAMS += tests/no-room-t
tests_no_room_t_LDADD = libtidemark.la
TESTS += tests/no-room-t

check_PROGRAMS += tests/monotonic-t
tests_monotonic_t_SOURCES = tests/monotonic-t.c
tests_monotonic_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/monotonic-t
THREADED_TESTS += tests/monotonic-t

check_PROGRAMS += tests/fixed-streams-t
tests_fixed_streams_t_SOURCES = tests/fixed-streams-t.c
tests_fixed_streams_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/fixed-streams-t

check_PROGRAMS += tests/binning-t
tests_binning_t_SOURCES = tests/binning-t.c
tests_binning_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/binning-t
THREADED_TESTS += tests/binning-t

check_PROGRAMS += tests/arena-t
tests_arena_t_SOURCES = tests/arena-t.c
tests_arena_t_CFLAGS = $(trace_test_cflags)
tests_arena_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/arena-t
THREADED_TESTS += tests/arena-t

check_PROGRAMS += tests/aligned-t
tests_aligned_t_SOURCES = tests/aligned-t.c
tests_aligned_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/aligned-t
THREADED_TESTS += tests/aligned-t

check_PROGRAMS += tests/callback-t
tests_callback_t_SOURCES = tests/callback-t.c
tests_callback_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/callback-t
THREADED_TESTS += tests/callback-t

check_PROGRAMS += tests/retry-t
tests_retry_t_SOURCES = tests/retry-t.c
tests_retry_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/retry-t
THREADED_TESTS += tests/retry-t

check_PROGRAMS += tests/guard-threads-t
tests_guard_threads_t_SOURCES = tests/guard-threads-t.c
tests_guard_threads_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/guard-threads-t
THREADED_TESTS += tests/guard-threads-t

check_PROGRAMS += tests/guard-t
tests_guard_t_SOURCES = tests/guard-t.c
tests_guard_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/guard-t
THREADED_TESTS += tests/guard-t

check_PROGRAMS += tests/fallback-t
tests_fallback_t_SOURCES = tests/fallback-t.c
tests_fallback_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/fallback-t
THREADED_TESTS += tests/fallback-t

check_PROGRAMS += tests/fault-layer-t
tests_fault_layer_t_SOURCES = tests/fault-layer-t.c
tests_fault_layer_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/fault-layer-t
THREADED_TESTS += tests/fault-layer-t

check_PROGRAMS += tests/pool-t
tests_pool_t_SOURCES = tests/pool-t.c tests/pool.h
tests_pool_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-t
THREADED_TESTS += tests/pool-t

check_PROGRAMS += tests/pool-threads-t
tests_pool_threads_t_SOURCES = tests/pool-threads-t.c tests/pool.h
tests_pool_threads_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-threads-t
THREADED_TESTS += tests/pool-threads-t

check_PROGRAMS += tests/pool-pages-t
tests_pool_pages_t_SOURCES = tests/pool-pages-t.c
tests_pool_pages_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-pages-t

check_PROGRAMS += tests/pool-pages-threads-t
tests_pool_pages_threads_t_SOURCES = tests/pool-pages-threads-t.c tests/point.c
tests_pool_pages_threads_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_pool_pages_threads_t_LDADD = $(test_helpers) libtidemark-test.la
TESTS += tests/pool-pages-threads-t
THREADED_TESTS += tests/pool-pages-threads-t

check_PROGRAMS += tests/pool-gone-t
tests_pool_gone_t_SOURCES = tests/pool-gone-t.c tests/pool.h tests/point.c
tests_pool_gone_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_pool_gone_t_LDADD = $(test_helpers) libtidemark-test.la
TESTS += tests/pool-gone-t
THREADED_TESTS += tests/pool-gone-t

check_PROGRAMS += tests/pool-units-t
tests_pool_units_t_SOURCES = tests/pool-units-t.c
tests_pool_units_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-units-t

check_PROGRAMS += tests/pool-decay-t
tests_pool_decay_t_SOURCES = tests/pool-decay-t.c
tests_pool_decay_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-decay-t

check_PROGRAMS += tests/server-day-t
tests_server_day_t_SOURCES = tests/server-day-t.c tests/server-day.c tests/server-day.h
tests_server_day_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/server-day-t

check_PROGRAMS += tests/pool-streams-t
tests_pool_streams_t_SOURCES = tests/pool-streams-t.c
tests_pool_streams_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-streams-t

check_PROGRAMS += tests/storm-t
tests_storm_t_SOURCES = tests/storm-t.c
tests_storm_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/storm-t
THREADED_TESTS += tests/storm-t

check_PROGRAMS += tests/pool-model-t
tests_pool_model_t_SOURCES = tests/pool-model-t.c
tests_pool_model_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/pool-model-t
THREADED_TESTS += tests/pool-model-t

# Random stacks; `make random` has many more.
EXTRA_DIST += tests/random-stack.h tests/random-stack-model.h tests/random-stack-trace.h
check_PROGRAMS += tests/random-stack-t
tests_random_stack_t_SOURCES = tests/random-stack-t.c tests/random-stack.c tests/random-stack-model.c \
	tests/random-stack-trace.c
tests_random_stack_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_random_stack_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/random-stack-t
THREADED_TESTS += tests/random-stack-t

.PHONY: random
random: tests/random-stack-t
	RANDOM_STACK_ROUNDS=$${RANDOM_STACK_ROUNDS:-2000} RANDOM_STACK_STEPS=$${RANDOM_STACK_STEPS:-20000} \
		tests/random-stack-t

# Linked with the sources that they test, which the library does not export.
EXTRA_DIST += tests/guard.h tests/guarded.h
lock_test = src/sync/barrier.c src/sync/fork.c src/sync/lock.c src/sync/thread.c

check_PROGRAMS += tests/lock-t
tests_lock_t_SOURCES = tests/lock-t.c $(lock_test)
tests_lock_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_lock_t_LDADD = -lpthread
TESTS += tests/lock-t
THREADED_TESTS += tests/lock-t

check_PROGRAMS += tests/lock-fork-t
tests_lock_fork_t_SOURCES = tests/lock-fork-t.c $(lock_test)
tests_lock_fork_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_lock_fork_t_LDADD = -lpthread
TESTS += tests/lock-fork-t
THREADED_TESTS += tests/lock-fork-t

check_PROGRAMS += tests/range-t
tests_range_t_SOURCES = tests/range-t.c src/suballoc/fit.c src/suballoc/heap.c \
	src/suballoc/piece-map.c src/suballoc/range.c src/suballoc/slab.c src/suballoc/streams.c src/tables/map.c
tests_range_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_range_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/range-t

check_PROGRAMS += tests/chunk-heap-t
tests_chunk_heap_t_SOURCES = tests/chunk-heap-t.c
tests_chunk_heap_t_LDADD = libtidemark-test.la
TESTS += tests/chunk-heap-t

check_PROGRAMS += tests/heap-t
tests_heap_t_SOURCES = tests/heap-t.c src/suballoc/fit.c src/suballoc/heap.c \
	src/suballoc/leaving.c src/suballoc/piece-map.c src/suballoc/slab.c src/suballoc/streams.c src/tables/map.c
tests_heap_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_heap_t_LDADD = $(test_helpers) libtidemark.la
TESTS += tests/heap-t

check_PROGRAMS += tests/cache-t
tests_cache_t_SOURCES = tests/cache-t.c tests/point.c tests/bases.h
tests_cache_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_cache_t_LDADD = libtidemark-test.la
TESTS += tests/cache-t
THREADED_TESTS += tests/cache-t

check_PROGRAMS += tests/piece-map-t
tests_piece_map_t_SOURCES = tests/piece-map-t.c src/suballoc/piece-map.c src/suballoc/slab.c
tests_piece_map_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_piece_map_t_LDADD = -lpthread
TESTS += tests/piece-map-t
THREADED_TESTS += tests/piece-map-t

check_PROGRAMS += tests/fork-t
tests_fork_t_SOURCES = tests/fork-t.c src/sync/fork.c
tests_fork_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_fork_t_LDADD = -lpthread
TESTS += tests/fork-t

check_PROGRAMS += tests/thread-t
tests_thread_t_SOURCES = tests/thread-t.c
tests_thread_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_thread_t_LDADD = libtidemark-test.la
TESTS += tests/thread-t
THREADED_TESTS += tests/thread-t

# A module with -rpath is a shared object, even if it is not installed.
check_LTLIBRARIES += tests/libstatic-tls.la
tests_libstatic_tls_la_SOURCES = tests/static-tls.c
tests_libstatic_tls_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
check_PROGRAMS += tests/dlopen-t
tests_dlopen_t_SOURCES = tests/dlopen-t.c
tests_dlopen_t_CPPFLAGS = $(AM_CPPFLAGS) -DDLOPEN_BUILD='"$(abs_top_builddir)"'
tests_dlopen_t_LDADD = -ldl -lpthread
TESTS += tests/dlopen-t

check_PROGRAMS += tests/slots-t
tests_slots_t_SOURCES = tests/slots-t.c src/sync/slots.c $(lock_test)
tests_slots_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_slots_t_LDADD = -lpthread
TESTS += tests/slots-t
THREADED_TESTS += tests/slots-t

include tests/fake-cuda/local.mk
include tests/gpu/local.mk

# Reads the page whose tables it compares.
check_PROGRAMS += tests/ringfile-layout-t
tests_ringfile_layout_t_SOURCES = tests/ringfile-layout-t.c
tests_ringfile_layout_t_CPPFLAGS = $(AM_CPPFLAGS)
TESTS += tests/ringfile-layout-t

# For the tests of the recorder.
EXTRA_DIST += tests/point.h tests/sanitized.h tests/trace.h tests/vfs.h

trace_test_cppflags = $(AM_CPPFLAGS)
trace_test_cflags = $(AM_CFLAGS) $(SQLITE_CFLAGS)

check_PROGRAMS += tests/bus-t
tests_bus_t_SOURCES = tests/bus-t.c
tests_bus_t_CFLAGS = $(trace_test_cflags)
tests_bus_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/bus-t

check_PROGRAMS += tests/bus-page-t
tests_bus_page_t_SOURCES = tests/bus-page-t.c
tests_bus_page_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_bus_page_t_CFLAGS = $(trace_test_cflags)
tests_bus_page_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/bus-page-t

check_PROGRAMS += tests/full-disk-t
tests_full_disk_t_SOURCES = tests/full-disk-t.c
tests_full_disk_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_full_disk_t_CFLAGS = $(trace_test_cflags)
tests_full_disk_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/full-disk-t
THREADED_TESTS += tests/full-disk-t

# As many threads at once as there are rings, and more.
check_PROGRAMS += tests/rings-t
tests_rings_t_SOURCES = tests/rings-t.c
tests_rings_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_rings_t_CFLAGS = $(trace_test_cflags)
tests_rings_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/rings-t
THREADED_TESTS += tests/rings-t

check_PROGRAMS += tests/refusal-t
tests_refusal_t_SOURCES = tests/refusal-t.c
tests_refusal_t_CFLAGS = $(trace_test_cflags)
tests_refusal_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/refusal-t

check_PROGRAMS += tests/scale-t
tests_scale_t_SOURCES = tests/scale-t.c
tests_scale_t_CFLAGS = $(trace_test_cflags)
tests_scale_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/scale-t
THREADED_TESTS += tests/scale-t

# All layers that a trace can number, 20,000 threads over its life, and as many at once as there are rings.
.PHONY: scale
scale: tests/scale-t tests/rings-t
	SCALE_LAYERS=65535 SCALE_THREADS=20000 tests/scale-t
	SCALE_RINGS=4096 tests/rings-t

check_PROGRAMS += tests/recorder-t
tests_recorder_t_SOURCES = tests/recorder-t.c
tests_recorder_t_CFLAGS = $(trace_test_cflags)
tests_recorder_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/recorder-t
THREADED_TESTS += tests/recorder-t

# Damages the files that a killed program has left.
check_PROGRAMS += tests/ringfile-t
tests_ringfile_t_SOURCES = tests/ringfile-t.c tests/left-behind.c tests/left-behind.h
tests_ringfile_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_ringfile_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
tests_ringfile_t_LDADD = libtidemark.la $(SQLITE_LIBS)

check_PROGRAMS += tests/log-t
tests_log_t_SOURCES = tests/log-t.c
tests_log_t_CFLAGS = $(trace_test_cflags)
tests_log_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/log-t

check_PROGRAMS += tests/process-t
tests_process_t_SOURCES = tests/process-t.c
tests_process_t_CFLAGS = $(trace_test_cflags)
tests_process_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/process-t

check_PROGRAMS += tests/creation-t
tests_creation_t_SOURCES = tests/creation-t.c
tests_creation_t_CFLAGS = $(trace_test_cflags)
tests_creation_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/creation-t

check_PROGRAMS += tests/claim-t
tests_claim_t_SOURCES = tests/claim-t.c
tests_claim_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_claim_t_CFLAGS = $(trace_test_cflags)
tests_claim_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl

check_PROGRAMS += tests/closed-t
tests_closed_t_SOURCES = tests/closed-t.c
tests_closed_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_closed_t_CFLAGS = $(trace_test_cflags)
tests_closed_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/closed-t

# These stop at test points.
point_test = tests/point.c

check_PROGRAMS += tests/lives-killed-t
tests_lives_killed_t_SOURCES = tests/lives-killed-t.c $(point_test)
tests_lives_killed_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_lives_killed_t_CFLAGS = $(trace_test_cflags)
tests_lives_killed_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/lives-killed-t

check_PROGRAMS += tests/skew-t
tests_skew_t_SOURCES = tests/skew-t.c $(point_test)
tests_skew_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_skew_t_CFLAGS = $(trace_test_cflags)
tests_skew_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/skew-t
THREADED_TESTS += tests/skew-t

check_PROGRAMS += tests/merge-t
tests_merge_t_SOURCES = tests/merge-t.c $(point_test)
tests_merge_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_merge_t_CFLAGS = $(trace_test_cflags)
tests_merge_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/merge-t
THREADED_TESTS += tests/merge-t

check_PROGRAMS += tests/protect-fork-t
tests_protect_fork_t_SOURCES = tests/protect-fork-t.c
tests_protect_fork_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_protect_fork_t_LDADD = libtidemark-test.la -lpthread
TESTS += tests/protect-fork-t
THREADED_TESTS += tests/protect-fork-t

check_PROGRAMS += tests/chunks-t
tests_chunks_t_SOURCES = tests/chunks-t.c
tests_chunks_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_chunks_t_CFLAGS = $(trace_test_cflags)
tests_chunks_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/chunks-t
THREADED_TESTS += tests/chunks-t

check_PROGRAMS += tests/later-bins-t
tests_later_bins_t_SOURCES = tests/later-bins-t.c
tests_later_bins_t_CPPFLAGS = $(trace_test_cppflags)
tests_later_bins_t_CFLAGS = $(trace_test_cflags)
tests_later_bins_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/later-bins-t
THREADED_TESTS += tests/later-bins-t

check_PROGRAMS += tests/own-query-t
tests_own_query_t_SOURCES = tests/own-query-t.c
tests_own_query_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_own_query_t_CFLAGS = $(trace_test_cflags)
tests_own_query_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/own-query-t

check_PROGRAMS += tests/exit-t
tests_exit_t_SOURCES = tests/exit-t.c
tests_exit_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_exit_t_CFLAGS = $(trace_test_cflags)
tests_exit_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/exit-t

check_PROGRAMS += tests/signal-t
tests_signal_t_SOURCES = tests/signal-t.c
tests_signal_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_signal_t_CFLAGS = $(trace_test_cflags)
tests_signal_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/signal-t
THREADED_TESTS += tests/signal-t

check_PROGRAMS += tests/sampler-t
tests_sampler_t_SOURCES = tests/sampler-t.c
tests_sampler_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_sampler_t_CFLAGS = $(trace_test_cflags)
tests_sampler_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/sampler-t
THREADED_TESTS += tests/sampler-t

check_PROGRAMS += tests/counts-t
tests_counts_t_SOURCES = tests/counts-t.c tests/point.c
tests_counts_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_counts_t_CFLAGS = $(trace_test_cflags)
tests_counts_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/counts-t

check_PROGRAMS += tests/layer-count-t
tests_layer_count_t_SOURCES = tests/layer-count-t.c
tests_layer_count_t_CPPFLAGS = $(trace_test_cppflags)
tests_layer_count_t_CFLAGS = $(trace_test_cflags)
tests_layer_count_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/layer-count-t
THREADED_TESTS += tests/layer-count-t

check_PROGRAMS += tests/overflow-t
tests_overflow_t_SOURCES = tests/overflow-t.c $(point_test)
tests_overflow_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_overflow_t_CFLAGS = $(trace_test_cflags)
tests_overflow_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/overflow-t
THREADED_TESTS += tests/overflow-t

check_PROGRAMS += tests/event-calls-t
tests_event_calls_t_SOURCES = tests/event-calls-t.c
tests_event_calls_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_event_calls_t_CFLAGS = $(trace_test_cflags)
tests_event_calls_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/event-calls-t

check_PROGRAMS += tests/kill-t
tests_kill_t_SOURCES = tests/kill-t.c $(point_test)
tests_kill_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_kill_t_CFLAGS = $(trace_test_cflags)
tests_kill_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)

check_PROGRAMS += tests/fault-t
tests_fault_t_SOURCES = tests/fault-t.c tests/vfs.c
tests_fault_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_fault_t_CFLAGS = $(trace_test_cflags)
tests_fault_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/fault-t
THREADED_TESTS += tests/fault-t

check_PROGRAMS += tests/counters-t
tests_counters_t_SOURCES = tests/counters-t.c tests/point.c
tests_counters_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_counters_t_LDADD = $(test_helpers) libtidemark-test.la
TESTS += tests/counters-t
THREADED_TESTS += tests/counters-t

# With frame pointers, without them, and without unwind tables, whatever the compiler's defaults are.
EXTRA_DIST += tests/callstack-chain.h
check_LTLIBRARIES += tests/libchain-with.la tests/libchain-without.la tests/libchain-no-tables.la
tests_libchain_with_la_SOURCES = tests/callstack-chain.c
tests_libchain_with_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAIN_RUN=chain_with_pointers
tests_libchain_with_la_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer
tests_libchain_without_la_SOURCES = tests/callstack-chain.c
tests_libchain_without_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAIN_RUN=chain_without_pointers
tests_libchain_without_la_CFLAGS = $(AM_CFLAGS) -fomit-frame-pointer
tests_libchain_no_tables_la_SOURCES = tests/callstack-chain.c
tests_libchain_no_tables_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAIN_RUN=chain_without_tables
tests_libchain_no_tables_la_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer -fno-unwind-tables \
	-fno-asynchronous-unwind-tables -fno-exceptions

check_PROGRAMS += tests/callstack-t
tests_callstack_t_SOURCES = tests/callstack-t.c tests/point.c
tests_callstack_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_callstack_t_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer
tests_callstack_t_LDADD = tests/libchain-with.la tests/libchain-without.la tests/libchain-no-tables.la \
	libtidemark-test.la
TESTS += tests/callstack-t
THREADED_TESTS += tests/callstack-t

check_PROGRAMS += tests/resolve-t
tests_resolve_t_SOURCES = tests/resolve-t.c
tests_resolve_t_CFLAGS = $(trace_test_cflags)
tests_resolve_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/resolve-t

check_PROGRAMS += tests/track-table-t
tests_track_table_t_SOURCES = tests/track-table-t.c $(point_test)
tests_track_table_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_track_table_t_CFLAGS = $(trace_test_cflags)
tests_track_table_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/track-table-t
THREADED_TESTS += tests/track-table-t
EXTRA_DIST += tests/track-blocks.h

check_PROGRAMS += tests/track-memory-t
tests_track_memory_t_SOURCES = tests/track-memory-t.c
tests_track_memory_t_CPPFLAGS = $(trace_test_cppflags)
tests_track_memory_t_CFLAGS = $(trace_test_cflags)
tests_track_memory_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -ldl
TESTS += tests/track-memory-t

check_PROGRAMS += tests/track-t
tests_track_t_SOURCES = tests/track-t.c
tests_track_t_CFLAGS = $(trace_test_cflags) -fno-omit-frame-pointer
tests_track_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
TESTS += tests/track-t
THREADED_TESTS += tests/track-t

check_PROGRAMS += tests/elf-t
tests_elf_t_SOURCES = tests/elf-t.c
tests_elf_t_LDADD = libtidemark-test.la
TESTS += tests/elf-t

check_PROGRAMS += tests/lives-t
tests_lives_t_SOURCES = tests/lives-t.c
tests_lives_t_LDADD = libtidemark-test.la
TESTS += tests/lives-t

check_PROGRAMS += tests/pair-t
tests_pair_t_SOURCES = tests/pair-t.c
tests_pair_t_LDADD = libtidemark-test.la
TESTS += tests/pair-t

check_PROGRAMS += tests/gauge-t
tests_gauge_t_SOURCES = tests/gauge-t.c
tests_gauge_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_gauge_t_CFLAGS = $(trace_test_cflags)
tests_gauge_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/gauge-t
THREADED_TESTS += tests/gauge-t

check_PROGRAMS += tests/database-t
tests_database_t_SOURCES = tests/database-t.c
tests_database_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_database_t_CFLAGS = $(trace_test_cflags)
tests_database_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/database-t

check_PROGRAMS += tests/clock-t
tests_clock_t_SOURCES = tests/clock-t.c
tests_clock_t_CPPFLAGS = $(trace_test_cppflags) -DTIDEI_TEST_POINTS
tests_clock_t_CFLAGS = $(trace_test_cflags)
tests_clock_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS) -lm
TESTS += tests/clock-t

# Kills with SIGKILL; `make torture` does it a thousand times.
check_PROGRAMS += tests/torture-t
tests_torture_t_SOURCES = tests/torture-t.c
tests_torture_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
tests_torture_t_LDADD = libtidemark.la $(SQLITE_LIBS)

check_PROGRAMS += tests/cupti-t
tests_cupti_t_SOURCES = tests/cupti-t.c
tests_cupti_t_CPPFLAGS = $(AM_CPPFLAGS)
tests_cupti_t_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
tests_cupti_t_LDADD = libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/cupti-t

check_PROGRAMS += tests/callslot-t
tests_callslot_t_SOURCES = tests/callslot-t.c
tests_callslot_t_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_TEST_POINTS
tests_callslot_t_LDADD = libtidemark-test.la
TESTS += tests/callslot-t

# Disks that fill up, a hundred times each. Not in make check: how much is recorded, and so the time, depends on the
# machine; tests/bus-t and tests/bus-page-t have the same faults without file systems.
dist_check_SCRIPTS += tests/disks-t.sh
.PHONY: disk-torture
disk-torture: tests/pairs
	DISK_ROUNDS=$${DISK_ROUNDS:-100} top_srcdir=$(abs_top_srcdir) top_builddir=$(abs_top_builddir) \
		$(SHELL) $(srcdir)/tests/disks-t.sh

.PHONY: torture
torture: tests/torture-t
	TORTURE_KILLS=$${TORTURE_KILLS:-1000} tests/torture-t


# A million allocations; `make soak` has 50 million.
check_PROGRAMS += tests/soak-t
tests_soak_t_SOURCES = tests/soak-t.c
tests_soak_t_CFLAGS = $(trace_test_cflags)
tests_soak_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/soak-t
THREADED_TESTS += tests/soak-t

.PHONY: soak
soak: tests/soak-t
	SOAK_EVENTS=$${SOAK_EVENTS:-100000000} tests/soak-t

# The bridge, and what it needs of others.
check_PROGRAMS += tests/bridge-t tests/ambient-t tests/log-end-t
tests_bridge_t_SOURCES = tests/bridge-t.c
tests_bridge_t_CFLAGS = $(trace_test_cflags)
tests_bridge_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
tests_ambient_t_SOURCES = tests/ambient-t.c
tests_ambient_t_CFLAGS = $(trace_test_cflags)
tests_ambient_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
tests_log_end_t_SOURCES = tests/log-end-t.c
tests_log_end_t_CFLAGS = $(trace_test_cflags)
tests_log_end_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS)
TESTS += tests/bridge-t tests/ambient-t tests/log-end-t
THREADED_TESTS += tests/bridge-t tests/ambient-t tests/log-end-t

check_PROGRAMS += tests/entries-t
tests_entries_t_SOURCES = tests/entries-t.c
tests_entries_t_LDADD = libtidemark-test.la
TESTS += tests/entries-t

check_PROGRAMS += tests/log-again-t
tests_log_again_t_SOURCES = tests/log-again-t.c
tests_log_again_t_CPPFLAGS = $(trace_test_cppflags)
tests_log_again_t_CFLAGS = $(trace_test_cflags)
tests_log_again_t_LDADD = $(test_helpers) libtidemark-test.la $(SQLITE_LIBS)
TESTS += tests/log-again-t

# NVTX: what pools tell a tool, and ranges that become tags. The modules have a runpath that is not there, as the fake
# driver has.
check_PROGRAMS += tests/tag-sources-t
tests_tag_sources_t_SOURCES = tests/tag-sources-t.c
tests_tag_sources_t_LDADD = $(test_helpers) libtidemark-test.la
TESTS += tests/tag-sources-t

check_PROGRAMS += tests/nvtx-names-t
tests_nvtx_names_t_SOURCES = tests/nvtx-names-t.c src/nvtx/names.c
TESTS += tests/nvtx-names-t

EXTRA_DIST += tests/nvtx-tool.h tests/nvtx-user.h
if NVTX
nvtx_module = -module -avoid-version -no-undefined -rpath /nonexistent -pthread
check_LTLIBRARIES += tests/nvtx-tool.la tests/nvtx-user-a.la tests/nvtx-user-b.la
tests_nvtx_tool_la_SOURCES = tests/nvtx-tool.c
tests_nvtx_tool_la_LDFLAGS = $(nvtx_module)
tests_nvtx_user_a_la_SOURCES = tests/nvtx-user.c
tests_nvtx_user_a_la_LDFLAGS = $(nvtx_module)
tests_nvtx_user_a_la_LIBADD = -ldl
tests_nvtx_user_b_la_SOURCES = tests/nvtx-user.c
tests_nvtx_user_b_la_LDFLAGS = $(nvtx_module)
tests_nvtx_user_b_la_LIBADD = -ldl

check_PROGRAMS += tests/nvtx-blocks-t
tests_nvtx_blocks_t_SOURCES = tests/nvtx-blocks-t.c
tests_nvtx_blocks_t_CPPFLAGS = $(AM_CPPFLAGS) -DNVTX_TOOL='"$(abs_top_builddir)/tests/.libs/nvtx-tool.so"'
tests_nvtx_blocks_t_LDADD = $(test_helpers) libtidemark.la -ldl
EXTRA_tests_nvtx_blocks_t_DEPENDENCIES = tests/nvtx-tool.la
TESTS += tests/nvtx-blocks-t
THREADED_TESTS += tests/nvtx-blocks-t

# Without libtool's wrapper script, since the test runs it in an environment of its own.
nvtx_users = -DNVTX_USER_A='"$(abs_top_builddir)/tests/.libs/nvtx-user-a.so"' \
	-DNVTX_USER_B='"$(abs_top_builddir)/tests/.libs/nvtx-user-b.so"'
check_PROGRAMS += tests/nvtx-program
tests_nvtx_program_SOURCES = tests/nvtx-program.c
tests_nvtx_program_CPPFLAGS = $(AM_CPPFLAGS) $(nvtx_users)
tests_nvtx_program_LDFLAGS = -no-install
tests_nvtx_program_LDADD = -ldl

check_PROGRAMS += tests/nvtx-ranges-t
tests_nvtx_ranges_t_SOURCES = tests/nvtx-ranges-t.c
tests_nvtx_ranges_t_CPPFLAGS = $(AM_CPPFLAGS) $(nvtx_users) \
	-DNVTX_INJECTION='"$(abs_top_builddir)/.libs/libtidemark-nvtx.so"' \
	-DNVTX_PROGRAM='"$(abs_top_builddir)/tests/nvtx-program"' \
	-DTIDEMARK_LIBRARY='"$(abs_top_builddir)/.libs/libtidemark.so.0"'
tests_nvtx_ranges_t_CFLAGS = $(trace_test_cflags)
tests_nvtx_ranges_t_LDADD = $(test_helpers) libtidemark.la $(SQLITE_LIBS) -ldl
EXTRA_tests_nvtx_ranges_t_DEPENDENCIES = libtidemark-nvtx.la tests/nvtx-user-a.la tests/nvtx-user-b.la \
	tests/nvtx-program
TESTS += tests/nvtx-ranges-t
THREADED_TESTS += tests/nvtx-ranges-t
endif
include tests/run/local.mk
