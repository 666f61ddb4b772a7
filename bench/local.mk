# Benchmarks: built on demand, run by `make bench`; figures in bench/README.md.
EXTRA_PROGRAMS += bench/front bench/gpu bench/layers bench/writer
bench_common = bench/bench.c bench/bench.h

bench_front_SOURCES = bench/front.c bench/nothing.c bench/nothing.h $(bench_common) src/trace/clock.c
bench_front_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
bench_front_CFLAGS = $(AM_CFLAGS) -pthread
bench_front_LDADD = libtidemark.la

bench_gpu_SOURCES = bench/gpu.c bench/gpu.h bench/gpu-child.c bench/gpu-memory2.c $(bench_common) $(gpu_test) \
	src/cupti-table.c
bench_gpu_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
bench_gpu_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
bench_gpu_LDADD = libtidemark.la $(SQLITE_LIBS) -ldl

bench_layers_SOURCES = bench/layers.c bench/nothing.c bench/nothing.h $(bench_common)
bench_layers_CFLAGS = $(AM_CFLAGS) -pthread
bench_layers_LDADD = libtidemark.la

bench_writer_SOURCES = bench/writer.c $(bench_common) src/trace/schema.c
bench_writer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
bench_writer_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread
bench_writer_LDADD = libtidemark.la $(SQLITE_LIBS)

EXTRA_DIST += bench/README.md

CLEANFILES += bench/front$(EXEEXT) bench/gpu$(EXEEXT) bench/layers$(EXEEXT) bench/writer$(EXEEXT) bench-front.json \
	bench-gpu.json bench-layers.json bench-writer.json

.PHONY: bench bench-gpu
bench: bench/front$(EXEEXT) bench/layers$(EXEEXT) bench/writer$(EXEEXT)
	bench/front$(EXEEXT) bench-front.json
	@echo
	bench/layers$(EXEEXT) bench-layers.json
	@echo
	bench/writer$(EXEEXT) bench-writer.json

bench-gpu: bench/gpu$(EXEEXT)
	bench/gpu$(EXEEXT) bench-gpu.json
