# Benchmarks: built on demand, run by `make bench`; figures in bench/README.md.
EXTRA_PROGRAMS += bench/callstacks bench/day bench/front bench/gpu bench/layers bench/pool bench/python bench/replay \
	bench/shapes bench/viewer bench/writer
bench_common = bench/bench.c bench/bench.h

# The whole library, as taking a call stack alone is nothing that it exports.
bench_callstacks_SOURCES = bench/callstacks.c bench/nothing.c bench/nothing.h $(bench_common)
bench_callstacks_CPPFLAGS = $(AM_CPPFLAGS)
bench_callstacks_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer -pthread
bench_callstacks_LDADD = libtidemark-test.la

EXTRA_PROGRAMS += bench/builds
CLEANFILES += bench/builds$(EXEEXT)
bench_builds_SOURCES = bench/builds.c $(bench_common)
bench_builds_CPPFLAGS = $(AM_CPPFLAGS)
bench_builds_CFLAGS = $(AM_CFLAGS) -pthread
bench_builds_LDADD = libtidemark.la -ldl

bench_day_SOURCES = bench/day.c tests/server-day.c tests/server-day.h $(bench_common)
bench_day_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_DATA='"$(abs_top_srcdir)/tests/data"'
bench_day_CFLAGS = $(AM_CFLAGS) -pthread
bench_day_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)

bench_front_SOURCES = bench/front.c bench/nothing.c bench/nothing.h $(bench_common) src/trace/ring/clock.c
bench_front_CPPFLAGS = $(AM_CPPFLAGS)
bench_front_CFLAGS = $(AM_CFLAGS) -pthread
bench_front_LDADD = libtidemark.la

bench_gpu_SOURCES = bench/gpu.c bench/gpu.h bench/gpu-child.c bench/gpu-cupti.c $(bench_common) \
	src/cuda/cupti-table.c
bench_gpu_CPPFLAGS = $(AM_CPPFLAGS)
bench_gpu_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
bench_gpu_LDADD = $(gpu_helpers) libtidemark.la $(SQLITE_LIBS) -ldl

bench_layers_SOURCES = bench/layers.c bench/layers.h bench/layers-make.c bench/nothing.c bench/nothing.h $(bench_common)
bench_layers_CFLAGS = $(AM_CFLAGS) -pthread
bench_layers_LDADD = libtidemark.la

bench_viewer_SOURCES = bench/viewer.c $(bench_common)
bench_viewer_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_TRACE_PAGE='"$(abs_top_srcdir)/doc/trace.md"'
bench_viewer_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
bench_viewer_LDADD = libtidemark.la $(SQLITE_LIBS)

bench_pool_SOURCES = bench/pool.c $(bench_common)
bench_pool_CFLAGS = $(AM_CFLAGS) -pthread
bench_pool_LDADD = libtidemark.la

EXTRA_PROGRAMS += bench/process
CLEANFILES += bench/process$(EXEEXT)
bench_process_SOURCES = bench/process.c $(bench_common)
bench_process_CPPFLAGS = $(AM_CPPFLAGS)
bench_process_CFLAGS = $(AM_CFLAGS) -pthread
bench_process_LDADD = libtidemark.la -ldl

if COMMAND
check_PROGRAMS += bench/plan # tests/bench-plan-t.sh runs it, too
endif
bench_plan_SOURCES = bench/plan.c bench/plan-flow.c bench/plan-flow.h bench/plan-beam.c bench/plan-beam.h \
	bench/plan-place.c bench/plan-place.h bench/replayed.c bench/replayed.h $(bench_common)
bench_plan_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_DATA='"$(abs_top_srcdir)/tests/data"'
bench_plan_CFLAGS = $(AM_CFLAGS) -pthread
bench_plan_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)

bench_python_SOURCES = bench/python.c $(bench_common)
bench_python_CFLAGS = $(AM_CFLAGS) -pthread
bench_python_LDADD = libtidemark.la -ldl

