# A test in C: check_PROGRAMS, its _SOURCES and _LDADD, TESTS. A script: dist_check_SCRIPTS and TESTS, under `if
# COMMAND` where it runs the command. One that starts threads also goes into THREADED_TESTS, one that a GPU makes
# more of into GPU_TESTS.
EXTRA_DIST += \
	tests/data/gpt_train.csv.gz \
	tests/data/maskrcnn_infer.csv.gz \
	tests/data/multistream_sort.csv.gz \
	tests/symbols.txt \
	tests/tap.h \
	tests/tap.sh

dist_check_SCRIPTS += tests/symbols-t.sh
