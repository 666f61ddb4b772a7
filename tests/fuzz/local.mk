# What reads files of others, under a fuzzer: `make fuzz`. The inputs that are kept run in `make check`.
if COMMAND
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/fuzz.h tests/fuzz/libfuzzer.c

check_PROGRAMS += tests/fuzz/corpus-t
tests_fuzz_corpus_t_SOURCES = tests/fuzz/corpus-t.c tests/fuzz/rows.c tests/fuzz/targets.c \
	src/context/elf.c src/context/modules.c
tests_fuzz_corpus_t_CPPFLAGS = $(tidemark_CPPFLAGS) -Dmain=tidemark_main
tests_fuzz_corpus_t_CFLAGS = $(tidemark_CFLAGS)
tests_fuzz_corpus_t_LDADD = $(answers_ldadd)

# clang compiles everything once more here, with its fuzzer and sanitizers, whatever compiler the build has.
# FUZZ_SECONDS and FUZZ_TARGETS say how long and what; new inputs go to tests/fuzz/found, what fails to tests/fuzz.
FUZZ_SECONDS = 60
FUZZ_TARGETS = trace rmm nsys pytorch elf job
fuzz_cflags = -std=gnu11 -g -O1 -pthread -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined
fuzz_compile = $(FUZZ_CC) $(DEFS) $(DEFAULT_INCLUDES) $(tidemark_CPPFLAGS) -Dmain=tidemark_main \
	$(SQLITE_CFLAGS) $(COMMAND_CFLAGS) $(fuzz_cflags)
fuzz_sources = $(sort $(filter %.c,$(libtidemark_la_SOURCES) $(libviewer_la_SOURCES) $(tidemark_SOURCES))) \
	tests/fuzz/libfuzzer.c tests/fuzz/rows.c tests/fuzz/targets.c
fuzz_objects = $(fuzz_sources:%.c=tests/fuzz/build/%.o)

tests/fuzz/build/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(fuzz_compile) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

tests/fuzz/build/fuzz: $(fuzz_objects)
	$(AM_V_CCLD)$(FUZZ_CC) $(fuzz_cflags) -fsanitize=fuzzer -o $@ $(fuzz_objects) $(SQLITE_LIBS) $(COMMAND_LIBS) -ldl

fuzz:
	@echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n); \
		int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d != 0 && n > 99; }' | \
		$(FUZZ_CC) -x c -fsanitize=fuzzer,address,undefined -o conftest-fuzz - 2>/dev/null || { \
		echo '$@: needs clang with libFuzzer (compiler-rt), which FUZZ_CC="$(FUZZ_CC)" is not'; exit 1; }
	@rm -f conftest-fuzz
	@$(MAKE) $(AM_MAKEFLAGS) tests/fuzz/build/fuzz
	@for target in $(FUZZ_TARGETS); do \
		echo "$@: $$target for $(FUZZ_SECONDS) s"; \
		$(MKDIR_P) tests/fuzz/found/$$target; \
		FUZZ_TARGET=$$target ASAN_OPTIONS=quarantine_size_mb=16 tests/fuzz/build/fuzz \
			-max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=3072 -close_fd_mask=3 \
			-print_final_stats=1 -artifact_prefix=tests/fuzz/$$target- \
			tests/fuzz/found/$$target $(srcdir)/tests/fuzz/corpus/$$target 2>&1 | \
			grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse)|NEW_FUNC|# Uses:'; \
		for input in tests/fuzz/$$target-*-*; do \
			test ! -e $$input || { echo "$@: $$input fails"; exit 1; }; \
		done; \
	done

-include $(fuzz_objects:.o=.d)

clean-local: clean-fuzz
clean-fuzz:
	rm -rf tests/fuzz/build tests/fuzz/found
endif

.PHONY: fuzz clean-fuzz