bench_replay_SOURCES = bench/replay.c $(bench_common)
bench_replay_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_DATA='"$(abs_top_srcdir)/tests/data"'
bench_replay_CFLAGS = $(AM_CFLAGS) -pthread
bench_replay_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)

bench_shapes_SOURCES = bench/shapes.c bench/replayed.c bench/replayed.h $(bench_common)
bench_shapes_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_DATA='"$(abs_top_srcdir)/tests/data"'
bench_shapes_CFLAGS = $(AM_CFLAGS) -pthread
bench_shapes_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)

bench_writer_SOURCES = bench/writer.c $(bench_common) src/trace/database/schema.c
bench_writer_CPPFLAGS = $(AM_CPPFLAGS)
bench_writer_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
bench_writer_LDADD = libtidemark.la $(SQLITE_LIBS)

# What PyTorch loads as its allocator; tests/bench-torch-t.sh loads it, too. -rpath makes libtool build a shared
# library, which nobody installs.
check_LTLIBRARIES += bench/torch/shim.la
bench_torch_shim_la_SOURCES = bench/torch/shim.c
bench_torch_shim_la_CFLAGS = $(AM_CFLAGS) -fexceptions
bench_torch_shim_la_LDFLAGS = -module -avoid-version -rpath $(abs_top_builddir)/bench/torch
bench_torch_shim_la_LIBADD = libtidemark.la -ldl

EXTRA_DIST += bench/README.md bench/page.py bench/ranks.py bench/recommend.py bench/torch/child.py bench/torch/measure.py \
	bench/torch/nets.py bench/torch/workloads.py

CLEANFILES += bench/callstacks$(EXEEXT) bench/day$(EXEEXT) bench/front$(EXEEXT) bench/gpu$(EXEEXT) bench/layers$(EXEEXT) \
	bench/pool$(EXEEXT) bench/python$(EXEEXT) bench/replay$(EXEEXT) bench/shapes$(EXEEXT) bench/viewer$(EXEEXT) \
	bench/writer$(EXEEXT) bench-callstacks.json bench-front.json bench-gpu.json bench-layers.json bench-pool.json \
	bench-builds.json bench-python.json bench-replay.json bench-torch.json bench-viewer.json bench-writer.json \
	bench-viewer-a.db bench-viewer-b.db bench-viewer-i.db bench-viewer.csv

# PYTHON names another interpreter than python3, TORCH_ARGS the options of measure.py.
bench_torch_run = "$${PYTHON:-python3}" -B $(srcdir)/bench/torch/measure.py --library=.libs/libtidemark.so \
	--shim=bench/torch/.libs/shim.so --tidemark=./tidemark$(EXEEXT)

.PHONY: bench bench-builds bench-gpu bench-page bench-plan bench-python bench-ranks bench-recommend bench-replay \
	bench-torch bench-viewer bench-walls
bench: bench/callstacks$(EXEEXT) bench/front$(EXEEXT) bench/layers$(EXEEXT) bench/pool$(EXEEXT) bench/writer$(EXEEXT) bench-replay bench-viewer
	bench/front$(EXEEXT) bench-front.json
	@echo
	bench/layers$(EXEEXT) bench-layers.json
	@echo
	bench/pool$(EXEEXT) bench-pool.json
	@echo
	bench/callstacks$(EXEEXT) bench-callstacks.json
	@echo
	bench/writer$(EXEEXT) bench-writer.json

if COMMAND
bench-replay: bench/replay$(EXEEXT) bench/shapes$(EXEEXT) bench/day$(EXEEXT)
	bench/replay$(EXEEXT) bench-replay.json
	@echo
	bench/shapes$(EXEEXT)
	@echo
	bench/day$(EXEEXT)

# What an offline plan would need beside what pools hold: PLAN_ARGS="--seconds=60 a.db b.csv.gz" for other inputs
bench-plan: bench/plan$(EXEEXT)
	bench/plan$(EXEEXT) $(PLAN_ARGS)

bench-viewer: bench/viewer$(EXEEXT) tidemark$(EXEEXT)
	bench/viewer$(EXEEXT) ./tidemark$(EXEEXT) bench-viewer.json

# What this build and another one cost the calling thread, in turns: BEFORE=/path/to/libtidemark.so
bench-builds: bench/builds$(EXEEXT)
	bench/builds$(EXEEXT) "$(BEFORE)" .libs/libtidemark.so bench-builds.json

# Pages of tidemark report in headless Chromium, of recorded traffic: BENCH_PAGES="a.db b.csv.gz" for other inputs
BENCH_PAGES = $(srcdir)/tests/data/*.csv.gz
bench-page: tidemark$(EXEEXT)
	"$${PYTHON:-python3}" -B $(srcdir)/bench/page.py ./tidemark$(EXEEXT) $(BENCH_PAGES)

# What merge and ranks take, in RANKS ranks of ALLOCATIONS each; it needs 50 bytes of disk for each allocation.
RANKS = 64
ALLOCATIONS = 100000
bench-ranks: tests/make-trace$(EXEEXT) tidemark$(EXEEXT)
	"$${PYTHON:-python3}" -B $(srcdir)/bench/ranks.py ./tidemark$(EXEEXT) tests/make-trace$(EXEEXT) $(RANKS) $(ALLOCATIONS) .

# What a device does beside what tidemark recommend predicts: RECOMMEND_ARGS=--each=5, RECOMMEND_INPUTS="a.db b.csv.gz"
RECOMMEND_INPUTS = $(srcdir)/tests/data/*.csv.gz torch_gpt2_tags.db
CLEANFILES += torch_gpt2_tags.db
torch_gpt2_tags.db: $(srcdir)/tests/data/torch_gpt2_tags.db.gz
	gunzip -c $(srcdir)/tests/data/torch_gpt2_tags.db.gz >$@

bench-recommend: tidemark$(EXEEXT) torch_gpt2_tags.db
	"$${PYTHON:-python3}" -B $(srcdir)/bench/recommend.py $(RECOMMEND_ARGS) ./tidemark$(EXEEXT) $(RECOMMEND_INPUTS)

# What all commands take, beside another build of the command: make bench-walls BEFORE=/path/to/tidemark
bench-walls: bench/viewer$(EXEEXT) tidemark$(EXEEXT)
	@test -n '$(BEFORE)' || { echo 'bench-walls: BEFORE=/path/to/tidemark names the build to compare with'; exit 1; }
	for count in 666000 5000000; do \
		echo; echo "$$count allocations"; echo; bench/viewer$(EXEEXT) --walls '$(BEFORE)' ./tidemark$(EXEEXT) $$count || exit; \
	done
else
bench-page bench-plan bench-ranks bench-recommend bench-replay bench-viewer bench-walls:
	@echo '$@ needs the command: configure without --disable-command'
endif

# Call stacks of Python: make bench-python LIBPYTHON=/path/to/libpython3.12.so.1.0
bench-python: bench/python$(EXEEXT)
	@test -n '$(LIBPYTHON)' || { echo 'bench-python: LIBPYTHON=/path/to/libpython3.12.so names what to measure with'; exit 1; }
	bench/python$(EXEEXT) '$(LIBPYTHON)' bench-python.json

# BENCH_GPU=--only=vmm for the rows of one process.
bench-gpu: bench/gpu$(EXEEXT)
	bench/gpu$(EXEEXT) $(BENCH_GPU) bench-gpu.json

# What PyTorch's own allocator and stacks take of the device, and of time: TORCH_ARGS='--turns=5 --stack="pool | cuda"'
bench-torch: bench/torch/shim.la
	@command -v "$${PYTHON:-python3}" >/dev/null || { echo 'bench-torch: skipped: there is no python3'; exit 0; }; \
	$(bench_torch_run) $(TORCH_ARGS)
